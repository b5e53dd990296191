//! A pipe, a device, or a link to one, in place of a file that a command reads: the command names
//! it and ends.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{Ran, spoor};

/// Creates something other than a file at a path.
type Put = fn(&Path);

const KINDS: [(&str, Put); 3] = [
    ("it is a pipe, not a file", pipe),
    ("it is a pipe, not a file", |path| {
        let beside = path.with_extension("pipe");
        pipe(&beside);
        symlink(beside, path).unwrap();
    }),
    ("it is a device, not a file", |path| {
        symlink("/dev/zero", path).unwrap();
    }),
];

fn pipe(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
}

/// A command, the path that is not a file, and a file with its text that leads there.
struct Case {
    command: &'static str,
    at: &'static str,
    by: Option<(&'static str, &'static str)>,
}

const fn given(command: &'static str, at: &'static str) -> Case {
    Case {
        command,
        at,
        by: None,
    }
}

const fn within(
    command: &'static str,
    at: &'static str,
    file: &'static str,
    text: &'static str,
) -> Case {
    Case {
        command,
        at,
        by: Some((file, text)),
    }
}

const JOB: &str = "[job]\nname = \"j\"\ncontact = \"ada@example.org\"\n[train]\npositive = [\"t.txt\"]\n\
    [seeds]\nfiles = [\"s.txt\"]\n";

const CASES: &[Case] = &[
    given("archive list x.warc.gz", "x.warc.gz"),
    given("archive list d", "d/x.warc.gz"),
    given("archive list x.cdxj", "x.cdxj"),
    given("archive list x.wacz", "x.wacz"),
    given("archive get --url http://a.test/ x.warc", "x.warc"),
    given("archive check x.arc", "x.arc"),
    given("archive check d", "d/x.warc.zst"),
    given("archive stats x.warc.gz", "x.warc.gz"),
    given("archive index x.warc.gz -o o", "x.warc.gz"),
    given("archive pack x.warc.gz -o o.wacz", "x.warc.gz"),
    given("config check job.toml", "job.toml"),
    given("crawl job.toml", "job.toml"),
    within("crawl job.toml", "t.txt", "job.toml", JOB),
    within("crawl job.toml", "s.txt", "job.toml", JOB),
    given("rules check a.toml", "a.toml"),
    given("rules check d", "d/a.toml"),
    given("score --model d word", "d/model.toml"),
    given("pdf x.pdf", "x.pdf"),
    given("tagger train --output o t.conllu", "t.conllu"),
    given("entities build --output o list.tsv", "list.tsv"),
    given("corpus build plan.toml", "plan.toml"),
    within(
        "corpus build plan.toml",
        "x.jsonl",
        "plan.toml",
        "[source]\njsonl = [\"x.jsonl\"]\n",
    ),
    within(
        "corpus build plan.toml",
        "d/x.warc.gz",
        "plan.toml",
        "[source]\narchives = [\"d\"]\n",
    ),
    within(
        "corpus build plan.toml",
        "d/x.html",
        "plan.toml",
        "[source]\nfolders = [\"d\"]\n",
    ),
    within(
        "checkpoint list job.toml",
        "d/manifest.json",
        "job.toml",
        "[job]\nname = \"j\"\ncontact = \"ada@example.org\"\n[seeds]\nurls = [\"http://a.test/\"]\n\
            [checkpoint]\nstore = \"file://HERE/d\"\n",
    ),
];

#[test]
fn every_command_names_a_path_that_is_not_a_file() {
    let mut wrong = Vec::new();
    for case in CASES {
        for (says, put) in KINDS {
            let folder = tempfile::tempdir().unwrap();
            let here = folder.path();
            fs::create_dir(here.join("d")).unwrap();
            for (name, text) in [("t.txt", "A text.\n"), ("s.txt", "http://a.test/\n")] {
                fs::write(here.join(name), text).unwrap();
            }
            if let Some((name, text)) = case.by {
                let text = text.replace("HERE", here.to_str().unwrap());
                fs::write(here.join(name), text).unwrap();
            }
            let at = here.join(case.at);
            fs::remove_file(&at).ok();
            put(&at);
            let arguments: Vec<&str> = case.command.split(' ').collect();
            let ran = Ran::of(spoor(&arguments).current_dir(here));
            let said = format!("{}{}", ran.out, ran.err);
            let name = at.file_name().unwrap().to_str().unwrap();
            if ran.status.success() || !said.contains(name) || !said.contains(says) {
                wrong.push(format!("{} with {}: {said}", case.command, case.at));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
