//! Machines with a store of their own, different from that of the others.

use nix::sys::signal::Signal;

use super::*;

/// A machine with another store would continue without what was crawled, so it does not start and
/// leaves nothing behind. The same holds for a job whose keys at the brokers are gone, if it has
/// saved something.
#[test]
fn another_store_is_refused() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let (wire, whole) = web();
    let cluster = Cluster::new(brokers, wire, 2);
    let other = cluster.store.path().join("other");
    let change = |number: usize, from: &str, to: &str| {
        let file = cluster.machines[number].file();
        let text = std::fs::read_to_string(&file).unwrap();
        let [from, to] = [from, to].map(|store| format!("store = \"{store}\"\ncells"));
        assert!(text.contains(&from), "{text}");
        std::fs::write(&file, text.replacen(&from, &to, 1)).unwrap();
    };
    let (right, wrong) = (cluster.store(), format!("file://{}", other.display()));
    let refused = |ran: Ran, code: i32, words: &str| {
        assert_eq!(ran.status.code(), Some(code), "{ran:#?}");
        assert!(ran.err.contains(words), "{ran:#?}");
    };

    let first = cluster.start(0);
    cluster
        .wire
        .wait(|notes| notes.requests.len() >= 10, || false);
    refused(cluster.start(0).ended(), 6, "another spoor");
    let file = cluster.machines[0].file();
    let file = file.to_str().unwrap();
    change(0, &right, &wrong);
    let reload = Ran::of(&mut spoor(&["reload", file]));
    refused(reload, 1, "cluster.store: cannot be changed while");
    change(0, &wrong, &right);
    first.signal(Signal::SIGTERM);
    drop(first.ended());

    change(1, &right, &wrong);
    refused(
        cluster.start(1).ended(),
        5,
        "set it to the store of the other",
    );
    assert!(!other.join("sessions").exists(), "it has saved something");

    let ran = cluster.start(0).ended();
    assert!(ran.status.success(), "{ran:#?}");
    must_be_whole(&cluster.gathered(), &whole);
    let ended = Ran::of(&mut spoor(&["cluster", "end", file])).good();
    assert!(
        ended.contains("set cluster.store to another place"),
        "{ended}"
    );
    refused(
        cluster.start(0).ended(),
        5,
        "the brokers know nothing of (m0.1",
    );
}
