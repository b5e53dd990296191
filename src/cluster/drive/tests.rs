use std::time::Duration;

use tokio::time::Instant;

use super::super::record::Node;
use super::super::scripted::{Fate, Scripted};
use super::super::{Alone, SHORTEST_TERM};
use super::*;

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

/// A clock that the test moves, like tokio's. [`Term`] uses the clock of the process, so both start
/// at the same time, and the test's is only ever ahead.
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
    /// Waits until it owns this many cells.
    async fn has(&mut self, cells: usize) -> Standing {
        let has = |standing: &Standing| standing.cells.len() == cells;
        let waits = self.handle.standing.wait_for(has);
        let standing = tokio::time::timeout(Duration::from_secs(120), waits).await;
        standing.expect("it takes too long").unwrap().clone()
    }

    /// Waits for news of this kind.
    async fn next_news(&mut self, wanted: impl Fn(&News) -> bool) -> News {
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
async fn a_machine_alone_has_all_cells_until_it_leaves() {
    let clock = clock();
    let engine = Arc::new(Alone::default());
    let mut node = start(&engine, "n1", 1, &clock);
    let standing = node.has(usize::from(CELLS)).await;
    assert!(standing.until > clock() && node.term.runs());
    node.handle.commands.send(SessionCommand::Leave).unwrap();
    for _ in 0..CELLS {
        let news = node.next_news(|news| matches!(news, News::Give(_))).await;
        let News::Give(cell) = news else { continue };
        let commands = &node.handle.commands;
        commands
            .send(SessionCommand::Commit(1, Amount::default(), Vec::new()))
            .unwrap();
        commands.send(SessionCommand::Give(cell, 1)).unwrap();
    }
    assert_eq!(node.run.await.unwrap(), Over::Left);
    assert!(!node.term.runs());
    // The next session of the same node continues.
    let mut next = start(&engine, "n1", 2, &clock);
    let taken = next
        .next_news(|news| matches!(news, News::Taken { .. }))
        .await;
    let News::Taken { state, .. } = taken else {
        return;
    };
    assert!(state.clean && state.bases[0].checkpoint == 1, "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn the_cells_of_a_machine_that_is_gone_are_taken() {
    let clock = clock();
    let engine = Arc::new(Scripted::default());
    let mut first = start(&engine, "n1", 1, &clock);
    first.has(usize::from(CELLS)).await;
    first
        .handle
        .commands
        .send(SessionCommand::Commit(3, Amount::default(), Vec::new()))
        .unwrap();
    let committed = |standing: &Standing| standing.committed == 3;
    first.handle.standing.wait_for(committed).await.unwrap();
    let mut second = start(&engine, "n2", 2, &clock);
    // Another process with the name of a live one is refused.
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
        .next_news(|news| matches!(news, News::Taken { .. }))
        .await;
    let News::Taken { state, .. } = taken else {
        return;
    };
    assert!(!state.clean && state.bases[0].checkpoint == 3, "{state:?}");
}

/// The client keeps what it could not send, and sends it later.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_sent_late_counts_for_no_other_session() {
    let clock = clock();
    let engine = Arc::new(Scripted::default());
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
    let engine = Arc::new(Scripted::default());
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

/// What a node with this secret would have kept.
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
    /// The cells that it took, by the news.
    async fn revisions(&mut self) -> BTreeMap<CellId, Revision> {
        let mut cells = BTreeMap::new();
        while cells.len() < usize::from(CELLS) {
            let taken = self
                .next_news(|news| matches!(news, News::Taken { .. }))
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
    let engine = Arc::new(Scripted::default());
    let mut first = start(&engine, "n1", 1, &clock);
    let standing = first.has(usize::from(CELLS)).await;
    let kept = kept(&standing, 1, first.revisions().await);
    first.run.abort();
    tokio::time::sleep(SHORTEST_TERM).await;
    let mut next = resume(&engine, 2, kept.clone(), &clock);
    let begun = clock();
    let again = next.has(usize::from(CELLS)).await;
    assert_eq!(again.session, standing.session);
    next.next_news(|news| matches!(news, News::Kept(_))).await;
    let goes_on = |standing: &Standing| standing.until > 0;
    next.handle.standing.wait_for(goes_on).await.unwrap();
    assert!(clock() - begun >= crate::clock::millis(setting("n1", 1).terms.quiet()));

    // A copy of the disk continues, and the process that it was copied from does not.
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
async fn cells_that_others_have_taken_are_not_kept() {
    let clock = clock();
    let engine = Arc::new(Scripted::default());
    let mut first = start(&engine, "n1", 1, &clock);
    let standing = first.has(usize::from(CELLS)).await;
    let kept = kept(&standing, 1, first.revisions().await);
    first.run.abort();
    let mut second = start(&engine, "n2", 2, &clock);
    second.has(usize::from(CELLS)).await;
    let mut next = resume(&engine, 3, kept, &clock);
    for _ in 0..CELLS {
        next.next_news(|news| matches!(news, News::Lost(_))).await;
    }
    assert_eq!(next.run.await.unwrap(), Over::Fenced);
    assert!(!next.term.runs());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_the_broker_has_forgotten_is_over() {
    let clock = clock();
    let engine = Arc::new(Scripted::default());
    let before = engine.state();
    let mut node = start(&engine, "n1", 1, &clock);
    node.has(usize::from(CELLS)).await;
    engine.set_back(before);
    assert_eq!(node.run.await.unwrap(), Over::Forgotten);
    assert!(!node.term.runs());
}

/// Two machines share a limit. If one of them is lost, the other takes what it had claimed and not
/// delivered.
#[tokio::test(start_paused = true)]
async fn the_share_of_a_machine_that_is_gone_is_taken() {
    use super::super::Ceiling;
    let documents = |documents| Amount {
        documents,
        ..Amount::default()
    };
    let claim = |done, most| {
        SessionCommand::Claim(LimitClaim {
            done: documents(done),
            most: documents(most),
            wants: true,
        })
    };
    let ceiling = Ceiling {
        documents: Some(100),
        ..Ceiling::default()
    };
    /// Waits until it may have done so much, if this is its bound.
    async fn may(node: &mut Node1, ceiling: Ceiling, bound: Amount, hand: u64) -> LimitClaims {
        let has = |standing: &Standing| {
            let claims = standing.claims;
            claims.is_some_and(|claims| claims.hand(&ceiling, bound).documents == hand)
        };
        let waits = node.handle.standing.wait_for(has);
        let standing = tokio::time::timeout(Duration::from_secs(120), waits).await;
        standing
            .expect("it takes too long")
            .unwrap()
            .claims
            .unwrap()
    }
    let clock = clock();
    let engine = Arc::new(Scripted::default());
    let mut first = start(&engine, "n1", 1, &clock);
    first.has(usize::from(CELLS)).await;
    let mut second = start(&engine, "n2", 2, &clock);
    let begun = |standing: &Standing| standing.begun;
    second.handle.standing.wait_for(begun).await.unwrap();
    first.handle.commands.send(claim(0, 80)).unwrap();
    may(&mut first, ceiling, documents(80), 80).await;
    // However much it would like to have.
    second.handle.commands.send(claim(0, 60)).unwrap();
    may(&mut second, ceiling, documents(60), 20).await;
    // An answer is lost.
    engine.next_swaps("s.n1", [Fate::Lost]);
    first.handle.commands.send(claim(10, 70)).unwrap();
    let claims = may(&mut second, ceiling, documents(60), 30).await;
    assert_eq!(claims.share(&ceiling, Amount::default()), {
        let share = |left: u64| left / 2;
        Amount {
            documents: share(90),
            fetches: share(u64::MAX),
            bytes: share(u64::MAX),
        }
    });
    // It delivers 15, but only 10 count because the rest is not in a checkpoint, and is gone.
    let commit = SessionCommand::Commit(1, documents(10), Vec::new());
    first.handle.commands.send(commit).unwrap();
    let committed = |standing: &Standing| standing.committed == 1;
    first.handle.standing.wait_for(committed).await.unwrap();
    first.handle.commands.send(claim(15, 70)).unwrap();
    first.run.abort();
    second.handle.commands.send(claim(60, 100)).unwrap();
    may(&mut second, ceiling, documents(100), 90).await;
}
