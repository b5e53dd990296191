//! Pages that a command serves on the machine it runs on, for the person in front of it.
//!
//! [`server`] takes connections with limits, so that one client keeps no other out; [`access`]
//! is the secret that the printed link brings, kept as a cookie; [`origin`] knows whether a
//! request comes from a page of another site; [`guard`] is the door of a page that needs all of
//! these. Begin with `server`. What is served is unknown here.

pub mod access;
pub mod guard;
pub mod origin;
pub mod server;
