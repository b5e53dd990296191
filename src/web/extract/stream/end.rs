//! End tags in the body (HTML standard, section 13.2.6.4.7).

use super::elements::{ElementKind, kind};
use super::tokenizer::HtmlTag;
use super::{Fallback, PagePass, Step};

impl<'h> PagePass<'h, '_> {
    pub(super) fn end(&mut self, tag: &HtmlTag<'h>) -> Step {
        if self.end_outside(tag)? {
            return Ok(());
        }
        let name = &*tag.name;
        let kind = kind(name);
        // In a table, everything except its columns ends them.
        if self.open.top() == Some(ElementKind::ColumnGroup) && !matches!(name, "col" | "template")
        {
            self.pop();
            if name == "colgroup" {
                return Ok(());
            }
        }
        match kind {
            ElementKind::Table
            | ElementKind::TableBody
            | ElementKind::Row
            | ElementKind::Cell
            | ElementKind::Caption
            | ElementKind::ColumnGroup
            | ElementKind::Column => self.end_table_part(name, kind),
            // Later content is read as if it were within the body.
            ElementKind::Body | ElementKind::Html => {}
            // Its start tag was skipped with the template.
            ElementKind::Template => {}
            ElementKind::Block | ElementKind::PlainBlock if name == "p" => {
                return self.end_paragraph();
            }
            ElementKind::Block
            | ElementKind::PlainBlock
            | ElementKind::Preformatted
            | ElementKind::Button
            | ElementKind::Select => {
                if self.open.has(name) {
                    self.imply_ends("");
                    self.pop_until_named(name);
                }
            }
            ElementKind::Object => {
                if self.open.has(name) {
                    self.imply_ends("");
                    self.pop_until_named(name);
                    self.formatting.clear_to_marker();
                }
            }
            ElementKind::Form => self.end_form(),
            ElementKind::Item | ElementKind::Definition => {
                let is_item = kind == ElementKind::Item;
                let ends = |_, n: &str| is_item && matches!(n, "ol" | "ul");
                if self.open.in_scope(|e| *e.name == *name, ends) {
                    self.imply_ends(name);
                    self.pop_until_named(name);
                }
            }
            ElementKind::Heading => {
                if self
                    .open
                    .in_scope(|e| e.kind == ElementKind::Heading, |_, _| false)
                {
                    self.imply_ends("");
                    self.pop_until(|kind, _| kind == ElementKind::Heading);
                }
            }
            ElementKind::Anchor | ElementKind::Nobr | ElementKind::Formatting => {
                return self.end_formatting(name);
            }
            ElementKind::Leaf if name == "br" => {
                if self.open.top().is_some_and(ElementKind::is_table_frame) {
                    return Err(Fallback::TableMarkup.into());
                }
                self.reconstruct()?;
                self.push_implied("br")?;
                self.pop();
            }
            _ => self.end_other(name),
        }
        Ok(())
    }

    /// An end tag without a start tag is an empty paragraph.
    fn end_paragraph(&mut self) -> Step {
        if !self.open.has_p() {
            if self.open.top().is_some_and(ElementKind::is_table_frame) {
                return Err(Fallback::TableMarkup.into());
            }
            self.push_implied("p")?;
        }
        self.close_p();
        Ok(())
    }

    fn end_form(&mut self) {
        let Some(form) = self.form.take() else { return };
        if self.open.in_scope(|e| e.id == form, |_, _| false) {
            self.imply_ends("");
            self.detach(form);
        }
    }

    /// Any other end tag: it ends an element of its name, but none around a special one.
    fn end_other(&mut self, name: &str) {
        let found = self
            .open
            .inner_first()
            .find(|e| *e.name == *name || e.kind.is_special())
            .filter(|e| *e.name == *name)
            .map(|e| e.id);
        if let Some(id) = found {
            self.imply_ends(name);
            self.pop_to(id);
        }
    }

    /// The adoption agency algorithm, as long as it moves nothing.
    pub(super) fn end_formatting(&mut self, name: &str) -> Step {
        let newest = self.formatting.since_marker(name).next();
        let top = self.open.innermost().map(|e| (e.id, *e.name == *name));
        if let Some((id, true)) = top
            && !self.formatting.has(id)
        {
            self.pop();
            return Ok(());
        }
        let Some((id, _, is_open)) = newest else {
            self.end_other(name);
            return Ok(());
        };
        if !is_open {
            self.formatting.remove(id);
            return Ok(());
        }
        if !self.open.in_scope(|e| e.id == id, |_, _| false) {
            return Ok(());
        }
        let within = self.open.inner_first().take_while(|e| e.id != id);
        if within.into_iter().any(|e| e.kind.is_special()) {
            return Err(Fallback::Misnested.into());
        }
        self.formatting.remove(id);
        self.pop_to(id);
        Ok(())
    }
}
