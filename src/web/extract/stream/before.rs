//! The document type, the head, framesets, and texts (HTML standard, sections 13.2.6.4.1
//! to 13.2.6.4.6 and 13.2.6.4.20).

use super::elements::{ElementKind, kind};
use super::references::decode;
use super::tokenizer::{HtmlTag, is_space};
use super::{Fallback, PagePass, Step};
use crate::extract::attributes::ElementAttributes;

/// The part of the document that the pass has reached. The open elements determine which of the
/// modes for bodies and tables applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum InsertionMode {
    /// Before the document type.
    Initial,
    /// Before `html`.
    BeforeHtml,
    /// Before `head`.
    BeforeHead,
    /// In `head`.
    Head,
    /// In a `noscript` of the head.
    HeadNoscript,
    /// After `head`.
    AfterHead,
    /// In `body`, or after it, which makes no difference to the rest.
    Body,
    /// In a `frameset`.
    Frameset,
    /// After the outermost `frameset`.
    AfterFrameset,
}

/// Whether the document type makes the tree builder imitate old browsers (quirks mode).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quirks {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// It is not one of the usual ones.
    Unknown,
}

impl Quirks {
    /// The effect of a declaration, from the first letter of `doctype`.
    fn of(declaration: &str) -> Self {
        let text = declaration.to_ascii_lowercase();
        let mut parts = text["doctype".len()..].split_ascii_whitespace();
        if parts.next() != Some("html") {
            return Quirks::Unknown;
        }
        let Some(keyword) = parts.next() else {
            return Quirks::No;
        };
        let quoted: Vec<&str> = text.split('"').collect();
        match (keyword, quoted.as_slice()) {
            ("system", [_, "about:legacy-compat", ""]) => Quirks::No,
            ("public", [_, public, _]) => Self::of_public(public, false),
            ("public", [_, public, " " | "\n" | "", system, _]) if system.contains("w3.org") => {
                Self::of_public(public, true)
            }
            _ => Quirks::Unknown,
        }
    }

    fn of_public(public: &str, has_system: bool) -> Self {
        let is = |start: &str| public.starts_with(start);
        if is("-//w3c//dtd xhtml 1.")
            || is("-//w3c//dtd html 4.01//")
            || is("-//w3c//dtd html 4.0//")
        {
            Quirks::No
        } else if is("-//w3c//dtd html 4.01 transitional//")
            || is("-//w3c//dtd html 4.01 frameset//")
        {
            if has_system { Quirks::No } else { Quirks::Yes }
        } else if is("-//w3c//dtd html 4.0 transitional//") || is("-//w3c//dtd html 3.2") {
            Quirks::Yes
        } else {
            Quirks::Unknown
        }
    }
}

impl<'h> PagePass<'h, '_> {
    pub(super) fn doctype(&mut self, declaration: &str) {
        if self.mode == InsertionMode::Initial {
            self.nodes += 1;
            self.quirks = Quirks::of(declaration);
            self.mode = InsertionMode::BeforeHtml;
        }
    }

    /// Opens the elements that the page omits before its body.
    pub(super) fn begin_body(&mut self) -> Step {
        while self.mode < InsertionMode::Body {
            self.advance()?;
        }
        Ok(())
    }

    /// Moves on to the next mode before the body, as if its tags were there.
    fn advance(&mut self) -> Step {
        self.mode = match self.mode {
            InsertionMode::Initial => InsertionMode::BeforeHtml,
            InsertionMode::BeforeHtml => {
                self.push_implied("html")?;
                InsertionMode::BeforeHead
            }
            InsertionMode::BeforeHead => {
                self.push_implied("head")?;
                InsertionMode::Head
            }
            InsertionMode::HeadNoscript => {
                self.pop();
                InsertionMode::Head
            }
            InsertionMode::Head => {
                self.pop();
                InsertionMode::AfterHead
            }
            InsertionMode::AfterHead => {
                self.push_implied("body")?;
                InsertionMode::Body
            }
            after => after,
        };
        Ok(())
    }

    pub(super) fn start(&mut self, tag: &mut HtmlTag<'h>) -> Step {
        let kind = kind(&tag.name);
        while self.mode != InsertionMode::Body {
            if self.start_outside(tag, kind)? {
                return Ok(());
            }
            self.advance()?;
        }
        self.start_in_body(tag, kind)
    }

    /// Handles a start tag outside of the body. Returns false if the next mode is to
    /// handle it.
    fn start_outside(
        &mut self,
        tag: &mut HtmlTag<'h>,
        kind: ElementKind,
    ) -> Result<bool, super::PassStop> {
        match (self.mode, kind) {
            (InsertionMode::Initial, _) => return Ok(false),
            (InsertionMode::BeforeHtml, ElementKind::Html) => {
                tag.keep_language();
                self.push(tag, kind)?;
                self.mode = InsertionMode::BeforeHead;
            }
            (InsertionMode::BeforeHtml, _) => return Ok(false),
            (_, ElementKind::Html) => self.second_html(tag)?,
            (InsertionMode::BeforeHead, ElementKind::Head) => {
                self.push(tag, kind)?;
                self.mode = InsertionMode::Head;
            }
            (InsertionMode::BeforeHead, _) => return Ok(false),
            (InsertionMode::Frameset, ElementKind::Frameset) => {
                self.push(tag, kind)?;
            }
            (InsertionMode::Frameset, ElementKind::Frame) => self.leaf(tag, kind)?,
            (InsertionMode::Frameset | InsertionMode::AfterFrameset, _)
                if tag.name == "noframes" =>
            {
                self.raw(tag, kind)?;
            }
            // Ignored there.
            (InsertionMode::Frameset | InsertionMode::AfterFrameset, _)
            | (_, ElementKind::Head) => {}
            (InsertionMode::HeadNoscript, ElementKind::HeadLeaf) if tag.name != "base" => {
                self.leaf(tag, kind)?
            }
            (InsertionMode::HeadNoscript, ElementKind::HeadRaw) => self.raw(tag, kind)?,
            (InsertionMode::HeadNoscript, ElementKind::Noscript) => {}
            (InsertionMode::HeadNoscript, _) => return Ok(false),
            (InsertionMode::Head, ElementKind::Noscript) => {
                self.push(tag, kind)?;
                self.mode = InsertionMode::HeadNoscript;
            }
            (InsertionMode::AfterHead, ElementKind::Body) => {
                tag.keep_language();
                self.push(tag, kind)?;
                self.mode = InsertionMode::Body;
            }
            (InsertionMode::AfterHead, ElementKind::Frameset) => {
                self.push(tag, kind)?;
                self.mode = InsertionMode::Frameset;
            }
            // After the head, the tree builder puts them into it. Only `Path` and `Neighbours`
            // could notice, and they only examine the body.
            _ => return self.start_in_head(tag, kind),
        }
        Ok(true)
    }

    /// Handles the start tags that mean the same in head and body. Returns false for all others.
    pub(super) fn start_in_head(
        &mut self,
        tag: &HtmlTag<'h>,
        kind: ElementKind,
    ) -> Result<bool, super::PassStop> {
        match kind {
            ElementKind::HeadLeaf => self.leaf(tag, kind)?,
            ElementKind::Title | ElementKind::HeadRaw | ElementKind::Script => {
                self.raw(tag, kind)?
            }
            ElementKind::Template => self.pass_over_template(tag)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A further `html` tag adds the attributes that the first lacks.
    pub(super) fn second_html(&self, tag: &HtmlTag<'h>) -> Step {
        let has_language = ["lang", "xml:lang"].iter().any(|a| tag.get(a).is_some());
        if has_language {
            return Err(Fallback::SecondHtml.into());
        }
        Ok(())
    }

    /// Handles an element whose content is text up to its end tag.
    pub(super) fn raw(&mut self, tag: &HtmlTag<'h>, kind: ElementKind) -> Step {
        let text = self.tokens.raw_text(&tag.name);
        if kind == ElementKind::Script && script_nests(text) {
            return Err(Fallback::ScriptInScript.into());
        }
        self.push_named(tag.name.clone(), tag, kind, text)?;
        if kind == ElementKind::Title {
            self.add_text(&decode(text, false));
        } else {
            self.add_text(text);
        }
        self.pop();
        Ok(())
    }

    /// Handles an end tag outside of the body. Returns false if the body is to handle it.
    pub(super) fn end_outside(&mut self, tag: &HtmlTag<'h>) -> Result<bool, super::PassStop> {
        let name = &*tag.name;
        loop {
            match (self.mode, name) {
                (InsertionMode::Body, _) => return Ok(false),
                (InsertionMode::Initial, _) => {}
                (InsertionMode::Head, "head") | (InsertionMode::HeadNoscript, "noscript") => {
                    return self.advance().map(|()| true);
                }
                (InsertionMode::Frameset, "frameset") => {
                    if self.open.len() > 1 {
                        self.pop();
                        if self.open.top() != Some(ElementKind::Frameset) {
                            self.mode = InsertionMode::AfterFrameset;
                        }
                    }
                    return Ok(true);
                }
                (InsertionMode::BeforeHtml | InsertionMode::BeforeHead, "head")
                | (InsertionMode::HeadNoscript, "br")
                | (
                    InsertionMode::BeforeHtml
                    | InsertionMode::BeforeHead
                    | InsertionMode::Head
                    | InsertionMode::AfterHead,
                    "body" | "html" | "br",
                ) => {}
                _ => return Ok(true),
            }
            self.advance()?;
        }
    }

    /// Handles text. `ignores_line_end` is whether a line end at its start does not count.
    pub(super) fn text(&mut self, text: &str, ignores_line_end: bool) -> Step {
        let decoded = decode(text, false);
        let mut text = &*decoded;
        if self.mode >= InsertionMode::Frameset {
            // Only its white space is kept.
            if text.bytes().any(is_space) {
                self.add_text(" ");
            }
            return Ok(());
        }
        if self.mode < InsertionMode::Body {
            let (space, rest) = split_space(text);
            if self.mode >= InsertionMode::Head && !space.is_empty() {
                self.add_text(space);
            }
            if rest.is_empty() {
                return Ok(());
            }
            self.begin_body()?;
            text = rest;
        }
        if self.open.top() == Some(ElementKind::ColumnGroup) {
            let (space, rest) = split_space(text);
            self.add_text(space);
            if rest.is_empty() {
                return Ok(());
            }
            self.pop();
            text = rest;
        }
        if self.open.top().is_some_and(ElementKind::is_table_frame) {
            if !text.bytes().all(is_space) {
                return Err(Fallback::TableText.into());
            }
            self.add_text(text);
            return Ok(());
        }
        if ignores_line_end {
            text = text.strip_prefix('\n').unwrap_or(text);
        }
        if !text.is_empty() {
            self.reconstruct()?;
            self.add_text(text);
        }
        Ok(())
    }
}

/// The white space at the start of a text, and the rest.
fn split_space(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|b| !is_space(b));
    text.split_at(end.unwrap_or(text.len()))
}

/// Whether a script contains something like a script in a comment: then the first end tag only ends
/// that part (section 13.2.5.20).
pub(super) fn script_nests(text: &str) -> bool {
    text.find("<!--").is_some_and(|at| {
        let after = text.as_bytes().get(at..).unwrap_or_default();
        let mut windows = after.windows("<script".len());
        windows.any(|part| part.eq_ignore_ascii_case(b"<script"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_types() {
        for (text, expected) in [
            ("doctype html", Quirks::No),
            ("DOCTYPE HTML ", Quirks::No),
            ("doctype", Quirks::Unknown),
            ("doctype html SYSTEM \"about:legacy-compat\"", Quirks::No),
            (
                "DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Transitional//EN\" \
                 \"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd\"",
                Quirks::No,
            ),
            (
                "DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01 Transitional//EN\"",
                Quirks::Yes,
            ),
            ("doctype html public x", Quirks::Unknown),
        ] {
            assert_eq!(Quirks::of(text), expected, "{text}");
        }
    }
}
