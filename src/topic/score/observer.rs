//! The probability that a page is on topic, which every crawl computes for every page, and
//! the clues of its links, which a learning crawl needs as well.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use percent_encoding::percent_decode_str;
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::contrast::{Adopted, Contrast, Measured, WordEvidence, mean_and_best};
use super::judge::Judge;
use super::page_words::PageWords;
use super::passages::Passages;
use super::topicality::Topicality;
use crate::address::PageUrl;
use crate::lm::{Sentence, normalise};
use crate::page::{Clues, Extracted, Link, Nearness, Words};
use crate::settings::Clue;

/// The most words of an anchor, and of an address, that become traits.
const MAX_WORDS: usize = 6;
/// The most traits of a link that are not words.
const OTHER_TRAITS: usize = 6;

/// The judgement about a page.
#[derive(Debug, Clone, PartialEq)]
pub struct PageVerdict {
    /// The probability of being on topic, 0 to 1, as used for counting.
    pub on_topic: f64,
    /// Whether that is a guess, because it is based on the perplexity alone or on too few
    /// texts.
    pub guessed: bool,
    /// The input for the judge of a learning crawl.
    pub nearness: Nearness,
    /// The contrast used for counting, in nats per token, if it could be measured.
    pub contrast: Option<f64>,
}

/// Examines pages with a topic's model. Cheap to clone.
#[derive(Clone)]
pub struct PageObserver {
    contrast: Option<Arc<Contrast>>,
    topicality: Topicality,
    /// The judge of the crawl, which knows more words of the topic; `None` without
    /// learning.
    judge: Option<Arc<RwLock<Judge>>>,
    /// The kinds of clues it extracts from links; `None` if it examines pages only.
    clues: Option<Arc<[Clue]>>,
}

impl PageObserver {
    /// Uses the contrast of words if training could measure it, and otherwise only
    /// perplexities: `high` and `medium` are the boundaries of those classes.
    pub fn new(contrast: Option<(Arc<Contrast>, Topicality)>, high: f64, medium: f64) -> Self {
        match contrast {
            Some((contrast, topicality)) => Self {
                contrast: Some(contrast),
                topicality,
                judge: None,
                clues: Some(Clue::ALL.into()),
            },
            None => Self {
                contrast: None,
                topicality: Topicality::of_perplexities(high, medium),
                judge: None,
                clues: Some(Clue::ALL.into()),
            },
        }
    }

    /// Uses the words that the judge of a crawl knows as well.
    #[must_use]
    pub fn asking(self, judge: Option<Arc<RwLock<Judge>>>) -> Self {
        Self { judge, ..self }
    }

    /// Restricts the clues to these kinds.
    #[must_use]
    pub fn only(self, clues: &[Clue]) -> Self {
        Self {
            clues: Some(clues.into()),
            ..self
        }
    }

    /// Judges pages but ignores their links.
    #[must_use]
    pub fn of_pages_alone(self) -> Self {
        Self {
            clues: None,
            ..self
        }
    }

    fn sees(&self, clue: Clue) -> bool {
        self.clues.as_ref().is_some_and(|c| c.contains(&clue))
    }

    /// Judges a document by its sentences and perplexity; a document without sentences is
    /// off topic.
    pub fn judge(&self, sentences: &[Sentence], perplexity: f64) -> PageVerdict {
        let contrast = self.contrast.as_ref();
        let adopted = self.adopted();
        let passages = self.passages();
        let measured = contrast.and_then(|c| c.document(sentences, perplexity, &adopted, passages));
        self.verdict(measured, sentences.is_empty(), perplexity)
    }

    fn verdict(&self, measured: Option<Measured>, is_empty: bool, perplexity: f64) -> PageVerdict {
        let curve = &self.topicality;
        let guessed = self.contrast.is_none() || curve.few;
        let (on_topic, nearness) = match (&self.contrast, measured) {
            (_, Some(measured)) => {
                let nearness = self.read_judge(|judge| Nearness::Above {
                    deviations: judge.nearness(&measured),
                    seed: None,
                });
                let likely = || Nearness::Likely(curve.of(measured.counting));
                let nearness = nearness.unwrap_or_else(likely);
                (curve.counted(measured.counting), nearness)
            }
            (Some(_), None) => (0.0, Nearness::Likely(0.0)),
            (None, None) if is_empty => (0.0, Nearness::Likely(0.0)),
            (None, None) => {
                let likely = curve.of(perplexity.max(1.0).ln());
                (likely, Nearness::Likely(likely))
            }
        };
        PageVerdict {
            on_topic,
            guessed,
            nearness,
            contrast: measured.map(|measured| measured.counting),
        }
    }

    fn read_judge<T>(&self, ask: impl FnOnce(&Judge) -> T) -> Option<T> {
        let judge = self.judge.as_ref()?;
        Some(ask(&judge.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The passages that pages are compared with: only the judge of a crawl does that.
    fn passages(&self) -> Option<&Passages> {
        self.judge.as_ref()?;
        self.contrast.as_ref()?.passages()
    }

    /// The words that count as the topic's in addition to those of the given texts.
    fn adopted(&self) -> Arc<Adopted> {
        self.read_judge(Judge::adopted).unwrap_or_default()
    }

    /// The contrast, if it judges by one.
    pub(super) fn contrast(&self) -> Option<&Contrast> {
        self.contrast.as_deref()
    }

    /// Analyses the words of a page, which were looked up in its contrast.
    pub(super) fn examine<'a>(&'a self, words: &'a PageWords<'a>) -> Examined<'a> {
        let adopted = self.adopted();
        let contrast = self.contrast.as_ref();
        Examined {
            observer: self,
            evidence: contrast.map(|c| c.evidence(words.looked_up(), &adopted)),
            adopted,
            words,
        }
    }
}

/// A page whose words were all analysed.
pub(super) struct Examined<'a> {
    observer: &'a PageObserver,
    adopted: Arc<Adopted>,
    words: &'a PageWords<'a>,
    /// The evidence of each distinct word, by number; `None` without a contrast.
    evidence: Option<Vec<WordEvidence>>,
}

impl Examined<'_> {
    /// Judges the document as [`PageObserver::judge`] does.
    pub(super) fn judge(&self, perplexity: f64) -> PageVerdict {
        let measured = self.evidence.as_ref().and_then(|evidence| {
            let times = self.words.times();
            let counted = times.iter();
            let counted = counted.filter_map(|(n, times)| Some((evidence.get(*n)?, *times)));
            Measured::of(counted, perplexity, self.observer.passages())
        });
        let is_empty = self.words.counted().next().is_none();
        self.observer.verdict(measured, is_empty, perplexity)
    }

    /// The clues of each link of a page, in order, except for how far the page itself is
    /// on topic; empty if the observer judges pages only.
    pub(super) fn clues(&self, page: &PageUrl, extracted: &Extracted) -> Vec<Clues> {
        if self.observer.clues.is_none() {
            return Vec::new();
        }
        let mut seen = PageFeatures {
            examined: self,
            page,
            of_blocks: FxHashMap::default(),
            anchors: HashMap::with_capacity(extracted.links.len()),
            key: Vec::new(),
        };
        extracted.links.iter().map(|link| seen.link(link)).collect()
    }

    /// The mean and the best ratio of the words of a short text; most are on the page.
    fn mean(&self, words: &Sentence) -> (f32, f32) {
        let ratio = |token: &str| {
            let on_page = self.words.number(token);
            match (on_page, &self.evidence, &self.observer.contrast) {
                (Some(number), Some(evidence), _) => Some(evidence.get(number)?.ratio),
                (_, _, Some(contrast)) => Some(contrast.ratio_of_word(token, &self.adopted)),
                (_, _, None) => None,
            }
        };
        let (mean, best) = mean_and_best(words.tokens().filter_map(ratio));
        (mean as f32, best as f32)
    }

    /// The mean ratio of the words of a block.
    fn block(&self, number: u32) -> f32 {
        let Some(evidence) = &self.evidence else {
            return 0.0;
        };
        let tokens = self.words.tokens().of_block(number as usize);
        let ratios = self.words.numbers(tokens);
        let ratios = ratios.filter_map(|number| Some(evidence.get(number)?.ratio));
        mean_and_best(ratios).0 as f32
    }
}

/// The features of one page; texts that occur again are analysed once.
struct PageFeatures<'a> {
    examined: &'a Examined<'a>,
    page: &'a PageUrl,
    of_blocks: FxHashMap<u32, f32>,
    /// Mean, best, and traits.
    anchors: HashMap<&'a str, (f32, f32, Vec<u32>)>,
    /// The bytes whose hash is the number of a trait.
    key: Vec<u8>,
}

impl<'a> PageFeatures<'a> {
    fn link(&mut self, link: &'a Link) -> Clues {
        let address = words_of(&link.url);
        let (near, heading) = (self.block(link.place.block), self.block(link.place.heading));
        let examined = self.examined;
        let observer = examined.observer;
        let of_anchor = self.anchors.entry(&link.anchor);
        let (anchor, best, traits) = of_anchor.or_insert_with(|| {
            let words = normalise(&link.anchor);
            let (mean, best) = examined.mean(&words);
            (mean, best, traits_of(1, &words).collect())
        });
        let sees_words = observer.sees(Clue::Words);
        let of_words: &[u32] = if sees_words { traits } else { &[] };
        let mut traits = Vec::with_capacity(of_words.len() + address.len() + OTHER_TRAITS);
        traits.extend_from_slice(of_words);
        if sees_words {
            traits.extend(traits_of(2, &address));
        }
        if observer.sees(Clue::Place) {
            let [whole, near_path, marked] = link.place.path;
            traits.extend([
                number(3, &whole.to_le_bytes()),
                number(4, &near_path.to_le_bytes()),
                number(5, &marked.to_le_bytes()),
            ]);
            // The list on this very page: its other links are siblings.
            let page = self.page.as_str().as_bytes();
            traits.push(joined(6, &mut self.key, &[page, &whole.to_le_bytes()]));
        }
        if observer.sees(Clue::Host) {
            let host = link.url.authority().as_bytes();
            traits.push(number(7, host));
            if let Some(prefix) = prefix(&link.url) {
                traits.push(joined(8, &mut self.key, &[host, b" ", prefix.as_bytes()]));
            }
        }
        traits.sort_unstable();
        traits.dedup();
        Clues {
            words: if sees_words {
                Words {
                    anchor: *anchor,
                    best: *best,
                    address: examined.mean(&address).0,
                    near,
                    heading,
                }
            } else {
                Words::default()
            },
            traits,
            ..Clues::default()
        }
    }

    fn block(&mut self, block: Option<u32>) -> f32 {
        let Some(number) = block else {
            return 0.0;
        };
        let of_block = self.of_blocks.entry(number);
        *of_block.or_insert_with(|| self.examined.block(number))
    }
}

/// The words of an address's path and query, without the extension of a file name.
fn words_of(url: &PageUrl) -> Sentence {
    let path = url.path();
    let path = match path.rsplit_once('.') {
        Some((name, ending)) if (1..=5).contains(&ending.len()) && !ending.contains('/') => name,
        _ => path,
    };
    let whole;
    let text = match url.query() {
        Some(query) => {
            whole = [path, query].join(" ");
            &whole
        }
        None => path,
    };
    normalise(&percent_decode_str(text).decode_utf8_lossy())
}

/// The first segment of a path with further segments.
fn prefix(url: &PageUrl) -> Option<&str> {
    let path = url.path().strip_prefix('/')?;
    path.split_once('/').map(|(first, _)| first)
}

fn traits_of(kind: u64, words: &Sentence) -> impl Iterator<Item = u32> {
    let words = words.tokens().take(MAX_WORDS);
    words.map(move |word| number(kind, word.as_bytes()))
}

/// The number of these parts in a row; `key` is overwritten.
fn joined(kind: u64, key: &mut Vec<u8>, parts: &[&[u8]]) -> u32 {
    key.clear();
    parts.iter().for_each(|part| key.extend_from_slice(part));
    number(kind, key)
}

/// These numbers are stored, so the hash must never change.
fn number(kind: u64, what: &[u8]) -> u32 {
    xxh3_64_with_seed(what, kind) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keywords::KeywordTable;
    use crate::lm::{LanguageModel, SentenceScore};
    use crate::page::LinkPosition;
    use crate::score::CountTable;
    use crate::words::Tokens;

    struct NoModel;

    impl LanguageModel for NoModel {
        fn order(&self) -> u8 {
            1
        }
        fn word(&self, _: &str) -> u32 {
            0
        }
        fn score_words(&self, words: &[u32]) -> SentenceScore {
            SentenceScore {
                log10: -1.0,
                unknown: words.len(),
            }
        }
        fn unknown_log10(&self) -> f64 {
            -1.0
        }
    }

    fn observer() -> PageObserver {
        let mut counts = CountTable::default();
        counts.add_positive(&[normalise("the cat hunts mice and the cat sleeps all day")]);
        counts.add_neutral(&[normalise("the law of the land is the law of the state")]);
        let contrast = Arc::new(Contrast::new(&counts).unwrap());
        PageObserver::new(Some((contrast, curve())), 1.0, 2.0)
    }

    fn curve() -> Topicality {
        Topicality {
            midpoint: 0.0,
            width: 0.5,
            counted: None,
            few: false,
            neutral: None,
            topic: None,
            by_model: None,
            of_passages: None,
            scatter: None,
        }
    }

    fn url(text: &str) -> PageUrl {
        PageUrl::parse(text).unwrap()
    }

    fn link(address: &str, anchor: &str, path: [u32; 3]) -> Link {
        Link {
            url: url(address),
            anchor: anchor.to_owned(),
            nofollow: false,
            place: LinkPosition {
                path,
                block: Some(1),
                heading: Some(0),
            },
        }
    }

    #[test]
    fn links_are_seen_with_their_words_and_their_place() {
        let blocks = ["Cat sleeps", "the law of the land"];
        let extracted = Extracted {
            blocks: blocks.map(str::to_owned).into(),
            tokens: Tokens::of(blocks),
            links: vec![
                link(
                    "http://a.example/cats/the_cat.html",
                    "The cat hunts",
                    [1, 2, 3],
                ),
                link("http://a.example/cats/law-of%20state?x=1", "law", [1, 2, 3]),
                link("http://b.example/z", "cat", [4, 5, 6]),
            ],
            ..Extracted::default()
        };
        let (observer, keywords) = (observer(), KeywordTable::default());
        let words = PageWords::of(&extracted.tokens, &NoModel, &keywords, observer.contrast());
        let examined = observer.examine(&words);
        let clues = examined.clues(&url("http://a.example/"), &extracted);
        let [cat, law, other] = &clues[..] else {
            panic!()
        };
        assert!(cat.words.anchor > law.words.anchor);
        assert!(cat.words.best >= cat.words.anchor);
        assert!(cat.words.address > 0.0 && law.words.address < 0.0);
        assert!(cat.words.heading > 0.0 && cat.words.near < 0.0);
        let common = |a: &Clues, b: &Clues| {
            let both = a.traits.iter().filter(|t| b.traits.contains(t));
            both.count()
        };
        // Place (3), list, host and prefix.
        assert!(common(cat, law) >= 6, "{}", common(cat, law));
        // The word of the anchor.
        assert_eq!(common(cat, other), 1);
    }

    #[test]
    fn a_page_without_sentences_is_not_on_topic() {
        let observer = observer();
        let reward = |o: &PageObserver, of: &[Sentence], pp| match o.judge(of, pp).nearness {
            Nearness::Likely(likely) => likely,
            above @ Nearness::Above { .. } => panic!("{above:?}"),
        };
        let likely = |o: &PageObserver, of: &[Sentence], pp| o.judge(of, pp).on_topic;
        assert_eq!(
            (reward(&observer, &[], 5.0), likely(&observer, &[], 5.0)),
            (0.0, 0.0)
        );
        let cats = [normalise("the cat hunts mice all day")];
        let laws = [normalise("the law of the land is the law")];
        assert!(likely(&observer, &cats, 5.0) > likely(&observer, &laws, 5.0));
        let (sure, doubtful) = (likely(&observer, &cats, 5.0), reward(&observer, &cats, 5.0));
        assert!(sure > doubtful && doubtful > 0.5, "{sure} {doubtful}");
        assert!(!observer.judge(&cats, 5.0).guessed);
        let mut few = observer.clone();
        few.topicality.few = true;
        assert!(few.judge(&cats, 5.0).guessed);
        let plain = PageObserver::new(None, 300.0, 600.0);
        assert!(likely(&plain, &cats, 300.0) > 0.9 && likely(&plain, &cats, 3_000.0) < 0.1);
        assert_eq!(likely(&plain, &[], 300.0), 0.0);
        assert!(plain.judge(&cats, 300.0).guessed);
    }

    proptest::proptest! {
        #![proptest_config(spoor_testing::usual!())]

        /// So these need not be replaced by spaces first.
        #[test]
        fn signs_of_addresses_separate_words(
            text in "([a-zA-Z0-9]|[_./+=&-]|[é猫カΣहि\u{301}\u{AD}\u{200D}\u{5D4}\u{1F1E6}]|\\PC){0,30}",
        ) {
            let spaced = text.replace(['_', '-', '/', '.', '+', '=', '&'], " ");
            proptest::prop_assert_eq!(normalise(&text), normalise(&spaced));
        }

        /// So a block's words need not be cut into sentences first.
        #[test]
        fn words_are_the_same_in_any_sentences(
            text in "[a-zA-Z0-9 .:!?'\u{301}\u{AD}\u{200D}é猫カΣ\n\u{2003}]{0,60}|\\PC{0,60}",
        ) {
            let sentences = crate::lm::sentences(std::iter::once(text.as_str()));
            let cut: Vec<&str> = sentences.iter().flat_map(Sentence::tokens).collect();
            let whole = normalise(&text);
            proptest::prop_assert_eq!(cut, whole.tokens().collect::<Vec<_>>());
        }
    }
}
