//! `spoor archive check FILE... [--json]`

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;
use spoor::archive::check::{self, Checked, Counts};
use spoor::archive::files;
use spoor::archive::gap::RecordSpan;
use spoor::sanitize;

use crate::commands::print_json;
use crate::commands::screen::counted as count;

/// The most gaps and wrong digests that are printed for a file.
const SHOWN: usize = 20;
/// The widest line.
const WIDTH: usize = 80;

/// Everything, for JSON.
#[derive(Serialize)]
struct Report<'c> {
    sound: bool,
    files: &'c [Checked],
    total: Total,
}

/// The sums of all files.
#[derive(Default, Serialize)]
struct Total {
    files: u64,
    records: u64,
    digests: Counts,
    gaps: u64,
}

impl Total {
    fn of(all: &[Checked]) -> Self {
        let mut total = Self::default();
        for checked in all {
            total.files += 1;
            total.records += checked.records;
            total.digests.right += checked.digests.right;
            total.digests.wrong += checked.digests.wrong;
            total.digests.unknown += checked.digests.unknown;
            total.gaps += checked.gap_count;
        }
        total
    }
}

pub fn run(paths: &[PathBuf], json: bool) -> Result<u8> {
    let files = files::listed(paths)?;
    let all = check::check_all(&files).context("the files cannot be read")?;
    let sound = all.iter().all(Checked::is_sound);
    let total = Total::of(&all);
    if json {
        let files = &all;
        print_json(&Report {
            sound,
            files,
            total,
        })?;
    } else {
        for checked in &all {
            println!("{}", sanitize::shown(&table(checked)));
        }
        if all.len() > 1 {
            println!("{}", summary(&total));
        }
    }
    Ok(u8::from(!sound))
}

/// What a file contains and what is wrong with it.
fn table(checked: &Checked) -> String {
    let formats: Vec<&str> = checked.versions.keys().map(String::as_str).collect();
    let formats = match formats.as_slice() {
        [] => String::new(),
        names => format!(" ({})", names.join(", ")),
    };
    let mut lines = vec![
        shortened(&checked.file.display().to_string(), WIDTH),
        format!("  {:<26}{:>16}{formats}", "records", count(checked.records)),
    ];
    for (kind, n) in &checked.kinds {
        lines.push(format!("    {:<24}{:>16}", shortened(kind, 24), count(*n)));
    }
    let Counts {
        right,
        wrong,
        unknown,
    } = checked.digests;
    lines.push(format!("  {:<26}{:>16}", "digests right", count(right)));
    lines.push(format!("  {:<26}{:>16}", "digests wrong", count(wrong)));
    if unknown > 0 {
        lines.push(format!("  {:<26}{:>16}", "digests unknown", count(unknown)));
    }
    lines.push(format!("  {:<26}{:>16}", "gaps", count(checked.gap_count)));
    if !checked.gaps.is_empty() {
        lines.push(format!("    {:>24}{:>16}  {}", "offset", "length", "gap"));
    }
    for gap in checked.gaps.iter().take(SHOWN) {
        let RecordSpan {
            offset,
            length,
            inside,
        } = gap.place;
        let offset = at(offset, inside);
        let why = gap.why.text();
        lines.push(format!("    {offset:>24}{:>16}  {why}", count(length)));
    }
    more(&mut lines, checked.gap_count);
    if !checked.wrong.is_empty() {
        lines.push(format!("    {:>24}  {}", "offset", "wrong digest"));
    }
    for wrong in checked.wrong.iter().take(SHOWN) {
        let offset = at(wrong.offset, wrong.inside);
        let uri = wrong.uri.as_deref().unwrap_or("no address");
        let line = format!("    {offset:>24}  {} {uri}", wrong.kind);
        lines.push(shortened(&line, WIDTH));
    }
    more(&mut lines, checked.digests.wrong);
    if let Some(failed) = &checked.failed {
        lines.push(format!("  not read any further: {failed}"));
    }
    lines.join("\n")
}

fn more(lines: &mut Vec<String>, all: u64) {
    let more = all.saturating_sub(SHOWN as u64);
    if more > 0 {
        lines.push(format!("    {:>24}", format!("and {} more", count(more))));
    }
}

/// An offset in a file, or within the decompressed data there.
fn at(offset: u64, inside: Option<u64>) -> String {
    match inside {
        None => count(offset),
        Some(inside) => format!("{} + {}", count(offset), count(inside)),
    }
}

/// A text in at most this many columns; its end is kept, because texts differ most there.
fn shortened(text: &str, width: usize) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let length = text.chars().count();
    if length <= width {
        return text;
    }
    let half = (width - 3) / 2;
    let begin: String = text.chars().take(half).collect();
    let end: String = text.chars().skip(length - (width - 3 - half)).collect();
    format!("{begin}...{end}")
}

fn summary(total: &Total) -> String {
    format!(
        "{} files, {} records; digests: {} right, {} wrong, {} unknown; {} gaps",
        count(total.files),
        count(total.records),
        count(total.digests.right),
        count(total.digests.wrong),
        count(total.digests.unknown),
        count(total.gaps),
    )
}
