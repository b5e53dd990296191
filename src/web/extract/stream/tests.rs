//! Both ways of reading give the same page.

use super::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proptest::prelude::*;

use crate::extract::{html, limits};
use crate::page::Extractor;

fn page() -> PageUrl {
    PageUrl::parse("http://a.test/b/c").unwrap()
}

/// The options of a job that leaves out nothing: the main text is recorded as well.
fn options() -> Options {
    Options {
        documents: Some(Extractor::Main),
        ..Options::default()
    }
}

type Read = Result<(Extracted, Layout), String>;

/// The page read from the tree, and from the stream.
fn both(html: &str, options: &Options) -> [Read; 2] {
    let stream = walk(&page(), html, options).map_err(|why| why.name().to_owned());
    [from_tree(html, options), stream]
}

fn from_tree(html: &str, options: &Options) -> Read {
    limits::parse(html, options)
        .map(|tree| html::walk(&page(), &tree, options))
        .map_err(|excess| excess.to_string())
}

/// Asserts that the stream reads the page in the same way as the tree.
fn assert_streams(html: &str) {
    let [tree, stream] = both(html, &options());
    assert_eq!(stream, tree, "{html}");
}

#[test]
fn usual_markup_streams() {
    for html in [
        "",
        "text",
        "<!doctype html><title>a &amp; b</title><p>one<p>two",
    ] {
        assert_streams(html);
    }
}

/// A page made of tags, texts and references in any order.
fn soup() -> impl Strategy<Value = String> {
    const NAMES: &str = "a a a b i em code font nobr div div p p p ul li li ol dl dd dt h1 h2 table \
         tr td th tbody thead caption colgroup col form button select option optgroup input img \
         br hr span section article nav pre textarea title script style noscript svg math desc \
         template iframe object ruby rt rp rb rtc figure figcaption head body html base meta link \
         xmp image dialog address center details summary label video picture source x-y \
         frameset frame noframes main sup g path foreignobject marquee";
    const ATTRIBUTES: &[&str] = &[
        "",
        "",
        "",
        "",
        " href=/x",
        " href='../y?a&amp;b=1'",
        " src=i.jpg alt='An image'",
        " class=toc",
        " id=main",
        " hidden",
        " style='display:none'",
        " lang=de",
        " type=hidden",
        " rel=nofollow",
        " itemprop=author",
        " type=application/ld+json",
        " size=1",
        " class='reference'",
        " href=/x class=nav title=t",
        " style='background:url(b.png)'",
        " name=author content=Me",
    ];
    const TEXTS: &[&str] = &[
        "word",
        " ",
        "\n",
        "two words",
        "&amp;",
        "&nbsp;",
        "&notit;",
        "<",
        "a < b",
        "ä",
        "&#10;",
        "<!-- c -->",
        "<!doctype html>",
        "]]>",
        "<![CDATA[ x ]]>",
        "{\"@type\":\"Article\"}",
        "\u{ad}",
        "<!--",
        "-->",
        "</",
        "\r\n",
    ];
    let name = proptest::sample::select(NAMES.split_whitespace().collect::<Vec<_>>());
    let attributes = proptest::sample::select(ATTRIBUTES);
    let piece = prop_oneof![
        5 => (name.clone(), attributes, any::<bool>())
            .prop_map(|(n, a, slash)| format!("<{n}{a}{}>", if slash { "/" } else { "" })),
        4 => name.prop_map(|n| format!("</{n}>")),
        4 => proptest::sample::select(TEXTS).prop_map(str::to_owned),
    ];
    proptest::collection::vec(piece, 0..25).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(spoor_testing::cases!(2_000))]

    #[test]
    fn any_page_is_read_as_from_a_tree(html in soup(), nesting in 5usize..30, nodes in 5usize..60) {
        let limits = Options { max_nesting: nesting, max_nodes: nodes, ..Options::default() };
        for options in [options(), limits] {
            let [tree, stream] = both(&html, &options);
            // The tree inside a template is not measured exactly, because no tree is built.
            if stream.is_ok() && (tree.is_ok() || !html.contains("<template")) {
                prop_assert!(stream == tree, "{}", html);
            }
        }
    }
}

/// The pages of the demo.
fn demo() -> &'static [String] {
    static PAGES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let web = spoor_lab::demo::web();
        let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
        web.pages.iter().map(|page| text(&page.body)).collect()
    });
    &PAGES
}

/// A tree puts it into the head, although it comes later.
#[test]
fn a_title_after_the_head_is_put_into_it() {
    for html in [
        "<head></head><title>P</title><h1>P</h1><p>Text of the page.",
        "<head><title>P</title></head> <title>Q</title><body><h1>Q</h1><p>Text of the page.",
        "</head><title>P</title/><h1>P",
        "<head></head><body><title>P</title><h1>P</h1><p>Text of the page.",
    ] {
        assert_streams(html);
    }
}

#[test]
fn every_page_of_the_demo_streams() {
    for html in demo() {
        assert_streams(html);
    }
}

proptest! {
    #![proptest_config(spoor_testing::cases!(300))]

    #[test]
    fn changed_pages_are_read_as_from_trees(
        page in any::<prop::sample::Index>(),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), 0..4), 1..7),
    ) {
        let mut html = demo()[page.index(demo().len())].clone();
        for (at, change) in cuts {
            let tags: Vec<usize> = html.match_indices('<').map(|(at, _)| at).collect();
            if tags.is_empty() {
                break;
            }
            let from = tags[at.index(tags.len())];
            let to = html[from..].find('>').map_or(html.len(), |end| from + end + 1);
            let tag = html[from..to].to_owned();
            match change {
                0 => html.replace_range(from..to, ""),
                1 => html.insert_str(to, &tag),
                2 => html.insert_str(from / 2 + (from / 2..).position(|i| html.is_char_boundary(i)).unwrap(), &tag),
                _ => html.truncate(to - 1),
            }
        }
        let [tree, stream] = both(&html, &options());
        prop_assert!(stream.is_err() || stream == tree, "{}", html);
    }
}

/// Long hostile pages take seconds to read as trees.
#[test]
fn the_beginnings_of_hostile_pages_are_read_as_from_trees() {
    hostile_pages_are_read_as_from_trees(250_000);
}

#[test]
#[ignore = "long; the default suite has the beginnings of these pages"]
fn whole_hostile_pages_are_read_as_from_trees() {
    hostile_pages_are_read_as_from_trees(Options::default().max_text_bytes);
}

/// Reads at most `max` bytes of each page of the zoo both ways.
fn hostile_pages_are_read_as_from_trees(max: usize) {
    let mut streamed = 0;
    for case in spoor_lab::zoo::cases() {
        let spoor_lab::zoo::Serve::Web(reply) = &case.serve else {
            continue;
        };
        let mut body = Vec::new();
        for part in reply(case.path).body {
            body.extend_from_slice(&part);
            if body.len() > max {
                break;
            }
        }
        let html = String::from_utf8_lossy(&body);
        let html = limits::cap(&html, max);
        // Without a stream there is nothing to compare, so no tree is built.
        if let Ok(stream) = walk(&page(), html, &options()) {
            assert!(from_tree(html, &options()) == Ok(stream), "{}", case.name);
            streamed += 1;
        }
    }
    assert!(streamed > 50, "{streamed}");
}

/// Reads every page below `folder` in both ways. Returns how many were streamed, and the number of
/// others by reason.
fn compare(folder: &Path) -> (usize, BTreeMap<String, usize>) {
    let (mut streamed, mut left) = (0, BTreeMap::new());
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        for path in entries {
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
                continue;
            }
            let Ok(bytes) = std::fs::read(&path) else {
                continue;
            };
            let html = String::from_utf8_lossy(&bytes);
            let html = limits::cap(&html, Options::default().max_text_bytes);
            let [tree, stream] = both(html, &options());
            match stream {
                Ok(_) => {
                    assert!(stream == tree, "{}", path.display());
                    streamed += 1;
                }
                Err(why) => *left.entry(why).or_default() += 1,
            }
        }
    }
    (streamed, left)
}

#[test]
fn folders_of_pages_are_read_as_from_trees() {
    let Ok(folders) = std::env::var("SPOOR_PAGES") else {
        eprintln!("skipped: SPOOR_PAGES names no folder of pages");
        return;
    };
    for folder in std::env::split_paths(&folders) {
        let (streamed, left) = compare(&folder);
        println!("{}: {streamed} streamed, {left:?}", folder.display());
    }
}
