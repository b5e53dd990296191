//! No file contents make reading panic, and everything that is accepted is written in a form that
//! reads back equal.

use proptest::prelude::*;

use super::super::reading::line_of;
use super::super::*;

/// `text` is either accepted and stable, or refused with valid positions in ascending order.
fn well_behaved(text: &str) -> Result<bool, TestCaseError> {
    match Config::parse(text, "x.toml") {
        Ok(config) => {
            let written = config.to_toml();
            prop_assert_eq!(Config::parse(&written, "w.toml"), Ok(config), "{}", written);
            Ok(true)
        }
        Err(errors) => {
            let places: Vec<FilePosition> =
                errors.errors().iter().filter_map(|e| e.place).collect();
            prop_assert_eq!(places.len(), errors.errors().len());
            prop_assert!(!places.is_empty() && places.is_sorted());
            let lines = text.matches('\n').count() + 1;
            prop_assert!(places.iter().all(|place| (1..=lines).contains(&place.line)));
            prop_assert_eq!(errors.to_string().lines().count(), places.len() + 1);
            Ok(false)
        }
    }
}

/// Every key of the reference.
fn keys() -> Vec<(String, String)> {
    let mut section = String::new();
    let mut keys = Vec::new();
    for line in include_str!("../../../config/reference.toml").lines() {
        let line = line.strip_prefix("# ").unwrap_or(line);
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((key, _)) = line.split_once(" = ") {
            keys.push((section.clone(), key.to_owned()));
        }
    }
    keys
}

fn a_value() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        (0_u32..4_000).prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:?}").to_lowercase()),
        "[0-9]{1,3}(\\.[0-9])? ?(ms|s|m|h|d|B|KB|KiB|MiB|GB|TiB|x)".prop_map(|t| format!("{t:?}")),
        "(https?://|mailto:)?[a-z*.]{1,8}[@:,)/]{0,2}[a-z.0-9]{0,8}(:[0-9]{0,5}){0,3}"
            .prop_map(|t| format!("'{t}'")),
        "\\PC{0,12}".prop_map(|t| format!("{t:?}")),
        prop::sample::select(vec![
            "true",
            "false",
            "nan",
            "-inf",
            "+1",
            "0x10",
            "1e999",
            "1979-05-27T07:32:00Z",
            "'link'",
            "'unfocused'",
            "'fixed'",
            "'file'",
            "'http'",
            "''",
            "\"\"\"\n\"\"\"",
            "{ a = 1 }",
            "x",
        ])
        .prop_map(str::to_owned),
    ];
    let list = prop::collection::vec(scalar.clone(), 0..4);
    prop_oneof![3 => scalar, 1 => list.prop_map(|items| format!("[{}]", items.join(",\n")))]
}

proptest! {
    #![proptest_config(spoor_testing::cases!(2_000))]

    #[test]
    fn any_text(text in "\\PC{0,200}|(\\[|\\]|=|\"|'|\n|\r|\\.|a|job|name|1|#|,|\\{|\\}|\u{feff}|ü|_| ){0,40}") {
        well_behaved(&text)?;
    }

    #[test]
    fn any_values_under_known_keys(
        chosen in prop::collection::vec((prop::sample::select(keys()), a_value()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut text = "job.name = 'x'\n".to_owned();
        for ((section, key), value) in &chosen {
            text.push_str(&format!("{section}.{key} = {value}\n"));
        }
        well_behaved(&text)?;
        let at = (0..=cut.index(text.len())).rev().find(|at| text.is_char_boundary(*at));
        well_behaved(&text[..at.unwrap_or(0)])?;
    }

    /// One valid value after another, so that much is accepted.
    #[test]
    fn accepted_values_are_written_back(chosen in prop::collection::vec((prop::sample::select(keys()), a_value()), 1..6)) {
        let mut text = "job.name = 'x'\n".to_owned();
        for ((section, key), value) in &chosen {
            let more = format!("{text}{section}.{key} = {value}\n");
            if well_behaved(&more)? {
                text = more;
            }
        }
        prop_assert!(well_behaved(&text)?);
    }

    #[test]
    fn lines_hold_their_byte(text in "[a\n]{0,30}", at in 0_usize..40) {
        let line = line_of(&text, at);
        prop_assert!(!text[line.clone()].contains('\n'));
        prop_assert!(line.start <= at.min(text.len()) && at.min(text.len()) <= line.end);
    }
}

#[test]
fn deep_nesting_and_many_errors_are_survived() {
    for (open, close) in [("[", "]"), ("{ a = ", "}")] {
        let deep = format!(
            "[job]\nname = {}{}\n",
            open.repeat(100_000),
            close.repeat(100_000)
        );
        assert!(Config::parse(&deep, "x.toml").is_err());
    }
    let dotted = format!("[{}]\n", vec!["a"; 10_000].join("."));
    assert!(Config::parse(&dotted, "x.toml").is_err());
    let many: String = (0..5_000).map(|n| format!("k{n} = 1\n")).collect();
    let errors = Config::parse(&many, "x.toml").unwrap_err();
    // In addition, `job.name` is missing. The first errors are shown, all are counted.
    assert_eq!(errors.errors().len(), 100);
    assert!(errors.to_string().ends_with("\n5001 errors in x.toml"));
}
