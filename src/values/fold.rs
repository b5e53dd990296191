//! Wraps running text to a width, for terminals and files that people read.
//!
//! Widths are terminal columns (Unicode Standard Annex #11); colours take no columns.

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// The text in lines of at most `width` columns. Lines break at white space, which becomes one
/// space elsewhere; a longer word has its own line.
pub fn fold(text: &str, width: usize) -> Vec<String> {
    pieces(text.split_whitespace(), width)
}

/// The same for pieces that stay in one line, even if they contain spaces.
pub fn pieces<'a>(pieces: impl IntoIterator<Item = &'a str>, width: usize) -> Vec<String> {
    // Only ordinary spaces separate, so those within a piece are replaced for now.
    const WITHIN: &str = "\u{a0}";
    let joined = Vec::from_iter(pieces.into_iter().map(|piece| piece.replace(' ', WITHIN)));
    if joined.is_empty() {
        return Vec::new();
    }
    let options = Options::new(width)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    let joined = joined.join(" ");
    let lines = textwrap::wrap(&joined, options).into_iter();
    lines.map(|line| line.replace(WITHIN, " ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_end_where_the_width_does() {
        let text = "  one two\nthree-four five   extraordinarily six ";
        let lines = fold(text, 9);
        let wanted = ["one two", "three-four", "five", "extraordinarily", "six"];
        assert_eq!(lines, wanted);
        assert_eq!(fold(" \n", 9), [""; 0]);
        assert_eq!(fold("日本語 日本語", 12), ["日本語", "日本語"]);
        assert_eq!(fold("日本語 日本語", 13), ["日本語 日本語"]);
        let red = "\u{1b}[31mred\u{1b}[0m and blue";
        assert_eq!(fold(red, 7).len(), 2, "colours take no room");
        assert_eq!(pieces(["a b,", "c d", "e f"], 8), ["a b, c d", "e f"]);
        assert_eq!(pieces([], 8), [""; 0]);
    }

    proptest! {
        /// No word is lost, and a line is too long only if it is a single word.
        #[test]
        fn every_word_is_in_a_line(text in "[a-zé日 \n-]{0,80}", width in 1usize..30) {
            let lines = fold(&text, width);
            let found: Vec<&str> = lines.iter().flat_map(|line| line.split(' ')).collect();
            prop_assert_eq!(found, text.split_whitespace().collect::<Vec<_>>());
            for line in &lines {
                let fits = textwrap::core::display_width(line) <= width;
                prop_assert!(fits || !line.contains(' '), "{:?}", line);
            }
        }
    }
}
