//! Traps: limits for sites that generate addresses without end.
//!
//! `budgets` (parts of a site that bring nothing new), `copies` (pages that repeat
//! others), `listing` (how much sitemaps may list).

pub mod budgets;
pub mod copies;
pub mod listing;

pub use budgets::Budget;
pub use listing::Listing;
