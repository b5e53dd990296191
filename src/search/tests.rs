//! An index that is made, updated, damaged and searched, within the test process.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use tempfile::TempDir;

use super::*;
use crate::tool_error::ToolFault;

/// A line of a corpus.
fn line(n: usize, text: &str) -> String {
    let host = ["a.test", "www.b.test"][n % 2];
    let language = ["en", "de", "en"][n % 3];
    format!(
        "{{\"id\":\"{n}\",\"url\":\"http://{host}/{n}\",\"host\":\"{host}\",\"title\":\"Page {n}\",\
         \"text\":\"{text}\",\"language\":\"{language}\",\"date\":\"{}-05-17\",\"published\":\"x\",\
         \"perplexity\":{}.5,\"bucket\":\"{}\"}}\n",
        2020 + n % 4,
        n * 100,
        ["head", "middle", "tail"][n % 3],
    )
}

fn lines(numbers: std::ops::Range<usize>) -> String {
    numbers
        .map(|n| line(n, &format!("Lamp number{n} was lit at dusk.")))
        .collect()
}

fn put(folder: &Path, name: &str, bytes: &[u8]) {
    let documents = folder.join(DOCUMENTS);
    std::fs::create_dir_all(&documents).unwrap();
    std::fs::write(documents.join(name), bytes).unwrap();
}

fn gzip(text: &str) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap()
}

fn zst(text: &str) -> Vec<u8> {
    zstd::encode_all(text.as_bytes(), 1).unwrap()
}

/// A corpus with one file.
fn corpus(text: &str) -> (TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "00000.jsonl", text.as_bytes());
    let home = Home::open(folder.path(), None, &Signal::ALL).unwrap();
    (folder, home)
}

fn index(home: &Home) -> Updated {
    let mut indexer = Indexer::open(home, 1).unwrap();
    let updated = indexer.run(&AtomicBool::new(false)).unwrap();
    indexer.close().unwrap();
    updated
}

fn request(query: &str) -> Request {
    Request {
        query: query.to_owned(),
        limit: 100,
        ..Request::default()
    }
}

/// The numbers of the documents that a request finds.
fn numbers(home: &Home, request: &Request) -> BTreeSet<usize> {
    let found = Search::open(home).unwrap().find(request).unwrap();
    assert_eq!(found.total, found.hits.len() as u64);
    let of = |hit: &Hit| hit.about.url.rsplit('/').next().unwrap().parse().unwrap();
    found.hits.iter().map(of).collect()
}

fn all(home: &Home) -> BTreeSet<usize> {
    numbers(home, &request(""))
}

#[test]
fn files_of_all_packings_are_followed_while_they_grow() {
    let folder = tempfile::tempdir().unwrap();
    let home = || Home::open(folder.path(), None, &Signal::ALL).unwrap();
    let error = Home::open(folder.path(), None, &Signal::ALL)
        .unwrap_err()
        .to_string();
    assert!(error.contains("there is no folder `documents`"), "{error}");
    put(folder.path(), "00000.jsonl", lines(0..3).as_bytes());
    let error = Search::open(&home()).err().unwrap().to_string();
    assert!(error.contains("no index yet"), "{error}");
    assert_eq!((index(&home()).added, all(&home())), (3, (0..3).collect()));
    assert_eq!(
        index(&home()),
        Updated {
            documents: 3,
            ..Updated::default()
        }
    );
    // Members and frames of several lines, and of one.
    let packed = [gzip(&lines(3..5)), gzip(&lines(5..6))].concat();
    put(folder.path(), "00001.jsonl.gz", &packed);
    let framed = [zst(&lines(6..9)), zst(&lines(9..10))].concat();
    put(folder.path(), "00002.jsonl.zst", &framed);
    put(folder.path(), "notes.txt", b"mine");
    assert_eq!((index(&home()).added, all(&home())), (7, (0..10).collect()));
    // They grow, and incomplete ends are left.
    put(
        folder.path(),
        "00000.jsonl",
        (lines(0..3) + &lines(10..11) + "{\"url\":\"x").as_bytes(),
    );
    let more = zst(&lines(11..13));
    put(
        folder.path(),
        "00002.jsonl.zst",
        &[&framed[..], &more[..more.len() - 5]].concat(),
    );
    let updated = index(&home());
    assert_eq!((updated.damaged, updated.reread), (0, 0), "{updated:?}");
    assert!(all(&home()).is_superset(&(0..11).collect()));
    put(folder.path(), "00002.jsonl.zst", &[framed, more].concat());
    index(&home());
    assert_eq!(all(&home()), (0..13).collect());
    // Each has its place.
    let search = Search::open(&home()).unwrap();
    let place = |query: &str| {
        let found = search.find(&request(query)).unwrap();
        assert_eq!(found.hits.len(), 1, "{query}");
        let DocumentPlace {
            file,
            line,
            byte,
            inside,
        } = found.hits[0].about.place.clone();
        (file, line, byte, inside)
    };
    let begin = lines(0..3).len() as u64;
    assert_eq!(
        place("number10"),
        ("documents/00000.jsonl".to_owned(), 4, begin, 0)
    );
    assert_eq!(
        place("number4"),
        ("documents/00001.jsonl.gz".to_owned(), 2, 0, 1)
    );
    let (file, line, byte, inside) = place("number12");
    assert_eq!(
        (file.as_str(), line, inside),
        ("documents/00002.jsonl.zst", 6, 1)
    );
    assert!(byte > 0);
}

#[test]
fn every_beginning_of_a_file_is_indexed_once_it_is_there() {
    let text = lines(0..4);
    for (name, bytes) in [
        ("00000.jsonl", text.clone().into_bytes()),
        (
            "00000.jsonl.gz",
            [gzip(&lines(0..1)), gzip(&lines(1..4))].concat(),
        ),
        (
            "00000.jsonl.zst",
            [zst(&lines(0..1)), zst(&lines(1..4))].concat(),
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(DOCUMENTS)).unwrap();
        let home = Home::open(folder.path(), None, &Signal::ALL).unwrap();
        let mut indexer = Indexer::open(&home, 1).unwrap();
        let mut added = 0;
        for part in 1..=6 {
            put(folder.path(), name, &bytes[..bytes.len() * part / 6]);
            let updated = indexer.run(&AtomicBool::new(false)).unwrap();
            assert_eq!(
                (updated.damaged, updated.reread),
                (0, 0),
                "{name}, {part}: {updated:?}"
            );
            added += updated.added;
            assert_eq!(updated.documents, added, "{name}, {part}");
        }
        indexer.close().unwrap();
        assert_eq!((added, all(&home)), (4, (0..4).collect()), "{name}");
    }
}

#[test]
fn what_was_removed_from_a_corpus_is_gone_from_the_index() {
    let secret = line(0, "Quixotic zephyrs.");
    let (folder, home) = corpus(&(secret.clone() + &lines(1..5)));
    put(folder.path(), "00001.jsonl", lines(5..9).as_bytes());
    index(&home);
    assert_eq!(numbers(&home, &request("quixotic")), [0].into());
    put(folder.path(), "00000.jsonl", lines(1..5).as_bytes());
    let updated = index(&home);
    assert_eq!(
        (updated.reread, updated.added, updated.documents),
        (1, 4, 8)
    );
    assert!(numbers(&home, &request("quixotic")).is_empty());
    // Its files do not contain it either: all entries are valid.
    let index_of = tantivy::Index::open_in_dir(folder.path().join(FOLDER)).unwrap();
    let segments = index_of.searchable_segment_metas().unwrap();
    assert!(segments.iter().all(|s| s.num_deleted_docs() == 0));
    let kept: BTreeSet<String> = segments.iter().map(|s| s.id().uuid_string()).collect();
    for entry in std::fs::read_dir(folder.path().join(FOLDER)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_of_segment = name.len() > 32 && !name.starts_with('.');
        assert!(!is_of_segment || kept.contains(&name[..32]), "{name}");
    }
    // The documents of a deleted file are removed.
    std::fs::remove_file(folder.path().join(DOCUMENTS).join("00001.jsonl")).unwrap();
    assert_eq!(index(&home).documents, 4);
    assert_eq!(all(&home), (1..5).collect());
    // A file that was only touched is not read again.
    put(folder.path(), "00000.jsonl", lines(1..5).as_bytes());
    assert_eq!(index(&home).added, 0);
}

#[test]
fn a_page_of_a_job_is_there_as_it_was_last() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("logs")).unwrap();
    let visit = |text: &str, more: &str| {
        format!(
            "{{\"url\":\"http://a.test/1\",\"fetched\":\"2026-01-02T03:04:05.678Z\",\"text\":\"{text}\"{more}}}\n"
        )
    };
    let first = visit("An old lamp.", "");
    put(folder.path(), "00000.jsonl.zst", &zst(&first));
    let boundaries = Boundaries::default();
    let home = Home::open(folder.path(), Some(boundaries), &Signal::ALL).unwrap();
    assert_eq!(index(&home).documents, 1);
    let newer = visit(
        "A new lamp.",
        ",\"replaces\":{\"fetched\":\"2026\"},\"perplexity\":601",
    );
    put(folder.path(), "00001.jsonl.zst", &zst(&newer));
    assert_eq!(index(&home).documents, 1);
    let found = |query: &str| Search::open(&home).unwrap().find(&request(query)).unwrap();
    assert_eq!(found("old").total, 0);
    let new = found("new");
    assert_eq!(new.hits[0].about.bucket.as_deref(), Some("medium"));
    assert!(new.hits[0].about.date_is_fetched);
    // Even if the earlier file is read again.
    put(
        folder.path(),
        "00000.jsonl.zst",
        &zst(&(first + &line(3, "More."))),
    );
    index(&home);
    assert_eq!(
        (found("old").total, found("new").total, found("more").total),
        (0, 1, 1)
    );
    // Files that a takedown rewrites have another generation.
    std::fs::write(folder.path().join("generation"), "1").unwrap();
    assert_eq!((index(&home).reread, found("").total), (1, 2));
}

#[test]
fn damage_is_told_and_the_rest_is_there() {
    let (folder, home) = corpus(&(lines(0..1) + "junk\n[]\n{}\n\n" + &lines(1..2)));
    let mut framed = [zst(&lines(2..3)), zst(&lines(3..4)), zst(&lines(4..5))].concat();
    let at = zst(&lines(2..3)).len() + 12;
    framed[at] ^= 0xFF;
    put(folder.path(), "00001.jsonl.zst", &framed);
    let packed = gzip(&lines(5..6));
    put(
        folder.path(),
        "00002.jsonl.gz",
        &[packed, b"nothing that unpacks".to_vec()].concat(),
    );
    let long = format!("{}\n{}", "x".repeat(2 << 20), lines(6..7));
    put(folder.path(), "00003.jsonl", long.as_bytes());
    let updated = index(&home);
    assert_eq!(updated.documents, 6, "{updated:?}");
    assert_eq!(all(&home), [0, 1, 2, 4, 5, 6].into());
    let damage = updated.damage.join("\n");
    for part in [
        "documents/00000.jsonl, line 2: ",
        "documents/00000.jsonl, line 4: ",
        "documents/00001.jsonl.zst, byte ",
        "documents/00002.jsonl.gz, byte ",
        "documents/00003.jsonl, byte 0: line 1 has more than",
    ] {
        assert!(damage.contains(part), "no {part} in {damage}");
    }
}

#[test]
fn filters_and_counts_agree() {
    let (_folder, home) = corpus(&lines(0..24));
    index(&home);
    let found = |filters: Filters| {
        let request = Request {
            filters,
            ..request("lamp")
        };
        numbers(&home, &request)
    };
    let which = |is: &dyn Fn(usize) -> bool| (0..24).filter(|n| is(*n)).collect::<BTreeSet<_>>();
    let one = |value: &str| vec![value.to_owned()];
    for (filters, expected) in [
        (
            Filters {
                hosts: one("a.test"),
                ..Filters::default()
            },
            which(&|n| n % 2 == 0),
        ),
        (
            Filters {
                hosts: one("*.B.test "),
                ..Filters::default()
            },
            which(&|n| n % 2 == 1),
        ),
        (
            Filters {
                hosts: one("test"),
                ..Filters::default()
            },
            which(&|_| true),
        ),
        (
            Filters {
                languages: one("de"),
                ..Filters::default()
            },
            which(&|n| n % 3 == 1),
        ),
        (
            Filters {
                buckets: vec!["head".to_owned(), "tail".to_owned()],
                ..Filters::default()
            },
            which(&|n| n % 3 != 1),
        ),
        (
            Filters {
                from: Some("2021".to_owned()),
                to: Some("2022-05".to_owned()),
                ..Filters::default()
            },
            which(&|n| [1, 2].contains(&(n % 4))),
        ),
        (
            Filters {
                to: Some("2020-05-16".to_owned()),
                ..Filters::default()
            },
            which(&|_| false),
        ),
        (
            Filters {
                max_perplexity: Some(300.5),
                ..Filters::default()
            },
            which(&|n| n <= 3),
        ),
        (
            Filters {
                languages: one("en"),
                max_perplexity: Some(550.0),
                ..Filters::default()
            },
            which(&|n| n <= 5 && n % 3 != 1),
        ),
    ] {
        assert_eq!(found(filters.clone()), expected, "{filters:?}");
    }
    let facets = Request {
        facets: true,
        limit: 0,
        ..request("lamp")
    };
    let counted = Search::open(&home).unwrap().find(&facets).unwrap();
    assert!(counted.hits.is_empty());
    let Facets {
        host,
        year,
        language,
        bucket,
        entity,
        class,
    } = counted.facets.unwrap();
    assert_eq!((entity, class), Default::default());
    let values = |facet: &Facet| {
        let values = facet.values.iter();
        values
            .map(|(value, n)| format!("{value} {n}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(values(&host), ["a.test 12", "www.b.test 12"]);
    assert_eq!(values(&year), ["2023 6", "2022 6", "2021 6", "2020 6"]);
    assert_eq!(values(&language), ["en 16", "de 8"]);
    assert_eq!((bucket.values.len(), bucket.others), (3, 0));
}

#[test]
fn words_phrases_beginnings_and_titles_are_found() {
    let text = [
        "The lamp of the lighthouse was lit.",
        "A light house, and a lamp.",
        "Fresnel\u{2019}s lens bends light. 東京の灯台。",
        "Caf\u{e9} at the harbour of example.org.",
    ];
    let all: String = (0..4).map(|n| line(n, text[n])).collect();
    let (_folder, home) = corpus(&all);
    index(&home);
    for (query, expected) in [
        ("lamp", vec![0, 1]),
        ("lamp LIGHTHOUSE", vec![0]),
        ("\"light house\"", vec![1]),
        ("light*", vec![0, 1, 2]),
        ("\"light hou*\"", vec![]),
        ("light-hou*", vec![1]),
        ("lamp -lit", vec![1]),
        ("fresnel OR cafe", vec![2, 3]),
        ("灯台", vec![2]),
        ("example", vec![3]),
        ("title:page", vec![0, 1, 2, 3]),
        ("text:page", vec![]),
        ("page lamp", vec![0, 1]),
        ("(lens OR harbour) (caf* OR bends)", vec![2, 3]),
        ("zebra", vec![]),
    ] {
        let found = numbers(&home, &request(query));
        assert_eq!(found, expected.into_iter().collect(), "{query}");
    }
    // Without a query the newest come first; hits can be skipped.
    let search = Search::open(&home).unwrap();
    let years = |offset| {
        let request = Request {
            offset,
            limit: 2,
            ..request("")
        };
        let found = search.find(&request).unwrap();
        assert_eq!(found.total, 4);
        let year = |hit: &Hit| hit.about.date.as_deref().unwrap()[..4].to_owned();
        found.hits.iter().map(year).collect::<Vec<_>>()
    };
    assert_eq!(years(0), ["2023", "2022"]);
    assert_eq!(years(2), ["2021", "2020"]);
    let error = search.find(&request("(lamp")).unwrap_err();
    assert_eq!(error.fault(), ToolFault::Usage, "{error}");
    // A document is found by its number.
    let hit = search.find(&request("fresnel")).unwrap().hits.remove(0);
    let whole = search.document(hit.key).unwrap().unwrap();
    assert_eq!(
        (whole.title.as_str(), whole.text.as_str()),
        ("Page 2", text[2])
    );
    assert!(search.document(7).unwrap().is_none());
}

#[test]
fn only_one_process_indexes_and_others_search_meanwhile() {
    let (folder, home) = corpus(&lines(0..2));
    let mut indexer = Indexer::open(&home, 1).unwrap();
    let busy = Indexer::open(&home, 1).map(|_| ()).unwrap_err();
    assert!(busy.is_busy(), "{busy}");
    indexer.run(&AtomicBool::new(false)).unwrap();
    let search = Search::open(&home).unwrap();
    assert_eq!(
        (search.documents().unwrap(), search.behind().unwrap()),
        (2, 0)
    );
    put(folder.path(), "00000.jsonl", lines(0..3).as_bytes());
    assert_eq!(search.behind().unwrap(), lines(2..3).len() as u64);
    indexer.run(&AtomicBool::new(false)).unwrap();
    assert_eq!(search.documents().unwrap(), 2);
    search.reload().unwrap();
    assert_eq!(
        (search.documents().unwrap(), search.behind().unwrap()),
        (3, 0)
    );
    // When it is stopped, it leaves the rest for another run.
    put(folder.path(), "00000.jsonl", lines(0..9).as_bytes());
    let stopped = indexer.run(&AtomicBool::new(true)).unwrap();
    assert_eq!(stopped.added, 0);
    indexer.close().unwrap();
    assert_eq!(index(&home).documents, 9);
}

#[test]
fn an_index_of_another_form_is_made_again_and_a_damaged_one_reported() {
    let (folder, home) = corpus(&lines(0..3));
    index(&home);
    let meta = folder.path().join(FOLDER).join("meta.json");
    let good = std::fs::read_to_string(&meta).unwrap();
    let now = format!("\\\"version\\\":{}", schema::VERSION);
    let other = good.replace(&now, "\\\"version\\\":0");
    assert_ne!(good, other);
    std::fs::write(&meta, other).unwrap();
    let error = Search::open(&home).map(|_| ()).unwrap_err();
    assert!(
        error.to_string().contains("of another version of spoor"),
        "{error}"
    );
    assert_eq!((index(&home).added, all(&home).len()), (3, 3));
    // Other fields.
    let good = std::fs::read_to_string(&meta).unwrap();
    std::fs::write(&meta, good.replace("\"perplexity\"", "\"complexity\"")).unwrap();
    let error = Search::open(&home).map(|_| ()).unwrap_err();
    assert!(
        error.to_string().contains("of another version of spoor"),
        "{error}"
    );
    assert_eq!((index(&home).added, all(&home).len()), (3, 3));
    // No index at all.
    std::fs::write(&meta, "{").unwrap();
    let error = Search::open(&home).map(|_| ()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("remove this folder and index again"),
        "{error}"
    );
    let said = error.to_string();
    assert!(said.contains("remove this folder"), "{said}");
    // A link that leads out is not followed.
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::remove_dir_all(folder.path().join(FOLDER)).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), folder.path().join(FOLDER)).unwrap();
    assert!(Indexer::open(&home, 1).is_err());
    assert!(Search::open(&home).is_err());
}

/// The line of a page that was fetched at a time, newer than an earlier one, with its terms.
fn fetched(n: usize, time: &str, terms: &str, is_newer: bool) -> String {
    let newer = if is_newer { ",\"replaces\":{}" } else { "" };
    format!(
        "{{\"url\":\"http://a.test/{n}\",\"text\":\"Lamps at {time}.\",\"fetched\":\"{time}\",\
         \"terms\":{{{terms}}}{newer}}}\n"
    )
}

#[test]
fn what_was_withdrawn_before_a_newer_fetch_removes_only_the_older_text() {
    let lines = [
        fetched(1, "2026-01-01T00:00:00.000Z", "", false),
        fetched(2, "2026-01-01T00:00:00.000Z", "", false),
        fetched(3, "2026-01-03T00:00:00.000Z", "", true),
        line(4, "No time is known."),
    ];
    let (folder, home) = corpus(&lines.concat());
    assert_eq!(index(&home).added, 4);
    std::fs::create_dir(folder.path().join("logs")).unwrap();
    let withdrawn = folder.path().join("logs/withdrawn.jsonl");
    let gone = |n: usize, host: &str, day: u8, by: &str| {
        format!(
            "{{\"time\":\"2026-01-0{day}T00:00:00.000Z\",\"kind\":\"page\",\"url\":\"http://{host}.test/{n}\",\
             \"forbidden\":[\"{by}\"]}}\n"
        )
    };
    let later = gone(1, "a", 2, "noindex (robots)") + &gone(3, "a", 2, "noindex (robots)");
    std::fs::write(&withdrawn, &later).unwrap();
    index(&home);
    assert_eq!(all(&home), [2, 3, 4].into());
    // A line of another machine comes late.
    let earlier = gone(2, "a", 1, "Content-Signal: search=no") + &gone(4, "a", 1, "noai (robots)");
    std::fs::write(&withdrawn, later + &earlier).unwrap();
    index(&home);
    assert_eq!(all(&home), [3].into());
}

#[test]
fn a_document_is_found_until_its_publishers_day() {
    let until = "\"unavailable_after\":\"2027-05-01\"";
    let read = fetched(1, "2026-01-01T00:00:00.000Z", until, false)
        + &fetched(2, "2026-01-01T00:00:00.000Z", "", false)
        + &fetched(
            3,
            "2026-01-01T00:00:00.000Z",
            "\"noindex\":\"perhaps\"",
            false,
        );
    let (_folder, home) = corpus(&read);
    let at = |now| {
        let mut indexer = Indexer::open(&home, 1).unwrap();
        indexer.clock = now;
        let updated = indexer.run(&AtomicBool::new(false)).unwrap();
        indexer.close().unwrap();
        updated
    };
    // 2026-12-01, 2027-04-30 and 2027-05-01.
    let updated = at(|| 1_796_083_200_000);
    assert_eq!((updated.added, updated.damaged), (2, 1));
    assert!(
        updated.damage[0].contains("its terms of use cannot be read"),
        "{updated:?}"
    );
    at(|| 1_809_086_400_000);
    assert_eq!(all(&home), [1, 2].into());
    let updated = at(|| 1_809_172_800_000);
    assert_eq!((all(&home), updated.documents), ([2].into(), 1));
}
