//! Filters documents by what their publishers forbid.

use super::super::document::Document;
use super::super::plan::Consent;
use super::{DocumentStep, Trace, Value};
use crate::clock;
use crate::page::Use;

impl DocumentStep for Consent {
    fn apply(&self, document: &mut Document, trace: &mut Trace) {
        let terms = document.terms.as_ref();
        let said = terms.map_or_else(Vec::new, |terms| {
            terms.forbids(Use::Text, &self.obey, clock::now())
        });
        let value = Some(said.join(", ")).filter(|said| !said.is_empty());
        let bound = || "nothing that forbids it".to_owned();
        trace.note(
            "forbidden",
            Value::text(value.as_deref()),
            bound,
            said.is_empty(),
        );
    }

    fn marks(&self) -> bool {
        self.mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Signal, SignalValue, Terms};

    #[test]
    fn what_is_forbidden_goes_with_the_words_that_forbid_it() {
        let mut terms = Terms::default();
        terms.directives.noai = true;
        terms.signal("ai-train".to_owned(), SignalValue::Flag(false));
        let goes = |step: &Consent, terms: Option<&Terms>| {
            let mut document = Document {
                terms: terms.cloned(),
                ..Document::default()
            };
            let mut trace = Trace::default();
            step.apply(&mut document, &mut trace);
            trace.broken().map(|broken| broken.value.to_string())
        };
        let all = Consent::default();
        let words = "noai (robots), Content-Signal: ai-train=no";
        assert_eq!(goes(&all, Some(&terms)).as_deref(), Some(words));
        assert_eq!(goes(&all, Some(&Terms::default())), None);
        assert_eq!(goes(&all, None), None);
        let tdm = Consent {
            obey: vec![Signal::Tdm],
            mark: false,
        };
        assert_eq!(goes(&tdm, Some(&terms)), None);
        terms.tdm_reservation = Some(true);
        assert_eq!(
            goes(&tdm, Some(&terms)).as_deref(),
            Some("tdm-reservation: 1")
        );
    }
}
