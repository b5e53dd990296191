//! `spoor rules add FILE --name NAME --page PAGE --url URL --field NAME=VALUE ...`

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::json;
use spoor::address::PageUrl;
use spoor::corpus::ruled::{self, StoredPage};
use spoor::rules::{
    self, FieldValue, NewExample, NewField, NewRule, Page, Proposal, RuleSet, Wanted,
};
use spoor::sanitize;

use super::super::print_json;

/// Propose selectors and add a rule.
#[derive(Debug, Args)]
#[command(after_help = "\
The first value of a field is that on the first page, the second that on the second:

  spoor rules add rules/news.toml --name news --urls 'example.org/news/*' \\
      --page a.html --url https://example.org/news/a \\
      --page b.html --url https://example.org/news/b \\
      --field 'title=First title' --field 'title=Second title' \\
      --field date=2018-02-14 --field date=2018-03-01 \\
      --field 'text=First words ... last words' --field 'text=Other words ... the end'

A date is given as ISO 8601, however the page writes it; `...` stands for a longer text. A value that
is a part of an element is found by the words around it.")]
pub struct Add {
    /// The rule file; it is created if it does not exist.
    file: PathBuf,
    /// The name of the rule.
    #[arg(long)]
    name: String,
    /// A pattern of the addresses to which the rule applies; by default the host of the pages.
    #[arg(long, value_name = "PATTERN")]
    urls: Vec<String>,
    /// A saved page, one or two of them; it is copied beside the rule file as an example.
    #[arg(long, value_name = "FILE")]
    page: Vec<PathBuf>,
    /// The address of each page.
    #[arg(long, required = true)]
    url: Vec<PageUrl>,
    /// Take the pages from these WARC or ARC files instead.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "page")]
    from: Vec<PathBuf>,
    /// A field and its value on a page.
    #[arg(long, required = true, value_name = "NAME=VALUE")]
    field: Vec<String>,
    /// Show the proposals and write nothing.
    #[arg(long)]
    dry_run: bool,
}

/// A field with the values on the pages.
struct Example {
    name: String,
    values: Vec<String>,
}

impl Add {
    pub fn run(self, as_json: bool) -> Result<()> {
        let pages = self.pages()?;
        let examples = self.examples(pages.len())?;
        let mut all: Vec<(String, Vec<Proposal>)> = Vec::new();
        for example in &examples {
            let wanted: Vec<Wanted<'_>> = pages
                .iter()
                .zip(&example.values)
                .map(|(page, value)| Wanted {
                    html: &page.html,
                    value,
                })
                .collect();
            let proposals = rules::propose(&wanted);
            let proposals = proposals.with_context(|| format!("the field `{}`", example.name))?;
            all.push((example.name.clone(), proposals));
        }
        let names = self.free_names(pages.len());
        let rule = self.rule(&pages, &all, &names)?;
        let text = if self.file.exists() {
            super::read(&self.file)?
        } else {
            String::new()
        };
        let text = rules::append(&text, &rule);
        let text = text.with_context(|| self.file.display().to_string())?;
        if !self.dry_run {
            self.keep(&pages, &names)?;
            super::write(&self.file, &text)?;
        }
        if as_json {
            let fields = all.iter().map(|(name, proposals)| {
                let proposals = proposals.iter().map(|p| {
                    json!({
                        "css": p.css, "attribute": p.attribute, "date": p.is_date,
                        "part": p.part, "single": p.is_single,
                    })
                });
                json!({"name": name, "proposals": proposals.collect::<Vec<_>>()})
            });
            return print_json(&json!({
                "rule": self.name, "fields": fields.collect::<Vec<_>>(),
                "written": !self.dry_run,
            }));
        }
        println!("{}", sanitize::shown(&self.shown(&all)));
        let rules = RuleSet::parse(&text, &self.file)?;
        for twice in rules::duplicates(&rules) {
            if twice.second == self.name {
                eprintln!("warning: {twice}");
            }
        }
        Ok(())
    }

    /// The pages, from files or from archives.
    fn pages(&self) -> Result<Vec<StoredPage>> {
        ensure!(self.url.len() <= 2, "one or two pages are enough");
        if self.from.is_empty() {
            ensure!(
                self.page.len() == self.url.len(),
                "each --page needs its --url: {} pages and {} addresses were given",
                self.page.len(),
                self.url.len()
            );
            let pages = self.page.iter().zip(&self.url);
            let pages = pages.map(|(file, url)| Ok(StoredPage::of_file(file, url)?));
            return pages.collect();
        }
        let mut found: Vec<Option<StoredPage>> = self.url.iter().map(|_| None).collect();
        ruled::each_page(
            &self.from,
            |url| self.url.contains(url),
            |page| {
                let at = self.url.iter().position(|url| *url == page.url);
                if let Some(slot) = at.and_then(|at| found.get_mut(at)) {
                    *slot = Some(page);
                }
                true
            },
        )?;
        let pages = found.into_iter().zip(&self.url);
        let pages =
            pages.map(|(page, url)| page.with_context(|| format!("{url}: not stored there")));
        pages.collect()
    }

    /// The fields with a value for each page.
    fn examples(&self, pages: usize) -> Result<Vec<Example>> {
        let mut all: Vec<Example> = Vec::new();
        for given in &self.field {
            let Some((name, value)) = given.split_once('=') else {
                bail!("--field {given}: write it as NAME=VALUE");
            };
            match all.iter_mut().find(|known| known.name == name) {
                Some(known) => known.values.push(value.to_owned()),
                None => all.push(Example {
                    name: name.to_owned(),
                    values: vec![value.to_owned()],
                }),
            }
        }
        for example in &all {
            ensure!(
                example.values.len() == pages,
                "the field `{}` has {} values for {pages} pages; give one for each, in their order",
                example.name,
                example.values.len()
            );
        }
        Ok(all)
    }

    /// The rule of the best proposals, with the values that it finds as its examples.
    fn rule(
        &self,
        pages: &[StoredPage],
        all: &[(String, Vec<Proposal>)],
        names: &[String],
    ) -> Result<NewRule> {
        let mut urls = self.urls.clone();
        for page in pages.iter().filter(|_| self.urls.is_empty()) {
            let pattern = format!("{}/*", page.url.host());
            if !urls.contains(&pattern) {
                urls.push(pattern);
            }
        }
        let fields = all.iter().filter_map(|(name, proposals)| {
            let best = proposals.first()?;
            Some(NewField {
                name: name.clone(),
                css: best.css.clone(),
                attribute: best.attribute.clone(),
                is_date: best.is_date,
                part: best.part.clone(),
                required: true,
            })
        });
        let mut rule = NewRule {
            name: self.name.clone(),
            urls,
            fields: fields.collect(),
            examples: Vec::new(),
        };
        let text = rules::append("", &rule)?;
        let made = RuleSet::parse(&text, &self.file)?;
        let made = made
            .get(&self.name)
            .context("the new rule cannot be read")?;
        for (page, name) in pages.iter().zip(names) {
            let applied = made.apply(&Page {
                day: None,
                ..page.as_page()
            });
            let values = applied.fields.into_iter();
            let values: Vec<(String, FieldValue)> = values
                .filter_map(|field| Some((field.name, field.value?)))
                .collect();
            rule.examples.push(NewExample {
                page: name.clone(),
                url: page.url.as_str().to_owned(),
                values,
            });
        }
        Ok(rule)
    }

    /// The path of the examples from the folder of the rule file, which other rule files may also
    /// use.
    fn free_names(&self, count: usize) -> Vec<String> {
        let folder = self.file.parent().unwrap_or(Path::new(""));
        let names = (1..).map(|nth| format!("pages/{}-{nth}.html", self.name));
        names
            .filter(|name| !folder.join(name).exists())
            .take(count)
            .collect()
    }

    /// Copies the pages beside the rule file, in UTF-8.
    fn keep(&self, pages: &[StoredPage], names: &[String]) -> Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new(""));
        let pages_folder = folder.join("pages");
        std::fs::create_dir_all(&pages_folder)
            .with_context(|| format!("making {}", pages_folder.display()))?;
        for (page, name) in pages.iter().zip(names) {
            // The byte order mark says that it is UTF-8, and overrides the declaration in the page.
            let text = format!("\u{feff}{}", page.markup.trim_start_matches('\u{feff}'));
            super::write(&folder.join(name), &text)?;
        }
        Ok(())
    }

    fn shown(&self, all: &[(String, Vec<Proposal>)]) -> String {
        let mut lines = Vec::new();
        for (name, proposals) in all {
            for (nth, proposal) in proposals.iter().enumerate() {
                let name = if nth == 0 { name.as_str() } else { "  or" };
                let attribute = match &proposal.attribute {
                    Some(attribute) => format!("  attribute {attribute}"),
                    None => String::new(),
                };
                let date = match (&proposal.part, proposal.is_date) {
                    (Some(part), _) => format!("  the part {part}"),
                    (None, true) => "  as a date".to_owned(),
                    (None, false) => String::new(),
                };
                let single = if proposal.is_single {
                    ""
                } else {
                    "  (meets more than one element; the first is right)"
                };
                lines.push(format!(
                    "{name:<12} {}{attribute}{date}{single}",
                    proposal.css
                ));
            }
        }
        lines.push(if self.dry_run {
            "nothing is written".to_owned()
        } else {
            format!(
                "{}: the rule `{}` was added; `spoor rules check {}` runs its examples",
                self.file.display(),
                self.name,
                self.file.display()
            )
        });
        lines.join("\n")
    }
}
