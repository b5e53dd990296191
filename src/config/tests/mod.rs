//! Tests of the configuration: what is refused and how, what each kind of value accepts, the
//! shipped files, and that no input causes a panic.

mod arbitrary;
mod refused;
mod seeds;
mod shipped;
mod values;

use super::Config;

/// The messages about `text`, as a file `x.toml`.
fn said(text: &str) -> Vec<String> {
    match Config::parse(text, "x.toml") {
        Ok(_) => Vec::new(),
        Err(errors) => errors.to_string().lines().map(str::to_owned).collect(),
    }
}

/// `[job]` with a name, then `text`.
fn parsed(text: &str) -> Config {
    match Config::parse(&format!("[job]\nname = \"test\"\n{text}"), "x.toml") {
        Ok(config) => config,
        Err(errors) => panic!("refused: {text}\n{errors}"),
    }
}
