//! Rules that take fields from the pages of a site.
//!
//! A rule is chosen by the address of a page, then by its markup, then by the day on which the page
//! was fetched. Its fields are found by CSS, XPath or regular expressions, and transformed:
//! numbers, absolute addresses, dates as ISO 8601. Nothing is guessed silently: the result reports
//! a selector that meets several elements instead of one, and a date that can be read in two ways.
//!
//! Values and pure functions; the only files read are rule files and their examples.
//!
//! Reading order: `rule` (what a rule is and what it finds), `pattern` and `transform` with `date`,
//! `part` (values within a text), `tree` and `xpath`; `read` reads rule files, `write` changes them; `check` runs the examples;
//! `propose` makes selectors from example values; `watch` reports when a site has changed.

// Tests choose their own file names.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod check;
mod part;
mod pattern;
mod propose;
mod read;
mod rule;
mod transform;
mod tree;
mod watch;
mod write;
mod xpath;

use jiff::civil::Date;
use std::path::{Path, PathBuf};

pub use check::{Checked, Duplicate, Failure, check, duplicates};
pub use pattern::UrlPattern;
pub use propose::{Proposal, ProposeError, Wanted, propose};
pub use read::parse_fields;
pub use rule::{Applied, Css, Example, Field, FieldResult, Origin, Page, Rule, Source};
pub use transform::{FieldValue, Transform};
pub use tree::Tree;
pub use watch::{
    Against, Change, Event, HostStatus, HostWeek, LoggedPage, RuleWeek, Seen, Totals, Watch,
};
pub use write::{NewExample, NewField, NewRule, WriteError, append, remove, replace_selector};
pub use xpath::{XPath, XPathError};

use crate::address::PageUrl;
use crate::file_errors::FileErrors;

/// All rules of a job or a plan, in their order.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    rules: Vec<Rule>,
}

impl RuleSet {
    /// Reads rule files, and all `*.toml` files of folders in order of name.
    ///
    /// # Errors
    ///
    /// Every problem of every file, with file, line and key.
    pub fn read(paths: &[PathBuf]) -> Result<Self, FileErrors> {
        read::read(paths).map(|rules| Self { rules })
    }

    /// The rules in the text of a file; `file` is its name.
    ///
    /// # Errors
    ///
    /// Every problem, with line and key.
    pub fn parse(text: &str, file: &Path) -> Result<Self, FileErrors> {
        read::parse(text, file).map(|rules| Self { rules })
    }

    /// The rules in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule with this name.
    pub fn get(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.name == name)
    }

    /// The names of the rules that another set lacks, or has with other contents.
    pub fn missing_in(&self, other: &Self) -> Vec<&str> {
        let own = self.rules.iter();
        let own = own.filter(|rule| other.get(&rule.name).is_none_or(|it| !rule.is_as(it)));
        own.map(|rule| rule.name.as_str()).collect()
    }

    /// Everything that determines what the rules find, in one text. It stays the same if rules only
    /// move in their file, or get other examples.
    pub fn print(&self) -> String {
        let rules: Vec<String> = self.rules.iter().map(Rule::print).collect();
        rules.join("\n")
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether any rule is for an address.
    pub fn covers(&self, url: &PageUrl) -> bool {
        self.rules.iter().any(|rule| rule.covers(url))
    }

    /// Whether any rule is for an address on a day.
    pub fn is_for(&self, url: &PageUrl, day: Option<Date>) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.is_valid(day) && rule.covers(url))
    }

    /// The first rule that fits the address, the markup and the day of a page; none for a page with
    /// more than 10,000 sibling elements, which would make selectors slow.
    pub fn choose(&self, page: &Page<'_>) -> Option<&Rule> {
        if tree::is_too_wide(page.html) {
            return None;
        }
        let mut rules = self.rules.iter();
        rules.find(|rule| rule.is_valid(page.day) && rule.covers(page.url) && rule.fits(page.html))
    }

    /// What the rules find on a page; `None` if none covers its address and day.
    pub fn apply(&self, page: &Page<'_>) -> Option<Applied> {
        if !self.is_for(page.url, page.day) {
            return None;
        }
        let chosen = self.choose(page);
        Some(chosen.map_or_else(Applied::default, |rule| rule.apply(page)))
    }
}

#[cfg(test)]
mod tests;

use spoor_values::{address, date, file_errors, fs};
