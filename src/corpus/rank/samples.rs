//! Turns the sidecars of a job into images with scores.

use std::path::Path;

use super::{Ranked, Steps};
use crate::fs::beneath;
use crate::outputs::picture::ImageInfo;
use crate::outputs::{self, Sidecar};
use crate::page::{ImageContext, TextScore};
use crate::progress::Step;
use crate::settings::{Formula, ImageFormat, ImageText, Measure, Rank, Variable};
use crate::tool_error::ToolError;

/// Reads every sidecar below `folder` and keeps the wanted images, in no order. The
/// sidecars are read one by one, because they may not all fit in memory.
pub(super) fn read(
    folder: &Path,
    wanted: &Rank,
    unknown: f64,
) -> Result<(Vec<Ranked>, Steps), ToolError> {
    let files = outputs::image_files(folder).map_err(|error| {
        let why = format_args!("no images to rank ({error}); `spoor crawl` collects them");
        ToolError::at(&folder.join("images"), why)
    })?;
    let mut steps = Steps::default();
    let mut images = Vec::new();
    let mut step = Step::begin("reading the words of images", Some(files.len() as u64));
    for file in files {
        step.advance(1);
        let sidecar = match Sidecar::load(folder, &file) {
            Ok(sidecar) if beneath::is_file(folder, &file) => sidecar,
            Ok(_) => {
                steps.unread += 1;
                tracing::warn!("{file}: skipped, because only its sidecar exists");
                continue;
            }
            Err(error) => {
                steps.unread += 1;
                tracing::warn!("skipped: {error}");
                continue;
            }
        };
        steps.initial += 1;
        if !is_wanted(sidecar.info(), wanted) {
            continue;
        }
        steps.format += 1;
        let contexts = sidecar.contexts().iter();
        let scored = contexts.map(|context| (score(context, &sidecar, wanted, unknown), context));
        let best = scored
            .filter(|(score, _)| score.is_finite())
            .min_by(|(a, _), (b, _)| a.total_cmp(b));
        let within = |score: f64| {
            wanted.from.is_none_or(|from| from <= score) && wanted.to.is_none_or(|to| score <= to)
        };
        if let Some((score, context)) = best.filter(|(score, _)| within(*score)) {
            steps.cut += 1;
            images.push(ranked(file, &sidecar, score, context));
        }
    }
    Ok((images, steps))
}

fn is_wanted(info: &ImageInfo, wanted: &Rank) -> bool {
    let named = |format: &ImageFormat| format.name() == info.format;
    wanted.formats.iter().any(named)
        && info.width >= wanted.min_width
        && info.height >= wanted.min_height
}

/// The score of one context; without a formula the one that the crawl recorded.
fn score(context: &ImageContext, sidecar: &Sidecar, wanted: &Rank, unknown: f64) -> f64 {
    let Some(formula) = &wanted.formula else {
        return context.rank;
    };
    evaluate(formula, context, sidecar, unknown)
}

fn evaluate(formula: &Formula, context: &ImageContext, sidecar: &Sidecar, unknown: f64) -> f64 {
    let scores = &context.scores;
    formula.evaluate(|variable| match variable {
        Variable::Text(around, measure) => {
            let words = context.words().and_then(|words| words.score);
            let text = match around {
                ImageText::Words => words.as_ref(),
                ImageText::Alt => scores.alt.as_ref(),
                ImageText::Title => scores.title.as_ref(),
                ImageText::AriaLabel => scores.aria_label.as_ref(),
                ImageText::Caption => scores.caption.as_ref(),
                ImageText::Figcaption => scores.figcaption.as_ref(),
                ImageText::Heading => scores.heading.as_ref(),
                ImageText::FileName => scores.file_name.as_ref(),
                ImageText::Parent(n) => scores.parents.get(n),
                ImageText::Sibling(n) => scores.siblings.get(n),
            };
            // As in the rank that the crawl records: a missing text is not an advantage.
            let absent = TextScore {
                perplexity: unknown,
                keyword: 0.0,
                weighted: unknown,
            };
            let text = text.unwrap_or(&absent);
            match measure {
                Measure::Perplexity => text.perplexity,
                Measure::Keyword => text.keyword,
                Measure::Weighted => text.weighted,
            }
        }
        Variable::DocumentPerplexity => context.document_perplexity,
        Variable::Width => f64::from(sidecar.info().width),
        Variable::Height => f64::from(sidecar.info().height),
        Variable::Bytes => sidecar.bytes() as f64,
        Variable::InMainText => f64::from(u8::from(context.embedding.in_main_text.unwrap_or(true))),
    })
}

fn ranked(file: String, sidecar: &Sidecar, score: f64, context: &ImageContext) -> Ranked {
    let info = sidecar.info();
    Ranked {
        score,
        file,
        url: sidecar.url().to_owned(),
        page: context.page.as_str().to_owned(),
        alt: context.texts.alt.clone(),
        sha256: sidecar.sha256().to_owned(),
        phash: info.phash,
        width: info.width,
        height: info.height,
        format: info.format.clone(),
        duplicates: 0,
    }
}
