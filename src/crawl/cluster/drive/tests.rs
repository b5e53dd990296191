use std::time::Duration;

use tokio::time::Instant;

use super::super::record::Node;
use super::super::told::{Fate, Told};
use super::super::{Alone, SHORTEST_TERM};
use super::*;
use crate::page::Bucket;

const CELLS: u16 = 8;

fn setting(node: &str, secret: u64) -> Setting {
    Setting {
        node: Node::new(node).unwrap(),
        secret,
        weight: 1.0,
        cells: CellCount::new(CELLS).unwrap(),
        terms: Terms::new(SHORTEST_TERM, Duration::from_secs(10)),
    }
}

/// A clock that the test moves, as tokio's. [`Term`] has the clock of the process, so
/// both begin at the same time, and the test's is only ever ahead.
fn clock() -> impl Fn() -> u64 + Clone + Send + 'static {
    let (begun, base) = (Instant::now(), crate::clock::now());
    move || base + crate::clock::millis(begun.elapsed())
}

struct Node1 {
    handle: Handle,
    run: tokio::task::JoinHandle<Over>,
    term: Term,
}

fn start<E: Engine>(
    engine: &Arc<E>,
    name: &str,
    secret: u64,
    clock: &(impl Fn() -> u64 + Clone + Send + 'static),
) -> Node1 {
    let term = Term::default();
    let setting = setting(name, secret);
    let (driver, handle) = Driver::new(Arc::clone(engine), setting, clock.clone(), term.clone());
    let run = tokio::spawn(driver.run());
    Node1 { handle, run, term }
}

impl Node1 {
    /// Waits until it has so many cells.
    async fn has(&mut self, cells: usize) -> Standing {
        let has = |standing: &Standing| standing.cells.len() == cells;
        let waits = self.handle.standing.wait_for(has);
        let standing = tokio::time::timeout(Duration::from_secs(120), waits).await;
        standing.expect("it takes too long").unwrap().clone()
    }

    /// Waits until it is told so.
    async fn is_told(&mut self, wanted: impl Fn(&News) -> bool) -> News {
        let news = async {
            loop {
                let news = self.handle.news.recv().await.unwrap();
                if wanted(&news) {
                    return news;
                }
            }
        };
        let limit = Duration::from_secs(120);
        let news = tokio::time::timeout(limit, news).await;
        news.expect("it takes too long")
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_alone_has_all_cells_until_it_leaves() {
    let clock = clock();
    let engine = Arc::new(Alone::default());
    let mut node = start(&engine, "n1", 1, &clock);
    let standing = node.has(usize::from(CELLS)).await;
    assert!(standing.until > clock() && node.term.runs());
    node.handle.orders.send(Order::Leave).unwrap();
    for _ in 0..CELLS {
        let news = node.is_told(|news| matches!(news, News::Give(_))).await;
        let News::Give(cell) = news else { continue };
        let orders = &node.handle.orders;
        orders
            .send(Order::Commit(1, Amount::default(), Vec::new()))
            .unwrap();
        orders.send(Order::Give(cell, 1)).unwrap();
    }
    assert_eq!(node.run.await.unwrap(), Over::Left);
    assert!(!node.term.runs());
    // The next session of the same node goes on.
    let mut next = start(&engine, "n1", 2, &clock);
    let taken = next
        .is_told(|news| matches!(news, News::Taken { .. }))
        .await;
    let News::Taken { state, .. } = taken else {
        return;
    };
    assert!(state.clean && state.bases[0].checkpoint == 1, "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn the_cells_of_a_machine_that_is_gone_are_taken() {
    let clock = clock();
    let engine = Arc::new(Told::default());
    let mut first = start(&engine, "n1", 1, &clock);
    first.has(usize::from(CELLS)).await;
    first
        .handle
        .orders
        .send(Order::Commit(3, Amount::default(), Vec::new()))
        .unwrap();
    let committed = |standing: &Standing| standing.committed == 3;
    first.handle.standing.wait_for(committed).await.unwrap();
    let mut second = start(&engine, "n2", 2, &clock);
    // Another process with the name of one that lives is refused.
    let third = start(&engine, "n1", 3, &clock);
    assert_eq!(third.run.await.unwrap(), Over::NameTaken);
    first.run.abort();
    assert!(first.run.await.unwrap_err().is_cancelled());
    assert!(!first.term.runs());
    let standing = second.has(usize::from(CELLS)).await;
    let quiet = setting("n2", 2).terms.quiet();
    let from = standing.cells.values().max().unwrap();
    assert!(from - clock() <= crate::clock::millis(quiet));
    let taken = second
        .is_told(|news| matches!(news, News::Taken { .. }))
        .await;
    let News::Taken { state, .. } = taken else {
        return;
    };
    assert!(!state.clean && state.bases[0].checkpoint == 3, "{state:?}");
}

/// The client keeps what it could not send, and sends it later.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_sent_late_is_nobody_elses() {
    let clock = clock();
    let engine = Arc::new(Told::default());
    let mut node = start(&engine, "n1", 1, &clock);
    node.has(usize::from(CELLS)).await;
    for fate in [Fate::Late, Fate::Lost, Fate::Refused] {
        engine.next_swaps("s.", [fate; 3]);
        tokio::time::sleep(2 * SHORTEST_TERM).await;
        engine.deliver();
        tokio::time::sleep(3 * SHORTEST_TERM).await;
        let standing = node.has(usize::from(CELLS)).await;
        assert!(standing.until > clock(), "{fate:?}");
        assert!(!node.run.is_finished(), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_broker_the_term_ends_and_goes_on_after_a_quiet_time() {
    let clock = clock();
    let engine = Arc::new(Told::default());
    let mut node = start(&engine, "n1", 1, &clock);
    node.has(usize::from(CELLS)).await;
    engine.set_away(true);
    let ended = |standing: &Standing| standing.until == 0;
    node.handle.standing.wait_for(ended).await.unwrap();
    assert!(!node.term.runs());
    engine.set_away(false);
    let back = clock();
    let goes_on = |standing: &Standing| standing.until > 0;
    node.handle.standing.wait_for(goes_on).await.unwrap();
    assert!(clock() - back >= crate::clock::millis(setting("n1", 1).terms.quiet()));
    assert_eq!(
        node.has(usize::from(CELLS)).await.cells.len(),
        usize::from(CELLS)
    );
}

/// What a node with this secret would have written down.
fn kept(standing: &Standing, secret: u64, cells: BTreeMap<CellId, Revision>) -> Kept {
    Kept {
        sender: None,
        session: standing.session.clone().unwrap(),
        secrets: [secret].into(),
        made: 0,
        used: Amount::default(),
        cells,
    }
}

impl Node1 {
    /// The cells that it was told to have.
    async fn revisions(&mut self) -> BTreeMap<CellId, Revision> {
        let mut cells = BTreeMap::new();
        while cells.len() < usize::from(CELLS) {
            let taken = self
                .is_told(|news| matches!(news, News::Taken { .. }))
                .await;
            if let News::Taken { cell, revision, .. } = taken {
                cells.insert(cell, revision);
            }
        }
        cells
    }
}

fn resume<E: Engine>(
    engine: &Arc<E>,
    secret: u64,
    kept: Kept,
    clock: &(impl Fn() -> u64 + Clone + Send + 'static),
) -> Node1 {
    let (term, engine) = (Term::default(), Arc::clone(engine));
    let setting = setting("n1", secret);
    let (driver, handle) = Driver::resume(engine, setting, kept, clock.clone(), term.clone());
    let run = tokio::spawn(driver.run());
    Node1 { handle, run, term }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_started_again_keeps_session_and_cells() {
    let clock = clock();
    let engine = Arc::new(Told::default());
    let mut first = start(&engine, "n1", 1, &clock);
    let standing = first.has(usize::from(CELLS)).await;
    let kept = kept(&standing, 1, first.revisions().await);
    first.run.abort();
    tokio::time::sleep(SHORTEST_TERM).await;
    let mut next = resume(&engine, 2, kept.clone(), &clock);
    let begun = clock();
    let again = next.has(usize::from(CELLS)).await;
    assert_eq!(again.session, standing.session);
    next.is_told(|news| matches!(news, News::Kept(_))).await;
    let goes_on = |standing: &Standing| standing.until > 0;
    next.handle.standing.wait_for(goes_on).await.unwrap();
    assert!(clock() - begun >= crate::clock::millis(setting("n1", 1).terms.quiet()));

    // A copy of the disk goes on, and the process it was copied from does not.
    let copy = Kept {
        secrets: [1, 2].into(),
        ..kept
    };
    let mut other = resume(&engine, 3, copy, &clock);
    other.has(usize::from(CELLS)).await;
    assert_eq!(next.run.await.unwrap(), Over::NameTaken);
    assert!(!next.term.runs());
    other.handle.standing.wait_for(goes_on).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_others_have_taken_meanwhile_is_not_kept() {
    let clock = clock();
    let engine = Arc::new(Told::default());
    let mut first = start(&engine, "n1", 1, &clock);
    let standing = first.has(usize::from(CELLS)).await;
    let kept = kept(&standing, 1, first.revisions().await);
    first.run.abort();
    let mut second = start(&engine, "n2", 2, &clock);
    second.has(usize::from(CELLS)).await;
    let mut next = resume(&engine, 3, kept, &clock);
    for _ in 0..CELLS {
        next.is_told(|news| matches!(news, News::Lost(_))).await;
    }
    assert_eq!(next.run.await.unwrap(), Over::Fenced);
    assert!(!next.term.runs());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_the_broker_has_forgotten_is_over() {
    let clock = clock();
    let engine = Arc::new(Told::default());
    let before = engine.state();
    let mut node = start(&engine, "n1", 1, &clock);
    node.has(usize::from(CELLS)).await;
    engine.set_back(before);
    assert_eq!(node.run.await.unwrap(), Over::Forgotten);
    assert!(!node.term.runs());
}

/// What a machine that is gone had taken and not brought, another one takes; also where the
/// broker loses answers.
#[tokio::test(start_paused = true)]
async fn permits_of_a_machine_that_is_gone_are_taken() {
    use super::super::Ceiling;
    let documents = |documents| Amount {
        documents,
        ..Amount::default()
    };
    let ask = |number, used, wanted| {
        let ceiling = Ceiling {
            documents: Some(100),
            ..Ceiling::default()
        };
        Order::Ask(Ask {
            number,
            ceiling,
            used: documents(used),
            wanted: documents(wanted),
        })
    };
    async fn granted(node: &mut Node1, hand: u64) -> Grant {
        let has = |standing: &Standing| standing.permits.hand.documents == hand;
        let waits = node.handle.standing.wait_for(has);
        let standing = tokio::time::timeout(Duration::from_secs(120), waits).await;
        standing.expect("it takes too long").unwrap().permits
    }
    let clock = clock();
    let engine = Arc::new(Told::default());
    let mut first = start(&engine, "n1", 1, &clock);
    first.has(usize::from(CELLS)).await;
    let mut second = start(&engine, "n2", 2, &clock);
    let begun = |standing: &Standing| standing.begun;
    second.handle.standing.wait_for(begun).await.unwrap();
    engine.next_swaps("p", [Fate::Lost, Fate::Late, Fate::Done, Fate::Lost]);
    first.handle.orders.send(ask(1, 0, 80)).unwrap();
    assert!(!granted(&mut first, 80).await.full.documents);
    second.handle.orders.send(ask(1, 0, 60)).unwrap();
    granted(&mut second, 20).await;
    engine.deliver();
    // Both know that nothing is left.
    for node in [&mut first, &mut second] {
        let full = |standing: &Standing| standing.permits.full.documents;
        let waits = node.handle.standing.wait_for(full);
        let full = tokio::time::timeout(Duration::from_secs(120), waits).await;
        drop(full.expect("it takes too long").unwrap());
    }
    // It gives some back, brings 15, of which 10 count, and is gone.
    first.handle.orders.send(ask(2, 10, 70)).unwrap();
    granted(&mut second, 30).await;
    let commit = Order::Commit(1, documents(10), Vec::new());
    first.handle.orders.send(commit).unwrap();
    let committed = |standing: &Standing| standing.committed == 1;
    first.handle.standing.wait_for(committed).await.unwrap();
    first.handle.orders.send(ask(3, 15, 70)).unwrap();
    first.run.abort();
    granted(&mut second, 60).await;
    second.handle.orders.send(ask(2, 60, 100)).unwrap();
    let grant = granted(&mut second, 90).await;
    assert!(grant.full.documents, "{grant:?}");
}

/// A machine hears of the best link of those that were heard of lately.
#[tokio::test(start_paused = true)]
async fn the_best_link_of_others_is_known() {
    let clock = clock();
    let engine = Arc::new(Told::default());
    let mut nodes = Vec::new();
    for (name, secret) in [("n1", 1), ("n2", 2), ("n3", 3)] {
        nodes.push(start(&engine, name, secret, &clock));
    }
    let link = |score: f64| Some(Best::from((Bucket::High, score)));
    for (node, best) in nodes.iter().zip([link(5.0), link(3.0), None]) {
        node.handle.orders.send(Order::Best(best)).unwrap();
    }
    for (number, beside) in [link(3.0), link(5.0), link(3.0)].into_iter().enumerate() {
        let standing = &mut nodes[number].handle.standing;
        let hears = |standing: &Standing| standing.beside == beside;
        let heard = tokio::time::timeout(Duration::from_secs(20), standing.wait_for(hears)).await;
        assert!(heard.is_ok(), "{number}");
    }
    // One that is gone has no links that anybody waits for, long before its cells are taken.
    nodes.remove(1).run.abort();
    let gone = clock();
    let standing = &mut nodes[1].handle.standing;
    let hears = |standing: &Standing| standing.beside == link(5.0);
    standing.wait_for(hears).await.unwrap();
    assert!(clock() - gone <= crate::clock::millis(SHORTEST_TERM) + 2_000);
}
