//! The cost of analysing a page, stage by stage, in milliseconds of one thread and relative to
//! the HTML parse alone (by `scraper`, of the whole text at once).
//!
//! ```sh
//! cargo bench --bench analysis
//! cargo bench --bench analysis -- FOLDER_OF_PAGES
//! cargo bench --bench analysis -- FOLDER_OF_PAGES FOLDER_OF_A_MODEL
//! ```
//!
//! With a folder, the pages are up to 200 of its `*.html` files, evenly spread; otherwise they
//! are made up, and shaped like those of an encyclopedia. Stages that cannot run by themselves
//! are measured as additional cost:
//!
//! - `links` and `images` on top of the text;
//! - `learning` (the judgement of the page and the clues of its links) on top of `score`, which
//!   is all other scoring;
//! - `article` and `density` on top of text, links and images.
//!
//! `tree` is the cost of text, links and images together if the pages were read from a tree.
//! `language`, `sentences`, `model` and `keywords` are parts of the text and of the score, each
//! measured alone.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs
)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spoor::address::PageUrl;
use spoor::language;
use spoor::page::{Extracted, Extractor, Fetched, Nearness, TermsHeaders, Validators};
use spoor::topic::keywords::KeywordTable;
use spoor::topic::lm::{self, KenLm, LanguageModel, Sentence, arpa, perplexity};
use spoor::topic::model::Model;
use spoor::topic::score::topicality::Lump;
use spoor::topic::score::{Contrast, CountTable, Judge, PageObserver, Scorer, Topicality, Weights};
use spoor::web::extract::{self, Options};

/// The program's allocator, because a third of a parse is the allocator's work.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const ROUNDS: usize = 15;
const MAX_PAGES: usize = 200;

struct Page {
    url: PageUrl,
    html: String,
    /// The same with a character that makes spoor read the page from a tree.
    for_tree: String,
    fetched: Fetched,
    extracted: Extracted,
    sentences: Vec<Sentence>,
}

fn main() {
    let mut folders = std::env::args().skip(1).filter(|a| !a.starts_with('-'));
    let folder = folders.next();
    let mut htmls = Vec::new();
    match &folder {
        Some(folder) => {
            let mut found = Vec::new();
            files(Path::new(folder), &mut found);
            let every = found.len().div_ceil(MAX_PAGES).max(1);
            let some = found.iter().step_by(every);
            htmls.extend(some.filter_map(|path| std::fs::read_to_string(path).ok()));
        }
        None => htmls.extend((0..20).map(made)),
    }
    let pages: Vec<Page> = htmls.into_iter().map(page).collect();
    assert!(!pages.is_empty(), "no *.html in the folder");
    let bytes: usize = pages.iter().map(|p| p.html.len()).sum();
    let model = match folders.next() {
        Some(folder) => of_folder(Path::new(&folder)),
        None => made_up(),
    };
    let (lm, table) = (&model.lm, &model.keywords);
    let observer = observer(&model, &pages);
    println!(
        "{} pages of {} KB, {} links and {} images each",
        pages.len(),
        bytes / pages.len() / 1_000,
        pages.iter().map(|p| p.extracted.links.len()).sum::<usize>() / pages.len(),
        pages
            .iter()
            .map(|p| p.extracted.images.len())
            .sum::<usize>()
            / pages.len(),
    );
    let text = Options {
        max_links: 0,
        max_images: 0,
        ..Options::default()
    };
    let links = Options {
        max_images: 0,
        ..Options::default()
    };
    let all = Options::default();
    let by = |extractor| Options {
        extractor,
        ..Options::default()
    };
    let (article, density) = (by(Extractor::Main), by(Extractor::Density));
    let rounds: Vec<[Duration; 14]> = (0..ROUNDS)
        .map(|_| {
            let of = |work: &dyn Fn(&Page)| {
                let start = Instant::now();
                pages.iter().for_each(work);
                start.elapsed() / u32::try_from(pages.len()).unwrap()
            };
            let walk = |options: &Options| {
                of(&|p: &Page| {
                    black_box(extract::extract_text(&p.url, &p.html, options));
                })
            };
            let parse = of(&|p: &Page| {
                black_box(scraper::Html::parse_document(&p.html));
            });
            let (text, links, whole) = (walk(&text), walk(&links), walk(&all));
            let (article, density) = (walk(&article), walk(&density));
            let tree = of(&|p: &Page| {
                black_box(extract::extract_text(&p.url, &p.for_tree, &all));
            });
            let decoded = of(&|p: &Page| {
                black_box(extract::extract(&p.url, &p.fetched, &all).ok());
            });
            let sentences = of(&|p: &Page| {
                black_box(lm::sentences(p.extracted.blocks.iter().map(|b| &**b)));
            });
            let modelled = of(&|p: &Page| {
                black_box(perplexity::document(&**lm, &p.sentences));
            });
            let keywords = of(&|p: &Page| {
                black_box(p.sentences.iter().map(|s| table.score(s)).sum::<f64>());
            });
            let guessed = of(&|p: &Page| {
                black_box(language::guess(p.extracted.blocks.iter().map(|b| &**b)));
            });
            // A new scorer has an empty cache, as at the start of a crawl.
            let gamma = Weights::default().gamma_keyword;
            let scorer = || Scorer::new(lm.clone(), table.clone(), gamma);
            let score = |scorer: Scorer| {
                of(&|p: &Page| {
                    black_box(scorer.score(&p.url, &p.extracted));
                })
            };
            let rated = score(scorer());
            let learning = score(scorer().observing(observer.clone()));
            [
                parse,
                tree,
                article.saturating_sub(whole),
                density.saturating_sub(whole),
                guessed,
                sentences,
                modelled,
                keywords,
                decoded.saturating_sub(whole),
                text,
                links.saturating_sub(text),
                whole.saturating_sub(links),
                rated,
                learning.saturating_sub(rated),
            ]
        })
        .collect();
    let names = [
        "parse",
        "tree",
        "main text",
        "density",
        "language",
        "sentences",
        "model",
        "keywords",
        "decode",
        "text",
        "links",
        "images",
        "score",
        "learning",
    ];
    let medians: Vec<Duration> = (0..names.len())
        .map(|stage| {
            let mut of_stage: Vec<Duration> = rounds.iter().map(|round| round[stage]).collect();
            of_stage.sort_unstable();
            of_stage[ROUNDS / 2]
        })
        .collect();
    let (parse, sum) = (medians[0], medians[8..].iter().sum::<Duration>());
    let row = |name: &str, time: Duration| {
        let millis = time.as_secs_f64() * 1e3;
        let share = time.as_secs_f64() / parse.as_secs_f64();
        println!("{name:<10} {millis:>8.3} ms {share:>6.2} of the parse");
    };
    println!();
    for (name, time) in names.iter().zip(&medians) {
        row(name, *time);
    }
    row("sum", sum);
}

fn page(html: String) -> Page {
    let url = PageUrl::parse("http://encyclopedia.test/wiki/Lighthouse.html").unwrap();
    let extracted = extract::extract_text(&url, &html, &Options::default());
    Page {
        for_tree: format!("{html}\0"),
        fetched: Fetched {
            status: 200,
            content_type: Some("text/html; charset=utf-8".to_owned()),
            body: Bytes::from(html.clone()),
            truncated: false,
            elapsed: Duration::ZERO,
            validators: Validators::default(),
            terms: TermsHeaders::default(),
            date: None,
        },
        sentences: lm::sentences(extracted.blocks.iter().map(|b| &**b)),
        extracted,
        url,
        html,
    }
}

/// The files below a folder, in order.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "html") {
            found.push(path);
        }
    }
}

/// Everything needed to score a page.
struct Topic {
    lm: Arc<dyn LanguageModel>,
    keywords: KeywordTable,
    contrast: (Arc<Contrast>, Topicality),
}

fn of_folder(folder: &Path) -> Topic {
    let model = Model::load(folder).expect("a model");
    Topic {
        lm: model.lm,
        keywords: model.keywords,
        contrast: model.contrast.expect("a model with neutral text"),
    }
}

/// A model of other text of the same kind, like the model of a topic.
fn made_up() -> Topic {
    let text = |numbers: std::ops::Range<u64>| {
        let blocks: Vec<String> = numbers
            .flat_map(|n| page(made(n)).extracted.blocks)
            .collect();
        lm::sentences(blocks.iter().map(|b| &**b))
    };
    let corpus = text(1_000..1_060);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lm.arpa");
    arpa::write(&lm::estimate(&corpus, 5).unwrap(), &path).unwrap();
    let table = (0..50).map(|n| (WORDS[n % WORDS.len()].to_owned() + "er", 1.0 + n as f64));
    let mut counts = CountTable::default();
    counts.add_positive(&corpus);
    counts.add_neutral(&text(2_000..2_060));
    let topicality = Topicality {
        neutral: Lump::of(&[-0.1, 0.0, 0.1, 0.2]),
        ..Topicality::of_perplexities(1.0, 2.0)
    };
    Topic {
        lm: Arc::new(KenLm::load(&path).unwrap()),
        keywords: table.collect(),
        contrast: (Arc::new(Contrast::new(&counts).unwrap()), topicality),
    }
}

/// An observer like that of a learning crawl whose seeds are the five best of the pages.
fn observer(topic: &Topic, pages: &[Page]) -> PageObserver {
    let (contrast, topicality) = &topic.contrast;
    let judge = Judge::new(Arc::clone(contrast), topicality).expect("a model with neutral text");
    let judge = Arc::new(RwLock::new(judge));
    let observer = PageObserver::new(Some(topic.contrast.clone()), 1.0, 2.0);
    let observer = observer.asking(Some(Arc::clone(&judge)));
    let stands = |page: &Page| match observer.judge(&page.sentences, 100.0).nearness {
        Nearness::Above { deviations, .. } => deviations,
        Nearness::Likely(_) => f64::MIN,
    };
    let mut best: Vec<&Page> = pages.iter().collect();
    best.sort_by(|a, b| stands(b).total_cmp(&stands(a)));
    for page in best.into_iter().take(5) {
        let near = observer.judge(&page.sentences, 100.0).nearness;
        let text: Vec<&str> = page.sentences.iter().map(Sentence::as_str).collect();
        judge.write().unwrap().hear(&near.of_seed(&text.join("\n")));
    }
    observer
}

const WORDS: [&str; 40] = [
    "light", "tower", "stone", "coast", "keeper", "signal", "harbour", "lamp", "lens", "storm",
    "ship", "rock", "island", "engineer", "flame", "oil", "glass", "fog", "horn", "night", "the",
    "of", "and", "in", "was", "by", "to", "is", "with", "from", "century", "built", "first",
    "height", "metre", "visible", "north", "sea", "water", "house",
];

/// A page that shares only its menu with others.
fn made(number: u64) -> String {
    let random = &mut ChaCha8Rng::seed_from_u64(number);
    let mut html = String::from(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Lighthouse</title>\
         <link rel=\"stylesheet\" href=\"/style.css\"><script>window.page = {a: 1};</script></head>\
         <body class=\"mediawiki ltr\"><div id=\"nav\" role=\"navigation\"><ul>",
    );
    for item in 0..60 {
        write!(
            html,
            "<li id=\"n-{item}\" class=\"interlanguage-link\"><a href=\"/wiki/Menu_{item}\" title=\"Menu item {item}\">Menu item {item}</a></li>"
        )
        .unwrap();
    }
    html.push_str("</ul></div><div id=\"content\" class=\"mw-body\"><h1>Lighthouse</h1>");
    for section in 0..12 {
        write!(
            html,
            "<h2><span class=\"mw-headline\" id=\"s{section}\">{}</span></h2>",
            words(random, 3)
        )
        .unwrap();
        write!(
            html,
            "<div class=\"thumb tright\"><div class=\"thumbinner\" style=\"width:222px;\"><a href=\"/wiki/File:{section}.jpg\" class=\"image\"><img alt=\"{}\" src=\"/images/thumb/{number}/{section}/220px-Light_tower.jpg\" width=\"220\" height=\"147\" class=\"thumbimage\" srcset=\"/images/330px.jpg 1.5x, /images/440px.jpg 2x\"/></a><div class=\"thumbcaption\">{}</div></div></div>",
            words(random, 6),
            words(random, 14)
        )
        .unwrap();
        for _ in 0..4 {
            html.push_str("<p>");
            for _ in 0..5 {
                sentence(random, &mut html);
            }
            html.push_str("</p>\n");
        }
    }
    html.push_str("<table class=\"wikitable\"><tbody>");
    for row in 0..40 {
        write!(html, "<tr><th scope=\"row\">{}</th>", words(random, 2)).unwrap();
        for _ in 0..4 {
            write!(
                html,
                "<td style=\"text-align:right\">{},{}</td>",
                random.random_range(1..90),
                row * 7
            )
            .unwrap();
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table><ol class=\"references\">");
    for note in 0..50 {
        write!(
            html,
            "<li id=\"cite_note-{note}\"><span class=\"mw-cite-backlink\"><b><a href=\"#cite_ref-{note}\">^</a></b></span> <span class=\"reference-text\"><cite class=\"citation web\"><a rel=\"nofollow\" class=\"external text\" href=\"http://archive.test/{number}/{note}\">&quot;{}&quot;</a>. <i>{}</i>. 19{:02}.</cite></span></li>",
            words(random, 7),
            words(random, 2),
            note
        )
        .unwrap();
    }
    html.push_str("</ol></div></body></html>");
    html
}

fn sentence(random: &mut ChaCha8Rng, html: &mut String) {
    let mut text = words(random, 12);
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let to = random.random_range(0..5_000);
    let anchor = words(random, 2);
    let more = words(random, 8);
    let dash = if to % 5 == 0 { " \u{2013} " } else { ", " };
    write!(
        html,
        "{text}{dash}<a href=\"/wiki/Article_{to}.html\" title=\"{anchor}\">{anchor}</a> {more}.<sup class=\"reference\"><a href=\"#cite_note-{}\">[{}]</a></sup> ",
        to % 50,
        to % 50
    )
    .unwrap();
}

/// Words, one in three of them rare.
fn words(random: &mut ChaCha8Rng, count: usize) -> String {
    let mut text = String::new();
    for n in 0..count {
        if n > 0 {
            text.push(' ');
        }
        text.push_str(WORDS[random.random_range(0..WORDS.len())]);
        if random.random_range(0..3) == 0 {
            let ends = ["er", "ing", "ed", "s", "ly", "ness", "al", "ward"];
            text.push_str(ends[random.random_range(0..ends.len())]);
            text.push_str(["", "ist", "able", "a", "um"][random.random_range(0..5)]);
        }
    }
    text
}
