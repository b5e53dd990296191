//! Connects a session, an engine and a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinSet;

use super::limits::{LimitClaim, LimitClaims};
use super::record::SessionId;
use super::record::{Key, Value};
use super::session::{Answer, Call, CallId, Kept, News, Over, Session, Setting, Terms};
use super::{Change, Engine, EngineError, Keyed, Revision};
use crate::fetch::Term;
use crate::frontier::{Amount, CellCount, CellId};

/// What a node asks of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionCommand {
    /// [`Session::commit`].
    Commit(u64, Amount, Vec<CellId>),
    /// [`Session::give`].
    Give(CellId, u64),
    /// [`Session::set_claim`].
    Claim(LimitClaim),
    /// [`Session::set_idle`].
    Idle(Option<BTreeSet<CellId>>),
    /// [`Session::leave`].
    Leave,
}

/// What a node may do at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// Its session, once that has asked for a key.
    pub session: Option<SessionId>,
    /// Until when anything may be sent to the web.
    pub until: u64,
    /// [`Session::resumed`].
    pub resumed: u64,
    /// The cells that it owns, each with [`Session::from`].
    pub cells: BTreeMap<CellId, u64>,
    /// The last checkpoint that is committed.
    pub committed: u64,
    /// [`Session::named`].
    pub named: Option<BTreeSet<u64>>,
    /// [`Session::claims`].
    pub claims: Option<LimitClaims>,
    /// [`Session::first_begun`].
    pub first_begun: u64,
    /// [`Session::has_begun`].
    pub begun: bool,
    /// Why it is over, if it is.
    pub over: Option<Over>,
}

/// The node's end of a session.
#[derive(Debug)]
pub struct Handle {
    /// Sends commands to the session. The session leaves when this is dropped.
    pub commands: mpsc::UnboundedSender<SessionCommand>,
    /// Changes that the node has to act on.
    pub news: mpsc::UnboundedReceiver<News>,
    /// What the node may do at the moment.
    pub standing: watch::Receiver<Standing>,
}

/// Drives a session.
#[derive(Debug)]
pub struct Driver<E, C> {
    engine: Arc<E>,
    /// Milliseconds, like [`crate::clock::now`].
    clock: C,
    term: Term,
    terms: Terms,
    cells: CellCount,
    session: Session,
    view: Arc<Mutex<View>>,
    tenure: u64,
    commands: mpsc::UnboundedReceiver<SessionCommand>,
    news: mpsc::UnboundedSender<News>,
    standing: watch::Sender<Standing>,
}

impl<E: Engine, C: Fn() -> u64> Driver<E, C> {
    /// A new session, and the node's end of it. The driver sets the end of `term`.
    pub fn new(engine: Arc<E>, setting: Setting, clock: C, term: Term) -> (Self, Handle) {
        Self::resume(engine, setting, None, clock, term)
    }

    /// The same, but continues the session of a process that died if one was kept:
    /// [`Session::resume`].
    pub fn resume(
        engine: Arc<E>,
        setting: Setting,
        kept: impl Into<Option<Kept>>,
        clock: C,
        term: Term,
    ) -> (Self, Handle) {
        let (commands, received) = mpsc::unbounded_channel();
        let (reports, news) = mpsc::unbounded_channel();
        let (shows, standing) = watch::channel(Standing::default());
        let driver = Self {
            engine,
            term,
            terms: setting.terms.clone(),
            cells: setting.cells,
            session: match kept.into() {
                Some(kept) => Session::resume(setting, kept, clock()),
                None => Session::new(setting, clock()),
            },
            clock,
            view: Arc::default(),
            tenure: 0,
            commands: received,
            news: reports,
            standing: shows,
        };
        let handle = Handle {
            commands,
            news,
            standing,
        };
        (driver, handle)
    }

    /// Runs until the session is over. The term ends when this returns or is dropped.
    pub async fn run(mut self) -> Over {
        let _ends = EndsTerm(self.term.clone());
        let mut calls = JoinSet::new();
        let mut is_connected = true;
        loop {
            let now = (self.clock)();
            let asked = self.session.step(now);
            // A bound is lowered here before it is lowered in the key.
            self.publish();
            for (id, call) in asked {
                let engine = Arc::clone(&self.engine);
                let view = Arc::clone(&self.view);
                let cells = self.cells;
                calls.spawn(async move { (id, ask(&*engine, &view, cells, call).await) });
            }
            if let Some(why) = self.session.over() {
                return why;
            }
            tokio::select! {
                Some(done) = calls.join_next(), if !calls.is_empty() => {
                    self.has_answered(done.ok());
                }
                command = self.commands.recv(), if is_connected => {
                    is_connected = command.is_some();
                    self.execute(command.unwrap_or(SessionCommand::Leave));
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

    fn execute(&mut self, command: SessionCommand) {
        let now = (self.clock)();
        match command {
            SessionCommand::Commit(checkpoint, used, holds) => {
                self.session.commit(checkpoint, used, holds, now);
            }
            SessionCommand::Claim(claim) => self.session.set_claim(claim),
            SessionCommand::Give(cell, checkpoint) => self.session.give(cell, checkpoint),
            SessionCommand::Idle(idle) => self.session.set_idle(idle.as_ref(), now),
            SessionCommand::Leave => self.session.leave(now),
        }
    }

    /// Publishes what has changed. The end of the term comes first.
    fn publish(&mut self) {
        let now = (self.clock)();
        let until = self.session.until(now);
        self.term.set_end(until);
        // A watch does not report what the broker has forgotten, so it is started again. While the
        // view is being read this waits for the next turn.
        let tenure = self.session.tenure();
        if self.tenure != tenure
            && let Ok(mut view) = self.view.try_lock()
        {
            view.changes = None;
            self.tenure = tenure;
        }
        for news in self.session.news() {
            tracing::info!(session = %self.session.id(), ?news, "the cluster has changed");
            // The receiver may be gone.
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
            named: self.session.named(),
            claims: self.session.claims(),
            first_begun: self.session.first_begun(),
            begun: self.session.has_begun(),
            over: self.session.over(),
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

/// All keys, kept up to date by a watch.
#[derive(Debug, Default)]
pub(super) struct View {
    changes: Option<mpsc::Receiver<Change>>,
    keys: BTreeMap<String, (Vec<u8>, Revision)>,
}

/// All keys that exist when a watch begins.
pub(super) async fn all_by_watch(
    engine: &(impl Engine + ?Sized),
) -> Result<Vec<Keyed>, EngineError> {
    let mut view = View::default();
    view.begin(engine).await?;
    let keys = view.keys.into_iter();
    Ok(keys
        .map(|(key, (bytes, revision))| (key, bytes, revision))
        .collect())
}

impl View {
    /// Reads all keys once, without keeping a watch.
    pub(super) async fn once(engine: &impl Engine) -> Result<Self, EngineError> {
        let all = engine.all().await?.into_iter();
        Ok(Self {
            changes: None,
            keys: all
                .map(|(key, bytes, revision)| (key, (bytes, revision)))
                .collect(),
        })
    }

    async fn begin(&mut self, engine: &(impl Engine + ?Sized)) -> Result<(), EngineError> {
        self.keys.clear();
        let mut changes = engine.watch(None).await?;
        loop {
            match changes.recv().await {
                Some(Change::Whole) => break,
                Some(change) => self.note(change),
                None => {
                    return Err(EngineError::Failed {
                        to: "the broker".to_owned(),
                        what: "watching the keys",
                        why: "it ended before all of them had come".to_owned(),
                    });
                }
            }
        }
        self.changes = Some(changes);
        Ok(())
    }

    /// Applies the changes that have come.
    pub(super) async fn refresh(&mut self, engine: &impl Engine) -> Result<(), EngineError> {
        if self.changes.is_none() {
            self.begin(engine).await?;
        }
        while let Some(changes) = &mut self.changes {
            match changes.try_recv() {
                Ok(change) => self.note(change),
                Err(mpsc::error::TryRecvError::Empty) => break,
                // The next refresh starts the watch again.
                Err(mpsc::error::TryRecvError::Disconnected) => self.changes = None,
            }
        }
        Ok(())
    }

    /// All values whose keys are a [`Key`].
    pub(super) fn values(
        &self,
        cells: CellCount,
    ) -> Result<Vec<(Key, Value, Revision)>, EngineError> {
        let mut values = Vec::new();
        for (key, (bytes, revision)) in &self.keys {
            let Some(key) = Key::parse(key, cells) else {
                continue;
            };
            let value = Value::of(&key, bytes).map_err(|error| unreadable(&key, &error))?;
            values.push((key, value, *revision));
        }
        Ok(values)
    }

    /// All keys and values, undecoded.
    pub(super) fn others(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let all = self.keys.iter();
        all.map(|(key, (bytes, _))| (key.as_str(), bytes.as_slice()))
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

/// Makes the call that a session asks for.
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
            Ok(Answer::Seen(view.values(cells)?))
        }
    }
}

/// A value that cannot be read may be of a later version, so nothing is done about it.
fn unreadable(key: &Key, error: &serde_json::Error) -> EngineError {
    EngineError::Failed {
        to: key.to_string(),
        what: "reading the value",
        why: format!("{error}; do all machines run the same version of spoor?"),
    }
}

#[cfg(test)]
mod tests;
