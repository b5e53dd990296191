//! `spoor schema sidecar`

use anyhow::Result;
use clap::Subcommand;
use spoor::store::sidecar_schema;

/// What files that spoor writes may contain.
#[derive(Debug, Subcommand)]
pub enum Schema {
    /// Print the JSON Schema (draft 2020-12) of the JSON beside an image.
    Sidecar,
}

impl Schema {
    pub fn run(self) -> Result<()> {
        match self {
            Schema::Sidecar => println!("{}", serde_json::to_string_pretty(&sidecar_schema())?),
        }
        Ok(())
    }
}
