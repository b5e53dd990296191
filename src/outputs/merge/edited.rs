//! Applies changes of images that another part has kept, in order of time.

use super::super::edits::{EditLine, Edits};
use super::super::{Effect, ImageEdit, Outputs, Sidecar, image_path, is_there, sidecar};
use super::images::Images;
use super::rows_in_order::{in_order, millis};
use super::{MachinePart, Merged};
use crate::fs::beneath;
use crate::progress::Step;
use crate::tool_error::ToolError;

/// Applies the changes to the merged outputs.
pub(super) fn apply(
    parts: &[MachinePart],
    images: &Images,
    outputs: &mut Outputs,
    merged: &mut Merged,
) -> Result<(), ToolError> {
    let mut step = Step::begin("changing images of other machines", None);
    in_order(parts, &Edits, &mut |row| {
        let EditLine {
            time, file, edit, ..
        } = row.parse()?;
        let time = millis(&time).map_err(|why| row.damaged(why))?;
        let own = &file;
        let file = images.renamed(row.number, own).unwrap_or(own);
        step.advance(1);
        if images.is_newer(file, edit.page(), time) {
            return Ok(());
        }
        let is_kept = match image_path(file) {
            Some(file) => is_there(outputs.folder(), &sidecar::name_of(file.as_str()))?,
            None => false,
        };
        // A part has the rows of its own changes. The row of another part's change may be missing
        // if that part has the mark.
        if is_kept && is_marked(outputs, file, &edit)? && has_page(row.part, own, &edit)? {
            return Ok(());
        }
        if is_kept && outputs.change_image(file, edit)? != Effect::Missing {
            merged.edits += 1;
        } else {
            merged.lost_edits += 1;
        }
        Ok(())
    })
}

/// Whether a part has kept the image, with the page of a change.
fn has_page(part: &MachinePart, file: &str, edit: &ImageEdit) -> Result<bool, ToolError> {
    if !beneath::is_file(&part.folder, sidecar::name_of(file)) {
        return Ok(false);
    }
    let sidecar = Sidecar::load(&part.folder, file).map_err(|error| part.wrong(error))?;
    Ok(sidecar.has_page(edit.page()))
}

/// Whether an alt text already has the mark that a change gives it.
fn is_marked(outputs: &Outputs, file: &str, edit: &ImageEdit) -> Result<bool, ToolError> {
    let ImageEdit::Boilerplate { page, unknown } = edit else {
        return Ok(false);
    };
    let sidecar = Sidecar::load(outputs.folder(), file)?;
    let known = sidecar.contexts().iter().find(|c| c.page == *page);
    Ok(known.is_some_and(|known| {
        let mut marked = known.clone();
        marked.mark_boilerplate(*unknown);
        marked == *known
    }))
}
