//! Terms of use as headers and markup state them: robots directives, TDM
//! reservations, licences.
//!
//! `tdm-reservation` and `tdm-policy` are those of the TDM Reservation Protocol (W3C
//! Community Group). Licences are what `rel=license` names (HTML standard, section "Link
//! type license"; RFC 4946), in elements and in `Link` headers (RFC 8288), and addresses
//! in the rights of Dublin Core. Those of JSON-LD are found in `json_ld`. This module does
//! not know what a statement forbids.

use super::directives;
use super::text::fold_some;
use crate::address::PageUrl;
use crate::page::{RslTerms, Terms, TermsHeaders};
use crate::robots::{reservation, signals_of};

/// The longest address that is recorded, in bytes; longer ones are skipped.
const MAX_ADDRESS: usize = 2_000;

/// The most characters of a licence that is named and not linked.
const MAX_NAME_CHARS: usize = 200;

/// The media type of RSL files.
const RSL: &str = "application/rsl+xml";

/// `meta` elements that may give the address of a licence.
const RIGHTS: [&str; 5] = [
    "dcterms.license",
    "dcterms.rights",
    "dc.license",
    "dc.rights",
    "dc.rights.license",
];

/// The terms in the headers of the response from `url`, for the product token `agent`.
pub(super) fn of_headers(url: &PageUrl, headers: &TermsHeaders, agent: &str) -> Terms {
    let reservations = headers.tdm_reservation.iter();
    let mut terms = Terms {
        directives: directives::of_headers(&headers.robots_tags, agent),
        tdm_reservation: reservations.filter_map(|v| reservation(v)).max(),
        tdm_policy: headers.tdm_policy.iter().find_map(|v| address(url, v)),
        ..Terms::default()
    };
    for (name, value) in headers
        .content_signals
        .iter()
        .flat_map(|list| signals_of(list))
    {
        terms.signal(name, value);
    }
    for (target, media) in headers
        .links
        .iter()
        .flat_map(|header| license_links(header))
    {
        name_license(&mut terms, url, target, media);
    }
    terms
}

/// Adds the terms of `<meta name=NAME content=CONTENT>`, if it has any for the product token
/// `agent`. If there are several reservations, the strictest counts.
pub(super) fn of_meta(
    terms: &mut Terms,
    base: &PageUrl,
    (name, content): (&str, &str),
    agent: &str,
) {
    let is = |other: &str| name.trim().eq_ignore_ascii_case(other);
    if is("tdm-reservation") {
        terms.tdm_reservation = terms.tdm_reservation.max(reservation(content));
    } else if is("tdm-policy") {
        let policy = terms.tdm_policy.take();
        terms.tdm_policy = policy.or_else(|| address(base, content));
    } else if is("content-signal") || is("content-usage") {
        for (name, value) in signals_of(content) {
            terms.signal(name, value);
        }
    } else if RIGHTS.iter().any(|rights| is(rights)) {
        terms.license(absolute(content));
    } else {
        directives::of_meta(&mut terms.directives, name, content, agent);
    }
}

/// Adds the target of an `a`, `area` or `link` with this `rel` and `type`, if it is a licence.
pub(super) fn of_link(terms: &mut Terms, base: &PageUrl, rel: &str, href: &str, media: &str) {
    let is_license = |token: &str| token.eq_ignore_ascii_case("license");
    if rel.split_ascii_whitespace().any(is_license) {
        name_license(terms, base, href, media);
    }
}

/// Adds a licence. With the media type of RSL it is a file that is read.
fn name_license(terms: &mut Terms, base: &PageUrl, href: &str, media: &str) {
    let Some(address) = address(base, href) else {
        return;
    };
    let media = media.split(';').next().unwrap_or_default().trim();
    if media.eq_ignore_ascii_case(RSL) {
        terms.name_rsl(RslTerms::unread(address.clone()));
    }
    terms.license([address]);
}

/// A licence from a text that may be its address or its name.
pub(super) fn license(base: &PageUrl, text: &str) -> Option<String> {
    let text = text.trim();
    if text.starts_with('/') {
        address(base, text)
    } else {
        absolute(text).or_else(|| fold_some(text, MAX_NAME_CHARS))
    }
}

fn address(base: &PageUrl, text: &str) -> Option<String> {
    let text = text.trim();
    let url = (1..=MAX_ADDRESS)
        .contains(&text.len())
        .then(|| base.join(text));
    let url = url?.ok()?.to_string();
    (url.len() <= MAX_ADDRESS).then_some(url)
}

/// An absolute address.
fn absolute(text: &str) -> Option<String> {
    let url = PageUrl::parse(text.trim()).ok()?.to_string();
    (url.len() <= MAX_ADDRESS).then_some(url)
}

/// The targets of a `Link` header whose relations include `license`, with their media types
/// (RFC 8288 section 3).
fn license_links(header: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = header;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            let (target, after) = rest.strip_prefix('<')?.split_once('>')?;
            let (parameters, next) = cut(after, b',');
            rest = next;
            let rel = parameter(parameters, "rel").unwrap_or_default();
            let mut tokens = rel.split_ascii_whitespace();
            if tokens.any(|token| token.eq_ignore_ascii_case("license")) {
                return Some((target, parameter(parameters, "type").unwrap_or_default()));
            }
        }
    })
}

/// The text before the first `separator` outside of quotes, and the text after it.
fn cut(text: &str, separator: u8) -> (&str, &str) {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if byte == separator && !quoted => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, "")
}

/// The first parameter with a name; later ones do not count.
fn parameter<'a>(mut parameters: &'a str, name: &str) -> Option<&'a str> {
    while !parameters.is_empty() {
        let (parameter, rest) = cut(parameters, b';');
        parameters = rest;
        if let Some((key, value)) = parameter.split_once('=')
            && key.trim().eq_ignore_ascii_case(name)
        {
            return Some(value.trim().trim_matches('"'));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn base() -> PageUrl {
        PageUrl::parse("https://a.org/b/").unwrap()
    }

    #[test]
    fn reservations_in_headers() {
        let headers = |reservation: &[&str], policy: &[&str]| TermsHeaders {
            tdm_reservation: reservation.iter().map(|v| (*v).to_owned()).collect(),
            tdm_policy: policy.iter().map(|v| (*v).to_owned()).collect(),
            ..TermsHeaders::default()
        };
        for (reservation, policy, expected) in [
            (&[] as &[&str], &[] as &[&str], (None, None)),
            (&["1"], &[], (Some(true), None)),
            (&[" 0 "], &["/p"], (Some(false), Some("https://a.org/p"))),
            (
                &["2", "1"],
                &["", "p.json"],
                (Some(true), Some("https://a.org/b/p.json")),
            ),
            (&["", " "], &["mailto:a@b.org", "http://"], (None, None)),
            (&["0", "1"], &[], (Some(true), None)),
            (&["0, 1"], &[], (Some(true), None)),
            (&["\"0\"", "false"], &[], (Some(false), None)),
            (&["\"1\""], &[], (Some(true), None)),
            (&["true"], &[], (Some(true), None)),
            (&["1.0"], &[], (Some(true), None)),
            (&["?"], &[], (Some(true), None)),
        ] {
            let terms = of_headers(&base(), &headers(reservation, policy), "spoor");
            assert_eq!(
                (terms.tdm_reservation, terms.tdm_policy.as_deref()),
                expected
            );
        }
    }

    #[test]
    fn licences_in_link_headers() {
        for (header, expected) in [
            ("<https://l.org/by>; rel=license", "https://l.org/by"),
            ("</by>;rel=\"license\"", "https://a.org/by"),
            (
                "<x>; title=\"a, b\"; REL=\"next LICENSE\"",
                "https://a.org/b/x",
            ),
            (
                "<a>; rel=next, <b>; rel=license,,<c>; rel=license",
                "https://a.org/b/b https://a.org/b/c",
            ),
            ("<a>; rel=next; rel=license", ""),
            ("<a>; title=\"q\\\", <b>; rel=license\"; rel=prev", ""),
            ("<a>; relish=license", ""),
            ("<a; rel=license", ""),
            ("a; rel=license", ""),
            ("<javascript:1>; rel=license", ""),
            ("", ""),
        ] {
            let headers = TermsHeaders {
                links: vec![header.to_owned()],
                ..TermsHeaders::default()
            };
            let licences = of_headers(&base(), &headers, "spoor").licences;
            assert_eq!(licences.join(" "), expected, "{header}");
        }
    }

    #[test]
    fn metadata() {
        let of = |name: &str, content: &str| {
            let mut terms = Terms::default();
            of_meta(&mut terms, &base(), (name, content), "spoor");
            terms
        };
        assert_eq!(of("TDM-Reservation", "1").tdm_reservation, Some(true));
        assert_eq!(of("tdm-reservation", "0").tdm_reservation, Some(false));
        assert_eq!(of("tdm-reservation", "yes").tdm_reservation, Some(true));
        assert!(of("tdm-reservation", "").is_silent());
        assert!(of("description", "noai").is_silent());
        assert_eq!(
            of("tdm-policy", "/p").tdm_policy.as_deref(),
            Some("https://a.org/p")
        );
        assert_eq!(
            of("DCTERMS.license", " https://l.org/by ").licences,
            ["https://l.org/by"]
        );
        assert!(of("dc.rights", "All rights reserved").is_silent());
        assert!(of("robots", "noml").directives.noml);
        for (first, second) in [("1", "0"), ("0", "1")] {
            let mut terms = of("tdm-reservation", first);
            let second = ("tdm-reservation", second);
            of_meta(&mut terms, &base(), second, "spoor");
            assert_eq!(terms.tdm_reservation, Some(true));
        }
    }

    #[test]
    fn licences_by_address_or_name() {
        for (text, expected) in [
            ("https://l.org/by", Some("https://l.org/by")),
            (" /by ", Some("https://a.org/by")),
            ("CC  BY 4.0", Some("CC BY 4.0")),
            ("", None),
            ("  ", None),
        ] {
            assert_eq!(license(&base(), text).as_deref(), expected, "{text}");
        }
        assert!(license(&base(), &"x".repeat(5_000)).is_some_and(|l| l.len() <= 200));
        assert_eq!(license(&base(), &format!("/{}", "x".repeat(5_000))), None);
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn no_statement_panics(header in "[<>a;,= \"\\\\relicns]{0,40}|\\PC{0,30}", name in "robots|tdm-policy|dc\\.rights|\\PC{0,8}", value in "\\PC{0,20}") {
            let headers = TermsHeaders {
                robots_tags: vec![header.clone()],
                tdm_reservation: vec![value.clone()],
                tdm_policy: vec![header.clone()],
                content_signals: vec![header.clone(), value.clone()],
                links: vec![header.clone(), format!("<{value}>;rel=license,{header}")],
            };
            let mut terms = of_headers(&base(), &headers, &name);
            of_meta(&mut terms, &base(), (&name, &value), &header);
            of_link(&mut terms, &base(), "license", &header, RSL);
            license(&base(), &value);
        }
    }
}
