//! The interface of configuration values, and the plain kinds: numbers, booleans, paths,
//! choices, lists. Each kind defines its reading from TOML, its canonical form, and its
//! error messages.

use std::cmp::Ordering;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::messages::{MOST_SHOWN, nearest, shown};
use crate::raw::{FileValue, Raw};

/// Problems inside one value, each with its byte range in the file.
pub type Wrong = Vec<(Range<usize>, String)>;

/// Most bytes that the items of a list may take beyond their texts.
const MOST_WEIGHT: usize = 32 << 20;

/// A kind of value.
pub trait Value: Clone {
    /// The type that bounds apply to: the type itself, or the content of an `Option`.
    type Unit: Value;

    /// Its name with an article, as in "is not a duration".
    fn kind() -> String;

    /// Its written form, as in "allowed: ...".
    fn form() -> String;

    /// A plausible value in TOML; the reference shows it for an optional key.
    fn example() -> String;

    /// Reads a value. `None` if it is invalid; the reason is then added to `wrong`.
    fn read(value: &FileValue<'_>, wrong: &mut Wrong) -> Option<Self>;

    /// The value as TOML, in its canonical form; `None` if it is absent.
    fn show(&self) -> Option<String>;

    /// Bytes of memory beyond its text; the sum over a list is bounded.
    fn weight(&self) -> usize {
        0
    }

    /// The value that is compared with bounds, if any.
    fn unit(&self) -> Option<&Self::Unit>;

    /// The order for comparison with bounds.
    fn order(_a: &Self, _b: &Self) -> Ordering {
        Ordering::Equal
    }

    /// The same value, with its relative paths resolved against `folder`.
    fn within_folder(&self, _folder: &Path) -> Self {
        self.clone()
    }
}

/// A kind of value that is written as a TOML string.
pub trait TextValue: Clone {
    /// As [`Value::kind`].
    const KIND: &'static str;
    /// As [`Value::form`]; not needed if there are [`TextValue::WORDS`].
    const FORM: &'static str = "";
    /// All permitted texts, if they are few.
    const WORDS: &'static [&'static str] = &[];
    /// As [`Value::example`], without quotation marks.
    const EXAMPLE: &'static str;

    /// Reads a value; the error names the problem and quotes the relevant part.
    fn from_text(text: &str) -> Result<Self, String>;

    /// Its canonical text.
    fn text(&self) -> String;

    /// As [`Value::weight`].
    fn text_weight(&self) -> usize {
        0
    }

    /// As [`Value::within_folder`].
    fn text_within(&self, _folder: &Path) -> Self {
        self.clone()
    }
}

impl<T: TextValue> Value for T {
    type Unit = Self;

    fn kind() -> String {
        T::KIND.to_owned()
    }
    fn form() -> String {
        if T::WORDS.is_empty() {
            return T::FORM.to_owned();
        }
        let words: Vec<String> = T::WORDS.iter().map(|word| quoted(word)).collect();
        format!("one of {}", words.join(", "))
    }
    fn example() -> String {
        quoted(T::EXAMPLE)
    }
    fn read(value: &FileValue<'_>, wrong: &mut Wrong) -> Option<Self> {
        let result = match &value.raw {
            Raw::Text(text) => T::from_text(text),
            other => Err(mismatch::<Self>(other)),
        };
        keep(result, value.span(), wrong)
    }
    fn show(&self) -> Option<String> {
        Some(quoted(&self.text()))
    }
    fn unit(&self) -> Option<&Self> {
        Some(self)
    }
    fn weight(&self) -> usize {
        self.text_weight()
    }
    fn within_folder(&self, folder: &Path) -> Self {
        self.text_within(folder)
    }
}

macro_rules! whole_number {
    ($($type:ty)*) => {$(
        impl Value for $type {
            type Unit = Self;

            fn kind() -> String {
                "a whole number".to_owned()
            }
            fn form() -> String {
                Self::kind()
            }
            fn example() -> String {
                "100".to_owned()
            }
            fn read(value: &FileValue<'_>, wrong: &mut Wrong) -> Option<Self> {
                let result = match &value.raw {
                    Raw::Whole { value: number, .. } => {
                        let fits = number.and_then(|n| n.try_into().ok());
                        fits.ok_or_else(|| format!("{} is out of range", found(&value.raw)))
                    }
                    other => Err(mismatch::<Self>(other)),
                };
                keep(result, value.span(), wrong)
            }
            fn show(&self) -> Option<String> {
                Some(self.to_string())
            }
            fn unit(&self) -> Option<&Self> {
                Some(self)
            }
            fn order(a: &Self, b: &Self) -> Ordering {
                a.cmp(b)
            }
        }
    )*};
}
whole_number!(u8 u32 u64 usize);

impl Value for f64 {
    type Unit = Self;

    fn kind() -> String {
        "a number".to_owned()
    }
    fn form() -> String {
        Self::kind()
    }
    fn example() -> String {
        "10.0".to_owned()
    }
    fn read(value: &FileValue<'_>, wrong: &mut Wrong) -> Option<Self> {
        let result = number(&value.raw).unwrap_or_else(|| Err(mismatch::<Self>(&value.raw)));
        keep(result, value.span(), wrong)
    }
    fn show(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }
    fn unit(&self) -> Option<&Self> {
        Some(self)
    }
    fn order(a: &Self, b: &Self) -> Ordering {
        a.total_cmp(b)
    }
}

impl Value for bool {
    type Unit = Self;

    fn kind() -> String {
        "true or false".to_owned()
    }
    fn form() -> String {
        Self::kind()
    }
    fn example() -> String {
        "true".to_owned()
    }
    fn read(value: &FileValue<'_>, wrong: &mut Wrong) -> Option<Self> {
        let result = match value.raw {
            Raw::Truth(truth) => Ok(truth),
            _ => Err(mismatch::<Self>(&value.raw)),
        };
        keep(result, value.span(), wrong)
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
    fn unit(&self) -> Option<&Self> {
        Some(self)
    }
}

impl TextValue for PathBuf {
    const KIND: &'static str = "a path";
    const FORM: &'static str = "a path";
    const EXAMPLE: &'static str = "folder/file";

    fn from_text(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.contains('\0') {
            return Err(format!("\"{}\" is not a path", shown(text)));
        }
        Ok(PathBuf::from(text))
    }
    fn text(&self) -> String {
        self.to_string_lossy().into_owned()
    }
    fn text_within(&self, folder: &Path) -> Self {
        folder.join(self)
    }
}

impl<T: Value> Value for Option<T> {
    type Unit = T;

    fn kind() -> String {
        T::kind()
    }
    fn form() -> String {
        T::form()
    }
    fn example() -> String {
        T::example()
    }
    fn read(value: &FileValue<'_>, wrong: &mut Wrong) -> Option<Self> {
        T::read(value, wrong).map(Some)
    }
    fn show(&self) -> Option<String> {
        self.as_ref().and_then(T::show)
    }
    fn unit(&self) -> Option<&T> {
        self.as_ref()
    }
    fn within_folder(&self, folder: &Path) -> Self {
        self.as_ref().map(|value| value.within_folder(folder))
    }
}

impl<T: Value> Value for Vec<T> {
    type Unit = Self;

    fn kind() -> String {
        let kind = T::kind();
        let noun = kind.split_once(' ').map_or(kind.as_str(), |(_, noun)| noun);
        format!("a list of {noun}s")
    }
    fn form() -> String {
        match (Self::kind(), T::form()) {
            (kind, form) if form == T::kind() => kind,
            (kind, form) => format!("{kind}, each {form}"),
        }
    }
    fn example() -> String {
        format!("[{}]", T::example())
    }
    fn read(value: &FileValue<'_>, wrong: &mut Wrong) -> Option<Self> {
        let Raw::List(items) = &value.raw else {
            wrong.push((value.span(), mismatch::<Self>(&value.raw)));
            return None;
        };
        let mut all = Vec::with_capacity(items.len());
        let mut weight = 0_usize;
        // Reading continues after a failure, to report all errors at once.
        for item in items {
            if wrong.len() >= MOST_SHOWN {
                return None;
            }
            let read = T::read(item, wrong);
            weight = weight.saturating_add(read.as_ref().map_or(0, T::weight));
            if weight > MOST_WEIGHT {
                let why = format!(
                    "the list up to here takes more than {} MiB of memory",
                    MOST_WEIGHT >> 20
                );
                wrong.push((item.span(), why));
                return None;
            }
            all.extend(read);
        }
        (all.len() == items.len()).then_some(all)
    }
    fn show(&self) -> Option<String> {
        let items: Vec<String> = self.iter().filter_map(T::show).collect();
        Some(format!("[{}]", items.join(", ")))
    }
    fn unit(&self) -> Option<&Self> {
        Some(self)
    }
    fn within_folder(&self, folder: &Path) -> Self {
        let items = self.iter().map(|value| value.within_folder(folder));
        items.collect()
    }
}

/// A value that is either set or determined by the program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Auto<T> {
    /// Determined by the program: `"auto"`.
    Auto,
    /// This value.
    Set(T),
}

impl<T> Auto<T> {
    /// The value that is set, or else `found`, the one that was determined.
    pub fn or(self, found: T) -> T {
        match self {
            Self::Auto => found,
            Self::Set(value) => value,
        }
    }
}

const AUTO: &str = "auto";

impl<T: Value> Value for Auto<T> {
    type Unit = T;

    fn kind() -> String {
        format!("{} or \"{AUTO}\"", T::kind())
    }
    fn form() -> String {
        format!("\"{AUTO}\" or {}", T::form())
    }
    fn example() -> String {
        quoted(AUTO)
    }
    fn read(value: &FileValue<'_>, wrong: &mut Wrong) -> Option<Self> {
        match &value.raw {
            Raw::Text(text) if text == AUTO => Some(Self::Auto),
            Raw::Text(_) => {
                wrong.push((value.span(), mismatch::<Self>(&value.raw)));
                None
            }
            _ => T::read(value, wrong).map(Self::Set),
        }
    }
    fn show(&self) -> Option<String> {
        match self {
            Self::Auto => Some(quoted(AUTO)),
            Self::Set(value) => value.show(),
        }
    }
    fn unit(&self) -> Option<&T> {
        match self {
            Self::Auto => None,
            Self::Set(value) => Some(value),
        }
    }
}

/// Declares an enum that is written as one of a few words.
macro_rules! choice {
    (
        $(#[doc = $about:literal])*
        pub enum $enum:ident = $kind:literal {
            $(
                $(#[doc = $meaning:literal])*
                $variant:ident = $word:literal,
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $enum {
            $($(#[doc = $meaning])* $variant,)*
        }

        impl $enum {
            /// All values, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word for the value in files and logs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl TextValue for $enum {
            const KIND: &'static str = $kind;
            const EXAMPLE: &'static str = "";
            const WORDS: &'static [&'static str] = &[$($word),*];

            fn from_text(text: &str) -> Result<Self, String> {
                match text {
                    $(
                        $word => Ok(Self::$variant),
                    )*
                    _ => Err($crate::values::no_choice::<Self>(text)),
                }
            }
            fn text(&self) -> String {
                self.name().to_owned()
            }
        }
    };
}
pub(crate) use choice;

/// The message for a word that is not a value of `T`.
pub fn no_choice<T: TextValue>(text: &str) -> String {
    let hint = nearest(text, T::WORDS.iter().copied())
        .map(|word| format!("; did you mean \"{word}\"?"))
        .unwrap_or_default();
    format!("\"{}\" is not {}{hint}", shown(text), T::KIND)
}

/// `text` as a basic TOML string on one line.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A value from the file, for messages.
pub fn found(value: &Raw<'_>) -> String {
    match value {
        Raw::Text(text) => format!("\"{}\"", shown(text)),
        Raw::Whole { written, .. } | Raw::Number { written, .. } => shown(written),
        Raw::Truth(truth) => truth.to_string(),
        Raw::Date(date) => format!("the date {date}"),
        Raw::List(_) => "a list".to_owned(),
        Raw::Table(_) => "a table".to_owned(),
    }
}

pub(crate) fn mismatch<T: Value>(value: &Raw<'_>) -> String {
    format!("{} is not {}", found(value), T::kind())
}

pub(crate) fn keep<T>(
    result: Result<T, String>,
    span: Range<usize>,
    wrong: &mut Wrong,
) -> Option<T> {
    result.map_err(|why| wrong.push((span, why))).ok()
}

/// The finite value of a number; `None` for other types.
pub(crate) fn number(value: &Raw<'_>) -> Option<Result<f64, String>> {
    let number = match value {
        Raw::Whole { value, .. } => value.map(|n| n as f64),
        Raw::Number { value, .. } => *value,
        _ => return None,
    };
    let finite = number.filter(|n| n.is_finite());
    Some(finite.ok_or_else(|| format!("{} is not a finite number", found(value))))
}
