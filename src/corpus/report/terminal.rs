//! The results of a report, and tables, for a terminal.

use std::fmt::Write;

use super::sections::{self, Table};
use super::{Figures, JobVerdict, Report};
use crate::crawl::figures::{Counted, count};
use crate::sanitize;

/// The results of a job, in lines.
fn lead(job: &Figures) -> Vec<String> {
    let JobVerdict {
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
            count(n),
            count(documents.words)
        ),
    };
    let with = pictures.iter().filter(|p| p.words.is_some()).count();
    let shown = match pictures.len() {
        0 => String::new(),
        n => format!(" ({with} of the best {n} with a caption or another text of their own)"),
    };
    lines.push(format!(
        "{} pages of {} sites{text}, {} images{shown}.",
        count(job.log.totals.pages),
        count(job.log.hosts),
        count(job.log.totals.images)
    ));
    lines.extend(job.manners());
    lines
}

/// Counted names with shares; empty where nothing was counted. Shares have four digits, as the
/// Common Crawl study gives them.
pub(crate) fn shares(counted: &Counted, name: &str) -> String {
    let all = counted.top.iter().map(|(_, n)| n).sum::<u64>() + counted.others;
    if all == 0 {
        return String::new();
    }
    let row = |name: &str, n: u64| {
        let name: String = name.chars().take(50).collect();
        vec![name, count(n), share(n, all)]
    };
    let top = counted.top.iter();
    let mut rows: Vec<_> = top.map(|(name, n)| row(name, *n)).collect();
    if counted.others > 0 {
        rows.push(row("others", counted.others));
    }
    let head = [name, "number", "share"].map(str::to_owned).to_vec();
    on_terminal(&Table { head, rows })
}

/// A share with four digits; 0 of nothing.
fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "0.0000".to_owned(),
        whole => format!("{:.4}", part as f64 / whole as f64),
    }
}

/// A table with columns of equal width, the first to the left and the others to the right.
pub(crate) fn on_terminal(table: &Table) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The published shares of the study of the Common Crawl of 2012. Its rows of encodings
    /// add up to 3,827,166,288, but its shares are of a total of about 3.829 thousand
    /// millions, which is used here.
    #[test]
    fn published_shares_follow_from_published_counts() {
        const ALL: u64 = 3_829_000_000;
        let encodings = [
            ("utf-8", 1_866_333_314, "0.4874"),
            ("unknown", 1_647_477_248, "0.4303"),
            ("iso-8859-1", 229_671_038, "0.0600"),
            ("windows-1251", 26_798_707, "0.0070"),
            ("iso-8859-2", 10_088_397, "0.0026"),
            ("iso-8859-15", 8_605_343, "0.0022"),
            ("windows-1256", 5_454_253, "0.0014"),
            ("shift-jis", 5_289_261, "0.0014"),
            ("windows-1252", 5_173_227, "0.0014"),
            ("euc-jp", 4_201_400, "0.0011"),
            ("others", 18_074_100, "0.0047"),
        ];
        let types = [
            ("text/html", 3_532_930_141, "0.9227"),
            ("application/pdf", 92_710_175, "0.0242"),
            ("text/xml", 80_184_383, "0.0209"),
            ("text/css", 22_872_511, "0.0060"),
            ("application/x-javascript", 21_198_040, "0.0055"),
            ("image/jpeg", 14_116_839, "0.0037"),
            ("application/javascript", 11_548_630, "0.0030"),
            ("text/plain", 10_713_438, "0.0028"),
            ("application/msword", 6_648_861, "0.0017"),
            ("application/xml", 4_999_123, "0.0013"),
            ("application/rss+xml", 4_200_583, "0.0011"),
        ];
        for (name, count, expected) in encodings.into_iter().chain(types) {
            assert_eq!(share(count, ALL), expected, "{name}");
        }
        let sum: u64 = encodings.iter().map(|(_, count, _)| count).sum();
        assert_eq!(sum, 3_827_166_288);
        assert_eq!(share(1_866_333_314, sum), "0.4877");
        // PDF among the pages of universities, and among the news.
        assert_eq!(share(577_660, 3_838_819), "0.1505");
        assert_eq!(share(986, 578_482), "0.0017");
        assert_eq!(share(0, 0), "0.0000");
    }
}
