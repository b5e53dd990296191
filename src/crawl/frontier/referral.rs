//! Referrals: addresses that a cell has found and that belong to another one.
//!
//! They are written with the other effects of the page that names them, and deleted by the
//! batch that adds them to the other cell. So each is added exactly once, whatever dies in
//! between.

use serde::{Deserialize, Serialize};

use super::added::{NewTask, Origin};
use crate::page::TaskKind;

/// An address for another cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Referral {
    /// A page or a sitemap.
    pub kind: TaskKind,
    pub new: NewTask,
    pub origin: Origin,
    /// Digest of the keyword table that it was rated with, if there was one.
    pub keywords: Option<u64>,
}
