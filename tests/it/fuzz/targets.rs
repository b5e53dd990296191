//! The fuzz targets other than the store, and the properties that must hold.

use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use image::{ImageFormat, RgbImage};
use spoor::address::{MAX_URL_BYTES, PageUrl};
use spoor::config::Config;
use spoor::corpus::annotate::votes;
use spoor::outputs::Sidecar;
use spoor::outputs::picture;
use spoor::page::{Extractor, Fetched, Link, TermsHeaders, Validators};
use spoor::web::extract::{self, extract};
use spoor::web::robots::{self, Robots};
use spoor::web::sitemap;

use super::Target;

const ADDRESSES: &[&str] = &[
    "http://example.org/a/b.html?c=d#e",
    "https://www.example.co.uk:8443/%7euser/%c3%bc?q=%e4+b&c",
    "http://user:secret@example.org./a/../b/./c//d",
    "http://b\u{fc}cher.example/\u{fc}?\u{e4}",
    "http://0x7f.1/",
    "http://[::ffff:127.0.0.1]:80/x",
    "http://2130706433",
    "//other.org/x",
    "../d",
    "?r=1",
    "http://xn--bcher-kva.example/",
    "http://a.b.c.d.e.example.museum/%2e%2E/%%30a%4%31",
];

const PARTS: &[&str] = &[
    "://", "http:", "https:/", "\\", "@", ":", "#", "?", "/../", "/./", "%2e", "%", "%41", "%c3",
    "[", "]", "::", "xn--", "\u{3002}", "\u{ff11}", "\u{200d}", "\u{ad}", "0x", ".", "..", "\t",
];

fn text(input: &[u8]) -> String {
    String::from_utf8_lossy(input).into_owned()
}

fn bytes(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn url(text: &str) -> PageUrl {
    PageUrl::parse(text).unwrap()
}

/// The properties of every address.
fn canonical(url: &PageUrl) {
    let text = url.as_str();
    assert!(text.is_ascii() && text.len() <= MAX_URL_BYTES, "{text}");
    assert!(!text.contains(['#', '\n', '\r', ' ']), "{text}");
    assert!(!url.path_and_query().contains('"'), "{text}");
    assert_eq!(PageUrl::parse(text).as_ref(), Ok(url));
    assert!(matches!(url.scheme(), "http" | "https"));
    assert!(
        !url.host().is_empty() && url.path().starts_with('/'),
        "{text}"
    );
    let parsed = url.to_url().unwrap();
    assert!(
        parsed.username().is_empty() && parsed.password().is_none(),
        "{text}"
    );
    // A parser finds the same parts.
    assert_eq!(parsed.as_str(), url.as_str());
    assert_eq!(parsed.host_str(), Some(url.host()));
    assert_eq!(parsed.port(), url.has_port().then(|| url.port()));
    assert_eq!((parsed.path(), parsed.query()), (url.path(), url.query()));
    assert_eq!(url.robots_url().host_key(), url.host_key());
    assert!(!url.host_key().registered_domain().is_empty(), "{text}");
    let json = serde_json::to_string(url).unwrap();
    assert_eq!(&serde_json::from_str::<PageUrl>(&json).unwrap(), url);
}

pub(super) fn address() -> Target {
    let base = url("http://example.org/a/b?c");
    Target {
        name: "address",
        seeds: bytes(ADDRESSES),
        words: PARTS,
        cases: 2_000,
        run: Box::new(move |input| {
            let text = text(input);
            for parsed in [PageUrl::parse(&text), base.join(&text)] {
                match parsed {
                    Ok(url) => canonical(&url),
                    Err(error) => assert!(error.to_string().len() < 2_000),
                }
            }
        }),
    }
}

pub(super) fn surt() -> Target {
    Target {
        name: "surt",
        seeds: bytes(ADDRESSES),
        words: PARTS,
        cases: 2_000,
        run: Box::new(|input| {
            let text = text(input);
            // Two addresses of one host: each half of the input is a path.
            let half = text.chars().count() / 2;
            let end: String = text.chars().skip(half).collect();
            let Ok(a) = PageUrl::parse(&text) else { return };
            let Ok(b) = a.join(&format!("/{}", end.trim_start_matches(['/', '\\']))) else {
                return;
            };
            let order = a.path_and_query().cmp(b.path_and_query());
            if a.host_key() == b.host_key() {
                assert_eq!(a.surt().cmp(&b.surt()), order, "{a} {b}");
            }
            let surt = a.surt();
            assert!(surt.ends_with(a.path_and_query()), "{surt}");
            let own = &surt[..surt.len() - a.path_and_query().len()];
            let domain = own.strip_suffix(')').unwrap();
            // The SURT of a subdomain begins with that of its domain.
            let sub = a.as_str().replacen("://", "://x.", 1);
            if let (None, Ok(sub)) = (a.ip(), PageUrl::parse(&sub)) {
                let labels = domain.split(':').next().unwrap();
                assert!(sub.surt().starts_with(&format!("{labels},x")), "{sub}");
            }
        }),
    }
}

pub(super) fn robots() -> Target {
    let asked = [
        "http://a.org/",
        "http://a.org/a/b.html?c=d",
        "http://a.org/%7Ea/*$",
        "http://a.org/robots.txt",
    ];
    let asked: Vec<PageUrl> = asked.iter().map(|text| url(text)).collect();
    Target {
        name: "robots",
        seeds: bytes(&[
            "User-agent: *\nDisallow: /a/*.html$\nAllow: /a/b\nCrawl-delay: 2.5\n",
            "\u{feff}user-agent: spoor\nuser-agent: other\ndisallow:\n\nsitemap: http://a.org/s.xml\n",
            "User-Agent: *\rContent-Signal: /a search=yes, ai-train=no\rDisallow: /%7ea\r",
        ]),
        words: &[
            "User-agent: ",
            "Disallow: ",
            "Allow: ",
            "Crawl-delay: ",
            "Sitemap: ",
            "Content-Signal: ",
            "*",
            "$",
            "/",
            "%2F",
            "**********",
            "spoor",
            "\n",
            "#",
            "1e300",
        ],
        cases: 2_000,
        run: Box::new(move |input| {
            let rules = Robots::parse("spoor", input);
            for url in &asked {
                let allows = rules.allows(url);
                if url.path() == "/robots.txt" {
                    // RFC 9309 section 2.2.2.
                    assert!(allows);
                } else {
                    assert_eq!(allows, rules.rule_for(url).is_none_or(|rule| rule.allows()));
                }
                drop(rules.content_signals(url));
            }
            assert!(rules.sitemaps().len() <= input.len());
            assert!(rules.same_rules(&Robots::parse("spoor", input)));
        }),
    }
}

/// The pages of every kind and charset that the tests of extraction use.
fn pages() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/extract");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|f| f.extension().is_some_and(|e| e == "html"))
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

pub(super) fn page() -> Target {
    let base = url("http://example.org/a/b.html");
    let with = |extractor| extract::Options {
        extractor,
        ..extract::Options::default()
    };
    let all = [Extractor::All, Extractor::Main, Extractor::Density].map(with);
    Target {
        name: "page",
        seeds: pages(),
        words: &[
            "<table>",
            "<svg>",
            "<math>",
            "<template>",
            "</p>",
            "<a href='",
            "<img src=\"",
            " alt=",
            "<base href=//x>",
            "<meta charset=utf-16>",
            "<meta charset=iso-2022-jp>",
            "<!--",
            "-->",
            "<![CDATA[",
            "<plaintext>",
            "<noscript>",
            "<script type=application/ld+json>{\"@type\":",
            "</script>",
            "<select>",
            "<frameset>",
            "srcset='a 1x, b 2w'",
            "&#x0;",
            "&#xD800;",
            "&notin",
            "<p style=\"background:url(",
            "\u{1b}$B",
            "<title>",
            "<body><body>",
            "<b><i><a><b>",
        ],
        cases: 256,
        run: Box::new(move |input| {
            let types = [
                None,
                Some("text/html"),
                Some("text/html; charset=utf-16le"),
                Some("text/html; charset=shift_jis"),
                Some("application/xhtml+xml; charset=x"),
                Some("text/plain; charset=\"utf-7\""),
            ];
            let chosen = input.last().map_or(0, |b| usize::from(*b)) % types.len();
            let header = String::from_utf8_lossy(&input[..input.len().min(80)]).into_owned();
            let fetched = Fetched {
                status: 200,
                content_type: types[chosen].map(str::to_owned),
                terms: TermsHeaders {
                    robots_tags: vec![header.clone()],
                    tdm_reservation: vec![header.clone()],
                    tdm_policy: vec![header.clone()],
                    content_signals: vec![header.clone()],
                    links: vec![header],
                },
                validators: Validators::default(),
                body: Bytes::copy_from_slice(input),
                truncated: false,
                elapsed: Duration::ZERO,
                date: None,
            };
            let options = &all[0];
            let Ok(page) = extract(&base, &fetched, options) else {
                return;
            };
            for options in &all[1..] {
                let chosen = extract(&base, &fetched, options).unwrap();
                assert_eq!(chosen.blocks.is_empty(), page.blocks.is_empty());
                // No matter where they are among the blocks.
                let targets = |links: &[Link]| -> Vec<_> {
                    let links = links.iter();
                    links.map(|l| (l.url.clone(), l.anchor.clone())).collect()
                };
                assert_eq!(targets(&chosen.links), targets(&page.links));
                assert_eq!(chosen.images, page.images);
                let mut rest = page.blocks.iter();
                assert!(chosen.blocks.iter().all(|b| rest.any(|other| other == b)));
            }
            assert!(page.blocks.iter().all(|block| !block.trim().is_empty()));
            assert!(page.links.len() <= options.max_links);
            assert!(page.images.len() <= options.max_images);
            for link in &page.links {
                canonical(&link.url);
            }
            for image in &page.images {
                canonical(&image.url);
                assert!(image.texts.parents.len() <= options.parents);
            }
            assert!(encoding_rs::Encoding::for_label(page.charset.as_bytes()).is_some());
        }),
    }
}

fn pictures() -> Vec<Vec<u8>> {
    let picture = RgbImage::from_fn(24, 18, |x, y| {
        image::Rgb([(x * 10) as u8, (y * 13) as u8, (x * y) as u8])
    });
    let picture = image::DynamicImage::from(picture);
    let formats = [
        ImageFormat::Png,
        ImageFormat::Jpeg,
        ImageFormat::Gif,
        ImageFormat::WebP,
        ImageFormat::Bmp,
        ImageFormat::Tiff,
        ImageFormat::Ico,
    ];
    let mut seeds: Vec<Vec<u8>> = formats
        .iter()
        .map(|format| {
            let picture = match format {
                ImageFormat::Ico => picture.to_rgba8().into(),
                _ => picture.clone(),
            };
            let mut file = Cursor::new(Vec::new());
            picture.write_to(&mut file, *format).unwrap();
            file.into_inner()
        })
        .collect();
    let mut film = Vec::new();
    let mut encoder = image::codecs::gif::GifEncoder::new(&mut film);
    for turned in [picture.rotate180(), picture.clone()] {
        encoder
            .encode_frame(image::Frame::new(turned.to_rgba8()))
            .unwrap();
    }
    drop(encoder);
    seeds.push(film);
    seeds.extend(bytes(&[
        "<svg xmlns='http://www.w3.org/2000/svg' width='9'><script/></svg>",
    ]));
    seeds
}

pub(super) fn picture() -> Target {
    Target {
        name: "picture",
        seeds: pictures(),
        words: &[
            "IHDR",
            "IDAT",
            "IEND",
            "acTL",
            "fcTL",
            "RIFF",
            "VP8X",
            "VP8L",
            "ANIM",
            "GIF89a",
            "\u{0}\u{0}",
            "BM",
            "II*\u{0}",
            "MM\u{0}*",
            "<svg",
            "\u{7f}\u{7f}\u{7f}\u{7f}",
            "JFIF",
            "Exif",
        ],
        cases: 512,
        run: Box::new(|input| {
            if let Ok(mut info) = picture::inspect(input) {
                assert_eq!(info.sha256.len(), 64);
                assert!(picture::extensions(&info.format).contains(&info.extension));
                let looked = info.look(input);
                assert!(looked.is_ok() || !info.decoded);
            }
            drop((picture::hash_file(input), picture::decode_file(input)));
        }),
    }
}

const SIDECAR: &str = r#"{"version":1,"url":"http://a.org/cat.png","file":"images/2026-01-02/a.org/cat.png","bytes":68,"sha256":"00","format":"png","width":400,"height":300,"animated":false,"decoded":true,"phash":"00ff00ff00ff00ff","mislabelled":null,"content_type":"image/png","fetched":"2026-01-02T03:04:05Z","terms":{"robots":{},"licences":[]},"contexts":[{"page":"http://a.org/","page_title":"Cats","page_language":"en","document_perplexity":12.5,"declared_width":null,"declared_height":null,"found":["img","open_graph"],"class":null,"link_target":null,"alt":"a cat","alt_kind":"written","title":null,"file_name":"cat","parents":["a","b"],"siblings":[],"scores":{"alt":{"perplexity":1.5,"keyword":0.1,"weighted":1.2},"title":null,"file_name":null,"parents":[],"siblings":[]},"rank":3.5}]}"#;

pub(super) fn sidecar() -> Target {
    Target {
        name: "sidecar",
        seeds: bytes(&[SIDECAR]),
        words: &[
            "null",
            "[]",
            "{}",
            "\"\"",
            "1e999",
            "-0",
            "18446744073709551616",
            "[[[[[[[[",
            "\"version\":2",
            "\\ud800",
            "\"contexts\":[",
            "NaN",
        ],
        cases: 2_000,
        run: Box::new(|input| {
            if let Ok(sidecar) = serde_json::from_slice::<Sidecar>(input) {
                let text = serde_json::to_string(&sidecar).unwrap();
                let again: Sidecar = serde_json::from_str(&text).unwrap();
                assert_eq!(serde_json::to_string(&again).unwrap(), text);
            }
        }),
    }
}

pub(super) fn config() -> Target {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let mut seeds: Vec<Vec<u8>> = ["cats.toml", "demo.toml", "reference.toml"]
        .iter()
        .map(|name| std::fs::read(folder.join(name)).unwrap())
        .collect();
    // The keys that the reference shows commented out.
    let shown = text(&seeds[2]);
    let shown: Vec<&str> = shown
        .lines()
        .map(|line| line.strip_prefix("# ").unwrap_or(line))
        .collect();
    let keys = shown
        .iter()
        .filter(|line| line.contains(" = ") || line.starts_with('['));
    seeds.push(keys.copied().collect::<Vec<_>>().join("\n").into_bytes());
    Target {
        name: "config",
        seeds,
        words: &[
            "[job]\n",
            "[[seeds.watch]]\n",
            "= [",
            "= {",
            "\"\"\"",
            "'",
            "1e400",
            "-1",
            "\"0s\"",
            "\"99999999999999d\"",
            "\"1 EiB\"",
            "inf",
            "1979-05-27",
            "regex:(((",
            "host:",
            "[",
            "]\n",
            "network.proxy = 'http://u:p@x'\n",
            "::[::1]:1",
            "\u{feff}",
        ],
        cases: 512,
        run: Box::new(|input| {
            match Config::parse(&text(input), "x.toml") {
                Ok(config) => {
                    // A configuration that is written and read again is the same.
                    let written = config.to_toml();
                    let again = Config::parse(&written, "again.toml").unwrap();
                    assert_eq!(again.to_toml(), written);
                    assert_eq!(config.changes(&again), []);
                }
                Err(errors) => assert!(errors.to_string().contains("x.toml")),
            }
        }),
    }
}

pub(super) fn formula() -> Target {
    Target {
        name: "formula",
        seeds: bytes(&[
            "sqrt(alt.weighted * parent1.weighted)",
            "min(alt.perplexity, 2^3^2) - -log10(document) / (1 + exp(parent0.keyword))",
            "max(abs(ln(title.weighted)), sibling0.perplexity)",
        ]),
        words: &[
            "sqrt(", "min(", ")", "((((((((", "^", "-", "--", "1e308", ".5", "alt.", "parent99",
            ",",
        ],
        cases: 2_000,
        run: Box::new(|input| {
            let text = text(input);
            let key = toml::Value::String(text.clone());
            let file = format!("job.name = 'x'\nrank.formula = {key}");
            let Ok(config) = Config::parse(&file, "x.toml") else {
                return;
            };
            let formula = config.settings.rank.formula.unwrap();
            let value = || {
                let next = std::cell::Cell::new(0.5);
                formula
                    .evaluate(|_| next.replace(next.get() * -1.5))
                    .to_bits()
            };
            assert_eq!(value(), value());
        }),
    }
}

pub(super) fn tdmrep() -> Target {
    let asked = url("http://a.org/images/cat.png?x=1");
    Target {
        name: "tdmrep",
        seeds: bytes(&[
            r#"[{"location":"/images/*.png$","tdm-reservation":1,"tdm-policy":"/policy.json"},{"location":"/","tdm-reservation":0}]"#,
            r#"{"location":"*","tdm-reservation":1}"#,
        ]),
        words: &[
            "\"location\":",
            "\"tdm-reservation\":",
            "*",
            "$",
            "%",
            "[[[[",
            "{}",
            "null",
            "1.0",
            "\"1\"",
        ],
        cases: 2_000,
        run: Box::new(move |input| {
            let read = robots::parse_tdmrep(input);
            let is_unread = read.is_err();
            let rules = read.unwrap_or_else(|_| robots::reserve_all());
            let terms = robots::tdm_terms(&rules, &asked);
            assert!(!rules.is_empty() || terms == Default::default());
            assert!(!is_unread || terms.tdm_reservation == Some(true));
        }),
    }
}

pub(super) fn sitemap() -> Target {
    let base = url("http://a.org/sitemap.xml");
    let xml = "<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>\
        <url><loc>http://a.org/a?b&amp;c</loc><lastmod>2026-01-02T03:04:05+01:00</lastmod></url></urlset>";
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, xml.as_bytes()).unwrap();
    let mut seeds = bytes(&[
        xml,
        "<sitemapindex><sitemap><loc>http://a.org/2.xml.gz</loc></sitemap></sitemapindex>",
        "<rss version='2.0'><channel><item><link>http://a.org/x</link><pubDate>Thu, 01 Jan 2026 00:00:00 GMT</pubDate></item></channel></rss>",
        "<feed xmlns='http://www.w3.org/2005/Atom'><entry><link rel='alternate' href='/e'/><updated>2026-01-01</updated></entry></feed>",
        "http://a.org/1\nhttp://a.org/2\r\n",
    ]);
    seeds.push(packed.finish().unwrap());
    Target {
        name: "sitemap",
        seeds,
        words: &[
            "<loc>",
            "</loc>",
            "<url>",
            "<!DOCTYPE a [<!ENTITY b \"&b;&b;\">]>",
            "&b;",
            "<![CDATA[",
            "]]>",
            "<?",
            "?>",
            "<lastmod>",
            "9999-99-99",
            "-0001-01-01",
            "<a><a><a><a>",
            "\u{1f}\u{8b}",
        ],
        cases: 2_000,
        run: Box::new(move |input| {
            let read = sitemap::read(&base, input);
            assert!(read.pages.len() + read.sitemaps.len() <= sitemap::MAX_ENTRIES);
            for entry in read.pages.iter().chain(&read.sitemaps) {
                canonical(&entry.url);
            }
        }),
    }
}

pub(super) fn votes() -> Target {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        r#"{"vote":1,"time":"2026-01-02T03:04:05Z","annotator":"ann","image":"00ff","url":"http://a.org/c.png","question":"image","answer":"cat","gold":null}"#,
        r#"{"vote":2,"time":"2026-01-02T03:04:06Z","annotator":"bob","image":"00ff","url":"http://a.org/c.png","question":"text","answer":"fits","gold":"fits"}"#,
        r#"{"undo":1,"time":"2026-01-02T03:04:07Z","annotator":"ann"}"#,
    ];
    let section = Config::parse("job.name = 'x'", "x.toml")
        .unwrap()
        .settings
        .annotate;
    Target {
        name: "votes",
        seeds: vec![
            format!("{}\n", lines.join("\n")).into_bytes(),
            format!("{}\n", lines[..2].join("\n")).into_bytes(),
        ],
        words: &[
            "\"vote\":",
            "\"undo\":",
            "18446744073709551615",
            "0",
            "null",
            "\n",
            "{}",
            "\"text\"",
        ],
        cases: 512,
        run: Box::new(move |input| {
            let path = folder.path().join(votes::FOLDER);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join(votes::FILE), input).unwrap();
            match votes::read(folder.path()) {
                Ok(read) => {
                    let all = read.len();
                    assert!(votes::qualified(read, &section).len() <= all);
                }
                Err(error) => assert!(error.to_string().contains(votes::FILE)),
            }
        }),
    }
}
