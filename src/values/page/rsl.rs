//! What a file of Really Simple Licensing states about a page or an image.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an RSL file (Really Simple Licensing 1.0) states about an address. Only what it prohibits
/// has consequences: spoor neither buys nor negotiates licences.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RslTerms {
    /// The address of the file.
    pub file: String,
    /// Whether the file was read. An unread one counts as a prohibition of every use.
    pub read: bool,
    /// The prohibited uses, such as `ai-train`.
    pub prohibits: Vec<String>,
    /// The permitted uses, perhaps for payment.
    pub permits: Vec<String>,
    /// The kinds of payment that it asks for, such as `purchase` or `attribution`.
    pub payment: Vec<String>,
}

impl RslTerms {
    /// A file that is named but was not read.
    pub fn unread(file: String) -> Self {
        Self {
            file,
            ..Self::default()
        }
    }
}
