//! The whole path from bytes to cleaned text, in this process.

use proptest::prelude::*;

use super::child::read_here;
use super::made::{Made, manual};
use super::*;

fn read(bytes: Vec<u8>) -> Original {
    read_here(bytes).unwrap()
}

#[test]
fn a_manual_becomes_running_text() {
    let original = read(manual());
    assert_eq!(original.about.title.as_deref(), Some("The lamp"));
    assert_eq!(original.about.authors, ["Ada Light"]);
    let created = original.about.created.as_deref();
    assert_eq!(created, Some("2024-02-29T12:30:05+01:00"));
    assert_eq!(original.about.language.as_deref(), Some("en"));
    assert!(
        original
            .text
            .starts_with("The lamp Chapter 1\nThis is the first page about a light-\n")
    );
    assert_eq!(original.pages.len(), 3);
    let [link] = &original.links[..] else {
        panic!("{:?}", original.links)
    };
    assert_eq!(
        (&*link.url, &*link.text, link.page),
        ("http://lamps.test/keeper", "The keeper has a whole", 3)
    );
    let cleaned = original.clean(None);
    let page = |word: &str| {
        format!(
            "This is the {word} page about a lighthouse and its lamp. The lighthouse was built of \
             well-known stones. The well-known keeper lights the fire at night, and ships at sea \
             see it from far away.\n\nThe keeper has a whole page of his own, the {word}."
        )
    };
    let expected = [page("first"), page("second"), page("third")].join("\n\n");
    assert_eq!(cleaned.text(), expected);
    let counts = cleaned.counts;
    assert_eq!((counts.lines_removed, counts.ligatures), (6, 3));
    assert_eq!((counts.hyphens_removed, counts.hyphens_kept), (3, 3));
    let offsets = Offsets::of(&original, &cleaned);
    assert_eq!(offsets.text(), expected);
}

#[test]
fn columns_are_read_one_after_the_other() {
    let left = [
        "The left column of the page",
        "has five lines of text that",
        "are read one after another",
        "before those of the right",
        "column, which follow here:",
    ];
    let right = [
        "now the right column has its",
        "turn, and it is read from the",
        "top to the bottom of the page",
        "as well, until the last one of",
        "its lines has been read too.",
    ];
    let mut made = Made::default();
    made.page()
        .sized(150, 740, 16, "A title over both of the columns");
    // As tables are painted: row by row.
    for (number, (left, right)) in (0..).zip(left.iter().zip(&right)) {
        made.put(60, 700 - 12 * number, left);
        made.put(230, 699 - 12 * number, right);
    }
    let original = read(made.bytes());
    let expected = format!(
        "A title over both of the columns\n{}\n{}\n",
        left.join("\n"),
        right.join("\n")
    );
    assert_eq!(original.text, expected);
    let text = original.clean(None).text();
    assert!(text.contains("follow here:\n\nnow the right"), "{text}");
}

#[test]
fn a_file_without_a_title_has_that_of_its_first_page() {
    let mut made = Made::default();
    made.page()
        .sized(72, 760, 9, "Bulletin of the harbour")
        .sized(72, 740, 18, "The lamp of the northern cape")
        .sized(72, 718, 18, "and its keepers");
    for line in 0..6 {
        made.put(
            72,
            690 - 12 * line,
            "A line of the text that follows below the title.",
        );
    }
    let title = read(made.bytes()).about.title;
    let expected = "The lamp of the northern cape and its keepers";
    assert_eq!(title.as_deref(), Some(expected));
    let mut made = Made::default();
    made.page();
    made.put(72, 740, "All of this text has one size.");
    assert_eq!(read(made.bytes()).about.title, None);
}

#[test]
fn letters_with_gaps_between_them_are_words() {
    let mut made = Made::default();
    made.page();
    // Widths of Helvetica, in hundredths of its size; a gap of 4 points after each letter.
    let width = |letter| match letter {
        'I' => 28,
        'G' => 78,
        'H' => 72,
        'L' => 56,
        'T' => 61,
        _ => 67,
    };
    let mut x = 72;
    for word in ["LIGHTS", "AT", "SEA"] {
        for letter in word.chars() {
            made.sized(x, 740, 12, &letter.to_string());
            x += width(letter) * 12 / 100 + 4;
        }
        x += 8;
    }
    made.put(72, 700, "The usual line below has words.");
    assert_eq!(
        read(made.bytes()).text,
        "LIGHTS AT SEA\nThe usual line below has words.\n"
    );
}

#[test]
fn rows_of_a_table_stay_together() {
    let mut made = Made::default();
    made.page();
    for (number, (name, value)) in (0..).zip([("oil", 3), ("wick", 15), ("glass", 7), ("rope", 99)])
    {
        made.put(72, 700 - 12 * number, name);
        made.put(300, 700 - 12 * number, &value.to_string());
    }
    assert_eq!(
        read(made.bytes()).text,
        "oil 3\nwick 15\nglass 7\nrope 99\n"
    );
}

#[test]
fn words_are_separated_by_their_gaps() {
    let mut made = Made::default();
    made.page()
        .raw("BT /F 10 Tf 72 700 Td [(The) -280 (la) 20 (mp) -300 (bur) -30 (ns)] TJ ET\n");
    // Painted twice to look bold.
    made.raw("BT /F 10 Tf 72 660 Td (bold) Tj ET BT /F 10 Tf 72.2 660 Td (bold) Tj ET\n");
    // Raised and lowered.
    made.raw("BT /F 10 Tf 72 640 Td (x) Tj /F 6 Tf 4 Ts (2) Tj /F 10 Tf 0 Ts ( is) Tj ET\n");
    // From the bottom to the top.
    made.raw("BT /F 10 Tf 0 1 -1 0 40 300 Tm (in the margin) Tj ET\n");
    assert_eq!(
        read(made.bytes()).text,
        "The lamp burns\nbold\nx2 is\nin the margin\n"
    );
}

#[test]
fn what_cannot_be_read_is_named() {
    let mut made = Made::titled("a", "b");
    made.page().put(72, 700, "secret");
    assert!(
        read_here(made.encrypted().bytes())
            .unwrap_err()
            .contains("Encrypted")
    );
    assert!(
        read_here(b"%PDF-1.4 nothing".to_vec())
            .unwrap_err()
            .contains("Damaged")
    );
    assert!(read_here(Vec::new()).unwrap_err().contains("Damaged"));
    assert!(
        read_here(b"<html>".to_vec())
            .unwrap_err()
            .contains("Damaged")
    );
}

/// Ten kinds of damage to two files: every reading ends, and its result meets the guarantees. The
/// long form is in `tests/it/pdf.rs`, with processes.
#[test]
fn damaged_files_are_read_or_refused() {
    let mut read = 0;
    for seed in 0..40_u64 {
        if let Ok(original) = read_here(made::damaged(&manual(), seed)) {
            check(&original);
            read += usize::from(!original.text.is_empty());
        }
    }
    assert!(read >= 20, "{read} of 40 had text");
}

/// The guarantees for every text.
fn check(original: &Original) {
    let characters: Vec<char> = original.text.chars().collect();
    let cleaned = original.clean(None);
    let mut end = 0;
    let mut used = vec![false; characters.len()];
    for piece in &cleaned.pieces {
        assert!(piece.at >= end, "{piece:?} before {end}");
        end = piece.at + piece.takes();
        let own = &characters[piece.at as usize..end as usize];
        for place in piece.at..end {
            used[place as usize] = true;
        }
        if piece.is_ligature {
            assert!(own[0] > '\u{7f}' && !piece.text.is_empty(), "{piece:?}");
        } else {
            assert!(piece.text.chars().eq(own.iter().copied()), "{piece:?}");
        }
    }
    // Besides whole lines, only line ends, hyphens and soft hyphens are left out.
    let mut at = 0;
    for line in original.text.split_terminator('\n') {
        let length = line.chars().count();
        let own: Vec<usize> = (at..at + length).collect();
        if own.iter().any(|place| used[*place]) {
            for place in own.into_iter().filter(|place| !used[*place]) {
                assert!("-\u{ad}\u{2010}".contains(characters[place]), "{line:?}");
            }
        }
        at += length + 1;
    }
    let (text, places) = cleaned.text_with_places();
    assert_eq!(text.chars().count(), places.len());
    assert!(places.is_sorted(), "{places:?}");
    for (c, place) in text.chars().zip(&places) {
        let there = characters[*place as usize];
        let is_same = c == there || !there.is_ascii();
        assert!(
            is_same || (there == '\n' && c.is_whitespace()),
            "{c:?} {there:?}"
        );
    }
    let offsets = Offsets::of(original, &cleaned);
    assert_eq!(offsets.text(), text);
    let json = serde_json::to_string(&offsets).unwrap();
    assert_eq!(serde_json::from_str::<Offsets>(&json).unwrap(), offsets);
    for (at, chunk) in &offsets.chunks {
        for (number, c) in (0..).zip(chunk.chars()) {
            let place = offsets.place(*at, number).unwrap();
            let there = characters[place as usize];
            assert!(c == there || !there.is_ascii(), "{c:?} {there:?}");
        }
    }
    for start in offsets.sentences.iter().chain(&offsets.lines) {
        assert!((*start as usize) < characters.len());
    }
    assert!(offsets.sentences.is_sorted() && offsets.lines.is_sorted());
}

/// Texts as on pages: words, divided words, ligatures, numbered headers.
fn texts() -> impl Strategy<Value = Original> {
    let line = prop_oneof![
        "[a-zäß]{1,8}( [a-zA-Z]{1,9}){0,5}[-.]?",
        "[a-z]{1,6}ﬁ[a-z]{0,4} [ﬀ-ﬆ]{1,2}\u{ad}?[a-z]?-",
        "Head [0-9]{1,2}",
        "[0-9]{1,2}",
        "[一-三]{1,4}",
        "[א-ת]{1,4} \u{fb4f}\u{fefb}",
        "-?[ \u{ad}‐-]{0,3}",
    ];
    let start = prop_oneof![
        Just(Start::Within),
        Just(Start::Paragraph),
        Just(Start::Region)
    ];
    let page = prop::collection::vec((line, start), 0..7);
    prop::collection::vec(page, 0..6).prop_map(|pages| {
        let mut original = Original::default();
        let mut at = 0;
        for page in pages {
            original.pages.push(at);
            for (text, start) in page {
                original.lines.push(PdfLine { at, start });
                at += text.chars().count() as u32 + 1;
                original.text.push_str(&text);
                original.text.push('\n');
            }
        }
        original
    })
}

proptest! {
    #![proptest_config(spoor_testing::usual!())]

    #[test]
    fn every_character_leads_back(original in texts()) {
        check(&original);
    }
}

#[test]
fn offsets_have_the_form_of_the_study() {
    let original = Original {
        text: "text text\nmore text\n".to_owned(),
        lines: vec![
            PdfLine {
                at: 0,
                start: Start::Paragraph,
            },
            PdfLine {
                at: 10,
                start: Start::Within,
            },
        ],
        pages: vec![0],
        ..Original::default()
    };
    let offsets = Offsets::of(&original, &original.clean(None));
    let json = serde_json::to_value(&offsets).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "chunks": {"0": "text text", "10": "more text"},
            "pages": [0], "sentences": [0], "lines": [0, 10],
            "paragraphs": [0], "joined": [], "ligatures": [],
        })
    );
}
