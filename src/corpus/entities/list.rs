//! Lists of entities: tab-separated text, or JSON lines of Wikidata's dumps; also compressed
//! with gzip or zstd.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use rayon::prelude::*;

use super::{Builder, Entity, Gender, wikidata, written};
use crate::fs::IoError;
use crate::fs::packed::unpacked;
use crate::progress::Step;
use crate::tool_error::ToolError;

/// Bytes that are read before the cores parse them.
const BATCH: u64 = if cfg!(test) { 300 } else { 8 << 20 };
/// The longest line in bytes. Wikidata has some of a few megabytes.
const LONGEST: u64 = 64 << 20;
/// How many problems are described; the others are only counted.
const MOST_PROBLEMS: usize = 20;

/// What was read from lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    /// Lines that are not entities.
    pub bad: u64,
    /// Descriptions of the first of these, with file and line.
    pub problems: Vec<String>,
}

impl Lists {
    fn report(&mut self, path: &Path, line: u64, why: &str) {
        self.bad += 1;
        if self.problems.len() < MOST_PROBLEMS {
            self.problems
                .push(format!("{}, line {line}: {why}", path.display()));
        }
    }
}

/// Adds the entities of a file. From Wikidata, labels in the languages with these codes are
/// taken, or in all languages if none are given.
///
/// # Errors
///
/// The file cannot be read, or has no entity. Lines that are not entities are reported in
/// `lists`.
pub fn read(
    path: &Path,
    languages: &[String],
    builder: &mut Builder,
    lists: &mut Lists,
) -> Result<(), ToolError> {
    let failed = |error| IoError::at(path, "reading")(error);
    let file = crate::fs::open(path).map_err(IoError::at(path, "opening"))?;
    let (mut lines, is_packed) = unpacked(BufReader::new(file)).map_err(failed)?;
    let total = path.metadata().map_err(failed)?.len();
    let mut step = Step::begin("bytes of lists read", (!is_packed).then_some(total));
    let (mut first, mut added, mut bytes) = (1, 0, 0);
    loop {
        let batch = batch(&mut lines).map_err(failed)?;
        if batch.is_empty() {
            break;
        }
        bytes += batch.iter().map(|line| line.len() as u64).sum::<u64>();
        for (number, parsed) in (first..).zip(parsed(&batch, languages)) {
            match parsed {
                Err(why) => lists.report(path, number, &why),
                Ok(None) => {}
                // A saved table may still have its header line.
                Ok(Some(entity)) if number == 1 && entity.name.eq_ignore_ascii_case("name") => {}
                Ok(Some(entity)) => {
                    if builder.add(&entity)? {
                        added += 1;
                    } else {
                        let why = format!("`{}` is there already", entity.id);
                        lists.report(path, number, &why);
                    }
                }
            }
        }
        first += batch.len() as u64;
        step.reach(bytes);
    }
    match added {
        0 => {
            let why = "has no entity; a line has a name, classes, popularity and aliases between \
                       tabs, or is an item of Wikidata as JSON";
            Err(ToolError::at(path, why))
        }
        _ => Ok(()),
    }
}

/// Some lines; a line that is too long is empty.
fn batch(from: &mut dyn BufRead) -> std::io::Result<Vec<Vec<u8>>> {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH {
        let mut line = Vec::new();
        let read = from.take(LONGEST).read_until(b'\n', &mut line)? as u64;
        if read == 0 {
            break;
        }
        if read == LONGEST && !line.ends_with(b"\n") {
            from.skip_until(b'\n')?;
            line = vec![0xff];
        }
        bytes += read;
        lines.push(line);
    }
    Ok(lines)
}

type ParsedEntity = Result<Option<Entity>, String>;

/// Parses the entities of lines on all cores.
fn parsed(lines: &[Vec<u8>], languages: &[String]) -> Vec<ParsedEntity> {
    let all = lines.par_iter().map(|line| entity(line, languages));
    all.collect()
}

fn entity(line: &[u8], languages: &[String]) -> ParsedEntity {
    let Ok(line) = std::str::from_utf8(line) else {
        return Err("is too long, or no text in UTF-8".to_owned());
    };
    let line = line
        .trim_end_matches(['\n', '\r'])
        .trim_start_matches('\u{feff}');
    match line.trim_start().chars().next() {
        None => Ok(None),
        Some('{') => wikidata::entity(line, languages),
        Some('[' | ']') if line.trim().len() == 1 => Ok(None),
        Some(_) => row(line).map(Some),
    }
}

/// The entity of a row: name, classes, popularity, aliases, gender, identifier.
fn row(line: &str) -> Result<Entity, String> {
    let mut cells = line.split('\t').map(str::trim);
    let mut cell = || cells.next().unwrap_or_default();
    let (name, classes, popularity, aliases) = (cell(), cell(), cell(), cell());
    let (gender, id) = (cell(), cell());
    if cells.next().is_some() {
        return Err(
            "has more than six columns; give name, classes, popularity, aliases, gender and \
             identifier between tabs"
                .to_owned(),
        );
    }
    if name.is_empty() {
        return Err("has no name in its first column".to_owned());
    }
    let is_head = name.eq_ignore_ascii_case("name") && popularity.parse::<u64>().is_err();
    let popularity = match popularity {
        "" => 0,
        _ if is_head => 0,
        number => number.parse().map_err(|_| {
            format!("`{number}` in the third column is not a popularity; give a whole number")
        })?,
    };
    let gender = match Gender::of(gender) {
        Some(gender) => gender,
        None if is_head => Gender::None,
        None => {
            return Err(format!(
                "`{gender}` in the fifth column is not a gender; give female, male or nothing"
            ));
        }
    };
    let parts = |cell: &str| {
        let parts = cell
            .split(';')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect::<Vec<_>>()
    };
    let name = written::alias(name);
    Ok(Entity {
        id: if id.is_empty() {
            name.clone()
        } else {
            id.to_owned()
        },
        name,
        classes: parts(classes),
        popularity,
        gender,
        aliases: parts(aliases),
    })
}
