//! Reads rule files; reports every problem with file, line, column and key.

mod keys;
mod transforms;

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use regex::Regex;
use scraper::Selector;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use self::keys::{KeyTable, Problems};
use super::pattern::{self, UrlPattern};
use super::rule::{Css, Example, Field, Origin, Rule, Source};
use super::transform::{FieldValue, Transform};
use super::xpath::XPath;
use crate::address::PageUrl;
use crate::file_errors::{FileError, FileErrors, FilePosition};

/// Maximum size of a rule file.
const MAX_FILE: u64 = 4 << 20;
/// Maximum number of rules in a file.
const MAX_RULES: usize = 10_000;
/// Maximum number of fields in a rule.
const MAX_FIELDS: usize = 100;
/// The longest CSS selector, in bytes.
const MAX_CSS: usize = 1_000;

/// The rules of files and folders.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Rule>, FileErrors> {
    let mut errors = Vec::new();
    let mut rules: Vec<Rule> = Vec::new();
    for path in files(paths, &mut errors) {
        match text_of(&path) {
            Ok(text) => match parse(&text, &path) {
                Ok(more) => rules.extend(more),
                Err(more) => errors.extend(more.into_errors()),
            },
            Err(message) => errors.push(unreadable(&path, message)),
        }
    }
    let mut known: HashMap<&str, &Origin> = HashMap::new();
    for rule in &rules {
        if let Some(first) = known.insert(&rule.name, &rule.origin) {
            errors.push(FileError {
                file: rule.origin.file.display().to_string(),
                place: Some(FilePosition {
                    line: rule.origin.line,
                    column: 1,
                }),
                key: format!("rule.{}", rule.name),
                message: format!(
                    "the name is taken by the rule in {}:{}",
                    first.file.display(),
                    first.line
                ),
            });
        }
    }
    if errors.is_empty() {
        Ok(rules)
    } else {
        Err(all_of(errors))
    }
}

fn all_of(errors: Vec<FileError>) -> FileErrors {
    FileErrors::new("the rules", errors)
}

fn unreadable(path: &Path, message: String) -> FileError {
    FileError {
        file: path.display().to_string(),
        place: None,
        key: String::new(),
        message,
    }
}

/// The files among `paths`, and the rule files of the folders.
fn files(paths: &[PathBuf], errors: &mut Vec<FileError>) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let listed = std::fs::read_dir(path).and_then(|entries| {
            let files = entries.map(|entry| entry.map(|entry| entry.path()));
            files.collect::<Result<Vec<PathBuf>, _>>()
        });
        match listed {
            Ok(mut files) => {
                files.retain(|file| file.extension().is_some_and(|e| e == "toml"));
                files.sort();
                all.extend(files);
            }
            Err(error) => errors.push(unreadable(path, format!("cannot be listed: {error}"))),
        }
    }
    all
}

fn text_of(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|e| format!("cannot be read: {e}"))?;
    if size.len() > MAX_FILE {
        return Err(format!("is larger than {MAX_FILE} bytes"));
    }
    crate::fs::read_to_string(path).map_err(|e| format!("cannot be read: {e}"))
}

/// The rules in a text.
pub(super) fn parse(text: &str, file: &Path) -> Result<Vec<Rule>, FileErrors> {
    let mut problems = Problems::new(text, file);
    let (tree, syntax) = DeTable::parse_recoverable(text);
    if let Some(first) = syntax.first() {
        let span = first.span().unwrap_or(0..0);
        problems.add(span, "", format!("not valid TOML: {}", first.message()));
        return Err(all_of(problems.into_errors()));
    }
    // In a job file they are beside its sections.
    let is_job = tree.get_ref().contains_key("job");
    for key in tree.get_ref().keys() {
        if key.get_ref() != "rule" && !is_job {
            let message = "unknown key; a rule file has `[[rule]]` blocks".to_owned();
            problems.add(key.span(), key.get_ref(), message);
        }
    }
    let rules = match tree.get_ref().get("rule") {
        Some(rules) => rules_of(rules, &mut problems),
        None => Vec::new(),
    };
    let errors = problems.into_errors();
    if errors.is_empty() {
        Ok(rules)
    } else {
        Err(all_of(errors))
    }
}

fn rules_of(value: &Spanned<DeValue<'_>>, problems: &mut Problems<'_>) -> Vec<Rule> {
    let DeValue::Array(blocks) = value.get_ref() else {
        let message = "is not a list of rules; write `[[rule]]`".to_owned();
        problems.add(value.span(), "rule", message);
        return Vec::new();
    };
    if blocks.len() > MAX_RULES {
        problems.add(value.span(), "rule", format!("more than {MAX_RULES} rules"));
        return Vec::new();
    }
    let rules = blocks.iter().filter_map(|block| rule(block, problems));
    rules.collect()
}

/// The keys of a rule.
const RULE: &[&str] = &[
    "name", "urls", "markup", "from", "until", "field", "example",
];
/// The keys of a field.
const FIELD: &[&str] = &[
    "name",
    "css",
    "xpath",
    "regex",
    "attribute",
    "many",
    "required",
    "transform",
];
/// The keys of an example.
const EXAMPLE: &[&str] = &["page", "url", "values"];

fn rule(block: &Spanned<DeValue<'_>>, problems: &mut Problems<'_>) -> Option<Rule> {
    let name = named(block).unwrap_or_default().to_owned();
    let key = if name.is_empty() {
        "rule".to_owned()
    } else {
        format!("rule.{name}")
    };
    let mut table = KeyTable::new(block, &key, RULE, problems)?;
    let origin = Origin {
        file: table.problems.file.to_owned(),
        line: table.problems.line(block.span().start),
    };
    let good_name = table.text("name").is_some_and(|name| is_name(&name));
    if !good_name {
        let message = "is required: letters, digits, `-` and `_`, 1 to 60 of them".to_owned();
        table.wrong("name", message);
    }
    let urls = table.texts("urls");
    let mut patterns = Vec::new();
    for (span, text) in urls.unwrap_or_default() {
        match UrlPattern::parse(&text) {
            Ok(pattern) => patterns.push(pattern),
            Err(why) => table.problems.add(span, &format!("{key}.urls"), why),
        }
    }
    if patterns.is_empty() && !table.has("urls") {
        table.wrong(
            "urls",
            "is required, such as `urls = [\"example.org/news/*\"]`".to_owned(),
        );
    }
    let markup = table
        .text("markup")
        .and_then(|text| css(&text, "markup", &mut table));
    let from = date("from", &mut table);
    let until = date("until", &mut table);
    if let (Some(first), Some(last)) = (from, until)
        && last < first
    {
        table.wrong("until", format!("is before `from`, {first}"));
    }
    let (fields, names) = fields(table.value("field"), &key, table.problems);
    if fields.is_empty() && !table.has("field") {
        table.wrong(
            "field",
            "a rule needs at least one `[[rule.field]]`".to_owned(),
        );
    }
    let examples = examples(table.value("example"), &key, &names, table.problems);
    Some(Rule {
        name,
        urls: patterns,
        markup,
        from,
        until,
        fields,
        examples,
        origin,
    })
}

fn named<'v>(block: &'v Spanned<DeValue<'_>>) -> Option<&'v str> {
    block.get_ref().as_table()?.get("name")?.get_ref().as_str()
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    (1..=60).contains(&name.chars().count()) && name.chars().all(is_plain)
}

/// A date as a string or as TOML writes dates.
fn date(key: &str, table: &mut KeyTable<'_, '_, '_>) -> Option<Date> {
    let value = table.value(key)?;
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Datetime(date) => date.to_string(),
        _ => String::new(),
    };
    let date = text.parse::<Date>().ok();
    if date.is_none() {
        table.wrong(key, "is not a day; write it as `2018-02-14`".to_owned());
    }
    date
}

fn css(text: &str, key: &str, table: &mut KeyTable<'_, '_, '_>) -> Option<Css> {
    let made = css_of(text);
    if let Err(why) = &made {
        table.wrong(key, why.clone());
    }
    made.ok()
}

/// A CSS selector of bounded size.
pub(super) fn css_of(text: &str) -> Result<Css, String> {
    if text.len() > MAX_CSS {
        return Err(format!("is longer than {MAX_CSS} bytes"));
    }
    match Selector::parse(text) {
        Ok(selector) => Ok(Css {
            text: text.to_owned(),
            selector,
        }),
        // The library's message about `:has` within `:has` is meant for its developers.
        Err(_) if text.matches(":has(").count() > 1 => {
            Err("is not a CSS selector: `:has(...)` may not be inside another one".to_owned())
        }
        Err(error) => Err(format!("is not a known CSS selector: {error}")),
    }
}

/// The fields of `[[rule.field]]`, and the names of all of them, including fields with an already
/// reported problem.
fn fields(
    value: Option<&Spanned<DeValue<'_>>>,
    rule: &str,
    problems: &mut Problems<'_>,
) -> (Vec<Field>, Vec<String>) {
    let key = format!("{rule}.field");
    let blocks = keys::blocks(value, &key, problems);
    if let (Some(value), true) = (value, blocks.len() > MAX_FIELDS) {
        problems.add(value.span(), &key, format!("more than {MAX_FIELDS} fields"));
        return (Vec::new(), Vec::new());
    }
    let mut fields: Vec<Field> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for block in blocks {
        let field = field(block, &key, problems);
        let Some(name) = named(block) else {
            continue;
        };
        if names.iter().any(|known| known == name) {
            let key = format!("{key}.{name}");
            problems.add(
                block.span(),
                &key,
                "the rule has this field already".to_owned(),
            );
            continue;
        }
        names.push(name.to_owned());
        fields.extend(field);
    }
    (fields, names)
}

fn field(block: &Spanned<DeValue<'_>>, rule: &str, problems: &mut Problems<'_>) -> Option<Field> {
    let name = named(block).unwrap_or_default().to_owned();
    let key = format!("{rule}.{name}");
    let key = key.trim_end_matches('.');
    let mut table = KeyTable::new(block, key, FIELD, problems)?;
    if !is_name(&name) {
        let message = "is required: letters, digits, `-` and `_`, 1 to 60 of them".to_owned();
        table.wrong("name", message);
    }
    let given: Vec<&str> = ["css", "xpath", "regex"]
        .into_iter()
        .filter(|key| table.has(key))
        .collect();
    let source = match given.as_slice() {
        [one] => source(one, &mut table),
        [] => {
            table.wrong("css", "is required, or `xpath`, or `regex`".to_owned());
            None
        }
        [_, second, ..] => {
            table.wrong(
                second,
                "a field has one of `css`, `xpath` and `regex`".to_owned(),
            );
            None
        }
    };
    let attribute = table.text("attribute");
    if attribute.is_some() && given == ["regex"] {
        table.wrong(
            "attribute",
            "a regular expression has groups instead".to_owned(),
        );
    }
    let many = table.flag("many");
    let required = table.flag("required");
    let transforms = transforms::read(&mut table);
    Some(Field {
        name,
        source: source?,
        attribute: attribute.map(|name| name.to_lowercase()),
        many,
        required,
        transforms,
    })
}

fn source(key: &str, table: &mut KeyTable<'_, '_, '_>) -> Option<Source> {
    let text = table.text(key)?;
    match key {
        "css" => css(&text, key, table).map(Source::Css),
        "xpath" => match XPath::parse(&text) {
            Ok(xpath) => Some(Source::XPath(xpath)),
            Err(why) => {
                table.wrong(key, why.to_string());
                None
            }
        },
        _ => regex(&text, key, table).map(Source::Regex),
    }
}

fn regex(text: &str, key: &str, table: &mut KeyTable<'_, '_, '_>) -> Option<Regex> {
    match pattern::regex(text) {
        Ok(regex) => Some(regex),
        Err(why) => {
            table.wrong(key, why);
            None
        }
    }
}

fn examples(
    value: Option<&Spanned<DeValue<'_>>>,
    rule: &str,
    fields: &[String],
    problems: &mut Problems<'_>,
) -> Vec<Example> {
    let key = format!("{rule}.example");
    let blocks = keys::blocks(value, &key, problems);
    let examples = blocks
        .into_iter()
        .filter_map(|block| example(block, &key, fields, problems));
    examples.collect()
}

fn example(
    block: &Spanned<DeValue<'_>>,
    key: &str,
    fields: &[String],
    problems: &mut Problems<'_>,
) -> Option<Example> {
    let mut table = KeyTable::new(block, key, EXAMPLE, problems)?;
    let line = table.problems.line(block.span().start);
    let page = table.text("page");
    if page.is_none() && !table.has("page") {
        table.wrong("page", "is required: the file with the markup".to_owned());
    }
    let url = table
        .text("url")
        .and_then(|text| match PageUrl::parse(&text) {
            Ok(url) => Some(url),
            Err(why) => {
                table.wrong("url", why.to_string());
                None
            }
        });
    if url.is_none() && !table.has("url") {
        table.wrong("url", "is required: the address of the page".to_owned());
    }
    let mut values = Vec::new();
    let given = table.value("values").and_then(|v| v.get_ref().as_table());
    if given.is_none() {
        table.wrong("values", "is required: `{ title = \"...\" }`".to_owned());
    }
    for (name, value) in given.into_iter().flatten() {
        let of = format!("values.{}", name.get_ref());
        if !fields.iter().any(|field| field == name.get_ref()) {
            let key = format!("{key}.{of}");
            let message = "the rule has no such field".to_owned();
            table.problems.add(name.span(), &key, message);
            continue;
        }
        match value_of(value.get_ref()) {
            Some(value) => values.push((name.get_ref().to_string(), value)),
            None => {
                let message = "is neither a text, a number nor a list of them".to_owned();
                table
                    .problems
                    .add(value.span(), &format!("{key}.{of}"), message);
            }
        }
    }
    let folder = table.problems.file.parent().unwrap_or(Path::new(""));
    Some(Example {
        page: folder.join(page?),
        url: url?,
        values,
        line,
    })
}

/// A value in a rule file.
fn value_of(value: &DeValue<'_>) -> Option<FieldValue> {
    Some(match value {
        DeValue::String(text) => FieldValue::Text(text.to_string()),
        DeValue::Integer(number) => FieldValue::Number(plain(number.as_str())?),
        DeValue::Float(number) => FieldValue::Number(plain(number.as_str())?),
        DeValue::Datetime(date) => FieldValue::Text(date.to_string()),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| value_of(item.get_ref()));
            FieldValue::Many(items.collect::<Option<Vec<_>>>()?)
        }
        DeValue::Boolean(_) | DeValue::Table(_) => return None,
    })
}

fn plain(number: &str) -> Option<f64> {
    number.replace('_', "").parse().ok()
}

/// A field written as the contents of one `[[rule.field]]`, for tests and commands.
///
/// # Errors
///
/// As for a rule file.
pub fn parse_fields(text: &str) -> Result<Vec<Field>, FileErrors> {
    let whole = format!("[[rule]]\nname = \"x\"\nurls = [\"*\"]\n{text}");
    let rules = parse(&whole, Path::new("fields"))?;
    Ok(rules.into_iter().flat_map(|rule| rule.fields).collect())
}

/// The transforms of a field without configured ones.
pub(super) fn usual_transforms() -> Vec<Transform> {
    vec![Transform::Collapse]
}

/// An empty span.
pub(super) const NOWHERE: Range<usize> = 0..0;

#[cfg(test)]
mod tests;
