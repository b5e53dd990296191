//! Which addresses belong to the crawl, and which are one and the same: pure
//! rules over one URL.
//!
//! Rules see an address and its distance from the seeds, never a page, a store
//! or the network, so the same verdict can be given again at any time.

mod prefix;

use crate::address::PageUrl;
use crate::config;
use crate::page::Reason;

pub use prefix::{Prefixes, prefixes};

/// The `[scope]` section as a judge.
#[derive(Debug, Clone)]
pub struct Scope(config::Scope);

impl Scope {
    /// Takes the rules of a checked config.
    pub fn new(section: config::Scope) -> Self {
        Self(section)
    }

    /// The address by which a page is known: `url` without the parameters that the
    /// job drops (sessions, campaigns), in the query and in the segments of the
    /// path. The order of what is left stays. Giving it what it gave changes nothing.
    ///
    /// Other than [`PageUrl`] itself this may change what is fetched, where a site
    /// gives a listed name another meaning.
    pub fn canonical(&self, url: &PageUrl) -> PageUrl {
        let kept = |text: &str, separator: char| {
            let mut kept = Vec::new();
            for (i, piece) in text.split(separator).enumerate() {
                // What stands before the first `;` of a segment is its name.
                let named = separator == '&' || i > 0;
                let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
                if !(named && self.drops(name, value)) {
                    kept.push(piece);
                }
            }
            kept.join(&separator.to_string())
        };
        let segments: Vec<String> = url.path().split('/').map(|s| kept(s, ';')).collect();
        let path = segments.join("/");
        let query = url.query().map(|query| kept(query, '&'));
        if path == url.path() && query.as_deref() == url.query() {
            return url.clone();
        }
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        let host = url.host_key();
        PageUrl::parse(&format!("{}://{host}{path}{query}", url.scheme()))
            .unwrap_or_else(|_| url.clone())
    }

    /// Whether a page at `url`, `hops` links from the nearest seed, is crawled.
    ///
    /// # Errors
    /// The reason why it is not.
    pub fn page(&self, url: &PageUrl, hops: u32) -> Result<(), Reason> {
        if self.0.max_hops.is_some_and(|max| hops > max) {
            return Err(Reason::Hops);
        }
        let extension = file_extension(url.path());
        let rejected = |e: &str| {
            let mut files = self.0.reject_files.iter();
            files.any(|r| r.as_str().eq_ignore_ascii_case(e))
        };
        let surt = url.surt();
        let accepted = self.0.accept.is_empty() || self.0.accept.iter().any(|r| r.covers(&surt));
        if !accepted
            || !self.has_scheme(url)
            || self.rejects(&surt)
            || extension.is_some_and(rejected)
        {
            return Err(Reason::Scope);
        }
        if url.as_str().len() > self.0.max_url_bytes || self.is_trap(url.path()) {
            return Err(Reason::Trap);
        }
        Ok(())
    }

    /// Whether an image at `url` is fetched. Images often lie on a host of their
    /// own, so accept rules, hops and file types do not apply; reject rules do.
    ///
    /// # Errors
    /// The reason why it is not.
    pub fn image(&self, url: &PageUrl) -> Result<(), Reason> {
        if !self.has_scheme(url) || self.rejects(&url.surt()) {
            return Err(Reason::Scope);
        }
        Ok(())
    }

    /// How many pages one host may give, if limited.
    pub fn host_documents(&self) -> Option<u64> {
        self.0.host_documents
    }

    /// How many pages one registered domain may give, if limited.
    pub fn domain_documents(&self) -> Option<u64> {
        self.0.domain_documents
    }

    fn drops(&self, name: &str, value: &str) -> bool {
        let lists = [&self.0.drop_parameters, &self.0.drop_also];
        let mut all = lists.into_iter().flatten();
        all.any(|parameter| parameter.covers(name, value))
    }

    fn has_scheme(&self, url: &PageUrl) -> bool {
        let scheme = match url.scheme() {
            "https" => config::Scheme::Https,
            _ => config::Scheme::Http,
        };
        self.0.schemes.contains(&scheme)
    }

    fn rejects(&self, surt: &str) -> bool {
        self.0.reject.iter().any(|r| r.covers(surt))
    }

    /// A path that nests too deep, or that has one segment again and again as
    /// relative links on a wrong base make it.
    fn is_trap(&self, path: &str) -> bool {
        let segments: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
        if segments.len() > self.0.max_depth {
            return true;
        }
        segments
            .iter()
            .any(|s| segments.iter().filter(|t| *t == s).count() > self.0.repeated_segments)
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
    use proptest::prelude::*;

    fn scope(section: &str) -> Scope {
        let text = format!("[job]\nname = \"test\"\n[scope]\n{section}");
        Scope::new(config::Config::parse(&text, "test.toml").unwrap().scope)
    }

    fn page(scope: &Scope, url: &str) -> Result<(), Reason> {
        scope.page(&PageUrl::parse(url).unwrap(), 1)
    }

    #[test]
    fn prefixes_cover_domains_and_folders() {
        let s = scope(
            "accept = ['org,example', 'https://other.net/cats/']\n\
             reject = ['http://example.org/private']",
        );
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
        let s = scope("max_hops = 2\nschemes = ['https']");
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
        let s = scope("");
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
    fn sessions_and_campaigns_are_no_part_of_an_address() {
        let s = scope("drop_also = ['ref', 'x_*']");
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
            assert_eq!(s.canonical(&url).as_str(), expected, "{given}");
        }
        let none = scope("drop_parameters = []");
        let url = PageUrl::parse("http://a.org/?utm_source=x").unwrap();
        assert_eq!(none.canonical(&url), url);
    }

    proptest! {
        #[test]
        fn a_canonical_address_stays(
            path in "(/[a-z.%;=&]{0,3}(;(sid|jsessionid|v)=[0-9a-f./%]{0,4}){0,2}){0,4}",
            query in "(\\?((utm_|sid|phpsessid|q|%)=?[a-f0-9%=]{0,34}&?){0,4})?",
        ) {
            let s = scope("");
            let url = PageUrl::parse(&format!("http://a.org:8080{path}{query}"));
            if let Ok(url) = url {
                let once = s.canonical(&url);
                prop_assert_eq!(&s.canonical(&once), &once);
                prop_assert_eq!(once.host_key(), url.host_key());
                // Nothing is added, moved or changed, only taken away.
                let mut rest = url.as_str().split(['/', '?', '&', ';']);
                for piece in once.as_str().split(['/', '?', '&', ';']) {
                    prop_assert!(piece.is_empty() || rest.any(|p| p == piece), "{url} {once}");
                }
                let plain = !url.as_str().contains(['=', '_']) && !url.as_str().contains("sid");
                prop_assert!(!plain || once == url);
            }
        }
    }

    #[test]
    fn images_obey_reject_rules_only() {
        let s = scope("accept = ['org,example']\nreject = ['net,ads']");
        let image = |u: &str| s.image(&PageUrl::parse(u).unwrap());
        assert_eq!(image("http://cdn.net/a.jpg"), Ok(()));
        assert_eq!(image("http://ads.net/a.jpg"), Err(Reason::Scope));
    }
}
