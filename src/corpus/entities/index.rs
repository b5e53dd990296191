//! The index file: a transducer from aliases to entities, the entities, and their classes.
//!
//! ```text
//! "spoor entities 1\n", hash of the rest, then four parts, each with its length before it:
//! transducer | end of each entity | entities | classes
//! ```
//!
//! All numbers have 8 bytes, little-endian. An entity is a postcard record.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tantivy_fst::raw::{CompiledAddr, Fst, Output};
use xxhash_rust::xxh3::xxh3_64;

use super::Gender;
use crate::fs::IoError;
use crate::tool_error::ToolError;

/// The first bytes of a file, with its version.
pub(super) const MAGIC: &[u8] = b"spoor entities ";
pub(super) const VERSION: &[u8] = b"1\n";

/// An entity as stored in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EntityRecord {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) popularity: u64,
    pub(super) gender: Gender,
    /// By number.
    pub(super) classes: Vec<u32>,
}

/// A compiled list of entities.
pub struct Index {
    aliases: Fst<Vec<u8>>,
    ends: Vec<u64>,
    records: Vec<u8>,
    classes: Vec<String>,
    print: u64,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index")
            .field("entities", &self.ends.len())
            .finish_non_exhaustive()
    }
}

/// The parts of a file.
pub(super) struct IndexParts {
    pub(super) aliases: Vec<u8>,
    pub(super) ends: Vec<u64>,
    pub(super) records: Vec<u8>,
    pub(super) classes: Vec<String>,
}

impl IndexParts {
    /// The bytes of the file.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut rest = Vec::with_capacity(self.aliases.len() + self.records.len());
        let ends: Vec<u8> = self.ends.iter().flat_map(|n| n.to_le_bytes()).collect();
        let classes = self.classes.join("\n").into_bytes();
        for part in [&self.aliases, &ends, &self.records, &classes] {
            rest.extend((part.len() as u64).to_le_bytes());
            rest.extend_from_slice(part);
        }
        let mut all = [MAGIC, VERSION].concat();
        all.extend(xxh3_64(&rest).to_le_bytes());
        all.extend(rest);
        all
    }
}

/// The first `length` bytes, and the rest.
fn take(bytes: &[u8], length: usize) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(length)
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*number), rest))
}

impl Index {
    /// Whether a file begins like an index.
    pub fn is_one(path: &Path) -> bool {
        let mut begin = vec![0; MAGIC.len()];
        let file = crate::fs::open(path);
        file.is_ok_and(|mut file| std::io::Read::read_exact(&mut file, &mut begin).is_ok())
            && begin == MAGIC
    }

    /// Reads an index.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn load(path: &Path) -> Result<Self, ToolError> {
        let bytes = crate::fs::read(path).map_err(IoError::at(path, "reading"))?;
        Self::of_bytes(&bytes, path)
    }

    /// Reads an index, or makes one from a list. Lines of the list that are not entities are
    /// reported in `lists`.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn of_file(path: &Path, lists: &mut super::Lists) -> Result<Self, ToolError> {
        if Self::is_one(path) {
            return Self::load(path);
        }
        let mut builder = super::Builder::new(false);
        super::read(path, &[], &mut builder, lists)?;
        builder.index()
    }

    /// The index in the bytes of a file.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn of_bytes(bytes: &[u8], path: &Path) -> Result<Self, ToolError> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            let why = "is no index of entities; make one of a list with `spoor entities build`";
            return Err(ToolError::at(path, why));
        };
        let Some(rest) = rest.strip_prefix(VERSION) else {
            let why = "was made by another version of spoor; make it again with `spoor entities \
                       build`";
            return Err(ToolError::at(path, why));
        };
        let damaged = || {
            let why = "is damaged; make it again with `spoor entities build`";
            ToolError::at(path, why)
        };
        let (print, rest) = number(rest).ok_or_else(damaged)?;
        // A damaged transducer could lead anywhere, so the hash is checked before anything is read.
        if xxh3_64(rest) != print {
            return Err(damaged());
        }
        Self::of_parts(rest, print).ok_or_else(damaged)
    }

    fn of_parts(bytes: &[u8], print: u64) -> Option<Self> {
        let mut rest = bytes;
        let mut part = || {
            let (length, after) = number(rest)?;
            let (part, after) = take(after, usize::try_from(length).ok()?)?;
            rest = after;
            Some(part)
        };
        let (aliases, ends, records, classes) = (part()?, part()?, part()?, part()?);
        let ends = ends.as_chunks::<8>().0.iter().copied();
        let classes = std::str::from_utf8(classes).ok()?;
        Some(Self {
            aliases: Fst::new(aliases.to_vec()).ok()?,
            ends: ends.map(u64::from_le_bytes).collect(),
            records: records.to_vec(),
            classes: classes.split('\n').map(str::to_owned).collect(),
            print,
        })
    }

    /// A hash that identifies this index.
    pub fn print(&self) -> u64 {
        self.print
    }

    /// How many entities it has.
    pub fn entities(&self) -> usize {
        self.ends.len()
    }

    /// How many aliases they have.
    pub fn aliases(&self) -> usize {
        self.aliases.len()
    }

    /// The entity with a number, without its aliases.
    pub fn entity(&self, number: u64) -> Option<super::Entity> {
        let record = self.record(number)?;
        Some(super::Entity {
            classes: self.classes_of(&record),
            id: record.id,
            name: record.name,
            popularity: record.popularity,
            gender: record.gender,
            aliases: Vec::new(),
        })
    }

    /// The names of the classes of an entity.
    pub(super) fn classes_of(&self, record: &EntityRecord) -> Vec<String> {
        let class = |number: &u32| self.classes.get(*number as usize).cloned();
        record.classes.iter().filter_map(class).collect()
    }

    pub(super) fn record(&self, number: u64) -> Option<EntityRecord> {
        let number = usize::try_from(number).ok()?;
        let end = usize::try_from(*self.ends.get(number)?).ok()?;
        let begin = match number.checked_sub(1) {
            None => 0,
            Some(before) => usize::try_from(*self.ends.get(before)?).ok()?,
        };
        postcard::from_bytes(self.records.get(begin..end)?).ok()
    }

    /// The entity that an alias means.
    pub fn of_alias(&self, alias: &str) -> Option<super::Entity> {
        let number = self.aliases.get(super::written::alias(alias))?;
        self.entity(number.value())
    }

    pub(super) fn walk(&self) -> TransducerWalk<'_> {
        TransducerWalk {
            aliases: &self.aliases,
            at: self.aliases.root().addr(),
            sum: Output::zero(),
        }
    }
}

/// A path into the transducer, letter by letter.
#[derive(Clone, Copy)]
pub(super) struct TransducerWalk<'i> {
    aliases: &'i Fst<Vec<u8>>,
    at: CompiledAddr,
    sum: Output,
}

impl TransducerWalk<'_> {
    /// Follows a character; `None` if no alias continues with it.
    pub(super) fn on(mut self, c: char) -> Option<Self> {
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            let node = self.aliases.node(self.at);
            let transition = node.transition(node.find_input(byte)?);
            self.sum = self.sum.cat(transition.out);
            self.at = transition.addr;
        }
        Some(self)
    }

    /// The number of the entity if an alias ends here.
    pub(super) fn ends(&self) -> Option<u64> {
        let node = self.aliases.node(self.at);
        let is_end = node.is_final();
        is_end.then(|| self.sum.cat(node.final_output()).value())
    }
}
