//! lm
