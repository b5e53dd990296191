//! The main content of a page, as found by the reader modes of browsers.
//!
//! `dom_smoothie` is Mozilla's Readability in Rust. It works on its own kind of tree and
//! changes it. So the elements and texts that it can use are copied from the existing
//! parse (strings are shared, nothing is parsed again), and afterwards the texts left in
//! its article are looked up. The text of a page is thus split into the same blocks for
//! every extractor.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use dom_query::{Document, NodeData};
use dom_smoothie::{Config, Readability};
use ego_tree::NodeId;
use ego_tree::iter::Edge;
use html5ever::Attribute;
use html5ever::tree_builder::{ElementFlags, NodeOrText, TreeSink};
use scraper::node::Element;
use scraper::{Html, Node};

use super::text::{Role, role};

/// The largest sum of the depths of all copied nodes. Readability visits everything within
/// an element several times, so this bounds its time. The largest of 500 encyclopedia
/// pages reached 400,000.
const MAX_STEPS: usize = 1_000_000;

/// The attributes that it uses.
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

/// The texts of the tree that belong to the article; `None` if there is none, or if the
/// search would take too long.
pub(super) fn texts(tree: &Html) -> Option<HashSet<NodeId>> {
    let copy = Copy::of(tree)?;
    // A bug in the library must not cost a page.
    let found = catch_unwind(AssertUnwindSafe(|| copy.article()));
    found.unwrap_or_else(|_| {
        tracing::debug!("the search for the article failed");
        None
    })
}

/// The part of a tree that may contain the article.
struct Copy {
    document: Document,
    /// Each text of the copy with its original.
    texts: Vec<(dom_query::NodeId, NodeId)>,
}

impl Copy {
    /// `None` if it would be too large.
    fn of(tree: &Html) -> Option<Self> {
        let document = Document::default();
        let mut texts = Vec::new();
        let mut open = vec![document.get_document()];
        // Number of open elements whose content is not copied.
        let mut left_out = 0_usize;
        let mut steps = 0;
        for edge in tree.tree.root().traverse() {
            match edge {
                Edge::Open(node) => match node.value() {
                    Node::Element(element) if left_out > 0 || is_left_out(element) => {
                        left_out += 1;
                    }
                    Node::Element(element) => {
                        let copied = document.create_element(
                            element.name.clone(),
                            attributes(element),
                            ElementFlags::default(),
                        );
                        document.append(open.last()?, NodeOrText::AppendNode(copied));
                        open.push(copied);
                        steps += open.len();
                    }
                    Node::Text(text) if left_out == 0 => {
                        let contents = text.text.clone();
                        let copied = document.tree.create_node(NodeData::Text { contents });
                        document.append(open.last()?, NodeOrText::AppendNode(copied));
                        texts.push((copied, node.id()));
                        steps += open.len();
                    }
                    _ => {}
                },
                Edge::Close(node) if node.value().is_element() => {
                    if left_out > 0 {
                        left_out -= 1;
                    } else {
                        open.pop();
                    }
                }
                Edge::Close(_) => {}
            }
            if steps > MAX_STEPS {
                return None;
            }
        }
        Some(Self { document, texts })
    }

    fn article(self) -> Option<HashSet<NodeId>> {
        let config = Config {
            disable_json_ld: true,
            ..Config::default()
        };
        let mut reader = Readability::with_document(self.document, None, Some(config)).ok()?;
        reader.parse().ok()?;
        // The tree of the best attempt, whose nodes have kept their numbers.
        let article = reader.doc.select_single("#readability-page-1");
        let article = article.nodes().first()?;
        let within: HashSet<dom_query::NodeId> = article
            .descendants_it()
            .filter(|node| node.is_text())
            .map(|node| node.id)
            .collect();
        let texts = self.texts.iter();
        let texts = texts.filter(|(copied, _)| within.contains(copied));
        Some(texts.map(|(_, original)| *original).collect())
    }
}

/// Whether nothing within the element is text of the page.
fn is_left_out(element: &Element) -> bool {
    match role(element.name()) {
        Role::Void | Role::Aside => true,
        _ => matches!(element.name(), "meta" | "link" | "base"),
    }
}

fn attributes(element: &Element) -> Vec<Attribute> {
    let used = element.attrs.iter();
    let used = used.filter(|(name, _)| ATTRIBUTES.contains(&&*name.local));
    used.map(|(name, value)| Attribute {
        name: name.clone(),
        value: value.clone(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Options, limits};
    use super::*;

    fn tree(html: &str) -> Html {
        limits::parse(html, &Options::default()).unwrap()
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
        // As many as are copied; each element around them is cleaned of what is in it.
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
            let tree = tree(&html);
            let before = crate::tests::worked();
            texts(&tree);
            // The longest took 0.4 s.
            let took = crate::tests::worked() - before;
            assert!(took < Duration::from_secs(20), "{html:.80}: {took:?}");
        }
    }

    #[test]
    fn too_large_trees_are_not_searched() {
        let text = "<p>The keeper of the tower climbed, as always, to its lamp.".repeat(20);
        assert!(texts(&tree(&text)).is_some_and(|found| found.len() == 20));
        let deep = format!("{}{text}", "<div>".repeat(200));
        assert!(texts(&tree(&deep)).is_some());
        assert_eq!(
            texts(&tree(&format!(
                "{}{}",
                "<div>".repeat(200),
                text.repeat(200)
            ))),
            None
        );
    }
}
