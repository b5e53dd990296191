//! The declarative form of a section and the walk over its keys.
//!
//! [`section!`] turns a declaration into the struct, its `Default` and one walk over its
//! keys. Reading a file, writing the effective configuration and printing the reference
//! are three [`Walker`]s over the same declaration, so they cannot drift apart.

use std::ops::{RangeFrom, RangeInclusive};

use super::values::Value;

/// A struct whose fields are the keys of one `[section]`.
pub trait Section: Sized {
    /// The name in brackets.
    const NAME: &'static str;
    /// The subject of the section; its doc comment.
    const MEANING: &'static str;

    /// Passes every key, in order of declaration and with its present value, to `walker`,
    /// and builds a section from the values it returns.
    fn walk<W: Walker>(&self, walker: &mut W) -> Self;
}

/// Visits every key of a configuration.
pub trait Walker {
    /// Enters a section; usually returns `section.walk(self)`.
    fn section<S: Section>(&mut self, section: &S) -> S;

    /// Visits a key with its value and returns its new value.
    fn key<T: Value>(&mut self, key: Key<T>, value: &T) -> T;
}

/// The declaration of a key besides type and default.
pub struct Key<T: Value> {
    /// Its name within the section.
    pub name: &'static str,
    /// Its doc comment.
    pub meaning: &'static str,
    /// The range of its value.
    pub bounds: Option<Bounds<T::Unit>>,
    /// A file without it is refused; the declared default is an example.
    pub required: bool,
    /// Omitted from the reference, and from a written configuration if it has this value.
    pub hidden: Option<T>,
}

impl<T: Value> Key<T> {
    /// A key of this name with any value of its kind.
    pub fn new(name: &'static str, meaning: &'static str) -> Self {
        Self {
            name,
            meaning,
            bounds: None,
            required: false,
            hidden: None,
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

    /// The option `hidden DEFAULT` of a declaration: a key that is not meant for general use yet.
    pub fn hidden(mut self, usual: T) -> Self {
        self.hidden = Some(usual);
        self
    }

    /// The allowed values, for messages.
    pub fn allowed(&self) -> String {
        match &self.bounds {
            Some(bounds) => format!("{}, {}", T::form(), bounds.text()),
            None => T::form(),
        }
    }
}

/// The range of a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounds<T> {
    min: T,
    /// Whether `min` itself is excluded.
    above: bool,
    /// The maximum, included.
    max: Option<T>,
}

/// Everything greater than `min`.
pub fn above<T>(min: T) -> Bounds<T> {
    Bounds {
        min,
        above: true,
        max: None,
    }
}

impl<T: Value> Bounds<T> {
    /// Whether `value` is within the range.
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

/// A value as it appears in a sentence: as in TOML, without the quotation marks.
pub fn plain<T: Value>(value: &T) -> String {
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
/// `within RANGE`, `required` and `hidden DEFAULT`, which are methods of [`Key`], may follow the
/// default. The doc comments serve both the reference and rustdoc.
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
pub(crate) use section;
