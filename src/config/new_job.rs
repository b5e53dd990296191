//! Writes a job file from a few addresses, optional texts and a contact.
//!
//! The pages of the seeds serve as texts about the topic. Everything else has its default,
//! and each line of the file is explained, so that it can be edited by hand. An existing
//! file is never changed.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::address::PageUrl;
use crate::{Config, Given, Name};

/// The page limit of a crawl for which neither pages nor time were given.
pub const PAGES: u64 = 1_000;

/// The options of a new job, as given.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Addresses where the crawl begins; their pages are about the topic.
    pub seeds: Vec<String>,
    /// The operator's contact address.
    pub contact: Option<String>,
    /// The job's name; by default it is derived from the first seed.
    pub name: Option<String>,
    /// Further texts about the topic: files, folders or addresses.
    pub texts: Vec<String>,
    /// Pages after which the crawl ends.
    pub pages: Option<u64>,
    /// Time after which the crawl ends.
    pub time: Option<String>,
    /// Further keys of the job file with their values, as `KEY=VALUE`.
    pub set: Vec<String>,
}

/// A job file, written or found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The file.
    pub file: PathBuf,
    /// Whether it was written now; otherwise it existed with the same content.
    pub written: bool,
}

/// Why there is no job file.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Some options are wrong or missing; one line for each.
    #[error("{}", .0.join("\n"))]
    Asked(Vec<String>),
    /// A different file of that name exists.
    #[error(
        "{file} already exists and differs:\n{differences}\nTo continue with it as it is, run \
         `spoor crawl {file}`, which also takes --pages, --time and --set for one run. To change \
         it, edit it and run the same. For another job, give \
         another --name"
    )]
    Differs {
        /// The file.
        file: String,
        /// The keys that differ, a line each.
        differences: String,
    },
    /// A file of that name exists but is not a job file.
    #[error("{file} already exists and cannot be read as a job; give another --name\n{why}")]
    Unreadable {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// The file cannot be written.
    #[error("{} cannot be written: {source}; start in a folder that you may write to", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// A section of the file: its name and its keys.
type Sections = Vec<(String, Vec<KeyLine>)>;

/// A key with its value in TOML and the comment above it.
struct KeyLine {
    key: String,
    value: String,
    comment: String,
}

impl Start {
    /// The job's name.
    ///
    /// # Errors
    ///
    /// The given name is invalid, or the seed yields none.
    pub fn name(&self) -> Result<Name, String> {
        if let Some(name) = &self.name {
            return Name::parse(name).map_err(|why| format!("--name {name}: {why}"));
        }
        let seed = self
            .seeds
            .first()
            .and_then(|seed| PageUrl::parse(seed).ok());
        let name = seed.and_then(|seed| Name::parse(&name_of(&seed)).ok());
        name.ok_or_else(|| "the first seed yields no name; give one with --name".to_owned())
    }

    /// Writes the job file into `folder`, or finds it there.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing is written then.
    pub fn place(&self, folder: &Path) -> Result<Placed, StartError> {
        let name = match self.name() {
            Ok(name) => name,
            Err(why) => {
                let mut wrong = self.wrong(folder, None);
                // A wrong seed is reported anyway, so a missing name is not reported in addition.
                if self.name.is_some() || self.wrong_seeds().is_empty() {
                    wrong.push(why);
                }
                return Err(StartError::Asked(wrong));
            }
        };
        let file = folder.join(format!("{}.toml", name.as_str()));
        if file.exists() {
            return self.found(folder, &file, &name);
        }
        let text = self.checked(folder, &name, None)?;
        let write = || {
            let mut out = std::fs::File::create_new(&file)?;
            let written = out.write_all(text.as_bytes()).and_then(|()| out.sync_all());
            if written.is_err() {
                std::fs::remove_file(&file).ok();
            }
            written
        };
        write().map_err(|source| StartError::Write {
            file: file.clone(),
            source,
        })?;
        Ok(Placed {
            file,
            written: true,
        })
    }

    /// Accepts an existing file if its values are those that were given.
    fn found(&self, folder: &Path, file: &Path, name: &Name) -> Result<Placed, StartError> {
        let shown = file.strip_prefix(".").unwrap_or(file).display().to_string();
        let there = Config::load(file).map_err(|errors| StartError::Unreadable {
            file: shown.clone(),
            why: errors.to_string(),
        })?;
        let known = there.job.contact.as_ref().map(|contact| contact.as_str());
        let text = self.checked(folder, name, known)?;
        let asked = parsed(&text)?.within(folder);
        let changes = there.changes(&asked);
        if changes.is_empty() {
            return Ok(Placed {
                file: file.to_owned(),
                written: false,
            });
        }
        let value = |value: &Option<String>| value.clone().unwrap_or("nothing".to_owned());
        let lines = changes.iter().map(|change| {
            let (from, to) = (value(&change.from), value(&change.to));
            format!("  {}: the file has {from}, but {to} was given", change.key)
        });
        Err(StartError::Differs {
            file: shown,
            differences: lines.collect::<Vec<_>>().join("\n"),
        })
    }

    /// Checks all options and returns the text of the file; a `known` contact need not be
    /// given.
    fn checked(
        &self,
        folder: &Path,
        name: &Name,
        known: Option<&str>,
    ) -> Result<String, StartError> {
        let mut wrong = self.wrong(folder, known);
        let contact = self.contact.as_deref().or(known);
        let (sections, wrong_values) = self.sections(name, contact.unwrap_or_default());
        wrong.extend(wrong_values);
        if !wrong.is_empty() {
            return Err(StartError::Asked(wrong));
        }
        let text = rendered(&sections);
        parsed(&text)?;
        Ok(text)
    }

    /// The problems with seeds, contact and texts.
    fn wrong(&self, folder: &Path, known: Option<&str>) -> Vec<String> {
        let mut wrong = self.wrong_seeds();
        if self.contact.is_none() && known.is_none() {
            wrong.push(
                "--contact is missing: the operators of web sites must be able to reach you, and \
                 every request carries it; add --contact me@example.org, or an https address"
                    .to_owned(),
            );
        }
        for text in self.texts.iter().filter(|text| !text.contains("://")) {
            if let Err(error) = std::fs::metadata(folder.join(text)) {
                wrong.push(format!("--text {text}: {error}"));
            }
        }
        wrong
    }

    fn wrong_seeds(&self) -> Vec<String> {
        if self.seeds.is_empty() {
            let missing = "--seed is missing: give the address of a page about the topic";
            return vec![missing.to_owned()];
        }
        let wrong = self.seeds.iter().filter_map(|seed| {
            let error = PageUrl::parse(seed).err()?;
            Some(format!("--seed: {error}"))
        });
        wrong.collect()
    }

    fn sections(&self, name: &Name, contact: &str) -> (Sections, Vec<String>) {
        let name = name.as_str();
        // An address without a scheme would be sent as it is, but most readers expect
        // mailto:.
        let contact = if contact.contains(':') {
            contact.to_owned()
        } else {
            format!("mailto:{contact}")
        };
        let line = |key: &str, value: String, comment: &str| KeyLine {
            key: key.to_owned(),
            value,
            comment: comment.to_owned(),
        };
        let mut limits = Vec::new();
        if self.pages.is_some() || self.time.is_none() {
            let pages = self.pages.unwrap_or(PAGES);
            let comment =
                "The crawl ends after this many pages. To continue, raise it and run again.";
            limits.push(line("documents", pages.to_string(), comment));
        }
        if let Some(time) = &self.time {
            let comment = "The crawl ends after this time, summed over all its runs.";
            limits.push(line("time", quoted(time), comment));
        }
        let texts: Vec<String> = self.seeds.iter().chain(&self.texts).cloned().collect();
        let mut sections = vec![
            (
                "job".to_owned(),
                vec![
                    line(
                        "name",
                        quoted(name),
                        &format!("The results are in jobs/{name} next to this file."),
                    ),
                    line(
                        "contact",
                        quoted(&contact),
                        "How the operators of web sites reach you; sent with every request.",
                    ),
                ],
            ),
            (
                "seeds".to_owned(),
                vec![line("urls", list(&self.seeds), "Where the crawl begins.")],
            ),
            (
                "train".to_owned(),
                vec![
                    line(
                        "positive",
                        list(&texts),
                        "Texts about the topic, from which spoor learns what belongs to it: \
                         addresses, files or folders. The more of them, the better it chooses.",
                    ),
                    line(
                        "neutral",
                        quoted("builtin"),
                        "What the topic is compared with: the frequent words of its language. \
                         Texts of your own about anything else are better: [\"general.txt\"].",
                    ),
                ],
            ),
            (
                "text".to_owned(),
                vec![line(
                    "extractor",
                    quoted("density"),
                    "Which part of a page is its text: running text without menus, which seeds' \
                     pages are full of too. \"all\" takes everything.",
                )],
            ),
            ("limits".to_owned(), limits),
        ];
        let mut wrong = Vec::new();
        for set in &self.set {
            if let Err(why) = apply(set, &mut sections) {
                wrong.push(format!("--set {set}: {why}"));
            }
        }
        (sections, wrong)
    }
}

/// Adds `section.key=value` to its section.
fn apply(set: &str, sections: &mut Sections) -> Result<(), String> {
    let Given {
        section,
        key,
        value,
    } = Given::parse(set)?;
    let line = KeyLine {
        key,
        value,
        comment: "Given on the command line.".to_owned(),
    };
    let place = sections.iter().position(|(name, _)| *name == section);
    let lines = match place.and_then(|place| sections.get_mut(place)) {
        Some((_, lines)) => lines,
        None => {
            sections.push((section, vec![line]));
            return Ok(());
        }
    };
    lines.retain(|other| other.key != line.key);
    lines.push(line);
    Ok(())
}

fn parsed(text: &str) -> Result<Config, StartError> {
    Config::parse(text, "").map_err(|errors| {
        let errors = errors.errors().iter();
        // Line numbers would refer to a file that does not exist.
        let lines = errors.map(|error| format!("{}: {}", error.key, error.message));
        StartError::Asked(lines.collect())
    })
}

const HEAD: &str = "\
# A job of spoor, made from seeds. `spoor crawl` with this file begins or resumes it.
# Change what you like; `spoor config reference` lists every key with its meaning.
";

fn rendered(sections: &Sections) -> String {
    let mut text = HEAD.to_owned();
    for (name, lines) in sections {
        text.push_str(&format!("\n[{name}]\n"));
        for KeyLine {
            key,
            value,
            comment,
        } in lines
        {
            text.push_str(&format!("# {comment}\n{key} = {value}\n"));
        }
    }
    text
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A list with one entry per line.
fn list(entries: &[String]) -> String {
    let lines: String = entries
        .iter()
        .map(|entry| format!("    {},\n", quoted(entry)))
        .collect();
    format!("[\n{lines}]")
}

/// Path segments that do not describe a page.
const EMPTY_NAMES: [&str; 6] = ["index", "home", "main", "default", "start", "wiki"];

/// A name for a job that begins at `seed`: the last descriptive segment of its path, or
/// else its host.
fn name_of(seed: &PageUrl) -> String {
    let segments = seed.path().rsplit('/').map(|segment| {
        let decoded = percent_encoding::percent_decode_str(segment).decode_utf8_lossy();
        let stem = match decoded.rsplit_once('.') {
            Some((stem, extension)) if extension.len() <= 5 => stem,
            _ => &decoded,
        };
        plain(stem)
    });
    let mut descriptive = segments.filter(|name| {
        name.chars().any(|c| c.is_ascii_alphabetic()) && !EMPTY_NAMES.contains(&name.as_str())
    });
    descriptive.next().unwrap_or_else(|| {
        let host = seed.host_key().to_string();
        plain(host.strip_prefix("www.").unwrap_or(&host))
    })
}

/// `text` reduced to the characters of a name, at most 40 of them.
fn plain(text: &str) -> String {
    let mut name = String::new();
    for c in text.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' | '_' => name.push(c),
            _ if !name.ends_with('-') => name.push('-'),
            _ => {}
        }
    }
    let name: String = name.trim_matches('-').chars().take(40).collect();
    name.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = "https://en.wikipedia.org/wiki/Lighthouse";

    fn start() -> Start {
        Start {
            seeds: vec![SEED.to_owned()],
            contact: Some("me@example.org".to_owned()),
            ..Start::default()
        }
    }

    fn place(start: &Start, folder: &tempfile::TempDir) -> Result<Placed, String> {
        start
            .place(folder.path())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_made_of_seeds() {
        for (seed, name) in [
            (SEED, "lighthouse"),
            ("https://en.wikipedia.org/wiki/Cat_behavior", "cat_behavior"),
            ("https://example.org/cats/index.html", "cats"),
            ("https://www.example.org/", "example-org"),
            ("https://example.org/a/12345", "a"),
            ("http://localhost:8080/", "localhost-8080"),
            (
                "https://ru.wikipedia.org/wiki/%D0%9C%D0%B0%D1%8F%D0%BA",
                "ru-wikipedia-org",
            ),
            (
                "https://example.org/C_(programming_language).html",
                "c_-programming_language",
            ),
        ] {
            assert_eq!(name_of(&PageUrl::parse(seed).unwrap()), name, "{seed}");
        }
        let long = format!("https://example.org/{}", "lighthouse-".repeat(20));
        assert!(Name::parse(&name_of(&PageUrl::parse(&long).unwrap())).is_ok());
    }

    #[test]
    fn a_file_is_written_once_and_serves_again() {
        let folder = tempfile::tempdir().unwrap();
        let placed = place(&start(), &folder).unwrap();
        assert!(placed.written);
        assert_eq!(placed.file, folder.path().join("lighthouse.toml"));
        let text = std::fs::read_to_string(&placed.file).unwrap();
        let config = Config::load(&placed.file).unwrap();
        assert_eq!(config.contact().unwrap().as_str(), "mailto:me@example.org");
        assert_eq!(config.limits.documents, Some(PAGES));
        assert_eq!(config.seeds.urls.len(), 1);
        assert_eq!(config.train.positive.len(), 1);
        // Every key has its comment.
        let lines: Vec<&str> = text.lines().collect();
        let keys = lines.windows(2).filter(|pair| pair[1].contains(" = "));
        assert_eq!(keys.clone().count(), 7);
        assert!(keys.clone().all(|pair| pair[0].starts_with("# ")), "{text}");
        assert!(!place(&start(), &folder).unwrap().written);
        // Now the contact is known.
        let again = Start {
            contact: None,
            ..start()
        };
        assert!(!place(&again, &folder).unwrap().written);
        let other = Start {
            pages: Some(7),
            ..start()
        };
        let said = place(&other, &folder).unwrap_err();
        for part in [
            "lighthouse.toml already exists",
            "limits.documents: the file has 1000, but 7 was given",
            "--name",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(std::fs::read_to_string(&placed.file).unwrap(), text);
    }

    #[test]
    fn contacts_are_taken_in_any_form() {
        for (given, written) in [
            ("me@example.org", "mailto:me@example.org"),
            ("mailto:me@example.org", "mailto:me@example.org"),
            ("https://example.org/me", "https://example.org/me"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let start = Start {
                contact: Some(given.to_owned()),
                ..start()
            };
            let file = place(&start, &folder).unwrap().file;
            let config = Config::load(&file).unwrap();
            assert_eq!(config.contact().unwrap().as_str(), written);
        }
    }

    #[test]
    fn what_is_wrong_is_reported_at_once_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let start = Start {
            seeds: vec![SEED.to_owned(), "lighthouses".to_owned()],
            texts: vec!["no-such.txt".to_owned()],
            set: vec!["limits".to_owned()],
            ..Start::default()
        };
        let said = place(&start, &folder).unwrap_err();
        for part in [
            "--seed: `lighthouses` is not a URL",
            "--contact is missing",
            "--text no-such.txt: No such file",
            "--set limits: write it as section.key=value",
        ] {
            assert!(said.contains(part), "`{part}` is missing in\n{said}");
        }
        let none = place(&Start::default(), &folder).unwrap_err();
        assert!(none.contains("--seed is missing"), "{none}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn further_keys_go_into_their_sections() {
        let folder = tempfile::tempdir().unwrap();
        let start = |set: &[&str]| Start {
            set: set.iter().map(|s| (*s).to_owned()).collect(),
            time: Some("2h".to_owned()),
            ..start()
        };
        let set = [
            "network.allow_private=true",
            "network.connect_to=[\"*.test:80:127.0.0.1:8080\"]",
            "politeness.min_delay=2s",
            "limits.time=3h",
        ];
        let file = place(&start(&set), &folder).unwrap().file;
        let config = Config::load(&file).unwrap();
        assert!(config.network.allow_private);
        assert_eq!(config.network.connect_to.len(), 1);
        assert_eq!(config.politeness.min_delay.as_secs(), 2);
        assert_eq!(config.limits.time.unwrap().as_secs(), 3 * 3600);
        assert_eq!(config.limits.documents, None);
        std::fs::remove_file(file).unwrap();
        for (set, part) in [
            ("limits.document=3", "did you mean `documents`"),
            ("limits.documents=0", "limits.documents: 0 is out of range"),
            ("limits.time=soon", "limits.time: "),
        ] {
            let said = place(&start(&[set]), &folder).unwrap_err();
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
