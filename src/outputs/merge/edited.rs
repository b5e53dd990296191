//! Changes of images that another part has kept, made in the order of their times.

use super::super::edits::{EditLine, Edits};
use super::super::{Outputs, image_path, is_there, rows, sidecar};
use super::images::Images;
use super::timed::{Clock, Sorted, millis};
use super::{MergeError, Merged, Part, is_made, table_of};
use crate::progress::Step;

/// Makes the changes in the merged outputs.
pub(super) fn apply(
    parts: &[Part],
    images: &Images<'_>,
    outputs: &mut Outputs,
    merged: &mut Merged,
) -> Result<(), MergeError> {
    let name = table_of(&Edits);
    let mut step = Step::begin("changing images of other machines", None);
    let mut lines = Sorted::of(parts, Clock::Rows, &mut |part| {
        rows::files(&part.folder, name).map_err(|error| part.wrong(error))
    })?;
    while let Some(line) = lines.next()? {
        let EditLine {
            time, file, edit, ..
        } = line.parse()?;
        let time = millis(&time).map_err(|why| line.damaged(why))?;
        let file = images.renamed(line.part, &file).unwrap_or(&file);
        step.advance(1);
        if images.is_newer(file, edit.page(), time)? {
            continue;
        }
        let is_kept = match image_path(file) {
            Some(file) => is_there(outputs.folder(), &sidecar::name_of(file.as_str()))?,
            None => false,
        };
        if is_kept && is_made(outputs.change_image(file, edit)?) {
            merged.edits += 1;
        } else {
            merged.lost_edits += 1;
        }
    }
    Ok(())
}
