//! A job in its own folder.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use spoor::outputs::{self, Document, Table};
use tempfile::TempDir;

use super::process::{Ran, spoor};
use super::{Wire, texts};

/// The contact of the operator of these tests.
pub const CONTACT: &str = "mailto:tests@spoor.example";

/// The parts of a job file that differ between tests.
#[derive(Debug, Clone)]
pub struct JobText<'a> {
    /// The seeds.
    pub seeds: &'a [&'a str],
    /// Keys of `[network]` besides `connect_to`.
    pub network: &'a str,
    /// Keys of `[politeness]`; by default there are no pauses and all failures are final.
    pub politeness: &'a str,
    /// Further sections.
    pub rest: &'a str,
}

impl Default for JobText<'_> {
    fn default() -> Self {
        Self {
            seeds: &[],
            network: "allow_private = true",
            politeness: "min_delay = 0\ndelay_factor = 0\nretries = 0\nback_off = \"1ms\"",
            rest: "",
        }
    }
}

/// A job file and the folder for its results; removed when dropped.
#[derive(Debug)]
pub struct Job {
    root: TempDir,
}

impl Job {
    /// Writes the job file for a crawl of the web on `wire`.
    pub fn new(wire: &Wire, text: &JobText<'_>) -> Self {
        Self::at(wire.addr, text)
    }

    /// The same for a web that another server serves.
    pub fn at(addr: SocketAddr, text: &JobText<'_>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let job = Self { root };
        job.write_at(addr, text);
        job
    }

    /// Rewrites the job file, for another run of the same job.
    pub fn write(&self, wire: &Wire, text: &JobText<'_>) {
        self.write_at(wire.addr, text);
    }

    /// The same for a web that another server serves.
    pub fn write_at(&self, addr: SocketAddr, text: &JobText<'_>) {
        let (models, model) = texts::model();
        // A restore writes the model, which other tests must not see half written.
        let own = self.root.path().join("models");
        let models = if text.rest.contains("[checkpoint]") {
            copied(&models.join(model), &own.join(model));
            own.as_path()
        } else {
            models
        };
        let JobText {
            seeds,
            network,
            politeness,
            rest,
        } = text;
        // Most tests count every request, however it was chosen, or look for a file that is not
        // there.
        let consent = if rest.contains("[consent]") {
            ""
        } else {
            "[consent]\ntdmrep = false\n"
        };
        let control = if rest.contains("[control_sample]") {
            ""
        } else {
            "[control_sample]\nshare = 0\n"
        };
        // The dashboard would take a port, and most tests do not look at it.
        let page = if rest.contains("[control]") {
            ""
        } else {
            "[control]\nlisten = false\n"
        };
        // Most tests compare the order of a crawl with scores that do not change.
        let strategy = if rest.contains("[strategy]") {
            ""
        } else {
            "[strategy]\nkind = \"link\"\n"
        };
        let text = format!(
            "[job]\nname = \"job\"\ncontact = \"{CONTACT}\"\nfolder = {:?}\n\
             [seeds]\nurls = {seeds:?}\n\
             [model]\nname = \"{model}\"\nfolder = {models:?}\n\
             [network]\nconnect_to = [\"*.test:80:{}\"]\n{network}\n\
             [politeness]\n{politeness}\n{consent}{control}{page}{strategy}{rest}\n",
            self.root.path(),
            addr,
        );
        std::fs::write(self.file(), text).unwrap();
    }

    /// The job file.
    pub fn file(&self) -> PathBuf {
        self.root.path().join("job.toml")
    }

    /// The folder of the results.
    pub fn folder(&self) -> PathBuf {
        self.root.path().join("job")
    }

    /// `spoor crawl` for the job.
    pub fn crawl(&self) -> Command {
        spoor(&["crawl", self.file().to_str().unwrap()])
    }

    /// Crawls to the end of the run and returns the output, even if no page was fetched, because
    /// many tests are about pages that must not be.
    pub fn run(&self) -> String {
        let ran = Ran::of(&mut self.crawl());
        match ran.status.code() {
            Some(4) => ran.out,
            _ => ran.good(),
        }
    }

    /// The crawl log; every line must be valid JSON.
    pub fn log(&self) -> Vec<Value> {
        self.table(Table::Log)
            .iter()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }

    /// The lines of all files of a table; the last one must be complete.
    fn table(&self, table: Table) -> Vec<String> {
        let live = std::fs::read_to_string(self.folder().join(table.name())).unwrap();
        assert!(live.is_empty() || live.ends_with('\n'), "a cut last line");
        let mut lines = Vec::new();
        outputs::each_line(&self.folder(), table, usize::MAX, |line| {
            lines.push(String::from_utf8(line.bytes.unwrap().to_vec()).unwrap());
        })
        .unwrap();
        lines
    }

    /// The lines of the log as `kind outcome url`, or with the reason after the outcome.
    pub fn endings(&self) -> Vec<String> {
        let word = |row: &Value, key: &str| row[key].as_str().map(str::to_owned);
        self.log()
            .iter()
            .map(|row| {
                let outcome = [word(row, "outcome"), word(row, "reason")];
                let outcome: Vec<String> = outcome.into_iter().flatten().collect();
                format!(
                    "{} {} {}",
                    word(row, "kind").unwrap(),
                    outcome.join(":"),
                    word(row, "url").unwrap()
                )
            })
            .collect()
    }

    /// All files below a folder of the results, relative to that folder.
    pub fn files(&self, below: &str) -> Vec<PathBuf> {
        let root = self.folder().join(below);
        let mut found = Vec::new();
        walk(&root, &mut found);
        let strip = |path: PathBuf| path.strip_prefix(&root).unwrap().to_owned();
        found.into_iter().map(strip).collect()
    }

    /// All sidecars.
    pub fn sidecars(&self) -> Vec<Value> {
        let files = self.files("images");
        let sidecars = files
            .iter()
            .filter(|f| f.extension().is_some_and(|e| e == "json"));
        sidecars
            .map(|file| {
                let text = std::fs::read(self.folder().join("images").join(file)).unwrap();
                serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
            })
            .collect()
    }

    /// The rows of `images.tsv` by column name; all must have every column.
    pub fn image_rows(&self) -> Vec<BTreeMap<String, String>> {
        let lines = self.table(Table::Images);
        let header: Vec<&str> = lines[0].split('\t').collect();
        lines
            .iter()
            .filter(|line| **line != lines[0])
            .map(|line| {
                let cells: Vec<&str> = line.split('\t').collect();
                assert_eq!(cells.len(), header.len(), "{line}");
                let pairs = header.iter().zip(cells);
                pairs
                    .map(|(k, v)| ((*k).to_owned(), v.to_owned()))
                    .collect()
            })
            .collect()
    }

    /// All documents, each complete. The log must give the position of each, and no other
    /// positions.
    pub fn documents(&self) -> Vec<Document> {
        let found = spoor::outputs::documents(&self.folder()).unwrap();
        let found: Vec<Document> = found.map(Result::unwrap).collect();
        let log = self.log().into_iter();
        let named: Vec<Document> = log
            .filter(|row| row["documents"].is_object())
            .map(|row| {
                let place = serde_json::from_value(row["documents"].clone()).unwrap();
                let document = spoor::outputs::document_at(&self.folder(), &place).unwrap();
                assert_eq!(row["url"], document.url, "{row}");
                assert_eq!(document.hash, Document::hash_of(&document.text), "{row}");
                document
            })
            .collect();
        assert_eq!(found, named, "log and documents differ");
        found
    }

    /// All lines of all sentence files.
    pub fn sentences(&self) -> Vec<String> {
        let mut files = self.files("sentences");
        files.sort();
        let mut lines = Vec::new();
        for file in files {
            let bytes = std::fs::read(self.folder().join("sentences").join(&file)).unwrap();
            let mut text = String::new();
            let mut decoder = flate2::read::MultiGzDecoder::new(bytes.as_slice());
            std::io::Read::read_to_string(&mut decoder, &mut text)
                .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            lines.extend(text.lines().map(str::to_owned));
        }
        lines
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found)
        } else {
            found.push(path)
        }
    }
}

/// Copies the files of a folder, unless that was done before.
fn copied(from: &Path, to: &Path) {
    if to.exists() {
        return;
    }
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
