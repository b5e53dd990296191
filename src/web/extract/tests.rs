//! Whole pages in, whole results out; and bounds on hostile input.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::page::{AltKind, Directives};
use spoor_testing::worked;

fn url() -> PageUrl {
    PageUrl::parse("https://blog.example/2013/tom.html").unwrap()
}

fn fetched(content_type: Option<&str>, body: &[u8]) -> Fetched {
    Fetched {
        status: 200,
        content_type: content_type.map(str::to_owned),
        terms: Default::default(),
        validators: Default::default(),
        body: Bytes::copy_from_slice(body),
        truncated: false,
        elapsed: Duration::ZERO,
        date: None,
    }
}

fn page(html: &str) -> Extracted {
    extract_text(&url(), html, &Options::default())
}

/// The stable name of a value, as in the sidecar.
fn name_of(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value)
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

/// Everything of a page as lines, in the form of the `.expected` fixtures.
fn render(page: &Extracted) -> String {
    let mut out = String::new();
    let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    writeln!(out, "title {}", shown(&page.title)).unwrap();
    writeln!(out, "language {}", shown(&page.language)).unwrap();
    writeln!(out, "charset {}", page.charset).unwrap();
    let Directives {
        nofollow,
        noindex,
        noimageindex,
        noai,
        noimageai,
        noml,
        noarchive,
        unavailable_after: _,
    } = page.terms.directives.clone();
    for (set, name) in [
        (nofollow, "nofollow"),
        (noindex, "noindex"),
        (noimageindex, "noimageindex"),
        (noai, "noai"),
        (noimageai, "noimageai"),
        (noml, "noml"),
        (noarchive, "noarchive"),
    ] {
        if set {
            writeln!(out, "directive {name}").unwrap();
        }
    }
    for block in &page.blocks {
        writeln!(out, "block {block}").unwrap();
    }
    for link in &page.links {
        let rel = if link.nofollow { " nofollow" } else { "" };
        writeln!(out, "link {}{rel} [{}]", link.url, link.anchor).unwrap();
    }
    for image in &page.images {
        let size = |n: Option<u32>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
        let (width, height) = (size(image.width), size(image.height));
        writeln!(out, "image {} {width}x{height}", image.url).unwrap();
        let found: Vec<String> = image.embedding.found.iter().map(name_of).collect();
        writeln!(out, "  found {}", found.join(" ")).unwrap();
        let texts = &image.texts;
        let kind = texts.alt_kind.filter(|k| *k != AltKind::Written);
        let target = image.embedding.link_target.as_ref();
        for (name, text) in [
            ("class", &image.embedding.class),
            ("link", &target.map(PageUrl::to_string)),
            ("alt", &texts.alt),
            ("alt_kind", &kind.map(|k| name_of(&k))),
            ("title", &texts.title),
            ("aria_label", &texts.aria_label),
            ("caption", &texts.caption),
            ("figcaption", &texts.figcaption),
            ("heading", &texts.heading),
            ("file", &texts.file_name),
        ] {
            if let Some(text) = text {
                writeln!(out, "  {name} {}", text.replace('\n', " / ")).unwrap();
            }
        }
        for (steps, text) in texts.parent_distances.iter().zip(&texts.parents) {
            writeln!(out, "  parent {steps} {}", text.replace('\n', " / ")).unwrap();
        }
        for (steps, text) in texts.sibling_distances.iter().zip(&texts.siblings) {
            writeln!(out, "  sibling {steps} {}", text.replace('\n', " / ")).unwrap();
        }
    }
    out
}

macro_rules! fixtures {
    ($($name:ident),+ $(,)?) => {$(
        #[test]
        fn $name() {
            let html = include_bytes!(concat!(
                "../../../tests/fixtures/extract/", stringify!($name), ".html"
            ));
            let expected = include_str!(concat!(
                "../../../tests/fixtures/extract/", stringify!($name), ".expected"
            ));
            let page = extract(&url(), &fetched(Some("text/html"), html), &Options::default());
            let page = page.unwrap();
            assert_eq!(render(&page), expected);
        }
    )+};
}

fixtures!(
    blog, broken, dialog, forum, frames, gallery, lists, shift_jis, sources, tables, wiki,
    xhtml_1251,
);

/// Runs the extraction as a worker would, on a stack of 2 MB; an overflow aborts.
fn bounded(name: &str, html: String) -> Extracted {
    let (page, took) = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || (page(&html), worked()))
        .unwrap()
        .join()
        .unwrap();
    eprintln!("{name}: {} ms", took.as_millis());
    // The slowest takes half a second in a debug build; quadratic work on half a megabyte
    // takes tens of seconds.
    assert!(took < Duration::from_secs(5), "{name}: {took:?}");
    page
}

#[test]
fn hostile_markup_is_read_in_bounded_time_on_a_small_stack() {
    const TAIL: &str = "<p>the end <a href=/end>end</a><img src=/end.jpg alt=end>";
    let numbered = |n: usize, before: &str, after: &str| -> String {
        (0..n).map(|i| format!("{before}{i}{after}")).collect()
    };
    let cases: Vec<(&str, String)> = vec![
        ("nested div", "<div>".repeat(100_000)),
        ("nested tables", "<table><tr><td>".repeat(50_000)),
        ("formatting soup", "<a><b>".repeat(165_000)),
        ("unclosed p", "<p>".repeat(310_000)),
        ("unclosed p with text", "<p>x ".repeat(155_000)),
        ("misnested formatting", "<b><i><p></b></i>".repeat(25_000)),
        (
            "adoption",
            format!("{}{}", "<b>".repeat(250), "<p>x</b>".repeat(50_000)),
        ),
        (
            "reopened formatting",
            format!(
                "<p>{}{}",
                numbered(200, "<b id=", ">"),
                "<p>x".repeat(75_000)
            ),
        ),
        ("font in paragraphs", numbered(40_000, "<p><font id=", ">x")),
        ("ignored end tags", "<div><object></div>".repeat(50_000)),
        ("attributes", format!("<a {}>", numbered(90_000, "a", " "))),
        (
            "quoted attributes",
            format!("<a {}>", numbered(75_000, "a", "='<>' ")),
        ),
        ("body attributes", numbered(55_000, "<body a", ">")),
        (
            "tags of many attributes",
            format!("<b {}>", numbered(900, "a", " ")).repeat(150),
        ),
        (
            "one long value",
            format!("<p title='{}'>x</p>", "y".repeat(2_000_000)),
        ),
        ("entities", "&amp;&lt;&notit;&#x110000;".repeat(18_000)),
        ("angle brackets", "a < b << c <".repeat(38_000)),
        ("comments", "<!---->".repeat(140_000)),
        ("table text", format!("<table>{}", "x<tr>".repeat(95_000))),
        ("select", "<select><option><table>".repeat(40_000)),
        ("svg", "<svg><g>".repeat(120_000)),
        ("templates", "<template>".repeat(95_000)),
        ("nul", "\0<p>\0".repeat(90_000)),
        ("links", numbered(40_000, "<a href=/", ">x</a> ")),
        (
            "gallery",
            format!(
                "<div>{}words</div>",
                numbered(30_000, "<img src=/", ".jpg alt=a>")
            ),
        ),
        (
            "gallery with captions",
            numbered(
                8_000,
                "<div><i>w</i><img src=/",
                ".jpg><span>caption</span>word</div>",
            ),
        ),
        (
            "gallery in long text",
            format!(
                "{}{}",
                "word ".repeat(50_000),
                numbered(30_000, "<img src=/", ".jpg>")
            ),
        ),
        (
            "headings and figures",
            format!(
                "<h2>{}</h2>{}",
                "word ".repeat(20_000),
                numbered(
                    9_000,
                    "<figure><figcaption>The caption</figcaption><a href=l.jpg><img src=/",
                    ".jpg></a>",
                )
            ),
        ),
        (
            "sets of sizes",
            format!("<img srcset='{}'>", numbered(100_000, "a.jpg ", "w,")),
        ),
        (
            "backgrounds",
            numbered(30_000, "<b style='background:url(", ".jpg)'></b>"),
        ),
        (
            "one long style",
            format!("<b style='{}'></b>", "background:url((;{".repeat(50_000)),
        ),
        (
            "many JSON-LD",
            numbered(
                15_000,
                "<script type=application/ld+json>{\"image\":\"",
                ".jpg\"}</script>",
            ),
        ),
        (
            "deep JSON-LD",
            format!(
                "<script type=application/ld+json>{}</script>",
                "{\"image\":".repeat(50_000)
            ),
        ),
        (
            "metadata",
            numbered(30_000, "<meta property=og:image content=/", ".jpg>"),
        ),
        (
            "long alt texts",
            format!("<img src=/{}.jpg alt='", "a/b-".repeat(1_000))
                + &"a b ".repeat(200_000)
                + "'>",
        ),
        (
            "siblings",
            format!("<div>{}", "<img src=a><i>x</i>".repeat(15_000)),
        ),
    ];
    for (name, html) in cases {
        assert!(html.len() < 2 << 20, "{name} is cut");
        let complete = html.len() + TAIL.len() <= 2 << 20;
        let page = bounded(name, html + TAIL);
        let options = Options::default();
        assert!(page.links.len() <= options.max_links, "{name}");
        assert!(page.images.len() <= options.max_images, "{name}");
        let context: usize = page
            .images
            .iter()
            .flat_map(|i| i.texts.parents.iter().chain(&i.texts.siblings))
            .map(String::len)
            .sum();
        assert!(context <= options.max_context_bytes, "{name}: {context}");
        // Content after the mess is still found, unless it is inside it.
        let swallowed = ["svg", "templates", "select"];
        if complete && !swallowed.contains(&name) {
            assert!(page.blocks.iter().any(|b| b.contains("the end")), "{name}");
        }
    }
}

#[test]
fn too_deep_a_page_still_gives_text_links_and_images() {
    let html = format!(
        "<html lang=en><title>Deep</title><base href=/b/><style>no</style>\
         <meta property=og:image content=og.jpg><script type=application/ld+json>\
         {{\"image\":{{\"url\":\"cat.jpg\",\"caption\":\"Tom\"}}}}</script>{}\
         <h1>A <i>cat</i></h1><p>says &amp; does<p>little \
         <a href=one>One <a href=two rel=nofollow title=x></a><svg><text>icon</svg>\
         <img src=cat.jpg alt='A cat' width=5><iframe src=f title=F>no</iframe>\
         <select><option>red</select><noscript>no</noscript><textarea>no</textarea> after",
        "<div>".repeat(1_000)
    );
    let expected = "title Deep\nlanguage en\ncharset UTF-8\n\
        block A cat\nblock says & does\nblock little One after\n\
        link https://blog.example/b/one [One]\n\
        link https://blog.example/b/two nofollow [x]\n\
        link https://blog.example/b/f [F]\n\
        image https://blog.example/b/cat.jpg 5x?\n  found img json_ld\n\
        \x20 alt A cat\n  caption Tom\n  file cat\n\
        image https://blog.example/b/og.jpg ?x?\n  found open_graph\n  file og\n";
    assert_eq!(render(&page(&html)), expected);
}

#[test]
fn the_parts_of_a_series_are_links() {
    let html = "<head><link rel=next href=/list?page=2><link rel='x PREV' href=/list?page=0>\
        <link rel=stylesheet href=/a.css><link rel=prefetch href=/b></head><p>A list</p>";
    let page = page(html);
    let links = page.links.iter().map(|link| link.url.as_str());
    let expected = [
        "https://blog.example/list?page=2",
        "https://blog.example/list?page=0",
    ];
    assert!(links.eq(expected), "{:?}", page.links);
}

#[test]
fn the_text_is_cut_at_its_cap() {
    let options = Options {
        max_text_bytes: 20,
        ..Options::default()
    };
    let body = "<p>Kätzchen schlafen gern</p>";
    let cut = extract_text(&url(), body, &options);
    assert_eq!(cut.blocks, ["Kätzchen schlafe"]);
    let plain = extract(
        &url(),
        &fetched(Some("text/plain"), b"one two three four five"),
        &options,
    );
    assert_eq!(plain.unwrap().blocks, ["one two three four f"]);
}

#[test]
fn without_images_all_else_is_the_same() {
    let none = Options {
        max_images: 0,
        ..Options::default()
    };
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/extract");
    let mut images = 0;
    for file in std::fs::read_dir(fixtures).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "html") {
            continue;
        }
        let body = std::fs::read(&path).unwrap();
        let of = |options| extract(&url(), &fetched(Some("text/html"), &body), options);
        let [mut with, without] = [of(&Options::default()), of(&none)].map(Result::unwrap);
        images += with.images.len();
        with.images.clear();
        with.svgs = without.svgs;
        assert_eq!(with, without, "{}", path.display());
    }
    assert!(images > 20, "{images}");
}

#[test]
fn bounds_of_numbers_hold() {
    let options = Options {
        max_links: 2,
        max_images: 1,
        parents: 1,
        siblings: 0,
        ..Options::default()
    };
    let html = "<div><p><a href=a>1</a><a href=b>2</a><a href=c>3</a> x<img src=i>\
                <i>y</i></p><img src=j> z</div>";
    let page = extract_text(&url(), html, &options);
    let anchors: Vec<&str> = page.links.iter().map(|l| l.anchor.as_str()).collect();
    assert_eq!(anchors, ["1", "2"]);
    assert_eq!(page.images.len(), 1);
    assert_eq!(page.images[0].texts.parents, ["123 x y"]);
    assert!(page.images[0].texts.siblings.is_empty());

    let long = format!(
        "<a href=x>{}</a><img src=i alt='{0}'>",
        "wort ".repeat(1_000)
    );
    let page = self::page(&long);
    assert_eq!(page.links[0].anchor.chars().count(), 999);
    assert_eq!(page.images[0].texts.alt.as_ref().unwrap().len(), 999);
}

#[test]
fn siblings_come_by_distance_and_the_following_one_first() {
    let html =
        "<div><p>b3</p><p>b2</p><hr><img src=i><b></b><p>a2</p><p>a3</p><p>a4</p><p>a5</p></div>";
    assert_eq!(
        page(html).images[0].texts.siblings,
        ["a2", "b2", "a3", "b3", "a4"]
    );
}

#[test]
fn of_a_long_parent_the_part_around_the_image_is_kept() {
    let words =
        |range: std::ops::Range<u32>| -> String { range.map(|i| format!("w{i:05} ")).collect() };
    let html = format!(
        "<body><div>{}<img src=a>{}</div><p>more",
        words(0..1_000),
        words(1_000..1_010)
    );
    let page = page(&html);
    let parents = &page.images[0].texts.parents;
    // 71 characters follow the image, so the rest is before it.
    assert!(parents[0].starts_with("w007") && parents[0].ends_with("w01009"));
    let chars = parents[0].chars().count();
    assert!((1_990..=2_000).contains(&chars), "{chars}");
    assert!(parents[1].ends_with("w01009\nmore"));
    assert_eq!(parents.len(), 2);
}

#[test]
fn forms_of_documents() {
    let options = Options::default();
    let read = |content_type, body: &[u8]| extract(&url(), &fetched(content_type, body), &options);
    let plain = read(
        Some("Text/Plain; charset=iso-8859-1"),
        b"K\xE4tzchen\n\n<b>no tag</b>",
    );
    let plain = plain.unwrap();
    assert_eq!(plain.blocks, ["Kätzchen", "<b>no tag</b>"]);
    assert_eq!(plain.charset, "windows-1252");
    assert_eq!(read(None, b"<p>a</p><p>b").unwrap().blocks, ["a", "b"]);
    assert_eq!(read(None, b"a < b").unwrap().blocks, ["a < b"]);
    assert_eq!(read(Some(""), b"").unwrap().blocks, [""; 0]);
    let xhtml = read(Some("application/xhtml+xml"), b"<p>a</p>");
    assert_eq!(xhtml.unwrap().blocks, ["a"]);
    let utf16 = read(Some("text/html"), b"\xFF\xFE<\0p\0>\0a\0");
    assert_eq!(utf16.unwrap().blocks, ["a"]);
    for other in ["image/png", "application/pdf", "nonsense"] {
        assert_eq!(
            read(Some(other), b"<p>a"),
            Err(ExtractError::ContentType(other.to_owned()))
        );
    }
    let jpeg = b"\xFF\xD8\xFF\xE0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00";
    assert_eq!(read(Some("text/html"), jpeg), Err(ExtractError::Binary));
}

#[test]
fn header_and_meta_directives_add_up() {
    let mut response = fetched(Some("text/html"), b"<meta name=robots content=nofollow>");
    response.terms.robots_tags = vec!["noai".to_owned(), "googlebot: noindex".to_owned()];
    let page = extract(&url(), &response, &Options::default()).unwrap();
    let directives = page.terms.directives;
    assert!(directives.nofollow && directives.noai);
    assert!(!directives.noindex && !directives.noimageai && !directives.noimageindex);
}

#[test]
fn a_base_that_is_no_web_address_is_ignored() {
    for (base, expected) in [
        (
            "<base href='data:text/html,x'>",
            "https://blog.example/2013/a",
        ),
        (
            "<base><base href='//b.example/c/'>",
            "https://b.example/c/a",
        ),
        (
            "<base target=x><base href='../d/'>",
            "https://blog.example/d/a",
        ),
        (
            "<base href='http://[' ><base href=/e/>",
            "https://blog.example/2013/a",
        ),
    ] {
        let page = page(&format!("{base}<a href=a>x</a>"));
        assert_eq!(page.links[0].url.as_str(), expected, "{base}");
    }
}

/// Markup that is likely to be broken in interesting ways.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "<p>",
            "</p>",
            "<b>",
            "</b>",
            "<a href=x>",
            "</a>",
            "<table>",
            "<tr>",
            "<td>",
            "</table>",
            "<div>",
            "</div>",
            "<svg>",
            "</svg>",
            "<math>",
            "<template>",
            "</template>",
            "<select>",
            "<option>",
            "</select>",
            "<script>",
            "</script>",
            "<title>",
            "</title>",
            "<noscript>",
            "</noscript>",
            "<br>",
            "<img src=i.png alt=x>",
            "<img data-src='j' srcset='a 1x, b 2x'>",
            "<a href=large.jpg>",
            "<p style='background:url(x.png)'>",
            "<h2>",
            "</h2>",
            "<figure>",
            "<figcaption>",
            "</figcaption>",
            "</figure>",
            "<meta property=og:image content=o.jpg>",
            "<meta property=og:image:alt content='IMG 12'>",
            "<link rel=image_src href=i.png>",
            "<script type=application/ld+json>{\"image\":[\"i.png\",{\"url\":\"k\"}]}</script>",
            "<pre>",
            "\n\n",
            "</pre>",
            "<frameset>",
            "<frame src=f>",
            "<body>",
            "</body>",
            "<html lang=en>",
            "</html>",
            "<base href=q/>",
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "<foreignObject>",
            "<form>",
            "<button>",
            "<li>",
            "<meta http-equiv=refresh content='0;url=r'>",
            "<plaintext>",
            "<iframe src=g>",
            "</iframe>",
            "<picture>",
            "<source srcset=s>",
            "<object>",
            "</object>",
            "<caption>",
            "<p hidden>",
            "<font color=red>",
            "</font>",
            "<",
            ">",
            "&amp;",
            "&#0;",
            "\u{0}",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,8}",
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

#[test]
fn the_best_size_is_taken_and_svgs_are_left_out() {
    let html = "<img src=small.png srcset='mid.png 1.5x, /x/large.png 2x, mid.png 1.2x'>\
        <picture><source type='image/svg+xml' srcset='p.svg'><source srcset='w.png 800w, n.png 400w'>\
        <img src=p.png></picture>\
        <img src=logo.svg srcset='logo.svg.png 2x'><img src=drawing.SVG#top>\
        <img data-src=late.png src=blank.png srcset='blank2.png 2x'>\
        <div style='background:url(back.svg)'></div>\
        <noscript>&lt;img&gt;</noscript><meta property=og:image content=card.svg>\
        <img src=/x/large.png>";
    let page = page(html);
    let name = |url: &PageUrl| url.path().rsplit('/').next().unwrap().to_owned();
    let found: Vec<String> = page.images.iter().map(|image| name(&image.url)).collect();
    assert_eq!(
        found,
        [
            "large.png",
            "w.png",
            "logo.svg.png",
            "late.png",
            "large.png"
        ]
    );
    assert_eq!(page.svgs, 3);
}

#[test]
fn headings_and_captions_lose_the_marks_of_wikis() {
    let html = "<h2>Mars<span class='mw-editsection'>[<a href=/e>edit</a>]</span>\
        <sup class='reference'><a href='#n1'>[1]</a></sup></h2>\
        <figure><img src=a.png><figcaption>Ice clouds<sup class='noprint reference'>[2]</sup>, seen \
        x<sup>2</sup></figcaption></figure>\
        <h2>Unveiling[edit]</h2><p><img src=b.png> [edit] stays in prose</p>";
    let page = page(html);
    let texts = |n: usize| &page.images[n].texts;
    assert_eq!(texts(0).heading.as_deref(), Some("Mars"));
    assert_eq!(texts(0).figcaption.as_deref(), Some("Ice clouds, seen x2"));
    assert_eq!(texts(1).heading.as_deref(), Some("Unveiling"));
    assert!(texts(1).parents[0].starts_with("[edit] stays"));
    // Links inside them are still links.
    assert!(page.links.iter().any(|link| link.url.path() == "/e"));
}

fn check(page: &Extracted) -> Result<(), TestCaseError> {
    for link in &page.links {
        prop_assert!(matches!(link.url.scheme(), "http" | "https"));
        prop_assert!(link.url != url());
        prop_assert!(link.anchor.trim() == link.anchor);
    }
    for image in &page.images {
        prop_assert!(matches!(image.url.scheme(), "http" | "https"));
        prop_assert!(image.texts.parents.len() <= 5 && image.texts.siblings.len() <= 5);
        let found = &image.embedding.found;
        prop_assert!(!found.is_empty() && found.is_sorted());
        prop_assert_eq!(image.texts.alt_kind.is_some(), image.texts.alt.is_some());
        let (above, beside) = (
            &image.texts.parent_distances,
            &image.texts.sibling_distances,
        );
        prop_assert!(above.len() == image.texts.parents.len() && above.is_sorted());
        prop_assert!(beside.len() == image.texts.siblings.len() && beside.is_sorted());
        let texts = image.texts.parents.iter().chain(&image.texts.siblings);
        let texts = texts
            .chain(&image.texts.heading)
            .chain(&image.texts.figcaption);
        for text in texts {
            prop_assert!(!text.is_empty() && text.chars().count() <= 2_000);
        }
    }
    for block in &page.blocks {
        prop_assert!(!block.is_empty() && !block.contains(['\n', '\t']) && !block.contains("  "));
        prop_assert!(block.trim() == block);
    }
    Ok(())
}

proptest! {
    #![proptest_config(spoor_testing::usual!())]

    #[test]
    fn broken_markup_never_panics_and_keeps_the_promises(html in soup()) {
        check(&page(&html))?;
        let flat = Options { max_nesting: 3, ..Options::default() };
        check(&extract_text(&url(), &html, &flat))?;
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..400),
        header in prop::option::of("[ -~]{0,40}"),
        is_html in any::<bool>(),
    ) {
        let header = if is_html { Some("text/html".to_owned()) } else { header };
        if let Ok(page) = extract(&url(), &fetched(header.as_deref(), &body), &Options::default()) {
            check(&page)?;
        }
    }
}

#[test]
fn the_head_may_name_the_canonical_address() {
    let canonical = |html: &str| {
        let flat = Options {
            max_nesting: 3,
            ..Options::default()
        };
        let deep = format!("{html}<body>{}", "<div>".repeat(9));
        let found = page(html).canonical;
        assert_eq!(
            extract_text(&url(), &deep, &flat).canonical,
            found,
            "{html}"
        );
        found.map(|url| url.to_string())
    };
    for (html, expected) in [
        ("<head><link rel=canonical href=/c></head>", Some("/c")),
        ("<LINK REL='x Canonical' HREF='c#f'>", Some("/2013/c")),
        ("<base href=/b/><link rel=canonical href=c>", Some("/b/c")),
        (
            "<link rel=canonical href=''><link rel=canonical href=/d>",
            Some("/d"),
        ),
        (
            "<link rel=canonical href=/c><link rel=canonical href=/d>",
            Some("/c"),
        ),
        ("<link rel=canonical href=ftp://a.org/>", None),
        ("<link rel=alternate href=/c>", None),
        ("<p>A comment:<link rel=canonical href=/c></p>", None),
        ("<body><link rel=canonical href=/c>", None),
    ] {
        let expected = expected.map(|path| url().join(path).unwrap().to_string());
        assert_eq!(canonical(html), expected, "{html}");
    }
}

#[test]
fn licences_are_those_of_the_page_and_of_its_images() {
    let html = r#"<html><head><link rel="license" href="by"><meta name="dcterms.license" content="https://l.org/dc">
        <script type="application/ld+json">[
            {"@type": "Article", "license": {"@type": "CreativeWork", "@id": "https://l.org/article"},
             "image": {"url": "/one.png", "license": ["CC BY", "https://l.org/one"]}},
            {"@type": "ImageObject", "contentUrl": "/two.png", "license": "https://l.org/two",
             "acquireLicensePage": "https://l.org/buy"},
            {"@type": "ImageObject", "contentUrl": "/two.png", "license": "https://l.org/two"},
            {"license": {"license": 5}, "image": []}
        ]</script></head>
        <body><p>Text</p><img src="/two.png"><a rel="nofollow License" href="/foot">Terms</a>
        <a rel="licenses" href="/no">x</a></body></html>"#;
    for page in [page(html), {
        // Read as a bare token stream.
        let deep = format!("{html}{}", "<b>".repeat(300));
        page(&deep)
    }] {
        let base = "https://blog.example";
        let licences = page.terms.licences.iter().map(|l| l.replace(base, ""));
        let expected = [
            "/2013/by",
            "https://l.org/dc",
            "https://l.org/article",
            "/foot",
        ];
        assert_eq!(licences.collect::<Vec<_>>(), expected);
        let of = |path: &str| {
            let mut images = page.images.iter();
            images
                .find(|i| i.url.path() == path)
                .unwrap()
                .licences
                .clone()
        };
        assert_eq!(of("/one.png"), ["CC BY", "https://l.org/one"]);
        assert_eq!(of("/two.png"), ["https://l.org/two"]);
    }
}

proptest! {
    #![proptest_config(spoor_testing::usual!())]

    #[test]
    fn controls_are_counted(body in proptest::collection::vec(any::<u8>(), 0..600), of_one in 0_u8..0x21) {
        let is_control = |b: &&u8| b.is_ascii_control() && !b.is_ascii_whitespace() && **b != 0x0B;
        for body in [body, vec![of_one; 600]] {
            let expected = body.iter().filter(is_control).count();
            prop_assert_eq!(controls(&body), u32::try_from(expected).unwrap());
        }
    }
}
