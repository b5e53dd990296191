//! Constraints between keys.

use std::collections::HashSet;

use spoor_settings::messages::shown;
use spoor_settings::{Value, plain};

use super::errors::Findings;
use super::{Annotate, JobSettings, StoreKind, WatchedSeed};

/// Reports every pair of contradicting keys, at the one given last.
pub(super) fn cross_checks(config: &JobSettings, findings: &mut Findings) {
    let mut pairs = Pairs(findings);
    let b = &config.buckets;
    pairs.below("buckets.high", &b.high, "buckets.medium", &b.medium);
    pairs.below("buckets.medium", &b.medium, "buckets.normal", &b.normal);
    pairs.below("buckets.normal", &b.normal, "buckets.razor", &b.razor);
    let p = &config.politeness;
    pairs.at_most(
        "politeness.min_delay",
        &p.min_delay,
        "politeness.max_delay",
        &p.max_delay,
    );
    pairs.at_most(
        "politeness.back_off",
        &p.back_off,
        "politeness.max_back_off",
        &p.max_back_off,
    );
    let r = &config.recrawl;
    pairs.at_most("recrawl.min", &r.min, "recrawl.max", &r.max);
    if let Some(after) = &r.after {
        pairs.at_most("recrawl.min", &r.min, "recrawl.after", after);
        pairs.at_most("recrawl.after", after, "recrawl.max", &r.max);
    }
    let i = &config.images;
    pairs.at_most(
        "images.min_width",
        &i.min_width,
        "images.max_width",
        &i.max_width,
    );
    pairs.at_most(
        "images.min_height",
        &i.min_height,
        "images.max_height",
        &i.max_height,
    );
    pairs.at_most(
        "images.min_bytes",
        &i.min_bytes,
        "images.max_bytes",
        &i.max_bytes,
    );
    if let (Some(from), Some(to)) = (&config.rank.from, &config.rank.to) {
        pairs.at_most("rank.from", from, "rank.to", to);
    }
    pairs.not_empty("rank.formats", &config.rank.formats);
    pairs.cells(config);
    pairs.cluster(config);
    pairs.classes(&config.annotate);
    pairs.not_empty("scope.schemes", &config.scope.schemes);
    pairs.one_schedule_each(&config.seeds.watch);
    pairs.not_empty("scope.accept_types", &config.scope.accept_types);
}

struct Pairs<'a>(&'a mut Findings);

impl Pairs<'_> {
    fn below<T: Value>(&mut self, low_key: &str, low: &T, high_key: &str, high: &T) {
        if !T::order(low, high).is_lt() {
            self.report(
                (low_key, plain(low)),
                (high_key, plain(high)),
                "above",
                "below",
            );
        }
    }

    fn at_most<T: Value>(&mut self, low_key: &str, low: &T, high_key: &str, high: &T) {
        if T::order(low, high).is_gt() {
            self.report(
                (low_key, plain(low)),
                (high_key, plain(high)),
                "at least",
                "at most",
            );
        }
    }

    fn not_empty<T: Value>(&mut self, key: &str, list: &[T]) {
        if let (true, Some(span)) = (list.is_empty(), self.0.place(key)) {
            let message = format!("is an empty list; allowed: {}", Vec::<T>::form());
            self.0.wrong(span.clone(), key, message);
        }
    }

    /// Checks what several cells cannot do.
    fn cells(&mut self, config: &JobSettings) {
        const KEY: &str = "frontier.cells";
        let cells = config.frontier.cells;
        if cells == 1 || config.frontier.store == StoreKind::Fjall {
            return;
        }
        if let Some(span) = self.0.place(KEY).cloned() {
            let why = format!(
                "is {cells}; several cells need a store that gives back the space of one; set \
                 frontier.store = \"fjall\""
            );
            self.0.wrong(span, KEY, why);
        }
    }

    /// Checks what a machine of a cluster needs, and what it cannot do.
    fn cluster(&mut self, config: &JobSettings) {
        const KEY: &str = "cluster.brokers";
        if !config.cluster.is_there() {
            return;
        }
        let Some(span) = self.0.place(KEY).cloned() else {
            return;
        };
        let is_broken = self.0.is_broken("cluster.store");
        let mut wrong = |why: &str| self.0.wrong(span.clone(), KEY, why.to_owned());
        if config.frontier.store != StoreKind::Fjall {
            wrong(
                "makes this machine part of a cluster, which needs a store that gives back the \
                 space of hosts that another machine takes over; set frontier.store = \"fjall\"",
            );
        }
        if config.cluster.store.is_none() && !is_broken {
            wrong(
                "makes this machine part of a cluster, and there is no place for checkpoints; \
                 set cluster.store, as \"s3://BUCKET/PATH\"",
            );
        }
        if config.checkpoint.store.is_some() {
            wrong(
                "makes this machine part of a cluster, whose checkpoints go to cluster.store; \
                 leave checkpoint.store out",
            );
        }
        if config.frontier.cells != 1 {
            wrong(
                "makes this machine part of a cluster, which has cluster.cells; leave \
                 frontier.cells out",
            );
        }
    }

    fn classes(&mut self, annotate: &Annotate) {
        const KEY: &str = "annotate.classes";
        const OWN: &str = "annotate.on_topic";
        let classes = &annotate.classes;
        self.not_empty(KEY, classes);
        self.not_empty(OWN, &annotate.on_topic);
        let mut seen = HashSet::new();
        let twice = classes.iter().find(|class| !seen.insert(*class));
        if let (Some(class), Some(span)) = (twice, self.0.place(KEY)) {
            let message = format!("\"{class}\" is listed twice; allowed: each class once");
            self.0.wrong(span.clone(), KEY, message);
        } else if let (true, Some(span)) = (classes.len() > 9, self.0.place(KEY)) {
            let message = format!("has {} classes; allowed: at most 9", classes.len());
            self.0.wrong(span.clone(), KEY, message);
        }
        let other = annotate.on_topic.iter().find(|c| !classes.contains(c));
        let place = || self.0.place(OWN).or_else(|| self.0.place(KEY));
        if let (Some(class), Some(span)) = (other, place().cloned())
            && !self.0.is_broken(KEY)
            && !self.0.is_broken(OWN)
        {
            let message =
                format!("\"{class}\" is not among annotate.classes; add it, or leave it out");
            self.0.wrong(span, OWN, message);
        }
    }

    fn one_schedule_each(&mut self, watch: &[WatchedSeed]) {
        let mut seen = HashSet::new();
        let twice = watch.iter().find(|seed| !seen.insert(&seed.url));
        if let (Some(seed), Some(span)) = (twice, self.0.place("seeds.watch")) {
            let url = shown(seed.url.as_str());
            let message = format!("{url} has two schedules; allowed: one for each seed");
            self.0.wrong(span.clone(), "seeds.watch", message);
        }
    }

    /// Reports the problem at the key that comes later in the file, because that one
    /// contradicts what came before.
    fn report(&mut self, low: (&str, String), high: (&str, String), above: &str, below: &str) {
        if self.0.is_broken(low.0) || self.0.is_broken(high.0) {
            return;
        }
        let start = |key: &str| self.0.place(key).map(|span| span.start);
        let (own, other, relation) = if start(low.0) > start(high.0) {
            (low, high, below)
        } else {
            (high, low, above)
        };
        let Some(span) = self.0.place(own.0).cloned() else {
            return;
        };
        let origin = if self.0.place(other.0).is_none() {
            ", the default"
        } else {
            ""
        };
        let message = format!(
            "is {}; allowed: {relation} {} ({}{origin})",
            own.1, other.0, other.1
        );
        self.0.wrong(span, own.0, message);
    }
}
