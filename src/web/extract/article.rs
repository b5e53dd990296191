//! The main content of a page, as found by the reader modes of browsers.
//!
//! `dom_smoothie` is Mozilla's Readability in Rust. It works on its own kind of tree and
//! changes it. So the elements and texts that it can use are copied while the page is read,
//! whether from a tree or in one pass, and afterwards the texts left in its article are
//! looked up. The text of a page is thus split into the same blocks for every extractor.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use dom_query::{Document, NodeData, NodeId};
use dom_smoothie::{Config, Readability};
use html5ever::tendril::StrTendril;
use html5ever::tree_builder::{ElementFlags, NodeOrText, TreeSink};
use html5ever::{Attribute, LocalName, QualName, ns};

use super::attributes::ElementAttributes;
use super::text::{TextRole, role};

/// The largest sum of the depths of all copied nodes. Readability visits everything within
/// an element several times, so this bounds its time. The largest of 500 encyclopedia
/// pages reached 400,000.
const MAX_STEPS: usize = 1_000_000;

/// The number of open elements directly within `html`, including the document itself.
const WITHIN_HTML: usize = 2;

/// The attributes that Readability uses.
const ATTRIBUTES: [&str; 13] = [
    "aria-hidden",
    "aria-modal",
    "class",
    "colspan",
    "hidden",
    "href",
    "id",
    "itemprop",
    "rel",
    "role",
    "src",
    "style",
    "summary",
];

/// The part of a page that may contain the article, copied while the page is read.
pub(super) struct ArticleCopy {
    document: Document,
    /// The open elements that are copied, outermost first.
    open: Vec<NodeId>,
    /// The head of the page.
    head: Option<NodeId>,
    /// Whether the head is open again for a title that comes after it.
    is_reopened: bool,
    /// Number of open elements whose content is not copied.
    left_out: usize,
    /// The sum of the depths of all copied nodes.
    steps: usize,
    /// The text since the last tag. Readability sees it as one node.
    pending: StrTendril,
    /// How many of the last texts are in it.
    waiting: usize,
    /// The copy of each text of the page, in order; `None` if it is left out.
    texts: Vec<Option<NodeId>>,
}

impl ArticleCopy {
    pub(super) fn new() -> Self {
        let document = Document::default();
        Self {
            open: vec![document.get_document()],
            head: None,
            is_reopened: false,
            document,
            left_out: 0,
            steps: 0,
            pending: StrTendril::new(),
            waiting: 0,
            texts: Vec::new(),
        }
    }

    /// Whether it has grown too large to be searched.
    pub(super) fn is_too_large(&self) -> bool {
        self.steps > MAX_STEPS
    }

    /// Copies the start of an element.
    pub(super) fn open<A: ElementAttributes>(&mut self, name: &str, found: &A) {
        self.end_text();
        if self.left_out > 0 || is_left_out(name) {
            self.left_out += 1;
            return;
        }
        // A pass without a tree meets a title between head and body after the head, but a tree puts
        // it into the head (HTML standard, section 13.2.6.4.6). Readability compares it with
        // headings.
        if name == "title"
            && self.open.len() == WITHIN_HTML
            && let Some(head) = self.head
        {
            self.open.push(head);
            self.is_reopened = true;
        }
        let Some(parent) = self.open.last() else {
            return;
        };
        let is_head = name == "head" && self.open.len() == WITHIN_HTML;
        let name = QualName::new(None, ns!(html), LocalName::from(name));
        let copied = self
            .document
            .create_element(name, attributes(found), ElementFlags::default());
        self.document.append(parent, NodeOrText::AppendNode(copied));
        self.open.push(copied);
        if is_head {
            self.head = Some(copied);
        }
        self.steps += self.open.len();
    }

    /// Copies the end of the innermost element.
    pub(super) fn close(&mut self) {
        self.end_text();
        if self.left_out > 0 {
            self.left_out -= 1;
        } else {
            self.open.pop();
            if std::mem::take(&mut self.is_reopened) {
                self.open.pop();
            }
        }
    }

    /// Copies a text. Returns its number among the texts of the page, from 0.
    pub(super) fn text(&mut self, text: &str) -> usize {
        if self.left_out == 0 {
            self.pending.push_slice(text);
            self.waiting += 1;
        }
        self.texts.push(None);
        self.texts.len() - 1
    }

    fn end_text(&mut self) {
        if self.waiting == 0 {
            return;
        }
        let contents = std::mem::take(&mut self.pending);
        let waiting = std::mem::take(&mut self.waiting);
        let Some(parent) = self.open.last() else {
            return;
        };
        let copied = self.document.tree.create_node(NodeData::Text { contents });
        self.document.append(parent, NodeOrText::AppendNode(copied));
        self.steps += self.open.len();
        for text in self.texts.iter_mut().rev().take(waiting) {
            *text = Some(copied);
        }
    }

    /// Whether each text of the page belongs to the article; `None` if there is none, or if
    /// the search would take too long.
    pub(super) fn article(mut self) -> Option<Vec<bool>> {
        self.end_text();
        if self.is_too_large() {
            return None;
        }
        let Self {
            document, texts, ..
        } = self;
        // A bug in the library must not cost a page.
        let found = catch_unwind(AssertUnwindSafe(|| search(document)));
        let within = found.unwrap_or_else(|_| {
            tracing::debug!("the search for the article failed");
            None
        })?;
        let texts = texts.into_iter();
        let chosen = texts.map(|copied| copied.is_some_and(|copied| within.contains(&copied)));
        Some(chosen.collect())
    }
}

impl std::fmt::Debug for ArticleCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArticleCopy")
            .field("texts", &self.texts.len())
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}

/// The texts of the article in a document.
fn search(document: Document) -> Option<HashSet<NodeId>> {
    let config = Config {
        disable_json_ld: true,
        // It only matters which texts are inside, so nothing needs to be cleaned.
        keep_classes: true,
        ..Config::default()
    };
    let mut reader = Readability::with_document(document, None, Some(config)).ok()?;
    reader.parse().ok()?;
    // The tree of the best attempt, whose nodes have kept their numbers.
    let article = reader.doc.select_single("#readability-page-1");
    let article = article.nodes().first()?;
    let texts = article.descendants_it().filter(|node| node.is_text());
    Some(texts.map(|node| node.id).collect())
}

/// Whether nothing within an element of this name is text of the page.
fn is_left_out(name: &str) -> bool {
    match role(name) {
        TextRole::Void | TextRole::Aside => true,
        _ => matches!(name, "meta" | "link" | "base"),
    }
}

fn attributes(found: &impl ElementAttributes) -> Vec<Attribute> {
    let used = found.names().filter(|name| ATTRIBUTES.contains(name));
    let used = used.filter_map(|name| Some((name, found.get(name)?)));
    used.map(|(name, value)| Attribute {
        name: QualName::new(None, ns!(), LocalName::from(name)),
        value: StrTendril::from(value),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Options, extract_text};
    use crate::address::PageUrl;
    use crate::page::{Extracted, Extractor};

    fn read(html: &str) -> Extracted {
        let options = Options {
            extractor: Extractor::Article,
            ..Options::default()
        };
        extract_text(&PageUrl::parse("http://a.test/").unwrap(), html, &options)
    }

    #[test]
    fn the_costliest_trees_take_bounded_time() {
        let deep = |names: &str, inner: &str, n: usize| {
            let open: String = names
                .split(' ')
                .cycle()
                .take(240)
                .map(|n| format!("<{n} class=x>"))
                .collect();
            format!("{open}{}", inner.repeat(n))
        };
        // As many nodes as are copied; Readability cleans the contents of each element around them.
        for html in [
            deep("div", "<p>some words, and more of them", 1_900),
            deep("div", "<div><p>a, b<img src=a></div>", 700),
            deep("div ul li", "<p>some words", 1_900),
            deep("form div", "<input><p>a<p>b", 1_300),
            deep("table tbody tr td", "<p>words<ul><li>a</ul>", 600),
            deep("div section", "a<br><br>b<br> ", 500),
            format!(
                "<div>{}",
                "<p>some words, and more of them</p>".repeat(60_000)
            ),
            format!("<div>{}", "<br> ".repeat(100_000)),
            format!("<div>{}", "<a href=x>b</a>, ".repeat(80_000)),
            format!("<div>{}", "<div class=share>b</div>".repeat(60_000)),
            format!("<table>{}", "<tr><td>b<td>c".repeat(30_000)),
        ] {
            let before = spoor_testing::worked();
            read(&html);
            // The longest took 0.4 s.
            let took = spoor_testing::worked() - before;
            assert!(took < Duration::from_secs(20), "{html:.80}: {took:?}");
        }
    }

    #[test]
    fn too_large_trees_are_not_searched() {
        let text = "<p>The keeper of the tower climbed, as always, to its lamp.".repeat(20);
        let extractor = |html: &str| read(html).text.extractor;
        assert_eq!(extractor(&text), Extractor::Article);
        let deep = format!("{}{text}", "<div>".repeat(200));
        assert_eq!(extractor(&deep), Extractor::Article);
        let long = format!("{}{}", "<div>".repeat(200), text.repeat(200));
        assert_eq!(extractor(&long), Extractor::All);
    }
}
