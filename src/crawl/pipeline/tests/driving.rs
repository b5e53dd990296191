//! The loop over real sockets.

use std::collections::BTreeSet;
use std::sync::Mutex;

use futures_util::future::BoxFuture;

use super::super::leasing::{self, Capacity, Leased};
use super::super::steer::LoopSignal;
use super::web::{Web, hosts, options};
use super::*;
use crate::clock::now;
use crate::fetch::Answer;
use crate::frontier::store::StoreError;
use crate::frontier::{Cells, Effects, RobotsAnswer, Settled, Written};
use crate::page::{Outcome, Reason};
use spoor_lab::MemoryTree;

/// A handler that counts, with a given processor.
struct Plain<'a> {
    processor: Processor<()>,
    settled: Vec<(String, Settled, Option<String>)>,
    after_each: &'a mut dyn FnMut(usize),
}

impl Handler for Plain<'_> {
    type Product = ();
    type Error = StoreError;

    fn processor(&self) -> Processor<()> {
        Arc::clone(&self.processor)
    }

    fn admission(&mut self, _: &mut Cells, _: u64) -> Result<Admission, StoreError> {
        Ok(Admission::Lease)
    }

    fn complete(&mut self, f: &mut Cells, a: Completion<()>, now: u64) -> Result<(), StoreError> {
        if a.task.kind == TaskKind::Robots {
            let answer = RobotsAnswer::of(&a.outcome, None);
            let written = |_: &_| Ok::<_, StoreError>(vec![]);
            f.of_task(&a.task, |cell| {
                cell.finish_robots(&a.task, answer, a.elapsed, now, written)
            })?;
            return Ok(());
        }
        let effects = Effects::default();
        let written = |_: &_| Ok::<_, StoreError>(Written::default());
        let finished = f.of_task(&a.task, |cell| {
            cell.finish(&a.task, a.outcome, effects, a.elapsed, now, written)
        })?;
        let address = a.task.url.as_str().to_owned();
        self.settled.push((address, finished.settled, a.error));
        (self.after_each)(self.settled.len());
        Ok(())
    }

    fn round(&mut self, _: &mut Cells, _: u64) -> Result<(), Self::Error> {
        Ok(())
    }
}

#[test]
fn a_panic_in_the_work_costs_one_address() {
    let (tree, seeds) = hosts(3, 3);
    let web = Web::new(tree, vec![]);
    let mut frontier = web.frontier(&seeds);
    let mut handler = Plain {
        processor: Arc::new(|task: &Task, _| {
            assert!(task.url.path() != "/2.html", "a defect");
            Work::Done(Outcome::Done, Some(()))
        }),
        settled: Vec::new(),
        after_each: &mut |_| {},
    };
    assert!(!web.drive(&mut frontier, Control::default(), &mut handler));
    assert_eq!(handler.settled.len(), seeds.len());
    for (address, settled, error) in &handler.settled {
        let reason = match address {
            a if a.ends_with("/2.html") => Reason::Internal,
            a if a.ends_with("/1.html") => Reason::ClientError,
            _ => {
                assert_eq!(settled, &Settled::Done, "{address}");
                continue;
            }
        };
        assert_eq!(settled, &Settled::Dropped { reason }, "{address}");
        if reason == Reason::Internal {
            assert!(error.as_deref().unwrap().contains("report"));
        }
    }
    assert_eq!(frontier.counts().dropped[&Reason::Internal], 3);
    assert_eq!(frontier.counts().documents, 3);
}

/// On any number of cores: half of the hosts send large bodies or files whose work lasts until all
/// other pages are done.
#[test]
fn work_that_takes_long_holds_up_no_page() {
    let n = 2 * std::thread::available_parallelism().map_or(1, usize::from) + 4;
    let (tree, seeds) = hosts(n, 20);
    let web = Web::new(tree, vec![]);
    let mut frontier = web.frontier(&seeds);
    let (open, opened) = std::sync::mpsc::channel::<()>();
    let opened = Arc::new(Mutex::new(opened));
    let number = |task: &Task| -> usize {
        let host = task.host.as_str().trim_start_matches('h');
        host.trim_end_matches(".test").parse().unwrap()
    };
    let honest = n / 2 * 20;
    let mut open = Some(open);
    let mut handler = Plain {
        processor: Arc::new(move |task: &Task, _| {
            let done = || (Outcome::Done, Some(()));
            if task.kind == TaskKind::Robots || number(task) % 2 == 0 {
                return done().into();
            }
            let opened = Arc::clone(&opened);
            let rest = Box::new(move || {
                // Ends when the other end is dropped.
                opened.lock().unwrap().recv().ok();
                done()
            });
            if number(task) % 4 == 1 {
                Work::Large(rest)
            } else {
                Work::File(rest)
            }
        }),
        settled: Vec::new(),
        after_each: &mut |settled| {
            // Half of the addresses are not there.
            if settled >= honest {
                open.take();
            }
        },
    };
    assert!(!web.drive(&mut frontier, Control::default(), &mut handler));
    assert_eq!(handler.settled.len(), seeds.len());
    assert_eq!(frontier.counts().documents, n as u64 * 10);
}

#[test]
fn stopping_drains_what_is_in_flight_and_leases_nothing_more() {
    let (tree, seeds) = hosts(4, 10);
    let web = Web::new(tree, vec![]);
    let mut frontier = web.frontier(&seeds);
    let control = Control::default();
    let stopper = control.stopper();
    let started = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&started);
    let mut handler = Plain {
        processor: Arc::new(move |_, _| {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Work::Done(Outcome::Done, Some(()))
        }),
        settled: Vec::new(),
        after_each: &mut |n| {
            if n == 3 {
                stopper.stop(Stop::Told);
            }
        },
    };
    assert!(web.drive(&mut frontier, control, &mut handler));
    assert_eq!(frontier.leased(), 0);
    let queued = usize::try_from(frontier.counts().queued_pages()).unwrap();
    assert_eq!(handler.settled.len() + queued, seeds.len());
    assert!(queued > 0, "40 addresses on 4 hosts, and stopped after 3");
    let done = handler
        .settled
        .iter()
        .filter(|s| s.1 == Settled::Done)
        .count();
    assert_eq!(done, started.load(std::sync::atomic::Ordering::SeqCst));
    frontier.close().unwrap();
}

#[test]
fn a_stop_does_not_wait_behind_completions() {
    let (tree, seeds) = hosts(4, 10);
    let web = Web::new(tree, vec![]);
    let mut frontier = web.frontier(&seeds);
    let control = Control::default();
    for _ in 0..1_000 {
        control.sender.send(LoopSignal::Completed).unwrap();
    }
    control.stopper().stop(Stop::Told);
    let mut handler = Plain {
        processor: Arc::new(|_, _| Work::Done(Outcome::Done, Some(()))),
        settled: Vec::new(),
        after_each: &mut |_| {},
    };
    assert!(web.drive(&mut frontier, control, &mut handler));
    // What the first round leased: one address of each host.
    assert!(
        handler.settled.len() <= 4,
        "{} settled",
        handler.settled.len()
    );
    frontier.close().unwrap();
}

#[test]
fn nothing_is_leased_while_the_bodies_in_memory_exceed_their_limit() {
    let (tree, seeds) = hosts(3, 1);
    let web = Web::new(tree, vec![]);
    let mut frontier = web.frontier(&seeds);
    let fetcher = web.fetcher();
    let held = web
        .runtime
        .block_on(fetcher.fetch(&seeds[0], TaskKind::Page));
    let Ok(Answer::Body { fetched, held }) = held else {
        panic!("no body");
    };
    assert_eq!(fetcher.bytes_in_flight(), fetched.body.len() as u64);
    let mut handler = Plain {
        processor: Arc::new(|_, _| Work::Done(Outcome::Done, None)),
        settled: Vec::new(),
        after_each: &mut |_| {},
    };
    let options = LoopOptions {
        max_bytes: 10,
        ..options()
    };
    let leased = |capacity| Leased {
        admission: Admission::Lease,
        capacity,
    };
    let mut spawned = Vec::new();
    let mut lease = |frontier: &mut Cells| {
        let mut spawn = |task: Task| spawned.push(task);
        let capacity = |f: &Cells| Capacity::of(f, &fetcher, &options);
        leasing::lease_all(frontier, &mut handler, capacity, now(), &mut spawn).unwrap()
    };
    assert_eq!(lease(&mut frontier), leased(Capacity::Full));
    drop(held);
    assert_eq!(lease(&mut frontier), leased(Capacity::Free));
    assert_eq!(spawned.len(), 3);
}

/// A handler that records the open tasks.
struct Watching<'a> {
    plain: Plain<'a>,
    /// The greatest number of open tasks after a round in which this many were settled.
    after: usize,
    most: usize,
}

impl Handler for Watching<'_> {
    type Product = ();
    type Error = StoreError;

    fn processor(&self) -> Processor<()> {
        self.plain.processor()
    }

    fn admission(&mut self, f: &mut Cells, now: u64) -> Result<Admission, StoreError> {
        self.plain.admission(f, now)
    }

    fn complete(&mut self, f: &mut Cells, a: Completion<()>, now: u64) -> Result<(), StoreError> {
        self.plain.complete(f, a, now)
    }

    fn round(&mut self, frontier: &mut Cells, _: u64) -> Result<(), Self::Error> {
        if self.plain.settled.len() >= self.after {
            self.most = self.most.max(frontier.leased());
        }
        Ok(())
    }
}

/// A gate that refuses each task once, and counts the passes: those that are out, and all.
#[derive(Default)]
struct Narrow {
    refused: Mutex<BTreeSet<String>>,
    open: Arc<Mutex<(usize, usize)>>,
    closed: Mutex<bool>,
}

struct Through(Arc<Mutex<(usize, usize)>>);

impl PassGate for Narrow {
    fn enter<'a>(&'a self, task: &'a Task) -> BoxFuture<'a, Entry> {
        let entry = if self.refused.lock().unwrap().insert(task.url.to_string()) {
            Entry::Refused
        } else {
            let mut open = self.open.lock().unwrap();
            *open = (open.0 + 1, open.1 + 1);
            Entry::With(Box::new(Through(Arc::clone(&self.open))))
        };
        Box::pin(std::future::ready(entry))
    }

    fn close(&self, is_closed: bool) {
        *self.closed.lock().unwrap() = is_closed;
    }
}

impl Pass for Through {
    fn lost(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

impl Drop for Through {
    fn drop(&mut self) {
        self.0.lock().unwrap().0 -= 1;
    }
}

/// A handler whose requests go through a gate; it ends when all is settled.
struct Guarded<'a> {
    plain: Plain<'a>,
    gate: Arc<Narrow>,
    all: usize,
}

impl Handler for Guarded<'_> {
    type Product = ();
    type Error = StoreError;

    fn processor(&self) -> Processor<()> {
        self.plain.processor()
    }

    fn admission(&mut self, f: &mut Cells, now: u64) -> Result<Admission, StoreError> {
        if self.plain.settled.len() == self.all {
            return Ok(Admission::End);
        }
        self.plain.admission(f, now)
    }

    fn complete(&mut self, f: &mut Cells, a: Completion<()>, now: u64) -> Result<(), StoreError> {
        self.plain.complete(f, a, now)
    }

    fn round(&mut self, _: &mut Cells, _: u64) -> Result<(), Self::Error> {
        Ok(())
    }

    fn gate(&self) -> Option<Arc<dyn PassGate>> {
        Some(Arc::clone(&self.gate) as Arc<dyn PassGate>)
    }
}

#[test]
fn a_task_that_is_refused_at_the_gate_is_asked_for_later() {
    let (tree, seeds) = self::hosts(6, 4);
    let web = Web::new(tree, vec![]);
    let mut frontier = web.frontier(&seeds);
    let gate = Arc::new(Narrow::default());
    let mut handler = Guarded {
        plain: Plain {
            processor: Arc::new(|_, _| Work::Done(Outcome::Done, Some(()))),
            settled: Vec::new(),
            after_each: &mut |_| {},
        },
        gate: Arc::clone(&gate),
        all: seeds.len(),
    };
    assert!(!web.drive(&mut frontier, Control::default(), &mut handler));
    let mut settled: Vec<String> = handler.plain.settled.into_iter().map(|(a, ..)| a).collect();
    settled.sort();
    let mut wanted = Vec::from_iter(seeds.iter().map(|url| url.as_str().to_owned()));
    wanted.sort();
    assert_eq!(settled, wanted);
    let (open, all) = *gate.open.lock().unwrap();
    // This counts the rules of each host as well. Every pass was given back.
    assert_eq!((open, all), (0, seeds.len() + 6));
    assert!(*gate.closed.lock().unwrap(), "no request waits at the end");
    frontier.close().unwrap();
}

#[test]
fn no_more_is_leased_than_can_be_processed() {
    use sha2::{Digest, Sha256};
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (hosts, pages) = (40 * cores, 4);
    let (tree, seeds) = self::hosts(hosts, pages);
    let web = Web::new(tree, vec![]);
    let mut frontier = web.frontier(&seeds);
    let mut handler = Watching {
        plain: Plain {
            // Far more than a fetch from this machine takes.
            processor: Arc::new(|_, _| {
                std::hint::black_box(Sha256::digest(vec![7; 16 << 20]));
                Work::Done(Outcome::Done, Some(()))
            }),
            settled: Vec::new(),
            after_each: &mut |_| {},
        },
        after: hosts * pages / 2,
        most: 0,
    };
    let options = LoopOptions {
        concurrency: 4_096,
        ..options()
    };
    let handle = web.runtime.handle();
    let control = Control::default();
    drive(
        handle,
        &mut frontier,
        &web.fetcher(),
        &options,
        control,
        &mut handler,
    )
    .unwrap();
    assert_eq!(handler.plain.settled.len(), seeds.len());
    // Every host could be requested at once.
    assert!(
        (1..hosts / 2).contains(&handler.most),
        "{} of {hosts} hosts",
        handler.most
    );
    frontier.close().unwrap();
}

#[test]
fn a_host_full_of_forbidden_addresses_does_not_hold_up_the_loop() {
    let mut tree = MemoryTree::default();
    tree.insert("bad.test", "/robots.txt", "User-agent: *\nDisallow: /\n");
    let web = Web::new(tree, vec![]);
    let seeds: Vec<_> = (0..500)
        .map(|i| url(&format!("http://bad.test/{i}")))
        .collect();
    let mut frontier = web.frontier(&seeds);
    let task = frontier.lease_best(now()).unwrap().unwrap();
    let rules = RobotsAnswer::Rules("User-agent: *\nDisallow: /\n".into());
    let stamp = |_: &Settled| Ok::<_, StoreError>(vec![]);
    let settled = frontier.of_task(&task, |cell| {
        cell.finish_robots(&task, rules, Duration::ZERO, now(), stamp)
    });
    assert_eq!(settled.unwrap(), Settled::Done);
    let mut rounds = 0;
    while !frontier.is_exhausted() {
        let now = now();
        assert_eq!(frontier.lease_best(now).unwrap(), None);
        if !frontier.is_exhausted() {
            assert_eq!(
                leasing::until_next_lease(&frontier, Duration::MAX, now),
                Duration::ZERO
            );
        }
        rounds += 1;
    }
    assert_eq!(rounds, 3, "500 addresses, 200 at a time");
    assert_eq!(frontier.counts().dropped[&Reason::Robots], 500);
}
