//! Values in memory that are replaced by compare-and-set.

use std::collections::BTreeMap;

use super::Revision;

/// Keys with values, each with a revision.
#[derive(Debug)]
pub(super) struct Versioned<K, V> {
    values: BTreeMap<K, (V, Revision)>,
    last: u64,
}

impl<K, V> Default for Versioned<K, V> {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            last: 0,
        }
    }
}

impl<K: Ord, V> Versioned<K, V> {
    /// The value of a key.
    pub(super) fn get(&self, key: &K) -> Option<&(V, Revision)> {
        self.values.get(key)
    }

    /// Replaces the value of a key if its revision is still `was`; `None` if it is not.
    pub(super) fn swap(&mut self, key: K, value: V, was: Option<Revision>) -> Option<Revision> {
        let is = self.values.get(&key).map(|(_, revision)| *revision);
        if is != was {
            return None;
        }
        self.last += 1;
        let revision = Revision(self.last);
        self.values.insert(key, (value, revision));
        Some(revision)
    }

    /// All keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &(V, Revision))> {
        self.values.iter()
    }
}

#[cfg(test)]
impl<K: Ord + Clone, V: Clone> Clone for Versioned<K, V> {
    fn clone(&self) -> Self {
        Self {
            values: self.values.clone(),
            last: self.last,
        }
    }
}
