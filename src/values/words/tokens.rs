//! The tokens of a whole page.

use std::ops::Range;
use std::sync::Arc;

use super::sentence::{Sentence, SentenceWriter, TokenPlace, WrittenSentence, cut};

/// Maximum number of bytes that are split, so that positions take four bytes.
const MAX_BYTES: usize = 1 << 30;
/// The usual length of a token with the space before it.
const USUAL_BYTES: usize = 6;

/// A text of blocks split into sentences and tokens, with the position of each token. Clones share
/// the written text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tokens {
    /// The tokens of all blocks, each followed by a space.
    written: Arc<str>,
    places: Vec<TokenPlace>,
    /// The sentences of the chosen blocks, in order.
    sentences: Vec<Sentence>,
    /// The number of each sentence's first token.
    firsts: Vec<usize>,
    blocks: Vec<BlockParts>,
    /// Where the last block ends.
    end: usize,
    /// Whether each block has the same tokens as by itself.
    whole: bool,
}

/// The parts of a block, by number.
#[derive(Debug, Clone, PartialEq)]
struct BlockParts {
    tokens: Range<usize>,
    sentences: Range<usize>,
}

impl Tokens {
    /// Splits blocks as [`sentences`](super::sentences) does. Beyond a gigabyte, the last blocks
    /// are left out.
    pub fn of<'a>(blocks: impl IntoIterator<Item = &'a str, IntoIter: Clone>) -> Self {
        let blocks = blocks.into_iter();
        let bytes = blocks.clone().map(str::len).sum::<usize>().min(MAX_BYTES);
        let mut writer = SentenceWriter::default();
        writer.text.reserve(bytes);
        writer.places = Some(Vec::with_capacity(bytes / USUAL_BYTES));
        let (mut whole, mut at) = (true, 0);
        let (mut cuts, mut parts): (Vec<WrittenSentence>, Vec<BlockParts>) =
            (Vec::new(), Vec::new());
        let mut tokens = 0;
        let mut firsts = Vec::new();
        for block in blocks {
            if at + block.len() > MAX_BYTES {
                whole = false;
                break;
            }
            let first = (tokens, cuts.len());
            cut(&mut writer, block, at, &mut cuts, |piece| {
                // Characters that do not separate tokens were treated as part of a ruled
                // line.
                whole &= piece.is_ascii();
            });
            for cut in cuts.iter().skip(first.1) {
                firsts.push(tokens);
                tokens += cut.tokens;
            }
            parts.push(BlockParts {
                tokens: first.0..tokens,
                sentences: first.1..cuts.len(),
            });
            at += block.len() + 1;
        }
        if tokens > 0 {
            writer.text.push(' ');
        }
        let written: Arc<str> = writer.text.into();
        let cuts = cuts.into_iter();
        Self {
            sentences: cuts.map(|cut| cut.sentence(&written)).collect(),
            written,
            places: writer.places.unwrap_or_default(),
            firsts,
            blocks: parts,
            end: at.saturating_sub(1),
            whole,
        }
    }

    /// Marks the blocks for which `kept` is true as chosen, and moves them before the others. At
    /// first all blocks are chosen.
    pub fn choose(&mut self, kept: &[bool]) {
        let kept = kept.iter().copied().chain(std::iter::repeat(false));
        let blocks = std::mem::take(&mut self.blocks).into_iter().zip(kept);
        let (chosen, other): (Vec<_>, Vec<_>) = blocks.partition(|(_, kept)| *kept);
        let mut sentences = Vec::new();
        let mut firsts = Vec::new();
        for (block, _) in &chosen {
            let of = block.sentences.clone();
            sentences.extend_from_slice(self.sentences.get(of.clone()).unwrap_or_default());
            firsts.extend_from_slice(self.firsts.get(of).unwrap_or_default());
        }
        (self.sentences, self.firsts) = (sentences, firsts);
        self.blocks = chosen.into_iter().chain(other).map(|(b, _)| b).collect();
    }

    /// How many tokens all blocks have.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if no block has a token.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The tokens of all blocks in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        // By position, because a search for each space costs more for such short tokens.
        let starts = self.places.iter().map(|place| place.written as usize);
        let ends = starts.clone().skip(1).chain([self.written.len()]);
        let token = |(start, end): (usize, usize)| self.written.get(start..end - 1);
        starts.zip(ends).filter_map(token)
    }

    /// The sentences of the chosen blocks, each with the numbers of its tokens.
    pub fn sentences(&self) -> impl Iterator<Item = (&Sentence, Range<usize>)> {
        let sentences = self.sentences.iter().zip(&self.firsts);
        sentences.map(|(sentence, first)| (sentence, *first..first + sentence.len()))
    }

    /// The numbers of the tokens of a block.
    pub fn of_block(&self, number: usize) -> Range<usize> {
        let block = self.blocks.get(number);
        block.map_or(0..0, |block| block.tokens.clone())
    }

    /// The blocks, in the order of their numbers.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = Block<'_>> {
        self.blocks.iter().map(|block| Block {
            written: &self.written,
            places: self.places.get(block.tokens.clone()).unwrap_or_default(),
            end: self.places.get(block.tokens.end),
        })
    }

    /// The number of the first token after the byte `at` of the blocks, which are joined by
    /// line ends. `None` if `at` is within a token, so that text split there has different
    /// tokens, or beyond the end.
    pub fn at(&self, at: usize) -> Option<usize> {
        let number = self
            .places
            .partition_point(|place| (place.from as usize) < at);
        let before = number.checked_sub(1).and_then(|n| self.places.get(n));
        let cuts = before.is_some_and(|place| at < place.to as usize);
        (self.whole && !cuts && at <= self.end).then_some(number)
    }
}

/// The tokens of one block.
#[derive(Debug, Clone, Copy)]
pub struct Block<'t> {
    written: &'t str,
    places: &'t [TokenPlace],
    /// The token after its last one.
    end: Option<&'t TokenPlace>,
}

impl<'t> Block<'t> {
    /// How many tokens it has.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether it has no token.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Its tokens in order, each followed by one space.
    pub fn text(&self) -> &'t str {
        self.run(0, self.len())
    }

    /// The same for `count` tokens from the one with the number `first` on, or fewer at the
    /// end.
    pub fn run(&self, first: usize, count: usize) -> &'t str {
        let start = |place: &TokenPlace| place.written as usize;
        let from = self.places.get(first).map(start);
        let to = self.places.get(first + count).or(self.end).map(start);
        let from = from.unwrap_or(self.written.len());
        let to = to.unwrap_or(self.written.len());
        self.written.get(from..to).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{normalise, sentences};
    use super::*;

    #[test]
    fn tokens_know_where_they_stand() {
        let blocks = ["Mp3s, naïve x.", "日本"];
        let tokens = Tokens::of(blocks);
        assert!(tokens.iter().eq(["mps", "naïve", "x", "日", "本"]));
        let [within, comma, sun, end] = [1, 4, 16, 22];
        assert_eq!(tokens.at(0), Some(0));
        assert_eq!(tokens.at(within), None);
        assert_eq!(tokens.at(comma), Some(1));
        assert_eq!(tokens.at(sun), Some(3));
        assert_eq!(tokens.at(end), Some(tokens.len()));
        assert_eq!(tokens.at(end + 1), None);
        // Marks that are mistaken for a ruled line split what is one token by itself.
        let marks = format!("a{}b", "\u{301}".repeat(40));
        assert_eq!(Tokens::of([&*marks]).at(0), None);
        let ruled = format!("a {} b", "-".repeat(40));
        assert_eq!(Tokens::of([&*ruled]).at(0), Some(0));
        assert!(Tokens::of([]).is_empty());
    }

    #[test]
    fn chosen_blocks_come_first() {
        let mut tokens = Tokens::of(["Menu", "One two. Three", "...", "Four"]);
        tokens.choose(&[false, true, false, true]);
        let sentences: Vec<_> = tokens.sentences().map(|(s, of)| (s.as_str(), of)).collect();
        assert_eq!(
            sentences,
            [("one two", 1..3), ("three", 3..4), ("four", 4..5)]
        );
        let blocks: Vec<&str> = tokens.blocks().map(|block| block.text()).collect();
        assert_eq!(blocks, ["one two three ", "four ", "menu ", ""]);
        assert_eq!((tokens.of_block(0), tokens.of_block(2)), (1..4, 0..1));
        assert!(tokens.iter().eq(["menu", "one", "two", "three", "four"]));
        let first = tokens.blocks().next().unwrap();
        assert_eq!((first.run(1, 3), first.run(0, 1)), ("two three ", "one "));
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn tokens_are_those_of_the_sentences(
            blocks in proptest::collection::vec("[a-zA-Z0-9 .!'é\u{301}猫Σ-]{0,40}|\\PC{0,40}", 0..6),
        ) {
            let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
            let tokens = Tokens::of(blocks.iter().copied());
            let expected = sentences(blocks.iter().copied());
            let found: Vec<Sentence> = tokens.sentences().map(|(s, _)| s.clone()).collect();
            prop_assert_eq!(&found, &expected);
            let all: Vec<&str> = tokens.iter().collect();
            prop_assert_eq!(&all, &expected.iter().flat_map(Sentence::tokens).collect::<Vec<_>>());
            for (sentence, of) in tokens.sentences() {
                prop_assert!(sentence.tokens().eq(all[of].iter().copied()));
            }
            for (number, (block, text)) in tokens.blocks().zip(blocks).enumerate() {
                let of: Vec<&str> = all[tokens.of_block(number)].to_vec();
                prop_assert_eq!(block.len(), of.len());
                prop_assert!(block.text().split_terminator(' ').eq(of));
                if text.is_ascii() {
                    let alone = normalise(text);
                    prop_assert_eq!(block.text().trim_end(), alone.as_str());
                }
            }
        }
    }
}
