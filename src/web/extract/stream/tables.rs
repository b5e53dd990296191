//! Tables (HTML standard, sections 13.2.6.4.9 to 13.2.6.4.15).
//!
//! Whatever else stands directly in a table is moved before it, which needs a tree. So
//! the innermost element tells the mode: it is the table or one of its parts only where
//! the markup of tables is expected.

use super::before::Quirks;
use super::elements::Kind;
use super::tokenizer::Tag;
use super::{Fallback, Step, Stop, Stream};
use crate::extract::attributes::Attributes;

impl<'h> Stream<'h, '_> {
    /// A table in the body or in a cell.
    pub(super) fn table(&mut self, tag: &Tag<'h>) -> Step {
        if self.open.has_p() {
            match self.quirks {
                Quirks::No => self.close_p(),
                Quirks::Yes => {}
                Quirks::Unknown => return Err(Fallback::Doctype.into()),
            }
        }
        self.push(tag, Kind::Table)?;
        Ok(())
    }

    /// Handles the start tag of a part of a table, and any other directly within a table.
    /// Returns false if the rules for the body apply.
    pub(super) fn start_in_table(&mut self, tag: &Tag<'h>, kind: Kind) -> Result<bool, Stop> {
        let is_part = matches!(
            kind,
            Kind::Caption
                | Kind::Column
                | Kind::ColumnGroup
                | Kind::TableBody
                | Kind::Row
                | Kind::Cell
        );
        if is_part {
            self.table_part(tag, kind)?;
            return Ok(true);
        }
        if self.open.top() == Some(Kind::ColumnGroup) {
            if kind == Kind::Template {
                return Ok(false);
            }
            self.pop();
        }
        if !self.open.top().is_some_and(Kind::is_table_frame) {
            return Ok(false);
        }
        match kind {
            Kind::Table => {
                self.pop_until_named("table");
                self.start_in_body(tag, kind)?;
            }
            Kind::Script | Kind::Template => return Ok(false),
            Kind::HeadRaw if tag.name == "style" => return Ok(false),
            Kind::Input if is_hidden(tag) => self.leaf(tag, kind)?,
            Kind::Form => {
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
    fn table_part(&mut self, tag: &Tag<'h>, kind: Kind) -> Step {
        loop {
            match (self.open.top(), kind) {
                (Some(Kind::Table), Kind::Caption) | (Some(Kind::Row), Kind::Cell) => {
                    self.push(tag, kind)?;
                    self.formatting.mark();
                    return Ok(());
                }
                (Some(Kind::Table), Kind::ColumnGroup | Kind::TableBody)
                | (Some(Kind::TableBody), Kind::Row) => {
                    self.push(tag, kind)?;
                    return Ok(());
                }
                (Some(Kind::ColumnGroup), Kind::Column) => return self.leaf(tag, kind),
                (Some(Kind::Table), Kind::Column) => self.push_implied("colgroup")?,
                (Some(Kind::Table), _) => self.push_implied("tbody")?,
                (Some(Kind::TableBody), Kind::Cell) => self.push_implied("tr")?,
                (Some(Kind::TableBody | Kind::Row | Kind::ColumnGroup), _) => self.pop(),
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
        self.pop_until(|kind, _| matches!(kind, Kind::Cell | Kind::Caption));
        self.formatting.clear_to_marker();
    }

    /// Handles the end tag of a table or of a part of one.
    pub(super) fn end_table_part(&mut self, name: &str, kind: Kind) {
        if !self.open.has_in_table(name) || matches!(kind, Kind::Column | Kind::ColumnGroup) {
            return;
        }
        match (self.open.cell(), kind) {
            (Some(open), Kind::Cell | Kind::Caption) if open == kind => {
                self.imply_ends("");
                self.pop_until_named(name);
                self.formatting.clear_to_marker();
            }
            (_, Kind::Cell | Kind::Caption) => {}
            // A caption is ended by the table's end only.
            (Some(Kind::Caption), Kind::TableBody | Kind::Row) => {}
            (cell, _) => {
                if cell.is_some() {
                    self.close_cell();
                }
                self.pop_until_named(name);
            }
        }
    }
}

fn is_hidden(tag: &Tag<'_>) -> bool {
    tag.get("type")
        .is_some_and(|kind| kind.eq_ignore_ascii_case("hidden"))
}
