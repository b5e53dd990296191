//! .

use super::Case;

/// The cases of this group.
pub fn cases() -> Vec<Case> {
    Vec::new()
}
