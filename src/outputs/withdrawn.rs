//! Pages whose publishers have forbidden, since an earlier visit, what was permitted then: one line
//! of JSON per visit in `logs/withdrawn.jsonl`. What was kept before remains in the files, and
//! readers of these leave it out.

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::output::{Form, Output};
use super::rows::{self, Table};
use super::{OutputError, Row};
use crate::page::{PROHIBITIONS, TaskKind, Use};
use crate::sanitize;

/// One line for each visit after the first that forbids something.
pub(super) struct WithdrawnLines;

#[derive(Serialize)]
struct WithdrawnLine<'a> {
    time: &'a str,
    kind: TaskKind,
    url: &'a str,
    forbidden: &'a [&'a str],
}

impl Output for WithdrawnLines {
    fn name(&self) -> &'static str {
        "withdrawn"
    }

    fn form(&self) -> Form {
        Form::Lines(Table::Withdrawn.name())
    }

    fn is_optional(&self) -> bool {
        true
    }

    fn is_stamped_empty(&self) -> bool {
        false
    }

    fn of_task(&self, task: &Row<'_>) -> Option<String> {
        let forbidden = [task.forbidden, task.withdrawn].concat();
        // Status 304 refers to an earlier visit, even if the page is read again.
        let is_later = task.changed.is_some() || task.status == Some(304);
        if task.kind != TaskKind::Page || forbidden.is_empty() || !is_later {
            return None;
        }
        let line = WithdrawnLine {
            time: task.time,
            kind: task.kind,
            url: task.url,
            forbidden: &forbidden,
        };
        let line = serde_json::to_string(&line).ok()?;
        Some(format!("{}\n", sanitize::json(&line)))
    }
}

/// The pages of a job whose earlier text is no longer to be used.
#[derive(Debug, Clone, Default)]
pub struct Withdrawn(HashMap<String, Vec<WithdrawnPage>>);

/// A line of a page.
#[derive(Debug, Clone, Deserialize)]
struct WithdrawnPage {
    time: String,
    url: String,
    forbidden: Vec<String>,
}

impl Withdrawn {
    /// The pages of a job.
    ///
    /// # Errors
    ///
    /// [`OutputError::Io`] names the file.
    pub fn of(folder: &Path) -> Result<Self, OutputError> {
        let mut all = HashMap::new();
        if !Table::Withdrawn.is_there(folder) {
            return Ok(Self(all));
        }
        rows::each_line(folder, Table::Withdrawn, rows::MAX_ROW, |row| {
            let line = row.bytes.unwrap_or_default();
            if let Ok(page) = serde_json::from_slice::<WithdrawnPage>(line) {
                // The latest line with the same statements is enough. Those of several machines may be
                // in any order.
                let of_page: &mut Vec<WithdrawnPage> = all.entry(page.url.clone()).or_default();
                let mut known = of_page.iter_mut();
                match known.find(|known| known.forbidden == page.forbidden) {
                    Some(known) => known.time = page.time.max(std::mem::take(&mut known.time)),
                    None => of_page.push(page),
                }
            }
        })?;
        Ok(Self(all))
    }

    /// The length of what a job has now, in bytes, to detect more; `None` if there is nothing.
    ///
    /// # Errors
    ///
    /// [`OutputError::Io`] names the file.
    pub fn length(folder: &Path) -> Result<Option<u64>, OutputError> {
        if !Table::Withdrawn.is_there(folder) {
            return Ok(None);
        }
        let parts = rows::parts(folder, Table::Withdrawn)?;
        // A complete part has no length, and its number tells it from the current one.
        let lengths = parts.iter().map(|part| part.length().unwrap_or(1 << 40));
        Ok(Some(lengths.sum()))
    }

    /// The addresses and times (RFC 3339 in UTC) of withdrawals from any of these uses.
    pub fn pages(&self, uses: &[Use]) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.values().flatten();
        let all = all.filter(|page| uses.iter().any(|what| page.forbids(*what).is_some()));
        all.map(|page| (page.url.as_str(), page.time.as_str()))
    }

    /// What forbids this use of the text that was fetched at an address at a time (RFC 3339 in
    /// UTC), since a later visit.
    pub fn by(&self, url: &str, fetched: &str, what: Use) -> Option<String> {
        let mut pages = self.0.get(url)?.iter();
        pages.find_map(|page| {
            let is_later = fetched <= page.time.as_str();
            page.forbids(what).filter(|_| is_later)
        })
    }
}

impl WithdrawnPage {
    fn forbids(&self, what: Use) -> Option<String> {
        let forbids = |words: &&String| {
            let mut rows = PROHIBITIONS.iter();
            rows.any(|row| row.words == **words && row.uses.contains(&what))
        };
        let by = self.forbidden.iter().filter(forbids);
        let by: Vec<&str> = by.map(String::as_str).collect();
        (!by.is_empty()).then(|| by.join(", "))
    }
}
