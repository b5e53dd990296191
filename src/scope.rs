//! Which addresses belong to the crawl: pure rules over one URL.
//!
//! Rules see an address and its distance from the seeds, never a page, a store
//! or the network, so the same verdict can be given again at any time.

use crate::address::PageUrl;
use crate::config;
use crate::page::Reason;

/// The `[scope]` section as a judge.
#[derive(Debug, Clone)]
pub struct Scope(config::Scope);

impl Scope {
    /// Takes the rules of a checked config.
    pub fn new(section: config::Scope) -> Self {
        Self(section)
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
        if extension.is_some_and(rejected) {
            return Err(Reason::Scope);
        }
        self.sitemap(url)
    }

    /// Whether a sitemap at `url` is read: as a page, but its file type and its
    /// distance from the seeds say nothing.
    ///
    /// # Errors
    /// The reason why it is not.
    pub fn sitemap(&self, url: &PageUrl) -> Result<(), Reason> {
        let surt = url.surt();
        let accepted = self.0.accept.is_empty() || self.0.accept.iter().any(|r| r.covers(&surt));
        if !accepted || !self.has_scheme(url) || self.rejects(&surt) {
            return Err(Reason::Scope);
        }
        if self.is_trap(url.path()) {
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
        let deep: String = (0..40).map(|i| format!("/{i}")).collect();
        assert_eq!(page(&s, &format!("http://a.org{deep}")), Err(Reason::Trap));
    }

    #[test]
    fn sitemaps_are_judged_as_pages_but_for_file_types() {
        let s = scope("accept = ['org,example']\nreject = ['org,example)/no']\nmax_hops = 0");
        let sitemap = |u: &str| s.sitemap(&PageUrl::parse(u).unwrap());
        assert_eq!(sitemap("http://example.org/map.xml.gz"), Ok(()));
        assert_eq!(sitemap("http://example.org/no/map.xml"), Err(Reason::Scope));
        assert_eq!(sitemap("http://other.org/map.xml"), Err(Reason::Scope));
    }

    #[test]
    fn images_obey_reject_rules_only() {
        let s = scope("accept = ['org,example']\nreject = ['net,ads']");
        let image = |u: &str| s.image(&PageUrl::parse(u).unwrap());
        assert_eq!(image("http://cdn.net/a.jpg"), Ok(()));
        assert_eq!(image("http://ads.net/a.jpg"), Err(Reason::Scope));
    }
}
