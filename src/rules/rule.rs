//! A rule, and what it finds on a page.

use std::path::PathBuf;

use jiff::civil::Date;
use regex::Regex;
use scraper::{Html, Selector};
use serde::{Deserialize, Serialize};

use super::pattern::UrlPattern;
use super::transform::{self, FieldValue, Transform};
use super::tree::{Tree, TreeNode};
use super::xpath::{XPath, XPathResult};
use crate::address::PageUrl;

/// Maximum number of values of a field.
const MAX_VALUES: usize = 1_000;
/// Maximum size of the text of one value, in bytes.
const MAX_VALUE_BYTES: usize = 1 << 20;
/// Maximum size of all values of a field, in bytes.
const MAX_FIELD_BYTES: usize = 4 << 20;

/// A rule: the pages that it covers, and what it takes from them.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Its unique name.
    pub name: String,
    /// The addresses that it covers.
    pub urls: Vec<UrlPattern>,
    /// The selector that must match; without it, every page at such an address fits.
    pub markup: Option<Css>,
    /// The first day of its validity.
    pub from: Option<Date>,
    /// The last day.
    pub until: Option<Date>,
    /// What is taken.
    pub fields: Vec<Field>,
    /// Pages with the values that the rule must find on them.
    pub examples: Vec<Example>,
    /// Where it is defined.
    pub origin: Origin,
}

/// Where a rule is defined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: PathBuf,
    /// The line of its header, from 1.
    pub line: usize,
}

/// A CSS selector with its text.
#[derive(Debug, Clone)]
pub struct Css {
    /// As written.
    pub text: String,
    /// Compiled.
    pub selector: Selector,
}

/// A field of a rule.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// How it is found.
    pub source: Source,
    /// The attribute that is taken instead of the text.
    pub attribute: Option<String>,
    /// Whether it has several values.
    pub many: bool,
    /// Whether a page without it is reported.
    pub required: bool,
    /// The transforms of its text.
    pub transforms: Vec<Transform>,
}

/// How a field is found.
#[derive(Debug, Clone)]
pub enum Source {
    /// Elements of a CSS selector.
    Css(Css),
    /// Nodes of an XPath expression, or its value.
    XPath(XPath),
    /// Matches in the markup: the first group, or the whole match.
    Regex(Regex),
}

impl Source {
    /// The selector or expression as written.
    pub fn text(&self) -> &str {
        match self {
            Source::Css(css) => &css.text,
            Source::XPath(xpath) => xpath.as_str(),
            Source::Regex(regex) => regex.as_str(),
        }
    }

    /// The key that names it in a rule file.
    pub fn key(&self) -> &'static str {
        match self {
            Source::Css(_) => "css",
            Source::XPath(_) => "xpath",
            Source::Regex(_) => "regex",
        }
    }
}

/// A stored page and the values that its rule must find on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The file with the markup.
    pub page: PathBuf,
    /// Its address.
    pub url: PageUrl,
    /// The values by field.
    pub values: Vec<(String, FieldValue)>,
    /// The line of its definition, from 1.
    pub line: usize,
}

/// A field as found on a page. Absent values are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FieldResult {
    /// Its name.
    pub name: String,
    /// Its value; absent if nothing was found, or if what was found is no such value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<FieldValue>,
    /// The CSS selector by which it was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub css_path: Option<String>,
    /// The XPath expression by which it was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xpath: Option<String>,
    /// The regular expression by which it was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// The page.
    pub url: String,
    /// What should be known of it: that more than one element was met, or why it has no
    /// value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What the rules found on a page.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Applied {
    /// The rule that was chosen; absent if none of those for the address fits the markup
    /// and the day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Its required fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
    /// The required fields that have no value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldResult>,
}

impl Applied {
    /// The value of a field.
    pub fn value(&self, name: &str) -> Option<&FieldValue> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        field.value.as_ref()
    }
}

/// A page that rules are applied to.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// Its address.
    pub url: &'a PageUrl,
    /// Its decoded markup.
    pub markup: &'a str,
    /// The same, parsed.
    pub html: &'a Html,
    /// The day on which it was fetched; `None` if unknown, in which case validity is ignored.
    pub day: Option<Date>,
}

impl Rule {
    /// Everything that determines which pages it covers and what it finds on them, in one text. Its
    /// position and its examples are left out, because they change no result.
    pub(super) fn print(&self) -> String {
        let urls: Vec<&str> = self.urls.iter().map(UrlPattern::as_str).collect();
        let markup = self.markup.as_ref().map(|css| css.text.as_str());
        let fields = self.fields.iter();
        let fields: Vec<_> = fields
            .map(|field| (&field.name, field.required, field.print()))
            .collect();
        let Self {
            name, from, until, ..
        } = self;
        format!("{name:?} {urls:?} {markup:?} {from:?} {until:?} {fields:?}")
    }

    /// Whether another rule does the same, regardless of position.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        self.print() == other.print()
    }

    /// Whether the rule covers an address.
    pub fn covers(&self, url: &PageUrl) -> bool {
        self.urls.iter().any(|pattern| pattern.covers(url))
    }

    /// Whether the rule is valid on a day.
    pub fn is_valid(&self, day: Option<Date>) -> bool {
        let Some(day) = day else {
            return true;
        };
        self.from.is_none_or(|from| from <= day) && self.until.is_none_or(|until| day <= until)
    }

    /// Whether the markup meets the rule's condition.
    pub fn fits(&self, html: &Html) -> bool {
        let css = self.markup.as_ref();
        css.is_none_or(|css| html.select(&css.selector).next().is_some())
    }

    /// The fields of a page.
    pub fn apply(&self, page: &Page<'_>) -> Applied {
        let tree = Tree::new(page.html);
        let base = base(page);
        let mut applied = Applied {
            rule: Some(self.name.clone()),
            ..Applied::default()
        };
        for field in &self.fields {
            let found = field.find(page, &tree, &base);
            if field.required {
                applied.required.push(field.name.clone());
                if found.value.as_ref().is_none_or(FieldValue::is_empty) {
                    applied.missing.push(field.name.clone());
                }
            }
            applied.fields.push(found);
        }
        applied
    }
}

/// The base for the relative addresses of the page.
fn base(page: &Page<'_>) -> PageUrl {
    let named = page.html.tree.nodes().find_map(|node| {
        let element = node.value().as_element()?;
        (element.name() == "base").then(|| element.attr("href"))?
    });
    let joined = named.and_then(|href| page.url.join(href).ok());
    joined.unwrap_or_else(|| page.url.clone())
}

impl Field {
    /// How its value is found, in one text.
    pub(super) fn print(&self) -> String {
        format!(
            "{} {:?} {:?} {} {:?}",
            self.source.key(),
            self.source.text(),
            self.attribute,
            self.many,
            self.transforms
        )
    }

    /// Looks for the field on a page.
    fn find(&self, page: &Page<'_>, tree: &Tree<'_>, base: &PageUrl) -> FieldResult {
        let text = || Some(self.source.text().to_owned());
        let mut result = FieldResult {
            name: self.name.clone(),
            value: None,
            css_path: None,
            xpath: None,
            regex: None,
            url: page.url.as_str().to_owned(),
            notes: Vec::new(),
        };
        match &self.source {
            Source::Css(_) => result.css_path = text(),
            Source::XPath(_) => result.xpath = text(),
            Source::Regex(_) => result.regex = text(),
        }
        let texts = match self.texts(page, tree) {
            Ok(texts) => texts,
            Err(why) => {
                result.notes.push(why);
                return result;
            }
        };
        if !self.many && texts.len() > 1 {
            let count = texts.len();
            let most = if count >= MAX_VALUES { " or more" } else { "" };
            result.notes.push(format!(
                "`{}` meets {count}{most} elements where one is meant; the first was taken",
                self.source.text()
            ));
        }
        let mut values = Vec::new();
        let mut room = MAX_FIELD_BYTES;
        for text in texts.iter().take(if self.many { MAX_VALUES } else { 1 }) {
            let most = MAX_VALUE_BYTES.min(room);
            match transform::apply(&self.transforms, text, base, most, &mut result.notes) {
                Ok(value) => {
                    room = room.saturating_sub(value.bytes());
                    values.push(value);
                }
                Err(why) => result.notes.push(why.to_string()),
            }
        }
        result.value = if self.many {
            values.retain(|value| !value.is_empty());
            (!values.is_empty()).then_some(FieldValue::Many(values))
        } else {
            values.into_iter().next()
        };
        result
    }

    /// The texts of what the source meets.
    fn texts(&self, page: &Page<'_>, tree: &Tree<'_>) -> Result<Vec<String>, String> {
        match &self.source {
            Source::Css(css) => {
                let mut texts = LimitedTexts::default();
                for element in tree.html().select(&css.selector) {
                    let text = match &self.attribute {
                        Some(name) => element.attr(name).map(str::to_owned),
                        None => Some(visible(element, texts.room())),
                    };
                    if !texts.push(text) {
                        break;
                    }
                }
                Ok(texts.all)
            }
            Source::XPath(xpath) => match xpath.find(tree).map_err(|e| e.to_string())? {
                XPathResult::Text(text) => Ok(vec![text]),
                XPathResult::Nodes(nodes) => {
                    let mut texts = LimitedTexts::default();
                    for node in nodes {
                        let text = self.text_of(tree, node, texts.room());
                        if !texts.push(text) {
                            break;
                        }
                    }
                    Ok(texts.all)
                }
            },
            Source::Regex(regex) => {
                let mut texts = LimitedTexts::default();
                for found in regex.captures_iter(page.markup) {
                    let text = found.get(1).or_else(|| found.get(0));
                    if !texts.push(text.map(|text| text.as_str().to_owned())) {
                        break;
                    }
                }
                Ok(texts.all)
            }
        }
    }

    fn text_of(&self, tree: &Tree<'_>, node: TreeNode, room: usize) -> Option<String> {
        match (&self.attribute, tree.element(node)) {
            (Some(name), Some(element)) => element.attr(name).map(str::to_owned),
            (Some(_), None) => None,
            (None, Some(element)) => Some(visible(element, room)),
            (None, None) => {
                let mut text = String::new();
                tree.text(node, &mut text, room);
                Some(text)
            }
        }
    }
}

/// Texts within the limits.
#[derive(Default)]
struct LimitedTexts {
    all: Vec<String>,
    bytes: usize,
}

impl LimitedTexts {
    fn room(&self) -> usize {
        MAX_VALUE_BYTES.min(MAX_FIELD_BYTES.saturating_sub(self.bytes))
    }

    /// Adds a text; false if there is no room left.
    fn push(&mut self, text: Option<String>) -> bool {
        if let Some(mut text) = text {
            let mut end = text.len().min(self.room());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            self.bytes += text.len();
            self.all.push(text);
        }
        self.all.len() < MAX_VALUES && self.bytes < MAX_FIELD_BYTES
    }
}

/// The text of an element as readers see it: without scripts and styles, and with a line break
/// where a block begins or ends.
pub(super) fn visible(element: scraper::ElementRef<'_>, room: usize) -> String {
    use ego_tree::iter::Edge;
    let mut out = String::new();
    let mut hidden = 0_usize;
    for edge in element.traverse() {
        if out.len() >= room {
            break;
        }
        let (node, opens) = match edge {
            Edge::Open(node) => (node, true),
            Edge::Close(node) => (node, false),
        };
        match node.value() {
            scraper::Node::Text(text) if opens && hidden == 0 => out.push_str(text),
            scraper::Node::Element(inner) => {
                let name = inner.name();
                if matches!(name, "script" | "style" | "template" | "noscript") {
                    hidden = if opens {
                        hidden + 1
                    } else {
                        hidden.saturating_sub(1)
                    };
                } else if (is_block(name) || name == "br") && node.id() != element.id() {
                    out.push('\n');
                }
            }
            _ => {}
        }
    }
    out
}

fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "dd"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "header"
            | "hr"
            | "li"
            | "main"
            | "nav"
            | "ol"
            | "p"
            | "pre"
            | "section"
            | "table"
            | "td"
            | "th"
            | "tr"
            | "ul"
    )
}
