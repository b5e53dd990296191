//! The script of most words of a text.

use icu_properties::CodePointMapData;
use icu_properties::props::Script;
use whatlang::Lang;

/// Letters of a word in scripts that are written without blanks, on average.
const HAN_WORD: usize = 2;
const SPACELESS_WORD: usize = 4;
/// A line is in a script other than Latin if at least this share of its words is, as a divisor:
/// names and terms are in Latin letters in texts of all scripts, but rarely the other way round.
const SHARE: usize = 3;
/// The minimum share of kana among the characters of a Japanese text, as a divisor.
const KANA: usize = 20;

/// A script, or several that one language mixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writing {
    /// Chinese characters, kana and Hangul.
    EastAsian,
    /// Any other.
    Of(Script),
}

impl Writing {
    /// The writing of a letter; `None` if it is not a letter of a script.
    fn of(c: char) -> Option<Self> {
        if c.is_ascii() {
            return c.is_ascii_alphabetic().then_some(Self::Of(Script::Latin));
        }
        match CodePointMapData::<Script>::new().get(c) {
            Script::Common | Script::Inherited | Script::Unknown => None,
            Script::Han
            | Script::Hiragana
            | Script::Katakana
            | Script::Hangul
            | Script::Bopomofo => Some(Self::EastAsian),
            other => Some(Self::Of(other)),
        }
    }

    /// How many letters a character counts as.
    pub(super) fn letters(self, c: char) -> usize {
        match self {
            Self::EastAsian if c.is_alphabetic() => 2,
            _ => usize::from(c.is_alphabetic()),
        }
    }

    /// The number of words in a run of this many letters.
    fn words(self, letters: usize) -> usize {
        match self {
            Self::EastAsian => letters.div_ceil(HAN_WORD),
            Self::Of(Script::Thai | Script::Lao | Script::Khmer | Script::Myanmar) => {
                letters.div_ceil(SPACELESS_WORD)
            }
            Self::Of(_) => 1,
        }
    }

    /// The language of East Asian characters, which follows from the characters themselves.
    pub(super) fn east_asian(self, text: &str) -> Option<Lang> {
        if self != Self::EastAsian {
            return None;
        }
        let scripts = CodePointMapData::<Script>::new();
        let [mut han, mut kana, mut hangul] = [0; 3];
        for c in text.chars() {
            match scripts.get(c) {
                Script::Han => han += 1,
                Script::Hiragana | Script::Katakana => kana += 1,
                Script::Hangul => hangul += 1,
                _ => {}
            }
        }
        Some(if hangul > han.max(kana) {
            Lang::Kor
        } else if kana * KANA >= han + kana {
            Lang::Jpn
        } else {
            Lang::Cmn
        })
    }
}

/// The lines of a text that are in the script of most of its words, without words of other scripts.
pub(super) fn of_most_words(text: &str) -> (String, Writing) {
    let lines: Vec<(&str, Writing, usize)> = text
        .lines()
        .filter_map(|line| of_line(line).map(|(writing, words)| (line, writing, words)))
        .collect();
    let total = |wanted: Writing| -> usize {
        let of = lines.iter().filter(|(_, writing, _)| *writing == wanted);
        of.map(|(.., words)| words).sum()
    };
    let most = lines.iter().map(|(_, writing, _)| *writing);
    let most = most.max_by_key(|writing| total(*writing));
    let most = most.unwrap_or(Writing::Of(Script::Latin));
    let mut kept = String::with_capacity(text.len());
    for (line, writing, _) in lines {
        if writing == most {
            // Signs and marks stay; words in other scripts become blanks.
            kept.extend(line.chars().map(|c| match Writing::of(c) {
                Some(other) if other != most => ' ',
                _ => c,
            }));
            kept.push('\n');
        }
    }
    (kept, most)
}

/// The script of a line, and the number of words that count.
fn of_line(line: &str) -> Option<(Writing, usize)> {
    let latin = Writing::Of(Script::Latin);
    let mut counts: Vec<(Writing, usize)> = Vec::new();
    let mut add = |writing: Writing, words: usize| match counts
        .iter_mut()
        .find(|(known, _)| *known == writing)
    {
        Some((_, count)) => *count += words,
        None => counts.push((writing, words)),
    };
    let mut marked = 0;
    for piece in line.split_whitespace() {
        for (writing, run) in runs(piece) {
            if writing == latin && is_name_or_code(piece, run) {
                marked += 1;
            } else {
                add(writing, writing.words(run.chars().count()));
            }
        }
    }
    let others = counts.iter().filter(|(writing, _)| *writing != latin);
    let other = others.max_by_key(|(_, words)| *words).copied();
    let plain = counts.iter().find(|(writing, _)| *writing == latin);
    let plain = plain.map_or(0, |(_, words)| *words);
    match other {
        Some((writing, words)) if words * SHARE >= words + plain => Some((writing, words)),
        _ if plain + marked > 0 => Some((latin, plain + marked)),
        _ => other,
    }
}

/// The runs of letters of one script in a piece without blanks.
fn runs(piece: &str) -> Vec<(Writing, &str)> {
    let mut found: Vec<(Writing, usize, usize)> = Vec::new();
    let mut goes_on = false;
    for (at, c) in piece.char_indices() {
        let end = at + c.len_utf8();
        let writing = Writing::of(c);
        match (writing, found.last_mut()) {
            (Some(writing), Some((last, _, to))) if goes_on && *last == writing => *to = end,
            (Some(writing), _) => found.push((writing, at, end)),
            // Marks belong to the letter before them.
            (None, Some((.., to))) if goes_on && !c.is_ascii() && !c.is_alphanumeric() => {
                *to = end;
                continue;
            }
            (None, _) => {}
        }
        goes_on = writing.is_some();
    }
    let run = |(writing, from, to)| Some((writing, piece.get(from..to)?));
    found.into_iter().filter_map(run).collect()
}

/// Whether a run of Latin letters looks like a name or like code: with capitals, or joined to
/// others by signs and digits.
fn is_name_or_code(piece: &str, run: &str) -> bool {
    let is_joined = |c: char| c.is_ascii_digit() || "_-./\\:@#=<>(){}[]$".contains(c);
    let inner = piece.trim_matches(|c: char| !c.is_alphanumeric());
    run.chars().any(char::is_uppercase) || (inner.is_ascii() && inner.contains(is_joined))
}
