//! `spoor tagger train|test|tag`

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use spoor::corpus::grammar::conllu::{self, Sentence};
use spoor::corpus::grammar::tagger::{self, Accuracy, Tagger};
use spoor::corpus::grammar::tokens;
use spoor::sanitize;

use super::print_json;
use super::screen::counted;

/// Learn the parts of speech of a language from a treebank, and tag texts.
#[derive(Debug, Args)]
pub struct TaggerWork {
    #[command(subcommand)]
    what: TaggerCommand,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// The operation.
#[derive(Debug, Subcommand)]
enum TaggerCommand {
    /// Train a tagger on files in CoNLL-U, the format of Universal Dependencies.
    #[command(after_help = "\
Example:
  spoor tagger train de_gsd-ud-train.conllu --test de_gsd-ud-test.conllu --output de.tagger")]
    Train {
        /// Files to learn from.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The tagger.
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
        /// A file that is not used for training, to count how often the tagger is right.
        #[arg(long, value_name = "FILE")]
        test: Vec<PathBuf>,
        /// The column of the tags.
        #[arg(long, value_enum, default_value_t = Column::Upos)]
        column: Column,
        /// The number of passes over all sentences.
        #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
        /// Learn from endings of four to six letters too, for languages with long compound
        /// words, as German. The tagger gets larger.
        #[arg(long)]
        long_endings: bool,
    },
    /// Count how often a tagger is right.
    Test {
        /// A tagger, or the code of a language with a built-in one: en, de.
        tagger: String,
        /// Files in CoNLL-U.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The column of the tags.
        #[arg(long, value_enum, default_value_t = Column::Upos)]
        column: Column,
    },
    /// Print the tokens of a text with their tags.
    Tag {
        /// A tagger, or the code of a language with a built-in one: en, de.
        tagger: String,
        /// The text; - for standard input.
        text: Vec<String>,
    },
}

/// A column of CoNLL-U.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Column {
    /// The universal tags.
    Upos,
    /// The tags of the language.
    Xpos,
}

/// The accuracy of a tagger, as JSON.
#[derive(Serialize)]
struct Right {
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(flatten)]
    accuracy: Option<Accuracy>,
}

impl TaggerWork {
    pub fn run(self) -> Result<()> {
        match self.what {
            TaggerCommand::Train {
                files,
                output,
                test,
                column,
                rounds,
                long_endings,
            } => {
                let test = sentences(&test, column)?;
                let learned = sentences(&files, column)?;
                let (tagger, bytes) = tagger::train(&learned, rounds, long_endings, &output)?;
                let accuracy = (!test.is_empty()).then(|| Accuracy::of(&tagger, &test));
                if self.json {
                    let bytes = Some(bytes);
                    return print_json(&Right { bytes, accuracy });
                }
                println!(
                    "learned {} tags from {} sentences; {} KiB in {}",
                    tagger.tags().len(),
                    counted(learned.len() as u64),
                    counted(bytes.div_ceil(1 << 10)),
                    output.display()
                );
                accuracy.iter().for_each(print_accuracy);
                Ok(())
            }
            TaggerCommand::Test {
                tagger,
                files,
                column,
            } => {
                let accuracy = Accuracy::of(&*load(&tagger)?, &sentences(&files, column)?);
                if self.json {
                    return print_json(&accuracy);
                }
                print_accuracy(&accuracy);
                Ok(())
            }
            TaggerCommand::Tag { tagger, text } => tag(&*load(&tagger)?, &text, self.json),
        }
    }
}

fn sentences(files: &[PathBuf], column: Column) -> Result<Vec<Sentence>> {
    let column = match column {
        Column::Upos => conllu::Column::Upos,
        Column::Xpos => conllu::Column::Xpos,
    };
    let mut all = Vec::new();
    for file in files {
        all.extend(conllu::read(file, column)?);
    }
    Ok(all)
}

fn load(named: &str) -> Result<Arc<Tagger>> {
    if let Some(tagger) = Tagger::built_in(named) {
        return Ok(tagger);
    }
    Ok(Arc::new(Tagger::load(Path::new(named))?))
}

fn print_accuracy(accuracy: &Accuracy) {
    let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    println!(
        "{:.2} % of {} words right; nouns: precision {:.2} %, recall {:.2} %",
        share(accuracy.right, accuracy.words),
        counted(accuracy.words),
        share(accuracy.found, accuracy.taken),
        share(accuracy.found, accuracy.nouns)
    );
}

fn tag(tagger: &Tagger, text: &[String], json: bool) -> Result<()> {
    let text = match text {
        [] => bail!("give a text, or - for standard input"),
        [one] if one == "-" => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.context("reading standard input")?;
            text
        }
        words => words.join(" "),
    };
    let tokens = tokens(&text);
    let tags = tagger::tags(tagger, &tokens);
    let pairs = tokens.iter().map(|token| token.text).zip(&tags);
    if json {
        return print_json(&pairs.collect::<Vec<_>>());
    }
    let lines: String = pairs
        .map(|(token, tag)| format!("{token}\t{tag}\n"))
        .collect();
    print!("{}", sanitize::shown(&lines));
    Ok(())
}
