//! The audit log: who changed what in a running crawl, from which value to which, one line
//! each in `logs/audit.jsonl`. It is not an output of the crawl: it is never truncated,
//! even if the effects of a change are.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Who;
use crate::clock::{now, timestamp};
use crate::outputs::{self, Table};
use crate::sanitize;

/// A change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditLine {
    /// When, RFC 3339 in UTC.
    pub time: String,
    /// The client.
    pub who: String,
    /// `pause`, `resume`, `stop`, `checkpoint`, `seed` or `set`.
    pub what: String,
    /// The full key of a setting, such as `limits.documents`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its value before, as TOML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its value now, as TOML; for a seed its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl AuditLine {
    /// An entry with the present time.
    pub(super) fn of(who: &Who, what: &str) -> Self {
        Self {
            time: timestamp(now()),
            who: who.0.clone(),
            what: what.to_owned(),
            key: None,
            from: None,
            to: None,
        }
    }

    pub(super) fn to_json(&self) -> String {
        // Strings always serialise.
        let json = serde_json::to_string(self).unwrap_or_default();
        sanitize::json(&json).into_owned()
    }
}

/// Appends an entry to the file, and to the program's own log.
pub(super) async fn append(folder: &Path, entry: &AuditLine) {
    let AuditLine {
        who,
        what,
        key,
        from,
        to,
        ..
    } = entry;
    tracing::info!(who, what, key, from, to, "audit");
    let (folder, line) = (folder.to_owned(), entry.to_json());
    let write = move || outputs::append_line(&folder, Table::Audit, &line, outputs::ROTATE);
    // The task only fails when the process ends.
    if let Ok(Err(error)) = tokio::task::spawn_blocking(write).await {
        tracing::warn!("the change cannot be recorded: {error}; the change still takes effect");
    }
}
