//! Which addresses belong to the crawl, and which are equivalent: pure rules over one URL.
//!
//! Rules see an address and its distance from the seeds, never a page, a store or the
//! network, so the same verdict can be reproduced at any time.

mod prefix;
mod takedowns;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use sha2::{Digest, Sha256};

use crate::address::PageUrl;
use crate::page::{Reason, TaskKind};
use crate::settings;
use crate::settings::ScopeRule;

pub use prefix::{Prefixes, prefixes};
pub use takedowns::{HostRange, Order, Sha256Hex, Takedowns, Target, TargetError};

/// The `[scope]` section and the takedowns, for deciding about addresses.
#[derive(Debug, Clone)]
pub struct Scope {
    rules: settings::Scope,
    takedowns: Takedowns,
    /// Indices into the takedowns, by the SURT form of the canonical address of a page.
    pages: HashMap<String, usize>,
}

/// Why an address is out of scope; its text names the rule that decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Objection<'a> {
    /// Too many links from the nearest seed.
    Hops {
        /// Its distance.
        hops: u32,
        /// The limit.
        max: u32,
    },
    /// There are accept rules, and none covers it.
    NotAccepted,
    /// It was taken down permanently by this order.
    TakenDown(&'a Order),
    /// Its scheme is not in `scope.schemes`.
    Scheme(&'a str),
    /// This reject rule covers it.
    Rejected(&'a ScopeRule),
    /// Its file extension is one of `scope.reject_files`.
    File(&'a str),
    /// It is longer than `scope.max_url_bytes`.
    Long {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Its path has more segments than `scope.max_depth`.
    Deep {
        /// Its number of segments.
        segments: usize,
        /// The limit.
        max: usize,
    },
    /// This segment occurs in its path more often than `scope.repeated_segments`.
    Repeats {
        /// The segment.
        segment: &'a str,
        /// The limit.
        max: usize,
    },
}

impl Objection<'_> {
    /// The reason to record.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Hops { .. } => Reason::Hops,
            Self::TakenDown(_) => Reason::Takedown,
            Self::NotAccepted | Self::Scheme(_) | Self::Rejected(_) | Self::File(_) => {
                Reason::Scope
            }
            Self::Long { .. } | Self::Deep { .. } | Self::Repeats { .. } => Reason::Trap,
        }
    }
}

impl fmt::Display for Objection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hops { hops, max } => {
                write!(f, "{hops} hops from a seed, scope.max_hops = {max}")
            }
            Self::NotAccepted => f.write_str("no rule of scope.accept covers it"),
            Self::TakenDown(order) => write!(f, "taken down permanently: {order}"),
            Self::Scheme(scheme) => write!(f, "`{scheme}` is not in scope.schemes"),
            Self::Rejected(rule) => write!(f, "rejected by `{rule}` of scope.reject"),
            Self::File(extension) => write!(f, "`.{extension}` is one of scope.reject_files"),
            Self::Long { bytes, max } => {
                write!(f, "{bytes} bytes long, scope.max_url_bytes = {max}")
            }
            Self::Deep { segments, max } => {
                write!(f, "{segments} segments, scope.max_depth = {max}")
            }
            Self::Repeats { segment, max } => write!(
                f,
                "`{segment}` more than {max} times in the path, as scope.repeated_segments permits"
            ),
        }
    }
}

impl Scope {
    /// Uses the rules of a checked config, without takedowns.
    pub fn new(section: settings::Scope) -> Self {
        Self {
            rules: section,
            takedowns: Takedowns::default(),
            pages: HashMap::new(),
        }
    }

    /// The same rules with these takedowns.
    #[must_use]
    pub fn with_takedowns(self, takedowns: Takedowns) -> Self {
        let addresses = takedowns.addresses();
        let known = addresses.map(|(place, url)| (self.canonical(url).surt(), place));
        Self {
            pages: known.collect(),
            takedowns,
            ..self
        }
    }

    /// The takedowns.
    pub fn takedowns(&self) -> &Takedowns {
        &self.takedowns
    }

    /// The order that took an address down, if there is one. A page is identified by its
    /// [canonical](Self::canonical) address, so an order for that also covers addresses
    /// with campaigns or sessions.
    pub fn taken_down(&self, url: &PageUrl, kind: TaskKind) -> Option<&Order> {
        if self.takedowns.orders().is_empty() {
            return None;
        }
        let surt = url.surt();
        let own = self.takedowns.covering(url, &surt);
        let page = || match kind {
            TaskKind::Image => None,
            TaskKind::Page
            | TaskKind::Sitemap
            | TaskKind::Robots
            | TaskKind::Tdmrep
            | TaskKind::Rsl => self.takedowns.orders().get(*self.pages.get(&surt)?),
        };
        own.or_else(page)
    }

    /// A hash that is equal for equal rules, in every process.
    pub fn digest(&self) -> u64 {
        let mut hash = Sha256::new_with_prefix(self.rules.to_toml());
        for order in self.takedowns.orders() {
            hash.update(order.target.to_string());
        }
        let hash = hash.finalize();
        hash.iter()
            .take(8)
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }

    /// The canonical address of a page: `url` without the parameters that the job drops
    /// (sessions, campaigns), in the query and in the segments of the path. The order of
    /// the rest is kept. Applying it twice changes nothing more.
    ///
    /// Unlike [`PageUrl`] itself this may change what is fetched, if a site uses a listed
    /// name for something else.
    pub fn canonical<'u>(&self, url: &'u PageUrl) -> Cow<'u, PageUrl> {
        // Nearly every link has nothing to drop, so it is not copied.
        let of_path = |segment: &str| segment.split(';').skip(1).any(|p| self.drops(p));
        let of_query = |query: &str| query.split('&').any(|p| self.drops(p));
        if !url.path().split('/').any(of_path) && !url.query().is_some_and(of_query) {
            return Cow::Borrowed(url);
        }
        let without = |segment: &str| {
            let mut parts = segment.split(';');
            // The text before the first `;` is the segment's name.
            let mut kept = parts.next().unwrap_or_default().to_owned();
            for parameter in parts.filter(|p| !self.drops(p)) {
                kept.extend([";", parameter]);
            }
            kept
        };
        let segments: Vec<String> = url.path().split('/').map(without).collect();
        let path = segments.join("/");
        let query = url.query().map_or_else(String::new, |query| {
            let kept: Vec<&str> = query.split('&').filter(|p| !self.drops(p)).collect();
            format!("?{}", kept.join("&"))
        });
        let host = url.host_key();
        PageUrl::parse(&format!("{}://{host}{path}{query}", url.scheme()))
            .map_or(Cow::Borrowed(url), Cow::Owned)
    }

    /// Whether a page at `url`, `hops` links from the nearest seed, is in scope.
    ///
    /// # Errors
    ///
    /// The reason why it is not.
    pub fn page(&self, url: &PageUrl, hops: u32) -> Result<(), Reason> {
        match self.judge_page(url, hops) {
            Ok(_) => Ok(()),
            Err(objection) => Err(objection.reason()),
        }
    }

    /// As [`Scope::page`], with the accept rule that covers it, if it needs one.
    ///
    /// # Errors
    ///
    /// The objection.
    pub fn judge_page<'a>(
        &'a self,
        url: &'a PageUrl,
        hops: u32,
    ) -> Result<Option<&'a ScopeRule>, Objection<'a>> {
        self.judge_takedowns(url, TaskKind::Page)?;
        if let Some(max) = self.rules.max_hops.filter(|max| hops > *max) {
            return Err(Objection::Hops { hops, max });
        }
        let accepted = self.judge_sitemap(url)?;
        if let Some(extension) = file_extension(url.path()) {
            let mut files = self.rules.reject_files.iter();
            let is_page = extension.eq_ignore_ascii_case("pdf") && self.rules.accepts_pdf();
            if !is_page && files.any(|file| file.as_str().eq_ignore_ascii_case(extension)) {
                return Err(Objection::File(extension));
            }
        }
        let (bytes, max) = (url.as_str().len(), self.rules.max_url_bytes);
        if bytes > max {
            return Err(Objection::Long { bytes, max });
        }
        self.judge_path(url.path())?;
        Ok(accepted)
    }

    /// Whether a sitemap at `url` is read: as for a page, but ignoring its file type and
    /// its distance from the seeds.
    ///
    /// # Errors
    ///
    /// The reason why it is not.
    pub fn sitemap(&self, url: &PageUrl) -> Result<(), Reason> {
        match self.judge_sitemap(url) {
            Ok(_) => Ok(()),
            Err(objection) => Err(objection.reason()),
        }
    }

    /// As [`Scope::sitemap`], with the accept rule that covers it, if it needs one.
    ///
    /// # Errors
    ///
    /// The objection.
    pub fn judge_sitemap<'a>(
        &'a self,
        url: &'a PageUrl,
    ) -> Result<Option<&'a ScopeRule>, Objection<'a>> {
        self.judge_takedowns(url, TaskKind::Sitemap)?;
        let surt = url.surt();
        let accepted = self
            .rules
            .accept
            .iter()
            .find(|rule| rule.covers(url, &surt));
        if accepted.is_none() && !self.rules.accept.is_empty() {
            return Err(Objection::NotAccepted);
        }
        self.judge_address(url, &surt)?;
        Ok(accepted)
    }

    /// Whether an image at `url` is fetched. Images are often on a separate host, so accept rules,
    /// hops and file types do not apply; reject rules do.
    ///
    /// # Errors
    ///
    /// The reason why it is not.
    pub fn image(&self, url: &PageUrl) -> Result<(), Reason> {
        self.judge_image(url)
            .map_err(|objection| objection.reason())
    }

    /// As [`Scope::image`].
    ///
    /// # Errors
    ///
    /// The objection.
    pub fn judge_image<'a>(&'a self, url: &'a PageUrl) -> Result<(), Objection<'a>> {
        self.judge_takedowns(url, TaskKind::Image)?;
        self.judge_address(url, &url.surt())
    }

    /// Whether a response with this `Content-Type` header may be a page. One without the
    /// header may be.
    ///
    /// # Errors
    ///
    /// The MIME type that is not accepted.
    pub fn content_type(&self, header: Option<&str>) -> Result<(), String> {
        let media = header.and_then(|header| header.split(';').next());
        let media = media.unwrap_or_default().trim().to_ascii_lowercase();
        let accepted = || {
            self.rules
                .accept_types
                .iter()
                .any(|kind| kind.covers(&media))
        };
        if media.is_empty() || accepted() {
            Ok(())
        } else {
            Err(media.chars().take(200).collect())
        }
    }

    /// The most pages of one host, if limited.
    pub fn host_documents(&self) -> Option<u64> {
        self.rules.host_documents
    }

    /// The most pages of one registered domain, if limited.
    pub fn domain_documents(&self) -> Option<u64> {
        self.rules.domain_documents
    }

    /// Whether a parameter, `name=value` or `name`, is dropped.
    fn drops(&self, parameter: &str) -> bool {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let lists = [&self.rules.drop_parameters, &self.rules.drop_also];
        let mut all = lists.into_iter().flatten();
        all.any(|parameter| parameter.covers(name, value))
    }

    /// Checked before all other rules, so that no change of the others can let anything in.
    fn judge_takedowns(&self, url: &PageUrl, kind: TaskKind) -> Result<(), Objection<'_>> {
        match self.taken_down(url, kind) {
            Some(order) => Err(Objection::TakenDown(order)),
            None => Ok(()),
        }
    }

    fn judge_address<'a>(&'a self, url: &'a PageUrl, surt: &str) -> Result<(), Objection<'a>> {
        let scheme = match url.scheme() {
            "https" => settings::Scheme::Https,
            _ => settings::Scheme::Http,
        };
        if !self.rules.schemes.contains(&scheme) {
            return Err(Objection::Scheme(url.scheme()));
        }
        match self.rules.reject.iter().find(|rule| rule.covers(url, surt)) {
            Some(rule) => Err(Objection::Rejected(rule)),
            None => Ok(()),
        }
    }

    /// A path that nests too deep, or repeats one segment, as relative links on a wrong
    /// base do, is a trap.
    fn judge_path<'a>(&self, path: &'a str) -> Result<(), Objection<'a>> {
        let all: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
        let (segments, max) = (all.len(), self.rules.max_depth);
        if segments > max {
            return Err(Objection::Deep { segments, max });
        }
        let max = self.rules.repeated_segments;
        let often = |s: &&&str| all.iter().filter(|t| t == s).count() > max;
        match all.iter().find(often) {
            Some(segment) => Err(Objection::Repeats { segment, max }),
            None => Ok(()),
        }
    }
}

fn file_extension(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?;
    let (stem, extension) = name.rsplit_once('.')?;
    (!stem.is_empty() && !extension.is_empty()).then_some(extension)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Scheme, TextValue};
    use proptest::prelude::*;

    fn scope(change: impl FnOnce(&mut settings::Scope)) -> Scope {
        let mut section = settings::Scope::default();
        change(&mut section);
        Scope::new(section)
    }

    fn list<T: TextValue>(texts: &[&str]) -> Vec<T> {
        let read = texts.iter().map(|text| T::from_text(text));
        read.collect::<Result<_, _>>().unwrap()
    }

    fn page(scope: &Scope, url: &str) -> Result<(), Reason> {
        scope.page(&PageUrl::parse(url).unwrap(), 1)
    }

    #[test]
    fn prefixes_cover_domains_and_folders() {
        let s = scope(|s| {
            s.accept = list(&["org,example", "https://other.net/cats/"]);
            s.reject = list(&["http://example.org/private"]);
        });
        for (url, expected) in [
            ("http://example.org/", Ok(())),
            ("http://www.example.org:8080/a", Ok(())),
            ("http://examples.org/", Err(Reason::Scope)),
            ("http://example.org/private/x", Err(Reason::Scope)),
            ("http://other.net/cats/1", Ok(())),
            ("http://other.net/dogs/1", Err(Reason::Scope)),
        ] {
            assert_eq!(page(&s, url), expected, "{url}");
        }
    }

    #[test]
    fn hops_files_schemes() {
        let s = scope(|s| {
            s.max_hops = Some(2);
            s.schemes = vec![Scheme::Https];
        });
        let url = PageUrl::parse("https://example.org/").unwrap();
        assert_eq!(s.page(&url, 2), Ok(()));
        assert_eq!(s.page(&url, 3), Err(Reason::Hops));
        assert_eq!(page(&s, "http://example.org/"), Err(Reason::Scope));
        assert_eq!(page(&s, "https://example.org/a.PDF"), Err(Reason::Scope));
        assert_eq!(
            page(&s, "https://example.org/a.jpg?x=1"),
            Err(Reason::Scope)
        );
        assert_eq!(page(&s, "https://example.org/.zip"), Ok(()));
    }

    #[test]
    fn repeating_and_deep_paths_are_traps() {
        let s = scope(|_| {});
        assert_eq!(page(&s, "http://a.org/x/y/x/y/x/y/x/y"), Err(Reason::Trap));
        assert_eq!(
            page(&s, &format!("http://a.org{}", "/a1/b2".repeat(3))),
            Ok(())
        );
        assert_eq!(
            page(&s, &format!("http://a.org/?{}", "q".repeat(1980))),
            Ok(())
        );
        assert_eq!(
            page(&s, &format!("http://a.org/?{}", "q".repeat(2000))),
            Err(Reason::Trap)
        );
        let deep: String = (0..40).map(|i| format!("/{i}")).collect();
        assert_eq!(page(&s, &format!("http://a.org{deep}")), Err(Reason::Trap));
    }

    #[test]
    fn sitemaps_are_judged_as_pages_but_for_file_types() {
        let s = scope(|s| {
            s.accept = list(&["org,example"]);
            s.reject = list(&["org,example)/no"]);
            s.max_hops = Some(0);
        });
        let sitemap = |u: &str| s.sitemap(&PageUrl::parse(u).unwrap());
        assert_eq!(sitemap("http://example.org/map.xml.gz"), Ok(()));
        assert_eq!(sitemap("http://example.org/no/map.xml"), Err(Reason::Scope));
        assert_eq!(sitemap("http://other.org/map.xml"), Err(Reason::Scope));
    }

    #[test]
    fn the_rule_that_decides_is_named() {
        let s = scope(|s| {
            s.accept = list(&["host:a.org", "regex:/cats?/"]);
            s.reject = list(&["regex:[?&]print=1"]);
            s.max_hops = Some(3);
            s.max_depth = 4;
            s.repeated_segments = 1;
        });
        let said = |text: &str, hops: u32| {
            let url = PageUrl::parse(text).unwrap();
            match s.judge_page(&url, hops) {
                Ok(rule) => rule.map(ToString::to_string).unwrap_or_default(),
                Err(objection) => objection.to_string(),
            }
        };
        for (url, hops, expected) in [
            ("http://a.org/x", 3, "host:a.org"),
            ("http://b.org/cat/1", 0, "regex:/cats?/"),
            ("http://b.org/dog/1", 0, "no rule of scope.accept covers it"),
            (
                "http://a.org/?print=1",
                0,
                "rejected by `regex:[?&]print=1` of",
            ),
            (
                "http://a.org/x.zip",
                0,
                "`.zip` is one of scope.reject_files",
            ),
            ("http://a.org/", 4, "4 hops from a seed, scope.max_hops = 3"),
            (
                "http://a.org/1/2/3/4/5",
                0,
                "5 segments, scope.max_depth = 4",
            ),
            ("http://a.org/x/y/x", 0, "`x` more than 1 times in the path"),
        ] {
            let said = said(url, hops);
            assert!(said.starts_with(expected), "{url}: {said}");
        }
    }

    #[test]
    fn sessions_and_campaigns_are_no_part_of_an_address() {
        let s = scope(|s| s.drop_also = list(&["ref", "x_*"]));
        let hex = "0123456789abcdef0123456789ABCDEF";
        for (given, expected) in [
            ("/a?utm_source=x&b=1&UTM_Medium=y&c=2", "/a?b=1&c=2"),
            ("/a?fbclid=1", "/a"),
            ("/a?b=1&PHPSESSID=77", "/a?b=1"),
            ("/a;jsessionid=12AB.node1?b=1", "/a?b=1"),
            ("/a;JSESSIONID=1/b;v=2;jsessionid=3/c", "/a/b;v=2/c"),
            ("/a?utm%5Fsource=x", "/a"),
            ("/jsessionid=1/a", "/jsessionid=1/a"),
            ("/a?phpsessids=1&xutm_a=2", "/a?phpsessids=1&xutm_a=2"),
            ("/a?ref=1&x_1&x=2", "/a?x=2"),
            ("/a?&b==&&gclid", "/a?&b==&"),
            ("/a?sid=12", "/a?sid=12"),
            (&format!("/a?sid={hex}&s={hex}0"), "/a"),
            (&format!("/a?q={hex}"), &format!("/a?q={hex}")),
        ] {
            let url = PageUrl::parse(&format!("https://a.org:8080{given}")).unwrap();
            let expected = format!("https://a.org:8080{expected}");
            let canonical = s.canonical(&url);
            assert_eq!(canonical.as_str(), expected, "{given}");
            let is_copied = matches!(canonical, Cow::Owned(_));
            assert_eq!(is_copied, *canonical != url, "{given}");
        }
        let none = scope(|s| s.drop_parameters = list(&[]));
        let url = PageUrl::parse("http://a.org/?utm_source=x").unwrap();
        assert_eq!(*none.canonical(&url), url);
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn a_canonical_address_stays(
            path in "(/[a-z.%;=&]{0,3}(;(sid|jsessionid|v)=[0-9a-f./%]{0,4}){0,2}){0,4}",
            query in "(\\?((utm_|sid|phpsessid|q|%)=?[a-f0-9%=]{0,34}&?){0,4})?",
        ) {
            let s = scope(|_| {});
            let url = PageUrl::parse(&format!("http://a.org:8080{path}{query}"));
            if let Ok(url) = url {
                let once = s.canonical(&url);
                let twice = s.canonical(&once);
                prop_assert_eq!(twice.as_str(), once.as_str());
                prop_assert_eq!(once.host_key(), url.host_key());
                // Nothing is added, moved or changed, only taken away.
                let mut rest = url.as_str().split(['/', '?', '&', ';']);
                for piece in once.as_str().split(['/', '?', '&', ';']) {
                    prop_assert!(piece.is_empty() || rest.any(|p| p == piece), "{url} {once}");
                }
                let plain = !url.as_str().contains(['=', '_']) && !url.as_str().contains("sid");
                prop_assert!(!plain || *once == url);
            }
        }
    }

    #[test]
    fn digests_differ_where_rules_do() {
        let (one, other) = (
            scope(|s| s.max_hops = Some(1)),
            scope(|s| s.max_hops = Some(2)),
        );
        assert_eq!(one.digest(), scope(|s| s.max_hops = Some(1)).digest());
        assert_ne!(one.digest(), other.digest());
    }

    #[test]
    fn types_are_judged_by_the_header() {
        let s = scope(|s| s.accept_types = list(&["text/html", "image/*"]));
        assert_eq!(s.content_type(Some("Text/HTML; charset=x")), Ok(()));
        assert_eq!(s.content_type(None), Ok(()));
        let refused = s.content_type(Some("text/plain"));
        assert_eq!(refused, Err("text/plain".to_owned()));
    }

    #[test]
    fn images_obey_reject_rules_only() {
        let s = scope(|s| {
            s.accept = list(&["org,example"]);
            s.reject = list(&["net,ads"]);
        });
        let image = |u: &str| s.image(&PageUrl::parse(u).unwrap());
        assert_eq!(image("http://cdn.net/a.jpg"), Ok(()));
        assert_eq!(image("http://ads.net/a.jpg"), Err(Reason::Scope));
    }
}
