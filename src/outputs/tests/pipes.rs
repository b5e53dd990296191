//! A named pipe in place of a file: an ordinary open would wait for its other end for ever.

use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;
use crate::rows::Table;

/// Long enough for any machine; an endless wait fails here.
const GUARD: Duration = Duration::from_secs(60);

/// The error of something that might wait.
fn refused<T: Send + 'static>(
    what: impl FnOnce() -> Result<T, OutputError> + Send + 'static,
) -> String {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(what().err().map(|e| e.to_string())).ok());
    let result = receiver
        .recv_timeout(GUARD)
        .expect("it waits for the other end");
    result.expect("a pipe was taken for a file")
}

fn pipe(job: &Path, name: &str) -> PathBuf {
    let path = job.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    if path.exists() {
        std::fs::remove_file(&path).unwrap();
    }
    // Without a child process, which would hold the locks of other tests for a moment.
    let (kind, mode) = (FileType::Fifo, Mode::from_raw_mode(0o600));
    mknodat(CWD, &path, kind, mode, 0).unwrap();
    path
}

#[test]
fn a_pipe_in_place_of_any_file_is_refused_by_its_name() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let said = context("http://a.org/1", "x");
    let file = keep(&mut o, "http://i.org/a.jpg", vec![said.clone()]);
    let place = o
        .sentences(&PackedSentences::of("one two\n"))
        .unwrap()
        .unwrap();
    o.log(&row("http://a.org/1")).unwrap();
    let stamp = o.stamp();
    drop(o);
    let folder = job.path().to_owned();
    for name in [
        "logs/crawl.jsonl",
        "images.tsv",
        "sentences/00000.txt.gz",
        "generation",
    ] {
        let path = folder.join(name);
        let before = std::fs::read(&path).ok();
        pipe(&folder, name);
        let (at, stamp) = (folder.clone(), stamp.clone());
        let error = refused(move || Outputs::open(&at, &stamp));
        assert!(error.contains(name) && error.contains("regular"), "{error}");
        std::fs::remove_file(&path).unwrap();
        before
            .into_iter()
            .for_each(|bytes| std::fs::write(&path, bytes).unwrap());
    }
    for table in [Table::Log, Table::Images] {
        let path = folder.join(table.name());
        let before = std::fs::read(&path).unwrap();
        pipe(&folder, table.name());
        let at = folder.clone();
        let error = refused(move || each_line(&at, table, 1 << 20, |_| {}));
        assert!(error.contains(table.name()), "{error}");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, before).unwrap();
    }
    pipe(&folder, "logs/audit.jsonl");
    let at = folder.clone();
    let error = refused(move || append_line(&at, Table::Audit, "{}", 100));
    assert!(error.contains("audit.jsonl"), "{error}");
    pipe(&folder, &format!("sentences/{}", place.file));
    let at = folder.clone();
    let error = refused(move || sentences_at(&at, &place));
    assert!(error.contains("00000.txt.gz"), "{error}");
    std::fs::remove_file(folder.join("sentences/00000.txt.gz")).unwrap();
    // A sidecar, and the journal of its image.
    let card = format!("{file}.json");
    let bytes = std::fs::read(folder.join(&card)).unwrap();
    pipe(&folder, &card);
    let (at, of) = (folder.clone(), file.clone());
    let error = refused(move || Sidecar::load(&at, &of));
    assert!(error.contains("a.jpg.json"), "{error}");
    std::fs::remove_file(folder.join(&card)).unwrap();
    std::fs::write(folder.join(&card), bytes).unwrap();
    let mut o = Outputs::open(&folder, &[]).unwrap();
    o.extend_image(&file, context("http://a.org/2", "y"), VisitKind::Changed)
        .unwrap();
    let journal = std::fs::read_dir(folder.join("sightings")).unwrap().next();
    let name = journal.unwrap().unwrap().file_name().into_string().unwrap();
    pipe(&folder, &format!("sightings/{name}"));
    let error =
        refused(move || o.extend_image(&file, context("http://a.org/3", "z"), VisitKind::Changed));
    assert!(error.contains(&name), "{error}");
}
