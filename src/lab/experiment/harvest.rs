//! The results of an experiment: the table and the plots.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::claims::{Beside, Claim};
use super::plan::{ORACLE, Plan, plain};
use spoor::corpus::report::plot::{Plot, PlotLine, Scale};

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Harvest {
    /// The topic.
    pub topic: String,
    /// The name of its seeds.
    pub begin: String,
    /// How many lines of the texts about the topic were used; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// The variant, or `oracle`.
    pub variant: String,
    /// The seed.
    pub seed: u64,
    /// How many pages of the topic were found after each fetch.
    pub curve: Vec<usize>,
    /// Distinct images that these pages of the topic embed.
    pub images: usize,
    /// Its claims at each mark, with the truth; empty for the oracle.
    pub claims: Vec<Claim>,
    /// How long the run took.
    pub seconds: f64,
}

impl Harvest {
    /// Pages of the topic among the first `fetches`; if the run ended earlier, at its end.
    pub fn at(&self, fetches: u64) -> usize {
        let last = usize::try_from(fetches)
            .unwrap_or(usize::MAX)
            .min(self.curve.len());
        last.checked_sub(1)
            .and_then(|i| self.curve.get(i))
            .copied()
            .unwrap_or(0)
    }

    /// The mean over all fetches of the budget of the share of pages of the topic so far:
    /// 1 for a run that fetches nothing else.
    pub fn area(&self, budget: u64) -> f64 {
        let budget = budget.max(1);
        let shares = (1..=budget).map(|n| self.at(n) as f64 / n as f64);
        shares.sum::<f64>() / budget as f64
    }

    /// The run in a line, for display.
    pub fn line(&self) -> String {
        let Self {
            topic,
            begin,
            lines,
            variant,
            seed,
            curve,
            seconds,
            ..
        } = self;
        let found = curve.last().copied().unwrap_or(0);
        let lines = lines.map(|lines| format!(", {lines} lines"));
        format!(
            "{topic}, {begin}, {variant}{}, seed {seed}: {found} of {} in {seconds:.1} s",
            lines.unwrap_or_default(),
            curve.len()
        )
    }
}

/// The results of all runs.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The budget of each run.
    pub fetches: u64,
    /// The numbers of fetches in the table.
    pub marks: Vec<u64>,
    /// The number of lines of all texts about a topic; empty if the plan has no `lines`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub texts: BTreeMap<String, u64>,
    /// The runs in the order of the plan.
    pub runs: Vec<Harvest>,
}

/// The common properties of runs that differ only in their seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group<'a> {
    pub topic: &'a str,
    pub begin: &'a str,
    pub variant: &'a str,
    /// `None` for the full texts.
    pub lines: Option<u64>,
}

impl<'a> Group<'a> {
    fn of(run: &'a Harvest) -> Self {
        Self {
            topic: &run.topic,
            begin: &run.begin,
            variant: &run.variant,
            lines: run.lines,
        }
    }
}

/// Means over the runs of one group.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GroupMeans<'a> {
    pub group: Group<'a>,
    /// At each mark.
    found: Vec<f64>,
    /// With the whole budget.
    pub total: f64,
    area: f64,
    /// As a share of what the oracle found with the whole budget.
    pub share: Option<f64>,
    images: f64,
    /// For the chosen pages and the control sample, at each mark.
    claims: Vec<(Means, Means)>,
}

/// Means of shares over seeds, and the number of pages.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Means {
    pages: f64,
    claimed: Option<f64>,
    range: Option<(f64, f64)>,
    truth: Option<f64>,
}

impl Means {
    /// No share if one of them is missing.
    fn of(shares: &[Beside]) -> Self {
        let count = shares.len().max(1) as f64;
        let mean = |of: &dyn Fn(&Beside) -> Option<f64>| {
            let claimed: Option<Vec<f64>> = shares.iter().map(of).collect();
            claimed
                .filter(|claimed| !claimed.is_empty())
                .map(|claimed| claimed.iter().sum::<f64>() / count)
        };
        Self {
            pages: shares.iter().map(|share| share.pages).sum::<u64>() as f64 / count,
            claimed: mean(&|share| share.claimed),
            range: mean(&|share| Some(share.range?.0)).zip(mean(&|share| Some(share.range?.1))),
            truth: mean(&|share| share.truth),
        }
    }
}

impl Outcome {
    pub(super) fn new(plan: &Plan, texts: BTreeMap<String, u64>, runs: Vec<Harvest>) -> Self {
        Self {
            fetches: plan.fetches,
            marks: plan.marks_within(),
            texts,
            runs,
        }
    }

    /// The groups of runs that differ only in their seed, in order of the plan.
    fn groups(&self) -> Vec<Group<'_>> {
        let mut groups = Vec::new();
        for run in &self.runs {
            let group = Group::of(run);
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }

    fn of(&self, group: Group<'_>) -> Vec<&Harvest> {
        let of_group = |run: &&Harvest| Group::of(run) == group;
        self.runs.iter().filter(of_group).collect()
    }

    pub(super) fn rows(&self) -> Vec<GroupMeans<'_>> {
        let groups = self.groups().into_iter();
        let rows = groups.map(|group| {
            let runs = self.of(group);
            let mean = |of: &dyn Fn(&Harvest) -> f64| {
                runs.iter().map(|run| of(run)).sum::<f64>() / runs.len().max(1) as f64
            };
            // The oracle does not depend on the text.
            let oracle = Group {
                variant: ORACLE,
                lines: None,
                ..group
            };
            let oracle = self.of(oracle).first().map(|o| o.at(self.fetches));
            let total = mean(&|run| run.at(self.fetches) as f64);
            GroupMeans {
                group,
                total,
                found: self
                    .marks
                    .iter()
                    .map(|mark| mean(&|run| run.at(*mark) as f64))
                    .collect(),
                area: mean(&|run| run.area(self.fetches)),
                share: oracle.filter(|o| *o > 0).map(|o| total / o as f64),
                images: mean(&|run| run.images as f64),
                claims: (0..self.marks.len())
                    .map(|mark| {
                        let claims = runs.iter().filter_map(|run| run.claims.get(mark));
                        let claims: Vec<&Claim> = claims.collect();
                        let means = |of: &dyn Fn(&Claim) -> Beside| {
                            Means::of(&claims.iter().map(|claim| of(claim)).collect::<Vec<_>>())
                        };
                        (means(&|claim| claim.chosen), means(&|claim| claim.drawn))
                    })
                    .collect(),
            }
        });
        rows.collect()
    }

    /// The header of the columns that identify the runs of a row.
    fn names_header(&self) -> Vec<String> {
        let names = ["topic", "begin", "variant"].into_iter();
        let lines = self.has_sizes().then_some("lines");
        names.chain(lines).map(str::to_owned).collect()
    }

    fn names(&self, row: &GroupMeans<'_>) -> Vec<String> {
        let group = row.group;
        let names = [group.topic, group.begin, group.variant].map(str::to_owned);
        let lines = self.has_sizes().then(|| size(group.lines));
        names.into_iter().chain(lines).collect()
    }

    fn header(&self) -> Vec<String> {
        let marks = self.marks.iter().map(|mark| format!("at {mark}"));
        let names = self.names_header().into_iter();
        names
            .chain(marks)
            .chain(["area", "of oracle", "images"].map(str::to_owned))
            .collect()
    }

    fn cells(&self, row: &GroupMeans<'_>) -> Vec<String> {
        let found = row.found.iter().map(|found| count(*found));
        let names = self.names(row).into_iter();
        names
            .chain(found)
            .chain([
                format!("{:.3}", row.area),
                percent(row.share),
                count(row.images),
            ])
            .collect()
    }

    /// The header for the claimed and true shares of chosen pages at each mark, and of the
    /// control sample at the last one.
    fn claims_header(&self) -> Vec<String> {
        let marks = self.marks.iter();
        marks
            .flat_map(|mark| [format!("claimed at {mark}"), format!("true at {mark}")])
            .chain(["drawn", "drawn claimed", "drawn true"].map(str::to_owned))
            .collect()
    }

    fn claims_cells(row: &GroupMeans<'_>) -> Vec<String> {
        let percent = |share: Option<f64>| match share {
            Some(share) => format!("{:.0} %", share * 100.0),
            None => "-".to_owned(),
        };
        let claimed = |means: &Means| {
            let range = means.range;
            let range =
                range.map(|(low, high)| format!("{:.0} to {:.0}", low * 100.0, high * 100.0));
            match (means.claimed, range) {
                (None, Some(range)) => format!("{range} %"),
                (share, Some(range)) => format!("{} ({range})", percent(share)),
                (share, None) => percent(share),
            }
        };
        let both = |means: &Means| [claimed(means), percent(means.truth)];
        let chosen = row.claims.iter().flat_map(|(chosen, _)| both(chosen));
        let last = row.claims.last().map(|(_, drawn)| *drawn);
        let drawn = last.unwrap_or_default();
        let [claimed, truth] = both(&drawn);
        chosen.chain([count(drawn.pages), claimed, truth]).collect()
    }

    /// The claims of the crawls and the truth, as a separate table.
    fn claims_table(&self, rows: &[GroupMeans<'_>]) -> Vec<Vec<String>> {
        let header = self.names_header().into_iter();
        let mut table = vec![header.chain(self.claims_header()).collect()];
        let claiming = rows.iter().filter(|row| row.group.variant != ORACLE);
        table.extend(claiming.map(|row| {
            let names = self.names(row).into_iter();
            names.chain(Self::claims_cells(row)).collect()
        }));
        table
    }

    /// Mean shares of the oracle over topics, by beginning and variant, with all of the
    /// texts.
    pub fn means(&self) -> Vec<(String, String, f64)> {
        let rows = self.rows();
        let mut means: Vec<(String, String, f64)> = Vec::new();
        for GroupMeans { group, .. } in rows.iter().filter(|row| row.group.lines.is_none()) {
            let is_known = |(begin, variant, _): &(String, String, f64)| {
                begin == group.begin && variant == group.variant
            };
            if means.iter().any(is_known) {
                continue;
            }
            let same = rows.iter().filter(|other| {
                let topic = other.group.topic;
                other.group == Group { topic, ..*group }
            });
            if let Some(mean) = mean(same.filter_map(|other| other.share)) {
                means.push((group.begin.to_owned(), group.variant.to_owned(), mean));
            }
        }
        means
    }

    /// The table in Markdown, with the means over topics below it, those by lines of text
    /// if the plan has sizes, and the claims with the truth.
    pub fn markdown(&self) -> String {
        let rows = self.rows();
        let mut table = vec![self.header()];
        table.extend(rows.iter().map(|row| self.cells(row)));
        let mut text = markdown_table(&table, 3);
        let means = self.means();
        if !means.is_empty() {
            let mut table = vec![
                ["begin", "variant", "mean of oracle"]
                    .map(str::to_owned)
                    .to_vec(),
            ];
            table.extend(means.into_iter().map(|(begin, variant, mean)| {
                vec![begin, variant, format!("{:.1} %", mean * 100.0)]
            }));
            text.push('\n');
            text.push_str(&markdown_table(&table, 2));
        }
        let by_lines = self.lines_table(&rows);
        if by_lines.len() > 1 {
            text.push_str("\nMean share of the oracle by lines of text:\n\n");
            text.push_str(&markdown_table(&by_lines, 2));
        }
        let claims = self.claims_table(&rows);
        if claims.len() > 1 {
            text.push_str("\nThe share of the pages on topic as each crawl claims it, beside ");
            text.push_str(
                "the truth by the labels; `-` where it says that it cannot tell yet.\n\n",
            );
            text.push_str(&markdown_table(&claims, 3));
        }
        text
    }

    /// The table with tabs between columns.
    pub fn tsv(&self) -> String {
        let rows = self.rows();
        let header = self.header().into_iter().chain(self.claims_header());
        let cells = rows.iter().map(|row| {
            let cells = self.cells(row).into_iter();
            cells.chain(Self::claims_cells(row)).collect()
        });
        let lines = std::iter::once(header.collect::<Vec<_>>()).chain(cells);
        lines.fold(String::new(), |mut text, cells| {
            text.push_str(&cells.join("\t"));
            text.push('\n');
            text
        })
    }

    /// All runs with their curves.
    pub fn json(&self) -> String {
        // Names and numbers always serialise.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Plots by file name: for each topic and beginning the results over time with all of
    /// the texts, and over lines of text if the plan has sizes.
    pub fn plots(&self) -> Vec<(String, String)> {
        let mut groups = self.groups();
        groups.retain(|group| group.lines.is_none());
        let mut scenes: Vec<(&str, &str)> = Vec::new();
        for group in &groups {
            if !scenes.contains(&(group.topic, group.begin)) {
                scenes.push((group.topic, group.begin));
            }
        }
        let harvests = scenes.into_iter().filter_map(|(topic, begin)| {
            let of_scene = |group: &&Group<'_>| (group.topic, group.begin) == (topic, begin);
            let lines = groups.iter().filter(of_scene).map(|group| PlotLine {
                name: group.variant.to_owned(),
                points: self.mean_curve(*group),
            });
            let plot = Plot {
                x: "Pages fetched".to_owned(),
                y: format!("Pages of the topic {topic}, {begin}"),
                scale: Scale::Linear,
                lines: lines.collect(),
            };
            let name = plain(&format!("harvest-{topic}-{begin}"));
            Some((name, plot.svg()?))
        });
        harvests.chain(self.lines_plots()).collect()
    }

    fn mean_curve(&self, group: Group<'_>) -> Vec<(f64, f64)> {
        let runs = self.of(group);
        let longest = runs.iter().map(|run| run.curve.len()).max().unwrap_or(0) as u64;
        let mean = |n: u64| {
            let sum: usize = runs.iter().map(|run| run.at(n)).sum();
            sum as f64 / runs.len().max(1) as f64
        };
        (0..=longest).map(|n| (n as f64, mean(n))).collect()
    }
}

/// The mean of all values; `None` if there is none.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// An amount of text, for a table.
pub(super) fn size(lines: Option<u64>) -> String {
    lines.map_or_else(|| "all".to_owned(), |lines| lines.to_string())
}

/// A share of the oracle, for a table.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |s| format!("{:.1} %", s * 100.0))
}

/// A mean of counts, without decimals if possible.
fn count(mean: f64) -> String {
    if mean.fract() == 0.0 {
        format!("{mean:.0}")
    } else {
        format!("{mean:.1}")
    }
}

/// A table whose first `left` columns are text and whose others are numbers.
fn markdown_table(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            // Writing to a string does not fail.
            let _written = if column < left {
                write!(text, "| {cell:<width$} ")
            } else {
                write!(text, "| {cell:>width$} ")
            };
        }
        text.push_str("|\n");
        if number == 0 {
            for column in 0..columns {
                let line = "-".repeat(width(column));
                text.push_str(&if column < left {
                    format!("| {line} ")
                } else {
                    format!("| {}: ", line.get(1..).unwrap_or_default())
                });
            }
            text.push_str("|\n");
        }
    }
    text
}
