//! Terms of use: what publishers state about the use of their pages and images, and which
//! statements forbid ours.
//!
//! All statements are recorded as found. Only [`Terms::forbids`] derives consequences from them;
//! the signals to obey are an argument.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use Use::{Images, Text};

/// The most licences recorded for one page or image.
pub const MAX_LICENCES: usize = 20;

/// Headers in which a server states terms of use, as sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TermsHeaders {
    /// Every `X-Robots-Tag` header.
    pub robots_tags: Vec<String>,
    /// Every `tdm-reservation` header.
    pub tdm_reservation: Vec<String>,
    /// Every `tdm-policy` header.
    pub tdm_policy: Vec<String>,
    /// Every `Link` header.
    pub links: Vec<String>,
}

impl TermsHeaders {
    /// Takes them from a head; `all` returns the values of a header.
    pub fn of(all: impl Fn(&str) -> Vec<String>) -> Self {
        Self {
            robots_tags: all("x-robots-tag"),
            tdm_reservation: all("tdm-reservation"),
            tdm_policy: all("tdm-policy"),
            links: all("link"),
        }
    }
}

/// What a page or its headers ask of crawlers (`X-Robots-Tag`, meta robots).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Directives {
    /// Do not follow the links of this page.
    pub nofollow: bool,
    /// Do not keep this page.
    pub noindex: bool,
    /// Do not index the images of this page.
    pub noimageindex: bool,
    /// Do not use this page for machine learning.
    pub noai: bool,
    /// Do not use the images of this page for machine learning.
    pub noimageai: bool,
    /// Do not use this page for machine learning (another name for `noai`).
    pub noml: bool,
}

impl Directives {
    /// Adds the directives of `more`; neither side lifts a restriction of the other.
    pub fn add(&mut self, more: &Self) {
        self.nofollow |= more.nofollow;
        self.noindex |= more.noindex;
        self.noimageindex |= more.noimageindex;
        self.noai |= more.noai;
        self.noimageai |= more.noimageai;
        self.noml |= more.noml;
    }
}

/// What the publisher of a page or an image states about its use, as found. Everything is
/// recorded; the configuration decides what is obeyed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Terms {
    /// The directives of `X-Robots-Tag` headers and meta robots.
    #[serde(flatten)]
    pub directives: Directives,
    /// Whether text and data mining is reserved (TDM Reservation Protocol); `None` if not
    /// stated.
    pub tdm_reservation: Option<bool>,
    /// Where the terms for such mining are published.
    pub tdm_policy: Option<String>,
    /// The robots.txt signals that cover the address, each yes or no: `search`, `ai-input`
    /// and `ai-train` of `Content-Signal`, `train-ai` of `Content-Usage`, and any others.
    pub content_signals: BTreeMap<String, bool>,
    /// Addresses of licences (`rel=license`, JSON-LD), or their names if no address is
    /// given; each once, in order of appearance.
    pub licences: Vec<String>,
}

/// The uses that spoor makes of what it fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Keeping a page's sentences as training text.
    Text,
    /// Fetching images and keeping them with the words around them as training samples.
    Images,
}

/// The signals to obey. All are recorded either way; `nofollow` is always obeyed, because
/// it is about crawling rather than use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Obeyed {
    /// `X-Robots-Tag` and meta robots.
    pub robots: bool,
    /// TDM reservations.
    pub tdm: bool,
    /// `Content-Signal` and `Content-Usage` of robots.txt.
    pub content_signals: bool,
}

impl Default for Obeyed {
    /// Obeys all of them.
    fn default() -> Self {
        Self {
            robots: true,
            tdm: true,
            content_signals: true,
        }
    }
}

/// One statement that forbids a use.
struct TermsRow {
    /// How the log names it.
    words: &'static str,
    /// The uses that it forbids.
    uses: &'static [Use],
    /// Whether it is obeyed.
    obeyed: fn(&Obeyed) -> bool,
    /// Whether it was stated.
    said: fn(&Terms) -> bool,
}

#[rustfmt::skip]
const TABLE: &[TermsRow] = &[
    TermsRow { words: "noindex (robots)",      uses: &[Text, Images], obeyed: |o| o.robots,          said: |t| t.directives.noindex },
    TermsRow { words: "noai (robots)",         uses: &[Text, Images], obeyed: |o| o.robots,          said: |t| t.directives.noai },
    TermsRow { words: "noml (robots)",         uses: &[Text, Images], obeyed: |o| o.robots,          said: |t| t.directives.noml },
    TermsRow { words: "noimageindex (robots)", uses: &[Images],       obeyed: |o| o.robots,          said: |t| t.directives.noimageindex },
    TermsRow { words: "noimageai (robots)",    uses: &[Images],       obeyed: |o| o.robots,          said: |t| t.directives.noimageai },
    TermsRow { words: "tdm-reservation: 1",    uses: &[Text, Images], obeyed: |o| o.tdm,             said: |t| t.tdm_reservation == Some(true) },
    TermsRow { words: "Content-Signal: ai-train=no", uses: &[Text, Images], obeyed: |o| o.content_signals, said: |t| t.denies("ai-train") },
    TermsRow { words: "Content-Usage: train-ai=n",   uses: &[Text, Images], obeyed: |o| o.content_signals, said: |t| t.denies("train-ai") },
];

impl Terms {
    /// The statements that forbid a use, as text; empty if none does.
    ///
    /// | statement | sentences are kept | images are fetched and kept |
    /// |---|---|---|
    /// | `noindex`, `noai`, `noml` | no | no |
    /// | `noimageindex`, `noimageai` | yes | no |
    /// | TDM reserved | no | no |
    /// | `ai-train=no`, `train-ai=n` | no | no |
    pub fn forbids(&self, what: Use, obeyed: &Obeyed) -> Vec<&'static str> {
        let rows = TABLE.iter();
        rows.filter(|row| row.uses.contains(&what) && (row.obeyed)(obeyed) && (row.said)(self))
            .map(|row| row.words)
            .collect()
    }

    /// Whether nothing is stated.
    pub fn is_silent(&self) -> bool {
        *self == Self::default()
    }

    /// Combines these terms with `nearer` ones: robots directives, signals and licences add up,
    /// while a nearer TDM reservation replaces the farther one together with its policy (TDM
    /// Reservation Protocol, "Processing priority": a header supersedes the host's file, and
    /// metadata of the page both).
    #[must_use]
    pub fn then(mut self, nearer: Self) -> Self {
        self.directives.add(&nearer.directives);
        if nearer.tdm_reservation.is_some() {
            self.tdm_reservation = nearer.tdm_reservation;
            self.tdm_policy = nearer.tdm_policy;
        } else if nearer.tdm_policy.is_some() {
            self.tdm_policy = nearer.tdm_policy;
        }
        self.content_signals.extend(nearer.content_signals);
        self.license(nearer.licences);
        self
    }

    /// Records further licences, each once and at most [`MAX_LICENCES`].
    pub fn license(&mut self, licences: impl IntoIterator<Item = String>) {
        for licence in licences {
            if self.licences.len() < MAX_LICENCES && !self.licences.contains(&licence) {
                self.licences.push(licence);
            }
        }
    }

    fn denies(&self, signal: &str) -> bool {
        self.content_signals.get(signal) == Some(&false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directives(set: fn(&mut Directives)) -> Terms {
        let mut terms = Terms::default();
        set(&mut terms.directives);
        terms
    }

    fn tdm(reserved: Option<bool>, policy: Option<&str>) -> Terms {
        Terms {
            tdm_reservation: reserved,
            tdm_policy: policy.map(str::to_owned),
            ..Terms::default()
        }
    }

    fn signal(name: &str, yes: bool) -> Terms {
        Terms {
            content_signals: [(name.to_owned(), yes)].into(),
            ..Terms::default()
        }
    }

    #[test]
    fn what_forbids_which_use() {
        let robots = |o: &mut Obeyed| o.robots = false;
        let mining = |o: &mut Obeyed| o.tdm = false;
        let signals = |o: &mut Obeyed| o.content_signals = false;
        type Without = fn(&mut Obeyed);
        let cases: [(Terms, bool, bool, Without); 13] = [
            (Terms::default(), false, false, robots),
            (directives(|d| d.nofollow = true), false, false, robots),
            (directives(|d| d.noindex = true), true, true, robots),
            (directives(|d| d.noai = true), true, true, robots),
            (directives(|d| d.noml = true), true, true, robots),
            (directives(|d| d.noimageindex = true), false, true, robots),
            (directives(|d| d.noimageai = true), false, true, robots),
            (tdm(Some(true), None), true, true, mining),
            (tdm(Some(false), None), false, false, mining),
            (tdm(None, Some("https://a.org/")), false, false, mining),
            (signal("ai-train", false), true, true, signals),
            (signal("ai-train", true), false, false, signals),
            (signal("train-ai", false), true, true, signals),
        ];
        for (terms, text, images, without) in cases {
            let all = Obeyed::default();
            let said = (
                terms.forbids(Use::Text, &all),
                terms.forbids(Use::Images, &all),
            );
            assert_eq!(
                (said.0.len(), said.1.len()),
                (text.into(), images.into()),
                "{terms:?}"
            );
            let mut obeyed = all;
            without(&mut obeyed);
            assert!(terms.forbids(Use::Text, &obeyed).is_empty());
            assert!(terms.forbids(Use::Images, &obeyed).is_empty());
        }
        assert!(
            signal("search", false)
                .forbids(Use::Text, &Obeyed::default())
                .is_empty()
        );
    }

    #[test]
    fn nearer_terms_add_up_but_for_reservations() {
        let policy = Some("https://a.org/p");
        for (far, near, expected) in [
            (
                tdm(Some(true), policy),
                tdm(None, None),
                (Some(true), policy),
            ),
            (
                tdm(Some(true), policy),
                tdm(Some(false), None),
                (Some(false), None),
            ),
            (
                tdm(Some(false), None),
                tdm(Some(true), policy),
                (Some(true), policy),
            ),
            (
                tdm(Some(true), None),
                tdm(None, policy),
                (Some(true), policy),
            ),
            (tdm(None, None), tdm(None, None), (None, None)),
        ] {
            let both = far.then(near);
            assert_eq!((both.tdm_reservation, both.tdm_policy.as_deref()), expected);
        }
        let mut far = directives(|d| d.noai = true);
        far.license(["a".to_owned(), "b".to_owned(), "a".to_owned()]);
        let mut near = directives(|d| d.nofollow = true);
        near.license(["b".to_owned(), "c".to_owned()]);
        let both = far.then(near);
        assert!(both.directives.noai && both.directives.nofollow);
        assert_eq!(both.licences, ["a", "b", "c"]);
        let mut many = Terms::default();
        many.license((0..1_000).map(|i| i.to_string()));
        assert_eq!(many.licences.len(), MAX_LICENCES);
    }
}
