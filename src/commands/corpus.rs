//! `spoor corpus build|stats|copies|remove`

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use spoor::address::PageUrl;
use spoor::corpus::pipeline::plan::Plan;
use spoor::corpus::pipeline::{self, Built, Cluster, Explained, How, Removed, Sent};
use spoor::fold;
use spoor::page::TaskKind;
use spoor::sanitize;
use spoor::web::scope::{HostRange, Order, Scope, Takedowns, Target};

use super::print_json;
use super::screen::counted;

/// Build a corpus of documents from jobs, archives, folders or JSON lines.
#[derive(Debug, Args)]
pub struct Corpus {
    #[command(subcommand)]
    what: CorpusCommand,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// The operation.
#[derive(Debug, Subcommand)]
enum CorpusCommand {
    /// Build the corpus of a plan. A killed build continues where it stopped.
    #[command(after_help = "\
Examples:
  spoor corpus build plan.toml --sample 1000
  spoor corpus build plan.toml")]
    Build {
        /// The plan, in TOML.
        plan: PathBuf,
        /// Start over, and discard any earlier or unfinished build.
        #[arg(long)]
        fresh: bool,
        /// Only count what each step would remove; write nothing.
        #[arg(long)]
        dry_run: bool,
        /// Take about N documents, evenly from all sources, into a folder NAME-sample.
        #[arg(long, value_name = "N")]
        sample: Option<u64>,
        /// Build nothing; show every step's value and bound for the captures of an address.
        #[arg(long, value_name = "URL", conflicts_with_all = ["fresh", "dry_run", "sample"])]
        explain: Option<String>,
    },
    /// Count the documents of a corpus by language, host, year, size and more.
    Stats {
        /// The plan, or the folder of the corpus.
        corpus: PathBuf,
    },
    /// Show which documents are copies of which, with the passages that both contain.
    Copies {
        /// The plan, or the folder of the corpus.
        corpus: PathBuf,
        /// Only copies of this address.
        #[arg(long)]
        url: Option<String>,
        /// Show at most N clusters.
        #[arg(long, value_name = "N", default_value_t = 20)]
        most: usize,
    },
    /// Remove documents from a corpus, in all its formats. A takedown from a job does so in
    /// the corpora that were built from it.
    Remove {
        /// The plan, or the folder of the corpus.
        corpus: PathBuf,
        /// An address.
        #[arg(long, value_name = "URL")]
        url: Vec<PageUrl>,
        /// A host at its port; *.example.org is that domain and all hosts below it.
        #[arg(long, value_name = "HOST")]
        host: Vec<HostRange>,
        /// Only count.
        #[arg(long)]
        dry_run: bool,
    },
}

impl Corpus {
    pub fn run(self) -> Result<()> {
        match self.what {
            CorpusCommand::Build {
                plan,
                fresh,
                dry_run,
                sample,
                explain,
            } => {
                if let Some(url) = explain {
                    return print_explained(
                        &pipeline::explain(&Plan::load(&plan)?, &url)?,
                        self.json,
                    );
                }
                let how = How {
                    fresh,
                    dry_run,
                    sample,
                    date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
                    ..How::default()
                };
                let built = pipeline::build(&Plan::load(&plan)?, &how)?;
                print_built(&built, self.json)
            }
            CorpusCommand::Stats { corpus } => {
                let stats = pipeline::stats(&pipeline::find(&corpus)?)?;
                if self.json {
                    return print_json(&stats);
                }
                print!("{}", sanitize::shown(&stats.text()));
                Ok(())
            }
            CorpusCommand::Copies { corpus, url, most } => {
                let folder = pipeline::find(&corpus)?;
                print_copies(&folder, url.as_deref(), most, self.json)
            }
            CorpusCommand::Remove {
                corpus,
                url,
                host,
                dry_run,
            } => {
                if url.is_empty() && host.is_empty() {
                    bail!("nothing to remove; name --url or --host");
                }
                let mut list = Takedowns::default();
                let urls = url.into_iter().map(Target::Url);
                for target in urls.chain(host.into_iter().map(Target::Host)) {
                    list.add(Order {
                        time: String::new(),
                        target,
                        reason: None,
                    });
                }
                let scope = Scope::new(Default::default()).with_takedowns(list);
                let is_gone = |url: &str| {
                    let url = PageUrl::parse(url).ok();
                    url.is_some_and(|url| scope.taken_down(&url, TaskKind::Page).is_some())
                };
                let taken = pipeline::remove(&pipeline::find(&corpus)?, &is_gone, dry_run)?;
                if self.json {
                    return print_json(&taken);
                }
                let did = if dry_run {
                    "would be removed"
                } else {
                    "removed"
                };
                println!(
                    "{} documents {did} from {}",
                    taken.documents,
                    taken.folder.display()
                );
                for url in &taken.urls {
                    println!("  {}", sanitize::shown(url));
                }
                taken.sent.iter().for_each(print_sent);
                Ok(())
            }
        }
    }
}

/// All captures of an address, step by step.
fn print_explained(all: &[Explained], json: bool) -> Result<()> {
    if json {
        return print_json(&all);
    }
    if all.is_empty() {
        bail!("no source of the plan has this address");
    }
    for one in all {
        let place = one.archive.as_deref().unwrap_or("the job");
        let offset = one
            .offset
            .map_or_else(String::new, |at| format!(" at {at}"));
        let fetched = one.fetched.as_deref().unwrap_or("at no known time");
        println!(
            "{}",
            sanitize::shown(&format!("fetched {fetched}, in {place}{offset}"))
        );
        println!("  {:<12}{:<32}{:>14}  stays", "step", "rule", "value");
        for step in &one.steps {
            for rule in &step.rules {
                let mark = if rule.stays { "" } else { "  <- goes" };
                let value = rule.value.to_string();
                let line = format!(
                    "  {:<12}{:<32}{value:>14}  {}{mark}",
                    step.step, rule.rule, rule.bound
                );
                println!("{}", sanitize::shown(&line));
            }
            if step.compares && one.is_in.is_none() {
                println!("  {:<12}known when the corpus is built", step.step);
            }
        }
        for copy in &one.copies {
            let (is_own, other) = if one.id.as_ref() == Some(&copy.id) {
                ("copy of", &copy.copy_of_url)
            } else {
                ("has the copy", &copy.url)
            };
            let line = format!("  copies      {is_own} {other}, {} alike", copy.similarity);
            println!("{}", sanitize::shown(&line));
        }
        match (one.is_in, &one.removed) {
            (Some(true), _) => println!("  it is in the corpus"),
            (_, Some(removed)) => {
                let Removed {
                    step,
                    rule,
                    value,
                    bound,
                    ..
                } = removed;
                let line = format!("  removed by {step}: {rule} is {value}; {bound} stays");
                println!("{}", sanitize::shown(&line));
            }
            _ => println!("  the corpus that was built does not have it"),
        }
    }
    Ok(())
}

/// Copies by the document that was kept, in the order in which they were found.
fn print_copies(folder: &Path, url: Option<&str>, most: usize, json: bool) -> Result<()> {
    let mut order: Vec<String> = Vec::new();
    let mut clusters: HashMap<String, Vec<Cluster>> = HashMap::new();
    pipeline::each_copy(folder, &mut |copy| {
        if url.is_some_and(|url| copy.url != url && copy.copy_of_url != url) {
            return Ok(true);
        }
        let is_known = clusters.contains_key(&copy.copy_of);
        if !is_known && order.len() >= most {
            return Ok(true);
        }
        if !is_known {
            order.push(copy.copy_of.clone());
        }
        clusters.entry(copy.copy_of.clone()).or_default().push(copy);
        Ok(true)
    })?;
    let all: Vec<&Vec<Cluster>> = order.iter().filter_map(|id| clusters.get(id)).collect();
    if json {
        return print_json(&all);
    }
    for cluster in &all {
        if let Some(first) = cluster.first() {
            println!("{}", sanitize::shown(&first.copy_of_url));
        }
        for copy in *cluster {
            let part = match copy.level.as_str() {
                "document" | "url" => String::new(),
                level => format!("{level}, "),
            };
            let line = format!("  {part}{} {}: {}", copy.kind, copy.similarity, copy.url);
            println!("{}", sanitize::shown(&line));
            let spans = copy.spans.as_chunks::<4>().0;
            for [a, b, c, d] in spans.iter().take(SPANS) {
                println!("    {a} to {b} is {c} to {d}");
            }
            for matched in &copy.matched {
                println!("    | {}", sanitize::shown(&one_line(&matched.text)));
                if one_line(&matched.other) != one_line(&matched.text) {
                    println!("    = {}", sanitize::shown(&one_line(&matched.other)));
                }
            }
        }
    }
    if all.is_empty() {
        println!("no copies were found");
    }
    Ok(())
}

/// The number of passages of a copy whose places are shown.
const SPANS: usize = 5;

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The maximum width of the table of steps, that of a common terminal.
const WIDTH: usize = 80;

/// Writes reasons after the beginning of a line, and in further lines below the first reason. A
/// reason that is too long for any line gets its own line.
fn reasons(begin: &str, why: &[String]) -> Vec<String> {
    let all = why.join(",\n");
    let lines = fold::pieces(all.lines(), WIDTH.saturating_sub(begin.len()));
    if lines.is_empty() {
        return vec![begin.trim_end().to_owned()];
    }
    let indent = " ".repeat(begin.len());
    let begins = std::iter::once(begin).chain(std::iter::repeat(indent.as_str()));
    begins
        .zip(lines)
        .map(|(b, line)| format!("{b}{line}"))
        .collect()
}

pub(super) fn print_built(built: &Built, json: bool) -> Result<()> {
    if json {
        return print_json(&json!({
            "folder": built.folder,
            "documents": built.documents,
            "words": built.words,
            "files": built.files,
            "interleaved": built.interleaved,
            "steps": built.steps,
            "was_there": built.was_there,
            "sent": built.sent,
        }));
    }
    println!("{:<12}{:>12}{:>12}  why", "step", "read", "left");
    for step in &built.steps {
        let mut why: Vec<(&String, &u64)> = step.why.iter().collect();
        why.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        let mut why: Vec<String> = why
            .iter()
            .map(|(rule, n)| format!("{rule} {}", counted(**n)))
            .collect();
        let marked = step.marked.iter();
        why.extend(marked.map(|(rule, n)| format!("{rule} {} (stay)", counted(*n))));
        let (read, left) = (counted(step.read), counted(step.left));
        let begin = format!("{:<12}{read:>12}{left:>12}  ", step.step);
        for line in reasons(&begin, &why) {
            println!("{line}");
        }
    }
    let Some(folder) = &built.folder else {
        println!("\n{} documents would be left", counted(built.documents));
        return Ok(());
    };
    let folder = folder.display();
    let files = if built.files == 1 { "file" } else { "files" };
    println!(
        "\n{} documents, {} words, {} {files}, in {folder}",
        counted(built.documents),
        counted(built.words),
        counted(built.files.into())
    );
    if let Some(of_images) = &built.interleaved {
        println!(
            "{} documents with {} images, {} of them with words of their own",
            counted(of_images.documents),
            counted(of_images.images),
            counted(of_images.with_words)
        );
        let missing = of_images.missing.iter();
        let missing: Vec<String> = missing
            .map(|(why, n)| format!("{why} {}", counted(*n)))
            .collect();
        for line in reasons("images left out:  ", &missing) {
            println!("{line}");
        }
    }
    if built.was_there {
        println!("it was built before; --fresh builds it again");
    }
    println!(
        "description: {folder}/README.md; removed: {folder}/{}",
        pipeline::REMOVED
    );
    built.sent.iter().for_each(print_sent);
    Ok(())
}

fn print_sent(sent: &Sent) {
    let Sent {
        to,
        files,
        bytes,
        kept,
        deleted,
    } = sent;
    println!(
        "sent to {to}: {} files of {} bytes; {} were there, {} deleted",
        counted(*files),
        counted(*bytes),
        counted(*kept),
        counted(*deleted)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_reasons_stand_below_each_other() {
        let why: Vec<String> = (0..9).map(|n| format!("duplicate_{n}_grams {n}")).collect();
        let lines = reasons(&format!("{:38}", "quality"), &why);
        assert_eq!(
            lines[..2],
            [
                "quality                               duplicate_0_grams 0, duplicate_1_grams 1,",
                "                                      duplicate_2_grams 2, duplicate_3_grams 3,",
            ]
        );
        assert_eq!(lines.len(), 5);
        assert!(lines.iter().all(|line| line.len() <= WIDTH), "{lines:?}");
        assert_eq!(lines[4].trim_start(), "duplicate_8_grams 8");
        // A reason that is too long for any line gets its own.
        let long = ["x".repeat(60), "y".to_owned()];
        assert_eq!(reasons("a  ", &long).len(), 1);
        let long = ["x".repeat(90), "y".to_owned()];
        assert_eq!(reasons("a  ", &long).len(), 2);
        assert_eq!(reasons("extract   1   1  ", &[]), ["extract   1   1"]);
    }
}
