//! The plan of an experiment: a TOML file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use toml::{Table, Value};

use super::ExperimentError;
use spoor::config::Config;
use spoor::frontier::{CellCount, MOST_CELLS, USUAL_CELLS};
use spoor::fs::IoError;

/// The name of the crawl that knows the labels.
pub(super) const ORACLE: &str = "oracle";

/// The base of every job of an experiment: no delays, no files that do not affect the
/// results, and no randomness except as planned.
const BASE: &str = r#"
[politeness]
min_delay = "0s"
delay_factor = 0.0
address_delay = "0s"
[control_sample]
share = 0.0
[consent]
tdmrep = false
[images]
min_width = 1
min_height = 1
"#;

/// A plan. Paths in it are relative to the working directory.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The file it was read from.
    #[serde(skip)]
    pub path: PathBuf,
    /// The stored web: a folder as `spoor-lab serve` takes, a WARC or ARC file, or a
    /// folder of such files.
    pub web: PathBuf,
    /// The labels, a table of url and topics.
    pub labels: PathBuf,
    /// Where models, table and plots are written.
    #[serde(default = "out")]
    pub out: PathBuf,
    /// The budget of each run, in page fetches.
    #[serde(default = "fetches")]
    pub fetches: u64,
    /// The numbers of fetches in the table.
    #[serde(default = "marks")]
    pub marks: Vec<u64>,
    /// The seeds with which each variant is run.
    #[serde(default = "seeds")]
    pub seeds: Vec<u64>,
    /// Sizes of the texts about a topic: each variant is run once with this many of their first
    /// lines, and once with all. Ascending; empty for only the full texts.
    #[serde(default)]
    pub lines: Vec<u64>,
    /// How many requests a crawl has open at once. The oracle has one, and a variant that is
    /// divided among machines has one per machine.
    #[serde(default = "one")]
    pub concurrency: usize,
    /// Whether to run the oracle as well.
    #[serde(default = "yes")]
    pub oracle: bool,
    /// Keys of a job file for all variants.
    #[serde(default)]
    pub job: Table,
    /// The topics.
    pub topic: Vec<TopicPlan>,
    /// The settings to compare.
    pub variant: Vec<Variant>,
}

/// A topic of a plan.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicPlan {
    /// Its name in the labels.
    pub name: String,
    /// Texts about it.
    pub positive: Vec<String>,
    /// Texts about anything else; by default the built-in words.
    #[serde(default)]
    pub neutral: Option<Vec<String>>,
    /// The starting points of crawls: files of seed addresses, by name.
    pub begin: BTreeMap<String, PathBuf>,
}

/// One of the compared settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name in tables and plots.
    pub name: String,
    /// Keys of a job file.
    #[serde(default)]
    pub job: Table,
    /// How many machines share the crawl; by default it is not divided.
    #[serde(default)]
    pub machines: Option<u16>,
    /// The number of cells for its hosts if it is divided; by default 64.
    #[serde(default)]
    pub cells: Option<u16>,
    /// Gives each machine its own store; links to the cells of others wait for the time that a
    /// machine takes for this many pages. By default they arrive at once.
    #[serde(default)]
    pub linger: Option<u32>,
}

/// The number of machines among which a crawl is divided, and the number of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Division {
    pub machines: u16,
    pub cells: CellCount,
    pub linger: Option<u32>,
}

impl Variant {
    /// How its crawl is divided; `None` if it is not.
    ///
    /// # Errors
    /// The problem with the numbers.
    pub(super) fn division(&self) -> Result<Option<Division>, String> {
        let linger = self.linger;
        if self.machines.is_none() && self.cells.is_none() && linger.is_none() {
            return Ok(None);
        }
        let machines = self.machines.unwrap_or(1);
        let cells = self.cells.unwrap_or(USUAL_CELLS);
        let valid = CellCount::new(cells).filter(|_| (1..=cells).contains(&machines));
        let why = || {
            format!(
                "the variant `{}` has {machines} machines and {cells} cells; `cells` is from 1 to \
                 {MOST_CELLS}, and `machines` from 1 to the number of cells",
                self.name
            )
        };
        let cells = valid.ok_or_else(why)?;
        Ok(Some(Division {
            machines,
            cells,
            linger,
        }))
    }
}

fn out() -> PathBuf {
    PathBuf::from("experiment")
}

fn fetches() -> u64 {
    500
}

fn marks() -> Vec<u64> {
    vec![100, 250, 500, 1_000]
}

fn seeds() -> Vec<u64> {
    vec![1]
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// [`ExperimentError::Io`] and [`ExperimentError::Plan`] name the file and, for a
    /// syntax error, line and column.
    pub fn read(path: &Path) -> Result<Self, ExperimentError> {
        let text = spoor::fs::read_to_string(path).map_err(IoError::at(path, "reading"))?;
        Self::parse(&text, path)
    }

    /// Checks the text of a plan.
    ///
    /// # Errors
    /// [`ExperimentError::Plan`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ExperimentError> {
        let wrong = |why: String| ExperimentError::Plan {
            path: path.to_owned(),
            why,
        };
        let mut plan: Self = toml::from_str(text).map_err(|e| wrong(e.to_string()))?;
        path.clone_into(&mut plan.path);
        let names: Vec<&str> = plan.variant.iter().map(|v| v.name.as_str()).collect();
        for (lacking, what) in [
            (plan.topic.is_empty(), "[[topic]]"),
            (plan.variant.is_empty(), "[[variant]]"),
            (plan.seeds.is_empty(), "seeds"),
            (plan.marks.is_empty(), "marks"),
        ] {
            if lacking {
                return Err(wrong(format!("`{what}` is empty; name at least one")));
            }
        }
        for (is_zero, key) in [
            (plan.fetches == 0, "fetches"),
            (plan.concurrency == 0, "concurrency"),
        ] {
            if is_zero {
                return Err(wrong(format!("`{key}` must be at least 1")));
            }
        }
        for (n, name) in names.iter().enumerate() {
            if *name == ORACLE || names.iter().skip(n + 1).any(|o| o == name) {
                return Err(wrong(format!(
                    "two variants are called `{name}`; give each a name of its own"
                )));
            }
        }
        for variant in &plan.variant {
            let division = variant.division().map_err(wrong)?;
            if division.is_some() && plan.concurrency > 1 {
                return Err(wrong(format!(
                    "the variant `{}` is divided among machines, each of which has one request \
                     open; leave out `concurrency`, or compare such variants in a plan of their own",
                    variant.name
                )));
            }
        }
        plan.lines.sort_unstable();
        if plan.lines.first() == Some(&0) {
            return Err(wrong(
                "`lines` names 0, but a model needs text; name sizes of at least 1".to_owned(),
            ));
        }
        let pairs = plan.lines.iter().zip(plan.lines.iter().skip(1));
        if let Some((twice, _)) = pairs.into_iter().find(|(one, next)| one == next) {
            return Err(wrong(format!(
                "`lines` names {twice} twice; name each size once"
            )));
        }
        for topic in &plan.topic {
            let mut sources = topic.positive.iter().chain(topic.neutral.iter().flatten());
            if let Some(url) = sources.find(|source| source.contains("://")) {
                return Err(wrong(format!(
                    "the topic `{}` names {url}, but an experiment fetches nothing; name files or \
                     folders",
                    topic.name
                )));
            }
            if topic.begin.is_empty() {
                return Err(wrong(format!(
                    "the topic `{}` begins nowhere; name a file of seeds, as in \
                     `begin.warm = \"seeds/{0}.txt\"`",
                    topic.name
                )));
            }
        }
        Ok(plan)
    }

    /// The marks within the budget, in ascending order; the budget itself if there are
    /// none.
    pub(super) fn marks_within(&self) -> Vec<u64> {
        let within = self.marks.iter().copied();
        let mut marks: Vec<u64> = within.filter(|mark| *mark <= self.fetches).collect();
        if marks.is_empty() {
            marks.push(self.fetches);
        }
        marks.sort_unstable();
        marks
    }

    /// The job of one run; `variant` is `None` for the oracle.
    ///
    /// # Errors
    ///
    /// [`ExperimentError::Job`] if the keys of the plan are not those of a job.
    pub(super) fn job(
        &self,
        topic: &TopicPlan,
        begin: &str,
        variant: Option<&Variant>,
        seed: u64,
    ) -> Result<Config, ExperimentError> {
        let wrong = |why: String| ExperimentError::Plan {
            path: self.path.clone(),
            why,
        };
        let mut job: Table = toml::from_str(BASE).map_err(|e| wrong(e.to_string()))?;
        merge(&mut job, &self.job);
        if let Some(variant) = variant {
            merge(&mut job, &variant.job);
        }
        // Variants with other reading or training settings have their own model.
        let shapes: String = ["train", "text"]
            .iter()
            .filter_map(|section| job.get(*section))
            .map(ToString::to_string)
            .collect();
        merge(&mut job, &self.own_keys(topic, begin, seed, &shapes));
        let text = toml::to_string(&job).map_err(|e| wrong(e.to_string()))?;
        let name = variant.map_or(ORACLE, |v| v.name.as_str());
        Ok(Config::parse(
            &text,
            &format!("{}, {name}", self.path.display()),
        )?)
    }

    /// The plan's own keys for every job. `shapes` distinguishes models of the same texts.
    fn own_keys(&self, topic: &TopicPlan, begin: &str, seed: u64, shapes: &str) -> Table {
        let sources = format!("{:?} {:?} {shapes}", topic.positive, topic.neutral);
        let digest = base16ct::lower::encode_string(&Sha256::digest(sources));
        let digest = digest.get(..8).unwrap_or_default();
        Table::from_iter([
            section(
                "job",
                [
                    (
                        "name",
                        Value::from(format!("{}-{digest}", plain(&topic.name))),
                    ),
                    ("contact", Value::from("mailto:nobody@localhost")),
                    ("folder", Value::from(self.out.display().to_string())),
                ],
            ),
            section(
                "model",
                [(
                    "folder",
                    Value::from(self.out.join("models").display().to_string()),
                )],
            ),
            section(
                "seeds",
                [("files", {
                    let file = topic
                        .begin
                        .get(begin)
                        .map(|file| file.display().to_string());
                    Value::from(file.into_iter().collect::<Vec<_>>())
                })],
            ),
            section(
                "train",
                [
                    ("positive", Value::from(topic.positive.clone())),
                    (
                        "neutral",
                        match &topic.neutral {
                            Some(texts) => Value::from(texts.clone()),
                            None => Value::from("builtin"),
                        },
                    ),
                ],
            ),
            section(
                "strategy",
                [(
                    "seed",
                    Value::Integer(i64::try_from(seed).unwrap_or(i64::MAX)),
                )],
            ),
            section(
                "limits",
                [(
                    "fetches",
                    Value::Integer(i64::try_from(self.fetches).unwrap_or(i64::MAX)),
                )],
            ),
        ])
    }
}

fn section<const N: usize>(name: &str, keys: [(&str, Value); N]) -> (String, Value) {
    let keys = keys.into_iter().map(|(key, value)| (key.to_owned(), value));
    (name.to_owned(), Value::Table(keys.collect()))
}

/// A text reduced to the characters of a job's or a file's name.
pub(super) fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    name.chars().map(plain).collect()
}

/// Overrides the values of `under` with those of `over`, table by table.
fn merge(under: &mut Table, over: &Table) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}
