//! The progress of a crawl: one line on a terminal, a plain line every 30 seconds without
//! one, or an event of the log in JSON.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use spoor::address::{HostKey, PageUrl};
use spoor::clock;
use spoor::config::Config;
use spoor::crawl::figures::{RateMeter, Rates, Toward, WorkDone};
use spoor::crawl::pipeline::{Limits, RunStatus, Stop};
use spoor::daemon::{DaemonError, Observer};
use spoor::frontier::Cells;
use spoor::outputs::Row;
use spoor::settings::Logs;

use super::log;
use super::screen::{self, Mode, counted};
use super::steps;

/// The shortest time between two changes of the line on a terminal.
const REFRESH: Duration = Duration::from_millis(100);

/// How often a plain line is written.
const PLAIN: Duration = Duration::from_secs(30);

/// The time over which rates are measured. With a shorter one the remaining time would jump.
const WINDOW: Duration = Duration::from_secs(180);

/// The shortest idle time that is shown, and the shortest that gets a separate line.
const IDLE: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(10);

/// The minimum and maximum columns of the bar.
const BAR: (usize, usize) = (6, 30);

/// Shows steps and a crawl.
pub struct Progress {
    label: Option<&'static str>,
    drawn: Option<Instant>,
    meter: RateMeter,
    /// The last reported state of pausing and stopping.
    paused: bool,
    stopping: bool,
    idle: bool,
    /// The last line, for the end.
    last: Option<View>,
    /// The log file in the crawl's folder.
    logs: Option<Logs>,
    /// The hosts of the seeds that were not contacted yet.
    seeds: HashSet<HostKey>,
}

/// The most hosts of seeds whose first failure is reported.
const MOST_SEEDS: usize = 1_000;

impl Progress {
    /// For work that reports its steps.
    pub fn steps() -> Self {
        Self {
            label: None,
            drawn: None,
            meter: RateMeter::over(WINDOW),
            paused: false,
            stopping: false,
            idle: false,
            last: None,
            logs: None,
            seeds: HashSet::new(),
        }
    }

    /// For a crawl; `label` identifies it if there are several.
    pub fn crawl(config: &Config, label: Option<&'static str>) -> Self {
        Self {
            label,
            logs: Some(config.logs.clone()),
            // Files that cannot be read end the crawl with a message.
            seeds: (config.seeds.read().iter().flatten())
                .map(PageUrl::host_key)
                .take(MOST_SEEDS)
                .collect(),
            ..Self::steps()
        }
    }

    /// Removes the line. Without a terminal the last state of a crawl is printed once
    /// more.
    pub fn finish(&mut self) {
        steps::crawls(false);
        screen::clear();
        if let (Some(view), Mode::Lines | Mode::Json) = (self.last.take(), screen::mode()) {
            view.write_line();
        }
    }

    /// Reports pausing, resuming and stopping in words.
    fn say_changes(&mut self, standing: &RunStatus, open: usize) {
        if self.paused != standing.paused.is_some() {
            self.paused = standing.paused.is_some();
            screen::say(if self.paused {
                "paused: no further requests until `spoor ctl JOB resume`"
            } else {
                "resumed"
            });
        }
        if let (Some((_, why)), false) = (standing.stopping, self.stopping) {
            self.stopping = true;
            let waits = match open {
                0 => "no request is open".to_owned(),
                1 => "1 open request is finished first".to_owned(),
                n => format!("{n} open requests are finished first"),
            };
            screen::say(&match why {
                Stop::Interrupted => format!("stopping: {waits}; Ctrl-C again ends at once"),
                Stop::Terminated => format!("stopping on SIGTERM: {waits}"),
                Stop::Told => format!("stopping, as requested over the control API: {waits}"),
                Stop::Hopeless => format!("stopping: {waits}"),
            });
        }
    }

    /// Says why the first request to the host of a seed has failed.
    fn say_failure(&mut self, row: &Row<'_>) {
        let Ok(url) = PageUrl::parse(row.url) else {
            return;
        };
        let has_failed = ["retrying", "dropped"].contains(&row.outcome);
        if self.seeds.remove(&url.host_key())
            && has_failed
            && let Some(why) = row.error
        {
            screen::say(&format!("{url}: {why}"));
        }
    }

    /// Says how long the crawl is idle, once each time.
    fn say_idle(&mut self, idle: Option<Duration>) {
        let is_idle = idle.is_some();
        if let Some(time) = idle.filter(|time| *time >= LONG && !self.idle) {
            let time = spoken(time);
            screen::say(&format!(
                "nothing is left but what failed: next attempt in {time}"
            ));
        }
        self.idle = is_idle;
    }
}

impl Observer for Progress {
    fn opened(&mut self, folder: &Path) -> Result<(), DaemonError> {
        steps::crawls(true);
        match &self.logs {
            Some(logs) => log::also_to_file(logs, folder),
            None => Ok(()),
        }
    }

    fn say(&mut self, text: &str) {
        screen::say(text);
    }

    fn crawl(&mut self, frontier: &Cells, row: Option<&Row<'_>>, standing: &RunStatus) {
        if let Some(row) = row {
            let (status, outcome, reason) = (row.status, row.outcome, row.reason);
            tracing::debug!(status, outcome, reason, "finished");
            if !self.seeds.is_empty() {
                self.say_failure(row);
            }
        }
        self.say_changes(standing, frontier.leased());
        self.say_idle(idle(frontier, standing));
        let every = match screen::mode() {
            Mode::Quiet => return,
            Mode::Terminal => REFRESH,
            Mode::Lines | Mode::Json => PLAIN,
        };
        let now = Instant::now();
        let work = WorkDone::of(frontier, standing.shared);
        let rates = self.meter.observe(work, clock::now());
        let due = self
            .drawn
            .is_none_or(|drawn| now.duration_since(drawn) >= every);
        let view = || View::of(self.label, frontier, standing, &rates);
        if !due {
            // The final state is printed at the end.
            if row.is_some() && every == PLAIN {
                self.last = Some(view());
            }
            return;
        }
        let view = view();
        self.drawn = Some(now);
        match screen::mode() {
            Mode::Terminal => screen::show(view.line(screen::width()), false),
            _ => {
                view.write_line();
                self.last = None;
            }
        }
    }
}

/// The content of a line of progress.
#[derive(Debug, Clone, Default, PartialEq)]
struct View {
    label: Option<&'static str>,
    state: Option<&'static str>,
    /// What is counted: pages, or requests if only these are limited.
    counted: &'static str,
    done: u64,
    limit: Option<u64>,
    on_topic: Option<f64>,
    images: u64,
    /// Images still to be fetched after the last page.
    images_left: Option<u64>,
    /// The time until a failed host is tried again, with nothing to do before.
    idle: Option<Duration>,
    a_minute: Option<f64>,
    left: Option<Duration>,
    /// How close the crawl is to the limit that will end it first, 0 to 1.
    share: Option<f64>,
}

impl View {
    fn of(
        label: Option<&'static str>,
        frontier: &Cells,
        standing: &RunStatus,
        rates: &Rates,
    ) -> Self {
        let counts = frontier.counts();
        // The limits of several machines say nothing about the end of one of them.
        let own = Limits::default();
        let limits = if standing.shared {
            &own
        } else {
            &standing.limits
        };
        let work = WorkDone::of(frontier, standing.shared);
        let by_fetches = limits.documents.is_none() && limits.fetches.is_some();
        let (counted, done, limit, rate) = if by_fetches {
            ("requests", work.fetches, limits.fetches, rates.fetches)
        } else {
            ("pages", work.pages, limits.documents, rates.pages)
        };
        let images_left = frontier.images_alone();
        let state = match standing {
            RunStatus {
                stopping: Some(_), ..
            } => Some("stopping"),
            RunStatus {
                paused: Some(_), ..
            } => Some("paused"),
            RunStatus {
                outage: Some(_), ..
            } => Some("waiting for the network"),
            _ => None,
        };
        let idle = idle(frontier, standing);
        let toward = Toward::each(&work, frontier.active(), limits, rates);
        let nearest = nearest(toward, images_left, rates);
        Self {
            label,
            state,
            counted,
            done,
            limit,
            on_topic: frontier.focus().headline("").share,
            images: counts.images,
            images_left,
            idle,
            a_minute: rates.are_steady().then_some(rate),
            left: nearest
                .filter(|_| state.is_none() && idle.is_none())
                .map(|(left, _)| left),
            share: match (nearest, limit) {
                (Some((_, share)), _) => Some(share),
                (None, Some(limit)) => Some((done as f64 / limit as f64).min(1.0)),
                (None, None) => None,
            },
        }
    }

    /// The parts with their importance; the first is the most important.
    fn parts(&self) -> Vec<(u8, String)> {
        let mut parts = Vec::new();
        if let Some(label) = self.label {
            parts.push((2, label.to_owned()));
        }
        if let Some(state) = self.state {
            parts.push((1, state.to_owned()));
        }
        if let Some(idle) = self.idle {
            let time = spoken(idle);
            parts.push((1, format!("trying what failed again in {time}")));
        }
        let done = counted(self.done);
        let what = self.counted;
        parts.push((
            0,
            match self.limit {
                Some(limit) => format!("{done}/{} {what}", counted(limit)),
                None => format!("{done} {what}"),
            },
        ));
        if let Some(share) = self.on_topic {
            parts.push((3, format!("{:.0} % on topic", share * 100.0)));
        }
        parts.push((
            5,
            match self.images_left {
                Some(left) => format!(
                    "{} images, waiting for {} more",
                    counted(self.images),
                    counted(left)
                ),
                None => format!("{} images", counted(self.images)),
            },
        ));
        if let Some(rate) = self
            .a_minute
            .filter(|_| self.images_left.is_none() && self.idle.is_none())
        {
            let rate = match rate {
                rate if rate < 10.0 => format!("{rate:.1}"),
                rate => counted(rate.round() as u64),
            };
            parts.push((6, format!("{rate} a minute")));
        }
        if let Some(left) = self.left {
            let about = if left.as_secs() > 0 { "about " } else { "" };
            parts.push((4, format!("{about}{} left", spoken(left))));
        }
        parts
    }

    /// One line of at most `width` columns: the least important parts are left out first,
    /// and the remaining space shows a bar.
    fn line(&self, width: usize) -> String {
        let mut parts = self.parts();
        let joined = |parts: &[(u8, String)]| {
            let texts: Vec<&str> = parts.iter().map(|(_, text)| text.as_str()).collect();
            texts.join(", ")
        };
        let mut text = joined(&parts);
        while text.chars().count() > width && parts.len() > 1 {
            let last = parts.iter().map(|(rank, _)| *rank).max();
            parts.retain(|(rank, _)| Some(*rank) != last);
            text = joined(&parts);
        }
        let room = width.saturating_sub(text.chars().count() + 3);
        if let Some(share) = self.share
            && room >= BAR.0
        {
            let columns = room.min(BAR.1);
            let full = ((share * columns as f64) as usize).min(columns);
            let head = usize::from(full > 0 && full < columns);
            let bar = format!(
                "{}{}{}",
                "=".repeat(full - head),
                ">".repeat(head),
                " ".repeat(columns - full)
            );
            text = format!("[{bar}] {text}");
        }
        text.chars().take(width).collect()
    }

    /// Writes it as a plain line, or as an event of the log.
    fn write_line(&self) {
        if screen::mode() == Mode::Json {
            let left = self.left.map(|left| left.as_secs());
            tracing::info!(
                target: screen::PROGRESS,
                crawl = self.label,
                state = self.state.unwrap_or("running"),
                counted = self.counted,
                done = self.done,
                limit = self.limit,
                on_topic = self.on_topic,
                images = self.images,
                images_left = self.images_left,
                a_minute = self.a_minute,
                seconds_left = left,
                seconds_idle = self.idle.map(|idle| idle.as_secs()),
                "progress"
            );
            return;
        }
        let mut line = screen::time();
        let mut before = " ";
        for (_, part) in self.parts() {
            // Writing to a string does not fail.
            write!(line, "{before}{part}").ok();
            before = ", ";
        }
        eprintln!("{line}");
    }
}

/// The time until failed requests are tried again, if there is nothing to do before.
fn idle(frontier: &Cells, standing: &RunStatus) -> Option<Duration> {
    let is_working =
        standing.stopping.is_none() && standing.paused.is_none() && standing.outage.is_none();
    let until = frontier.idle_until().filter(|_| is_working)?;
    let time = Duration::from_millis(until.saturating_sub(clock::now()));
    Some(time).filter(|time| *time >= IDLE)
}

/// The time until a limit ends the crawl, and the progress towards that limit. If only images are
/// left, the crawl ends with them or by a limit of time or bytes; the limits of pages are reached.
fn nearest(mut toward: Vec<Toward>, images: Option<u64>, rates: &Rates) -> Option<(Duration, f64)> {
    let hard = ["limits.bytes", "limits.time"];
    toward.retain(|limit| images.is_none() || hard.contains(&limit.key.as_str()));
    let first = Toward::first(&toward);
    let left = first.and_then(|limit| limit.seconds_left);
    let come = images.and_then(|images| rates.seconds_for(images as f64, rates.images));
    let left = left.into_iter().chain(come).min_by(f64::total_cmp)?;
    let share = first
        .filter(|_| images.is_none())
        .map_or(1.0, Toward::share);
    Some((Duration::try_from_secs_f64(left).ok()?, share))
}

/// A duration in words, in its two largest units.
pub fn spoken(time: Duration) -> String {
    let seconds = time.as_secs();
    let two = |large: u64, unit: &str, small: u64, lesser: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {lesser}"),
    };
    match seconds {
        0 => "less than 1 s".to_owned(),
        1..60 => format!("{seconds} s"),
        60..600 => two(seconds / 60, "min", seconds % 60, "s"),
        600..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View {
            label: None,
            state: None,
            counted: "pages",
            done: 1_412,
            limit: Some(10_000),
            on_topic: Some(0.542),
            images: 18_730,
            images_left: None,
            idle: None,
            a_minute: Some(38.4),
            left: Some(Duration::from_secs(13_410)),
            share: Some(0.1412),
        }
    }

    #[test]
    fn a_line_fits_any_terminal_and_keeps_what_matters() {
        for state in [None, Some("paused"), Some("waiting for the network")] {
            for label in [None, Some("unfocused")] {
                let view = View {
                    state,
                    label,
                    ..view()
                };
                for width in 1..200 {
                    let line = view.line(width);
                    assert!(line.chars().count() <= width, "{width}: {line}");
                    if width >= 18 {
                        assert!(line.contains("1,412/10,000 pages"), "{width}: {line}");
                    }
                    assert!(!line.ends_with(", "), "{width}: {line}");
                }
                assert!(view.line(79).contains("54 % on topic"));
                let tells_time = view.line(79).contains("3 h 43 min left");
                assert!(tells_time || state.is_some(), "{}", view.line(79));
            }
        }
    }

    #[test]
    fn while_there_is_only_what_failed_the_line_says_until_when() {
        let idle = View {
            idle: Some(Duration::from_secs(24)),
            left: None,
            ..view()
        };
        let line = idle.line(79);
        assert!(
            line.contains("trying what failed again in 24 s, 1,412/10,000 pages"),
            "{line}"
        );
        assert!(!idle.line(200).contains("a minute"));
    }

    #[test]
    fn what_room_is_left_is_a_bar() {
        let line = view().line(120);
        assert_eq!(
            line,
            "[===>                          ] 1,412/10,000 pages, 54 % on topic, \
             18,730 images, 38 a minute, about 3 h 43 min left"
        );
        let full = View {
            share: Some(1.0),
            ..view()
        };
        assert!(
            full.line(150)
                .starts_with("[==============================")
        );
        assert!(!view().line(79).starts_with('['));
    }

    #[test]
    fn the_nearest_limit_tells_the_time_left() {
        let work = WorkDone {
            pages: 100,
            fetches: 200,
            images: 0,
            bytes: 1_000_000,
        };
        let rates = Rates {
            seconds: 10.0,
            pages: 60.0,
            fetches: 120.0,
            images: 30.0,
            bytes: 60_000.0,
        };
        let toward = |limits: &Limits, rates: &Rates| Toward::each(&work, 60_000, limits, rates);
        let left = |limits: Limits| {
            let nearest = nearest(toward(&limits, &rates), None, &rates);
            nearest.map(|(left, share)| (left.as_secs(), (share * 100.0) as u64))
        };
        let pages = Limits {
            documents: Some(1_000),
            ..Limits::default()
        };
        assert_eq!(left(pages.clone()), Some((900, 10)));
        let bytes = Limits {
            bytes: Some(1_100_000),
            ..pages.clone()
        };
        assert_eq!(left(bytes), Some((100, 90)));
        let time = Limits {
            time: Some(Duration::from_secs(80)),
            ..pages.clone()
        };
        assert_eq!(left(time.clone()), Some((20, 75)));
        assert_eq!(left(Limits::default()), None);
        let soon = Rates::default();
        assert_eq!(nearest(toward(&time, &soon), None, &soon), None);
        let images = |limits: &Limits| {
            let end = nearest(toward(limits, &rates), Some(100), &rates);
            end.map(|(left, share)| (left.as_secs(), share))
        };
        assert_eq!(images(&pages), Some((200, 1.0)));
        assert_eq!(images(&time), Some((20, 1.0)));
    }

    #[test]
    fn numbers_and_times_are_said_as_people_say_them() {
        for (n, expected) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(counted(n), expected);
        }
        for (seconds, expected) in [
            (0, "less than 1 s"),
            (5, "5 s"),
            (60, "1 min"),
            (125, "2 min 5 s"),
            (1_000, "16 min"),
            (3_600, "1 h"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(spoken(Duration::from_secs(seconds)), expected);
        }
    }
}
