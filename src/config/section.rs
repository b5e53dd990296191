//! The one declarative form of a section, and how it is walked.
//!
//! [`section!`] turns a declaration into the struct, its `Default` and one walk
//! over its keys. Reading a file, writing the effective configuration and
//! printing the reference are three [`Walker`]s over the same declaration, so
//! none of them can drift from the others.

use std::ops::{RangeFrom, RangeInclusive};

use super::values::Value;

/// A struct whose fields are the keys of one `[section]`.
pub(super) trait Section: Sized {
    /// The name in brackets.
    const NAME: &'static str;
    /// What the section is about; its doc comment.
    const MEANING: &'static str;

    /// Shows every key to `walker` in order of declaration, with its present
    /// value, and makes a section of what the walker answers.
    fn walk<W: Walker>(&self, walker: &mut W) -> Self;
}

/// Goes over every key of a configuration.
pub(super) trait Walker {
    /// Enters a section; usually answers `section.walk(self)`.
    fn section<S: Section>(&mut self, section: &S) -> S;

    /// Meets a key with its value and answers the value that it is to have.
    fn key<T: Value>(&mut self, key: Key<T>, value: &T) -> T;
}

/// What is declared about a key besides type and default.
pub(super) struct Key<T: Value> {
    /// Its name within the section.
    pub name: &'static str,
    /// Its doc comment.
    pub meaning: &'static str,
    /// The limits that its value keeps.
    pub bounds: Option<Bounds<T::Unit>>,
    /// A file without it is refused; what is declared as default is an example.
    pub required: bool,
}

impl<T: Value> Key<T> {
    pub fn new(name: &'static str, meaning: &'static str) -> Self {
        Self {
            name,
            meaning,
            bounds: None,
            required: false,
        }
    }

    /// The option `within RANGE` of a declaration.
    pub fn within(mut self, bounds: impl Into<Bounds<T::Unit>>) -> Self {
        self.bounds = Some(bounds.into());
        self
    }

    /// The option `required` of a declaration.
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// What may stand as the value, for messages.
    pub fn allowed(&self) -> String {
        match &self.bounds {
            Some(bounds) => format!("{}, {}", T::form(), bounds.text()),
            None => T::form(),
        }
    }
}

/// The limits of a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bounds<T> {
    min: T,
    /// Whether `min` itself is outside.
    above: bool,
    /// Included.
    max: Option<T>,
}

/// Everything greater than `min`.
pub(super) fn above<T>(min: T) -> Bounds<T> {
    Bounds {
        min,
        above: true,
        max: None,
    }
}

impl<T: Value> Bounds<T> {
    /// Whether `value` keeps them.
    pub fn hold(&self, value: &T) -> bool {
        let from_min = T::order(&self.min, value);
        let enough = from_min.is_lt() || (from_min.is_eq() && !self.above);
        enough
            && self
                .max
                .as_ref()
                .is_none_or(|max| T::order(value, max).is_le())
    }

    /// For messages and the reference.
    pub fn text(&self) -> String {
        match &self.max {
            Some(max) => format!("from {} to {}", plain(&self.min), plain(max)),
            None if self.above => format!("above {}", plain(&self.min)),
            None => format!("{} or more", plain(&self.min)),
        }
    }
}

impl<T> From<RangeInclusive<T>> for Bounds<T> {
    fn from(range: RangeInclusive<T>) -> Self {
        let (min, max) = range.into_inner();
        Self {
            min,
            above: false,
            max: Some(max),
        }
    }
}

impl<T> From<RangeFrom<T>> for Bounds<T> {
    fn from(range: RangeFrom<T>) -> Self {
        Self {
            min: range.start,
            above: false,
            max: None,
        }
    }
}

/// A value as a sentence shows it: as in TOML, without the quotation marks.
pub(super) fn plain<T: Value>(value: &T) -> String {
    let text = value.show().unwrap_or_default();
    let bare = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    bare.unwrap_or(&text).to_owned()
}

/// Declares a section:
///
/// ```text
/// section! {
///     /// When a host is asked again.
///     pub struct Politeness = "politeness" {
///         /// The shortest pause between two requests to one host.
///         min_delay: Duration = secs(1), within secs(0)..=days(1);
///     }
/// }
/// ```
///
/// After the default may stand `within RANGE` and `required`, methods of
/// [`Key`]. The doc comments are the reference's text as well as rustdoc's.
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        pub struct $struct:ident = $name:literal {
            $(
                $(#[doc = $meaning:literal])*
                $field:ident: $type:ty = $default:expr $(, $option:ident $($value:expr)?)*;
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $struct {
            $(
                $(#[doc = $meaning])*
                #[doc = concat!(
                    "\n\nDefault: `", stringify!($default), "`",
                    $("; ", stringify!($option), $(" `", stringify!($value), "`",)?)* "."
                )]
                pub $field: $type,
            )*
        }

        impl Default for $struct {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }

        impl Section for $struct {
            const NAME: &'static str = $name;
            const MEANING: &'static str = concat!($($about),*);

            fn walk<W: Walker>(&self, walker: &mut W) -> Self {
                Self {
                    $($field: walker.key(
                        Key::<$type>::new(stringify!($field), concat!($($meaning),*))
                            $(.$option($($value)?))*,
                        &self.$field,
                    ),)*
                }
            }
        }
    };
}
pub(super) use section;
