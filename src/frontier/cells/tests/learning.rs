//! All cells share what one cell learns, and the wait for a better page considers all cells.

use super::*;
use crate::page::{Clues, Nearness};
use crate::testing::{POOR, Taught};
use crate::topic::strategy::Learning as _;

pub(super) fn link(address: &str, kind: u32) -> NewTask {
    NewTask {
        bucket: Some(Bucket::High),
        clues: Some(Clues {
            traits: vec![kind],
            ..Clues::default()
        }),
        ..NewTask::seed(&url(address))
    }
}

/// Cells with this rating over a store.
fn rated(store: &MemoryStore, taught: &Arc<Taught>, now: u64) -> Cells {
    let mut cells = opened(Box::new(store.reopened()), 8, now);
    let rating: Arc<dyn Rating> = Arc::clone(taught) as _;
    cells.set_rating(rating).unwrap();
    cells
}

/// Fetches one page in any cell, with these links, and says which; `None` at the end.
pub(super) fn fetch(cells: &mut Cells, links: &[NewTask], now: &mut u64) -> Option<String> {
    let all: Vec<CellId> = cells.cells().all().collect();
    loop {
        let Some((cell, task)) = cells.lease(&all, *now).unwrap() else {
            *now = cells.next_event()?.max(*now + 1);
            continue;
        };
        let is_page = task.kind == TaskKind::Page;
        let effects = Effects {
            links: if is_page { links.to_vec() } else { Vec::new() },
            on_topic: is_page.then_some(0.5),
            nearness: is_page.then_some(Nearness::Likely(0.5)),
            ..Effects::default()
        };
        cells
            .with(cell, *now, |f| {
                web::answer(f, &task, Outcome::Done, effects, *now)
            })
            .unwrap();
        if is_page {
            return Some(task.url.as_str().to_owned());
        }
    }
}

#[test]
fn what_one_cell_learns_all_know() {
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(folder.path());
    let taught = Arc::new(Taught::default());
    let mut now = 1_000;
    let mut cells = rated(&store, &taught, now);
    cells.add_seeds(&[url("http://s.org/")], now).unwrap();
    let links = Vec::from_iter((0..19).map(|n| link(&format!("http://h{n}.org/"), n)));
    fetch(&mut cells, &links, &mut now).unwrap();
    let is_rerating = |cells: &Cells| {
        let open = cells.open.values();
        open.filter(|cell| cell.frontier.is_rescoring()).count()
    };
    while taught.examples() < 16 {
        assert_eq!(is_rerating(&cells), 0);
        fetch(&mut cells, &[], &mut now).unwrap();
    }
    assert_eq!(is_rerating(&cells), 8);
    while cells.rejudge(now).unwrap() {}
    assert_eq!(is_rerating(&cells), 0);
    while fetch(&mut cells, &[], &mut now).is_some() {}
    assert_eq!(taught.examples(), 19);
    let snapshot = taught.snapshot();
    cells.close().unwrap();
    // Regardless of the cell that is opened first.
    let again = Arc::new(Taught::default());
    let mut cells = Cells::over(Box::new(store), count(8), policy(), scope()).unwrap();
    let rating: Arc<dyn Rating> = Arc::clone(&again) as _;
    cells.set_rating(rating).unwrap();
    cells.open_cell(count(8).cell(5).unwrap(), now).unwrap();
    assert_eq!(again.snapshot(), snapshot);
}

#[test]
fn a_poor_page_waits_for_a_good_one_in_another_cell() {
    let order = |patience| {
        let folder = tempfile::tempdir().unwrap();
        let store = MemoryStore::new(folder.path());
        let mut now = 1_000;
        let mut cells = rated(&store, &Arc::new(Taught::patient(patience)), now);
        let cell = |address| cells.cells().cell_of(&url(address).host_key());
        assert_ne!(cell("http://a.org/"), cell("http://b.org/"));
        cells.add_seeds(&[url("http://s.org/")], now).unwrap();
        let links = [
            link("http://a.org/1", 1),
            link("http://a.org/2", 2),
            link("http://b.org/", POOR),
        ];
        fetch(&mut cells, &links, &mut now).unwrap();
        let mut order = Vec::new();
        while let Some(page) = fetch(&mut cells, &[], &mut now) {
            order.push(page);
            if patience > 0.0 && order.len() == 1 {
                // The poor page is ready, and the crawl sleeps until the good one is.
                let all: Vec<CellId> = cells.cells().all().collect();
                assert_eq!(cells.lease(&all, now).unwrap(), None);
                assert!(cells.next_event().unwrap() > now);
            }
        }
        order
    };
    let [first, second, poor] = ["http://a.org/1", "http://a.org/2", "http://b.org/"];
    assert_eq!(order(0.5), [first, second, poor]);
    assert_eq!(order(0.0), [first, poor, second]);
}
