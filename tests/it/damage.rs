//! A flipped byte, a missing byte, a truncated file, a missing file: either the store reports the
//! damage and names the file, or its contents are still complete.
//!
//! Each case damages a copy of the same store, taken in the middle of a crawl: one half compacted,
//! so that fjall has it in tables, the other as it was written. A printed seed determines the
//! places; `SPOOR_DAMAGE_SEED` repeats it. Damage that goes unnoticed must have hit bytes that
//! nothing reads, and every record is compared. What a repair recovers is printed.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spoor::settings::StoreKind;

use crate::support::{Job, Ran, Wire, small, spoor};

/// A job whose store is damaged repeatedly.
struct Victim {
    job: Job,
    _wire: Wire,
    /// The files of the sound store.
    sound: Vec<(PathBuf, Vec<u8>, u64)>,
    /// Its records.
    lines: BTreeSet<String>,
}

impl Victim {
    fn new(store: StoreKind) -> Self {
        let wire = Wire::serve(small::lab(Duration::ZERO));
        let rest = |documents| {
            let limits = format!("[limits]\ndocuments = {documents}\n");
            small::rest(store, &limits)
        };
        let job = Job::new(&wire, &small::text(&rest(60)));
        job.run();
        let file = job.file();
        Ran::of(&mut spoor(&["store", "compact", file.to_str().unwrap()])).good();
        job.write(&wire, &small::text(&rest(120)));
        job.run();
        let mut victim = Self {
            sound: job
                .files("frontier")
                .into_iter()
                .map(|path| {
                    let mut bytes =
                        std::fs::read(job.folder().join("frontier").join(&path)).unwrap();
                    let length = bytes.len() as u64;
                    // Journals end in megabytes that were reserved and never written.
                    let used = bytes
                        .iter()
                        .rposition(|b| *b != 0)
                        .map_or(0, |last| last + 1);
                    bytes.truncate(used);
                    (path, bytes, length)
                })
                .collect(),
            lines: BTreeSet::new(),
            job,
            _wire: wire,
        };
        victim.sound.sort();
        victim.restore();
        victim.lines = victim.export();
        assert_eq!(
            victim.urls(&victim.lines.clone()),
            victim.lines.iter().filter(|l| is_url(l)).count()
        );
        assert!(victim.lines.len() > 500, "{}", victim.lines.len());
        victim
    }

    fn folder(&self) -> PathBuf {
        self.job.folder().join("frontier")
    }

    /// Restores the sound store.
    fn restore(&self) {
        for folder in ["frontier", "frontier.damaged", "frontier.new"] {
            let folder = self.job.folder().join(folder);
            if folder.exists() {
                std::fs::remove_dir_all(folder).unwrap();
            }
        }
        for (path, bytes, length) in &self.sound {
            let path = self.folder().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(*length).unwrap();
        }
    }

    /// The files below one of the store's folders, with their bytes.
    fn files(&self, below: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let root = self.job.folder().join(below);
        let names = self.job.files(below);
        let read = |name: PathBuf| (name.clone(), std::fs::read(root.join(name)).unwrap());
        let mut files: Vec<_> = names.into_iter().map(read).collect();
        files.sort();
        files
    }

    fn store(&self, command: &str, more: &[&str]) -> Ran {
        let file = self.job.file();
        let arguments = [&["store", command, file.to_str().unwrap()], more].concat();
        Ran::of(&mut spoor(&arguments))
    }

    /// The records as lines, except for the counters.
    fn export(&self) -> BTreeSet<String> {
        let file = self.job.folder().join("export.jsonl.gz");
        self.store("export", &[file.to_str().unwrap()]).good();
        let mut text = String::new();
        let opened = std::fs::File::open(&file).unwrap();
        flate2::read::MultiGzDecoder::new(opened)
            .read_to_string(&mut text)
            .unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    }

    /// The number of URLs of the sound store that are unchanged among these lines.
    fn urls(&self, lines: &BTreeSet<String>) -> usize {
        self.lines.intersection(lines).filter(|l| is_url(l)).count()
    }
}

fn is_url(line: &str) -> bool {
    line.starts_with("{\"fact\":\"url\"")
}

#[derive(Debug, Clone, Copy)]
enum Damage {
    Flip,
    Cut,
    Shorten,
    Remove,
}

impl Damage {
    /// Damages a file of at least one byte, and describes the damage.
    fn of(self, victim: &Victim, dice: &mut ChaCha8Rng) -> String {
        let written: Vec<_> = victim
            .sound
            .iter()
            .filter(|(_, b, _)| !b.is_empty())
            .collect();
        // Files are chosen by size, as a failing disk would hit them; for missing files, all are
        // equally likely.
        let total: usize = written.iter().map(|(_, bytes, _)| bytes.len()).sum();
        let mut at = dice.random_range(0..total);
        let by_size = written.iter().find(|(_, bytes, _)| {
            let hit = at < bytes.len();
            at -= if hit { 0 } else { bytes.len() };
            hit
        });
        let (name, bytes, _) = match self {
            Self::Remove => written[dice.random_range(0..written.len())],
            _ => by_size.unwrap(),
        };
        let path = victim.folder().join(name);
        let mut bytes = bytes.clone();
        match self {
            Self::Flip => {
                bytes[at] ^= 1 << dice.random_range(0..8);
                write_over(&path, &bytes);
            }
            Self::Cut => {
                bytes.remove(at);
                std::fs::write(&path, bytes).unwrap();
            }
            Self::Shorten => std::fs::write(&path, &bytes[..at]).unwrap(),
            Self::Remove => std::fs::remove_file(&path).unwrap(),
        }
        match self {
            Self::Remove => name.display().to_string(),
            _ => format!("{} at {at}", name.display()),
        }
    }
}

/// Replaces bytes without changing the length.
fn write_over(path: &Path, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
}

fn damage_is_reported_or_harmless(store: StoreKind, times: usize) {
    let seed = match std::env::var("SPOOR_DAMAGE_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => spoor::clock::now(),
    };
    println!("SPOOR_DAMAGE_SEED={seed} with {}", store.name());
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let victim = Victim::new(store);
    let all = victim.urls(&victim.lines);
    let mut wrong = Vec::new();
    for damage in [Damage::Flip, Damage::Cut, Damage::Shorten, Damage::Remove] {
        let (mut harmless, mut reported, mut repaired, mut kept) = (0, 0, 0, 0);
        for _ in 0..times {
            victim.restore();
            let what = format!("{damage:?} {}", damage.of(&victim, &mut dice));
            let damaged = victim.files("frontier");
            let check = victim.store("check", &[]);
            if victim.files("frontier") != damaged {
                wrong.push(format!("{what}: the check changed the store"));
            }
            if check.status.success() {
                // After opening and closing, the records must still be the same.
                if victim.export() == victim.lines {
                    harmless += 1;
                } else {
                    let left = victim.urls(&victim.export());
                    wrong.push(format!(
                        "{what}: unnoticed, only {left} of {all} URLs are left"
                    ));
                }
                continue;
            }
            reported += 1;
            let said = format!("{}{}", check.out, check.err);
            if check.status.code() != Some(1) || said.contains("panicked") {
                wrong.push(format!("{what}: ended as {:?}: {said}", check.status));
            }
            if !said.contains(victim.folder().to_str().unwrap()) && !said.contains(": ") {
                wrong.push(format!("{what}: names nothing: {said}"));
            }
            let repair = victim.store("check", &["--repair"]);
            if !repair.status.success() {
                // Then the message recommends an export of a checkpoint.
                let refusal = repair.refused();
                assert!(
                    refusal.contains("spoor frontier import"),
                    "{what}: {refusal}"
                );
                if victim.files("frontier") != damaged {
                    wrong.push(format!(
                        "{what}: a repair that was refused changed the store"
                    ));
                }
                continue;
            }
            if victim.files("frontier.damaged") != damaged {
                wrong.push(format!("{what}: the damaged store was not kept as it was"));
            }
            repaired += 1;
            kept += victim.urls(&victim.export());
            let sound = victim.store("check", &[]).good();
            assert!(sound.contains("no inconsistencies"), "{what}: {sound}");
        }
        let share = 100.0 * kept as f64 / (repaired * all).max(1) as f64;
        println!(
            "{} {damage:?}: {harmless} harmless, {reported} reported, {repaired} of these \
             repaired with {share:.1} % of the URLs as they were",
            store.name()
        );
    }
    // Whatever happened to the store, the outputs are intact.
    assert_eq!(
        victim
            .job
            .endings()
            .iter()
            .filter(|e| e.starts_with("page done"))
            .count(),
        120
    );
    assert_eq!(
        victim.job.image_rows().len(),
        victim
            .job
            .sidecars()
            .iter()
            .map(|s| { s["contexts"].as_array().unwrap().len() })
            .sum::<usize>()
    );
    assert!(!victim.job.sentences().is_empty());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn damage_of_sled_is_reported_or_harmless() {
    damage_is_reported_or_harmless(StoreKind::Sled, 8);
}

#[test]
fn damage_of_fjall_is_reported_or_harmless() {
    damage_is_reported_or_harmless(StoreKind::Fjall, 8);
}

#[test]
#[ignore = "long"]
fn damage_of_sled_is_reported_or_harmless_long() {
    damage_is_reported_or_harmless(StoreKind::Sled, 60);
}

#[test]
#[ignore = "long"]
fn damage_of_fjall_is_reported_or_harmless_long() {
    damage_is_reported_or_harmless(StoreKind::Fjall, 60);
}
