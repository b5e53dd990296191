//! The published JSON Schemas of the sidecar and of the document, derived from the types
//! that are written, so that they cannot differ from the files.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::document::Document;
use super::sidecar::{Sidecar, VERSION};

/// The JSON Schema (draft 2020-12) of every sidecar of this version. Keys that were added
/// after the first sidecars of the version are not required, and unknown ones are
/// permitted, because later versions of spoor may add some.
pub fn sidecar_schema() -> Value {
    let generator = SchemaSettings::draft2020_12()
        .for_deserialize()
        .into_generator();
    let mut schema = generator.into_root_schema_for::<Sidecar>();
    schema.insert(
        "$id".to_owned(),
        format!("urn:spoor:schema:sidecar:{VERSION}").into(),
    );
    schema.into()
}

/// The JSON Schema (draft 2020-12) of every line of `documents/*.jsonl.zst`. Unknown keys
/// are permitted, because later versions of spoor may add some.
pub fn document_schema() -> Value {
    let generator = SchemaSettings::draft2020_12()
        .for_deserialize()
        .into_generator();
    let mut schema = generator.into_root_schema_for::<Document>();
    schema.insert("$id".to_owned(), "urn:spoor:schema:document:1".into());
    schema.into()
}

/// The JSON Schema (draft 2020-12) of what rules find on a page: `rules` in a row of the log,
/// whose `fields` a document and `spoor rules test --json` have as well.
pub fn fields_schema() -> Value {
    let generator = SchemaSettings::draft2020_12()
        .for_deserialize()
        .into_generator();
    let mut schema = generator.into_root_schema_for::<crate::rules::Applied>();
    schema.insert("$id".to_owned(), "urn:spoor:schema:fields:1".into());
    schema.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::address::PageUrl;
    use crate::page::{AltKind, Embedding, Found, ImageContext, ImageScores, ImageTexts};
    use crate::page::{Directives, Terms, TextScore};
    use crate::picture::inspect;
    use crate::{NewImageFile, Outputs};
    use spoor_lab::picture::draw;

    fn validator() -> jsonschema::Validator {
        jsonschema::draft202012::options()
            .should_validate_formats(true)
            .build(&sidecar_schema())
            .unwrap()
    }

    fn context(page: &str) -> ImageContext {
        ImageContext {
            page: PageUrl::parse(page).unwrap(),
            page_title: None,
            page_language: None,
            page_recognised_language: None,
            document_perplexity: 50.5,
            declared_width: None,
            declared_height: None,
            terms: Terms::default(),
            embedding: Embedding::default(),
            texts: ImageTexts::default(),
            scores: ImageScores::default(),
            rank: 12.0,
        }
    }

    /// Every key has a value.
    fn full(page: &str) -> ImageContext {
        let score = TextScore {
            perplexity: 3.5,
            keyword: 0.5,
            weighted: 1.0,
        };
        let words = || Some("A \"lamp\"\u{0}\nin the\u{7} hall".to_owned());
        ImageContext {
            page_title: words(),
            page_language: Some("de-at".to_owned()),
            page_recognised_language: Some("de".to_owned()),
            declared_width: Some(640),
            terms: Terms {
                directives: Directives {
                    noai: true,
                    ..Directives::default()
                },
                tdm_reservation: Some(true),
                tdm_policy: words(),
                content_signals: [(
                    "ai-train".to_owned(),
                    spoor_values::page::SignalValue::Flag(false),
                )]
                .into(),
                rsl: vec![spoor_values::page::RslTerms::unread(
                    "http://a.test/rsl".to_owned(),
                )],
                licences: vec!["https://licence.test/by".to_owned()],
            },
            embedding: Embedding {
                found: vec![Found::Img, Found::OpenGraph, Found::JsonLd],
                class: words(),
                link_target: Some(PageUrl::parse("http://a.test/large").unwrap()),
                in_main_text: Some(true),
            },
            texts: ImageTexts {
                alt: words(),
                alt_kind: Some(AltKind::FileName),
                parents: vec!["near".to_owned(), "far".to_owned()],
                parent_distances: vec![1, 4],
                ..ImageTexts::default()
            },
            scores: ImageScores {
                alt: Some(score),
                parents: vec![score, score],
                ..ImageScores::default()
            },
            ..context(page)
        }
    }

    /// What the outputs write to the disk for an image on these pages.
    fn written(contexts: Vec<ImageContext>) -> Value {
        let root = tempfile::tempdir().unwrap();
        let mut outputs = Outputs::open(root.path(), &[]).unwrap();
        let bytes = draw("http://a.test/a.png", 60, 40).unwrap().bytes;
        let url = PageUrl::parse("http://a.test/a.png?x=1").unwrap();
        let new = NewImageFile {
            content_type: contexts.first().map(|_| "image/png"),
            terms: contexts
                .first()
                .map(|c| c.terms.clone())
                .unwrap_or_default(),
            contexts,
            ..NewImageFile::new(
                &url,
                &bytes,
                inspect(&bytes).unwrap(),
                "2026-01-02T12:00:00.000Z",
            )
        };
        let file = outputs.image(new).unwrap();
        let text = std::fs::read(root.path().join(format!("{file}.json"))).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn sidecars_of_every_shape_conform() {
        let validator = validator();
        let page = "http://a.test/";
        for contexts in [
            vec![],
            vec![context(page)],
            vec![
                full(page),
                context("http://b.test/"),
                full("http://c.test/"),
            ],
        ] {
            let sidecar = written(contexts);
            let errors: Vec<String> = validator
                .iter_errors(&sidecar)
                .map(|e| e.to_string())
                .collect();
            assert!(errors.is_empty(), "{errors:?} in {sidecar:#}");
        }
        // One of the first of this version, and one of a later spoor.
        let mut early = written(vec![full(page)]);
        early.as_object_mut().unwrap().remove("terms");
        let first = early["contexts"][0].as_object_mut().unwrap();
        for key in [
            "terms",
            "found",
            "class",
            "alt_kind",
            "parent_distances",
            "page_recognised_language",
        ] {
            assert!(first.remove(key).is_some(), "{key}");
        }
        first.insert("later".to_owned(), json!({"any": "thing"}));
        assert!(validator.is_valid(&early));
        assert!(serde_json::from_value::<Sidecar>(early).is_ok());
    }

    #[test]
    fn what_is_no_sidecar_does_not_conform() {
        let validator = validator();
        let good = written(vec![full("http://a.test/")]);
        for (pointer, value) in [
            ("/version", json!(2)),
            ("/version", json!("1")),
            ("/url", json!("no address")),
            ("/file", json!("/etc/passwd")),
            ("/sha256", json!("ABC")),
            ("/bytes", json!(-1)),
            ("/width", json!("60")),
            ("/format", Value::Null),
            ("/fetched", json!("yesterday")),
            ("/terms/noai", json!("yes")),
            ("/terms/licences", json!("one")),
            ("/terms/content_signals/ai-train", json!(1)),
            ("/contexts", json!({})),
            ("/contexts/0/page", Value::Null),
            ("/contexts/0/alt_kind", json!("beautiful")),
            ("/contexts/0/found/0", json!("somewhere")),
            ("/contexts/0/scores/alt/perplexity", json!("low")),
            ("/contexts/0/rank", Value::Null),
            ("/contexts/0/page_recognised_language", json!(3)),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(pointer).unwrap() = value.clone();
            assert!(!validator.is_valid(&bad), "{pointer} may be {value}");
        }
        for key in ["url", "sha256", "contexts", "format", "version"] {
            let mut bad = good.clone();
            bad.as_object_mut().unwrap().remove(key);
            assert!(!validator.is_valid(&bad), "{key} may be absent");
        }
    }

    #[test]
    fn every_key_is_described() {
        fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
            let Some(object) = schema.as_object() else {
                return;
            };
            for (name, property) in object
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                // A separate type has its description there.
                if property.get("description").is_none() && property.get("$ref").is_none() {
                    found.push(format!("{path}/{name}"));
                }
            }
            for (name, inner) in object {
                undescribed(inner, &format!("{path}/{name}"), found);
            }
        }
        for schema in [sidecar_schema(), document_schema(), fields_schema()] {
            let mut found = Vec::new();
            undescribed(&schema, "", &mut found);
            assert!(found.is_empty(), "{found:?}");
            assert_eq!(
                schema["$schema"],
                "https://json-schema.org/draft/2020-12/schema"
            );
            assert!(schema["title"].is_string() && schema["description"].is_string());
            assert!(jsonschema::meta::is_valid(&schema));
        }
    }

    #[test]
    fn documents_conform_and_others_do_not() {
        let validator = jsonschema::draft202012::options()
            .should_validate_formats(true)
            .build(&document_schema())
            .unwrap();
        let bare = Document {
            url: "http://a.test/".to_owned(),
            fetched: "2026-01-02T03:04:05.678Z".to_owned(),
            hash: Document::hash_of(""),
            ..Document::default()
        };
        let words = || Some("A \"lamp\"\u{0}\nin the\u{7} hall".to_owned());
        let full = Document {
            canonical: words(),
            published: Some("2024-05".to_owned()),
            modified: Some("2024-05-17T08:30:00+02:00".to_owned()),
            title: words(),
            authors: vec!["Ada".to_owned(), "Ben".to_owned()],
            language: words(),
            language_certainty: Some(0.5),
            declared_language: words(),
            charset: words(),
            on_topic: Some(1.0),
            perplexity: Some(99.5),
            contrast: Some(-0.25),
            licences: vec!["https://licence.test/by".to_owned()],
            terms: Some(full("http://a.test/").terms),
            via: words(),
            control: true,
            replaces: Some(crate::Replaced {
                fetched: words(),
                hash: words(),
            }),
            near_copy_of: words(),
            ..bare.clone()
        };
        let values = [bare, full].map(|document| {
            let line = document.to_line();
            let read: Document = serde_json::from_str(&line).unwrap();
            assert_eq!(read, document);
            serde_json::from_str::<Value>(&line).unwrap()
        });
        for value in &values {
            assert!(validator.is_valid(value), "{value:#}");
        }
        let [_, good] = values;
        for (pointer, value) in [
            ("/url", json!("no address")),
            ("/fetched", json!("yesterday")),
            ("/hash", json!("abc")),
            ("/authors", json!("one")),
            ("/on_topic", json!(1.5)),
            ("/language_certainty", json!("high")),
            ("/words", json!(-1)),
            ("/text", Value::Null),
            ("/terms/noai", json!("yes")),
            ("/replaces", json!("an earlier one")),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(pointer).unwrap() = value.clone();
            assert!(!validator.is_valid(&bad), "{pointer} may be {value}");
        }
        for key in ["url", "fetched", "text", "hash", "hops", "extractor"] {
            let mut bad = good.clone();
            bad.as_object_mut().unwrap().remove(key);
            assert!(!validator.is_valid(&bad), "{key} may be absent");
        }
        let mut later = good;
        later["later"] = json!({"any": "thing"});
        assert!(validator.is_valid(&later));
    }
}
