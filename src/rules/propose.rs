//! Makes selectors from example values on one or two pages of a site.
//!
//! Each element whose text or attribute is an example value gives candidates: its id, its name with
//! each of its classes, its descriptive attributes, and these within its enclosing elements. A
//! candidate is kept if it finds the right value on every page. If no element has exactly the
//! value, elements whose text contains it are taken, with the words around it. Candidates that meet
//! one element on each page come first, then shorter ones.

use scraper::{ElementRef, Html};

use super::part;
use super::read::css_of;
use crate::date::DateForm;

/// The most elements of a page that are considered.
const MAX_ELEMENTS: usize = 40;
/// The most candidates.
const MAX_CANDIDATES: usize = 2_000;
/// How many enclosing elements are considered.
const LEVELS: usize = 8;
/// The longest text of an element that is read as a date, in bytes: a line about the last change
/// may name many authors.
const MAX_AROUND: usize = 2_000;
/// The cost of reading a date from an element around the one that has it, in hundreds of bytes. It
/// is allowed, because other pages may have only the outer one.
const ENCLOSING: usize = 20;
/// The most proposals for a field.
const MOST: usize = 5;

/// A page with an example value.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The page.
    pub html: &'a Html,
    /// The value. `First words ... last words` stands for a longer text.
    pub value: &'a str,
}

/// A selector that finds the example values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The CSS selector.
    pub css: String,
    /// The attribute that has the value.
    pub attribute: Option<String>,
    /// Whether the value is found by reading a date.
    pub is_date: bool,
    /// The expression whose first group is the value, if it is part of the text.
    pub part: Option<String>,
    /// Whether it meets one element on each page.
    pub is_single: bool,
}

/// Why no selector can be proposed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// No element has the value.
    #[error("page {page}: no element has the value \"{value}\"; copy it as the page has it")]
    NotThere {
        /// The number of the page, from 1.
        page: usize,
        /// The value.
        value: String,
    },
    /// The elements have nothing in common.
    #[error("no selector finds the value on each page; give pages of the same kind")]
    NothingCommon,
}

/// Selectors for a field, best first.
///
/// # Errors
///
/// [`ProposeError`] if there is none.
pub fn propose(pages: &[Wanted<'_>]) -> Result<Vec<Proposal>, ProposeError> {
    if !pages.iter().all(|page| page.value.contains(GAP)) {
        let whole = propose_by(pages, Fit::Whole);
        return whole.or_else(|error| propose_by(pages, Fit::Part).map_err(|_| error));
    }
    // The first and the last words of a text are usually copied without regard to other content of
    // the element, such as a table before the first paragraph.
    let near = propose_by(pages, Fit::Near);
    near.or_else(|error| propose_by(pages, Fit::Within).map_err(|_| error))
}

/// Where the first and the last words of a value are in the text of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// At its start and its end.
    Whole,
    /// Anywhere, in this order, in the innermost element that has them like this, or in one around
    /// it that has hardly more text, on the first page. Other pages of a site may lack the
    /// innermost one while the outer one has an id; or a single paragraph may have the words.
    Near,
    /// Anywhere, in this order.
    Within,
    /// The whole value is part of the text.
    Part,
}

fn propose_by(pages: &[Wanted<'_>], fit: Fit) -> Result<Vec<Proposal>, ProposeError> {
    let mut candidates: Vec<SelectorCandidate> = Vec::new();
    for (nth, page) in pages.iter().enumerate() {
        let found = elements(page, fit);
        if found.is_empty() {
            return Err(ProposeError::NotThere {
                page: nth + 1,
                value: page.value.chars().take(100).collect(),
            });
        }
        // Candidates for all pages come from the first one.
        if nth == 0 {
            for (at, (element, how)) in found.iter().enumerate() {
                for (css, cost) in selectors(*element) {
                    let candidate = SelectorCandidate {
                        css,
                        how: how.clone(),
                        cost,
                        at,
                    };
                    if candidates.len() < MAX_CANDIDATES {
                        candidates.push(candidate);
                    }
                }
            }
        }
    }
    candidates.sort_by(|a, b| {
        // The innermost of elements with the same text, which comes last.
        let inner = |c: &SelectorCandidate| match fit {
            Fit::Near => (c.how.size, usize::MAX - c.at),
            _ => (0, 0),
        };
        let key = |c: &SelectorCandidate| (c.cost + c.how.cost(), inner(c), c.css.len());
        key(a).cmp(&key(b)).then_with(|| a.css.cmp(&b.css))
    });
    let mut proposals: Vec<(usize, Proposal)> = Vec::new();
    for candidate in candidates {
        let known = proposals
            .iter()
            .any(|(_, p)| p.css == candidate.css && p.attribute == candidate.how.attribute);
        if known {
            continue;
        }
        let Some((met, part)) = meets(&candidate, pages, fit) else {
            continue;
        };
        let proposal = Proposal {
            css: candidate.css,
            attribute: candidate.how.attribute,
            is_date: candidate.how.is_date,
            part,
            is_single: met == 1,
        };
        proposals.push((met, proposal));
    }
    if proposals.is_empty() {
        return Err(ProposeError::NothingCommon);
    }
    // The sort is stable: among equals, the cheaper ones stay first.
    proposals.sort_by_key(|(met, _)| *met != 1);
    let proposals = proposals.into_iter().map(|(_, proposal)| proposal);
    Ok(proposals.take(MOST).collect())
}

struct SelectorCandidate {
    css: String,
    how: ElementMatch,
    /// How specific it is.
    cost: usize,
    /// The number of its element on the first page.
    at: usize,
}

/// How an element has the value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ElementMatch {
    attribute: Option<String>,
    is_date: bool,
    /// How much other text surrounds a date, in hundreds of bytes.
    around: usize,
    /// The length of the text that has it, in bytes.
    size: usize,
}

impl ElementMatch {
    fn cost(&self) -> usize {
        usize::from(self.attribute.is_some()) + self.around
    }
}

/// Attributes that may have an interesting value.
const ATTRIBUTES: &[&str] = &[
    "content", "datetime", "href", "src", "title", "alt", "value",
];

/// The innermost elements that have the value, and attributes that have it.
fn elements<'a>(page: &Wanted<'a>, fit: Fit) -> Vec<(ElementRef<'a>, ElementMatch)> {
    let mut found = Vec::new();
    let wanted = folded(page.value);
    for node in page.html.tree.root().descendants() {
        let Some(element) = ElementRef::wrap(node) else {
            continue;
        };
        let name = element.value().name();
        if matches!(
            name,
            "script" | "style" | "html" | "head" | "noscript" | "template"
        ) {
            continue;
        }
        for attribute in ATTRIBUTES {
            if let Some(text) = element.attr(attribute)
                && let Some(is_date) = is_value(&folded(text), &wanted, fit)
            {
                let how = ElementMatch {
                    attribute: Some((*attribute).to_owned()),
                    is_date,
                    around: 0,
                    size: text.len(),
                };
                found.push((element, how));
            }
        }
        let text = text_of(element, &wanted);
        if let Some(is_date) = is_value(&text, &wanted, fit) {
            let how = ElementMatch {
                attribute: None,
                is_date,
                around: if is_date { text.len() / 100 } else { 0 },
                size: text.len(),
            };
            found.push((element, how));
        }
        if found.len() >= MAX_ELEMENTS {
            break;
        }
    }
    if fit == Fit::Near {
        let least = found.iter().map(|(_, how)| how.size).min();
        let most = nearly(least.unwrap_or_default());
        found.retain(|(_, how)| how.size <= most);
    } else if matches!(fit, Fit::Within | Fit::Part) {
        // All enclosing elements have it as well, but the innermost one is wanted.
        let all: Vec<_> = found.iter().map(|(element, _)| element.id()).collect();
        found.retain(|(element, _)| {
            let mut inner = element.descendants().skip(1);
            !inner.any(|node| all.contains(&node.id()))
        });
    }
    let inner: Vec<_> = found
        .iter()
        .filter(|(_, how)| how.is_date && how.attribute.is_none())
        .map(|(element, _)| element.id())
        .collect();
    for (element, how) in &mut found {
        let is_around = how.is_date
            && how.attribute.is_none()
            && element
                .descendants()
                .skip(1)
                .any(|node| inner.contains(&node.id()));
        how.around += usize::from(is_around) * ENCLOSING;
    }
    found
}

/// The text of an element, as far as it may still be the value.
fn text_of(element: ElementRef<'_>, wanted: &str) -> String {
    let most = if wanted.contains(GAP) {
        1 << 20
    } else {
        4 * wanted.len() + MAX_AROUND
    };
    let mut text = super::rule::visible(element, most + 1);
    if text.len() > most {
        text.clear();
    }
    folded(&text)
}

/// The maximum length of a text that nearly has this many bytes.
fn nearly(size: usize) -> usize {
    size + size / 20
}

fn folded(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('…', GAP)
}

/// The placeholder for omitted words in an example value.
const GAP: &str = "...";

/// Whether a text is the value: as it is, or as a date whose ISO form is the value.
fn is_value(text: &str, wanted: &str, fit: Fit) -> Option<bool> {
    if text.is_empty() || wanted.is_empty() {
        return None;
    }
    if text == wanted {
        return Some(false);
    }
    if fit == Fit::Part {
        return part::has(text, wanted).then_some(false);
    }
    if let Some((start, end)) = wanted.split_once(GAP) {
        let (start, end) = (start.trim_end(), end.trim_start());
        let is = match fit {
            Fit::Whole => {
                let is_long = text.len() >= start.len() + end.len();
                is_long && text.starts_with(start) && text.ends_with(end)
            }
            Fit::Near | Fit::Within | Fit::Part => {
                let behind = text.find(start).and_then(|at| text.get(at + start.len()..));
                behind.is_some_and(|behind| behind.contains(end))
            }
        };
        return is.then_some(false);
    }
    let is_iso = wanted.len() >= 10 && wanted.get(..10)?.parse::<jiff::civil::Date>().is_ok();
    if is_iso && text.len() <= MAX_AROUND {
        let read = DateForm::default().read(text).ok()?;
        let same = read.iso == wanted || (wanted.len() == 10 && read.iso.starts_with(wanted));
        return same.then_some(true);
    }
    None
}

/// The maximum number of elements that a candidate meets on a page, if the first is right on each,
/// and how a part of it is found.
fn meets(
    candidate: &SelectorCandidate,
    pages: &[Wanted<'_>],
    fit: Fit,
) -> Option<(usize, Option<String>)> {
    let css = css_of(&candidate.css).ok()?;
    let mut most = 0;
    let mut texts = Vec::new();
    for page in pages {
        let wanted = folded(page.value);
        let mut found = page.html.select(&css.selector);
        let first = found.next()?;
        let text = match &candidate.how.attribute {
            Some(name) => folded(first.attr(name)?),
            None => text_of(first, &wanted),
        };
        if is_value(&text, &wanted, fit) != Some(candidate.how.is_date) {
            return None;
        }
        most = most.max(1 + found.take(100).count());
        texts.push((text, wanted));
    }
    if fit != Fit::Part {
        return Some((most, None));
    }
    let texts: Vec<_> = texts
        .iter()
        .map(|(text, value)| (text.as_str(), value.as_str()))
        .collect();
    part::pattern(&texts).map(|pattern| (most, Some(pattern)))
}

/// Selectors of an element, each with its specificity.
fn selectors(element: ElementRef<'_>) -> Vec<(String, usize)> {
    let own = simple(element);
    let mut all = own.clone();
    let mut path = nth(element);
    let mut parent = element.parent().and_then(ElementRef::wrap);
    for level in 0..LEVELS {
        let Some(outer) = parent else {
            break;
        };
        parent = outer.parent().and_then(ElementRef::wrap);
        let names = simple(outer);
        for (outer_css, outer_cost) in names.iter().take(4) {
            for (css, cost) in own.iter().take(4) {
                all.push((format!("{outer_css} {css}"), outer_cost + cost + 1));
            }
            // By position, within an element that has a name.
            all.push((format!("{outer_css} > {path}"), outer_cost + 6 + 2 * level));
        }
        path = format!("{} > {path}", nth(outer));
    }
    all
}

/// An element by its position among its siblings.
fn nth(element: ElementRef<'_>) -> String {
    let name = element.value().name();
    let same = element
        .prev_siblings()
        .filter_map(ElementRef::wrap)
        .filter(|other| other.value().name() == name);
    format!("{name}:nth-of-type({})", same.count() + 1)
}

/// Selectors of an element by itself, the most descriptive ones first.
fn simple(element: ElementRef<'_>) -> Vec<(String, usize)> {
    let name = element.value().name();
    let mut all = Vec::new();
    let is_plain = |text: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(fits)
    };
    // Names with many digits are specific to one page.
    let is_made = |text: &str| text.chars().filter(char::is_ascii_digit).count() > 2;
    if let Some(id) = element.attr("id").filter(|id| is_plain(id)) {
        all.push((format!("#{id}"), 1 + 6 * usize::from(is_made(id))));
    }
    for attribute in ["itemprop", "property", "name", "rel"] {
        if let Some(text) = element.attr(attribute)
            && !text.contains(['"', '\\', '\n'])
            && text.len() <= 100
            && matches!(
                name,
                "meta" | "link" | "time" | "span" | "div" | "a" | "p" | "h1"
            )
        {
            all.push((format!("{name}[{attribute}=\"{text}\"]"), 1));
        }
    }
    let classes: Vec<&str> = element.value().classes().filter(|c| is_plain(c)).collect();
    for class in classes.iter().take(6) {
        all.push((
            format!("{name}.{class}"),
            2 + 4 * usize::from(is_made(class)),
        ));
    }
    if let [first, second, ..] = classes.as_slice() {
        all.push((format!("{name}.{first}.{second}"), 4));
    }
    let is_telling = matches!(
        name,
        "h1" | "title" | "time" | "article" | "main" | "header" | "address" | "figcaption"
    );
    all.push((name.to_owned(), if is_telling { 1 } else { 3 }));
    all
}
