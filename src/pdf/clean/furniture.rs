//! Headers and footers: the first and last lines of pages that are the same except for a counting
//! number.

use std::ops::Range;

use rustc_hash::FxHashMap;

/// How many lines at each end of a page may be headers or footers.
const DEEP: usize = 3;
/// The longest such line in characters.
const MAX: usize = 160;
/// The maximum distance of two pages with the same header: there are left and right pages, and
/// sometimes figures in between. At a greater distance, two lines of the text may be the same by
/// chance.
const NEAR: usize = 6;

/// A line at the end of a page.
struct Edge {
    line: usize,
    page: usize,
    /// The text with `#` for every number.
    form: String,
    numbers: Vec<i64>,
}

/// Which lines are headers or footers. `pages` has the lines of each page.
pub(super) fn marked(lines: &[&str], pages: &[Range<usize>]) -> Vec<bool> {
    let mut removed = vec![false; lines.len()];
    for at_top in [true, false] {
        for depth in 0..DEEP {
            if !round(lines, pages, at_top, depth, &mut removed) {
                break;
            }
        }
    }
    removed
}

/// Marks the lines at one end of the pages, `depth` lines deep, and returns whether there are any.
/// A line counts only if all lines outside of it are headers or footers.
fn round(
    lines: &[&str],
    pages: &[Range<usize>],
    at_top: bool,
    depth: usize,
    removed: &mut [bool],
) -> bool {
    let mut edges = Vec::new();
    for (page, range) in pages.iter().enumerate() {
        // A page of one or two lines would lose everything.
        if range.len() <= depth {
            continue;
        }
        let line = if at_top {
            range.start + depth
        } else {
            range.end - 1 - depth
        };
        let outside = if at_top {
            range.start..line
        } else {
            line + 1..range.end
        };
        if !outside.clone().all(|line| removed.get(line) == Some(&true)) {
            continue;
        }
        let text = lines.get(line).copied().unwrap_or_default();
        if removed.get(line) == Some(&true) || text.chars().count() > MAX {
            continue;
        }
        if !text.contains(char::is_alphanumeric) {
            continue;
        }
        let (form, numbers) = form(text);
        edges.push(Edge {
            line,
            page,
            form,
            numbers,
        });
    }
    let mut found = same(&edges);
    found.extend(counting(&edges, pages.len()));
    for line in &found {
        if let Some(place) = removed.get_mut(*line) {
            *place = true;
        }
    }
    !found.is_empty()
}

/// The lines that are the same on two near pages except for counting numbers: each number is equal
/// on both, or differs by the distance of the pages.
fn same(edges: &[Edge]) -> Vec<usize> {
    let mut by_form: FxHashMap<&str, Vec<&Edge>> = FxHashMap::default();
    for edge in edges {
        by_form.entry(&edge.form).or_default().push(edge);
    }
    let mut found = Vec::new();
    for group in by_form.values() {
        for (place, edge) in group.iter().enumerate() {
            let from = place.saturating_sub(NEAR);
            let near = group.get(from..(place + NEAR + 1).min(group.len()));
            let mut near = near.unwrap_or_default().iter();
            if near.any(|other| counts(edge, other)) {
                found.push(edge.line);
            }
        }
    }
    found
}

fn counts(one: &Edge, other: &Edge) -> bool {
    let is_near = one.page != other.page && one.page.abs_diff(other.page) <= NEAR;
    let apart = one.page as i64 - other.page as i64;
    let mut pairs = one.numbers.iter().zip(&other.numbers);
    is_near && pairs.all(|(a, b)| a == b || a - b == apart)
}

/// The lines that begin or end with their page number, regardless of the rest: headers with the
/// title of a section that has only one page. The numbers must match on most pages.
fn counting(edges: &[Edge], pages: usize) -> Vec<usize> {
    let mut found = Vec::new();
    for is_first in [true, false] {
        let number = |edge: &Edge| {
            let at_end = if is_first {
                edge.form.starts_with('#')
            } else {
                edge.form.ends_with('#')
            };
            let number = if is_first {
                edge.numbers.first()
            } else {
                edge.numbers.last()
            };
            let number = number.filter(|_| at_end)?;
            Some(number - edge.page as i64)
        };
        let mut votes: FxHashMap<i64, usize> = FxHashMap::default();
        for shift in edges.iter().filter_map(number) {
            *votes.entry(shift).or_default() += 1;
        }
        // With left and right pages, each side has half of them.
        let least = (pages / 4).max(4);
        let best = votes.into_iter().filter(|(_, count)| *count >= least);
        let best = best.max_by_key(|(shift, count)| (*count, *shift));
        let Some((shift, _)) = best else {
            continue;
        };
        let own = edges.iter().filter(|edge| number(edge) == Some(shift));
        found.extend(own.map(|edge| edge.line));
    }
    found
}

/// A line with `#` for its numbers, and these numbers. Roman numerals count as numbers at the start
/// or end of a line, as in front matter.
fn form(text: &str) -> (String, Vec<i64>) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut form = String::with_capacity(text.len());
    let mut numbers = Vec::new();
    let last = words.len().saturating_sub(1);
    for (place, word) in words.iter().enumerate() {
        if place > 0 {
            form.push(' ');
        }
        if (place == 0 || place == last)
            && let Some(number) = roman(word)
        {
            form.push('#');
            numbers.push(number);
            continue;
        }
        let mut digits = String::new();
        for c in word.chars() {
            if let Some(digit) = c.to_digit(10) {
                digits.extend(char::from_digit(digit, 10));
                continue;
            }
            end_number(&mut digits, &mut form, &mut numbers);
            form.push(c);
        }
        end_number(&mut digits, &mut form, &mut numbers);
    }
    (form, numbers)
}

fn end_number(digits: &mut String, form: &mut String, numbers: &mut Vec<i64>) {
    if !digits.is_empty() {
        form.push('#');
        // A longer one is not a page number.
        numbers.push(digits.get(..15).unwrap_or(digits).parse().unwrap_or(-1));
        digits.clear();
    }
}

/// The value of a Roman numeral below 400, in lower or upper case.
fn roman(word: &str) -> Option<i64> {
    let is_small = word.bytes().all(|b| b"ivxlc".contains(&b));
    let is_capital = word.bytes().all(|b| b"IVXLC".contains(&b));
    if word.is_empty() || word.len() > 12 || !(is_small || is_capital) {
        return None;
    }
    let value = |byte: u8| match byte.to_ascii_lowercase() {
        b'i' => 1,
        b'v' => 5,
        b'x' => 10,
        b'l' => 50,
        _ => 100,
    };
    let bytes = word.as_bytes();
    let mut sum = 0;
    for (place, byte) in bytes.iter().enumerate() {
        let (own, next) = (
            value(*byte),
            bytes.get(place + 1).map_or(0, |next| value(*next)),
        );
        sum += if own < next { -own } else { own };
    }
    (written(sum) == word.to_ascii_lowercase()).then_some(sum)
}

fn written(number: i64) -> String {
    const PARTS: [(i64, &str); 9] = [
        (100, "c"),
        (90, "xc"),
        (50, "l"),
        (40, "xl"),
        (10, "x"),
        (9, "ix"),
        (5, "v"),
        (4, "iv"),
        (1, "i"),
    ];
    let mut rest = number;
    let mut text = String::new();
    for (value, letters) in PARTS {
        while rest >= value {
            text.push_str(letters);
            rest -= value;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that remain of pages.
    fn left<'t>(pages: &[&[&'t str]]) -> Vec<&'t str> {
        let lines: Vec<&str> = pages.iter().flat_map(|page| page.iter().copied()).collect();
        let mut from = 0;
        let ranges: Vec<Range<usize>> = pages
            .iter()
            .map(|page| {
                from += page.len();
                from - page.len()..from
            })
            .collect();
        let marked = marked(&lines, &ranges);
        let kept = lines.into_iter().zip(marked);
        kept.filter(|(_, marked)| !marked)
            .map(|(line, _)| line)
            .collect()
    }

    #[test]
    fn left_and_right_pages_have_heads_of_their_own() {
        let pages: [&[&str]; 4] = [
            &["2 The tower", "a one", "a two"],
            &["Lamps and oil 3", "b one", "b two"],
            &["4 The tower", "c one", "c two"],
            &["Lamps and oil 5", "d one", "d two"],
        ];
        let expected = [
            "a one", "a two", "b one", "b two", "c one", "c two", "d one", "d two",
        ];
        assert_eq!(left(&pages), expected);
    }

    #[test]
    fn numbers_must_count() {
        // Table rows at the ends of pages, whose numbers do not count the pages.
        let pages: [&[&str]; 3] = [
            &["rain 31", "a", "sum 7"],
            &["rain 4", "b", "sum 9"],
            &["rain 16", "c", "sum 2"],
        ];
        assert_eq!(left(&pages).len(), 9);
        let pages: [&[&str]; 3] = [
            &["a", "x", "- 8 -"],
            &["b", "y", "- 9 -"],
            &["c", "z", "- 10 -"],
        ];
        assert_eq!(left(&pages), ["a", "x", "b", "y", "c", "z"]);
    }

    #[test]
    fn roman_numerals_count_too() {
        let pages: [&[&str]; 3] = [&["a", "x", "iii"], &["b", "y", "iv"], &["c", "z", "v"]];
        assert_eq!(left(&pages), ["a", "x", "b", "y", "c", "z"]);
        assert_eq!(roman("xlix"), Some(49));
        assert_eq!(roman("CCC"), Some(300));
        for word in ["", "iiii", "ic", "Mix", "mix", "iV"] {
            assert_eq!(roman(word), None, "{word}");
        }
    }

    #[test]
    fn heads_of_single_pages_are_known_by_their_numbers() {
        let words = ["Oil", "Wicks", "Glass", "Rope", "Paint", "Brass"];
        let heads: Vec<String> = (11..)
            .zip(words)
            .map(|(n, word)| format!("{word} {n}"))
            .collect();
        let heads = heads.iter().zip(["a", "b", "c", "d", "e", "f"]);
        let pages: Vec<Vec<&str>> = heads
            .map(|(head, text)| vec![head.as_str(), text])
            .collect();
        let pages: Vec<&[&str]> = pages.iter().map(Vec::as_slice).collect();
        assert_eq!(left(&pages), ["a", "b", "c", "d", "e", "f"]);
    }

    #[test]
    fn lines_that_are_alike_far_apart_stay() {
        let number = |n: usize| format!("line {}", "x".repeat(n));
        let own: Vec<String> = (0..20).map(number).collect();
        let mut pages: Vec<Vec<&str>> = own.iter().map(|line| vec![line.as_str()]).collect();
        for page in [2, 15] {
            pages[page].push("For example:");
        }
        let pages: Vec<&[&str]> = pages.iter().map(Vec::as_slice).collect();
        assert_eq!(left(&pages).len(), 22);
        assert_eq!(left(&[&["}"], &["}"]]), ["}", "}"]);
        assert!(left(&[]).is_empty());
    }
}
