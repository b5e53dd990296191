//! Several machines crawl one web together, as processes with real brokers, before a web that
//! notes every request: what all of them bring together is what one brings, each page once, and
//! no host is asked too soon, whatever dies.

use std::collections::{BTreeMap, BTreeSet};

use super::kill::{check_wire, plan};
use crate::support::broker::Brokers;
use crate::support::{Job, JobText, Live, Wire};

const SEEDS: &[&str] = &["http://hub.test/", "http://h00.test/"];

/// The machines of a cluster, each with a folder of its own.
struct Cluster {
    brokers: Brokers,
    store: tempfile::TempDir,
    wire: Wire,
    machines: Vec<Job>,
}

impl Cluster {
    fn new(brokers: Brokers, wire: Wire, machines: usize) -> Self {
        let mut cluster = Self {
            brokers,
            store: tempfile::tempdir().unwrap(),
            wire,
            machines: Vec::new(),
        };
        for number in 0..machines {
            let job = cluster.job(number);
            cluster.machines.push(job);
        }
        cluster
    }

    fn job(&self, number: usize) -> Job {
        let rest = format!(
            "[images]\nmin_width = 20\nmin_height = 20\n\
             [buckets]\nboundaries = \"fixed\"\n\
             high = 140\nmedium = 200\nnormal = 300\nrazor = 550\n\
             [consent]\ntdmrep = true\n\
             [frontier]\nstore = \"fjall\"\n\
             [cluster]\nbrokers = {}\nreplicas = {}\nnode = \"m{number}\"\n\
             store = \"file://{}\"\ncells = 16\nterm = \"5s\"\ncheckpoint = \"2s\"\n\
             linger = \"200ms\"\nsettle = \"1s\"\n",
            self.brokers.list(),
            self.brokers.count(),
            self.store.path().display(),
        );
        let text = JobText {
            seeds: SEEDS,
            politeness: &super::kill::job_text(),
            rest: &rest,
            ..JobText::default()
        };
        Job::new(&self.wire, &text)
    }

    fn start(&self, number: usize) -> Live {
        Live::start(&mut self.machines[number].crawl())
    }
}

/// What the logs of all machines say is done, with how often.
fn done(machines: &[Job], kind: &str) -> BTreeMap<String, usize> {
    let mut done = BTreeMap::new();
    for row in machines.iter().flat_map(Job::log) {
        if row["kind"] == kind && row["outcome"] == "done" {
            *done
                .entry(row["url"].as_str().unwrap().to_owned())
                .or_default() += 1;
        }
    }
    done
}

#[test]
fn two_machines_bring_what_one_does() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let whole = plan(20);
    let cluster = Cluster::new(brokers, Wire::serve(whole.lab), 2);
    let running = [cluster.start(0), cluster.start(1)];
    for live in running {
        let ran = live.ended();
        assert!(ran.status.success(), "{ran:#?}");
        assert!(ran.out.contains("nothing is left to fetch"), "{}", ran.out);
    }
    check_wire(&cluster.wire, &whole.forbidden, &[]);
    let pages = done(&cluster.machines, "page");
    let twice: Vec<_> = pages.iter().filter(|(_, n)| **n != 1).collect();
    assert!(twice.is_empty(), "done more than once: {twice:?}");
    assert_eq!(pages.into_keys().collect::<BTreeSet<_>>(), whole.pages);
    let images = done(&cluster.machines, "image");
    assert!(images.values().all(|n| *n == 1), "{images:?}");
    let planned: BTreeSet<String> = whole.images.keys().cloned().collect();
    assert_eq!(images.into_keys().collect::<BTreeSet<_>>(), planned);
    let mut documents = BTreeMap::new();
    for document in cluster.machines.iter().flat_map(Job::documents) {
        let before = documents.insert(document.url.clone(), document.text);
        assert!(before.is_none(), "{} has two documents", document.url);
    }
    assert_eq!(documents.into_keys().collect::<BTreeSet<_>>(), whole.pages);
    for job in &cluster.machines {
        assert!(!job.log().is_empty(), "a machine has had nothing to do");
    }
}
