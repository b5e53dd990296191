//! `spoor pdf FILE... [--json] [--raw]`, and the process that reads one file

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use spoor::language::Language;
use spoor::pdf::{self, Failure, Limits, Original, Printed, Reader};
use spoor::sanitize;
use spoor::topic::neutral;

/// The largest file that is read.
const MAX_FILE: u64 = 1 << 30;

/// Print the text of PDF files.
#[derive(Debug, Args)]
pub struct Pdf {
    /// PDF files; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one line of JSON for each file: the text with the place of every character in
    /// the original text, title, authors, dates and links.
    #[arg(long)]
    json: bool,
    /// Keep headers, footers, hyphens and ligatures: the original text, to which the places
    /// refer.
    #[arg(long)]
    raw: bool,
    /// A file of words, one per line, that also serves to recognise hyphenated words.
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,
    /// The longest time for one file in seconds.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// The most memory for one file in MiB.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(64..1 << 20))]
    memory: u64,
    /// The most pages of one file; those after them are left out.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pages: usize,
}

impl Pdf {
    pub fn run(self) -> Result<u8> {
        let words = self.words.as_deref().map(words_in).transpose()?;
        let reader = Reader::of_this_program(Limits {
            time: Duration::from_secs(self.seconds),
            memory: self.memory << 20,
            pages: self.pages,
            text: 64 << 20,
        });
        let mut failed = false;
        for (number, path) in self.files.iter().enumerate() {
            match self.read(path, &reader)? {
                Ok(original) => {
                    if original.cut {
                        let shown = path.display();
                        tracing::warn!("{shown}: only the first {} pages were read", self.pages);
                    }
                    self.print(number, path, &original, words.as_ref())?;
                }
                Err(failure) => {
                    failed = true;
                    let text = format!("{}: {failure}", path.display());
                    eprintln!("spoor: {}", sanitize::shown(&text));
                }
            }
        }
        Ok(u8::from(failed))
    }

    fn read(&self, path: &Path, reader: &Reader) -> Result<Result<Original, Failure>> {
        let mut bytes = Vec::new();
        let read = if path == Path::new("-") {
            io::stdin().lock().take(MAX_FILE).read_to_end(&mut bytes)
        } else {
            spoor::fs::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes))
        };
        read.with_context(|| format!("reading {}", path.display()))?;
        Ok(reader.read(&bytes))
    }

    fn print(
        &self,
        number: usize,
        path: &Path,
        original: &Original,
        words: Option<&HashSet<String>>,
    ) -> Result<()> {
        let known = |language: Option<Language>, word: &str| {
            words.is_some_and(|words| words.contains(word)) || neutral::knows(language, word)
        };
        let file = path.display().to_string();
        let mut out = io::stdout().lock();
        if self.json {
            let text = if self.raw {
                let lines: Vec<u32> = original.lines.iter().map(|line| line.at).collect();
                serde_json::to_string(&json!({
                    "file": file,
                    "text": original.text,
                    "pages": original.pages,
                    "lines": lines,
                }))?
            } else {
                let cleaned = original.clean(Some(&known));
                serde_json::to_string(&Printed::of(file, original, &cleaned))?
            };
            writeln!(out, "{}", sanitize::json(&text))?;
            return Ok(());
        }
        if self.files.len() > 1 {
            // Like `head` with several files.
            let gap = if number > 0 { "\n" } else { "" };
            writeln!(out, "{gap}==> {} <==", sanitize::shown(&file))?;
        }
        let text = if self.raw {
            original.text.clone()
        } else {
            original.clean(Some(&known)).lines()
        };
        for line in text.trim_end().lines() {
            writeln!(out, "{}", sanitize::shown(line))?;
        }
        Ok(())
    }
}

fn words_in(path: &Path) -> Result<HashSet<String>> {
    let text = spoor::fs::read_to_string(path);
    let text = text.with_context(|| format!("reading the words in {}", path.display()))?;
    let lines = text.lines().map(|line| line.trim().to_lowercase());
    Ok(lines.filter(|word| !word.is_empty()).collect())
}

/// Read one PDF file from standard input.
#[derive(Debug, Args)]
pub struct Worker {
    #[arg(long)]
    seconds: u64,
    #[arg(long)]
    memory: u64,
    #[arg(long)]
    pages: usize,
    #[arg(long)]
    text: usize,
}

impl Worker {
    pub fn run(self) -> Result<()> {
        let limits = Limits {
            time: Duration::from_secs(self.seconds),
            memory: self.memory,
            pages: self.pages,
            text: self.text,
        };
        Ok(pdf::work(&limits)?)
    }
}
