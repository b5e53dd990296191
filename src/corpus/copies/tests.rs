use proptest::prelude::*;

use super::*;

/// Words that no other text has unless it has the same seed.
fn words(seed: usize, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("w{seed}x{n}")).collect()
}

fn both(a: &str, b: &str) -> f64 {
    let (a, b) = (Words::of(a), Words::of(b));
    of_both(&a, &b, &passages(&a, &b, 5))
}

#[test]
fn similarity_is_that_of_the_passages() {
    let text = words(1, 100);
    let joined = text.join(" ");
    assert_eq!(both(&joined, &joined), 1.0);
    assert_eq!(both(&joined, &text.join(",\n\n").to_uppercase()), 1.0);
    let mut changed = text.clone();
    changed[50] = "other".to_owned();
    assert_eq!(both(&joined, &changed.join(" ")), 0.99);
    // Moved sentences remain passages, and half of a text is all of the shorter one.
    let moved = [&text[50..], &text[..50]].concat();
    assert_eq!(both(&joined, &moved.join(" ")), 1.0);
    let (whole, half) = (Words::of(&joined), Words::of(&text[..50].join(" ")));
    let same = passages(&whole, &half, 5);
    assert_eq!(of_shorter(&whole, &half, &same), 1.0);
    assert_eq!(of_both(&whole, &half, &same), 100.0 / 150.0);
    assert_eq!(both(&joined, &words(2, 100).join(" ")), 0.0);
    assert_eq!((both("", ""), both("", "a")), (0.0, 0.0));
    assert_eq!(
        (
            both("Not found", "not FOUND."),
            both("not found", "not here")
        ),
        (1.0, 0.0)
    );
    // A word that occurs twice in one text matches only once.
    assert_eq!(both("a b c d e a b c d e", "a b c d e"), 10.0 / 15.0);
    assert!(
        (cosine(&Words::of("a b c"), &Words::of("c b a d")) - 3.0 / 12_f64.sqrt()).abs() < 1e-12
    );
}

#[test]
fn words_that_mean_the_same_count_as_one() {
    let mut alike = Alike::new(true);
    assert!(!alike.is_empty() && Alike::default().is_empty());
    alike.add_synonyms("Big, large\tHUGE\n\ncar automobile\nhuge vast\nauto car\n");
    let is_same = |a: &str, b: &str| {
        let prints = [a, b].map(|text| Words::like(text, &alike).print());
        prints[0] == prints[1]
    };
    assert!(is_same("A big car in 1999.", "a VAST auto, in 3.14"));
    assert!(is_same("large automobile", "huge car"));
    assert!(!is_same("a big car", "a red car"));
    assert!(!is_same("the 5th", "the 6th"));
    assert!(!is_same("In 1999", "In May"));
    assert_eq!(Words::like("a b", &Alike::default()), Words::of("a b"));
}

#[test]
fn bands_agree_as_often_as_they_should() {
    // Of pairs with Jaccard similarity s, 14 bands of 8 find a share of 1 - (1 - s^8)^14.
    let mut found = [0; 3];
    let texts = 300;
    for (level, changes) in [2_usize, 6, 12].into_iter().enumerate() {
        for seed in 0..texts {
            let text = words(seed, 300);
            let mut other = text.clone();
            for n in 0..changes {
                other[10 + n * 23] = "other".to_owned();
            }
            let a = Words::of(&text.join(" ")).bands(5, 14, 8);
            let b = Words::of(&other.join(" ")).bands(5, 14, 8);
            found[level] += usize::from(a.iter().zip(&b).any(|(a, b)| a == b));
        }
        let kept = 296.0 - 5.0 * changes as f64;
        let jaccard: f64 = kept / (2.0 * 296.0 - kept);
        let expected = 1.0 - (1.0 - jaccard.powi(8)).powi(14);
        let share = found[level] as f64 / texts as f64;
        assert!(
            (share - expected).abs() < 0.1,
            "{changes}: {share} {expected}"
        );
    }
    assert!(Words::of("").bands(5, 14, 8).is_empty());
}

#[test]
fn what_repeats_itself_is_quick() {
    let line = "the lamp is lit every night ".repeat(20_000);
    let words = Words::of(&line);
    let begun = spoor_testing::worked();
    assert_eq!(passages(&words, &words, 5).len(), 1);
    let time = spoor_testing::worked() - begun;
    assert!(time.as_secs() < 20, "{time:?}");
}

proptest! {
    #![proptest_config(spoor_testing::usual!())]

    /// Passages are the same on both sides, long enough, and overlap on neither.
    #[test]
    fn passages_are_exact(
        a in "([a-c]{1,2}[ .,\n]{1,2}){0,40}",
        b in "([a-cA-C]{1,2}[ .,\n]{1,2}){0,40}",
        n in 1_usize..7,
    ) {
        let (first, second) = (Words::of(&a), Words::of(&b));
        let found = passages(&first, &second, n);
        let lower = |text: &str, run: Range<usize>| -> Vec<String> {
            text[run].unicode_words().map(str::to_lowercase).collect()
        };
        let is_short = first.len().min(second.len()) < n;
        let mut used = vec![false; second.len()];
        let mut end = 0;
        for Passage { first: x, second: y } in &found {
            prop_assert!(x.len() == y.len() && (x.len() >= n || is_short));
            prop_assert!(x.start >= end);
            end = x.end;
            for at in y.clone() {
                prop_assert!(!std::mem::replace(&mut used[at], true));
            }
            prop_assert_eq!(lower(&a, first.bytes(x)), lower(&b, second.bytes(y)));
        }
        for measure in [of_both(&first, &second, &found), of_shorter(&first, &second, &found), cosine(&first, &second)] {
            prop_assert!((0.0..=1.0).contains(&measure));
        }
        if !first.is_empty() {
            prop_assert_eq!(of_both(&first, &first, &passages(&first, &first, n)), 1.0);
        }
    }
}

/// Texts of words as frequent as in English.
fn drawn(texts: usize, seed: u64) -> Vec<Vec<String>> {
    let english = crate::language::Language::of_code("en").unwrap();
    let words = crate::topic::neutral::Words::of(english).unwrap();
    let texts = words.draw(texts, 300, seed).into_iter();
    let tokens = |text: Vec<crate::words::Sentence>| {
        let tokens = text
            .iter()
            .flat_map(|s| s.tokens().map(str::to_owned).collect::<Vec<_>>());
        tokens.collect()
    };
    texts.map(tokens).collect()
}

/// Counts how many of 100 planted copies of each kind are found by the usual sketch and bound,
/// and by a wider sketch with `least` at 0.5 of the shorter text; nothing else may be found.
#[test]
fn planted_copies_are_found() {
    const TEXTS: usize = 100;
    let texts = drawn(TEXTS, 1);
    let others = drawn(TEXTS, 2);
    // The changes go through all words, so that they fall anywhere; their share is in percent.
    let changed = |percent: usize| -> Vec<Vec<String>> {
        let text = |(n, text): (usize, &Vec<String>)| {
            let word = |(at, word): (usize, &String)| {
                let draw = mixed((n * 1_000 + at) as u64 ^ 0x5eed) % 100;
                let other = &others[n][at % others[n].len()];
                if draw < percent as u64 {
                    format!("{other}x")
                } else {
                    word.clone()
                }
            };
            text.iter().enumerate().map(word).collect()
        };
        texts.iter().enumerate().map(text).collect()
    };
    let moved: Vec<Vec<String>> = texts
        .iter()
        .map(|text| text.chunks(20).rev().flatten().cloned().collect())
        .collect();
    let halves: Vec<Vec<String>> = texts.iter().map(|text| text[..150].to_vec()).collect();
    let joined: Vec<Vec<String>> = texts
        .iter()
        .zip(&others)
        .map(|(text, other)| [text.as_slice(), other].concat())
        .collect();
    let of = |text: &Vec<String>| -> Sketched {
        let words = Words::of(&text.join(" "));
        let (usual, wide) = (words.bands(5, 28, 4), words.bands(5, 60, 3));
        (words, usual, wide)
    };
    let agree = |a: &[u32], b: &[u32]| a.iter().zip(b).any(|(a, b)| a == b);
    let usual = |a: &Sketched, b: &Sketched| {
        agree(&a.1, &b.1) && of_both(&a.0, &b.0, &passages(&a.0, &b.0, 5)) >= 0.8
    };
    let wide = |a: &Sketched, b: &Sketched| {
        agree(&a.2, &b.2) && of_shorter(&a.0, &b.0, &passages(&a.0, &b.0, 5)) >= 0.5
    };
    let first: Vec<Sketched> = texts.iter().map(of).collect();
    let mut found = Vec::new();
    for (name, copies) in [
        ("5 %", changed(5)),
        ("10 %", changed(10)),
        ("20 %", changed(20)),
        ("40 %", changed(40)),
        ("moved", moved),
        ("half", halves),
        ("joined", joined),
    ] {
        let copies: Vec<Sketched> = copies.iter().map(of).collect();
        let count = |is: &dyn Fn(&Sketched, &Sketched) -> bool| {
            first.iter().zip(&copies).filter(|(a, b)| is(a, b)).count()
        };
        found.push((name, count(&usual), count(&wide)));
        // No text is taken for a copy of the next one.
        let shifted = || first.iter().skip(1).zip(&copies);
        assert!(!shifted().any(|(a, b)| usual(a, b) || wide(a, b)), "{name}");
    }
    assert_eq!(found, PLANTED);
}

/// Found of 100: the kind, by the usual sketch and by the wider one.
const PLANTED: [(&str, usize, usize); 7] = [
    ("5 %", 97, 100),
    ("10 %", 53, 96),
    ("20 %", 0, 34),
    ("40 %", 0, 0),
    ("moved", 100, 100),
    ("half", 0, 100),
    ("joined", 0, 100),
];

/// Words with the usual sketch and a wider one.
type Sketched = (Words, Vec<u32>, Vec<u32>);
