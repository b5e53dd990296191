//! The value of `train.neutral`.

use std::path::Path;

use super::kinds::Source;
use super::raw::{FileValue, Raw};
use super::values::{Value, Wrong, keep, mismatch, quoted};

/// Where neutral text comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Neutral {
    /// The built-in words of the topic's language.
    Builtin,
    /// These texts; an empty list means no neutral text.
    Texts(Vec<Source>),
}

impl Neutral {
    /// The texts; empty if the built-in words are used.
    pub fn texts(&self) -> &[Source] {
        match self {
            Self::Builtin => &[],
            Self::Texts(sources) => sources,
        }
    }
}

const BUILTIN: &str = "builtin";

impl Value for Neutral {
    type Unit = Self;

    fn kind() -> String {
        format!("\"{BUILTIN}\" or {}", Vec::<Source>::kind())
    }
    fn form() -> String {
        format!("\"{BUILTIN}\" or {}", Vec::<Source>::form())
    }
    fn example() -> String {
        Vec::<Source>::example()
    }
    fn read(value: &FileValue<'_>, wrong: &mut Wrong) -> Option<Self> {
        match &value.raw {
            Raw::Text(text) if text == BUILTIN => Some(Self::Builtin),
            Raw::List(_) => Vec::read(value, wrong).map(Self::Texts),
            other => keep(Err(mismatch::<Self>(other)), value.span(), wrong),
        }
    }
    fn show(&self) -> Option<String> {
        match self {
            Self::Builtin => Some(quoted(BUILTIN)),
            Self::Texts(sources) => sources.show(),
        }
    }
    fn unit(&self) -> Option<&Self> {
        Some(self)
    }
    fn within_folder(&self, folder: &Path) -> Self {
        match self {
            Self::Builtin => Self::Builtin,
            Self::Texts(sources) => Self::Texts(sources.within_folder(folder)),
        }
    }
}
