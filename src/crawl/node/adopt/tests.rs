//! Whenever an adoption stops, all of it counts or nothing, and another call completes it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;
use crate::cluster::told::{Fate, Told};
use crate::cluster::{Change, Entry, JobPhase, JobRecord, LAYOUT, Question};
use crate::config::Config;
use crate::frontier::cells_tests::web::Web;
use crate::outputs::{Document, PackedSentences};
use crate::saved::SavedCells;
use crate::web::scope::{Order as Takedown, Takedowns, Target};

/// An engine under which the process dies at some call: before it is done, or after.
struct Mortal {
    told: Told,
    life: Mutex<(Option<usize>, bool)>,
}

impl Mortal {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            told: Told::default(),
            life: Mutex::new((None, false)),
        })
    }

    /// It dies at the call with this number, if it comes so far.
    fn dies_at(&self, call: Option<usize>, after: bool) {
        *self.life.lock().unwrap() = (call, after);
    }

    /// Whether the call is the last one: then what to do before it.
    fn is_last(&self) -> bool {
        let mut life = self.life.lock().unwrap();
        let (left, after) = *life;
        let is_last = left == Some(0);
        life.0 = left.and_then(|left| left.checked_sub(1));
        drop(life);
        assert!(!is_last || after, "the process dies");
        is_last
    }

    fn told<T>(&self, is_last: bool, answer: T) -> T {
        assert!(!is_last, "the process dies");
        answer
    }
}

impl Engine for Mortal {
    async fn get(&self, key: &str) -> Result<Entry, EngineError> {
        let is_last = self.is_last();
        let answer = self.told.get(key).await;
        self.told(is_last, answer)
    }

    async fn swap(
        &self,
        key: &str,
        value: Vec<u8>,
        was: Option<Revision>,
    ) -> Result<Revision, EngineError> {
        let is_last = self.is_last();
        let answer = self.told.swap(key, value, was).await;
        self.told(is_last, answer)
    }

    async fn watch(&self, key: Option<&str>) -> Result<mpsc::Receiver<Change>, EngineError> {
        self.told.watch(key).await
    }

    async fn send(&self, log: &str, id: &str, message: Bytes) -> Result<(), EngineError> {
        let is_last = self.is_last();
        let answer = self.told.send(log, id, message).await;
        self.told(is_last, answer)
    }

    async fn read(
        &self,
        log: &str,
        after: u64,
    ) -> Result<mpsc::Receiver<(u64, Bytes)>, EngineError> {
        self.told.read(log, after).await
    }

    async fn last(&self, log: &str) -> Result<u64, EngineError> {
        let is_last = self.is_last();
        let answer = self.told.last(log).await;
        self.told(is_last, answer)
    }

    async fn cut(&self, log: &str, up_to: u64) -> Result<(), EngineError> {
        self.told.cut(log, up_to).await
    }

    async fn ask(&self, subject: &str, body: Bytes) -> Result<Bytes, EngineError> {
        self.told.ask(subject, body).await
    }

    async fn answer(&self, subject: &str) -> Result<mpsc::Receiver<Question>, EngineError> {
        self.told.answer(subject).await
    }
}

const CELLS: u16 = 8;

/// A job that one machine has crawled alone for a while, and a cluster that has nothing.
struct Alone {
    _root: TempDir,
    config: JobSettings,
    engine: Arc<Mortal>,
    runtime: tokio::runtime::Runtime,
    /// What the frontier had.
    counts: frontier::Counts,
    documents: usize,
}

impl Alone {
    fn new() -> Self {
        Self::crawled(60)
    }

    fn crawled(steps: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        let text = format!(
            "[job]\nname = \"test\"\nfolder = {:?}\n[model]\nfolder = {:?}\n\
             [consent]\ntdmrep = false\n[frontier]\nstore = \"fjall\"\n\
             [cluster]\nbrokers = [\"nats://127.0.0.1:1\"]\nstore = \"file://{}\"\n\
             node = \"a\"\ncells = {CELLS}\n",
            root.path(),
            root.path().join("models"),
            root.path().join("common").display(),
        );
        let config = Config::parse(&text, "test.toml").unwrap().settings;
        std::fs::create_dir_all(root.path().join("common")).unwrap();
        let alone = checkpoint::alone(config.clone());
        let mut job = checkpoint::open(&alone, 1_000).unwrap();
        let (web, mut at) = (Web::new(5), 1_000);
        job.frontier.add_seeds(&web.seeds(), at).unwrap();
        let all: Vec<CellId> = job.frontier.cells().all().collect();
        for n in 0..steps {
            let Some((cell, task)) = job.frontier.lease(&all, at).unwrap() else {
                let Some(next) = job.frontier.next_event() else {
                    break;
                };
                at = next.max(at + 1);
                continue;
            };
            let words = format!("page {n}\n");
            job.outputs.sentences(&PackedSentences::of(&words)).unwrap();
            let document = Document {
                url: task.url.to_string(),
                text: words,
                ..Document::default()
            };
            job.outputs.document(&document).unwrap();
            let finish = |f: &mut frontier::Frontier| web.finish(f, &task, at);
            job.frontier.with(cell, at, finish).unwrap();
        }
        job.outputs.sync().unwrap();
        job.frontier.set_stamp(job.outputs.stamp()).unwrap();
        job.frontier.add_active(5_000);
        let counts = job.frontier.counts().clone();
        job.frontier.close().unwrap();
        drop((job.outputs, job.lock));
        let documents = crate::outputs::documents(&config.job_folder()).unwrap();
        Self {
            documents: documents.count(),
            _root: root,
            config,
            engine: Mortal::new(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            counts,
        }
    }

    fn adopt(&self) -> Result<Adopted, AdoptError> {
        let handle = self.runtime.handle();
        adopt(&self.engine, &self.config, handle, &mut |_| {})
    }

    fn survey(&self) -> Survey {
        self.runtime
            .block_on(Survey::of(&self.engine.told))
            .unwrap()
    }

    /// The folder beside the job's.
    fn beside(&self) -> PathBuf {
        Beside::of(&self.config.job_folder()).0
    }

    /// Sets the key of a session.
    fn put(&self, name: &str, state: State, checkpoint: u64) {
        let record = SessionRecord {
            checkpoint,
            ..SessionRecord::new(state, 77)
        };
        let key = format!("s.{name}.1");
        let was = self.runtime.block_on(self.engine.told.get(&key)).unwrap();
        let was = was.map(|(_, revision)| revision);
        let bytes = Value::Session(record).to_bytes().unwrap();
        let put = self.engine.told.swap(&key, bytes, was);
        self.runtime.block_on(put).unwrap();
    }

    /// Nothing counts: whoever begins has no state of any cell, and nothing to gather.
    fn must_have_nothing(&self) {
        let survey = self.survey();
        assert_eq!(survey.saved(), []);
        assert!(survey.cells.values().all(|cell| cell.bases.is_empty()));
    }

    /// All of it counts.
    fn must_have_all(&self, adopted: &Adopted) {
        let survey = self.survey();
        let saved = survey.saved();
        let [(session, checkpoint)] = saved.as_slice() else {
            panic!("{saved:?}");
        };
        assert_eq!(adopted.session, session.to_string());
        assert_eq!(adopted.checkpoint, *checkpoint);
        let (record, _) = &survey.sessions[session];
        assert_eq!(record.state, State::Ended);
        assert_eq!(record.used.fetches, self.counts.fetches);
        assert_eq!(record.used.documents, self.counts.documents);
        assert!(now() - record.begun >= 5_000, "the time that was spent");
        assert_eq!(survey.cells.len(), usize::from(CELLS));
        for cell in survey.cells.values() {
            let base = Base {
                session: session.clone(),
                checkpoint: *checkpoint,
            };
            // The latter where it died before it could give them back.
            let is_given = cell.owner.is_none() && cell.bases == [base];
            let is_owned = cell.owner.as_ref() == Some(session) && cell.bases.is_empty();
            assert!(is_given || (is_owned && cell.after == 0), "{cell:?}");
        }
        let phase = JobPhase::Run;
        assert_eq!(
            survey.job,
            Some(JobRecord {
                cells: CELLS,
                phase,
                layout: LAYOUT,
            })
        );
        let store = self.config.cluster.store.as_ref().unwrap().as_str();
        let saved = SavedCells::open(store, &adopted.session, *checkpoint).unwrap();
        assert_eq!(saved.held().len(), usize::from(CELLS));
        let into = tempfile::tempdir().unwrap();
        let into = into.path().join("outputs");
        saved::outputs_of(store, &adopted.session, *checkpoint, &into).unwrap();
        let documents = crate::outputs::documents(&into).unwrap().count();
        assert_eq!(documents, self.documents);
        assert!(documents > 10);
        assert!(!self.beside().exists());
        assert!(adopted.bytes > 1_000);
    }
}

#[test]
fn what_was_adopted_is_a_session_that_has_ended() {
    let alone = Alone::new();
    let adopted = alone.adopt().unwrap();
    alone.must_have_all(&adopted);
    // It was closed in good order, so no host has to be left alone.
    let cells = alone.survey().cells;
    assert!(cells.values().all(|cell| cell.owner.is_none()));
    assert_eq!(adopted.documents, alone.counts.documents);
    assert!(adopted.filled > 2 && adopted.hosts > 5, "{adopted:?}");
    // The folder can still be opened alone, as it was.
    let config = checkpoint::alone(alone.config.clone());
    let job = checkpoint::open(&config, 2_000).unwrap();
    assert_eq!(job.frontier.counts(), &alone.counts);
    drop(job);
    // And it is adopted once.
    let again = alone.adopt().unwrap_err().to_string();
    assert!(again.contains("checkpoints of a.1"), "{again}");
    assert!(again.contains("run `spoor crawl`"), "{again}");
    alone.must_have_all(&adopted);
    assert!(!alone.beside().exists());
}

/// It dies at each call to the broker in turn, before it is done and after.
#[test]
fn whatever_is_interrupted_all_of_it_counts_or_nothing() {
    let mut is_through = [false; 2];
    for (after, is_through) in [false, true].into_iter().zip(&mut is_through) {
        for call in 0..200 {
            let alone = Alone::crawled(25);
            alone.engine.dies_at(Some(call), after);
            let died = catch_unwind(AssertUnwindSafe(|| alone.adopt()));
            if let Ok(adopted) = died {
                alone.must_have_all(&adopted.unwrap());
                *is_through = true;
                break;
            }
            alone.engine.dies_at(None, false);
            let counts = !alone.survey().saved().is_empty();
            if !counts {
                alone.must_have_nothing();
            }
            // Twice, so that what goes on is interrupted too.
            alone.engine.dies_at(Some(call / 2), !after);
            let died = catch_unwind(AssertUnwindSafe(|| alone.adopt()));
            alone.engine.dies_at(None, false);
            match died {
                Ok(adopted) => alone.must_have_all(&adopted.unwrap()),
                Err(_) => alone.must_have_all(&alone.adopt().unwrap()),
            }
        }
    }
    assert_eq!(is_through, [true; 2]);
}

/// A call whose answer is lost is not one that failed.
#[test]
fn lost_answers_change_nothing() {
    let alone = Alone::new();
    for prefix in ["s.", "c.", "p"] {
        alone.engine.told.next_swaps(prefix, [Fate::Lost; 2]);
    }
    let adopted = alone.adopt().unwrap();
    alone.must_have_all(&adopted);
}

/// Another machine ends the session while it lives, or has taken a cell: nothing counts.
#[test]
fn whoever_begins_meanwhile_is_left_alone() {
    for prefix in ["s.a", "c.5"] {
        let alone = Alone::new();
        // The last renewal, or the key of a cell, is another one's by now.
        let fates = match prefix {
            "s.a" => vec![Fate::Done, Fate::Done, Fate::Refused],
            _ => vec![Fate::Refused],
        };
        alone.engine.told.next_swaps(prefix, fates);
        let error = alone.adopt().unwrap_err();
        assert!(matches!(error, AdoptError::Overtaken), "{error}");
        alone.must_have_nothing();
        // When the other one is gone, it is as if it had never been.
        alone.must_have_all(&alone.adopt().unwrap());
    }
}

#[test]
fn a_cluster_that_has_begun_is_refused() {
    let alone = Alone::new();
    alone.put("b", State::Live, 0);
    let error = alone.adopt().unwrap_err().to_string();
    assert!(error.contains("b.1 crawl this job already"), "{error}");
    alone.put("b", State::Fenced, 3);
    let error = alone.adopt().unwrap_err().to_string();
    assert!(error.contains("checkpoints of b.1"), "{error}");
    assert!(error.contains("spoor cluster end"), "{error}");
    assert!(!alone.beside().exists());
    // One that ended without a checkpoint has brought nothing.
    alone.put("b", State::Ended, 0);
    alone.must_have_all(&alone.adopt().unwrap());
}

#[test]
fn takedowns_and_a_pause_hold_for_all_machines() {
    let alone = Alone::new();
    let folder = alone.config.job_folder();
    let mut takedowns = Takedowns::default();
    for (n, reason) in [(0, "law"), (1, "law"), (2, "asked")] {
        takedowns.add(Takedown {
            time: format!("2026-01-02T03:04:0{}.000Z", n / 2),
            target: Target::Host(format!("gone{n}.test").parse().unwrap()),
            reason: Some(reason.to_owned()),
        });
    }
    std::fs::write(folder.join(checkpoint::TAKEDOWNS), takedowns.to_lines()).unwrap();
    std::fs::write(folder.join(PAUSED), "2026-01-02T03:04:05.000Z\n").unwrap();
    // What was told before an interruption is not told again.
    alone.engine.told.next_swaps("c.1", [Fate::Refused]);
    alone.adopt().unwrap_err();
    let adopted = alone.adopt().unwrap();
    assert_eq!((adopted.takedowns, adopted.paused), (3, true));
    let wanted = WantedState::read(&alone.engine.told);
    let (wanted, _) = alone.runtime.block_on(wanted).unwrap().unwrap();
    assert!(wanted.paused && wanted.lists.len() == 1, "{wanted:?}");
    let told = alone
        .runtime
        .block_on(WantedState::takedowns(&alone.engine.told));
    assert_eq!(told.unwrap(), takedowns.orders());
}

#[test]
fn a_folder_that_is_in_use_or_unfinished_is_refused() {
    let alone = Alone::new();
    let folder = alone.config.job_folder();
    let lock = checkpoint::lock(&folder).unwrap();
    assert!(matches!(alone.adopt(), Err(AdoptError::Open(_))));
    drop(lock);
    for (name, words) in [
        (NOTE, "folder of a machine of a cluster"),
        (checkpoint::UNFINISHED, "a takedown was interrupted"),
        (saved::RESTORING, "a restore was interrupted"),
    ] {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "{}").unwrap();
        let error = alone.adopt().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        std::fs::remove_file(path).unwrap();
    }
    alone.must_have_nothing();
    std::fs::rename(folder.join("frontier"), folder.join("elsewhere")).unwrap();
    let error = alone.adopt().unwrap_err().to_string();
    assert!(error.contains("nothing to adopt"), "{error}");
}
