//! A network that fails and returns, too few descriptors, a stopped process: the crawl waits, loses
//! nothing, and continues.

use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use spoor::settings::StoreKind;

use crate::support::names::NameServer;
use crate::support::texts::{plain, tree};
use crate::support::{Job, JobText, Live, Ran, Wire, small};
use spoor_lab::Lab;

/// The number of requests, as in an undisturbed crawl, after which something happens.
const AFTER: usize = 60;

fn crawl_of_small_lab(more: &str) -> (Wire, Job, Live) {
    let wire = Wire::serve(small::lab(Duration::from_millis(20)));
    let rest = small::rest(StoreKind::Fjall, more);
    let text = JobText {
        politeness: "min_delay = 0\ndelay_factor = 0\nretries = 2\nback_off = \"1ms\"",
        ..small::text(&rest)
    };
    let job = Job::new(&wire, &text);
    let crawl = Live::start(&mut job.crawl());
    wire.wait(|n| n.requests.len() >= AFTER, || false);
    (wire, job, crawl)
}

/// Interrupted requests have another row in the log, as retried.
fn everything_is_there(job: &Job) {
    let mut found = small::harvest(job);
    found[0].retain(|ending| !ending.contains(" retrying:"));
    assert_eq!(&found, &small::undisturbed(StoreKind::Fjall).0);
}

/// Without the pause, each host would have used up its three attempts in milliseconds.
#[test]
fn the_network_gone_and_back_costs_nothing() {
    let (wire, job, mut crawl) = crawl_of_small_lab("");
    wire.cut(true);
    crawl.says("pausing: 3 hosts");
    wire.cut(false);
    let ran = crawl.ended();
    for words in ["pausing: 3 hosts", "resuming: the network is back"] {
        assert!(ran.err.contains(words), "{words} in {}", ran.err);
    }
    ran.good();
    everything_is_there(&job);
}

#[test]
fn a_crawl_in_an_outage_stops_on_request_and_continues_later() {
    let (wire, job, mut crawl) = crawl_of_small_lab("");
    wire.cut(true);
    crawl.says("pausing: 3 hosts");
    crawl.signal(Signal::SIGTERM);
    crawl.ended().stopped();
    wire.cut(false);
    job.run();
    everything_is_there(&job);
}

#[test]
fn a_stopped_process_continues_where_it_was() {
    let (_wire, job, crawl) = crawl_of_small_lab("");
    crawl.signal(Signal::SIGSTOP);
    while crate::support::process::state(crawl.id()) != 'T' {
        std::thread::yield_now();
    }
    // Another crawl takes long enough for anything to happen in the meantime.
    let other = Wire::serve(small::lab(Duration::ZERO));
    Job::new(&other, &small::text(&small::rest(StoreKind::Fjall, ""))).run();
    crawl.signal(Signal::SIGCONT);
    crawl.ended().good();
    everything_is_there(&job);
}

#[test]
fn few_open_files_make_a_crawl_slower_and_nothing_else() {
    const HOSTS: usize = 120;
    let pages: Vec<(String, String)> = (0..HOSTS)
        .map(|n| (format!("h{n}.test/"), plain(&[&format!("/{n}")], &[])))
        .collect();
    let pages: Vec<_> = pages
        .iter()
        .map(|(a, html)| (a.as_str(), html.clone()))
        .collect();
    let wire = Wire::serve(Lab::from_memory(tree(&pages)));
    let seeds: Vec<String> = (0..HOSTS).map(|n| format!("http://h{n}.test/")).collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let text = JobText {
        seeds: &seeds,
        network: "allow_private = true\nconcurrency = 500",
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    let file = job.file();
    let mut crawl = Command::new("sh");
    crawl.args(["-c", "ulimit -n 80; exec \"$@\"", "sh"]);
    crawl.args([env!("CARGO_BIN_EXE_spoor"), "crawl", file.to_str().unwrap()]);
    crawl.stdin(std::process::Stdio::null());
    let ran = Ran::of(&mut crawl);
    let words = "only 8 requests at the same time instead of 500";
    assert!(ran.err.contains(words), "{}", ran.err);
    ran.good();
    let done = job.endings();
    let done = done.iter().filter(|e| e.starts_with("page done"));
    assert_eq!(done.count(), HOSTS);
}

/// Hosts whose names are looked up, with their pages, at 25 pages a second each. When the names
/// fail, all hosts have pages left for a second, and the first one for as long as it takes to
/// notice the failure.
const HOSTS: usize = 5;

fn pages_of(host: usize) -> usize {
    if host == 0 { 150 } else { 30 }
}

/// A crawl that uses a name server which stops answering in the middle, when all connections are
/// closed too. If `spared`, the first host is reached without its name. The server answers again
/// when the crawl has printed `words`.
fn names_die(spared: bool, words: &str) -> Option<(Ran, Vec<String>)> {
    let mut pages = Vec::new();
    for host in 0..HOSTS {
        for n in 0..pages_of(host) {
            let next = format!("/{}", (n + 1) % pages_of(host));
            let other = (host + 1) % HOSTS;
            let there = (n * 7 + 3) % pages_of(other);
            let across = format!("http://h{other}.example/{there}");
            pages.push((
                format!("h{host}.example/{n}"),
                plain(&[&next, &across], &[]),
            ));
        }
    }
    let pages: Vec<_> = pages.iter().map(|(a, h)| (a.as_str(), h.clone())).collect();
    let wire = Wire::serve(Lab::from_memory(tree(&pages)));
    let text = JobText {
        seeds: &["http://h0.example/0"],
        politeness: "min_delay = \"40ms\"\ndelay_factor = 0\nretries = 2\nback_off = \"1ms\"\n\
                     address_delay = 0",
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    // The names must be looked up; only the port is replaced.
    let file = std::fs::read_to_string(job.file()).unwrap();
    let by_name = file.replace("*.test:80:127.0.0.1:", "*.example:80::");
    assert_ne!(by_name, file);
    let own_rule = format!("[\"h0.example:80:{}\", ", wire.addr);
    let asked = if spared {
        by_name.replace("connect_to = [", &format!("connect_to = {own_rule}"))
    } else {
        by_name
    };
    assert_eq!(asked.contains("h0.example:80"), spared);
    std::fs::write(job.file(), asked).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let names = NameServer::serve(folder.path())?;
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_spoor"));
    let mut command = names.asked_by(folder.path(), program);
    let mut crawl = Live::start(command.arg("crawl").arg(job.file()));
    // The robots.txt and a page of the host that is found last.
    let before = |n: &crate::support::wire::Notes| {
        let last = n.requests.iter();
        let last = last.filter(|r| r.address().starts_with("h4.example/"));
        last.count() > 1
    };
    assert!(wire.wait(before, || crawl.has_ended()));
    names.silent(true);
    wire.hang_up();
    crawl.says(words);
    let before = wire.requests().len();
    names.silent(false);
    let ran = crawl.ended();
    let all: usize = (0..HOSTS).map(pages_of).sum();
    assert!(
        before < all && names.unanswered() >= 3,
        "{before} {names:?}"
    );
    let mut done = job.endings();
    done.retain(|e| e.starts_with("page done"));
    done.sort();
    let mut all: Vec<String> = pages
        .iter()
        .map(|(a, _)| format!("page done http://{a}"))
        .collect();
    all.sort();
    assert_eq!(done, all, "{}", ran.err);
    let warnings = ran.err.lines().filter(|line| line.contains(" WARN "));
    let said = warnings.map(str::to_owned).collect();
    Some((ran, said))
}

/// A name server dies while the crawl runs. The hosts that it cannot resolve any more do not count
/// as gone.
#[test]
fn a_dead_name_server_costs_nothing() {
    let Some((ran, said)) = names_die(false, "pausing: 3 hosts") else {
        return;
    };
    let [pause, on] = &said[..] else {
        panic!("{}", ran.err);
    };
    assert!(pause.contains("pausing: 3 hosts") && pause.contains(".example does not resolve"));
    assert!(on.contains("resuming: the network is back"), "{on}");
    ran.good();
}

/// The same if a host that needs no name continues to answer.
#[test]
fn a_dead_name_server_costs_nothing_where_others_still_answer() {
    let words = "no name is found any more";
    let Some((ran, said)) = names_die(true, words) else {
        return;
    };
    assert!(
        said.iter()
            .any(|line| line.contains("names can be resolved again")),
        "{said:?}"
    );
    ran.good();
}
