//! The table shows the results of the runs, and texts are cut as planned.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;

fn plan() -> Plan {
    let text = include_str!("../../../config/experiments/strategies.toml");
    Plan::parse(text, Path::new("strategies.toml")).unwrap()
}

/// The runs of each variant claim a share at first, and only a range in the end.
fn claims(variant: &str) -> Vec<Claim> {
    let claim = |fetches, claimed, truth| Claim {
        fetches,
        chosen: Beside {
            pages: 10,
            claimed,
            range: Some(claimed.map_or((0.25, 0.75), |share: f64| (share - 0.125, share + 0.25))),
            truth: Some(truth),
        },
        drawn: Beside::default(),
    };
    match variant {
        "oracle" => Vec::new(),
        _ => vec![claim(2, Some(0.5), 0.25), claim(4, None, 0.75)],
    }
}

fn harvest(topic: &str, variant: &str, seed: u64, curve: &[usize]) -> Harvest {
    Harvest {
        topic: topic.to_owned(),
        begin: "warm".to_owned(),
        lines: None,
        variant: variant.to_owned(),
        seed,
        curve: curve.to_vec(),
        images: curve.len(),
        claims: claims(variant),
        seconds: 1.0,
    }
}

#[test]
fn the_shipped_plan_makes_jobs() {
    let plan = plan();
    let topic = &plan.topic[0];
    let of = |variant: &str, begin| {
        let variant = plan.variant.iter().find(|v| v.name == variant);
        plan.job(topic, begin, variant, 7).unwrap()
    };
    let learn = of("learn", "warm");
    assert_eq!(learn.strategy.seed, 7);
    assert_eq!(learn.limits.fetches, Some(500));
    assert_eq!(learn.strategy.kind, spoor::settings::StrategyKind::Learn);
    assert!(learn.politeness.min_delay.is_zero());
    let link = of("link", "cold");
    assert_eq!(link.model_folder(), learn.model_folder());
    assert_ne!(link.seeds.files, learn.seeds.files);
}

#[test]
fn other_training_gives_another_model() {
    let mut plan = plan();
    plan.variant[1].job = toml::from_str("train.order = 3").unwrap();
    let folder = |n: usize| {
        let job = plan.job(&plan.topic[0], "warm", Some(&plan.variant[n]), 1);
        job.unwrap().model_folder()
    };
    assert_ne!(folder(0), folder(1));
    assert_eq!(folder(0), folder(2));
}

#[test]
fn figures_are_those_of_the_runs() {
    let mut plan = plan();
    plan.fetches = 4;
    plan.marks = vec![2, 4, 9];
    let runs = vec![
        harvest("a", "oracle", 1, &[1, 2, 3, 4]),
        harvest("a", "x", 1, &[0, 1, 1, 2]),
        harvest("a", "x", 2, &[1, 1, 1]),
        harvest("b", "oracle", 1, &[1, 2, 2, 2]),
        harvest("b", "x", 1, &[1, 2, 2, 2]),
    ];
    assert_eq!((runs[1].at(2), runs[1].at(0), runs[2].at(4)), (1, 0, 1));
    assert!((runs[0].area(4) - 1.0).abs() < 1e-12);
    assert!((runs[1].area(4) - (0.0 + 0.5 + 1.0 / 3.0 + 0.5) / 4.0).abs() < 1e-12);
    let outcome = Outcome::new(&plan, BTreeMap::new(), runs);
    assert_eq!(
        outcome.marks,
        [2, 4],
        "what lies beyond the budget is left out"
    );
    let tsv = outcome.tsv();
    let rows: Vec<&str> = tsv.lines().collect();
    assert_eq!(
        rows[0],
        "topic\tbegin\tvariant\tat 2\tat 4\tarea\tof oracle\timages\tclaimed at 2\ttrue at 2\t\
         claimed at 4\ttrue at 4\tdrawn\tdrawn claimed\tdrawn true"
    );
    // The mean of the two seeds.
    assert!(rows[2].starts_with("a\twarm\tx\t1\t1.5\t"), "{}", rows[2]);
    assert!(rows[2].contains("\t37.5 %\t3.5"), "{}", rows[2]);
    assert!(
        rows[2].ends_with("\t50 % (38 to 75)\t25 %\t25 to 75 %\t75 %\t0\t-\t-"),
        "{}",
        rows[2]
    );
    assert!(rows[1].ends_with("\t-\t-\t-\t-\t0\t-\t-"), "{}", rows[1]);
    let means = outcome.means();
    let x = means.iter().find(|(_, variant, _)| variant == "x").unwrap();
    assert!((x.2 - (0.375 + 1.0) / 2.0).abs() < 1e-12);
    let markdown = outcome.markdown();
    let widths: Vec<usize> = markdown
        .lines()
        .take(6)
        .map(|line| line.chars().count())
        .collect();
    assert!(widths.iter().all(|w| *w == widths[0]), "{markdown}");
    let plots = outcome.plots();
    assert_eq!(plots.len(), 2);
    assert_eq!(plots[0].0, "harvest-a-warm");
    assert!(plots[0].1.contains("oracle"));
    let all = [markdown, tsv, outcome.json()].concat();
    assert!(!all.contains("lines") && !all.contains("texts"), "{all}");
}

/// Two topics with two variants that get 10 lines, 100 and all.
fn by_lines(oracle: bool) -> Outcome {
    let mut plan = plan();
    plan.fetches = 4;
    plan.marks = vec![2];
    let mut runs = Vec::new();
    for topic in ["a", "b"] {
        if oracle {
            runs.push(harvest(topic, "oracle", 1, &[1, 2, 3, 4]));
        }
        for variant in ["x", "y"] {
            let sizes = [(Some(10), 1), (Some(100), 2), (None, 4)];
            runs.extend(sizes.map(|(lines, found)| Harvest {
                lines,
                ..harvest(topic, variant, 1, &[0, 1, 1, found])
            }));
        }
    }
    // One topic finds more with little text.
    runs.retain(|run| (run.topic.as_str(), run.lines) != ("b", Some(10)));
    runs.push(Harvest {
        lines: Some(10),
        ..harvest("b", "x", 1, &[0, 1, 2, 3])
    });
    let texts = [("a".to_owned(), 200), ("b".to_owned(), 400)];
    Outcome::new(&plan, BTreeMap::from(texts), runs)
}

#[test]
fn sizes_stay_apart_in_the_tables() {
    let outcome = by_lines(true);
    let tsv = outcome.tsv();
    let rows: Vec<&str> = tsv.lines().collect();
    assert!(rows[0].starts_with("topic\tbegin\tvariant\tlines\tat 2\tarea\tof oracle\t"));
    assert!(rows[1].starts_with("a\twarm\toracle\tall\t2\t"), "{tsv}");
    assert!(rows[2].starts_with("a\twarm\tx\t10\t1\t"), "{tsv}");
    assert!(rows[2].contains("\t25.0 %\t"), "{tsv}");
    assert!(rows[4].starts_with("a\twarm\tx\tall\t1\t"), "{tsv}");
    assert!(rows[4].contains("\t100.0 %\t"), "{tsv}");
    let markdown = outcome.markdown();
    let flat = markdown.replace(' ', "");
    for row in [
        "Meanshareoftheoraclebylinesoftext:",
        "|begin|variant|10|100|all|",
        // The mean of 25 % and 75 %.
        "|warm|x|50.0%|50.0%|100.0%|",
        "|warm|y|25.0%|50.0%|100.0%|",
        // The overall means use the full texts.
        "|begin|variant|meanoforacle|",
        "|warm|x|100.0%|",
        "|topic|begin|variant|lines|claimedat2|",
    ] {
        assert!(flat.contains(row), "no {row} in {markdown}");
    }
    assert!(outcome.json().contains("\"lines\": 10,"));
    let without = by_lines(false).markdown();
    assert!(!without.contains("by lines of text"), "{without}");
}

/// The texts of an SVG, and the lines in a colour with this many points.
fn drawn(svg: &str, colour: &str, points: usize) -> (Vec<String>, usize) {
    let texts = svg.split("<text").skip(1);
    let texts = texts.map(|text| text.split(['>', '<']).nth(1).unwrap().trim().to_owned());
    let lines = svg.split("<polyline").skip(1).filter(|line| {
        let line = line.split("/>").next().unwrap();
        let at = line.split("points=\"").nth(1).unwrap();
        let at = at.split('"').next().unwrap();
        line.contains(colour) && at.split_whitespace().count() == points
    });
    (texts.collect(), lines.count())
}

#[test]
fn each_variant_is_a_line_over_the_lines_of_text() {
    for (oracle, says, means) in [
        (
            true,
            "Share of the oracle (%), a, warm",
            "Mean share of the oracle (%), warm",
        ),
        (
            false,
            "Pages of the topic a, warm",
            "Mean pages of a topic, warm",
        ),
    ] {
        let plots = by_lines(oracle).plots();
        let names: Vec<&str> = plots.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "harvest-a-warm",
                "harvest-b-warm",
                "a-warm-lines",
                "b-warm-lines",
                "mean-warm-lines"
            ]
        );
        for (plot, says) in [(&plots[2].1, says), (&plots[4].1, means)] {
            for colour in ["#0072B2", "#D55E00"] {
                let (texts, lines) = drawn(plot, colour, 3);
                assert_eq!(lines, 1, "{colour}: {plot}");
                for text in [
                    "x",
                    "y",
                    "10",
                    "20",
                    "100",
                    "Lines of text about the topic, up to all",
                    says,
                ] {
                    assert!(texts.iter().any(|t| t == text), "no {text} in {texts:?}");
                }
                assert!(!texts.iter().any(|t| t == "oracle"));
            }
        }
        // The results over time use the full texts.
        let (texts, _) = drawn(&plots[0].1, "#0072B2", 5);
        let names = texts
            .iter()
            .filter(|t| ["x", "y", "oracle"].contains(&t.as_str()));
        assert_eq!(names.count(), if oracle { 3 } else { 2 });
    }
}

/// A plan with two texts about its topic, which have two and three lines, cut to some sizes.
fn sized(folder: &Path, lines: &[u64]) -> Result<sizes::Sizes, ExperimentError> {
    let mut plan = plan();
    plan.out = folder.join("out");
    plan.lines = lines.to_vec();
    plan.topic.truncate(1);
    let texts = [("one.txt", "a\n\nb\n\n"), ("two.txt", "c\n \n\nd\ne")];
    let texts = texts.map(|(name, text)| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    });
    plan.topic[0].positive = texts.to_vec();
    sizes::sized(&plan)
}

#[test]
fn texts_are_cut_after_lines_that_are_not_empty() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = sized(folder.path(), &[1, 2, 4]).unwrap();
    assert_eq!(sizes.texts, BTreeMap::from([("space".to_owned(), 5)]));
    let texts = sizes.topics[0].iter().map(|size| {
        let texts = size.topic.positive.iter();
        let texts = texts.map(|path| std::fs::read_to_string(path).unwrap());
        (size.lines, texts.collect::<Vec<_>>())
    });
    let of = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        texts.collect::<Vec<_>>(),
        [
            (Some(1), of(&["a\n"])),
            (Some(2), of(&["a\n\nb\n\n"])),
            (Some(4), of(&["a\n\nb\n\n", "c\n \n\nd\n"])),
            (None, of(&["a\n\nb\n\n", "c\n \n\nd\ne"])),
        ]
    );
    assert!(sized(folder.path(), &[]).unwrap().texts.is_empty());
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for lines in [5, 6] {
        let error = sized(folder.path(), &[lines]).unwrap_err().to_string();
        let says = format!("`lines` names {lines}, but all texts about the topic `space` hold 5");
        assert!(error.contains(&says), "{error}");
        assert!(error.contains("name more texts in `positive`"), "{error}");
    }
    let mut plan = plan();
    plan.lines = vec![1];
    let page = folder.path().join("page.HTML");
    std::fs::write(&page, "<p>a").unwrap();
    for (source, what) in [(folder.path(), "a folder"), (&page, "a web page")] {
        plan.topic[0].positive = vec![source.display().to_string()];
        let error = sizes::sized(&plan).unwrap_err().to_string();
        assert!(error.contains(&format!("names {what}, ")), "{error}");
        assert!(error.contains("name text files"), "{error}");
    }
    plan.topic[0].name = "mean".to_owned();
    let error = sizes::sized(&plan).unwrap_err().to_string();
    assert!(error.contains("no topic may be called `mean`"), "{error}");
    for (lines, says) in [("[3, 0]", "names 0"), ("[3, 1, 3]", "names 3 twice")] {
        let text = include_str!("../../../config/experiments/strategies.toml");
        let text = format!("lines = {lines}\n{text}");
        let error = Plan::parse(&text, Path::new("plan.toml")).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}
