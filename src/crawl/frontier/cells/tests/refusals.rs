//! What cells cannot do is refused by name, and a damaged file is never taken for a cell.

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
    // One cell is a frontier, whatever it lies in.
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
        let told = matches!(error, CellsError::Number { found, asked, .. } if (found, asked) == (made, cells));
        assert!(told, "{error}");
    }
    assert!(open(&whole, 1).is_ok());
    let mut eight = open(&divided, 8).unwrap();
    let ninth = count(9).cell(8).unwrap();
    for error in [eight.open_cell(ninth, 0), eight.drop_cell(ninth)] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("cell 8 is none of the 8 cells"), "{error}");
    }
    drop(eight);
    // Nobody takes it for an empty frontier.
    let error = Frontier::open(Box::new(divided.reopened()), policy(), scope(), 0).err();
    assert!(
        matches!(error, Some(StoreError::Divided { .. })),
        "{error:?}"
    );
    let mut one = open(&whole, 1).unwrap();
    let first = CellCount::ONE.all().next().unwrap();
    assert!(matches!(one.drop_cell(first), Err(CellsError::Undivided)));
    assert!(!one.sweep().unwrap());
    assert!(matches!(one.close_cell(first), Err(CellsError::Closed(_))));
}

#[test]
fn a_file_that_is_no_whole_cell_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let web = Web::new(3);
    let mut now = 1_000;
    let store = MemoryStore::new(folder.path());
    let mut cells = opened(Box::new(store.reopened()), 2, now);
    cells.add_seeds(&web.seeds(), now).unwrap();
    for _ in 0..40 {
        step(&mut cells, &web, &mut now);
    }
    let cell = cells.opened().next().unwrap();
    let file = folder.path().join("cell");
    cells.close_cell(cell).unwrap();
    cells.export_cell(cell, &file).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let missing = folder.path().join("missing/cell");
    assert!(matches!(
        cells.export_cell(cell, &missing),
        Err(CellsError::Io { .. })
    ));
    cells.drop_cell(cell).unwrap();
    while cells.sweep().unwrap() {}
    let before = store.pairs().len();
    let mut refuse = |bytes: &[u8], named: &str| {
        let broken = folder.path().join("broken");
        std::fs::write(&broken, bytes).unwrap();
        let error = cells.import_cell(&broken).unwrap_err().to_string();
        assert!(
            error.contains("/broken: ") && error.contains(named),
            "{error}"
        );
        while cells.sweep().unwrap() {}
        assert_eq!(store.pairs().len(), before);
    };
    for length in (0..whole.len()).step_by(13) {
        refuse(&whole[..length], "");
    }
    for at in (40..whole.len()).step_by(11) {
        let mut turned = whole.clone();
        turned[at] ^= 0x20;
        refuse(&turned, "");
    }
    refuse(b"another file\n", "not a cell");
    let other = String::from_utf8_lossy(&whole[..19]).replace("0 of 2", "0 of 3");
    refuse(&[other.as_bytes(), &whole[19..]].concat(), "a cell of 3");
    assert_eq!(cells.import_cell(&file).unwrap(), cell);
}
