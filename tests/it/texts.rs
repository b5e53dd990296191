//! Which part of a page is its text, and which language it has: crawls of pages with menus, and of
//! English and German ones.

use std::collections::BTreeMap;

use serde_json::Value;
use spoor_lab::Lab;

use crate::support::texts::{image, link, page, some, topical, tree};
use crate::support::{Job, JobText, Wire};

const GERMAN: &str = "Der Leuchtturm steht seit über hundert Jahren auf der Klippe am Rand \
    der kleinen Bucht. Jeden Abend steigt der alte Wärter die vielen Stufen hinauf und zündet \
    die Lampe an. Die Schiffe sehen das Licht schon aus großer Entfernung und finden so ihren \
    Weg durch die Untiefen. Im Winter schlagen die Wellen manchmal bis an die Tür, und niemand \
    kann den Turm dann verlassen.";

fn rows(job: &Job, kind: &str) -> BTreeMap<String, Value> {
    let rows = job.log().into_iter().filter(|row| row["kind"] == kind);
    rows.map(|row| (row["url"].as_str().unwrap().to_owned(), row))
        .collect()
}

/// An English page with a link to a German one, which declares itself to be English.
fn two_languages() -> Wire {
    let english = |seed, more: &[String]| {
        let mut paragraphs = vec![some(topical(), seed, 5), some(topical(), seed + 11, 5)];
        paragraphs.extend_from_slice(more);
        page("A lighthouse", "", &paragraphs)
    };
    let more = [
        link("/de", "the lighthouse on the cliff"),
        link("/short", "a light"),
        image("/en.png", "the lamp of the tower"),
    ];
    let german = [
        GERMAN.to_owned(),
        link("/beyond", "Mehr vom Leuchtturm"),
        image("/de.png", "Der Turm"),
    ];
    let pages = [
        ("one.test/", english(0, &more)),
        ("one.test/de", page("Der Leuchtturm", "", &german)),
        // Too short to be certain.
        (
            "one.test/short",
            page("Licht", "", &["Das Licht".to_owned()]),
        ),
        ("one.test/beyond", english(29, &[])),
    ];
    Wire::serve(Lab::from_memory(tree(&pages)))
}

fn crawl(wire: &Wire, rest: &str) -> Job {
    let rest = format!("[strategy]\nkind = \"unfocused\"\n{rest}");
    let text = JobText {
        seeds: &["http://one.test/"],
        rest: &rest,
        ..JobText::default()
    };
    let job = Job::new(wire, &text);
    job.run();
    job
}

fn is_german(sentence: &str) -> bool {
    sentence.contains("leuchtturm")
}

#[test]
fn languages_are_recognised_and_kept_apart_from_declared_ones() {
    let wire = two_languages();
    let job = crawl(&wire, "");
    let pages = rows(&job, "page");
    assert_eq!(pages.len(), 4);
    let of = |path: &str| &pages[&format!("http://one.test/{path}")];
    for (path, recognised, foreign) in [("", "en", false), ("de", "de", true)] {
        let row = of(path);
        assert_eq!(row["recognised"], recognised, "{row}");
        assert_eq!(row["language"], "en", "{row}");
        assert_eq!(row["foreign"] == true, foreign, "{row}");
        assert!(row["off_language"].is_null(), "none is asked for");
    }
    assert!(of("short")["recognised"].is_null());
    // Nothing is left out.
    assert!(job.sentences().iter().any(|s| is_german(s)));
    assert_eq!(rows(&job, "image").len(), 2);
    let facts = std::fs::read_to_string(
        crate::support::texts::model()
            .0
            .join("lighthouses/model.toml"),
    );
    assert!(facts.unwrap().contains("\nlanguage = \"en\"\n"));
}

#[test]
fn pages_in_other_languages_are_not_kept() {
    for (follow, pages) in [(true, 4), (false, 3)] {
        let wire = two_languages();
        let rest = format!("[text]\nlanguages = [\"eng\"]\nfollow_foreign = {follow}");
        let job = crawl(&wire, &rest);
        let rows_of_pages = rows(&job, "page");
        assert_eq!(rows_of_pages.len(), pages, "{rows_of_pages:#?}");
        let german = &rows_of_pages["http://one.test/de"];
        assert_eq!(german["outcome"], "done");
        assert_eq!(german["off_language"], true);
        assert_ne!(german["on_topic"], true);
        assert!(german["document"]["tokens"].as_u64().unwrap() > 20);
        // Pages whose language is not certain are kept.
        assert!(rows_of_pages["http://one.test/short"]["off_language"].is_null());
        assert!(!job.sentences().is_empty());
        assert!(!job.sentences().iter().any(|s| is_german(s)));
        let images: Vec<String> = rows(&job, "image").into_keys().collect();
        assert_eq!(images, ["http://one.test/en.png"]);
        if follow {
            let beyond = &rows_of_pages["http://one.test/beyond"];
            let unknown = beyond["parts"]["document"].as_f64().unwrap();
            let measured = german["document"]["perplexity"].as_f64().unwrap();
            assert!(unknown >= measured, "{beyond}");
        }
    }
}

#[test]
fn an_extractor_chooses_the_text_and_nothing_else() {
    let menu: String = (0..40)
        .map(|n| {
            format!(
                "<li>{}</li>",
                link(&format!("/{n}"), &format!("Part {n} of all"))
            )
        })
        .collect();
    let words = "Sign in to read what other people say of it today.";
    let body = format!(
        "<div class=\"nav\"><ul>{menu}</ul><p>{words}</p></div>\n\
         <div class=\"main\"><h1>The lighthouse</h1><p>{}</p><p>{}</p><p>{}</p></div>",
        some(topical(), 0, 6),
        some(topical(), 13, 6),
        some(topical(), 31, 6),
    );
    let html = format!(
        "<!DOCTYPE html><html><head><title>The lighthouse</title></head><body>{body}</body></html>"
    );
    let wire = Wire::serve(Lab::from_memory(tree(&[("one.test/", html)])));
    let mut addresses = Vec::new();
    for extractor in ["all", "main", "density"] {
        let job = crawl(&wire, &format!("[text]\nextractor = {extractor:?}"));
        let pages = rows(&job, "page");
        let row = &pages["http://one.test/"];
        let text = &row["text"];
        assert_eq!(text["extractor"], extractor, "{row}");
        let (words, of) = (
            text["words"].as_u64().unwrap(),
            text["of"].as_u64().unwrap(),
        );
        assert_eq!(words < of, extractor != "all", "{row}");
        let signs = job
            .sentences()
            .iter()
            .any(|s| s.starts_with("sign in to read"));
        assert_eq!(signs, extractor == "all", "{extractor}");
        addresses.push(pages.into_keys().collect::<Vec<_>>());
    }
    assert_eq!(addresses[0].len(), 41);
    assert!(addresses.iter().all(|found| *found == addresses[0]));
}
