//! Texts of pages, copied piece by piece in the order in which rows name them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::super::TextPlace;
use super::super::output::{Open, Output};
use super::{MachinePart, table_of};
use crate::fs::beneath;
use crate::tool_error::ToolError;

/// The pieces of one output.
pub(super) struct Texts {
    folder: &'static str,
    out: Open,
    /// The last file that was read of each part.
    open: BTreeMap<usize, (String, File)>,
}

impl Texts {
    pub fn of(output: &'static dyn Output, into: &Path) -> Result<Self, ToolError> {
        Ok(Self {
            folder: table_of(output),
            out: Open::at(output, into, None)?,
            open: BTreeMap::new(),
        })
    }

    /// Copies the piece that a row of a part names, and returns its new place.
    pub fn copy(
        &mut self,
        number: usize,
        part: &MachinePart,
        place: &TextPlace,
    ) -> Result<TextPlace, ToolError> {
        let name = format!("{}/{}", self.folder, place.file);
        if self.open.get(&number).is_none_or(|(open, _)| *open != name) {
            let file = beneath::open(&part.folder, &name).map_err(part.unread(&name, "opening"))?;
            self.open.insert(number, (name.clone(), file));
        }
        let mut piece = Vec::new();
        if let Some((_, file)) = self.open.get_mut(&number) {
            file.seek(SeekFrom::Start(place.from))
                .and_then(|_| file.take(place.bytes).read_to_end(&mut piece))
                .map_err(part.unread(&name, "reading"))?;
        }
        if piece.len() as u64 != place.bytes {
            let TextPlace { from, bytes, .. } = place;
            let why = format!("it ends before the {bytes} bytes at byte {from} that the log names");
            return Err(part.damaged(&name, why));
        }
        Ok(self.out.append(&piece)?)
    }
}
