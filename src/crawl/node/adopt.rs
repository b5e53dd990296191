//! What one machine has crawled alone becomes the beginning of a cluster.
//!
//! The frontier is divided into cells in a folder beside the job's. They are written with the
//! outputs as the first checkpoint of a session that has all cells and has ended. Whoever begins
//! then takes the cells from there, as from any session that is over.
//!
//! # When it counts
//!
//! 1. All objects of the checkpoint are written. No key names them.
//! 2. The session gets its key, as one that lives and has no checkpoint, then all
//!    cells. Another machine that begins meanwhile has to wait for cells, or to end the session
//!    first, and nothing counts then.
//! 3. The session's key gets the checkpoint and its end in one step, by compare-and-set. That is
//!    the commit.
//!
//! 4. Where the crawl was closed in good order, the cells are given back with the checkpoint as
//!    their base. Then whoever takes one needs no distance from its hosts, as after the loss of a
//!    machine. If this is interrupted, they keep their distance.
//!
//! Which session it is lies in the folder beside the job's with the secret in its key. So
//! whatever is interrupted, another call goes on with the same session, or finds that it is done.
//!
//! The job's folder stays as it is.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle as Runtime;

use super::error::NodeError;
use super::join::{agree, draw, insist, name_of};
use super::store::must_be_unused;
use crate::checkpoint::{self, OpenError};
use crate::clock::{now, timestamp};
use crate::cluster::lessons::{self, LessonsError};
use crate::cluster::wanted::{WantedBy, WantedEdit, WantedError, WantedList, WantedState};
use crate::cluster::{
    Base, CellRecord, Engine, EngineError, Key, Node as Name, Revision, SessionId, SessionRecord,
    State, Survey, Value,
};
use crate::frontier::store::{self, StoreError};
use crate::frontier::{self, Amount, CellCount, CellId, Divided, DivisionError};
use crate::fs::{IoError, atomic, beneath};
use crate::outputs::{OutputError, Rewriting};
use crate::saved::{self, Committed, Life, Made, SaveError, SavedSession};
use crate::settings::JobSettings;
use crate::settings::StoreKind;

/// What is added to the name of the job's folder for the one beside it.
const BESIDE: &str = ".adopting";
/// The file there that says which session it is.
const NOTE: &str = "session.json";
/// The folder there for the divided frontier.
const FRONTIER: &str = "frontier";
/// The file in a job's folder that says that it is paused.
const PAUSED: &str = "paused";
/// How many keys of cells are changed at a time; the term is renewed in between.
const AT_ONCE: usize = 16;
/// The most targets of one list.
const TARGETS: usize = 100;

/// Why a job cannot be adopted. Nothing of it counts then.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The job's folder is in use or cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The cluster cannot be used.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The broker does not answer, or others change the same keys.
    #[error("{0}; run the command again: it goes on where it was")]
    Engine(#[from] EngineError),
    /// What was learned cannot be handed on.
    #[error("{0}; run the command again: it goes on where it was")]
    Lessons(#[from] LessonsError),
    /// Takedowns or a pause cannot be handed on.
    #[error(transparent)]
    Wanted(#[from] WantedError),
    /// The frontier cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The frontier cannot be divided.
    #[error(transparent)]
    Division(#[from] DivisionError),
    /// The checkpoint cannot be written.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// An output of the job is damaged.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A file failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// There is nothing to adopt.
    #[error(
        "{}: no frontier lies here, so there is nothing to adopt; `spoor crawl` begins the job on \
         all machines",
        .0.display()
    )]
    Missing(PathBuf),
    /// The folder is that of a machine of a cluster.
    #[error(
        "{}: this is the folder of a machine of a cluster, and only a job that one machine has \
         crawled alone can be adopted",
        .0.display()
    )]
    Member(PathBuf),
    /// Something was interrupted that changes the folder.
    #[error(
        "{}: {what} was interrupted; take [cluster] out of the job file, run `{command}` to \
         complete it, put [cluster] back, and adopt the job then",
        folder.display()
    )]
    Interrupted {
        /// The job's folder.
        folder: PathBuf,
        /// What was.
        what: &'static str,
        /// What completes it.
        command: &'static str,
    },
    /// Machines crawl the job already.
    #[error(
        "{0} crawl this job already, so it cannot begin with what this folder has; stop them, or \
         `spoor cluster forget` those that are off, and see `spoor cluster status`"
    )]
    Alive(String),
    /// Sessions have brought something already.
    #[error(
        "the cluster has begun without this folder: there are checkpoints of {0}. If that is this \
         folder, which was adopted before, run `spoor crawl`. Otherwise `spoor cluster gather` \
         what they have, then `spoor cluster end` the job's keys, and adopt again"
    )]
    Begun(String),
    /// The session was ended by others before it counted.
    #[error(
        "another machine began with the job meanwhile; stop it, and run the command again: \
         nothing of this folder counts yet"
    )]
    Overtaken,
    /// The note beside the job is damaged.
    #[error("{}: {why}; remove that folder, and run the command again", path.display())]
    Note {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
}

/// What was adopted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopted {
    /// The session that has it.
    pub session: String,
    /// Its checkpoint.
    pub checkpoint: u64,
    /// Addresses.
    pub urls: u64,
    /// Hosts.
    pub hosts: u64,
    /// Cells.
    pub cells: u16,
    /// Cells that have any host.
    pub filled: usize,
    /// Pages done.
    pub documents: u64,
    /// Images kept.
    pub images: u64,
    /// What it was of what the job may limit.
    pub used: Amount,
    /// Takedowns that all machines were told.
    pub takedowns: usize,
    /// Whether the job stays paused.
    pub paused: bool,
    /// What it has in the cluster's store, in bytes.
    #[serde(default)]
    pub bytes: u64,
}

/// Which session it is, over all calls.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note {
    session: SessionId,
    secret: u64,
    /// What the session has, when its checkpoint is written.
    adopted: Option<Adopted>,
}

/// Makes what the job's folder has the beginning of the job's cluster. `say` is told of long
/// steps.
///
/// # Errors
/// [`AdoptError`]; nothing of it counts then, and it can be called again.
pub fn adopt<E: Engine>(
    engine: &Arc<E>,
    config: &JobSettings,
    runtime: &Runtime,
    say: &mut dyn FnMut(&str),
) -> Result<Adopted, AdoptError> {
    let cluster_store = config.cluster.store.as_ref().ok_or(NodeError::NoStore)?;
    let cells = checkpoint::cells_of(config);
    let folder = config.job_folder();
    let (kind, _lock) = lock(&folder)?;
    let beside = Beside::of(&folder);
    let node = name_of(config).map_err(NodeError::from)?;
    let place = insist(say, || {
        Ok(runtime.block_on(place_of(&**engine, &beside, &node))?)
    })??;
    let (note, revision) = match place {
        Place::Free(note, revision) => (note, revision),
        Place::Done(adopted) => return done(cluster_store.as_str(), adopted, &beside),
    };
    // An attempt that was interrupted has left something itself.
    if beside.read()?.is_none() {
        must_be_unused(cluster_store.as_str())?;
    }
    insist(say, || runtime.block_on(agree(&**engine, cells)))?;
    beside.write(&note)?;
    let old = store::open(kind, &folder.join("frontier"))?;
    let learned = if frontier::has_learned(&*old)? {
        runtime.block_on(lessons::end_of_log(&**engine))?
    } else {
        0
    };
    say("dividing the frontier");
    let divided = frontier::divide(&*old, beside.store()?, cells, learned)?;
    drop(old);
    divided.check()?;
    let (takedowns, paused) = runtime.block_on(tell(&**engine, config))?;
    let adopted = Adopted {
        session: note.session.to_string(),
        checkpoint: 0,
        urls: divided.urls,
        hosts: divided.hosts,
        cells: cells.number(),
        filled: divided.filled,
        documents: divided.counts.documents,
        images: divided.counts.images,
        used: divided.used(),
        takedowns,
        paused,
        bytes: 0,
    };
    say(&format!("writing to {}", cluster_store.as_str()));
    let founding = Founding {
        engine: Arc::clone(engine),
        runtime: runtime.clone(),
        cells,
        note: Note {
            adopted: Some(adopted),
            ..note
        },
        revision,
        begun: now().saturating_sub(divided.active).max(1),
        weight: config.cluster.weight,
        folder: beside.0.clone(),
        clean: divided.clean,
    };
    let adopted = save(config, cluster_store.as_str(), &divided, founding)?;
    drop(divided);
    done(cluster_store.as_str(), adopted, &beside)
}

/// Writes the checkpoint and has it count.
fn save<E: Engine>(
    config: &JobSettings,
    cluster_store: &str,
    divided: &Divided,
    mut founding: Founding<E>,
) -> Result<Adopted, AdoptError> {
    let session = founding.note.session.to_string();
    let result = Arc::new(Mutex::new(None));
    let told = Arc::clone(&result);
    let life = Life {
        store: cluster_store.to_owned(),
        session,
        committed: 0,
        made: 0,
        commit: Box::new(move |made| {
            let runtime = founding.runtime.clone();
            let founded = runtime.block_on(founding.found(&made));
            let committed = match founded {
                Ok(_) => Committed::Yes,
                Err(_) => Committed::Over,
            };
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(founded);
            committed
        }),
        // Nothing but the last one is wanted.
        named: Box::new(|| Some(BTreeSet::new())),
    };
    let saved = saved::Session::of_cluster(config, life)?.save_once(divided.view());
    let founded = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (saved, founded) {
        (_, Some(Err(error))) => Err(error),
        (Ok(()), Some(Ok(adopted))) => Ok(adopted),
        // It counts; what is left of earlier attempts stays where it is.
        (Err(error), Some(Ok(adopted))) => {
            tracing::warn!(%error, "what earlier attempts have written could not be removed");
            Ok(adopted)
        }
        (Err(error), None) => Err(error.into()),
        (Ok(()), None) => Err(AdoptError::Overtaken),
    }
}

/// Says how much there is, and forgets the folder beside the job's.
fn done(cluster_store: &str, mut adopted: Adopted, beside: &Beside) -> Result<Adopted, AdoptError> {
    match SavedSession::all(cluster_store) {
        Ok(all) => adopted.bytes = all.get(&adopted.session).map_or(0, |(_, bytes)| *bytes),
        Err(error) => tracing::warn!(%error, "how much the store has is not known"),
    }
    beside.remove()?;
    Ok(adopted)
}

/// Locks the job's folder where it can be adopted.
fn lock(folder: &Path) -> Result<(StoreKind, File), AdoptError> {
    let kind = store::backend_in(&folder.join("frontier"));
    let kind = kind.ok_or_else(|| AdoptError::Missing(folder.to_owned()))?;
    checkpoint::refuse_gathered(folder)?;
    let lock = checkpoint::lock(folder)?;
    if beneath::is_file(folder, NOTE) {
        return Err(AdoptError::Member(folder.to_owned()));
    }
    let interrupted = |what, command| AdoptError::Interrupted {
        folder: folder.to_owned(),
        what,
        command,
    };
    if beneath::is_file(folder, checkpoint::UNFINISHED) || Rewriting::pending(folder)?.is_some() {
        return Err(interrupted("a takedown", "spoor takedown JOB.toml"));
    }
    if beneath::is_file(folder, saved::RESTORING) {
        let command = "spoor checkpoint restore JOB.toml --replace";
        return Err(interrupted("a restore", command));
    }
    Ok((kind, lock))
}

/// Whether the cluster can begin with a folder.
enum Place {
    /// With this session, whose key has this revision if there is one.
    Free(Note, Option<Revision>),
    /// It has begun with this one.
    Done(Adopted),
}

/// What can be said of the cluster. The outer error is one that may pass.
async fn place_of(
    engine: &impl Engine,
    beside: &Beside,
    node: &Name,
) -> Result<Result<Place, AdoptError>, EngineError> {
    let survey = Survey::of(engine).await?;
    Ok(place_in(&survey, beside, node))
}

fn place_in(survey: &Survey, beside: &Beside, node: &Name) -> Result<Place, AdoptError> {
    let note = beside.read()?;
    let own = note.as_ref().and_then(|note| {
        let (record, revision) = survey.sessions.get(&note.session)?;
        (record.secret == note.secret).then_some((note, record, *revision))
    });
    if let Some((Note { adopted, .. }, record, _)) = &own
        && record.checkpoint > 0
        && let Some(adopted) = adopted
    {
        return Ok(Place::Done(adopted.clone()));
    }
    must_be_free(survey, own.as_ref().map(|(note, ..)| &note.session))?;
    if let Some((note, record, revision)) = own
        && record.state.is_live()
    {
        return Ok(Place::Free(note.clone(), Some(revision)));
    }
    let of_node = survey.sessions.keys().filter(|id| id.node == *node);
    let number = of_node.map(|id| id.number).max().unwrap_or(0) + 1;
    let session = SessionId {
        node: node.clone(),
        number,
    };
    let (secret, adopted) = (draw()?, None);
    let note = Note {
        session,
        secret,
        adopted,
    };
    Ok(Place::Free(note, None))
}

/// Refuses a cluster that others have begun.
fn must_be_free(survey: &Survey, own: Option<&SessionId>) -> Result<(), AdoptError> {
    let others = survey.sessions.iter().filter(|(id, _)| Some(*id) != own);
    let names = |all: Vec<&SessionId>| {
        let names: Vec<String> = all.into_iter().map(ToString::to_string).collect();
        names.join(", ")
    };
    let live = others.clone().filter(|(_, (r, _))| r.state.is_live());
    let live: Vec<_> = live.map(|(id, _)| id).collect();
    if !live.is_empty() {
        return Err(AdoptError::Alive(names(live)));
    }
    let saved = others.filter(|(_, (r, _))| r.checkpoint > 0);
    let bases = survey.cells.values().flat_map(|cell| &cell.bases);
    let saved: BTreeSet<_> = saved
        .map(|(id, _)| id)
        .chain(bases.map(|base| &base.session))
        .collect();
    if !saved.is_empty() {
        return Err(AdoptError::Begun(names(saved.into_iter().collect())));
    }
    Ok(())
}

/// Has a session with all cells begin and end, with a checkpoint that is written.
struct Founding<E> {
    engine: Arc<E>,
    runtime: Runtime,
    cells: CellCount,
    note: Note,
    /// Of the session's key.
    revision: Option<Revision>,
    /// When the crawl would have begun if it had never rested.
    begun: u64,
    weight: f64,
    folder: PathBuf,
    /// Whether no request was in flight when the crawl ended.
    clean: bool,
}

impl<E: Engine> Founding<E> {
    async fn found(&mut self, made: &Made) -> Result<Adopted, AdoptError> {
        let mut adopted = self.note.adopted.clone().unwrap_or_default();
        adopted.checkpoint = made.number;
        self.note.adopted = Some(adopted.clone());
        Beside(self.folder.clone()).write(&self.note)?;
        let mut record = SessionRecord {
            weight: self.weight,
            idle: true,
            begun: self.begun,
            ..SessionRecord::new(State::Live, self.note.secret)
        };
        self.renew(&mut record).await?;
        let taken = self.take(&mut record).await;
        if let Err(error) = taken {
            // So nobody has to wait until it counts as dead.
            record.state = State::Fenced;
            if let Err(error) = self.renew(&mut record).await {
                tracing::debug!(%error, "the session ends by itself");
            }
            return Err(error);
        }
        record.state = State::Ended;
        (record.checkpoint, record.used) = (made.number, made.used);
        self.renew(&mut record).await?;
        if self.clean
            && let Err(error) = self.give_back(made.number).await
        {
            tracing::debug!(%error, "some hosts are left alone for a while at first");
        }
        Ok(adopted)
    }

    /// Gives all cells back that nobody has taken yet.
    async fn give_back(&self, checkpoint: u64) -> Result<(), AdoptError> {
        let all: Vec<CellId> = self.cells.all().collect();
        for some in all.chunks(AT_ONCE) {
            try_join_all(some.iter().map(|cell| self.give(*cell, checkpoint))).await?;
        }
        Ok(())
    }

    async fn give(&self, cell: CellId, checkpoint: u64) -> Result<(), AdoptError> {
        let key = Key::Cell(cell);
        let session = self.note.session.clone();
        let found = self.engine.get(&key.to_string()).await?;
        let Some((bytes, revision)) = found else {
            return Ok(());
        };
        match Value::of(&key, &bytes) {
            Ok(Value::Cell(record)) if record.owner.as_ref() == Some(&session) => {}
            _ => return Ok(()),
        }
        let bases = vec![Base {
            session,
            checkpoint,
        }];
        let given = CellRecord {
            owner: None,
            after: 0,
            bases,
        };
        match put(&*self.engine, &key, Value::Cell(given), Some(revision)).await {
            // Somebody has just taken it.
            Err(AdoptError::Overtaken) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Writes the session's key, which nobody else may have changed.
    async fn renew(&mut self, record: &mut SessionRecord) -> Result<(), AdoptError> {
        record.beat += 1;
        let key = Key::Session(self.note.session.clone());
        let value = Value::Session(record.clone());
        self.revision = Some(put(&*self.engine, &key, value, self.revision).await?);
        Ok(())
    }

    /// Takes all cells.
    async fn take(&mut self, record: &mut SessionRecord) -> Result<(), AdoptError> {
        must_be_free(&Survey::of(&*self.engine).await?, Some(&self.note.session))?;
        let all: Vec<CellId> = self.cells.all().collect();
        for some in all.chunks(AT_ONCE) {
            try_join_all(some.iter().map(|cell| self.take_cell(*cell))).await?;
            self.renew(record).await?;
        }
        Ok(())
    }

    /// Takes a cell of which nobody has a state.
    async fn take_cell(&self, cell: CellId) -> Result<(), AdoptError> {
        let key = Key::Cell(cell);
        let was = match self.engine.get(&key.to_string()).await? {
            None => None,
            Some((bytes, revision)) => match Value::of(&key, &bytes) {
                Ok(Value::Cell(record)) if record.owner.as_ref() == Some(&self.note.session) => {
                    return Ok(());
                }
                Ok(Value::Cell(record)) if record.bases.is_empty() => {
                    if let Some(owner) = &record.owner {
                        self.must_be_over(owner).await?;
                    }
                    Some(revision)
                }
                Ok(Value::Cell(_)) => return Err(AdoptError::Overtaken),
                _ => return Err(NodeError::OtherVersion.into()),
            },
        };
        let record = CellRecord {
            owner: Some(self.note.session.clone()),
            after: 0,
            bases: Vec::new(),
        };
        put(&*self.engine, &key, Value::Cell(record), was).await?;
        Ok(())
    }

    /// The owner of a cell must have ended without a checkpoint, or be unknown.
    async fn must_be_over(&self, owner: &SessionId) -> Result<(), AdoptError> {
        let key = Key::Session(owner.clone());
        let Some((bytes, _)) = self.engine.get(&key.to_string()).await? else {
            return Ok(());
        };
        match Value::of(&key, &bytes) {
            Ok(Value::Session(record)) if !record.state.is_live() && record.checkpoint == 0 => {
                Ok(())
            }
            Ok(_) => Err(AdoptError::Overtaken),
            Err(_) => Err(NodeError::OtherVersion.into()),
        }
    }
}

/// Replaces the value of a key. Where the answer is lost, the key tells what became of it.
async fn put(
    engine: &impl Engine,
    key: &Key,
    value: Value,
    was: Option<Revision>,
) -> Result<Revision, AdoptError> {
    let unwritten = |_| AdoptError::Node(NodeError::OtherVersion);
    let (key, bytes) = (key.to_string(), value.to_bytes().map_err(unwritten)?);
    let lost = match engine.swap(&key, bytes.clone(), was).await {
        Ok(revision) => return Ok(revision),
        Err(EngineError::Stale) => return Err(AdoptError::Overtaken),
        Err(lost) => lost,
    };
    match engine.get(&key).await? {
        Some((found, revision)) if found == bytes => Ok(revision),
        _ => Err(lost.into()),
    }
}

/// Tells all machines the takedowns of the job that they have not been told, and to rest where the
/// job is paused. Returns how many takedowns the job has, and whether it is paused.
async fn tell(engine: &impl Engine, config: &JobSettings) -> Result<(usize, bool), AdoptError> {
    let folder = config.job_folder();
    let own = checkpoint::takedowns(&folder)?;
    let told = WantedState::takedowns(engine).await?;
    let mut untold = own.orders().to_vec();
    untold.retain(|order| told.iter().all(|told| told.target != order.target));
    let said = WantedBy {
        by: "the job that was adopted".to_owned(),
        time: timestamp(now()),
        ..WantedBy::default()
    };
    for some in untold.chunks(TARGETS) {
        let list = WantedList {
            takedowns: some.to_vec(),
            said: said.clone(),
            ..WantedList::default()
        };
        WantedState::change(engine, Some(&list), &|_| {}).await?;
    }
    let is_paused = beneath::is_file(&folder, PAUSED);
    if is_paused {
        let pause: &WantedEdit<'_> = &|wanted| {
            wanted.paused = true;
            wanted.paused_by.clone_from(&said);
        };
        WantedState::change(engine, None, pause).await?;
    }
    Ok((own.orders().len(), is_paused))
}

/// The folder beside the job's.
struct Beside(PathBuf);

impl Beside {
    fn of(folder: &Path) -> Self {
        let mut name = folder.file_name().unwrap_or_default().to_owned();
        name.push(BESIDE);
        Self(folder.with_file_name(name))
    }

    fn read(&self) -> Result<Option<Note>, AdoptError> {
        let path = self.0.join(NOTE);
        let bytes = match beneath::read(&self.0, NOTE) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(IoError::at(&path, "reading"))?,
        };
        let read = serde_json::from_slice(&bytes).map(Some);
        read.map_err(|error| AdoptError::Note {
            path,
            why: error.to_string(),
        })
    }

    fn write(&self, note: &Note) -> Result<(), AdoptError> {
        // Names and numbers always serialise.
        let bytes = serde_json::to_vec(note).unwrap_or_default();
        std::fs::create_dir_all(&self.0).map_err(IoError::at(&self.0, "making the folder"))?;
        let written = atomic::write_bytes(&self.0, NOTE, &bytes);
        Ok(written.map_err(IoError::at(&self.0.join(NOTE), "writing"))?)
    }

    /// An empty store. What an earlier call has divided is of no use.
    fn store(&self) -> Result<Box<dyn store::Store>, AdoptError> {
        let path = self.0.join(FRONTIER);
        remove(&path)?;
        Ok(store::open(StoreKind::Fjall, &path)?)
    }

    fn remove(&self) -> Result<(), IoError> {
        remove(&self.0)
    }
}

fn remove(folder: &Path) -> Result<(), IoError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(IoError::at(folder, "removing")),
    }
}

#[cfg(test)]
mod tests;
