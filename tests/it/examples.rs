//! What the documents show can be run: every job file that is shipped, every
//! piece of TOML in the README, and every command in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use spoor::config::Config;
use spoor::lab::experiment::Plan;

use crate::support::{Ran, spoor};

fn package(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn readme() -> String {
    let path = package("README.md");
    std::fs::read_to_string(&path).unwrap_or_else(|e| {
        panic!(
            "{}: {e}; the README is what this test reads",
            path.display()
        )
    })
}

/// The fenced blocks of a Markdown text: language and content.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(_), Some(block)) => found.push(block),
            (Some(language), None) => open = Some((language.trim().to_owned(), String::new())),
            (None, Some((language, body))) => open = Some((language, body + line + "\n")),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fenced block has no end");
    found
}

/// The command lines of a Markdown text: lines of shell blocks, and code in
/// running text that begins with the name of a program.
fn command_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (language, body) in blocks(text) {
        if ["sh", "bash", "console", "shell"].contains(&language.as_str()) {
            let body = body.replace("\\\n", " ");
            let plain = body.lines().map(|l| l.trim().trim_start_matches("$ "));
            lines.extend(plain.filter(|l| is_command(l)).map(str::to_owned));
        }
    }
    // Odd parts between backticks are code, once the blocks are taken out.
    let mut outside = String::new();
    let mut inside = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            outside.push_str(line);
            outside.push(' ');
        }
    }
    let code = outside.split('`').skip(1).step_by(2);
    lines.extend(code.filter(|c| is_command(c)).map(str::to_owned));
    lines
}

fn is_command(line: &str) -> bool {
    ["spoor ", "cargo "]
        .iter()
        .any(|name| line.starts_with(name))
}

/// What is wrong with a command line, if anything is; `help` gives the help text
/// of a program and its subcommands, or nothing where there is no such.
fn fault(line: &str, help: &mut dyn FnMut(&[&str]) -> Option<String>) -> Option<String> {
    let line = line.split(" #").next().unwrap_or(line);
    let words: Vec<&str> = line.split_whitespace().collect();
    if let Some(at) = words.iter().position(|w| *w == "--") {
        // What `cargo run` passes on is for spoor.
        let (cargo, passed) = words.split_at(at);
        let own = format!("spoor {}", passed[1..].join(" "));
        return fault(&cargo.join(" "), help).or_else(|| match cargo.contains(&"run") {
            true => fault(&own, help),
            false => None,
        });
    }
    let mut path = vec![words[0]];
    let mut text = help(&path)?;
    let mut arguments = 0;
    for word in &words[1..] {
        if word.starts_with('-') {
            let name = word.split('=').next().unwrap_or(word);
            if !names(&text).contains(name) {
                return Some(format!("`{line}`: {} has no flag {name}", path.join(" ")));
            }
            continue;
        }
        let mut deeper = path.clone();
        deeper.push(word);
        match help(&deeper) {
            // As the job of `spoor ctl JOB status`.
            None if arguments < arguments_before_command(&text)
                && (!word.starts_with("config/") || package(word).exists()) =>
            {
                arguments += 1;
            }
            // Where subcommands are expected, another word is a mistake.
            None if text.contains("\nCommands:") && path.len() < 3 => {
                return Some(format!(
                    "`{line}`: {} has no command {word}",
                    path.join(" ")
                ));
            }
            None if word.starts_with("config/") && !package(word).exists() => {
                return Some(format!("`{line}`: there is no {word}"));
            }
            None => {}
            Some(more) => {
                path = deeper;
                text = more;
            }
        }
    }
    None
}

/// How many arguments a help text wants before the command.
fn arguments_before_command(help: &str) -> usize {
    let usage = help.lines().find(|line| line.starts_with("Usage:"));
    let before = usage.and_then(|usage| usage.split_once("<COMMAND>"));
    let argument = |word: &&str| word.starts_with(['<', '[']) && *word != "[OPTIONS]";
    before.map_or(0, |(before, _)| {
        before.split_whitespace().filter(argument).count()
    })
}

/// The flags that stand in a help text.
fn names(help: &str) -> BTreeSet<String> {
    let cut = |c: char| !(c.is_alphanumeric() || c == '-' || c == '_');
    let words = help.split(cut).filter(|w| w.starts_with('-'));
    words.map(str::to_owned).collect()
}

/// The help texts of spoor and cargo, each asked for once.
#[derive(Default)]
struct Helps(BTreeMap<Vec<String>, Option<String>>);

impl Helps {
    fn get(&mut self, path: &[&str]) -> Option<String> {
        let key: Vec<String> = path.iter().map(|p| (*p).to_owned()).collect();
        self.0.entry(key).or_insert_with(|| ask(path)).clone()
    }
}

fn ask(path: &[&str]) -> Option<String> {
    let parent = &path[..path.len() - 1];
    // A free argument before `--help` would be taken as one, so a subcommand
    // must stand in the list of its parent first.
    let listed = |list: &str| {
        let lines = list.lines().map(str::trim_start);
        path.last().is_some_and(|name| {
            lines
                .filter_map(|l| l.split([' ', ',']).next())
                .any(|l| l == *name)
        })
    };
    match (path.first(), parent.len()) {
        (Some(&"spoor"), 0) => Some(Ran::of(&mut spoor(&["--help"])).good()),
        (Some(&"spoor"), _) => {
            let above = ask(parent)?;
            let (_, commands) = above.split_once("\nCommands:\n")?;
            let (commands, _) = commands.split_once("\n\n")?;
            let mut arguments = path[1..].to_vec();
            arguments.push("--help");
            listed(commands).then(|| Ran::of(&mut spoor(&arguments)).good())
        }
        (Some(&"cargo"), 0) => Some(Ran::of(Command::new(env!("CARGO")).arg("--help")).good()),
        (Some(&"cargo"), 1) => {
            let all = Ran::of(Command::new(env!("CARGO")).arg("--list")).good();
            let arguments = [path[1], "--help"];
            listed(&all).then(|| Ran::of(Command::new(env!("CARGO")).args(arguments)).good())
        }
        _ => None,
    }
}

#[test]
fn every_shipped_job_is_valid() {
    let mut jobs = Vec::new();
    for entry in std::fs::read_dir(package("config")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            jobs.push(path);
        }
    }
    assert!(jobs.len() >= 3, "{jobs:?}");
    for job in jobs {
        if let Err(errors) = Config::load(&job) {
            panic!("{errors}");
        }
    }
}

#[test]
fn every_job_in_the_readme_is_valid() {
    let blocks = blocks(&readme());
    let toml = blocks.iter().filter(|(language, _)| language == "toml");
    let mut count = 0;
    for (_, text) in toml {
        count += 1;
        if text.contains("[[variant]]") {
            Plan::parse(text, Path::new("README.md")).unwrap();
            continue;
        }
        // A piece of a job is one that has a name already.
        let whole = match text.contains("[job]") {
            true => text.clone(),
            false => format!("[job]\nname = \"piece\"\n{text}"),
        };
        if let Err(errors) = Config::parse(&whole, "README.md") {
            panic!("{errors}\nin\n{text}");
        }
    }
    assert!(count > 0, "the README shows no job");
}

#[test]
fn every_command_in_the_readme_exists() {
    let lines = command_lines(&readme());
    assert!(lines.len() >= 5, "{lines:?}");
    let mut helps = Helps::default();
    let faults: Vec<String> = lines
        .iter()
        .filter_map(|line| fault(line, &mut |path| helps.get(path)))
        .collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn wrong_examples_are_found() {
    let text = "Run `spoor crawl x` or\n\n```sh\n$ spoor krawl x\ncargo run -- demo \\\n  --fesh\nls\n```\n\
                and `not spoor x`, or `spoor\nconfig reference`.\n";
    assert_eq!(
        command_lines(text),
        [
            "spoor krawl x",
            "cargo run -- demo    --fesh",
            "spoor crawl x",
            "spoor config reference"
        ]
    );
    let mut helps = Helps::default();
    let mut judged = |line: &str| fault(line, &mut |path| helps.get(path));
    for line in [
        "spoor krawl x",
        "spoor config chek x",
        "spoor demo --fesh",
        "spoor crawl config/dogs.toml",
        "spoor crawl x --link",
        "cargo run --release -- demo --fesh",
        "cargo run --relaese -- demo",
        "cargo tset",
    ] {
        assert!(judged(line).is_some(), "{line}");
    }
    for line in [
        "spoor crawl config/cats.toml -v",
        "spoor lab judge jobs/NAME --labels labels.tsv --topic=TOPIC",
        "spoor score --model models/cats \"a demo\" # and a comment --x",
        "cargo run --release -- demo --fresh",
        "cargo test --test it -- --nocapture",
    ] {
        assert_eq!(judged(line), None, "{line}");
    }
}
