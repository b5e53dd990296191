//! spoor
pub mod address;
pub mod config;
pub mod extract;
pub mod fetch;
pub mod keywords;
pub mod lab;
pub mod lm;
pub mod page;
pub mod score;
