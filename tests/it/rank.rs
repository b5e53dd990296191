//! `spoor rank` on the results of a crawl.

use image::imageops::FilterType;
use spoor_lab::{Lab, picture};

use crate::support::texts::{image, link, other, page, some, topical, tree};
use crate::support::{Job, JobText, Ran, Wire, spoor};

/// A page with images on topic and others. One picture has three files, two of them with the same
/// bytes and a smaller one in another format.
fn crawled(rest: &str) -> (Job, JobText<'static>, Wire) {
    let (good, bad) = (some(topical(), 3, 1), some(other(), 5, 1));
    let paragraphs = [
        some(topical(), 0, 4),
        image("/lamp.png", &good),
        image("/copy.png", &bad),
        image("/small.jpg", &some(other(), 9, 1)),
        image("/car.gif", &some(other(), 2, 1)),
        link("/more", &good),
    ];
    let more = [some(topical(), 8, 5), image("/keeper.webp", &good)];
    let mut web = tree(&[
        ("a.test/", page("Lights", "", &paragraphs)),
        ("a.test/more", page("More lights", "", &more)),
    ]);
    let lamp = picture::draw("http://a.test/lamp.png", 320, 240)
        .unwrap()
        .bytes;
    let small = ::image::load_from_memory(&lamp).unwrap();
    let small = small.resize(160, 160, FilterType::CatmullRom).to_rgb8();
    let mut jpeg = std::io::Cursor::new(Vec::new());
    small
        .write_to(&mut jpeg, ::image::ImageFormat::Jpeg)
        .unwrap();
    web.insert("a.test", "/lamp.png", lamp.clone());
    web.insert("a.test", "/copy.png", lamp);
    web.insert("a.test", "/small.jpg", jpeg.into_inner());
    for name in ["car.gif", "keeper.webp"] {
        let bytes = picture::draw(name, 200, 200).unwrap().bytes;
        web.insert("a.test", &format!("/{name}"), bytes);
    }
    let wire = Wire::serve(Lab::from_memory(web));
    let text = JobText {
        seeds: &["http://a.test/"],
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    assert_eq!(job.sidecars().len(), 5);
    job.write(
        &wire,
        &JobText {
            rest,
            ..text.clone()
        },
    );
    (job, text, wire)
}

fn ranked(job: &Job, more: &[&str]) -> Ran {
    let file = job.file();
    let mut arguments = vec!["rank", file.to_str().unwrap()];
    arguments.extend(more);
    Ran::of(&mut spoor(&arguments))
}

fn rows(job: &Job) -> Vec<csv::StringRecord> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(b'\t')
        .from_path(job.folder().join("ranking.tsv"))
        .unwrap();
    assert_eq!(
        reader.headers().unwrap().iter().collect::<Vec<_>>(),
        [
            "rank",
            "score",
            "file",
            "url",
            "page",
            "alt",
            "sha256",
            "phash",
            "width",
            "height",
            "format",
            "duplicates"
        ]
    );
    reader.records().map(Result::unwrap).collect()
}

#[test]
fn a_crawl_is_ranked_with_each_picture_once() {
    let (job, ..) = crawled("");
    let out = ranked(&job, &[]).good();
    let expected = "\
step                  images  left out
initial                    5
format filter              5         0
cut                        5         0
unique by URL              5         0
unique by bytes            4         1
unique by picture          3         1
3 of 3 images written to ";
    assert!(out.starts_with(expected), "{out}");
    let rows = rows(&job);
    let urls: Vec<&str> = rows.iter().map(|row| &row[3]).collect();
    assert_eq!(urls.last(), Some(&"http://a.test/car.gif"), "{urls:?}");
    let lamp = rows.iter().find(|row| &row[3] == "http://a.test/lamp.png");
    let lamp = lamp.expect("its alt is the one on topic of the three");
    assert_eq!(&lamp[11], "2");
    assert_eq!((&lamp[4], &lamp[8]), ("http://a.test/", "320"));
    // The scores are those that the crawl recorded.
    let mut last = f64::NEG_INFINITY;
    for (n, row) in rows.iter().enumerate() {
        assert_eq!(row[0], (n + 1).to_string());
        let score: f64 = row[1].parse().unwrap();
        assert!(last <= score);
        last = score;
        let sidecars = job.sidecars();
        let sidecar = sidecars.iter().find(|s| s["file"] == row[2]).unwrap();
        assert_eq!(sidecar["contexts"][0]["rank"], score);
        assert_eq!(sidecar["sha256"], row[6]);
    }
    let groups = std::fs::read_to_string(job.folder().join("duplicates.tsv")).unwrap();
    let groups: Vec<Vec<&str>> = groups.lines().map(|l| l.split('\t').collect()).collect();
    assert_eq!(groups[0], ["kept", "file", "url", "why", "distance"]);
    let whys: Vec<[&str; 2]> = groups[1..].iter().map(|g| [g[2], g[3]]).collect();
    let copy = ["http://a.test/copy.png", "bytes"];
    let small = ["http://a.test/small.jpg", "picture"];
    assert!(whys == [copy, small] || whys == [small, copy], "{whys:?}");
    assert!(
        groups[1..]
            .iter()
            .all(|g| *g[0] == lamp[2] && g[4].len() == 1)
    );
    let before = std::fs::read(job.folder().join("ranking.tsv")).unwrap();
    let out = ranked(&job, &[]).good();
    assert!(out.starts_with(expected));
    assert_eq!(
        std::fs::read(job.folder().join("ranking.tsv")).unwrap(),
        before
    );
}

#[test]
fn a_formula_bounds_and_formats_are_the_jobs() {
    let rest = "[rank]\nformula = \"(words.weighted * file_name.weighted * parent1.weighted\
                * document_perplexity)^0.25 * (2 - in_main_text)\"\nformats = [\"png\", \"webp\"]\nnear = 0";
    let (job, text, wire) = crawled(rest);
    ranked(&job, &[]).good();
    let scores = |job: &Job| -> Vec<f64> {
        let rows = rows(job);
        rows.iter().map(|row| row[1].parse().unwrap()).collect()
    };
    // The formula of the default, absent texts included.
    let by_formula = scores(&job);
    assert_eq!(by_formula.len(), 2);
    for row in rows(&job) {
        let sidecars = job.sidecars();
        let sidecar = sidecars.iter().find(|s| s["file"] == row[2]).unwrap();
        let rank = sidecar["contexts"][0]["rank"].as_f64().unwrap();
        let score: f64 = row[1].parse().unwrap();
        assert!((score / rank - 1.0).abs() < 1e-9, "{score} {rank}");
    }
    let mut bounded = text.clone();
    let bound = by_formula[0] * 1.000_001;
    let to = format!("[rank]\nto = {bound:?}");
    bounded.rest = &to;
    job.write(&wire, &bounded);
    let out = ranked(&job, &["--top", "1"]).good();
    let sidecars = job.sidecars();
    let ranks = sidecars
        .iter()
        .map(|s| s["contexts"][0]["rank"].as_f64().unwrap());
    let within = ranks.filter(|rank| *rank <= bound).count();
    assert!((1..5).contains(&within));
    assert!(out.contains(&format!("\ncut {within:>24}")), "{out}");
    assert!(out.contains("\n1 of "), "{out}");
    assert_eq!(rows(&job).len(), 1);

    bounded.rest = "[rank]\nformula = \"alt.weihgted\"";
    job.write(&wire, &bounded);
    let error = ranked(&job, &[]).refused();
    assert!(
        error.contains("rank.formula: \"alt.weihgted\" is not a formula"),
        "{error}"
    );
}

#[test]
fn a_sidecar_that_cannot_be_read_is_named_and_passed_over() {
    let (job, text, wire) = crawled("");
    let car = job
        .files("images")
        .into_iter()
        .find(|f| f.ends_with("car.gif.json"));
    std::fs::write(job.folder().join("images").join(car.unwrap()), "[]").unwrap();
    let ran = ranked(&job, &[]);
    let said = ran.err.clone();
    assert!(said.contains("car.gif.json"), "{said}");
    let out = ran.good();
    assert!(out.contains("initial                    4\n"), "{out}");
    assert!(out.contains("sidecars skipped: 1\n"), "{out}");

    let nothing = Job::new(&wire, &text);
    let error = ranked(&nothing, &[]).refused();
    assert!(error.contains("spoor crawl"), "{error}");
}

#[test]
fn an_alt_text_on_every_page_of_a_host_does_not_count() {
    let seeds: Vec<String> = (0..8).map(|n| format!("http://a.test/{n}")).collect();
    let alt = some(topical(), 3, 1);
    let mut web = tree(&[]);
    for n in 0..seeds.len() {
        let source = format!("/{n}.png");
        let own = format!("/own{n}.png");
        let body = [
            some(topical(), n, 4),
            image(&source, &alt),
            image(&own, &some(topical(), n + 20, 1)),
        ];
        web.insert_as(
            "a.test",
            &format!("/{n}"),
            "text/html",
            page("Lights", "", &body),
        );
        for file in [source, own] {
            let drawn = picture::draw(&file, 200, 200).unwrap();
            web.insert("a.test", &file, drawn.bytes);
        }
    }
    let wire = Wire::serve(Lab::from_memory(web));
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let text = JobText {
        seeds: &seeds,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    let sidecars = job.sidecars();
    assert_eq!(sidecars.len(), 16);
    for sidecar in sidecars {
        let context = &sidecar["contexts"][0];
        let own = sidecar["url"].as_str().unwrap().contains("own");
        let kind = if own { "written" } else { "boilerplate" };
        assert_eq!(context["alt_kind"], kind, "{sidecar:#}");
        assert_eq!(context["scores"]["alt"].is_object(), own, "{sidecar:#}");
    }
    let out = ranked(&job, &[]).good();
    assert!(out.contains("unique by picture         16"), "{out}");
    let rows = rows(&job);
    assert!(
        rows[..8].iter().all(|row| row[3].contains("own")),
        "{rows:?}"
    );
}
