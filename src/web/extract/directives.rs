//! The directives for crawlers in `X-Robots-Tag` headers and `meta` elements.
//!
//! The vocabulary is Google's robots meta tag specification, with `noai` and `noimageai`
//! as introduced by DeviantArt and `noml` by Mojeek. Directives add up: none lifts a
//! restriction of another.

use crate::page::Directives;

/// The name by which directives may address this crawler alone.
const AGENT: &str = "spoor";

/// Rules with a value after a colon, which are not names of crawlers.
const VALUED: [&str; 5] = [
    "unavailable_after",
    "max-snippet",
    "max-image-preview",
    "max-video-preview",
    "indexifembedded",
];

/// The directives of `X-Robots-Tag` headers for all crawlers or for spoor.
///
/// A header is a comma-separated list in which `name:` addresses what follows to one
/// crawler, up to the next such name.
pub(super) fn of_headers(values: &[String]) -> Directives {
    let mut all = Directives::default();
    for value in values {
        let mut ours = true;
        for part in value.split(',') {
            let mut rule = part.trim();
            if let Some((name, rest)) = rule.split_once(':') {
                let name = name.trim();
                let is_rule = VALUED.iter().any(|v| name.eq_ignore_ascii_case(v));
                // A date after `unavailable_after:` has colons after blanks.
                if !is_rule && !name.is_empty() && !name.contains(char::is_whitespace) {
                    ours = name.eq_ignore_ascii_case(AGENT) || name == "*";
                    rule = rest.trim();
                }
            }
            if ours {
                apply(&mut all, rule);
            }
        }
    }
    all
}

/// Adds the directives of `<meta name=NAME content=CONTENT>`, if it has any.
pub(super) fn of_meta(directives: &mut Directives, name: &str, content: &str) {
    let name = name.trim();
    if name.eq_ignore_ascii_case("robots") || name.eq_ignore_ascii_case(AGENT) {
        for rule in content.split([',', ';']).flat_map(str::split_whitespace) {
            apply(directives, rule);
        }
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
            assert_eq!(letters(&of_headers(&values)), expected, "{values:?}");
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
            of_meta(&mut directives, name, content);
            assert_eq!(letters(&directives), expected, "{name} {content}");
        }
    }
}
