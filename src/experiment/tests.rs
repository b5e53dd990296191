//! The table is what the runs found.

use std::path::Path;

use super::*;

fn plan() -> Plan {
    let text = include_str!("../../config/experiments/strategies.toml");
    Plan::parse(text, Path::new("strategies.toml")).unwrap()
}

/// The first run of each variant claims more than the second one, which cannot tell in the
/// end.
fn claims(variant: &str) -> Vec<Claim> {
    let claim = |fetches, claimed, truth| Claim {
        fetches,
        chosen: Beside {
            pages: 10,
            claimed,
            range: claimed.map(|share: f64| (share - 0.125, share + 0.25)),
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
    assert_eq!(learn.strategy.kind, crate::config::StrategyKind::Learn);
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
    let outcome = Outcome::new(&plan, runs);
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
        rows[2].ends_with("\t50 % (38 to 75)\t25 %\t-\t75 %\t0\t-\t-"),
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
}
