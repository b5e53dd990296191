use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::outputs::{Row, TextPlace};
use crate::rules::Applied;

/// A row with more keys.
fn row(kind: &str, url: &str, outcome: &str, more: &str) -> String {
    format!(
        "{{\"time\":\"2026-01-01T00:00:01Z\",\"kind\":\"{kind}\",\"url\":\"{url}\",\"hops\":0,\
         \"bytes\":10,\"ms\":1,\"bucket\":\"high\",\"score\":1.0,\"outcome\":\"{outcome}\"{more}}}"
    )
}

fn page(url: &str, perplexity: f64, on_topic: bool) -> String {
    page_with(url, perplexity, on_topic, "")
}

fn page_with(url: &str, perplexity: f64, on_topic: bool, more: &str) -> String {
    let document =
        format!("{{\"perplexity\":{perplexity},\"keyword\":0.1,\"sentences\":3,\"tokens\":20}}");
    let more = format!(",\"document\":{document},\"on_topic\":{on_topic}{more}");
    row("page", url, "done", &more)
}

fn image(file: &str) -> String {
    let more = format!(",\"file\":\"{file}\"");
    row("image", "http://b.test/i.png", "done", &more)
}

fn take(figures: &mut CrawlFigures, line: &str) {
    figures.take(&LoggedTask::read(line.as_bytes()).unwrap());
}

fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
}

#[test]
fn packets_stay_few_and_keep_the_geometric_mean() {
    let mut figures = CrawlFigures::default();
    let lines = [10.0, 1_000.0].map(|perplexity| page("http://a.test/", perplexity, false));
    for n in 0..12_345 {
        take(&mut figures, &lines[n % 2]);
    }
    let packets = figures.packets();
    assert!(packets.len() <= 200);
    assert_eq!(packets.iter().map(|p| p.pages).sum::<u64>(), 12_345);
    let mut next = 1;
    for packet in &packets {
        assert_eq!(packet.first, next);
        next += packet.pages;
    }
    close(packets[0].perplexity, 100.0);
}

#[test]
fn hosts_that_yield_outlast_those_that_do_not() {
    let mut figures = CrawlFigures::with_hosts(100);
    for n in 0..3 {
        take(&mut figures, &page("http://good.test/", 10.0, true));
        for host in 0..100 {
            let url = format!("http://h{n}-{host}.test/");
            take(&mut figures, &page(&url, 10.0, false));
        }
    }
    assert!(figures.hosts.len() <= 100);
    let best = figures.best_hosts(10);
    assert_eq!((best.len(), best[0].on_topic), (1, 3));
    assert_eq!((best[0].host.as_str(), best[0].pages), ("good.test", 3));
}

#[test]
fn a_row_just_written_counts_as_the_one_that_is_read_again() {
    let applied = Applied {
        required: vec!["date".to_owned()],
        ..Applied::default()
    };
    let place = TextPlace {
        file: "00000.jsonl.zst".to_owned(),
        from: 0,
        bytes: 9,
    };
    let url = PageUrl::parse("http://a.test/").unwrap();
    let row = Row {
        via: Some("http://b.test/"),
        status: Some(200),
        bytes: 7,
        ms: 3,
        asked: Some(1),
        delay: Some(2),
        mime: Some("Text/HTML"),
        bucket: "low",
        on_topic: Some(true),
        title: Some("A \u{202e}title"),
        documents: Some(&place),
        rules: Some(&applied),
        ..Row::done(
            "2026-01-01T00:00:01Z",
            TaskKind::Page,
            url.as_str(),
            url.id(),
        )
    };
    let (mut live, mut read) = (CrawlFigures::default(), CrawlFigures::default());
    live.take(&LoggedTask::of(&row).unwrap());
    take(&mut read, &row.to_json());
    assert_eq!(live.totals, read.totals);
    assert_eq!((read.totals.pages, read.totals.texts), (1, 1));
    assert_eq!(live.latest.pages, read.latest.pages);
    let json = |figures: &CrawlFigures| serde_json::to_value(figures.finish()).unwrap();
    assert_eq!(json(&live), json(&read));
    assert_eq!(json(&read)["ruled"][0]["pages"], 1);
}

#[test]
fn a_log_is_read_on_and_a_cut_line_waits() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("logs")).unwrap();
    let path = folder.path().join("logs/crawl.jsonl");
    let mut log = FollowedLog::with_hosts(9);
    let sums = |log: &mut FollowedLog, folder: &Path| {
        log.read_on(folder).unwrap();
        let totals = &log.figures.totals;
        (totals.pages, totals.on_topic, totals.images)
    };
    assert_eq!(sums(&mut log, folder.path()), (0, 0, 0));
    assert_eq!(log.figures.last, None);
    let (page, image) = (page("http://a.test/1", 50.0, true), image("images/a.png"));
    let mut file = File::create(&path).unwrap();
    write!(file, "{page}\nnoise\n{}", &image[..20]).unwrap();
    assert_eq!(sums(&mut log, folder.path()), (1, 1, 0));
    writeln!(file, "{}", &image[20..]).unwrap();
    assert_eq!(sums(&mut log, folder.path()), (1, 1, 1));
    assert_eq!(log.figures.last.as_deref(), Some("2026-01-01T00:00:01Z"));
    let id = log.figures.latest.images[0].id.clone();
    assert_eq!(log.figures.latest.file(&id), Some("images/a.png"));
    assert_eq!(log.figures.latest.file("images/a.png"), None);
    // It is renamed, compressed, and a new one begun.
    drop(file);
    let old = path.with_file_name("crawl.00001.jsonl.zst");
    let packed = zstd::encode_all(File::open(&path).unwrap(), 0).unwrap();
    std::fs::write(&old, packed).unwrap();
    std::fs::write(&path, format!("{page}\n")).unwrap();
    assert_eq!(sums(&mut log, folder.path()), (2, 2, 1));
    std::fs::write(&path, format!("{page}\n{page}\n")).unwrap();
    assert_eq!(sums(&mut log, folder.path()), (3, 3, 1));
    // A takedown has rewritten the old one.
    std::fs::write(&old, zstd::encode_all(&b""[..], 0).unwrap()).unwrap();
    std::fs::write(folder.path().join("generation"), "1").unwrap();
    assert_eq!(sums(&mut log, folder.path()), (2, 2, 0));
    std::fs::remove_file(&old).unwrap();
    // A takedown has made it shorter.
    std::fs::write(&path, format!("{page}\n")).unwrap();
    assert_eq!(sums(&mut log, folder.path()), (1, 1, 0));
}

#[test]
fn the_latest_pages_say_why() {
    let mut figures = CrawlFigures::default();
    let more = ",\"title\":\"A \\u202etitle\",\"via\":\"http://b.test/\"";
    take(
        &mut figures,
        &page_with("http://a.test/1", 50.0, true, more),
    );
    let failed = ",\"reason\":\"client_error\",\"status\":404";
    take(
        &mut figures,
        &row("page", "http://a.test/2", "dropped", failed),
    );
    let pages = figures.latest.pages.iter();
    let pages: Vec<(&str, Option<bool>, &str)> = pages
        .map(|page| (page.url.as_str(), page.on_topic, page.reason.as_str()))
        .collect();
    assert_eq!(
        pages,
        [
            ("http://a.test/2", None, "client error (status 404)"),
            ("http://a.test/1", Some(true), "linked from b.test"),
        ]
    );
    let title = figures.latest.pages[1].title.as_deref();
    assert_eq!(title, Some("A \\u{202e}title"));
}

#[test]
fn names_are_counted_in_bounded_memory() {
    let mut tally = NameTally::default();
    for n in 0..20_000 {
        tally.add(&format!("name {n}"));
        tally.add("often");
    }
    let counted = tally.finish(2);
    assert_eq!(counted.top[0], ("often".to_owned(), 20_000));
    assert_eq!(counted.others, 19_999);
}

#[test]
fn rates_are_those_of_the_last_minute() {
    let mut meter = RateMeter::over(Duration::from_secs(60));
    let mut work = WorkDone::default();
    assert_eq!(meter.rates(work, 0), Rates::default());
    // Two minutes with a page a second, then one with three.
    for second in 0..=180 {
        work.pages += if second > 120 { 3 } else { 1 };
        meter.observe(work, second * 1000);
        meter.observe(work, second * 1000 + 500);
    }
    let rates = meter.rates(work, 180_000);
    assert_eq!((rates.seconds, rates.pages), (60.0, 180.0));
    assert_eq!(meter.rates(work, 240_000).pages, 90.0);
}

#[test]
fn nothing_is_foretold_of_a_moment_or_of_a_standstill() {
    let mut meter = RateMeter::over(Duration::from_secs(60));
    meter.observe(WorkDone::default(), 0);
    let work = WorkDone {
        pages: 9,
        ..WorkDone::default()
    };
    let soon = meter.rates(work, 1_000);
    assert_eq!(soon.seconds_for(100.0, soon.pages), None);
    let later = meter.rates(work, 3_000);
    assert_eq!((later.pages, later.images), (180.0, 0.0));
    assert_eq!(later.seconds_for(9.0, later.pages), Some(3.0));
    assert_eq!(later.seconds_for(100.0, later.images), None);
}

proptest! {
    #![proptest_config(spoor_testing::usual!())]

    /// However long the axis, nothing is lost and little is kept.
    #[test]
    fn steps_keep_every_sum(places in prop::collection::vec((0..u64::MAX / 4, 0u64..1000), 1..200)) {
        let mut steps: Steps<u64> = Steps::of(25);
        for (place, value) in &places {
            steps.add(*place, *value);
        }
        prop_assert!(steps.sums().len() <= 240);
        let end = places.iter().map(|p| p.0).max().unwrap();
        let series = Series::running(&steps, end);
        prop_assert!(series.points.is_sorted());
        prop_assert_eq!(series.points.last().unwrap().1, places.iter().map(|p| p.1).sum::<u64>());
        for (at, sum) in &series.points {
            let before: u64 = places.iter().filter(|p| p.0 < *at).map(|p| p.1).sum();
            prop_assert!(*sum >= before || *at == end);
        }
    }
}
