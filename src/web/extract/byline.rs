//! Dates and authors that a page states to its readers beside its title.
//!
//! Short blocks around the heading are read: a date, alone or after words such as "published" or
//! "zuletzt geändert am", and a name after "by" or in an element for authors. Elsewhere on the page
//! a date counts only with such words, and only if there is no other. Comments of readers and
//! navigation are left out, and so are tables.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::address::PageUrl;
use crate::page::{BlockKind, Metadata};

use super::containers::Within;
use super::metadata::{date, in_words, may_have_date, names, without_byword};
use super::titles::SiteName;
use super::written::{BlockNote, WrittenPage};

/// The most words of a block that is read.
const SHORT: usize = 20;
/// The most words of a remark on when the page was changed; in a longer block it comes first,
/// within these bytes.
const REMARK: usize = 40;
const REMARK_BYTES: usize = 60;
/// Within how many characters after the word the date is.
const AFTER_REMARK: usize = 80;
/// The first year with pages.
const FIRST_PAGES: &str = "1991";
/// How many blocks before the title are read, and how many blocks and words after it.
const BEFORE: usize = 6;
const AFTER: usize = 40;
const AFTER_WORDS: usize = 150;
/// The most words of a name.
const NAME_WORDS: usize = 5;

const AROUND: u32 = Within::Nav as u32
    | Within::NavRole as u32
    | Within::Footer as u32
    | Within::Dialog as u32
    | Within::Form as u32;

/// Words for a change, in the languages whose dates are read.
const CHANGED: [&str; 22] = [
    "updated",
    "modified",
    "edited",
    "revised",
    "last reviewed",
    "last changed",
    "aktualisiert",
    "geändert",
    "bearbeitet",
    "stand:",
    "mis à jour",
    "modifié",
    "actualizado",
    "modificado",
    "aggiornato",
    "atualizado",
    "bijgewerkt",
    "zaktualizowano",
    "обновлено",
    "изменено",
    "更新",
    "修改",
];

/// Adds to the metadata of the page at `url` what its text states; `language` is the declared one.
/// An author by name is preferred to the site as its own author.
pub(super) fn complete(
    meta: &mut Metadata,
    url: &PageUrl,
    page: &WrittenPage,
    language: Option<&str>,
) {
    let Some(title) = title_block(meta, page) else {
        return;
    };
    let byline = Byline {
        page,
        language,
        near: near(page, title),
    };
    if meta.published.is_none() || meta.modified.is_none() {
        let (published, modified) = byline.dates();
        meta.published = meta.published.take().or(published);
        meta.modified = meta.modified.take().or(modified);
    }
    if meta.modified.is_none() {
        meta.modified = byline.remark();
    }
    let site = SiteName::of(url, None);
    if meta.authors.iter().all(|author| site.is(author)) {
        let authors = byline.authors();
        if !authors.is_empty() {
            meta.authors = authors;
        }
    }
}

/// The heading that is the title, or else the first of level 1.
fn title_block(meta: &Metadata, page: &WrittenPage) -> Option<usize> {
    let title = meta.title.as_deref().unwrap_or_default();
    let is_title = |number: &usize| {
        matches!(page.kind(*number), BlockKind::Heading(_)) && page.text_of(*number) == title
    };
    let is_first = |number: &usize| page.kind(*number) == BlockKind::Heading(1);
    let mut blocks = 0..page.len();
    let named = blocks.clone().find(is_title);
    named.or_else(|| blocks.find(is_first))
}

/// The blocks after a title up to its text, then those before it.
fn near(page: &WrittenPage, title: usize) -> Vec<usize> {
    let mut words = 0;
    let after = (title + 1..page.len()).take(AFTER).take_while(|number| {
        words += count(page.text_of(*number));
        words <= AFTER_WORDS
    });
    let after: Vec<usize> = after.collect();
    let before = (title.saturating_sub(BEFORE)..title).rev();
    let is_of_page = |number: &usize| {
        page.within(*number) & AROUND == 0
            && page.cell(*number).is_none()
            && !page.is_comment(*number)
    };
    after.into_iter().chain(before).filter(is_of_page).collect()
}

fn count(text: &str) -> usize {
    text.split_whitespace().count()
}

struct Byline<'p> {
    page: &'p WrittenPage,
    language: Option<&'p str>,
    /// The blocks that are read, in this order.
    near: Vec<usize>,
}

impl Byline<'_> {
    /// When the page was published and changed.
    fn dates(&self) -> (Option<String>, Option<String>) {
        let (mut published, mut modified) = (None, None);
        let mut listed: Vec<String> = Vec::new();
        for number in &self.near {
            let text = self.page.text_of(*number);
            let has_time = || self.page.times.iter().any(|note| note.block == *number);
            if count(text) > SHORT || !(may_have_date(text) || has_time()) {
                continue;
            }
            let before = number
                .checked_sub(1)
                .map(|before| self.page.text_of(before));
            let label = before.filter(|before| count(before) <= NAME_WORDS);
            let label = label.unwrap_or_default().to_lowercase();
            let lower = text.to_lowercase();
            match first_change(&lower) {
                // Both may be in one line.
                Some(at) if lower.len() == text.len() => {
                    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
                    let before = self.stated(before);
                    let changed = if before.is_some() {
                        let exact = self.exact_times(*number).nth(1);
                        exact.or_else(|| self.stated(after))
                    } else {
                        self.date(*number, after)
                    };
                    published = published.or(before);
                    modified = modified.or(changed);
                }
                Some(_) => modified = modified.or_else(|| self.date(*number, text)),
                None if first_change(&label).is_some() => {
                    modified = modified.or_else(|| self.date(*number, text));
                }
                None if self.page.kind(*number).is_of_list() => {
                    listed.extend(self.date(*number, text));
                }
                None => published = published.or_else(|| self.date(*number, text)),
            }
        }
        // A list of articles has no date of its own.
        listed.dedup();
        let only = listed.pop().filter(|_| listed.is_empty());
        (published.or(only), modified)
    }

    /// The dates of a block that are stated for machines.
    fn exact_times(&self, number: usize) -> impl Iterator<Item = String> {
        let times = self.page.times.iter();
        times
            .filter(move |note| note.block == number)
            .filter_map(|note| date(&note.text))
    }

    /// The date of a block: for machines, or in these words.
    fn date(&self, number: usize, text: &str) -> Option<String> {
        let exact = self.exact_times(number).next();
        exact.or_else(|| self.stated(text))
    }

    /// The date in these words. One from before there were pages belongs to what the page is about.
    fn stated(&self, text: &str) -> Option<String> {
        in_words(text, self.language).filter(|date| date.as_str() >= FIRST_PAGES)
    }

    /// When the page was changed, by the only remark that says so.
    fn remark(&self) -> Option<String> {
        let mut found: Option<String> = None;
        for number in 0..self.page.len() {
            let text = self.page.text_of(number);
            if !may_have_date(text) || self.page.is_comment(number) {
                continue;
            }
            let is_long = text.len() > REMARK * 12 || count(text) > REMARK;
            let read = if is_long {
                3 * REMARK_BYTES
            } else {
                usize::MAX
            };
            let lower: String = text.chars().take(read).collect();
            let lower = lower.to_lowercase();
            let at = first_change(&lower).filter(|at| *at <= REMARK_BYTES);
            let after = at.and_then(|at| lower.get(at..)).unwrap_or_default();
            let after: String = after.chars().take(AFTER_REMARK).collect();
            let Some(date) = self.date(number, &after) else {
                continue;
            };
            if found.as_ref().is_some_and(|found| *found != date) {
                return None;
            }
            found = Some(date);
        }
        found
    }

    fn authors(&self) -> Vec<String> {
        let named = |number: &usize| {
            let notes = self.page.names.iter();
            let notes = notes.filter(|note| note.block == *number);
            notes.flat_map(name_of).next()
        };
        if let Some(name) = self.near.iter().find_map(named) {
            return name;
        }
        let by = |number: &usize| {
            let text = self.page.text_of(*number);
            let after = without_byword(text, false);
            let is_byline = after.len() < text.len() && count(text) <= SHORT;
            // The name may be in the next block.
            let next = || self.page.text_of(number + 1);
            is_byline.then(|| person(if after.is_empty() { next() } else { after }, false))?
        };
        self.near.iter().find_map(by).unwrap_or_default()
    }
}

/// Where the first of the words for a change is in a text in lower case.
fn first_change(lower: &str) -> Option<usize> {
    // Made once: searches for a word in a short text cost less than their preparation.
    static FINDERS: LazyLock<[Finder<'static>; CHANGED.len()]> =
        LazyLock::new(|| CHANGED.map(Finder::new));
    let finders = FINDERS.iter();
    finders.filter_map(|word| word.find(lower.as_bytes())).min()
}

/// The authors in an element for authors.
fn name_of(note: &BlockNote) -> Option<Vec<String>> {
    let text = note.text.lines().map(str::trim).find(|line| {
        let after = without_byword(line, false);
        !after.is_empty() && !after.ends_with(':')
    })?;
    person(without_byword(text, false), true)
}

/// The authors with which a text begins; a user's name counts only where the markup names an author.
fn person(text: &str, is_marked: bool) -> Option<Vec<String>> {
    const ENDS: [char; 10] = ['|', '·', '•', '●', '–', '—', '(', ':', '\n', '@'];
    const NONE: [&str; 9] = [
        "visit",
        "about",
        "view",
        "more",
        "all posts",
        "follow",
        "see",
        "read",
        "guest",
    ];
    let end = text.find(ENDS).unwrap_or(text.len());
    let mut name = text.get(..end).unwrap_or_default();
    for word in [" on ", " in ", " updated", " published", " - ", " posted"] {
        let at = name.to_lowercase().find(word);
        name = at.and_then(|at| name.get(..at)).unwrap_or(name);
    }
    // A date after it.
    let digit = name.find(|c: char| c.is_ascii_digit());
    if let Some(at) = digit
        && let Some(space) = name.get(..at).and_then(|before| before.rfind(", "))
    {
        name = name.get(..space).unwrap_or(name);
    }
    let name = name.trim().trim_end_matches([',', '.', ';']).trim();
    let lower = name.to_lowercase();
    let words = count(name);
    let is_none = NONE.iter().any(|word| lower.starts_with(word))
        || in_words(name, None).is_some()
        || (words > 1 && may_have_date(name));
    let has_form = has_form_of_name(name) || (is_marked && words == 1);
    let is_name = (1..=NAME_WORDS).contains(&words) && has_form && !is_none;
    let found = if is_name { names(name) } else { Vec::new() };
    (!found.is_empty()).then_some(found)
}

/// Whether the words of a name begin as such words do.
fn has_form_of_name(name: &str) -> bool {
    const SMALL: [&str; 22] = [
        "and", "und", "et", "y", "e", "de", "del", "della", "der", "den", "di", "da", "do", "dos",
        "du", "la", "le", "van", "von", "zu", "bin", "al",
    ];
    let is_of_name =
        |word: &str| SMALL.contains(&word) || !word.starts_with(|c: char| c.is_lowercase());
    name.split_whitespace().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use super::super::{Options, extract_text};
    use super::*;
    use crate::page::Extractor;

    fn read(body: &str) -> Metadata {
        let url = PageUrl::parse("https://lamps.example/story").unwrap();
        let html = format!("<html lang=en><title>The lamp</title><body>{body}");
        let options = Options {
            documents: Some(Extractor::Main),
            ..Options::default()
        };
        extract_text(&url, &html, &options).metadata
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn dates_beside_the_title_are_read_by_what_stands_with_them() {
        for (byline, published, modified) in [
            ("<p>3 May 2024</p>", some("2024-05-03"), None),
            ("<p>By Ada Reef, May 3, 2024</p>", some("2024-05-03"), None),
            ("<p>Last updated: 3 May 2024</p>", None, some("2024-05-03")),
            (
                "<div><div>Last updated on:</div><div>3 May 2024</div></div>",
                None,
                some("2024-05-03"),
            ),
            (
                "<p>Published 1 May 2024 | Updated 3 May 2024</p>",
                some("2024-05-01"),
                some("2024-05-03"),
            ),
            (
                "<p>zuletzt geändert am 3. Mai 2024</p>",
                None,
                some("2024-05-03"),
            ),
            (
                "<time datetime=2024-05-03T10:00:00Z>two years ago</time>",
                some("2024-05-03T10:00:00Z"),
                None,
            ),
            (
                "<p>Published <time datetime=2024-05-01T08:00Z>1 May 2024</time>, updated \
                 <time datetime=2024-05-03T09:00Z>3 May 2024</time></p>",
                some("2024-05-01"),
                some("2024-05-03T09:00:00Z"),
            ),
            (
                "<ul><li>3 May 2024<li>By Ada Reef</ul>",
                some("2024-05-03"),
                None,
            ),
            (
                "<ul><li>Fog 3 May 2024<li>Lamp lit 1 May 2024</ul>",
                None,
                None,
            ),
            ("<p>Complete set 2015</p>", None, None),
            ("<p>Born 28 January 1975</p>", None, None),
            (
                "<p>The lamp was modified; a new wing opened in March 1898.</p>",
                None,
                None,
            ),
            // Day and month could be swapped.
            ("<p>05/06/2024</p>", None, None),
            (
                "<p>It was lit on 3 May 1811 by the first keeper, who had come from the other coast of the island to do it.</p>",
                None,
                None,
            ),
            ("<div class=comments><p>3 May 2024</p></div>", None, None),
            (
                "<table><tr><th>First lit<td>3 May 1811<tr><th>Height<td>41 m</table>",
                None,
                None,
            ),
        ] {
            let page = read(&format!("<h1>The lamp</h1>{byline}"));
            assert_eq!(
                (page.published, page.modified),
                (published, modified),
                "{byline}"
            );
        }
    }

    #[test]
    fn a_remark_anywhere_says_when_the_page_was_changed() {
        let foot =
            "<footer><p>This page was last edited on 3 May 2020, at 12:00 (UTC).</p></footer>";
        let page = read(&format!("<h1>The lamp</h1><p>It burns.</p>{foot}"));
        assert_eq!(page.modified, some("2020-05-03T12:00:00"));
        // Two posts of a thread.
        let two = format!("<h1>The lamp</h1>{foot}<p>Last edited on 4 May 2020.</p>");
        assert_eq!(read(&two.replace("footer", "div")).published, None);
        let far = "<p>x</p>".repeat(60);
        let two = format!("<h1>The lamp</h1>{far}{foot}<p>Last edited on 4 May 2020.</p>");
        assert_eq!(read(&two).modified, None);
    }

    #[test]
    fn authors_beside_the_title_are_named_without_what_surrounds_them() {
        for (byline, authors) in [
            ("<p>By Ada Reef</p>", &["Ada Reef"][..]),
            ("<p>Written by<p>Ada Reef", &["Ada Reef"]),
            (
                "<p>By Ada Reef and Ben Pier ● 3 May 2024",
                &["Ada Reef", "Ben Pier"],
            ),
            ("<p>Von Ada Reef am Montag", &[]),
            (
                "<span class=author-name>Ada Reef</span>, editor",
                &["Ada Reef"],
            ),
            (
                "<div class=post-author><a href=/u>keeper7</a></div>",
                &["keeper7"],
            ),
            ("<div class=author>About the author</div>", &[]),
            ("<p>By default:</p>", &[]),
            ("<p>Por ejemplo:</p>", &[]),
            ("<p><span>By Ada Reef</span><span>May 3, 2024</span>", &[]),
            ("<p>By Ada Di Pietro", &["Ada Di Pietro"]),
            ("<div class=comments><p>By Ada Reef</p></div>", &[]),
            (
                "<p>By the light of the lamp, they read the letters which had come with the last boat.",
                &[],
            ),
        ] {
            let page = read(&format!("<h1>The lamp</h1>{byline}"));
            assert_eq!(page.authors, authors, "{byline}");
        }
        // The site as its own author.
        let meta = "<meta name=author content='Lamps'>";
        assert_eq!(read(&format!("{meta}<h1>The lamp</h1>")).authors, ["Lamps"]);
        assert_eq!(
            read(&format!("{meta}<h1>The lamp</h1><p>By Ada Reef")).authors,
            ["Ada Reef"]
        );
    }
}
