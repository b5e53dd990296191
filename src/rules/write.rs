//! Changes rule files, and keeps everything else in them: comments, order, blank lines.

use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, value};

use super::transform::FieldValue;

/// Why a rule file cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The file cannot be parsed.
    #[error("not valid TOML: {0}")]
    Toml(String),
    /// There is no such rule or field.
    #[error("has no {0}")]
    Missing(String),
    /// The rule exists already.
    #[error("has the rule `{0}` already; give another name, or remove it first")]
    Taken(String),
}

/// A rule to be added.
#[derive(Debug, Clone, Default)]
pub struct NewRule {
    /// Its name.
    pub name: String,
    /// Its patterns.
    pub urls: Vec<String>,
    /// Its fields: name, key of the source, selector, attribute, transforms as TOML.
    pub fields: Vec<NewField>,
    /// Its examples.
    pub examples: Vec<NewExample>,
}

/// An example of a rule to be added.
#[derive(Debug, Clone, Default)]
pub struct NewExample {
    /// The file with the markup, relative to the folder of the rule file.
    pub page: String,
    /// Its address.
    pub url: String,
    /// The values by field.
    pub values: Vec<(String, FieldValue)>,
}

/// A field to be added.
#[derive(Debug, Clone, Default)]
pub struct NewField {
    /// Its name.
    pub name: String,
    /// Its CSS selector.
    pub css: String,
    /// The attribute that is taken.
    pub attribute: Option<String>,
    /// Whether it is a date.
    pub is_date: bool,
    /// The expression whose first group is the value.
    pub part: Option<String>,
    /// Whether it is required.
    pub required: bool,
}

fn document(text: &str) -> Result<DocumentMut, WriteError> {
    let parsed = text.parse::<DocumentMut>();
    parsed.map_err(|error| WriteError::Toml(error.message().to_owned()))
}

fn rules(document: &mut DocumentMut) -> Option<&mut ArrayOfTables> {
    document.get_mut("rule")?.as_array_of_tables_mut()
}

fn has_name(table: &Table, name: &str) -> bool {
    table.get("name").and_then(Item::as_str) == Some(name)
}

/// The text of a rule file with this rule appended.
///
/// # Errors
///
/// [`WriteError`] if the file is damaged or has the rule.
pub fn append(text: &str, rule: &NewRule) -> Result<String, WriteError> {
    let mut file = document(text)?;
    let known = rules(&mut file);
    if known.is_some_and(|rules| rules.iter().any(|table| has_name(table, &rule.name))) {
        return Err(WriteError::Taken(rule.name.clone()));
    }
    let mut table = Table::new();
    table.insert("name", value(&rule.name));
    table.insert(
        "urls",
        value(rule.urls.iter().collect::<toml_edit::Array>()),
    );
    let mut fields = ArrayOfTables::new();
    for field in &rule.fields {
        fields.push(table_of(field));
    }
    table.insert("field", Item::ArrayOfTables(fields));
    let mut examples = ArrayOfTables::new();
    for NewExample { page, url, values } in &rule.examples {
        let mut example = Table::new();
        example.insert("page", value(page));
        example.insert("url", value(url));
        let mut table = InlineTable::new();
        for (name, found) in values {
            table.insert(name, inline(found));
        }
        example.insert("values", value(table));
        examples.push(example);
    }
    if !examples.is_empty() {
        table.insert("example", Item::ArrayOfTables(examples));
    }
    match rules(&mut file) {
        Some(rules) => rules.push(table),
        None => {
            let mut rules = ArrayOfTables::new();
            rules.push(table);
            file.insert("rule", Item::ArrayOfTables(rules));
        }
    }
    Ok(file.to_string())
}

fn table_of(field: &NewField) -> Table {
    let mut table = Table::new();
    table.insert("name", value(&field.name));
    table.insert("css", value(&field.css));
    if let Some(attribute) = &field.attribute {
        table.insert("attribute", value(attribute));
    }
    if field.required {
        table.insert("required", value(true));
    }
    if field.is_date {
        let transforms: toml_edit::Array = ["collapse", "date"].into_iter().collect();
        table.insert("transform", value(transforms));
    }
    if let Some(part) = &field.part {
        let mut replace = InlineTable::new();
        replace.insert("replace", part.as_str().into());
        replace.insert("with", "$1".into());
        let mut transforms = toml_edit::Array::new();
        transforms.push("collapse");
        transforms.push(replace);
        table.insert("transform", value(transforms));
    }
    table
}

fn inline(found: &FieldValue) -> toml_edit::Value {
    match found {
        FieldValue::Text(text) => text.as_str().into(),
        FieldValue::Number(number) => (*number).into(),
        FieldValue::Many(all) => {
            let items: toml_edit::Array = all.iter().map(inline).collect();
            items.into()
        }
    }
}

/// The text of a rule file with this rule removed.
///
/// # Errors
///
/// [`WriteError`] if the file is damaged or has no such rule.
pub fn remove(text: &str, name: &str) -> Result<String, WriteError> {
    let mut file = document(text)?;
    let missing = || WriteError::Missing(format!("rule `{name}`"));
    let rules = rules(&mut file).ok_or_else(missing)?;
    let at = rules.iter().position(|table| has_name(table, name));
    rules.remove(at.ok_or_else(missing)?);
    Ok(file.to_string())
}

/// The text of a rule file with another selector for a field. `key` is `css`, `xpath` or `regex`.
///
/// # Errors
///
/// [`WriteError`] if the file is damaged or has no such rule or field.
pub fn replace_selector(
    text: &str,
    rule: &str,
    field: &str,
    key: &str,
    selector: &str,
) -> Result<String, WriteError> {
    let mut file = document(text)?;
    let no_rule = || WriteError::Missing(format!("rule `{rule}`"));
    let no_field = || WriteError::Missing(format!("field `{field}` in the rule `{rule}`"));
    let rules = rules(&mut file).ok_or_else(no_rule)?;
    let table = rules.iter_mut().find(|table| has_name(table, rule));
    let fields = table.ok_or_else(no_rule)?.get_mut("field");
    let fields = fields.and_then(Item::as_array_of_tables_mut);
    let table = fields.and_then(|all| all.iter_mut().find(|table| has_name(table, field)));
    let table = table.ok_or_else(no_field)?;
    for other in ["css", "xpath", "regex"] {
        if other != key {
            table.remove(other);
        }
    }
    // A changed value keeps the comment after it.
    let decor = table
        .get(key)
        .and_then(Item::as_value)
        .map(|v| v.decor().clone());
    let mut new = toml_edit::Value::from(selector);
    if let Some(decor) = decor {
        *new.decor_mut() = decor;
    }
    table.insert(key, Item::Value(new));
    Ok(file.to_string())
}
