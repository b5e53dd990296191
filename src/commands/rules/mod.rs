//! `spoor rules add|check|test|update|remove|report`

mod add;
mod check;
mod report;
mod test;
mod update;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use spoor::corpus::ruled;
use spoor::rules::{self, RuleSet};

/// Write, check and watch rules that take fields from pages.
#[derive(Debug, Args)]
pub struct Rules {
    #[command(subcommand)]
    what: RulesCommand,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// The operation.
#[derive(Debug, Subcommand)]
enum RulesCommand {
    /// Propose selectors from example values on one or two pages, and add a rule with them
    /// and these examples to a file.
    Add(add::Add),
    /// Check rule files: keys, selectors, duplicates, and whether each rule finds the values
    /// of its examples. The exit code is 1 if it does not.
    Check {
        /// Rule files, or folders of them.
        #[arg(required = true, value_name = "RULES")]
        rules: Vec<PathBuf>,
        /// Only the examples of this rule.
        #[arg(long, value_name = "NAME")]
        rule: Option<String>,
    },
    /// Print what rules find on a saved page, or on the pages of archives.
    Test(test::Test),
    /// Show what another selector would change on stored pages; with --write, change it.
    Update(update::Update),
    /// Remove a rule from a file.
    Remove {
        /// The rule file.
        file: PathBuf,
        /// The name of the rule.
        name: String,
    },
    /// Show how the rules of a job, or rules over archives, have worked on each host week by
    /// week, and what has changed.
    Report(report::Report),
}

impl Rules {
    /// Returns the exit code.
    pub fn run(self) -> Result<u8> {
        let done = match self.what {
            RulesCommand::Add(add) => add.run(self.json),
            RulesCommand::Check { rules, rule } => {
                return check::run(&rules, rule.as_deref(), self.json);
            }
            RulesCommand::Test(test) => test.run(self.json),
            RulesCommand::Update(update) => update.run(self.json),
            RulesCommand::Remove { file, name } => remove(&file, &name),
            RulesCommand::Report(report) => report.run(self.json),
        };
        done.map(|()| 0)
    }
}

/// The text of a rule file.
fn read(path: &Path) -> Result<String> {
    spoor::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// Writes a rule file atomically.
fn write(path: &Path, text: &str) -> Result<()> {
    Ok(ruled::save(path, text)?)
}

/// The pages of its examples remain, because other rules may use them too.
fn remove(file: &Path, name: &str) -> Result<()> {
    let text = read(file)?;
    let changed = rules::remove(&text, name);
    let changed = changed.with_context(|| file.display().to_string())?;
    write(file, &changed)?;
    println!("{}: without the rule `{name}`", file.display());
    // The removed rule may have been unreadable; then its pages are unknown.
    let before = RuleSet::parse(&text, file).unwrap_or_default();
    let examples = before.get(name).map(|rule| rule.examples.as_slice());
    for example in examples.unwrap_or_default() {
        println!(
            "  its page {} stays; delete it if you like",
            example.page.display()
        );
    }
    Ok(())
}
