//! Makes an index of entities.

use std::path::Path;

use rustc_hash::FxHashMap;
use tantivy_fst::MapBuilder;
use xxhash_rust::xxh3::xxh3_64;

use super::index::{EntityRecord, Index, IndexParts};
use super::{Entity, written};
use crate::fs::{IoError, atomic};
use crate::progress::Step;
use crate::tool_error::ToolError;

/// The longest alias in bytes. Longer ones are sentences.
const LONGEST: usize = 200;

/// Counts of what went into an index.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Entities.
    pub entities: u64,
    /// Aliases of exactly one entity, including its name.
    pub aliases: u64,
    /// Aliases of several entities; each leads to the most popular one.
    pub shared: u64,
    /// Aliases that are not names: without a letter, a single letter, or too long.
    pub no_names: u64,
    /// Aliases without an upper-case letter that were left out.
    pub lower_case: u64,
    /// Entities that were left out because their popularity is too low.
    pub unpopular: u64,
    /// Bytes of the index.
    pub bytes: u64,
}

/// Collects entities.
#[derive(Default)]
pub struct Builder {
    names_only: bool,
    /// The least popularity of an entity.
    least: u64,
    /// All aliases, one after the other.
    text: Vec<u8>,
    /// For each alias where it begins, its length and its entity.
    aliases: Vec<(u64, u16, u32)>,
    popularity: Vec<u64>,
    ends: Vec<u64>,
    records: Vec<u8>,
    classes: Vec<String>,
    class_numbers: FxHashMap<String, u32>,
    /// The entities by the hashes of their identifiers.
    known: FxHashMap<u64, u32>,
    counts: Counts,
}

impl Builder {
    /// An empty builder. With `names_only`, aliases without an upper-case letter are left
    /// out, in scripts that have upper case.
    pub fn new(names_only: bool) -> Self {
        Self {
            names_only,
            ..Self::default()
        }
    }

    /// The same, but leaves out entities with a lower popularity.
    pub fn least(self, least: u64) -> Self {
        Self { least, ..self }
    }

    /// Adds an entity; false if there is one with the same identifier.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn add(&mut self, entity: &Entity) -> Result<bool, ToolError> {
        if entity.popularity < self.least {
            self.counts.unpopular += 1;
            return Ok(true);
        }
        let number = u32::try_from(self.ends.len()).map_err(too_many)?;
        if self.known.contains_key(&xxh3_64(entity.id.as_bytes())) {
            return Ok(false);
        }
        self.known.insert(xxh3_64(entity.id.as_bytes()), number);
        let classes: Result<Vec<u32>, ToolError> = entity
            .classes
            .iter()
            .map(|class| self.class(class))
            .collect();
        let record = EntityRecord {
            id: entity.id.clone(),
            name: entity.name.clone(),
            popularity: entity.popularity,
            gender: entity.gender,
            classes: classes?,
        };
        let record = postcard::to_stdvec(&record).map_err(too_many)?;
        self.records.extend(record);
        self.ends.push(self.records.len() as u64);
        self.popularity.push(entity.popularity);
        for alias in std::iter::once(&entity.name).chain(&entity.aliases) {
            self.alias(&written::alias(alias), number);
        }
        self.counts.entities += 1;
        Ok(true)
    }

    fn class(&mut self, class: &str) -> Result<u32, ToolError> {
        if let Some(number) = self.class_numbers.get(class) {
            return Ok(*number);
        }
        let number = u32::try_from(self.classes.len()).map_err(too_many)?;
        self.classes.push(written::alias(class));
        self.class_numbers.insert(class.to_owned(), number);
        Ok(number)
    }

    fn alias(&mut self, alias: &str, entity: u32) {
        let length = u16::try_from(alias.len()).unwrap_or(u16::MAX);
        if usize::from(length) > LONGEST || !written::is_name(alias) {
            self.counts.no_names += 1;
            return;
        }
        let has_case = |c: char| c.is_lowercase();
        let is_lower = alias.chars().any(has_case) && !alias.chars().any(char::is_uppercase);
        if self.names_only && is_lower {
            self.counts.lower_case += 1;
            return;
        }
        self.aliases.push((self.text.len() as u64, length, entity));
        self.text.extend_from_slice(alias.as_bytes());
    }

    /// Replaces classes that are identifiers of entities by the names of these entities.
    fn name_classes(&mut self) {
        let ends = &self.ends;
        for class in &mut self.classes {
            let Some(number) = self.known.get(&xxh3_64(class.as_bytes())) else {
                continue;
            };
            let at = *number as usize;
            let begin = at.checked_sub(1).and_then(|before| ends.get(before));
            let begin = begin.copied().unwrap_or_default() as usize;
            let end = ends.get(at).copied().unwrap_or_default() as usize;
            let record = self.records.get(begin..end);
            let record = record.and_then(|bytes| postcard::from_bytes::<EntityRecord>(bytes).ok());
            if let Some(record) = record.filter(|record| record.id == *class) {
                *class = written::alias(&record.name);
            }
        }
    }

    /// The bytes of the index.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn finish(mut self) -> Result<(Vec<u8>, Counts), ToolError> {
        self.name_classes();
        let Self {
            text,
            mut aliases,
            popularity,
            mut counts,
            ..
        } = self;
        let alias = |(from, length, _): &(u64, u16, u32)| {
            let from = *from as usize;
            text.get(from..from + usize::from(*length))
                .unwrap_or_default()
        };
        let popular = |(.., entity): &(u64, u16, u32)| {
            popularity
                .get(*entity as usize)
                .copied()
                .unwrap_or_default()
        };
        let mut step = Step::begin("aliases sorted", Some(aliases.len() as u64));
        // The most popular first; equally popular ones in the order of the list.
        aliases.sort_unstable_by(|a, b| {
            let by_alias = alias(a).cmp(alias(b));
            by_alias
                .then_with(|| popular(b).cmp(&popular(a)))
                .then_with(|| a.2.cmp(&b.2))
        });
        let mut builder = MapBuilder::memory();
        for group in aliases.chunk_by(|a, b| alias(a) == alias(b)) {
            step.advance(group.len() as u64);
            let Some(first) = group.first() else { continue };
            let added = builder.insert(alias(first), u64::from(first.2));
            added.map_err(too_many)?;
            counts.aliases += 1;
            counts.shared += u64::from(group.iter().any(|other| other.2 != first.2));
        }
        let transducer = builder.into_inner().map_err(too_many)?;
        let parts = IndexParts {
            aliases: transducer,
            ends: self.ends,
            records: self.records,
            classes: self.classes,
        };
        let bytes = parts.bytes();
        counts.bytes = bytes.len() as u64;
        Ok((bytes, counts))
    }

    /// Writes the index to a file atomically.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn write(self, path: &Path) -> Result<Counts, ToolError> {
        let (bytes, counts) = self.finish()?;
        let written = atomic::write(path, |file| std::io::Write::write_all(file, &bytes));
        written.map_err(IoError::at(path, "writing"))?;
        Ok(counts)
    }

    /// The index itself.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn index(self) -> Result<Index, ToolError> {
        let (bytes, _) = self.finish()?;
        Index::of_bytes(&bytes, Path::new("the index"))
    }
}

/// For `map_err`: the list is too large for an index.
fn too_many<E>(_: E) -> ToolError {
    ToolError::new("more than four billion entities or bytes of an entity; leave some out")
}
