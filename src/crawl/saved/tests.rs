//! Any sequence of batches, checkpoints, store failures, crashes and lost machines leaves a
//! checkpoint of the first batches: none of them incomplete, and none missing that a checkpoint
//! confirmed.

mod sessions;

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use sha2::Digest as _;
use tempfile::TempDir;

use super::claim::{self, TakeOver};
use super::keeper::CheckpointStatus;
use super::manifest::{self, Manifest};
use super::restore::restore;
use super::session::{Saved, Session};
use super::*;
use crate::address::PageUrl;
use crate::checkpoint::{self, OpenJob};
use crate::config::Config;
use crate::objects::Objects;
use crate::objects::simulated::{Fate, Simulated};
use crate::outputs::growth;
use crate::outputs::picture::ImageInfo;
use crate::outputs::{Document, NewImageFile, PackedSentences};
use crate::page::{ImageContext, ImageScores, ImageTexts, TaskKind, Terms};

fn config(root: &Path, cells: u16) -> Config {
    let frontier = match cells {
        1 => String::new(),
        _ => format!("[frontier]\nstore = \"fjall\"\ncells = {cells}\n"),
    };
    let text = format!(
        "[job]\nname = \"test\"\nfolder = {root:?}\n[model]\nfolder = {:?}\n\
         [logs]\nrotate = \"4 KiB\"\n\
         [checkpoint]\nstore = \"file:///unused\"\n{frontier}",
        root.join("models")
    );
    Config::parse(&text, "test.toml").unwrap()
}

fn seed(n: u32) -> PageUrl {
    PageUrl::parse(&format!("http://h{}.test/{n}", n % 5)).unwrap()
}

/// A machine with the job.
struct Machine {
    root: TempDir,
    config: Config,
    job: Option<OpenJob>,
    session: Option<Session>,
}

impl Machine {
    /// A machine with only the job file, which continues from what is in the store.
    fn new(objects: &Arc<Simulated>) -> Result<Self, SaveError> {
        Self::with(objects, 1)
    }

    /// The same with a frontier of this many cells.
    fn with(objects: &Arc<Simulated>, cells: u16) -> Result<Self, SaveError> {
        let root = tempfile::tempdir().unwrap();
        let config = config(root.path(), cells);
        let mut machine = Self {
            root,
            config,
            job: None,
            session: None,
        };
        machine.start(objects)?;
        Ok(machine)
    }

    fn start(&mut self, objects: &Arc<Simulated>) -> Result<(), SaveError> {
        let folder = self.config.job_folder();
        std::fs::create_dir_all(&folder).unwrap();
        let model = self.config.model_folder();
        let found = manifest::read(&**objects)?;
        if !model.exists() && !found.is_some_and(|(manifest, _)| manifest.has_state()) {
            std::fs::create_dir_all(&model).unwrap();
            std::fs::write(model.join("lm.arpa"), vec![b'x'; 2_500]).unwrap();
        }
        let has_frontier = folder.join("frontier").exists();
        let own = claim::own(&folder)?;
        let found = manifest::read(&**objects)?;
        let at_once = TakeOver::AtOnce;
        let claimed = claim::claim(
            &self.config,
            &**objects,
            &own,
            found,
            has_frontier,
            at_once,
            &mut |_| {},
        )?;
        if !has_frontier && claimed.0.has_state() {
            restore(&self.config, &**objects, &claimed.0, &mut |_| {})?;
        }
        let shared: Arc<dyn Objects> = Arc::clone(objects) as Arc<dyn Objects>;
        let session = Session::replacing(&self.config, shared, own, Some(claimed));
        let job = checkpoint::open(&self.config, 0)?;
        session.check(job.frontier.commits())?;
        (self.job, self.session) = (Some(job), Some(session));
        Ok(())
    }

    /// The process dies, and loses everything in memory.
    fn crash(&mut self) {
        (self.job, self.session) = (None, None);
    }

    /// A page: a link, sentences, and on some an image, in one commit.
    fn batch(&mut self, n: u32) {
        let job = self.job.as_mut().unwrap();
        let words = format!("page {n}\n{}\n", "word ".repeat(n as usize * 7 % 90));
        job.outputs.sentences(&PackedSentences::of(&words)).unwrap();
        let document = Document {
            url: seed(n).to_string(),
            text: words,
            ..Document::default()
        };
        job.outputs.document(&document).unwrap();
        if n.is_multiple_of(3) {
            let url = PageUrl::parse(&format!("http://i.test/{}.jpg", n % 12)).unwrap();
            let bytes = [n as u8 % 12; 600];
            let info = ImageInfo {
                sha256: base16ct::lower::encode_string(&sha2::Sha256::digest(bytes)),
                format: "jpeg".to_owned(),
                extension: "jpg",
                width: 640,
                height: 480,
                ..ImageInfo::default()
            };
            let context = ImageContext {
                page: seed(n),
                page_title: None,
                page_language: None,
                page_recognised_language: None,
                document_perplexity: 1.0,
                declared_width: None,
                declared_height: None,
                terms: Terms::default(),
                embedding: Default::default(),
                texts: ImageTexts::default(),
                scores: ImageScores::default(),
                rank: 1.0,
            };
            let new = NewImageFile {
                contexts: vec![context],
                ..NewImageFile::new(&url, &bytes, info, "2026-01-02T12:00:00.000Z")
            };
            job.outputs.image(new).unwrap();
        }
        job.frontier.add_seeds(&[seed(n)], 0).unwrap();
        // A crawl writes both in one commit; here the second one counts.
        job.frontier.set_stamp(job.outputs.stamp()).unwrap();
    }

    fn save(&mut self) -> Result<(), SaveError> {
        let (job, session) = (self.job.as_ref().unwrap(), self.session.as_mut().unwrap());
        let changes = job.changes.as_ref().unwrap();
        let until = changes.flushed();
        session.begin()?;
        if session.save(changes, until)? == Saved::NeedsBase {
            changes.begin()?;
            session.base(job.frontier.snapshot(), |_| {})?;
        }
        Ok(changes.forget(session.manifest()?.commits)?)
    }

    /// The number of batches that are present, all complete and without gaps.
    fn whole(&self, most: u32) -> u32 {
        let job = self.job.as_ref().unwrap();
        let known = |n: u32| {
            let record = job.frontier.look_up(&seed(n), TaskKind::Page).unwrap();
            record.is_some()
        };
        let count = (0..=most).take_while(|n| known(*n)).count() as u32;
        assert!(
            (count..=most).all(|n| !known(n)),
            "a batch without an earlier one"
        );
        check_outputs(&self.config.job_folder(), count);
        let arpa = self.config.model_folder().join("lm.arpa");
        assert_eq!(std::fs::read(arpa).unwrap().len(), 2_500);
        count
    }
}

/// The outputs are those of this many batches.
fn check_outputs(folder: &Path, count: u32) {
    let mut lines = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(folder.join("sentences"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for file in files {
        let bytes = std::fs::read(file).unwrap();
        let mut text = String::new();
        let mut decoder = flate2::read::MultiGzDecoder::new(&*bytes);
        std::io::Read::read_to_string(&mut decoder, &mut text).unwrap();
        lines.extend(text.lines().map(str::to_owned));
    }
    let pages: Vec<&str> = lines
        .iter()
        .filter_map(|l| l.strip_prefix("page "))
        .collect();
    let expected: Vec<String> = (0..count).map(|n| n.to_string()).collect();
    assert_eq!(pages, expected);
    let mut rows = 0;
    crate::outputs::each_line(folder, crate::outputs::Table::Images, 10_000, |_| rows += 1)
        .unwrap();
    assert_eq!(rows - 1, u64::from(count.div_ceil(3)), "rows of images");
    let files = crate::outputs::image_files(folder).unwrap();
    assert!(files.len() >= count.div_ceil(3).min(4) as usize);
    for file in files {
        let image = growth::saved_image(folder, &file).unwrap().unwrap();
        let bytes = std::fs::read(folder.join(&file)).unwrap();
        let digest = sha2::Sha256::digest(&bytes);
        assert_eq!(base16ct::lower::encode_string(&digest), image.sha256);
    }
    let documents = crate::outputs::documents(folder).unwrap();
    let urls: Vec<String> = documents.map(|document| document.unwrap().url).collect();
    let expected: Vec<String> = (0..count).map(|n| seed(n).to_string()).collect();
    assert_eq!(urls, expected);
}

#[derive(Debug, Clone)]
enum Step {
    /// Fetches this many pages.
    Batches(u8),
    /// A checkpoint; after this many writes succeed, the next ones have these fates.
    Save(u8, Vec<Fate>),
    /// The process dies and is started again.
    Crash,
    /// The machine is lost, and another one continues.
    Lose,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fate = prop_oneof![Just(Fate::Failed), Just(Fate::Lost), Just(Fate::Done)];
    let fates = prop::collection::vec(fate, 0..3);
    let step = prop_oneof![
        4 => (1..9_u8).prop_map(Step::Batches),
        5 => (0..9_u8, fates).prop_map(|(n, fates)| Step::Save(n, fates)),
        1 => Just(Step::Crash),
        1 => Just(Step::Lose),
    ];
    prop::collection::vec(step, 1..18)
}

fn run(steps: Vec<Step>, cells: u16) {
    let objects = Arc::new(Simulated::default());
    let mut machine = Machine::with(&objects, cells).unwrap();
    // Batches on this machine, and batches that a checkpoint certainly has.
    let (mut here, mut saved) = (0, 0);
    for step in steps
        .into_iter()
        .chain([Step::Save(0, Vec::new()), Step::Lose])
    {
        match step {
            Step::Batches(count) => (0..count).for_each(|_| {
                machine.batch(here);
                here += 1;
            }),
            Step::Save(done, fates) => {
                let mut all = fates;
                all.extend(vec![Fate::Done; done as usize]);
                *objects.fates.lock().unwrap() = all;
                if machine.save().is_ok() {
                    saved = here;
                }
                objects.fates.lock().unwrap().clear();
            }
            Step::Crash => {
                machine.crash();
                machine.start(&objects).unwrap();
                assert_eq!(machine.whole(here), here);
            }
            Step::Lose => {
                machine.crash();
                machine = Machine::with(&objects, cells).unwrap();
                if manifest::read(&*objects).unwrap().unwrap().0.has_state() {
                    let found = machine.whole(here);
                    assert!(found >= saved, "{found} of {saved}");
                    (here, saved) = (found, found);
                } else {
                    assert_eq!(saved, 0);
                    here = 0;
                }
            }
        }
    }
    // Objects that no manifest names are swept with the next base.
    machine.crash();
    machine.start(&objects).unwrap();
    let session = machine.session.as_mut().unwrap();
    let view = machine.job.as_ref().unwrap().frontier.snapshot();
    session.base(view, |_| {}).unwrap();
    let named = session.manifest().unwrap().names(&*objects).unwrap();
    let there = objects.objects.lock().unwrap();
    let rubbish: Vec<_> = there
        .keys()
        .filter(|name| **name != manifest::NAME && !name.starts_with("images/"))
        .filter(|name| !named.contains(name))
        .collect();
    assert!(rubbish.is_empty(), "{rubbish:?}");
}

proptest! {
    #![proptest_config(spoor_testing::cases!(10))]
    #[test]
    fn a_checkpoint_has_the_first_batches_and_nothing_in_part(steps in steps()) {
        run(steps, 1);
    }
}

proptest! {
    #![proptest_config(spoor_testing::cases!(5))]
    #[test]
    fn so_has_one_of_several_cells(steps in steps()) {
        run(steps, 4);
    }
}

/// A session's checkpoint restores the outputs of its moment, regardless of later changes.
#[test]
fn the_outputs_of_a_session_come_back_without_its_machine() {
    let store = tempfile::tempdir().unwrap();
    let store = format!("file://{}", store.path().join("of/cluster").display());
    let mut machine = Machine::with(&Arc::default(), 4).unwrap();
    let life = Life {
        store: store.clone(),
        session: "n1.example.org.3".to_owned(),
        committed: 0,
        made: 0,
        commit: Box::new(|_| Committed::Yes),
        named: Box::new(|| Some((1..30).collect())),
    };
    machine.session = Some(Session::of_cluster(&machine.config, life).unwrap());
    let moments = [1, 2, 9, 23, 24, 41];
    let mut here = 0;
    for until in moments {
        while here < until {
            machine.batch(here);
            here += 1;
        }
        machine.save().unwrap();
    }
    let last = machine.session.as_ref().unwrap().last.clone().unwrap();
    assert_eq!(last.number, moments.len() as u64);
    let stamp = machine.job.as_ref().unwrap().frontier.stamp().unwrap();
    drop(machine);
    let root = tempfile::tempdir().unwrap();
    for (number, until) in (1..).zip(moments) {
        let folder = root.path().join(number.to_string());
        let found = outputs_of(&store, "n1.example.org.3", number, &folder).unwrap();
        check_outputs(&folder, until);
        assert_eq!(found == stamp, until == 41);
        assert!(!folder.join("frontier").exists());
        assert!(!root.path().join("models").exists());
        let again = outputs_of(&store, "n1.example.org.3", number, &folder).unwrap_err();
        assert!(matches!(again, SaveError::NotEmpty(_)), "{again}");
    }
    let folder = root.path().join("none");
    let missing = outputs_of(&store, "n1.example.org.3", 7, &folder).unwrap_err();
    assert!(matches!(missing, SaveError::Unreadable { .. }), "{missing}");
}

#[test]
fn only_changes_are_sent() {
    let objects = Arc::new(Simulated::default());
    let mut machine = Machine::new(&objects).unwrap();
    (0..40).for_each(|n| machine.batch(n));
    machine.save().unwrap();
    let first = machine.session.as_ref().unwrap().sent;
    machine.batch(40);
    machine.save().unwrap();
    let second = machine.session.as_ref().unwrap().sent - first;
    assert!(second * 6 < first, "{second} of {first}");
    // Nothing new: the manifest alone.
    machine.save().unwrap();
    assert_eq!(machine.session.as_ref().unwrap().sent, first + second);
    // A restart does not send everything again.
    machine.crash();
    machine.start(&objects).unwrap();
    machine.batch(41);
    machine.save().unwrap();
    let third = machine.session.as_ref().unwrap().sent;
    assert!(third < first / 4, "{third} of {first}");
    assert_eq!(machine.whole(42), 42);
}

#[test]
fn changes_that_outgrow_the_base_become_one() {
    let objects = Arc::new(Simulated::default());
    let mut machine = Machine::new(&objects).unwrap();
    let mut most = 0;
    let mut bases = 0;
    for n in 0..60 {
        machine.batch(n);
        machine.save().unwrap();
        let manifest = machine.session.as_ref().unwrap().manifest().unwrap();
        bases += usize::from(manifest.changes.is_empty());
        most = most.max(objects.objects.lock().unwrap().len());
    }
    assert!(bases > 2, "{bases}");
    assert!(most < 200, "{most}");
    let manifest = machine.session.as_ref().unwrap().manifest().unwrap();
    assert!(!manifest.lists.is_empty());
    machine.crash();
    let machine = Machine::new(&objects).unwrap();
    assert_eq!(machine.whole(60), 60);
}

#[test]
fn a_process_that_was_taken_over_learns_by_which() {
    let objects = Arc::new(Simulated::default());
    let mut one = Machine::new(&objects).unwrap();
    one.batch(0);
    one.save().unwrap();
    let mut two = Machine::new(&objects).unwrap();
    one.batch(1);
    let refused = one.save().unwrap_err();
    assert!(matches!(refused, SaveError::Overtaken { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("has taken this job over"), "{text}");
    let own = std::process::id().to_string();
    assert!(text.contains(&own), "{text}");
    two.batch(1);
    two.save().unwrap();
    // The first machine's folder cannot continue from there.
    one.crash();
    let refused = one.start(&objects).unwrap_err().to_string();
    assert!(refused.contains("from another folder than"), "{refused}");
    assert!(refused.contains("--replace"), "{refused}");
    assert!(one.root.path().exists());
    // Nor can an older copy of its own folder.
    let there = Manifest {
        commits: 10_000,
        ..two.session.as_ref().unwrap().manifest().unwrap().clone()
    };
    two.session.as_mut().unwrap().last = Some(there);
    let refused = two.session.as_ref().unwrap().check(9).unwrap_err();
    assert!(
        refused.to_string().contains("commit 10000 and not 9"),
        "{refused}"
    );
}

#[test]
fn damage_is_named() {
    let objects = Arc::new(Simulated::default());
    let mut machine = Machine::new(&objects).unwrap();
    (0..20).for_each(|n| machine.batch(n));
    machine.save().unwrap();
    drop(machine);
    let names: Vec<String> = objects.objects.lock().unwrap().keys().cloned().collect();
    for name in names.iter().filter(|name| !name.starts_with("images/")) {
        let whole = objects.objects.lock().unwrap().clone();
        for change in [true, false] {
            let mut there = objects.objects.lock().unwrap();
            if change {
                let bytes = &mut there.get_mut(name).unwrap().0;
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0x5a;
            } else if name == manifest::NAME {
                continue;
            } else {
                there.remove(name);
            }
            drop(there);
            let refused = Machine::new(&objects).err().map(|error| error.to_string());
            let refused = refused.unwrap_or_else(|| panic!("{name} was taken"));
            assert!(refused.contains("damaged or removed"), "{name}: {refused}");
            *objects.objects.lock().unwrap() = whole.clone();
        }
    }
    // A manifest of another job.
    let mut other = Machine::new(&objects).unwrap();
    other.crash();
    other.config.job.name = crate::config::Config::parse("[job]\nname = \"b\"\n", "b")
        .unwrap()
        .settings
        .job
        .name;
    let refused = other.start(&objects).unwrap_err().to_string();
    assert!(refused.contains("of the job `test`"), "{refused}");
    assert_eq!(CheckpointStatus::default().count, 0);
}
