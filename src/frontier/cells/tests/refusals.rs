//! What cells cannot do is refused with a clear error.

use super::*;

#[test]
fn stores_that_cannot_be_divided_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frontier");
    let open = |kind, cells, policy| Cells::open(kind, &path, count(cells), policy, scope()).err();
    let sled = open(StoreKind::Sled, 2, policy()).unwrap();
    assert!(
        sled.to_string().contains("frontier.store = \"fjall\""),
        "{sled}"
    );
    assert!(!path.exists(), "nothing was made");
    // With one cell it is an ordinary frontier, in any store.
    assert!(open(StoreKind::Sled, 1, policy()).is_none());
}

#[test]
fn the_number_of_cells_never_changes() {
    let folder = tempfile::tempdir().unwrap();
    let store = |name: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        MemoryStore::new(&path)
    };
    let (divided, whole) = (store("divided"), store("whole"));
    let open = |store: &MemoryStore, cells| {
        Cells::over(Box::new(store.reopened()), count(cells), policy(), scope())
    };
    opened(Box::new(divided.reopened()), 8, 0).close().unwrap();
    opened(Box::new(whole.reopened()), 1, 0).close().unwrap();
    for (store, cells, made) in [(&divided, 9, 8), (&divided, 1, 8), (&whole, 2, 1)] {
        let error = open(store, cells).err().unwrap();
        let matches = matches!(error, CellsError::Number { found, asked, .. } if (found, asked) == (made, cells));
        assert!(matches, "{error}");
    }
    assert!(open(&whole, 1).is_ok());
    let mut eight = open(&divided, 8).unwrap();
    let ninth = count(9).cell(8).unwrap();
    for error in [eight.open_cell(ninth, 0), eight.drop_cell(ninth)] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("cell 8 is none of the 8 cells"), "{error}");
    }
    drop(eight);
    // It is not mistaken for an empty frontier.
    let error = only(Box::new(divided.reopened())).err();
    assert!(
        matches!(error, Some(StoreError::SeveralCells { .. })),
        "{error:?}"
    );
    let mut one = open(&whole, 1).unwrap();
    let first = CellCount::ONE.all().next().unwrap();
    assert!(matches!(one.close_cell(first), Err(CellsError::Closed(_))));
}

/// A store of a version without cells is not mistaken for an empty one.
#[test]
fn an_older_store_is_refused() {
    let pairs = [(keys::META.to_vec(), vec![1])].into();
    let old = MemoryStore::holding(Path::new("memory"), pairs);
    for error in [
        only(Box::new(old.reopened())).err(),
        crate::check_format(&old).err(),
        crate::Mark::of(&old).err(),
    ] {
        assert!(matches!(error, Some(StoreError::Old { .. })), "{error:?}");
    }
    assert_eq!(old.pairs().len(), 1);
}
