//! A session, an engine and a clock put together.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinSet;

use super::record::SessionId;
use super::record::{Key, Value};
use super::session::{Answer, Call, CallId, Kept, News, Over, Session, Setting, Terms};
use super::{Change, Engine, EngineError, Revision};
use crate::crawl::frontier::{CellCount, CellId};
use crate::web::fetch::Term;

/// What a node tells its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// [`Session::commit`].
    Commit(u64),
    /// [`Session::give`].
    Give(CellId, u64),
    /// [`Session::leave`].
    Leave,
}

/// What a node may do at present.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// Which session it is, as soon as it has asked for a key.
    pub session: Option<SessionId>,
    /// Until when anything may be sent.
    pub until: u64,
    /// [`Session::resumed`].
    pub resumed: u64,
    /// The cells that it has, with [`Session::from`].
    pub cells: BTreeMap<CellId, u64>,
    /// The last checkpoint that is committed.
    pub committed: u64,
}

/// The node's end of a session.
#[derive(Debug)]
pub struct Handle {
    /// What it tells the session. The session leaves when this is dropped.
    pub orders: mpsc::UnboundedSender<Order>,
    /// What it is told.
    pub news: mpsc::UnboundedReceiver<News>,
    /// What it may do.
    pub standing: watch::Receiver<Standing>,
}

/// Drives a session.
#[derive(Debug)]
pub struct Driver<E, C> {
    engine: Arc<E>,
    /// Milliseconds, as [`crate::clock::now`].
    clock: C,
    term: Term,
    terms: Terms,
    cells: CellCount,
    session: Session,
    view: Arc<Mutex<View>>,
    tenure: u64,
    orders: mpsc::UnboundedReceiver<Order>,
    news: mpsc::UnboundedSender<News>,
    standing: watch::Sender<Standing>,
}

impl<E: Engine, C: Fn() -> u64> Driver<E, C> {
    /// A session that begins, and what the node has of it. The driver sets the end of `term`.
    pub fn new(engine: Arc<E>, setting: Setting, clock: C, term: Term) -> (Self, Handle) {
        let terms = setting.terms.clone();
        let cells = setting.cells;
        let session = Session::new(setting, clock());
        Self::of(engine, session, terms, cells, clock, term)
    }

    /// The same for a session that goes on after its process died: [`Session::resume`].
    pub fn resume(
        engine: Arc<E>,
        setting: Setting,
        kept: Kept,
        clock: C,
        term: Term,
    ) -> (Self, Handle) {
        let terms = setting.terms.clone();
        let cells = setting.cells;
        let session = Session::resume(setting, kept, clock());
        Self::of(engine, session, terms, cells, clock, term)
    }

    fn of(
        engine: Arc<E>,
        session: Session,
        terms: Terms,
        cells: CellCount,
        clock: C,
        term: Term,
    ) -> (Self, Handle) {
        let (orders, told) = mpsc::unbounded_channel();
        let (tells, news) = mpsc::unbounded_channel();
        let (shows, standing) = watch::channel(Standing::default());
        let driver = Self {
            engine,
            term,
            terms,
            cells,
            session,
            clock,
            view: Arc::default(),
            tenure: 0,
            orders: told,
            news: tells,
            standing: shows,
        };
        let handle = Handle {
            orders,
            news,
            standing,
        };
        (driver, handle)
    }

    /// Runs until the session is over. The term is over whenever this returns or is dropped.
    pub async fn run(mut self) -> Over {
        let _ends = EndsTerm(self.term.clone());
        let mut calls = JoinSet::new();
        let mut is_heard = true;
        loop {
            let now = (self.clock)();
            for (id, call) in self.session.step(now) {
                let engine = Arc::clone(&self.engine);
                let view = Arc::clone(&self.view);
                let cells = self.cells;
                calls.spawn(async move { (id, ask(&*engine, &view, cells, call).await) });
            }
            self.publish();
            if let Some(why) = self.session.over() {
                return why;
            }
            tokio::select! {
                Some(done) = calls.join_next(), if !calls.is_empty() => {
                    self.has_answered(done.ok());
                }
                order = self.orders.recv(), if is_heard => {
                    is_heard = order.is_some();
                    self.obey(order.unwrap_or(Order::Leave));
                }
                () = tokio::time::sleep(self.terms.tick()) => {}
            }
        }
    }

    fn has_answered(&mut self, done: Option<(CallId, Result<Answer, EngineError>)>) {
        if let Some((id, answer)) = done {
            if let Err(error @ EngineError::Failed { .. }) = &answer {
                tracing::debug!(session = %self.session.id(), %error, "the broker did not answer");
            }
            self.session.answer((self.clock)(), id, answer);
        }
    }

    fn obey(&mut self, order: Order) {
        let now = (self.clock)();
        match order {
            Order::Commit(checkpoint) => self.session.commit(checkpoint, now),
            Order::Give(cell, checkpoint) => self.session.give(cell, checkpoint),
            Order::Leave => self.session.leave(now),
        }
    }

    /// Says what has changed. The end of the term comes first.
    fn publish(&mut self) {
        let now = (self.clock)();
        let until = self.session.until(now);
        self.term.set_end(until);
        if self.tenure != self.session.tenure() {
            self.tenure = self.session.tenure();
            // What the broker has forgotten is not told by a watch. One that is read at this
            // moment begins anew the next time.
            if let Ok(mut view) = self.view.try_lock() {
                view.changes = None;
            }
        }
        for news in self.session.news() {
            tracing::info!(session = %self.session.id(), ?news, "the cluster has changed");
            // Whoever does not listen does not want to know.
            drop(self.news.send(news));
        }
        let cells = self.session.cells();
        let cells = cells.filter_map(|cell| Some((cell, self.session.from(cell)?)));
        let id = self.session.id();
        let standing = Standing {
            session: (id.number > 0).then(|| id.clone()),
            until,
            resumed: self.session.resumed(),
            cells: cells.collect(),
            committed: self.session.committed(),
        };
        self.standing.send_if_modified(|before| {
            let is_other = *before != standing;
            *before = standing;
            is_other
        });
    }
}

/// Ends the term when dropped.
struct EndsTerm(Term);

impl Drop for EndsTerm {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// All keys as a watch has told them.
#[derive(Debug, Default)]
struct View {
    changes: Option<mpsc::Receiver<Change>>,
    keys: BTreeMap<String, (Vec<u8>, Revision)>,
}

impl View {
    /// Brings it up to date.
    async fn refresh(&mut self, engine: &impl Engine) -> Result<(), EngineError> {
        if self.changes.is_none() {
            self.keys.clear();
            let mut changes = engine.watch("").await?;
            loop {
                match changes.recv().await {
                    Some(Change::Whole) => break,
                    Some(change) => self.note(change),
                    None => {
                        return Err(EngineError::Failed {
                            to: "the broker".to_owned(),
                            what: "watching the keys",
                            why: "it ended before all were told".to_owned(),
                        });
                    }
                }
            }
            self.changes = Some(changes);
        }
        while let Some(changes) = &mut self.changes {
            match changes.try_recv() {
                Ok(change) => self.note(change),
                Err(mpsc::error::TryRecvError::Empty) => break,
                // It begins anew the next time.
                Err(mpsc::error::TryRecvError::Disconnected) => self.changes = None,
            }
        }
        Ok(())
    }

    fn note(&mut self, change: Change) {
        match change {
            Change::Set(key, value, revision) => {
                self.keys.insert(key, (value, revision));
            }
            Change::Gone(key) => {
                self.keys.remove(&key);
            }
            Change::Whole => {}
        }
    }
}

/// Does what a session asks.
async fn ask(
    engine: &impl Engine,
    view: &Mutex<View>,
    cells: CellCount,
    call: Call,
) -> Result<Answer, EngineError> {
    match call {
        Call::Get(key) => {
            let found = engine.get(&key.to_string()).await?;
            let read = |(bytes, revision): (Vec<u8>, Revision)| {
                Value::of(&key, &bytes)
                    .map(|value| (value, revision))
                    .map_err(|error| unreadable(&key, &error))
            };
            Ok(Answer::Got(found.map(read).transpose()?))
        }
        Call::Swap(key, value, was) => {
            let bytes = value.to_bytes().map_err(|error| unreadable(&key, &error))?;
            let revision = engine.swap(&key.to_string(), bytes, was).await?;
            Ok(Answer::Swapped(revision))
        }
        Call::Look => {
            let mut view = view.lock().await;
            view.refresh(engine).await?;
            let mut seen = Vec::new();
            for (key, (bytes, revision)) in &view.keys {
                let Some(key) = Key::parse(key, cells) else {
                    continue;
                };
                let value = Value::of(&key, bytes).map_err(|error| unreadable(&key, &error))?;
                seen.push((key, value, *revision));
            }
            Ok(Answer::Seen(seen))
        }
    }
}

/// A value that cannot be read may be one of a later version, so nothing is done about it.
fn unreadable(key: &Key, error: &serde_json::Error) -> EngineError {
    EngineError::Failed {
        to: key.to_string(),
        what: "reading the value",
        why: format!("{error}; do all machines run the same version of spoor?"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::super::record::Node;
    use super::super::told::{Fate, Told};
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
        let (driver, handle) =
            Driver::new(Arc::clone(engine), setting, clock.clone(), term.clone());
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
            orders.send(Order::Commit(1)).unwrap();
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
        first.handle.orders.send(Order::Commit(3)).unwrap();
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
            session: standing.session.clone().unwrap(),
            secrets: [secret].into(),
            made: 0,
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
}
