use proptest::prelude::*;

use super::*;

/// Words that no other text has, but for a seed that is the same.
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
    // Moved sentences stay passages, and a half is whole for the shorter one.
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
    // A word that is said twice on one side is the same once.
    assert_eq!(both("a b c d e a b c d e", "a b c d e"), 10.0 / 15.0);
    assert!(
        (cosine(&Words::of("a b c"), &Words::of("c b a d")) - 3.0 / 12_f64.sqrt()).abs() < 1e-12
    );
}

#[test]
fn bands_agree_as_often_as_they_should() {
    // Of pairs with the Jaccard similarity s, 14 bands of 8 find 1 - (1 - s^8)^14.
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
    let begun = crate::tests::worked();
    assert_eq!(passages(&words, &words, 5).len(), 1);
    let time = crate::tests::worked() - begun;
    assert!(time.as_secs() < 20, "{time:?}");
}

proptest! {
    #![proptest_config(crate::tests::usual())]

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
