//! The context of a hit: the passage of its text with most of the words that were looked
//! for.

use serde::Serialize;

use super::query::Wanted;
use super::words;

/// The length of a passage, in characters.
const WIDTH: usize = 240;
/// At most so many of these stand before the first word that was looked for.
const BEFORE: usize = 80;
/// So many occurrences are compared.
const MOST: usize = 2_000;

/// A passage of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Snippet {
    /// Its parts, one after another.
    pub parts: Vec<Part>,
}

/// A part of a passage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The text, in one line.
    pub text: String,
    /// Whether it was looked for.
    #[serde(rename = "match", skip_serializing_if = "std::ops::Not::not")]
    pub is_match: bool,
}

/// An occurrence of a word.
#[derive(Debug, Clone, Copy)]
struct Met {
    from: usize,
    to: usize,
    /// The number of the word.
    which: usize,
}

impl Snippet {
    /// The passage of `text` with most of the words.
    pub(super) fn of(text: &str, wanted: &[Wanted]) -> Self {
        let met = occurrences(text, wanted);
        let best = best(&met).unwrap_or_default();
        let first = met.get(best).map_or(0, |met| met.from);
        let from = begin(text, first);
        let to = end(text, from, met.get(best).map_or(0, |met| met.to));
        let mut parts = Parts::default();
        if from > 0 {
            parts.add("\u{2026} ", false);
        }
        parts.marked(text, (from, to), &met);
        if text.get(to..).is_some_and(|rest| !rest.trim().is_empty()) {
            parts.add(" \u{2026}", false);
        }
        parts.finish()
    }

    /// All of a text, such as a title, with the words marked.
    pub(super) fn whole(text: &str, wanted: &[Wanted]) -> Self {
        let mut parts = Parts::default();
        parts.marked(text, (0, text.len()), &occurrences(text, wanted));
        parts.finish()
    }

    /// The text of all parts.
    pub fn text(&self) -> String {
        self.parts.iter().map(|part| part.text.as_str()).collect()
    }
}

fn occurrences(text: &str, wanted: &[Wanted]) -> Vec<Met> {
    let mut met = Vec::new();
    if wanted.is_empty() {
        return met;
    }
    let mut analyzer = words::analyzer();
    let mut stream = analyzer.token_stream(text);
    while let Some(token) = stream.next() {
        if let Some(which) = wanted.iter().position(|wanted| wanted.is(&token.text)) {
            met.push(Met {
                from: token.offset_from,
                to: token.offset_to,
                which,
            });
            if met.len() == MOST {
                break;
            }
        }
    }
    met
}

/// The first occurrence of the best passage: the one with most different words, then with
/// most occurrences.
fn best(met: &[Met]) -> Option<usize> {
    let rated = met.iter().enumerate().map(|(at, first)| {
        let within = met.get(at..).unwrap_or_default().iter();
        let within = within.take_while(|met| met.to < first.from + WIDTH - BEFORE);
        let (mut seen, mut number) = (0_u64, 0_usize);
        for met in within {
            seen |= 1 << (met.which % 64);
            number += 1;
        }
        (seen.count_ones(), number, at)
    });
    let best = rated.reduce(|best, next| {
        if (next.0, next.1) > (best.0, best.1) {
            next
        } else {
            best
        }
    });
    best.map(|(.., at)| at)
}

/// Where a passage begins that shows the byte at `first`: at a word, and not before its
/// paragraph.
fn begin(text: &str, first: usize) -> usize {
    let before = text.get(..first).unwrap_or_default();
    let mut begin = before
        .char_indices()
        .rev()
        .take(BEFORE)
        .last()
        .map_or(0, |(at, _)| at);
    let near = before.get(begin..).unwrap_or_default();
    if let Some(paragraph) = near.rfind('\n') {
        return begin + paragraph + 1;
    }
    if begin > 0 {
        let word = near.find(char::is_whitespace);
        begin = word.map_or(first, |at| begin + at + 1);
    }
    // White space may be longer than one byte.
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    begin
}

/// Where it ends: after a word, and after the byte at `least`.
fn end(text: &str, from: usize, least: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let Some((most, _)) = rest.char_indices().nth(WIDTH) else {
        return text.len();
    };
    let near = rest.get(..most).unwrap_or_default();
    let word = near.rfind(char::is_whitespace).map(|at| from + at);
    let end = word.unwrap_or(from + most);
    if end >= least {
        end
    } else {
        (from + most).max(least)
    }
}

/// Parts while they are joined.
#[derive(Default)]
struct Parts {
    parts: Vec<Part>,
}

impl Parts {
    fn marked(&mut self, text: &str, (from, to): (usize, usize), met: &[Met]) {
        let mut at = from;
        for met in met.iter().filter(|met| met.from >= from && met.to <= to) {
            self.add(text.get(at..met.from).unwrap_or_default(), false);
            self.add(text.get(met.from..met.to).unwrap_or_default(), true);
            at = met.to;
        }
        self.add(text.get(at..to).unwrap_or_default(), false);
    }

    /// Adds text in one line.
    fn add(&mut self, text: &str, is_match: bool) {
        let mut line = String::with_capacity(text.len());
        let mut is_space = self
            .parts
            .last()
            .is_some_and(|part| part.text.ends_with(' '));
        for c in text.chars() {
            let space = c.is_whitespace();
            if !(space && is_space) {
                line.push(if space { ' ' } else { c });
            }
            is_space = space;
        }
        if line.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(last) if last.is_match == is_match => last.text.push_str(&line),
            _ => self.parts.push(Part {
                text: line,
                is_match,
            }),
        }
    }

    fn finish(self) -> Snippet {
        Snippet { parts: self.parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(words: &[&str]) -> Vec<Wanted> {
        let wanted = |word: &&str| Wanted {
            word: word.trim_end_matches('*').to_owned(),
            is_prefix: word.ends_with('*'),
        };
        words.iter().map(wanted).collect()
    }

    fn shown(snippet: &Snippet) -> String {
        let marked = |part: &Part| {
            if part.is_match {
                format!("[{}]", part.text)
            } else {
                part.text.clone()
            }
        };
        snippet.parts.iter().map(marked).collect()
    }

    #[test]
    fn the_passage_with_most_of_the_words_is_shown() {
        let filler = "Nothing of note happens here at all. ".repeat(20);
        let text = format!("A lamp.\n\n{filler}\n\nThe café’s lens and\tthe lamp,\nlit. {filler}");
        let passage = Snippet::of(&text, &wanted(&["lamp", "lens", "caf*"]));
        let passage = shown(&passage);
        assert!(
            passage.starts_with("\u{2026} The [café]’s [lens] and the [lamp], lit. Nothing"),
            "{passage}"
        );
        assert!(
            passage.ends_with(" \u{2026}") && passage.chars().count() < WIDTH + 20,
            "{passage}"
        );
        // Nothing to mark: the beginning.
        let passage = shown(&Snippet::of(&text, &wanted(&["zebra"])));
        assert!(passage.starts_with("A lamp. Nothing"), "{passage}");
        assert_eq!(
            shown(&Snippet::of("One lamp", &wanted(&["lamp"]))),
            "One [lamp]"
        );
        assert_eq!(shown(&Snippet::of("", &wanted(&["lamp"]))), "");
        assert_eq!(
            shown(&Snippet::whole("A\nLAMP here", &wanted(&["lamp"]))),
            "A [LAMP] here"
        );
    }

    proptest::proptest! {
        #![proptest_config(crate::tests::usual())]
        #[test]
        fn a_passage_is_a_part_of_the_text(text in "([ab\u{e9}\u{6771}]{1,9}[ \n\u{2003}.]){0,120}") {
            let words = wanted(&["a*", "ab", "e"]);
            let passage = Snippet::of(&text, &words).text();
            let folded = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let inner = passage.trim_start_matches("\u{2026} ").trim_end_matches(" \u{2026}");
            proptest::prop_assert!(folded(&text).contains(&folded(inner)), "{:?} {:?}", text, passage);
        }
    }
}
