//! Metrics of a crawl, in the Prometheus text format (0.0.4).
//!
//! The pipeline updates counters and histograms as things happen; they start at zero with
//! every run, as Prometheus expects of a process. [`Levels`] are read from the frontier at
//! each scrape. Names follow the Prometheus conventions: a prefix, base units, `_total`
//! for counters. No label holds a URL or a host, so the number of series does not grow
//! with the crawl.

use std::time::Duration;

use prometheus::{
    Encoder, Histogram, HistogramVec, IntCounter, IntCounterVec, Registry, TextEncoder,
    register_gauge_vec_with_registry, register_histogram_vec_with_registry,
    register_histogram_with_registry, register_int_counter_vec_with_registry,
    register_int_counter_with_registry,
};

/// Bucket bounds of the request histograms, in seconds.
const FETCH_SECONDS: [f64; 12] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// Bucket bounds of the histograms of local work, in seconds.
const WORK_SECONDS: [f64; 12] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5,
];

/// Bucket bounds of the waiting times of links to other machines, in seconds.
const LAG_SECONDS: [f64; 10] = [0.25, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 15.0, 60.0, 300.0];

/// The metrics could not be registered or encoded.
#[derive(Debug, thiserror::Error)]
#[error("metrics: {0}")]
pub struct MetricsError(#[from] prometheus::Error);

/// The metrics of one run. Cheap to clone; all clones share the same values.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    tasks: IntCounterVec,
    received: IntCounter,
    pages: IntCounterVec,
    parsed: IntCounterVec,
    rule_pages: IntCounterVec,
    rule_fields: IntCounterVec,
    rule_events: IntCounterVec,
    fetch: HistogramVec,
    extract: Histogram,
    score: Histogram,
    texts: IntCounter,
    texts_known: IntCounter,
    store: Histogram,
    cluster_link_lag: HistogramVec,
}

/// A task that is finished for now.
#[derive(Debug, Clone, Copy)]
pub struct FinishedTask<'a> {
    /// `page`, `image`, `robots`, `sitemap` or `tdmrep`.
    pub kind: &'a str,
    /// As in the log: `done`, `dropped` and so on.
    pub outcome: &'a str,
    /// Why it is not done; empty if it is.
    pub reason: &'a str,
    /// Bytes of the decoded body.
    pub bytes: u64,
    /// From sending the request to the last byte.
    pub elapsed: Duration,
}

/// The gauges at one moment.
#[derive(Debug, Clone, Default)]
pub struct Levels {
    /// URLs by state.
    pub urls: Vec<(&'static str, u64)>,
    /// Queued URLs by bucket, with images as a separate class.
    pub queued: Vec<(&'static str, u64)>,
    /// URLs that are not followed, by reason.
    pub dropped: Vec<(&'static str, u64)>,
    /// Hosts by state.
    pub hosts: Vec<(&'static str, u64)>,
    /// Leased tasks that are not finished.
    pub leased: u64,
    /// The current limit of leased tasks.
    pub most_leased: u64,
    /// Whether the crawl is paused.
    pub paused: bool,
    /// Share of pages on topic, 0 to 1, by how they were chosen; empty if there are none.
    pub on_topic: Vec<(&'static str, f64)>,
    /// The age of the checkpoint outside of the job's folder, and the bytes that this run has
    /// sent; `None` if there is none.
    pub checkpoint: Option<(Duration, u64)>,
    /// The place of the machine in its cluster; `None` without one.
    pub cluster: Option<ClusterLevels>,
    /// Memory that the process holds, in bytes; `None` if the system does not say.
    pub memory: Option<u64>,
}

/// The place of a machine in its cluster at one moment.
#[derive(Debug, Clone, Default)]
pub struct ClusterLevels {
    /// Its name.
    pub node: String,
    /// The number of its session.
    pub session: u64,
    /// How many parts of the hosts it has.
    pub cells: u64,
    /// Pages whose links to hosts of other machines are still to be sent.
    pub unsent: u64,
    /// The number of its last committed checkpoint.
    pub checkpoint: u64,
}

impl Metrics {
    /// Creates all metrics at zero.
    ///
    /// # Errors
    ///
    /// [`MetricsError`] if two metrics share a name, which a test rules out.
    pub fn new() -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let counters = |name: &str, labels: &[&str], help: &str| {
            register_int_counter_vec_with_registry!(name, help, labels, registry)
        };
        let counter =
            |name: &str, help: &str| register_int_counter_with_registry!(name, help, registry);
        let times = |name: &str, labels: &[&str], buckets: &[f64], help: &str| {
            register_histogram_vec_with_registry!(name, help, labels, buckets.to_vec(), registry)
        };
        let work = |stage: &str, help: &str| {
            let name = format!("spoor_{stage}_duration_seconds");
            register_histogram_with_registry!(name, help, WORK_SECONDS.to_vec(), registry)
        };
        Ok(Self {
            tasks: counters(
                "spoor_tasks_total",
                &["kind", "outcome", "reason"],
                "Tasks finished for now, by kind, outcome and reason.",
            )?,
            received: counter(
                "spoor_received_bytes_total",
                "Bytes of all bodies, decoded.",
            )?,
            pages: counters(
                "spoor_pages_by_language_total",
                &["language"],
                "Pages rated, by recognised language of their text.",
            )?,
            parsed: counters(
                "spoor_pages_parsed_total",
                &["fallback"],
                "Pages rated, by the reason for which they were parsed into a tree; \
                 none if they were read in one pass.",
            )?,
            rule_pages: counters(
                "spoor_rule_pages_total",
                &["matched"],
                "Pages that rules are for, by whether one matched.",
            )?,
            rule_fields: counters(
                "spoor_rule_fields_total",
                &["filled"],
                "Required fields of the rules that matched, by whether they have a value.",
            )?,
            rule_events: counters(
                "spoor_rule_events_total",
                &["change", "against"],
                "Changes of sites that rules are for, by kind, and by whether they were seen \
                 against the pages or the weeks before.",
            )?,
            fetch: times(
                "spoor_fetch_duration_seconds",
                &["kind"],
                &FETCH_SECONDS,
                "From sending a request to the last byte of its response.",
            )?,
            extract: work("extract", "Decoding and parsing a page.")?,
            score: work("score", "Rating a page, its links and its images.")?,
            texts: counter(
                "spoor_rated_texts_total",
                "Anchors and other short texts to rate.",
            )?,
            texts_known: counter(
                "spoor_rated_texts_known_total",
                "Short texts that had been rated before, on any page.",
            )?,
            store: work("store", "Writing a finished task and committing it.")?,
            // A family without labels, so that it is absent if a single machine crawls.
            cluster_link_lag: times(
                "spoor_cluster_link_lag_seconds",
                &[],
                &LAG_SECONDS,
                "From finding a link to a host of another machine until the brokers have it; \
                 of each message, its oldest link.",
            )?,
            registry,
        })
    }

    /// Counts a finished task.
    pub fn finished(&self, task: FinishedTask<'_>) {
        let labels = [task.kind, task.outcome, task.reason];
        self.tasks.with_label_values(&labels).inc();
        self.received.inc_by(task.bytes);
        let fetch = self.fetch.with_label_values(&[task.kind]);
        fetch.observe(task.elapsed.as_secs_f64());
    }

    /// Counts a rated page by the language code of its text; `None` if that is not
    /// certain.
    pub fn page_in(&self, language: Option<&'static str>) {
        let label = language.unwrap_or("unknown");
        self.pages.with_label_values(&[label]).inc();
    }

    /// Counts a parsed page by the reason why it was not read in one pass; `None` if it was.
    pub fn parsed(&self, fallback: Option<&'static str>) {
        let label = fallback.unwrap_or("none");
        self.parsed.with_label_values(&[label]).inc();
    }

    /// Counts a page that rules cover, with its required fields and those that have a value.
    pub fn ruled(&self, is_matched: bool, required: u64, filled: u64) {
        let label = if is_matched { "yes" } else { "no" };
        self.rule_pages.with_label_values(&[label]).inc();
        let fields = &self.rule_fields;
        fields.with_label_values(&["yes"]).inc_by(filled);
        let empty = required.saturating_sub(filled);
        fields.with_label_values(&["no"]).inc_by(empty);
    }

    /// Counts a change of a site that rules cover, against its earlier pages or weeks.
    pub fn rule_event(&self, change: &str, against: &str) {
        let labels = [change, against];
        self.rule_events.with_label_values(&labels).inc();
    }

    /// Times the decoding and parsing of a page.
    pub fn extract<T>(&self, work: impl FnOnce() -> T) -> T {
        self.extract.observe_closure_duration(work)
    }

    /// Times the rating of a page.
    pub fn score<T>(&self, work: impl FnOnce() -> T) -> T {
        self.score.observe_closure_duration(work)
    }

    /// Counts short texts to rate, and how many of them had been rated before.
    pub fn rated(&self, (texts, known): (u64, u64)) {
        self.texts.inc_by(texts);
        self.texts_known.inc_by(known);
    }

    /// Times the writing and committing of a task.
    pub fn store<T>(&self, work: impl FnOnce() -> T) -> T {
        self.store.observe_closure_duration(work)
    }

    /// Counts a message with links to another machine that the brokers have stored, and how long
    /// its oldest link waited.
    pub fn links_are_sent(&self, lag: Duration) {
        let none: &[&str] = &[];
        let of = self.cluster_link_lag.with_label_values(none);
        of.observe(lag.as_secs_f64());
    }

    /// Renders everything as text, with `levels` as the current gauges.
    ///
    /// # Errors
    ///
    /// [`MetricsError`] if the values cannot be encoded.
    pub fn render(&self, levels: &Levels) -> Result<String, MetricsError> {
        let mut families = self.registry.gather();
        families.extend(levels.registry()?.gather());
        let mut text = Vec::new();
        TextEncoder::new().encode(&families, &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Levels {
    /// The gauges. Those without a value are absent.
    fn registry(&self) -> Result<Registry, prometheus::Error> {
        let registry = Registry::new();
        let family = |name: &str, labels: &[&str], help: &str, all: &[(&[&str], f64)]| {
            let family = register_gauge_vec_with_registry!(name, help, labels, registry)?;
            for (values, level) in all {
                family.with_label_values(values).set(*level);
            }
            Ok::<_, prometheus::Error>(())
        };
        let by = |label: &str, name: &str, help: &str, all: &[(&str, u64)]| {
            let all = all.iter().map(|(value, level)| ([*value], *level as f64));
            let all = Vec::from_iter(all);
            let all = all.iter().map(|(value, level)| (value.as_slice(), *level));
            family(name, &[label], help, &Vec::from_iter(all))
        };
        let one = |name: &str, level: f64, help: &str| family(name, &[], help, &[(&[], level)]);
        let version = env!("CARGO_PKG_VERSION");
        family(
            "spoor_build_info",
            &["version"],
            "1, with the version as a label.",
            &[(&[version], 1.0)],
        )?;
        by("state", "spoor_urls", "Known URLs, by state.", &self.urls)?;
        by(
            "bucket",
            "spoor_queued_urls",
            "URLs in a queue, by bucket.",
            &self.queued,
        )?;
        by(
            "reason",
            "spoor_dropped_urls",
            "URLs that are not followed, by reason.",
            &self.dropped,
        )?;
        by(
            "state",
            "spoor_hosts",
            "Hosts with queued URLs.",
            &self.hosts,
        )?;
        one(
            "spoor_leased_tasks",
            self.leased as f64,
            "Leased tasks, including requests in flight.",
        )?;
        one(
            "spoor_leased_tasks_limit",
            self.most_leased as f64,
            "As many are given out at the same time: network.concurrency, or fewer where \
             these keep the machine busy.",
        )?;
        one(
            "spoor_paused",
            f64::from(u8::from(self.paused)),
            "1 while the crawl is paused, else 0.",
        )?;
        let shares = self
            .on_topic
            .iter()
            .map(|(chosen, share)| ([*chosen], *share));
        let shares = Vec::from_iter(shares);
        let shares = shares
            .iter()
            .map(|(chosen, share)| (chosen.as_slice(), *share));
        family(
            "spoor_on_topic_ratio",
            &["chosen"],
            "Share of pages that are on topic, by how they were chosen.",
            &Vec::from_iter(shares),
        )?;
        if let Some(bytes) = self.memory {
            one(
                "process_resident_memory_bytes",
                bytes as f64,
                "Memory that the process holds.",
            )?;
        }
        if let Some((age, sent)) = self.checkpoint {
            one(
                "spoor_checkpoint_age_seconds",
                age.as_secs_f64(),
                "Age of the last checkpoint in checkpoint.store, or of the run before the first.",
            )?;
            one(
                "spoor_checkpoint_sent_bytes",
                sent as f64,
                "Bytes that this run has sent to checkpoint.store.",
            )?;
        }
        if let Some(cluster) = &self.cluster {
            // The name is a label of one family, to be joined with the others: all of them
            // have the target's `instance` already.
            family(
                "spoor_cluster_info",
                &["node", "session"],
                "1, with the name of the machine and the number of its session as labels.",
                &[(&[&cluster.node, &cluster.session.to_string()], 1.0)],
            )?;
            one(
                "spoor_cluster_cells",
                cluster.cells as f64,
                "Parts of the hosts that this machine has.",
            )?;
            one(
                "spoor_cluster_unsent_pages",
                cluster.unsent as f64,
                "Pages whose links to hosts of other machines are still to be sent.",
            )?;
            one(
                "spoor_cluster_checkpoint",
                cluster.checkpoint as f64,
                "Number of the last checkpoint that is committed.",
            )?;
        }
        Ok(registry)
    }
}

/// The media type of [`Metrics::render`]'s text.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_in_the_text() {
        let metrics = Metrics::new().unwrap();
        let task = FinishedTask {
            kind: "page",
            outcome: "dropped",
            reason: "robots",
            bytes: 1_234,
            elapsed: Duration::from_millis(20),
        };
        metrics.finished(task);
        metrics.clone().finished(task);
        metrics.page_in(Some("de"));
        metrics.page_in(None);
        assert_eq!(metrics.extract(|| 7), 7);
        metrics.rated((5, 3));
        let text = metrics
            .render(&Levels {
                queued: vec![("high", 3), ("low", 0)],
                paused: true,
                most_leased: 12,
                on_topic: vec![("focused", 0.25)],
                ..Levels::default()
            })
            .unwrap();
        for line in [
            "spoor_tasks_total{kind=\"page\",outcome=\"dropped\",reason=\"robots\"} 2",
            "spoor_received_bytes_total 2468",
            "spoor_pages_by_language_total{language=\"de\"} 1",
            "spoor_pages_by_language_total{language=\"unknown\"} 1",
            "spoor_fetch_duration_seconds_bucket{kind=\"page\",le=\"0.01\"} 0",
            "spoor_fetch_duration_seconds_bucket{kind=\"page\",le=\"0.025\"} 2",
            "spoor_extract_duration_seconds_count 1",
            "spoor_rated_texts_total 5",
            "spoor_rated_texts_known_total 3",
            "spoor_queued_urls{bucket=\"high\"} 3",
            "spoor_queued_urls{bucket=\"low\"} 0",
            "spoor_paused 1",
            "spoor_leased_tasks_limit 12",
            "spoor_on_topic_ratio{chosen=\"focused\"} 0.25",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in {text}");
        }
        let empty = metrics.render(&Levels::default()).unwrap();
        assert!(empty.contains("spoor_paused 0"));
        assert!(!empty.contains("spoor_cluster"), "{empty}");
        let cluster = ClusterLevels {
            node: "m0".to_owned(),
            session: 2,
            cells: 16,
            unsent: 3,
            checkpoint: 7,
        };
        let levels = Levels {
            cluster: Some(cluster),
            ..Levels::default()
        };
        metrics.links_are_sent(Duration::from_millis(5_200));
        let text = metrics.render(&levels).unwrap();
        for line in [
            "spoor_cluster_link_lag_seconds_bucket{le=\"5\"} 0",
            "spoor_cluster_link_lag_seconds_bucket{le=\"7.5\"} 1",
            "spoor_cluster_info{node=\"m0\",session=\"2\"} 1",
            "spoor_cluster_cells 16",
            "spoor_cluster_unsent_pages 3",
            "spoor_cluster_checkpoint 7",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in {text}");
        }
    }
}
