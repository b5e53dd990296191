//! The file of a tagger: its name and version, then a postcard record compressed with zstd.

use std::io::Read;
use std::path::Path;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::Tagger;
use crate::fs::{IoError, atomic};
use crate::tool_error::ToolError;

const MAGIC: &[u8] = b"spoor tagger 1\n";
/// The maximum size of a model in bytes.
const MOST: u64 = 1 << 30;
/// Weights are stored as whole multiples of this fraction.
pub(super) const PART: f64 = 256.0;

/// A model as stored in the file.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TaggerModel {
    pub(super) tags: Vec<String>,
    pub(super) fixed: Vec<(String, u8)>,
    /// Features with their weights, in order.
    pub(super) features: Vec<(String, Vec<(u8, i32)>)>,
}

impl TaggerModel {
    /// Writes a model to a file atomically; returns its size.
    pub(super) fn write(&self, path: &Path) -> Result<u64, ToolError> {
        let failed = |error| IoError::at(path, "writing")(error);
        let record = postcard::to_stdvec(self).map_err(|e| failed(std::io::Error::other(e)))?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(zstd::encode_all(record.as_slice(), 19).map_err(failed)?);
        let written = atomic::write(path, |file| std::io::Write::write_all(file, &bytes));
        written.map_err(IoError::at(path, "writing"))?;
        Ok(bytes.len() as u64)
    }

    pub(super) fn tagger(self) -> Option<Tagger> {
        let tags = self.tags.len();
        let mut names = self.features.iter().map(|(name, _)| name);
        let has_long_endings = names.any(|name| name.starts_with("suf4 "));
        let is_tag = |tag: &u8| usize::from(*tag) < tags;
        let mut weights = Vec::new();
        let mut features = FxHashMap::default();
        for (name, of) in self.features {
            let from = u32::try_from(weights.len()).ok()?;
            weights.extend(of);
            let to = u32::try_from(weights.len()).ok()?;
            features.insert(xxh3_64(name.as_bytes()), (from, to));
        }
        let is_right = tags > 0
            && weights.iter().all(|(tag, _)| is_tag(tag))
            && self.fixed.iter().all(|(_, tag)| is_tag(tag));
        is_right.then(|| Tagger {
            tags: self.tags,
            fixed: self.fixed.into_iter().collect(),
            features,
            weights,
            has_long_endings,
            is_german: false,
        })
    }
}

impl Tagger {
    /// The tagger in the bytes of a file.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn of_bytes(bytes: &[u8], path: &Path) -> Result<Self, ToolError> {
        let read = || {
            let packed = bytes.strip_prefix(MAGIC)?;
            let mut record = Vec::new();
            let decoder = zstd::Decoder::with_buffer(packed).ok()?;
            decoder.take(MOST).read_to_end(&mut record).ok()?;
            postcard::from_bytes::<TaggerModel>(&record).ok()?.tagger()
        };
        read().ok_or_else(|| {
            let why = "is no tagger of this version of spoor; train one with `spoor tagger train`";
            ToolError::at(path, why)
        })
    }
}
