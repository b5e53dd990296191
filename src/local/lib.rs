//! Pages that a command serves on the machine it runs on, for the person in front of it.
//!
//! [`server`] takes connections with limits, so that one client keeps no other out; [`access`]
//! is the secret that the printed link brings, kept as a cookie; [`origin`] knows whether a
//! request comes from a page of another site. Begin with `server`. What is served is unknown
//! here.

pub mod access;
pub mod origin;
pub mod server;
