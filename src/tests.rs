//! What the unit tests of all modules share.

/// What is stored for a module that has moved would be passed over in silence.
#[test]
fn stored_seeds_are_read() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join(spoor_testing::SEEDS)];
    let mut read = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let module = path.strip_prefix(root.join(spoor_testing::SEEDS)).unwrap();
            let source = std::path::Path::new("src")
                .join(module)
                .with_extension("rs");
            assert!(root.join(&source).is_file(), "{} is gone", source.display());
            let source: &'static str = source.to_str().unwrap().to_owned().leak();
            // The seeds of a member are found from its own folder.
            let member = root.join("src").join(module.components().next().unwrap());
            let of = if member.join("lib.rs").is_file() {
                member
            } else {
                root.to_owned()
            };
            let settings = spoor_testing::usual_in(of.to_str().unwrap());
            let persistence = settings.failure_persistence.unwrap();
            let seeds = persistence.load_persisted_failures2(Some(source)).len();
            assert!(seeds > 0, "no seed of {source} is read");
            read.push(source);
        }
    }
    assert!(
        read.contains(&"src/frontier/tests/state_machine.rs"),
        "{read:?}"
    );
}
