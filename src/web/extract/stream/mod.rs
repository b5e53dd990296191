//! Reads a page in one pass over its tags, without a tree.
//!
//! Nearly all pages need none: at each tag, the HTML standard's rules determine which elements it
//! opens and which it ends. [`tokenizer`] cuts the page into tags and texts ([`references`] decodes
//! them), [`open`] is the stack of open elements, [`formatting`] the list of those that are opened
//! again, and [`elements`] the table of what each name means. The rules for tags outside of the
//! body are in [`before`], those for start tags in [`start`], for end tags in [`end`], for tables
//! in [`tables`], and those for skipped content (`svg`, `math`, `template`) in [`passed`]. Elements
//! and texts go to the same [`PageWalk`] as those of a tree.
//!
//! A few rules move content that was already read: text within a table goes before the table,
//! blocks go out of formatting that ended around them. Then the page must be read from a tree, and
//! [`Fallback`] gives the reason. Both ways give the same page; a test compares them on generated
//! and modified markup.

mod before;
mod elements;
mod end;
mod formatting;
mod open;
mod passed;
mod references;
mod start;
mod tables;
#[cfg(test)]
mod tests;
mod tokenizer;

use std::borrow::Cow;

use crate::address::PageUrl;
use crate::page::{Extracted, Fallback};

use super::Options;
use super::attributes::ElementAttributes;
use super::html::base_of;
use super::limits::{MAX_COMPARISONS, comparisons_of};
use super::text::Layout;
use super::walk::PageWalk;

pub(super) use references::decode;

use before::InsertionMode;
use elements::{ElementKind, kind};
use formatting::Formatting;
use open::OpenElements;
use tokenizer::{HtmlTag, HtmlToken, Tokenizer, normalised};

/// The page read in one pass.
///
/// # Errors
/// [`Fallback`] says why it must be read from a tree.
pub(super) fn walk(
    page: &PageUrl,
    html: &str,
    options: &Options,
) -> Result<(Extracted, Layout), Fallback> {
    let html = normalised(html).ok_or(Fallback::Nul)?;
    match PagePass::new(page, None, &html, options).run() {
        Ok(walk) => Ok(walk.finish()),
        Err(PassStop::Fallback(why)) => Err(why),
        // Earlier addresses resolve against it as well. It is in the head, so little reading was
        // wasted.
        Err(PassStop::Base(href)) => {
            let base = base_of(page, &href);
            match PagePass::new(page, Some(base), &html, options).run() {
                Ok(walk) => Ok(walk.finish()),
                Err(PassStop::Fallback(why)) => Err(why),
                // A known base is not searched for.
                Err(PassStop::Base(_)) => Err(Fallback::Nodes),
            }
        }
    }
}

/// Why a pass ends before the page does.
#[derive(Debug)]
enum PassStop {
    /// A tree is needed.
    Fallback(Fallback),
    /// The first `base` has this address.
    Base(String),
}

impl From<Fallback> for PassStop {
    fn from(why: Fallback) -> Self {
        PassStop::Fallback(why)
    }
}

type Step = Result<(), PassStop>;

/// One pass over a page.
struct PagePass<'h, 'a> {
    options: &'a Options,
    tokens: Tokenizer<'h>,
    walk: PageWalk<'a>,
    open: OpenElements<'h>,
    formatting: Formatting<'h>,
    mode: InsertionMode,
    quirks: before::Quirks,
    /// The open form; it may have ended without its end tag.
    form: Option<u32>,
    /// A line end at the start of the following text does not count.
    ignores_line_end: bool,
    /// Whether `base` elements no longer matter.
    has_base: bool,
    /// An upper bound for the number of nodes in the tree.
    nodes: usize,
    /// Comparisons of attributes that the tree builder would make.
    comparisons: usize,
}

impl<'h, 'a> PagePass<'h, 'a> {
    fn new(page: &'a PageUrl, base: Option<PageUrl>, html: &'h str, options: &'a Options) -> Self {
        let has_base = base.is_some();
        let base = base.unwrap_or_else(|| page.clone());
        let mut walk = PageWalk::new(page, base, options);
        walk.expect(html.len());
        Self {
            options,
            tokens: Tokenizer::new(html),
            walk,
            open: OpenElements::default(),
            formatting: Formatting::default(),
            mode: InsertionMode::Initial,
            quirks: before::Quirks::Yes,
            form: None,
            ignores_line_end: false,
            has_base,
            nodes: 1,
            comparisons: 0,
        }
    }

    fn run(mut self) -> Result<PageWalk<'a>, PassStop> {
        let mut tag = HtmlTag::default();
        while let Some(token) = self.tokens.next(&mut tag) {
            let ignores_line_end = std::mem::take(&mut self.ignores_line_end);
            match token {
                HtmlToken::Text(text) => self.text(text, ignores_line_end)?,
                HtmlToken::Start | HtmlToken::End if tag.is_flood => break,
                HtmlToken::Start => self.start(&mut tag)?,
                HtmlToken::End => self.end(&tag)?,
                HtmlToken::Comment => self.nodes += 1,
                HtmlToken::Doctype(text) => self.doctype(text),
            }
        }
        // The last tag may be unfinished at the end of the page.
        if tag.is_flood {
            return Err(Fallback::Attributes.into());
        }
        self.begin_body()?;
        while !self.open.is_empty() {
            self.pop();
        }
        if self.nodes > self.options.max_nodes {
            return Err(Fallback::Nodes.into());
        }
        Ok(self.walk)
    }

    /// Opens an element. Returns its id.
    fn push(&mut self, tag: &HtmlTag<'h>, kind: ElementKind) -> Result<u32, PassStop> {
        self.push_named(tag.name.clone(), tag, kind, "")
    }

    /// Opens an element that the page omits.
    fn push_implied(&mut self, name: &'static str) -> Step {
        self.push_named(name.into(), &HtmlTag::implied(), kind(name), "")?;
        Ok(())
    }

    /// Opens an element of this name with the attributes of `tag`; `script` is its content
    /// if it is a script.
    fn push_named(
        &mut self,
        name: Cow<'h, str>,
        tag: &HtmlTag<'h>,
        kind: ElementKind,
        script: &str,
    ) -> Result<u32, PassStop> {
        if !self.has_base
            && kind == ElementKind::HeadLeaf
            && *name == *"base"
            && let Some(href) = tag.get("href")
        {
            return Err(PassStop::Base(href.to_owned()));
        }
        self.nodes += 1;
        if self.nodes > self.options.max_nodes {
            return Err(Fallback::Nodes.into());
        }
        self.walk.open(&name, tag, || script.into());
        // The tree measures the newest node, which may be a text inside it.
        if self.walk.depth() >= self.options.max_nesting {
            return Err(Fallback::Nesting.into());
        }
        Ok(self.open.push(name, kind))
    }

    /// Opens an element that has no content, and ends it.
    fn leaf(&mut self, tag: &HtmlTag<'h>, kind: ElementKind) -> Step {
        self.push(tag, kind)?;
        self.pop();
        Ok(())
    }

    /// Ends the innermost element.
    fn pop(&mut self) {
        let Some(element) = self.open.pop() else {
            return;
        };
        self.walk.close(&element.name);
        if element.kind.is_formatting() {
            self.formatting.closed(element.id);
        }
        while let Some(detached) = self.open.pop_detached() {
            self.walk.close(&detached.name);
        }
    }

    /// Ends elements up to the innermost one that matches, which is open.
    fn pop_until(&mut self, wanted: impl Fn(ElementKind, &str) -> bool) {
        while let Some(element) = self.open.innermost() {
            let found = wanted(element.kind, &element.name);
            self.pop();
            if found {
                return;
            }
        }
    }

    /// Ends elements up to this one, which is open.
    fn pop_to(&mut self, id: u32) {
        while !self.open.is_empty() {
            let is_last = self.open.top_id_is(id);
            self.pop();
            if is_last {
                return;
            }
        }
    }

    /// Ends elements up to the innermost one of this name, which is open.
    fn pop_until_named(&mut self, name: &str) {
        self.pop_until(|_, n| n == name);
    }

    /// Ends elements whose end tags may be omitted, but none named `except` (section
    /// 13.2.6.3).
    fn imply_ends(&mut self, except: &str) {
        while let Some(top) = self.open.innermost() {
            let implied = top.kind.has_implied_end() || *top.name == *"p";
            if !implied || *top.name == *except {
                return;
            }
            self.pop();
        }
    }

    /// Ends an open `p` that is in button scope.
    fn close_p(&mut self) {
        if self.open.has_p() {
            self.imply_ends("p");
            self.pop_until_named("p");
        }
    }

    /// Removes an element from the stack of the tree builder; its contents stay in it.
    fn detach(&mut self, id: u32) {
        if self.open.top_id_is(id) {
            self.pop();
        } else {
            self.open.detach(id);
        }
    }

    /// Opens formatting elements again that ended with the block around them (section
    /// 13.2.4.3).
    fn reconstruct(&mut self) -> Step {
        let Some(mut index) = self.formatting.first_closed() else {
            return Ok(());
        };
        let mut tag = HtmlTag::default();
        while let Some(at) = self.formatting.tag_of(index) {
            self.tokens.again(at, &mut tag);
            let kind = kind(&tag.name);
            let id = self.push(&tag, kind)?;
            self.formatting.reopened(index, id);
            index += 1;
        }
        Ok(())
    }

    /// Opens a formatting element. If there are more than three equal ones, the first is forgotten.
    fn push_formatting(&mut self, tag: &HtmlTag<'h>, kind: ElementKind) -> Step {
        let same: Vec<_> = self.formatting.since_marker(&tag.name).collect();
        if same.len() >= 3 {
            let mut known = HtmlTag::default();
            let mut equal = same.iter().filter(|(_, at, _)| {
                self.tokens.again(*at, &mut known);
                known.attributes.len() == tag.attributes.len()
                    && known
                        .attributes
                        .iter()
                        .all(|(name, value)| tag.get(name) == Some(&**value))
            });
            if let Some((oldest, ..)) = equal.nth(2) {
                let oldest = *oldest;
                self.formatting.remove(oldest);
            }
        }
        let id = self.push(tag, kind)?;
        self.formatting.push(tag.name.clone(), id, tag.at);
        self.comparisons += self.walk.depth() * comparisons_of(tag.attributes.len());
        if self.comparisons > MAX_COMPARISONS {
            return Err(Fallback::Formatting.into());
        }
        Ok(())
    }

    /// Handles the text of the page, or of an element that has no markup within.
    fn add_text(&mut self, text: &str) {
        self.nodes += 1;
        self.walk.text(text);
    }
}
