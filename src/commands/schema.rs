//! `spoor schema sidecar|document|fields|annotation|pdf`

use anyhow::Result;
use clap::Subcommand;
use spoor::corpus::pipeline::annotation_schema;
use spoor::outputs::{document_schema, fields_schema, sidecar_schema};

/// The formats of files that spoor writes.
#[derive(Debug, Subcommand)]
pub enum Schema {
    /// Print the JSON Schema (draft 2020-12) of the JSON beside an image.
    Sidecar,
    /// Print the JSON Schema (draft 2020-12) of a line of documents/*.jsonl.zst.
    Document,
    /// Print the JSON Schema (draft 2020-12) of what rules find on a page.
    Fields,
    /// Print the JSON Schema (draft 2020-12) of a line that `spoor entities find` writes.
    Annotation,
    /// Print the JSON Schema (draft 2020-12) of what `spoor pdf --json` prints.
    Pdf,
}

impl Schema {
    pub fn run(self) -> Result<()> {
        let schema = match self {
            Schema::Sidecar => sidecar_schema(),
            Schema::Document => document_schema(),
            Schema::Fields => fields_schema(),
            Schema::Annotation => annotation_schema(),
            Schema::Pdf => spoor::pdf::schema(),
        };
        println!("{}", serde_json::to_string_pretty(&schema)?);
        Ok(())
    }
}
