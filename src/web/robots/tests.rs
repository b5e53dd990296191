//! What a robots.txt says, in spoor's own cases; Google's are in `google`.

mod google;

use super::*;
use proptest::prelude::*;
use robotstxt::DefaultMatcher;
use robotstxt::matcher::{RobotsMatchStrategy, RobotsMatcher};

fn allows(body: &str, path: &str) -> bool {
    let url = PageUrl::parse("http://example.org")
        .unwrap()
        .join(path)
        .unwrap();
    Robots::parse("spoor", body.as_bytes()).allows(&url)
}

#[test]
fn rfc_9309_matching() {
    let body = "User-Agent: *\nDisallow: /private/\nAllow: /private/open\nDisallow: *.gif$\n\
                User-Agent: spoor-news\nDisallow: /\n";
    for (path, expected) in [
        ("/", true),
        ("/private/", false),
        ("/private/a", false),
        ("/private/open.html", true),
        ("/a.gif", false),
        ("/a.gif?x", true),
        ("/robots.txt", true),
    ] {
        assert_eq!(allows(body, path), expected, "{path}");
    }
}

#[test]
fn rules_in_a_page_of_html_are_meant() {
    let body = "<!DOCTYPE html><html><body><pre>User-agent: *<br>Disallow: /no\n\
                Disallow: /a&amp;b</pre></body></html>";
    for (path, expected) in [("/", true), ("/no", false), ("/a&b", false), ("/yes", true)] {
        assert_eq!(allows(body, path), expected, "{path}");
    }
    let nothing = "<html><head><title>Not found</title></head><body>No such page.</body></html>";
    assert!(allows(nothing, "/"));
    assert!(
        allows("<", "/") && allows("<a", "/") && !allows("<br>User-agent: *\nDisallow: /", "/")
    );
}

#[test]
fn license_lines_are_for_all_crawlers() {
    let body = b"License: /a.xml\nUser-agent: other\nlicense : https://b.org/rsl\nDisallow: /\n";
    let robots = Robots::parse("spoor", body);
    assert_eq!(robots.licenses(), ["/a.xml", "https://b.org/rsl"]);
    let body = "User-agent: a\nLicense: /x\nUser-agent: spoor\nDisallow: /no\n";
    assert!(!allows(body, "/no"), "the line ends no group");
}

#[test]
fn thousands_of_stars_do_not_hold_up_others() {
    let mut body = String::from("User-agent: *\nAllow: /open\n");
    let mut n = 10_000;
    while body.len() < MAX_ROBOTS_BYTES - 100 {
        body.push_str(&format!("Disallow: /*{n}a*b$\n"));
        n += 1;
    }
    let rules = Robots::parse("spoor", body.as_bytes());
    let rule = |path: &str| {
        let url = PageUrl::parse("http://example.org").unwrap();
        let found = rules.rule_for(&url.join(path).unwrap());
        found.map(|rule| (rule.line(), rule.allows()))
    };
    // Every address of a usual length is checked against all of them.
    let usual = "x".repeat(200);
    assert_eq!(rule(&format!("/{usual}")), None);
    assert_eq!(rule(&format!("/{usual}10000ab")), Some((3, false)));
    assert_eq!(
        rule(&format!("/{usual}{}ab", n - 1)).map(|r| r.1),
        Some(false)
    );
    assert_eq!(rule("/open"), Some((2, true)));
    // The longest addresses are forbidden, regardless of the last rules.
    let longest = "x".repeat(7_900);
    assert_eq!(rule(&format!("/{longest}")), Some((0, false)));
    assert_eq!(rule(&format!("/open{longest}")), Some((0, false)));
    // Without wildcards no length is too long.
    let plain = body
        .replace('*', "y")
        .replace("User-agent: y", "User-agent: *");
    let plain = Robots::parse("spoor", plain.as_bytes());
    let url = PageUrl::parse(&format!("http://example.org/open{longest}")).unwrap();
    assert_eq!(plain.rule_for(&url).map(Rule::line), Some(2));
}

#[test]
fn own_group_goes_before_star_and_groups_merge() {
    let body = "user-agent: SPOOR\ndisallow: /a\n\nuser-agent: *\ndisallow: /\n\nuser-agent: spoor\ndisallow: /b\n";
    assert!(!allows(body, "/a"));
    assert!(!allows(body, "/b"));
    assert!(allows(body, "/c"));
}

#[test]
fn percent_encoding_is_compared_decoded_where_it_may_be() {
    assert!(!allows(
        "user-agent: *\ndisallow: /foo/bar/%E3%83%84",
        "/foo/bar/ツ"
    ));
    assert!(!allows(
        "user-agent: *\ndisallow: /foo/bar/ツ",
        "/foo/bar/%E3%83%84"
    ));
}

#[test]
fn crawl_delay_and_sitemaps() {
    let body = "User-agent: *\nCrawl-delay: 7\n\nUser-agent: spoor\nUser-agent: other\nCrawl-delay: 2.5\n\
                Sitemap: https://example.org/map.xml\n";
    let robots = Robots::parse("spoor", body.as_bytes());
    assert_eq!(robots.crawl_delay(), Some(Duration::from_millis(2500)));
    assert_eq!(robots.sitemaps(), ["https://example.org/map.xml"]);
    let other = Robots::parse("someone", body.as_bytes());
    assert_eq!(other.crawl_delay(), Some(Duration::from_secs(7)));
    let seconds = |n| Some(Duration::from_secs(n));
    for (value, expected) in [
        ("-1", None),
        ("NaN", None),
        ("soon", None),
        ("10s", seconds(10)),
        ("10 seconds # please", seconds(10)),
        ("10,5", Some(Duration::from_millis(10_500))),
        ("3\nCrawl-delay: 20\nCrawl-delay: 5", seconds(20)),
        ("inf", Some(Duration::MAX)),
        ("1e400", Some(Duration::MAX)),
        (
            "9999999999999999999999999999999999999999",
            Some(Duration::MAX),
        ),
    ] {
        let text = format!("User-agent: *\nCrawl-delay: {value}\n");
        let robots = Robots::parse("spoor", text.as_bytes());
        assert_eq!(robots.crawl_delay(), expected, "{value}");
    }
}

#[test]
fn long_lines_and_marks_do_no_harm() {
    let body = format!(
        "\u{feff}user-agent: *\ndisallow: /{}\ndisallow: /x\n",
        "ü".repeat(40_000)
    );
    assert!(!allows(&body, "/x"));
    assert!(allows(&body, "/y"));
    assert!(allows("", "/anything"));
}

#[test]
fn the_size_is_that_of_the_rules_that_govern() {
    let foreign = format!("user-agent: other\n{}", "disallow: /path\n".repeat(1_000));
    assert!(Robots::parse("spoor", foreign.as_bytes()).size() < 500);
    let mut own = "user-agent: spoor\n".to_owned();
    own.extend((0..1_000).map(|i| format!("disallow: /path/{i}\n")));
    let size = Robots::parse("spoor", own.as_bytes()).size();
    assert!((9_000..100_000).contains(&size), "{size}");
}

#[test]
fn a_rule_is_named_as_it_was_written() {
    let robots = Robots::parse("spoor", b"user-agent: *\ndisallow: /a\nallow: /a/b$\n");
    let rule = |path: &str| {
        let url = PageUrl::parse(&format!("http://example.org{path}")).unwrap();
        robots.rule_for(&url).map(Rule::to_string)
    };
    assert_eq!(rule("/a/c").as_deref(), Some("Disallow: /a"));
    assert_eq!(rule("/a/b").as_deref(), Some("Allow: /a/b$"));
    assert_eq!(rule("/"), None);
}

#[test]
fn a_star_may_end_at_any_place() {
    let body = "user-agent: *\ndisallow: /*.html$\n";
    assert!(!allows(body, "/a.b.html"));
    let url = "http://example.org/a.b.html";
    let by_crate = DefaultMatcher::default().one_agent_allowed_by_robots(body, "spoor", url);
    assert!(by_crate, "the crate is mended; its own matcher will do");
}

/// The crate's whole-body matcher, but matching single patterns with this module, because the crate
/// gets `*` wrong.
#[derive(Default)]
struct Corrected;

impl RobotsMatchStrategy for Corrected {
    fn match_allow(&self, path: &str, pattern: &str) -> i32 {
        match Rule::of_line(1, false, pattern).first() {
            Some(rule) if !rule.covers(path) => -1,
            _ => pattern.len() as i32,
        }
    }

    fn match_disallow(&self, path: &str, pattern: &str) -> i32 {
        self.match_allow(path, pattern)
    }
}

/// Lines of a robots.txt; `star` is what replaces a star.
fn lines(star: &'static str) -> impl Strategy<Value = Vec<String>> {
    let agent = proptest::sample::select(vec![
        "spoor",
        "Spoor/1.0",
        "SPOOR x",
        "*",
        "* y",
        "*x",
        "other",
        "spoor-news",
        "",
    ])
    .prop_map(|a| format!("user-agent: {a}"));
    let key = proptest::sample::select(vec!["allow", "Disallow", "dissalow", "ALLOW "]);
    let path = format!("(/[ab{star}]{{0,3}}){{0,3}}(index\\.html?)?(%2F|ü|=&)?[$]?");
    let path = proptest::string::string_regex(&path).unwrap();
    let rule = (key, path).prop_map(|(k, p)| format!("{k}: {p}"));
    let odd = proptest::sample::select(vec!["", "# x", "disallow /a", "nonsense", ": /"]);
    let line = prop_oneof![2 => agent, 6 => rule, 1 => odd.prop_map(str::to_owned)];
    proptest::collection::vec(line, 0..14)
}

fn addresses() -> impl Strategy<Value = PageUrl> {
    "(/[ab]{0,3}){1,3}(index\\.html?)?(%2F|ü|[?]=&|[?]a)?"
        .prop_map(|path| PageUrl::parse(&format!("http://example.org{path}")).unwrap())
}

proptest! {
    #![proptest_config(spoor_testing::usual!())]

    #[test]
    fn any_bytes_have_a_reading(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let url = PageUrl::parse("http://example.org/a%20b?c=%C3").unwrap();
        let robots = Robots::parse("spoor", &bytes);
        let _allowed: bool = robots.allows(&url);
    }

    #[test]
    fn the_rules_kept_decide_as_the_whole_file(lines in lines(""), urls in proptest::collection::vec(addresses(), 1..8)) {
        let body = lines.join("\n");
        let robots = Robots::parse("spoor", body.as_bytes());
        for url in urls {
            let whole = DefaultMatcher::default().one_agent_allowed_by_robots(&body, "spoor", url.as_str());
            prop_assert_eq!(robots.allows(&url), whole, "{}", url);
        }
    }

    #[test]
    fn the_rules_kept_decide_as_the_whole_file_with_stars(lines in lines("*"), urls in proptest::collection::vec(addresses(), 1..8)) {
        let body = lines.join("\n");
        let robots = Robots::parse("spoor", body.as_bytes());
        for url in urls {
            let whole = RobotsMatcher::<Corrected>::default().one_agent_allowed_by_robots(&body, "spoor", url.as_str());
            prop_assert_eq!(robots.allows(&url), whole, "{}", url);
        }
    }

    #[test]
    fn any_rules_have_an_answer(rule in "\\PC{0,40}", path in "[ -~]{0,30}") {
        let body = format!("user-agent: *\ndisallow: {rule}\n");
        if let Ok(url) = PageUrl::parse("http://example.org/").unwrap().join(&path) {
            let robots = Robots::parse("spoor", body.as_bytes());
            prop_assert_eq!(robots.allows(&url), robots.allows(&url));
        }
    }
}

#[test]
fn content_signals_are_those_of_the_group_that_governs() {
    let text = "User-agent: *\nContent-Signal: search=yes, ai-train=no\nAllow: /\n\
                Content-usage: /a/ train-ai=n\n\nUser-agent: other\nDisallow: /\n\
                User-agent: own\nContent-Signal: ai-train=yes\nUser-agent: third\nDisallow: /\n";
    let said = |agent: &str, path: &str| {
        let url = PageUrl::parse(&format!("http://a.org{path}")).unwrap();
        let signals = Robots::parse(agent, text.as_bytes()).content_signals(&url);
        serde_json::to_string(&signals).unwrap()
    };
    let open = "{\"ai-train\":false,\"search\":true}";
    assert_eq!(said("spoor", "/"), open);
    let all = "{\"ai-train\":false,\"search\":true,\"train-ai\":false}";
    assert_eq!(said("spoor", "/a/b"), all);
    assert_eq!(said("own", "/a/b"), "{\"ai-train\":true}");
    // It ends the preceding list of agents, as every rule does.
    assert!(
        Robots::parse("own", text.as_bytes()).allows(&PageUrl::parse("http://a.org/").unwrap())
    );
    for agent in ["other", "third"] {
        assert_eq!(said(agent, "/a/b"), "{}");
    }
}
