//! The rules of a robots.txt, by RFC 9309: parse once, then ask.
//!
//! Matching is the `robotstxt` crate's, a port of Google's own matcher. This
//! module adds what lies around it: the size cap, decoding, `Crawl-delay` and
//! `Sitemap`. It is pure: when robots.txt is fetched, how long it holds and what
//! an unreachable one means is the frontier's business.

mod deciding;

use std::borrow::Cow;
use std::time::Duration;

use robotstxt::{DefaultMatcher, RobotsParseHandler};

use crate::address::PageUrl;

pub use deciding::deciding_line;

/// What is parsed of a robots.txt at most, in bytes (RFC 9309 section 2.5 asks
/// for at least 500 kibibytes).
pub const MAX_ROBOTS_BYTES: usize = 500 * 1024;

/// Longer lines are cut: no path that is ever asked for is that long, and the
/// matcher's own cut at 16 KiB miscounts characters of several bytes.
const MAX_LINE_BYTES: usize = 8 * 1024;

/// The rules of one host for one crawler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Robots {
    agent: String,
    /// `None` where all is allowed whatever is asked.
    body: Option<String>,
    crawl_delay: Option<Duration>,
    sitemaps: Vec<String>,
}

impl Robots {
    /// Rules that allow everything: what a missing robots.txt means (RFC 9309
    /// section 2.3.1.3).
    pub fn allow_all(agent: &str) -> Self {
        Self {
            agent: agent.to_owned(),
            body: None,
            crawl_delay: None,
            sitemaps: Vec::new(),
        }
    }

    /// Reads the bytes of a robots.txt for the product token `agent`, which
    /// consists of letters, `-` and `_`. Every input has a reading; what is no
    /// directive is passed over, and so is all beyond [`MAX_ROBOTS_BYTES`].
    pub fn parse(agent: &str, bytes: &[u8]) -> Self {
        let cut = &bytes[..bytes.len().min(MAX_ROBOTS_BYTES)];
        let body = tidy(&String::from_utf8_lossy(cut));
        let mut reader = Reader::new(agent);
        robotstxt::parse_robotstxt(&body, &mut reader);
        let crawl_delay = if reader.saw_own {
            reader.own_delay
        } else {
            reader.star_delay
        };
        Self {
            agent: agent.to_owned(),
            body: reader.any_rule.then_some(body),
            crawl_delay,
            sitemaps: reader.sitemaps,
        }
    }

    /// Whether the crawler may ask for `url`. `/robots.txt` itself always may be
    /// asked for (RFC 9309 section 2.2.2).
    pub fn allows(&self, url: &PageUrl) -> bool {
        match &self.body {
            None => true,
            Some(_) if url.path() == "/robots.txt" => true,
            Some(body) => DefaultMatcher::default().one_agent_allowed_by_robots(
                body,
                &self.agent,
                url.as_str(),
            ),
        }
    }

    /// The pause the host asks for between requests; not part of RFC 9309 but
    /// widely written. A group of the crawler's own name goes before `*`.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay
    }

    /// What the rules take in memory, in bytes, roughly.
    pub fn size(&self) -> usize {
        let sitemaps: usize = self.sitemaps.iter().map(|s| s.len() + 24).sum();
        self.body.as_ref().map_or(0, String::len) + self.agent.len() + sitemaps + 200
    }

    /// The `Sitemap` lines, as written.
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }
}

/// Removes a byte order mark and NUL bytes and cuts overlong lines.
fn tidy(text: &str) -> String {
    let text = text.trim_start_matches('\u{feff}');
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive(['\n', '\r']) {
        let end = line.floor_char_boundary(MAX_LINE_BYTES);
        let kept: Cow<str> = if line[..end].contains('\0') {
            line[..end].replace('\0', "").into()
        } else {
            line[..end].into()
        };
        out.push_str(&kept);
        if end < line.len() {
            out.push('\n');
        }
    }
    out
}

/// Collects what the matcher does not: delays, sitemaps, whether any rule exists.
struct Reader<'a> {
    agent: &'a str,
    in_agents: bool,
    group_own: bool,
    group_star: bool,
    saw_own: bool,
    own_delay: Option<Duration>,
    star_delay: Option<Duration>,
    sitemaps: Vec<String>,
    any_rule: bool,
}

impl<'a> Reader<'a> {
    fn new(agent: &'a str) -> Self {
        Self {
            agent,
            in_agents: false,
            group_own: false,
            group_star: false,
            saw_own: false,
            own_delay: None,
            star_delay: None,
            sitemaps: Vec::new(),
            any_rule: false,
        }
    }

    fn rule(&mut self) {
        self.in_agents = false;
        self.any_rule = true;
    }
}

impl RobotsParseHandler for Reader<'_> {
    fn handle_robots_start(&mut self) {}

    fn handle_robots_end(&mut self) {}

    fn handle_user_agent(&mut self, _line: u32, name: &str) {
        if !self.in_agents {
            self.group_own = false;
            self.group_star = false;
        }
        self.in_agents = true;
        let token: &str = name
            .split(|c: char| !(c.is_ascii_alphabetic() || c == '-' || c == '_'))
            .next()
            .unwrap_or_default();
        if name.starts_with('*') {
            self.group_star = true;
        } else if token.eq_ignore_ascii_case(self.agent) {
            self.group_own = true;
            self.saw_own = true;
        }
    }

    fn handle_allow(&mut self, _line: u32, _value: &str) {
        self.rule();
    }

    fn handle_disallow(&mut self, _line: u32, _value: &str) {
        self.rule();
    }

    fn handle_sitemap(&mut self, _line: u32, value: &str) {
        // A host that lists thousands of sitemaps gains nothing by it here.
        if self.sitemaps.len() < 1_000 {
            self.sitemaps.push(value.to_owned());
        }
    }

    fn handle_unknown_action(&mut self, _line: u32, action: &str, value: &str) {
        if !action.eq_ignore_ascii_case("crawl-delay") {
            return;
        }
        self.in_agents = false;
        let delay = value
            .trim()
            .parse::<f64>()
            .ok()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        if self.group_own {
            self.own_delay = self.own_delay.max(delay);
        }
        if self.group_star {
            self.star_delay = self.star_delay.max(delay);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        for bad in ["-1", "NaN", "inf", "soon", "1e400"] {
            let text = format!("User-agent: *\nCrawl-delay: {bad}\n");
            assert_eq!(
                Robots::parse("spoor", text.as_bytes()).crawl_delay(),
                None,
                "{bad}"
            );
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

    proptest! {
        #[test]
        fn any_bytes_have_a_reading(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let url = PageUrl::parse("http://example.org/a%20b?c=%C3").unwrap();
            let robots = Robots::parse("spoor", &bytes);
            let _allowed: bool = robots.allows(&url);
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
}
