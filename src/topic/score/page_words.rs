//! The words of a page, each distinct one looked up once.
//!
//! A page has three to five times as many tokens as distinct words. Every token is looked up by its
//! letters once, in a table of this page that fits a processor's cache; the number found there
//! leads to everything known about the word.

use std::ops::Range;

use super::contrast::{Contrast, KnownWord};
use crate::keywords::KeywordTable;
use crate::lm::{LanguageModel, MIN_TOKENS, Sentence};
use crate::words::{Distinct, Tokens};

/// The tokens of a page as numbers.
pub(super) struct PageWords<'p> {
    tokens: &'p Tokens,
    /// The distinct words.
    distinct: Distinct<'p>,
    /// The contrast's entry for each, if there is a contrast.
    known: Vec<Option<&'p KnownWord>>,
    /// The number of each token's word.
    of_tokens: Vec<u32>,
    /// The language model's number of each token.
    by_model: Vec<u32>,
    /// The keywords among the tokens, by number.
    weights: Vec<(usize, f64)>,
}

impl<'p> PageWords<'p> {
    /// Looks up the words of a page.
    pub(super) fn of(
        tokens: &'p Tokens,
        lm: &dyn LanguageModel,
        keywords: &KeywordTable,
        contrast: Option<&'p Contrast>,
    ) -> Self {
        let mut distinct = Distinct::with_room(tokens.len() / 3);
        let mut of_tokens = Vec::with_capacity(tokens.len());
        of_tokens.extend(tokens.iter().map(|token| distinct.number(token)));
        let words = distinct.words();
        // All in one loop, so that the processor can fetch the entries of several words at once:
        // the contrast's table does not fit into its caches.
        let of_contrast: Vec<Option<&KnownWord>> = match contrast {
            Some(contrast) => words.iter().map(|word| contrast.find(word)).collect(),
            None => vec![None; words.len()],
        };
        let has_numbers = contrast.is_some_and(|contrast| contrast.knows(lm));
        let known = words.iter().zip(&of_contrast).map(|(word, found)| {
            let of_model = found.filter(|_| has_numbers).map(|found| found.by_model);
            let of_model = of_model.unwrap_or_else(|| lm.word(word));
            (of_model, keywords.weight(word).unwrap_or_default())
        });
        let known: Vec<(u32, f64)> = known.collect();
        let mut by_model = Vec::with_capacity(of_tokens.len());
        let mut weights = Vec::new();
        for (place, number) in of_tokens.iter().enumerate() {
            let (of_model, weight) = known.get(*number as usize).copied().unwrap_or_default();
            by_model.push(of_model);
            if weight > 0.0 {
                weights.push((place, weight));
            }
        }
        Self {
            tokens,
            distinct,
            known: of_contrast,
            of_tokens,
            by_model,
            weights,
        }
    }

    /// The tokens.
    pub(super) fn tokens(&self) -> &'p Tokens {
        self.tokens
    }

    /// The sentences that count for the document, each with the numbers of its tokens.
    pub(super) fn counted(&self) -> impl Iterator<Item = (&'p Sentence, Range<usize>)> {
        let sentences = self.tokens.sentences();
        sentences.filter(|(sentence, _)| sentence.len() >= MIN_TOKENS)
    }

    /// The language model's numbers of all tokens.
    pub(super) fn by_model(&self) -> &[u32] {
        &self.by_model
    }

    /// The keyword score of a range of tokens.
    pub(super) fn keyword(&self, keywords: &KeywordTable, tokens: &Range<usize>) -> f64 {
        let from = self.weights.partition_point(|(i, _)| *i < tokens.start);
        let weights = self.weights.iter().skip(from);
        let weights = weights.take_while(|(i, _)| *i < tokens.end);
        keywords.share(weights.map(|(_, weight)| *weight))
    }

    /// The distinct words, in the order of their numbers, with the contrast's entry for each.
    pub(super) fn looked_up(&self) -> impl Iterator<Item = (&'p str, Option<&'p KnownWord>)> {
        let words = self.distinct.words().iter().copied();
        words.zip(self.known.iter().copied())
    }

    /// The number of a word, if it is on the page.
    pub(super) fn number(&self, word: &str) -> Option<usize> {
        self.distinct.find(word).map(|number| number as usize)
    }

    /// The numbers of the words in a range of tokens.
    pub(super) fn numbers(&self, tokens: Range<usize>) -> impl Iterator<Item = usize> {
        let numbers = self.of_tokens.get(tokens).unwrap_or_default();
        numbers.iter().map(|number| *number as usize)
    }

    /// The number of each word in the sentences that count, in the order in which they
    /// first occur there, and how often it occurs.
    pub(super) fn times(&self) -> Vec<(usize, u32)> {
        let count = self.distinct.words().len();
        let mut times = vec![0_u32; count];
        let mut order = Vec::with_capacity(count);
        for number in self.counted().flat_map(|(_, tokens)| self.numbers(tokens)) {
            if let Some(times) = times.get_mut(number) {
                if *times == 0 {
                    order.push(number);
                }
                *times += 1;
            }
        }
        let of = |number: usize| times.get(number).copied().unwrap_or_default();
        order
            .into_iter()
            .map(|number| (number, of(number)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use proptest::prelude::*;

    use super::*;
    use crate::address::PageUrl;
    use crate::lm::{KenLm, arpa, estimate, normalise, perplexity, sentences};
    use crate::page::{Extracted, Link};
    use crate::score::contrast::{Adopted, mean_and_best};
    use crate::score::{Contrast, CountTable, PageObserver, Scorer, Topicality};

    static LM: LazyLock<Arc<KenLm>> =
        LazyLock::new(|| model_of(include_str!("../../../tests/fixtures/lm/tiny.txt")));
    /// A model with other numbers of words.
    static OTHER: LazyLock<Arc<KenLm>> =
        LazyLock::new(|| model_of("a mouse is hunting the field\nthe cat of the cat is hunting"));

    fn model_of(text: &str) -> Arc<KenLm> {
        let corpus: Vec<Sentence> = text.lines().map(normalise).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lm.arpa");
        arpa::write(&estimate(&corpus, 4).unwrap(), &path).unwrap();
        Arc::new(KenLm::load(&path).unwrap())
    }

    fn keywords() -> KeywordTable {
        [("cat", 3.1), ("hunting", 1.7), ("猫", 0.3), ("हि", 0.9)]
            .map(|(token, weight)| (token.to_owned(), weight))
            .into_iter()
            .collect()
    }

    /// Knows the numbers of a language model, if one is given.
    fn contrast(model: Option<Arc<dyn LanguageModel>>) -> Arc<Contrast> {
        let mut counts = CountTable::default();
        counts.add_positive(&[normalise("the cat is hunting a mouse 猫 猫 हि")]);
        counts.add_neutral(&[normalise("the field of the law is mouse Σας の")]);
        let contrast = Contrast::new(&counts).unwrap();
        Arc::new(match model {
            Some(model) => contrast.with_model(&model),
            None => contrast,
        })
    }

    #[test]
    fn words_have_numbers_in_the_order_in_which_they_occur() {
        let tokens = Tokens::of(["Menu cat", "The cat is on the mat. The end"]);
        let words = PageWords::of(&tokens, &**LM, &keywords(), None);
        assert!(
            words
                .looked_up()
                .map(|(word, _)| word)
                .eq(["menu", "cat", "the", "is", "on", "mat", "end"])
        );
        assert_eq!((words.number("mat"), words.number("dog")), (Some(5), None));
        assert!(words.numbers(2..6).eq([2, 1, 3, 4]));
        assert_eq!(words.times(), [(2, 2), (1, 1), (3, 1), (4, 1), (5, 1)]);
        assert_eq!(words.counted().count(), 1);
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        /// Every score by word numbers equals the score by spelling, to the last bit, whether the
        /// contrast has these numbers, none, or those of another model.
        #[test]
        fn numbers_and_letters_give_equal_scores(
            blocks in proptest::collection::vec(
                "(the |cat |is |hunting|field |of |mouse[.,] |猫|の|हि |Σας |[a-zé]{1,3}[ .'1-]|\\PC){0,30}", 0..5),
            anchor in "(the |cat |unseen |猫|हि |[a-z]{1,3} ){0,4}",
            numbers in 0..3_usize,
        ) {
            let models: [Option<Arc<dyn LanguageModel>>; 3] =
                [None, Some(LM.clone()), Some(OTHER.clone())];
            let (keywords, contrast) = (keywords(), contrast(models[numbers].clone()));
            let observer = PageObserver::new(
                Some((contrast.clone(), Topicality::of_perplexities(10.0, 90.0))), 10.0, 90.0);
            let scorer = Scorer::new(LM.clone(), keywords.clone(), 1.0).observing(observer.clone());
            let page_url = PageUrl::parse("http://a.test/").unwrap();
            let page = Extracted {
                tokens: Tokens::of(blocks.iter().map(String::as_str)),
                links: vec![Link {
                    url: PageUrl::parse("http://a.test/b").unwrap(),
                    anchor: anchor.clone(),
                    nofollow: false,
                    place: crate::page::LinkPosition { block: Some(0), ..Default::default() },
                }],
                blocks: blocks.clone(),
                ..Extracted::default()
            };
            let scored = scorer.score(&page_url, &page);

            let mut by_letters = sentences(blocks.iter().map(String::as_str));
            by_letters.retain(|sentence| sentence.len() >= MIN_TOKENS);
            let rated = perplexity::document(&**LM, &by_letters);
            prop_assert_eq!(scored.document.perplexity, rated.perplexity);
            prop_assert_eq!(scored.document.tokens as usize, rated.tokens);
            let keyword = by_letters.iter().fold(0.0, |sum, s| sum + keywords.score(s));
            prop_assert_eq!(scored.document.keyword, keyword);

            let verdict = observer.judge(&by_letters, rated.perplexity);
            let observed = scored.observed.unwrap();
            prop_assert_eq!(observed.on_topic, verdict.on_topic);
            prop_assert_eq!(observed.contrast, verdict.contrast);
            prop_assert_eq!(observed.nearness, verdict.nearness);

            let none = Adopted::default();
            let of = |text: &str| {
                let words = normalise(text);
                mean_and_best(words.tokens().map(|word| contrast.ratio_of_word(word, &none)))
            };
            let clues = observed.clues.first().unwrap().words;
            let (mean, best) = of(&anchor);
            prop_assert_eq!((clues.anchor, clues.best), (mean as f32, best as f32));
            if let Some(block) = blocks.first().filter(|block| block.is_ascii()) {
                prop_assert_eq!(clues.near, of(block).0 as f32);
            }
        }
    }
}
