//! `spoor init --seed URL --contact ADDRESS`

use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use spoor::config::Given;
use spoor::config::new_job::{PAGES, Placed, Start, StartError};
use spoor::sanitize;

/// The options of a new job.
#[derive(Debug, Clone, Args)]
pub struct NewJob {
    /// An address to start from, with a page about the topic; may be given several times.
    #[arg(long = "seed", value_name = "URL")]
    seeds: Vec<String>,
    /// A contact for the operators of web sites: an e-mail address or an https address.
    #[arg(long, value_name = "ADDRESS")]
    contact: Option<String>,
    /// The job's name; by default derived from the first seed.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A further text about the topic: a file, a folder or an address; may be given several
    /// times.
    #[arg(long = "text", value_name = "FILE")]
    texts: Vec<String>,
    /// Stop after this many pages; 1000 by default if no time is given either.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pages: Option<u64>,
    /// Stop after this time, as 30m, 2h or 1d.
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// A further key of the job file, as politeness.min_delay=2s; may be given several
    /// times. `spoor config reference` lists all keys.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl NewJob {
    /// Whether no option is given.
    pub fn is_empty(&self) -> bool {
        let lists = [&self.seeds, &self.texts, &self.set];
        let texts = [&self.contact, &self.name, &self.time];
        lists.iter().all(|list| list.is_empty())
            && texts.iter().all(|text| text.is_none())
            && self.pages.is_none()
    }

    /// The options that are keys of any job.
    ///
    /// # Errors
    ///
    /// How a key must be written.
    pub fn given(&self) -> Result<Vec<Given>> {
        let pages = self.pages.map(|pages| format!("limits.documents={pages}"));
        let time = self.time.as_ref().map(|time| format!("limits.time={time}"));
        let all = pages.into_iter().chain(time).chain(self.set.clone());
        all.map(|text| {
            Given::parse(&text)
                .map_err(|why| StartError::Asked(vec![format!("--set {text}: {why}")]).into())
        })
        .collect()
    }

    fn start(self) -> Start {
        Start {
            seeds: self.seeds,
            contact: self.contact,
            name: self.name,
            texts: self.texts,
            pages: self.pages,
            time: self.time,
            set: self.set,
        }
    }

    /// Writes the job file into the working directory, or finds it there, and prints
    /// which.
    ///
    /// # Errors
    ///
    /// The wrong or missing options; nothing is written then.
    pub fn place(self) -> Result<Placed> {
        place(&self.start())
    }
}

fn place(start: &Start) -> Result<Placed> {
    let mut placed = start.place(Path::new("."))?;
    if let Ok(file) = placed.file.strip_prefix(".") {
        placed.file = file.to_owned();
    }
    let file = sanitize::shown(&placed.file.display().to_string()).into_owned();
    if placed.written {
        eprintln!("{file} is written: the job, with a comment on each line")
    } else {
        eprintln!("{file} already exists with the same settings")
    }
    if placed.written && start.seeds.len() + start.texts.len() < FEW {
        eprintln!(
            "note: one page says little about a topic; with three to five pages about it (--seed, \
             --text) spoor recognises it much better"
        );
    }
    Ok(placed)
}

/// The number of texts about the topic below which more are recommended.
const FEW: usize = 3;

/// Write a job file from seeds without starting it; ask on a terminal for missing values.
#[derive(Debug, Args)]
pub struct Init {
    #[command(flatten)]
    job: NewJob,
}

impl Init {
    pub fn run(self) -> Result<()> {
        let mut start = self.job.start();
        if std::io::stdin().is_terminal() {
            let stdin = std::io::stdin();
            ask(&mut start, &mut stdin.lock(), &mut std::io::stderr())
                .context("asking on the terminal")?;
        }
        let placed = place(&start)?;
        println!("spoor crawl {}", placed.file.display());
        Ok(())
    }
}

/// Asks for missing values.
fn ask(start: &mut Start, from: &mut dyn BufRead, to: &mut dyn Write) -> std::io::Result<()> {
    let mut line = |question: &str| -> std::io::Result<Option<String>> {
        write!(to, "{question} ")?;
        to.flush()?;
        let mut answer = String::new();
        from.read_line(&mut answer)?;
        let answer = answer.trim();
        Ok((!answer.is_empty()).then(|| answer.to_owned()))
    };
    if start.seeds.is_empty() {
        let first = "Address of a page about the topic:";
        let more = "Another one (three to five are good; empty for no more):";
        while let Some(seed) = line(if start.seeds.is_empty() { first } else { more })? {
            start.seeds.push(seed);
        }
    }
    if start.contact.is_none() {
        start.contact =
            line("How can the operators of web sites reach you (e-mail or web address)?")?;
    }
    if start.name.is_none() {
        let proposed = start.name().map(|name| name.as_str().to_owned());
        let proposed = proposed.unwrap_or_default();
        start.name = line(&format!("Name of the job [{proposed}]:"))?;
    }
    if start.pages.is_none() && start.time.is_none() {
        let answer = line(&format!("How many pages at most [{PAGES}]?"))?;
        // A value that is not a number is reported when the file is checked.
        match answer.as_deref().map(str::parse) {
            Some(Ok(pages)) => start.pages = Some(pages),
            Some(Err(_)) => start
                .set
                .push(format!("limits.documents={}", answer.unwrap_or_default())),
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_asked_for() {
        let mut start = Start::default();
        let answers =
            "https://example.org/cats\nhttps://example.org/dogs\n\nme@example.org\n\n50\n";
        let mut said = Vec::new();
        ask(&mut start, &mut answers.as_bytes(), &mut said).unwrap();
        assert_eq!(start.seeds.len(), 2);
        assert_eq!(start.contact.as_deref(), Some("me@example.org"));
        assert_eq!((start.name.as_deref(), start.pages), (None, Some(50)));
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("Name of the job [cats]:"), "{said}");
        // Nothing is asked if all values are given.
        let mut said = Vec::new();
        start.name = Some("pets".to_owned());
        ask(&mut start, &mut "".as_bytes(), &mut said).unwrap();
        assert_eq!(said, b"");
    }
}
