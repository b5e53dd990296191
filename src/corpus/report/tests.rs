use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use super::plot::{Plot, PlotLine, Scale};
use super::*;
use crate::config::Config;

/// A job without a model in a separate folder.
struct Job {
    root: TempDir,
    config: JobSettings,
}

impl Job {
    fn new(rest: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let text = format!(
            "[job]\nname = \"fixture\"\nfolder = {:?}\n[model]\nfolder = {:?}\n{rest}",
            root.path(),
            root.path().join("models")
        );
        let config = Config::parse(&text, "fixture.toml").unwrap().settings;
        for folder in ["logs", "sentences", "annotations"] {
            std::fs::create_dir_all(config.job_folder().join(folder)).unwrap();
        }
        Self { root, config }
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.config.job_folder().join(name), bytes).unwrap();
    }

    fn log(&self, lines: &[String]) {
        let lines: String = lines.iter().map(|l| format!("{l}\n")).collect();
        self.put("logs/crawl.jsonl", lines);
    }

    fn figures(&self) -> Figures {
        let jobs = std::slice::from_ref(&self.config);
        report(jobs, None).unwrap().jobs.remove(0)
    }
}

/// A row settled this many milliseconds after midnight, with additional keys.
fn row(at: u64, kind: &str, url: &str, outcome: &str, more: &str) -> String {
    let time = format!("2026-01-31T00:00:{:02}.{:03}Z", at / 1000, at % 1000);
    format!(
        "{{\"time\":\"{time}\",\"kind\":\"{kind}\",\"url\":\"{url}\",\"hops\":0,\"bytes\":1000,\
         \"ms\":100,\"bucket\":\"high\",\"score\":1.0,\"outcome\":\"{outcome}\"{more}}}"
    )
}

const MIDNIGHT: u64 = 1_769_817_600_000;

fn asked(at: u64, delay: u64) -> String {
    format!(",\"asked\":{},\"delay\":{delay}", MIDNIGHT + at)
}

fn members(of: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in of {
        let mut encoder = GzEncoder::new(&mut bytes, Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap();
    }
    bytes
}

#[test]
fn figures_of_a_log_by_hand() {
    let job = Job::new("");
    let page = |perplexity: f64| {
        format!(
            ",\"status\":200,\"mime\":\"Text/HTML\",\"charset\":\"UTF-8\",\"language\":\"en\",\
             \"document\":{{\"perplexity\":{perplexity},\"keyword\":0.1,\"sentences\":3,\"tokens\":20}}"
        )
    };
    job.log(&[
        row(
            1000,
            "robots",
            "http://a.test/robots.txt",
            "done",
            &asked(0, 0),
        ),
        row(
            3100,
            "page",
            "http://a.test/",
            "done",
            &(page(100.0) + &asked(3000, 2000)),
        ),
        row(
            5000,
            "page",
            "http://a.test/x",
            "done",
            &(page(400.0) + &asked(4600, 2000)),
        ),
        row(
            6000,
            "page",
            "http://b.test/",
            "dropped",
            ",\"status\":404,\"reason\":\"client_error\"",
        ),
        row(
            9000,
            "image",
            "http://b.test/i.png",
            "done",
            ",\"status\":200,\"file\":\"images/i.png\",\"via\":\"http://a.test/x\"",
        ),
    ]);
    job.put(
        "sentences/00000.txt.gz",
        members(&["a b c d e\nf g h i j k\n", "l m n o p\n"]),
    );
    let figures = job.figures();
    assert_eq!(figures.troubles, Troubles::default());
    assert_eq!(
        (figures.log.totals.begun, figures.log.totals.ended),
        (Some(MIDNIGHT), Some(MIDNIGHT + 9000))
    );
    assert_eq!(
        (figures.seconds(), figures.log.totals.longest_pause),
        (9.0, 3000)
    );
    assert_eq!((figures.sentences, figures.tokens), (3, 16));
    assert_eq!(
        (
            figures.log.totals.rows,
            figures.log.totals.pages,
            figures.log.hosts,
            figures.log.totals.images
        ),
        (5, 2, 1, 1)
    );
    assert_eq!(figures.log.totals.page_bytes, 2000);
    assert_eq!(figures.log.statuses, [(200, 3), (404, 1)]);
    assert_eq!(figures.log.encodings.top, [("UTF-8".to_owned(), 2)]);
    assert_eq!(figures.log.media.top, [("text/html".to_owned(), 2)]);
    let bucket = &figures.log.buckets[0];
    assert_eq!((bucket.bucket, bucket.pages), ("high", 2));
    let mean = bucket.perplexity.unwrap();
    assert!(
        (mean - 200.0).abs() < 1e-9,
        "the root of 100 * 400, not {mean}"
    );
    let dropped = figures
        .log
        .endings
        .iter()
        .find(|e| e.outcome == "dropped")
        .unwrap();
    assert_eq!(
        (dropped.reason.as_deref(), dropped.count),
        (Some("client_error"), 1)
    );
    // 2,000 ms after the robots.txt the pause is not short; 1,500 of 2,000 ms are.
    let politeness = &figures.log.politeness;
    assert_eq!(
        (
            politeness.measured,
            politeness.violations,
            politeness.unknown
        ),
        (2, 1, 2)
    );
    assert_eq!(politeness.least, Some((0.75, "a.test".to_owned())));
    assert_eq!(
        figures.log.totals.page_time, 5000,
        "the last page is finished then"
    );
    let site = figures
        .log
        .top_hosts
        .iter()
        .find(|host| host.host == "a.test");
    assert_eq!(
        site.unwrap().images,
        1,
        "of its page, though from another host"
    );
    assert_eq!(figures.log.images_over_time.points.last(), Some(&(9000, 1)));
}

#[test]
fn the_verdict_is_told_first_and_only_when_there_is_enough() {
    let job = Job::new("");
    let page = |n: u64, more: &str| {
        let document =
            ",\"document\":{\"perplexity\":100.0,\"keyword\":0.1,\"sentences\":3,\"tokens\":20}";
        let url = format!(
            "http://{}.test/{n}",
            if n.is_multiple_of(2) { "a" } else { "b" }
        );
        row(n * 100, "page", &url, "done", &format!("{document}{more}"))
    };
    let likely = ",\"on_topic\":true,\"on_topic_probability\":0.9";
    let unlikely = ",\"on_topic\":false,\"on_topic_probability\":0.1";
    let mut rows: Vec<String> = (0..320)
        .map(|n| page(n, if n < 240 { likely } else { unlikely }))
        .collect();
    rows.push(page(320, &format!(",\"control\":true{unlikely}")));
    // A seed and a later visit are not counted for any site.
    rows.push(page(321, likely).replace("\"high\"", "\"seed\""));
    rows.push(page(322, &format!("{likely},\"changed\":false")));
    job.log(&rows[..9]);
    let early = job.figures().verdict;
    assert!(
        early.sentence.starts_with("Too early to tell"),
        "{}",
        early.sentence
    );
    job.log(&rows);
    std::fs::create_dir_all(job.config.job_folder().join("documents")).unwrap();
    let document = |url: &str, on_topic: f64, text: &str| {
        let document = crate::outputs::Document {
            url: url.to_owned(),
            title: Some("<b>Title</b>".to_owned()),
            words: 7,
            text: text.to_owned(),
            on_topic: Some(on_topic),
            ..crate::outputs::Document::default()
        };
        document.to_frame().unwrap()
    };
    let long = "A lighthouse stands on the rock, and its keeper writes. ".repeat(20);
    let frames = [
        document("http://a.test/1", 0.4, &format!("Menu\n\n{long}")),
        document("http://a.test/2", 0.9, &format!("Better: {long}")),
        document("http://b.test/1", 0.6, &long),
        document("http://c.test/1", 0.6, "short"),
    ];
    job.put("documents/00000.jsonl.zst", frames.concat());
    let figures = job.figures();
    assert_eq!(figures.troubles, Troubles::default());
    let verdict = &figures.verdict;
    let headline = verdict.headline.as_ref().unwrap();
    assert_eq!((headline.pages, headline.drawn), (320, 1));
    // The mean of the probabilities: 240 at 0.9 and 80 at 0.1.
    assert_eq!(headline.share, Some(0.7));
    assert!(
        verdict
            .sentence
            .starts_with("Of 100 pages it chose, about 70 (49 to 82) are about fixture")
    );
    assert_eq!(figures.gain(), None, "one page was drawn");
    assert_eq!((verdict.documents.count, verdict.documents.words), (4, 28));
    let shown: Vec<&str> = verdict.passages.iter().map(|p| p.url.as_str()).collect();
    assert_eq!(
        shown,
        ["http://a.test/2", "http://b.test/1"],
        "one of each site, the best first"
    );
    let text = &verdict.passages[0].text;
    assert!(
        text.starts_with("Better: A") && text.ends_with('\u{2026}') && text.chars().count() <= 425
    );
    let out = job.root.path().join("out");
    let report = report(std::slice::from_ref(&job.config), None).unwrap();
    let html = report.write(&out).unwrap();
    let html = std::fs::read_to_string(html).unwrap();
    let place = |part: &str| {
        html.find(part)
            .unwrap_or_else(|| panic!("no {part} in {html}"))
    };
    let order = [
        "Of 100 pages it chose, about 70",
        "4</dd>",
        "Better: A",
        "The sites that gave most",
        "Details",
        "Pages/s",
    ];
    assert!(order.map(place).is_sorted(), "{html}");
    assert!(html.contains("&lt;b&gt;Title&lt;/b&gt;") && !html.contains("<b>"));
    assert!(
        report
            .summary()
            .starts_with("Of 100 pages it chose, about 70")
    );
}

#[test]
fn requests_that_may_overlap_are_measured_from_beginning_to_beginning() {
    let rows = [
        row(5000, "page", "http://a.test/", "done", &asked(1000, 1000)),
        row(5100, "page", "http://a.test/x", "done", &asked(2200, 1000)),
    ];
    for (connections, violations, least) in [(1, 1, 0.0), (2, 0, 1.2)] {
        let job = Job::new(&format!(
            "[politeness]\nconnections_per_host = {connections}\n"
        ));
        job.log(&rows);
        let politeness = job.figures().log.politeness;
        assert_eq!(politeness.violations, violations);
        assert_eq!(politeness.least.unwrap().0, least);
    }
}

#[test]
fn damage_is_named_by_line_and_a_cut_end_is_none() {
    let job = Job::new("");
    let good = row(1000, "page", "http://a.test/", "done", "");
    job.put(
        "logs/crawl.jsonl",
        format!(
            "{good}\n{{\"time\":1}}\nnoise\u{0}\n{good}\n{}",
            &good[..40]
        ),
    );
    let whole = members(&["a b c d e\n", "f g h i j\n"]);
    let mut damaged = whole.clone();
    let middle = members(&["a b c d e\n"]).len();
    damaged[middle] ^= 0xff;
    job.put("sentences/00000.txt.gz", damaged);
    job.put("sentences/00001.txt.gz", &whole[..whole.len() - 6]);
    let figures = job.figures();
    assert_eq!((figures.log.totals.rows, figures.log.totals.pages), (2, 2));
    assert_eq!(figures.log.politeness.unknown, 2);
    assert_eq!(
        figures.sentences, 3,
        "one before the damage, two before the cut"
    );
    let named = figures.troubles.named.join("\n");
    for place in [
        "crawl.jsonl:2:",
        "crawl.jsonl:3:",
        "00000.txt.gz: damaged behind line 1",
    ] {
        assert!(named.contains(place), "no {place} in {named}");
    }
    assert_eq!(figures.troubles.named.len(), 3, "{named}");
    let out = job.root.path().join("out");
    let report = report(std::slice::from_ref(&job.config), None).unwrap();
    let html = report.write(&out).unwrap();
    let html = std::fs::read_to_string(html).unwrap();
    assert!(html.contains("What could not be read") && html.contains("crawl.jsonl:3:"));
}

#[test]
fn a_torn_last_line_of_the_votes_is_none_and_a_damaged_one_is_named() {
    let job = Job::new("");
    let image = |n: u64| {
        let more = format!(",\"file\":\"images/{n}.png\"");
        row(
            n * 1000,
            "image",
            &format!("http://a.test/{n}.png"),
            "done",
            &more,
        )
    };
    job.log(&(1..=4).map(image).collect::<Vec<_>>());
    let vote = |n: u64, who: &str, image: u64, answer: &str| {
        format!(
            "{{\"vote\":{n},\"time\":\"2026-01-31T12:00:00Z\",\"annotator\":\"{who}\",\"image\":\"{}\",\
             \"url\":\"http://a.test/{image}.png\",\"question\":\"image\",\"answer\":\"{answer}\",\"gold\":null}}\n",
            image.to_string().repeat(64)
        )
    };
    let votes = [
        vote(1, "ann", 1, "on topic"),
        vote(2, "bob", 1, "on topic"),
        vote(3, "eve", 1, "off topic"),
        vote(4, "ann", 2, "on topic"),
        vote(5, "bob", 2, "off topic"),
        vote(6, "ann", 3, "off topic"),
        // She changed her mind.
        vote(7, "ann", 3, "on topic"),
    ];
    job.put("annotations/votes.jsonl", votes.concat() + "{\"vote\":8");
    let figures = job.figures();
    assert_eq!(figures.troubles, Troubles::default());
    let last = |class: &str| {
        let series = figures
            .log
            .classes_over_time
            .iter()
            .find(|(c, _)| c == class);
        series.map(|(_, s)| s.points.last().unwrap().1)
    };
    assert_eq!(figures.log.totals.images, 4);
    assert_eq!(last("on topic"), Some(2));
    assert_eq!(last(judged::NO_MAJORITY), Some(1));
    assert_eq!(last("off topic"), None);
    job.put(
        "annotations/votes.jsonl",
        "no vote\n".to_owned() + &votes.concat(),
    );
    let figures = job.figures();
    assert!(figures.troubles.named[0].contains("votes.jsonl:1:"));
    assert_eq!(
        (
            figures.log.totals.images,
            figures.log.classes_over_time.len()
        ),
        (4, 0)
    );
}

#[test]
fn a_job_that_has_nothing_says_so() {
    let job = Job::new("");
    let jobs = std::slice::from_ref(&job.config);
    let report = report(jobs, None).unwrap();
    let out = job.root.path().join("out");
    let text = std::fs::read_to_string(report.write(&out).unwrap()).unwrap();
    assert!(text.contains("nothing was crawled yet"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    let files = std::fs::read_dir(&out).unwrap().count();
    assert_eq!(files, 1, "no plots of nothing");
    std::fs::remove_dir_all(job.config.job_folder()).unwrap();
    let error = super::report(jobs, None).unwrap_err();
    assert!(error.to_string().contains("run `spoor crawl`"), "{error}");
}

#[test]
fn words_of_strangers_stay_words() {
    let job = Job::new("");
    let hostile = ",\"mime\":\"<script>alert(1)</script>|](javascript:x)\",\"language\":\"\\u001b[31m\\u202ewww.evil.test\"";
    job.log(&[row(1000, "page", "http://a.test/", "done", hostile)]);
    let report = report(std::slice::from_ref(&job.config), None).unwrap();
    let html = report.write(&job.root.path().join("out")).unwrap();
    let html = std::fs::read_to_string(html).unwrap();
    assert!(
        html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{html}"
    );
    for inert in [
        "<script",
        "\u{1b}",
        "\u{202e}",
        "src=\"http",
        "href=",
        " style=",
    ] {
        assert!(!html.contains(inert), "{inert:?} in {html}");
    }
    let policy =
        "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-";
    assert!(html.contains(policy), "{html}");
}

#[test]
fn plots_are_xml_and_nothing_is_drawn_of_nothing() {
    let line = |name: &str, points: &[(f64, f64)]| PlotLine {
        name: name.to_owned(),
        points: points.to_vec(),
    };
    let plot = |scale, lines| Plot {
        x: "x".to_owned(),
        y: "y".to_owned(),
        scale,
        lines,
    };
    assert_eq!(plot(Scale::Logarithmic, vec![line("a", &[])]).svg(), None);
    for scale in [Scale::Logarithmic, Scale::LogarithmicX, Scale::Linear] {
        let lines = vec![
            line("<a> & \"b\"", &[(25.0, 100.0), (50.0, 1e9)]),
            line("one point", &[(25.0, 1.0)]),
        ];
        let svg = plot(scale, lines).svg().unwrap();
        let mut reader = quick_xml::Reader::from_str(&svg);
        let mut texts = 0;
        loop {
            match reader.read_event().unwrap() {
                quick_xml::events::Event::Eof => break,
                quick_xml::events::Event::Start(tag) if tag.name().as_ref() == "text" => texts += 1,
                _ => {}
            }
        }
        assert!(texts > 8, "{svg}");
        assert!(svg.contains("&lt;a&gt; &amp; &quot;b&quot;"), "{svg}");
        assert!(svg.contains("#0072B2") && svg.contains("#D55E00"), "{svg}");
    }
}

#[test]
fn no_model_is_named_that_is_not_there() {
    let job = Job::new("");
    let jobs = std::slice::from_ref(&job.config);
    let error = report(jobs, Some(Path::new("no/such/model"))).unwrap_err();
    assert!(error.to_string().contains("model.toml"), "{error}");
}
