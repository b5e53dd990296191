//! Hashes of the position of an element in the structure of a page, equal for elements in
//! the same kind of position.
//!
//! Links in the same kind of position lead to similar pages: a page's menu leads to its
//! sections, its list of related articles to related articles. So the path of tags and
//! classes to a link predicts what it leads to (Chakrabarti, Punera & Subramanyam 2002).

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::attributes::ElementAttributes;
use crate::words::packed;

/// Elements deeper than this share the path of the one at this depth.
const MAX_DEPTH: usize = 256;
/// The number of elements at the end of a path that make the near path.
const NEAR: usize = 3;
/// The number of marked elements at the end of a path that make the marked path.
const MARKED: usize = 2;

/// The open elements, outermost first.
#[derive(Debug)]
pub(super) struct Path {
    open: Vec<PathStep>,
    /// Number of open elements beyond [`MAX_DEPTH`].
    beyond: usize,
    /// The hashes of elements without class and id, by name: most are of this kind.
    plain: [(u128, u32); PLAIN],
}

/// Slots for the hashes of plain elements.
const PLAIN: usize = 32;

impl Default for Path {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            beyond: 0,
            plain: [(0, 0); PLAIN],
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct PathStep {
    /// The hash of this element alone.
    own: u32,
    /// The hash of the whole path to it.
    path: u32,
    /// Whether it has a class, or is a section with an id.
    marked: bool,
}

impl Path {
    /// Handles the start of an element.
    pub(super) fn open(&mut self, name: &str, attributes: &impl ElementAttributes) {
        if self.open.len() >= MAX_DEPTH {
            self.beyond += 1;
            return;
        }
        let class = attributes
            .get("class")
            .and_then(|class| class.split_ascii_whitespace().next())
            .unwrap_or_default();
        // An id with a number belongs to one element, not to a kind.
        let id = is_section(name)
            .then(|| attributes.get("id"))
            .flatten()
            .filter(|id| !id.bytes().any(|b| b.is_ascii_digit()))
            .unwrap_or_default();
        let own = if class.is_empty() && id.is_empty() {
            self.plain(name)
        } else {
            own([name, class, id])
        };
        let above = self.open.last().map_or(0, |step| step.path);
        self.open.push(PathStep {
            own,
            path: mix(above, &own.to_le_bytes()),
            marked: !class.is_empty() || !id.is_empty(),
        });
    }

    /// The hash of an element without a class and a name.
    fn plain(&mut self, name: &str) -> u32 {
        let of_name = || own([name, "", ""]);
        // The packed number of a name is never 0.
        let Some(key) = packed(name) else {
            return of_name();
        };
        let place = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59;
        match self.plain.get_mut(place as usize) {
            Some((known, own)) if *known == key => *own,
            Some(kept) => {
                *kept = (key, of_name());
                kept.1
            }
            None => of_name(),
        }
    }

    /// Handles the end of an element.
    pub(super) fn close(&mut self) {
        match self.beyond.checked_sub(1) {
            Some(left) => self.beyond = left,
            None => {
                self.open.pop();
            }
        }
    }

    /// The position of the innermost element: its whole path, the end of it, and its last
    /// elements that have a class or a name.
    pub(super) fn here(&self) -> [u32; 3] {
        let ends = |steps: &mut dyn Iterator<Item = &PathStep>, seed: u32| {
            steps.fold(seed, |sum, step| mix(sum, &step.own.to_le_bytes()))
        };
        let whole = self.open.last().map_or(0, |step| step.path);
        let near = ends(&mut self.open.iter().rev().take(NEAR), 1);
        let mut marked = self.open.iter().rev().filter(|step| step.marked);
        [whole, near, ends(&mut marked.by_ref().take(MARKED), 2)]
    }
}

fn is_section(name: &str) -> bool {
    matches!(
        name,
        "div" | "nav" | "section" | "main" | "aside" | "header" | "footer" | "article"
    )
}

/// The hash of an element's name, class and id.
fn own(parts: [&str; 3]) -> u32 {
    parts.iter().fold(0, |sum, part| mix(sum, part.as_bytes()))
}

/// These numbers are stored, so the hash must never change.
fn mix(sum: u32, part: &[u8]) -> u32 {
    xxh3_64_with_seed(part, u64::from(sum)) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    impl ElementAttributes for HashMap<&str, &str> {
        fn get(&self, name: &str) -> Option<&str> {
            HashMap::get(self, name).copied()
        }

        fn all(&self) -> impl Iterator<Item = (&str, &str)> {
            self.iter().map(|(name, value)| (*name, *value))
        }
    }

    fn place(steps: &[(&str, &str, &str)]) -> [u32; 3] {
        let mut path = Path::default();
        for (name, class, id) in steps {
            let attributes: HashMap<&str, &str> = [("class", *class), ("id", *id)]
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .collect();
            path.open(name, &attributes);
        }
        path.here()
    }

    #[test]
    fn the_same_kind_of_place_has_the_same_path() {
        let menu = [("html", "", ""), ("div", "nav box", ""), ("a", "", "")];
        assert_eq!(place(&menu), place(&menu));
        let other_class = [("html", "", ""), ("div", "text", ""), ("a", "", "")];
        assert!(
            place(&menu)
                .iter()
                .zip(place(&other_class))
                .all(|(a, b)| *a != b)
        );
        // An id with a number belongs to one element.
        let numbered = |id| place(&[("html", "", ""), ("div", "", id), ("a", "", "")]);
        assert_eq!(numbered("note-1"), numbered("note-2"));
        assert_ne!(numbered("notes"), numbered("links"));
        // The ends of two paths may be equal if their beginnings differ.
        let deeper = [
            ("html", "", ""),
            ("body", "", ""),
            ("ul", "", ""),
            ("li", "", ""),
            ("a", "", ""),
        ];
        let deep = place(&deeper);
        let shallow = place(&deeper[1..]);
        assert_ne!(deep[0], shallow[0]);
        assert_eq!(deep[1], shallow[1]);
    }

    #[test]
    fn paths_are_left_as_they_were_entered_however_deep() {
        let mut path = Path::default();
        let none = HashMap::new();
        path.open("html", &none);
        let before = path.here();
        for _ in 0..1_000 {
            path.open("div", &none);
        }
        for _ in 0..1_000 {
            path.close();
        }
        assert_eq!(path.here(), before);
        path.close();
        path.close();
        assert_eq!(path.here(), Path::default().here());
    }
}
