//! Start tags in the body (HTML standard, section 13.2.6.4.7).

use super::elements::Kind;
use super::references::decode;
use super::tokenizer::Tag;
use super::{Fallback, Step, Stream};

impl<'h> Stream<'h, '_> {
    pub(super) fn start_in_body(&mut self, tag: &Tag<'h>, kind: Kind) -> Step {
        if self.start_in_table(tag, kind)? || self.start_in_head(tag, kind)? {
            return Ok(());
        }
        match kind {
            Kind::Html => self.second_html(tag),
            Kind::Frameset => Err(Fallback::Frameset.into()),
            Kind::Block | Kind::PlainBlock => self.block(tag, kind),
            Kind::Preformatted => {
                self.ignores_line_end = true;
                self.block(tag, kind)
            }
            Kind::Heading => {
                self.close_p();
                if self.open.top() == Some(Kind::Heading) {
                    self.pop();
                }
                self.element(tag, kind)
            }
            Kind::Form => self.form(tag),
            Kind::Item | Kind::Definition => self.item(tag, kind),
            Kind::Plaintext => {
                self.block(tag, kind)?;
                let text = self.tokens.remaining();
                if !text.is_empty() {
                    self.reconstruct()?;
                    self.add_text(text);
                }
                Ok(())
            }
            Kind::Button => {
                if self.open.has("button") {
                    self.imply_ends("");
                    self.pop_until_named("button");
                }
                self.inline(tag, kind)
            }
            Kind::Anchor => self.anchor(tag),
            Kind::Nobr => {
                self.reconstruct()?;
                if self.open.has("nobr") {
                    self.end_formatting("nobr")?;
                    self.reconstruct()?;
                }
                self.push_formatting(tag, kind)
            }
            Kind::Formatting => {
                self.reconstruct()?;
                self.push_formatting(tag, kind)
            }
            Kind::Object => {
                self.inline(tag, kind)?;
                self.formatting.mark();
                Ok(())
            }
            Kind::Leaf => {
                self.reconstruct()?;
                self.leaf(tag, kind)
            }
            Kind::Image => {
                self.reconstruct()?;
                self.push_named("img".into(), tag, Kind::Leaf, "")?;
                self.pop();
                Ok(())
            }
            Kind::Input => {
                if self.open.has("select") {
                    self.pop_until_named("select");
                }
                self.reconstruct()?;
                self.leaf(tag, kind)
            }
            Kind::Parameter => self.leaf(tag, kind),
            Kind::Rule => {
                self.close_p();
                if self.open.has("select") {
                    self.imply_ends("");
                }
                self.leaf(tag, kind)
            }
            Kind::Textarea => {
                let text = self.tokens.raw_text(&tag.name);
                self.push(tag, kind)?;
                self.add_text(&decode(text, false));
                self.pop();
                Ok(())
            }
            Kind::Xmp => {
                self.close_p();
                self.reconstruct()?;
                self.raw(tag, kind)
            }
            Kind::Raw => self.raw(tag, kind),
            Kind::Select => {
                if self.open.has("select") {
                    self.pop_until_named("select");
                    return Ok(());
                }
                self.inline(tag, kind)
            }
            Kind::Choice | Kind::ChoiceGroup => self.choice(tag, kind),
            Kind::RubyBase | Kind::RubyText => {
                if self.open.has("ruby") {
                    self.imply_ends(if kind == Kind::RubyText { "rtc" } else { "" });
                }
                self.element(tag, kind)
            }
            Kind::Foreign => {
                self.reconstruct()?;
                self.pass_over_foreign(tag)
            }
            Kind::Table => self.table(tag),
            // Ignored: they belong to the head, to a frameset or to a table.
            Kind::Body
            | Kind::Head
            | Kind::Frame
            | Kind::Caption
            | Kind::ColumnGroup
            | Kind::Column
            | Kind::TableBody
            | Kind::Row
            | Kind::Cell => Ok(()),
            Kind::Other if tag.name == "selectedcontent" => Err(Fallback::SelectedContent.into()),
            _ => self.inline(tag, kind),
        }
    }

    fn element(&mut self, tag: &Tag<'h>, kind: Kind) -> Step {
        self.push(tag, kind)?;
        Ok(())
    }

    fn block(&mut self, tag: &Tag<'h>, kind: Kind) -> Step {
        self.close_p();
        self.element(tag, kind)
    }

    fn inline(&mut self, tag: &Tag<'h>, kind: Kind) -> Step {
        self.reconstruct()?;
        self.element(tag, kind)
    }

    fn form(&mut self, tag: &Tag<'h>) -> Step {
        if self.form.is_none() {
            self.close_p();
            self.form = Some(self.push(tag, Kind::Form)?);
        }
        Ok(())
    }

    fn item(&mut self, tag: &Tag<'h>, kind: Kind) -> Step {
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

    fn anchor(&mut self, tag: &Tag<'h>) -> Step {
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
        self.push_formatting(tag, Kind::Anchor)
    }

    fn choice(&mut self, tag: &Tag<'h>, kind: Kind) -> Step {
        if self.open.has("select") {
            self.imply_ends(if kind == Kind::Choice { "optgroup" } else { "" });
        } else if self.open.top() == Some(Kind::Choice) {
            self.pop();
        }
        self.inline(tag, kind)
    }
}
