//! The directives for crawlers in `X-Robots-Tag` headers and `meta` elements.
//!
//! The vocabulary is Google's robots meta tag specification, with `noai` and `noimageai`
//! as introduced by DeviantArt and `noml` by Mojeek. Directives add up: none lifts a
//! restriction of another.

use crate::page::Directives;

/// Rules with a value after a colon, which are not names of crawlers. Others are named
/// `max-…`.
const VALUED: [&str; 2] = ["unavailable_after", "indexifembedded"];

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
        for word in words(&value) {
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
        && !name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Adds the directives of `<meta name=NAME content=CONTENT>`, if it has any for all crawlers
/// or for the one with the product token `agent`.
pub(super) fn of_meta(directives: &mut Directives, name: &str, content: &str, agent: &str) {
    let name = name.trim();
    if name.eq_ignore_ascii_case("robots") || name.eq_ignore_ascii_case(agent) {
        for rule in words(content) {
            apply(directives, rule);
        }
    }
}

/// The items of a list, with any separators and quotes.
fn words(list: &str) -> impl Iterator<Item = &str> {
    let words = list.split([',', ';']).flat_map(str::split_whitespace);
    words.map(|word| word.trim_matches(['"', '\'']))
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
