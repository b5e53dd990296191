//! The directives for crawlers in `X-Robots-Tag` headers and `meta` elements.
//!
//! The vocabulary is Google's robots meta tag specification, with `noai` and `noimageai`
//! as introduced by DeviantArt and `noml` by Mojeek. Directives add up: none lifts a
//! restriction of another.

use super::metadata;
use crate::page::Directives;

/// Rules with a value after a colon, which are not names of crawlers. Others are named
/// `max-…`.
const VALUED: [&str; 2] = [UNAVAILABLE_AFTER, "indexifembedded"];

/// The rule with a day from which a page is not to be kept.
const UNAVAILABLE_AFTER: &str = "unavailable_after";

/// A day that has passed, for one that cannot be read.
const PAST: &str = "0000-00-00";

/// The directives of `X-Robots-Tag` headers for all crawlers or for the one with the product
/// token `agent`.
///
/// A header is a list in which `name:` addresses what follows to one crawler, up to the next
/// such name. Items are separated as in meta elements.
pub(super) fn of_headers(values: &[String], agent: &str) -> Directives {
    let mut all = Directives::default();
    for value in values {
        let mut ours = true;
        // A name may be separated from its colon.
        let value = value.replace(" :", ":");
        for (at, word) in words(&value) {
            let mut rule = word;
            if let Some((name, rest)) = word.split_once(':')
                && is_agent(name)
                // An address is not a name, and neither is the time of a date.
                && !rest.starts_with("//")
            {
                ours = name.eq_ignore_ascii_case(agent) || name == "*";
                rule = rest;
            }
            if ours {
                apply(&mut all, rule);
                unavailable(&mut all, value.get(at..).unwrap_or_default(), rule);
            }
        }
    }
    all
}

/// Whether this may be the name of a crawler before a colon.
fn is_agent(name: &str) -> bool {
    let is_valued = |valued: &&str| name.eq_ignore_ascii_case(valued);
    let begin = name.get(..4).unwrap_or_default();
    !VALUED.iter().any(is_valued)
        && !begin.eq_ignore_ascii_case("max-")
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '*')
}

/// Adds the directives of `<meta name=NAME content=CONTENT>`, if it has any for all crawlers
/// or for the one with the product token `agent`.
pub(super) fn of_meta(directives: &mut Directives, name: &str, content: &str, agent: &str) {
    let name = name.trim();
    if name.eq_ignore_ascii_case("robots") || name.eq_ignore_ascii_case(agent) {
        for (at, rule) in words(content) {
            apply(directives, rule);
            unavailable(directives, content.get(at..).unwrap_or_default(), rule);
        }
    }
}

/// The items of a list, with any separators and quotes, and where each begins.
fn words(list: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_between = |c: char| matches!(c, ',' | ';' | '"' | '\'') || c.is_whitespace();
    let mut end = 0;
    list.split_inclusive(is_between).filter_map(move |item| {
        let begin = end;
        end += item.len();
        let word = item.trim_matches(is_between);
        (!word.is_empty()).then_some((begin, word))
    })
}

/// Adds the day of `unavailable_after` if that is what `rule` begins with. The date may have
/// commas and blanks, so it is looked for in `list`, which begins with the rule.
fn unavailable(directives: &mut Directives, list: &str, rule: &str) {
    let is_named = |name: &str| name.eq_ignore_ascii_case(UNAVAILABLE_AFTER);
    if !rule.get(..UNAVAILABLE_AFTER.len()).is_some_and(is_named) {
        return;
    }
    let (_, written) = list.split_at(list.find(rule).unwrap_or_default() + UNAVAILABLE_AFTER.len());
    let written = written.trim_start_matches([':', '=', ' ', '"', '\'']);
    // `Friday, 25-Jun-30 15:00:00 GMT, noindex`: one of the first two items has the date.
    let ends = written.match_indices([',', ';']).map(|(at, _)| at);
    let days = ends.take(2).chain([written.len()]).filter_map(|end| {
        let date = written.get(..end)?.trim().trim_matches(['"', '\'']);
        metadata::date(&with_century(date)).filter(|date| date.len() >= PAST.len())
    });
    let day = days.map(|date| date[..PAST.len()].to_owned()).next();
    directives.unavailable_from(day.unwrap_or_else(|| PAST.to_owned()));
}

/// A date in the form of RFC 850, `Friday, 25-Jun-30`, as `25 Jun 2030`.
fn with_century(date: &str) -> String {
    let date = date.split_once(", ").map_or(date, |(_, rest)| rest);
    let day = date.split_whitespace().next().unwrap_or_default();
    match day.split('-').collect::<Vec<_>>().as_slice() {
        [day, month, year] if year.len() == 2 && month.len() == 3 => {
            format!("{day} {month} 20{year}")
        }
        _ => date.to_owned(),
    }
}

fn apply(directives: &mut Directives, rule: &str) {
    match rule.to_ascii_lowercase().as_str() {
        "noindex" => directives.noindex = true,
        "nofollow" => directives.nofollow = true,
        "none" => {
            directives.noindex = true;
            directives.nofollow = true;
        }
        "noai" => directives.noai = true,
        "noml" => directives.noml = true,
        "noimageai" => directives.noimageai = true,
        "noimageindex" => directives.noimageindex = true,
        "noarchive" => directives.noarchive = true,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directives as letters: i(ndex), f(ollow), a(i), m(l), g (imageai), x
    /// (imageindex).
    fn letters(d: &Directives) -> String {
        [
            (d.noindex, 'i'),
            (d.nofollow, 'f'),
            (d.noai, 'a'),
            (d.noml, 'm'),
            (d.noimageai, 'g'),
            (d.noimageindex, 'x'),
        ]
        .iter()
        .filter_map(|(set, letter)| set.then_some(*letter))
        .collect()
    }

    #[test]
    fn headers() {
        for (values, expected) in [
            (&[] as &[&str], ""),
            (&["noai noimageai"], "ag"),
            (&["noai; noindex"], "ia"),
            (&["\"noai\""], "a"),
            (&["'noai, noimageai'"], "ag"),
            (&["noai spoor: noindex other: nofollow"], "ia"),
            (&["other: noindex; spoor:noai"], "a"),
            (&["max-thing: 3, noai"], "a"),
            (&["license: https://a.org/x, noai"], ""),
            (&["https://a.org/x, noai"], "a"),
            (&["all"], ""),
            (&["noindex"], "i"),
            (&["NoIndex , NOFOLLOW"], "if"),
            (&["none"], "if"),
            (&["noai, noimageai"], "ag"),
            (&["noimageindex"], "x"),
            (&["NOML"], "m"),
            (&["noml: noai"], ""),
            (&["noindex", "noai"], "ia"),
            (&["googlebot: noindex"], ""),
            (&["spoor: noindex"], "i"),
            (&["Spoor : nofollow"], "f"),
            (&["*: nofollow"], "f"),
            (&["badbot: noindex, nofollow, spoor: noai"], "a"),
            (&["noai, otherbot: noindex"], "a"),
            (
                &["unavailable_after: 25 Jun 2010 15:00:00 PST, noindex"],
                "i",
            ),
            (
                &["unavailable_after: Friday, 25-Jun-10 15:00:00 GMT, nofollow"],
                "f",
            ),
            (&["max-snippet: 20, noindex"], "i"),
            (
                &["unavailable_after: 2030-06-25T15:00:00Z, noai, noindex"],
                "ia",
            ),
            (&["max-image-preview:none"], ""),
            (&[":noindex", ",,", ""], ""),
        ] {
            let values: Vec<String> = values.iter().map(|v| (*v).to_owned()).collect();
            assert_eq!(
                letters(&of_headers(&values, "spoor")),
                expected,
                "{values:?}"
            );
        }
    }

    #[test]
    fn days_from_which_a_page_is_unavailable() {
        for (value, expected) in [
            (
                "unavailable_after: 25 Jun 2030 15:00:00 PST, noindex",
                Some("2030-06-25"),
            ),
            (
                "unavailable_after: Friday, 25-Jun-30 15:00:00 GMT, nofollow",
                Some("2030-06-25"),
            ),
            (
                "unavailable_after: Tue, 25 Jun 2030 15:00:00 GMT",
                Some("2030-06-25"),
            ),
            (
                "noai, Unavailable_After:2030-06-25T15:00:00+00:00",
                Some("2030-06-25"),
            ),
            ("unavailable_after: 2030-06-25; noai", Some("2030-06-25")),
            ("spoor: unavailable_after: 2030-06-25", Some("2030-06-25")),
            ("otherbot: unavailable_after: 2030-06-25", None),
            (
                "unavailable_after: 2030-06-25, unavailable_after: 2029-01-01",
                Some("2029-01-01"),
            ),
            ("unavailable_after: soon", Some(PAST)),
            ("unavailable_after: 2030", Some(PAST)),
            ("unavailable_after", Some(PAST)),
            ("unavailable_after:", Some(PAST)),
            ("unavailable: 2030-06-25", None),
        ] {
            let read = of_headers(&[value.to_owned()], "spoor");
            assert_eq!(read.unavailable_after.as_deref(), expected, "{value}");
            if !value.contains("bot:") && !value.contains("spoor:") {
                let mut read = Directives::default();
                of_meta(&mut read, "robots", value, "spoor");
                assert_eq!(read.unavailable_after.as_deref(), expected, "{value}");
            }
        }
    }

    #[test]
    fn meta_elements() {
        for (name, content, expected) in [
            ("robots", "noindex,nofollow", "if"),
            ("ROBOTS", " None ", "if"),
            ("spoor", "noai; noimageai", "ag"),
            ("robots", "noindex nofollow", "if"),
            ("googlebot", "noindex", ""),
            ("description", "noindex", ""),
            ("robots", "noml noimageindex", "mx"),
            ("tdm-reservation", "1", ""),
        ] {
            let mut directives = Directives::default();
            of_meta(&mut directives, name, content, "spoor");
            assert_eq!(letters(&directives), expected, "{name} {content}");
        }
        let mut directives = Directives::default();
        of_meta(&mut directives, "spoor", "noai", "reefbot");
        of_meta(&mut directives, "Reefbot", "'noindex'", "reefbot");
        assert_eq!(letters(&directives), "i");
        let values = ["spoor: noai, reefbot: noml".to_owned()];
        assert_eq!(letters(&of_headers(&values, "reefbot")), "m");
    }
}
