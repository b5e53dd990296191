//! Exports of images that contain a removed sample. An archive or a table of compressed columns
//! cannot be edited without writing it again, so such an export is removed as a whole.

use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use aho_corasick::AhoCorasick;
use sha2::{Digest, Sha256};

use super::receipt::GoneFile;
use crate::fs::beneath::{self, JobPath, Kind};
use crate::fs::{IoError, if_there};
use crate::pipeline;
use crate::tool_error::ToolError;

/// The folder of the exports in a job's folder, with a subfolder for each.
const FOLDER: &str = pipeline::EXPORTS;

/// The folder of the job's report, which shows re-encoded pictures and passages that
/// cannot be searched for. It is quickly written again.
const REPORT: &str = "report";

/// The folder of the full-text index, which has the texts in another form. `spoor index` makes it
/// again.
pub const INDEX: &str = "search";

/// Extensions of files whose text is compressed.
const PACKED: [&str; 5] = ["parquet", "gz", "zst", "zip", "bz2"];

/// The exports in a job's folder that contain one of `needles`: addresses, paths or hashes
/// of removed samples. Exports that cannot be searched are included, and so are the report
/// and the full-text index.
pub(super) fn holding(folder: &Path, needles: &[String]) -> Result<Vec<JobPath>, ToolError> {
    let exports = folder.join(FOLDER);
    let mut found = Vec::new();
    if needles.is_empty() {
        return Ok(found);
    }
    for name in [REPORT, INDEX] {
        if beneath::is_dir(folder, name) {
            found.extend(JobPath::parse(name));
        }
    }
    if !beneath::is_dir(folder, FOLDER) {
        return Ok(found);
    }
    // JSON may escape an address, for example a backslash in its query.
    let escaped = needles.iter().filter_map(|needle| {
        let json = serde_json::to_string(needle).ok()?;
        let json = json.trim_matches('"');
        (json != needle).then(|| json.to_owned())
    });
    let all = needles.iter().cloned().chain(escaped);
    let search = AhoCorasick::new(all).map_err(|error| {
        let why = "remove them by hand and run this again";
        ToolError::new(format_args!(
            "the exports cannot be searched: {error}; {why}"
        ))
    })?;
    for (entry, _) in beneath::entries(folder, FOLDER).map_err(IoError::at(&exports, "listing"))? {
        // spoor gives its exports no other names.
        let Ok(name) = JobPath::parse(&format!("{FOLDER}/{entry}")) else {
            continue;
        };
        // Pages are taken out of corpora one by one.
        if pipeline::is_corpus(&folder.join(name.as_str())) {
            continue;
        }
        let files = files_of(folder, name.as_str())?;
        for file in &files {
            if holds(folder, file, &search)? {
                found.push(name);
                break;
            }
        }
    }
    found.sort();
    Ok(found)
}

fn holds(folder: &Path, name: &str, search: &AhoCorasick) -> Result<bool, ToolError> {
    let file = &folder.join(name);
    let extension = file.extension().unwrap_or_default().to_string_lossy();
    if PACKED
        .iter()
        .any(|packed| extension.eq_ignore_ascii_case(packed))
    {
        return Ok(true);
    }
    let opened = beneath::open(folder, name).map_err(IoError::at(file, "opening"))?;
    match search.stream_find_iter(BufReader::new(opened)).next() {
        None => Ok(false),
        Some(Ok(_)) => Ok(true),
        Some(Err(error)) => Err(IoError::at(file, "reading")(error).into()),
    }
}

/// Every file of `name`, a file or a folder below `folder`, as paths below that.
pub(super) fn files_of(folder: &Path, name: &str) -> Result<Vec<String>, ToolError> {
    let mut files = Vec::new();
    let mut open = Vec::new();
    if !beneath::is_link(folder, name) {
        if beneath::is_dir(folder, name) {
            open.push(name.to_owned())
        } else {
            files.extend(beneath::is_file(folder, name).then(|| name.to_owned()))
        }
    }
    while let Some(name) = open.pop() {
        let path = folder.join(&name);
        for (entry, kind) in
            beneath::entries(folder, &name).map_err(IoError::at(&path, "listing"))?
        {
            let below = format!("{name}/{entry}");
            match kind {
                Kind::Folder => open.push(below),
                Kind::File => files.push(below),
                Kind::Link | Kind::Other => {}
            }
        }
    }
    files.sort();
    Ok(files)
}

/// A file's size and hash, for the receipt.
pub(super) fn described(folder: &Path, name: &str) -> Result<GoneFile, ToolError> {
    let path = folder.join(name);
    let mut file = beneath::open(folder, name).map_err(IoError::at(&path, "opening"))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut bytes = 0;
    loop {
        let read = file
            .read(&mut buffer)
            .map_err(IoError::at(&path, "reading"))?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        hash.update(buffer.get(..read).unwrap_or_default());
    }
    Ok(GoneFile {
        file: name.to_owned(),
        bytes,
        sha256: base16ct::lower::encode_string(&hash.finalize()),
    })
}

/// Removes a file or a folder with all that is in it.
pub(super) fn remove(folder: &Path, name: &str) -> Result<(), ToolError> {
    let path = folder.join(name);
    // The name may come from an interrupted receipt in a file, which must not remove
    // anything else.
    let of_export = [REPORT, INDEX].contains(&name) || name.starts_with(&format!("{FOLDER}/"));
    if !of_export {
        let why = std::io::Error::new(ErrorKind::InvalidInput, "not an export");
        return Err(IoError::at(&path, "removing")(why).into());
    }
    let removed = if_there(beneath::remove_all(folder, name));
    removed.map_err(IoError::at(&path, "removing"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_address_is_found_as_json_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("a", "{\"url\":\"http://a.test/?x=\\\\y\"}"),
            ("b", "http://a.test/?x=\\y"),
            ("c", "http://a.test/?x=y"),
        ] {
            let export = folder.path().join(FOLDER).join(name);
            fs::create_dir_all(&export).unwrap();
            fs::write(export.join("data.jsonl"), text).unwrap();
        }
        let needles = ["http://a.test/?x=\\y".to_owned()];
        let found = holding(folder.path(), &needles).unwrap();
        let found: Vec<&str> = found.iter().map(JobPath::as_str).collect();
        assert_eq!(found, ["exports/a", "exports/b"]);
        assert!(holding(folder.path(), &[]).unwrap().is_empty());
    }
}
