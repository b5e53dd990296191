//! Texts about a topic, cut to sizes, so that an experiment can vary the amount of text.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::ExperimentError;
use super::plan::{Plan, TopicPlan, plain};
use spoor::fs::IoError;
use spoor::fs::atomic;

/// Replaces a topic in the names of plots over all topics.
pub(super) const MEAN: &str = "mean";

/// A topic with a part of its texts.
#[derive(Debug)]
pub(super) struct SizedTopic {
    /// How many lines of its texts; `None` for all of them.
    pub lines: Option<u64>,
    /// The topic. Its `positive` names the cut texts.
    pub topic: TopicPlan,
}

/// The topics of a plan, each at all of its sizes.
#[derive(Debug)]
pub(super) struct Sizes {
    /// For each topic its sizes in ascending order; all of its texts come last.
    pub topics: Vec<Vec<SizedTopic>>,
    /// The number of lines of all texts about a topic; empty if the plan has no `lines`.
    pub texts: BTreeMap<String, u64>,
}

/// Each topic of the plan at each of its sizes. Writes the cut texts into the folder
/// `texts` of the experiment.
///
/// # Errors
/// [`ExperimentError::Plan`] if a text cannot be cut after that many lines or is not
/// longer, or if a topic has the name of a plot; [`ExperimentError::Io`] if it cannot be read or
/// written.
pub(super) fn sized(plan: &Plan) -> Result<Sizes, ExperimentError> {
    let is_mean = |topic: &TopicPlan| plain(&topic.name) == MEAN;
    if !plan.lines.is_empty() && plan.topic.iter().any(is_mean) {
        return Err(wrong(
            plan,
            format!(
                "with `lines` no topic may be called `{MEAN}`, as the plots over all topics are; \
                 call it otherwise here and in the labels"
            ),
        ));
    }
    let mut texts = BTreeMap::new();
    let topics = plan.topic.iter();
    let topics = topics.map(|topic| sizes(plan, topic, &mut texts));
    Ok(Sizes {
        topics: topics.collect::<Result<_, _>>()?,
        texts,
    })
}

fn sizes(
    plan: &Plan,
    topic: &TopicPlan,
    all: &mut BTreeMap<String, u64>,
) -> Result<Vec<SizedTopic>, ExperimentError> {
    let mut sizes = Vec::new();
    if !plan.lines.is_empty() {
        let texts = read(plan, topic)?;
        let held = texts.iter().map(|(_, text)| filled(text).count() as u64);
        all.insert(topic.name.clone(), held.sum());
        for lines in &plan.lines {
            let mut topic = topic.clone();
            topic.positive = cut(plan, &topic, &texts, *lines)?;
            sizes.push(SizedTopic {
                lines: Some(*lines),
                topic,
            });
        }
    }
    sizes.push(SizedTopic {
        lines: None,
        topic: topic.clone(),
    });
    Ok(sizes)
}

/// All texts about a topic, with their names.
fn read<'a>(plan: &Plan, topic: &'a TopicPlan) -> Result<Vec<(&'a str, String)>, ExperimentError> {
    let read = |source: &'a String| {
        let path = Path::new(source);
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        let what = match path.is_dir() {
            true => Some("a folder"),
            false if ["html", "htm", "xhtml"].iter().any(|e| extension == *e) => Some("a web page"),
            false => None,
        };
        if let Some(what) = what {
            return Err(wrong(
                plan,
                format!(
                    "`lines` cuts plain text files, but `positive` of the topic `{}` names {what}, \
                     {source}; name text files, in the order in which they are to be read",
                    topic.name
                ),
            ));
        }
        let text = spoor::fs::read_to_string(path).map_err(IoError::at(path, "reading"))?;
        Ok((source.as_str(), text))
    };
    topic.positive.iter().map(read).collect()
}

/// The sources with the first lines of the texts: whole files unchanged, so that each stays a
/// separate document if the job says so, and the beginning of the file that is cut.
fn cut(
    plan: &Plan,
    topic: &TopicPlan,
    texts: &[(&str, String)],
    lines: u64,
) -> Result<Vec<String>, ExperimentError> {
    let mut sources = Vec::new();
    let mut left = lines;
    for (source, text) in texts {
        match beginning(text, left) {
            Cut::At(0) => return Ok(sources),
            Cut::At(end) => {
                let text = text.get(..end).unwrap_or(text);
                let path = write(plan, topic, lines, text)?;
                sources.push(path.display().to_string());
                return Ok(sources);
            }
            Cut::Whole { lines } => {
                left -= lines;
                sources.push((*source).to_owned());
            }
        }
    }
    Err(wrong(
        plan,
        format!(
            "`lines` names {lines}, but all texts about the topic `{}` hold {} lines; leave out \
             {lines}, as the whole texts are run as well, or name more texts in `positive`",
            topic.name,
            lines - left
        ),
    ))
}

#[derive(Debug, PartialEq)]
enum Cut {
    /// The byte after the last line that is taken.
    At(usize),
    /// The text has no more lines than that.
    Whole { lines: u64 },
}

/// Where the first lines of a text end.
fn beginning(text: &str, lines: u64) -> Cut {
    let (mut taken, mut end) = (0, 0);
    for at in filled(text) {
        if taken == lines {
            return Cut::At(end);
        }
        taken += 1;
        end = at;
    }
    Cut::Whole { lines: taken }
}

/// The end of each line that counts. Empty lines separate documents and do not count, so
/// that a size is the same amount of text in any layout.
fn filled(text: &str) -> impl Iterator<Item = usize> {
    let lines = text.split_inclusive('\n').scan(0, |end, line| {
        *end += line.len();
        Some((*end, line))
    });
    let filled = lines.filter(|(_, line)| !line.trim().is_empty());
    filled.map(|(end, _)| end)
}

/// Writes a cut text. Its name identifies its content: another text needs another model,
/// and models are identified by the names of their texts.
fn write(
    plan: &Plan,
    topic: &TopicPlan,
    lines: u64,
    text: &str,
) -> Result<PathBuf, ExperimentError> {
    let folder = plan.out.join("texts");
    std::fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
    let digest = base16ct::lower::encode_string(&Sha256::digest(text));
    let digest = digest.get(..8).unwrap_or_default();
    let path = folder.join(format!("{}-{lines}-{digest}.txt", plain(&topic.name)));
    atomic::write(&path, |out| out.write_all(text.as_bytes()))
        .map_err(IoError::at(&path, "writing"))?;
    Ok(path)
}

fn wrong(plan: &Plan, why: String) -> ExperimentError {
    ExperimentError::Plan {
        path: plan.path.clone(),
        why,
    }
}
