//! `spoor score --model FOLDER TEXT|-`

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;
use spoor::config::StrategySection;
use spoor::daemon;
use spoor::lm::{self, perplexity};
use spoor::page::{Bucket, LinkParts};
use spoor::score::{Scorer, Strategy, Weights, link_score};
use spoor::train::Model;

use super::print_json;

/// Rate a text.
#[derive(Debug, Args)]
pub struct Score {
    /// The model's folder, as models/cats.
    #[arg(long, value_name = "FOLDER")]
    model: PathBuf,
    /// Rate the text as a link's anchor; print the link score with its parts.
    #[arg(long, requires = "document_perplexity")]
    link: bool,
    /// Perplexity of the page that the link stands on.
    #[arg(long, value_name = "N", requires = "link")]
    document_perplexity: Option<f64>,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
    /// The text; `-` reads it from standard input.
    #[arg(required = true)]
    text: Vec<String>,
}

impl Score {
    pub fn run(self) -> Result<()> {
        let model = Model::load(&self.model)?;
        let mut text = self.text.join(" ");
        if text == "-" {
            text.clear();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("reading the text from standard input")?;
        }
        match self.document_perplexity {
            Some(document) => print_link(&model, &text, document, self.json),
            None => print_text(&model, &text, self.json),
        }
    }
}

fn print_link(model: &Model, text: &str, document: f64, json: bool) -> Result<()> {
    ensure!(
        document.is_finite() && document > 0.0,
        "--document-perplexity: {document} is no perplexity; give a number above 0"
    );
    let anchor = lm::normalise(text);
    let parts = LinkParts {
        document,
        anchor: perplexity::text(&*model.lm, &anchor),
        keyword: model.keywords.link_score(&anchor),
    };
    let score = link_score(&parts, &weights(model));
    let bucket = bucket(model, score);
    if json {
        return print_json(&json!({"score": score, "parts": parts, "bucket": bucket}));
    }
    println!("link score          {score:.6}");
    println!("document perplexity {:.6}", parts.document);
    println!("anchor perplexity   {:.6}", parts.anchor);
    println!("anchor keyword      {:.9}", parts.keyword);
    println!("bucket              {}", bucket.unwrap_or(NONE));
    Ok(())
}

fn print_text(model: &Model, text: &str, json: bool) -> Result<()> {
    let scorer = Scorer::new(
        Arc::clone(&model.lm),
        model.keywords.clone(),
        weights(model),
        Strategy::Link,
    );
    let whole = scorer.text(text);
    let document = scorer.document(&[text]);
    let bucket = bucket(model, document.perplexity);
    if json {
        let on_topic = model.facts.calibration.on_topic(document.perplexity);
        let whole = json!({
            "text": whole, "document": document, "bucket": bucket, "on_topic": on_topic,
        });
        return print_json(&whole);
    }
    println!("perplexity          {:.6}", whole.perplexity);
    println!("keyword score       {:.9}", whole.keyword);
    println!("weighted perplexity {:.6}", whole.weighted);
    println!(
        "as a document       {:.6} over {} sentences, {} tokens",
        document.perplexity, document.sentences, document.tokens
    );
    println!("bucket              {}", bucket.unwrap_or(NONE));
    let on_topic = model.facts.calibration.on_topic(document.perplexity);
    println!("likely on topic     {on_topic:.3}");
    Ok(())
}

/// What is said where there is no bucket.
const NONE: &str = "none, above the razor";

fn bucket(model: &Model, score: f64) -> Option<&'static str> {
    let boundaries = &model.facts.calibration.boundaries;
    boundaries.bucket(score).map(Bucket::name)
}

fn weights(model: &Model) -> Weights {
    daemon::weights(&StrategySection::default(), &model.facts.calibration)
}
