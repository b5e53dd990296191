//! Tests of the pipeline, and what they share: a model, a reader, tasks and bodies.

mod crashes;
mod crawl;
mod driving;
mod reading;
mod web;

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use image::{DynamicImage, ImageFormat};

use super::*;
use crate::address::PageUrl;
use crate::page::{Bucket, Fetched, Signal, Task, TaskKind, TermsHeaders};
use crate::settings::StrategyKind;
use crate::topic::keywords::KeywordTable;
use crate::topic::lm::{LanguageModel, SentenceScore};
use crate::topic::score::Scorer;
use crate::topic::strategy::{self, Learned};
use crate::web::extract;

/// A model that knows the word `cat`: perplexity 10 for cats, 10^6 for the rest.
struct Cats;

impl LanguageModel for Cats {
    fn order(&self) -> u8 {
        5
    }

    fn word(&self, token: &str) -> u32 {
        u32::from(token == "cat")
    }

    fn score_words(&self, words: &[u32]) -> SentenceScore {
        let unknown = words.iter().filter(|word| **word == 0).count();
        let known = words.len() + 1 - unknown;
        SentenceScore {
            log10: -(known as f64) - 6.0 * unknown as f64,
            unknown,
        }
    }

    fn unknown_log10(&self) -> f64 {
        -6.0
    }
}

fn reader(kind: StrategyKind) -> Reader {
    let terms = strategy::Parameters::default();
    let gamma = terms.weights.gamma_keyword;
    Reader {
        extract: extract::Options::default(),
        scorer: Scorer::new(Arc::new(Cats), KeywordTable::default(), gamma),
        strategy: strategy::of(kind, terms, &Learned::default()),
        rating: terms.digest(kind),
        trained: 0.0,
        images: ImageRules {
            enabled: true,
            min: (64, 64),
            max: (5_000, 5_000),
            max_aspect: 10.0,
            min_bytes: 0,
        },
        sentences: true,
        documents: true,
        keeps: true,
        languages: Default::default(),
        obeyed: Signal::ALL.to_vec(),
        indexes: Default::default(),
        pdf: None,
        rules: None,
        metrics: crate::metrics::Metrics::new().unwrap(),
    }
}

fn url(text: &str) -> PageUrl {
    PageUrl::parse(text).unwrap()
}

fn task(address: &str, kind: TaskKind) -> Task {
    let url = url(address);
    Task {
        locate: false,
        lease: 1,
        kind,
        host: url.host_key(),
        url,
        via: None,
        hops: 0,
        redirects: 0,
        attempts: 0,
        bucket: Bucket::Seed,
        score: 0.0,
        parts: None,
        validators: Default::default(),
        terms: Default::default(),
        booking: Default::default(),
        control: false,
    }
}

fn fetched(content_type: &str, tags: &[&str], body: impl Into<Bytes>) -> Fetched {
    Fetched {
        status: 200,
        content_type: Some(content_type.to_owned()),
        terms: TermsHeaders {
            robots_tags: tags.iter().map(|t| (*t).to_owned()).collect(),
            ..TermsHeaders::default()
        },
        validators: Default::default(),
        body: body.into(),
        truncated: false,
        elapsed: Duration::from_millis(5),
        date: None,
    }
}

fn encoded(format: ImageFormat, width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let image = DynamicImage::new_rgb8(width, height);
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn lines(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let line = |l| serde_json::from_str(l).unwrap();
    text.lines().map(line).collect()
}
