//! A web on this machine for the tests of the loop and of the crawl.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::runtime::Runtime;

use super::*;
use crate::clock::now;
use crate::config::Config;
use crate::fetch::{Fetcher, Options};
use crate::frontier::store::SledStore;
use crate::frontier::{Cells, Policy};
use crate::outputs::{Outputs, Row};
use crate::settings::{ConnectTo, HostPattern};
use crate::web::scope::Scope;
use spoor_lab::{Behaviour, Lab, MemoryTree, Running, spawn};

/// A web on this machine, and a job's folder.
pub(super) struct Web {
    pub runtime: Runtime,
    lab: Running,
    pub folder: tempfile::TempDir,
}

impl Web {
    pub fn new(tree: MemoryTree, behaviours: Vec<Behaviour>) -> Self {
        let runtime = Runtime::new().unwrap();
        let mut lab = Lab::from_memory(tree);
        for behaviour in behaviours {
            lab = lab.with_behaviour(behaviour);
        }
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let lab = runtime.block_on(spawn(lab, any)).unwrap();
        Self {
            runtime,
            lab,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn fetcher(&self) -> Fetcher {
        let _entered = self.runtime.enter();
        Fetcher::new(Options {
            contact: "https://example.org/bot".to_owned(),
            allow_private: true,
            connect_to: vec![ConnectTo {
                host: HostPattern::Any,
                port: None,
                to_host: self.lab.addr.ip().to_string(),
                to_port: Some(self.lab.addr.port()),
            }],
            ..Options::default()
        })
        .unwrap()
    }

    pub fn frontier(&self, seeds: &[PageUrl]) -> Cells {
        let text = "[job]\nname = \"test\"\n[politeness]\nmin_delay = \"0s\"\ndelay_factor = 0\n\
                    retries = 1\nback_off = \"1ms\"\n";
        let config = Config::parse(text, "test.toml").unwrap();
        let policy = Policy::new(&config.politeness, &config.network);
        let store = Box::new(SledStore::open(&self.folder.path().join("frontier")).unwrap());
        let scope = Scope::new(config.settings.scope);
        let mut frontier = Cells::alone(store, policy, scope, now()).unwrap();
        frontier.add_seeds(seeds, now()).unwrap();
        frontier
    }

    pub fn drive<H: Handler>(&self, frontier: &mut Cells, control: Control, handler: &mut H) -> bool
    where
        H::Error: std::fmt::Debug,
    {
        let handle = self.runtime.handle();
        let stop = drive(
            handle,
            frontier,
            &self.fetcher(),
            &options(),
            control,
            handler,
        )
        .unwrap();
        stop.is_some()
    }

    pub fn crawl(&self, seeds: &[PageUrl], limits: Limits) -> (Cells, Option<&'static str>) {
        let mut frontier = self.frontier(seeds);
        let outputs = Outputs::open(self.folder.path(), &frontier.stamp().unwrap()).unwrap();
        let mut progress = |_: &Cells, _: Option<&Row<'_>>| {};
        let mut handler = Crawl::new(reader(StrategyKind::Link), outputs, limits, &mut progress);
        assert!(!self.drive(&mut frontier, Control::default(), &mut handler));
        (frontier, handler.limit_reached())
    }

    pub fn log(&self) -> Vec<serde_json::Value> {
        lines(&self.folder.path().join("logs/crawl.jsonl"))
    }
}

pub(super) fn options() -> LoopOptions {
    LoopOptions {
        concurrency: 16,
        max_bytes: 1 << 20,
        checkpoint: Duration::from_secs(60),
        drain: Duration::from_secs(60),
        longest_wait: USUAL_WAIT,
    }
}

/// A web of hosts with a few pages each; every second page of a host is missing.
pub(super) fn hosts(n: usize, pages: usize) -> (MemoryTree, Vec<PageUrl>) {
    let mut tree = MemoryTree::default();
    let mut seeds = Vec::new();
    for host in 0..n {
        let name = format!("h{host}.test");
        for page in 0..pages {
            if page % 2 == 0 {
                let text = format!("<p>cat cat cat cat cat {host} {page}</p>");
                tree.insert(&name, &format!("/{page}.html"), text);
            }
            seeds.push(url(&format!("http://{name}/{page}.html")));
        }
    }
    (tree, seeds)
}
