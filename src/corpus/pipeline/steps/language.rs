//! Filters documents by language.

use super::super::document::Document;
use super::super::plan::ByLanguage;
use super::{DocumentStep, Trace, Value};

impl DocumentStep for ByLanguage {
    fn apply(&self, document: &mut Document, trace: &mut Trace) {
        let code = document.language.as_deref();
        let wanted = || self.languages.iter().any(|l| Some(l.code()) == code);
        let is_wanted = if self.languages.is_empty() {
            code.is_some()
        } else {
            wanted()
        };
        let bound = || match self.languages.as_slice() {
            [] => "any that is recognised".to_owned(),
            list => {
                let codes: Vec<&str> = list.iter().map(|l| l.code()).collect();
                codes.join(", ")
            }
        };
        if !trace.note("language", Value::text(code), bound, is_wanted) {
            return;
        }
        let certainty = document.language_certainty;
        let is_certain = certainty.unwrap_or_default() >= self.least;
        let bound = || format!("at least {}", self.least);
        trace.note("certainty", Value::number(certainty), bound, is_certain);
    }

    fn marks(&self) -> bool {
        self.mark
    }
}
