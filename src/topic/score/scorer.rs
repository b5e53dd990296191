//! The ratings of one page.

use std::collections::HashMap;
use std::iter::repeat;
use std::sync::Arc;

use super::cache::RatingCache;
use super::image_texts::ImagePageText;
use super::measured::{ShortMeasures, ShortRating};
use super::observer::PageObserver;
use super::page_words::PageWords;
use super::rating::weighted;
use crate::address::PageUrl;
use crate::keywords::KeywordTable;
use crate::lm::{LanguageModel, normalise, perplexity};
use crate::page::{
    AltKind, DocumentScore, Extracted, ImageCandidate, ImageContext, ImageScores, LinkParts,
    Observed, Scored, ScoredImage, ScoredLink, Span, TextScore,
};
use crate::words::Tokens;

/// Rates documents, links and images for one topic. Cheap to clone, and shared by any
/// number of threads.
#[derive(Clone)]
pub struct Scorer {
    lm: Arc<dyn LanguageModel>,
    keywords: Arc<KeywordTable>,
    /// How strongly keywords amplify ([`Weights::gamma_keyword`](super::Weights)).
    gamma_keyword: f64,
    /// [`KeywordTable::digest`].
    keywords_digest: u64,
    /// Perplexity of text with nothing to score.
    unknown: f64,
    /// Judges pages and collects what a learning crawl learns from.
    observer: Option<PageObserver>,
    /// The cached ratings of short texts.
    ratings: Arc<RatingCache>,
}

impl Scorer {
    /// A scorer with a topic's model and keywords; `gamma_keyword` sets how strongly
    /// keywords amplify.
    pub fn new(lm: Arc<dyn LanguageModel>, keywords: KeywordTable, gamma_keyword: f64) -> Self {
        Self {
            unknown: perplexity::unknown(&*lm),
            lm,
            keywords_digest: keywords.digest(),
            keywords: Arc::new(keywords),
            gamma_keyword,
            observer: None,
            ratings: Arc::default(),
        }
    }

    /// Adds `observer` as a judge of pages.
    #[must_use]
    pub fn observing(self, observer: PageObserver) -> Self {
        Self {
            observer: Some(observer),
            ..self
        }
    }

    /// How many short texts had to be rated since the last call, and how many of them were
    /// in the cache.
    pub fn take_cache_counts(&self) -> (u64, u64) {
        self.ratings.take_counts()
    }

    /// The keyword score of an anchor, as a part of a link's score.
    pub fn anchor_keyword(&self, anchor: &str) -> f64 {
        self.keywords.link_score(&normalise(anchor))
    }

    /// The normalised words of an anchor; `None` if it has none.
    pub fn anchor_words(&self, anchor: &str) -> Option<String> {
        let words = normalise(anchor);
        (!words.is_empty()).then(|| words.into())
    }

    /// The keyword table.
    pub fn keywords(&self) -> &KeywordTable {
        &self.keywords
    }

    /// [`KeywordTable::digest`] of the keyword table.
    pub fn keywords_digest(&self) -> u64 {
        self.keywords_digest
    }

    /// Rates a page: its text, and every link and image on it, in page order.
    ///
    /// All links are kept, including those marked `nofollow`, and the page's directives
    /// are ignored: the caller decides about both.
    pub fn score(&self, page_url: &PageUrl, extracted: &Extracted) -> Scored {
        let words = self.look_up(&extracted.tokens);
        let page_text = ImagePageText::new(&*self.lm, &self.keywords, extracted, &words);
        let document = self.rate_page(&words, page_text.as_ref());
        let observed = self.observer.as_ref().map(|observer| {
            let seen = observer.examine(&words);
            let verdict = seen.judge(document.perplexity);
            Observed {
                on_topic: verdict.on_topic,
                guessed: verdict.guessed,
                nearness: verdict.nearness,
                contrast: verdict.contrast,
                clues: seen.clues(page_url, extracted),
            }
        });
        let mut texts = RatedTexts::new(self, page_text, extracted.links.len());
        let links = extracted.links.iter().map(|link| {
            let anchor = texts.rate(&link.anchor);
            ScoredLink {
                url: link.url.clone(),
                parts: LinkParts {
                    document: document.perplexity,
                    anchor: anchor.score.perplexity,
                    keyword: anchor.link_keyword,
                },
            }
        });
        let links = links.collect();
        let images = extracted.images.iter().map(|image| ScoredImage {
            url: image.url.clone(),
            context: self.context(page_url, extracted, &document, image, &mut texts),
        });
        Scored {
            document,
            links,
            images: images.collect(),
            observed,
            sentences: lines(&words),
        }
    }

    /// Rates a document by its text blocks.
    pub fn document<B: AsRef<str>>(&self, blocks: &[B]) -> DocumentScore {
        let tokens = Tokens::of(blocks.iter().map(AsRef::as_ref));
        let words = self.look_up(&tokens);
        self.rate_page(&words, None)
    }

    /// Rates a text as one sequence, however short: an anchor, an alt text.
    pub fn text(&self, text: &str) -> TextScore {
        self.rate(text).score
    }

    fn look_up<'p>(&'p self, tokens: &'p Tokens) -> PageWords<'p> {
        let contrast = self.observer.as_ref().and_then(PageObserver::contrast);
        PageWords::of(tokens, &*self.lm, &self.keywords, contrast)
    }

    fn rate(&self, text: &str) -> ShortRating {
        self.ratings.of(text, |text| self.rate_anew(text))
    }

    fn rate_anew(&self, text: &str) -> ShortRating {
        let text = normalise(text);
        self.rated(&ShortMeasures {
            perplexity: perplexity::text(&*self.lm, &text),
            keyword: self.keywords.score(&text),
            tokens: text.len(),
        })
    }

    fn rated(&self, text: &ShortMeasures) -> ShortRating {
        let (perplexity, keyword) = (text.perplexity, text.keyword);
        ShortRating {
            score: TextScore {
                perplexity,
                keyword,
                weighted: weighted(perplexity, keyword, self.gamma_keyword),
            },
            // As `KeywordTable::link_score`, but without another lookup of every token.
            link_keyword: keyword / text.tokens.max(1) as f64,
        }
    }

    /// The rating of the document with these words, from `text` if it was read as a whole.
    fn rate_page(&self, words: &PageWords<'_>, text: Option<&ImagePageText<'_>>) -> DocumentScore {
        // The keyword score is a sum over tokens, so that of the document is the sum over
        // its sentences. Starts from +0, because `sum` of nothing is -0.
        let mut keyword = 0.0;
        let scores = words.counted().map(|(sentence, tokens)| {
            keyword += words.keyword(&self.keywords, &tokens);
            let score = match text {
                Some(text) => text.score(tokens),
                None => {
                    let words = words.by_model().get(tokens);
                    self.lm.score_words(words.unwrap_or_default())
                }
            };
            (sentence.len(), score)
        });
        let rated = perplexity::of_sentences(&*self.lm, scores);
        DocumentScore {
            perplexity: rated.perplexity,
            keyword,
            sentences: u32::try_from(rated.sentences).unwrap_or(u32::MAX),
            tokens: u32::try_from(rated.tokens).unwrap_or(u32::MAX),
        }
    }

    fn context<'page>(
        &self,
        page_url: &PageUrl,
        page: &'page Extracted,
        document: &DocumentScore,
        image: &'page ImageCandidate,
        texts: &mut RatedTexts<'_, 'page>,
    ) -> ImageContext {
        let words = &image.texts;
        let spans = &image.spans;
        let mut one = |text: &'page Option<String>| text.as_deref().map(|t| texts.rate(t).score);
        // Generated alt texts do not describe the picture.
        let written = words.alt_kind.is_none_or(|kind| kind == AltKind::Written);
        let alt = written.then(|| one(&words.alt)).flatten();
        let (title, file_name) = (one(&words.title), one(&words.file_name));
        let page_title = one(&page.title);
        let (aria_label, caption) = (one(&words.aria_label), one(&words.caption));
        let mut part = |text: &'page Option<String>, span: &Option<Span>| {
            let text = text.as_deref()?;
            Some(texts.rate_part(text, span.as_ref()).score)
        };
        let figcaption = part(&words.figcaption, &spans.figcaption);
        let heading = part(&words.heading, &spans.heading);
        let mut all = |list: &'page [String], spans: &[Span]| {
            let spans = spans.iter().map(Some).chain(repeat(None));
            let parts = list.iter().zip(spans);
            parts
                .map(|(t, span)| texts.rate_part(t, span).score)
                .collect()
        };
        let scores = ImageScores {
            alt,
            title,
            aria_label,
            caption,
            figcaption,
            heading,
            page_title,
            file_name,
            parents: all(&words.parents, &spans.parents),
            siblings: all(&words.siblings, &spans.siblings),
        };
        let mut context = ImageContext {
            page: page_url.clone(),
            page_title: page.title.clone(),
            page_language: page.language.clone(),
            page_recognised_language: page.recognised.map(|l| l.code().to_owned()),
            document_perplexity: document.perplexity,
            declared_width: image.width,
            declared_height: image.height,
            terms: {
                let mut terms = page.terms.clone();
                terms.licences = Vec::new();
                terms.license(image.licences.iter().chain(&page.terms.licences).cloned());
                terms
            },
            embedding: image.embedding.clone(),
            texts: words.clone(),
            rank: 0.0,
            scores,
        };
        context.rank = context.rank_by(self.unknown);
        context
    }

    /// The perplexity of a run of unknown words.
    pub fn unknown(&self) -> f64 {
        self.unknown
    }
}

/// The sentences that count as one text, one per line.
fn lines(words: &PageWords<'_>) -> String {
    let sentences = || words.counted().map(|(sentence, _)| sentence.as_str());
    let bytes = sentences().map(|sentence| sentence.len() + 1).sum();
    let mut text = String::with_capacity(bytes);
    for sentence in sentences() {
        text.push_str(sentence);
        text.push('\n');
    }
    text
}

/// The texts of one page, each rated once: menus repeat their anchors, and images
/// in one element share their parents.
struct RatedTexts<'scorer, 'page> {
    scorer: &'scorer Scorer,
    /// The standard hasher, because these keys come from the web.
    rated: HashMap<&'page str, ShortRating>,
    page_text: Option<ImagePageText<'scorer>>,
}

impl<'scorer, 'page> RatedTexts<'scorer, 'page> {
    /// No texts yet, for a page with this many links.
    fn new(
        scorer: &'scorer Scorer,
        page_text: Option<ImagePageText<'scorer>>,
        links: usize,
    ) -> Self {
        Self {
            scorer,
            rated: HashMap::with_capacity(links),
            page_text,
        }
    }

    /// The rating of a text that is part of the page's text.
    fn rate_part(&mut self, text: &'page str, span: Option<&Span>) -> ShortRating {
        let page_text = self.page_text.as_ref().zip(span);
        let measured = page_text.and_then(|(page_text, span)| page_text.measure(span));
        match measured {
            Some(measured) => self.scorer.rated(&measured),
            None => self.rate(text),
        }
    }

    fn rate(&mut self, text: &'page str) -> ShortRating {
        *self
            .rated
            .entry(text)
            .or_insert_with(|| self.scorer.rate(text))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Weights;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::lm::{KenLm, Sentence, SentenceScore, arpa, estimate};
    use crate::page::{Embedding, Found, ImageTexts, Link};

    /// A real model that counts its calls.
    struct Counting {
        lm: KenLm,
        asked: AtomicUsize,
    }

    impl LanguageModel for Counting {
        fn order(&self) -> u8 {
            self.lm.order()
        }
        fn word(&self, token: &str) -> u32 {
            self.lm.word(token)
        }
        fn score_words(&self, words: &[u32]) -> SentenceScore {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.lm.score_words(words)
        }
        fn unknown_log10(&self) -> f64 {
            self.lm.unknown_log10()
        }
    }

    fn scorer() -> (Scorer, Arc<Counting>) {
        let text = include_str!("../../../tests/fixtures/lm/tiny.txt");
        let corpus: Vec<Sentence> = text.lines().map(normalise).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lm.arpa");
        arpa::write(&estimate(&corpus, 3).unwrap(), &path).unwrap();
        let counting = Arc::new(Counting {
            lm: KenLm::load(&path).unwrap(),
            asked: AtomicUsize::new(0),
        });
        let keywords = [("cat", 3.0), ("hunting", 1.0)]
            .into_iter()
            .map(|(token, weight)| (token.to_owned(), weight))
            .collect();
        let lm: Arc<dyn LanguageModel> = counting.clone();
        let gamma = Weights::default().gamma_keyword;
        (Scorer::new(lm, keywords, gamma), counting)
    }

    fn url(path: &str) -> PageUrl {
        PageUrl::parse(&format!("https://cats.example/{path}")).unwrap()
    }

    fn link(path: &str, anchor: &str) -> Link {
        Link {
            url: url(path),
            anchor: anchor.to_owned(),
            nofollow: path == "nofollow",
            place: Default::default(),
        }
    }

    fn image(path: &str, alt: Option<&str>, parents: &[&str]) -> ImageCandidate {
        ImageCandidate {
            url: url(path),
            width: Some(640),
            height: None,
            embedding: Default::default(),
            licences: vec![],
            spans: Default::default(),
            texts: ImageTexts {
                alt: alt.map(str::to_owned),
                file_name: Some("cat behavior".into()),
                parents: parents.iter().map(|text| (*text).to_owned()).collect(),
                ..ImageTexts::default()
            },
        }
    }

    fn page() -> Extracted {
        let blocks = [
            "One poorly understood element of cat hunting behavior is this. Too short.",
            "Too short as well",
            "The field mouse was freed from its enemy, 99 times.",
        ];
        Extracted {
            title: Some("Cats".into()),
            language: Some("en".into()),
            blocks: blocks.map(str::to_owned).into(),
            tokens: Tokens::of(blocks),
            links: vec![
                link("a", "cat hunting behavior"),
                link("b", "Home"),
                link("nofollow", "cat hunting behavior"),
                link("c", ""),
            ],
            images: vec![
                image(
                    "1.jpg",
                    Some("cat hunting behavior"),
                    &["Home", "element of the little man"],
                ),
                image("2.jpg", None, &["Home"]),
            ],
            ..Extracted::default()
        }
    }

    #[test]
    fn a_page_is_rated_part_by_part() {
        let (scorer, counting) = scorer();
        let page = page();
        let scored = scorer.score(&url(""), &page);
        let asked = counting.asked.load(Ordering::Relaxed);
        // Two sentences; the anchors "cat hunting behavior" and "Home", which recur as alt and
        // parent; one more parent, one file name; the title. Empty text is not scored.
        assert_eq!(asked, 2 + 2 + 2 + 1);

        assert_eq!(
            scored.sentences,
            "one poorly understood element of cat hunting behavior is this\n\
             the field mouse was freed from its enemy times\n"
        );
        let document = scored.document;
        assert_eq!((document.sentences, document.tokens), (2, 19));
        assert_eq!(document.keyword, 1.0);
        assert_eq!(document, scorer.document(&page.blocks));
        let log10: f64 = scored
            .sentences
            .lines()
            .map(|s| counting.lm.score(&normalise(s)).log10)
            .sum();
        assert!((document.perplexity / 10_f64.powf(-log10 / 21.0) - 1.0).abs() < 1e-12);

        let anchor = scorer.text("Cat hunting, behavior!");
        assert_eq!(anchor.keyword, 1.0);
        assert_eq!(anchor.weighted, 1.0);
        let paths: Vec<&str> = scored.links.iter().map(|link| link.url.path()).collect();
        assert_eq!(paths, ["/a", "/b", "/nofollow", "/c"]);
        let parts = scored.links[0].parts;
        assert_eq!(parts.document, document.perplexity);
        assert_eq!(parts.anchor, anchor.perplexity);
        assert_eq!(parts.keyword, 1.0 / 3.0, "over the anchor's three tokens");
        assert_eq!(scored.links[2].parts, parts);
        let empty = scored.links[3].parts;
        let unknown = 10_f64.powf(-counting.lm.unknown_log10());
        assert_eq!((empty.anchor, empty.keyword), (unknown, 0.0));

        let [first, second] = &scored.images[..] else {
            panic!("two images, both rated");
        };
        let context = &first.context;
        assert_eq!(context.page, url(""));
        assert_eq!(
            (
                context.page_title.as_deref(),
                context.page_language.as_deref()
            ),
            (Some("Cats"), Some("en"))
        );
        assert_eq!(
            (context.declared_width, context.declared_height),
            (Some(640), None)
        );
        assert_eq!(context.document_perplexity, document.perplexity);
        assert_eq!(context.texts, page.images[0].texts);
        assert_eq!(context.scores.alt, Some(anchor));
        assert_eq!(context.scores.title, None);
        assert_eq!(context.scores.file_name, Some(scorer.text("cat behavior")));
        let parent = scorer.text("element of the little man");
        assert_eq!(context.scores.parents, [scorer.text("Home"), parent]);
        let name = scorer.text("cat behavior").weighted;
        let all = anchor.weighted * name * parent.weighted * document.perplexity;
        assert!((context.rank / all.powf(0.25) - 1.0).abs() < 1e-12);
        // Neither words of its own nor parent 1.
        assert!(second.context.rank > context.rank);
    }

    #[test]
    fn generated_alt_texts_are_not_rated_and_captions_are() {
        let (scorer, counting) = scorer();
        let unknown = 10_f64.powf(-counting.lm.unknown_log10());
        let rated = |alt_kind| {
            let mut page = page();
            let embedding = &mut page.images[0].embedding;
            embedding.found = vec![Found::Img, Found::OpenGraph];
            let texts = &mut page.images[0].texts;
            texts.alt_kind = Some(alt_kind);
            texts.heading = Some("Home".into());
            texts.figcaption = Some("cat hunting behavior".into());
            texts.aria_label = Some("element of the little man".into());
            scorer.score(&url(""), &page).images.remove(0).context
        };
        let written = rated(AltKind::Written);
        let text = |text| Some(scorer.text(text));
        assert_eq!(written.scores.alt, text("cat hunting behavior"));
        assert_eq!(written.scores.figcaption, written.scores.alt);
        assert_eq!(written.scores.heading, text("Home"));
        assert_eq!(written.scores.aria_label, text("element of the little man"));
        assert_eq!(written.scores.caption, None);
        let expected = Embedding {
            found: vec![Found::Img, Found::OpenGraph],
            ..Embedding::default()
        };
        assert_eq!(written.embedding, expected);
        for kind in [AltKind::FileName, AltKind::Boilerplate] {
            let marked = rated(kind);
            assert_eq!(marked.scores.alt, None);
            assert_eq!(marked.texts.alt, written.texts.alt, "but kept");
            assert_eq!(marked.rank, written.rank, "the caption is the words");
            assert!(marked.rank < unknown);
        }
    }

    #[test]
    fn a_page_without_text_has_the_perplexity_of_unknown_words() {
        let (scorer, counting) = scorer();
        let scored = scorer.score(&url(""), &Extracted::default());
        let unknown = 10_f64.powf(-counting.lm.unknown_log10());
        assert_eq!(scored.document.perplexity, unknown);
        assert_eq!((scored.document.keyword, scored.document.tokens), (0.0, 0));
        assert_eq!(scorer.text("99").perplexity, unknown);
        assert_eq!(scorer.text("99").weighted, unknown);
    }
}
