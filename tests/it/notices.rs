//! The licence notices of a built spoor, compared with its dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::{Ran, spoor};

fn file(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The versions of every crate in Cargo.lock.
fn locked() -> BTreeMap<String, BTreeSet<String>> {
    let lock: toml::Table = file("Cargo.lock").parse().unwrap();
    let mut crates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in lock["package"].as_array().unwrap() {
        let text = |key: &str| package[key].as_str().unwrap().to_owned();
        crates
            .entry(text("name"))
            .or_default()
            .insert(text("version"));
    }
    crates
}

#[test]
fn every_crate_that_is_linked_is_named_with_its_version_and_text() {
    let notices = file("THIRD-PARTY.md");
    let (listed, texts) = notices.split_once("\n## Texts\n").unwrap();
    let texts = texts.lines().filter_map(|line| line.strip_prefix("### "));
    let texts: BTreeSet<&str> = texts.collect();
    let locked = locked();
    let mut named = BTreeSet::new();
    let (_, listed) = listed.split_once("\n## Crates\n").unwrap();
    for line in listed.lines().filter_map(|line| line.strip_prefix("- ")) {
        let (name, rest) = line.split_once(' ').unwrap();
        let (version, rest) = rest.split_once(": ").unwrap();
        let known = locked.get(name).is_some_and(|all| all.contains(version));
        assert!(
            known,
            "{name} {version} is not in Cargo.lock; run .ci/notices"
        );
        let numbers = rest.rsplit("; ").next().unwrap();
        for number in numbers.split(", ") {
            assert!(texts.contains(number), "{line}");
        }
        named.insert(name.to_owned());
    }
    let manifest: toml::Table = file("Cargo.toml").parse().unwrap();
    let mut direct: BTreeSet<&String> = manifest["dependencies"]
        .as_table()
        .unwrap()
        .keys()
        .collect();
    for target in manifest["target"].as_table().unwrap().values() {
        direct.extend(target["dependencies"].as_table().unwrap().keys());
    }
    for name in direct
        .into_iter()
        .filter(|name| !name.starts_with("spoor-"))
    {
        assert!(
            named.contains(name),
            "{name} has no notice; run .ci/notices"
        );
    }
    assert!(named.len() > 300, "{}", named.len());
}

#[test]
fn the_program_prints_its_licences_and_how_to_link_another_kenlm() {
    let out = Ran::of(&mut spoor(&["licenses"])).good();
    for part in [
        file("LICENSE-MIT"),
        file("LICENSE-APACHE"),
        file("THIRD-PARTY.md"),
    ] {
        assert!(out.contains(&part));
    }
    for part in [
        "GNU LESSER GENERAL PUBLIC LICENSE",
        "kenlm-rs = { path = ",
        "KENLM_RS_BUNDLED_LIB_DIR=",
        "cargo rustc --release --locked --bin spoor -- --print link-args",
    ] {
        assert!(out.contains(part), "{part}");
    }
    // Wherever a compiled program is handed out, its notices go with it.
    let docker = file("Dockerfile");
    assert!(docker.contains(".ci/image target/packages/"));
    for (place, notices) in [
        (
            ".ci/image",
            "\"$from/LICENSE-MIT\" \"$from/LICENSE-APACHE\" \"$from/THIRD-PARTY.md\"",
        ),
        (
            ".ci/dist",
            "\"$program\" README.md LICENSE-MIT LICENSE-APACHE THIRD-PARTY.md",
        ),
        (
            "pyproject.toml",
            "\"LICENSE-MIT\", \"LICENSE-APACHE\", \"THIRD-PARTY.md\"",
        ),
    ] {
        assert!(file(place).contains(notices), "{place}");
    }
    assert!(
        file(".dockerignore")
            .lines()
            .any(|line| line == "!THIRD-PARTY.md")
    );
}

#[test]
fn unmaintained_crates_are_listed_with_the_reason_to_keep_them() {
    let deny: toml::Table = file("deny.toml").parse().unwrap();
    let advisories = &deny["advisories"];
    assert_eq!(advisories["unmaintained"].as_str(), Some("all"));
    let locked = locked();
    for ignored in advisories["ignore"].as_array().unwrap() {
        let reason = ignored["reason"].as_str().unwrap();
        let name = reason.split(' ').next().unwrap();
        // A crate that is no longer in the lock file must be removed from the list.
        assert!(locked.contains_key(name), "{name}");
        assert!(ignored["id"].as_str().unwrap().starts_with("RUSTSEC-"));
    }
}
