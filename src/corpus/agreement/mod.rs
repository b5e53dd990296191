//! How far the annotators of a job's images agree (as in the thesis, Werner 2015, section
//! 5.3): counts by majority and unanimous, the share on topic, and kappas.
//!
//! - An image has a class *by majority* if more than half of its votes are for it, and
//!   *unanimously* if it has at least two votes and all are for it.
//! - Cohen's kappa compares two annotators on the images that both judged. It is averaged
//!   over all pairs with such images, unweighted as in the thesis and weighted by their
//!   number.
//! - Fleiss' kappa needs the same number of votes for every image. It is taken over
//!   the images with the most frequent number of at least two; the others are left
//!   out and counted.
//!
//! Votes on gold questions, and those of annotators who failed them, are excluded. This
//! module knows images only by their hashes.
//!
//! Reading order: this file, `kappa` (the statistics), `text` (tables).

pub mod kappa;
#[cfg(test)]
mod tests;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::annotate::votes::{self, Question, TEXT_CLASSES, Vote};
use serde::Serialize;

use crate::fs::{IoError, atomic};
use crate::settings::JobSettings;
use crate::tool_error::ToolError;
use kappa::Kappa;

/// The output files, in the job's folder.
pub const FILES: [&str; 2] = ["annotations/agreement.tsv", "annotations/agreement.md"];

/// Classes that are to count as one, written `a+b=name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    /// The classes.
    pub classes: Vec<String>,
    /// The name of the merged class.
    pub name: String,
}

impl FromStr for Merge {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (classes, name) = text.rsplit_once('=').unwrap_or((text, ""));
        let classes: Vec<String> = classes.split('+').map(|c| c.trim().to_owned()).collect();
        let name = name.trim().to_owned();
        if name.is_empty() || classes.iter().any(String::is_empty) {
            Err("write it as class+class=name".to_owned())
        } else {
            Ok(Self { classes, name })
        }
    }
}

/// All figures of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// The annotators whose votes count, in alphabetical order.
    pub annotators: Vec<String>,
    /// Those who failed the gold questions.
    pub left_out: Vec<String>,
    /// Votes on gold questions or by annotators who failed them.
    pub votes_left_out: usize,
    /// The figures of each question.
    pub questions: Vec<Figures>,
}

/// The figures of one question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Which one.
    pub question: Question,
    /// Images that were judged.
    pub items: usize,
    /// Votes on them.
    pub votes: usize,
    /// The number of images for each number of votes.
    pub items_by_votes: BTreeMap<usize, usize>,
    /// How many images are on topic by majority; `None` for the question about the words.
    pub on_topic: Option<usize>,
    /// With the original classes, and with merged ones.
    pub variants: Vec<Variant>,
}

/// The figures with classes merged in one way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Variant {
    /// What is merged; `as asked` for nothing.
    pub name: String,
    /// Every class, in the order of the question.
    pub classes: Vec<ClassCount>,
    /// Images without a majority.
    pub without_majority: usize,
    /// Cohen's kappa over all pairs of annotators.
    pub cohen: Pairs,
    /// Fleiss' kappa; `None` if no image has two votes.
    pub fleiss: Option<Fleiss>,
}

/// How often a class was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClassCount {
    /// The class.
    pub name: String,
    /// Votes for it.
    pub votes: usize,
    /// Images with a majority for it.
    pub majority: usize,
    /// Images all of whose votes are for it.
    pub unanimous: usize,
}

/// The kappas of all pairs of annotators.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Pairs {
    /// Pairs with at least one image judged by both.
    pub pairs: usize,
    /// Pairs whose kappa is undefined because they gave only one class; they are excluded
    /// from the averages of kappa.
    pub undefined: usize,
    /// Images judged by both, summed over the pairs.
    pub items: usize,
    /// The mean share of agreement; `None` without pairs.
    pub observed: Option<f64>,
    /// The mean kappa; `None` if none is defined.
    pub mean: Option<f64>,
    /// The mean kappa weighted by the images that both judged.
    pub weighted: Option<f64>,
}

/// Fleiss' kappa with its basis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fleiss {
    /// The number of votes of each of the images.
    pub votes: usize,
    /// The kappa.
    pub kappa: Kappa,
    /// Images with another number of votes, which are left out.
    pub left_out: usize,
}

/// The votes on one question: by image, the class that each annotator chose.
type Items<'a> = BTreeMap<&'a str, BTreeMap<&'a str, usize>>;

/// Reads the votes of a job and computes their agreement.
///
/// # Errors
///
/// [`ToolError`].
pub fn agreement(config: &JobSettings, merges: &[Merge]) -> Result<Agreement, ToolError> {
    let folder = config.job_folder();
    let figures = of_votes(votes::read(&folder)?, config, merges)?;
    if figures.questions.is_empty() {
        let path = folder.join(votes::FOLDER).join(votes::FILE);
        let why = "no votes that count; `spoor annotate` collects them";
        Err(ToolError::at(&path, why))
    } else {
        Ok(figures)
    }
}

fn of_votes(
    all: Vec<Vote>,
    config: &JobSettings,
    merges: &[Merge],
) -> Result<Agreement, ToolError> {
    let section = &config.annotate;
    let left_out = votes::disqualified(&all, section).into_iter().collect();
    let given = all.len();
    let votes = votes::qualified(all, section);
    let annotators: BTreeSet<&str> = votes.iter().map(|v| v.annotator.as_str()).collect();
    let names = section.classes.iter().map(|c| c.as_str().to_owned());
    let text = TEXT_CLASSES.map(str::to_owned);
    let asked = [
        (
            Question::Image,
            with_others(names.collect(), &votes, Question::Image),
        ),
        (
            Question::Text,
            with_others(text.into(), &votes, Question::Text),
        ),
    ];
    check(merges, &asked)?;
    let on_topic: Vec<String> = section
        .on_topic
        .iter()
        .map(|c| c.as_str().to_owned())
        .collect();
    let questions = asked.iter().filter_map(|(question, classes)| {
        let items = items(&votes, *question, classes);
        (!items.is_empty()).then(|| figures(*question, &items, classes, &on_topic, merges))
    });
    Ok(Agreement {
        questions: questions.collect(),
        annotators: annotators.into_iter().map(str::to_owned).collect(),
        left_out,
        votes_left_out: given - votes.len(),
    })
}

impl Agreement {
    /// Writes the figures into the job's folder, each file atomically, and returns the
    /// paths.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ToolError> {
        let texts = [self.to_tsv(), self.to_markdown()];
        let mut paths = Vec::new();
        for (name, text) in FILES.iter().zip(texts) {
            let path = folder.join(name);
            let written = atomic::write(&path, |out| out.write_all(text.as_bytes()));
            written.map_err(IoError::at(&path, "writing"))?;
            paths.push(path);
        }
        Ok(paths)
    }
}

/// The configured classes, followed by those that only occur in votes: the job's classes
/// may have changed.
fn with_others(mut classes: Vec<String>, votes: &[Vote], question: Question) -> Vec<String> {
    let given = votes.iter().filter(|v| v.question == question);
    let given: BTreeSet<&String> = given.map(|v| &v.answer).collect();
    let others = given.into_iter().filter(|answer| !classes.contains(answer));
    let others: Vec<String> = others.cloned().collect();
    classes.extend(others);
    classes
}

fn check(merges: &[Merge], asked: &[(Question, Vec<String>)]) -> Result<(), ToolError> {
    let known: Vec<&str> = asked
        .iter()
        .flat_map(|(_, c)| c)
        .map(String::as_str)
        .collect();
    let mut seen = BTreeSet::new();
    for class in merges.iter().flat_map(|merge| &merge.classes) {
        if !known.contains(&class.as_str()) || !seen.insert(class) {
            return Err(ToolError::new(format_args!(
                "--merge: `{class}` is not one of the classes, or is merged twice; the classes \
                 are {}",
                known.join(", ")
            )));
        }
    }
    Ok(())
}

/// Of two votes of the same annotator on the same image the later one counts.
fn items<'a>(votes: &'a [Vote], question: Question, classes: &[String]) -> Items<'a> {
    let mut items = Items::new();
    for vote in votes.iter().filter(|v| v.question == question) {
        if let Some(class) = classes.iter().position(|c| *c == vote.answer) {
            let item = items.entry(&vote.image).or_default();
            item.insert(&vote.annotator, class);
        }
    }
    items
}

fn figures(
    question: Question,
    items: &Items<'_>,
    classes: &[String],
    on_topic: &[String],
    merges: &[Merge],
) -> Figures {
    let mut variants = vec![variant("as asked", items, classes, |class| {
        class.to_owned()
    })];
    let rest = "the rest";
    let mut on_topic_items = None;
    if question == Question::Image {
        let topic = "on topic, merged";
        let merged = variant("on topic or not", items, classes, |class| {
            let is = on_topic.iter().any(|c| c == class);
            if is { topic } else { rest }.to_owned()
        });
        let count = merged.classes.iter().find(|c| c.name == topic);
        on_topic_items = Some(count.map_or(0, |c| c.majority));
        variants.push(merged);
    }
    let mine = |merge: &&Merge| merge.classes.iter().any(|c| classes.contains(c));
    let own: Vec<&Merge> = merges.iter().filter(mine).collect();
    if !own.is_empty() {
        let text = |merge: &&Merge| format!("{} = {}", merge.classes.join(" + "), merge.name);
        let name: Vec<String> = own.iter().map(text).collect();
        variants.push(variant(&name.join("; "), items, classes, |class| {
            let merge = own.iter().find(|m| m.classes.iter().any(|c| c == class));
            merge.map_or(class, |m| m.name.as_str()).to_owned()
        }));
    }
    let mut items_by_votes = BTreeMap::new();
    for item in items.values() {
        *items_by_votes.entry(item.len()).or_default() += 1;
    }
    Figures {
        question,
        items: items.len(),
        votes: items.values().map(BTreeMap::len).sum(),
        items_by_votes,
        on_topic: on_topic_items,
        variants,
    }
}

/// The figures with every class renamed by `name`.
fn variant(
    title: &str,
    items: &Items<'_>,
    classes: &[String],
    name: impl Fn(&str) -> String,
) -> Variant {
    let mut names: Vec<String> = Vec::new();
    // By the number of a class, that of its new name.
    let places: Vec<usize> = classes
        .iter()
        .map(|class| {
            let name = name(class);
            let known = names.iter().position(|n| *n == name);
            known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            })
        })
        .collect();
    let place = |class: &usize| places.get(*class).copied().unwrap_or_default();
    let items: Items<'_> = items
        .iter()
        .map(|(image, votes)| {
            (
                *image,
                votes.iter().map(|(who, c)| (*who, place(c))).collect(),
            )
        })
        .collect();
    let table: Vec<Vec<u64>> = items
        .values()
        .map(|votes| {
            let mut row = vec![0; names.len()];
            for class in votes.values() {
                if let Some(count) = row.get_mut(*class) {
                    *count += 1;
                }
            }
            row
        })
        .collect();
    let classes = (0..).zip(&names).map(|(class, name)| {
        let of = |row: &Vec<u64>| row.get(class).copied().unwrap_or_default();
        let all = |row: &Vec<u64>| row.iter().sum::<u64>();
        let majority = table.iter().filter(|row| 2 * of(row) > all(row));
        let unanimous = table
            .iter()
            .filter(|row| all(row) >= 2 && of(row) == all(row));
        ClassCount {
            name: name.clone(),
            votes: usize::try_from(table.iter().map(of).sum::<u64>()).unwrap_or(usize::MAX),
            majority: majority.count(),
            unanimous: unanimous.count(),
        }
    });
    let classes: Vec<ClassCount> = classes.collect();
    let with_majority: usize = classes.iter().map(|c| c.majority).sum();
    Variant {
        name: title.to_owned(),
        without_majority: items.len() - with_majority,
        classes,
        cohen: pairs(&items),
        fleiss: fleiss(table),
    }
}

fn pairs(items: &Items<'_>) -> Pairs {
    let mut common: BTreeMap<(&str, &str), Vec<(usize, usize)>> = BTreeMap::new();
    for votes in items.values() {
        for (a, class_a) in votes {
            for (b, class_b) in votes.range::<&str, _>(a..).skip(1) {
                common.entry((a, b)).or_default().push((*class_a, *class_b));
            }
        }
    }
    let kappas: Vec<Kappa> = common.values().filter_map(|c| kappa::cohen(c)).collect();
    let defined: Vec<(f64, f64)> = kappas
        .iter()
        .filter_map(|k| Some((k.value()?, k.items as f64)))
        .collect();
    let weight: f64 = defined.iter().map(|(_, items)| items).sum();
    let mean = |sum: f64, of: f64| (of > 0.0).then(|| sum / of);
    let count = |n: usize| n as f64;
    Pairs {
        pairs: kappas.len(),
        undefined: kappas.len() - defined.len(),
        items: kappas.iter().map(|k| k.items).sum(),
        observed: mean(kappas.iter().map(|k| k.observed).sum(), count(kappas.len())),
        mean: mean(defined.iter().map(|(k, _)| k).sum(), count(defined.len())),
        weighted: mean(defined.iter().map(|(k, n)| k * n).sum(), weight),
    }
}

fn fleiss(table: Vec<Vec<u64>>) -> Option<Fleiss> {
    let mut by_votes: BTreeMap<u64, usize> = BTreeMap::new();
    for row in &table {
        *by_votes.entry(row.iter().sum()).or_default() += 1;
    }
    // Of two equally frequent numbers, the greater.
    let enough = by_votes.into_iter().filter(|(votes, _)| *votes >= 2);
    let (votes, _) = enough.max_by_key(|(votes, items)| (*items, *votes))?;
    let all = table.len();
    let equal = table
        .into_iter()
        .filter(|row| row.iter().sum::<u64>() == votes);
    let kappa = kappa::fleiss(&equal.collect::<Vec<_>>())?;
    Some(Fleiss {
        votes: usize::try_from(votes).unwrap_or(usize::MAX),
        left_out: all - kappa.items,
        kappa,
    })
}
