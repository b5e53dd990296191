//! keywords
