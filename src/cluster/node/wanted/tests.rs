use std::sync::Mutex;

use tokio::time::timeout;

use super::*;
use crate::frontier::store::MemoryStore;
use crate::frontier::{CellCount, State};
use crate::page::{Reason, TaskKind};
use crate::scripted::Scripted as Broker;
use crate::wanted::WantedEdit;

/// What was applied, in order: versions, and the seeds of lists.
type Seen = Arc<Mutex<Vec<(u64, Vec<String>)>>>;

/// Records what it has to apply; a process that dies does not finish.
struct Notes {
    seen: Seen,
    dies: bool,
}

impl Obey for Notes {
    async fn obey(&mut self, wanted: &WantedState, lists: Vec<WantedList>) {
        if self.dies {
            std::future::pending::<()>().await;
        }
        let seeds = lists.into_iter().flat_map(|list| list.seeds).collect();
        self.seen.lock().unwrap().push((wanted.version, seeds));
    }
}

/// A machine whose process has started.
struct Machine {
    obeyed: ObeyedState,
    seen: Seen,
    run: tokio::task::JoinHandle<()>,
}

fn begin(broker: &Arc<Broker>, dies: bool) -> Machine {
    let (obeyed, reader) = of(Arc::clone(broker));
    let seen = Seen::default();
    let notes = Notes {
        seen: Arc::clone(&seen),
        dies,
    };
    let run = tokio::spawn(reader.run(notes));
    Machine { obeyed, seen, run }
}

impl Machine {
    /// Waits until the state was read for this term.
    async fn is_current(&mut self, resumed: u64) {
        let current = self.obeyed.current.wait_for(|c| *c == Some(resumed));
        let waited = timeout(Duration::from_secs(120), current).await;
        waited.expect("it takes too long").unwrap();
    }

    fn seen(&self) -> Vec<(u64, Vec<String>)> {
        self.seen.lock().unwrap().clone()
    }
}

async fn seed(broker: &Broker, url: &str) {
    let list = WantedList {
        seeds: vec![url.to_owned()],
        ..WantedList::default()
    };
    WantedState::change(broker, Some(&list), &|_| {})
        .await
        .unwrap();
}

fn of_one(version: u64, url: &str) -> (u64, Vec<String>) {
    (version, vec![url.to_owned()])
}

#[tokio::test(start_paused = true)]
async fn the_last_state_is_applied_with_each_list_once() {
    let broker = Arc::new(Broker::default());
    seed(&broker, "http://a.test/").await;
    let pause: &WantedEdit<'_> = &|wanted| wanted.paused = true;
    WantedState::change(&*broker, None, pause).await.unwrap();
    let mut machine = begin(&broker, false);
    assert!(!machine.obeyed.has_begun() && !machine.obeyed.may_ask(0));
    machine.is_current(0).await;
    assert!(machine.obeyed.may_ask(0));
    assert_eq!(machine.seen(), [of_one(2, "http://a.test/")]);
    seed(&broker, "http://b.test/").await;
    tokio::time::sleep(EVERY / 100).await;
    assert_eq!(machine.seen()[1..], [of_one(3, "http://b.test/")]);
    // Another process of the same machine applies everything again.
    let mut again = begin(&broker, false);
    again.is_current(0).await;
    assert_eq!(again.seen()[0].1.len(), 2);
    drop(machine.obeyed);
    machine.run.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_before_it_has_applied_a_state_has_not_begun() {
    let broker = Arc::new(Broker::default());
    seed(&broker, "http://a.test/").await;
    let dies = begin(&broker, true);
    tokio::time::sleep(EVERY).await;
    dies.run.abort();
    assert!(!dies.obeyed.has_begun());
    let mut machine = begin(&broker, false);
    machine.is_current(0).await;
    assert_eq!(machine.seen(), [of_one(1, "http://a.test/")]);
}

#[tokio::test(start_paused = true)]
async fn after_a_lapse_nothing_is_asked_before_the_state_is_read_again() {
    let broker = Arc::new(Broker::default());
    let mut machine = begin(&broker, false);
    machine.is_current(0).await;
    assert!(machine.obeyed.may_ask(0));
    // It is cut off, and the state changes.
    broker.set_away(true);
    machine.obeyed.asked.send_replace(7);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!machine.obeyed.may_ask(7));
    broker.set_away(false);
    seed(&broker, "http://a.test/").await;
    machine.is_current(7).await;
    assert!(machine.obeyed.may_ask(7));
    assert_eq!(machine.seen()[1..], [of_one(1, "http://a.test/")]);
}

/// A frontier with a page of each of two hosts.
fn cells(folder: &Path) -> Cells {
    let config = crate::config::Config::default();
    let store = Box::new(MemoryStore::new(folder));
    let scope = Scope::new(config.scope.clone());
    let policy = crate::crawl::checkpoint::policy(&config);
    let mut cells = Cells::over(store, CellCount::new(4).unwrap(), policy, scope).unwrap();
    cells.open_all(NOW).unwrap();
    cells
        .add_seeds(&[url("http://a.test/"), url("http://b.test/")], NOW)
        .unwrap();
    cells
}

const NOW: u64 = 1_000_000;

fn url(text: &str) -> PageUrl {
    PageUrl::parse(text).unwrap()
}

/// The takedown is on disk and nothing of it is leased at once; it is applied when no task is open.
#[tokio::test(start_paused = true)]
async fn a_takedown_is_applied_when_nothing_of_it_can_be_asked_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let (mut obeyed, reader) = of(Arc::new(Broker::default()));
    let mut cells = cells(folder.path());
    let mut known = Vec::new();
    let open = cells.lease_any(NOW).unwrap().unwrap();
    let order = |host: &str| scope::Order {
        time: "2026-01-02T03:04:05.000Z".to_owned(),
        target: scope::Target::Host(host.parse().unwrap()),
        reason: None,
    };
    let errands = reader.errands();
    let errand = WantedErrand {
        takedowns: vec![order("a.test")],
        ..WantedErrand::default()
    };
    let mut done = tokio::spawn(async move { errands.run(errand).await });
    tokio::task::yield_now().await;
    let mut turn = |obeyed: &mut ObeyedState, cells: &mut Cells| {
        let place = (folder.path(), cells);
        obeyed.turn(place, &mut known, 0, NOW).unwrap();
    };
    turn(&mut obeyed, &mut cells);
    let list = crate::crawl::checkpoint::takedowns(folder.path()).unwrap();
    assert_eq!(list.orders(), [order("a.test")]);
    assert!(cells.scope().page(&url("http://a.test/x"), 0).is_err());
    let waits = timeout(Duration::from_secs(60), &mut done).await;
    assert!(waits.is_err() && !obeyed.is_quiet(), "a task is open");

    cells.abandon(&open, NOW).unwrap();
    turn(&mut obeyed, &mut cells);
    done.await.unwrap();
    assert!(obeyed.is_quiet());
    let state = |cells: &Cells, text: &str| {
        let record = cells.look_up(&url(text), TaskKind::Page).unwrap();
        record.map(|record| record.state)
    };
    let reason = Reason::Takedown;
    assert_eq!(
        state(&cells, "http://a.test/"),
        Some(State::Dropped { reason })
    );
    assert_eq!(state(&cells, "http://b.test/"), Some(State::Queued));
    let mut leased = Vec::new();
    while let Some(task) = cells.lease_any(NOW).unwrap() {
        leased.push(task.host.to_string());
    }
    assert_eq!(leased, ["b.test"]);
}

#[tokio::test(start_paused = true)]
async fn seeds_are_kept_for_cells_that_are_opened_later() {
    let folder = tempfile::tempdir().unwrap();
    let (mut obeyed, reader) = of(Arc::new(Broker::default()));
    let mut cells = cells(folder.path());
    let mut known = vec![url("http://a.test/")];
    let errands = reader.errands();
    let errand = WantedErrand {
        seeds: vec![url("http://a.test/"), url("http://c.test/")],
        is_paused: true,
        ..WantedErrand::default()
    };
    let done = tokio::spawn(async move { errands.run(errand).await });
    while !done.is_finished() {
        let place = (folder.path(), &mut cells);
        obeyed.turn(place, &mut known, 0, NOW).unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(known, [url("http://a.test/"), url("http://c.test/")]);
    assert!(!obeyed.is_quiet(), "a crawl that pauses is never done");
}
