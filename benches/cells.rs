//! The cost of a frontier with many cells: pages a second, memory, reopening, and moving one
//! cell.
//!
//! ```sh
//! cargo bench --bench cells -- --pages 20000 --hosts 20000 --cells 1,64
//! ```
//!
//! Pages link to hosts drawn at random, so with 64 cells nearly every link leaves its cell,
//! which is worse than on any real web. Not a criterion benchmark, because one run gives many
//! figures.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs
)]

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spoor::address::PageUrl;
use spoor::config::Config;
use spoor::frontier::store::{Readable, StoreError};
use spoor::frontier::{
    CellCount, CellId, Cells, Effects, Frontier, NewTask, Policy, RobotsAnswer, Written,
};
use spoor::page::{Bucket, Outcome, Task, TaskKind};
use spoor::settings::StoreKind;
use spoor::web::scope::Scope;

const LINKS: usize = 20;
const NOW: u64 = 1_000_000_000_000;
/// The duration of every request.
const ANSWER: Duration = Duration::from_millis(50);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|a| a == name)?;
        arguments.get(at + 1).cloned()
    };
    let number = |name: &str, usual: u64| option(name).map_or(usual, |n| n.parse().unwrap());
    let (pages, hosts) = (number("--pages", 2_000), number("--hosts", 2_000));
    let cells = option("--cells").unwrap_or_else(|| "1,64".to_owned());
    for cells in cells.split(',') {
        let cells = CellCount::new(cells.parse().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        run(pages, hosts, cells, folder.path());
    }
}

fn run(pages: u64, hosts: u64, count: CellCount, folder: &Path) {
    let place = folder.join("frontier");
    println!("{pages} pages, {hosts} hosts, {} cells", count.number());
    let begin = Instant::now();
    let mut cells = open(&place, count);
    println!("  made:      {:.2} s", begin.elapsed().as_secs_f64());
    let resident = resident_mb();
    let front = |host| PageUrl::parse(&format!("http://www.host-{host}.example/")).unwrap();
    let seeds: Vec<PageUrl> = (0..hosts).map(front).collect();
    cells.add_seeds(&seeds, NOW).unwrap();
    let all: Vec<CellId> = count.all().collect();
    let mut web = Web {
        dice: ChaCha8Rng::seed_from_u64(1),
        hosts,
        known: 0,
    };
    let (mut now, mut done) = (NOW, 0);
    let begin = Instant::now();
    while done < pages {
        let Some((cell, task)) = cells.lease(&all, now).unwrap() else {
            now = cells.next_event().unwrap().max(now + 1);
            continue;
        };
        done += u64::from(task.kind == TaskKind::Page);
        cells
            .with(cell, now, |f| web.answer(f, &task, now))
            .unwrap();
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "  crawled:   {:.0} pages/s, {:.0} links/s, {} queued",
        pages as f64 / seconds,
        (pages as usize * LINKS) as f64 / seconds,
        cells.counts().queued_pages()
    );
    println!("  resident:  {:.0} MB more", resident_mb() - resident);
    cells.close().unwrap();
    let begin = Instant::now();
    let mut cells = open(&place, count);
    println!("  reopened:  {:.2} s", begin.elapsed().as_secs_f64());
    if count == CellCount::ONE {
        return;
    }
    let cell = all[0];
    let timed = |what: &str, begin: Instant| {
        println!("  {what}{:.3} s", begin.elapsed().as_secs_f64());
    };
    cells.close_cell(cell).unwrap();
    let mut pairs = Vec::new();
    let scanned = cells.snapshot().scan(&[], &[], &mut |key, value| {
        if CellId::of_key(key) == Some(cell) {
            pairs.push((key.to_vec(), value.to_vec()));
        }
        ControlFlow::Continue(())
    });
    scanned.unwrap();
    cells.drop_cell(cell).unwrap();
    let (begin, mut longest) = (Instant::now(), Duration::ZERO);
    loop {
        let slice = Instant::now();
        let goes_on = cells.sweep().unwrap();
        longest = longest.max(slice.elapsed());
        if !goes_on {
            break;
        }
    }
    timed("deleted:   ", begin);
    println!(
        "             {:.1} ms at most at once",
        longest.as_secs_f64() * 1e3
    );
    let begin = Instant::now();
    let mut load = cells.begin_load(&[cell].into()).unwrap();
    for (key, value) in &pairs {
        load.write(key, Some(value)).unwrap();
    }
    cells.end_load(load).unwrap();
    timed("loaded:    ", begin);
    let begin = Instant::now();
    cells.open_cell(cell, NOW).unwrap();
    timed("opened:    ", begin);
}

fn open(place: &Path, count: CellCount) -> Cells {
    let text =
        "[job]\nname = \"bench\"\n[politeness]\nmin_delay = \"1s\"\naddress_delay = \"0s\"\n";
    let config = Config::parse(text, "bench.toml").unwrap();
    let policy = Policy::new(&config.politeness, &config.network);
    let scope = Scope::new(config.scope.clone());
    let mut cells = Cells::open(StoreKind::Fjall, place, count, policy, scope).unwrap();
    cells.open_all(NOW).unwrap();
    cells
}

struct Web {
    dice: ChaCha8Rng,
    hosts: u64,
    /// URLs made so far.
    known: u64,
}

impl Web {
    fn answer(&mut self, frontier: &mut Frontier, task: &Task, now: u64) -> Result<(), StoreError> {
        if task.kind == TaskKind::Robots {
            let answer = RobotsAnswer::Missing;
            frontier.finish_robots(task, answer, ANSWER, now, |_| {
                Ok::<_, StoreError>(Vec::new())
            })?;
            return Ok(());
        }
        let effects = Effects {
            links: (0..LINKS).map(|n| self.link(n)).collect(),
            ..Effects::default()
        };
        frontier.finish(task, Outcome::Done, effects, ANSWER, now, |_| {
            Ok::<_, StoreError>(Written::default())
        })?;
        Ok(())
    }

    /// Half of the links are new, half known.
    fn link(&mut self, n: usize) -> NewTask {
        let n = if n.is_multiple_of(2) || self.known == 0 {
            self.known += 1;
            self.known
        } else {
            self.dice.random_range(0..self.known)
        };
        let host = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % self.hosts;
        let text = format!("http://www.host-{host}.example/articles/page-{n}.html");
        NewTask {
            url: PageUrl::parse(&text).unwrap(),
            bucket: Some(Bucket::Normal),
            score: self.dice.random_range(1.0..30_000.0),
            parts: None,
            anchor: None,
            clues: None,
        }
    }
}

fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:"));
    let kb = line.and_then(|l| l.split_whitespace().nth(1));
    kb.and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e3
}
