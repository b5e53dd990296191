//! Every setting of a job: its name, type, default, range and meaning, and the plain
//! structs that the other crates take.
//!
//! `sections` declares the settings, with the macro of `section`, which turns each
//! declaration into a struct and one walk over its keys. Reading a file, writing it and
//! printing the reference are walks ([`Walker`]); those live in the program, which alone
//! knows TOML. `values` defines kinds of values and holds the plain ones, `units` has
//! durations and sizes; `kinds`, `listen`, `rules`, `neutral`, `texts`, `watched` and
//! `formula` have those specific to a crawler.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `messages` | the words of messages about a file | nothing |
//! | `raw` | values as a file gives them | nothing |
//! | `values` | kinds of values, and the plain ones | messages, raw |
//! | `units` | durations and sizes | messages, raw, values |
//! | `kinds` | names, addresses, and choices of few words | messages, values |
//! | `listen` | where the API is served | raw, values |
//! | `neutral` | where neutral text comes from | kinds, raw, values |
//! | `rules` | rules of scope, and redirected connections | messages, values |
//! | `texts` | languages and extractors | messages, values |
//! | `watched` | seeds with a schedule of their own | messages, raw, values |
//! | `formula` | arithmetic over the scores of an image | messages, values |
//! | `section` | the form of a section, and the walk over its keys | values |
//! | `sections` | every section with every key | formula, kinds, listen, neutral, rules, section, units, values, watched |
//! | `seeds` | files of seeds | messages, sections |
//! | `floor` | how polite settings from others have to be | sections |
//! | `canonical` | settings as text | section, sections, values |
//!
//! A struct here is plain: its fields are public, and any code may make one from its
//! `Default`. No value is used here, no file but that of seeds is read, and nothing is known
//! of the network.

// Tests name their own files.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod canonical;
mod floor;
mod formula;
mod kinds;
mod listen;
pub mod messages;
mod neutral;
mod raw;
mod rules;
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
pub use kinds::{
    ArchiveCompression, Boundaries, BrokerAddress, ClassName, Clue, Contact, Documents, Extension,
    ImageFormat, LogLevel, MediaType, Name, NodeName, ProductToken, Proxy, Scheme, Signal, Source,
    StoreAddress, StoreKind, StrategyKind,
};
pub use listen::Listen;
pub use neutral::Neutral;
pub use raw::{FileEntry, FileValue, Raw};
pub use rules::{ConnectTo, HostPattern, ScopeRule};
pub use section::{Key, Section, Walker, plain};
pub use sections::{
    Annotate, Archive, Buckets, Checkpoint, Cluster, Consent, Control, ControlSample,
    FrontierSection, Images, Job, Limits, Logs, ModelSection, Network, PdfSection, Politeness,
    Rank, Recrawl, Rules, Scope, Seeds, StrategySection, Text, Train,
};
pub use units::Size;
pub use values::{Auto, TextValue, Value, found};
pub use watched::WatchedSeed;
