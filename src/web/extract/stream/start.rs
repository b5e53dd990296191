//! Start tags in the body (HTML standard, section 13.2.6.4.7).

use super::elements::ElementKind;
use super::references::decode;
use super::tokenizer::HtmlTag;
use super::{Fallback, PagePass, Step};

impl<'h> PagePass<'h, '_> {
    pub(super) fn start_in_body(&mut self, tag: &HtmlTag<'h>, kind: ElementKind) -> Step {
        if self.start_in_table(tag, kind)? || self.start_in_head(tag, kind)? {
            return Ok(());
        }
        match kind {
            ElementKind::Html => self.second_html(tag),
            ElementKind::Frameset => Err(Fallback::Frameset.into()),
            ElementKind::Block | ElementKind::PlainBlock => self.block(tag, kind),
            ElementKind::Preformatted => {
                self.ignores_line_end = true;
                self.block(tag, kind)
            }
            ElementKind::Heading => {
                self.close_p();
                if self.open.top() == Some(ElementKind::Heading) {
                    self.pop();
                }
                self.element(tag, kind)
            }
            ElementKind::Form => self.form(tag),
            ElementKind::Item | ElementKind::Definition => self.item(tag, kind),
            ElementKind::Plaintext => {
                self.block(tag, kind)?;
                let text = self.tokens.remaining();
                if !text.is_empty() {
                    self.reconstruct()?;
                    self.add_text(text);
                }
                Ok(())
            }
            ElementKind::Button => {
                if self.open.has("button") {
                    self.imply_ends("");
                    self.pop_until_named("button");
                }
                self.inline(tag, kind)
            }
            ElementKind::Anchor => self.anchor(tag),
            ElementKind::Nobr => {
                self.reconstruct()?;
                if self.open.has("nobr") {
                    self.end_formatting("nobr")?;
                    self.reconstruct()?;
                }
                self.push_formatting(tag, kind)
            }
            ElementKind::Formatting => {
                self.reconstruct()?;
                self.push_formatting(tag, kind)
            }
            ElementKind::Object => {
                self.inline(tag, kind)?;
                self.formatting.mark();
                Ok(())
            }
            ElementKind::Leaf => {
                self.reconstruct()?;
                self.leaf(tag, kind)
            }
            ElementKind::Image => {
                self.reconstruct()?;
                self.push_named("img".into(), tag, ElementKind::Leaf, "")?;
                self.pop();
                Ok(())
            }
            ElementKind::Input => {
                if self.open.has("select") {
                    self.pop_until_named("select");
                }
                self.reconstruct()?;
                self.leaf(tag, kind)
            }
            ElementKind::Parameter => self.leaf(tag, kind),
            ElementKind::Rule => {
                self.close_p();
                if self.open.has("select") {
                    self.imply_ends("");
                }
                self.leaf(tag, kind)
            }
            ElementKind::Textarea => {
                let text = self.tokens.raw_text(&tag.name);
                self.push(tag, kind)?;
                self.add_text(&decode(text, false));
                self.pop();
                Ok(())
            }
            ElementKind::Xmp => {
                self.close_p();
                self.reconstruct()?;
                self.raw(tag, kind)
            }
            ElementKind::Raw => self.raw(tag, kind),
            ElementKind::Select => {
                if self.open.has("select") {
                    self.pop_until_named("select");
                    return Ok(());
                }
                self.inline(tag, kind)
            }
            ElementKind::Choice | ElementKind::ChoiceGroup => self.choice(tag, kind),
            ElementKind::RubyBase | ElementKind::RubyText => {
                if self.open.has("ruby") {
                    self.imply_ends(if kind == ElementKind::RubyText {
                        "rtc"
                    } else {
                        ""
                    });
                }
                self.element(tag, kind)
            }
            ElementKind::Foreign => {
                self.reconstruct()?;
                self.pass_over_foreign(tag)
            }
            ElementKind::Table => self.table(tag),
            // Ignored: they belong to the head, to a frameset or to a table.
            ElementKind::Body
            | ElementKind::Head
            | ElementKind::Frame
            | ElementKind::Caption
            | ElementKind::ColumnGroup
            | ElementKind::Column
            | ElementKind::TableBody
            | ElementKind::Row
            | ElementKind::Cell => Ok(()),
            ElementKind::Other if tag.name == "selectedcontent" => {
                Err(Fallback::SelectedContent.into())
            }
            _ => self.inline(tag, kind),
        }
    }

    fn element(&mut self, tag: &HtmlTag<'h>, kind: ElementKind) -> Step {
        self.push(tag, kind)?;
        Ok(())
    }

    fn block(&mut self, tag: &HtmlTag<'h>, kind: ElementKind) -> Step {
        self.close_p();
        self.element(tag, kind)
    }

    fn inline(&mut self, tag: &HtmlTag<'h>, kind: ElementKind) -> Step {
        self.reconstruct()?;
        self.element(tag, kind)
    }

    fn form(&mut self, tag: &HtmlTag<'h>) -> Step {
        if self.form.is_none() {
            self.close_p();
            self.form = Some(self.push(tag, ElementKind::Form)?);
        }
        Ok(())
    }

    fn item(&mut self, tag: &HtmlTag<'h>, kind: ElementKind) -> Step {
        let mut ended = None;
        for element in self.open.inner_first() {
            if element.kind == kind {
                ended = Some(element.name.clone());
                break;
            }
            if element.kind.is_special() && !matches!(&*element.name, "address" | "div" | "p") {
                break;
            }
        }
        if let Some(name) = ended {
            self.imply_ends(&name);
            self.pop_until_named(&name);
        }
        self.block(tag, kind)
    }

    fn anchor(&mut self, tag: &HtmlTag<'h>) -> Step {
        let open = self.formatting.since_marker("a").next();
        if let Some((id, ..)) = open {
            self.end_formatting("a")?;
            // A scope may have kept it open.
            self.formatting.remove(id);
            if self.open.inner_first().any(|e| e.id == id) {
                self.detach(id);
            }
        }
        self.reconstruct()?;
        self.push_formatting(tag, ElementKind::Anchor)
    }

    fn choice(&mut self, tag: &HtmlTag<'h>, kind: ElementKind) -> Step {
        if self.open.has("select") {
            self.imply_ends(if kind == ElementKind::Choice {
                "optgroup"
            } else {
                ""
            });
        } else if self.open.top() == Some(ElementKind::Choice) {
            self.pop();
        }
        self.inline(tag, kind)
    }
}
