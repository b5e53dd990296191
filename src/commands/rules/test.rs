//! `spoor rules test RULES... --file PAGE --url URL`, `spoor rules test RULES... --from WARC`

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use spoor::address::PageUrl;
use spoor::corpus::ruled::{self, StoredPage};
use spoor::rules::{Applied, RuleSet};
use spoor::sanitize;

/// Print what rules find.
#[derive(Debug, Args)]
pub struct Test {
    /// Rule files, or folders of them.
    #[arg(required = true, value_name = "RULES")]
    rules: Vec<PathBuf>,
    /// A saved page; give its address as well.
    #[arg(long, value_name = "PAGE", requires = "url")]
    file: Option<PathBuf>,
    /// The address of the page, or the only one that is read from archives.
    #[arg(long)]
    url: Option<PageUrl>,
    /// WARC or ARC files, or folders of them: a line of JSON for each field of each page to which
    /// rules apply.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "file")]
    from: Vec<PathBuf>,
}

impl Test {
    pub fn run(self, as_json: bool) -> Result<()> {
        let rules = RuleSet::read(&self.rules)?;
        if let (Some(file), Some(url)) = (&self.file, &self.url) {
            let page = StoredPage::of_file(file, url)?;
            match rules.apply(&page.as_page()) {
                Some(applied) => print(&page, &applied, as_json),
                None => bail!("no rule is for {url}: see `urls` in the rules"),
            }
            return Ok(());
        }
        if self.from.is_empty() {
            bail!("name a page with --file and --url, or archives with --from");
        }
        let wanted =
            |url: &PageUrl| rules.covers(url) && self.url.as_ref().is_none_or(|only| only == url);
        ruled::each_page(&self.from, wanted, |page| {
            if let Some(applied) = rules.apply(&page.as_page()) {
                print(&page, &applied, as_json);
            }
            true
        })?;
        Ok(())
    }
}

/// Prints the findings; as JSON a line for each field, as in warc2corpus.
fn print(page: &StoredPage, applied: &Applied, as_json: bool) {
    if as_json {
        for field in &applied.fields {
            // Texts and numbers always serialise.
            let line = serde_json::to_string(field).unwrap_or_default();
            println!("{}", sanitize::json(&line));
        }
        return;
    }
    let mut lines = vec![match &applied.rule {
        Some(rule) => format!("{}  rule {rule}", page.url),
        None => format!("{}  no rule fits its markup and day", page.url),
    }];
    for field in &applied.fields {
        let value = field.value.as_ref().map(ToString::to_string);
        let value = value.unwrap_or_else(|| "nothing".to_owned());
        lines.push(format!("  {:<12} {value}", field.name));
        lines.extend(
            field
                .notes
                .iter()
                .map(|note| format!("  {:<12} note: {note}", "")),
        );
    }
    if !applied.missing.is_empty() {
        lines.push(format!("  missing      {}", applied.missing.join(", ")));
    }
    println!("{}", sanitize::shown(&lines.join("\n")));
}
