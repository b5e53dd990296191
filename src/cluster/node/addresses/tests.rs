//! Two machines with one engine and real clocks. Nothing here takes longer than a pass.

use std::time::Instant;

use tokio::sync::watch::Sender;

use super::*;
use crate::Alone;
use crate::address::PageUrl;
use crate::page::{Booking, Bucket, TaskKind};

const DELAY: Duration = Duration::from_millis(60);
const PASS: u64 = 400;

fn task(host: &str, address: Option<IpAddr>, address_delay: Duration) -> Task {
    let url = PageUrl::parse(&format!("http://{host}/")).unwrap();
    Task {
        locate: false,
        lease: 1,
        kind: TaskKind::Page,
        host: url.host_key(),
        url,
        via: None,
        hops: 0,
        redirects: 0,
        attempts: 0,
        bucket: Bucket::Seed,
        score: 0.0,
        parts: None,
        validators: Default::default(),
        terms: Default::default(),
        booking: Booking {
            address,
            address_delay,
            ..Booking::default()
        },
        control: false,
    }
}

fn at_home(host: &str) -> Task {
    task(host, Some(IpAddr::from([127, 0, 0, 1])), DELAY)
}

struct Machine {
    addresses: Addresses<Alone>,
    standing: Sender<Standing>,
    _running: Running,
}

impl Machine {
    /// A machine whose term runs, with the only cell or none.
    fn new(engine: &Arc<Alone>, number: u64, cells: &[CellId]) -> Self {
        let (standing, seen) = watch::channel(standing(cells));
        let setting = Setting {
            machine: number,
            cells: CellCount::ONE,
            times: PassTimes::of(PASS),
        };
        let place = (Arc::clone(engine), Runtime::current());
        let addresses = Addresses::new(place, seen, setting, AddressClocks::default());
        Self {
            _running: addresses.serve(),
            addresses,
            standing,
        }
    }

    async fn enter(&self, task: &Task) -> Entry {
        self.addresses.enter(task).await
    }

    async fn pass(&self, task: &Task) -> Box<dyn Pass> {
        match self.enter(task).await {
            Entry::With(pass) => pass,
            Entry::Free => panic!("it needs no pass"),
            Entry::Refused => panic!("it gets no pass"),
        }
    }

    async fn must_be_refused(&self, task: &Task) {
        assert!(matches!(self.enter(task).await, Entry::Refused));
    }
}

fn standing(cells: &[CellId]) -> Standing {
    Standing {
        until: now() + 60_000,
        cells: cells.iter().map(|cell| (*cell, 0)).collect(),
        ..Standing::default()
    }
}

fn cell() -> CellId {
    CellCount::ONE.cell(0).unwrap()
}

/// An owner and another machine, once the owner receives its questions.
async fn two() -> (Machine, Machine) {
    let engine = Arc::new(Alone::default());
    let owner = Machine::new(&engine, 1, &[cell()]);
    let other = Machine::new(&engine, 2, &[]);
    while engine.ask(&subject_of(cell()), hello()).await.is_err() {
        tokio::task::yield_now().await;
    }
    (owner, other)
}

/// A question about an address that is not used otherwise.
fn hello() -> bytes::Bytes {
    let query = Query {
        wish: Wish::GoOn,
        address: IpAddr::from([127, 9, 9, 9]),
        pass: PassId {
            machine: 9,
            number: 9,
        },
        delay: 0,
    };
    query.to_bytes()
}

#[tokio::test]
async fn two_machines_share_the_clock_of_an_address() {
    let (owner, other) = two().await;
    let task = at_home("a.example");
    let pass = other.pass(&task).await;
    // The same address in another form; the owner asks itself.
    let mapped = IpAddr::from(std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    let mapped = self::task("b.example", Some(mapped), DELAY);
    let waits = owner.pass(&mapped);
    tokio::pin!(waits);
    let early = timeout(2 * DELAY, &mut waits).await;
    assert!(early.is_err(), "two at once");
    let ended = Instant::now();
    drop(pass);
    let pass = waits.await;
    assert!(ended.elapsed() >= DELAY - Duration::from_millis(1));
    // The other way round; by now the frontier of each knows.
    let address = IpAddr::from([127, 0, 0, 1]);
    let waits = other.pass(&task);
    tokio::pin!(waits);
    assert!(timeout(DELAY / 2, &mut waits).await.is_err());
    assert!(other.addresses.0.own.due(address) > now());
    let ended = Instant::now();
    drop(pass);
    drop(waits.await);
    assert!(ended.elapsed() >= DELAY - Duration::from_millis(1));
}

#[tokio::test]
async fn what_shares_no_clock_is_free() {
    let (owner, _) = two().await;
    let address = IpAddr::from([127, 0, 0, 1]);
    for task in [
        task("a.example", None, DELAY),
        task("a.example", Some(address), Duration::ZERO),
    ] {
        assert!(matches!(owner.enter(&task).await, Entry::Free));
    }
}

#[tokio::test]
async fn without_an_answer_nothing_is_sent() {
    let engine = Arc::new(Alone::default());
    let other = Machine::new(&engine, 2, &[]);
    other.must_be_refused(&at_home("a.example")).await;
    let address = IpAddr::from([127, 0, 0, 1]);
    assert!(other.addresses.0.own.due(address) > now());
    // Its own term is over, and a machine that has just taken the cell waits for long.
    let owner = Machine::new(&engine, 1, &[cell()]);
    owner.standing.send_modify(|s| s.until = now());
    owner.must_be_refused(&at_home("a.example")).await;
    let from = now() + 60_000;
    owner.standing.send_modify(|s| {
        s.until = from;
        s.cells.insert(cell(), from);
    });
    owner.must_be_refused(&at_home("a.example")).await;
    assert!(owner.addresses.0.own.due(address) >= from);
}

#[tokio::test]
async fn no_task_waits_when_it_is_of_no_use() {
    let (owner, other) = two().await;
    let task = at_home("a.example");
    let _pass = owner.pass(&at_home("b.example")).await;
    let ends = || other.addresses.close(true);
    let leaves = || other.addresses.release(true, [].into_iter());
    let gives = || other.addresses.release(false, [cell()].into_iter());
    let is_over = || other.standing.send_modify(|s| s.until = 0);
    let closes: [&dyn Fn(); 4] = [&ends, &leaves, &gives, &is_over];
    for close in closes {
        let waits = other.enter(&task);
        tokio::pin!(waits);
        assert!(timeout(DELAY / 3, &mut waits).await.is_err());
        close();
        let entry = timeout(DELAY / 3, waits).await;
        assert!(matches!(entry, Ok(Entry::Refused)));
        other.must_be_refused(&task).await;
        other.addresses.close(false);
        other.addresses.release(false, [].into_iter());
    }
}

#[tokio::test]
async fn a_pass_lasts_as_long_as_its_owner_says() {
    let (owner, other) = two().await;
    let mut pass = other.pass(&at_home("a.example")).await;
    let longer = Duration::from_millis(2 * PASS);
    assert!(timeout(longer, pass.lost()).await.is_err());
    // The owner no longer answers.
    owner.standing.send_modify(|s| s.until = 0);
    let most = Duration::from_millis(PASS + PASS / 2);
    assert!(timeout(most, pass.lost()).await.is_ok());
    // The end is not reported, so the owner waits until the pass has expired.
    drop(pass);
    owner.standing.send_replace(standing(&[cell()]));
    let next = at_home("b.example");
    assert!(timeout(DELAY, owner.pass(&next)).await.is_err());
}
