//! The defaults of the design, and the shipped files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::*;

fn package(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

#[test]
fn defaults_are_those_of_the_design() {
    let config = Config::default();
    let s = &config.strategy;
    assert_eq!(s.kind, StrategyKind::Learn);
    assert_eq!((s.gamma_document, s.gamma_anchor), (0.7, 0.3));
    assert_eq!((s.gamma_keyword, s.anchor_threshold), (3.0, Auto::Auto));
    let b = &config.buckets;
    assert_eq!(b.boundaries, Boundaries::Auto);
    assert_eq!(
        (b.high, b.medium, b.normal, b.razor),
        (600.0, 2000.0, 10000.0, 30000.0)
    );
    assert_eq!((config.train.order, config.train.keywords), (5, 50));
    assert_eq!((config.images.parents, config.images.siblings), (5, 5));
    let p = &config.politeness;
    assert_eq!(
        (p.min_delay, p.max_delay),
        (Duration::from_secs(1), Duration::from_secs(60))
    );
    assert_eq!((p.delay_factor, p.connections_per_host), (5.0, 1));
    // RFC 9309 section 2.4 and 2.3.1.2: a day, and five redirects.
    assert_eq!(p.robots_max_age, Duration::from_secs(86_400));
    assert_eq!(config.network.max_redirects, 5);
    assert_eq!(config.network.max_page_bytes, Size(10 * 1024 * 1024));
    assert!(!config.network.allow_private);
    assert!(config.contact().is_err());
    let names = &config.scope.reject_files;
    for name in [
        "pdf", "zip", "gz", "mp3", "mp4", "exe", "jpg", "png", "gif", "webp", "svg",
    ] {
        assert!(names.iter().any(|own| own.as_str() == name), "{name}");
    }
}

#[test]
fn defaults_keep_their_own_rules() {
    // The written text is read and checked: a default out of range would be refused.
    let text = Config::default().to_toml();
    assert_eq!(Config::parse(&text, "default"), Ok(Config::default()));
}

#[test]
fn reference_is_generated_and_valid() {
    let shipped = std::fs::read_to_string(package("config/reference.toml")).unwrap();
    for (own, generated) in shipped.lines().zip(reference().lines()) {
        assert_eq!(
            own, generated,
            "config/reference.toml has drifted; write what `spoor config reference` prints"
        );
    }
    assert_eq!(shipped.len(), reference().len());
    assert_eq!(
        Config::parse(&shipped, "reference.toml"),
        Ok(Config::default())
    );
    assert!(shipped.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn examples_of_optional_keys_are_valid() {
    let mut count = 0;
    let uncommented: Vec<&str> = reference_lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(key)
                if key
                    .split_once(" = ")
                    .is_some_and(|(name, _)| !name.contains(' ')) =>
            {
                count += 1;
                key
            }
            _ => line,
        })
        .collect();
    assert_eq!(count, 27);
    let config = Config::parse(&uncommented.join("\n"), "reference.toml").unwrap();
    assert_eq!(config.limits.time, Some(Duration::from_secs(6 * 3600)));
    assert!(config.contact().is_ok());
}

fn reference_lines() -> impl Iterator<Item = &'static str> {
    include_str!("../../../config/reference.toml").lines()
}

#[test]
fn every_shipped_file_is_valid() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(package("config")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            if let Err(errors) = Config::load(&path) {
                panic!("{errors}");
            }
            names.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    for name in ["cats.toml", "reference.toml", "thesis.toml"] {
        assert!(names.iter().any(|own| own == name), "{name} is missing");
    }
}

#[test]
fn the_cat_job_has_the_defaults_and_the_thesis_its_own() {
    let cats = Config::load(&package("config/cats.toml")).unwrap();
    assert_eq!(cats.strategy, StrategySection::default());
    assert_eq!(cats.buckets, Buckets::default());
    assert_eq!(cats.train.neutral, Neutral::Builtin);
    assert!(cats.seeds.urls.len() >= 5 && cats.seeds.files.is_empty());
    assert_eq!(cats.job_folder(), package("config/jobs/cats"));
    let config = Config::load(&package("config/thesis.toml")).unwrap();
    assert_eq!(
        (
            config.train.positive.len(),
            config.train.neutral.texts().len()
        ),
        (7, 7)
    );
    assert_eq!(config.buckets.boundaries, Boundaries::Fixed);
    // The thesis's own values, to which its boundaries belong.
    let strategy = StrategySection {
        kind: StrategyKind::Link,
        anchor_threshold: Auto::Set(3000.0),
        ..StrategySection::default()
    };
    assert_eq!(config.strategy, strategy);
    assert_eq!(config.seeds.files, [package("config/../seeds/cats.txt")]);
    assert!(config.seeds.read().unwrap().len() >= 10);
}
