//! The list of outputs that a crawl appends to.

use super::output::Output;

/// All outputs. Their order does not matter.
pub(super) static OUTPUTS: [&dyn Output; 8] = [
    &super::log::Images,
    &super::log::Log,
    &super::texts::Sentences,
    &super::fields::Fields,
    &super::document::DocumentLines,
    &super::archive::Archive,
    &super::edits::Edits,
    &super::withdrawn::WithdrawnLines,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_outputs_have_a_name_or_a_file_in_common() {
        use std::collections::BTreeSet;
        let names: BTreeSet<_> = OUTPUTS.iter().map(|o| o.name()).collect();
        let forms = OUTPUTS.iter().map(|o| format!("{:?}", o.form()));
        let forms: BTreeSet<_> = forms.collect();
        assert_eq!((names.len(), forms.len()), (OUTPUTS.len(), OUTPUTS.len()));
    }
}
