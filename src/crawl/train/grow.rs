//! Growing a model: the best pages of a crawl are added to its training text
//! (self-training, in the outlook of Werner 2015).
//!
//! A model that learns from its own choices can drift away from its topic and become surer of its
//! own errors. So all given texts stay, and make up four fifths of the training text unless
//! configured otherwise. Pages are taken best first, and only with enough text to judge them. A
//! sentence that is on several pages, such as a menu, counts once. Only held-out *given* text,
//! which is never trained on, measures the model before and after and calibrates it: pages chosen
//! by a cut would only confirm the cut.
//!
//! Likewise, only the words of the given texts count for the contrast of a page. Crawled pages have
//! words that are common on the web (menus, notes and links), and no curve that was measured on
//! given texts fits these. With them, crawls by grown models found a sixth less than by the old
//! ones.

use std::collections::HashSet;
use std::path::Path;

use super::TrainError;
use super::corpus::Document;
use crate::outputs::{PageText, Table, page_texts, sentences_at};
use crate::settings::JobSettings;
use crate::settings::Name;
use crate::topic::lm::{MIN_TOKENS, Sentence, normalise, perplexity};
use crate::topic::model::{Grown, Model};
use crate::topic::score::Boundaries;

/// The perplexity up to which a page is among the best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cut {
    /// The boundary `high` of the model that is grown.
    High,
    /// Its boundary `medium`: all pages that count as on topic.
    Medium,
    /// This perplexity.
    At(f64),
}

impl Cut {
    fn of(self, boundaries: &Boundaries) -> f64 {
        match self {
            Self::High => boundaries.high,
            Self::Medium => boundaries.medium,
            Self::At(perplexity) => perplexity,
        }
    }
}

/// The settings for growing a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// The perplexity up to which a page is among the best.
    pub cut: Cut,
    /// The fewest sentences of such a page.
    pub min_sentences: usize,
    /// The largest share of crawled sentences among those trained on, from 0 to below 1.
    pub share: f64,
    /// The name of the new model; without it, the old name with the suffix `-grown`.
    pub name: Option<Name>,
    /// Whether a model of that name is replaced.
    pub replace: bool,
}

impl Default for Growth {
    fn default() -> Self {
        Self {
            cut: Cut::High,
            min_sentences: 10,
            share: 0.2,
            name: None,
            replace: false,
        }
    }
}

/// The pages to add, and the statistics of the choice.
pub(super) struct Harvest {
    pub documents: Vec<Document>,
    pub grown: Grown,
}

/// Chooses the pages of a job that are added to the `given` texts.
///
/// # Errors
/// [`TrainError`] if the job has not crawled, its log rows do not locate sentences, or
/// no page is good enough.
pub(super) fn harvest(
    config: &JobSettings,
    old: &Model,
    growth: &Growth,
    given: &[Document],
    trained: usize,
) -> Result<Harvest, TrainError> {
    let folder = config.job_folder();
    let nothing = |why: String| TrainError::NothingToGrow {
        folder: folder.clone(),
        why,
    };
    if !Table::Log.is_there(&folder) {
        return Err(nothing(
            "there is no crawl; run `spoor crawl` first".to_owned(),
        ));
    }
    let found = page_texts(&folder)?;
    if found.pages.is_empty() {
        return Err(nothing(format!(
            "no row of logs/crawl.jsonl names the sentences of a page ({} pages done are \
             without: text.sentences is false, their terms forbid it, or the crawl is of \
             before this was recorded); crawl again with text.sentences = true",
            found.without
        )));
    }
    let cut = growth.cut.of(&old.facts.calibration.boundaries);
    let mut judged = judge(old, &folder, &found.pages, growth.min_sentences)?;
    let (judged_pages, all) = (judged.len(), found.pages.len());
    judged.retain(|page| page.perplexity <= cut);
    let passed = judged.len();
    if passed == 0 {
        return Err(nothing(format!(
            "of {all} pages with text {judged_pages} have {} sentences or more, and none of them \
             a perplexity of at most {cut:.0}; take a higher --cut, or crawl more",
            growth.min_sentences
        )));
    }
    judged.sort_by(|a, b| {
        let by = a.perplexity.total_cmp(&b.perplexity);
        by.then_with(|| a.page.url.as_str().cmp(b.page.url.as_str()))
    });
    // A share of 1 would leave no room for the given texts.
    let share = growth.share.clamp(0.0, 0.99);
    let room = (trained as f64 * share / (1.0 - share)) as usize;
    let (documents, reached) = take(&folder, judged, given, room)?;
    if documents.is_empty() {
        return Err(nothing(format!(
            "{passed} pages have a perplexity of at most {cut:.0}, but what is new on the best \
             does not fit into a share of {share} beside {trained} sentences; take a larger \
             --share, or more text under train.positive"
        )));
    }
    let all_sentences = || documents.iter().flat_map(AsRef::as_ref);
    let sentences = all_sentences().count();
    Ok(Harvest {
        grown: Grown {
            job: config.job.name.as_str().to_owned(),
            from: config.model_name().as_str().to_owned(),
            pages: all,
            judged: judged_pages,
            cut,
            passed,
            added: documents.len(),
            reached,
            sentences,
            tokens: all_sentences().map(Sentence::len).sum(),
            share: sentences as f64 / (sentences + trained).max(1) as f64,
            held_out_before: 0.0,
            held_out_after: 0.0,
            comparable: false,
        },
        documents,
    })
}

/// The text of the best pages, up to `room` sentences, each once and none of them among
/// the given ones; and the perplexity of the last page.
fn take(
    folder: &Path,
    judged: Vec<Judged<'_>>,
    given: &[Document],
    mut room: usize,
) -> Result<(Vec<Document>, f64), TrainError> {
    let given = given.iter().flat_map(AsRef::as_ref);
    let mut seen: HashSet<String> = given.map(|s| s.as_str().to_owned()).collect();
    let mut documents = Vec::new();
    let mut reached = 0.0;
    for page in judged {
        let mut sentences = text_of(folder, page.page)?;
        sentences.retain(|s| seen.insert(s.as_str().to_owned()));
        // The first page that does not fit ends the choice: continuing with shorter ones
        // would favour these.
        if sentences.len() > room {
            break;
        }
        if !sentences.is_empty() {
            room -= sentences.len();
            reached = page.perplexity;
            documents.push(Document::of_sentences(sentences));
        }
    }
    Ok((documents, reached))
}

/// A page with its perplexity under the model that is grown.
struct Judged<'a> {
    page: &'a PageText,
    perplexity: f64,
}

fn text_of(folder: &Path, page: &PageText) -> Result<Vec<Sentence>, TrainError> {
    let lines = sentences_at(folder, &page.text)?;
    let mut sentences: Vec<Sentence> = lines.iter().map(|line| normalise(line)).collect();
    sentences.retain(|s| s.len() >= MIN_TOKENS);
    Ok(sentences)
}

/// Rates the pages with the current model: the perplexities in the log are on another
/// scale if the model was trained again since.
fn judge<'a>(
    old: &Model,
    folder: &Path,
    pages: &'a [PageText],
    least: usize,
) -> Result<Vec<Judged<'a>>, TrainError> {
    let mut judged = Vec::new();
    let mut others = 0_usize;
    let enough = |page: &&PageText| page.document.sentences as usize >= least;
    for page in pages.iter().filter(enough) {
        let sentences = text_of(folder, page)?;
        let perplexity = perplexity::document(&*old.lm, &sentences).perplexity;
        others += usize::from(!is_near(perplexity, page.document.perplexity));
        judged.push(Judged { page, perplexity });
    }
    if others > 0 {
        tracing::warn!(
            pages = others,
            of = judged.len(),
            "the log has other perplexities: the model was trained again since these pages were \
             crawled; they are rated by the model as it is now"
        );
    }
    Ok(judged)
}

/// Whether two perplexities are equal up to rounding in the log.
pub(super) fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-3 * a.max(b)
}

/// The name of a model grown from one of this name: `cats-grown`, `cats-grown-2` and so on.
pub(super) fn grown_name(name: &str) -> String {
    const BEHIND: &str = "-grown";
    if name.ends_with(BEHIND) {
        return format!("{name}-2");
    }
    let counted = name.rsplit_once('-').and_then(|(stem, number)| {
        let number: u32 = number.parse().ok()?;
        stem.ends_with(BEHIND).then_some((stem, number))
    });
    match counted {
        Some((stem, number)) => format!("{stem}-{}", number.saturating_add(1)),
        None => format!("{name}{BEHIND}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_grown_models() {
        for (name, grown) in [
            ("cats", "cats-grown"),
            ("cats-3", "cats-3-grown"),
            ("cats-grown", "cats-grown-2"),
            ("cats-grown-2", "cats-grown-3"),
            ("-grown-9", "-grown-10"),
        ] {
            assert_eq!(grown_name(name), grown);
        }
    }
}
