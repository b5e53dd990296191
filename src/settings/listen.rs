//! The value of `control.listen`.

use std::net::SocketAddr;

use super::raw::{FileValue, Raw};
use super::values::{TextValue, Value, Wrong, found, keep, quoted};

/// Where a running crawl serves its API over TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// `"auto"`: a free port of this machine, protected by a token generated for the run.
    Auto,
    /// Only this address.
    At(SocketAddr),
    /// `false`: nowhere.
    Off,
}

const AUTO: &str = "auto";

impl Value for Listen {
    type Unit = Self;

    fn kind() -> String {
        format!("{}, \"{AUTO}\" or false", <SocketAddr as Value>::kind())
    }
    fn form() -> String {
        format!("\"{AUTO}\", false, or {}", <SocketAddr as Value>::form())
    }
    fn example() -> String {
        quoted(AUTO)
    }
    fn read(value: &FileValue<'_>, wrong: &mut Wrong) -> Option<Self> {
        let result = match &value.raw {
            Raw::Text(text) if text == AUTO => Ok(Self::Auto),
            Raw::Text(text) => SocketAddr::from_text(text).map(Self::At),
            Raw::Truth(false) => Ok(Self::Off),
            Raw::Truth(true) => Err(format!(
                "true is not an address; write \"{AUTO}\" or one of your own"
            )),
            other => Err(format!("{} is not {}", found(other), Self::kind())),
        };
        keep(result, value.span(), wrong)
    }
    fn show(&self) -> Option<String> {
        Some(match self {
            Self::Auto => quoted(AUTO),
            Self::At(address) => quoted(&address.text()),
            Self::Off => "false".to_owned(),
        })
    }
    fn unit(&self) -> Option<&Self> {
        Some(self)
    }
}
