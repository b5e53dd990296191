//! The output of `spoor pdf --json` for a file.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use super::clean::{Cleaned, Counts};
use super::offsets::Offsets;
use super::original::{About, Link, Original};

/// The text of a PDF file with the place of every character, and what the file says of
/// itself.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Printed {
    /// The file.
    pub file: String,
    /// What it says of itself.
    #[serde(flatten)]
    pub about: About,
    /// The links of its pages.
    pub links: Vec<Link>,
    /// What cleaning did.
    pub cleaned: Counts,
    /// How many glyphs have no known character.
    pub unknown: u32,
    /// Whether pages or text beyond the limits were left out.
    pub cut: bool,
    /// The text with the places of its characters.
    #[serde(flatten)]
    pub text: Offsets,
}

impl Printed {
    /// The output for a file's text.
    pub fn of(file: String, original: &Original, cleaned: &Cleaned) -> Self {
        Self {
            file,
            about: original.about.clone(),
            links: original.links.clone(),
            cleaned: cleaned.counts,
            unknown: original.unknown,
            cut: original.cut,
            text: Offsets::of(original, cleaned),
        }
    }
}

/// The JSON Schema (draft 2020-12) of [`Printed`].
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let mut schema = generator.into_root_schema_for::<Printed>();
    schema.insert("$id".to_owned(), "urn:spoor:schema:pdf:1".into());
    schema.into()
}
