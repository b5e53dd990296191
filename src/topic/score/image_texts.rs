//! Ratings of the words around images.
//!
//! They overlap: an image in a table cell has the row, the table and the section as parents, each
//! of up to thousands of characters, and most of these are shared with the next image. So the
//! page's text is scored by the model once, and every part, including its sentences, is assembled
//! from that. The result equals the rating of the part by itself, bit for bit.

use std::ops::Range;

use crate::keywords::KeywordTable;
use crate::lm::{LanguageModel, Running, SentenceScore, perplexity};
use crate::page::{Extracted, Span};

use super::measured::ShortMeasures;
use super::page_words::PageWords;

/// The text of a page that contains the words around its images.
pub(super) struct ImagePageText<'s> {
    lm: &'s dyn LanguageModel,
    keywords: &'s KeywordTable,
    words: &'s PageWords<'s>,
    running: Running<'s>,
}

impl<'s> ImagePageText<'s> {
    /// `None` if there is little to gain, or the model has no faster way.
    pub(super) fn new(
        lm: &'s dyn LanguageModel,
        keywords: &'s KeywordTable,
        page: &Extracted,
        words: &'s PageWords<'s>,
    ) -> Option<Self> {
        let spans = page.images.iter().flat_map(|image| {
            let spans = &image.spans;
            let lists = spans.parents.iter().chain(&spans.siblings);
            lists.chain(&spans.heading).chain(&spans.figcaption)
        });
        // Reading the text costs as much as its parts, each by itself, if their total
        // length is the same.
        let sum: usize = spans.map(Span::len).sum();
        if sum < page.flow.len().max(1) {
            return None;
        }
        let mut ends = words.counted().map(|(_, tokens)| tokens.end);
        let running = lm.read(words.by_model(), &mut ends)?;
        Some(Self {
            lm,
            keywords,
            words,
            running,
        })
    }

    /// The measurements of a part of the text; `None` if its tokens differ from those of
    /// the whole, for example because it begins in the middle of a word.
    pub(super) fn measure(&self, span: &Span) -> Option<ShortMeasures> {
        let text = self.words.tokens();
        let (start, end) = (text.at(span.start)?, text.at(span.end)?);
        let tokens = end.saturating_sub(start);
        if tokens == 0 {
            return Some(ShortMeasures {
                perplexity: perplexity::unknown(self.lm),
                keyword: 0.0,
                tokens,
            });
        }
        Some(ShortMeasures {
            perplexity: perplexity::of_text(self.running.score(start..end), tokens),
            keyword: self.words.keyword(self.keywords, &(start..end)),
            tokens,
        })
    }

    /// The score of a range of its tokens as one sentence.
    pub(super) fn score(&self, tokens: Range<usize>) -> SentenceScore {
        self.running.score(tokens)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "a part is a range")]

    use super::*;
    use crate::address::PageUrl;
    use crate::lm::{KenLm, Sentence, arpa, estimate, normalise};
    use crate::page::{ImageCandidate, Spans};
    use crate::words::Tokens;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static LM: LazyLock<KenLm> = LazyLock::new(|| {
        let text = include_str!("../../../tests/fixtures/lm/tiny.txt");
        let corpus: Vec<Sentence> = text.lines().map(normalise).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lm.arpa");
        arpa::write(&estimate(&corpus, 4).unwrap(), &path).unwrap();
        KenLm::load(&path).unwrap()
    });

    fn page(flow: &str, spans: Vec<Span>) -> Extracted {
        let image = ImageCandidate {
            url: PageUrl::parse("http://a.test/1.png").unwrap(),
            width: None,
            height: None,
            embedding: Default::default(),
            licences: Vec::new(),
            texts: Default::default(),
            spans: Spans {
                parents: spans,
                ..Spans::default()
            },
        };
        Extracted {
            blocks: flow.split('\n').map(str::to_owned).collect(),
            tokens: Tokens::of(flow.split('\n')),
            flow: flow.to_owned(),
            images: vec![image],
            ..Extracted::default()
        }
    }

    fn words<'p>(page: &'p Extracted, keywords: &KeywordTable) -> PageWords<'p> {
        PageWords::of(&page.tokens, &*LM, keywords, None)
    }

    /// The scores of all sentences, including those that are too short.
    fn sentences(page_text: &ImagePageText<'_>, page: &Extracted) -> Vec<(SentenceScore, f64)> {
        let of = |(_, tokens): (&Sentence, Range<usize>)| {
            let keyword = page_text.words.keyword(page_text.keywords, &tokens);
            (page_text.score(tokens), keyword)
        };
        page.tokens.sentences().map(of).collect()
    }

    fn alone(text: &str, keywords: &KeywordTable) -> ShortMeasures {
        let text = normalise(text);
        ShortMeasures {
            perplexity: perplexity::text(&*LM, &text),
            keyword: keywords.score(&text),
            tokens: text.len(),
        }
    }

    fn keywords() -> KeywordTable {
        [("cat", 3.1), ("hunting", 1.7), ("field", 0.3)]
            .map(|(token, weight)| (token.to_owned(), weight))
            .into_iter()
            .collect()
    }

    #[test]
    fn parts_that_overlap_are_rated_as_by_themselves() {
        let flow = "The cat is hunting in the field\nby night\none poorly understood element";
        let whole = 0..flow.len();
        let spans = vec![0..40, whole.clone(), whole, 4..31, 32..40, 32..flow.len()];
        let (page, keywords) = (page(flow, spans.clone()), keywords());
        let read = words(&page, &keywords);
        let page_text = ImagePageText::new(&*LM, &keywords, &page, &read).unwrap();
        for span in spans {
            let text = &flow[span.clone()];
            assert_eq!(
                page_text.measure(&span),
                Some(alone(text, &keywords)),
                "{text}"
            );
        }
        let alone = crate::lm::sentences(flow.lines());
        let scores = alone.iter().map(|s| (LM.score(s), keywords.score(s)));
        assert_eq!(sentences(&page_text, &page), Vec::from_iter(scores));
        assert_eq!(page_text.measure(&(5..31)), None, "begins within a word");
        assert_eq!(page_text.measure(&(0..1_000)), None);
    }

    #[test]
    fn parts_are_of_the_whole_text_where_an_extractor_chose_blocks_of_it() {
        let flow = "The cat is hunting\nin the field by night";
        let (mut page, keywords) = (page(flow, vec![0..flow.len(), 19..40]), keywords());
        page.left_out = vec![page.blocks.remove(0)];
        page.tokens.choose(&[false, true]);
        let read = words(&page, &keywords);
        let page_text = ImagePageText::new(&*LM, &keywords, &page, &read).unwrap();
        let chosen = normalise(&page.blocks[0]);
        let expected = vec![(LM.score(&chosen), keywords.score(&chosen))];
        assert_eq!(sentences(&page_text, &page), expected);
        for span in [0..flow.len(), 19..40] {
            let of = alone(&flow[span.clone()], &keywords);
            assert_eq!(page_text.measure(&span), Some(of));
        }
    }

    #[test]
    fn a_text_is_not_read_for_one_part_of_it() {
        let keywords = keywords();
        let new = |page: &Extracted| {
            ImagePageText::new(&*LM, &keywords, page, &words(page, &keywords)).is_some()
        };
        let flow = "the cat is hunting";
        assert!(!new(&page(flow, vec![0..7])));
        assert!(!new(&page(flow, vec![0..7, 8..18])));
        assert!(new(&page(flow, vec![0..18, 0..18])));
        assert!(!new(&page(flow, vec![])));
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn a_part_is_rated_as_by_itself_or_not_at_all(
            lines in proptest::collection::vec(
                "(the |cat |is |hunting|field |of |mouse, |[a-z]{1,4}[ .'-]|\\PC){1,12}", 1..6),
            cuts in proptest::collection::vec((0_usize..200, 0_usize..200), 1..6),
        ) {
            let flow = lines.join("\n");
            let at = |cut: usize| {
                let places: Vec<usize> = flow.char_indices().map(|(i, _)| i).collect();
                places.get(cut % (places.len() + 1)).copied().unwrap_or(flow.len())
            };
            let spans: Vec<Span> = cuts.iter().map(|(a, b)| at(*a).min(at(*b))..at(*a).max(at(*b))).collect();
            let mut page = page(&flow, spans.clone());
            page.images[0].spans.siblings = vec![0..flow.len(), 0..flow.len()];
            let keywords = keywords();
            let read = words(&page, &keywords);
            let page_text = ImagePageText::new(&*LM, &keywords, &page, &read).unwrap();
            let by_themselves = crate::lm::sentences(flow.split('\n'));
            let scores = by_themselves.iter().map(|s| (LM.score(s), keywords.score(s)));
            prop_assert_eq!(sentences(&page_text, &page), Vec::from_iter(scores));
            for span in spans.into_iter().chain([0..flow.len()]) {
                let text = &flow[span.clone()];
                if let Some(measured) = page_text.measure(&span) {
                    prop_assert_eq!(measured, alone(text, &keywords), "{:?}", text);
                }
            }
        }
    }
}
