//! `spoor rules check RULES...`

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use spoor::corpus::ruled::StoredPage;
use spoor::rules::{self, Checked, RuleSet};
use spoor::sanitize;

use super::super::print_json;
use super::super::screen::counted;

/// Returns the exit code.
pub fn run(paths: &[PathBuf], only: Option<&str>, as_json: bool) -> Result<u8> {
    let rules = RuleSet::read(paths)?;
    if let Some(name) = only.filter(|name| rules.get(name).is_none()) {
        anyhow::bail!("there is no rule `{name}` in these files");
    }
    let checked = rules::check(&rules, only, |example| {
        let page = StoredPage::of_file(&example.page, &example.url);
        let page = page.map_err(|error| error.to_string())?;
        Ok((page.markup, page.html))
    });
    let duplicates = rules::duplicates(&rules);
    let failed = checked
        .iter()
        .filter(|one| !one.failures.is_empty())
        .count();
    let without: Vec<&str> = rules
        .rules()
        .iter()
        .filter(|rule| rule.examples.is_empty())
        .map(|rule| rule.name.as_str())
        .collect();
    if as_json {
        print_json(&json!({
            "rules": rules.rules().len(),
            "examples": checked.iter().map(of_example).collect::<Vec<_>>(),
            "failed": failed,
            "without_examples": without,
            "duplicates": duplicates
                .iter()
                .map(|d| json!({"first": d.first, "second": d.second, "why": d.why}))
                .collect::<Vec<_>>(),
        }))?;
    } else {
        let mut lines = Vec::new();
        for one in &checked {
            let place = format!("{} {}", one.rule, one.example.page.display());
            let verdict = if one.failures.is_empty() {
                "right"
            } else {
                "WRONG"
            };
            lines.push(format!("{verdict}  {place}"));
            lines.extend(
                one.failures
                    .iter()
                    .map(|failure| format!("       {failure}")),
            );
            lines.extend(one.notes.iter().map(|note| format!("       note: {note}")));
        }
        for twice in &duplicates {
            lines.push(format!("twice  {twice}"));
        }
        if !without.is_empty() {
            lines.push(format!("no example: {}", without.join(", ")));
        }
        lines.push(format!(
            "{}, {}, {failed} wrong",
            several(rules.rules().len(), "rule"),
            several(checked.len(), "example"),
        ));
        println!("{}", sanitize::shown(&lines.join("\n")));
    }
    Ok(u8::from(failed > 0))
}

fn of_example(checked: &Checked) -> serde_json::Value {
    let failures: Vec<String> = checked.failures.iter().map(ToString::to_string).collect();
    json!({
        "rule": checked.rule,
        "page": checked.example.page,
        "url": checked.example.url.as_str(),
        "failures": failures,
        "notes": checked.notes,
    })
}

/// A number of things.
fn several(n: usize, name: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {name}{plural}", counted(n as u64))
}
