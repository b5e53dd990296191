//! `spoor agreement` on prepared votes.

use std::fmt::Write;

use crate::support::{Job, JobText, Ran, spoor};

/// Numbered lines of votes: annotator, image, question, answer, and the right answer if it is
/// known.
fn votes(lines: &[(&str, char, &str, &str, Option<&str>)]) -> String {
    let mut text = String::new();
    for (n, (who, image, question, answer, gold)) in (1..).zip(lines) {
        let vote = serde_json::json!({
            "vote": n, "time": "2026-01-31T12:00:00Z", "annotator": who,
            "image": image.to_string().repeat(64), "url": format!("http://a.test/{image}.png"),
            "question": question, "answer": answer, "gold": gold,
        });
        writeln!(text, "{vote}").unwrap();
    }
    text
}

/// A job without a web.
fn job() -> Job {
    let text = JobText {
        rest: "[annotate]\nqualify_after = 2\nqualify = 0.6\n",
        ..JobText::default()
    };
    let job = Job::at("127.0.0.1:9".parse().unwrap(), &text);
    std::fs::create_dir_all(job.folder().join("annotations")).unwrap();
    job
}

fn write(job: &Job, text: &str) {
    std::fs::write(job.folder().join("annotations/votes.jsonl"), text).unwrap();
}

fn agreement(job: &Job, more: &[&str]) -> Ran {
    let file = job.file();
    Ran::of(&mut spoor(
        &[&["agreement", file.to_str().unwrap()], more].concat(),
    ))
}

/// Ann and Bob agree on three of four images: the observed agreement is 3/4. Ann says "on topic"
/// three times, Bob twice, so by chance it is 3/4 * 2/4 + 1/4 * 2/4 = 1/2, and Cohen's kappa is
/// (3/4 - 1/2) / (1 - 1/2) = 1/2. For Fleiss' kappa the shares are 5/8 and 3/8, by chance it is
/// 25/64 + 9/64 = 17/32, and kappa is (3/4 - 17/32) / (15/32) = 7/15.
fn given() -> String {
    let (on, off) = ("on topic", "off topic");
    let mut lines = Vec::new();
    for (image, ann, bob) in [
        ('1', on, on),
        ('2', on, on),
        ('3', on, off),
        ('4', off, off),
    ] {
        lines.push(("ann", image, "image", ann, None));
        lines.push(("bob", image, "image", bob, None));
    }
    lines.push(("ann", '1', "text", "describes", None));
    lines.push(("bob", '1', "text", "fits", None));
    // Eve misses both gold questions; Bob misses none.
    for image in ['8', '9'] {
        lines.push(("eve", image, "image", off, Some(on)));
        lines.push(("bob", image, "image", on, Some(on)));
    }
    for image in ['1', '2', '3'] {
        lines.push(("eve", image, "image", "no picture", None));
    }
    votes(&lines)
}

#[test]
fn figures_of_votes_by_hand_as_markdown_and_tsv() {
    let job = job();
    // A last line that a crash left unfinished does not count.
    write(&job, &(given() + "{\"vote\":99,\"time\":\"2026"));
    let out = agreement(&job, &["--merge", "describes + fits=good"]).good();
    let file = |name: &str| std::fs::read_to_string(job.folder().join(name)).unwrap();
    let markdown = file("annotations/agreement.md");
    assert!(out.starts_with(&markdown), "{out}");
    for said in [
        "Annotators: 2 (ann, bob).",
        "Left out: 7 votes",
        "eve",
        "| on topic | 5 | 2 | 2 |",
        "| off topic | 3 | 1 | 1 |",
        "| no picture | 0 | 0 | 0 |",
        "| good | 2 | 1 | 1 |",
    ] {
        assert!(markdown.contains(said), "no {said:?} in {markdown}");
    }
    let tsv = file("annotations/agreement.tsv");
    let mut rows = tsv.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    assert_eq!(
        rows.next().unwrap(),
        ["question", "classes", "measure", "of", "value", "items"]
    );
    let rows: Vec<Vec<&str>> = rows.collect();
    let value = |question: &str, classes: &str, measure: &str, of: &str| -> f64 {
        let row = rows
            .iter()
            .find(|r| r[..4] == [question, classes, measure, of]);
        let row = row.unwrap_or_else(|| panic!("no {question} {classes} {measure} {of} in {tsv}"));
        row[4].parse().unwrap()
    };
    for (measure, of, expected) in [
        ("votes", "", 8.0),
        ("items with votes", "2", 4.0),
        ("majority", "on topic", 2.0),
        ("without majority", "", 1.0),
        ("pairs", "", 1.0),
        ("pairs, observed agreement", "", 0.75),
        ("pairs, mean kappa", "", 0.5),
        ("fleiss kappa", "2", 7.0 / 15.0),
    ] {
        let found = value("image", "as asked", measure, of);
        assert!((found - expected).abs() < 1e-6, "{measure} {of}: {found}");
    }
    assert_eq!(value("image", "on topic or not", "share on topic", ""), 0.5);
    assert_eq!(
        value("text", "as asked", "pairs, observed agreement", ""),
        0.0
    );
    assert_eq!(
        value("text", "describes + fits = good", "unanimous", "good"),
        1.0
    );
    assert!(!tsv.contains("eve"), "{tsv}");
}

#[test]
fn uncountable_votes_are_refused_with_advice() {
    let job = job();
    let error = agreement(&job, &[]).refused();
    assert!(
        error.contains("no votes that count; `spoor annotate`"),
        "{error}"
    );
    // Votes on gold questions alone do not count either.
    write(
        &job,
        &votes(&[("ann", '1', "image", "on topic", Some("on topic"))]),
    );
    let error = agreement(&job, &[]).refused();
    assert!(error.contains("no votes that count"), "{error}");
    for (class, merge) in [
        ("nonsense", "nonsense+fits=x"),
        ("fits", "fits+describes+fits=x"),
    ] {
        write(&job, &given());
        let error = agreement(&job, &["--merge", merge]).refused();
        assert!(
            error.contains(&format!("--merge: `{class}` is not one of the classes")),
            "{error}"
        );
        assert!(error.contains("on topic, related"), "{error}");
    }
    let torn = agreement(&job, &["--merge", "fits"]);
    assert_eq!(torn.status.code(), Some(2), "{torn:?}");
    assert!(torn.err.contains("class+class=name"), "{torn:?}");
    // A truncated line in the middle of the file does not end it.
    let whole = given();
    let mut lines: Vec<&str> = whole.lines().collect();
    lines[4] = &lines[4][..20];
    write(&job, &(lines.join("\n") + "\n"));
    let error = agreement(&job, &[]).refused();
    assert!(
        error.contains("votes.jsonl:5: not a line that spoor wrote"),
        "{error}"
    );
    assert!(!job.folder().join("annotations/agreement.md").exists());
}
