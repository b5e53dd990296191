//! Filters documents by the probability that they are on topic.

use super::super::document::Document;
use super::super::plan::ByTopic;
use super::{DocumentStep, Trace, Value};

impl DocumentStep for ByTopic {
    fn apply(&self, document: &mut Document, trace: &mut Trace) {
        let stays = document
            .on_topic
            .is_some_and(|probable| probable >= self.least);
        let bound = || format!("at least {}", self.least);
        trace.note("on_topic", Value::number(document.on_topic), bound, stays);
    }

    fn marks(&self) -> bool {
        self.mark
    }
}
