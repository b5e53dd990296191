//! What a file of Really Simple Licensing states about a page or an image.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most RSL files of a host that robots.txt may name, and the most that are known if its pages
/// name others.
pub const MAX_RSL_FILES: usize = 20;

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
    /// Adds what the same file stated at another time. Only what both permit is permitted.
    pub(super) fn add(&mut self, other: Self) {
        self.read &= other.read;
        self.permits.retain(|name| other.permits.contains(name));
        for (names, more) in [
            (&mut self.prohibits, other.prohibits),
            (&mut self.payment, other.payment),
        ] {
            for name in more {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }

    /// A file that is named but was not read.
    pub fn unread(file: String) -> Self {
        Self {
            file,
            ..Self::default()
        }
    }
}
