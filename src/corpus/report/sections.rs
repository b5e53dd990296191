//! The report in sections: figures as tables of text, and plots.
//!
//! Both pages are generated from these. Strings from the web are passed through unchanged;
//! the writer of a page escapes them.

use super::plot::{Plot, PlotLine, Scale};
use super::text::{ModelUse, Packet, Perplexity};
use super::{Figures, Report};
use crate::crawl::figures::{Counted, OutcomeFigures, Series, count};

/// A heading with its content.
#[derive(Debug, Default)]
pub(super) struct ReportSection {
    /// The heading.
    pub title: &'static str,
    /// Paragraphs.
    pub text: Vec<String>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Plots.
    pub figures: Vec<Figure>,
}

/// A table; the first column is text, the others are figures.
#[derive(Debug)]
pub(crate) struct Table {
    /// The names of the columns.
    pub head: Vec<String>,
    /// The rows, each as long as the head.
    pub rows: Vec<Vec<String>>,
}

/// A plot.
#[derive(Debug)]
pub(super) struct Figure {
    /// Name of its file.
    pub file: String,
    /// What it shows.
    pub caption: String,
    /// The drawing.
    pub svg: String,
}

/// All sections that have content.
pub(super) fn of(report: &Report) -> Vec<ReportSection> {
    let jobs = &report.jobs;
    let all = [
        overview(jobs),
        perplexity(jobs),
        images(jobs),
        buckets(jobs),
        politeness(jobs),
        errors(jobs),
        hosts(jobs),
        ruled(jobs),
        names(jobs, "Encodings", "encoding", |j| &j.log.encodings),
        names(jobs, "MIME types", "type", |j| &j.log.media),
        names(jobs, "Languages", "declared", |j| &j.log.languages),
        troubles(jobs),
    ];
    let says =
        |s: &ReportSection| !(s.text.is_empty() && s.tables.is_empty() && s.figures.is_empty());
    all.into_iter().filter(says).collect()
}

/// A row of a table: its name and a cell for each job.
fn row(
    jobs: &[Figures],
    name: impl Into<String>,
    cell: impl Fn(&Figures) -> String,
) -> Vec<String> {
    let name = std::iter::once(name.into());
    name.chain(jobs.iter().map(cell)).collect()
}

fn head(jobs: &[Figures], name: &str) -> Vec<String> {
    row(jobs, name, |job| job.name.clone())
}

/// Table 5.1 of Werner 2015.
fn overview(jobs: &[Figures]) -> ReportSection {
    let rate = |of: f64, job: &Figures| match job.log.totals.page_time as f64 / 1e3 {
        s if s > 0.0 => decimal(of / s),
        _ => "-".to_owned(),
    };
    let time = |ms: Option<u64>| match ms.and_then(|ms| i64::try_from(ms).ok()) {
        Some(ms) => jiff::Timestamp::from_millisecond(ms)
            .map_or_else(|_| "-".to_owned(), |t| t.strftime("%F %T").to_string()),
        None => "-".to_owned(),
    };
    let rows = vec![
        row(jobs, "Strategy", |j| j.strategy.to_owned()),
        row(jobs, "Sentences", |j| count(j.sentences)),
        row(jobs, "Tokens", |j| count(j.tokens)),
        row(jobs, "Hosts", |j| count(j.log.hosts)),
        row(jobs, "Pages", |j| count(j.log.totals.pages)),
        row(jobs, "Volume (MB)", |j| {
            decimal(j.log.totals.page_bytes as f64 / 1e6)
        }),
        row(jobs, "Pages/s", |j| rate(j.log.totals.pages as f64, j)),
        row(jobs, "KB/s", |j| {
            rate(j.log.totals.page_bytes as f64 / 1e3, j)
        }),
        row(jobs, "Images", |j| count(j.log.totals.images)),
        row(jobs, "Perplexity", |j| {
            let of = j.perplexity.as_ref().map(|p| decimal(p.all));
            of.unwrap_or_else(|| "-".to_owned())
        }),
        row(jobs, "Begun (UTC)", |j| time(j.log.totals.begun)),
        row(jobs, "Time", |j| duration(j.seconds())),
        row(jobs, "Longest pause", |j| {
            duration(j.log.totals.longest_pause as f64 / 1e3)
        }),
    ];
    let mut text = vec![
        "Pages are those that were fetched and kept, hosts those that gave one, and the volume \
         is that of their decoded bodies (1 KB is 1,000 bytes). Time runs from the first \
         request to the end of the last. Pages/s and KB/s leave out what came after the last \
         page, and pauses of more than a minute."
            .to_owned(),
    ];
    for job in jobs.iter().filter(|j| j.log.totals.rows == 0) {
        text.push(format!(
            "{}: nothing was crawled yet, the log is empty.",
            job.name
        ));
    }
    ReportSection {
        title: "The crawl in figures",
        text,
        tables: vec![Table {
            head: head(jobs, ""),
            rows,
        }],
        figures: Vec::new(),
    }
}

/// Figure 5.1 of Werner 2015.
fn perplexity(jobs: &[Figures]) -> ReportSection {
    let of = |job: &Figures| job.perplexity.clone();
    let judged: Vec<(&Figures, Perplexity)> =
        jobs.iter().filter_map(|j| Some((j, of(j)?))).collect();
    let mut section = ReportSection {
        title: "Perplexity over sentences",
        ..ReportSection::default()
    };
    if judged.is_empty() {
        let words = "No perplexities: there are no sentences, or there is no model.";
        section.text.push(words.to_owned());
        return section;
    }
    for (job, perplexity) in &judged {
        let had = match perplexity.model_use {
            ModelUse::Steered => {
                "the very model that chose which links were followed first: it flatters this crawl"
            }
            ModelUse::Rated => {
                "the job's own model, which chose nothing, as the crawl was unfocused"
            }
            ModelUse::HeldOut => "a held-out model, of another corpus than the job's own",
            ModelUse::Other => "another model; what the job's own was made of cannot be read",
        };
        let model = perplexity.model.file_name().unwrap_or_default();
        section.text.push(format!(
            "{}: packets of {} sentences, by the model {}, {had}.",
            job.name,
            count(perplexity.packet),
            model.to_string_lossy()
        ));
    }
    if judged
        .iter()
        .any(|(_, p)| Some(&p.model) != judged.first().map(|(_, p)| &p.model))
    {
        section.text.push(
            "The jobs were rated by different models, so their perplexities cannot be compared; \
             --model FOLDER rates all by one."
                .to_owned(),
        );
    }
    let lines = judged.iter().map(|(job, perplexity)| PlotLine {
        name: job.name.clone(),
        points: thinned(&perplexity.packets),
    });
    let plot = Plot {
        x: "sentences crawled".to_owned(),
        y: "perplexity of the packet".to_owned(),
        scale: Scale::Logarithmic,
        lines: lines.collect(),
    };
    let caption = "Perplexity of each packet of sentences, in the order they were crawled; both \
                   axes are logarithmic, and lower is closer to the topic (as figure 5.1 of Werner's thesis of 2015). Towards the \
                   right, where packets crowd, neighbours are drawn as one.";
    section.draw("perplexity.svg", caption.to_owned(), &plot);
    section
}

/// The packets as points for a logarithmic axis, merged so that each point is at least 8 %
/// further on than the previous one.
fn thinned(packets: &[Packet]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let (mut logs, mut tokens) = (0.0, 0.0);
    for (n, packet) in (1..).zip(packets) {
        let weight = packet.tokens as f64;
        logs += packet.perplexity.ln() * weight;
        tokens += weight;
        let at = packet.sentences as f64;
        let far = points.last().is_none_or(|(last, _)| at >= last * 1.08);
        if (far || n == packets.len()) && tokens > 0.0 {
            points.push((at, (logs / tokens).exp().max(1.0)));
            (logs, tokens) = (0.0, 0.0);
        }
    }
    points
}

/// Figures 5.2 and 5.5 of Werner 2015.
fn images(jobs: &[Figures]) -> ReportSection {
    let mut section = ReportSection {
        title: "Images over time",
        ..ReportSection::default()
    };
    let series = |pairs: Vec<(String, &Series)>| {
        let end = pairs
            .iter()
            .filter_map(|(_, s)| Some(s.points.last()?.0))
            .max();
        let (unit, ms) = match end.unwrap_or_default() {
            ms if ms > 4 * 86_400_000 => ("days", 86_400_000.0),
            ms if ms > 4 * 3_600_000 => ("hours", 3_600_000.0),
            ms if ms > 4 * 60_000 => ("minutes", 60_000.0),
            _ => ("seconds", 1000.0),
        };
        let line = |(name, series): (String, &Series)| PlotLine {
            name,
            points: series
                .points
                .iter()
                .map(|(at, n)| (*at as f64 / ms, *n as f64))
                .collect(),
        };
        Plot {
            x: format!("time since the first request ({unit})"),
            y: "images so far".to_owned(),
            scale: Scale::Linear,
            lines: pairs.into_iter().map(line).collect(),
        }
    };
    let kept = jobs.iter().filter(|j| j.log.totals.images > 0);
    let kept = series(
        kept.map(|j| (j.name.clone(), &j.log.images_over_time))
            .collect(),
    );
    let caption = "Images that were kept, over time (as figure 5.2 of Werner's thesis of 2015).";
    section.draw("images.svg", caption.to_owned(), &kept);
    for (n, job) in (1..).zip(jobs) {
        let classes = job.log.classes_over_time.iter();
        let classes = series(classes.map(|(c, s)| (c.clone(), s)).collect());
        let name = &job.name;
        let caption = format!(
            "{name}: images that people judged, by the class most of them chose, over the time \
             at which they were kept (as figure 5.5 of Werner's thesis of 2015)."
        );
        section.draw(&format!("classes-{n}.svg"), caption, &classes);
    }
    section
}

impl ReportSection {
    fn draw(&mut self, file: &str, caption: String, plot: &Plot) {
        self.figures.extend(plot.svg().map(|svg| Figure {
            file: file.to_owned(),
            caption,
            svg,
        }));
    }
}

fn buckets(jobs: &[Figures]) -> ReportSection {
    let find =
        |job: &Figures, name: &str| job.log.buckets.iter().find(|b| b.bucket == name).cloned();
    let mut rows = Vec::new();
    for bucket in crate::page::Bucket::ALL {
        let name = bucket.name();
        if !jobs.iter().any(|j| find(j, name).is_some()) {
            continue;
        }
        rows.push(row(jobs, name, |job| match find(job, name) {
            None => "0".to_owned(),
            Some(found) => {
                let mean = found.perplexity.map(decimal);
                let mean = mean
                    .map(|m| format!(" (perplexity {m})"))
                    .unwrap_or_default();
                format!("{}{mean}", count(found.pages))
            }
        }));
    }
    let words = "Pages that were kept, by the bucket of the queue that they were taken from; the \
                 perplexity is the geometric mean of theirs as the crawl rated them.";
    table("Buckets", words, head(jobs, "bucket"), rows)
}

fn politeness(jobs: &[Figures]) -> ReportSection {
    let of = |job: &Figures| job.log.politeness.clone();
    if jobs.iter().all(|j| of(j).measured == 0) {
        return ReportSection::default();
    }
    let rows = vec![
        row(jobs, "Pauses measured", |j| count(of(j).measured)),
        row(jobs, "Shorter than due", |j| count(of(j).violations)),
        row(
            jobs,
            "Shortest, as a share of what was due",
            |j| match of(j).least {
                Some((least, _)) => format!("{least:.2}"),
                None => "-".to_owned(),
            },
        ),
        row(jobs, "Host of the shortest", |j| {
            of(j).least.map_or_else(|| "-".to_owned(), |(_, host)| host)
        }),
    ];
    let words = "Pauses between two requests to a host, from the end of the first to the \
                 beginning of the next, against the delay that was due (the greatest of min_delay, the host's \
                 Crawl-delay and delay_factor times its last answer). Retry-After and back-offs \
                 come on top.";
    table("Politeness", words, head(jobs, ""), rows)
}

fn errors(jobs: &[Figures]) -> ReportSection {
    let mut names: Vec<(String, Option<String>)> = Vec::new();
    for ending in jobs.iter().flat_map(|j| &j.log.endings) {
        let name = (ending.outcome.clone(), ending.reason.clone());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let rows = names.iter().map(|(outcome, reason)| {
        let name = match reason {
            Some(reason) => format!("{outcome}: {reason}"),
            None => outcome.clone(),
        };
        row(jobs, name, |job| {
            let same = |e: &&OutcomeFigures| e.outcome == *outcome && e.reason == *reason;
            count(job.log.endings.iter().find(same).map_or(0, |e| e.count))
        })
    });
    let words = "How the requests ended, robots.txt, sitemaps and images included.";
    let mut section = table(
        "Outcomes and errors",
        words,
        head(jobs, "outcome"),
        rows.collect(),
    );
    let mut statuses: Vec<u16> = jobs
        .iter()
        .flat_map(|j| &j.log.statuses)
        .map(|s| s.0)
        .collect();
    statuses.sort_unstable();
    statuses.dedup();
    let rows = statuses.iter().map(|status| {
        row(jobs, status.to_string(), |job| {
            let same = job.log.statuses.iter().find(|s| s.0 == *status);
            count(same.map_or(0, |s| s.1))
        })
    });
    section.add(head(jobs, "HTTP status"), rows.collect());
    let mut kinds: Vec<&str> = Vec::new();
    for kind in jobs.iter().flat_map(|j| &j.log.kinds) {
        if !kinds.contains(&kind.kind) {
            kinds.push(kind.kind);
        }
    }
    let rows = kinds.iter().map(|kind| {
        row(jobs, *kind, |job| {
            match job.log.kinds.iter().find(|k| k.kind == *kind) {
                Some(of) => format!(
                    "{} ({} got, {} MB, {} ms each)",
                    count(of.requests),
                    count(of.done),
                    decimal(of.bytes as f64 / 1e6),
                    of.ms / of.requests.max(1)
                ),
                None => "0".to_owned(),
            }
        })
    });
    section.add(head(jobs, "requests of kind"), rows.collect());
    section
}

fn hosts(jobs: &[Figures]) -> ReportSection {
    if let [job] = jobs {
        let names = [
            "host",
            "pages",
            "on topic",
            "images",
            "requests",
            "MB",
            "perplexity",
        ];
        let rows = job.log.top_hosts.iter().map(|host| {
            vec![
                host.host.clone(),
                count(host.pages),
                match host.pages {
                    0 => "-".to_owned(),
                    n => format!("{:.0} %", 100.0 * host.on_topic as f64 / n as f64),
                },
                count(host.images),
                count(host.requests),
                decimal(host.bytes as f64 / 1e6),
                host.perplexity.map_or_else(|| "-".to_owned(), decimal),
            ]
        });
        let words = "The hosts with most pages; perplexities are geometric means over their pages, \
                     as the crawl rated them.";
        let head = names.map(str::to_owned).to_vec();
        return table("Top hosts", words, head, rows.collect());
    }
    let tops = jobs.iter().map(|job| Counted {
        top: job
            .log
            .top_hosts
            .iter()
            .map(|h| (h.host.clone(), h.pages))
            .collect(),
        others: 0,
    });
    let rows = side_by_side(&tops.collect::<Vec<_>>(), "-");
    let words = "Pages of the hosts with most; a dash means that it is not among a job's 20 best.";
    table("Top hosts", words, head(jobs, "host"), rows)
}

/// Hosts whose weeks are shown.
const RULED_BY_WEEK: usize = 10;

/// The rules at work.
fn ruled(jobs: &[Figures]) -> ReportSection {
    let several = jobs.len() > 1;
    let share = |n: u64, of: u64| match of {
        0 => "-".to_owned(),
        of => format!("{:.0} % of {}", 100.0 * n as f64 / of as f64, count(of)),
    };
    let rows = jobs.iter().flat_map(|job| {
        job.log.ruled.iter().map(move |host| {
            let name = &host.host;
            let totals = &host.totals;
            vec![
                if several {
                    format!("{}: {name}", job.name)
                } else {
                    name.clone()
                },
                share(totals.matched, totals.pages),
                share(totals.filled, totals.required),
                count(totals.refused),
                if host.fallen.is_empty() {
                    "-".to_owned()
                } else {
                    host.fallen.join(", ")
                },
            ]
        })
    });
    let words = "Hosts that rules are for: the share of their pages that a rule matched, the share \
                 of its required fields that have a value, requests that were refused, and what \
                 has fallen below what it was and not risen again.";
    let names = [
        "host",
        "pages matched",
        "fields filled",
        "refused",
        "fallen",
    ];
    let head = names.map(str::to_owned).to_vec();
    let mut section = table("Rules", words, head, rows.collect());
    let events = jobs.iter().flat_map(|job| {
        let events = job.log.rule_events.iter().rev();
        events.map(|event| vec![event.time.clone(), event.to_string()])
    });
    let head = ["seen", "change"].map(str::to_owned).to_vec();
    section.add(head, events.collect());
    let weeks = jobs.iter().flat_map(|job| {
        let hosts = job.log.ruled.iter().take(RULED_BY_WEEK);
        hosts.flat_map(move |host| {
            let name = if several {
                format!("{}: {}", job.name, host.host)
            } else {
                host.host.clone()
            };
            host.weeks.iter().rev().map(move |week| {
                let rules = week.rules.iter().map(|rule| {
                    let filled = share(rule.filled, rule.required);
                    format!("{} on {} ({filled})", rule.rule, count(rule.pages))
                });
                let rules: Vec<String> = rules.collect();
                vec![
                    name.clone(),
                    week.week.to_string(),
                    share(week.totals.matched, week.totals.pages),
                    share(week.totals.filled, week.totals.required),
                    count(week.totals.refused),
                    rules.join("; "),
                ]
            })
        })
    });
    let names = [
        "host",
        "week of",
        "pages matched",
        "fields filled",
        "refused",
        "rules, their pages and filled fields",
    ];
    section.add(names.map(str::to_owned).to_vec(), weeks.collect());
    section
}

fn names(
    jobs: &[Figures],
    title: &'static str,
    name: &str,
    of: impl Fn(&Figures) -> &Counted,
) -> ReportSection {
    let counted: Vec<Counted> = jobs.iter().map(|j| of(j).clone()).collect();
    let mut rows = side_by_side(&counted, "0");
    if counted.iter().any(|c| c.others > 0) {
        rows.push(row(jobs, "others", |job| count(of(job).others)));
    }
    let words = match title {
        "MIME types" => "Of all responses with a body, as declared by their servers.",
        _ => "Of the pages that were kept.",
    };
    table(title, words, head(jobs, name), rows)
}

/// The 20 most frequent names in all jobs together, and their number in each job.
fn side_by_side(jobs: &[Counted], absent: &str) -> Vec<Vec<String>> {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for (name, n) in jobs.iter().flat_map(|job| &job.top) {
        match sums.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += n,
            None => sums.push((name, *n)),
        }
    }
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    sums.truncate(20);
    let rows = sums.iter().map(|(name, _)| {
        let cells = jobs.iter().map(|job| {
            let found = job.top.iter().find(|(known, _)| known == name);
            found.map_or_else(|| absent.to_owned(), |(_, n)| count(*n))
        });
        std::iter::once((*name).to_owned()).chain(cells).collect()
    });
    rows.collect()
}

fn troubles(jobs: &[Figures]) -> ReportSection {
    let mut text = Vec::new();
    for job in jobs {
        let named = job.troubles.named.iter();
        text.extend(named.map(|trouble| format!("{}: {trouble}", job.name)));
        if job.troubles.more > 0 {
            text.push(format!(
                "{}: and {} more.",
                job.name,
                count(job.troubles.more)
            ));
        }
    }
    ReportSection {
        title: "What could not be read",
        text,
        ..ReportSection::default()
    }
}

/// A section with one table; empty if the table has no rows.
fn table(
    title: &'static str,
    words: &str,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
) -> ReportSection {
    let mut section = ReportSection::default();
    if !rows.is_empty() {
        section.title = title;
        section.text.push(words.to_owned());
    }
    section.add(head, rows);
    section
}

impl ReportSection {
    fn add(&mut self, head: Vec<String>, rows: Vec<Vec<String>>) {
        if !rows.is_empty() {
            self.tables.push(Table { head, rows });
        }
    }
}

/// A number with a suitable number of digits.
pub(super) fn decimal(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".to_owned(),
        v if v >= 100.0 => count(v.round() as u64),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A time in days, hours, minutes and seconds.
pub(super) fn duration(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let s = seconds as u64;
    let clock = format!("{}:{:02}:{:02}", s / 3600 % 24, s / 60 % 60, s % 60);
    match s / 86_400 {
        0 => clock,
        days => format!("{days} d {clock}"),
    }
}

/// The figures printed on a terminal.
pub(super) fn summary(report: &Report) -> Vec<Table> {
    overview(&report.jobs).tables
}
