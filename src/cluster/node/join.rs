//! How a machine joins: before its job's folder is opened, it finds out which session it is, and
//! whether the frontier in the folder is still its own.
//!
//! 1. It checks that it has the store of the others, and agrees with them on what is fixed, the
//!    number of cells, and on the configuration and the model.
//! 2. It resumes the session that an earlier process kept, if the others have not ended it.
//! 3. Otherwise it begins a new session with an empty folder: what is in the checkpoints of the old
//!    session counts, and the rest is done again. The old folder is moved away.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle as Runtime;
use tokio::sync::{mpsc, watch};

use super::error::NodeError;
use super::{Keeping, settings, store};
use crate::clock::{millis, now};
use crate::crawl::checkpoint;
use crate::crawl::saved::{self, Committed, Life, Made, SaveError};
use crate::fetch::Term;
use crate::frontier::{Amount, CellCount};
use crate::fs::IoError;
use crate::settings::JobSettings;
use crate::{
    Driver, Engine, EngineError, Handle, JobPhase, JobRecord, Kept, Key, LAYOUT, Needed,
    Node as Name, Over, SessionCommand, SessionId, Setting, Standing, Survey, Terms, Value,
    WrongNode,
};

/// How long checkpoints are kept that are no longer needed, in milliseconds. A broker forgets at
/// most a minute.
const KEPT: u64 = 600_000;
/// The time between two checks for answers of the broker.
const LOOK: Duration = Duration::from_millis(20);
/// How often to try to change a key that others change at the same time.
const ATTEMPTS: usize = 20;
/// How long to wait for brokers that do not answer, and the pause between two attempts.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(500);
/// When a machine starts to say what it waits for.
const SAY: Duration = Duration::from_secs(5);

/// A machine that has joined but has not opened its job yet.
pub struct Joined<E> {
    pub(super) engine: Arc<E>,
    term: Term,
    pub(super) handle: Handle,
    pub(super) keeping: Keeping,
    session: SessionId,
    pub(super) secret: u64,
    /// See [`Kept::sender`].
    pub(super) sender: u64,
    pub(super) cells: CellCount,
    pub(super) store: String,
    pub(super) runtime: Runtime,
}

/// Joins the cluster of a job. It waits while the brokers do not answer and while another session
/// of the same name may be alive, and passes the reason to `say`. `shared` is the part of the job
/// file that all machines share. The file that is returned keeps other processes out of the job's
/// folder.
///
/// # Errors
/// [`NodeError`] if the cluster has another number of cells, if another machine has the same name
/// and is alive, or if the job's folder is in use.
pub fn join<E: Engine>(
    engine: Arc<E>,
    (config, shared): (&JobSettings, serde_json::Value),
    runtime: &Runtime,
    say: &mut dyn FnMut(&str),
) -> Result<(Joined<E>, File), NodeError> {
    let cells = checkpoint::cells_of(config);
    let section = &config.cluster;
    let store = section.store.as_ref().ok_or_else(NodeError::no_store)?;
    let name = name_of(config)?;
    store::check(store.as_str(), || {
        insist(say, || Ok(runtime.block_on(Survey::of(&*engine))?))
    })?;
    insist(say, || runtime.block_on(agree(&*engine, cells)))?;
    let folder = config.job_folder();
    let mut lock = locked(config)?;
    // If this machine already crawls, taking the lock has failed above.
    let settings = settings::of(config, shared)?;
    insist(say, || {
        runtime.block_on(settings::agree(&*engine, config, &settings, &name))
    })?;
    let term = Term::default();
    let mut kept = Kept::read(&folder, &name, cells)?.filter(|kept| kept.session.number > 0);
    loop {
        let secret = draw()?;
        let setting = Setting {
            node: name.clone(),
            secret,
            weight: section.weight,
            cells,
            terms: Terms::new(section.term, section.settle),
        };
        let is_resumed = kept.is_some();
        let kept_now = match kept.take() {
            Some(mut kept) => {
                kept.secrets.insert(secret);
                kept.sender.get_or_insert(secret);
                kept
            }
            None => {
                lock = move_aside(config, lock, say)?;
                Kept {
                    session: SessionId {
                        node: name.clone(),
                        number: 0,
                    },
                    secrets: BTreeSet::from([secret]),
                    sender: Some(secret),
                    made: 0,
                    used: Amount::default(),
                    cells: BTreeMap::new(),
                }
            }
        };
        let sender = kept_now.sender.unwrap_or(secret);
        let keeping = Keeping::begin(&folder, kept_now.clone())?;
        let (own, at) = (Arc::clone(&engine), term.clone());
        let kept_now = is_resumed.then_some(kept_now);
        let (driver, mut handle) = Driver::resume(own, setting, kept_now, now, at);
        runtime.spawn(driver.run());
        match wait(&mut handle, runtime, say) {
            Ok(session) => {
                keeping.change(|kept| kept.session = session.clone())?;
                // Two machines may have begun at the same moment.
                insist(say, || {
                    runtime.block_on(settings::confirm(&*engine, config, &settings))
                })?;
                let joined = Joined {
                    engine,
                    term,
                    handle,
                    keeping,
                    session,
                    secret,
                    sender,
                    cells,
                    store: store.as_str().to_owned(),
                    runtime: runtime.clone(),
                };
                return Ok((joined, lock));
            }
            Err(Over::NameTaken) => return Err(NodeError::Over(Over::NameTaken)),
            Err(over) => {
                keeping.forget()?;
                if !is_resumed {
                    return Err(NodeError::Over(over));
                }
                say(&NodeError::Over(over).to_string());
            }
        }
    }
}

/// The name of this machine.
///
/// # Errors
/// [`WrongNode`] if it cannot be used.
pub fn name_of(config: &JobSettings) -> Result<Name, WrongNode> {
    match &config.cluster.node {
        Some(name) => Name::new(name.as_str()),
        None => Name::new(&saved::host()),
    }
}

/// Makes a call that needs the brokers, and repeats it for a while if they do not answer: servers
/// that have just started have no leader yet. `say` is called once.
///
/// # Errors
/// The last error.
pub fn insist<T>(
    say: &mut dyn FnMut(&str),
    mut act: impl FnMut() -> Result<T, NodeError>,
) -> Result<T, NodeError> {
    let begun = now();
    let mut has_said = false;
    loop {
        match act() {
            Err(NodeError::Engine(error))
                if error.may_pass() && now().saturating_sub(begun) < millis(PATIENCE) =>
            {
                if !has_said {
                    let seconds = PATIENCE.as_secs();
                    say(&format!("{error}; trying again for {seconds} s"));
                    has_said = true;
                }
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

/// Agrees on what is fixed, and marks the job as running.
pub(super) async fn agree(engine: &impl Engine, cells: CellCount) -> Result<(), NodeError> {
    let key = Key::Job.to_string();
    for _ in 0..ATTEMPTS {
        let there = engine.get(&key).await?;
        let (mut job, was) = match there {
            None => (
                JobRecord {
                    cells: cells.number(),
                    phase: JobPhase::Done,
                    layout: LAYOUT,
                },
                None,
            ),
            Some((bytes, revision)) => match Value::of(&Key::Job, &bytes) {
                Ok(Value::Job(job)) if job.layout == LAYOUT => (job, Some(revision)),
                _ => return Err(other_version()),
            },
        };
        if job.cells != cells.number() {
            let (there, here) = (job.cells, cells.number());
            return Err(NodeError::JobFile(format!(
                "the cluster was begun with cluster.cells = {there}, and this job says {here}; set \
                 it to {there}"
            )));
        }
        if job.phase == JobPhase::Run {
            return Ok(());
        }
        job.phase = JobPhase::Run;
        let bytes = Value::Job(job).to_bytes().map_err(|_| other_version())?;
        match engine.swap(&key, bytes, was).await {
            Ok(_) => return Ok(()),
            Err(EngineError::Stale) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(EngineError::Stale.into())
}

fn other_version() -> NodeError {
    NodeError::Stopped(
        "the keys of the cluster are those of another version of spoor; all its machines have to \
         run the same. Where an earlier version began it, gather and end it with that one, and set \
         cluster.store to another place"
            .to_owned(),
    )
}

/// Waits until the session has its key and renews it, or is over.
fn wait(
    handle: &mut Handle,
    runtime: &Runtime,
    say: &mut dyn FnMut(&str),
) -> Result<SessionId, Over> {
    let mut standing = handle.standing.clone();
    let mut has_said = false;
    loop {
        let known = standing.borrow_and_update().clone();
        if let Some(session) = known.session.filter(|_| known.begun) {
            return Ok(session);
        }
        if let Some(over) = known.over {
            return Err(over);
        }
        let changed = async { tokio::time::timeout(SAY, standing.changed()).await };
        match runtime.block_on(changed) {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(standing.borrow().over.unwrap_or(Over::Forgotten)),
            Err(_) if !has_said => {
                has_said = true;
                say(
                    "waiting for the brokers, or for the end of an earlier session of this machine",
                );
            }
            Err(_) => {}
        }
    }
}

fn locked(config: &JobSettings) -> Result<File, NodeError> {
    let folder = config.job_folder();
    std::fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
    Ok(checkpoint::lock(&folder)?)
}

/// Moves the folder of a session that is over away, and creates an empty one.
fn move_aside(
    config: &JobSettings,
    lock: File,
    say: &mut dyn FnMut(&str),
) -> Result<File, NodeError> {
    drop(lock);
    if let Some(aside) = saved::set_aside(config)? {
        say(&format!(
            "a new session begins; the folder of the last one is {}, and what counts of it is \
             in cluster.store",
            aside.display()
        ));
    }
    locked(config)
}

pub(super) fn draw() -> Result<u64, NodeError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|_| {
        let why =
            "the system provides no random numbers, which the machine needs to identify itself";
        NodeError::Stopped(why.to_owned())
    })?;
    Ok(u64::from_le_bytes(bytes))
}

impl<E: Engine> Joined<E> {
    /// Limits the time in which hosts may be contacted.
    pub fn term(&self) -> Term {
        self.term.clone()
    }

    /// Connects it with the other machines.
    pub fn engine(&self) -> Arc<E> {
        Arc::clone(&self.engine)
    }

    /// Its session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// What it may do at the moment.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.handle.standing.clone()
    }

    /// The checkpoints of the session.
    ///
    /// # Errors
    /// [`SaveError`] if the store's address is invalid.
    pub fn checkpoints(
        &self,
        config: &JobSettings,
    ) -> Result<(saved::Session, Commits), SaveError> {
        let (reports, commits) = mpsc::unbounded_channel();
        let committed = self.handle.standing.borrow().committed;
        let numbers = Arc::new(Mutex::new((0, committed)));
        let commit = Commit {
            keeping: self.keeping.clone(),
            commands: self.handle.commands.clone(),
            standing: self.handle.standing.clone(),
            numbers: Arc::clone(&numbers),
            reports,
        };
        let standing = self.handle.standing.clone();
        let mut needed = Needed::new(KEPT);
        let named = move || {
            let named = standing.borrow().named.clone()?;
            let mut named = needed.with(&named, now());
            // A cell may be about to be given back with the one before the last.
            let (before, _) = *numbers.lock().unwrap_or_else(PoisonError::into_inner);
            named.insert(before);
            Some(named)
        };
        let life = Life {
            store: self.store.clone(),
            session: self.session.to_string(),
            committed,
            made: self.keeping.kept().map_or(0, |kept| kept.made),
            commit: Box::new(move |made| commit.commit(made)),
            named: Box::new(named),
        };
        Ok((saved::Session::of_cluster(config, life)?, commits))
    }
}

/// Checkpoints that were committed, in order.
pub type Commits = mpsc::UnboundedReceiver<Made>;

/// Commits a checkpoint that was written.
struct Commit {
    keeping: Keeping,
    commands: mpsc::UnboundedSender<SessionCommand>,
    standing: watch::Receiver<Standing>,
    /// The last checkpoint but one, and the last.
    numbers: Arc<Mutex<(u64, u64)>>,
    reports: mpsc::UnboundedSender<Made>,
}

impl Commit {
    fn commit(&self, made: Made) -> Committed {
        let kept = self.keeping.change(|kept| {
            if made.number > kept.made {
                (kept.made, kept.used) = (made.number, made.used);
            }
        });
        if let Err(error) = kept {
            tracing::error!(
                %error,
                "a checkpoint does not count, because the session file cannot be written"
            );
            return Committed::Over;
        }
        let holds = made.cells.keys().copied().collect();
        if self
            .commands
            .send(SessionCommand::Commit(made.number, made.used, holds))
            .is_err()
        {
            return Committed::Over;
        }
        loop {
            let standing = self.standing.borrow().clone();
            if standing.committed >= made.number {
                break;
            }
            if standing.over.is_some() || self.standing.has_changed().is_err() {
                return Committed::Over;
            }
            std::thread::sleep(LOOK);
        }
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        *numbers = (numbers.1, made.number);
        drop(numbers);
        // The receiver is gone when the crawl has ended.
        self.reports.send(made).ok();
        Committed::Yes
    }
}
