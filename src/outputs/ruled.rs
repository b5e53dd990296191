//! The rules of a job at work, from the log of its crawl.

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;

use super::{OutputError, Row, Table, each_line};
use crate::address::PageUrl;
use crate::page::TaskKind;
use crate::rules::{Applied, Event, LoggedPage, RuleSet, Seen, Watch};

/// The longest row of the log that is read, in bytes.
const MAX_ROW: usize = 16 << 20;

/// The parts of a row that are read.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    time: Cow<'a, str>,
    kind: TaskKind,
    #[serde(borrow)]
    url: Cow<'a, str>,
    status: Option<u16>,
    reason: Option<String>,
    rules: Option<Applied>,
}

/// Watches the log of a job from its beginning; `told` gets what has changed.
///
/// # Errors
///
/// [`OutputError`] if the log cannot be read. Lines that are no rows are passed over.
pub fn watched(
    folder: &Path,
    rules: &RuleSet,
    mut told: impl FnMut(Event),
) -> Result<Watch, OutputError> {
    let mut watch = Watch::default();
    each_line(folder, Table::Log, MAX_ROW, |line| {
        let line = line.bytes.unwrap_or_default();
        let Ok(row) = serde_json::from_slice::<Line<'_>>(line) else {
            return;
        };
        let page = Page {
            kind: row.kind,
            time: &row.time,
            url: &row.url,
            status: row.status,
            reason: row.reason.as_deref(),
            applied: row.rules.as_ref(),
        };
        page.show(&mut watch, rules).into_iter().for_each(&mut told);
    })?;
    Ok(watch)
}

/// Shows a finished task to a watch; returns what has changed by it.
pub fn show(watch: &mut Watch, rules: &RuleSet, row: &Row<'_>) -> Vec<Event> {
    let page = Page {
        kind: row.kind,
        time: row.time,
        url: row.url,
        status: row.status,
        reason: row.reason,
        applied: row.rules,
    };
    page.show(watch, rules)
}

struct Page<'a> {
    kind: TaskKind,
    time: &'a str,
    url: &'a str,
    status: Option<u16>,
    reason: Option<&'a str>,
    applied: Option<&'a Applied>,
}

impl Page<'_> {
    fn show(&self, watch: &mut Watch, rules: &RuleSet) -> Vec<Event> {
        if self.kind != TaskKind::Page {
            return Vec::new();
        }
        let Ok(url) = PageUrl::parse(self.url) else {
            return Vec::new();
        };
        let host = url.host_key();
        let page = LoggedPage {
            time: self.time,
            url: self.url,
            host: host.as_str(),
            status: self.status,
            reason: self.reason,
            applied: self.applied,
        };
        let is_covered = self.applied.is_some() || rules.covers(&url);
        watch.see(&Seen::of(&page, is_covered))
    }
}
