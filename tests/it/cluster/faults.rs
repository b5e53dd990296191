//! A cluster while the network or the brokers fail: the gathered results are complete, and hosts
//! notice nothing.

use super::*;
use crate::support::net::{Loss, Net};

impl Cluster {
    /// Two machines or more, on a web. Hosts that do not answer are given up soon.
    fn before(brokers: Brokers, wire: Wire, machines: usize) -> Self {
        let cluster = Self::new(brokers, wire, machines);
        for machine in &cluster.machines {
            let text = std::fs::read_to_string(machine.file()).unwrap();
            let soon = "[network]\nconnect_timeout = \"1s\"\nread_timeout = \"2s\"\n";
            std::fs::write(machine.file(), text.replacen("[network]\n", soon, 1)).unwrap();
        }
        cluster
    }

    /// A network for a machine, which reaches the brokers and the web.
    fn net(&self) -> Option<Net> {
        let mut ports = self.brokers.ports();
        ports.push(self.wire.addr.port());
        Net::with(&ports)
    }

    fn start_in(&self, net: &Net, number: usize) -> Live {
        let mut crawl = self.machines[number].crawl();
        net.run(move || Live::start(&mut crawl))
    }

    /// Loss of packets between a machine and the brokers.
    fn at_brokers(&self, to: f64, from: f64) -> Vec<Loss> {
        let ports = self.brokers.ports().into_iter();
        ports.map(|port| Loss { port, to, from }).collect()
    }

    /// Loss of all packets between a machine and the web.
    fn at_web(&self) -> Vec<Loss> {
        let port = self.wire.addr.port();
        vec![Loss {
            port,
            to: 1.0,
            from: 1.0,
        }]
    }

    /// The last session of a machine, as seen by another one.
    fn session(&self, machine: &str) -> serde_json::Value {
        let file = self.machines[1].file();
        let asked = ["cluster", "status", "--json", file.to_str().unwrap()];
        let status = Ran::of(&mut spoor(&asked)).good();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let sessions = status["sessions"].as_array().unwrap();
        let mut of = sessions.iter().filter(|of| of["machine"] == machine);
        of.next_back().unwrap().clone()
    }

    /// Waits until the last session of a machine satisfies `is_so`.
    fn wait_for(&self, machine: &str, is_so: impl Fn(&serde_json::Value) -> bool) {
        let begun = Instant::now();
        loop {
            let session = self.session(machine);
            if is_so(&session) {
                return;
            }
            assert!(begun.elapsed().as_secs() < 120, "{session}");
            // A hundred requests a second would keep the brokers busy.
            self.wire.wait(|_| false, || true);
        }
    }

    fn events(&self, events: usize) {
        self.wire.wait(|notes| notes.events() >= events, || false);
    }
}

/// The time of the fault: then a request may be repeated although it was answered, because the
/// answer was lost.
struct Wrong(Instant);

impl Wrong {
    fn until_now(&self) -> Vec<Instant> {
        let mut at = self.0;
        let mut all = Vec::new();
        while at < Instant::now() {
            all.push(at);
            at += Duration::from_millis(5);
        }
        all
    }
}

/// What hosts have noticed, on one line.
fn figures(wire: &Wire, begun: Instant) -> String {
    let requests = wire.requests();
    let mut fetched = BTreeSet::new();
    let is_page = |seen: &&Seen| seen.status == Some(200) && seen.path != "/robots.txt";
    let again = requests.iter().filter(is_page);
    let again = again.filter(|seen| !fetched.insert(seen.address())).count();
    let mut last: BTreeMap<&str, Instant> = BTreeMap::new();
    let (mut least, mut two) = (Duration::MAX, 0);
    for seen in &requests {
        let free = last.insert(&seen.host, seen.ended.unwrap_or(seen.began));
        if let Some(free) = free {
            two += usize::from(seen.began < free);
            least = least.min(seen.began.saturating_duration_since(free));
        }
    }
    format!(
        "{:.0} s, {} requests, {again} pages and files fetched again, least gap {least:?}, {two} \
         two at once",
        begun.elapsed().as_secs_f64(),
        requests.len(),
    )
}

/// Waits for machines to end, and restarts those whose sessions others have ended.
fn to_the_end(running: Vec<Live>, start: impl Fn(usize) -> Live) {
    for (number, live) in running.into_iter().enumerate() {
        let ran = come_to_an_end(live, || start(number));
        assert!(ran.out.contains("nothing is left to fetch"), "{ran:#?}");
    }
}

fn must_be_right(what: &str, cluster: &Cluster, whole: &Wanted, begun: Instant, wrong: &[Instant]) {
    println!("{what}: {}", figures(&cluster.wire, begun));
    check_wire(&cluster.wire, &whole.forbidden, wrong);
    must_be_whole(&cluster.gathered(), whole);
}

/// Two machines, one of them in a separate network, in which something fails when a part of the
/// crawl is done.
fn with_bad_net(what: &str, act: impl FnOnce(&Cluster, &Net, &mut [Live])) {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let (wire, whole) = web();
    let events = whole.pages.len();
    let cluster = Cluster::before(brokers, wire, 2);
    let Some(net) = cluster.net() else {
        return;
    };
    let begun = Instant::now();
    let mut running = vec![cluster.start_in(&net, 0), cluster.start(1)];
    cluster.events(events);
    let wrong = Wrong(Instant::now());
    act(&cluster, &net, &mut running);
    net.lose(&[]);
    let wrong = wrong.until_now();
    to_the_end(running, |number| match number {
        0 => cluster.start_in(&net, 0),
        _ => cluster.start(number),
    });
    must_be_right(what, &cluster, &whole, begun, &wrong);
}

/// Brokers are killed one after the other, each restarted before the next kill: the crawl
/// continues.
#[test]
fn brokers_that_are_killed_one_by_one() {
    let Some(brokers) = Brokers::start(3) else {
        return;
    };
    let (wire, whole) = web();
    let events = whole.pages.len();
    let mut cluster = Cluster::before(brokers, wire, 2);
    let begun = Instant::now();
    let mut running = vec![cluster.start(0), cluster.start(1)];
    let wrong = Wrong(Instant::now());
    for number in 0..3 {
        cluster.events(events * (number + 1) / 3);
        cluster.brokers.kill(number);
        // Two brokers of three are enough.
        cluster.events(events * (number + 1) / 3 + events / 6);
        assert!(running.iter_mut().all(|live| !live.has_ended()));
        cluster.brokers.begin(number);
    }
    let wrong = wrong.until_now();
    to_the_end(running, |number| cluster.start(number));
    must_be_right("brokers one by one", &cluster, &whole, begun, &wrong);
}

/// All brokers are killed at once, for longer than a term: no requests are sent, and then all
/// machines continue.
#[test]
#[ignore = "long: a minute"]
fn all_brokers_are_killed_for_longer_than_a_term() {
    let Some(brokers) = Brokers::start(3) else {
        return;
    };
    let (wire, whole) = web();
    let events = whole.pages.len();
    let mut cluster = Cluster::before(brokers, wire, 2);
    let begun = Instant::now();
    let running = vec![cluster.start(0), cluster.start(1)];
    cluster.events(events);
    let wrong = Wrong(Instant::now());
    (0..3).for_each(|number| cluster.brokers.kill(number));
    let is_silent = cluster.wire.silence(Duration::from_secs(6));
    assert!(is_silent, "hosts are asked without a broker");
    (0..3).for_each(|number| cluster.brokers.begin(number));
    let wrong = wrong.until_now();
    to_the_end(running, |number| cluster.start(number));
    must_be_right("all brokers at once", &cluster, &whole, begun, &wrong);
}

/// A machine that is cut off from the brokers sends no requests after its term; the other one takes
/// over.
fn cut_from_brokers(what: &str, to: f64, from: f64) {
    with_bad_net(what, |cluster, net, _| {
        net.lose(&cluster.at_brokers(to, from));
        cluster.wait_for("m0", |session| session["state"] != "live");
    });
}

#[test]
#[ignore = "long: two minutes"]
fn a_machine_is_cut_off_from_the_brokers() {
    cut_from_brokers("cut off from the brokers", 1.0, 1.0);
}

#[test]
#[ignore = "long: two minutes"]
fn a_machine_hears_the_brokers_and_is_not_heard() {
    cut_from_brokers("packets to the brokers are lost", 1.0, 0.0);
}

#[test]
#[ignore = "long: two minutes"]
fn a_machine_is_heard_by_the_brokers_and_hears_nothing() {
    cut_from_brokers("packets from the brokers are lost", 0.0, 1.0);
}

/// A machine that is cut off from everything has requests on the way that never arrived. They must
/// not arrive later either, when the line is restored and others have the hosts.
#[test]
#[ignore = "long: two minutes"]
fn a_machine_is_cut_off_from_everything() {
    with_bad_net("cut off from everything", |cluster, net, _| {
        let all = [cluster.at_brokers(1.0, 1.0), cluster.at_web()].concat();
        net.lose(&all);
        cluster.wait_for("m0", |session| session["state"] != "live");
    });
}

/// A third of all packets to and from the brokers is lost during the whole crawl.
#[test]
fn packets_to_the_brokers_are_lost_by_chance() {
    with_bad_net("30 % loss", |cluster, net, running| {
        net.lose(&cluster.at_brokers(0.3, 0.3));
        let has_ended = || running[0].has_ended() || running[1].has_ended();
        cluster.wire.wait(|_| false, has_ended);
    });
}

/// A machine that no host answers waits, like one that crawls alone, and keeps its hosts. Meanwhile
/// the other one finishes its own.
#[test]
#[ignore = "long: a minute"]
fn a_machine_is_cut_off_from_the_web() {
    with_bad_net("cut off from the web", |cluster, net, running| {
        net.lose(&cluster.at_web());
        let is_silent = cluster.wire.silence(Duration::from_secs(6));
        assert!(is_silent, "the other machine asks on");
        assert!(!running[0].has_ended() && !running[1].has_ended());
        assert_eq!(cluster.session("m0")["state"], "live");
    });
}
