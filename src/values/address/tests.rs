//! Canonical forms, refusals, and addresses that need no parser.

use super::*;
use proptest::prelude::*;

fn canonical(text: &str) -> String {
    PageUrl::parse(text).unwrap().to_string()
}

/// Found by fuzzing: a scheme has no length limit.
#[test]
fn a_scheme_without_end_is_not_repeated() {
    let refused = PageUrl::parse(&format!("{}:x", "Ht..".repeat(900))).unwrap_err();
    assert!(matches!(refused, AddressError::Scheme { .. }), "{refused}");
    assert!(refused.to_string().len() < 300, "{refused}");
}

#[test]
fn hosts_with_empty_labels_are_refused() {
    let base = PageUrl::parse("http://example.org/").unwrap();
    for text in [
        "http://.test/",
        "http://a..test/x",
        "https://..a.test:8443/",
        "http://a%2e.test/",
        "http://a\u{3002}.test/",
    ] {
        let refused = PageUrl::parse(text).unwrap_err();
        let empty = matches!(refused, AddressError::EmptyLabel { .. });
        assert!(empty, "{text}: {refused}");
        assert_eq!(base.join(text), Err(refused), "{text}");
        // Stored addresses are not judged again.
        let stored = PageUrl::from_stored(text).unwrap();
        let json = serde_json::to_string(&stored).unwrap();
        assert_eq!(serde_json::from_str::<PageUrl>(&json).unwrap(), stored);
    }
    let said = PageUrl::parse("http://a..test/").unwrap_err().to_string();
    assert!(said.starts_with("`a..test` is not a valid host"), "{said}");
    assert_eq!(canonical("http://a.test./"), "http://a.test/");
    assert_eq!(canonical("http://[::1]/"), "http://[::1]/");
}

#[test]
fn canonical_form_table() {
    for (given, expected) in [
        ("HTTP://Example.ORG", "http://example.org/"),
        ("http://example.org:80/a#top", "http://example.org/a"),
        ("https://example.org:443/?", "https://example.org/"),
        ("https://example.org:8443/", "https://example.org:8443/"),
        ("http://user:secret@example.org/a", "http://example.org/a"),
        ("http://example.org./a/../b/./c", "http://example.org/b/c"),
        (
            "http://example.org/%7euser/%c3%bc",
            "http://example.org/~user/%C3%BC",
        ),
        (
            "http://example.org/ü?q=ä b",
            "http://example.org/%C3%BC?q=%C3%A4%20b",
        ),
        (
            "http://example.org/a%2fb%2Eb",
            "http://example.org/a%2Fb%2Eb",
        ),
        ("http://example.org/100%", "http://example.org/100%"),
        (
            "http://example.org/?%%30a%4%31",
            "http://example.org/?%%30a%4%31",
        ),
        ("http://example.org/%%7a%2%7a", "http://example.org/%z%2z"),
        // With the sign between them, no escape would be completed.
        ("http://example.org/?%&%30", "http://example.org/?%&0"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        (
            " http://example.org/a?b=1&a=2 ",
            "http://example.org/a?b=1&a=2",
        ),
    ] {
        assert_eq!(canonical(given), expected, "{given}");
    }
}

#[test]
fn refusals_name_the_reason() {
    assert!(matches!(
        PageUrl::parse("ftp://a.org/"),
        Err(AddressError::Scheme { .. })
    ));
    assert!(matches!(
        PageUrl::parse("javascript:alert(1)"),
        Err(AddressError::Scheme { .. })
    ));
    assert!(matches!(
        PageUrl::parse("/relative"),
        Err(AddressError::Syntax { .. })
    ));
    assert!(matches!(
        PageUrl::parse("http://./"),
        Err(AddressError::NoHost { .. } | AddressError::Syntax { .. })
    ));
    let long = format!("http://example.org/{}", "a".repeat(MAX_URL_BYTES));
    assert!(matches!(
        PageUrl::parse(&long),
        Err(AddressError::TooLong { .. })
    ));
    // Refused for its length alone, although its canonical form would be short.
    let fragment = format!("#{}", "a".repeat(MAX_TEXT_BYTES));
    let base = PageUrl::parse("http://example.org/").unwrap();
    assert!(matches!(
        base.join(&fragment),
        Err(AddressError::TooLong { .. })
    ));
}

#[test]
fn passwords_are_not_repeated() {
    for text in [
        "http://user:secret@a b/",
        "http://user:secret@example.org:99999/",
        "https:\\\\user:secret@[::1/",
        "http:/user:se@cret@a b",
        "//user:secret@example.org/",
        "user:secret@example.org",
        "http://user:secret@/",
    ] {
        let why = PageUrl::parse(text).unwrap_err().to_string();
        assert!(!why.contains("cret"), "{text}: {why}");
    }
    let why = PageUrl::parse("http://a b/c@d").unwrap_err().to_string();
    assert!(why.contains("http://a b/c@d"), "{why}");
}

#[test]
fn keys_surt_and_robots() {
    let url = PageUrl::parse("https://www.example.org/wiki/Cat?x=1").unwrap();
    assert_eq!(url.host_key().as_str(), "www.example.org");
    assert_eq!(url.surt(), "org,example,www)/wiki/Cat?x=1");
    assert_eq!(
        url.robots_url().as_str(),
        "https://www.example.org/robots.txt"
    );
    let port = PageUrl::parse("http://127.0.0.1:8080/a").unwrap();
    assert_eq!(port.host_key().as_str(), "127.0.0.1:8080");
    assert_eq!(port.surt(), "127.0.0.1:8080)/a");
    assert_eq!(
        PageUrl::parse("http://example.org/").unwrap().host_key(),
        PageUrl::parse("https://example.org/").unwrap().host_key()
    );
}

#[test]
fn registered_domains() {
    for (url, expected) in [
        ("http://example.org/", "example.org"),
        ("http://a.b.example.org:8080/", "example.org"),
        ("http://www.example.co.uk/", "example.co.uk"),
        ("http://cat.github.io/", "cat.github.io"),
        ("http://co.uk/", "co.uk"),
        ("http://www.calendar.test/", "calendar.test"),
        ("http://localhost:1/", "localhost"),
        ("http://127.0.0.1:8080/", "127.0.0.1"),
        ("http://[::1]:8080/", "[::1]"),
        ("http://[2001:db8::1]/", "[2001:db8::1]"),
        ("http://www.bücher.example.de/", "example.de"),
    ] {
        let key = PageUrl::parse(url).unwrap().host_key();
        assert_eq!(key.registered_domain(), expected, "{url}");
    }
}

#[test]
fn join_resolves_like_a_browser() {
    let base = PageUrl::parse("http://example.org/a/b.html?q").unwrap();
    for (href, expected) in [
        ("c.html", "http://example.org/a/c.html"),
        ("../d", "http://example.org/d"),
        ("//other.org/x", "http://other.org/x"),
        ("///other.org/x", "http://other.org/x"),
        ("/\\\\//other.org/x", "http://other.org/x"),
        ("\\\\other.org\\x", "http://other.org/x"),
        ("//\n/\tother.org", "http://other.org/"),
        ("http:///other.org/x", "http://other.org/x"),
        ("https:/other.org/x", "https://other.org/x"),
        ("http:/x", "http://example.org/x"),
        ("http:x", "http://example.org/a/x"),
        ("?r=1", "http://example.org/a/b.html?r=1"),
        ("\n https://example.org/ \t", "https://example.org/"),
    ] {
        assert_eq!(base.join(href).unwrap().as_str(), expected);
    }
    assert!(base.join("mailto:a@b.org").is_err());
}

proptest! {
    #![proptest_config(spoor_testing::usual!())]

    #[test]
    fn canonical_is_idempotent(text in "https?://[a-zA-Z0-9.%-]{1,20}(:[0-9]{1,4})?(/([ -~ü]{0,20}|[%0-4a]{0,20}))?") {
        if let Ok(url) = PageUrl::parse(&text) {
            prop_assert_eq!(PageUrl::parse(url.as_str()).unwrap(), url);
        }
    }

    /// Addresses that need no parser are the same as with the parser.
    #[test]
    fn plain_addresses_are_as_parsed(
        base in "https?://(a.b|www.c-d.org|x--y.z|1.2.3.4|\\[::1\\]|a.b:8080|a..b|ü.de)(/(a/|b%7C/|/|:x/|[.]{1,3}/|x|'|[|])*)([?]q=[%'?]?[37]?)?",
        href in "(https?:)?(//)?(a.b|www.c-d.org|a[.]|xn--p1ai|0x7f.1|9|)(:80|:81)?([.]{0,3}/|[a-z]|:|%[0-9A-Fa-f][0-9A-Fa-f]|%|[ -~]|[\\x00-\\x1F]|ü){0,12}([?#]([ -~]|%[0-9A-F]{2}){0,6}){0,2}",
    ) {
        if let Ok(base) = PageUrl::from_stored(&base) {
            let (short, parts) = (href.trim(), |url: PageUrl| url.0);
            prop_assert_eq!(base.join(&href).map(parts), base.join_parsed(short, &href).map(parts));
            let parsed = PageUrl::parsed(short, &href);
            prop_assert_eq!(PageUrl::from_stored(&href).map(parts), parsed.map(parts));
        }
    }

    #[test]
    fn join_never_panics(href in "\\PC{0,60}") {
        let base = PageUrl::parse("http://example.org/a/b?c").unwrap();
        if let Ok(url) = base.join(&href) {
            prop_assert!(matches!(url.scheme(), "http" | "https"));
            prop_assert!(!url.host().is_empty());
        }
    }
}

#[test]
fn reserved_names() {
    for name in [
        "a.test",
        "A.TEST.",
        "localhost",
        "x.invalid",
        "y.onion",
        "x.invalid:80",
    ] {
        assert!(is_reserved(name), "{name}");
    }
    for name in ["test.org", "localhost.example.org", "example", "contest"] {
        assert!(!is_reserved(name), "{name}");
    }
}
