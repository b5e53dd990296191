//! Configuration values about text.

use super::messages::{nearest, shown};
use super::values::{TextValue, no_choice};
use crate::language::Language;
use crate::page::Extractor;

const EXTRACTORS: [Extractor; 3] = [Extractor::All, Extractor::Main, Extractor::Density];

impl TextValue for Extractor {
    const KIND: &'static str = "an extractor";
    const EXAMPLE: &'static str = "";
    const WORDS: &'static [&'static str] = &["all", "main", "density"];

    fn from_text(text: &str) -> Result<Self, String> {
        // The name that jobs of version 0.1 may have.
        let text = if text == "article" { "main" } else { text };
        let mut all = EXTRACTORS.into_iter();
        all.find(|extractor| extractor.name() == text)
            .ok_or_else(|| no_choice::<Self>(text))
    }
    fn text(&self) -> String {
        self.name().to_owned()
    }
}

impl TextValue for Language {
    const KIND: &'static str = "a language";
    const FORM: &'static str = "an ISO 639-1 or 639-3 code, as \"en\" or \"eng\"";
    const EXAMPLE: &'static str = "en";

    fn from_text(text: &str) -> Result<Self, String> {
        Language::of_code(text).map_err(|_| {
            let hint = meant(text).map(|language| {
                let (code, name) = (language.code(), language.name());
                format!("; did you mean \"{code}\" ({name})?")
            });
            format!(
                "\"{}\" is not the code of a language that spoor can recognise{}",
                shown(text),
                hint.unwrap_or_default()
            )
        })
    }
    fn text(&self) -> String {
        self.code().to_owned()
    }
}

/// The language meant by its name, or by a tag with a region.
fn meant(text: &str) -> Option<Language> {
    let primary = text.split(['-', '_']).next().unwrap_or_default();
    if let Ok(language) = Language::of_code(primary) {
        return Some(language);
    }
    let names: Vec<(String, Language)> = Language::all()
        .map(|language| (language.name().to_lowercase(), language))
        .collect();
    let name = nearest(text, names.iter().map(|(name, _)| name.as_str()))?;
    names.iter().find(|(n, _)| n == name).map(|(_, l)| *l)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_named_by_their_codes() {
        for code in ["en", "eng", "EN"] {
            assert_eq!(Language::from_text(code).unwrap().text(), "en");
        }
        for (wrong, hint) in [
            ("english", Some("\"en\" (English)")),
            ("Gernan", Some("\"de\" (German)")),
            ("de-AT", Some("\"de\" (German)")),
            ("qqq", None),
            ("", None),
        ] {
            let said = Language::from_text(wrong).unwrap_err();
            assert!(said.starts_with(&format!("\"{wrong}\" is not the code")));
            match hint {
                Some(hint) => assert!(said.ends_with(&format!("did you mean {hint}?")), "{said}"),
                None => assert!(!said.contains("did you mean"), "{said}"),
            }
        }
    }

    #[test]
    fn extractors_are_named_as_in_the_log() {
        for extractor in EXTRACTORS {
            assert_eq!(Extractor::from_text(extractor.name()), Ok(extractor));
            let json = serde_json::to_value(extractor).unwrap();
            assert_eq!(json, extractor.name());
        }
        assert_eq!(Extractor::WORDS, EXTRACTORS.map(Extractor::name));
        assert_eq!(Extractor::from_text("article"), Ok(Extractor::Main));
        let said = Extractor::from_text("mian").unwrap_err();
        assert!(said.ends_with("did you mean \"main\"?"), "{said}");
    }
}
