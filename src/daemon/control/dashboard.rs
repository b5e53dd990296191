//! The dashboard: a page built into the program, and the data it shows beyond the status.
//! It loads nothing from elsewhere; images are decoded and re-encoded before a browser
//! sees them, and all text is inserted as text, not as markup.
//!
//! If several machines crawl the job, `cluster.css` and `cluster.js` are appended to the parts of
//! the page.

use std::borrow::Cow;
use std::path::PathBuf;

use axum::extract::{Path as UrlPath, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use super::problem::Problem;
use super::rules::RuleEvent;
use super::status::unsent;
use super::{ControlError, ControlHandle};
use crate::clock::now;
use crate::crawl::figures::{HostFigures, Latest, PagePacket, RecentImage, RecentPage};
use crate::crawl::metrics::{self, Levels};
use crate::crawl::pipeline::Steering;
use crate::frontier::{Curve, Focus, Headline, HostTurn};
use crate::fs::beneath;
use crate::outputs::Sidecar;
use crate::outputs::picture::thumbnail;
use crate::page::{Bucket, ImageContext};
use crate::rules::HostStatus;
use crate::sanitize;

/// Hosts in the lists of the best and of those with rules; also the number of changes shown.
const HOSTS: usize = 20;

/// The latest images that are shown.
const IMAGES: usize = 24;

/// Hosts of each state in the list of the next ones.
const TURNS: usize = 8;

/// The number of points at the end of the curve that count as recent.
const LATELY: usize = 4;

/// Longest side of an image in the gallery, in pixels.
const SIDE: u32 = 320;

/// The most characters of an image's text that are shown.
const MAX_TEXT: usize = 300;

/// The results of a crawl, beyond its status.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Dashboard {
    /// The findings in one sentence.
    pub sentence: String,
    /// The findings as data.
    pub headline: Headline,
    /// The benefit of focusing over the course of the crawl.
    pub focus: FocusNow,
    /// The perplexity of the pages in the order fetched, in packets.
    pub perplexity: Vec<PagePacket>,
    /// The hosts with the most pages on topic.
    pub best: Vec<HostFigures>,
    /// The next hosts, a few of each state.
    pub hosts: Vec<NextTurn>,
    /// The latest images.
    pub images: Vec<GalleryImage>,
    /// The latest pages, newest first, including failed ones.
    pub pages: Vec<RecentPage>,
    /// The hosts with rules; empty without rules.
    pub ruled: Vec<HostStatus>,
    /// The last changes of these hosts, newest first.
    pub rule_events: Vec<RuleEvent>,
}

/// Pages found by score, and in the random control sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FocusNow {
    /// Over the course of the crawl; each point spans the same number of fetches.
    pub points: Vec<Focus>,
    /// The sum of the last points.
    pub recent: Focus,
    /// The sum of all points.
    pub total: Focus,
}

/// A host and its next request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NextTurn {
    /// The host.
    pub host: String,
    /// `ready`, `due` (its clock is running) or `parked` (given up for now).
    pub state: &'static str,
    /// Milliseconds until its clock permits a request; 0 if it does now.
    pub due_in: u64,
}

/// An image that was kept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GalleryImage {
    /// Its picture is at `/dashboard/image/ID`.
    pub id: String,
    /// The host that served it.
    pub host: String,
    /// Its most descriptive text: its caption, its alt text or its title, with characters
    /// escaped that would control a terminal or change the reading order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its rank score; lower is better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

impl NextTurn {
    fn of(turn: HostTurn, now: u64) -> Self {
        Self {
            host: turn.host.as_str().to_owned(),
            state: turn.state,
            due_in: turn.due.saturating_sub(now),
        }
    }
}

/// The page, its parts and the images. The page itself needs no token, because it contains nothing
/// about the crawl.
pub(super) fn pages() -> Router<ControlHandle> {
    Router::new()
        .route(
            "/",
            get(|| part("text/html", include_str!("dashboard/page.html"))),
        )
        .route("/dashboard.css", get(style))
        .route("/dashboard.js", get(script))
        .route(
            "/dashboard.svg",
            get(|| part("image/svg+xml", include_str!("dashboard/icon.svg"))),
        )
        .route("/dashboard/image/{id}", get(picture))
}

/// The paths of the page, which need no token.
pub(super) const PARTS: [&str; 4] = ["/", "/dashboard.css", "/dashboard.js", "/dashboard.svg"];

/// The style of the page; if there are several machines, with that of their section.
async fn style(State(handle): State<ControlHandle>) -> Response {
    let more = handle
        .of_cluster(include_str!("dashboard/cluster.css"))
        .await;
    part(
        "text/css",
        include_str!("dashboard/page.css").to_owned() + more,
    )
    .await
}

/// The script of the page; if there are several machines, with that of their section.
async fn script(State(handle): State<ControlHandle>) -> Response {
    let more = handle
        .of_cluster(include_str!("dashboard/cluster.js"))
        .await;
    let text = include_str!("dashboard/page.js").to_owned() + more;
    part("text/javascript", text).await
}

pub(crate) async fn part(media: &'static str, text: impl Into<Cow<'static, str>>) -> Response {
    let media = format!("{media}; charset=utf-8");
    ([(header::CONTENT_TYPE, media)], text.into()).into_response()
}

/// The results of the crawl: on topic or not, perplexity, hosts, images.
pub(super) async fn dashboard(
    State(handle): State<ControlHandle>,
) -> Result<Json<Dashboard>, Problem> {
    Ok(Json(handle.dashboard().await?))
}

/// Counters, gauges and histograms in the text format of Prometheus (0.0.4).
pub(super) async fn metrics(State(handle): State<ControlHandle>) -> Result<Response, Problem> {
    let text = handle.metrics().await?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

async fn picture(State(handle): State<ControlHandle>, UrlPath(id): UrlPath<String>) -> Response {
    // One at a time, because the crawl needs the cores.
    let _decoding = handle.0.decoding.lock().await;
    let of = handle.clone();
    let place = move || {
        let file = of.log().figures.latest.file(&id)?.to_owned();
        Some((of.0.folder.clone(), file))
    };
    thumbnail_of(place, SIDE).await
}

/// An image of a job's folder, re-encoded with sides of at most `side` pixels.
pub(crate) async fn thumbnail_of(
    place: impl FnOnce() -> Option<(PathBuf, String)> + Send + 'static,
    side: u32,
) -> Response {
    let decode = move || {
        let (folder, file) = place()?;
        thumbnail(&beneath::read(&folder, file).ok()?, side)
    };
    let Ok(Some(jpeg)) = tokio::task::spawn_blocking(decode).await else {
        let advice = "it is gone, or is not an image; the page shows only the latest images";
        return Problem::new(StatusCode::NOT_FOUND, "there is no such image", advice)
            .into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, "image/jpeg"),
        (header::CACHE_CONTROL, "private, max-age=3600"),
    ];
    (headers, jpeg).into_response()
}

impl ControlHandle {
    /// A part of the page that is only sent if several machines crawl the job.
    async fn of_cluster(&self, part: &'static str) -> &'static str {
        let is_there = self.in_force().await.cluster.is_there();
        if is_there { part } else { "" }
    }

    /// The results of the crawl.
    ///
    /// # Errors
    ///
    /// [`ControlError::Ended`].
    pub async fn dashboard(&self) -> Result<Dashboard, ControlError> {
        let (curve, turns) = match self.0.life.preparing() {
            Some(_) => Default::default(),
            None => {
                let look = |run: &mut Steering<'_>| {
                    let curve = run.frontier.focus_curve();
                    (curve, run.frontier.turns(TURNS))
                };
                match self.steer(look).await {
                    Err(ControlError::Ended) => return Ok(self.farewell().await?.board.clone()),
                    looked => looked?,
                }
            }
        };
        let handle = self.clone();
        let made = tokio::task::spawn_blocking(move || handle.dashboard_of(&curve, turns, now()));
        // The task only fails when the process ends.
        made.await.map_err(|_| ControlError::Ended)
    }

    /// The results of the crawl, including those that only the run itself knows. Reads files.
    pub(super) fn dashboard_of(&self, curve: &Curve, turns: Vec<HostTurn>, now: u64) -> Dashboard {
        let (perplexity, best, kept, pages) = {
            let mut log = self.log();
            if let Err(error) = log.read_on(&self.0.folder) {
                tracing::warn!("the results so far: {error}");
            }
            let Latest { pages, images } = &log.figures.latest;
            let kept: Vec<RecentImage> = images.iter().take(IMAGES).cloned().collect();
            (
                log.figures.packets(),
                log.figures.best_hosts(HOSTS),
                kept,
                pages.iter().cloned().collect(),
            )
        };
        let (ruled, rule_events) = {
            let at_work = self.rules_at_work();
            let events = at_work.last_events(HOSTS).iter().rev();
            (at_work.hosts(HOSTS), events.map(RuleEvent::from).collect())
        };
        let folder = &self.0.folder;
        let shown = |kept: RecentImage| {
            let sidecar = Sidecar::load(folder, &kept.file).ok();
            shown(kept, sidecar.as_ref())
        };
        let total = curve.total();
        let headline = total.headline(&self.0.topic);
        Dashboard {
            sentence: headline.to_string(),
            headline,
            focus: FocusNow {
                points: curve.points().to_vec(),
                recent: curve.recent(LATELY),
                total,
            },
            perplexity,
            best,
            hosts: turns.into_iter().map(|t| NextTurn::of(t, now)).collect(),
            images: kept.into_iter().map(shown).collect(),
            pages,
            ruled,
            rule_events,
        }
    }

    /// The metrics of the crawl.
    ///
    /// # Errors
    ///
    /// [`ControlError::Ended`], also if it has not begun.
    pub async fn metrics(&self) -> Result<String, ControlError> {
        let metrics = self.0.metrics.get().ok_or(ControlError::Ended)?;
        let look = |run: &mut Steering<'_>| (levels(run), unsent(run.frontier));
        let (mut levels, unsent) = self.steer(look).await?;
        levels.cluster = self.cluster_levels(unsent);
        levels.memory = super::status::memory().map(|memory| memory.resident);
        let checkpoint = self.checkpoint_standing();
        levels.checkpoint = checkpoint.map(|standing| (standing.age(now()), standing.bytes));
        metrics.render(&levels).map_err(|_| ControlError::Ended)
    }
}

fn shown(kept: RecentImage, sidecar: Option<&Sidecar>) -> GalleryImage {
    let best = sidecar.and_then(Sidecar::best_context);
    let text = best.and_then(ImageContext::words).map(|words| words.text);
    GalleryImage {
        id: kept.id,
        host: kept.host,
        text: text.map(|text| {
            let text: String = text.chars().take(MAX_TEXT).collect();
            sanitize::shown(&text).into_owned()
        }),
        score: best.map(|context| context.rank).filter(|r| r.is_finite()),
    }
}

fn levels(run: &Steering<'_>) -> Levels {
    let counts = run.frontier.counts();
    let hosts = run.frontier.hosts_by_state();
    let focus = run.frontier.focus();
    let mut queued: Vec<(&'static str, u64)> = Bucket::ALL
        .iter()
        .zip(counts.queued)
        .map(|(bucket, n)| (bucket.name(), n))
        .collect();
    queued.push(("images", counts.queued_images));
    let dropped = counts.dropped.iter().map(|(r, n)| (r.name(), *n));
    let shares = [
        ("focused", focus.focused.share()),
        ("control", focus.control.share()),
    ];
    let shares = shares.into_iter();
    Levels {
        urls: vec![
            ("done", counts.documents),
            ("images", counts.images),
            ("queued", counts.queued_pages() + counts.queued_images),
            ("waiting", counts.waiting),
            ("dropped", counts.dropped.values().sum()),
        ],
        queued,
        dropped: dropped.collect(),
        hosts: [
            ("ready", hosts.ready),
            ("due", hosts.due),
            ("held", hosts.held),
            ("parked", hosts.parked),
            ("open", hosts.open),
        ]
        .map(|(state, n)| (state, n as u64))
        .to_vec(),
        leased: run.frontier.leased() as u64,
        most_leased: run.most_leased as u64,
        paused: run.phase.paused.is_some(),
        on_topic: shares
            .filter_map(|(chosen, share)| Some((chosen, share?)))
            .collect(),
        ..Levels::default()
    }
}
