//! Items from Wikidata dumps: a JSON list with one object per line.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Entity, Gender};

/// The values of the property "sex or gender" that determine pronouns.
const FEMALE: [&str; 3] = ["Q6581072", "Q1052281", "Q43445"];
const MALE: [&str; 3] = ["Q6581097", "Q2449503", "Q44148"];

/// The pseudo-language of labels that are the same in every language.
const EVERY: &str = "mul";

#[derive(serde::Deserialize)]
struct WikidataItem {
    id: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    labels: OrderedPairs<WikidataLabel>,
    #[serde(default)]
    aliases: OrderedPairs<Vec<WikidataLabel>>,
    #[serde(default)]
    claims: Claims,
    #[serde(default)]
    sitelinks: OrderedPairs<IgnoredAny>,
}

#[derive(serde::Deserialize)]
struct WikidataLabel {
    value: String,
}

/// The statements of two properties.
#[derive(Default)]
struct Claims {
    classes: Vec<WikidataClaim>,
    genders: Vec<WikidataClaim>,
}

#[derive(serde::Deserialize)]
struct WikidataClaim {
    #[serde(default)]
    mainsnak: Snak,
    #[serde(default)]
    rank: String,
}

#[derive(Default, serde::Deserialize)]
struct Snak {
    /// Absent where a value is unknown.
    datavalue: Option<DataValue>,
}

#[derive(serde::Deserialize)]
struct DataValue {
    value: serde_json::Value,
}

/// An object with its keys in order. The dumps write an empty object as an empty list.
struct OrderedPairs<T>(Vec<(String, T)>);

impl<T> Default for OrderedPairs<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

struct PairsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for PairsVisitor<T> {
    type Value = OrderedPairs<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, or an empty list")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<OrderedPairs<T>, M::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(OrderedPairs(pairs))
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<OrderedPairs<T>, S::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(OrderedPairs(Vec::new()))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrderedPairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PairsVisitor(PhantomData))
    }
}

struct ClaimsVisitor;

impl<'de> Visitor<'de> for ClaimsVisitor {
    type Value = Claims;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, or an empty list")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Claims, M::Error> {
        let mut claims = Claims::default();
        while let Some(property) = map.next_key::<String>()? {
            match property.as_str() {
                "P31" => claims.classes = map.next_value()?,
                "P21" => claims.genders = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(claims)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Claims, S::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Claims::default())
    }
}

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ClaimsVisitor)
    }
}

impl WikidataClaim {
    /// The item that it names.
    fn item(&self) -> Option<&str> {
        let value = &self.mainsnak.datavalue.as_ref()?.value;
        (self.rank != "deprecated").then_some(())?;
        value.get("id")?.as_str()
    }
}

/// The entity of a line; `None` for lines of the list itself, for properties, and for items
/// without a label in the languages. `languages` are codes, the best first; empty for all.
///
/// # Errors
///
/// What is wrong with the line.
pub(super) fn entity(line: &str, languages: &[String]) -> Result<Option<Entity>, String> {
    let line = line.trim().trim_end_matches(',');
    if matches!(line, "" | "[" | "]") {
        return Ok(None);
    }
    let item: WikidataItem = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if !matches!(item.kind.as_str(), "item" | "") {
        return Ok(None);
    }
    let is_wanted = |code: &str| {
        languages.is_empty() || code == EVERY || languages.iter().any(|language| language == code)
    };
    let english = [String::from("en"), String::from(EVERY)];
    let mut best = languages.iter().chain(&english);
    let labels: Vec<_> = item
        .labels
        .0
        .iter()
        .filter(|(code, _)| is_wanted(code))
        .collect();
    let named = best.find_map(|code| labels.iter().find(|(other, _)| other == code));
    let Some((_, label)) = named.or(labels.first()) else {
        return Ok(None);
    };
    let name = label.value.clone();
    let others = item.aliases.0.iter().filter(|(code, _)| is_wanted(code));
    let others = others.flat_map(|(_, labels)| labels);
    let mut aliases: Vec<String> = labels
        .iter()
        .map(|(_, label)| label)
        .chain(others)
        .map(|label| label.value.clone())
        .filter(|alias| *alias != name)
        .collect();
    aliases.sort_unstable();
    aliases.dedup();
    let mut classes: Vec<String> = Vec::new();
    for class in item.claims.classes.iter().filter_map(WikidataClaim::item) {
        if !classes.iter().any(|known| known == class) {
            classes.push(class.to_owned());
        }
    }
    let gender = item.claims.genders.iter().find_map(|claim| {
        let item = claim.item()?;
        if FEMALE.contains(&item) {
            Some(Gender::Female)
        } else if MALE.contains(&item) {
            Some(Gender::Male)
        } else {
            None
        }
    });
    Ok(Some(Entity {
        id: item.id,
        name,
        classes,
        popularity: item.sitelinks.0.len() as u64,
        gender: gender.unwrap_or_default(),
        aliases,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURIE: &str = r#"{"type":"item","id":"Q7186","labels":{"en":{"language":"en","value":"Marie Curie"},"pl":{"language":"pl","value":"Maria Skłodowska-Curie"}},"descriptions":{},"aliases":{"en":[{"language":"en","value":"Madame Curie"}],"fr":[{"language":"fr","value":"Mme Curie"}]},"claims":{"P21":[{"mainsnak":{"snaktype":"value","property":"P21","datavalue":{"value":{"entity-type":"item","numeric-id":6581072,"id":"Q6581072"},"type":"wikibase-entityid"}},"type":"statement","rank":"normal"}],"P31":[{"mainsnak":{"snaktype":"somevalue","property":"P31"},"rank":"normal"},{"mainsnak":{"datavalue":{"value":{"id":"Q9"}}},"rank":"deprecated"},{"mainsnak":{"datavalue":{"value":{"id":"Q5"}}},"rank":"normal"}],"P1":[]},"sitelinks":{"enwiki":{"site":"enwiki","title":"Marie Curie"},"dewiki":{"site":"dewiki"}}},"#;

    #[test]
    fn an_item_is_an_entity() {
        let found = entity(CURIE, &["en".to_owned()]).unwrap().unwrap();
        assert_eq!(
            found,
            Entity {
                id: "Q7186".to_owned(),
                name: "Marie Curie".to_owned(),
                classes: vec!["Q5".to_owned()],
                popularity: 2,
                gender: Gender::Female,
                aliases: vec!["Madame Curie".to_owned()],
            }
        );
        let polish = entity(CURIE, &["pl".to_owned()]).unwrap().unwrap();
        assert_eq!(
            (&*polish.name, polish.aliases.len()),
            ("Maria Skłodowska-Curie", 0)
        );
        let all = entity(CURIE, &[]).unwrap().unwrap();
        assert_eq!(all.name, "Marie Curie");
        assert_eq!(
            all.aliases,
            ["Madame Curie", "Maria Skłodowska-Curie", "Mme Curie"]
        );
        assert_eq!(entity(CURIE, &["de".to_owned()]).unwrap(), None);
    }

    #[test]
    fn lines_that_are_no_items() {
        for line in ["[", "]", "", r#"{"type":"property","id":"P1","labels":{}}"#] {
            assert_eq!(entity(line, &[]).unwrap(), None, "{line}");
        }
        let bare =
            r#"{"type":"item","id":"Q1","labels":[],"aliases":[],"claims":[],"sitelinks":[]}"#;
        assert_eq!(entity(bare, &[]).unwrap(), None);
        for wrong in ["{", r#"{"labels":{}}"#, r#"{"id":"Q1","labels":{"en":7}}"#] {
            assert!(entity(wrong, &[]).is_err(), "{wrong}");
        }
    }
}
