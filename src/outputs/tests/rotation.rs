//! Tables that become long: renaming and compressing, with kills in between.

use super::*;
use crate::rows::{Table, each_line, parts};

/// The size of a table in bytes at which another file is begun.
const SMALL: u64 = 1_500;

fn open(job: &Path, stamp: &[u8]) -> Outputs {
    let mut o = Outputs::open(job, stamp).unwrap();
    o.rotate_at(SMALL);
    o
}

/// Does the work of one page: a row of the log, and an image with its row.
fn work(o: &mut Outputs, n: usize) {
    let page = format!("http://a.org/{n}");
    keep(
        o,
        &format!("http://i.org/{n}.jpg"),
        vec![context(&page, "x")],
    );
    o.log(&row(&page)).unwrap();
}

/// All lines of a table except its headers.
fn read(job: &Path, table: Table) -> Vec<String> {
    let mut all = Vec::new();
    each_line(job, table, 1 << 20, |line| {
        all.push(String::from_utf8(line.bytes.unwrap().to_vec()).unwrap());
    })
    .unwrap();
    all.retain(|line| format!("{line}\n") != log::IMAGES_HEADER);
    all
}

fn both(job: &Path) -> (Vec<String>, Vec<String>) {
    (read(job, Table::Log), read(job, Table::Images))
}

fn names(job: &Path) -> Vec<String> {
    let below = ["", "logs"].map(|below| job.join(below));
    let entries = below
        .iter()
        .flat_map(|below| std::fs::read_dir(below).unwrap());
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("crawl.") || name.starts_with("images."))
        .collect();
    names.sort();
    names
}

/// A job of this many pages, with the stamp and the rows after each.
fn job(pages: usize) -> (tempfile::TempDir, Vec<Vec<u8>>) {
    let job = tempfile::tempdir().unwrap();
    let mut o = open(job.path(), &[]);
    let mut stamps = vec![o.stamp()];
    for n in 0..pages {
        work(&mut o, n);
        stamps.push(o.stamp());
    }
    (job, stamps)
}

#[test]
fn a_long_table_becomes_several_files_that_read_as_one() {
    let (folder, stamps) = job(40);
    let job = folder.path();
    let (log, images) = both(job);
    assert_eq!((log.len(), images.len()), (40, 40));
    assert!(log[0].contains("/0\"") && log[39].contains("/39\""));
    let names = names(job);
    assert!(
        names.contains(&"crawl.00001.jsonl.zst".to_owned()),
        "{names:?}"
    );
    assert!(
        names.contains(&"images.00002.tsv.zst".to_owned()),
        "{names:?}"
    );
    let plain = |name: &&String| !name.ends_with(".zst");
    assert_eq!(names.iter().filter(plain).count(), 2, "{names:?}");
    // Each file is a complete table.
    for part in parts(job, Table::Images).unwrap() {
        let mut text = String::new();
        part.text_from(0)
            .unwrap()
            .1
            .read_to_string(&mut text)
            .unwrap();
        assert!(text.starts_with(log::IMAGES_HEADER), "{text}");
    }
    let o = open(job, stamps.last().unwrap());
    assert_eq!(o.stamp(), *stamps.last().unwrap());
    assert_eq!(both(job), (log, images));
}

#[test]
fn cutting_back_over_any_number_of_files_equals_replaying() {
    let pages = 30;
    let (whole, stamps) = job(pages);
    let (log, images) = both(whole.path());
    for (done, stamp) in stamps.iter().enumerate() {
        let (folder, _) = job(pages);
        let mut o = open(folder.path(), stamp);
        assert_eq!(o.stamp(), *stamp, "{done}");
        let cut = both(folder.path());
        assert_eq!((cut.0.len(), cut.1.len()), (done, done), "{done}");
        assert_eq!(image_files(folder.path()).unwrap().len(), done);
        assert_eq!(cut.0, log[..done]);
        for n in done..pages {
            work(&mut o, n);
        }
        drop(o);
        assert_eq!(both(folder.path()), (log.clone(), images.clone()), "{done}");
        assert_eq!(names(folder.path()), names(whole.path()), "{done}");
    }
}

/// A kill at each step of renaming and compressing, with and without the commit of the next
/// page.
#[test]
fn a_kill_at_any_step_of_a_rotation_loses_and_doubles_nothing() {
    let (whole, stamps) = job(40);
    let (log, _) = both(whole.path());
    let second = |stamp: &Vec<u8>| Stamp::read(stamp).unwrap().of(&super::log::Log).segment == 2;
    // The first page whose stamp is in the third file.
    let at = stamps.iter().position(second).unwrap();
    for step in 0..6 {
        for lost in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let job = folder.path();
            let mut o = open(job, &[]);
            (0..at).for_each(|n| work(&mut o, n));
            let stamp = stamps[at - usize::from(lost)].clone();
            drop(o);
            let of = |name: &str| job.join("logs").join(name);
            let (live, packed) = (of("crawl.jsonl"), of("crawl.00002.jsonl.zst"));
            let plain = of("crawl.00002.jsonl");
            let text = zstd::decode_all(std::fs::File::open(&packed).unwrap()).unwrap();
            match step {
                // Compressed, with the plain file still there.
                0 => std::fs::write(&plain, &text).unwrap(),
                // Not compressed, or half of it.
                1 | 2 => {
                    std::fs::write(&plain, &text).unwrap();
                    let bytes = std::fs::read(&packed).unwrap();
                    std::fs::remove_file(&packed).unwrap();
                    if step == 2 {
                        std::fs::write(of("crawl.00002.jsonl.zst.part"), &bytes[..9]).unwrap();
                    }
                }
                // Renamed without a new file; that page was never committed.
                3 if lost => {
                    std::fs::write(&plain, &text).unwrap();
                    std::fs::remove_file(&packed).unwrap();
                    std::fs::remove_file(&live).unwrap();
                }
                // Undone, with the compressed file still there.
                4 if lost => std::fs::write(&live, &text).unwrap(),
                5 if lost => std::fs::write(of("crawl.jsonl.part"), &text[..20]).unwrap(),
                _ => continue,
            }
            let mut o = open(job, &stamp);
            assert_eq!(o.stamp(), stamp, "step {step}, lost {lost}");
            let done = at - usize::from(lost);
            assert_eq!(
                read(job, Table::Log),
                log[..done],
                "step {step}, lost {lost}"
            );
            (done..40).for_each(|n| work(&mut o, n));
            drop(o);
            assert_eq!(read(job, Table::Log), log, "step {step}, lost {lost}");
            let expected: Vec<String> = names(whole.path());
            let mut found = names(job);
            found.retain(|name| name != "crawl.jsonl.part");
            assert_eq!(found, expected, "step {step}, lost {lost}");
        }
    }
}

#[test]
fn what_somebody_moved_away_does_not_stop_the_crawl() {
    for name in ["logs/crawl.jsonl", "images.tsv"] {
        for emptied in [false, true] {
            let (folder, stamps) = job(40);
            let path = folder.path().join(name);
            std::fs::remove_file(&path).unwrap();
            if emptied {
                std::fs::write(&path, "").unwrap();
            }
            let last = stamps.last().unwrap();
            let mut o = open(folder.path(), last);
            work(&mut o, 40);
            let stamp = o.stamp();
            drop(o);
            let (log, images) = both(folder.path());
            assert!(log.last().unwrap().contains("/40\""), "{name}");
            assert!(images.last().unwrap().contains("/40"), "{name}");
            let o = open(folder.path(), &stamp);
            assert_eq!(o.stamp(), stamp);
        }
        // An old file that was removed.
        let (folder, stamps) = job(40);
        let table = [Table::Log, Table::Images]
            .into_iter()
            .find(|table| table.name() == name);
        let before = read(folder.path(), table.unwrap());
        let old = rows::rotated_name(name, 1, true);
        std::fs::remove_file(folder.path().join(old)).unwrap();
        let left = read(folder.path(), table.unwrap());
        assert!(left.len() < 40 && before.ends_with(&left), "{name}");
        let o = open(folder.path(), stamps.last().unwrap());
        assert_eq!(o.stamp(), *stamps.last().unwrap());
        assert_eq!(read(folder.path(), table.unwrap()), left);
    }
}

#[test]
fn what_somebody_moves_or_cuts_while_it_is_written_is_noticed() {
    for cut in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut o = Outputs::open(folder.path(), &[]).unwrap();
        work(&mut o, 0);
        assert!(!o.find_again().unwrap());
        let path = folder.path().join("logs/crawl.jsonl");
        if cut {
            std::fs::write(&path, "").unwrap()
        } else {
            std::fs::rename(&path, path.with_extension("1")).unwrap()
        }
        assert!(o.find_again().unwrap());
        assert!(!o.find_again().unwrap());
        work(&mut o, 1);
        let stamp = o.stamp();
        drop(o);
        let o = Outputs::open(folder.path(), &stamp).unwrap();
        assert_eq!(o.stamp(), stamp);
        assert_eq!(read(folder.path(), Table::Log).len(), 1);
    }
}

#[test]
fn the_record_of_changes_rotates_as_well() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..100 {
        append_line(folder.path(), Table::Audit, &format!("{{\"n\":{n}}}"), 200).unwrap();
    }
    let all = read(folder.path(), Table::Audit);
    let expected: Vec<String> = (0..100).map(|n| format!("{{\"n\":{n}}}")).collect();
    assert_eq!(all, expected);
    assert!(parts(folder.path(), Table::Audit).unwrap().len() > 3);
}

#[test]
fn whoever_reads_a_table_while_it_rotates_finds_every_line_once() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path();
    let mut o = open(job, &[]);
    let ended = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !ended.load(order) || reads == 0 {
                let urls: Vec<String> = read(job, Table::Log)
                    .iter()
                    .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
                    .map(|line| line["url"].as_str().unwrap().to_owned())
                    .collect();
                for (n, url) in urls.iter().enumerate() {
                    assert_eq!(*url, format!("http://a.org/{n}"));
                }
                reads += 1;
            }
        });
        for n in 0..400 {
            o.log(&row(&format!("http://a.org/{n}"))).unwrap();
        }
        ended.store(true, order);
        reader.join().unwrap();
    });
}

#[test]
fn lines_that_are_too_long_or_not_ended_are_reported() {
    let text = format!("ab\n{}\n\ncd\nend", "x".repeat(100_000));
    let from = std::io::BufReader::with_capacity(7, text.as_bytes());
    let mut seen = Vec::new();
    let (count, end) = rows::lines(from, 10, |line, n, _| {
        seen.push((n, line.map(|l| String::from_utf8(l.to_vec()).unwrap())));
    });
    end.unwrap();
    let of = |text: &str| Some(text.to_owned());
    assert_eq!(count, 4);
    assert_eq!(seen, [(1, of("ab")), (2, None), (3, of("")), (4, of("cd"))]);
}
