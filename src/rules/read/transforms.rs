//! The transforms of a field.

use jiff::tz::TimeZone;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::super::pattern;
use super::super::transform::Transform;
use super::keys::{KeyTable, Problems, article};
use crate::date::{DateForm, Language, Order};

/// The transforms that are a single word.
const WORDS: &str = "trim, collapse, lower, number, absolute, date";

/// The value of `transform`: a list of words and tables.
pub(super) fn read(table: &mut KeyTable<'_, '_, '_>) -> Vec<Transform> {
    let Some(value) = table.value("transform") else {
        return super::usual_transforms();
    };
    let key = table.full("transform");
    let problems = &mut *table.problems;
    let DeValue::Array(items) = value.get_ref() else {
        let message = format!("is not a list; write [\"collapse\"]; known are {WORDS}");
        problems.add(value.span(), &key, message);
        return Vec::new();
    };
    let transforms = items.iter().filter_map(|item| one(item, &key, problems));
    transforms.collect()
}

fn one(item: &Spanned<DeValue<'_>>, key: &str, problems: &mut Problems<'_>) -> Option<Transform> {
    match item.get_ref() {
        DeValue::String(word) => match word.as_ref() {
            "trim" => Some(Transform::Trim),
            "collapse" => Some(Transform::Collapse),
            "lower" => Some(Transform::Lower),
            "number" => Some(Transform::Number { decimal: '.' }),
            "absolute" => Some(Transform::Absolute),
            "date" => Some(Transform::Date(Box::default())),
            other => {
                let message = format!("`{other}` is unknown; known are {WORDS}, and tables");
                problems.add(item.span(), key, message);
                None
            }
        },
        DeValue::Table(table) => with_settings(item, table, key, problems),
        other => {
            let message = format!("{} is not a transform; known are {WORDS}", article(other));
            problems.add(item.span(), key, message);
            None
        }
    }
}

/// `{ date = { ... } }`, `{ replace = "...", with = "..." }`, `{ number = "," }`
fn with_settings(
    item: &Spanned<DeValue<'_>>,
    table: &DeTable<'_>,
    key: &str,
    problems: &mut Problems<'_>,
) -> Option<Transform> {
    let text = |name: &str| table.get(name).and_then(|value| value.get_ref().as_str());
    let known: &[&str] = if table.contains_key("replace") {
        &["replace", "with"]
    } else if table.contains_key("number") {
        &["number"]
    } else {
        &["date"]
    };
    for name in table.keys() {
        let given: &str = name.get_ref();
        if !known.contains(&given) {
            let message = "unknown; write { date = {...} }, { replace = \"REGEX\", with = \"...\" } \
                           or { number = \",\" }";
            problems.add(name.span(), &format!("{key}.{given}"), message.to_owned());
            return None;
        }
    }
    if let Some(value) = table.get("replace") {
        let Some(pattern) = text("replace") else {
            problems.add(
                value.span(),
                key,
                "`replace` is a regular expression".to_owned(),
            );
            return None;
        };
        return match pattern::regex(pattern) {
            Ok(pattern) => Some(Transform::Replace {
                pattern,
                with: text("with").unwrap_or_default().to_owned(),
            }),
            Err(why) => {
                problems.add(value.span(), &format!("{key}.replace"), why);
                None
            }
        };
    }
    if let Some(value) = table.get("number") {
        return match text("number") {
            Some(".") => Some(Transform::Number { decimal: '.' }),
            Some(",") => Some(Transform::Number { decimal: ',' }),
            _ => {
                let message = "is the sign of decimals, \".\" or \",\"".to_owned();
                problems.add(value.span(), &format!("{key}.number"), message);
                None
            }
        };
    }
    let Some(value) = table.get("date") else {
        problems.add(item.span(), key, format!("is empty; known are {WORDS}"));
        return None;
    };
    date(value, &format!("{key}.date"), problems).map(|form| Transform::Date(Box::new(form)))
}

fn date(value: &Spanned<DeValue<'_>>, key: &str, problems: &mut Problems<'_>) -> Option<DateForm> {
    let mut table = KeyTable::new(value, key, &["order", "languages", "timezone"], problems)?;
    let mut form = DateForm::default();
    if let Some(name) = table.text("order") {
        form.order = Order::of_name(&name);
        if form.order.is_none() {
            table.wrong("order", format!("`{name}` is not one of dmy, mdy, ymd"));
        }
    }
    for (span, code) in table.texts("languages").unwrap_or_default() {
        match Language::of_code(&code) {
            Some(language) => form.languages.push(language),
            None => {
                let known: Vec<&str> = Language::ALL.iter().map(|l| l.code()).collect();
                let message = format!("`{code}` is not one of {}", known.join(", "));
                let key = table.full("languages");
                table.problems.add(span, &key, message);
            }
        }
    }
    if let Some(name) = table.text("timezone") {
        match TimeZone::get(&name) {
            Ok(zone) => form.timezone = Some(zone),
            Err(_) => {
                let message = format!(
                    "`{name}` is not a time zone of this machine; write it as `Europe/Berlin`"
                );
                table.wrong("timezone", message);
            }
        }
    }
    Some(form)
}
