//! Hosts that keep requests open delay neither other hosts nor the end of a crawl.

use std::net::SocketAddr;

use nix::sys::signal::Signal;
use spoor_lab::tarpits::{self, Kind, Plan, Running};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::support::process::GUARD;
use crate::support::{Job, JobText, Live};

struct Web {
    running: Running,
    runtime: Runtime,
}

impl Web {
    fn serve(plan: Plan) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let running = runtime.block_on(tarpits::spawn(plan, any)).unwrap();
        Self { running, runtime }
    }

    /// Waits until this many are counted.
    fn wait(&self, mut counted: watch::Receiver<u64>, many: u64, what: &str) {
        let last = self.runtime.block_on(async {
            let enough = counted.wait_for(|count| *count >= many);
            let in_time = tokio::time::timeout(GUARD, enough).await.is_ok();
            (!in_time).then(|| *counted.borrow())
        });
        assert_eq!(last, None, "{what}: not {many} in time");
    }
}

fn seeds(plan: &Plan) -> Vec<String> {
    let hosts = 0..plan.honest;
    hosts.map(|n| format!("http://h{n}.test/")).collect()
}

/// Nothing here ever times out, so a crawl that waits for it stands still.
const PATIENT: &str = "allow_private = true\nread_timeout = \"1h\"\ntotal_timeout = \"1h\"";

fn job(web: &Web, plan: &Plan, network: &str, rest: &str) -> Job {
    let seeds = seeds(plan);
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let text = JobText {
        seeds: &seeds,
        network,
        rest: &format!("[strategy]\nkind = \"unfocused\"\n{rest}"),
        ..JobText::default()
    };
    Job::at(web.running.addr, &text)
}

/// Crawls until all honest pages were fetched, while hostile hosts hold on.
fn all_honest_pages_are_fetched(plan: Plan, network: &str) {
    let web = Web::serve(plan);
    let job = job(&web, &plan, network, "[checkpoint]\ndrain = \"100ms\"\n");
    let crawl = Live::start(&mut job.crawl());
    let what = format!("{:?}", plan.kind);
    web.wait(web.running.held(), 3, &format!("{what}, held"));
    let all = plan.honest as u64 * plan.pages;
    web.wait(web.running.asked(), all, &what);
    assert!(*web.running.held().borrow() > 0, "{what}: nothing is held");
    crawl.signal(Signal::SIGTERM);
    crawl.ended().stopped();
}

#[test]
fn three_slow_bodies_do_not_hold_up_large_pages() {
    let plan = Plan {
        kind: Kind::SlowBody,
        hostile: 3,
        honest: 4,
        pages: 8,
        bytes: 400 << 10,
    };
    all_honest_pages_are_fetched(plan, PATIENT);
}

/// They take half an hour each, and there are more of them than cores.
#[test]
fn files_that_take_for_ever_hold_up_no_page_and_not_the_end() {
    let plan = Plan {
        kind: Kind::PdfBomb,
        hostile: 8,
        honest: 4,
        pages: 20,
        bytes: 1_000,
    };
    let web = Web::serve(plan);
    let rest = "[checkpoint]\ndrain = \"100ms\"\n[pdf]\ntime = \"30m\"\n\
                [scope]\naccept_types = [\"text/html\", \"application/pdf\"]\n";
    let job = job(&web, &plan, PATIENT, rest);
    let mut crawl = Live::start(&mut job.crawl());
    web.wait(web.running.held(), 8, "bombs");
    let all = plan.honest as u64 * plan.pages;
    web.wait(web.running.asked(), all, "honest pages");
    let id = crawl.id();
    let workers = || -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
        let children = tasks
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
        let children = children.collect::<Vec<_>>().join(" ");
        children.split_whitespace().map(str::to_owned).collect()
    };
    let mut of_crawl = Vec::new();
    crawl.wait_for(|| {
        of_crawl = workers();
        !of_crawl.is_empty()
    });
    crawl.signal(Signal::SIGTERM);
    crawl.ended().stopped();
    // The system kills them when the crawl is gone, which takes a moment.
    let is_left = |id: &String| {
        std::fs::read_to_string(format!("/proc/{id}/cmdline"))
            .is_ok_and(|line| line.contains("pdf-worker"))
    };
    let deadline = std::time::Instant::now() + crate::support::process::GUARD;
    while of_crawl.iter().any(is_left) {
        assert!(std::time::Instant::now() < deadline, "a worker is left");
        std::thread::yield_now();
    }
}

fn tarpits(kind: Kind) {
    let plan = Plan {
        kind,
        hostile: 24,
        honest: 4,
        pages: 20,
        bytes: 1_000,
    };
    all_honest_pages_are_fetched(plan, &format!("{PATIENT}\nconcurrency = 8"));
}

#[test]
fn hosts_that_answer_nothing_delay_no_other_host() {
    tarpits(Kind::Silent);
}

#[test]
fn hosts_that_drip_their_headers_delay_no_other_host() {
    tarpits(Kind::DripHead);
}

#[test]
fn hosts_that_drip_their_rules_delay_no_other_host() {
    tarpits(Kind::DripRobots);
}

#[test]
fn hosts_that_have_rules_and_drip_their_pages_delay_no_other_host() {
    tarpits(Kind::DripPage);
}

#[test]
fn a_crawl_that_is_held_up_ends_at_its_time_and_loses_nothing() {
    let plan = Plan {
        kind: Kind::Silent,
        hostile: 8,
        honest: 2,
        pages: 3,
        bytes: 1_000,
    };
    let web = Web::serve(plan);
    let network = format!("{PATIENT}\nconcurrency = 4");
    let job = job(&web, &plan, &network, "[limits]\ntime = \"3s\"\n");
    let ran = Live::start(&mut job.crawl()).ended();
    assert!(ran.err.contains("have not finished in time"), "{}", ran.err);
    let out = ran.good();
    assert!(out.contains("limits.time is reached"), "{out}");

    // With more time, and with hosts that answer, all open requests are made.
    let mended = Plan { hostile: 0, ..plan };
    let web = Web::serve(mended);
    let seeds = seeds(&plan);
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let text = JobText {
        seeds: &seeds,
        network: &network,
        rest: "[strategy]\nkind = \"unfocused\"\n[limits]\ntime = \"1h\"\n",
        ..JobText::default()
    };
    job.write_at(web.running.addr, &text);
    job.run();
    let endings = job.endings();
    let mut missing: Vec<String> = (0..plan.hostile)
        .map(|n| format!("page dropped:client_error http://t{n}.test/"))
        .collect();
    for host in 0..plan.honest {
        for page in ["", "1", "2"] {
            missing.push(format!("page done http://h{host}.test/{page}"));
        }
    }
    missing.retain(|ending| !endings.contains(ending));
    assert_eq!(missing, Vec::<String>::new());
}
