//! A topic in German: a few sentences and the built-in words are enough to follow it.
//!
//! The web is small; the README in `tests/fixtures/german/` says how it is written.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use regex::Regex;
use spoor::language::Language;
use spoor::topic::model::ModelFacts;
use spoor_lab::Labels;
use spoor_lab::experiment::{self, Outcome, Plan};
use spoor_lab::judge::Relevance;

const WEB: &str = include_str!("../fixtures/german/web.txt");
const LABELS: &str = include_str!("../fixtures/german/labels.tsv");
const SEEDS: &str = include_str!("../fixtures/german/seeds.txt");
const TRAINING: &str = include_str!("../fixtures/german/train.txt");
const TOPIC: &str = "imkerei";
/// The number of random draws for each variant.
const DRAWS: usize = 3;

/// A site, without its pages.
#[derive(Clone)]
struct Site {
    host: String,
    title: String,
    /// Paths and anchors.
    menu: Vec<(String, String)>,
}

struct Page {
    site: Site,
    path: String,
    title: String,
    paragraphs: Vec<String>,
}

impl Page {
    fn url(&self) -> String {
        format!("http://{}{}", self.site.host, self.path)
    }

    fn html(&self) -> String {
        let item = |(path, anchor): &(String, String)| {
            format!("<li><a href=\"{path}\">{anchor}</a></li>\n")
        };
        let menu: String = self.site.menu.iter().map(item).collect();
        let paragraph = |text: &String| {
            let text = links().replace_all(text, "<a href=\"$2\">$1</a>");
            format!("<p>{text}</p>\n")
        };
        let text: String = self.paragraphs.iter().map(paragraph).collect();
        let (title, site) = (&self.title, &self.site.title);
        format!(
            "<!DOCTYPE html>\n<html lang=\"de\"><head><meta charset=\"utf-8\">\
             <title>{title} | {site}</title></head>\n<body>\n<nav><ul>\n{menu}</ul></nav>\n\
             <main>\n<h1>{title}</h1>\n{text}</main>\n<footer>{site}, Impressum</footer>\n\
             </body></html>\n"
        )
    }

    /// The links of a page, including its menu.
    fn targets(&self) -> Vec<String> {
        let menu = self.site.menu.iter().map(|(path, _)| path.clone());
        let within = self.paragraphs.iter().flat_map(|text| {
            let links = links();
            let found = links.captures_iter(text).map(|link| link[2].to_owned());
            found.collect::<Vec<_>>()
        });
        let absolute = |target: String| {
            if target.starts_with('/') {
                format!("http://{}{target}", self.site.host)
            } else {
                target
            }
        };
        menu.chain(within).map(absolute).collect()
    }
}

/// A link in a paragraph: anchor and address.
fn links() -> Regex {
    Regex::new(r"\[([^\]]*)\]\(([^)]*)\)").unwrap()
}

fn pages() -> Vec<Page> {
    let two = |text: &str| {
        let (first, rest) = text.split_once(' ').unwrap();
        (first.to_owned(), rest.to_owned())
    };
    let mut pages: Vec<Page> = Vec::new();
    let mut site = None;
    for line in WEB.lines().filter(|line| !line.is_empty()) {
        if let Some(head) = line.strip_prefix("@ ") {
            let (host, title) = two(head);
            let menu = Vec::new();
            site = Some(Site { host, title, menu });
        } else if let Some(head) = line.strip_prefix("= ") {
            let (path, title) = two(head);
            pages.push(Page {
                site: site.clone().unwrap(),
                path,
                title,
                paragraphs: Vec::new(),
            });
        } else {
            let site = site.as_mut().unwrap();
            match pages.last_mut() {
                Some(page) if page.site.host == site.host => page.paragraphs.push(line.to_owned()),
                _ => site.menu.push(two(line)),
            }
        }
    }
    pages
}

/// The number of links between each page and the seeds.
fn hops(pages: &[Page]) -> HashMap<String, usize> {
    let leads: HashMap<String, Vec<String>> =
        pages.iter().map(|p| (p.url(), p.targets())).collect();
    let mut hops = HashMap::new();
    let mut front: Vec<String> = SEEDS.lines().map(str::to_owned).collect();
    for hop in 0.. {
        front.retain(|url| !hops.contains_key(url));
        if front.is_empty() {
            break;
        }
        hops.extend(front.iter().map(|url| (url.clone(), hop)));
        front = front.iter().flat_map(|url| leads[url].clone()).collect();
    }
    hops
}

#[test]
fn the_web_is_as_its_readme_says() {
    let pages = pages();
    let labels = Labels::parse(LABELS).unwrap();
    assert_eq!(
        (pages.len(), labels.len(), labels.known(TOPIC)),
        (50, 50, 10)
    );
    let hops = hops(&pages);
    assert_eq!(
        hops.len(),
        50,
        "pages that are linked, no dead link among them"
    );
    for page in &pages {
        let url = page.url();
        let words: usize = page
            .paragraphs
            .iter()
            .map(|text| links().replace_all(text, "$1").split_whitespace().count())
            .sum();
        assert!((90..=200).contains(&words), "{url} has {words} words");
        match labels.relevance(&url, TOPIC) {
            Relevance::OnTopic => assert_eq!(hops[&url], 2, "{url}"),
            Relevance::Related => assert!((1..=2).contains(&hops[&url]), "{url}"),
            Relevance::None => {}
        }
    }
    let sentences: Vec<&str> = TRAINING.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(sentences.len(), 40);
    assert!(sentences.iter().all(|sentence| !WEB.contains(sentence)));
}

/// Writes web, texts and labels into `folder` and crawls with each variant.
fn crawl(folder: &Path) -> Outcome {
    for page in pages() {
        let mut path = page.path.trim_start_matches('/').to_owned();
        if path.is_empty() {
            path.push_str("index.html");
        }
        let file = folder.join("web").join(&page.site.host).join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, page.html()).unwrap();
    }
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let seeds: Vec<usize> = (1..=DRAWS).collect();
    let plan = format!(
        "web = {:?}\nlabels = {:?}\nout = {:?}\nfetches = 20\nmarks = [10, 15, 20]\n\
         seeds = {seeds:?}\n\
         [[topic]]\nname = \"{TOPIC}\"\npositive = [{:?}]\nbegin.cold = {:?}\n\
         [[variant]]\nname = \"learn\"\n\
         [[variant]]\nname = \"link\"\njob.strategy.kind = \"link\"\n\
         [[variant]]\nname = \"unfocused\"\njob.strategy.kind = \"unfocused\"\n",
        folder.join("web"),
        put("labels.tsv", LABELS),
        folder.join("out"),
        put("train.txt", TRAINING),
        put("seeds.txt", SEEDS),
    );
    let plan = Plan::parse(&plan, &folder.join("plan.toml")).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    experiment::run(&plan, runtime.handle(), &|_| {}).unwrap()
}

#[test]
fn forty_sentences_in_german_are_enough_to_find_their_topic() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = crawl(folder.path());
    let mut found: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for run in &outcome.runs {
        found.entry(&run.variant).or_default().push(run.at(20));
    }
    let table = format!("{found:?}\n{}", outcome.markdown());
    println!("{table}");
    let all = |variant: &str| found[variant].iter().sum::<usize>();
    // There is enough time for all ten; the oracle knows the labels, but not the paths to the
    // pages.
    assert!(found["oracle"][0] >= 9, "{table}");
    let (learn, link, unfocused) = (all("learn"), all("link"), all("unfocused"));
    assert_eq!(found["learn"].len(), DRAWS);
    assert!(learn * 100 >= link * 95, "{table}");
    // On average it finds three more of the ten pages in each crawl.
    assert!(learn >= unfocused + 3 * DRAWS, "{table}");

    let models = folder.path().join("out/models");
    let models: Vec<_> = std::fs::read_dir(models).unwrap().collect();
    assert_eq!(models.len(), 1, "all variants share one model");
    let facts = ModelFacts::read(&models[0].as_ref().unwrap().path()).unwrap();
    let german = Language::of_code("de").unwrap();
    assert_eq!(facts.language, Some(german));
    assert_eq!(facts.neutral_words, Some(german));
}
