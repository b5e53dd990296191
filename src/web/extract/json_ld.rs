//! Images, licences and articles that a page describes in JSON-LD with the vocabulary of
//! schema.org.
//!
//! Contexts are not expanded: `@type` and the properties are found by the names that pages
//! use. Imperfect JSON is read as far as its meaning is clear (`lenient`).

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::address::PageUrl;
use crate::page::{Found, ImageCandidate, MAX_LICENCES};

use super::attributes::ElementAttributes;
use super::{images, lenient, terms};

/// The most bytes of all JSON-LD of a page; a script beyond that is skipped. A parsed
/// value may take 30 times as much memory.
pub(super) const MAX_BYTES: usize = 512 << 10;

/// Whether the element contains JSON-LD.
pub(super) fn is_script(name: &str, attributes: &impl ElementAttributes) -> bool {
    name == "script"
        && attributes.get("type").is_some_and(|media| {
            let media = media.split(';').next().unwrap_or_default().trim();
            media.eq_ignore_ascii_case("application/ld+json")
        })
}

/// The content of a JSON-LD script.
#[derive(Debug, Default)]
pub(super) struct JsonLdContent {
    /// Every `ImageObject`, and the values of the property `image`.
    pub images: Vec<ImageCandidate>,
    /// The values of the property `license` of anything but images.
    pub licences: Vec<String>,
    /// The description of the page itself.
    pub article: Option<Article>,
    /// The name of the `WebSite`.
    pub site: Option<String>,
}

/// An article or a page, as described.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Article {
    /// `datePublished` as written.
    pub published: Option<String>,
    /// `dateModified` as written.
    pub modified: Option<String>,
    /// Names of the authors.
    pub authors: Vec<String>,
    /// `headline`.
    pub headline: Option<String>,
}

/// The most articles and authors that are examined.
const MAX_DESCRIBED: usize = 100;

/// Types of pages, besides those whose names end with `Article` or with `Posting`, which includes
/// threads of forums.
const ARTICLES: [&str; 6] = ["Question", "Report", "Recipe", "HowTo", "Chapter", "Thesis"];
const PAGES: [&str; 5] = ["WebPage", "ItemPage", "AboutPage", "QAPage", "CreativeWork"];

/// Reads a script, with at most `max` images.
pub(super) fn read(base: &PageUrl, json: &str, max: usize) -> JsonLdContent {
    let mut found = JsonLdContent::default();
    // Nesting deeper than 128 levels is an error, so the recursion below is bounded too.
    let value = match serde_json::from_str::<Value>(json.trim()) {
        Ok(value) => value,
        Err(_) => lenient::parse(json),
    };
    walk(base, &value, false, max, &mut found);
    let mut seen = Described::default();
    describe(&value, &mut seen);
    found.article = article(base, &seen);
    found.site = seen.site.map(str::to_owned);
    found
}

/// The description of the page itself: the article with its address, or the only article; without
/// articles, the page. If there are several articles, none of them is the page.
fn article(page: &PageUrl, seen: &Described<'_>) -> Option<Article> {
    let is_own = |object: &&&Map<String, Value>| {
        let address = |value: &Value| match value {
            Value::Object(object) => object.get("@id").and_then(Value::as_str).map(str::to_owned),
            value => value.as_str().map(str::to_owned),
        };
        let mut keys = ["url", "mainEntityOfPage", "@id"].iter();
        keys.any(|key| {
            let address = object.get(*key).and_then(address);
            address.is_some_and(|a| page.join(&a).is_ok_and(|a| a == *page))
        })
    };
    let own = seen.articles.iter().find(is_own).copied();
    let only = match (seen.articles.as_slice(), seen.pages.as_slice()) {
        ([only], _) => Some(*only),
        ([], [first, ..]) => Some(*first),
        _ => None,
    };
    let object = own.or(only)?;
    let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut authors = Vec::new();
    let creator = || object.get("creator");
    if let Some(value) = object.get("author").or_else(creator) {
        name_authors(value, &seen.named, &mut authors);
    }
    Some(Article {
        published: text("datePublished").or_else(|| text("dateCreated")),
        modified: text("dateModified"),
        authors,
        headline: text("headline"),
    })
}

#[derive(Default)]
struct Described<'a> {
    articles: Vec<&'a Map<String, Value>>,
    pages: Vec<&'a Map<String, Value>>,
    /// Names by `@id`.
    named: HashMap<&'a str, &'a str>,
    /// The name of the site.
    site: Option<&'a str>,
}

/// Finds the descriptions, except those within a comment or a review.
fn describe<'a>(value: &'a Value, seen: &mut Described<'a>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| describe(value, seen)),
        Value::Object(object) => {
            let is = |wanted: &dyn Fn(&str) -> bool| {
                object
                    .get("@type")
                    .is_some_and(|kind| has_type(kind, wanted))
            };
            if is(&|kind| matches!(kind, "Comment" | "Review" | "Answer" | "UserComments")) {
                return;
            }
            let room = |list: &Vec<_>| list.len() < MAX_DESCRIBED;
            if is(&|kind| {
                kind.ends_with("Article")
                    || (kind.ends_with("Posting") && kind != "JobPosting")
                    || ARTICLES.contains(&kind)
            }) {
                if room(&seen.articles) {
                    seen.articles.push(object);
                }
            } else if is(&|kind| PAGES.contains(&kind)) && room(&seen.pages) {
                seen.pages.push(object);
            }
            let text = |key: &str| object.get(key).and_then(Value::as_str);
            if is(&|kind| kind == "WebSite") {
                seen.site = seen.site.or(text("name"));
            }
            if let (Some(id), Some(name)) = (text("@id"), text("name"))
                && seen.named.len() < MAX_DESCRIBED
            {
                seen.named.insert(id, name);
            }
            object.values().for_each(|value| describe(value, seen));
        }
        _ => {}
    }
}

/// An author is a name, an object with one, a reference to an object, or a list of these.
fn name_authors(value: &Value, named: &HashMap<&str, &str>, found: &mut Vec<String>) {
    if found.len() >= MAX_DESCRIBED {
        return;
    }
    match value {
        Value::Array(values) => {
            for value in values.iter().take(MAX_DESCRIBED) {
                name_authors(value, named, found);
            }
        }
        Value::Object(object) => {
            let text = |key: &str| object.get(key).and_then(Value::as_str);
            let reference = || named.get(text("@id")?).copied();
            match (object.get("name"), text("@id")) {
                // Some name the name as they would the person.
                (Some(name), _) if !name.is_null() => name_authors(name, named, found),
                _ => found.extend(reference().map(str::to_owned)),
            }
        }
        value => found.extend(value.as_str().map(str::to_owned)),
    }
}

/// `is_image`: the value is that of a property `image`.
fn walk(base: &PageUrl, value: &Value, is_image: bool, max: usize, found: &mut JsonLdContent) {
    match value {
        Value::String(address) if is_image && found.images.len() < max => {
            let image = images::declared(base, address, Found::JsonLd);
            found.images.extend(image);
        }
        Value::Array(values) => {
            for value in values {
                walk(base, value, is_image, max, found);
            }
        }
        Value::Object(object) => {
            let of = |key: &str| object.get(key);
            let is_object = is_image || of("@type").is_some_and(is_image_object);
            let mut licences = Vec::new();
            if let Some(value) = of("license") {
                name_licences(base, value, &mut licences);
            }
            if !is_object {
                found.licences.append(&mut licences);
            } else if found.images.len() < max {
                let address = ["contentUrl", "url"]
                    .iter()
                    .find_map(|key| of(key)?.as_str());
                let image = address.and_then(|a| images::declared(base, a, Found::JsonLd));
                if let Some(mut image) = image {
                    image.width = of("width").and_then(pixels);
                    image.height = of("height").and_then(pixels);
                    let mut words = ["caption", "description", "name"].iter();
                    image.texts.caption =
                        words.find_map(|key| images::attribute_text(of(key)?.as_str()?));
                    image.licences = licences;
                    found.images.push(image);
                }
            }
            for (key, value) in object {
                walk(base, value, key == "image", max, found);
            }
        }
        _ => {}
    }
}

/// A licence is an address, a name, an object with either, or a list of these.
fn name_licences(base: &PageUrl, value: &Value, found: &mut Vec<String>) {
    let text = match value {
        Value::Array(values) => {
            for value in values.iter().take(MAX_LICENCES) {
                name_licences(base, value, found);
            }
            None
        }
        Value::Object(object) => {
            let mut names = ["url", "@id", "name"].iter();
            names.find_map(|key| object.get(*key)?.as_str())
        }
        value => value.as_str(),
    };
    if found.len() < MAX_LICENCES {
        found.extend(text.and_then(|text| terms::license(base, text)));
    }
}

fn is_image_object(kind: &Value) -> bool {
    has_type(kind, &|name| name == "ImageObject")
}

/// Whether a `@type` is a wanted one.
fn has_type(kind: &Value, wanted: &dyn Fn(&str) -> bool) -> bool {
    let is = |kind: &Value| {
        let name = kind.as_str().unwrap_or_default();
        name.rsplit(['/', ':']).next().is_some_and(wanted)
    };
    match kind {
        Value::Array(kinds) => kinds.iter().any(is),
        kind => is(kind),
    }
}

/// A number, a text such as `640px`, or a `QuantitativeValue`.
fn pixels(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64()?.trunc();
            format!("{whole}").parse().ok()
        }
        Value::String(text) => images::dimension(text),
        Value::Object(quantity) => match quantity.get("value")? {
            Value::Object(_) => None,
            value => pixels(value),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Address, caption, width and height.
    type Read = (String, Option<String>, Option<u32>, Option<u32>);

    fn read(json: &str) -> Vec<Read> {
        let base = PageUrl::parse("https://a.example/b/").unwrap();
        let images = super::read(&base, json, 10).images.into_iter();
        images
            .map(|i| (i.url.to_string(), i.texts.caption, i.width, i.height))
            .collect()
    }

    #[test]
    fn image_objects_and_images_of_others() {
        let json = r#"{"@context":"https://schema.org","@graph":[
            {"@type":"WebPage","url":"https://a.example/page","primaryImageOfPage":{"@id":"x"}},
            {"@type":"ImageObject","@id":"x","url":"one.jpg","contentUrl":"/two.jpg",
             "caption":" A  cat ","width":1200,"height":"800px"},
            {"@type":["CreativeWork","http://schema.org/ImageObject"],"url":"three.jpg",
             "name":"Three","width":{"@type":"QuantitativeValue","value":"64"},"height":-1},
            {"@type":"NewsArticle","headline":"H","image":["four.jpg",{"url":"five.jpg"}]},
            {"@type":"Organization","logo":{"@type":"ImageObject","url":"data:image/png;base64,AA"}}
        ]}"#;
        let at = |path: &str| format!("https://a.example{path}");
        let some = |text: &str| Some(text.to_owned());
        let mut found = read(json);
        found.sort();
        let mut expected = vec![
            (at("/two.jpg"), some("A cat"), Some(1_200), Some(800)),
            (at("/b/three.jpg"), some("Three"), Some(64), None),
            (at("/b/four.jpg"), None, None, None),
            (at("/b/five.jpg"), None, None, None),
        ];
        expected.sort();
        assert_eq!(found, expected);
        let base = PageUrl::parse("https://a.example/").unwrap();
        assert_eq!(super::read(&base, json, 2).images.len(), 2);
    }

    #[test]
    fn hostile_json_gives_nothing_and_takes_no_time() {
        let deep = "[".repeat(MAX_BYTES);
        let wide = format!("[{}1]", "{\"image\":{}},".repeat(30_000));
        let nested = format!("{}\"a\"{}", "{\"image\":".repeat(1_000), "}".repeat(1_000));
        let before = spoor_testing::worked();
        for json in [
            "",
            "{",
            "null",
            "<!-- -->",
            "{\"@type\":\"ImageObject\",\"url\":1e999}",
            "{\"image\":{\"url\":\"a\",\"width\":{\"value\":{\"value\":1}}",
            &deep,
            &wide,
            &nested,
        ] {
            assert!(read(json).is_empty());
        }
        let took = spoor_testing::worked() - before;
        assert!(took < std::time::Duration::from_secs(5), "{took:?}");
        let odd = read(r#"{"image":{"url":"a","width":1e300,"height":[1],"caption":5}}"#);
        assert_eq!(
            odd,
            [("https://a.example/b/a".to_owned(), None, None, None)]
        );
    }
}
