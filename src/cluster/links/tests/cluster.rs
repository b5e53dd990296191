//! Machines with an engine between them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::super::envelope::Envelope;
use super::super::publish::Setting;
use super::super::{Links, REJECTED, log_of};
use super::links;
use super::web::{Machine, Web};
use crate::frontier::testing::NoOutputs;
use crate::frontier::{CellCount, CellId};
use crate::packed::MessagesError;
use crate::scripted::{Fate, Scripted};

const BEGINNING: u64 = 1_000_000;

struct Cluster {
    folder: tempfile::TempDir,
    engine: Arc<Scripted>,
    web: Web,
    machines: Vec<(Machine, Links<Scripted>)>,
    begun: tokio::time::Instant,
}

fn cells() -> CellCount {
    CellCount::new(6).unwrap()
}

fn setting(session: u64) -> Setting {
    Setting {
        links: 5,
        ..Setting::usual(session, cells())
    }
}

impl Cluster {
    fn new(machines: u16, seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Arc::new(Scripted::default());
        let machine = |number: u16| {
            let is_own = |cell: &CellId| cell.number() % machines == number;
            let own = cells().all().filter(is_own).collect();
            let path = folder.path().join(number.to_string());
            let mut machine = Machine::new(path, own, cells(), BEGINNING);
            let setting = setting(number.into());
            let links = Links::new(
                Arc::clone(&engine),
                setting,
                BTreeSet::new(),
                &mut machine.cells,
            )
            .unwrap();
            (machine, links)
        };
        let machines = (0..machines).map(machine).collect();
        let web = Web(seed);
        let mut cluster = Self {
            folder,
            engine,
            web,
            machines,
            begun: tokio::time::Instant::now(),
        };
        let seed = cluster.web.seed();
        let cell = cells().cell_of(&seed.host_key());
        let is_owner = |m: &&mut (Machine, _)| m.0.own.contains(&cell);
        let owner = cluster.machines.iter_mut().find(is_owner).unwrap();
        owner.0.cells.add_seeds(&[seed], BEGINNING).unwrap();
        cluster
    }

    fn now(&self) -> u64 {
        BEGINNING + crate::clock::millis(self.begun.elapsed())
    }

    /// A quarter of a second.
    async fn turn(&mut self) {
        let now = self.now();
        for (machine, links) in &mut self.machines {
            machine.crawl(&self.web, now);
            links
                .turn::<MessagesError>(&mut machine.cells, now, &mut NoOutputs)
                .unwrap();
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }

    /// Runs until every page was requested and every link has arrived.
    async fn finish(&mut self) {
        let all = self.web.all();
        for _ in 0..2_000 {
            self.turn().await;
            let done = self
                .machines
                .iter()
                .flat_map(|(m, _)| m.done.keys().cloned());
            let is_idle = |(m, links): &(Machine, Links<Scripted>)| links.is_idle(&m.cells);
            if BTreeSet::from_iter(done) == all && self.machines.iter().all(is_idle) {
                // Messages under way arrive.
                for _ in 0..10 {
                    self.turn().await;
                }
                return;
            }
        }
        panic!("it does not come to an end");
    }
}

#[tokio::test(start_paused = true)]
async fn links_reach_other_machines_whatever_the_broker_does() {
    let mut cluster = Cluster::new(3, 4);
    let fates = [Fate::Done, Fate::Lost, Fate::Refused, Fate::Late];
    cluster
        .engine
        .next_sends(fates.into_iter().cycle().take(40));
    for turn in 0..60 {
        cluster.turn().await;
        match turn {
            20 => cluster.engine.set_away(true),
            30 => cluster.engine.set_away(false),
            40 => cluster.engine.end_readers(),
            50 => cluster.engine.deliver(),
            _ => {}
        }
    }
    cluster.finish().await;
    let (mut read, mut offers, mut received) = (0, 0, 0);
    for (machine, links) in &mut cluster.machines {
        let tally = links.tally();
        assert_eq!((tally.lost, tally.rejected), (0, 0), "{tally:?}");
        read += tally.sending.read;
        offers += tally.sending.offers;
        received += tally.received;
        // The logs are cut up to what a checkpoint holds.
        let places = machine.own.iter().map(|cell| {
            let place = machine.cells.log_place(*cell).unwrap();
            (*cell, place.sequence)
        });
        links.committed(places.collect::<Vec<_>>());
    }
    assert_eq!(received, offers);
    assert!(offers < read, "{offers} of {read}");
    let held = |cluster: &Cluster| {
        let held = |cell| {
            cluster
                .engine
                .with_log(&log_of(cell), |log| log.messages.len())
        };
        cells().all().map(held).sum::<usize>()
    };
    assert!(held(&cluster) > 3);
    cluster.turn().await;
    cluster.turn().await;
    assert_eq!(held(&cluster), 0);
}

/// A cell that another machine owned is opened here, and takes the links that wait for it.
#[tokio::test(start_paused = true)]
async fn a_cell_that_comes_takes_what_waits_for_it() {
    let mut cluster = Cluster::new(2, 9);
    for _ in 0..4 {
        cluster.turn().await;
    }
    let (lost, _) = cluster.machines.pop().unwrap();
    let (own, done) = (lost.own.clone(), lost.done.clone());
    drop(lost);
    for _ in 0..40 {
        cluster.turn().await;
    }
    let now = cluster.now();
    let (heir, _) = &mut cluster.machines[0];
    for cell in own {
        heir.cells.open_cell(cell, now).unwrap();
        heir.own.push(cell);
    }
    heir.done.extend(done);
    let seed = cluster.web.seed();
    heir.cells.add_seeds(&[seed], now).unwrap();
    cluster.finish().await;
    assert!(cluster.machines[0].0.cells.outbox_targets().is_empty());
    drop(cluster.folder);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_put_aside() {
    let mut cluster = Cluster::new(1, 4);
    let cell = cells().cell(2).unwrap();
    let good = Envelope {
        session: 9,
        number: 1,
        offers: links(3),
    };
    let good = good.to_message().unwrap();
    cluster.engine.with_log(&log_of(cell), |log| {
        log.store("a", &b"\x01damaged"[..].into());
        log.store("b", &good);
        log.store("c", &good);
    });
    for _ in 0..4 {
        cluster.turn().await;
    }
    let (machine, links) = &cluster.machines[0];
    assert_eq!(machine.cells.log_place(cell).unwrap().sequence, 3);
    let tally = links.tally();
    assert_eq!((tally.rejected, tally.received, tally.repeated), (1, 3, 1));
    let aside = cluster.engine.with_log(REJECTED, |log| log.behind(0));
    assert_eq!(aside, [(1, b"\x01damaged"[..].into())]);
}

/// The next owner of the cell reads the promise there, and so does its machine.
#[tokio::test(start_paused = true)]
async fn a_promise_to_a_host_goes_to_the_log_of_its_own_cell() {
    let mut cluster = Cluster::new(1, 4);
    let fates = [Fate::Refused, Fate::Lost, Fate::Refused];
    cluster.engine.next_sends(fates);
    let now = cluster.now();
    let (machine, _) = &mut cluster.machines[0];
    let cell = machine.overload(now);
    for _ in 0..60 {
        let now = cluster.now();
        let (machine, links) = &mut cluster.machines[0];
        links
            .turn::<MessagesError>(&mut machine.cells, now, &mut NoOutputs)
            .unwrap();
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let messages = cluster.engine.with_log(&log_of(cell), |log| log.behind(0));
    let (last, message) = messages.last().unwrap();
    let envelope = Envelope::of(message).unwrap();
    assert_eq!((envelope.number, envelope.offers.len()), (0, 1));
    let (machine, links) = &cluster.machines[0];
    assert_eq!(machine.cells.log_place(cell).unwrap().sequence, *last);
    assert_eq!((links.tally().lost, links.tally().rejected), (0, 0));
}
