//! A command on one machine of a cluster applies to all of them, even to those that are frozen or
//! join later.

use nix::sys::signal::Signal;
use spoor::cluster::wanted::{SetKey, WantedBy, WantedEdit, WantedState};
use spoor::cluster::{Nats, Place};

use super::*;

impl Cluster {
    /// Runs a command on the job of a machine.
    fn say(&self, number: usize, words: &[&str]) -> Ran {
        let file = self.machines[number].file();
        let mut all = vec![words[0], file.to_str().unwrap()];
        all.extend(&words[1..]);
        Ran::of(&mut spoor(&all))
    }

    /// Waits until a machine reports this state.
    fn state_becomes(&self, number: usize, live: &mut Live, wanted: &str) {
        let begun = Instant::now();
        loop {
            let ran = self.say(number, &["ctl", "status", "--json"]);
            let status: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_default();
            if status["state"] == wanted {
                return;
            }
            let is_too_late = begun.elapsed().as_secs() >= 60;
            if is_too_late || live.has_ended() {
                let said = live.said();
                panic!("not {wanted}: {status} {ran:#?}; it said\n{said}");
            }
        }
    }

    fn after(&self, requests: usize) {
        self.wire
            .wait(|notes| notes.requests.len() >= requests, || false);
    }
}

/// A pause on one machine applies to all, also to those that join while it lasts; and a limit set
/// on one is the limit of all together.
#[test]
fn a_pause_and_a_limit_hold_for_all_machines() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let (wire, whole) = web();
    let cluster = Cluster::new(brokers, wire, 3);
    let mut running = vec![cluster.start(0), cluster.start(1)];
    cluster.after(40);
    cluster.state_becomes(1, &mut running[1], "running");
    let said = cluster.say(0, &["ctl", "pause"]).good();
    assert!(said.contains("applied by all 2 machines"), "{said}");
    cluster.state_becomes(1, &mut running[1], "paused");
    let quiet = cluster.wire.silence(Duration::from_secs(3));
    assert!(quiet, "hosts are asked in a pause");
    // It also reaches a machine that joins, and a process that restarts.
    running.push(cluster.start(2));
    cluster.state_becomes(2, &mut running[2], "paused");
    assert!(running[1].kill());
    running[1] = cluster.start(1);
    cluster.state_becomes(1, &mut running[1], "paused");
    let before = cluster.wire.requests().len();
    let wrong = cluster.say(0, &["ctl", "set", "cluster.weight=2"]);
    assert!(wrong.err.contains("cluster.weight is fixed"), "{wrong:#?}");
    let said = cluster
        .say(2, &["ctl", "set", "limits.documents=90"])
        .good();
    assert!(said.contains("limits.documents = 90 (was none)"), "{said}");
    assert!(said.contains("applied by all 3 machines"), "{said}");
    let known = cluster.say(1, &["ctl", "config"]).good();
    assert!(known.contains("documents = 90"), "{known}");
    let seed = "http://extra.test/told";
    let said = cluster.say(2, &["ctl", "seeds", seed]).good();
    assert!(said.contains("added"), "{said}");
    let wrong = cluster.say(2, &["ctl", "seeds", "nonsense"]);
    assert!(wrong.err.contains("1 of 1 seeds are refused"), "{wrong:#?}");
    assert_eq!(cluster.wire.requests().len(), before, "asked in a pause");
    let said = cluster.say(1, &["ctl", "resume"]).good();
    assert!(said.contains("applied by all 3 machines"), "{said}");
    for live in running {
        let ran = live.ended();
        assert!(ran.status.success(), "{ran:#?}");
        assert!(
            ran.out.contains("limits.documents is reached (90)"),
            "{ran:#?}"
        );
    }
    let is_seed = |seen: &&Seen| seen.address() == "extra.test/told";
    let requests = cluster.wire.requests();
    // Only the machine that has the host fetched it.
    assert_eq!(requests.iter().filter(is_seed).count(), 1);
    let documents = cluster.gathered().documents();
    assert_eq!(documents.len(), 90, "as many as the limit says");
    assert!(
        documents
            .iter()
            .all(|found| whole.pages.contains(&found.url))
    );
}

/// Someone who can write to the brokers cannot make a machine send requests sooner than its job
/// file says.
#[test]
fn orders_at_the_brokers_leave_machines_polite() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let (wire, _) = web();
    let cluster = Cluster::new(brokers, wire, 2);
    let mut first = cluster.start(0);
    cluster.state_becomes(0, &mut first, "running");
    let before = cluster.say(0, &["ctl", "config"]).good();
    let delay = before.lines().find(|line| line.starts_with("min_delay"));
    let config = Config::load(&cluster.machines[0].file()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let servers = cluster.brokers.addresses();
        let engine = Nats::connect(Place {
            servers: servers.iter().map(ToString::to_string).collect(),
            job: config.job.name.as_str().to_owned(),
            replicas: 1,
            credentials: None,
        });
        let engine = engine.await.unwrap();
        let ruder: &WantedEdit<'_> = &|wanted| {
            for (key, value) in [
                ("politeness.min_delay", "0s".into()),
                ("limits.documents", 90.into()),
                ("limits.unheard_of", 1.into()),
            ] {
                let said = WantedBy {
                    version: wanted.version,
                    by: "a stranger on m0".to_owned(),
                    ..WantedBy::default()
                };
                wanted.keys.insert(key.to_owned(), SetKey { value, said });
            }
        };
        WantedState::change(&engine, None, ruder).await.unwrap();
    });
    let said = cluster.say(0, &["ctl", "pause"]).good();
    assert!(said.contains("applied by all 1 machines"), "{said}");
    // It also reaches a machine that joins. A job that is only beginning may refuse the question.
    let mut second = cluster.start(1);
    let socket = cluster.machines[1].folder().join("control.sock");
    second.wait_for(|| socket.exists());
    cluster.state_becomes(1, &mut second, "paused");
    for number in 0..2 {
        let now = cluster.say(number, &["ctl", "config"]).good();
        assert!(now.contains("documents = 90"), "{now}");
        let now = now.lines().find(|line| line.starts_with("min_delay"));
        assert!(now.is_some() && now == delay, "{now:?} {delay:?}");
        let status = cluster.say(number, &["ctl", "status"]).good();
        let kept = "kept      politeness.min_delay stays \"20ms\"";
        assert!(status.contains(kept), "{status}");
    }
    // The operator of one machine may change the value there; the other one keeps its own, and says
    // so.
    let set = ["ctl", "set", "politeness.min_delay=10ms"];
    let said = cluster.say(0, &set).good();
    assert!(
        said.contains("politeness.min_delay = \"10ms\" (was \"20ms\")"),
        "{said}"
    );
    assert!(said.contains("1 of them keep more polite values"), "{said}");
    let file = cluster.machines[0].file();
    let asked = ["cluster", "status", file.to_str().unwrap()];
    let status = Ran::of(&mut spoor(&asked)).good();
    assert!(
        status.contains("m1: politeness.min_delay stays"),
        "{status}"
    );
    assert!(!status.contains("m0: politeness"), "{status}");
    cluster.say(1, &["ctl", "resume"]).good();
    for live in [first, second] {
        let ran = live.ended();
        assert!(ran.status.success(), "{ran:#?}");
        assert!(ran.err.contains("limits.unheard_of"), "{}", ran.err);
    }
}

/// A limit that is set while machines crawl, just above what they have done, is kept exactly,
/// although there was no limit before.
#[test]
fn a_limit_that_is_set_while_machines_crawl_is_exact() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let (wire, whole) = web();
    let cluster = Cluster::new(brokers, wire, 2);
    let mut running = [cluster.start(0), cluster.start(1)];
    cluster.after(60);
    // One machine may have made them all while the other was starting.
    for (machine, live) in running.iter_mut().enumerate() {
        cluster.state_becomes(machine, live, "running");
    }
    let requests = cluster.wire.requests();
    let is_page = |seen: &&Seen| {
        let url = format!("http://{}", seen.address());
        seen.status == Some(200) && whole.pages.contains(&url)
    };
    // More pages are done in the meantime, and each machine may have some open.
    let limit = requests.iter().filter(is_page).count() + 20;
    let set = format!("limits.documents={limit}");
    let said = cluster.say(1, &["ctl", "set", &set]).good();
    assert!(said.contains("applied by all 2 machines"), "{said}");
    let mut own = 0;
    for live in running {
        let ran = live.ended();
        assert!(ran.status.success(), "{ran:#?}");
        assert!(ran.out.contains("limits.documents is reached"), "{ran:#?}");
        // Each machine reports its own pages, and is not compared with the limit of all.
        let line = ran
            .out
            .lines()
            .find(|line| line.contains("by this machine"));
        let pages = line.and_then(|line| line.split_whitespace().next());
        own += pages.and_then(|n| n.parse::<usize>().ok()).unwrap();
        assert!(!ran.err.contains(&format!("/{limit} pages")), "{ran:#?}");
    }
    assert_eq!(own, limit);
    assert_eq!(cluster.gathered().documents().len(), limit);
}

/// A limit below what is done stops all machines. If it is raised before they have ended, they
/// continue up to it.
#[test]
fn a_limit_is_lowered_and_raised() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let (wire, _) = web();
    let cluster = Cluster::new(brokers, wire, 2);
    let running = [cluster.start(0), cluster.start(1)];
    cluster.after(60);
    cluster.say(0, &["ctl", "set", "limits.documents=5"]).good();
    let begun = Instant::now();
    let is_idle = || {
        let file = cluster.machines[0].file();
        let asked = ["cluster", "status", "--json", file.to_str().unwrap()];
        let status = Ran::of(&mut spoor(&asked)).good();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let sessions = status["sessions"].as_array().unwrap().clone();
        sessions.iter().any(|session| session["idle"] == true)
    };
    while !is_idle() {
        assert!(begun.elapsed().as_secs() < 60, "the limit stops no machine");
    }
    let said = cluster
        .say(1, &["ctl", "set", "limits.documents=90"])
        .good();
    assert!(said.contains("limits.documents = 90 (was 5)"), "{said}");
    for live in running {
        let ran = live.ended();
        assert!(ran.status.success(), "{ran:#?}");
        assert!(
            ran.out.contains("limits.documents is reached (90)"),
            "{ran:#?}"
        );
    }
    assert_eq!(cluster.gathered().documents().len(), 90);
}

/// While one machine is frozen, a host is taken down. On waking it does not fetch from it, and
/// earlier pages of the host are in no gathered folder.
#[test]
fn a_takedown_holds_for_a_machine_that_is_frozen() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let (wire, _) = web();
    let cluster = Cluster::new(brokers, wire, 2);
    let [first, second] = [cluster.start(0), cluster.start(1)];
    // A host that is not a seed, and of which something was fetched.
    let gone = "h07.test";
    let is_fetched = |seen: &Seen| seen.host == gone && seen.status == Some(200);
    cluster.wire.wait(
        |notes| {
            let fetched = notes.requests.iter().filter(|seen| is_fetched(seen));
            fetched.filter(|seen| seen.path.starts_with("/p")).count() > 0
        },
        || false,
    );
    first.signal(Signal::SIGSTOP);
    let requests = cluster.wire.requests();
    let asked: BTreeSet<&str> = requests
        .iter()
        .filter(|seen| seen.host == gone && seen.path.starts_with("/p"))
        .map(|seen| seen.path.as_str())
        .collect();
    assert!(asked.len() < 6, "nothing is left to ask: {asked:?}");
    let said = cluster
        .say(1, &["takedown", "--host", gone, "--reason", "asked"])
        .good();
    assert!(said.contains("confirmed by 1 live machines"), "{said}");
    let asked = |cluster: &Cluster| {
        let requests = cluster.wire.requests();
        requests.iter().filter(|seen| seen.host == gone).count()
    };
    let before = asked(&cluster);
    first.signal(Signal::SIGCONT);
    let ran = first.ended();
    must_begin_anew(&ran);
    let again = cluster.start(0);
    for live in [again, second] {
        let ran = live.ended();
        assert!(ran.status.success(), "{ran:#?}");
    }
    assert_eq!(asked(&cluster), before, "asked after it was taken down");
    let gathered = cluster.gathered();
    let own = format!("http://{gone}/");
    let left: Vec<String> = gathered
        .documents()
        .into_iter()
        .map(|found| found.url)
        .filter(|url| url.starts_with(&own))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    for row in gathered.log() {
        assert!(!row["url"].as_str().unwrap().starts_with(&own), "{row}");
    }
    for sidecar in gathered.sidecars() {
        assert!(!sidecar.to_string().contains(&own), "{sidecar}");
    }
    assert!(gathered.documents().len() > 20);
}

/// A machine with another configuration or another model does not start, and says what differs; a
/// reload changes it for all.
#[test]
fn machines_with_other_settings_are_refused() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let (wire, _) = web();
    let cluster = Cluster::new(brokers, wire, 3);
    let change = |number: usize, from: &str, to: &str| {
        let file = cluster.machines[number].file();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
    };
    // Slow, so that the pause comes well before the limit below.
    for number in 0..3 {
        change(number, "min_delay = \"20ms\"", "min_delay = \"500ms\"");
    }
    let first = cluster.start(0);
    cluster.after(10);
    cluster.say(0, &["ctl", "pause"]).good();

    let other = "[limits]\ndocuments = 70\n[cluster]\n";
    change(1, "[cluster]\n", other);
    let refused = cluster.start(1).ended();
    assert!(!refused.status.success());
    let words = "limits.documents is none there and 70 here";
    assert!(refused.err.contains(words), "{refused:#?}");
    assert!(refused.err.contains("spoor reload"), "{refused:#?}");

    let text = std::fs::read_to_string(cluster.machines[2].file()).unwrap();
    let model = text.split("[model]\nname = \"").nth(1).unwrap();
    let (name, rest) = model.split_once("\"\nfolder = \"").unwrap();
    let models = rest.split('"').next().unwrap();
    let own = cluster.store.path().join("models");
    std::fs::create_dir_all(own.join(name)).unwrap();
    for entry in std::fs::read_dir(std::path::Path::new(models).join(name)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), own.join(name).join(entry.file_name())).unwrap();
    }
    change(2, models, own.to_str().unwrap());
    // The same model in another folder counts as the same.
    let mut third = cluster.start(2);
    cluster.state_becomes(2, &mut third, "paused");
    third.signal(Signal::SIGTERM);
    drop(third.ended());
    let keywords = own.join(name).join("stopwords.tsv");
    let mut text = std::fs::read_to_string(&keywords).unwrap();
    text.push_str("zzz\t1\n");
    std::fs::write(&keywords, text).unwrap();
    let refused = cluster.start(2).ended();
    assert!(!refused.status.success());
    assert!(refused.err.contains("have another model"), "{refused:#?}");

    change(0, "[cluster]\n", other);
    let said = cluster.say(0, &["reload"]).good();
    assert!(said.contains("limits.documents = 70 (was none)"), "{said}");
    let mut second = cluster.start(1);
    cluster.state_becomes(1, &mut second, "paused");
    cluster.say(1, &["ctl", "resume"]).good();
    for live in [first, second] {
        let ran = live.ended();
        assert!(ran.status.success(), "{ran:#?}");
        assert!(ran.out.contains("limits.documents is reached"), "{ran:#?}");
    }
    assert_eq!(cluster.gathered().documents().len(), 70);
}
