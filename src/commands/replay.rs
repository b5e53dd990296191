//! `spoor replay JOB.toml --from FILE...`

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use spoor::archive::chosen::Chosen;
use spoor::clock::now;
use spoor::config::Config;
use spoor::corpus::before::{Before, Compared, EarlierLog};
use spoor::crawl::figures::{CrawlFigures, CrawlTotals, LoggedTask, RateMeter, WorkDone};
use spoor::daemon::replay::{self, Going, ReplayObserver, Replayed};
use spoor::outputs::{Row, Table};
use spoor::sanitize;

use super::print_json;
use super::progress::spoken;
use super::screen::{self, Mode, counted};

/// The shortest time between two changes of the line on a terminal.
const REFRESH: Duration = Duration::from_millis(100);
/// How often a plain line is written.
const PLAIN: Duration = Duration::from_secs(30);
/// The time over which rates are measured.
const WINDOW: Duration = Duration::from_secs(30);
/// The number of addresses that are printed of each list.
const SHOWN: usize = 10;

/// Run a job on the pages of an archive instead of the web: extract, score and keep them
/// with the settings of the job, without a request. Run it again to resume it.
#[derive(Debug, Args)]
pub struct Replay {
    /// The job's TOML file. Its model must already exist.
    job: PathBuf,
    /// WARC, ARC or WACZ files, folders of WARC and ARC files, or indexes named *.cdxj or
    /// *.idx; from an index only the captures that it lists are taken.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    from: Vec<PathBuf>,
    /// The folder for the results; by default beside the job's, with `-replay` appended to
    /// its name.
    #[arg(long, value_name = "FOLDER", conflicts_with = "dry_run")]
    output: Option<PathBuf>,
    /// Begin at the seeds and follow links, as a crawl does, instead of taking all pages.
    #[arg(long)]
    follow: bool,
    /// Write nothing; print what would be kept, and what a crawl kept before.
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: the earlier crawl to compare with, as a job's TOML file, its folder or
    /// its log; by default the one whose folder holds the archive.
    #[arg(long, value_name = "LOG OR JOB", requires = "dry_run")]
    against: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl Replay {
    pub fn run(self) -> Result<()> {
        let config = Config::load(&self.job)?;
        let from = Chosen::of(&self.from)?;
        let files = from.files.len();
        let log = match &self.against {
            _ if !self.dry_run => None,
            Some(path) => Some(log_at(path)?),
            None => self.from.iter().find_map(|path| log_of(path)),
        };
        let mut progress = Progress {
            figures: CrawlFigures::with_hosts(0),
            before: log.map(Before::of).transpose()?,
            drawn: None,
            meter: RateMeter::over(WINDOW),
        };
        let how = replay::Replay {
            from,
            output: self.output,
            follow: self.follow,
            dry_run: self.dry_run,
        };
        let began = Instant::now();
        let replayed = replay::replay(&config, &how, &mut progress);
        screen::clear();
        let replayed = replayed?;
        let compared = match progress.before.take() {
            Some(before) => Some(
                before
                    .compared()
                    .context("the earlier log cannot be read")?,
            ),
            None => None,
        };
        if self.json {
            let result = ReplayResult::of(&replayed, &progress.figures.totals, compared.as_ref());
            return print_json(&result);
        }
        print!("{}", summary(&replayed, files, began.elapsed()));
        if self.dry_run {
            print!("{}", dry(&progress.figures.totals, compared.as_ref()));
        }
        Ok(())
    }
}

/// The log that a user names.
fn log_at(path: &Path) -> Result<EarlierLog> {
    if path.is_dir() {
        if Table::Log.is_there(path) {
            return Ok(EarlierLog::Job(path.to_owned()));
        }
        bail!(
            "{}: this folder has no {}; give the folder of a job",
            path.display(),
            Table::Log.name()
        );
    }
    if path.extension().is_some_and(|ending| ending == "toml") {
        return Ok(EarlierLog::Job(Config::load(path)?.job_folder()));
    }
    Ok(EarlierLog::File(path.to_owned()))
}

/// The log of the crawl that wrote an archive, if that is in the crawl's folder.
fn log_of(archive: &Path) -> Option<EarlierLog> {
    let folder = archive.canonicalize().ok()?;
    let job = folder
        .ancestors()
        .take(3)
        .find(|at| Table::Log.is_there(at));
    job.map(|job| EarlierLog::Job(job.to_owned()))
}

/// Shows the progress, and counts.
struct Progress {
    /// The figures of this run.
    figures: CrawlFigures,
    before: Option<Before>,
    drawn: Option<Instant>,
    meter: RateMeter,
}

impl ReplayObserver for Progress {
    fn say(&mut self, text: &str) {
        screen::say(text);
    }

    fn row(&mut self, row: &Row<'_>) {
        if let Some(task) = LoggedTask::of(row) {
            self.figures.take(&task);
            if let Some(before) = &mut self.before {
                before.meet(&task);
            }
        }
    }

    fn going(&mut self, going: Going<'_>) {
        let every = match screen::mode() {
            Mode::Quiet | Mode::Json => return,
            Mode::Terminal => REFRESH,
            Mode::Lines => PLAIN,
        };
        let now = Instant::now();
        let began = *self.drawn.get_or_insert(now);
        if now.duration_since(began) < every {
            return;
        }
        self.drawn = Some(now);
        let line = self.line(going);
        match screen::mode() {
            Mode::Terminal => screen::show(line, false),
            _ => screen::say(&line),
        }
    }
}

impl Progress {
    /// Pages, images, the rate and the time left.
    fn line(&mut self, going: Going<'_>) -> String {
        let pages = going.counts.documents;
        let work = WorkDone {
            pages,
            bytes: going.bytes.map_or(0, |(read, _)| read),
            ..WorkDone::default()
        };
        let rates = self.meter.observe(work, now());
        let mut line = format!(
            "{} pages, {} images",
            counted(pages),
            counted(going.counts.images)
        );
        if rates.seconds > 0.0 {
            line.push_str(&format!(", {:.0} pages a second", rates.pages / 60.0));
        }
        let Some((read, all)) = going.bytes.filter(|(_, all)| *all > 0) else {
            return line;
        };
        line.push_str(&format!(", {} %", read.saturating_mul(100) / all));
        if going.passes > 0 {
            line.push_str(" of the archive once more, for images");
        }
        let left = rates.seconds_for(all.saturating_sub(read) as f64, rates.bytes);
        if let Some(left) = left.and_then(|left| Duration::try_from_secs_f64(left).ok()) {
            line.push_str(&format!(", {} left", spoken(left)));
        }
        line
    }
}

/// The result, for JSON.
#[derive(Serialize)]
struct ReplayResult<'r> {
    folder: Option<&'r Path>,
    complete: bool,
    limit: Option<&'static str>,
    responses: usize,
    bytes: u64,
    pages: u64,
    images: u64,
    /// In this run.
    seen: &'r CrawlTotals,
    passes: Option<u64>,
    exchanges: Option<u64>,
    left_out: Option<&'r std::collections::BTreeMap<String, u64>>,
    not_led_to: Option<&'r std::collections::BTreeMap<String, u64>>,
    queued: u64,
    compared: Option<&'r Compared>,
}

impl<'r> ReplayResult<'r> {
    fn of(replayed: &'r Replayed, seen: &'r CrawlTotals, compared: Option<&'r Compared>) -> Self {
        let tally = replayed.tally.as_ref();
        Self {
            folder: replayed.folder.as_deref(),
            complete: tally.is_none_or(|tally| tally.complete),
            limit: replayed.limit,
            responses: replayed.responses,
            bytes: replayed.bytes,
            pages: replayed.counts.documents,
            images: replayed.counts.images,
            seen,
            passes: tally.map(|tally| tally.passes),
            exchanges: tally.map(|tally| tally.exchanges),
            left_out: tally.map(|tally| &tally.left_out),
            not_led_to: tally.map(|tally| &tally.not_led_to),
            queued: replayed.counts.queued_pages(),
            compared,
        }
    }
}

fn row(name: &str, n: u64) -> String {
    format!("{name:<44}{:>14}\n", counted(n))
}

/// The result, for a terminal.
fn summary(replayed: &Replayed, files: usize, took: Duration) -> String {
    let counts = &replayed.counts;
    let mut out = format!(
        "replayed {} responses of {} in {}\n",
        counted(replayed.responses as u64),
        match files {
            1 => "1 file".to_owned(),
            n => format!("{} files", counted(n as u64)),
        },
        spoken(took),
    );
    out.push_str(&row("pages", counts.documents));
    out.push_str(&row("images", counts.images));
    match &replayed.tally {
        Some(tally) => {
            for (why, n) in &tally.left_out {
                out.push_str(&row(&format!("left out: {why}"), *n));
            }
            for (why, n) in &tally.not_led_to {
                out.push_str(&row(&format!("pages not led to: {why}"), *n));
            }
        }
        None => {
            for (why, n) in counts.dropped.iter().filter(|(_, n)| **n > 0) {
                out.push_str(&row(&format!("not taken: {}", why.name()), *n));
            }
        }
    }
    out.push_str(&row("links queued", counts.queued_pages()));
    if let Some(limit) = replayed.limit {
        out.push_str(&format!(
            "ended by {limit}; raise it and run this again to go on\n"
        ));
    }
    if let Some(folder) = &replayed.folder {
        let job = folder.join("job.toml");
        out.push_str(&format!(
            "results in {}; see them with\n  spoor report {}\n",
            folder.display(),
            job.display()
        ));
    }
    sanitize::shown(&out).into_owned()
}

/// What a dry run would keep, and what an earlier crawl kept.
fn dry(now: &CrawlTotals, compared: Option<&Compared>) -> String {
    let Some(compared) = compared else {
        let mut out = row("on topic", now.on_topic);
        out.push_str(&row("pages that would be kept", now.texts));
        out.push_str("nothing is written\n");
        return out;
    };
    let before = &compared.before;
    let mut out = format!("\n{:<30}{:>14}{:>14}\n", "", "before", "now");
    for (name, (before, now)) in [
        ("pages", (before.pages, now.pages)),
        ("on topic", (before.on_topic, now.on_topic)),
        ("pages kept", (before.texts, now.texts)),
        ("images kept", (before.images, now.images)),
    ] {
        let (before, now) = (counted(before), counted(now));
        out.push_str(&format!("{name:<30}{before:>14}{now:>14}\n"));
    }
    for (name, (n, urls)) in [
        ("pages kept before and not now", &compared.lost),
        ("pages kept now and not before", &compared.gained),
        ("images kept before and not now", &compared.lost_images),
        ("images kept now and not before", &compared.gained_images),
    ] {
        out.push_str(&row(name, *n));
        for url in urls.iter().take(SHOWN) {
            out.push_str(&format!("  {}\n", sanitize::shown(url)));
        }
        let more = n.saturating_sub(SHOWN as u64);
        if more > 0 && !urls.is_empty() {
            out.push_str(&format!("  and {} more\n", counted(more)));
        }
    }
    out.push_str("nothing is written\n");
    out
}
