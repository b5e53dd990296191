//! Tables (HTML standard, sections 13.2.6.4.9 to 13.2.6.4.15).
//!
//! Any other content directly in a table is moved before it, which needs a tree. So the innermost
//! element determines the mode: it is the table or one of its parts only if table markup is
//! expected.

use super::before::Quirks;
use super::elements::ElementKind;
use super::tokenizer::HtmlTag;
use super::{Fallback, PagePass, PassStop, Step};
use crate::extract::attributes::ElementAttributes;

impl<'h> PagePass<'h, '_> {
    /// A table in the body or in a cell.
    pub(super) fn table(&mut self, tag: &HtmlTag<'h>) -> Step {
        if self.open.has_p() {
            match self.quirks {
                Quirks::No => self.close_p(),
                Quirks::Yes => {}
                Quirks::Unknown => return Err(Fallback::Doctype.into()),
            }
        }
        self.push(tag, ElementKind::Table)?;
        Ok(())
    }

    /// Handles the start tag of a part of a table, and any other directly within a table.
    /// Returns false if the rules for the body apply.
    pub(super) fn start_in_table(
        &mut self,
        tag: &HtmlTag<'h>,
        kind: ElementKind,
    ) -> Result<bool, PassStop> {
        let is_part = matches!(
            kind,
            ElementKind::Caption
                | ElementKind::Column
                | ElementKind::ColumnGroup
                | ElementKind::TableBody
                | ElementKind::Row
                | ElementKind::Cell
        );
        if is_part {
            self.table_part(tag, kind)?;
            return Ok(true);
        }
        if self.open.top() == Some(ElementKind::ColumnGroup) {
            if kind == ElementKind::Template {
                return Ok(false);
            }
            self.pop();
        }
        if !self.open.top().is_some_and(ElementKind::is_table_frame) {
            return Ok(false);
        }
        match kind {
            ElementKind::Table => {
                self.pop_until_named("table");
                self.start_in_body(tag, kind)?;
            }
            ElementKind::Script | ElementKind::Template => return Ok(false),
            ElementKind::HeadRaw if tag.name == "style" => return Ok(false),
            ElementKind::Input if is_hidden(tag) => self.leaf(tag, kind)?,
            ElementKind::Form => {
                if self.form.is_none() {
                    self.form = Some(self.push(tag, kind)?);
                    self.pop();
                }
            }
            _ => return Err(Fallback::TableMarkup.into()),
        }
        Ok(true)
    }

    /// Opens a part of a table, and the parts around it that the page leaves out.
    fn table_part(&mut self, tag: &HtmlTag<'h>, kind: ElementKind) -> Step {
        loop {
            match (self.open.top(), kind) {
                (Some(ElementKind::Table), ElementKind::Caption)
                | (Some(ElementKind::Row), ElementKind::Cell) => {
                    self.push(tag, kind)?;
                    self.formatting.mark();
                    return Ok(());
                }
                (Some(ElementKind::Table), ElementKind::ColumnGroup | ElementKind::TableBody)
                | (Some(ElementKind::TableBody), ElementKind::Row) => {
                    self.push(tag, kind)?;
                    return Ok(());
                }
                (Some(ElementKind::ColumnGroup), ElementKind::Column) => {
                    return self.leaf(tag, kind);
                }
                (Some(ElementKind::Table), ElementKind::Column) => self.push_implied("colgroup")?,
                (Some(ElementKind::Table), _) => self.push_implied("tbody")?,
                (Some(ElementKind::TableBody), ElementKind::Cell) => self.push_implied("tr")?,
                (Some(ElementKind::TableBody | ElementKind::Row | ElementKind::ColumnGroup), _) => {
                    self.pop()
                }
                _ => {
                    if self.open.cell().is_none() {
                        // Ignored outside of tables.
                        return Ok(());
                    }
                    self.close_cell();
                }
            }
        }
    }

    /// Ends the open cell or caption.
    fn close_cell(&mut self) {
        self.imply_ends("");
        self.pop_until(|kind, _| matches!(kind, ElementKind::Cell | ElementKind::Caption));
        self.formatting.clear_to_marker();
    }

    /// Handles the end tag of a table or of a part of one.
    pub(super) fn end_table_part(&mut self, name: &str, kind: ElementKind) {
        if !self.open.has_in_table(name)
            || matches!(kind, ElementKind::Column | ElementKind::ColumnGroup)
        {
            return;
        }
        match (self.open.cell(), kind) {
            (Some(open), ElementKind::Cell | ElementKind::Caption) if open == kind => {
                self.imply_ends("");
                self.pop_until_named(name);
                self.formatting.clear_to_marker();
            }
            (_, ElementKind::Cell | ElementKind::Caption) => {}
            // A caption is ended only by the end of the table.
            (Some(ElementKind::Caption), ElementKind::TableBody | ElementKind::Row) => {}
            (cell, _) => {
                if cell.is_some() {
                    self.close_cell();
                }
                self.pop_until_named(name);
            }
        }
    }
}

fn is_hidden(tag: &HtmlTag<'_>) -> bool {
    tag.get("type")
        .is_some_and(|kind| kind.eq_ignore_ascii_case("hidden"))
}
