//! Every setting of a job: its name, type, default, range and meaning, and the plain
//! structs that the other crates take.
//!
//! `sections` declares the settings, with the macro of `section`, which turns each declaration into
//! a struct and one walk over its keys. Reading a file, writing it and printing the reference are
//! walks ([`Walker`]); those are in the crate `config`. `values` defines
//! kinds of values and contains the plain ones, `units` has durations and sizes; `kinds`, `listen`,
//! `scope_rules`, `neutral`, `texts`, `watched` and `formula` have those specific to a crawler.
//!
//! | module | one line |
//! |---|---|
//! | `messages` | parts of messages about a file |
//! | `raw` | values as they are in a file |
//! | `values` | kinds of values, and the plain ones |
//! | `units` | durations and sizes |
//! | `kinds` | names, addresses, and choices of few words |
//! | `listen` | where the API is served |
//! | `neutral` | where neutral text comes from |
//! | `scope_rules` | which addresses belong to a crawl, and redirected connections |
//! | `texts` | languages and extractors |
//! | `watched` | seeds with their own schedule |
//! | `formula` | arithmetic over the scores of an image |
//! | `section` | the form of a section, and the walk over its keys |
//! | `sections` | every section with every key |
//! | `job` | all settings of one job |
//! | `seeds` | files of seeds |
//! | `floor` | how polite settings from other machines must be |
//! | `canonical` | settings as text |
//!
//! The structs here are plain: their fields are public, and any code may create one from its
//! `Default`. This crate uses no values, reads no files except seed files, and does not know the
//! network.

// Tests choose their own file names.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod canonical;
mod floor;
mod formula;
mod job;
mod kinds;
mod listen;
pub mod messages;
mod neutral;
mod raw;
mod scope_rules;
mod section;
mod sections;
mod seeds;
mod texts;
mod units;
mod values;
mod watched;

use spoor_values::{address, file_errors, fs, language, page};

pub use canonical::Canonical;
pub use formula::{Formula, ImageText, Measure, Variable};
pub use job::{ContactMissing, JobSettings, NO_CONTACT};
pub use kinds::{
    ArchiveCompression, Boundaries, BrokerAddress, ClassName, Clue, Contact, Documents, Extension,
    ImageFormat, LogLevel, MediaType, Name, NodeName, ProductToken, Proxy, Scheme, Source,
    StoreAddress, StoreKind, StrategyKind,
};
pub use listen::Listen;
pub use neutral::Neutral;
pub use raw::{FileEntry, FileValue, Raw};
pub use scope_rules::{ConnectTo, HostPattern, ScopeRule};
pub use section::{Key, Section, Walker, plain};
pub use sections::{
    Annotate, Archive, Buckets, Checkpoint, Cluster, Consent, Control, ControlSample,
    FrontierSection, Identity, Images, Job, Limits, Logs, ModelSection, Network, PdfSection,
    Politeness, Rank, Recrawl, Rules, Scope, Seeds, StrategySection, Text, Train,
};
pub use units::Size;
pub use values::{Auto, TextValue, Value, found};
pub use watched::WatchedSeed;
