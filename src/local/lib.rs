//! Pages that a command serves on the machine it runs on, for its own user.
//!
//! [`server`] accepts connections and limits them, so that one client cannot keep others out;
//! [`access`] checks the secret in the printed link and keeps it as a cookie; [`origin`] detects
//! requests from pages of other sites; [`guard`] does all of this for a page. Begin with `server`.
//! This crate does not know what is served.

pub mod access;
pub mod guard;
pub mod origin;
pub mod server;
