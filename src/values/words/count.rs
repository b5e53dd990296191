//! The number of words of a text, for display.

use unicode_segmentation::UnicodeSegmentation;

/// The number of words of a text by UAX #29, without numbers.
pub fn count(text: &str) -> u32 {
    // No word contains a space.
    let count = text.split_ascii_whitespace().map(between_spaces);
    u32::try_from(count.sum::<usize>()).unwrap_or(u32::MAX)
}

fn between_spaces(text: &str) -> usize {
    // Nearly all are letters with punctuation around them, which need no table.
    let inner = text.trim_matches(|c: char| c.is_ascii_punctuation());
    if inner.bytes().all(|b| b.is_ascii_alphabetic()) {
        return usize::from(!inner.is_empty());
    }
    let words = text.unicode_words();
    words
        .filter(|word| word.chars().any(char::is_alphabetic))
        .count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn numbers_and_signs_are_no_words() {
        for (text, expected) in [
            ("", 0),
            ("  \n\t. -- 12 3.4 1,000", 0),
            ("The keeper's lamp, \"lit\" (at 9pm).", 6),
            ("rock'n'roll e.g. a.test well-known _so_ x_1", 7),
            ("Ça va: l’été à Köln", 5),
            ("猫は", 2),
        ] {
            assert_eq!(count(text), expected, "{text}");
        }
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn words_are_those_of_the_whole_text(
            text in "[ab1 .,:;'\"_()é\u{301}\u{200d}猫\n\t-]{0,40}|[ -~]{0,40}|\\PC{0,30}",
        ) {
            let all = text.unicode_words();
            let all = all.filter(|word| word.chars().any(char::is_alphabetic));
            prop_assert_eq!(count(&text) as usize, all.count());
        }
    }
}
