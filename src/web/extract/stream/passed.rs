//! Skipped content without any result: `svg`, `math` and templates (HTML standard, sections
//! 13.2.6.4.18 and 13.2.6.5).

use std::borrow::Cow;

use super::before::script_nests;
use super::elements::{ElementKind, kind};
use super::references::decode;
use super::tokenizer::{HtmlTag, HtmlToken};
use super::{Fallback, PagePass, PassStop, Step};
use crate::extract::attributes::ElementAttributes;
use crate::extract::limits::comparisons_of;

impl<'h> PagePass<'h, '_> {
    /// Skips an `svg` or `math` element.
    pub(super) fn pass_over_foreign(&mut self, tag: &HtmlTag<'h>) -> Step {
        self.push(tag, ElementKind::Foreign)?;
        if tag.self_closing {
            self.pop();
            return Ok(());
        }
        let root = tag.name.clone();
        match self.foreign(root)? {
            None => {
                self.pop();
                Ok(())
            }
            // HTML ends it, and is handled as if it came after it.
            Some((HtmlToken::Start, mut html)) => {
                self.pop();
                self.start(&mut html)
            }
            Some((_, html)) => {
                self.pop();
                self.end(&html)
            }
        }
    }

    /// Reads up to the end of the foreign element `root`. Returns the tag that ended it
    /// early.
    fn foreign(
        &mut self,
        root: Cow<'h, str>,
    ) -> Result<Option<(HtmlToken<'h>, HtmlTag<'h>)>, PassStop> {
        let mut tag = HtmlTag::default();
        let mut open = vec![root];
        while let Some(top) = open.last() {
            if let Some(text) = self.tokens.cdata() {
                self.nodes += 1;
                if let Some(formula) = self.walk.formula() {
                    formula.text(text);
                }
                continue;
            }
            let Some(token) = self.tokens.next(&mut tag) else {
                return Ok(None);
            };
            self.nodes += 1;
            match token {
                HtmlToken::Start if tag.is_flood => return Err(Fallback::Attributes.into()),
                HtmlToken::Start if takes_html(top) => return Err(Fallback::Foreign.into()),
                HtmlToken::Start if ends_foreign(&tag) => return Ok(Some((token, tag))),
                HtmlToken::Start => {
                    self.passed(&tag)?;
                    let depth = self.walk.depth() + open.len();
                    if depth >= self.options.max_nesting {
                        return Err(Fallback::Nesting.into());
                    }
                    // It would be the caption or the heading of an enclosing image.
                    if matches!(&*tag.name, "figure" | "figcaption") {
                        return Err(Fallback::Foreign.into());
                    }
                    self.comparisons += depth * comparisons_of(tag.attributes.len());
                    if let Some(formula) = self.walk.formula() {
                        formula.open(&tag.name, &tag);
                        if tag.self_closing {
                            formula.close();
                        }
                    }
                    if !tag.self_closing {
                        open.push(tag.name.clone());
                    }
                }
                HtmlToken::End if matches!(&*tag.name, "p" | "br") => {
                    // It makes an element there, and ends nothing.
                    if takes_html(top) {
                        return Err(Fallback::Foreign.into());
                    }
                    return Ok(Some((token, tag)));
                }
                HtmlToken::End => match open.iter().rposition(|name| *name == tag.name) {
                    Some(at) => {
                        // The element of this pass itself is closed by the caller.
                        for _ in at.max(1)..open.len() {
                            if let Some(formula) = self.walk.formula() {
                                formula.close();
                            }
                        }
                        open.truncate(at);
                    }
                    None => return Err(Fallback::Foreign.into()),
                },
                HtmlToken::Text(text) => {
                    if let Some(formula) = self.walk.formula() {
                        formula.text(&decode(text, false));
                    }
                }
                HtmlToken::Comment | HtmlToken::Doctype(_) => {}
            }
        }
        Ok(None)
    }

    /// Skips a template.
    pub(super) fn pass_over_template(&mut self, template: &HtmlTag<'h>) -> Step {
        let is_within = |kinds: &[ElementKind], names: &[&str]| {
            self.open
                .inner_first()
                .any(|e| kinds.contains(&e.kind) || names.contains(&&*e.name))
        };
        let in_heading = is_within(&[ElementKind::Heading], &["figure"]);
        self.push(template, ElementKind::Template)?;
        // Its content is a separate node.
        self.nodes += 1;
        let mut tag = HtmlTag::default();
        let mut templates = 1_usize;
        let mut depth = self.walk.depth();
        while templates > 0 {
            let Some(token) = self.tokens.next(&mut tag) else {
                break;
            };
            self.nodes += 1;
            match token {
                HtmlToken::Start => {
                    if tag.is_flood {
                        return Err(Fallback::Attributes.into());
                    }
                    self.passed(&tag)?;
                    depth += usize::from(!tag.self_closing);
                    if depth >= self.options.max_nesting {
                        return Err(Fallback::Template.into());
                    }
                    self.comparisons += depth * comparisons_of(tag.attributes.len());
                    match kind(&tag.name) {
                        ElementKind::Template => {
                            self.nodes += 1;
                            templates += 1;
                        }
                        ElementKind::Script => {
                            self.nodes += 1;
                            if script_nests(self.tokens.raw_text("script")) {
                                return Err(Fallback::ScriptInScript.into());
                            }
                        }
                        ElementKind::HeadRaw
                        | ElementKind::Title
                        | ElementKind::Textarea
                        | ElementKind::Raw
                        | ElementKind::Xmp => {
                            self.nodes += 1;
                            self.tokens.raw_text(&tag.name);
                        }
                        // Their rules may hide others.
                        ElementKind::Foreign
                        | ElementKind::Plaintext
                        | ElementKind::ColumnGroup
                        | ElementKind::Column
                        | ElementKind::Frameset => return Err(Fallback::Template.into()),
                        ElementKind::Heading if in_heading => return Err(Fallback::Template.into()),
                        ElementKind::Block if in_heading && tag.name.starts_with("fig") => {
                            return Err(Fallback::Template.into());
                        }
                        ElementKind::Leaf
                        | ElementKind::HeadLeaf
                        | ElementKind::Input
                        | ElementKind::Rule => depth -= 1,
                        _ => {}
                    }
                }
                HtmlToken::End => {
                    templates -= usize::from(tag.name == "template");
                    depth = depth.saturating_sub(1).max(self.walk.depth());
                }
                HtmlToken::Text(_) | HtmlToken::Comment | HtmlToken::Doctype(_) => {}
            }
        }
        self.pop();
        Ok(())
    }

    /// Handles a skipped tag: a `base` counts even there.
    fn passed(&self, tag: &HtmlTag<'h>) -> Step {
        match tag.get("href") {
            Some(href) if tag.name == "base" && !self.has_base => {
                Err(PassStop::Base(href.to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// Whether this element of `svg` or `math` may contain HTML.
fn takes_html(name: &str) -> bool {
    matches!(
        name,
        "foreignobject" | "desc" | "title" | "mi" | "mo" | "mn" | "ms" | "mtext" | "annotation-xml"
    )
}

/// Whether this start tag ends all of `svg` and `math`.
fn ends_foreign(tag: &HtmlTag<'_>) -> bool {
    match &*tag.name {
        "b" | "big" | "blockquote" | "body" | "br" | "center" | "code" | "dd" | "div" | "dl"
        | "dt" | "em" | "embed" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "head" | "hr" | "i"
        | "img" | "li" | "listing" | "menu" | "meta" | "nobr" | "ol" | "p" | "pre" | "ruby"
        | "s" | "small" | "span" | "strong" | "strike" | "sub" | "sup" | "table" | "tt" | "u"
        | "ul" | "var" => true,
        "font" => ["color", "face", "size"]
            .iter()
            .any(|a| tag.get(a).is_some()),
        _ => false,
    }
}
