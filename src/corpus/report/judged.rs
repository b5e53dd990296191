//! The class of an image by the majority of votes.
//!
//! This module knows only votes: an image is identified by its address, as in the log.

use std::collections::{BTreeMap, HashMap};

use crate::annotate::votes::{self, Question};
use crate::settings::JobSettings;
use crate::tool_error::ToolError;

/// Images on which no class has more than half of the votes.
pub(super) const NO_MAJORITY: &str = "no majority";

/// The class of each judged image, by its address; the later of two votes of the same
/// person counts.
pub(super) fn classes(config: &JobSettings) -> Result<HashMap<String, String>, ToolError> {
    let votes = votes::read(&config.job_folder())?;
    let votes = votes::qualified(votes, &config.annotate);
    let mut images: HashMap<&str, BTreeMap<&str, &str>> = HashMap::new();
    for vote in votes.iter().filter(|v| v.question == Question::Image) {
        let of = images.entry(&vote.url).or_default();
        of.insert(&vote.annotator, &vote.answer);
    }
    let class = |answers: &BTreeMap<&str, &str>| {
        let count = |class: &str| answers.values().filter(|a| **a == class).count();
        let most = answers.values().find(|a| 2 * count(a) > answers.len());
        most.map_or(NO_MAJORITY, |a| *a).to_owned()
    };
    let images = images.iter();
    Ok(images
        .map(|(url, answers)| ((*url).to_owned(), class(answers)))
        .collect())
}
