//! The record of votes: `annotations/votes.jsonl` in the job's folder.
//!
//! The file is append-only, one JSON object per line, each on the disk before the response
//! is sent:
//!
//! ```text
//! {"vote":17,"time":"2026-01-31T12:00:00Z","annotator":"ann","image":"<sha256>","url":"…","question":"image","answer":"on topic","gold":null}
//! {"undo":17,"time":"2026-01-31T12:00:04Z","annotator":"ann"}
//! ```
//!
//! A vote is valid until its annotator undoes it. An incomplete last line was cut off by a
//! crash before it was confirmed, so it does not count. Any other invalid line is an
//! error, because votes cannot be collected again.
//!
//! This module does not know images, the choice of questions, or the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fs::{IoError, beneath, if_there};
use crate::sanitize;
use crate::settings::Annotate;
use crate::tool_error::{ToolError, lock};

/// The folder of everything about judging, in the job's folder.
pub const FOLDER: &str = "annotations";

/// The file of the votes, in [`FOLDER`].
pub const FILE: &str = "votes.jsonl";

/// The same, from the job's folder.
const VOTES: &str = "annotations/votes.jsonl";

/// The answers to [`Question::Text`], in the order of the thesis (Werner 2015, section
/// 4.3): the text describes the image, fits it, has nothing to do with it, or is wrong
/// about it.
pub const TEXT_CLASSES: [&str; 4] = ["describes", "fits", "irrelevant", "misleading"];

/// What is asked about an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// What it shows: one of `annotate.classes`.
    Image,
    /// What its words have to do with it: one of [`TEXT_CLASSES`].
    Text,
}

/// An answer; one line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// Its number, ascending in the file, the first is 1.
    pub vote: u64,
    /// When, RFC 3339 in UTC.
    pub time: String,
    /// The annotator, by the name they gave.
    pub annotator: String,
    /// SHA-256 of the image file, in hexadecimal.
    pub image: String,
    /// Where the image came from.
    pub url: String,
    /// The question.
    pub question: Question,
    /// The class chosen.
    pub answer: String,
    /// The right answer, if known: a gold question, which tests the annotator and says
    /// nothing about the image.
    pub gold: Option<String>,
}

/// The other kind of line.
#[derive(Serialize, Deserialize)]
struct Undo {
    undo: u64,
    time: String,
    annotator: String,
}

/// The valid votes of the job in `job_folder`, in the order they were given; empty if
/// there are none yet. The file may be written to at the same time.
///
/// # Errors
///
/// [`ToolError`] names the file, or the first damaged line.
pub fn read(job_folder: &Path) -> Result<Vec<Vote>, ToolError> {
    let path = job_folder.join(VOTES);
    let bytes = if_there(beneath::read(job_folder, VOTES));
    let bytes = bytes.map_err(IoError::at(&path, "reading"))?;
    Ok(parse(&bytes.unwrap_or_default(), &path)?.votes)
}

/// The votes that count for the images: without those on gold questions, and those by
/// annotators who failed too many of these.
pub fn qualified(votes: Vec<Vote>, section: &Annotate) -> Vec<Vote> {
    let failed = disqualified(&votes, section);
    // Only one half of a gold question may be known; votes on the other half of its image
    // do not count either.
    let gold = votes.iter().filter(|v| v.gold.is_some());
    let gold: BTreeSet<String> = gold.map(|v| v.image.clone()).collect();
    let counts = |v: &Vote| !failed.contains(&v.annotator) && !gold.contains(&v.image);
    votes.into_iter().filter(counts).collect()
}

/// Annotators who answered at least `annotate.qualify_after` gold questions, and less than
/// the share `annotate.qualify` of them correctly.
pub fn disqualified(votes: &[Vote], section: &Annotate) -> BTreeSet<String> {
    let mut standing: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for vote in votes {
        if let Some(gold) = &vote.gold {
            let (right, all) = standing.entry(&vote.annotator).or_default();
            *right += usize::from(*gold == vote.answer);
            *all += 1;
        }
    }
    let failed = standing
        .into_iter()
        .filter(|(_, (right, all))| !passes(*right, *all, section));
    failed.map(|(name, _)| name.to_owned()).collect()
}

/// Whether `right` correct answers to `all` gold questions suffice for now.
pub(super) fn passes(right: usize, all: usize, section: &Annotate) -> bool {
    all < section.qualify_after || right as f64 >= section.qualify * all as f64
}

/// The record, opened for appending by this process alone.
#[derive(Debug)]
pub(super) struct VoteRecord {
    path: PathBuf,
    file: File,
    length: u64,
    next: u64,
    broken: bool,
}

impl Drop for VoteRecord {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that was just forked keeps it
        // open until it executes another program.
        self.file.unlock().ok();
    }
}

impl VoteRecord {
    /// Opens or creates the record of a job, cuts off an incomplete last line, and returns
    /// the valid votes with it.
    pub fn open(job_folder: &Path) -> Result<(Self, Vec<Vote>), ToolError> {
        let folder = job_folder.join(FOLDER);
        beneath::create_dir_all(job_folder, FOLDER)
            .map_err(IoError::at(&folder, "making the folder"))?;
        let path = job_folder.join(VOTES);
        let file = beneath::append(job_folder, VOTES).map_err(IoError::at(&path, "opening"))?;
        lock(&file, &path, || {
            let why = "another `spoor annotate` is using this job; use its page, or stop it first";
            ToolError::busy(&path, why)
        })?;
        let bytes = beneath::read(job_folder, VOTES).map_err(IoError::at(&path, "reading"))?;
        let ParsedVotes { votes, whole, last } = parse(&bytes, &path)?;
        file.set_len(whole)
            .and_then(|()| file.sync_all())
            .map_err(IoError::at(&path, "cutting"))?;
        // The file's name must survive as well as what is in it.
        for name in [VOTES, FOLDER] {
            beneath::sync_folder_of(job_folder, name)
                .map_err(IoError::at(&job_folder.join(name), "syncing its folder"))?;
        }
        let record = Self {
            path,
            file,
            length: whole,
            next: last.saturating_add(1),
            broken: false,
        };
        Ok((record, votes))
    }

    /// Adds a vote, sets its number and time, and returns it when it is on the disk. After
    /// an error it is not valid.
    pub fn vote(&mut self, vote: Vote) -> Result<Vote, ToolError> {
        let vote = Vote {
            vote: self.next,
            time: now(),
            ..vote
        };
        self.append(&vote)?;
        self.next = self.next.saturating_add(1);
        Ok(vote)
    }

    /// Undoes a vote in the same way.
    pub fn undo(&mut self, vote: &Vote) -> Result<(), ToolError> {
        self.append(&Undo {
            undo: vote.vote,
            time: now(),
            annotator: vote.annotator.clone(),
        })
    }

    fn append(&mut self, line: &impl Serialize) -> Result<(), ToolError> {
        if self.broken {
            let why = "an earlier write failed; free space and start `spoor annotate` again";
            return Err(ToolError::at(&self.path, why));
        }
        let line = serde_json::to_string(line)
            .map_err(|e| IoError::at(&self.path, "encoding")(io::Error::other(e)))?;
        let bytes = format!("{}\n", sanitize::json(&line));
        let written = self.file.write_all(bytes.as_bytes());
        if let Err(error) = written.and_then(|()| self.file.sync_data()) {
            // It is not confirmed, so it must not count.
            let cut = self.file.set_len(self.length);
            self.broken = cut.and_then(|()| self.file.sync_data()).is_err();
            return Err(IoError::at(&self.path, "writing")(error).into());
        }
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// The content of a record.
struct ParsedVotes {
    votes: Vec<Vote>,
    /// Bytes of its complete lines.
    whole: u64,
    /// The highest number, 0 if there is none.
    last: u64,
}

fn parse(bytes: &[u8], path: &Path) -> Result<ParsedVotes, ToolError> {
    let end = bytes
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    let mut votes: Vec<Vote> = Vec::new();
    let mut last = 0;
    let whole = bytes.get(..end).unwrap_or_default();
    for (at, line) in whole.split_inclusive(|b| *b == b'\n').enumerate() {
        let damage = |why: String| {
            let why = format!("not a line that spoor wrote ({why}); correct or remove it by hand");
            ToolError::in_line(path, at + 1, why).and("no vote is dropped silently")
        };
        if let Ok(Undo {
            undo, annotator, ..
        }) = serde_json::from_slice(line)
        {
            let own = |v: &Vote| v.vote == undo && v.annotator == annotator;
            let Some(at) = votes.iter().rposition(own) else {
                let why = format!("{annotator:?} has no valid vote {undo} to undo");
                return Err(damage(why));
            };
            votes.remove(at);
            continue;
        }
        let vote: Vote = serde_json::from_slice(line).map_err(|e| damage(e.to_string()))?;
        if vote.vote <= last {
            return Err(damage(format!("vote {} comes after {last}", vote.vote)));
        }
        last = vote.vote;
        votes.push(vote);
    }
    Ok(ParsedVotes {
        votes,
        whole: end as u64,
        last,
    })
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ballot(annotator: &str, image: &str, answer: &str, gold: Option<&str>) -> Vote {
        Vote {
            vote: 0,
            time: String::new(),
            annotator: annotator.to_owned(),
            image: image.to_owned(),
            url: format!("http://a.test/{image}"),
            question: Question::Image,
            answer: answer.to_owned(),
            gold: gold.map(str::to_owned),
        }
    }

    fn file(folder: &Path) -> PathBuf {
        folder.join(FOLDER).join(FILE)
    }

    #[test]
    fn lines_are_as_documented() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), []);
        let (mut record, votes) = VoteRecord::open(folder.path()).unwrap();
        assert_eq!(votes, []);
        let vote = record
            .vote(ballot("ann", "00ff", "on topic", None))
            .unwrap();
        assert_eq!(read(folder.path()).unwrap(), std::slice::from_ref(&vote));
        record.undo(&vote).unwrap();
        let lines = std::fs::read_to_string(file(folder.path())).unwrap();
        let mut lines = lines.lines().map(|line| {
            let (before, rest) = line.split_once(r#""time":""#).unwrap();
            let (time, after) = rest.split_once('"').unwrap();
            time.parse::<jiff::Timestamp>().unwrap();
            format!("{before}{after}")
        });
        assert_eq!(
            lines.next().unwrap(),
            r#"{"vote":1,,"annotator":"ann","image":"00ff","url":"http://a.test/00ff","question":"image","answer":"on topic","gold":null}"#
        );
        assert_eq!(lines.next().unwrap(), r#"{"undo":1,,"annotator":"ann"}"#);
        assert_eq!(lines.next(), None);
        assert_eq!(read(folder.path()).unwrap(), []);
        // A number is never reused.
        drop(record);
        let (mut record, _) = VoteRecord::open(folder.path()).unwrap();
        assert_eq!(record.vote(ballot("b", "1", "x", None)).unwrap().vote, 2);
    }

    #[test]
    fn one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let open = VoteRecord::open(folder.path()).unwrap();
        let second = VoteRecord::open(folder.path()).unwrap_err();
        assert!(second.is_busy(), "{second}");
        drop(open);
        VoteRecord::open(folder.path()).unwrap();
    }

    #[test]
    fn damage_is_named_by_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let (mut record, _) = VoteRecord::open(folder.path()).unwrap();
        let first = record.vote(ballot("ann", "1", "x", None)).unwrap();
        drop(record);
        let good = std::fs::read_to_string(file(folder.path())).unwrap();
        let line = good.trim_end();
        for (more, why) in [
            ("\n", ":2: "),
            ("{}\n", ":2: "),
            ("not json\n", ":2: "),
            ("\u{0}\n", ":2: "),
            (&format!("{line}\n"), "vote 1 comes after 1"),
            (r#"{"undo":9,"time":"","annotator":"ann"}"#, ""),
            (
                "{\"undo\":9,\"time\":\"\",\"annotator\":\"ann\"}\n",
                "no valid vote 9",
            ),
            (
                "{\"undo\":1,\"time\":\"\",\"annotator\":\"bob\"}\n",
                "\"bob\" has no valid vote 1",
            ),
        ] {
            std::fs::write(file(folder.path()), format!("{good}{more}")).unwrap();
            match (read(folder.path()), why) {
                // A line without its end was cut off and does not count.
                (Ok(votes), "") => assert_eq!(votes, std::slice::from_ref(&first)),
                (Err(error), why) if !why.is_empty() => {
                    assert!(error.to_string().contains(why), "{more:?}: {error}");
                    assert!(VoteRecord::open(folder.path()).is_err());
                }
                (other, _) => panic!("{more:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn who_misses_gold_does_not_count() {
        let section = Annotate {
            qualify: 0.5,
            qualify_after: 2,
            ..Annotate::default()
        };
        let votes = vec![
            ballot("ann", "1", "x", None),
            ballot("bob", "1", "x", None),
            ballot("ann", "g", "x", Some("x")),
            ballot("bob", "g", "y", Some("x")),
            ballot("ann", "h", "y", Some("x")),
            ballot("cid", "g", "y", Some("x")),
            ballot("cid", "2", "y", None),
            // The words of a gold image whose right answer was not given.
            ballot("cid", "g", "fits", None),
        ];
        assert_eq!(disqualified(&votes, &section), BTreeSet::new());
        let mut more = votes.clone();
        more.push(ballot("bob", "h", "y", Some("x")));
        let failed: Vec<String> = disqualified(&more, &section).into_iter().collect();
        assert_eq!(failed, ["bob"]);
        let left = qualified(more, &section);
        assert_eq!(left, [votes[0].clone(), votes[6].clone()]);
    }

    proptest! {
        #![proptest_config(spoor_testing::cases!(64))]

        /// Any sequence of votes and undos, cut off at any byte, reads back as the votes valid
        /// after its complete lines, and can be continued.
        #[test]
        fn a_torn_record_is_its_prefix(
            steps in prop::collection::vec((0_u8..4, "[a-c]", "\\PC{0,8}", any::<bool>()), 0..20),
            tear in any::<prop::sample::Index>(),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let (mut record, _) = VoteRecord::open(folder.path()).unwrap();
            let mut force: Vec<Vote> = Vec::new();
            let mut after = vec![force.clone()];
            for (kind, who, text, gold) in steps {
                let own = force.iter().rposition(|v| v.annotator == who);
                match (kind, own) {
                    (0, Some(at)) => {
                        record.undo(&force[at]).unwrap();
                        force.remove(at);
                    }
                    _ => {
                        let gold = gold.then_some("x");
                        force.push(record.vote(ballot(&who, &text, &text, gold)).unwrap());
                    }
                }
                after.push(force.clone());
            }
            drop(record);
            let path = file(folder.path());
            let bytes = std::fs::read(&path).unwrap();
            let cut = tear.index(bytes.len() + 1);
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let lines = bytes[..cut].iter().filter(|b| **b == b'\n').count();
            prop_assert_eq!(&read(folder.path()).unwrap(), &after[lines]);
            let (mut record, opened) = VoteRecord::open(folder.path()).unwrap();
            prop_assert_eq!(&opened, &after[lines]);
            let last = record.vote(ballot("z", "z", "z", None)).unwrap();
            let again = read(folder.path()).unwrap();
            prop_assert_eq!(again.last(), Some(&last));
            prop_assert_eq!(again.len(), opened.len() + 1);
        }
    }
}
