//! A crawl whose process is killed writes the same outputs as one that is not.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use proptest::prelude::{Just, prop_assert_eq, prop_oneof, proptest};

use super::*;
use crate::config::Config;
use crate::frontier::store::{Batch, Readable, Store, StoreError, Visitor};
use crate::frontier::{CellCount, Cells, Policy};
use crate::outputs::merge::{MachinePart, merge};
use crate::outputs::{Outputs, Row};
use crate::page::Outcome;
use crate::web::scope::Scope;

/// A store in memory whose last batches can be lost, as sled's may be at a
/// SIGKILL: never one before the last flush, and never one without all later.
#[derive(Clone)]
struct Lossy(Arc<Mutex<Batches>>, PathBuf);

#[derive(Default)]
struct Batches {
    flushed: BTreeMap<Vec<u8>, Vec<u8>>,
    now: BTreeMap<Vec<u8>, Vec<u8>>,
    pending: Vec<Batch>,
}

fn apply_to(map: &mut BTreeMap<Vec<u8>, Vec<u8>>, batch: Batch) {
    for (key, value) in batch.into_writes() {
        match value {
            Some(value) => map.insert(key, value),
            None => map.remove(&key),
        };
    }
}

impl Lossy {
    /// Loses up to `n` of the last batches.
    fn die(&self, n: usize) {
        let mut b = self.0.lock().unwrap();
        let left = b.pending.len().saturating_sub(n);
        b.now = b.flushed.clone();
        for batch in std::mem::take(&mut b.pending).into_iter().take(left) {
            apply_to(&mut b.now, batch);
        }
        b.flushed = b.now.clone();
    }
}

impl Readable for Lossy {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.lock().unwrap().now.get(key).cloned())
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        let start = prefix.max(from).to_vec();
        for (key, value) in self.0.lock().unwrap().now.range(start..) {
            if !key.starts_with(prefix) || visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.1
    }
}

impl Store for Lossy {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        let mut b = self.0.lock().unwrap();
        apply_to(&mut b.now, batch.clone());
        b.pending.push(batch);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let mut b = self.0.lock().unwrap();
        b.flushed = b.now.clone();
        b.pending.clear();
        Ok(())
    }

    fn size(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn compact(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn snapshot(&self) -> Box<dyn Readable> {
        let mut now = Batches::default();
        now.now = self.0.lock().unwrap().now.clone();
        Box::new(Self(Arc::new(Mutex::new(now)), self.1.clone()))
    }
}

/// Page `n` of a small web: it links to four others, and shows three images that other pages show
/// as well. With `repeats`, all images have the same words. The first few become boilerplate, and
/// which ones come first depends on the order of the pages.
fn small_web(n: usize, repeats: bool) -> String {
    let mut html = format!("<p>cat cat cat cat cat</p><p>cat cat cat cat page{n}</p>");
    for other in [n * 2 + 1, n * 2 + 2, n + 3, n / 2] {
        let other = other % 18;
        html.push_str(&format!(
            "<a href=http://h{}.test/{other}>cat</a>",
            other % 4
        ));
    }
    for i in [n, n + 1, n / 3] {
        let i = i % 7;
        let alt = if repeats {
            "cat".to_owned()
        } else {
            format!("cat{n}")
        };
        html.push_str(&format!(
            "<img src=http://i{}.test/{i}.png alt={alt}>",
            i % 2
        ));
    }
    html
}

/// What ends a run: the number of finished tasks after which the process is killed, the
/// number of batches lost then, and the machine that goes on.
type Death = (usize, usize, usize);

/// The most machines.
const MACHINES: usize = 3;

/// Crawls the small web to its end. Where there are several machines, the frontier goes from
/// one to the next, or back, and each keeps its own outputs; then they are merged.
fn crawl_small_web(deaths: &[Death], cells: u16, repeats: bool) -> BTreeMap<String, Vec<String>> {
    let folders = [(); MACHINES].map(|()| tempfile::tempdir().unwrap());
    let mut stamps: [Vec<u8>; MACHINES] = [const { Vec::new() }; MACHINES];
    let several = deaths.iter().any(|(.., machine)| *machine > 0);
    let (mut machine, mut last) = (0, 0);
    let store = Lossy(Arc::default(), folders[0].path().to_owned());
    let png = Bytes::from(encoded(ImageFormat::Png, 64, 64));
    let mut deaths = deaths.iter();
    let mut now = 1_767_323_045_000;
    loop {
        let text = "[job]\nname = \"test\"\n[politeness]\nmin_delay = \"1ms\"\n";
        let config = Config::parse(text, "test.toml").unwrap();
        let policy = Policy::new(&config.politeness, &config.network);
        let scope = Scope::new(config.settings.scope);
        let count = CellCount::new(cells).unwrap();
        let mut frontier = Cells::over(Box::new(store.clone()), count, policy, scope).unwrap();
        frontier.open_all(now).unwrap();
        stamps[last] = frontier.stamp().unwrap();
        if machine != last {
            // What the other one wrote since is not part of its checkpoint.
            drop(Outputs::open(folders[last].path(), &stamps[last]).unwrap());
        }
        last = machine;
        let fresh = stamps[machine].is_empty();
        let mut outputs = Outputs::open(folders[machine].path(), &stamps[machine]).unwrap();
        if several {
            outputs.shares_files();
        }
        if fresh || several {
            frontier.set_stamp(outputs.stamp()).unwrap();
        }
        frontier.add_seeds(&[url("http://h0.test/0")], now).unwrap();
        let mut progress = |_: &Cells, _: Option<&Row<'_>>| {};
        let r = reader(StrategyKind::Link);
        let mut handler = Crawl::new(r.clone(), outputs, Limits::default(), &mut progress);
        let death = deaths.next();
        let mut steps = 0;
        while death.is_none_or(|(after, ..)| steps < *after) {
            handler.admission(&mut frontier, now).unwrap();
            let Some(task) = frontier.lease_best(now).unwrap() else {
                match frontier.next_event() {
                    Some(at) => now = now.max(at),
                    None => break,
                }
                continue;
            };
            let (outcome, product) = match task.kind {
                TaskKind::Robots | TaskKind::Sitemap | TaskKind::Tdmrep | TaskKind::Rsl => {
                    (Outcome::Done, None)
                }
                TaskKind::Image => r.read(&task, fetched("image/png", &[], png.clone())),
                TaskKind::Page => {
                    let n = task.url.path()[1..].parse().unwrap();
                    r.read(&task, fetched("text/html", &[], small_web(n, repeats)))
                }
            };
            let completion = Completion::made(task, outcome, product);
            handler.complete(&mut frontier, completion, now).unwrap();
            steps += 1;
        }
        let Some((_, lost, next)) = death else {
            assert!(frontier.is_exhausted());
            break;
        };
        drop((handler, frontier));
        store.die(*lost);
        machine = *next;
        // The next day, so that output that was not cut back would be a visible
        // duplicate.
        now += 86_400_000;
    }
    if !several {
        return summary(folders[0].path());
    }
    let parts = folders.iter().map(|folder| MachinePart {
        name: folder.path().display().to_string(),
        folder: folder.path().to_owned(),
    });
    let parts: Vec<MachinePart> = parts.collect();
    let into = tempfile::tempdir().unwrap();
    let merged = merge(&parts, into.path()).unwrap();
    assert_eq!(merged.lost_edits, 0);
    // All images have the same bytes.
    assert_eq!(merged.copies, merged.images - 1);
    summary(into.path())
}

/// A path or a row without the date in it.
fn undated(text: &str) -> String {
    match text.find("images/2026-") {
        Some(at) => format!(
            "{}images/{}",
            &text[..at],
            &text[at + "images/2026-01-02/".len()..]
        ),
        None => text.to_owned(),
    }
}

/// Everything in the outputs but times and order.
fn summary(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let rows = std::fs::read_to_string(folder.join("images.tsv")).unwrap();
    let rows: Vec<String> = rows.lines().map(undated).collect();
    let different: BTreeSet<&String> = rows.iter().collect();
    assert_eq!(different.len(), rows.len(), "a row is there twice");
    // Whether an image came before or after its alt text was known as boilerplate depends
    // on timing; it then has two rows on that page, and the last one counts.
    let cells = |row: &String| {
        let mut cells = row.split('\t').map(str::to_owned);
        (cells.nth(1), cells.nth(4))
    };
    let last: BTreeMap<_, _> = rows.iter().map(|row| (cells(row), row.clone())).collect();
    all.insert("rows".to_owned(), last.into_values().collect());
    let mut folders = vec![folder.join("images")];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
            let entries = all.entry(undated(name)).or_default();
            entries.push("a file".to_owned());
            if let Some(image) = name.strip_suffix(".json") {
                let sidecar = crate::outputs::Sidecar::load(folder, image).unwrap();
                entries.extend(sidecar.contexts().iter().map(|c| c.page.to_string()));
            }
        }
    }
    let done = lines(&folder.join("logs/crawl.jsonl"));
    let done = done.iter().filter(|l| l["kind"] != "robots");
    all.insert(
        "log".to_owned(),
        done.map(|l| format!("{} {}", l["url"], l["outcome"]))
            .collect(),
    );
    let mut sentences = String::new();
    for entry in std::fs::read_dir(folder.join("sentences")).unwrap() {
        let file = std::fs::File::open(entry.unwrap().path()).unwrap();
        let mut reader = flate2::read::MultiGzDecoder::new(file);
        reader.read_to_string(&mut sentences).unwrap();
    }
    all.insert(
        "sentences".to_owned(),
        sentences.lines().map(str::to_owned).collect(),
    );
    for list in all.values_mut() {
        list.sort();
    }
    all
}

proptest! {
    #![proptest_config(spoor_testing::cases!(32))]

    /// For any number of kills and of lost last commits, the outputs end up as those of a crawl
    /// that was never killed: nothing missing, nothing twice. The same holds for any number of
    /// cells, with pages and images in different ones.
    #[test]
    fn a_crawl_that_dies_brings_home_what_one_that_lives_does(
        deaths in proptest::collection::vec((0..25_usize, 0..12_usize, Just(0)), 0..6),
        cells in prop_oneof![Just(1_u16), 2..20_u16],
    ) {
        // A crawl without kills has one.
        static WHOLE: [OnceLock<BTreeMap<String, Vec<String>>>; 2] = [const { OnceLock::new() }; 2];
        let repeats = cells == 1;
        let whole = WHOLE[usize::from(repeats)].get_or_init(|| crawl_small_web(&[], 1, repeats));
        prop_assert_eq!(whole["log"].len(), 25, "eighteen pages and seven images");
        prop_assert_eq!(&crawl_small_web(&deaths, cells, repeats), whole);
    }

    /// The same if the whole frontier goes from machine to machine at each kill, and the
    /// outputs of all are merged: the changes of images that another one has kept are made.
    #[test]
    fn machines_bring_home_together_what_one_does(
        deaths in proptest::collection::vec((0..25_usize, 0..4_usize, 0..MACHINES), 1..8),
        repeats: bool,
    ) {
        static WHOLE: [OnceLock<BTreeMap<String, Vec<String>>>; 2] = [const { OnceLock::new() }; 2];
        let whole = WHOLE[usize::from(repeats)].get_or_init(|| crawl_small_web(&[], 1, repeats));
        let found = crawl_small_web(&deaths, 1, repeats);
        for (of, expected) in whole {
            prop_assert_eq!(found.get(of), Some(expected), "{}", of);
        }
        prop_assert_eq!(&found, whole);
    }
}
