//! `spoor score --model FOLDER TEXT|-`, `spoor score JOB|FOLDER --url URL|--file PAGE`

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::json;
use spoor::address::PageUrl;
use spoor::config::Config;
use spoor::daemon;
use spoor::daemon::look::{ENOUGH, Look, Looker};
use spoor::page::{Bucket, LinkParts};
use spoor::sanitize;
use spoor::settings::StrategySection;
use spoor::topic::lm::{self, perplexity};
use spoor::topic::model::Model;
use spoor::topic::score::{Boundaries, PageObserver, Scorer, Weights};
use spoor::topic::strategy::link_score;

use super::print_json;

/// Rate a text, or show how a crawl would treat a page.
#[derive(Debug, Args)]
pub struct Score {
    /// The model's folder, as models/cats.
    #[arg(long, value_name = "FOLDER")]
    model: Option<PathBuf>,
    /// Rate the text as a link's anchor; print the link score with its parts.
    #[arg(long, requires = "document_perplexity")]
    link: bool,
    /// Perplexity of the page with the link.
    #[arg(long, value_name = "N", requires = "link")]
    document_perplexity: Option<f64>,
    /// Fetch this page as a crawl would, and show its text, links and images, what would
    /// be kept and followed, and why. Give the job file first.
    #[arg(long, value_name = "URL", conflicts_with_all = ["link", "file"])]
    url: Option<String>,
    /// The same for a saved page. Give the job file or the model's folder first.
    #[arg(long, value_name = "PAGE", conflicts_with = "link")]
    file: Option<PathBuf>,
    /// Show all links and images of the page.
    #[arg(long)]
    all: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// The text; `-` reads it from standard input. With --url or --file: the job file or
    /// the model's folder.
    #[arg(required_unless_present = "model", value_name = "TEXT|JOB")]
    text: Vec<String>,
}

impl Score {
    pub fn run(self) -> Result<()> {
        match (&self.url, &self.file) {
            (None, None) => self.rate(),
            _ => self.look(),
        }
    }

    fn rate(self) -> Result<()> {
        let Some(folder) = &self.model else {
            bail!("name the model's folder with --model, as in --model models/cats");
        };
        let model = Model::load(folder)?;
        let mut text = self.text.join(" ");
        if text == "-" {
            text.clear();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("reading the text from standard input")?;
        }
        ensure!(
            !lm::normalise(&text).is_empty(),
            "there is no word to rate; give a text, or `-` and the text on standard input"
        );
        match self.document_perplexity {
            Some(document) => print_link(&model, &text, document, self.json),
            None => print_text(&model, &text, self.json),
        }
    }

    fn look(self) -> Result<()> {
        let place = match (self.model, self.text.as_slice()) {
            (Some(model), []) => model,
            (None, [job]) => PathBuf::from(job),
            _ => bail!(
                "with --url or --file give one more argument: the job file or the model's folder"
            ),
        };
        let (config, model) = if place.is_dir() {
            (Config::default(), Model::load(&place)?)
        } else {
            let config = Config::load(&place)?;
            let folder = config.model_folder();
            ensure!(
                Model::exists(&folder),
                "{}: the job has no model yet; run `spoor train {}` first",
                folder.display(),
                place.display()
            );
            let model = Model::load(&folder)?;
            (config, model)
        };
        let looker = Looker::new(&config, &model)?;
        let look = match (self.url, self.file) {
            (Some(url), _) => {
                if place.is_dir() {
                    bail!(
                        "--url needs a job file: every request carries its contact; name the job \
                         instead of the model"
                    );
                }
                let url = PageUrl::parse(&url)?;
                let runtime = daemon::runtime()?;
                looker.url(&url, runtime.handle())?
            }
            (None, Some(file)) => looker.file(&file, &PageUrl::parse("http://localhost/")?)?,
            (None, None) => return Ok(()),
        };
        if self.json {
            return print_json(&look);
        }
        print!("{}", sanitize::shown(&shown(&look, self.all)));
        Ok(())
    }
}

/// Links and images shown without --all.
const FIRST: usize = 10;

fn shown(look: &Look, all: bool) -> String {
    let mut lines = vec![
        format!("page       {}", look.url),
        format!("title      {}", look.title.as_deref().unwrap_or("none")),
        format!(
            "language   {}",
            look.language.as_deref().unwrap_or("not certain")
        ),
    ];
    lines.push(match look.on_topic {
        Some(likely) => format!(
            "on topic   {:.0} %, judged by its own words alone",
            likely * 100.0
        ),
        None => format!(
            "on topic   too short to tell: {} words of running text, and {ENOUGH} are the least",
            look.document.tokens
        ),
    });
    lines.push(format!(
        "text       {} of {} words are rated, perplexity {:.0}",
        look.text.words, look.text.of, look.document.perplexity
    ));
    for line in look.beginning.lines() {
        lines.push(format!("           {line}"));
    }
    lines.push(match look.forbidden.as_slice() {
        [] => format!("kept       {} sentences", look.sentences),
        by => format!(
            "kept       nothing that the page forbids: {}",
            by.join(", ")
        ),
    });
    let limit = if all { usize::MAX } else { FIRST };
    let followed = look.links.iter().filter(|link| link.followed).count();
    lines.push(format!(
        "links      {followed} of {} would be followed",
        look.links.len()
    ));
    for link in look.links.iter().take(limit) {
        let verdict = if link.followed { "follow" } else { "leave" };
        lines.push(format!(
            "  {verdict:<6} {:>7.0}  {}  ({})",
            link.score, link.url, link.why
        ));
    }
    lines.extend(more(look.links.len(), limit));
    let fetched = look.images.iter().filter(|image| image.fetched).count();
    lines.push(format!(
        "images     {fetched} of {} would be fetched",
        look.images.len()
    ));
    for image in look.images.iter().take(limit) {
        let verdict = if image.fetched { "fetch" } else { "leave" };
        let alt = image.alt.as_deref().unwrap_or("no alt text");
        lines.push(format!(
            "  {verdict:<6} {}  {alt}  ({})",
            image.url, image.why
        ));
    }
    lines.extend(more(look.images.len(), limit));
    lines.join("\n") + "\n"
}

fn more(count: usize, limit: usize) -> Option<String> {
    let more = count.checked_sub(limit).filter(|more| *more > 0)?;
    Some(format!("  and {more} more; --all shows them"))
}

fn print_link(model: &Model, text: &str, document: f64, json: bool) -> Result<()> {
    ensure!(
        document.is_finite() && document > 0.0,
        "--document-perplexity: {document} is not a perplexity; give a number above 0"
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
        weights(model).gamma_keyword,
    );
    let whole = scorer.text(text);
    let document = scorer.document(&[text]);
    let enough = document.tokens as usize >= ENOUGH;
    let bucket = enough.then(|| bucket(model, document.perplexity)).flatten();
    let on_topic = enough.then(|| likely(model, text, document.perplexity));
    if json {
        let whole = json!({
            "text": whole, "document": document, "bucket": bucket, "on_topic": on_topic,
            "too_short": !enough,
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
    match on_topic {
        Some(on_topic) => {
            println!("bucket              {}", bucket.unwrap_or(NONE));
            println!("likely on topic     {on_topic:.3}");
        }
        None => println!(
            "likely on topic     too short to tell: {} words in sentences of {} or more, and \
             {ENOUGH} are the least",
            document.tokens,
            lm::MIN_TOKENS
        ),
    }
    Ok(())
}

/// The probability that a text is on topic, judged as in a crawl.
fn likely(model: &Model, text: &str, perplexity: f64) -> f64 {
    let Boundaries { high, medium, .. } = model.facts.calibration.boundaries;
    let judge = PageObserver::new(model.contrast.clone(), high, medium);
    let mut sentences = lm::sentences([text]);
    sentences.retain(|sentence| sentence.len() >= lm::MIN_TOKENS);
    judge.judge(&sentences, perplexity).on_topic
}

/// The text for a score without a bucket.
const NONE: &str = "none, above the cutoff (razor)";

fn bucket(model: &Model, score: f64) -> Option<&'static str> {
    let boundaries = &model.facts.calibration.boundaries;
    boundaries.bucket(score).map(Bucket::name)
}

fn weights(model: &Model) -> Weights {
    daemon::weights(&StrategySection::default(), &model.facts.calibration)
}
