use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

const LIST: &str = "\
name\tclasses\tpopularity\taliases\tgender\tid
United States\tcountry;state\t300\tUSA;U.S.;US;America;United  States of America
New York City\tcity\t250\tNew York;NYC;Big Apple
New York\tstate\t200\tNew York State
Times Square\tplace\t60\tthe Square
New York Times\tnewspaper\t90\tThe New York Times
Marie Curie\thuman;physicist\t180\tMadame Curie;Curie\tfemale
Pierre Curie\thuman\t120\tCurie\tmale
Apple\tcompany\t220\tApple Inc.
Côte d'Ivoire\tcountry\t100\tIvory Coast
京都\tcity\t90\tKyoto
";

fn listed(list: &str) -> (Builder, Lists) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list.tsv");
    std::fs::write(&path, list).unwrap();
    let (mut builder, mut lists) = (Builder::new(false), Lists::default());
    read(&path, &[], &mut builder, &mut lists).unwrap();
    for problem in &mut lists.problems {
        *problem = problem.rsplit('/').next().unwrap().to_owned();
    }
    (builder, lists)
}

fn finder() -> Finder {
    let (builder, lists) = listed(LIST);
    assert_eq!(lists, Lists::default());
    Finder::new(Arc::new(builder.index().unwrap()), true)
}

fn text(text: &str) -> Text<'_> {
    Text {
        text,
        language: Some("en"),
        ..Text::default()
    }
}

/// The mentions: text, place and entity.
fn found(finder: &Finder, given: Text<'_>) -> Vec<String> {
    let all = finder.find(given).into_iter().map(|mention| {
        let field = match mention.field {
            Field::Title => given.title.unwrap(),
            Field::Text => given.text,
        };
        let (from, to) = (mention.from as usize, mention.to as usize);
        let there: String = field.chars().skip(from).take(to - from).collect();
        assert_eq!(there, mention.surface);
        format!("{}={}", mention.surface, mention.entity)
    });
    all.collect()
}

#[test]
fn the_longest_alias_counts_and_of_several_entities_the_most_popular() {
    let finder = finder();
    for (given, expected) in [
        (
            "The United States of America.",
            &["United States of America=United States"][..],
        ),
        ("In New York we met.", &["New York=New York City"]),
        ("New York State is large", &["New York State=New York"]),
        // Two overlap, and the longer one counts.
        ("New York Times Square", &["New York Times=New York Times"]),
        (
            "the Square of Apple Inc., NYC",
            &[
                "the Square=Times Square",
                "Apple Inc.=Apple",
                "NYC=New York City",
            ],
        ),
        ("Curie's work", &["Curie=Marie Curie"]),
        ("US-based, not us; the BUS and USAGE", &["US=United States"]),
        ("U.S. law", &["U.S.=United States"]),
        ("apple, Apples, pineApple", &[]),
        (
            "Côte d\u{2019}Ivoire and Ivory\u{a0}  Coast",
            &[
                "Côte d\u{2019}Ivoire=Côte d'Ivoire",
                "Ivory\u{a0}  Coast=Côte d'Ivoire",
            ],
        ),
        ("New\nYork", &[]),
        ("昨日京都へ行った", &["京都=京都"]),
        ("Ame\u{ad}rica", &["Ame\u{ad}rica=United States"]),
        ("", &[]),
    ] {
        assert_eq!(found(&finder, text(given)), expected, "{given}");
    }
}

#[test]
fn of_two_that_overlap_the_longer_one_counts() {
    let (builder, _) = listed("New York\t\t9\nYork Minster\t\t1\n");
    let finder = Finder::new(Arc::new(builder.index().unwrap()), true);
    assert_eq!(
        found(&finder, text("New York Minster")),
        ["York Minster=York Minster"]
    );
}

#[test]
fn places_are_numbered() {
    let finder = finder();
    let title = Some("Madame Curie");
    let given = Text {
        title,
        ..text("Pierre Curie died. He was 46.\n\n\n\n... --\n\nÄ. In America\nit was NYC! USA.")
    };
    let all: Vec<_> = finder
        .find(given)
        .into_iter()
        .map(|m| (m.field, m.from, m.to, m.sentence, m.paragraph, m.pronoun))
        .collect();
    assert_eq!(
        all,
        [
            (Field::Title, 0, 12, 0, 0, false),
            (Field::Text, 0, 12, 0, 0, false),
            (Field::Text, 19, 21, 1, 0, true),
            (Field::Text, 47, 54, 3, 2, false),
            (Field::Text, 62, 65, 4, 2, false),
            (Field::Text, 67, 70, 5, 2, false),
        ]
    );
    let first = &finder.find(given)[0];
    assert_eq!(first.classes, ["human", "physicist"]);
}

#[test]
fn a_pronoun_means_the_last_entity_of_its_gender() {
    let finder = finder();
    let of = |given| found(&finder, text(given));
    assert_eq!(
        of("Marie Curie met Pierre Curie in America. She and he married; her work."),
        [
            "Marie Curie=Marie Curie",
            "Pierre Curie=Pierre Curie",
            "America=United States",
            "She=Marie Curie",
            "he=Pierre Curie",
            "her=Marie Curie"
        ]
    );
    // No person was mentioned yet; too far away; another language.
    assert_eq!(of("She left. America."), ["America=United States"]);
    let far = "Madame Curie.\n\nOne.\n\nTwo. She left.";
    assert_eq!(of(far), ["Madame Curie=Marie Curie"]);
    let near = "Madame Curie.\n\nOne.\n\n";
    assert_eq!(of(near).len(), 1);
    let german = Text {
        language: Some("de"),
        ..text("Pierre Curie kam. Er blieb, he.")
    };
    assert_eq!(
        found(&finder, german),
        ["Pierre Curie=Pierre Curie", "Er=Pierre Curie"]
    );
    let none = Finder::new(Arc::new(listed(LIST).0.index().unwrap()), false);
    assert_eq!(
        found(&none, text("Madame Curie. She")),
        ["Madame Curie=Marie Curie"]
    );
}

#[test]
fn with_nouns_a_match_needs_one_or_a_capital_within_a_sentence() {
    let (builder, _) = listed("Apple\t\t1\napple tree\t\t1\ntree\t\t1\nturn\t\t1\n");
    let finder = Finder::new(Arc::new(builder.index().unwrap()), true);
    let asked = std::cell::RefCell::new(Vec::new());
    // The words "tree" are the only nouns.
    let nouns = |sentence: &str| {
        asked.borrow_mut().push(sentence.to_owned());
        let at = sentence
            .find("tree")
            .map(|byte| sentence[..byte].chars().count() as u32);
        Some(at.map(|at| (at, at + 4)).into_iter().collect())
    };
    let given = Text {
        nouns: Some(&nouns),
        ..text("Apple fell by the tree. They turn to Apple.\n\n\u{ad}An apple tree. Turn, turn!")
    };
    assert_eq!(
        found(&finder, given),
        ["tree=tree", "Apple=Apple", "apple tree=apple tree"]
    );
    // Each sentence is tagged once, and only if needed.
    assert_eq!(
        *asked.borrow(),
        [
            "Apple fell by the tree. ",
            "They turn to Apple.",
            "\u{ad}An apple tree. ",
            "Turn, turn!"
        ]
    );
}

#[test]
fn single_words_of_longer_names_may_be_left_out() {
    let finder = finder().whole_names(true);
    for (given, expected) in [
        (
            "Apple Records, an Apple Store. We saw Apple. The Apple fell.",
            &["Apple=Apple", "Apple=Apple"][..],
        ),
        (
            "We met Madame Curie and Irène Curie.",
            &["Madame Curie=Marie Curie"],
        ),
        ("In Paris, Curie said", &["Curie=Marie Curie"]),
        (
            "a Big\u{a0}Apple pie and USA-Curie",
            &[
                "Big\u{a0}Apple=New York City",
                "USA=United States",
                "Curie=Marie Curie",
            ],
        ),
    ] {
        assert_eq!(found(&finder, text(given)), expected, "{given}");
    }
}

#[test]
fn bad_lines_are_told_and_the_rest_is_read() {
    let list = "\
A City\ttown\t5\tB;;A City;7;x;lower case
\t\t1\t
C City\ttown\tmany
C City\ttown\t2\t\tqueer
D City\ta\t1\tb\tmale\tD1\tmore
A City\ttown\t1

E City
E City\t\t1\t\t\tE2
";
    let (builder, lists) = listed(list);
    assert_eq!(
        lists.problems,
        [
            "list.tsv, line 2: has no name in its first column",
            "list.tsv, line 3: `many` in the third column is not a popularity; give a whole number",
            "list.tsv, line 4: `queer` in the fifth column is not a gender; give female, male or nothing",
            "list.tsv, line 5: has more than six columns; give name, classes, popularity, aliases, gender and identifier between tabs",
            "list.tsv, line 6: `A City` is there already",
        ]
    );
    let (_, counts) = builder.finish().unwrap();
    assert_eq!((counts.entities, counts.aliases, counts.shared), (3, 3, 1));
    assert_eq!((counts.no_names, counts.lower_case), (3, 0));
}

#[test]
fn names_only_leaves_out_common_words() {
    let mut builder = Builder::new(true);
    let entity = Entity {
        id: "Q1".to_owned(),
        name: "country".to_owned(),
        aliases: vec!["Nation".to_owned(), "国家".to_owned(), "iPhone".to_owned()],
        ..Entity::default()
    };
    assert!(builder.add(&entity).unwrap());
    assert!(!builder.add(&entity).unwrap());
    let (_, counts) = builder.finish().unwrap();
    assert_eq!((counts.aliases, counts.lower_case), (3, 1));
    let mut builder = Builder::new(false).least(5);
    for (id, popularity) in [("Q1", 4), ("Q2", 5)] {
        let entity = Entity {
            id: id.to_owned(),
            popularity,
            ..entity.clone()
        };
        assert!(builder.add(&entity).unwrap());
    }
    let (_, counts) = builder.finish().unwrap();
    assert_eq!((counts.entities, counts.unpopular), (1, 1));
}

#[test]
fn wikidata_is_read_and_classes_get_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("items.json.gz");
    let item = |id: &str, name: &str, class: &str| {
        let class =
            format!(r#"{{"P31":[{{"mainsnak":{{"datavalue":{{"value":{{"id":"{class}"}}}}}}}}]}}"#);
        format!(
            r#"{{"type":"item","id":"{id}","labels":{{"en":{{"value":"{name}"}}}},"claims":{class}}}"#
        )
    };
    let mut lines = "[\n".to_owned();
    for n in 0..50 {
        lines += &format!(
            "{},\n",
            item(&format!("Q{}", n + 100), &format!("Town {n}"), "Q3")
        );
    }
    lines += &format!("{}\n{{bad}}\n]\n", item("Q3", "town", "Q4"));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(lines.as_bytes()).unwrap();
    std::fs::write(&path, packed.finish().unwrap()).unwrap();
    let (mut builder, mut lists) = (Builder::new(true), Lists::default());
    read(&path, &["en".to_owned()], &mut builder, &mut lists).unwrap();
    assert_eq!(
        (lists.bad, lists.problems[0].contains("line 53")),
        (1, true)
    );
    let file = folder.path().join("index");
    let counts = builder.write(&file).unwrap();
    assert_eq!(
        (counts.entities, counts.aliases, counts.lower_case),
        (51, 50, 1)
    );
    assert!(Index::is_one(&file) && !Index::is_one(&path));
    let index = Index::load(&file).unwrap();
    let town = index.of_alias("Town  49").unwrap();
    assert_eq!((&*town.id, &*town.classes[0]), ("Q149", "town"));
    assert_eq!((index.entities(), index.aliases()), (51, 50));
}

#[test]
fn a_damaged_index_is_reported() {
    let (bytes, _) = listed(LIST).0.finish().unwrap();
    let path = Path::new("an.index");
    assert!(Index::of_bytes(&bytes, path).is_ok());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        assert!(Index::of_bytes(&damaged, path).is_err(), "{at}");
        assert!(Index::of_bytes(&bytes[..at], path).is_err(), "{at}");
    }
    let mut other = bytes.clone();
    other[15] = b'7';
    let said = Index::of_bytes(&other, path).unwrap_err().to_string();
    assert!(said.contains("another version"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.tsv");
    std::fs::write(&empty, "\n").unwrap();
    let (mut builder, mut lists) = (Builder::new(false), Lists::default());
    let said = read(&empty, &[], &mut builder, &mut lists)
        .unwrap_err()
        .to_string();
    assert!(said.contains("has no entity"), "{said}");
}

/// Without a guard, each of these takes an hour or more.
#[test]
fn no_text_takes_quadratic_time() {
    let finder = finder();
    let before = spoor_testing::worked();
    for unit in [")", "\"", "1 ", ".) ", "New ", "\u{301}", "京", "\u{ad}"] {
        finder.find(text(&format!(". {}", unit.repeat(200_000))));
    }
    let took = spoor_testing::worked() - before;
    assert!(took < std::time::Duration::from_secs(60), "{took:?}");
}

proptest! {
    #![proptest_config(spoor_testing::usual!())]

    #[test]
    fn mentions_are_where_they_say(
        given in "((New|York|Times|Square|US|U\\.S\\.|Curie|Marie|he|her|京都|Apple)[ '\u{2019}\n\u{ad}.-]{1,2}){0,12}|\\PC{0,60}",
        title in "(New York|\\PC){0,5}",
    ) {
        let finder = finder();
        let given = Text { title: Some(&title), ..text(&given) };
        let all = finder.find(given);
        prop_assert_eq!(found(&finder, given).len(), all.len());
        for pair in all.windows(2) {
            if pair[0].field == pair[1].field {
                prop_assert!(pair[0].to <= pair[1].from);
                prop_assert!(pair[0].sentence <= pair[1].sentence);
                prop_assert!(pair[0].paragraph <= pair[1].paragraph);
            }
        }
    }
}

/// A million aliases, compiled and found, in far less memory than the study needed (60 GB):
/// `cargo test --lib a_million_aliases -- --ignored --nocapture`.
#[test]
#[ignore = "takes a minute"]
fn a_million_aliases_take_little_memory() {
    let syllables = [
        "ba", "do", "fi", "gu", "ke", "la", "mo", "ni", "pu", "ra", "sto", "tri",
    ];
    let word = |mut n: usize| {
        let mut word = String::new();
        for _ in 0..4 {
            word += syllables[n % syllables.len()];
            n /= syllables.len();
        }
        word[..1].to_uppercase() + &word[1..]
    };
    let name = |n: usize| format!("{} {}", word(n % 20_000), word(n / 20_000 + 1));
    let mut builder = Builder::new(false);
    for n in 0..500_000 {
        let entity = Entity {
            id: n.to_string(),
            name: name(2 * n),
            classes: vec!["thing".to_owned()],
            aliases: vec![name(2 * n + 1)],
            ..Entity::default()
        };
        assert!(builder.add(&entity).unwrap());
    }
    let (bytes, counts) = builder.finish().unwrap();
    assert_eq!((counts.entities, counts.aliases), (500_000, 1_000_000));
    let index = Index::of_bytes(&bytes, Path::new("million")).unwrap();
    let finder = Finder::new(Arc::new(index), true);
    let names: Vec<String> = (0..1_000).map(|n| name(n * 999)).collect();
    assert_eq!(finder.find(text(&names.join(", "))).len(), 1_000);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    eprintln!("index {} MB, peak {:?} kB", bytes.len() >> 20, peak);
    assert!(peak.is_none_or(|kilobytes| kilobytes < 1 << 20), "{peak:?}");
}
