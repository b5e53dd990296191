//! Ratings of the words around images.
//!
//! They overlap: an image in a table cell has the row, the table and the section as
//! parents, each of up to thousands of characters, and most of these are shared with the
//! next image. So the page's text is tokenised and scored by the model once, and every
//! part, including its sentences, is assembled from that. The result is bit for bit the
//! rating of the part by itself.

use std::ops::Range;
use std::rc::Rc;

use crate::page::{Extracted, Span};
use crate::topic::keywords::KeywordTable;
use crate::topic::lm::{LanguageModel, Running, SentenceScore, Tokens, perplexity};

use super::measured::Measured;

/// The text of a page that contains the words around its images.
pub(super) struct PageText<'s> {
    lm: &'s dyn LanguageModel,
    keywords: &'s KeywordTable,
    text: Rc<Tokens>,
    running: Running<'s>,
    /// The keywords among the tokens, by number.
    weights: Vec<(usize, f64)>,
}

impl<'s> PageText<'s> {
    /// `None` if there is little to gain, or the model has no faster way. `of_blocks` are
    /// the tokens of the page's blocks; the whole text is tokenised separately only if an
    /// extractor left blocks out.
    pub(super) fn new(
        lm: &'s dyn LanguageModel,
        keywords: &'s KeywordTable,
        page: &Extracted,
        of_blocks: &Rc<Tokens>,
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
        let text = if page.flow_is_blocks() {
            of_blocks.clone()
        } else {
            Rc::new(Tokens::of(page.flow.split('\n')))
        };
        let running = lm.read(&mut text.iter())?;
        let weights = text.iter().enumerate();
        let weights = weights.filter_map(|(i, token)| Some((i, keywords.weight(token)?)));
        let weights = weights.collect();
        Some(Self {
            lm,
            keywords,
            text,
            running,
            weights,
        })
    }

    /// The measurements of a part of the text; `None` if its tokens differ from those of
    /// the whole, for example because it begins in the middle of a word.
    pub(super) fn measure(&self, span: &Span) -> Option<Measured> {
        let (start, end) = (self.text.at(span.start)?, self.text.at(span.end)?);
        let tokens = end.saturating_sub(start);
        if tokens == 0 {
            return Some(Measured {
                perplexity: perplexity::unknown(self.lm),
                keyword: 0.0,
                tokens,
            });
        }
        Some(Measured {
            perplexity: perplexity::of_text(self.running.score(start..end), tokens),
            keyword: self.keyword(start..end),
            tokens,
        })
    }

    /// The score and the keyword score of each of these sentences; `None` if they are not
    /// the ones that were read.
    pub(super) fn sentences(&self, of_blocks: &Rc<Tokens>) -> Option<Vec<(SentenceScore, f64)>> {
        if !Rc::ptr_eq(&self.text, of_blocks) {
            return None;
        }
        let mut next = 0;
        let scores = self.text.sentences.iter().map(|sentence| {
            let tokens = next..next + sentence.len();
            next = tokens.end;
            (self.running.score(tokens.clone()), self.keyword(tokens))
        });
        Some(scores.collect())
    }

    fn keyword(&self, tokens: Range<usize>) -> f64 {
        let from = self.weights.partition_point(|(i, _)| *i < tokens.start);
        let weights = self.weights.iter().skip(from);
        let weights = weights.take_while(|(i, _)| *i < tokens.end);
        self.keywords.share(weights.map(|(_, weight)| *weight))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "a part is a range")]

    use super::*;
    use crate::address::PageUrl;
    use crate::page::{ImageCandidate, Spans};
    use crate::topic::lm::{KenLm, Sentence, arpa, estimate, normalise};
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
            spares: Vec::new(),
            licences: Vec::new(),
            texts: Default::default(),
            spans: Spans {
                parents: spans,
                ..Spans::default()
            },
        };
        Extracted {
            blocks: flow.split('\n').map(str::to_owned).collect(),
            flow: flow.to_owned(),
            images: vec![image],
            ..Extracted::default()
        }
    }

    fn tokens(page: &Extracted) -> Rc<Tokens> {
        Rc::new(Tokens::of(page.blocks.iter().map(String::as_str)))
    }

    fn alone(text: &str, keywords: &KeywordTable) -> Measured {
        let text = normalise(text);
        Measured {
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
        let read = tokens(&page);
        let page_text = PageText::new(&*LM, &keywords, &page, &read).unwrap();
        for span in spans {
            let text = &flow[span.clone()];
            assert_eq!(
                page_text.measure(&span),
                Some(alone(text, &keywords)),
                "{text}"
            );
        }
        let sentences = crate::topic::lm::sentences(flow.lines());
        let scores = sentences.iter().map(|s| (LM.score(s), keywords.score(s)));
        assert_eq!(page_text.sentences(&read), Some(scores.collect()));
        assert_eq!(page_text.sentences(&tokens(&page)), None, "other sentences");
        assert_eq!(page_text.measure(&(5..31)), None, "begins within a word");
        assert_eq!(page_text.measure(&(0..1_000)), None);
    }

    #[test]
    fn parts_are_of_the_whole_text_where_an_extractor_chose_blocks_of_it() {
        let flow = "The cat is hunting\nin the field by night";
        let (mut page, keywords) = (page(flow, vec![0..flow.len(), 19..40]), keywords());
        page.left_out = page.blocks.split_off(1);
        let read = tokens(&page);
        let page_text = PageText::new(&*LM, &keywords, &page, &read).unwrap();
        assert_eq!(page_text.sentences(&read), None);
        for span in [0..flow.len(), 19..40] {
            let of = alone(&flow[span.clone()], &keywords);
            assert_eq!(page_text.measure(&span), Some(of));
        }
    }

    #[test]
    fn a_text_is_not_read_for_one_part_of_it() {
        let keywords = keywords();
        let new = |page: &Extracted| PageText::new(&*LM, &keywords, page, &tokens(page)).is_some();
        let flow = "the cat is hunting";
        assert!(!new(&page(flow, vec![0..7])));
        assert!(!new(&page(flow, vec![0..7, 8..18])));
        assert!(new(&page(flow, vec![0..18, 0..18])));
        assert!(!new(&page(flow, vec![])));
    }

    proptest! {
        #![proptest_config(crate::tests::usual())]

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
            let read = tokens(&page);
            let page_text = PageText::new(&*LM, &keywords, &page, &read).unwrap();
            let sentences = crate::topic::lm::sentences(flow.split('\n'));
            let scores = sentences.iter().map(|s| (LM.score(s), keywords.score(s)));
            prop_assert_eq!(page_text.sentences(&read), Some(scores.collect()));
            for span in spans.into_iter().chain([0..flow.len()]) {
                let text = &flow[span.clone()];
                if let Some(measured) = page_text.measure(&span) {
                    prop_assert_eq!(measured, alone(text, &keywords), "{:?}", text);
                }
            }
        }
    }
}
