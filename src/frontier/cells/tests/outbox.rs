//! What waits for cells of other machines, and what arrives from them.

use super::*;
use crate::cells::{LogPlace, Offer, OutboxChange, Slip};
use crate::testing::{pairs_of, put_in};

/// A store with only some of its cells open.
fn some(store: &MemoryStore, open: &[CellId], now: u64) -> Cells {
    let mut cells = Cells::over(Box::new(store.reopened()), count(8), policy(), scope()).unwrap();
    open.iter().for_each(|c| cells.open_cell(*c, now).unwrap());
    cells
}

fn cell(address: &str) -> CellId {
    count(8).cell_of(&url(address).host_key())
}

/// Crawls everything available; the page of a seed has these links.
fn crawl_with(cells: &mut Cells, links: &[NewTask], now: &mut u64) {
    let all: Vec<CellId> = cells.opened().collect();
    loop {
        let Some((cell, task)) = cells.lease(&all, *now).unwrap() else {
            match cells.next_event() {
                Some(at) => *now = at.max(*now + 1),
                None => return,
            }
            continue;
        };
        let is_page = task.kind == TaskKind::Page;
        let effects = Effects {
            links: if is_page { links.to_vec() } else { Vec::new() },
            ..Effects::default()
        };
        cells
            .with(cell, *now, |f| {
                web::answer(f, &task, Outcome::Done, effects, *now)
            })
            .unwrap();
    }
}

/// All that waits.
fn all(cells: &Cells) -> Vec<(CellId, Slip)> {
    let targets = cells.outbox_targets().into_iter();
    targets
        .flat_map(|to| cells.outbox(to).map(move |slip| (to, slip)))
        .collect()
}

const FROM: &str = "http://a.org/";
const TO: &str = "http://b.org/";

fn receive(
    cells: &mut Cells,
    cell: CellId,
    place: &LogPlace,
    offers: &[Offer],
) -> Result<bool, StoreError> {
    cells.receive(cell, place, offers, 1_000, &mut |_| Ok(Vec::new()))
}

#[test]
fn what_other_machines_want_waits_until_it_has_arrived() {
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(folder.path());
    let (from, to) = (cell(FROM), cell(TO));
    assert_ne!(from, to);
    let mut now = 1_000;
    let mut cells = some(&store, &[from], now);
    cells.add_seeds(&[url(FROM)], now).unwrap();
    let long = "x ".repeat(1_000);
    let link = NewTask {
        anchor: Some(long),
        ..NewTask::seed(&url(TO))
    };
    crawl_with(&mut cells, &[link], &mut now);
    // What waits to be sent is not work for this crawl.
    assert_eq!(cells.lease_best(now).unwrap(), None);
    assert_eq!(cells.next_event(), None);
    let outbox = all(&cells);
    let [(target, slip)] = outbox.as_slice() else {
        panic!("{outbox:?}");
    };
    assert_eq!((*target, slip.from), (to, from));
    let offers = cells.offers(to, *slip).unwrap();
    let way = offers[0].offer.way().unwrap();
    assert_eq!((way.url, way.hops, way.kind), (&url(TO), 1, TaskKind::Page));
    assert!(postcard::to_stdvec(&offers[0].offer).unwrap().len() < 100);

    // A note, and nothing gone; a slip of a cell that is not open is ignored.
    let strange = Slip {
        from: to,
        commit: slip.commit,
    };
    let mut change = OutboxChange {
        to,
        note: vec![7],
        gone: vec![strange],
    };
    cells.change_outbox(std::slice::from_ref(&change)).unwrap();
    cells.flush_outbox().unwrap();
    drop(cells);
    let mut cells = some(&store, &[from], now);
    assert_eq!(all(&cells), outbox);
    assert_eq!(cells.outbox_notes().unwrap(), [(to, vec![7])]);
    change.gone = vec![*slip];
    change.note = vec![8];
    cells.change_outbox(&[change.clone()]).unwrap();
    cells.change_outbox(&[change]).unwrap();
    assert!(all(&cells).is_empty() && cells.offers(to, *slip).unwrap().is_empty());
    cells.close_cell(from).unwrap();
    assert!(matches!(cells.offers(to, *slip), Err(CellsError::Closed(c)) if c == from));
    drop(cells);
    let cells = some(&store, &[from], now);
    assert!(all(&cells).is_empty());
    assert_eq!(cells.outbox_notes().unwrap(), [(to, vec![8])]);
}

#[test]
fn what_comes_from_elsewhere_is_added_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(folder.path());
    let (own, other) = (cell(TO), cell(FROM));
    let mut cells = some(&store, &[own], 1_000);
    let offers = [TO, "http://b.org/x", FROM].map(|to| Offer::page(NewTask::seed(&url(to)), 3));
    let place = |sequence| LogPlace {
        sequence,
        note: vec![1, 2],
    };
    assert_eq!(cells.log_place(own).unwrap(), LogPlace::default());
    assert!(receive(&mut cells, own, &place(4), &offers).unwrap());
    assert_eq!(cells.counts().queued_pages(), 2);
    // Offers for another cell are passed on.
    let outbox = all(&cells);
    assert!(
        matches!(outbox.as_slice(), [(to, _)] if *to == other),
        "{outbox:?}"
    );
    let pairs = store.pairs();
    for sequence in [4, 3] {
        assert!(!receive(&mut cells, own, &place(sequence), &offers).unwrap());
    }
    assert_eq!(store.pairs(), pairs);
    let closed = receive(&mut cells, other, &place(1), &offers);
    assert!(
        matches!(closed, Err(StoreError::Closed { .. })),
        "{closed:?}"
    );
    drop(cells);
    let mut cells = some(&store, &[own], 2_000);
    assert_eq!(cells.log_place(own).unwrap(), place(4));
    let frontier = &cells.open[&own].frontier;
    let known = frontier.look_up(&url(TO), TaskKind::Page).unwrap().unwrap();
    assert_eq!((known.hops, known.via), (3, None));
    // It moves with the cell.
    cells.close_cell(own).unwrap();
    let pairs = pairs_of(&cells, own);
    let elsewhere = tempfile::tempdir().unwrap();
    let heir = MemoryStore::new(elsewhere.path());
    let mut heir = some(&heir, &[], 2_000);
    put_in(&mut heir, own, &pairs).unwrap();
    heir.open_cell(own, 2_000).unwrap();
    assert_eq!(heir.log_place(own).unwrap(), place(4));
}
