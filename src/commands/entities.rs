//! `spoor entities build|find|show`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use spoor::config::Config;
use spoor::corpus::entities::{Builder, Counts, Entity, Finder, Index, Lists, read};
use spoor::corpus::pipeline::{Annotated, DocumentFinder, Over, annotate};
use spoor::sanitize;

use super::print_json;
use super::screen::counted;

/// Find the entities of a list (persons, places, works) in documents.
#[derive(Debug, Args)]
pub struct Entities {
    #[command(subcommand)]
    what: EntitiesCommand,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// The operation.
#[derive(Debug, Subcommand)]
enum EntitiesCommand {
    /// Compile lists of entities to an index.
    #[command(after_help = "\
A line of a list has, between tabs: name, classes between `;`, popularity, aliases between `;`,
and if you like the gender for pronouns (female, male) and an identifier. Or it is an item of
Wikidata's JSON dump.

Examples:
  spoor entities build cities.tsv --output cities.entities
  spoor entities build wikidata.json.gz --language en --names-only --output all.entities")]
    Build {
        /// Lists: text with tabs, or JSON lines of Wikidata; also with gzip or zstd.
        #[arg(required = true, value_name = "LIST")]
        lists: Vec<PathBuf>,
        /// The index.
        #[arg(long, short, value_name = "INDEX")]
        output: PathBuf,
        /// Of Wikidata, only labels in this language, as `en`; may be repeated, and the first
        /// one names the entities.
        #[arg(long, value_name = "CODE")]
        language: Vec<String>,
        /// Leave out aliases without an upper-case letter, which are mostly common words.
        #[arg(long)]
        names_only: bool,
        /// Leave out entities with a lower popularity; of Wikidata, with fewer sitelinks.
        #[arg(long, value_name = "N", default_value_t = 0)]
        least: u64,
    },
    /// Find entities in documents: a line or row for each place.
    #[command(after_help = "\
Examples:
  spoor entities find cities.entities jobs/travel --output found.jsonl.zst
  spoor entities find cities.entities documents.jsonl --output found.parquet")]
    Find {
        /// An index, or a list of entities.
        index: PathBuf,
        /// Jobs, corpora, plans of corpora, or files of JSON lines or Parquet.
        #[arg(required = true, value_name = "DOCUMENTS")]
        documents: Vec<PathBuf>,
        /// The file to write: .jsonl, .jsonl.gz, .jsonl.zst or .parquet; else standard output.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Do not resolve pronouns.
        #[arg(long)]
        no_pronouns: bool,
        /// Also find aliases that are not nouns, in languages whose nouns are known.
        #[arg(long)]
        any_word: bool,
        /// Leave out single words that are part of a longer name, as "Space" in "European Space
        /// Agency": more findings are right, but there are fewer.
        #[arg(long)]
        whole_names: bool,
        /// A tagger for another language, as de=german.tagger; may be repeated.
        #[arg(long, value_name = "CODE=FILE", value_parser = tagger_of)]
        tagger: Vec<(String, PathBuf)>,
    },
    /// Show how large an index is, or which entities aliases mean.
    Show {
        /// An index, or a list of entities.
        index: PathBuf,
        /// Aliases.
        alias: Vec<String>,
    },
}

/// The result of a build, as JSON.
#[derive(Serialize)]
struct Made<'a> {
    #[serde(flatten)]
    counts: &'a Counts,
    bad: u64,
    told: &'a [String],
}

/// The findings, as JSON.
#[derive(Serialize)]
struct FoundEntities<'a> {
    documents: u64,
    with_entities: u64,
    mentions: u64,
    bad: u64,
    told: &'a [String],
}

/// An alias, as JSON.
#[derive(Serialize)]
struct Meant<'a> {
    alias: &'a str,
    entity: Option<Entity>,
}

impl Entities {
    pub fn run(self) -> Result<()> {
        let json = self.json;
        match self.what {
            EntitiesCommand::Build {
                lists,
                output,
                language,
                names_only,
                least,
            } => {
                let mut builder = Builder::new(names_only).least(least);
                let mut read_lists = Lists::default();
                for list in &lists {
                    read(list, &language, &mut builder, &mut read_lists)?;
                }
                let counts = builder.write(&output)?;
                if json {
                    return print_json(&Made {
                        counts: &counts,
                        bad: read_lists.bad,
                        told: &read_lists.problems,
                    });
                }
                print_problems(read_lists.bad, &read_lists.problems);
                print_counts(&counts, &output);
                Ok(())
            }
            EntitiesCommand::Find {
                index,
                documents,
                output,
                no_pronouns,
                any_word,
                whole_names,
                tagger,
            } => {
                let finder = Finder::new(Arc::new(load(&index)?), !no_pronouns);
                let finder = finder.whole_names(whole_names);
                let taggers = tagger.into_iter().collect();
                let finder = DocumentFinder::new(finder, !any_word, &taggers)?;
                let documents: Result<Vec<_>> = documents.iter().map(|path| folder(path)).collect();
                let found = annotate(&finder, &documents?, output.as_deref())?;
                print_found(&found, output.as_deref(), json)
            }
            EntitiesCommand::Show { index, alias } => show(&load(&index)?, &alias, json),
        }
    }
}

/// Reads an index, or compiles a list.
fn load(path: &Path) -> Result<Index> {
    let mut lists = Lists::default();
    let index = Index::of_file(path, &mut lists)?;
    print_problems(lists.bad, &lists.problems);
    Ok(index)
}

/// A language and its tagger.
pub fn tagger_of(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((code, file)) if !code.is_empty() && !file.is_empty() => {
            Ok((code.to_owned(), PathBuf::from(file)))
        }
        _ => Err("give a language and a file, as de=german.tagger".to_owned()),
    }
}

/// The folder of the job whose file this is; else the path itself.
fn folder(path: &Path) -> Result<PathBuf> {
    if path.is_dir() || path.extension().is_none_or(|ending| ending != "toml") {
        return Ok(path.to_owned());
    }
    let text = spoor::fs::read_to_string(path)
        .with_context(|| format!("{}: reading failed", path.display()))?;
    let is_job = text
        .parse::<toml::Table>()
        .is_ok_and(|file| file.contains_key("job"));
    if is_job {
        return Ok(Config::load(path)?.job_folder());
    }
    Ok(path.to_owned())
}

fn print_problems(bad: u64, problems: &[String]) {
    for problem in problems {
        eprintln!("left out: {}", sanitize::shown(problem));
    }
    if bad > problems.len() as u64 {
        eprintln!("left out: {} lines in all", counted(bad));
    }
}

fn print_counts(counts: &Counts, output: &Path) {
    println!(
        "{} entities with {} aliases, {} KiB in {}",
        counted(counts.entities),
        counted(counts.aliases),
        counted(counts.bytes.div_ceil(1 << 10)),
        output.display()
    );
    for (number, what) in [
        (
            counts.shared,
            "meaning several entities: the most popular one counts",
        ),
        (
            counts.no_names,
            "left out as no names: without a letter, a single letter, or too long",
        ),
        (counts.lower_case, "left out without an upper-case letter"),
    ] {
        if number > 0 {
            println!("aliases {what}: {}", counted(number));
        }
    }
    if counts.unpopular > 0 {
        let number = counted(counts.unpopular);
        println!("entities left out for their low popularity: {number}");
    }
}

fn print_found(found: &Annotated, output: Option<&Path>, json: bool) -> Result<()> {
    let Over {
        documents,
        bad,
        problems,
    } = &found.over;
    if output.is_none() {
        print_problems(*bad, problems);
        return Ok(());
    }
    if json {
        return print_json(&FoundEntities {
            documents: *documents,
            with_entities: found.with,
            mentions: found.mentions,
            bad: *bad,
            told: problems,
        });
    }
    print_problems(*bad, problems);
    println!(
        "{} places in {} of {} documents",
        counted(found.mentions),
        counted(found.with),
        counted(*documents)
    );
    Ok(())
}

fn show(index: &Index, aliases: &[String], json: bool) -> Result<()> {
    if aliases.is_empty() {
        let (entities, aliases) = (index.entities() as u64, index.aliases() as u64);
        if json {
            return print_json(&serde_json::json!({"entities": entities, "aliases": aliases}));
        }
        println!(
            "{} entities with {} aliases",
            counted(entities),
            counted(aliases)
        );
        return Ok(());
    }
    let meant: Vec<Meant<'_>> = aliases
        .iter()
        .map(|alias| Meant {
            alias,
            entity: index.of_alias(alias),
        })
        .collect();
    if json {
        return print_json(&meant);
    }
    for Meant { alias, entity } in &meant {
        let line = match entity {
            None => format!("{alias}: no entity"),
            Some(entity) => format!(
                "{alias}: {} ({}), {}, popularity {}",
                entity.name,
                entity.id,
                entity.classes.join(", "),
                counted(entity.popularity)
            ),
        };
        println!("{}", sanitize::shown(&line));
    }
    if meant.iter().all(|meant| meant.entity.is_none()) {
        bail!("none of these aliases is in the index; case counts");
    }
    Ok(())
}
