//! Terms of use: what publishers state about the use of their pages and images, and which
//! statements forbid ours.
//!
//! All statements are recorded as found. Only [`Terms::forbids`] derives consequences from them;
//! the signals to obey are an argument.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rsl::{MAX_RSL_FILES, RslTerms};
use crate::address::PageUrl;
use crate::clock::timestamp;
use Use::{Archive, Images, Index, Text};

/// The most licences recorded for one page or image.
pub const MAX_LICENCES: usize = 20;

/// The most content signals recorded for one page or image; those that may forbid anything are always
/// recorded.
pub const MAX_SIGNALS: usize = 20;

/// The content signals that may forbid anything.
pub const SIGNALS: [&str; 4] = ["ai-train", "train-ai", "search", "use"];

/// Headers in which a server states terms of use, as sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TermsHeaders {
    /// Every `X-Robots-Tag` header.
    pub robots_tags: Vec<String>,
    /// Every `tdm-reservation` header.
    pub tdm_reservation: Vec<String>,
    /// Every `tdm-policy` header.
    pub tdm_policy: Vec<String>,
    /// Every `Content-Signal` and `Content-Usage` header.
    pub content_signals: Vec<String>,
    /// Every `Link` header.
    pub links: Vec<String>,
}

impl TermsHeaders {
    /// Takes them from a head; `all` returns the values of a header.
    pub fn of(all: impl Fn(&str) -> Vec<String>) -> Self {
        let mut content_signals = all("content-signal");
        content_signals.extend(all("content-usage"));
        Self {
            robots_tags: all("x-robots-tag"),
            tdm_reservation: all("tdm-reservation"),
            tdm_policy: all("tdm-policy"),
            content_signals,
            links: all("link"),
        }
    }

    /// Whether no header states anything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
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
    /// Do not keep a copy of this page.
    #[serde(skip_serializing_if = "is_false")]
    pub noarchive: bool,
    /// From this day on (UTC, `2026-12-31`), do not keep this page: the earliest day of
    /// `unavailable_after`. A day that cannot be read is `0000-00-00`, which has passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable_after: Option<String>,
}

fn is_false(flag: &bool) -> bool {
    !flag
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
        self.noarchive |= more.noarchive;
        if let Some(day) = &more.unavailable_after {
            self.unavailable_from(day.clone());
        }
    }

    /// Adds a day of `unavailable_after`; the earliest one counts.
    pub fn unavailable_from(&mut self, day: String) {
        let known = self.unavailable_after.take();
        self.unavailable_after = Some(known.map_or(day.clone(), |known| known.min(day)));
    }
}

/// What a content signal says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SignalValue {
    /// `yes` or `y`, `no` or `n`.
    Flag(bool),
    /// Another value, as written, such as `reference` of `use=reference`.
    Word(String),
}

impl SignalValue {
    /// The meaning of a written value.
    pub fn of(written: &str) -> Self {
        match written.to_ascii_lowercase().as_str() {
            "yes" | "y" => Self::Flag(true),
            "no" | "n" => Self::Flag(false),
            _ => Self::Word(written.to_owned()),
        }
    }

    /// The value in words: `yes`, `no` or as written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Flag(true) => "yes",
            Self::Flag(false) => "no",
            Self::Word(word) => word,
        }
    }

    /// The more restrictive one of two values of the same signal.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        // Of the values of `use`, `immediate` forbids most and `full` least.
        let rank = |value: &Self| match value.as_str().to_ascii_lowercase().as_str() {
            "no" => 0,
            "immediate" => 1,
            "reference" => 2,
            "full" => 4,
            "yes" => 5,
            _ => 3,
        };
        if rank(&other) < rank(&self) {
            other
        } else {
            self
        }
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
    /// What `Content-Signal` and `Content-Usage` say, in robots.txt, headers and meta elements:
    /// `search`, `ai-input`, `ai-train` and `use` of the first, `train-ai` and `search` of the
    /// second, and any others.
    pub content_signals: BTreeMap<String, SignalValue>,
    /// What the RSL files say that the host, the answer or the page names (Really Simple
    /// Licensing 1.0).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rsl: Vec<RslTerms>,
    /// Addresses of licences (`rel=license`, JSON-LD), or their names if no address is
    /// given; each once, in order of appearance.
    pub licences: Vec<String>,
}

/// The uses that spoor makes of what it fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Keeping a page's sentences and document as training text.
    Text,
    /// Fetching images and keeping them with the words around them as training samples.
    Images,
    /// Making documents searchable in an index.
    Index,
    /// Keeping the exchange with the server in an archive.
    Archive,
}

impl Use {
    /// All of them.
    pub const ALL: [Self; 4] = [Text, Images, Index, Archive];
}

/// A way in which publishers state terms of use. The configuration names those that are
/// obeyed. All are recorded either way; `nofollow` is always obeyed, because it is about
/// crawling rather than use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// `X-Robots-Tag` headers and meta robots.
    Robots,
    /// The TDM Reservation Protocol.
    Tdm,
    /// `Content-Signal` and `Content-Usage`.
    ContentSignal,
    /// Files of Really Simple Licensing.
    Rsl,
}

impl Signal {
    /// All of them, which are obeyed by default.
    pub const ALL: [Self; 4] = [Self::Robots, Self::Tdm, Self::ContentSignal, Self::Rsl];

    /// The word for it in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Robots => "robots",
            Self::Tdm => "tdm",
            Self::ContentSignal => "content-signal",
            Self::Rsl => "rsl",
        }
    }
}

/// One statement that forbids uses.
pub struct Prohibition {
    /// How the log names it.
    pub words: &'static str,
    /// The uses that it forbids.
    pub uses: &'static [Use],
    /// How it is stated.
    pub signal: Signal,
    /// Whether it was stated, on the day.
    said: fn(&Terms, &str) -> bool,
}

/// The uses of a publisher's work as training data.
const TRAINING: &[Use] = &[Text, Images, Archive];
const ALL: &[Use] = &Use::ALL;

/// Every statement that forbids anything. The guide's table and its test are made of it.
#[rustfmt::skip]
pub const PROHIBITIONS: &[Prohibition] = &[
    no("noindex (robots)",             ALL,                     Signal::Robots,        |t, _| t.directives.noindex),
    no("noai (robots)",                TRAINING,                Signal::Robots,        |t, _| t.directives.noai),
    no("noml (robots)",                TRAINING,                Signal::Robots,        |t, _| t.directives.noml),
    no("noimageindex (robots)",        &[Images],               Signal::Robots,        |t, _| t.directives.noimageindex),
    no("noimageai (robots)",           &[Images],               Signal::Robots,        |t, _| t.directives.noimageai),
    no("noarchive (robots)",           &[Archive],              Signal::Robots,        |t, _| t.directives.noarchive),
    no("unavailable_after (robots)",   ALL,                     Signal::Robots,        |t, day| t.directives.unavailable_after.as_deref().is_some_and(|after| after <= day)),
    no("tdm-reservation: 1",           TRAINING,                Signal::Tdm,           |t, _| t.tdm_reservation == Some(true)),
    no("Content-Signal: ai-train=no",  TRAINING,                Signal::ContentSignal, |t, _| t.says("ai-train", "no")),
    no("Content-Signal: search=no",    &[Index],                Signal::ContentSignal, |t, _| t.says("search", "no")),
    no("Content-Signal: use=immediate", ALL,                    Signal::ContentSignal, |t, _| t.says("use", "immediate") || t.says("use", "no")),
    no("Content-Signal: use=reference", TRAINING,               Signal::ContentSignal, |t, _| t.says("use", "reference")),
    no("Content-Usage: train-ai=n",    TRAINING,                Signal::ContentSignal, |t, _| t.says("train-ai", "no")),
    no("RSL prohibits all",            ALL,                     Signal::Rsl,           |t, _| t.prohibits(&["all"])),
    no("RSL prohibits ai-train",       TRAINING,                Signal::Rsl,           |t, _| t.prohibits(&["ai-all", "ai-train", "train-ai"])),
    no("RSL prohibits search",         &[Index],                Signal::Rsl,           |t, _| t.prohibits(&["search"])),
    no("RSL file cannot be read",      ALL,                     Signal::Rsl,           |t, _| t.rsl.iter().any(|rsl| !rsl.read)),
];

const fn no(
    words: &'static str,
    uses: &'static [Use],
    signal: Signal,
    said: fn(&Terms, &str) -> bool,
) -> Prohibition {
    Prohibition {
        words,
        uses,
        signal,
        said,
    }
}

impl Terms {
    /// The statements of obeyed signals that forbid a use, as text; empty if none does. `now`, in
    /// milliseconds since 1970, decides about `unavailable_after`.
    pub fn forbids(&self, what: Use, obeyed: &[Signal], now: u64) -> Vec<&'static str> {
        if self.is_silent() {
            return Vec::new();
        }
        let day = timestamp(now);
        let day = day.get(..10).unwrap_or_default();
        let rows = PROHIBITIONS.iter();
        rows.filter(|row| row.uses.contains(&what) && obeyed.contains(&row.signal))
            .filter(|row| (row.said)(self, day))
            .map(|row| row.words)
            .collect()
    }

    /// All statements in words, as publishers write them.
    pub fn words(&self) -> Vec<String> {
        let Directives {
            nofollow,
            noindex,
            noimageindex,
            noai,
            noimageai,
            noml,
            noarchive,
            unavailable_after,
        } = &self.directives;
        let named = [
            (nofollow, "nofollow"),
            (noindex, "noindex"),
            (noimageindex, "noimageindex"),
            (noai, "noai"),
            (noimageai, "noimageai"),
            (noml, "noml"),
            (noarchive, "noarchive"),
        ];
        let named = named.into_iter().filter(|(is_set, _)| **is_set);
        let mut words: Vec<String> = named.map(|(_, name)| name.to_owned()).collect();
        words.extend(
            unavailable_after
                .iter()
                .map(|day| format!("unavailable_after: {day}")),
        );
        let reserved = self.tdm_reservation.map(u8::from);
        words.extend(reserved.map(|reserved| format!("tdm-reservation: {reserved}")));
        words.extend(
            self.tdm_policy
                .iter()
                .map(|policy| format!("tdm-policy: {policy}")),
        );
        let signals = self.content_signals.iter();
        words.extend(signals.map(|(name, value)| format!("{name}={}", value.as_str())));
        for rsl in &self.rsl {
            let mut parts = Vec::new();
            for (what, names) in [
                ("prohibits", &rsl.prohibits),
                ("permits", &rsl.permits),
                ("payment", &rsl.payment),
            ] {
                if !names.is_empty() {
                    parts.push(format!("{what} {}", names.join(" ")));
                }
            }
            let stated = match (rsl.read, parts.is_empty()) {
                (false, _) => "cannot be read".to_owned(),
                (true, true) => "prohibits nothing".to_owned(),
                (true, false) => parts.join(", "),
            };
            words.push(format!("RSL {}: {stated}", rsl.file));
        }
        words.extend(
            self.licences
                .iter()
                .map(|licence| format!("license: {licence}")),
        );
        words
    }

    /// Whether nothing is stated.
    pub fn is_silent(&self) -> bool {
        *self == Self::default()
    }

    /// Combines these terms with `nearer` ones: robots directives, signals, RSL files and licences add up,
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
        for (name, value) in nearer.content_signals {
            self.signal(name, value);
        }
        for rsl in nearer.rsl {
            self.name_rsl(rsl);
        }
        self.license(nearer.licences);
        self
    }

    /// Combines these terms with those that the same publisher stated at another time: of
    /// everything, the strictest counts.
    #[must_use]
    pub fn at_all_times(mut self, mut other: Self) -> Self {
        for known in &mut self.rsl {
            if let Some(at) = other.rsl.iter().position(|rsl| rsl.file == known.file) {
                known.add(other.rsl.swap_remove(at));
            }
        }
        let reserved = self.tdm_reservation.max(other.tdm_reservation);
        let policy_of = |terms: &Self| {
            let decides = terms.tdm_reservation == reserved;
            terms.tdm_policy.clone().filter(|_| decides)
        };
        let policy = policy_of(&self).or(policy_of(&other));
        Self {
            tdm_reservation: reserved,
            tdm_policy: policy,
            ..self.then(other)
        }
    }

    /// Adds what a content signal says. If it is stated several times, the most restrictive
    /// value counts (draft-ietf-aipref-vocab, "Combining Preferences"). Of those that forbid nothing,
    /// at most 20 are recorded.
    pub fn signal(&mut self, name: String, value: SignalValue) {
        let known = self.content_signals.remove(&name);
        let is_decisive = SIGNALS.contains(&name.as_str());
        if known.is_none() && !is_decisive && self.content_signals.len() >= MAX_SIGNALS {
            return;
        }
        let value = match known {
            Some(known) => known.stricter(value),
            None => value,
        };
        self.content_signals.insert(name, value);
    }

    /// Adds an RSL file, unless its contents are known. If there are more than [`MAX_LICENCES`], the
    /// last one counts as unread.
    pub fn name_rsl(&mut self, rsl: RslTerms) {
        let is_known = self.rsl.iter().any(|known| known.file == rsl.file);
        if !is_known && self.rsl.len() < MAX_LICENCES {
            self.rsl.push(rsl);
        } else if !is_known && let Some(last) = self.rsl.last_mut() {
            last.read = false;
        }
    }

    /// Records further licences, each once and at most [`MAX_LICENCES`].
    pub fn license(&mut self, licences: impl IntoIterator<Item = String>) {
        for licence in licences {
            if self.licences.len() < MAX_LICENCES && !self.licences.contains(&licence) {
                self.licences.push(licence);
            }
        }
    }

    fn says(&self, signal: &str, value: &str) -> bool {
        debug_assert!(SIGNALS.contains(&signal), "{signal}");
        let said = self.content_signals.get(signal);
        said.is_some_and(|said| said.as_str().eq_ignore_ascii_case(value))
    }

    fn prohibits(&self, uses: &[&str]) -> bool {
        let mut all = self.rsl.iter().flat_map(|rsl| &rsl.prohibits);
        all.any(|named| uses.contains(&named.as_str()))
    }
}

/// The terms of use that the files of a host state for an address.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostTerms {
    /// What robots.txt, tdmrep.json and the RSL files that robots.txt names state.
    pub stated: Terms,
    /// What every known RSL file of the host states, for pages and images that name it.
    pub rsl: Vec<RslTerms>,
    /// What the headers of the redirects state that led here, as far as they forbid anything.
    pub on_way: Terms,
}

impl HostTerms {
    /// These terms with those of the answer.
    pub fn then(&self, mut nearer: Terms) -> Terms {
        self.resolve(&mut nearer);
        self.stated.clone().then(nearer).then(self.on_way.clone())
    }

    /// Completes RSL files that are only named.
    fn resolve(&self, terms: &mut Terms) {
        for named in &mut terms.rsl {
            if let Some(known) = self.rsl.iter().find(|known| known.file == named.file) {
                *named = known.clone();
            }
        }
    }

    /// What a redirect from here states for its target, given the terms in its headers. A
    /// permission on the way lifts no reservation of the target.
    pub fn of_redirect(&self, mut headers: Terms) -> Terms {
        self.resolve(&mut headers);
        let mut all = self.on_way.clone().then(headers);
        if all.tdm_reservation == Some(false) {
            all.tdm_reservation = self.on_way.tdm_reservation;
            all.tdm_policy = None;
        }
        all.licences.clear();
        all
    }

    /// The RSL files of the host of `url` that an answer with these terms names, that are not known
    /// yet, and for which there is room. Those without room stay unread, which forbids every use.
    pub fn unknown(&self, terms: &Terms, url: &PageUrl) -> Vec<String> {
        let host = url.host_key();
        let is_of_host = |file: &str| PageUrl::parse(file).is_ok_and(|f| f.host_key() == host);
        let is_known = |file: &str| self.rsl.iter().any(|known| known.file == file);
        let unread = terms.rsl.iter().filter(|rsl| !rsl.read);
        unread
            .filter(|rsl| !is_known(&rsl.file) && is_of_host(&rsl.file))
            .map(|rsl| rsl.file.clone())
            .take(MAX_RSL_FILES.saturating_sub(self.rsl.len()))
            .collect()
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

    fn signal(name: &str, value: &str) -> Terms {
        Terms {
            content_signals: [(name.to_owned(), SignalValue::of(value))].into(),
            ..Terms::default()
        }
    }

    fn rsl(prohibits: &str, read: bool) -> Terms {
        let file = RslTerms {
            read,
            prohibits: prohibits.split(' ').map(str::to_owned).collect(),
            permits: vec!["all".to_owned()],
            ..RslTerms::default()
        };
        Terms {
            rsl: vec![file],
            ..Terms::default()
        }
    }

    /// The uses that are forbidden, as their first letters.
    fn forbidden(terms: &Terms, obeyed: &[Signal]) -> String {
        // 2026-11-30.
        let now = 1_795_996_800_000;
        let letter = |what: &&Use| format!("{what:?}").to_lowercase()[..2].to_owned();
        let uses = Use::ALL;
        let forbidden = uses
            .iter()
            .filter(|what| !terms.forbids(**what, obeyed, now).is_empty());
        forbidden
            .map(|what| letter(&what))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn what_forbids_which_use() {
        use Signal::{ContentSignal, Robots, Rsl, Tdm};
        let (all, training) = ("te im in ar", "te im ar");
        let until = |day: &str| {
            let mut terms = Terms::default();
            terms.directives.unavailable_from(day.to_owned());
            terms
        };
        for (terms, expected, signal) in [
            (Terms::default(), "", Robots),
            (directives(|d| d.nofollow = true), "", Robots),
            (directives(|d| d.noindex = true), all, Robots),
            (directives(|d| d.noai = true), training, Robots),
            (directives(|d| d.noml = true), training, Robots),
            (directives(|d| d.noimageindex = true), "im", Robots),
            (directives(|d| d.noimageai = true), "im", Robots),
            (directives(|d| d.noarchive = true), "ar", Robots),
            (until("2026-11-30"), all, Robots),
            (until("0000-00-00"), all, Robots),
            (until("2026-12-01"), "", Robots),
            (tdm(Some(true), None), training, Tdm),
            (tdm(Some(false), None), "", Tdm),
            (tdm(None, Some("https://a.org/")), "", Tdm),
            (signal("ai-train", "no"), training, ContentSignal),
            (signal("ai-train", "yes"), "", ContentSignal),
            (signal("ai-input", "no"), "", ContentSignal),
            (signal("train-ai", "N"), training, ContentSignal),
            (signal("search", "n"), "in", ContentSignal),
            (signal("use", "Immediate"), all, ContentSignal),
            (signal("use", "no"), all, ContentSignal),
            (signal("use", "reference"), training, ContentSignal),
            (signal("use", "full"), "", ContentSignal),
            (signal("use", "later"), "", ContentSignal),
            (rsl("all", true), all, Rsl),
            (rsl("search ai-train", true), all, Rsl),
            (rsl("ai-all", true), training, Rsl),
            (rsl("search", true), "in", Rsl),
            (rsl("ai-input ai-index", true), "", Rsl),
            (rsl("", false), all, Rsl),
        ] {
            assert_eq!(forbidden(&terms, &Signal::ALL), expected, "{terms:?}");
            let others: Vec<_> = Signal::ALL.into_iter().filter(|s| *s != signal).collect();
            assert_eq!(forbidden(&terms, &others), "", "{terms:?}");
        }
    }

    #[test]
    fn the_strictest_value_of_a_signal_counts() {
        for (first, second, expected) in [
            ("yes", "no", "no"),
            ("y", "later", "later"),
            ("full", "reference", "reference"),
            ("Immediate", "reference", "Immediate"),
            ("yes", "yes", "yes"),
        ] {
            for (first, second) in [(first, second), (second, first)] {
                let both = signal("use", first).then(signal("use", second));
                assert_eq!(both.content_signals["use"].as_str(), expected);
            }
        }
        let mut both = directives(|d| d.unavailable_from("2027-01-01".to_owned()));
        both.directives
            .add(&directives(|d| d.unavailable_from("2026-01-01".to_owned())).directives);
        assert_eq!(
            both.directives.unavailable_after.as_deref(),
            Some("2026-01-01")
        );
    }

    #[test]
    fn a_file_that_was_read_counts_instead_of_its_mention() {
        let known = rsl("search", true);
        let both = known.clone().then(Terms {
            rsl: vec![RslTerms::unread(known.rsl[0].file.clone())],
            ..Terms::default()
        });
        assert_eq!(both, known);
        let other = Terms {
            rsl: vec![RslTerms::unread("http://a.org/other".to_owned())],
            ..Terms::default()
        };
        assert_eq!(known.then(other).rsl.len(), 2);
    }

    #[test]
    fn the_strictest_terms_of_all_times_count() {
        let file = |prohibits: &str, read: bool| {
            let mut terms = rsl(prohibits, read);
            terms.rsl[0].permits = vec![prohibits.to_owned()];
            terms
        };
        for (first, second, expected) in [
            (tdm(Some(true), None), tdm(Some(false), None), "te im ar"),
            (tdm(Some(true), None), tdm(None, None), "te im ar"),
            (signal("search", "no"), signal("search", "yes"), "in"),
            (file("search", true), file("ai-train", true), "te im in ar"),
            (file("search", true), file("search", false), "te im in ar"),
            (directives(|d| d.noarchive = true), Terms::default(), "ar"),
        ] {
            for (first, second) in [(&first, &second), (&second, &first)] {
                let all = first.clone().at_all_times(second.clone());
                assert_eq!(forbidden(&all, &Signal::ALL), expected, "{all:?}");
                assert!(all.rsl.len() <= 1);
            }
        }
        let all = file("search", true).at_all_times(file("ai-train", true));
        assert!(all.rsl[0].permits.is_empty());
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
