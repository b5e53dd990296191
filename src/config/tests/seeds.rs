//! Seed files.

use super::super::*;
use crate::address::PageUrl;

#[test]
fn seeds_of_the_file_and_of_other_files_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seeds.txt");
    std::fs::write(
        &path,
        "\u{feff}# all of them\r\nhttp://a.org\r\n\n  http://b.org/x#part # why\nHTTP://A.org:80/\nhttp://c.org",
    )
    .unwrap();
    let seeds = Seeds {
        urls: vec![PageUrl::parse("http://c.org/").unwrap()],
        files: vec![path.clone(), path],
        ..Seeds::default()
    };
    let read: Vec<String> = seeds
        .read()
        .unwrap()
        .iter()
        .map(PageUrl::to_string)
        .collect();
    assert_eq!(read, ["http://c.org/", "http://a.org/", "http://b.org/x"]);
    assert_eq!(Seeds::default().read(), Ok(Vec::new()));
}

#[test]
fn every_error_of_every_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.txt");
    let latin = folder.path().join("latin.txt");
    let missing = folder.path().join("missing.txt");
    std::fs::write(&bad, "http://a.org\n\tb.org\n#\nmailto:a@b.org\n").unwrap();
    std::fs::write(&latin, b"http://a.org/\n# \xfc\nx\n").unwrap();
    let seeds = Seeds {
        files: vec![bad.clone(), missing.clone(), latin.clone()],
        ..Seeds::default()
    };
    let said = seeds.read().unwrap_err().to_string();
    let lines: Vec<&str> = said.lines().collect();
    let (bad, latin, missing) = (bad.display(), latin.display(), missing.display());
    let url = "is not a URL: relative URL without a base; write it in full, as in https://example.org/page";
    assert_eq!(lines.len(), 6);
    assert_eq!(lines[0], format!("{bad}:2:2: `b.org` {url}"));
    assert_eq!(
        lines[1],
        format!("{bad}:4:1: `mailto:` addresses are not crawled, only http and https")
    );
    assert!(lines[2].starts_with(&format!("{missing}: seeds.files: cannot be read: ")));
    assert_eq!(
        lines[3],
        format!("{latin}:2:3: not UTF-8; save the file as UTF-8")
    );
    assert_eq!(lines[4], format!("{latin}:3:1: `x` {url}"));
    assert_eq!(lines[5], "5 errors in the seed files");
}
