//! The title of a page itself, without the name of its site.
//!
//! The first heading of level 1 that shares most of its words with the titles that the page states
//! is what its readers see. Without one, the stated title is taken, and the site's name before or
//! after a separator is left out.

use std::collections::HashSet;

use crate::address::PageUrl;

/// The share of a heading's words that the stated titles must have.
const SHARED: f64 = 0.5;
/// The longest heading that may be a title, in characters.
const MAX_CHARS: usize = 200;
/// The most words of a site's name.
const SITE_WORDS: usize = 6;

/// The title of the page at `url`; `stated` are those of `title`, Open Graph and JSON-LD.
pub(super) fn own(
    url: &PageUrl,
    site: Option<&str>,
    headings: &[String],
    stated: [Option<&str>; 3],
) -> Option<String> {
    let [title, open_graph, headline] = stated;
    let known: HashSet<String> = stated.into_iter().flatten().flat_map(words).collect();
    let is_title = |heading: &&String| {
        let words: HashSet<String> = words(heading).collect();
        let shared = words.intersection(&known).count();
        let count = heading.chars().count();
        (3..MAX_CHARS).contains(&count)
            && !words.is_empty()
            && shared as f64 >= words.len() as f64 * SHARED
    };
    let site = SiteName::of(url, site);
    let of_site = open_graph.or(title).map(|stated| site.without(stated));
    // The logo of a site may be a heading.
    let is_own = |heading: &&String| {
        let is_of_site = || of_site.is_some_and(|own| letters(own) != letters(heading));
        is_title(heading) && !(site.is(heading) && is_of_site())
    };
    let of_heading = headings.iter().find(is_own).map(String::as_str);
    let own = of_heading.or(of_site).or(headline)?;
    Some(own.to_owned()).filter(|own| !own.is_empty())
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// What the name of a site is recognised by, in lower case and without anything but letters and
/// digits.
pub(super) struct SiteName {
    stated: String,
    host: String,
    /// The longest label of the host, without `www` and the last.
    label: String,
}

impl SiteName {
    /// The name of the site of `url`, as the page states it if it does.
    pub(super) fn of(url: &PageUrl, stated: Option<&str>) -> Self {
        let host = url.host();
        let host = host.strip_prefix("www.").unwrap_or(host);
        let labels = host.rsplit_once('.').map_or(host, |(labels, _)| labels);
        let labels = labels.split('.').map(letters);
        Self {
            stated: letters(stated.unwrap_or_default()),
            host: letters(host),
            label: labels.max_by_key(String::len).unwrap_or_default(),
        }
    }

    /// Whether a text is the name of the site.
    pub(super) fn is(&self, part: &str) -> bool {
        let name = letters(part);
        let has_label = || self.label.len() > 3 && name.contains(&self.label);
        let is_in_host = || name.len() > 2 && self.host.contains(&name);
        let is_short = words(part).count() <= SITE_WORDS;
        !name.is_empty() && (name == self.stated || (is_short && (is_in_host() || has_label())))
    }

    /// A title without the site's name; without a name that is known, what comes before a bar.
    fn without<'t>(&self, title: &'t str) -> &'t str {
        let mut rest = title.trim();
        while let Some((before, after)) = split_last(rest) {
            if !self.is(after) {
                break;
            }
            rest = before;
        }
        if let Some((before, after)) = split_first(rest)
            && self.is(before)
        {
            rest = after;
        }
        let before_bar = rest.split('|').next().unwrap_or_default().trim();
        if before_bar.is_empty() {
            rest
        } else {
            before_bar
        }
    }
}

const SEPARATORS: [char; 8] = ['|', '·', '»', '•', '–', '—', '-', ':'];

/// The parts of a title before and after its last separator.
fn split_last(title: &str) -> Option<(&str, &str)> {
    let at = separators(title).last()?;
    split(title, at)
}

fn split_first(title: &str) -> Option<(&str, &str)> {
    let at = separators(title).next()?;
    split(title, at)
}

/// Where a title has separators, which have spaces around them.
fn separators(title: &str) -> impl Iterator<Item = usize> {
    title.char_indices().filter_map(|(at, c)| {
        let before = title.get(..at)?.chars().next_back();
        let after = title.get(at + c.len_utf8()..)?.chars().next();
        let is_apart = before.is_some_and(char::is_whitespace) || c == ':';
        let is_one = SEPARATORS.contains(&c) && is_apart && after.is_some_and(char::is_whitespace);
        (is_one || (c == '|' && before.is_some())).then_some(at)
    })
}

fn split(title: &str, at: usize) -> Option<(&str, &str)> {
    let (before, after) = title.split_at_checked(at)?;
    let after = after.trim_start_matches(SEPARATORS).trim();
    let before = before.trim_end_matches(SEPARATORS).trim();
    (!before.is_empty()).then_some((before, after))
}

fn letters(text: &str) -> String {
    let kept = text.chars().filter(|c| c.is_alphanumeric());
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_site_goes() {
        let url = PageUrl::parse("https://www.the-bush.example/x").unwrap();
        let own = |title: &str, heading: &[&str]| {
            let headings: Vec<String> = heading.iter().map(|h| (*h).to_owned()).collect();
            own(
                &url,
                Some("Lamp & Co"),
                &headings,
                [Some(title), None, None],
            )
            .unwrap()
        };
        for (title, expected) in [
            ("Outdoor gear – The Bush Company", "Outdoor gear"),
            ("Lamps: a history | Lamp & Co", "Lamps: a history"),
            ("Lamp & Co » Wicks - and more", "Wicks - and more"),
            ("Wicks | Great prices | Buy now", "Wicks"),
            ("Night-time - a story", "Night-time - a story"),
            ("Re: lamps", "Re: lamps"),
            ("Lamp & Co", "Lamp & Co"),
            ("| Lamp & Co", "| Lamp & Co"),
        ] {
            assert_eq!(own(title, &[]), expected);
        }
        assert_eq!(
            own("Lamps of 1887 | X", &["Shop", "The lamps of 1887"]),
            "The lamps of 1887"
        );
        assert_eq!(
            own("Lamps of 1887", &["Welcome to the shop"]),
            "Lamps of 1887"
        );
        assert_eq!(
            own("Wicks | Lamp & Co", &["Lamp & Co", "Wicks"]),
            "Wicks",
            "a logo"
        );
        assert_eq!(
            own("Lamp & Co", &["Lamp & Co"]),
            "Lamp & Co",
            "a front page"
        );
    }
}
