//! Rankings of folders that the outputs wrote, with drawn pictures.

use std::io::Cursor;

use proptest::prelude::*;

use super::*;
use crate::address::PageUrl;
use crate::config::Config;
use crate::outputs::picture::inspect;
use crate::outputs::{NewImageFile, Outputs};
use crate::page::{ImageContext, ImageScores, ImageTexts, TextScore};
use spoor_lab::picture::draw;

fn rated(weighted: f64) -> TextScore {
    TextScore {
        perplexity: weighted * 2.0,
        keyword: 0.1,
        weighted,
    }
}

/// The words of a page: the alt text has this weighted perplexity, and parent 1
/// ten times as much.
fn context(page: &str, alt: f64) -> ImageContext {
    ImageContext {
        embedding: Default::default(),
        page: PageUrl::parse(page).unwrap(),
        page_title: None,
        page_language: None,
        page_recognised_language: None,
        document_perplexity: 50.0,
        declared_width: None,
        declared_height: None,
        terms: Default::default(),
        texts: ImageTexts {
            alt: Some(format!("=alt\tof {page}")),
            ..ImageTexts::default()
        },
        scores: ImageScores {
            alt: Some(rated(alt)),
            title: None,
            aria_label: Some(rated(1.0)),
            caption: Some(rated(2.0)),
            figcaption: Some(rated(3.0)),
            heading: Some(rated(5.0)),
            page_title: None,
            file_name: Some(rated(11.0)),
            parents: vec![rated(7.0), rated(alt * 10.0)],
            siblings: Vec::new(),
        },
        rank: alt,
    }
}

struct Folder {
    root: tempfile::TempDir,
    outputs: Outputs,
}

impl Folder {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let outputs = Outputs::open(root.path(), &[]).unwrap();
        Self { root, outputs }
    }

    fn keep_at(
        &mut self,
        day: &str,
        url: &str,
        bytes: &[u8],
        contexts: Vec<ImageContext>,
    ) -> String {
        let url = PageUrl::parse(url).unwrap();
        let new = NewImageFile {
            fetched: &format!("2026-01-{day}T12:00:00Z"),
            contexts,
            ..NewImageFile::new(
                &url,
                bytes,
                inspect(bytes).unwrap(),
                "2026-01-02T12:00:00.000Z",
            )
        };
        self.outputs.image(new).unwrap()
    }

    fn keep(&mut self, url: &str, bytes: &[u8], alt: f64) -> String {
        self.keep_at("01", url, bytes, vec![context("http://a.test/", alt)])
    }

    fn rank(&self, wanted: &Rank) -> Ranking {
        rank_folder(self.root.path(), wanted, 1e6).unwrap()
    }
}

fn picture(name: &str, width: u32) -> Vec<u8> {
    draw(&format!("http://a.test/{name}"), width, width * 3 / 4)
        .unwrap()
        .bytes
}

fn wanted(keys: &str) -> Rank {
    let text = format!("job.name = 'x'\n[rank]\n{keys}\n");
    Config::parse(&text, "x.toml").unwrap().settings.rank
}

fn names(ranking: &Ranking) -> Vec<&str> {
    let name = |image: &'_ Ranked| image.file.rfind('/').map_or(0, |at| at + 1);
    let images = ranking.images.iter();
    images.map(|image| &image.file[name(image)..]).collect()
}

#[test]
fn the_steps_leave_out_what_they_are_for() {
    let mut folder = Folder::new();
    let a = picture("a.png", 300);
    folder.keep("http://a.test/a.png", &a, 30.0);
    // The same address on another day, the same bytes at another, and the same
    // picture in another format and size.
    let later = vec![context("http://b.test/", 20.0)];
    folder.keep_at("02", "http://a.test/a.png", &picture("b.png", 200), later);
    folder.keep("http://a.test/copy.png", &a, 40.0);
    let small = image::load_from_memory(&a).unwrap();
    let small = small.resize(170, 170, image::imageops::FilterType::CatmullRom);
    let mut jpeg = Cursor::new(Vec::new());
    small
        .to_rgb8()
        .write_to(&mut jpeg, image::ImageFormat::Jpeg)
        .unwrap();
    folder.keep("http://a.test/small.jpg", jpeg.get_ref(), 25.0);
    folder.keep("http://a.test/other.png", &picture("other.png", 300), 10.0);
    folder.keep("http://a.test/c.gif", &picture("c.gif", 300), 1.0);
    folder.keep("http://a.test/tiny.png", &picture("tiny.png", 40), 1.0);
    folder.keep("http://a.test/good.png", &picture("good.png", 300), 0.5);
    folder.keep("http://a.test/bad.png", &picture("bad.png", 300), 500.0);
    folder.keep_at(
        "01",
        "http://a.test/none.png",
        &picture("none.png", 300),
        Vec::new(),
    );
    let broken = folder.keep("http://a.test/broken.png", &picture("broken.png", 300), 5.0);
    let broken = folder.root.path().join(format!("{broken}.json"));
    std::fs::write(&broken, "{\"version\":").unwrap();
    let lonely = folder.keep("http://a.test/lonely.png", &picture("lonely.png", 300), 5.0);
    std::fs::remove_file(folder.root.path().join(lonely)).unwrap();

    let wanted = wanted("formats = ['png', 'jpeg']\nmin_width = 100\nfrom = 1\nto = 400");
    let ranking = folder.rank(&wanted);
    assert_eq!(
        ranking.steps,
        Steps {
            initial: 10,
            format: 8,
            cut: 5,
            address: 4,
            bytes: 4,
            unique: 3,
            unread: 2,
        }
    );
    // `copy.png` has the bytes of the older `a.png`, which its newer version replaces;
    // it shows the same picture as `small.jpg`.
    assert_eq!(names(&ranking), ["other.png", "a.png", "small.jpg"]);
    let [other, newer, small] = &ranking.images[..] else {
        panic!("three images");
    };
    assert_eq!(
        (other.duplicates, newer.duplicates, small.duplicates),
        (0, 1, 1)
    );
    assert_eq!((newer.score, newer.page.as_str()), (20.0, "http://b.test/"));
    assert!(newer.file.starts_with("images/2026-01-02/"));
    assert_eq!((small.format.as_str(), small.width), ("jpeg", 170));
    assert!(ranking.images.iter().all(|image| image.phash.is_some()));
    let short = |file: &str| file.rsplit('/').next().unwrap().to_owned();
    let groups: Vec<_> = ranking
        .duplicates
        .iter()
        .map(|d| (short(&d.kept), d.file.clone(), d.why))
        .collect();
    let at = |name: &str| format!("images/2026-01-01/a.test/{name}");
    assert_eq!(
        groups,
        [
            ("a.png".to_owned(), at("a.png"), Why::Address),
            ("small.jpg".to_owned(), at("copy.png"), Why::Picture)
        ]
    );
    let distance = ranking.duplicates[1].distance;
    assert!(distance.is_some_and(|bits| bits <= 4), "{distance:?}");

    // Without the newer version, the equal bytes join them.
    let all = folder.rank(&Rank::default());
    assert_eq!(
        (all.steps.initial, all.steps.format, all.steps.cut),
        (10, 10, 9)
    );
    assert_eq!(all, folder.rank(&Rank::default()), "the same every time");
}

#[test]
fn the_same_bytes_are_one_image_and_the_first_by_score_then_name() {
    let mut folder = Folder::new();
    let bytes = picture("a.png", 200);
    for (name, score) in [("c", 2.0), ("b", 2.0), ("d", 3.0)] {
        folder.keep(&format!("http://a.test/{name}.png"), &bytes, score);
    }
    let ranking = folder.rank(&Rank::default());
    assert_eq!(names(&ranking), ["b.png"]);
    assert_eq!(ranking.images[0].duplicates, 2);
    assert_eq!((ranking.steps.address, ranking.steps.bytes), (3, 1));
    let named: Vec<_> = ranking
        .duplicates
        .iter()
        .map(|d| (d.kept.as_str(), d.url.as_str(), d.why))
        .collect();
    let kept = "images/2026-01-01/a.test/b.png";
    assert_eq!(
        named,
        [
            (kept, "http://a.test/c.png", Why::Bytes),
            (kept, "http://a.test/d.png", Why::Bytes)
        ]
    );
}

#[test]
fn the_hash_of_a_sidecar_is_believed_and_groups_lead_to_what_was_kept() {
    let mut folder = Folder::new();
    let address = |name: &str| PageUrl::parse(&format!("http://a.test/{name}.png")).unwrap();
    let mut keep = |name: &str, day: &str, bytes: &[u8], alt: f64, phash: u64| {
        let mut info = inspect(bytes).unwrap();
        info.look(bytes).unwrap();
        assert!(info.decoded && info.phash.is_some());
        info.phash = Some(phash);
        let url = address(name);
        let new = NewImageFile {
            fetched: &format!("2026-01-{day}T12:00:00Z"),
            contexts: vec![context("http://a.test/", alt)],
            ..NewImageFile::new(&url, bytes, info, "2026-01-02T12:00:00.000Z")
        };
        folder.outputs.image(new).unwrap();
    };
    let (a, b) = (picture("a.png", 200), picture("b.png", 200));
    keep("best", "01", &b, 1.0, 0b0000);
    keep("a", "02", &a, 2.0, 0b0111);
    keep("a", "01", &b, 3.0, 0b1111);
    keep("copy", "01", &a, 4.0, 0b0111);
    let ranking = folder.rank(&wanted("near = 3"));
    // Decoded, these pictures would not be near each other.
    assert_eq!(names(&ranking), ["best.png"]);
    assert_eq!(ranking.images[0].duplicates, 3);
    let groups: Vec<_> = ranking
        .duplicates
        .iter()
        .map(|d| (d.file.as_str(), d.why.name(), d.distance))
        .collect();
    assert_eq!(
        groups,
        [
            ("images/2026-01-02/a.test/a.png", "picture", Some(3)),
            ("images/2026-01-01/a.test/a.png", "address", Some(4)),
            ("images/2026-01-01/a.test/copy.png", "bytes", Some(3)),
        ]
    );
    let kept = "images/2026-01-01/a.test/best.png";
    assert!(ranking.duplicates.iter().all(|d| d.kept == kept));
    ranking.write(folder.root.path(), None).unwrap();
    let text = std::fs::read_to_string(folder.root.path().join(DUPLICATES)).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 4, "{text}");
    let copy = "images/2026-01-01/a.test/copy.png\thttp://a.test/copy.png\tbytes\t3";
    assert_eq!(rows[3], format!("{kept}\t{copy}"));
}

#[test]
fn a_formula_has_all_that_was_recorded() {
    let mut folder = Folder::new();
    let bytes = picture("a.png", 200);
    let mut silent = context("http://a.test/silent", 3.0);
    silent.scores.alt = None;
    let contexts = vec![silent, context("http://a.test/speaks", 4.0)];
    folder.keep_at("01", "http://a.test/a.png", &bytes, contexts);
    for (formula, score, page) in [
        (
            "sqrt(alt.weighted * parent1.weighted)",
            160_f64.sqrt(),
            "speaks",
        ),
        ("parent1.weighted", 30.0, "silent"),
        (
            "alt.perplexity + alt.keyword - 100 * parent0.keyword",
            -1.9,
            "speaks",
        ),
        ("-alt.weighted", -1e6, "silent"),
        ("title.weighted + sibling3.keyword", 1e6, "silent"),
        (
            "aria_label.weighted + 10 * caption.weighted + 100 * figcaption.weighted + 1000 * heading.weighted + 10000 * file_name.weighted",
            115_321.0,
            "silent",
        ),
        ("document_perplexity + width * height", 30_050.0, "silent"),
        ("bytes", bytes.len() as f64, "silent"),
        ("words.weighted", 4.0, "speaks"),
        ("in_main_text", 1.0, "silent"),
    ] {
        let ranking = folder.rank(&wanted(&format!("formula = '{formula}'")));
        let [image] = &ranking.images[..] else {
            panic!("{formula}: {ranking:?}");
        };
        assert!(
            (image.score - score).abs() < 1e-9,
            "{formula}: {}",
            image.score
        );
        assert!(image.page.ends_with(page), "{formula}: {}", image.page);
    }
    let nowhere = folder.rank(&wanted("formula = 'ln(0 - alt.weighted)'"));
    assert_eq!((nowhere.steps.format, nowhere.steps.cut), (1, 0));
}

#[test]
fn the_table_is_written_whole_with_tame_cells() {
    let mut folder = Folder::new();
    for n in 0..3 {
        let name = format!("{n}.png");
        folder.keep(
            &format!("http://a.test/{name}"),
            &picture(&name, 200),
            f64::from(n) + 0.25,
        );
    }
    let ranking = folder.rank(&Rank::default());
    let (path, written) = ranking
        .write(folder.root.path(), NonZeroUsize::new(2))
        .unwrap();
    assert_eq!(written, 2);
    let duplicates = std::fs::read_to_string(folder.root.path().join(DUPLICATES)).unwrap();
    assert_eq!(duplicates, DUPLICATES_HEADER, "there are none");
    let text = std::fs::read_to_string(&path).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row.len() == 12), "{text}");
    assert_eq!(rows[1][..2], ["1", "0.25"]);
    assert_eq!(rows[1][5], "'=alt of http://a.test/");
    assert_eq!(rows[2][2], "images/2026-01-01/a.test/1.png");
    let digits =
        |cell: &str, n: usize| cell.len() == n && cell.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(digits(rows[1][6], 64) && digits(rows[1][7], 16));
    assert_eq!(rows[1][8..], ["200", "150", "png", "0"]);
    let nothing = Folder::new();
    std::fs::remove_dir(nothing.root.path().join("images")).unwrap();
    let error = rank_folder(nothing.root.path(), &Rank::default(), 1.0).unwrap_err();
    assert!(error.to_string().contains("spoor crawl"), "{error}");
}

#[test]
fn the_formats_of_the_config_are_those_of_the_store() {
    let all = wanted("formats = ['jpeg', 'png', 'gif', 'webp', 'bmp', 'tiff', 'ico']").formats;
    for format in all {
        let known = image::ImageFormat::from_extension(format.name()).unwrap();
        let mut bytes = Cursor::new(Vec::new());
        image::RgbImage::new(8, 8)
            .write_to(&mut bytes, known)
            .or_else(|_| image::RgbaImage::new(8, 8).write_to(&mut bytes, known))
            .unwrap();
        assert_eq!(inspect(bytes.get_ref()).unwrap().format, format.name());
    }
}

fn image(score: f64, n: usize, phash: Option<u64>) -> Ranked {
    Ranked {
        score,
        file: format!("images/{n}"),
        url: String::new(),
        page: String::new(),
        alt: None,
        sha256: String::new(),
        phash,
        width: 1,
        height: 1,
        format: "png".to_owned(),
        duplicates: 0,
    }
}

proptest! {
    #![proptest_config(spoor_testing::usual!())]

    #[test]
    fn of_near_pictures_the_best_is_kept(
        hashes in prop::collection::vec((0_usize..4, 0_u64.., 0_u32..8), 0..60),
        bases in prop::array::uniform4(any::<u64>()),
        near in 0_u32..=16,
    ) {
        let images: Vec<Ranked> = hashes
            .iter()
            .enumerate()
            .map(|(n, (base, noise, bits))| {
                // Some bits of one of a few hashes are changed.
                let flips = (0..*bits).fold(0, |f, bit| f | 1 << ((noise >> (bit * 6)) % 64));
                image(n as f64, n, (noise % 7 > 0).then_some(bases[*base] ^ flips))
            })
            .collect();
        let distance = |a: &Ranked, b: &Ranked| Some((a.phash? ^ b.phash?).count_ones());
        let is_near = |a: &Ranked, b: &Ranked| distance(a, b).is_some_and(|d| d <= near);
        // What a comparison of all pairs would keep, the best first.
        let mut expected: Vec<Ranked> = Vec::new();
        for image in &images {
            match expected.iter_mut().find(|kept| is_near(kept, image)) {
                Some(kept) => kept.duplicates += 1,
                None => expected.push(image.clone()),
            }
        }
        let mut groups = unique::DuplicateGroups::default();
        let kept = groups.first_of_near(images.clone(), near);
        prop_assert_eq!(&kept, &expected);
        let duplicates = groups.duplicates(&kept);
        prop_assert_eq!(duplicates.len() + kept.len(), images.len());
        for duplicate in &duplicates {
            let of = |file: &str| images.iter().find(|image| image.file == file).unwrap();
            let (own, kept) = (of(&duplicate.file), of(&duplicate.kept));
            prop_assert!(own.score > kept.score);
            prop_assert_eq!(duplicate.distance, distance(own, kept));
            prop_assert!(duplicate.distance.unwrap() <= near);
        }
        let counted: u64 = kept.iter().map(|image| 1 + image.duplicates).sum();
        prop_assert_eq!(counted, images.len() as u64);
    }

    #[test]
    fn the_order_agrees_with_the_scores(scores in prop::collection::vec(0_u8..6, 1..6)) {
        let mut folder = Folder::new();
        for (n, score) in scores.iter().enumerate() {
            let bytes = picture(&format!("{n}.bmp"), 24);
            folder.keep(&format!("http://a.test/{n}.bmp"), &bytes, f64::from(*score));
        }
        let ranking = folder.rank(&Rank::default());
        let mut expected: Vec<(u8, usize)> = scores.iter().copied().zip(0..).collect();
        expected.sort();
        let expected: Vec<String> = expected.iter().map(|(_, n)| format!("{n}.bmp")).collect();
        prop_assert_eq!(names(&ranking), expected);
    }
}
