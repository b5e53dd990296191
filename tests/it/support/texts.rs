//! Texts on the topic and on other topics, and pages made of them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use spoor_lab::{MemoryTree, demo};

use super::process::{Ran, spoor};

/// Sentences about lighthouses.
pub fn topical() -> &'static [String] {
    static LINES: OnceLock<Vec<String>> = OnceLock::new();
    LINES.get_or_init(|| lines(demo::training().positive))
}

/// Sentences about other things.
pub fn other() -> &'static [String] {
    static LINES: OnceLock<Vec<String>> = OnceLock::new();
    LINES.get_or_init(|| lines(demo::training().neutral))
}

fn lines(texts: Vec<(String, String)>) -> Vec<String> {
    let all = texts.iter().flat_map(|(_, text)| text.lines());
    all.map(str::to_owned).collect()
}

/// `n` sentences of a list, from the `at`-th on, wrapping around at the end.
pub fn some(list: &[String], at: usize, n: usize) -> String {
    let all = list.iter().cycle().skip(at % list.len()).take(n);
    all.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// An HTML page of paragraphs.
pub fn page(title: &str, head: &str, paragraphs: &[String]) -> String {
    let body: String = paragraphs.iter().map(|p| format!("<p>{p}</p>\n")).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">{head}\
         <title>{title}</title></head><body>\n{body}</body></html>\n"
    )
}

/// A link.
pub fn link(href: &str, anchor: &str) -> String {
    format!("<a href=\"{href}\">{anchor}</a>")
}

/// An embedded image.
pub fn image(src: &str, alt: &str) -> String {
    format!("<img src=\"{src}\" alt=\"{alt}\">")
}

/// The folder of the tests' models, and the name of the one about lighthouses. The program trains
/// it once for all tests of this process, and replaces an earlier one.
pub fn model() -> (&'static Path, &'static str) {
    const NAME: &str = "lighthouses";
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = root.join("models");
        let texts = tempfile::tempdir_in(root).unwrap();
        let training = demo::training();
        for (side, files) in [
            ("positive", training.positive),
            ("neutral", training.neutral),
        ] {
            let folder = texts.path().join(side);
            std::fs::create_dir(&folder).unwrap();
            for (name, text) in files {
                std::fs::write(folder.join(name), text).unwrap();
            }
        }
        let job = texts.path().join("train.toml");
        let text = format!(
            "[job]\nname = \"{NAME}\"\n\
             [train]\npositive = [{:?}]\nneutral = [{:?}]\n\
             [model]\nfolder = {folder:?}\n",
            texts.path().join("positive"),
            texts.path().join("neutral"),
        );
        std::fs::write(&job, text).unwrap();
        Ran::of(&mut spoor(&["train", job.to_str().unwrap()])).good();
        folder
    });
    (folder, NAME)
}

/// A page on topic with these links and images.
pub fn plain(links: &[&str], images: &[&str]) -> String {
    with_head("", links, images)
}

/// The same with more in its head.
fn with_head(head: &str, links: &[&str], images: &[&str]) -> String {
    // Pages with much the same text would count as copies.
    let draw = |seed: usize| {
        let bytes = links.iter().chain(images).flat_map(|href| href.bytes());
        bytes.fold(seed, |at, b| (at * 31 + usize::from(b)) % 1_000_003)
    };
    let mut paragraphs: Vec<String> = (1..=4)
        .map(|seed| some(topical(), draw(seed * 7_919), 2))
        .collect();
    let anchor = some(topical(), 3, 1);
    paragraphs.extend(links.iter().map(|href| link(href, &anchor)));
    // The same text for different images on many pages would count as boilerplate.
    let alt = |src: &str| format!("{anchor} {}", src.trim_end_matches(".png"));
    paragraphs.extend(images.iter().map(|src| image(src, &alt(src))));
    page("A page", head, &paragraphs)
}

/// A web of HTML pages, named by `host/path`.
pub fn tree(pages: &[(&str, String)]) -> MemoryTree {
    let mut tree = MemoryTree::default();
    for (address, html) in pages {
        let (host, path) = address.split_at(address.find('/').unwrap());
        let kind = match path {
            "/robots.txt" => "text/plain",
            _ => "text/html; charset=utf-8",
        };
        tree.insert_as(host, path, kind, html.clone());
    }
    tree
}
