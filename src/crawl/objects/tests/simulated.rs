//! An in-memory store that fails as a test requires.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::{Done, Objects, ObjectsError, Version};

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It succeeds.
    Done,
    /// It does nothing and says so.
    Failed,
    /// It is done, but the answer is lost.
    Lost,
}

#[derive(Default)]
pub(crate) struct Simulated {
    pub(crate) objects: Mutex<BTreeMap<String, (Vec<u8>, u64)>>,
    /// The fates of the next writes, the next one last.
    pub(crate) fates: Mutex<Vec<Fate>>,
    writes: Mutex<u64>,
}

impl Simulated {
    fn change<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, (Vec<u8>, u64)>, u64) -> T,
    ) -> Done<T> {
        let fate = self.fates.lock().unwrap().pop().unwrap_or(Fate::Done);
        let failed = || ObjectsError::Failed {
            to: "simulated".to_owned(),
            what: "writing",
            why: format!("{fate:?}"),
        };
        if fate == Fate::Failed {
            return Err(failed());
        }
        let mut writes = self.writes.lock().unwrap();
        *writes += 1;
        let done = change(&mut self.objects.lock().unwrap(), *writes);
        match fate {
            Fate::Lost => Err(failed()),
            _ => Ok(done),
        }
    }
}

impl Objects for Simulated {
    fn get(&self, name: &str, most: u64) -> Done<Option<(Vec<u8>, Version)>> {
        let objects = self.objects.lock().unwrap();
        let found = objects.get(name);
        if found.is_some_and(|(bytes, _)| bytes.len() as u64 > most) {
            let to = name.to_owned();
            return Err(ObjectsError::Long { to, most });
        }
        Ok(found.map(|(bytes, version)| (bytes.clone(), Version(version.to_string()))))
    }

    fn length(&self, name: &str) -> Done<Option<u64>> {
        let objects = self.objects.lock().unwrap();
        Ok(objects.get(name).map(|(bytes, _)| bytes.len() as u64))
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> Done<()> {
        self.change(|objects, number| drop(objects.insert(name.to_owned(), (bytes, number))))
    }

    fn settle(&self) -> Done<()> {
        Ok(())
    }

    fn swap(&self, name: &str, bytes: &[u8], was: Option<&Version>) -> Done<bool> {
        self.change(|objects, number| {
            let is = objects
                .get(name)
                .map(|(_, number)| Version(number.to_string()));
            let same = is.as_ref() == was;
            if same {
                objects.insert(name.to_owned(), (bytes.to_vec(), number));
            }
            same
        })
    }

    fn list(&self, folder: &str) -> Done<Vec<String>> {
        let objects = self.objects.lock().unwrap();
        let below = format!("{folder}/");
        let names = objects.keys().filter(|name| name.starts_with(&below));
        Ok(names.cloned().collect())
    }

    fn delete(&self, name: &str) -> Done<()> {
        self.change(|objects, _| drop(objects.remove(name)))
    }

    fn address(&self) -> &str {
        "simulated"
    }
}
