//! Who is asked what, words, and pictures.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::assignment::{AnswerHandling, Assignment, Gold, HOLD, NextQuestion, OpenImage};
use super::context;
use super::votes::{Question, TEXT_CLASSES, Vote};
use crate::config::Config;
use crate::outputs::picture::thumbnail;
use crate::page::ImageContext;
use crate::settings::Annotate;
use spoor_lab::picture::draw;

use Question::{Image, Text};

fn section(rest: &str) -> Annotate {
    let text = format!("[job]\nname = \"a\"\n[annotate]\n{rest}\n");
    Config::parse(&text, "job.toml").unwrap().settings.annotate
}

/// `samples` images called 00, 01, ... and `gold` ones called g0, ..., on topic all.
fn items(samples: usize, gold: usize) -> Vec<OpenImage> {
    let item = |sha256: String, gold| OpenImage { sha256, gold };
    let right = || Gold {
        image: "on topic".to_owned(),
        text: Some("fits".to_owned()),
    };
    let samples = (0..samples).map(|n| item(format!("{n:02}"), None));
    let gold = (0..gold).map(|n| item(format!("g{n}"), Some(right())));
    samples.chain(gold).collect()
}

/// An assignment that writes its own votes.
struct Table {
    assignment: Assignment,
    number: u64,
    now: Instant,
}

impl Table {
    fn new(rest: &str, items: Vec<OpenImage>) -> Self {
        Self {
            assignment: Assignment::new(&section(rest), items, Vec::new()),
            number: 0,
            now: Instant::now(),
        }
    }

    fn next(&mut self, who: &str) -> NextQuestion {
        self.assignment.next(who, self.now)
    }

    fn answer(
        &mut self,
        who: &str,
        item: usize,
        question: Question,
        answer: &str,
    ) -> AnswerHandling {
        let verdict = self.assignment.judge(who, item, question, answer, self.now);
        if verdict == AnswerHandling::Take {
            self.number += 1;
            let image = self.assignment.item(item).unwrap().sha256.clone();
            self.assignment.add(Vote {
                vote: self.number,
                time: String::new(),
                annotator: who.to_owned(),
                url: format!("http://a.test/{image}"),
                image,
                question,
                answer: answer.to_owned(),
                gold: self.assignment.gold(item, question).map(str::to_owned),
            });
        }
        verdict
    }

    /// Answers what comes, until nothing does; returns what was asked, and the end.
    fn all(
        &mut self,
        who: &str,
        image: &str,
        text: &str,
    ) -> (Vec<(String, Question)>, NextQuestion) {
        let mut asked = Vec::new();
        loop {
            match self.next(who) {
                NextQuestion::Ask(item, question) => {
                    let answer = if question == Image { image } else { text };
                    let name = self.assignment.item(item).unwrap().sha256.clone();
                    assert_eq!(
                        self.answer(who, item, question, answer),
                        AnswerHandling::Take
                    );
                    asked.push((name, question));
                }
                end => return (asked, end),
            }
        }
    }

    fn undo(&mut self, who: &str) -> bool {
        let last = self.assignment.last_of(who).map(|v| v.vote);
        if let Some(last) = last {
            self.assignment.take_back(last, self.now);
        }
        last.is_some()
    }
}

#[test]
fn words_are_asked_about_right_after_their_image() {
    let mut table = Table::new("votes = 2", items(2, 0));
    let (asked, end) = table.all("ann", "on topic", "fits");
    let pair = |name: &str| [(name.to_owned(), Image), (name.to_owned(), Text)];
    assert_eq!(asked, [pair("00"), pair("01")].concat());
    assert_eq!(
        (end, table.assignment.percent(Image)),
        (NextQuestion::Done, 50)
    );
    assert_eq!(table.all("bob", "related", "fits").0.len(), 4);
    assert_eq!(table.assignment.percent(Image), 100);
    assert_eq!(table.next("cid"), NextQuestion::Done);
}

#[test]
fn ten_people_do_not_get_the_image_that_lacks_one_vote() {
    let mut table = Table::new("votes = 2", items(6, 0));
    let mut held: BTreeMap<usize, usize> = BTreeMap::new();
    for n in 0..12 {
        match table.next(&format!("{n}")) {
            NextQuestion::Ask(item, Image) => *held.entry(item).or_default() += 1,
            other => panic!("{n}: {other:?}"),
        }
    }
    assert_eq!(held, (0..6).map(|item| (item, 2)).collect());
    assert_eq!(table.next("late"), NextQuestion::Wait);
    // Asking again changes nothing.
    assert_eq!(table.next("0"), NextQuestion::Ask(0, Image));
    // The question of an annotator who went away becomes free again.
    table.now += HOLD;
    assert_eq!(table.next("late"), NextQuestion::Ask(0, Image));
    assert_eq!(table.next("too late"), NextQuestion::Ask(0, Image));
    assert_eq!(
        table.answer("0", 0, Image, "related"),
        AnswerHandling::Refuse
    );
    assert_eq!(
        table.answer("late", 0, Image, "related"),
        AnswerHandling::Take
    );
}

#[test]
fn an_answer_that_comes_twice_counts_once() {
    let mut table = Table::new("votes = 2", items(1, 0));
    assert_eq!(
        table.answer("ann", 0, Image, "related"),
        AnswerHandling::Take
    );
    assert_eq!(
        table.answer("ann", 0, Image, "related"),
        AnswerHandling::Known
    );
    assert_eq!(
        table.answer("ann", 0, Image, "on topic"),
        AnswerHandling::Refuse
    );
}

#[test]
fn an_undone_question_is_only_asked_of_the_same_annotator_again() {
    let mut table = Table::new("votes = 1", items(2, 0));
    table.all("ann", "on topic", "fits");
    assert!(table.undo("ann"));
    assert_eq!(table.next("bob"), NextQuestion::Wait);
    assert_eq!(table.next("ann"), NextQuestion::Ask(1, Text));
    assert!(table.undo("ann"));
    assert_eq!(table.next("ann"), NextQuestion::Ask(1, Image));
    assert_eq!(table.assignment.own("ann", Image), 1);
    assert!(table.undo("ann") && table.undo("ann"));
    assert!(!table.undo("ann") && !table.undo("bob"));
    assert_eq!(table.next("ann"), NextQuestion::Ask(0, Image));
}

#[test]
fn the_second_phase_is_about_what_a_majority_calls_on_topic() {
    let mut table = Table::new("two_phase = true", items(3, 0));
    let answers = [
        ["on topic", "on topic", "related"],
        ["on topic", "related", "related"],
        ["related", "on topic", "related"],
    ];
    for (who, answers) in ["ann", "bob", "cid"].iter().zip(answers) {
        for (item, answer) in answers.iter().enumerate() {
            assert_eq!(table.next(who), NextQuestion::Ask(item, Image));
            assert_eq!(table.answer(who, item, Image, answer), AnswerHandling::Take);
        }
        if *who != "cid" {
            assert_eq!(table.next(who), NextQuestion::Wait, "{who}");
        }
    }
    // Cid called the first image related, but is still asked about its words.
    for who in ["cid", "ann", "dan"] {
        let (asked, end) = table.all(who, "related", "irrelevant");
        let expected = [("00".to_owned(), Text), ("01".to_owned(), Text)];
        assert_eq!(
            (asked, end),
            (expected.to_vec(), NextQuestion::Done),
            "{who}"
        );
    }
    assert_eq!(table.next("bob"), NextQuestion::Done);
    assert_eq!(
        (
            table.assignment.percent(Image),
            table.assignment.percent(Text)
        ),
        (100, 100)
    );
}

#[test]
fn gold_is_asked_once_in_so_many_and_at_no_regular_place() {
    let rest = "votes = 9\ngold_every = 5\ngold = \"g.tsv\"";
    let mut places = BTreeSet::new();
    let mut orders = BTreeSet::new();
    for who in ["ann", "bob", "cid", "dan", "eve"] {
        let mut table = Table::new(rest, items(40, 6));
        let (asked, end) = table.all(who, "on topic", "fits");
        assert_eq!(end, NextQuestion::Done);
        let images = asked.iter().filter(|(_, q)| *q == Image);
        let images: Vec<&str> = images.map(|(name, _)| name.as_str()).collect();
        assert_eq!(images.len(), 46);
        let gold: Vec<usize> = (0..46).filter(|n| images[*n].starts_with('g')).collect();
        let blocks: Vec<usize> = gold.iter().map(|n| n / 5).collect();
        assert_eq!(blocks, [0, 1, 2, 3, 4, 5], "{who}: {gold:?}");
        places.insert(gold.clone());
        orders.insert(
            gold.iter()
                .map(|n| images[*n].to_owned())
                .collect::<Vec<_>>(),
        );
        // Their words are asked about like all others.
        assert_eq!(asked.len(), 92);
        assert_eq!(table.assignment.own(who, Image), 46);
    }
    assert!(places.len() > 3 && orders.len() > 3, "{places:?}");
}

#[test]
fn who_misses_gold_gets_no_more_and_takes_nothing_back() {
    let rest = "gold_every = 2\nqualify = 0.4\nqualify_after = 4\ngold = \"g.tsv\"";
    let mut table = Table::new(rest, items(40, 6));
    let (asked, end) = table.all("ann", "off topic", "fits");
    assert_eq!(
        end,
        NextQuestion::Done,
        "half of them, the words, were right"
    );
    assert_eq!(asked.len(), 92);
    let (asked, end) = table.all("bob", "off topic", "misleading");
    assert_eq!(end, NextQuestion::Retired);
    assert!(asked.len() < 12, "{asked:?}");
    assert_eq!(asked.iter().filter(|(n, _)| n.starts_with('g')).count(), 4);
    assert!(!table.undo("bob"));
    assert_eq!(
        table.answer("bob", 39, Image, "on topic"),
        AnswerHandling::Refuse
    );
}

#[test]
fn a_missing_image_is_not_asked_about() {
    let mut table = Table::new("", items(2, 0));
    assert_eq!(table.next("ann"), NextQuestion::Ask(0, Image));
    table.assignment.lose(0);
    assert_eq!(table.next("ann"), NextQuestion::Ask(1, Image));
    assert_eq!(
        table.answer("ann", 0, Image, "related"),
        AnswerHandling::Refuse
    );
    table.assignment.lose(1);
    assert_eq!(table.next("ann"), NextQuestion::Done);
}

proptest! {
    #![proptest_config(spoor_testing::cases!(128))]

    /// In any order of actions by any annotators, no question gets more votes than it
    /// needs, and when all have come back in the end, each has exactly that many.
    #[test]
    fn every_question_gets_its_votes_and_no_more(
        steps in prop::collection::vec((0_usize..6, 0_u8..8, 0_usize..4), 0..150),
        two_phase in any::<bool>(),
        votes in 1_usize..4,
        gold in 0_usize..3,
    ) {
        let rest = format!(
            "two_phase = {two_phase}\nvotes = {votes}\ngold_every = 3\nqualify_after = 1000"
        );
        let mut table = Table::new(&rest, items(5, gold));
        let people = ["a", "b", "c", "d", "e", "f"];
        let mut screens: BTreeMap<&str, (usize, Question)> = BTreeMap::new();
        let classes = section(&rest).classes;
        let counts = |assignment: &Assignment, item, question| {
            people.iter().filter(|p| assignment.answer_of(p, item, question).is_some()).count()
        };
        for (who, action, class) in steps {
            let who = people[who];
            match (action, screens.get(who).copied()) {
                (0, _) => {
                    screens.remove(who);
                    table.undo(who);
                }
                (1, _) => table.now += HOLD / 2,
                (2..=5, Some((item, question))) => {
                    let answer = match question {
                        Image => classes[class].as_str(),
                        Text => TEXT_CLASSES[class],
                    };
                    table.answer(who, item, question, answer);
                    screens.remove(who);
                }
                _ => if let NextQuestion::Ask(item, question) = table.next(who) {
                    prop_assert!(table.assignment.answer_of(who, item, question).is_none());
                    screens.insert(who, (item, question));
                },
            }
            for item in 0..5 {
                for question in [Image, Text] {
                    prop_assert!(counts(&table.assignment, item, question) <= votes);
                }
            }
        }
        table.now += HOLD + Duration::from_secs(1);
        // Those who did part of it come back, and one more for each vote.
        for round in 0..2 {
            for who in people {
                let (_, end) = table.all(who, "on topic", "fits");
                prop_assert!(round == 0 || end == NextQuestion::Done, "{who}: {end:?}");
            }
        }
        for item in 0..5 {
            prop_assert_eq!(counts(&table.assignment, item, Image), votes);
            let texts = counts(&table.assignment, item, Text);
            let on_topic = |who: &&&str| {
                table.assignment.answer_of(who, item, Image) == Some("on topic")
            };
            // Undoing a vote on the image may leave words that some have judged but that are no
            // longer asked about.
            let asked = !two_phase || 2 * people.iter().filter(on_topic).count() > votes;
            prop_assert!(texts == votes || !asked, "{}", texts);
        }
    }
}

fn context(rest: &str) -> ImageContext {
    let text = r#"{"page":"http://a.test/","page_title":"The page","page_language":null,
        "document_perplexity":1.0,"declared_width":null,"declared_height":null,
        "alt":null,"title":null,"file_name":null,"rank":1.0,"found":[],
        "scores":{"alt":null,"title":null,"file_name":null,"parents":[],"siblings":[]},
        "parents":[],"siblings":[]}"#;
    let mut value: serde_json::Value = serde_json::from_str(text).unwrap();
    let more: serde_json::Value = serde_json::from_str(rest).unwrap();
    for (key, new) in more.as_object().unwrap() {
        value[key] = new.clone();
    }
    serde_json::from_value(value).unwrap()
}

#[test]
fn the_words_to_judge_are_the_caption_and_the_alternative_text() {
    let scores = r#"{"alt":{"perplexity":1.0,"keyword":0.0,"weighted":1.0},"title":null,
        "file_name":null,"parents":[],"siblings":[]}"#;
    let shown = |rest: &str| -> Vec<(String, bool)> {
        let words = context::of(&context(rest)).into_iter();
        words.map(|w| (w.text, w.judged)).collect()
    };
    let pair = |text: &str, judged| (text.to_owned(), judged);
    let all = format!(
        r#"{{"alt":" A lamp ","parents":["A lamp","on","the rock"],"siblings":["next"],"scores":{scores}}}"#
    );
    let expected = [
        ("A lamp", true),
        ("on", false),
        ("next", false),
        ("The page", false),
    ];
    assert_eq!(shown(&all), expected.map(|(t, j)| pair(t, j)));
    // A caption comes before text that is merely nearby.
    let captioned = format!(
        r#"{{"alt":"A lamp","figcaption":"At Ushant","parents":["near","{}"],"scores":{scores}}}"#,
        "far ".repeat(300)
    );
    let found = shown(&captioned);
    assert_eq!(
        found[..3],
        [
            pair("At Ushant", true),
            pair("A lamp", true),
            pair("near", false)
        ]
    );
    assert!(found[3].0.starts_with("far far") && !found[3].1);
    // An article around the image is no caption.
    let article = "word ".repeat(100);
    let inside = |rest: &str| shown(&format!(r#"{{"parents":["{article}"]{rest}}}"#));
    let beside_alt = inside(&format!(r#","alt":"A lamp","scores":{scores}"#));
    assert_eq!(beside_alt[0], pair("A lamp", true));
    assert!(beside_alt[1].0.starts_with("word word") && !beside_alt[1].1);
    assert_eq!(inside("")[0], pair("The page", true));
    // A name of a file is no alternative text.
    let named = r#"{"alt":"img 12","alt_kind":"file_name","title":"A rock"}"#;
    let expected = [("A rock", true), ("The page", false), ("img 12", false)];
    assert_eq!(shown(named), expected.map(|(t, j)| pair(t, j)));
    let labels = |rest: &str| -> Vec<&str> {
        let words = context::of(&context(rest));
        words.iter().map(|w| w.label).collect()
    };
    let context_of_kind =
        |kind: &str| format!(r#"{{"alt":"x","alt_kind":"{kind}","page_title":null}}"#);
    for (kind, label) in [
        ("file_name", "Alternative text, a file name"),
        ("boilerplate", "Alternative text, boilerplate"),
    ] {
        assert_eq!(labels(&context_of_kind(kind)), [label]);
    }
    let long = shown(&format!(r#"{{"title":"{}"}}"#, "ä".repeat(5000)));
    assert_eq!(long[0].0.chars().count(), 701);
    assert_eq!(shown(r#"{"page_title":" "}"#), []);
}

#[test]
fn pictures_are_encoded_anew_and_bounded() {
    let drawn = draw("http://a.test/big.png", 3000, 1500).unwrap();
    let small = thumbnail(&drawn.bytes, 1280).unwrap();
    assert_eq!(
        image::guess_format(&small).unwrap(),
        image::ImageFormat::Jpeg
    );
    let small = image::load_from_memory(&small).unwrap();
    assert_eq!((small.width(), small.height()), (1280, 640));
    // No byte that follows the picture in its file comes with it.
    let drawn = draw("http://a.test/small.gif", 120, 100).unwrap();
    let hostile = [drawn.bytes.as_slice(), b"<script>alert(1)</script>"].concat();
    let same = thumbnail(&hostile, 1280).unwrap();
    assert!(!same.windows(8).any(|w| w == b"<script>"));
    assert_eq!(image::load_from_memory(&same).unwrap().width(), 120);
    for bytes in [
        &b""[..],
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        &drawn.bytes[..9],
    ] {
        assert_eq!(thumbnail(bytes, 1280), None);
    }
    // Transparent areas become neither black nor white.
    let clear = image::RgbaImage::from_pixel(100, 100, image::Rgba([0, 0, 0, 0]));
    let mut png = std::io::Cursor::new(Vec::new());
    clear.write_to(&mut png, image::ImageFormat::Png).unwrap();
    let shown = image::load_from_memory(&thumbnail(png.get_ref(), 1280).unwrap()).unwrap();
    assert!((220..=228).contains(&shown.to_luma8().get_pixel(50, 50).0[0]));
}
