//! `spoor rules update FILE --rule NAME --field NAME --css SELECTOR --from WARC...`

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use spoor::address::PageUrl;
use spoor::corpus::ruled::{self, StoredPage};
use spoor::rules::{self, FieldValue, RuleSet};
use spoor::sanitize;

use super::super::print_json;
use super::super::screen::counted;

/// Show what another selector would change, and change it.
#[derive(Debug, Args)]
pub struct Update {
    /// The rule file.
    file: PathBuf,
    /// The rule.
    #[arg(long, value_name = "NAME")]
    rule: String,
    /// The field.
    #[arg(long, value_name = "NAME")]
    field: String,
    /// The new CSS selector.
    #[arg(long, value_name = "SELECTOR", required_unless_present_any = ["xpath", "regex"])]
    css: Option<String>,
    /// The new XPath expression.
    #[arg(long, value_name = "EXPRESSION", conflicts_with = "css")]
    xpath: Option<String>,
    /// The new regular expression.
    #[arg(long, value_name = "EXPRESSION", conflicts_with_all = ["css", "xpath"])]
    regex: Option<String>,
    /// WARC or ARC files, or folders of them, such as the archive of a job. The examples of
    /// the rule are compared as well.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    from: Vec<PathBuf>,
    /// Show at most N pages whose value changes.
    #[arg(long, value_name = "N", default_value_t = 20)]
    most: usize,
    /// Write the new selector into the file.
    #[arg(long)]
    write: bool,
}

/// A value before and after.
struct Compared {
    url: String,
    old: Option<FieldValue>,
    new: Option<FieldValue>,
}

impl Update {
    pub fn run(self, as_json: bool) -> Result<()> {
        let given = [
            ("css", &self.css),
            ("xpath", &self.xpath),
            ("regex", &self.regex),
        ];
        let given = given
            .into_iter()
            .find_map(|(key, text)| Some((key, text.as_ref()?)));
        let Some((key, selector)) = given else {
            bail!("give the new selector with --css, --xpath or --regex");
        };
        let text = super::read(&self.file)?;
        let changed = rules::replace_selector(&text, &self.rule, &self.field, key, selector);
        let changed = changed.with_context(|| self.file.display().to_string())?;
        let before = RuleSet::parse(&text, &self.file)?;
        let after = RuleSet::parse(&changed, &self.file)?;
        let compared = self.compare(&before, &after)?;
        if self.write {
            super::write(&self.file, &changed)?;
        }
        let same = compared.iter().filter(|one| one.old == one.new).count();
        let differ: Vec<&Compared> = compared.iter().filter(|one| one.old != one.new).collect();
        let lost = differ.iter().filter(|one| one.new.is_none()).count();
        if as_json {
            let changes = differ.iter().take(self.most);
            let changes = changes.map(|c| json!({"url": c.url, "old": c.old, "new": c.new}));
            print_json(&json!({
                "pages": compared.len(), "same": same, "lost": lost,
                "changes": changes.collect::<Vec<_>>(), "written": self.write,
            }))?;
        } else {
            let shown = |value: &Option<FieldValue>| match value {
                Some(value) => value.to_string(),
                None => "nothing".to_owned(),
            };
            let mut lines = Vec::new();
            for one in differ.iter().take(self.most) {
                lines.push(one.url.clone());
                lines.push(format!("  - {}", shown(&one.old)));
                lines.push(format!("  + {}", shown(&one.new)));
            }
            lines.push(format!(
                "{} pages: {same} the same, {} changed, {lost} of them lost",
                counted(compared.len() as u64),
                differ.len(),
            ));
            lines.push(if self.write {
                format!(
                    "{}: the rule `{}` was changed; `spoor rules check {}` runs its examples, \
                     whose values are those of before",
                    self.file.display(),
                    self.rule,
                    self.file.display()
                )
            } else {
                "nothing is written; add --write to change the rule".to_owned()
            });
            println!("{}", sanitize::shown(&lines.join("\n")));
        }
        Ok(())
    }

    /// The values of the field on all pages of the rule.
    fn compare(&self, before: &RuleSet, after: &RuleSet) -> Result<Vec<Compared>> {
        let (Some(old), Some(new)) = (before.get(&self.rule), after.get(&self.rule)) else {
            bail!("{}: has no rule `{}`", self.file.display(), self.rule);
        };
        let mut all = Vec::new();
        let mut take = |page: &StoredPage| {
            let page = page.as_page();
            // The pages of the rule are those for which it is chosen, before and after the change.
            if before
                .choose(&page)
                .is_none_or(|rule| rule.name != old.name)
            {
                return;
            }
            let value = |rule: &rules::Rule| rule.apply(&page).value(&self.field).cloned();
            all.push(Compared {
                url: page.url.as_str().to_owned(),
                old: value(old),
                new: value(new),
            });
        };
        for example in &old.examples {
            take(&StoredPage::of_file(&example.page, &example.url)?);
        }
        if !self.from.is_empty() {
            let covers = |url: &PageUrl| old.covers(url);
            ruled::each_page(&self.from, covers, |page| {
                take(&page);
                true
            })?;
        }
        Ok(all)
    }
}
