//! Seed files, and seeds with a schedule.

use std::time::Duration;

use super::super::*;
use super::{parsed, said};
use crate::address::PageUrl;

#[test]
fn watched_seeds_in_either_form() {
    let blocks = "[[seeds.watch]]\nurl = \"http://A.org\"\nevery = \"6h\"\n\
                  [[seeds.watch]]\nurl = \"http://b.org/x\"\nevery = 0.25\n";
    let list = "[seeds]\nwatch = [{ url = \"http://a.org/\", every = \"6h\" },\n\
                { every = \"250ms\", url = \"http://b.org/x\" }]\n";
    let expected = [("http://a.org/", 21_600_000), ("http://b.org/x", 250)];
    for text in [blocks, list] {
        let config = parsed(text);
        let read: Vec<_> = config
            .seeds
            .watch
            .iter()
            .map(|w| (w.url.as_str(), w.every))
            .collect();
        let expected = expected.map(|(url, ms)| (url, Duration::from_millis(ms)));
        assert_eq!(read, expected);
        let written = config.to_toml();
        assert_eq!(Config::parse(&written, "w.toml"), Ok(config), "{written}");
    }
}

#[test]
fn what_is_wrong_with_a_watched_seed() {
    let said = said(
        "job.name = \"x\"\n[[seeds.watch]]\nurl = \"ftp://a.org/\"\nevry = 1\n\
         [[seeds.watch]]\nurl = \"http://a.org/\"\nevery = \"0s\"\n\
         [[seeds.watch]]\nevery = \"soon\"\n",
    );
    let starts = [
        "x.toml:2:1: seeds.watch: `every` is missing; allowed: a list of watched seeds, each a \
         table as { url = \"https://example.org/news\", every = \"6h\" }",
        "x.toml:3:7: seeds.watch: `ftp:` addresses are not crawled",
        "x.toml:4:1: seeds.watch: \"evry\" is not a key of it; allowed: ",
        "x.toml:7:9: seeds.watch: a schedule needs a pause above 0s; allowed: ",
        "x.toml:8:1: seeds.watch: `url` is missing; allowed: ",
        "x.toml:9:9: seeds.watch: \"soon\" is not a duration; allowed: ",
        "6 errors in x.toml",
    ];
    assert_eq!(said.len(), starts.len(), "{said:#?}");
    for (line, start) in said.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
}

#[test]
fn a_seed_has_one_schedule() {
    let said = said(
        "job.name = \"x\"\n[seeds]\nwatch = [{ url = \"http://a.org\", every = 1 }, \
         { url = \"http://A.org/\", every = 2 }]\n",
    );
    let expected =
        "x.toml:3:9: seeds.watch: http://a.org/ has two schedules; allowed: one for each seed";
    assert_eq!(said[0], expected);
}

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
