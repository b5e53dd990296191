//! Everything in the documentation works: every shipped job file, every piece of TOML in the README
//! and the guide, and every command in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use spoor::config::Config;
use spoor::corpus::pipeline::plan as corpus;
use spoor::corpus::ruled::StoredPage;
use spoor::guide::{TOPICS, Topic};
use spoor::rules::RuleSet;
use spoor_lab::experiment::Plan;

use crate::support::{Ran, spoor};

fn package(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The texts that explain how to use spoor: name and content. The guide's folder is listed, so that
/// no page is forgotten.
fn documents() -> Vec<(String, String)> {
    let mut names = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for entry in std::fs::read_dir(package("src/guide")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            names.push(format!("src/guide/{name}"));
        }
    }
    assert!(names.len() > 20, "{names:?}");
    names.sort();
    let read = |name: String| {
        let text = std::fs::read_to_string(package(&name));
        let text = text.unwrap_or_else(|e| panic!("{name}: {e}; this test reads it"));
        (name, text)
    };
    names.into_iter().map(read).collect()
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

/// The command lines of a Markdown text: lines of shell blocks, and code in running text that
/// begins with the name of a program.
fn command_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (language, body) in blocks(text) {
        if ["sh", "bash", "console", "shell"].contains(&language.as_str()) {
            let body = body.replace("\\\n", " ");
            let plain = body.lines().map(|l| l.trim().trim_start_matches("$ "));
            lines.extend(plain.filter(|l| is_command(l)).map(str::to_owned));
        }
    }
    // Outside of blocks, every second part between backticks is code.
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

/// The error in a command line, if any. `help` gives the help text of a program and its
/// subcommands, or nothing if there is no such command.
fn fault(line: &str, help: &mut dyn FnMut(&[&str]) -> Option<String>) -> Option<String> {
    let line = line.split(" #").next().unwrap_or(line);
    let words: Vec<&str> = line.split_whitespace().collect();
    if let Some(at) = words.iter().position(|w| *w == "--") {
        // Arguments after `--` of `cargo run` are for spoor.
        let (cargo, passed) = words.split_at(at);
        let own = format!("spoor {}", passed[1..].join(" "));
        return fault(&cargo.join(" "), help).or_else(|| {
            if cargo.contains(&"run") {
                fault(&own, help)
            } else {
                None
            }
        });
    }
    if let ["spoor", "help", name, ..] = *words.as_slice()
        && name != name.to_uppercase()
        && Topic::named(name).is_none()
        && help(&["spoor", name]).is_none()
    {
        return Some(format!("`{line}`: there is no topic or command {name}"));
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
            // For example, the job of `spoor ctl JOB status`.
            None if arguments < arguments_before_command(&text)
                && (!word.starts_with("config/") || package(word).exists()) =>
            {
                arguments += 1;
            }
            // If subcommands are expected, another word is an error.
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

/// The number of arguments that a help text expects before the command.
fn arguments_before_command(help: &str) -> usize {
    let usage = help.lines().find(|line| line.starts_with("Usage:"));
    let before = usage.and_then(|usage| usage.split_once("<COMMAND>"));
    let argument = |word: &&str| word.starts_with(['<', '[']) && *word != "[OPTIONS]";
    before.map_or(0, |(before, _)| {
        before.split_whitespace().filter(argument).count()
    })
}

/// The flags in a help text.
fn names(help: &str) -> BTreeSet<String> {
    let cut = |c: char| !(c.is_alphanumeric() || c == '-' || c == '_');
    let words = help.split(cut).filter(|w| w.starts_with('-'));
    words.map(str::to_owned).collect()
}

/// The help texts of spoor and cargo, each requested once.
#[derive(Default)]
struct Helps(BTreeMap<Vec<String>, Option<String>>);

impl Helps {
    fn get(&mut self, path: &[&str]) -> Option<String> {
        let key: Vec<String> = path.iter().map(|p| (*p).to_owned()).collect();
        if let Some(known) = self.0.get(&key) {
            return known.clone();
        }
        let help = self.ask(path);
        self.0.insert(key, help.clone());
        help
    }

    fn ask(&mut self, path: &[&str]) -> Option<String> {
        let (last, parent) = path.split_last()?;
        // A free argument before `--help` would count as one, so a subcommand must be in the list
        // of its parent.
        let listed = |list: &str| {
            let mut lines = list.lines().map(str::trim_start);
            lines.any(|l| l.split([' ', ',']).next() == Some(*last))
        };
        match (path[0], parent.len()) {
            ("spoor", 0) => Some(Ran::of(&mut spoor(&["--help"])).good()),
            ("spoor", _) => {
                let above = self.get(parent)?;
                let (_, commands) = above.split_once("\nCommands:\n")?;
                let (commands, _) = commands.split_once("\n\nOptions")?;
                let mut arguments = path[1..].to_vec();
                arguments.push("--help");
                listed(commands).then(|| Ran::of(&mut spoor(&arguments)).good())
            }
            ("cargo", 0) => Some(Ran::of(Command::new(env!("CARGO")).arg("--help")).good()),
            ("cargo", 1) => {
                let all = Ran::of(Command::new(env!("CARGO")).arg("--list")).good();
                let arguments = [*last, "--help"];
                listed(&all).then(|| Ran::of(Command::new(env!("CARGO")).args(arguments)).good())
            }
            _ => None,
        }
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
    corpus::Plan::load(&package("config/corpora/cats.toml")).unwrap();
}

/// The shipped rules find the values of their examples.
#[test]
fn every_shipped_rule_is_right() {
    let rules = RuleSet::read(&[package("config/rules")]).unwrap();
    let checked = spoor::rules::check(&rules, None, |example| {
        let page = StoredPage::of_file(&example.page, &example.url).unwrap();
        Ok((page.markup, page.html))
    });
    let [checked] = checked.as_slice() else {
        panic!("{checked:?}");
    };
    assert_eq!(
        (checked.failures.as_slice(), checked.notes.as_slice()),
        (&[][..], &[][..])
    );
    assert_eq!(spoor::rules::duplicates(&rules), []);
}

#[test]
fn every_job_in_the_documents_is_valid() {
    let mut count = 0;
    for (name, document) in documents() {
        for (_, text) in blocks(&document).iter().filter(|(l, _)| l == "toml") {
            count += 1;
            if text.contains("[[variant]]") {
                // A document may show a variant alone.
                let web = "web = \"x\"\nlabels = \"x\"\n[[topic]]\nname = \"x\"\n\
                           positive = [\"x\"]\nbegin.warm = \"x\"\n";
                let has_web = text.lines().any(|line| line.starts_with("web = "));
                let whole = format!("{}{text}", if has_web { "" } else { web });
                Plan::parse(&whole, Path::new(&name)).unwrap();
                continue;
            }
            if text.contains("[[rule]]") {
                if let Err(errors) = RuleSet::parse(text, Path::new(&name)) {
                    panic!("{errors}\nin\n{text}");
                }
                continue;
            }
            if text.contains("[[step]]") {
                let source = "[source]\njobs = [\"x\"]\n";
                let has_source = text.contains("[source]");
                let whole = if has_source {
                    text.clone()
                } else {
                    format!("{source}{text}")
                };
                corpus::Plan::parse(Path::new(&name), &whole).unwrap();
                continue;
            }
            // Other pieces of a job are valid in a job that has a name.
            let whole = if text.contains("[job]") {
                text.clone()
            } else {
                format!("[job]\nname = \"piece\"\n{text}")
            };
            if let Err(errors) = Config::parse(&whole, &name) {
                panic!("{errors}\nin\n{text}");
            }
        }
    }
    assert!(count >= 5, "the documents show {count} jobs");
}

#[test]
fn every_command_in_the_documents_exists() {
    let mut helps = Helps::default();
    let mut count = 0;
    let mut faults = Vec::new();
    for (name, document) in documents() {
        for line in command_lines(&document) {
            count += 1;
            if let Some(fault) = fault(&line, &mut |path| helps.get(path)) {
                faults.push(format!("{name}: {fault}"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    assert!(count >= 50, "the documents show {count} commands");
}

#[test]
fn every_file_that_a_document_links_to_exists() {
    let link = regex::Regex::new(r"\]\(([^)#]+)[^)]*\)|^\[[a-z]+\]: (.*)").unwrap();
    let mut count = 0;
    for (name, document) in documents() {
        let folder = package(&name);
        let folder = folder.parent().unwrap();
        for line in document.lines() {
            for found in link.captures_iter(line) {
                let to = found.get(1).or(found.get(2)).unwrap().as_str();
                if !to.contains("://") {
                    count += 1;
                    assert!(folder.join(to).exists(), "{name}: there is no {to}");
                }
            }
        }
    }
    assert!(count >= 30, "{count} links were read");
}

#[test]
fn the_readme_is_short_and_names_every_topic() {
    let readme = std::fs::read_to_string(package("README.md")).unwrap();
    assert!(readme.lines().count() <= 200, "details belong in the guide");
    for topic in TOPICS {
        let file = format!("(src/guide/{}.md)", topic.name);
        assert!(readme.contains(&file), "{file}");
    }
}

#[test]
fn cargo_run_in_a_clone_means_spoor() {
    // README's first command names no program, and several members of the workspace have one.
    let read = |path: PathBuf| -> toml::Table {
        let text = std::fs::read_to_string(path.join("Cargo.toml")).unwrap();
        text.parse().unwrap()
    };
    let workspace = read(package(""));
    let members = workspace["workspace"]["default-members"].as_array();
    let runs: Vec<_> = members
        .unwrap()
        .iter()
        .map(|member| read(package(member.as_str().unwrap())))
        .filter_map(|cargo| cargo["package"].get("default-run").cloned())
        .collect();
    assert_eq!(runs, [toml::Value::from("spoor")]);
}

#[test]
fn help_shows_commands_and_topics() {
    let all = Ran::of(&mut spoor(&["help"])).good();
    assert!(all.contains("\nCommands:\n"), "{all}");
    for topic in TOPICS {
        assert!(all.contains(topic.about), "{}", topic.name);
        let page = Ran::of(&mut spoor(&["help", topic.name])).good();
        assert_eq!(page, topic.plain(80));
    }
    for command in [vec!["crawl"], vec!["archive", "get"]] {
        let mut with_flag = command.clone();
        with_flag.push("--help");
        let mut with_help = command.clone();
        with_help.insert(0, "help");
        let page = Ran::of(&mut spoor(&with_help)).good();
        assert_eq!(page, Ran::of(&mut spoor(&with_flag)).good());
    }
    let unknown = Ran::of(&mut spoor(&["help", "imges"]));
    assert_eq!(unknown.status.code(), Some(2));
    for part in [
        "no topic `imges`",
        "did you mean `images`?",
        TOPICS[0].about,
    ] {
        assert!(unknown.err.contains(part), "{}", unknown.err);
    }
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
        "spoor help imges",
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
        "spoor archive get x.warc.gz --url=URL",
        "spoor score --model models/cats \"a demo\" # and a comment --x",
        "cargo run --release -- demo --fresh",
        "cargo test --test it -- --nocapture",
        "spoor help images",
        "spoor help crawl",
        "spoor help TOPIC",
    ] {
        assert_eq!(judged(line), None, "{line}");
    }
}

/// Files, modules and functions that `SECURITY.md` names as the tests of a promise.
#[test]
fn the_tests_of_every_promise_exist() {
    let mut sources = Vec::new();
    let mut folders = vec![package("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                sources.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    let text = std::fs::read_to_string(package("SECURITY.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let cells = rows.skip(1).filter_map(|row| row.split(" | ").nth(2));
    let names: Vec<&str> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        let exists = if name.contains("::") {
            let path = format!("/{}", name.replace("::", "/"));
            let is_it = |source: &String| {
                source.ends_with(&format!("{path}.rs"))
                    || source.ends_with(&format!("{path}/mod.rs"))
            };
            sources.iter().any(is_it)
        } else if name.contains(['/', '.']) {
            package(name).exists()
        } else {
            let function = format!("fn {name}(");
            let read = |source: &String| std::fs::read_to_string(source).unwrap_or_default();
            sources
                .iter()
                .any(|source| read(source).contains(&function))
        };
        assert!(exists, "SECURITY.md names `{name}`, which is not there");
    }
}
