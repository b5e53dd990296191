//! The metadata that a page states about itself: its dates, authors and title.
//!
//! Several vocabularies express the same, so each statement has a rank by its source:
//! JSON-LD, which is written for machines, before `meta` elements, before marked-up
//! visible text. Within a rank the first one counts. Ambiguous values are ignored:
//! `05/06/2024` is not accepted as a date.

use jiff::civil::Date;
use jiff::fmt::temporal::{DateTimeParser, PiecesOffset};
use jiff::fmt::{rfc2822, strtime};

use crate::page::Metadata;

use super::attributes::ElementAttributes;
use super::json_ld::Article;
use super::text::fold_some;

/// The most authors that are kept.
const MAX_AUTHORS: usize = 20;
/// The longest name that is accepted, in characters.
const MAX_NAME_CHARS: usize = 200;
/// The most characters of a title that are kept.
const MAX_TITLE_CHARS: usize = 1_000;
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
    heading: Option<String>,
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
            "article:published_time"
            | "og:published_time"
            | "datepublished"
            | "date"
            | "dc.date"
            | "dc.date.issued"
            | "dc.date.created"
            | "dcterms.date"
            | "dcterms.issued"
            | "dcterms.created"
            | "citation_publication_date"
            | "citation_online_date"
            | "citation_date"
            | "parsely-pub-date"
            | "sailthru.date"
            | "pubdate"
            | "publish-date"
            | "publication_date" => put(&mut self.published, StatementRank::Meta, || date(content)),
            "article:modified_time"
            | "og:updated_time"
            | "datemodified"
            | "dcterms.modified"
            | "dc.date.modified"
            | "last-modified"
            | "lastmod"
            | "revised" => put(&mut self.modified, StatementRank::Meta, || date(content)),
            "author" | "article:author" | "dc.creator" | "dcterms.creator" | "citation_author"
            | "parsely-author" | "sailthru.author" => self.author(StatementRank::Meta, content),
            _ => {}
        }
    }

    /// Handles an element; returns the meaning of its text, if it has one.
    pub(super) fn element(
        &mut self,
        name: &str,
        attributes: &impl ElementAttributes,
    ) -> Option<TextMeaning> {
        let marks = match name {
            "h1" if self.heading.is_none() => Some(TextMeaning::Heading),
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
            TextMeaning::Heading => self.heading = self.heading.take().or_else(|| title(text)),
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

    /// All metadata; `title` is the text of the `title` element.
    pub(super) fn finish(self, title: Option<&str>) -> Metadata {
        // Sites append their name to a title; what it shares with the heading is the
        // page's own. A headline that is not part of the title may describe something
        // else.
        let heading = self.heading.filter(|heading| heading.chars().count() >= 3);
        let in_title = |text: &String| title.is_none_or(|title| title.contains(text.as_str()));
        let shared = self.open_graph.map(|shared| match &heading {
            Some(heading) if shared.starts_with(heading.as_str()) => heading.clone(),
            _ => shared,
        });
        let own = || {
            let heading = heading.filter(in_title);
            let headline = || self.headline.filter(in_title);
            heading
                .or_else(headline)
                .or_else(|| title.map(str::to_owned))
        };
        let said = |said: RankedStatement<String>| said.map(|(_, value)| value);
        Metadata {
            published: said(self.published),
            modified: said(self.modified),
            title: shared.or_else(own),
            authors: self.authors.map(|(_, authors)| authors).unwrap_or_default(),
        }
    }

    fn author(&mut self, rank: StatementRank, text: &str) {
        let Some(name) = name(text) else {
            return;
        };
        match &mut self.authors {
            Some((known, authors)) if *known == rank => {
                if authors.len() < MAX_AUTHORS && !authors.contains(&name) {
                    authors.push(name);
                }
            }
            Some((known, _)) if *known < rank => {}
            _ => self.authors = Some((rank, vec![name])),
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
    fold_some(text, MAX_TITLE_CHARS)
}

/// The name of a person or organisation; addresses of profiles are not accepted.
fn name(text: &str) -> Option<String> {
    let name = fold_some(text, MAX_NAME_CHARS + 1)?;
    let is_address = name.contains("://") || name.starts_with("www.") || name.starts_with('/');
    let has_letters = name.chars().any(char::is_alphabetic);
    (has_letters && !is_address && name.chars().count() <= MAX_NAME_CHARS).then_some(name)
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
        .or_else(|| in_parts(text))
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

/// A date whose parts are in any order: as JavaScript, Unix and English texts write it, with a
/// time, a zone, a day of the week and numbers with slashes.
fn in_parts(text: &str) -> Option<String> {
    // A remark with the zone's name.
    let text = text.split('(').next().unwrap_or_default();
    let [mut days, mut time, mut half, mut offset] = [const { String::new() }; 4];
    for part in text.split(|c: char| c.is_whitespace() || c == ',') {
        let part = part.trim_end_matches('.');
        let lower = part.to_ascii_lowercase();
        let zone = lower.trim_start_matches("gmt").trim_start_matches("utc");
        if let Some((clock, end)) = clock(&lower).filter(|_| time.is_empty()) {
            (time, half) = (clock, end.to_owned());
        } else if matches!(lower.as_str(), "am" | "pm" | "a.m" | "p.m") {
            half = lower.replace('.', "");
        } else if let Some(found) = numeric_offset(zone) {
            offset = found;
        } else if matches!(lower.as_str(), "gmt" | "utc" | "ut" | "z") {
            offset = "Z".to_owned();
        } else if !is_aside(&lower) {
            let number = ["st", "nd", "rd", "th"]
                .iter()
                .find_map(|end| lower.strip_suffix(end))
                .filter(|number| number.bytes().all(|b| b.is_ascii_digit()));
            // The name of a zone, which follows the time.
            let is_zone = !time.is_empty() && lower.bytes().all(|b| b.is_ascii_alphabetic());
            if !is_zone && !part.is_empty() {
                days.push_str(number.unwrap_or(&lower));
                days.push(' ');
            }
        }
    }
    let date = day(days.trim_end())?.to_string();
    if time.is_empty() {
        return exact(&date);
    }
    let time = in_day(&time, &half)?;
    exact(&format!("{date}T{time}{offset}"))
}

/// The time of day in a part, and the text after it, such as `am`.
fn clock(part: &str) -> Option<(String, &str)> {
    let is_of_clock = |c: char| c.is_ascii_digit() || c == ':';
    let end = part.find(|c| !is_of_clock(c)).unwrap_or(part.len());
    let (clock, rest) = part.split_at_checked(end)?;
    let numbers: Vec<&str> = clock.split(':').collect();
    let are_short = numbers.iter().all(|number| matches!(number.len(), 1 | 2));
    // Fractions of a second are left out.
    let rest = match rest.strip_prefix('.') {
        Some(rest) if rest.bytes().all(|b| b.is_ascii_digit()) => "",
        _ => rest,
    };
    let is_one = matches!(numbers.len(), 2 | 3) && are_short && matches!(rest, "" | "am" | "pm");
    is_one.then(|| (clock.to_owned(), rest))
}

/// `15:21:00` from `3:21` and `pm`.
fn in_day(clock: &str, half: &str) -> Option<String> {
    let mut numbers = clock.split(':').map(str::parse::<u8>);
    let hour = numbers.next()?.ok()?;
    let hour = match half {
        "am" | "pm" if !(1..=12).contains(&hour) => return None,
        "am" => hour % 12,
        "pm" => hour % 12 + 12,
        _ => hour,
    };
    let minute = numbers.next()?.ok()?;
    let second = numbers.next().unwrap_or(Ok(0)).ok()?;
    Some(format!("{hour:02}:{minute:02}:{second:02}"))
}

/// `+02:00` from `+0200`, `+2` and the like.
fn numeric_offset(part: &str) -> Option<String> {
    let sign = part
        .chars()
        .next()
        .filter(|sign| matches!(sign, '+' | '-'))?;
    let digits = part.get(1..)?.replace(':', "");
    let is_number = digits.bytes().all(|b| b.is_ascii_digit());
    let (hours, minutes) = match digits.len() {
        1 | 2 => (digits.as_str(), "00"),
        4 => digits.split_at(2),
        _ => return None,
    };
    is_number.then(|| format!("{sign}{hours:0>2}:{minutes}"))
}

/// Whether a lower-case part is irrelevant to the date: a day of the week, or `at`.
fn is_aside(part: &str) -> bool {
    const DAYS: [&str; 7] = [
        "sunday",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
    ];
    let is_day = |day: &&str| part.len() > 2 && (day.starts_with(part) || part == "tues");
    matches!(part, "" | "at" | "on" | "of") || DAYS.iter().any(is_day)
}

/// A day given by numbers, or by numbers and the name of a month, in lower case. `None` if day and
/// month could be swapped.
fn day(text: &str) -> Option<Date> {
    let text = text.replace("sept ", "sep ");
    let forms = [
        "%B %d %Y", "%b %d %Y", "%d %B %Y", "%d %b %Y", "%d-%b-%Y", "%d/%b/%Y", "%Y %b %d",
        "%Y %B %d", "%Y-%b-%d",
    ];
    let in_words = forms
        .iter()
        .find_map(|form| strtime::parse(form, &text).ok());
    if let Some(found) = in_words {
        return found.to_date().ok();
    }
    let numbers: Vec<i16> = text
        .split(['-', '/', '.'])
        .map(|number| number.parse().ok().filter(|_| number.len() <= 4))
        .collect::<Option<_>>()?;
    let [a, b, c] = *numbers.as_slice() else {
        return None;
    };
    let small = |number: i16| i8::try_from(number).ok();
    if a > 31 {
        return Date::new(a, small(b)?, small(c)?).ok();
    }
    // A year of four digits, and a day that cannot be the month or is the same number.
    let (day, month) = match (a > 12, b > 12) {
        (true, false) => (a, b),
        (false, true) => (b, a),
        _ if a == b => (a, b),
        _ => return None,
    };
    (c > 999).then(|| Date::new(c, small(month)?, small(day)?).ok())?
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
            ("Updated: May 5, 2024", None),
            ("May 5, 2024 13:30 pm", None),
            ("May 5, 2024 25:30", None),
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
            assert_eq!(date(given), expected, "{given:?}");
        }
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
            title: some("Lamps | Journal"),
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
        let open = "<a rel=author><span itemprop=author>".repeat(50_000);
        assert!(read(&open).authors.is_empty());
        let json = format!(
            r##"<script type="application/ld+json">{{"@type":"Article","author":[{}1]}}</script>"##,
            "{\"name\":\"A\"},".repeat(20_000)
        );
        assert_eq!(read(&json).authors, ["A"]);
    }
}
