//! Settings as canonical text: equal settings have equal text.

use super::section::{Key, Section, Walker};
use super::sections::Scope;
use super::values::Value;

/// The walk that writes each key with a value, in canonical form.
#[derive(Debug, Default)]
pub struct Canonical(pub String);

impl Walker for Canonical {
    fn section<S: Section>(&mut self, section: &S) -> S {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(&format!("[{}]\n", S::NAME));
        section.walk(self)
    }

    fn key<T: Value>(&mut self, key: Key<T>, value: &T) -> T {
        let shown = value.show();
        if key.hidden.is_some_and(|usual| usual.show() == shown) {
            return value.clone();
        }
        if let Some(shown) = shown {
            self.0.push_str(&format!("{} = {shown}\n", key.name));
        }
        value.clone()
    }
}

impl Scope {
    /// The section with every key that has a value: equal rules give equal text.
    pub fn to_toml(&self) -> String {
        let mut walker = Canonical::default();
        walker.section(self);
        walker.0
    }
}
