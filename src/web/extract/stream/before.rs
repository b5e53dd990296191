//! The document type, the head, framesets, and texts (HTML standard, sections 13.2.6.4.1
//! to 13.2.6.4.6 and 13.2.6.4.20).

use super::elements::{Kind, kind};
use super::references::decode;
use super::tokenizer::{Tag, is_space};
use super::{Fallback, Step, Stream};
use crate::extract::attributes::Attributes;

/// The part of the document that the pass has come to. Which of the modes for bodies and
/// tables holds is told by the open elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
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
    /// In `body`, or after it, which makes no difference to what follows.
    Body,
    /// In a `frameset`.
    Frameset,
    /// After the outermost `frameset`.
    AfterFrameset,
}

/// Whether the document type makes the tree builder behave as old browsers did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quirks {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// It is none of the usual ones.
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

impl<'h> Stream<'h, '_> {
    pub(super) fn doctype(&mut self, declaration: &str) {
        if self.mode == Mode::Initial {
            self.nodes += 1;
            self.quirks = Quirks::of(declaration);
            self.mode = Mode::BeforeHtml;
        }
    }

    /// Opens what the page leaves out before its body.
    pub(super) fn begin_body(&mut self) -> Step {
        while self.mode < Mode::Body {
            self.advance()?;
        }
        Ok(())
    }

    /// Goes on to the next mode before the body, as if its tags were there.
    fn advance(&mut self) -> Step {
        self.mode = match self.mode {
            Mode::Initial => Mode::BeforeHtml,
            Mode::BeforeHtml => {
                self.push_implied("html")?;
                Mode::BeforeHead
            }
            Mode::BeforeHead => {
                self.push_implied("head")?;
                Mode::Head
            }
            Mode::HeadNoscript => {
                self.pop();
                Mode::Head
            }
            Mode::Head => {
                self.pop();
                Mode::AfterHead
            }
            Mode::AfterHead => {
                self.push_implied("body")?;
                Mode::Body
            }
            after => after,
        };
        Ok(())
    }

    pub(super) fn start(&mut self, tag: &mut Tag<'h>) -> Step {
        let kind = kind(&tag.name);
        while self.mode != Mode::Body {
            if self.start_outside(tag, kind)? {
                return Ok(());
            }
            self.advance()?;
        }
        self.start_in_body(tag, kind)
    }

    /// Handles a start tag outside of the body. Returns false if the next mode is to
    /// handle it.
    fn start_outside(&mut self, tag: &mut Tag<'h>, kind: Kind) -> Result<bool, super::Stop> {
        match (self.mode, kind) {
            (Mode::Initial, _) => return Ok(false),
            (Mode::BeforeHtml, Kind::Html) => {
                tag.keep_language();
                self.push(tag, kind)?;
                self.mode = Mode::BeforeHead;
            }
            (Mode::BeforeHtml, _) => return Ok(false),
            (_, Kind::Html) => self.second_html(tag)?,
            (Mode::BeforeHead, Kind::Head) => {
                self.push(tag, kind)?;
                self.mode = Mode::Head;
            }
            (Mode::BeforeHead, _) => return Ok(false),
            (Mode::Frameset, Kind::Frameset) => {
                self.push(tag, kind)?;
            }
            (Mode::Frameset, Kind::Frame) => self.leaf(tag, kind)?,
            (Mode::Frameset | Mode::AfterFrameset, _) if tag.name == "noframes" => {
                self.raw(tag, kind)?;
            }
            // Ignored there.
            (Mode::Frameset | Mode::AfterFrameset, _) | (_, Kind::Head) => {}
            (Mode::HeadNoscript, Kind::HeadLeaf) if tag.name != "base" => self.leaf(tag, kind)?,
            (Mode::HeadNoscript, Kind::HeadRaw) => self.raw(tag, kind)?,
            (Mode::HeadNoscript, Kind::Noscript) => {}
            (Mode::HeadNoscript, _) => return Ok(false),
            (Mode::Head, Kind::Noscript) => {
                self.push(tag, kind)?;
                self.mode = Mode::HeadNoscript;
            }
            (Mode::AfterHead, Kind::Body) => {
                tag.keep_language();
                self.push(tag, kind)?;
                self.mode = Mode::Body;
            }
            (Mode::AfterHead, Kind::Frameset) => {
                self.push(tag, kind)?;
                self.mode = Mode::Frameset;
            }
            // After the head they are put into it, which only `Path` and `Neighbours`
            // could tell, and they look at the body.
            _ => return self.start_in_head(tag, kind),
        }
        Ok(true)
    }

    /// Handles the start tags that mean the same in head and body. Returns false for all
    /// others.
    pub(super) fn start_in_head(&mut self, tag: &Tag<'h>, kind: Kind) -> Result<bool, super::Stop> {
        match kind {
            Kind::HeadLeaf => self.leaf(tag, kind)?,
            Kind::Title | Kind::HeadRaw | Kind::Script => self.raw(tag, kind)?,
            Kind::Template => self.pass_over_template(tag)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A further `html` tag adds the attributes that the first lacks.
    pub(super) fn second_html(&self, tag: &Tag<'h>) -> Step {
        let has_language = ["lang", "xml:lang"].iter().any(|a| tag.get(a).is_some());
        if has_language {
            return Err(Fallback::SecondHtml.into());
        }
        Ok(())
    }

    /// Handles an element whose content is text up to its end tag.
    pub(super) fn raw(&mut self, tag: &Tag<'h>, kind: Kind) -> Step {
        let text = self.tokens.raw_text(&tag.name);
        if kind == Kind::Script && script_nests(text) {
            return Err(Fallback::ScriptInScript.into());
        }
        self.push_named(tag.name.clone(), tag, kind, text)?;
        if kind == Kind::Title {
            self.add_text(&decode(text, false));
        } else {
            self.add_text(text);
        }
        self.pop();
        Ok(())
    }

    /// Handles an end tag outside of the body. Returns false if the body is to handle it.
    pub(super) fn end_outside(&mut self, tag: &Tag<'h>) -> Result<bool, super::Stop> {
        let name = &*tag.name;
        loop {
            match (self.mode, name) {
                (Mode::Body, _) => return Ok(false),
                (Mode::Initial, _) => {}
                (Mode::Head, "head") | (Mode::HeadNoscript, "noscript") => {
                    return self.advance().map(|()| true);
                }
                (Mode::Frameset, "frameset") => {
                    if self.open.len() > 1 {
                        self.pop();
                        if self.open.top() != Some(Kind::Frameset) {
                            self.mode = Mode::AfterFrameset;
                        }
                    }
                    return Ok(true);
                }
                (Mode::BeforeHtml | Mode::BeforeHead, "head")
                | (Mode::HeadNoscript, "br")
                | (
                    Mode::BeforeHtml | Mode::BeforeHead | Mode::Head | Mode::AfterHead,
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
        if self.mode >= Mode::Frameset {
            // Only its white space is kept.
            if text.bytes().any(is_space) {
                self.add_text(" ");
            }
            return Ok(());
        }
        if self.mode < Mode::Body {
            let (space, rest) = split_space(text);
            if self.mode >= Mode::Head && !space.is_empty() {
                self.add_text(space);
            }
            if rest.is_empty() {
                return Ok(());
            }
            self.begin_body()?;
            text = rest;
        }
        if self.open.top() == Some(Kind::ColumnGroup) {
            let (space, rest) = split_space(text);
            self.add_text(space);
            if rest.is_empty() {
                return Ok(());
            }
            self.pop();
            text = rest;
        }
        if self.open.top().is_some_and(Kind::is_table_frame) {
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

/// Whether a script has a part that looks like a script within a comment: there the first
/// end tag ends only that part (section 13.2.5.20).
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
