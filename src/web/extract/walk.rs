//! The handling of each element and each text of a page, for both ways of reading.
//!
//! The tree and the stream of tags both report their elements and texts here in document order; the
//! same order gives the same page.

use std::borrow::Cow;

use crate::address::PageUrl;
use crate::page::Extracted;

use super::Options;
use super::attributes::ElementAttributes;
use super::formula::{self, Formula};
use super::html::{Collector, Unread};
use super::json_ld;
use super::neighbours::Neighbours;
use super::path::Path;
use super::text::{Layout, TextRole, role};

/// The usual bytes of markup for each byte of its text.
const MARKUP_PER_TEXT: usize = 8;

/// The elements and texts of a page so far.
///
/// Elements with the attribute `hidden` or the style `display:none`, wiki marks (`[edit]`,
/// `[1]`), and asides as the text module defines them yield no text, but do yield links
/// and images; `aria-hidden` is ignored, because it hides only from screen readers.
#[derive(Debug)]
pub(super) struct PageWalk<'a> {
    options: &'a Options,
    collector: Collector<'a>,
    /// The words around images, if images are wanted.
    neighbours: Option<Neighbours>,
    path: Path,
    /// The open elements, outermost first.
    open: Vec<Level>,
    /// Number of open elements whose text is not prose.
    asides: usize,
    /// Number of open elements whose content is ignored.
    voids: usize,
    /// The open formula, if formulas are wanted.
    formula: Option<Formula>,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    role: TextRole,
    is_aside: bool,
}

impl<'a> PageWalk<'a> {
    /// The start of `page`, whose addresses resolve against `base`.
    pub(super) fn new(page: &'a PageUrl, base: PageUrl, options: &'a Options) -> Self {
        Self {
            options,
            collector: Collector::new(page, base, options),
            neighbours: (options.max_images > 0).then(Neighbours::default),
            path: Path::default(),
            open: Vec::new(),
            asides: 0,
            voids: 0,
            formula: None,
        }
    }

    /// Reserves memory for the text of a page with markup of this many bytes.
    pub(super) fn expect(&mut self, markup: usize) {
        let text = markup / MARKUP_PER_TEXT;
        self.collector.flow.expect(text);
        if let Some(written) = &mut self.collector.written {
            written.expect(text);
        }
    }

    /// The number of open elements.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Handles text.
    pub(super) fn text(&mut self, text: &str) {
        if self.voids == 0 {
            self.collector.text(text, self.asides > 0);
        } else if let Some(formula) = &mut self.formula {
            formula.text(text);
        }
    }

    /// The open formula, for elements within it that are reported to nothing else.
    pub(super) fn formula(&mut self) -> Option<&mut Formula> {
        self.formula.as_mut()
    }

    /// Handles the start of an element. `script` returns its text, if it is a script.
    pub(super) fn open<'t, A: ElementAttributes>(
        &mut self,
        name: &str,
        attributes: &A,
        script: impl FnOnce() -> Cow<'t, str>,
    ) {
        let role = role(name);
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.open(name, attributes, self.collector.flow.len());
        }
        self.path.open(name, attributes);
        let unread = (self.voids == 0)
            .then(|| Unread::of(name, attributes))
            .flatten();
        let is_aside = self.voids == 0 && (unread.is_some() || role == TextRole::Aside);
        self.open.push(Level { role, is_aside });
        if self.voids == 0 {
            if matches!(name, "a" | "area" | "frame" | "iframe") {
                self.collector.stand(self.path.here());
            }
            let images = self.collector.images.len();
            self.collector.open(name, role, unread, attributes);
            if let Some(neighbours) = &mut self.neighbours {
                neighbours.images(self.collector.images.len() - images, attributes);
            }
            if json_ld::is_script(name, attributes) {
                self.collector.json_ld(&script());
            } else if self.collector.written.is_some() {
                if formula::is_script(name, attributes) {
                    self.collector
                        .formula(formula::of_script(&script(), attributes));
                } else if name == "math" {
                    self.formula = Some(Formula::default());
                }
            }
            self.asides += usize::from(is_aside);
        }
        if let Some(formula) = &mut self.formula {
            formula.open(name, attributes);
        }
        self.voids += usize::from(role == TextRole::Void);
    }

    /// Handles the end of the innermost element, which has this name.
    pub(super) fn close(&mut self, name: &str) {
        let Some(Level { role, is_aside }) = self.open.pop() else {
            return;
        };
        self.voids -= usize::from(role == TextRole::Void);
        if self.voids == 0 {
            self.asides -= usize::from(is_aside);
            if let Some(formula) = self.formula.take() {
                self.collector.formula(formula.finish());
            }
            self.collector.close(name, role);
        } else if let Some(formula) = &mut self.formula {
            formula.close();
        }
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.close(name, self.collector.flow.len());
        }
        self.path.close();
    }

    /// The page, with the positions of its blocks; fields derived from the text afterwards
    /// are left empty.
    pub(super) fn finish(self) -> (Extracted, Layout) {
        let (mut extracted, layout) = self.collector.finish();
        let (flow, images) = (&extracted.flow, &mut extracted.images);
        if let Some(neighbours) = self.neighbours {
            neighbours.surround(flow, images, self.options);
        }
        (extracted, layout)
    }
}
