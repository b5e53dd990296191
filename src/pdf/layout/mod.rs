//! Glyphs to lines in reading order.
//!
//! `segments` joins adjacent glyphs in painting order. `columns` cuts a page into regions, each
//! with one column, in reading order. `rows` makes lines of a region, determines where paragraphs
//! begin, and uses `direction` to order right-to-left script.

mod columns;
mod direction;
mod rows;
mod segments;

use super::glyphs::{Glyph, TextDirection};
use super::original::Start;

/// A line of a page.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlacedLine {
    pub(super) text: String,
    pub(super) start: Start,
    /// The size of its font, in points.
    size: f32,
}

/// How much larger a title is than most of the text, and its maximum number of lines and
/// characters.
const LARGER: f32 = 1.2;
const MOST_LINES: usize = 4;
const MOST_CHARACTERS: usize = 300;

/// The title in large letters above the text of a first page, for a file that states none; `None`
/// if nothing stands out.
pub(super) fn title(lines: &[PlacedLine]) -> Option<String> {
    let mut sizes: Vec<f32> = lines
        .iter()
        .flat_map(|line| std::iter::repeat_n(line.size, line.text.len()))
        .collect();
    sizes.sort_by(f32::total_cmp);
    let usual = *sizes.get(sizes.len() / 2)?;
    let largest = *sizes.last()?;
    if largest < LARGER * usual {
        return None;
    }
    let is_large = |line: &&PlacedLine| line.size > 0.95 * largest;
    let title = lines.iter().skip_while(|line| !is_large(line));
    let title: Vec<&str> = title.take_while(is_large).map(|line| &*line.text).collect();
    let is_short = title.len() <= MOST_LINES;
    let title = title.join(" ");
    let letters = title.chars().filter(|c| c.is_alphabetic()).count();
    let is_title = is_short && letters >= 3 && title.chars().count() <= MOST_CHARACTERS;
    is_title.then_some(title)
}

/// The lines of a page. Text in a direction other than that of most text comes at the end.
pub(super) fn lines(glyphs: Vec<Glyph>) -> Vec<PlacedLine> {
    let mut turns: [(TextDirection, Vec<Glyph>); 4] = [
        (TextDirection::Upright, Vec::new()),
        (TextDirection::Down, Vec::new()),
        (TextDirection::Up, Vec::new()),
        (TextDirection::Over, Vec::new()),
    ];
    for glyph in glyphs {
        if let Some((_, own)) = turns.iter_mut().find(|(turn, _)| *turn == glyph.turn) {
            own.push(glyph);
        }
    }
    turns.sort_by_key(|(turn, own)| (std::cmp::Reverse(own.len()), *turn));
    let mut lines = Vec::new();
    for (_, own) in turns {
        for region in columns::ordered(segments::of(own)) {
            rows::lines(region, &mut lines);
        }
    }
    lines
}

/// Whether a character belongs to a script that is written from right to left.
fn is_rtl(c: char) -> bool {
    matches!(c,
        '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
        && !is_number(c)
        && !is_mark(c)
}

/// Whether it is a digit, which runs from left to right in every script.
fn is_number(c: char) -> bool {
    matches!(c, '0'..='9' | '\u{660}'..='\u{669}' | '\u{6f0}'..='\u{6f9}')
}

/// Whether it is a mark that is placed on the preceding character.
fn is_mark(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}'
        | '\u{5c4}' | '\u{5c5}' | '\u{5c7}' | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}'
        | '\u{670}' | '\u{6d6}'..='\u{6dc}' | '\u{6df}'..='\u{6e4}' | '\u{6e7}' | '\u{6e8}'
        | '\u{6ea}'..='\u{6ed}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// Whether it belongs to a script without spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{2e80}'..='\u{2fff}' | '\u{3000}'..='\u{30ff}' | '\u{31f0}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ff60}'
        | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn glyph(text: &str, x: f32, y: f32, turn: TextDirection) -> Glyph {
        Glyph {
            text: text.to_owned(),
            x0: x,
            x1: x + 5.0,
            y,
            size: 10.0,
            turn,
            place: (x, y),
            guessed: false,
        }
    }

    #[test]
    fn a_mark_is_put_on_its_letter_from_either_side() {
        let text = |glyphs| lines(glyphs).remove(0).text;
        // Latin: the mark follows its letter.
        let latin = vec![
            glyph("a", 0.0, 0.0, TextDirection::Upright),
            glyph("\u{308}", 2.0, 0.0, TextDirection::Upright),
            glyph("b", 5.0, 0.0, TextDirection::Upright),
        ];
        assert_eq!(text(latin), "äb");
        // Arabic, painted from left to right: the mark precedes its letter.
        let arabic = vec![
            glyph("م", 0.0, 0.0, TextDirection::Upright),
            glyph("\u{64b}", 5.5, 0.0, TextDirection::Upright),
            glyph("ا", 8.0, 0.0, TextDirection::Upright),
        ];
        assert_eq!(text(arabic), "اً م");
        // TeX: the accent alone, then the letter under it.
        let tex = vec![
            glyph("\u{a8}", 0.0, 0.0, TextDirection::Upright),
            glyph("u", 0.2, 0.0, TextDirection::Upright),
            glyph("b", 5.0, 0.0, TextDirection::Upright),
        ];
        assert_eq!(text(tex), "üb");
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        /// For any positions of glyphs, each glyph is in exactly one line, once.
        #[test]
        fn no_glyph_is_lost_or_doubled(
            places in prop::collection::hash_map((0..60_i16, 0..80_i16), ("[a-zא-ת0-9.]", 0..3_u8), 0..300)
        ) {
            let glyphs = places.iter().map(|((x, y), (text, turn))| {
                let turn = [TextDirection::Upright, TextDirection::Up, TextDirection::Upright][usize::from(*turn)];
                glyph(text, f32::from(*x) * 5.5, f32::from(*y) * 3.0, turn)
            });
            let mut found: Vec<char> = lines(glyphs.collect())
                .iter()
                .flat_map(|line| line.text.chars().collect::<Vec<_>>())
                .filter(|c| *c != ' ')
                .collect();
            let mut given: Vec<char> = places.values().flat_map(|(text, _)| text.chars()).collect();
            found.sort_unstable();
            given.sort_unstable();
            prop_assert_eq!(found, given);
        }
    }
}
