//! The figures against a statistics package, published examples, and invariants.

use proptest::prelude::*;
use serde_json::Value;

use super::kappa::{cohen, fleiss, wilson};
use super::*;
use crate::config::Config;

fn vote(vote: u64, question: Question, (image, annotator, answer): (&str, &str, &str)) -> Vote {
    Vote {
        vote,
        time: String::new(),
        annotator: annotator.to_owned(),
        image: image.to_owned(),
        url: String::new(),
        question,
        answer: answer.to_owned(),
        gold: None,
    }
}

fn votes(given: &[(&str, &str, &str)]) -> Vec<Vote> {
    let numbered = (1..).zip(given);
    let vote = |(n, given): (u64, &(&str, &str, &str))| vote(n, Question::Image, *given);
    numbered.map(vote).collect()
}

fn config() -> Config {
    Config::parse("[job]\nname = \"t\"", "t.toml").unwrap()
}

fn of(given: Vec<Vote>, merges: &[&str]) -> Agreement {
    let merges: Vec<Merge> = merges.iter().map(|m| m.parse().unwrap()).collect();
    of_votes(given, &config(), &merges).unwrap()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

/// `tests/fixtures/agreement/make.py` says how the values were computed.
#[test]
fn a_statistics_package_says_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/agreement");
    let text = std::fs::read_to_string(folder.join("votes.tsv")).unwrap();
    let given: Vec<(&str, &str, &str)> = text
        .lines()
        .skip(1)
        .map(|line| {
            let mut cells = line.split('\t');
            let mut next = || cells.next().unwrap();
            (next(), next(), next())
        })
        .collect();
    let values = std::fs::read(folder.join("values.json")).unwrap();
    let values: Value = serde_json::from_slice(&values).unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    let figures = of(votes(&given), &["on topic+related=near"]);
    let [image] = &figures.questions[..] else {
        panic!("one question");
    };
    let on_topic = &values["on_topic"];
    assert_eq!(image.on_topic, Some(number(&on_topic["majority"]) as usize));
    let (low, high) = wilson(image.on_topic.unwrap(), image.items).unwrap();
    assert!(near(low, number(&on_topic["low"])) && near(high, number(&on_topic["high"])));
    let expected = values["variants"].as_array().unwrap();
    assert_eq!((image.variants.len(), expected.len()), (3, 3));
    for (variant, expected) in image.variants.iter().zip(expected) {
        assert_eq!(variant.name, expected["classes"].as_str().unwrap());
        let Pairs {
            pairs,
            items,
            observed,
            mean,
            weighted,
            undefined,
        } = variant.cohen;
        let counts = (pairs as f64, items as f64, undefined);
        assert_eq!(
            counts,
            (number(&expected["pairs"]), number(&expected["common"]), 0)
        );
        let fleiss = variant.fleiss.as_ref().unwrap();
        assert_eq!(fleiss.kappa.items as f64, number(&expected["fleiss_items"]));
        assert_eq!((fleiss.votes, fleiss.left_out), (3, 4));
        for (name, value) in [
            ("observed", observed),
            ("mean", mean),
            ("weighted", weighted),
            ("fleiss", fleiss.kappa.value()),
        ] {
            let (value, expected) = (value.unwrap(), number(&expected[name]));
            assert!(
                near(value, expected),
                "{}: {name} {value} {expected}",
                variant.name
            );
        }
    }
}

/// Two worked examples: ten subjects, fourteen raters and five classes, the one in
/// common use for the method (kappa 0.210); and that of Fleiss 1971 himself, table
/// 1, 30 patients, six psychiatrists and five diagnoses (kappa 0.430).
#[test]
fn the_published_examples_of_fleiss() {
    let common = "000014 002642 000356 003920 022811 077000 032630 025322 065210 002237";
    // The first row has a count of two digits.
    let rows = |text: &str| -> Vec<Vec<u64>> {
        let row = |row: &str| {
            let digits = row
                .chars()
                .rev()
                .take(5)
                .map(|c| u64::from(c.to_digit(10).unwrap()));
            digits.collect()
        };
        text.split(' ').map(row).collect()
    };
    let mut common = rows(common);
    common[0] = vec![14, 0, 0, 0, 0];
    let kappa = fleiss(&common).unwrap();
    assert!((kappa.observed - 0.378).abs() < 5e-4, "{kappa:?}");
    assert!((kappa.expected - 0.213).abs() < 5e-4, "{kappa:?}");
    assert!((kappa.value().unwrap() - 0.210).abs() < 5e-4, "{kappa:?}");
    let diagnoses = "00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 \
                     10050 11040 03300 10050 02031 00501 30012 51000 02040 10203 \
                     00006 01050 02013 20040 10041 05010 40002 02040 10500 00006";
    let kappa = fleiss(&rows(diagnoses)).unwrap();
    assert!((kappa.value().unwrap() - 0.430).abs() < 5e-4, "{kappa:?}");
}

/// The textbook case of 50 grant proposals: 20 yes by both, 15 no by both, 5 and 10
/// apart; observed 0.7, by chance 0.5, kappa 0.4.
#[test]
fn a_textbook_case_of_cohen() {
    let cells = [((0, 0), 20), ((0, 1), 5), ((1, 0), 10), ((1, 1), 15)];
    let pairs: Vec<(usize, usize)> = cells
        .iter()
        .flat_map(|(pair, n)| std::iter::repeat_n(*pair, *n))
        .collect();
    let kappa = cohen(&pairs).unwrap();
    assert!(near(kappa.observed, 0.7) && near(kappa.expected, 0.5));
    assert!(near(kappa.value().unwrap(), 0.4));
}

#[test]
fn what_is_undefined_is_said_to_be_so() {
    assert_eq!(cohen(&[]), None);
    assert_eq!(fleiss(&[]), None);
    assert_eq!(fleiss(&[vec![1, 0]]), None);
    assert_eq!(fleiss(&[vec![2, 0], vec![1, 0]]), None);
    assert_eq!(wilson(0, 0), None);
    assert_eq!(cohen(&[(0, 0), (0, 0)]).unwrap().value(), None);
    let all = votes(&[
        ("1", "ann", "related"),
        ("1", "ben", "related"),
        ("2", "ann", "related"),
        ("2", "ben", "related"),
        ("3", "cyd|*x*", "related"),
    ]);
    let figures = of(all, &[]);
    let variant = &figures.questions[0].variants[0];
    assert_eq!((variant.cohen.pairs, variant.cohen.undefined), (1, 1));
    assert_eq!(
        (variant.cohen.mean, variant.cohen.observed),
        (None, Some(1.0))
    );
    let (markdown, tsv) = (figures.to_markdown(), figures.to_tsv());
    for text in [&markdown, &tsv] {
        assert!(
            text.contains("undefined") && !text.contains("NaN"),
            "{text}"
        );
    }
    assert!(markdown.contains("cyd\\|\\*x\\*"), "{markdown}");
    assert!(
        markdown.contains("On topic by majority: 0 of 3 (0.0 %"),
        "{markdown}"
    );
    assert!(
        tsv.lines().all(|line| line.split('\t').count() == 6),
        "{tsv}"
    );
    let one = of(votes(&[("1", "ann", "related")]), &[]);
    assert!(one.to_markdown().contains("no image has two votes"));
}

#[test]
fn counts_by_majority_and_unanimous() {
    let given = [
        ("1", "ann", "on topic"),
        ("1", "ben", "on topic"),
        ("1", "cyd", "on topic"),
        ("2", "ann", "on topic"),
        ("2", "ben", "related"),
        ("2", "cyd", "on topic"),
        ("3", "ann", "on topic"),
        ("3", "ben", "related"),
        ("3", "cyd", "off topic"),
        ("4", "ann", "related"),
        ("5", "ann", "old class"),
        ("5", "ben", "related"),
    ];
    let figures = of(
        votes(&given),
        &["related+off topic=beside", "describes+fits=good"],
    );
    let [image] = &figures.questions[..] else {
        panic!("the question about words has no figures");
    };
    assert_eq!((image.items, image.votes, image.on_topic), (5, 12, Some(2)));
    assert_eq!(image.items_by_votes, [(1, 1), (2, 1), (3, 3)].into());
    let of = |variant: &Variant| -> Vec<(String, usize, usize, usize)> {
        let classes = variant.classes.iter();
        classes
            .map(|c| (c.name.clone(), c.votes, c.majority, c.unanimous))
            .collect()
    };
    let row =
        |name: &str, votes, majority, unanimous| (name.to_owned(), votes, majority, unanimous);
    let plain = [
        row("on topic", 6, 2, 1),
        row("related", 4, 1, 0),
        row("off topic", 1, 0, 0),
        row("no picture", 0, 0, 0),
        row("old class", 1, 0, 0),
    ];
    assert_eq!(of(&image.variants[0]), plain);
    assert_eq!(image.variants[0].without_majority, 2);
    assert_eq!(of(&image.variants[2])[1], row("beside", 5, 2, 0));
    assert_eq!(image.variants[2].name, "related + off topic = beside");
    for wrong in ["a", "=x", "a+=x", "a="] {
        assert!(wrong.parse::<Merge>().is_err(), "{wrong}");
    }
    for wrong in ["related+cats=x", "related+related=x"] {
        let merge = wrong.parse().unwrap();
        let error = of_votes(votes(&given), &config(), &[merge]).unwrap_err();
        assert!(error.to_string().contains("no picture"), "{error}");
    }
}

#[test]
fn gold_questions_and_who_fails_them_are_left_out_and_named() {
    let mut all = votes(&[("1", "ann", "related"), ("1", "bad", "on topic")]);
    for n in 0..5 {
        for (who, answer) in [("ann", "related"), ("bad", "off topic")] {
            let mut gold = vote(10 + n, Question::Image, ("gold", who, answer));
            gold.image.push_str(&n.to_string());
            gold.gold = Some("related".to_owned());
            all.push(gold);
        }
    }
    let mut words = vote(90, Question::Text, ("1", "ann", "fits"));
    words.question = Question::Text;
    all.push(words);
    let figures = of(all, &["describes+fits=good"]);
    assert_eq!(
        (&*figures.annotators, &*figures.left_out),
        (&["ann".to_owned()][..], &["bad".to_owned()][..])
    );
    assert_eq!(figures.votes_left_out, 11);
    assert_eq!(figures.questions[0].items, 1);
    let text = &figures.questions[1];
    assert_eq!(
        (text.question, text.on_topic, text.variants.len()),
        (Question::Text, None, 2)
    );
    let said = figures.to_markdown();
    assert!(
        said.contains("11 votes, on gold questions and by annotators who failed them (bad)"),
        "{said}"
    );
}

/// Votes of a few annotators on a few images, with the numbers of classes.
fn ballots() -> impl Strategy<Value = Vec<(usize, usize, usize)>> {
    prop::collection::vec((0_usize..12, 0_usize..4, 0_usize..4), 1..60)
}

fn classes() -> [&'static str; 4] {
    ["on topic", "related", "off topic", "no picture"]
}

fn figures_of(ballots: &[(usize, usize, usize)], rename: [usize; 4], who: [usize; 4]) -> Figures {
    let names: Vec<(String, String)> = ballots
        .iter()
        .map(|(image, a, _)| (format!("image{image}"), format!("a{}", who[*a])))
        .collect();
    let rows = names.iter().zip(ballots);
    let rows: Vec<(&str, &str, &str)> = rows
        .map(|((image, a), (_, _, c))| (&**image, &**a, classes()[rename[*c]]))
        .collect();
    of(votes(&rows), &[]).questions.remove(0)
}

fn kappas(variant: &Variant) -> [Option<f64>; 5] {
    let cohen = &variant.cohen;
    let fleiss = variant.fleiss.as_ref();
    [
        cohen.mean,
        cohen.weighted,
        cohen.observed,
        fleiss.and_then(|f| f.kappa.value()),
        fleiss.map(|f| f.kappa.observed),
    ]
}

fn same(a: &Variant, b: &Variant) -> bool {
    let mut pairs = kappas(a).into_iter().zip(kappas(b));
    let close = |(a, b): (Option<f64>, Option<f64>)| match (a, b) {
        (Some(a), Some(b)) => near(a, b),
        (a, b) => a == b,
    };
    pairs.all(close) && a.without_majority == b.without_majority
}

proptest! {
    #![proptest_config(spoor_testing::usual!())]

    #[test]
    fn kappas_have_their_bounds(ballots in ballots()) {
        let figures = figures_of(&ballots, [0, 1, 2, 3], [0, 1, 2, 3]);
        for variant in &figures.variants {
            for (n, value) in kappas(variant).into_iter().enumerate() {
                let low = if n % 5 == 2 || n == 4 { 0.0 } else { -1.0 };
                prop_assert!(value.is_none_or(|v| (low - 1e-9..=1.0 + 1e-9).contains(&v)), "{n} {value:?}");
            }
            let majority: usize = variant.classes.iter().map(|c| c.majority).sum();
            prop_assert_eq!(majority + variant.without_majority, figures.items);
            prop_assert!(variant.classes.iter().all(|c| c.unanimous <= c.majority));
        }
        let (low, high) = wilson(figures.on_topic.unwrap(), figures.items).unwrap();
        let share = figures.on_topic.unwrap() as f64 / figures.items as f64;
        prop_assert!(0.0 <= low && low <= share + 1e-12 && share <= high + 1e-12 && high <= 1.0);
    }

    #[test]
    fn names_of_classes_and_annotators_and_the_order_say_nothing(
        ballots in ballots(),
        rename in Just([0_usize, 1, 2, 3]).prop_shuffle(),
        who in Just([0_usize, 1, 2, 3]).prop_shuffle(),
        seed in any::<u64>(),
    ) {
        // Each annotator judges an image once, so no vote replaces another.
        let mut ballots = ballots;
        ballots.sort();
        ballots.dedup_by_key(|(image, who, _)| (*image, *who));
        let plain = figures_of(&ballots, [0, 1, 2, 3], [0, 1, 2, 3]);
        let mut mixed = ballots.clone();
        mixed.sort_by_key(|(i, a, _)| (*i as u64 * 31 + *a as u64).wrapping_mul(seed | 1));
        let others = figures_of(&mixed, rename, who);
        prop_assert!(same(&plain.variants[0], &others.variants[0]));
        let ordered = figures_of(&mixed, [0, 1, 2, 3], [0, 1, 2, 3]);
        prop_assert_eq!(&plain, &ordered);
    }

    #[test]
    fn kappa_of_two_is_symmetric(pairs in prop::collection::vec((0_usize..4, 0_usize..4), 1..40)) {
        let turned: Vec<(usize, usize)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
        prop_assert_eq!(cohen(&pairs), cohen(&turned));
    }
}
