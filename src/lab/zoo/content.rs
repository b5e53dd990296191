//! Hostile contents in valid HTTP: HTML, charsets, images, robots.txt, sitemaps
//! and texts.

use super::Case;

/// The cases of this group.
pub fn cases() -> Vec<Case> {
    Vec::new()
}
