//! From the order on the page to the reading order of a line.

use super::{is_number, is_rtl};

/// The role of a part of a line for the direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectionClass {
    Left,
    Right,
    Number,
    Neutral,
}

fn class(text: &str) -> DirectionClass {
    for c in text.chars() {
        if is_rtl(c) {
            return DirectionClass::Right;
        }
        if is_number(c) {
            return DirectionClass::Number;
        }
        if c.is_alphabetic() {
            return DirectionClass::Left;
        }
    }
    DirectionClass::Neutral
}

/// The text of a line, given the characters of its glyphs from left to right.
///
/// Glyphs of right-to-left scripts are painted where they are seen, so the line is reversed, except
/// for parts that run from left to right: words of other scripts and numbers. This undoes the
/// reordering of the Unicode Bidirectional Algorithm (UAX #9) for ordinary lines; embedded
/// directions that no character shows are lost in a PDF.
pub(super) fn logical(parts: &[String]) -> String {
    let classes: Vec<DirectionClass> = parts.iter().map(|part| class(part)).collect();
    let count = |class: DirectionClass| classes.iter().filter(|own| **own == class).count();
    let (left, right) = (count(DirectionClass::Left), count(DirectionClass::Right));
    if right == 0 {
        return parts.concat();
    }
    let all: Vec<usize> = (0..parts.len()).collect();
    let mut order = Vec::with_capacity(parts.len());
    if right >= left {
        turned(&all, &classes, &mut order);
    } else {
        // Only the runs of right-to-left script are reversed.
        let mut at = 0;
        while let Some(class) = classes.get(at) {
            if *class != DirectionClass::Right {
                order.push((at, false));
                at += 1;
                continue;
            }
            let run = classes.get(at..).unwrap_or_default();
            let end = run.iter().position(|class| *class == DirectionClass::Left);
            let run = run.get(..end.unwrap_or(run.len())).unwrap_or_default();
            let last = run
                .iter()
                .rposition(|class| *class == DirectionClass::Right);
            let length = last.unwrap_or(0) + 1;
            turned(
                all.get(at..at + length).unwrap_or_default(),
                &classes,
                &mut order,
            );
            at += length;
        }
    }
    let mut text = String::new();
    for (place, mirrored) in order {
        let Some(part) = parts.get(place) else {
            continue;
        };
        if mirrored && classes.get(place) == Some(&DirectionClass::Neutral) {
            text.extend(part.chars().map(mirror));
        } else {
            text.push_str(part);
        }
    }
    text
}

/// Reverses a run except for its parts that run from left to right; records for each position
/// whether it is in the reversed direction.
fn turned(run: &[usize], classes: &[DirectionClass], order: &mut Vec<(usize, bool)>) {
    let class = |place: usize| {
        classes
            .get(place)
            .copied()
            .unwrap_or(DirectionClass::Neutral)
    };
    let mut rest = run.len();
    while let Some(place) = rest.checked_sub(1).and_then(|last| run.get(last)) {
        if !matches!(class(*place), DirectionClass::Left | DirectionClass::Number) {
            order.push((*place, true));
            rest -= 1;
            continue;
        }
        // The left-to-right run ends here; it begins before the next letter of the other direction.
        let mut begin = rest - 1;
        let mut at = rest - 1;
        let mut only_numbers = class(*place) == DirectionClass::Number;
        let mut neutrals = 0;
        while let Some(before) = at.checked_sub(1) {
            let own = run
                .get(before)
                .map_or(DirectionClass::Neutral, |place| class(*place));
            match own {
                DirectionClass::Right => break,
                DirectionClass::Neutral => neutrals += 1,
                DirectionClass::Left | DirectionClass::Number => {
                    let is_number = own == DirectionClass::Number;
                    // Between numbers only a single separator joins.
                    if only_numbers && is_number && neutrals > 1 {
                        break;
                    }
                    only_numbers &= is_number;
                    begin = before;
                    neutrals = 0;
                }
            }
            at = before;
        }
        let places = run.get(begin..rest).unwrap_or_default();
        order.extend(places.iter().map(|place| (*place, false)));
        rest = begin;
    }
}

/// The other bracket of a pair: it was painted as seen.
fn mirror(c: char) -> char {
    match c {
        '(' => ')',
        ')' => '(',
        '[' => ']',
        ']' => '[',
        '{' => '}',
        '}' => '{',
        '<' => '>',
        '>' => '<',
        '«' => '»',
        '»' => '«',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line whose glyphs look like this from left to right.
    fn read(seen: &str) -> String {
        let parts: Vec<String> = seen.chars().map(String::from).collect();
        logical(&parts)
    }

    #[test]
    fn lines_from_left_to_right_stay() {
        assert_eq!(read("one (two) 3"), "one (two) 3");
        assert_eq!(read(""), "");
    }

    #[test]
    fn hebrew_is_turned_and_numbers_are_not() {
        // Seen: "17:30 םולש", read: "שלום 17:30".
        assert_eq!(read("17:30 םולש"), "שלום 17:30");
        assert_eq!(read("םולש ABC def םולש"), "שלום ABC def שלום");
        // Brackets are mirrored on the page.
        assert_eq!(read("(םולש) א"), "א (שלום)");
    }

    #[test]
    fn a_hebrew_word_in_an_english_line_is_turned() {
        assert_eq!(
            read("The word םולש means peace"),
            "The word שלום means peace"
        );
        assert_eq!(read("say םולש בוט 5 times now"), "say טוב שלום 5 times now");
    }
}
