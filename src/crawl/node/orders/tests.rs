use std::sync::Mutex;

use super::*;
use crate::crawl::cluster::orders::Act;
use crate::crawl::cluster::told::{Fate, Told as Broker};
use crate::crawl::frontier::store::MemoryStore;
use crate::crawl::frontier::{CellCount, State};
use crate::page::{Reason, TaskKind};

/// What was applied, in its order.
type Seen = Arc<Mutex<Vec<(u64, Act)>>>;

/// Notes what it is to apply; a process that dies does not come to the end of it.
struct Notes {
    seen: Seen,
    dies: bool,
}

impl Obey for Notes {
    async fn obey(&mut self, orders: Vec<(u64, Order)>) {
        if self.dies {
            std::future::pending::<()>().await;
        }
        let orders = orders
            .into_iter()
            .map(|(number, order)| (number, order.act));
        self.seen.lock().unwrap().extend(orders);
    }
}

/// A machine whose process has begun.
struct Machine {
    orders: Orders,
    session: mpsc::UnboundedReceiver<Told>,
    seen: Seen,
    run: tokio::task::JoinHandle<()>,
}

fn begin(broker: &Arc<Broker>, dies: bool) -> Machine {
    let (sends, session) = mpsc::unbounded_channel();
    let (orders, reader) = of(Arc::clone(broker), "n1".to_owned(), sends);
    let seen = Seen::default();
    let notes = Notes {
        seen: Arc::clone(&seen),
        dies,
    };
    let run = tokio::spawn(reader.run(notes));
    Machine {
        orders,
        session,
        seen,
        run,
    }
}

impl Machine {
    /// Waits until the log was read to its end for this term.
    async fn is_current(&mut self, resumed: u64) {
        let current = self.orders.current.wait_for(|c| *c == Some(resumed));
        let waited = timeout(Duration::from_secs(120), current).await;
        waited.expect("it takes too long").unwrap();
    }

    /// Waits until it has said that an order was applied.
    async fn confirms(&mut self) -> Told {
        let told = timeout(Duration::from_secs(120), self.session.recv()).await;
        told.expect("it takes too long").unwrap()
    }

    fn seen(&self) -> Vec<(u64, Act)> {
        self.seen.lock().unwrap().clone()
    }
}

fn seeds(url: &str) -> Act {
    Act::Seeds {
        urls: vec![url.to_owned()],
    }
}

async fn give(broker: &Broker, id: &str, act: Act) {
    let [by, node, time] = ["tests", "n2", "2026-01-02T03:04:05.000Z"].map(str::to_owned);
    let order = Order::new(id.to_owned(), by, node, time, act);
    append(broker, &order).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn orders_are_applied_in_the_order_of_the_log_and_confirmed() {
    let broker = Arc::new(Broker::default());
    give(&broker, "a", Act::Pause).await;
    broker
        .send(LOG, "x", "{\"kind\":\"dance\"}".into())
        .await
        .unwrap();
    give(&broker, "b", Act::Resume).await;
    let mut machine = begin(&broker, false);
    assert!(!machine.orders.has_begun() && !machine.orders.may_ask(0));
    machine.is_current(0).await;
    assert!(machine.orders.may_ask(0));
    assert_eq!(machine.seen(), [(1, Act::Pause), (3, Act::Resume)]);
    assert_eq!(machine.confirms().await, Told::Applied(3));
    give(&broker, "c", seeds("http://a.test/")).await;
    assert_eq!(machine.confirms().await, Told::Applied(4));
    assert_eq!(machine.seen()[2..], [(4, seeds("http://a.test/"))]);
    // What ends is read again from where it was.
    broker.end_readers();
    give(&broker, "d", Act::Pause).await;
    assert_eq!(machine.confirms().await, Told::Applied(5));
    assert_eq!(machine.seen()[3..], [(5, Act::Pause)]);
    drop(machine.orders);
    machine.run.await.unwrap();
}

/// Whoever reaches the brokers can fill the log; it is read past, whatever is in it.
#[tokio::test(start_paused = true)]
async fn messages_that_are_no_orders_hold_up_nothing() {
    let broker = Arc::new(Broker::default());
    let junk = async |from: usize| {
        for n in from..from + 20_000 {
            let text = ["", "{", "null", "{\"kind\":\"dance\"}", "\u{fffd}"][n % 5];
            broker
                .send(LOG, &format!("x{n}"), text.into())
                .await
                .unwrap();
        }
    };
    junk(0).await;
    give(&broker, "a", Act::Pause).await;
    for n in 0..2 * BATCH {
        give(&broker, &format!("b{n}"), seeds("http://a.test/")).await;
    }
    junk(20_000).await;
    let mut machine = begin(&broker, false);
    machine.is_current(0).await;
    let seen = machine.seen();
    assert_eq!(seen.len(), 2 * BATCH + 1);
    assert_eq!(seen[0], (20_001, Act::Pause));
    assert!(seen.is_sorted_by_key(|(number, _)| *number));
    // The last part of the log has none.
    let mut confirmed = Vec::new();
    while let Ok(Told::Applied(up_to)) = machine.session.try_recv() {
        confirmed.push(up_to);
    }
    assert_eq!(confirmed.last(), Some(&(40_001 + 2 * BATCH as u64)));
    assert!(
        confirmed.len() == 3 && confirmed.is_sorted(),
        "{confirmed:?}"
    );
    give(&broker, "c", Act::Resume).await;
    assert_eq!(
        machine.confirms().await,
        Told::Applied(40_002 + 2 * BATCH as u64)
    );
    assert_eq!(
        machine.seen().last().map(|(_, act)| act.clone()),
        Some(Act::Resume)
    );
}

/// The answer to the one who gives it is lost, and the process dies before it has applied it.
#[tokio::test(start_paused = true)]
async fn an_order_outlives_whoever_gave_it_and_is_stored_once() {
    let broker = Arc::new(Broker::default());
    broker.next_sends([Fate::Lost, Fate::Refused]);
    give(&broker, "a", Act::Pause).await;
    assert_eq!(broker.with_log(LOG, |log| log.behind(0).len()), 1);
    let mut dies = begin(&broker, true);
    tokio::task::yield_now().await;
    dies.run.abort();
    assert!(dies.session.try_recv().is_err() && !dies.orders.has_begun());
    let mut machine = begin(&broker, false);
    assert_eq!(machine.confirms().await, Told::Applied(1));
    machine.is_current(0).await;
    assert_eq!(machine.seen(), [(1, Act::Pause)]);
    // Another process of the same machine applies it again.
    let mut again = begin(&broker, false);
    again.is_current(0).await;
    assert_eq!(again.seen(), [(1, Act::Pause)]);
}

#[tokio::test(start_paused = true)]
async fn after_a_lapse_nothing_is_asked_before_the_log_is_read_again() {
    let broker = Arc::new(Broker::default());
    let mut machine = begin(&broker, false);
    machine.is_current(0).await;
    assert!(machine.orders.may_ask(0));
    // It is cut off, and others are told something.
    broker.set_away(true);
    broker.end_readers();
    machine.orders.asked.send_replace(7);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!machine.orders.may_ask(7));
    broker.set_away(false);
    give(&broker, "a", seeds("http://a.test/")).await;
    machine.is_current(7).await;
    assert!(machine.orders.may_ask(7));
    assert_eq!(machine.seen(), [(1, seeds("http://a.test/"))]);
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

/// It is on the disk and nothing of it is leased at once; it is confirmed when no task is open.
#[tokio::test(start_paused = true)]
async fn a_takedown_is_confirmed_when_nothing_of_it_can_be_asked_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Arc::new(Broker::default());
    let (sends, _session) = mpsc::unbounded_channel();
    let (mut orders, reader) = of(broker, "n1".to_owned(), sends);
    let mut cells = cells(folder.path());
    let mut known = Vec::new();
    let open = cells.lease_any(NOW).unwrap().unwrap();
    let order = |host: &str| scope::Order {
        time: "2026-01-02T03:04:05.000Z".to_owned(),
        target: scope::Target::Host(host.parse().unwrap()),
        reason: None,
    };
    let errands = reader.errands();
    let given = vec![order("a.test")];
    let mut done = tokio::spawn(async move { errands.take_down(given).await });
    tokio::task::yield_now().await;
    let mut turn = |orders: &mut Orders, cells: &mut Cells| {
        let place = (folder.path(), cells);
        orders.turn(place, &mut known, 0, NOW).unwrap();
    };
    turn(&mut orders, &mut cells);
    let list = crate::crawl::checkpoint::takedowns(folder.path()).unwrap();
    assert_eq!(list.orders(), [order("a.test")]);
    assert!(cells.scope().page(&url("http://a.test/x"), 0).is_err());
    let waits = timeout(Duration::from_secs(60), &mut done).await;
    assert!(waits.is_err() && !orders.is_quiet(), "a task is open");

    cells.abandon(&open, NOW).unwrap();
    turn(&mut orders, &mut cells);
    done.await.unwrap();
    assert!(orders.is_quiet());
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
    let (sends, _session) = mpsc::unbounded_channel();
    let (mut orders, reader) = of(Arc::new(Broker::default()), "n1".to_owned(), sends);
    let mut cells = cells(folder.path());
    let mut known = vec![url("http://a.test/")];
    let errands = reader.errands();
    let more = vec![url("http://a.test/"), url("http://c.test/")];
    let done = tokio::spawn(async move {
        errands.seeds(more).await;
        errands.pause(true).await;
    });
    while !done.is_finished() {
        let place = (folder.path(), &mut cells);
        orders.turn(place, &mut known, 0, NOW).unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(known, [url("http://a.test/"), url("http://c.test/")]);
    assert!(!orders.is_quiet(), "a crawl that pauses is never done");
}
