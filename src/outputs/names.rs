//! Paths of images: the URL's path, mirrored in names that any file system accepts.
//!
//! A name consists of the bytes that are plain in URLs; everything else, including `~`, is
//! written as `%XX`. So `~` is free for our own marks: a shortened name, a query, a folder
//! that looks like a file. No name is `.`, `..`, empty, too long or reserved, so no path
//! leaves the folder.

use sha2::{Digest, Sha256};

use crate::address::PageUrl;
use crate::picture::extensions;

/// Longest name of one file or folder, in bytes; file systems allow 255, and a sidecar and
/// a temporary file add to it.
const MAX_NAME: usize = 120;

/// Longest relative path, in bytes; systems allow 4,096 in total.
const MAX_PATH: usize = 1_000;

/// The path of an image below the job's folder, for a format and its extension.
fn image_path(date: &str, url: &PageUrl, format: &str, extension: &str) -> String {
    let mut path = format!("images/{date}/{}", name(url.authority()));
    let mut segments: Vec<&str> = url.path().split('/').filter(|s| !s.is_empty()).collect();
    let file = segments.pop().unwrap_or("index");
    for segment in segments {
        let folder = folder_name(segment);
        if path.len() + folder.len() > MAX_PATH {
            path.push_str(&format!("/~{}", short_hash(url.path())));
            break;
        }
        path.push('/');
        path.push_str(&folder);
    }
    path.push('/');
    path.push_str(&file_name(file, url.query(), format, extension));
    path
}

/// The path for an image: its own, or one marked with a hash of its URL if another URL has
/// `taken` the first. On file systems that ignore case, `taken` does so too, and `/A.jpg`
/// does not overwrite `/a.jpg`.
pub(super) fn choose<E>(
    date: &str,
    url: &PageUrl,
    format: &str,
    extension: &str,
    mut taken: impl FnMut(&str) -> Result<bool, E>,
) -> Result<String, E> {
    let own = image_path(date, url, format, extension);
    if !taken(&own)? {
        return Ok(own);
    }
    let beside = beside(&own, url.as_str());
    // Called so that the caller sees what is there; no other URL gets this mark.
    taken(&beside)?;
    Ok(beside)
}

/// Another path for an image whose own path is taken by another URL.
pub(super) fn beside(path: &str, url: &str) -> String {
    let mark = short_hash(url);
    match path.rsplit_once('.') {
        Some((stem, extension)) => format!("{stem}~{mark}.{extension}"),
        None => format!("{path}~{mark}"),
    }
}

fn file_name(segment: &str, query: Option<&str>, format: &str, extension: &str) -> String {
    let fitting = |e: &str| extensions(format).iter().any(|x| x.eq_ignore_ascii_case(e));
    let (stem, extension) = match segment.rsplit_once('.') {
        Some((stem, e)) if !stem.is_empty() && fitting(e) => (stem, e),
        _ => (segment, extension),
    };
    let stem = name(stem);
    match query {
        Some(query) => format!("{stem}~{}.{extension}", short_hash(query)),
        None => format!("{stem}.{extension}"),
    }
}

/// Folders that look like an image or a sidecar get a mark, so that the images `/a.jpg`
/// and `/a.jpg/b.jpg` can both be kept.
fn folder_name(segment: &str) -> String {
    let mut folder = name(segment);
    if folder.contains('.') {
        folder.push('~');
    }
    folder
}

fn name(segment: &str) -> String {
    let mut out = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_.+,=@()!%".contains(&byte);
        if plain {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    if out.len() > MAX_NAME {
        out.truncate(MAX_NAME - 17);
        out = format!("{out}~{}", short_hash(segment));
    }
    // `.`, `..`, hidden names, and a final dot that Windows would drop.
    if out.starts_with('.') || out.ends_with('.') || is_reserved(&out) {
        out = format!("~{out}~");
    }
    out
}

/// Device names that Windows reserves, with any extension.
fn is_reserved(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let upper = stem.to_ascii_uppercase();
    matches!(upper.as_str(), "CON" | "PRN" | "AUX" | "NUL")
        || (upper.len() == 4
            && (upper.starts_with("COM") || upper.starts_with("LPT"))
            && upper.ends_with(|c: char| c.is_ascii_digit()))
}

fn short_hash(text: &str) -> String {
    let mut hash = base16ct::lower::encode_string(&Sha256::digest(text));
    hash.truncate(16);
    hash
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use proptest::prelude::*;

    fn path(url: &str) -> String {
        image_path("2026-01-02", &PageUrl::parse(url).unwrap(), "jpeg", "jpg")
    }

    #[test]
    fn plain_urls_are_mirrored() {
        assert_eq!(
            path("http://example.org/wiki/images/Cat_(1).JPG"),
            "images/2026-01-02/example.org/wiki/images/Cat_(1).JPG"
        );
        assert_eq!(
            path("http://example.org/"),
            "images/2026-01-02/example.org/index.jpg"
        );
        assert_eq!(
            path("http://example.org/a.php"),
            "images/2026-01-02/example.org/a.php.jpg"
        );
        assert_eq!(
            path("http://127.0.0.1:8080/%C3%BC.jpeg"),
            "images/2026-01-02/127.0.0.1%3A8080/%C3%BC.jpeg"
        );
    }

    #[test]
    fn files_folders_and_sidecars_do_not_meet() {
        let file = path("http://a.org/x.jpg");
        let inside = path("http://a.org/x.jpg/y.jpg");
        assert!(!inside.starts_with(&format!("{file}/")), "{inside}");
        assert_eq!(
            path("http://a.org/x.jpg.json"),
            "images/2026-01-02/a.org/x.jpg.json.jpg"
        );
        assert_ne!(
            path("http://a.org/x.jpg?v=1"),
            path("http://a.org/x.jpg?v=2")
        );
        assert!(path("http://a.org/nul/con.jpg").ends_with("/~nul~/~con~.jpg"));
    }

    /// A file system: files by name, possibly ignoring case.
    #[derive(Default)]
    struct Disk {
        ignores_case: bool,
        owners: BTreeMap<String, String>,
    }

    impl Disk {
        fn key(&self, file: &str) -> String {
            if self.ignores_case {
                file.to_ascii_lowercase()
            } else {
                file.to_owned()
            }
        }

        fn keep(&mut self, url: &PageUrl, format: &str, extension: &str) -> String {
            let taken = |file: &str| -> Result<bool, ()> {
                let owner = self.owners.get(&self.key(file));
                Ok(owner.is_some_and(|owner| owner != url.as_str()))
            };
            let file = choose("2026-01-02", url, format, extension, taken).unwrap();
            let before = self.owners.insert(self.key(&file), url.as_str().to_owned());
            assert!(
                before.is_none_or(|b| b == url.as_str()),
                "{file} is overwritten"
            );
            file
        }
    }

    #[test]
    fn urls_that_differ_in_case_alone_have_two_files_where_case_is_ignored() {
        for (ignores_case, marked) in [(false, false), (true, true)] {
            let mut disk = Disk {
                ignores_case,
                ..Disk::default()
            };
            let mut keep = |url: &str| disk.keep(&PageUrl::parse(url).unwrap(), "jpeg", "jpg");
            let upper = keep("http://a.org/Photos/A.JPG");
            let lower = keep("http://a.org/photos/a.jpg");
            assert_eq!(upper, "images/2026-01-02/a.org/Photos/A.JPG");
            assert_eq!(lower.contains('~'), marked, "{lower}");
            assert_eq!(keep("http://a.org/Photos/A.JPG"), upper, "the same again");
            assert_eq!(keep("http://a.org/photos/a.jpg"), lower);
        }
    }

    /// Ordinary and hostile paths.
    fn tails() -> impl Strategy<Value = String> {
        prop_oneof![
            "(/[ -~ü]{0,200}){0,30}",
            "(/|%2e|%2E|%00|%2f|%5c|\\\\|\\.|~|con|NUL|com1|Lpt9|aux\\.|a|A|\\?|:|\\*|%7E|;|ü|json|jpg|\\.){0,12}",
            "(/[aA]{0,2}(\\.(jpg|JPG|jpeg|json|part|png))?){0,3}(\\?[aA]?)?",
            "/[a-zA-Z0-9%.]{100,400}(/[a-z]{0,130}){0,12}",
        ]
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn every_file_has_a_tame_name_and_one_url(
            tails in proptest::collection::vec((tails(), any::<bool>()), 1..12),
            format in proptest::sample::select(vec![("jpeg", "jpg"), ("png", "png"), ("tiff", "tif")]),
            ignores_case: bool,
        ) {
            let mut disk = Disk { ignores_case, ..Disk::default() };
            let mut files = BTreeMap::new();
            for (tail, https) in &tails {
                let scheme = if *https { "https" } else { "http" };
                let Ok(url) = PageUrl::parse(&format!("{scheme}://example.org/{tail}")) else {
                    continue;
                };
                let file = disk.keep(&url, format.0, format.1);
                prop_assert_eq!(&disk.keep(&url, format.0, format.1), &file, "the same again");
                files.insert(url, disk.key(&file));
                prop_assert!(file.starts_with("images/2026-01-02/example.org/"));
                // With room for the folder of the job, the sidecar and its `.part`.
                prop_assert!(file.len() <= 1_200, "{}", file.len());
                let fits = |e: &&str| file.to_ascii_lowercase().ends_with(&format!(".{e}"));
                prop_assert!(extensions(format.0).iter().any(fits), "{}", file);
                for part in file.split('/') {
                    prop_assert!(!part.is_empty() && part.len() <= 200, "{}", part);
                    prop_assert!(!part.starts_with('.') && !part.ends_with(['.', ' ']), "{}", part);
                    prop_assert!(part.bytes().all(|b| b.is_ascii_graphic()), "{}", part);
                    prop_assert!(!part.contains(['<', '>', ':', '"', '\\', '|', '?', '*']), "{}", part);
                    prop_assert!(!is_reserved(part), "{}", part);
                }
            }
            // No file is another URL's file, sidecar, temporary file or folder.
            let names: BTreeSet<&String> = files.values().collect();
            prop_assert_eq!(names.len(), files.len());
            for name in &names {
                for mark in [".json", ".part", ".json.part"] {
                    let name = format!("{name}{mark}");
                    prop_assert!(!names.contains(&name), "{}", name);
                }
                let folder = format!("{name}/");
                prop_assert!(!names.iter().any(|n| n.starts_with(&folder)), "{}", folder);
            }
        }
    }
}
