//! Several cells together hold what one frontier holds, and no cell is affected by what happens to
//! the others.

mod crashes;
mod images;
mod learning;
mod lessons;
mod loading;
mod marks;
mod moving;
mod outbox;
mod promises;
mod refusals;
mod rules;

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::added::NewTask;
use crate::address::PageUrl;
use crate::consistency;
use crate::keys;
use crate::outcome::Effects;
use crate::page::{Bucket, Outcome, Task, TaskKind};
use crate::store::{Batch, MemoryStore, Readable};
use crate::testing::{count, policy, scope, web, web::Web};

fn url(text: &str) -> PageUrl {
    PageUrl::parse(text).unwrap()
}

/// Opens all cells over a store.
fn opened(store: Box<dyn Store>, cells: u16, now: u64) -> Cells {
    let mut cells = Cells::over(store, count(cells), policy(), scope()).unwrap();
    cells.open_all(now).unwrap();
    cells
}

/// The state of every address in all open cells, and that each is in its own cell.
fn known(cells: &Cells) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (id, cell) in &cells.open {
        let store = cell.frontier.ledger.store();
        let audit = consistency::check(store).unwrap();
        assert!(audit.is_sound(), "{id}: {audit:?}");
        for (key, record) in web::records(store) {
            let (url, kind) = keys::url_of_key(&key).unwrap();
            assert_eq!(cells.cells.cell_of(&url.host_key()), *id, "{url}");
            let before = all.insert(format!("{kind:?} {url}"), web::state(&record));
            assert_eq!(before, None, "{url} is in two cells");
        }
    }
    all
}

/// Crawls to the end in all cells.
fn crawl(cells: &mut Cells, web: &Web, now: &mut u64) {
    while step(cells, web, now) {}
    let waiting = cells.open.values().map(|c| c.frontier.ledger.referring());
    assert!(waiting.into_iter().all(BTreeMap::is_empty));
}

/// One task, or the wait for the next; false at the end.
fn step(cells: &mut Cells, web: &Web, now: &mut u64) -> bool {
    let all: Vec<CellId> = cells.cells().all().collect();
    match cells.lease(&all, *now).unwrap() {
        Some((cell, task)) => {
            assert_eq!(cells.cells().cell_of(&task.host), cell);
            cells
                .with(cell, *now, |frontier| web.finish(frontier, &task, *now))
                .unwrap();
        }
        None => match cells.next_event() {
            Some(at) => *now = at.max(*now),
            None => return false,
        },
    }
    true
}

proptest! {
    #![proptest_config(spoor_testing::cases!(24))]

    /// Even with different numbers of cells.
    #[test]
    fn cells_hold_together_what_one_frontier_holds(seed: u64, cells in 2_u16..40) {
        let web = Web::new(seed);
        let all = [1, cells].map(|cells| {
            let folder = tempfile::tempdir().unwrap();
            let mut now = 1_000;
            let mut cells = opened(Box::new(MemoryStore::new(folder.path())), cells, now);
            cells.add_seeds(&web.seeds(), now).unwrap();
            crawl(&mut cells, &web, &mut now);
            prop_assert!(cells.is_exhausted());
            let found = (known(&cells), web::lasting(cells.counts()));
            cells.close().unwrap();
            Ok(found)
        });
        let [one, many] = all;
        let (one, many) = (one?, many?);
        let size = one.0.len();
        prop_assert_eq!(one, many);
        // Some webs end after their seeds; they are compared too, but do not count as cases.
        prop_assume!(size > 20);
    }
}

#[test]
fn the_best_task_of_all_cells_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut now = 1_000;
    let mut cells = opened(Box::new(MemoryStore::new(folder.path())), 16, now);
    let seed = url("http://seed.org/");
    cells.add_seeds(std::slice::from_ref(&seed), now).unwrap();
    let scores = [30.0, 10.0, 50.0, 20.0, 40.0, 5.0];
    let links = scores.map(|score| NewTask {
        bucket: Some(Bucket::High),
        score,
        ..NewTask::seed(&url(&format!("http://host-{score}.org/")))
    });
    let mut order = Vec::new();
    let all: Vec<CellId> = cells.cells().all().collect();
    loop {
        let Some((cell, task)) = cells.lease(&all, now).unwrap() else {
            match cells.next_event() {
                Some(at) => now = at,
                None => break,
            }
            continue;
        };
        let is_seed = task.url == seed && task.kind == TaskKind::Page;
        let links = if is_seed { links.to_vec() } else { Vec::new() };
        if task.kind == TaskKind::Page {
            order.push(task.score);
        }
        let effects = Effects {
            links,
            ..Effects::default()
        };
        cells
            .with(cell, now, |f| {
                web::answer(f, &task, Outcome::Done, effects, now)
            })
            .unwrap();
    }
    assert_eq!(order, [0.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
    let cells_of = links
        .iter()
        .map(|l| cells.cells().cell_of(&l.url.host_key()));
    assert!(BTreeSet::from_iter(cells_of).len() > 2);
}

#[test]
fn what_is_found_for_a_closed_cell_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(folder.path());
    let mut cells = opened(Box::new(store.reopened()), 8, 1_000);
    let [from, to] = ["http://a.org/", "http://b.org/"].map(url);
    let cell = |url: &PageUrl| count(8).cell_of(&url.host_key());
    assert_ne!(cell(&from), cell(&to));
    cells.close_cell(cell(&to)).unwrap();
    cells.add_seeds(std::slice::from_ref(&from), 1_000).unwrap();
    let error = cells.add_seeds(std::slice::from_ref(&to), 1_000);
    assert!(matches!(error, Err(StoreError::Closed { cell: c, .. }) if c == cell(&to).number()));
    let mut now = 1_000;
    while let Some((at, task)) = cells.lease(&[cell(&from)], now).unwrap() {
        let effects = Effects {
            links: vec![NewTask::seed(&to)],
            ..Effects::default()
        };
        cells
            .with(at, now, |f| {
                web::answer(f, &task, Outcome::Done, effects, now)
            })
            .unwrap();
        now = cells.next_event().unwrap_or(now);
    }
    let waiting = |cells: &Cells| {
        let own = &cells.open[&cell(&from)].frontier;
        own.ledger.referring().get(&cell(&to)).map(BTreeSet::len)
    };
    assert_eq!(waiting(&cells), Some(1));
    // It waits in the store.
    cells.close().unwrap();
    let mut cells = Cells::over(Box::new(store), count(8), policy(), scope()).unwrap();
    cells.open_cell(cell(&from), now).unwrap();
    assert_eq!(waiting(&cells), Some(1));
    cells.open_cell(cell(&to), now).unwrap();
    assert_eq!(waiting(&cells), None);
    let known = |cells: &Cells, url: &PageUrl| {
        let frontier = &cells.open[&cell(url)].frontier;
        frontier.look_up(url, TaskKind::Page).unwrap().unwrap()
    };
    let found = known(&cells, &to);
    // The page that names it is in the other cell, and is found by its number.
    let chain = cells.open[&cell(&to)]
        .frontier
        .view()
        .chain(&found)
        .unwrap();
    assert_eq!(chain, [from]);
    assert_eq!(found.hops, 1);
}

#[test]
fn pauses_follow_a_clock_that_was_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(folder.path());
    let ahead = 100_000_000;
    let mut cells = opened(Box::new(store.reopened()), 4, ahead);
    let seeds = ["http://a.org/", "http://b.org/", "http://c.org/"].map(url);
    cells.add_seeds(&seeds, ahead).unwrap();
    let all: Vec<CellId> = count(4).all().collect();
    while let Some((cell, task)) = cells.lease(&all, ahead).unwrap() {
        cells
            .with(cell, ahead, |f| {
                web::answer(f, &task, Outcome::Done, Effects::default(), ahead)
            })
            .unwrap();
    }
    cells.close().unwrap();
    let mut cells = opened(Box::new(store), 4, 5_000);
    let next = cells.next_event().unwrap();
    assert!((5_000..10_000).contains(&next), "{next}");
    assert!(cells.lease(&all, next).unwrap().is_some());
}

/// Shared data exists once, pages are found by their numbers, and a batch may write to another
/// cell.
#[test]
fn keys_lie_in_their_spaces() {
    let below = MemoryStore::new(Path::new("memory"));
    let shared = Arc::new(SharedStore::over(Box::new(below.reopened())).unwrap());
    let cells = count(300);
    let of = |number| {
        let cell = cells.cell(number).unwrap();
        (
            cell,
            CellStore::of(Home { cell, cells }, Arc::clone(&shared)),
        )
    };
    let ((a, mut first), (b, mut second)) = (of(0), of(299));
    let mut batch = Batch::default();
    batch.put(b"Hhost".to_vec(), vec![1]);
    batch.put(b"X".to_vec(), vec![2]);
    batch.put(keys::document(a.pages_from() + 5), vec![3]);
    batch.put(keys::elsewhere(b, b"Hother"), vec![4]);
    first.apply(batch).unwrap();
    assert_eq!(first.get(b"Hhost").unwrap(), Some(vec![1]));
    assert_eq!(second.get(b"Hhost").unwrap(), None);
    assert_eq!(second.get(b"Hother").unwrap(), Some(vec![4]));
    assert_eq!(second.get(b"X").unwrap(), Some(vec![2]));
    assert_eq!(second.get(&keys::document(5)).unwrap(), Some(vec![3]));
    let mut batch = Batch::default();
    for n in 0..100_u8 {
        batch.put(vec![b'U', n], vec![n]);
    }
    second.apply(batch).unwrap();
    for store in [&second as &dyn Readable, &*second.snapshot()] {
        let mut found = Vec::new();
        store
            .scan(b"U", b"U\x20", &mut |key, value| {
                assert_eq!(key, [b'U', value[0]]);
                found.push(value[0]);
                match value[0] {
                    90 => std::ops::ControlFlow::Break(()),
                    _ => std::ops::ControlFlow::Continue(()),
                }
            })
            .unwrap();
        assert_eq!(found, Vec::from_iter(0x20..=90));
    }
    // No key of a cell begins with the byte of a key class.
    assert!(below.pairs().keys().all(|key| key[0] >= 0x80));
}

/// On a disk, with nothing closed.
#[test]
fn a_crawl_goes_on_over_fjall() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frontier");
    let web = Web::new(5);
    let mut now = 1_000;
    let open = |now| {
        let mut cells = Cells::open(StoreKind::Fjall, &path, count(6), policy(), scope()).unwrap();
        cells.open_all(now).unwrap();
        cells
    };
    let mut cells = open(now);
    cells.add_seeds(&web.seeds(), now).unwrap();
    for _ in 0..50 {
        step(&mut cells, &web, &mut now);
    }
    cells.flush().unwrap();
    drop(cells);
    let mut cells = open(now);
    crawl(&mut cells, &web, &mut now);
    let memory = tempfile::tempdir().unwrap();
    let mut now = 1_000;
    let mut other = opened(Box::new(MemoryStore::new(memory.path())), 6, now);
    other.add_seeds(&web.seeds(), now).unwrap();
    crawl(&mut other, &web, &mut now);
    assert_eq!(known(&cells), known(&other));
    cells.close().unwrap();
}

#[test]
fn many_cells_share_their_caches() {
    let folder = tempfile::tempdir().unwrap();
    let cells = opened(Box::new(MemoryStore::new(folder.path())), 64, 0);
    for id in cells.opened() {
        let own = cells.memory.of_cell(id, cells.cells());
        assert!(own.shares_with(&cells.memory));
    }
}
