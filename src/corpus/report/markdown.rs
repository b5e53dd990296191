//! The report as Markdown, with the plots as separate files; and its first table for a
//! terminal.

use std::fmt::Write;

use super::sections::{self, Section, Table};
use super::{Figures, Passage, Report, Verdict};
use crate::sanitize;

/// The page.
pub(super) fn page(report: &Report, sections: &[Section]) -> String {
    let names: Vec<String> = report.jobs.iter().map(|j| plain(&j.name)).collect();
    let mut out = format!(
        "# Report: {}\n\nRead at {}.\n",
        names.join(", "),
        report.time
    );
    for job in &report.jobs {
        if report.jobs.len() > 1 {
            out.push_str(&format!("\n## {}\n", plain(&job.name)));
        }
        for line in lead(job) {
            out.push_str(&format!("\n{}\n", plain(&line)));
        }
        for Passage {
            url, title, text, ..
        } in &job.verdict.passages
        {
            let from = plain(title.as_deref().unwrap_or(url));
            out.push_str(&format!("\n> {}\n>\n> {from}\n", plain(text)));
        }
    }
    out.push_str("\n## Details\n");
    for section in sections {
        out.push_str(&format!("\n### {}\n", section.title));
        for text in &section.text {
            out.push_str(&format!("\n{}\n", plain(text)));
        }
        for figure in &section.figures {
            let caption = plain(&figure.caption);
            out.push_str(&format!("\n![{caption}]({})\n\n{caption}\n", figure.file));
        }
        for table in &section.tables {
            out.push('\n');
            push(&mut out, table);
        }
    }
    out
}

/// The results of a job, in lines.
fn lead(job: &Figures) -> Vec<String> {
    let Verdict {
        sentence,
        documents,
        pictures,
        ..
    } = &job.verdict;
    let mut lines = vec![sentence.clone()];
    lines.extend(job.gain());
    let text = match documents.count {
        0 => String::new(),
        n => format!(
            ", {} documents with {} words",
            sections::count(n),
            sections::count(documents.words)
        ),
    };
    let with = pictures.iter().filter(|p| p.words.is_some()).count();
    let shown = match pictures.len() {
        0 => String::new(),
        n => format!(" ({with} of the best {n} with a caption or another text of their own)"),
    };
    lines.push(format!(
        "{} pages of {} sites{text}, {} images{shown}.",
        sections::count(job.pages),
        sections::count(job.hosts),
        sections::count(job.images)
    ));
    lines.extend(job.manners());
    lines
}

fn push(out: &mut String, table: &Table) {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|c| plain(c)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    out.push_str(&line(&table.head));
    out.push_str("| --- |");
    out.push_str(&" ---: |".repeat(table.head.len().saturating_sub(1)));
    out.push('\n');
    table.rows.iter().for_each(|row| out.push_str(&line(row)));
}

/// Text escaped for Markdown: marks are escaped (CommonMark section 2.4), and automatic
/// links of extensions are prevented.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in sanitize::shown(text).chars() {
        match c {
            '\n' | '\r' => plain.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '&' | '~' | '!' | '@'
            | '$' => {
                plain.push('\\');
                plain.push(c);
            }
            _ => plain.push(c),
        }
    }
    plain.replace("://", "\\://").replace("www.", "www\\.")
}

/// A table with columns of equal width, the first to the left and the others to the right.
pub(in crate::corpus) fn on_terminal(table: &Table) -> String {
    let mut out = String::new();
    let rows = std::iter::once(&table.head).chain(&table.rows);
    let width = |n: usize| {
        let cells = rows.clone().filter_map(move |row| row.get(n));
        cells.map(|c| c.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    for row in rows.clone() {
        for (n, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = sanitize::shown(cell);
            // Writing into a string does not fail.
            let _ok = match n {
                0 => write!(out, "{cell:<width$}"),
                _ => write!(out, "  {cell:>width$}"),
            };
        }
        out.push('\n');
    }
    out
}

impl Report {
    /// The results and the first table, for a terminal.
    pub fn summary(&self) -> String {
        let mut out = String::new();
        for job in &self.jobs {
            let name = match self.jobs.len() {
                1 => String::new(),
                _ => format!("{}: ", job.name),
            };
            for (n, line) in lead(job).iter().enumerate() {
                let name = if n == 0 { name.as_str() } else { "" };
                out.push_str(&format!("{name}{}\n", sanitize::shown(line)));
            }
            out.push('\n');
        }
        for table in sections::summary(self) {
            out.push_str(&on_terminal(&table));
        }
        out
    }
}
