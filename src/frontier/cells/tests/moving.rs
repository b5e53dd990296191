//! What happens to one cell does not affect the others.

use super::*;
use crate::cell::SHARED;
use crate::testing::{Pairs, pairs_of, put_in};

/// The pairs in the space of a cell, and all other pairs.
fn divided(store: &MemoryStore, cell: CellId) -> (Pairs, Pairs) {
    let pairs = (*store.pairs()).clone();
    let of_cells = pairs
        .into_iter()
        .filter(|(key, _)| !key.starts_with(&SHARED));
    of_cells.partition(|(key, _)| key.starts_with(&cell.space()))
}

proptest! {
    #![proptest_config(spoor_testing::cases!(24))]

    #[test]
    fn the_others_stay_byte_for_byte(seed: u64, cells in 2_u16..12, steps in 0_usize..80) {
        let web = Web::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let store = MemoryStore::new(folder.path());
        let mut now = 1_000;
        let mut all = opened(Box::new(store.reopened()), cells, now);
        all.add_seeds(&web.seeds(), now).unwrap();
        for _ in 0..steps {
            step(&mut all, &web, &mut now);
        }
        let cell = count(cells).cell((seed % u64::from(cells)) as u16).unwrap();
        let (_, others) = divided(&store, cell);
        all.close_cell(cell).unwrap();
        let (own, after) = divided(&store, cell);
        prop_assert_eq!(&after, &others);

        let pairs = pairs_of(&all, cell);
        prop_assert_eq!(&pairs, &own);
        let present = put_in(&mut all, cell, &pairs);
        prop_assert!(matches!(present, Err(CellsError::Present(c)) if c == cell));

        all.drop_cell(cell).unwrap();
        prop_assert!(matches!(all.open_cell(cell, now), Err(CellsError::Leaving(_))));
        prop_assert!(matches!(put_in(&mut all, cell, &pairs), Err(CellsError::Leaving(_))));
        while all.sweep().unwrap() {}
        prop_assert_eq!(divided(&store, cell), (Pairs::new(), others.clone()));

        put_in(&mut all, cell, &pairs).unwrap();
        prop_assert_eq!(divided(&store, cell), (own, others.clone()));
        all.open_cell(cell, now).unwrap();
        prop_assert_eq!(divided(&store, cell).1, others);
        prop_assert!(matches!(all.open_cell(cell, now), Err(CellsError::Open(_))));

        // The crawl also ends like an undisturbed one.
        crawl(&mut all, &web, &mut now);
        let alone = tempfile::tempdir().unwrap();
        let mut now = 1_000;
        let mut other = opened(Box::new(MemoryStore::new(alone.path())), cells, now);
        other.add_seeds(&web.seeds(), now).unwrap();
        crawl(&mut other, &web, &mut now);
        prop_assert_eq!(known(&all), known(&other));
    }
}

/// A cell from another machine is the same here as it was there.
#[test]
fn a_cell_moves_to_another_store() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let web = Web::new(7);
    let mut now = 1_000;
    let mut all = opened(Box::new(MemoryStore::new(folders[0].path())), 4, now);
    all.add_seeds(&web.seeds(), now).unwrap();
    for _ in 0..60 {
        step(&mut all, &web, &mut now);
    }
    let here = MemoryStore::new(folders[1].path());
    let mut heir = Cells::over(Box::new(here.reopened()), count(4), policy(), scope()).unwrap();
    let mut waiting = 0;
    for cell in count(4).all() {
        waiting += all.open[&cell].frontier.ledger.meta().counts.documents;
        all.close_cell(cell).unwrap();
        put_in(&mut heir, cell, &pairs_of(&all, cell)).unwrap();
    }
    heir.open_all(now).unwrap();
    assert_eq!(heir.counts().documents, waiting);
    crawl(&mut heir, &web, &mut now);
    let whole = tempfile::tempdir().unwrap();
    let mut now = 1_000;
    let mut other = opened(Box::new(MemoryStore::new(whole.path())), 1, now);
    other.add_seeds(&web.seeds(), now).unwrap();
    crawl(&mut other, &web, &mut now);
    assert_eq!(known(&heir), known(&other));
}
