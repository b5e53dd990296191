//! Files of JSON lines from spoor, datatrove, C4, OSCAR and others, which use different keys
//! for the same data.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::super::document::Document;
use super::super::output::stated_terms;
use super::{Push, RawItem};
use crate::fs::IoError;
use crate::fs::packed::unpacked;
use crate::page::Terms;
use crate::tool_error::ToolError;

/// The longest line in bytes.
const MAX_LINE: u64 = 64 << 20;

/// The names of a key in different formats, the usual one first.
const TEXTS: [&str; 4] = ["text", "content", "raw_content", "maintext"];
const URLS: [&str; 5] = [
    "url",
    "URL",
    "source_url",
    "warc-target-uri",
    "WARC-Target-URI",
];
const FETCHED: [&str; 6] = [
    "fetched",
    "timestamp",
    "date_download",
    "date",
    "warc-date",
    "crawl_date",
];
const PUBLISHED: [&str; 2] = ["published", "date_publish"];
const LANGUAGES: [&str; 2] = ["declared_language", "lang"];

pub(super) fn each(path: &Path, after: Option<[u64; 3]>, push: Push<'_>) -> Result<(), ToolError> {
    each_line(path, &mut |number, read, line| {
        let is_known = after.is_some_and(|[last, ..]| number <= last);
        Ok(is_known || push(raw(path, number, line), [number, 0, 0], read))
    })
}

/// The item in a line of a file, or why it has none.
pub(super) fn raw(path: &Path, number: u64, line: Option<&[u8]>) -> RawItem {
    let archive = path.file_name().unwrap_or_default().to_string_lossy();
    let place = Document {
        url: format!("{archive}#{number}"),
        archive: Some(archive.into_owned()),
        offset: Some(number),
        ..Document::default()
    };
    let found = match line {
        Some(line) => {
            let map = serde_json::from_slice::<Map<String, Value>>(line);
            let map = map.map_err(|error| error.to_string());
            map.and_then(|map| match stated_terms(&map) {
                Ok(terms) => Ok((map, terms)),
                Err(error) => Err(format!("its terms of use cannot be read: {error}")),
            })
        }
        None => Err(format!("a line of more than {MAX_LINE} bytes")),
    };
    match found {
        Ok((map, terms)) => RawItem::Text(Box::new(of(&map, terms, place))),
        Err(why) => RawItem::Other(Box::new(place), "damaged", why, "a line of JSON"),
    }
}

/// Receives the number of a line, the bytes read of the file, and the bytes of the line;
/// returns whether to continue.
pub(crate) type EachLine<'e> =
    &'e mut dyn FnMut(u64, u64, Option<&[u8]>) -> Result<bool, ToolError>;

/// Calls `each` with the number of every line, the bytes read of the file, and the bytes of
/// the line, or `None` if it is too long. Files may be compressed with gzip or zstd.
pub(crate) fn each_line(path: &Path, each: EachLine<'_>) -> Result<(), ToolError> {
    let file = crate::fs::open(path).map_err(IoError::at(path, "opening"))?;
    let read_bytes = Rc::new(Cell::new(0));
    let file = BufReader::new(CountedReader(file, Rc::clone(&read_bytes)));
    let (mut from, _) = unpacked(file).map_err(IoError::at(path, "reading"))?;
    of_reader(path, &mut *from, |number, line| {
        each(number, read_bytes.get(), line)
    })
}

/// The same for lines from another reader than the file at `path`.
pub(super) fn of_reader(
    path: &Path,
    from: &mut dyn BufRead,
    mut each: impl FnMut(u64, Option<&[u8]>) -> Result<bool, ToolError>,
) -> Result<(), ToolError> {
    let mut line = Vec::new();
    for number in 0.. {
        line.clear();
        let read = (&mut *from).take(MAX_LINE).read_until(b'\n', &mut line);
        let read = read.map_err(IoError::at(path, "reading"))?;
        if read == 0 {
            break;
        }
        let is_whole = line.ends_with(b"\n") || (read as u64) < MAX_LINE;
        if !is_whole {
            let rest = from.skip_until(b'\n');
            rest.map_err(IoError::at(path, "reading"))?;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        if !each(number, Some(line.as_slice()).filter(|_| is_whole))? {
            break;
        }
    }
    Ok(())
}

/// Counts the bytes that are read of a file.
struct CountedReader(File, Rc<Cell<u64>>);

impl Read for CountedReader {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(into)?;
        self.1.set(self.1.get().saturating_add(read as u64));
        Ok(read)
    }
}

fn of(map: &Map<String, Value>, terms: Option<Terms>, place: Document) -> Document {
    let text = |keys: &[&str]| {
        let inner = ["metadata", "warc_headers"]
            .iter()
            .filter_map(|name| map.get(*name)?.as_object());
        let maps: Vec<&Map<String, Value>> = std::iter::once(map).chain(inner).collect();
        let mut all = keys
            .iter()
            .flat_map(|key| maps.iter().filter_map(|map| map.get(*key)?.as_str()));
        all.find(|text| !text.is_empty()).map(str::to_owned)
    };
    let authors = match map.get("authors").or_else(|| map.get("author")) {
        Some(Value::String(author)) => vec![author.clone()],
        Some(Value::Array(list)) => {
            let all = list.iter().filter_map(Value::as_str);
            all.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    let licences = match map.get("licences") {
        Some(Value::Array(list)) => {
            let all = list.iter().filter_map(Value::as_str);
            all.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    let list = |name: &str| {
        map.get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let block_kinds = list("block_kinds").filter_map(Value::as_str);
    let image_urls = list("image_urls").filter_map(Value::as_str);
    let mut image_urls: Vec<String> = image_urls.map(str::to_owned).collect();
    let mut image_blocks: Vec<u64> = list("image_blocks").filter_map(Value::as_u64).collect();
    // Others give such columns another meaning.
    if image_urls.len() != image_blocks.len() {
        image_urls.clear();
        image_blocks.clear();
    }
    Document {
        id: text(&["id"]).unwrap_or_default(),
        url: text(&URLS).unwrap_or(place.url),
        fetched: text(&FETCHED),
        published: text(&PUBLISHED),
        modified: text(&["modified"]),
        title: text(&["title"]),
        text: text(&TEXTS).unwrap_or_default(),
        block_kinds: block_kinds.map(str::to_owned).collect(),
        block_offsets: list("block_offsets").filter_map(Value::as_u64).collect(),
        image_urls,
        image_blocks,
        declared_language: text(&LANGUAGES),
        charset_declared: text(&["charset_declared"]),
        charset_used: text(&["charset_used"]),
        extractor: text(&["extractor"]),
        mime: text(&["mime"]),
        authors,
        licences,
        terms,
        archive: place.archive,
        offset: place.offset,
        ..Document::default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_of_others_are_understood() {
        let folder = tempfile::tempdir().unwrap();
        let lines = concat!(
            "{\"text\":\"One.\",\"url\":\"http://a.test/\",\"title\":\"T\",\"authors\":[\"A\"]}\n",
            "\n",
            "{\"text\":\"Two.\",\"id\":\"7\",\"noai\":true,\"metadata\":{\"url\":\"http://b.test/\",\"date\":\"2020\"}}\n",
            "{\"content\":\"Three.\",\"warc_headers\":{\"warc-target-uri\":\"http://c.test/\"}}\n",
            "junk\n",
            "{\"text\":7}",
        );
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(lines.as_bytes()).unwrap();
        let forms = [
            lines.as_bytes().to_vec(),
            packed.finish().unwrap(),
            zstd::encode_all(lines.as_bytes(), 1).unwrap(),
        ];
        for bytes in forms {
            let path = folder.path().join("a.jsonl");
            std::fs::write(&path, bytes).unwrap();
            let mut found = Vec::new();
            let mut take = |raw: RawItem, place: [u64; 3], _| {
                let summary = match raw {
                    RawItem::Text(d) => {
                        let is_asking = d.terms.is_some_and(|terms| terms.directives.noai);
                        format!("{}{} {} {:?} {is_asking}", d.id, d.url, d.text, d.title)
                    }
                    RawItem::Other(d, rule, ..) => format!("{} {rule}", d.url),
                    RawItem::Page(_) => unreachable!(),
                };
                found.push((place[0], summary));
                true
            };
            each(&path, None, &mut take).unwrap();
            let summaries: Vec<(u64, &str)> = found.iter().map(|(n, t)| (*n, t.as_str())).collect();
            assert_eq!(
                summaries,
                [
                    (0, "http://a.test/ One. Some(\"T\") false"),
                    (2, "7http://b.test/ Two. None true"),
                    (3, "http://c.test/ Three. None false"),
                    (4, "a.jsonl#4 damaged"),
                    (5, "a.jsonl#5  None false"),
                ]
            );
            let mut rest = 0;
            each(&path, Some([3, 0, 0]), &mut |_, _, _| {
                rest += 1;
                true
            })
            .unwrap();
            assert_eq!(rest, 2);
        }
    }
}
