//! The summary of a crawl: for people why it ended, where the results are and what to do
//! next, with the figures below; for programs everything as JSON.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use spoor::clock::{now, timestamp};
use spoor::crawl::pipeline::{End, Stop};
use spoor::daemon::control::{NextStep, Status};
use spoor::daemon::{Fruitless, Summary};
use spoor::frontier::{ImageLedger, ImagesLeft};
use spoor::sanitize;

use super::progress::spoken;
use super::screen::counted;

/// The most seeds that are listed with their problems.
const NAMED: usize = 10;

/// A run, with what its summary needs.
pub struct RunSummary<'a> {
    /// The job file, as the user gave it.
    pub job: &'a Path,
    /// The topic of the crawl, for the text.
    pub topic: &'a str,
    /// The result of the run.
    pub summary: &'a Summary,
}

/// The work of this run alone, without earlier ones.
struct Run {
    pages: u64,
    fetches: u64,
    images: u64,
    sitemaps: u64,
    bytes: u64,
    time: Duration,
}

impl RunSummary<'_> {
    fn run(&self) -> Run {
        let (before, after) = (&self.summary.before, &self.summary.status);
        let own = |status: &Status| match &status.machine {
            Some(own) => [own.pages, own.fetches, own.bytes],
            None => [status.pages, status.fetches, status.bytes],
        };
        let [pages, fetches, bytes] = own(after);
        let [pages_before, fetches_before, bytes_before] = own(before);
        let seconds = after.active_seconds - before.active_seconds;
        Run {
            pages: pages.saturating_sub(pages_before),
            fetches: fetches.saturating_sub(fetches_before),
            images: after.images.saturating_sub(before.images),
            sitemaps: after.sitemaps.saturating_sub(before.sitemaps),
            bytes: bytes.saturating_sub(bytes_before),
            time: Duration::from_secs_f64(seconds.max(0.0)),
        }
    }

    /// Whether there was nothing to do: no request was made, and the run was not stopped.
    fn is_idle(&self) -> bool {
        let run = self.run();
        let asked = run.fetches + run.images + run.sitemaps + run.bytes;
        let had_begun = self.summary.status.pages > 0;
        had_begun && asked == 0 && self.summary.end != End::Stopped
    }

    /// The time spent crawling in all runs.
    fn active(&self) -> Duration {
        Duration::from_secs_f64(self.summary.status.active_seconds.max(0.0))
    }

    /// The summary for people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        self.write(&mut out).ok();
        sanitize::shown(&out).into_owned()
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let summary = self.summary;
        let (run, counts) = (self.run(), &summary.status);
        let images = |n| things(n, "image");
        match (self.is_idle(), summary.before.fetches) {
            (true, _) => writeln!(out, "There was nothing to do: {}.", self.reason())?,
            _ if summary.is_shared => writeln!(
                out,
                "{} in {} by this machine; the hosts that it had at its end brought {} and {}, \
                 whichever machine fetched them.",
                things(run.pages, "page"),
                spoken(run.time),
                things(counts.pages, "page"),
                images(counts.images)
            )?,
            (false, 0) => writeln!(
                out,
                "{} and {} in {}.",
                things(run.pages, "page"),
                images(run.images),
                spoken(run.time)
            )?,
            (false, _) => writeln!(
                out,
                "{} and {} in {}; in all runs {} and {} in {}.",
                things(run.pages, "page"),
                images(run.images),
                spoken(run.time),
                things(counts.pages, "page"),
                images(counts.images),
                spoken(self.active())
            )?,
        }
        if counts.pages > 0 {
            if self.is_idle() {
                writeln!(
                    out,
                    "The runs before brought {} and {} in {}.",
                    things(counts.pages, "page"),
                    images(counts.images),
                    spoken(self.active())
                )?;
            }
            writeln!(out, "{}", summary.focus.sentence(self.topic))?;
        }
        if !self.is_idle() {
            writeln!(out, "It ended because {}.", self.reason())?;
        }
        // The next run would end in the same way.
        let raised = match summary.end {
            End::Limit(key @ ("limits.time" | "limits.bytes")) => Some(key),
            _ => None,
        };
        if let Some(left) = images_left(&summary.images_left, summary.finishes_images, raised) {
            writeln!(out, "{left}")?;
        }
        writeln!(out, "\nThe results are in {}", summary.folder.display())?;
        self.write_next(out)?;
        self.write_details(out)
    }

    /// Why the run ended, as the rest of a sentence.
    fn reason(&self) -> String {
        let summary = self.summary;
        let limits = &summary.limits;
        match (summary.end, summary.stop) {
            (End::Limit(key), _) => {
                let value = match key {
                    "limits.documents" => limits.documents.map(counted),
                    "limits.fetches" => limits.fetches.map(counted),
                    "limits.time" => limits.time.map(spoken),
                    "limits.bytes" => limits.bytes.map(|b| size(b.bytes())),
                    _ => None,
                };
                let value = value.map_or(String::new(), |value| format!(" ({value})"));
                if self.is_idle() {
                    format!("{key} was reached before{value}")
                } else {
                    format!("{key} is reached{value}")
                }
            }
            (End::Exhausted, _) => {
                let mut text = "nothing is left to fetch".to_owned();
                let waiting = summary.status.waiting;
                if summary.status.hosts.parked > 0 {
                    let hosts = things(summary.status.hosts.parked as u64, "host");
                    write!(text, " but pages on {hosts} that did not respond").ok();
                } else if waiting > 0 {
                    write!(text, " but {} that failed", things(waiting, "address")).ok();
                }
                text
            }
            (End::Stopped, Some(Stop::Interrupted)) => "of Ctrl-C".to_owned(),
            (End::Stopped, Some(Stop::Terminated)) => "of SIGTERM".to_owned(),
            (End::Stopped, Some(Stop::Told)) => "it was stopped over the control API".to_owned(),
            (End::Stopped, _) => "it was stopped".to_owned(),
        }
    }

    /// The commands that may follow.
    fn write_next(&self, out: &mut String) -> std::fmt::Result {
        let ended = self.summary.status.ended.iter();
        let next: Vec<_> = ended.flat_map(|ended| &ended.next).collect();
        let width = next.iter().map(|step| step.command.chars().count()).max();
        let width = width.unwrap_or_default();
        writeln!(out, "Next:")?;
        for NextStep { command, gives } in next {
            writeln!(out, "  {command:width$}  {gives}")?;
        }
        Ok(())
    }

    /// The figures, over all runs.
    fn write_details(&self, out: &mut String) -> std::fmt::Result {
        let summary = self.summary;
        writeln!(
            out,
            "\nDetails, of {}:",
            if summary.is_shared {
                "the hosts that it had at its end"
            } else {
                "all runs"
            }
        )?;
        let aside = images_aside(&summary.images);
        for (name, text) in details(&summary.status, &aside) {
            writeln!(out, "  {name:<9} {text}")?;
        }
        let parked = summary.status.hosts.parked;
        if parked > 0 {
            let hosts = things(parked as u64, "host");
            writeln!(out, "  parked    {hosts} that did not respond")?;
        }
        Ok(())
    }

    /// Why not a single page was fetched, if so.
    pub fn nothing(&self) -> Option<String> {
        let has_pages = self.summary.status.pages > 0 || self.summary.is_shared;
        if has_pages || self.summary.end == End::Stopped {
            return None;
        }
        let seeds = &self.summary.nothing;
        let mut text = "not a single page was fetched".to_owned();
        if !seeds.is_empty() {
            text.push_str("; of the seeds");
        }
        for Fruitless { url, why } in seeds.iter().take(NAMED) {
            write!(text, "\n  {url}: {why}").ok();
        }
        if seeds.len() > NAMED {
            write!(text, "\n  and {} more", seeds.len() - NAMED).ok();
        }
        write!(
            text,
            "\ncorrect [seeds] or what is named in {}, then run it again",
            self.job.display()
        )
        .ok();
        Some(sanitize::shown(&text).into_owned())
    }

    /// The summary for programs.
    pub fn json(&self, exit_code: u8) -> Value {
        let summary = self.summary;
        let run = self.run();
        let nothing = summary.nothing.iter();
        let nothing: Vec<Value> = nothing
            .map(|Fruitless { url, why }| json!({"url": url, "why": why}))
            .collect();
        let own = json!({
            "ended": match summary.end {
                End::Limit(key) => key,
                End::Exhausted => "exhausted",
                End::Stopped => "stopped",
            },
            "stopped_by": summary.stop.map(|stop| match stop {
                Stop::Interrupted => "SIGINT",
                Stop::Terminated => "SIGTERM",
                Stop::Told => "control",
                Stop::Hopeless => "error",
            }),
            "exit_code": exit_code,
            "nothing_to_do": self.is_idle(),
            "nothing_fetched": nothing,
            "this_run": {
                "pages": run.pages,
                "fetches": run.fetches,
                "images": run.images,
                "sitemaps": run.sitemaps,
                "bytes": run.bytes,
                "seconds": run.time.as_secs_f64(),
            },
            "images_queued": {
                "images": summary.images_left.images,
                "hosts": summary.images_left.hosts,
                "parked": summary.images_left.parked,
                "seconds": summary.images_left.millis.div_ceil(1_000),
            },
            "svgs_left_out": summary.images.svgs,
            "headline": summary.focus.headline(self.topic),
            "focused": summary.focus.focused,
            "control": summary.focus.control,
            "results": summary.folder,
        });
        // In addition to the final status as `spoor ctl status --json` prints it.
        let mut all = serde_json::to_value(&summary.status).unwrap_or_default();
        if let (Value::Object(all), Value::Object(own)) = (&mut all, own) {
            all.extend(own);
        }
        all
    }

    /// The same as the last line of a log in JSON.
    ///
    /// # Errors
    ///
    /// The value cannot be written.
    pub fn event(&self, exit_code: u8) -> Result<()> {
        let line = json!({
            "timestamp": timestamp(now()),
            "level": "INFO",
            "message": "ended",
            "target": "spoor::summary",
            "summary": self.json(exit_code),
        });
        println!("{}", sanitize::json(&serde_json::to_string(&line)?));
        Ok(())
    }
}

/// The counters of a crawl, each with its name; `aside` is a remark about the images.
pub fn details(status: &Status, aside: &str) -> Vec<(&'static str, String)> {
    let queued = &status.queued;
    let mut lines = vec![
        (
            "pages",
            format!(
                "{} done of {} fetches in {:.1} s",
                status.pages, status.fetches, status.active_seconds
            ),
        ),
        ("images", format!("{} kept{aside}", status.images)),
        ("received", format!("{:.1} MB", status.bytes as f64 / 1e6)),
        (
            "queued",
            format!(
                "seed {}, high {}, medium {}, normal {}, low {}, images {}, waiting {}",
                queued.seed,
                queued.high,
                queued.medium,
                queued.normal,
                queued.low,
                queued.images,
                status.waiting
            ),
        ),
    ];
    if status.sitemaps > 0 {
        lines.push(("sitemaps", format!("{} read", status.sitemaps)));
    }
    if status.watched > 0 {
        let text = format!("{} pages that are visited again", status.watched);
        lines.push(("watched", text));
    }
    for (name, counts) in [("dropped", &status.dropped), ("errors", &status.errors)] {
        if !counts.is_empty() {
            let counts = counts.iter().map(|(reason, n)| format!("{reason} {n}"));
            lines.push((name, counts.collect::<Vec<_>>().join(", ")));
        }
    }
    lines
}

/// Remarks about the images besides their number.
fn images_aside(images: &ImageLedger) -> String {
    let mut aside = String::new();
    let svgs = images.svgs;
    if svgs > 0 {
        write!(aside, "; {svgs} SVGs left out").ok();
    }
    aside
}

/// How many images are still to be fetched, how long that takes, and whether the next run
/// does it, or once which limit is `raised`; `None` if there are none.
fn images_left(left: &ImagesLeft, are_fetched: bool, raised: Option<&str>) -> Option<String> {
    if left.images == 0 {
        return None;
    }
    let images = things(left.images, "image");
    let be = if left.images == 1 { "is" } else { "are" };
    let mut text = format!(
        "{images} {be} still queued on {}",
        things(left.hosts, "host")
    );
    if left.images > left.parked {
        let time = spoken(Duration::from_millis(left.millis));
        let at_least = if left.millis < 1_000 { "" } else { "at least " };
        write!(text, ", {at_least}{time} at the present pauses").ok();
    }
    if left.parked > 0 {
        write!(
            text,
            " ({} on hosts that do not respond)",
            counted(left.parked)
        )
        .ok();
    }
    let sentence = match (raised, are_fetched) {
        (Some(key), _) => &format!(": raise {key}, and the next run fetches them"),
        (None, true) => {
            ": the next run fetches them; images.after_limit = false continues without them"
        }
        (None, false) => ": images.after_limit = true fetches them in the next run",
    };
    text.push_str(sentence);
    Some(text)
}

fn things(n: u64, what: &str) -> String {
    let plural = match (n, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {what}{plural}", counted(n))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
