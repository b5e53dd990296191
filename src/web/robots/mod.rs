//! The rules of a robots.txt, by RFC 9309: parsed once, then queried.
//!
//! Parsing is done by the `robotstxt` crate, a port of Google's own parser with its
//! tolerance for typing errors. Only the rules that apply to this crawler are kept, in
//! order of precedence (`rules`), so that an address costs one pass over these rules and
//! not over the whole file. The signals about the use of pages are kept separately
//! (`signals`), and `tdmrep` and `rsl` read other files whose rules have the same patterns.
//!
//! This module is pure: the frontier decides when robots.txt is fetched, how long it is
//! valid and what an unreachable one means.
//!
//! Where the parser and RFC 9309 differ, the RFC is followed:
//! - A `Sitemap` or an unknown line between two `User-agent` lines does not end their
//!   group (section 2.2.4). A `Crawl-delay` does, and so does a content signal: for a
//!   crawler that honours it, it is a rule of the preceding group.
//! - `%62` in a rule or an address means `b` (section 2.2.2).
//! - White space of any length before a key and around the colon is ignored, even if the line has
//!   no colon.
//! - `%2A` and `%24` in a rule mean a star and a dollar, not what the bare characters mean
//!   (section 2.2.3).
//!
//! Files in other encodings than UTF-8 are read as well (`encoding`), and so are the rules in a page
//! of HTML. A page without rules says nothing, as with Google's parser: many servers answer every
//! address with one.

mod delay;
mod encoding;
mod rsl;
mod rules;
mod signals;
mod tdmrep;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use robotstxt::RobotsParseHandler;

use crate::address::PageUrl;
use crate::page::{Fetched, MAX_RSL_FILES, SignalValue};
pub use rsl::{MAX_RSL_BYTES, RslContent, RslError, parse_rsl, rsl_terms};
pub use rules::Rule;
use signals::GroupSignals;
pub use signals::signals_of;
pub use tdmrep::{
    MAX_TDMREP_BYTES, TDMREP_PATH, TdmError, TdmRule, parse_tdmrep, reservation, reserve_all,
    tdm_terms,
};

/// The most bytes of a robots.txt that are parsed (RFC 9309 section 2.5 asks for at least
/// 500 kibibytes).
pub const MAX_ROBOTS_BYTES: usize = 500 * 1024;

/// Longer lines are cut: no requested address is that long, and the parser's own limit at
/// 16 KiB miscounts multi-byte characters.
const MAX_LINE_BYTES: usize = 8 * 1024;

/// The most RSL files of a robots.txt: one more than are read, so that the others are missed.
const MAX_LICENSES: usize = MAX_RSL_FILES + 1;

/// The most sitemaps of a robots.txt.
const MAX_SITEMAPS: usize = 1_000;

/// Maximum number of bytes that matching an address with the host's wildcard rules may read in
/// total: enough for 32,000 rules, more than a file can have, with an address of 250 bytes, and for
/// 1,000 with the longest address. A host with both could delay all others.
const MAX_MATCHING: usize = 8_000_000;

/// The rule that forbids an address beyond that limit.
static TOO_COSTLY: LazyLock<Rule> = LazyLock::new(Rule::of_no_line);

/// The rules of one host for one crawler.
///
/// ```
/// use std::time::Duration;
///
/// use spoor_values::address::PageUrl;
/// use spoor_web::robots::Robots;
///
/// let file = b"User-agent: *\nDisallow: /\n\n\
///     User-agent: spoor\nDisallow: /private\nAllow: /private/open\nCrawl-delay: 10\n";
/// let robots = Robots::parse("spoor", file);
/// let allows = |path| PageUrl::parse(path).map(|url| robots.allows(&url));
/// assert!(allows("https://example.org/")?);
/// assert!(!allows("https://example.org/private/letter.html")?);
/// assert!(allows("https://example.org/private/open/letter.html")?);
/// assert_eq!(robots.crawl_delay(), Some(Duration::from_secs(10)));
/// # Ok::<(), spoor_values::address::AddressError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Robots {
    /// In order of precedence.
    rules: Vec<Rule>,
    crawl_delay: Option<Duration>,
    signals: GroupSignals,
    licenses: Vec<String>,
    sitemaps: Vec<String>,
}

impl Robots {
    /// Rules that allow everything, for a missing robots.txt (RFC 9309 section 2.3.1.3).
    pub fn allow_all() -> Self {
        Self::default()
    }

    /// Parses a robots.txt for the product token `agent`, which consists of letters, `-`
    /// and `_`. Every input is accepted; anything that is not a directive is ignored, and
    /// so is everything beyond [`MAX_ROBOTS_BYTES`], including the line cut by this limit:
    /// `Allow: /` left of `Allow: /open` would allow everything.
    pub fn parse(agent: &str, bytes: &[u8]) -> Self {
        // A body of exactly this length was truncated by the fetcher.
        let cut = match bytes.get(..MAX_ROBOTS_BYTES) {
            Some(cut) => {
                let is_end = |b: &u8| matches!(b, b'\n' | b'\r');
                &cut[..cut.iter().rposition(is_end).unwrap_or(0)]
            }
            None => bytes,
        };
        // A byte order mark, or an incomplete one.
        let mark = [0xEF_u8, 0xBB, 0xBF];
        let cut = mark
            .iter()
            .fold(cut, |rest, b| rest.strip_prefix(&[*b]).unwrap_or(rest));
        let mut reader = RobotsReader::new(agent);
        let text = text(cut);
        let text = if text.trim_start().starts_with('<') {
            without_tags(&text)
        } else {
            text
        };
        robotstxt::parse_robotstxt(&tidy(&text), &mut reader);
        let governing = if reader.saw_own {
            reader.own
        } else {
            reader.star
        };
        Self {
            rules: rules::in_order(governing.rules),
            crawl_delay: governing.delay,
            signals: governing.signals.in_order(),
            licenses: reader.licenses,
            sitemaps: reader.sitemaps,
        }
    }

    /// Whether the crawler may request `url`. `/robots.txt` itself is always allowed (RFC
    /// 9309 section 2.2.2).
    pub fn allows(&self, url: &PageUrl) -> bool {
        self.rule_for(url).is_none_or(Rule::allows)
    }

    /// The rule that decides about `url`: the longest match, and of two equally long ones
    /// the one that allows. `None` if no rule matches. If thousands of rules with stars
    /// meet an address of thousands of bytes, matching is aborted and the address is
    /// forbidden, by a rule of line 0.
    pub fn rule_for(&self, url: &PageUrl) -> Option<&Rule> {
        if self.rules.is_empty() || url.path() == "/robots.txt" {
            return None;
        }
        let path = rules::comparable(url.path_and_query());
        let mut left = MAX_MATCHING;
        for rule in &self.rules {
            match left.checked_sub(rule.cost(&path)) {
                Some(rest) => left = rest,
                None => return Some(&TOO_COSTLY),
            }
            if rule.covers(&path) {
                return Some(rule);
            }
        }
        None
    }

    /// Whether both decide every address in the same way for the same reason.
    pub fn same_rules(&self, other: &Self) -> bool {
        self.rules == other.rules
    }

    /// The delay between requests that the host asks for; not part of RFC 9309 but widely used. A
    /// group for the crawler's own name takes precedence over `*`. If there are several lines, the
    /// longest delay counts; a value beyond the range of clocks is [`Duration::MAX`].
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay
    }

    /// The signals about the use of the resource at `url`, by `Content-Signal` and
    /// `Content-Usage` lines, by name.
    pub fn content_signals(&self, url: &PageUrl) -> BTreeMap<String, SignalValue> {
        self.signals.of(url.path_and_query())
    }

    /// The memory of the rules, in bytes, including allocation overhead.
    pub fn size(&self) -> usize {
        const OVERHEAD: usize = 16;
        let rules: usize = self.rules.iter().map(|r| r.pattern().len()).sum();
        let files = self.sitemaps.iter().chain(&self.licenses);
        let files: usize = files.map(String::capacity).sum();
        size_of::<Self>()
            + rules
            + self.rules.capacity() * (size_of::<Rule>() + OVERHEAD)
            + files
            + self.signals.size()
            + (self.sitemaps.capacity() + self.licenses.capacity())
                * (size_of::<String>() + OVERHEAD)
    }

    /// The RSL files that `License` lines name, as written.
    pub fn licenses(&self) -> &[String] {
        &self.licenses
    }

    /// The `Sitemap` lines, as written.
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }
}

/// The body of a robots.txt or tdmrep.json in UTF-8, from any encoding.
pub fn in_utf8(fetched: &Fetched) -> Bytes {
    match encoding::in_utf8(&fetched.body, fetched.content_type.as_deref()) {
        Cow::Borrowed(_) => fetched.body.clone(),
        Cow::Owned(mut text) => {
            // A truncated line would cover more than the whole one.
            if fetched.truncated {
                let end = text.iter().rposition(|b| matches!(b, b'\n' | b'\r'));
                text.truncate(end.unwrap_or(0));
            }
            text.into()
        }
    }
}

/// The bytes as text. Bytes that are not UTF-8 are escaped, as in the addresses of a site with
/// another encoding.
fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// The text of a page of HTML: some servers send robots.txt as one, and its rules are meant. Each tag
/// ends a line.
fn without_tags(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    let mut parts = html.split('<');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        text.push('\n');
        text.push_str(part.split_once('>').map_or("", |(_, after)| after));
    }
    text.replace("&amp;", "&")
}

/// Removes what hides a rule from the parser: NUL bytes, byte order marks, and all white space
/// around the key and the value; and cuts overlong lines.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive(['\n', '\r']) {
        let mut kept: Cow<str> = line.trim_end_matches(['\n', '\r']).into();
        let end = &line[kept.len()..];
        if kept.contains(['\0', '\u{feff}']) {
            kept = kept.replace(['\0', '\u{feff}'], "").into();
        }
        if kept.contains('%') {
            // The parser loses three characters at a `%` that starts no escape if the same
            // rule contains anything to escape.
            kept = rules::escaped(&kept).into();
        }
        let kept = kept.trim();
        // Without a colon the parser takes white space as the separator.
        let key_end = kept.find(|c: char| c == ':' || c.is_whitespace());
        let (key, rest) = kept.split_at(key_end.unwrap_or(kept.len()));
        let rest = rest.trim_start();
        let (separator, value) = match rest.strip_prefix(':') {
            Some(value) => (":", value.trim_start()),
            None if rest.is_empty() => ("", rest),
            None => (" ", rest),
        };
        let length = key.len() + separator.len() + value.len();
        // The rest of a cut line covers more than the whole, so it may only forbid.
        if length <= MAX_LINE_BYTES || !key.eq_ignore_ascii_case("allow") {
            let start = out.len();
            out.extend([key, separator, value]);
            out.truncate(out.floor_char_boundary(start + MAX_LINE_BYTES));
        }
        out.push_str(end);
    }
    out
}

/// The rules of one or more groups.
#[derive(Default)]
struct RuleGroup {
    rules: Vec<Rule>,
    delay: Option<Duration>,
    signals: GroupSignals,
}

/// Receives what the parser reads, and keeps what may apply to this crawler.
struct RobotsReader<'a> {
    agent: &'a str,
    /// True from a `User-agent` line to the first rule after it.
    in_agents: bool,
    /// Whether the current group names the crawler, or `*`.
    group_own: bool,
    group_star: bool,
    saw_own: bool,
    own: RuleGroup,
    star: RuleGroup,
    licenses: Vec<String>,
    sitemaps: Vec<String>,
}

impl<'a> RobotsReader<'a> {
    fn new(agent: &'a str) -> Self {
        Self {
            agent,
            in_agents: false,
            group_own: false,
            group_star: false,
            saw_own: false,
            own: RuleGroup::default(),
            star: RuleGroup::default(),
            licenses: Vec::new(),
            sitemaps: Vec::new(),
        }
    }

    fn rule(&mut self, line: u32, allow: bool, pattern: &str) {
        self.in_agents = false;
        for (in_group, group) in [
            (self.group_own, &mut self.own),
            (self.group_star, &mut self.star),
        ] {
            if in_group {
                group.rules.extend(Rule::of_line(line, allow, pattern));
            }
        }
    }
}

impl RobotsParseHandler for RobotsReader<'_> {
    fn handle_robots_start(&mut self) {}

    fn handle_robots_end(&mut self) {}

    fn handle_user_agent(&mut self, _line: u32, name: &str) {
        if !self.in_agents {
            self.group_own = false;
            self.group_star = false;
        }
        self.in_agents = true;
        let mut token = name.split(|c: char| !(c.is_ascii_alphabetic() || c == '-' || c == '_'));
        if name == "*"
            || name
                .strip_prefix('*')
                .is_some_and(|n| n.starts_with(char::is_whitespace))
        {
            self.group_star = true;
        } else if token
            .next()
            .is_some_and(|t| t.eq_ignore_ascii_case(self.agent))
        {
            self.group_own = true;
            self.saw_own = true;
        }
    }

    fn handle_allow(&mut self, line: u32, value: &str) {
        self.rule(line, true, value);
    }

    fn handle_disallow(&mut self, line: u32, value: &str) {
        self.rule(line, false, value);
    }

    fn handle_sitemap(&mut self, _line: u32, value: &str) {
        if self.sitemaps.len() < MAX_SITEMAPS {
            self.sitemaps.push(value.to_owned());
        }
    }

    fn handle_unknown_action(&mut self, line: u32, action: &str, value: &str) {
        let is = |name: &str| action.eq_ignore_ascii_case(name);
        if is("license") || is("licence") {
            // It is for all crawlers, wherever it is.
            if self.licenses.len() < MAX_LICENSES {
                self.licenses.push(value.to_owned());
            }
            return;
        }
        let is_delay = is("crawl-delay");
        if !is_delay && !is("content-signal") && !is("content-usage") {
            return;
        }
        self.in_agents = false;
        let delay = delay::delay(value);
        for (in_group, group) in [
            (self.group_own, &mut self.own),
            (self.group_star, &mut self.star),
        ] {
            match (in_group, is_delay) {
                (true, true) => group.delay = group.delay.max(delay),
                (true, false) => group.signals.read(line, value),
                (false, _) => {}
            }
        }
    }
}
