//! The metadata that a page states about itself: its dates, authors and title.
//!
//! Several vocabularies express the same, so each statement has a rank by its source:
//! JSON-LD, which is written for machines, before `meta` elements, before marked-up
//! visible text. Within a rank the first one counts. Ambiguous values are ignored:
//! `05/06/2024` is not accepted as a date.

use std::borrow::Cow;

use jiff::civil::Date;
use jiff::fmt::rfc2822;
use jiff::fmt::temporal::{DateTimeParser, PiecesOffset};

use crate::date::{DateError, DateForm, Language, Read};
use crate::page::Metadata;

use super::attributes::ElementAttributes;
use super::json_ld::Article;
use super::stream::decode;
use super::text::fold_some;
use super::titles;
use crate::address::PageUrl;

/// The most authors that are kept.
const MAX_AUTHORS: usize = 20;
/// The longest name that is accepted, in characters.
const MAX_NAME_CHARS: usize = 200;
/// The most characters of a title that are kept.
const MAX_TITLE_CHARS: usize = 1_000;
/// The most headings of level 1 of which one may be the title.
const MAX_HEADINGS: usize = 4;
/// The longest date that is parsed, in bytes.
const MAX_DATE_BYTES: usize = 64;
/// The years that are accepted: earlier texts are not dated this way, and years far ahead
/// are typos or placeholders.
const YEARS: std::ops::RangeInclusive<i16> = 1400..=2200;

/// The rank of a statement by its source; lower is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StatementRank {
    JsonLd,
    Meta,
    Marked,
}

/// A statement with the rank of its source.
type RankedStatement<T> = Option<(StatementRank, T)>;

/// Collects the metadata of a page.
#[derive(Debug, Default)]
pub(super) struct Says {
    published: RankedStatement<String>,
    modified: RankedStatement<String>,
    authors: RankedStatement<Vec<String>>,
    open_graph: Option<String>,
    headline: Option<String>,
    /// Headings of level 1.
    headings: Vec<String>,
    /// The name of the site.
    site: Option<String>,
}

/// The meaning of an element's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextMeaning {
    Author,
    Heading,
    Published,
    Modified,
}

impl Says {
    /// A `meta` element with one of its names, in lower case.
    pub(super) fn meta(&mut self, name: &str, content: &str) {
        match name {
            "og:title" => self.open_graph = self.open_graph.take().or_else(|| title(content)),
            "og:site_name" | "application-name" => {
                self.site = self.site.take().or_else(|| title(content));
            }
            "author" | "article:author" | "dc.creator" | "dcterms.creator" | "citation_author"
            | "parsely-author" | "sailthru.author" | "byl" => {
                self.author(StatementRank::Meta, content);
            }
            _ => match MetaDate::of(name) {
                Some(MetaDate::Published) => {
                    put(&mut self.published, StatementRank::Meta, || date(content));
                }
                Some(MetaDate::Modified) => {
                    put(&mut self.modified, StatementRank::Meta, || date(content));
                }
                None => {}
            },
        }
    }

    /// Handles an element; returns the meaning of its text, if it has one.
    pub(super) fn element(
        &mut self,
        name: &str,
        attributes: &impl ElementAttributes,
    ) -> Option<TextMeaning> {
        let marks = match name {
            "h1" if self.headings.len() < MAX_HEADINGS => Some(TextMeaning::Heading),
            "meta" | "link" | "a" | "span" | "div" | "p" | "time" | "address" | "cite" | "b"
            | "strong" | "li" | "abbr" => marked(name, attributes),
            _ => None,
        }?;
        // An attribute is more precise than the text.
        let machine = ["content", "datetime"]
            .iter()
            .find_map(|a| attributes.get(a));
        match machine {
            Some(value) if marks != TextMeaning::Heading => {
                self.text(marks, value);
                None
            }
            _ => (name != "meta" && name != "link").then_some(marks),
        }
    }

    /// The text of an element for which [`Says::element`] returned a meaning.
    pub(super) fn text(&mut self, marks: TextMeaning, text: &str) {
        match marks {
            TextMeaning::Author => self.author(StatementRank::Marked, text),
            // What looks like a tag here is text: "List<Integer>".
            TextMeaning::Heading if text.contains('<') => {
                self.headings.extend(fold_some(text, MAX_TITLE_CHARS));
            }
            TextMeaning::Heading => self.headings.extend(title(text)),
            TextMeaning::Published => {
                put(&mut self.published, StatementRank::Marked, || date(text))
            }
            TextMeaning::Modified => put(&mut self.modified, StatementRank::Marked, || date(text)),
        }
    }

    /// The description of the page in JSON-LD.
    pub(super) fn article(&mut self, article: &Article) {
        let day = |text: &Option<String>| text.as_deref().and_then(date);
        put(&mut self.published, StatementRank::JsonLd, || {
            day(&article.published)
        });
        put(&mut self.modified, StatementRank::JsonLd, || {
            day(&article.modified)
        });
        for author in &article.authors {
            self.author(StatementRank::JsonLd, author);
        }
        let headline = || article.headline.as_deref().and_then(title);
        self.headline = self.headline.take().or_else(headline);
    }

    /// The name of the site.
    pub(super) fn site(&mut self, name: &str) {
        self.site = self.site.take().or_else(|| title(name));
    }

    /// All metadata of the page at `url`; `title` is the text of the `title` element.
    pub(super) fn finish(self, url: &PageUrl, title: Option<&str>) -> Metadata {
        let said = |said: RankedStatement<String>| said.map(|(_, value)| value);
        let stated = [title, self.open_graph.as_deref(), self.headline.as_deref()];
        let own = titles::own(url, self.site.as_deref(), &self.headings, stated);
        Metadata {
            published: said(self.published).or_else(|| of_address(url)),
            modified: said(self.modified),
            title: own,
            authors: self.authors.map(|(_, authors)| authors).unwrap_or_default(),
        }
    }

    fn author(&mut self, rank: StatementRank, text: &str) {
        for name in names(text) {
            self.name(rank, name);
        }
    }

    fn name(&mut self, rank: StatementRank, name: String) {
        let is_known = |known: &String| known.to_lowercase() == name.to_lowercase();
        match &mut self.authors {
            Some((known, authors)) if *known == rank => {
                if authors.len() < MAX_AUTHORS && !authors.iter().any(is_known) {
                    authors.push(name);
                }
            }
            Some((known, _)) if *known < rank => {}
            _ => self.authors = Some((rank, vec![name])),
        }
    }
}

/// What the date in a `meta` element is, by the words of its name: there are hundreds of names.
enum MetaDate {
    Published,
    Modified,
}

impl MetaDate {
    fn of(name: &str) -> Option<Self> {
        const CHANGED: [&str; 5] = ["modif", "updat", "revis", "lastmod", "changed"];
        const PUBLISHED: [&str; 6] = ["publi", "issued", "creat", "release", "posted", "pubdate"];
        const ITSELF: [&str; 6] = [
            "date",
            "dc.date",
            "dcterms.date",
            "ms.date",
            "citation_date",
            "citation_online_date",
        ];
        const NEVER: [&str; 3] = ["expir", "unavailable", "event"];
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        let is_date = has(&["date", "time"]) || name.contains("dcterms.") || has(&["lastmod"]);
        if has(&NEVER) {
            None
        } else if has(&CHANGED) && (is_date || matches!(name, "revised" | "last-modified")) {
            Some(Self::Modified)
        } else if ITSELF.contains(&name) || (is_date && has(&PUBLISHED)) {
            Some(Self::Published)
        } else {
            None
        }
    }
}

fn put(
    said: &mut RankedStatement<String>,
    rank: StatementRank,
    value: impl FnOnce() -> Option<String>,
) {
    if said.as_ref().is_none_or(|(known, _)| rank < *known)
        && let Some(value) = value()
    {
        *said = Some((rank, value));
    }
}

/// The meaning of an element's text by its microdata, link types or microformats.
fn marked(name: &str, attributes: &impl ElementAttributes) -> Option<TextMeaning> {
    let is = |attribute: &str, wanted: &[&str]| {
        let tokens = attributes.get(attribute).unwrap_or_default();
        let mut tokens = tokens.split_ascii_whitespace();
        tokens.any(|token| wanted.iter().any(|w| token.eq_ignore_ascii_case(w)))
    };
    let time = name == "time";
    // Few elements have any of them.
    if !time && attributes.get("itemprop").is_none() && attributes.get("rel").is_none() {
        return None;
    }
    if is("itemprop", &["author", "creator"]) || (name != "link" && is("rel", &["author"])) {
        Some(TextMeaning::Author)
    } else if is("itemprop", &["datePublished"])
        || (time && attributes.get("pubdate").is_some())
        || (time && is("class", &["published", "dt-published"]))
    {
        Some(TextMeaning::Published)
    } else if is("itemprop", &["dateModified"]) || (time && is("class", &["updated", "dt-updated"]))
    {
        Some(TextMeaning::Modified)
    } else {
        None
    }
}

fn title(text: &str) -> Option<String> {
    fold_some(&plain(text), MAX_TITLE_CHARS)
}

/// The names of persons or organisations in a text, without the words before them; addresses of
/// profiles are not accepted.
pub(super) fn names(text: &str) -> Vec<String> {
    let text = plain(text);
    let Some(whole) = fold_some(&text, MAX_NAME_CHARS + 1) else {
        return Vec::new();
    };
    let whole = without_byword(&whole, true);
    // More than one, each of several words.
    let parts: Vec<&str> = [" and ", " & ", " und ", " et ", " y "]
        .iter()
        .map(|joint| whole.split(joint).collect::<Vec<_>>())
        .find(|parts| parts.len() > 1 && parts.iter().all(|part| part.trim().contains(' ')))
        .unwrap_or_else(|| vec![whole]);
    let parts = parts.into_iter().flat_map(|part| {
        let inner: Vec<&str> = part.split([',', ';']).collect();
        let are_names = inner.len() > 1 && inner.iter().all(|part| part.trim().contains(' '));
        if are_names { inner } else { vec![part] }
    });
    let is_name = |name: &&str| {
        let is_address = name.contains("://") || name.starts_with("www.") || name.starts_with('/');
        // Credits such as "content: Ada Reef, design: …" are no names either.
        let is_address = is_address || name.contains('@') || name.contains(": ");
        let has_letters = name.chars().any(char::is_alphabetic);
        has_letters && !is_address && name.chars().count() <= MAX_NAME_CHARS
    };
    parts
        .map(str::trim)
        .filter(is_name)
        .map(str::to_owned)
        .collect()
}

/// A name without "by", "von" and the like before it; `is_name` keeps those that may belong to it.
pub(super) fn without_byword(text: &str, is_name: bool) -> &str {
    const OF_NAMES: [&str; 6] = ["von", "par", "por", "di", "door", "przez"];
    const BYWORDS: [&str; 27] = [
        "written by",
        "authored by",
        "posted by",
        "published by",
        "created by",
        "reviewed by",
        "submitted by",
        "contributed by",
        "words by",
        "story by",
        "text by",
        "article by",
        "geschrieben von",
        "by",
        "by:",
        "von",
        "par",
        "por",
        "di",
        "door",
        "przez",
        "autor:",
        "auteur:",
        "autore:",
        "author:",
        "author",
        "автор:",
    ];
    let mut rest = text.trim();
    while let Some(after) = BYWORDS.iter().find_map(|byword| {
        let (before, after) = rest.split_at_checked(byword.len())?;
        let ends = after.is_empty() || after.starts_with([' ', ':']) || byword.ends_with(':');
        // "von Ada Reef", but "von Miller", "Von Miller" and "Di Pietro, Ada".
        let is_before_name = || {
            let after = after.trim_start();
            let begins = after.starts_with(char::is_uppercase) && after.contains(' ');
            before == *byword && begins && !after.contains(',')
        };
        let is_byword = !is_name || !OF_NAMES.contains(byword) || is_before_name();
        (ends && before.eq_ignore_ascii_case(byword) && is_byword).then_some(after)
    }) {
        rest = after.trim_start_matches([' ', ':']);
        if rest.is_empty() {
            break;
        }
    }
    rest
}

/// A text of JSON or an attribute, without markup that it may contain.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(['<', '&']) {
        return Cow::Borrowed(text);
    }
    let decoded = decode(text, false);
    let mut out = String::with_capacity(decoded.len());
    let mut rest = &*decoded;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let is_tag = tag
            .get(1..)
            .is_some_and(|tag| tag.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/'));
        let end = if is_tag { tag.find('>') } else { None };
        if is_tag && end.is_none() {
            // Nor does any later tag end; looking for that again and again would take too long.
            rest = tag;
            break;
        }
        if end.is_none() {
            out.push('<');
        }
        rest = tag.get(end.map_or(1, |end| end + 1)..).unwrap_or_default();
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The day in an address such as `/2016/02/09/name`.
fn of_address(url: &PageUrl) -> Option<String> {
    let is_number = |part: &str, digits: std::ops::RangeInclusive<usize>| {
        digits.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
    };
    let parts: Vec<&str> = url.path().split('/').collect();
    parts.windows(3).find_map(|three| match three {
        [y, m, d] if is_number(y, 4..=4) && is_number(m, 1..=2) && is_number(d, 1..=2) => {
            partial(&format!("{y}-{m}-{d}"))
        }
        _ => None,
    })
}

/// A date in ISO 8601, as precise as given; `None` if it is invalid or ambiguous.
pub(super) fn date(text: &str) -> Option<String> {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_DATE_BYTES {
        return None;
    }
    partial(text)
        .or_else(|| exact(text))
        .or_else(|| of_mail(text))
        .or_else(|| in_words(text, None))
        .or_else(|| in_words(&with_year_before_time(text)?, None))
}

/// The date as Unix writes it, `Sat Nov 18 15:21:41 CET 2017`, with its year before the time.
fn with_year_before_time(text: &str) -> Option<String> {
    let mut parts: Vec<&str> = text.split_whitespace().collect();
    let time = parts.iter().position(|part| part.contains(':'))?;
    let year = parts.pop().filter(|year| year.len() == 4)?;
    if time < parts.len() {
        parts.insert(time, year);
    }
    Some(parts.join(" "))
}

/// A date as people write it, in `language` if that is known, else in any.
pub(super) fn in_words(text: &str, language: Option<&str>) -> Option<String> {
    if !may_have_date(text) {
        return None;
    }
    let code = language.and_then(|language| language.split('-').next());
    let own = DateForm {
        languages: code.and_then(Language::of_code).into_iter().collect(),
        ..DateForm::default()
    };
    let read = match own.read(text) {
        // Pages declare languages that their text does not have. Short words of some are months of
        // others ("set 2015"), so a month alone is not enough.
        Err(DateError::None(_) | DateError::NoYear(_)) => {
            let read = DateForm::default().read(text).ok();
            let is_enough =
                |read: &Read| own.languages.is_empty() || read.iso.len() > "2015-09".len();
            return read.filter(is_enough).and_then(|read| possible(read.iso));
        }
        read => read,
    };
    possible(read.ok()?.iso)
}

/// A date of a year that a page may have.
fn possible(iso: String) -> Option<String> {
    partial(iso.get(..10).unwrap_or(&iso)).map(|_| iso)
}

/// Whether a text has as many digits as the shortest date with a year; few texts do, and reading one
/// compares each word with the months of all languages.
pub(super) fn may_have_date(text: &str) -> bool {
    let mut digits = text.bytes().filter(u8::is_ascii_digit);
    digits.nth(3).is_some()
}

fn believed(date: Date) -> Option<Date> {
    // The value that systems write if they know no date.
    let is_epoch = date == Date::constant(1970, 1, 1);
    (YEARS.contains(&date.year()) && !is_epoch).then_some(date)
}

/// `2024`, `2024-05`, `2024-05-17`, also with slashes: with the year first a date is
/// unambiguous.
fn partial(text: &str) -> Option<String> {
    let digits = |part: &str, n: std::ops::RangeInclusive<usize>| {
        n.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
    };
    let parts: Vec<&str> = text.split(['-', '/', '.']).collect();
    let (year, rest) = parts.split_first()?;
    if !digits(year, 4..=4) || !rest.iter().all(|part| digits(part, 1..=2)) {
        return None;
    }
    let number = |at: usize| rest.get(at).map_or(Some(1), |part| part.parse().ok());
    let date = Date::new(year.parse().ok()?, number(0)?, number(1)?).ok()?;
    // `2024-01-01` is a date like others; `1970` too.
    if !YEARS.contains(&date.year()) {
        return None;
    }
    match rest.len() {
        0 => Some(date.strftime("%Y").to_string()),
        1 => Some(date.strftime("%Y-%m").to_string()),
        2 => believed(date).map(|date| date.to_string()),
        _ => None,
    }
}

/// A date with a time, with or without an offset.
fn exact(text: &str) -> Option<String> {
    let pieces = DateTimeParser::new().parse_pieces(text).ok()?;
    let date = believed(pieces.date())?;
    let Some(time) = pieces.time() else {
        return Some(date.to_string());
    };
    let time = time.strftime("%H:%M:%S");
    let offset = match pieces.offset() {
        None => String::new(),
        Some(PiecesOffset::Zulu) => "Z".to_owned(),
        Some(PiecesOffset::Numeric(numeric)) => match numeric.offset().seconds() {
            0 => "Z".to_owned(),
            seconds => {
                let minutes = seconds.abs() / 60;
                let sign = if seconds < 0 { '-' } else { '+' };
                format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        },
        Some(_) => return None,
    };
    Some(format!("{date}T{time}{offset}"))
}

/// A date as in mails and HTTP (RFC 2822).
fn of_mail(text: &str) -> Option<String> {
    let zoned = rfc2822::DateTimeParser::new().parse_zoned(text).ok()?;
    exact(&zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())
}

#[cfg(test)]
mod tests {
    use super::super::{Options, extract_text};
    use super::*;
    use crate::address::PageUrl;

    fn read(html: &str) -> Metadata {
        let url = PageUrl::parse("https://news.test/2024/lamp").unwrap();
        extract_text(&url, html, &Options::default()).metadata
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn dates_are_as_exact_as_they_were_given() {
        let mut odd = Vec::new();
        for (given, expected) in [
            ("2024", some("2024")),
            (" 2024-05 ", some("2024-05")),
            ("2024-05-17", some("2024-05-17")),
            ("2024/5/7", some("2024-05-07")),
            ("20240517", some("2024-05-17")),
            (
                "2024-05-17T08:30:00+02:00",
                some("2024-05-17T08:30:00+02:00"),
            ),
            (
                "2024-05-17T08:30:00+0200",
                some("2024-05-17T08:30:00+02:00"),
            ),
            ("2024-05-17T08:30:00.123Z", some("2024-05-17T08:30:00Z")),
            (
                "2024-05-17T08:30:00-03:30",
                some("2024-05-17T08:30:00-03:30"),
            ),
            ("2024-05-17 08:30", some("2024-05-17T08:30:00")),
            (
                "Fri, 17 May 2024 08:30:00 +0200",
                some("2024-05-17T08:30:00+02:00"),
            ),
            (
                "Fri, 17 May 2024 06:30:00 GMT",
                some("2024-05-17T06:30:00Z"),
            ),
            ("May 17, 2024", some("2024-05-17")),
            ("17 May 2024", some("2024-05-17")),
            ("1887-11-01", some("1887-11-01")),
            // As JavaScript, Unix, Java and English texts write them.
            (
                "Sat Nov 18 2017 15:21:41 GMT+0000 (Coordinated Universal Time)",
                some("2017-11-18T15:21:41Z"),
            ),
            (
                "Sat Nov 18 2017 15:21:41 GMT-0330",
                some("2017-11-18T15:21:41-03:30"),
            ),
            ("Sat Nov 18 15:21:41 2017", some("2017-11-18T15:21:41")),
            ("Sat Nov 18 15:21:41 CET 2017", some("2017-11-18T15:21:41")),
            ("Sat Nov 18 15:21:41 UTC 2017", some("2017-11-18T15:21:41Z")),
            ("11/18/2017, 3:21:41 PM", some("2017-11-18T15:21:41")),
            ("18/11/2017, 15:21", some("2017-11-18T15:21:00")),
            ("18.11.2017 15:21", some("2017-11-18T15:21:00")),
            ("05/05/2024", some("2024-05-05")),
            (
                "2019-04-05 10:11:12 +0200",
                some("2019-04-05T10:11:12+02:00"),
            ),
            ("2019-04-05 10:11:12 UTC", some("2019-04-05T10:11:12Z")),
            ("2019/04/05 10:11:12.500", some("2019-04-05T10:11:12")),
            ("2019/4/5 9:05 +2", some("2019-04-05T09:05:00+02:00")),
            (
                "Sunday, May 5th, 2024 at 12:30 a.m.",
                some("2024-05-05T00:30:00"),
            ),
            ("Sept. 5, 2024 12:30pm", some("2024-09-05T12:30:00")),
            ("05-Apr-2019", some("2019-04-05")),
            ("Updated: May 5, 2024", some("2024-05-05")),
            ("May 5, 2024 13:30 pm", some("2024-05-05T13:30:00")),
            ("May 5, 2024 25:30", some("2024-05-05")),
            ("5 May", None),
            ("10:30", None),
            ("05/06/24", None),
            ("31/02/2024", None),
            // The day or the month may come first.
            ("05/06/2024 10:00", None),
            ("05/06/2024", None),
            ("05.06.2024", None),
            ("17 Mai", None),
            ("yesterday", None),
            ("", None),
            ("2024-13-01", None),
            ("2024-02-30", None),
            ("0001-01-01T00:00:00Z", None),
            ("1970-01-01T00:00:00Z", None),
            ("9999-12-31", None),
            ("2024-05-17-09", None),
            ("-2024", None),
            ("1715934600", None),
        ] {
            let found = date(given);
            if found != expected {
                odd.push((given, found));
            }
        }
        assert_eq!(odd, []);
        assert_eq!(date(&"2".repeat(1_000_000)), None);
    }

    #[test]
    fn a_news_page() {
        let page = read(
            r##"<html><head><title>The lamp is lit again - The Daily Test</title>
            <meta property="og:title" content="The lamp is lit again">
            <meta property="article:published_time" content="2024-05-17T06:30:00Z">
            <meta property="article:author" content="https://www.facebook.com/ada">
            <meta name="author" content="Desk">
            <script type="application/ld+json">{"@context":"https://schema.org","@graph":[
              {"@type":"WebSite","name":"The Daily Test","dateModified":"2001-01-01"},
              {"@type":"Person","@id":"#ada","name":"Ada Harbour"},
              {"@type":"NewsArticle","headline":"The lamp is lit, again",
               "datePublished":"2024-05-17T08:30:00+02:00","dateModified":"2024-05-18",
               "author":[{"@id":"#ada"},{"@type":"Person","name":"Ben Reef"}],
               "comment":{"@type":"Comment","author":{"name":"Troll"},"datePublished":"2024-06-01"}}
            ]}</script></head><body><h1>The lamp is lit again</h1>
            <p itemprop="author">Somebody else</p></body></html>"##,
        );
        let expected = Metadata {
            published: some("2024-05-17T08:30:00+02:00"),
            modified: some("2024-05-18"),
            title: some("The lamp is lit again"),
            authors: vec!["Ada Harbour".to_owned(), "Ben Reef".to_owned()],
        };
        assert_eq!(page, expected);
    }

    #[test]
    fn a_paper_and_a_blog() {
        let paper = read(
            r##"<title>Lamps | Journal</title><meta name="citation_author" content="Keeper, A.">
            <meta name="citation_author" content="Reef, B."><meta name="citation_author" content="Reef, B.">
            <meta name="citation_publication_date" content="2019/03"><meta name="DC.Date" content="2019-03-04">"##,
        );
        let expected = Metadata {
            published: some("2019-03"),
            modified: None,
            title: some("Lamps"),
            authors: vec!["Keeper, A.".to_owned(), "Reef, B.".to_owned()],
        };
        assert_eq!(paper, expected);
        let blog = read(
            r##"<title>My lamp &laquo; Harbour notes</title><body><article><h1>My <em>lamp</em></h1>
            <a rel="author" href="/about"> Cai   Pier </a>
            <time class="entry-date published" datetime="2012-07-01T10:00:00+00:00">last summer</time>
            <time class="updated" datetime="2013-01-02">2 Jan</time><p>Words.</p></article>"##,
        );
        let expected = Metadata {
            published: some("2012-07-01T10:00:00Z"),
            modified: some("2013-01-02"),
            title: some("My lamp"),
            authors: vec!["Cai Pier".to_owned()],
        };
        assert_eq!(blog, expected);
        let micro = read(
            r##"<body><div itemscope><span itemprop="author" itemscope><span itemprop="name">Dee</span></span>
            <meta itemprop="datePublished" content="2020-01-05"><span itemprop="dateModified">6 January 2020</span></div>"##,
        );
        assert_eq!(micro.published, some("2020-01-05"));
        assert_eq!(micro.modified, some("2020-01-06"));
        assert_eq!(micro.authors, ["Dee"]);
        assert_eq!(micro.title, None);
    }

    #[test]
    fn names_keep_what_belongs_to_them() {
        for (text, name) in [
            ("by Ada Reef", "Ada Reef"),
            ("von Ada Reef", "Ada Reef"),
            ("von Miller", "von Miller"),
            ("Von Miller", "Von Miller"),
            ("Di Pietro, Giuseppe", "Di Pietro, Giuseppe"),
        ] {
            assert_eq!(names(text), [name]);
        }
    }

    #[test]
    fn a_list_of_articles_has_no_date_of_its_own() {
        let list = |own: &str| {
            read(&format!(
                r##"<script type="application/ld+json">[
                {{"@type":"Article","url":"/one","datePublished":"2020-01-01","author":"A"}},
                {{"@type":"Article","url":"{own}","datePublished":"2021-01-01","author":"B"}}]</script>"##
            ))
        };
        assert_eq!(list("/two"), Metadata::default());
        // Unless one of them is this page.
        let own = list("https://news.test/2024/lamp");
        assert_eq!(
            (own.published, own.authors),
            (some("2021-01-01"), vec!["B".to_owned()])
        );
    }

    #[test]
    fn hostile_pages_are_bounded() {
        let names: String = (0..100_000)
            .map(|n| format!("<meta name=author content=\"N{n} x\">"))
            .collect();
        let page = read(&names);
        assert_eq!(page.authors.len(), MAX_AUTHORS);
        let long = "x ".repeat(1 << 17);
        let page = read(&format!(
            "<meta name=author content=\"{long}\"><meta name=date content=\"{long}\">\
             <meta property=og:title content=\"{long}\"><a rel=author>{long}</a>"
        ));
        assert!(page.authors.is_empty() && page.published.is_none());
        assert_eq!(page.title.unwrap().chars().count(), MAX_TITLE_CHARS - 1);
        for odd in ["<", "<a", "<a <"] {
            let long = odd.repeat(300_000);
            let page = read(&format!("<meta property=og:title content=\"{long}\">"));
            assert_eq!(
                page.title.unwrap().chars().count(),
                MAX_TITLE_CHARS,
                "{odd}"
            );
        }
        let open = "<a rel=author><span itemprop=author>".repeat(50_000);
        assert!(read(&open).authors.is_empty());
        let json = format!(
            r##"<script type="application/ld+json">{{"@type":"Article","author":[{}1]}}</script>"##,
            "{\"name\":\"A\"},".repeat(20_000)
        );
        assert_eq!(read(&json).authors, ["A"]);
    }
}
