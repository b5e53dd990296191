//! The next owner of a cell learns what its hosts were promised.

use std::time::Duration;

use super::*;
use crate::cells::{LogPlace, Offer};
use crate::page::Reason;

const HOST: &str = "http://a.org/";
const PAUSE: u64 = 600_000;

/// A machine with all cells and the host in its queue.
fn machine(now: u64) -> (tempfile::TempDir, Cells) {
    let folder = tempfile::tempdir().unwrap();
    let mut cells = opened(Box::new(MemoryStore::new(folder.path())), 8, now);
    cells.tell_promises();
    cells.add_seeds(&[url(HOST)], now).unwrap();
    (folder, cells)
}

/// Requests the host, whose page has this outcome. Returns the time of the request.
fn ask(cells: &mut Cells, outcome: &Outcome, mut now: u64) -> u64 {
    let all: Vec<CellId> = cells.cells().all().collect();
    loop {
        let Some((cell, task)) = cells.lease(&all, now).unwrap() else {
            now = cells.next_event().unwrap().max(now + 1);
            continue;
        };
        let (kind, outcome) = (task.kind, outcome.clone());
        let finish = |f: &mut Frontier| web::answer(f, &task, outcome, Effects::default(), now);
        cells.with(cell, now, finish).unwrap();
        if kind == TaskKind::Page {
            return now;
        }
    }
}

fn overloaded(pause: u64) -> Outcome {
    Outcome::Retry {
        reason: Reason::Overloaded,
        retry_after: Some(Duration::from_millis(pause)),
        host_backs_off: true,
    }
}

fn due(cells: &Cells) -> u64 {
    let host = url(HOST).host_key();
    let cell = cells.open.get(&cells.cells().cell_of(&host)).unwrap();
    let store = cell.frontier.ledger.store();
    let bytes = store.get(&keys::host(&host)).unwrap();
    let record: Option<crate::HostRecord> =
        bytes.map(|bytes| postcard::from_bytes(&bytes).unwrap());
    record.map_or(0, |record| record.due)
}

#[test]
fn the_next_owner_keeps_a_pause_that_a_host_asks_for() {
    let (_a, mut first) = machine(1_000);
    assert_eq!(first.promises(), []);
    let asked = ask(&mut first, &overloaded(PAUSE), 1_000);
    let promises = first.promises();
    let [(cell, promise)] = promises.as_slice() else {
        panic!("{promises:?}");
    };
    assert_eq!(*cell, first.cells().cell_of(&url(HOST).host_key()));
    promise.check().unwrap();
    assert_eq!(first.promises(), []);
    // Another machine has the cell in its earlier state.
    let (_b, mut next) = machine(asked + 1_000);
    let hear = |cells: &mut Cells, sequence, promise: &Offer| {
        let place = LogPlace {
            sequence,
            note: Vec::new(),
        };
        let offers = std::slice::from_ref(promise);
        let amend = &mut |_: &[_]| Ok::<_, StoreError>(Vec::new());
        cells
            .receive(*cell, &place, offers, asked + 1_000, amend)
            .unwrap();
    };
    hear(&mut next, 1, promise);
    assert_eq!(due(&next), asked + PAUSE);
    let all: Vec<CellId> = next.cells().all().collect();
    assert_eq!(next.lease(&all, asked + PAUSE - 1).unwrap(), None);
    assert!(next.next_event().unwrap() >= asked + PAUSE);
    // An earlier promise shortens nothing, and neither does a repeated one.
    let (_c, mut other) = machine(1_000);
    ask(&mut other, &overloaded(PAUSE / 2), 1_000);
    let (_, shorter) = other.promises().remove(0);
    for (sequence, promise) in [(2, &shorter), (3, promise)] {
        hear(&mut next, sequence, promise);
        assert_eq!(due(&next), asked + PAUSE);
    }
    // The machine that made it receives it as well, and requests the host when it is over.
    hear(&mut first, 1, promise);
    assert_eq!(ask(&mut first, &Outcome::Done, asked + 1), asked + PAUSE);
    assert_eq!(first.promises(), []);
}

#[test]
fn a_promise_to_a_host_that_was_not_known_is_kept() {
    let (_a, mut first) = machine(1_000);
    let asked = ask(&mut first, &overloaded(PAUSE), 1_000);
    let (cell, promise) = first.promises().remove(0);
    let folder = tempfile::tempdir().unwrap();
    let mut next = opened(Box::new(MemoryStore::new(folder.path())), 8, asked);
    let amend = &mut |_: &[_]| Ok::<_, StoreError>(Vec::new());
    let place = LogPlace {
        sequence: 1,
        note: Vec::new(),
    };
    next.receive(cell, &place, &[promise], asked, amend)
        .unwrap();
    next.add_seeds(&[url(HOST)], asked).unwrap();
    assert!(ask(&mut next, &Outcome::Done, asked) >= asked + PAUSE);
}
