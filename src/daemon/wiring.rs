//! Builds the parts of a job from its config: the client, the model and the page
//! processor.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::runtime::{Handle, Runtime};

use super::error::DaemonError;
use super::observer::Observer;
use crate::address::PageUrl;
use crate::config::{Config, ContactMissing};
use crate::control::MakeReader;
use crate::crawl::checkpoint;
use crate::crawl::metrics::Metrics;
use crate::crawl::pipeline::{ImageRules, Languages, Reader, pdf_reader};
use crate::crawl::train::{self, Growth, TrainError};
use crate::explain::ExplainContext;
use crate::fetch::identity::{Identity, KeyError, KeyFile};
use crate::fetch::{self, Fetcher};
use crate::ready;
use crate::rules::RuleSet;
use crate::settings::Boundaries as BoundariesChoice;
use crate::settings::StrategySection;
use crate::topic::model::{Model, ModelFacts, keywords_in};
use crate::topic::score::{
    Boundaries, BoundariesError, Calibration, PageObserver, Scorer, Weights,
};
use crate::topic::strategy::{self, Learned};
use crate::web::extract;

/// The runtime for requests and CPU work.
///
/// # Errors
///
/// [`DaemonError::Runtime`].
pub fn runtime() -> Result<Runtime, DaemonError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(DaemonError::Runtime)
}

/// Trains the job's model, even if it has one.
///
/// # Errors
///
/// [`DaemonError::Config`] and [`DaemonError::Train`]; an earlier model is kept.
pub fn train(
    config: &Config,
    runtime: &Handle,
    observer: &mut dyn Observer,
) -> Result<Model, DaemonError> {
    train_saying(config, runtime, &mut |text| observer.say(text))
}

fn train_saying(
    config: &Config,
    runtime: &Handle,
    say: &mut dyn FnMut(&str),
) -> Result<Model, DaemonError> {
    ready::for_training(config)?;
    let fetcher = || fetcher(config, runtime);
    Ok(train::train(config, runtime, fetcher, say)?)
}

/// The client for a job's training pages.
///
/// # Errors
///
/// [`TrainError`] if the job has no contact or the client cannot be built.
pub fn fetcher(config: &Config, runtime: &Handle) -> Result<Fetcher, TrainError> {
    let _entered = runtime.enter();
    let options = fetch::Options {
        identity: identity(config).map_err(fetch::SetupError::from)?,
        ..fetch_options(config)?
    };
    Ok(Fetcher::new(options)?)
}

/// Trains a new model from the best pages that the job has crawled.
///
/// # Errors
///
/// [`DaemonError::Train`]; an earlier model is kept.
pub fn train_from_job(
    config: &Config,
    growth: &Growth,
    runtime: &Handle,
    observer: &mut dyn Observer,
) -> Result<Model, DaemonError> {
    ready::for_training(config)?;
    let fetcher = || fetcher(config, runtime);
    let say = &mut |text: &str| observer.say(text);
    Ok(train::train_from_job(
        config, growth, runtime, fetcher, say,
    )?)
}

/// Loads the job's model, or trains it if it is missing.
///
/// # Errors
///
/// [`DaemonError::Train`].
pub fn model(
    config: &Config,
    runtime: &Handle,
    say: &mut dyn FnMut(&str),
) -> Result<Model, DaemonError> {
    let folder = config.model_folder();
    if Model::exists(&folder) {
        say(&format!("model {} found", folder.display()));
        Ok(Model::load(&folder).map_err(TrainError::from)?)
    } else {
        say(&format!("no model in {}: training", folder.display()));
        train_saying(config, runtime, say)
    }
}

/// The parts of a job's configuration that are needed for explanations. If its model is missing or
/// unreadable, the anchor threshold of the thesis applies.
pub fn terms(config: &Config) -> ExplainContext {
    let calibration = known_calibration(config);
    let section = &config.strategy;
    let boundaries = chosen_boundaries(config, calibration.boundaries);
    let rated = parameters(section, &calibration, boundaries);
    ExplainContext {
        agent: config.network.user_agent.as_str().to_owned(),
        strategy: strategy::of(section.kind, rated, &Learned::new(section, None)),
    }
}

/// The boundaries of a job's buckets.
///
/// # Errors
///
/// [`BoundariesError`] if they do not ascend.
pub fn boundaries(config: &Config, model: &Model) -> Result<Boundaries, BoundariesError> {
    let boundaries = chosen_boundaries(config, model.facts.calibration.boundaries);
    boundaries.validate()?;
    Ok(boundaries)
}

/// The same for reading results: if the model is missing or unreadable, the default boundaries.
pub fn known_boundaries(config: &Config) -> Boundaries {
    let calibration = known_calibration(config);
    let boundaries = chosen_boundaries(config, calibration.boundaries);
    boundaries
        .validate()
        .map_or_else(|_| Boundaries::default(), |()| boundaries)
}

/// The calibration of the job's model, or the default if there is none yet.
fn known_calibration(config: &Config) -> Calibration {
    let facts = ModelFacts::read(&config.model_folder());
    facts.map(|facts| facts.calibration).unwrap_or_default()
}

/// The configured boundaries, or those that the model measured.
fn chosen_boundaries(config: &Config, measured: Boundaries) -> Boundaries {
    let section = &config.buckets;
    match section.boundaries {
        BoundariesChoice::Auto => measured,
        BoundariesChoice::Fixed => Boundaries {
            high: section.high,
            medium: section.medium,
            normal: section.normal,
            razor: section.razor,
        },
    }
}

/// The parameters of a job's strategy with a model of this calibration.
fn parameters(
    section: &StrategySection,
    calibration: &Calibration,
    boundaries: Boundaries,
) -> strategy::Parameters {
    strategy::Parameters {
        weights: weights(section, calibration),
        boundaries,
        width: calibration.on_topic.width,
    }
}

/// The weights of a job's ratings with a model of this calibration.
pub fn weights(section: &StrategySection, calibration: &Calibration) -> Weights {
    Weights {
        gamma_document: section.gamma_document,
        gamma_anchor: section.gamma_anchor,
        gamma_keyword: section.gamma_keyword,
        anchor_threshold: section.anchor_threshold.or(calibration.anchor_threshold),
    }
}

/// Creates page processors for the same model with other ratings, and with the present
/// keyword table of the model's folder; they use the same `metrics`.
pub(super) fn remaker(model: Model, metrics: Metrics, learned: Learned) -> MakeReader {
    Arc::new(move |config| {
        let model = Model {
            keywords: keywords_in(&model.folder).map_err(|e| e.to_string())?,
            ..model.clone()
        };
        reader(config, &model, metrics.clone(), &learned).map_err(|e| e.to_string())
    })
}

/// How many times as likely a page of the training set is as held-out text.
const TRAINED: f64 = 5.0;

/// Builds the page processor of a job.
///
/// # Errors
///
/// [`DaemonError::Boundaries`].
pub fn reader(
    config: &Config,
    model: &Model,
    metrics: Metrics,
    learned: &Learned,
) -> Result<Reader, DaemonError> {
    let images = &config.images;
    let section = &config.strategy;
    let usual = extract::Options::default();
    let boundaries = boundaries(config, model)?;
    let terms = parameters(section, &model.facts.calibration, boundaries);
    let strategy = strategy::of(section.kind, terms, &learned.changed(section));
    let gamma = terms.weights.gamma_keyword;
    let scorer = Scorer::new(Arc::clone(&model.lm), model.keywords.clone(), gamma);
    let observer = PageObserver::new(model.contrast.clone(), boundaries.high, boundaries.medium)
        .only(&section.clues);
    Ok(Reader {
        extract: extract::Options {
            parents: images.parents,
            siblings: images.siblings,
            max_text_bytes: config.text.max_bytes.as_len(),
            max_nesting: config.text.max_nesting,
            max_image: (images.max_width, images.max_height),
            max_images: if images.enabled { usual.max_images } else { 0 },
            extractor: config.text.extractor,
            documents: config
                .text
                .documents
                .then_some(config.text.documents_extractor),
            agent: config.network.user_agent.as_str().to_owned(),
            ..usual
        },
        scorer: scorer.observing(if strategy.learning().is_some() {
            observer.asking(learned.judge())
        } else {
            observer.of_pages_alone()
        }),
        rating: terms.digest(section.kind),
        strategy,
        trained: model.facts.calibration.boundaries.high / TRAINED,
        images: ImageRules {
            enabled: images.enabled,
            min: (images.min_width, images.min_height),
            max: (images.max_width, images.max_height),
            max_aspect: images.max_aspect,
            min_bytes: images.min_bytes.as_len(),
        },
        sentences: config.text.sentences,
        documents: config.text.documents,
        keeps: checkpoint::keeps_anything(config),
        languages: Languages {
            model: model.facts.language,
            permitted: config.text.languages.clone(),
            follow_foreign: config.text.follow_foreign,
        },
        obeyed: config.consent.obey.clone(),
        indexes: Arc::new(indexes(config)),
        pdf: config.scope.accepts_pdf().then(|| pdf_reader(config)),
        rules: rules(config)?,
        metrics,
    })
}

/// The watched seeds with a depth.
fn indexes(config: &Config) -> HashMap<PageUrl, u8> {
    let watched = config.seeds.watch.iter().filter(|seed| seed.depth > 0);
    watched.map(|seed| (seed.url.clone(), seed.depth)).collect()
}

/// The rules of a job, if it has any.
pub(super) fn rules(config: &Config) -> Result<Option<Arc<RuleSet>>, DaemonError> {
    let rules = RuleSet::read(&config.rules.files)?;
    Ok((!rules.is_empty()).then(|| Arc::new(rules)))
}

/// The key and the mail address of the operator; `None` without both.
pub(super) fn identity(config: &Config) -> Result<Option<Arc<Identity>>, KeyError> {
    let section = &config.identity;
    let key = match (&section.key, &section.agent) {
        (Some(path), Some(agent)) => Some((KeyFile::load(path)?, agent.clone())),
        _ => None,
    };
    let from = section.from.as_ref().map(|from| from.as_str());
    let from = from.map(|from| from.trim_start_matches("mailto:"));
    let is_any = key.is_some() || from.is_some();
    Ok(is_any.then(|| Arc::new(Identity::new(key, from, section.sign.clone()))))
}

pub(super) fn fetch_options(config: &Config) -> Result<fetch::Options, ContactMissing> {
    let network = &config.network;
    Ok(fetch::Options {
        product: network.user_agent.as_str().to_owned(),
        contact: config.contact()?.as_str().to_owned(),
        http2: network.http2,
        cookies: network.cookies,
        connect_timeout: network.connect_timeout,
        read_timeout: network.read_timeout,
        total_timeout: network.total_timeout,
        page_cap: network.max_page_bytes.as_len(),
        image_cap: config.images.max_bytes.as_len(),
        // A task that shares a clock with others waits for it.
        booked: !config.politeness.address_delay.is_zero()
            || !config.politeness.domain_delay.is_zero()
            || config.politeness.connections_per_host > 1,
        requests_per_second: config.politeness.requests_per_second,
        bytes_per_second: config.politeness.bytes_per_second.map(|size| size.bytes()),
        allow_private: network.allow_private,
        connect_to: network.connect_to.clone(),
        extra_ca: network.extra_ca.clone(),
        proxy: network.proxy.clone(),
        archive: config.archive.enabled,
        ..fetch::Options::default()
    })
}
