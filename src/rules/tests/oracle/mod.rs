//! What the selectors find, for comparison with lxml and cssselect.
//!
//! `tests/python/rules_oracle.py` makes the same table from the same trees, which this test writes
//! as XML, and compares both. Run it by hand, with a folder of pages:
//!
//! ```text
//! SPOOR_RULES_PAGES=list.txt SPOOR_RULES_OUT=out cargo test -p spoor-rules oracle -- --ignored
//! python tests/python/rules_oracle.py out
//! ```

use std::fmt::Write;
use std::path::PathBuf;

use scraper::{Html, Node, Selector};

use crate::tree::Tree;
use crate::xpath::XPath;

/// The elements in document order, as XML; `None` if the page has something that XML cannot
/// represent.
fn xml(html: &Html) -> Option<String> {
    let mut out = String::new();
    for edge in html.tree.root().traverse() {
        match edge {
            ego_tree::iter::Edge::Open(node) => match node.value() {
                Node::Text(text) => out.push_str(&escaped(text)?),
                Node::Comment(comment) if !comment.contains("--") && !comment.ends_with('-') => {
                    escaped(comment)?;
                    write!(out, "<!--{}-->", &**comment).unwrap();
                }
                Node::Comment(_) => return None,
                Node::Element(element) => {
                    write!(out, "<{}", name(element.name())?).unwrap();
                    // In XML it would change the names of all elements.
                    let attributes = element.attrs().filter(|(key, _)| *key != "xmlns");
                    for (key, value) in attributes {
                        write!(out, " {}=\"{}\"", name(key)?, escaped(value)?).unwrap();
                    }
                    out.push('>');
                }
                _ => {}
            },
            ego_tree::iter::Edge::Close(node) => {
                if let Node::Element(element) = node.value() {
                    write!(out, "</{}>", element.name()).unwrap();
                }
            }
        }
    }
    Some(out)
}

fn name(name: &str) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_plain);
    (fits || name == "xml:lang").then_some(name)
}

fn escaped(text: &str) -> Option<String> {
    let is_bad = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{fffe}' | '\u{ffff}')
    };
    if text.contains(is_bad) {
        return None;
    }
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    Some(
        text.replace('"', "&quot;")
            .replace('\n', "&#10;")
            .replace('\t', "&#9;"),
    )
}

#[test]
#[ignore = "needs pages, and Python afterwards"]
fn write_what_selectors_find() {
    let list = std::env::var("SPOOR_RULES_PAGES").unwrap();
    let out = PathBuf::from(std::env::var("SPOOR_RULES_OUT").unwrap());
    std::fs::create_dir_all(&out).unwrap();
    let xpaths: Vec<XPath> = include_str!("xpath.txt")
        .lines()
        .map(|line| XPath::parse(line).unwrap())
        .collect();
    let css: Vec<Selector> = include_str!("css.txt")
        .lines()
        .map(|line| Selector::parse(line).unwrap())
        .collect();
    let (mut pages, mut left_out) = (0, 0);
    let mut slowest = (std::time::Duration::ZERO, String::new());
    for path in std::fs::read_to_string(list).unwrap().lines() {
        let markup = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        let html = Html::parse_document(&markup);
        let Some(xml) = xml(&html) else {
            left_out += 1;
            continue;
        };
        let nodes = Tree::new(&html);
        let mut found: Vec<Vec<String>> = Vec::new();
        for xpath in &xpaths {
            let begun = std::time::Instant::now();
            let result = xpath.find(&nodes).unwrap();
            if begun.elapsed() > slowest.0 {
                slowest = (begun.elapsed(), format!("{} {path}", xpath.as_str()));
            }
            found.push(result.texts(&nodes));
        }
        for selector in &css {
            let all = html.select(selector);
            found.push(
                all.map(|e| nodes.whole(nodes.find(e.id()).unwrap()))
                    .collect(),
            );
        }
        std::fs::write(out.join(format!("{pages}.xml")), xml).unwrap();
        let json = serde_json::json!({"page": path, "found": found});
        std::fs::write(out.join(format!("{pages}.json")), json.to_string()).unwrap();
        pages += 1;
    }
    println!("{pages} pages, {left_out} cannot be XML; slowest {slowest:?}");
}
