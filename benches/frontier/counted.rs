//! A store that counts its calls, and the CPU time of the process.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use spoor::frontier::store::{Batch, Readable, Store, StoreError, Visitor};

/// Calls of a store so far.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    /// Keys written or deleted, by their class.
    written: BTreeMap<char, u64>,
    batches: u64,
    gets: u64,
    scans: u64,
    /// Pairs that scans visited.
    visited: u64,
}

impl Calls {
    /// The calls since `before`, per page.
    pub fn report(&self, before: &Calls, pages: usize) -> String {
        let a_page = |now: u64, then: u64| (now - then) as f64 / pages as f64;
        let then = |class| before.written.get(class).copied().unwrap_or_default();
        let mut all = 0.0;
        let mut classes = String::new();
        for (class, now) in &self.written {
            let written = a_page(*now, then(class));
            all += written;
            if written >= 0.05 {
                classes.push_str(&format!(" {class} {written:.1}"));
            }
        }
        format!(
            "{all:.1} keys written in {:.1} batches ({}), {:.1} gets, {:.1} scans of {:.1} pairs",
            a_page(self.batches, before.batches),
            classes.trim_start(),
            a_page(self.gets, before.gets),
            a_page(self.scans, before.scans),
            a_page(self.visited, before.visited),
        )
    }
}

/// A store whose calls are counted.
pub struct Counted {
    store: Box<dyn Store>,
    calls: Arc<Mutex<Calls>>,
}

impl Counted {
    pub fn new(store: Box<dyn Store>, calls: Arc<Mutex<Calls>>) -> Self {
        Self { store, calls }
    }
}

impl Readable for Counted {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.calls.lock().unwrap().gets += 1;
        self.store.get(key)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        let mut visited = 0;
        let scanned = self.store.scan(prefix, from, &mut |key, value| {
            visited += 1;
            visit(key, value) as ControlFlow<()>
        });
        let mut calls = self.calls.lock().unwrap();
        calls.scans += 1;
        calls.visited += visited;
        scanned
    }

    fn path(&self) -> &Path {
        self.store.path()
    }
}

impl Store for Counted {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        let mut calls = self.calls.lock().unwrap();
        calls.batches += 1;
        for (key, _) in batch.writes_of(b"") {
            // After the prefix of a cell, or of the shared space.
            *calls.written.entry(char::from(key[2])).or_default() += 1;
        }
        drop(calls);
        self.store.apply(batch)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.store.flush()
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.store.size()
    }

    fn compact(&mut self) -> Result<bool, StoreError> {
        self.store.compact()
    }

    fn snapshot(&self) -> Box<dyn Readable> {
        self.store.snapshot()
    }
}

/// CPU time of this process so far, its other threads included, in milliseconds.
pub fn cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    // User and system time, in hundredths of a second.
    let ticks = after_name.split(' ').skip(11).take(2);
    10.0 * ticks.filter_map(|n| n.parse::<f64>().ok()).sum::<f64>()
}
