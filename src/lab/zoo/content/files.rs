//! Hostile files about a host: robots.txt, sitemaps, tdmrep.json. The pages in sitemaps have names
//! of archives, so that they are not fetched.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};

use super::{Case, Expect, Parts, Reply, Serve, chain, many, repeat, whole};

/// The cases of this group.
pub(super) fn cases() -> Vec<Case> {
    let done = |kind: &'static str, path: &'static str, rows: &[FileRow]| -> Vec<Case> {
        let case = |(name, about, content_type, body): FileRow| {
            let most = if kind == "sitemap" {
                50 << 20
            } else {
                super::super::CAP
            };
            let expect = Expect::done(kind).bytes(most);
            super::case(name, about, path, content_type, body, expect)
        };
        rows.iter().copied().map(case).collect()
    };
    let broken = |(name, about, content_type, body, error)| {
        let expect = match name {
            // All are read, but list more than a host may.
            "sitemap-50001" | "sitemap-long-addresses" => Expect::dropped("sitemap", "list_budget"),
            _ => Expect::done("sitemap"),
        };
        let expect = expect.saying(error).bytes(50 << 20);
        super::case(name, about, "/map.xml", content_type, body, expect)
    };
    let none = |(name, about, content_type, body)| {
        let expect = Expect::dropped("sitemap", "content_type").bytes(50 << 20);
        super::case(name, about, "/map.xml", content_type, body, expect)
    };
    let unread = |(name, about, content_type, body)| {
        let expect = Expect::dropped("tdmrep", "protocol");
        let path = "/.well-known/tdmrep.json";
        super::case(name, about, path, content_type, body, expect)
    };
    let mut cases = done("robots", "/robots.txt", ROBOTS);
    cases.extend(TDMREP.iter().copied().map(unread));
    cases.extend(done("sitemap", "/map.xml", SITEMAPS));
    cases.extend(BROKEN.iter().copied().map(broken));
    cases.extend(NONE.iter().copied().map(none));
    cases.push(ring());
    cases
}

/// Name, description, `Content-Type`, and body.
type FileRow = (&'static str, &'static str, &'static str, fn() -> Parts);

/// The same with the expected text in the log.
type Broken = (
    &'static str,
    &'static str,
    &'static str,
    fn() -> Parts,
    &'static str,
);

#[rustfmt::skip]
const ROBOTS: &[FileRow] = &[
    ("robots-huge", "a robots.txt of 100 MB", "text/plain",
        || chain([whole("User-agent: *\nDisallow: /secret\n"), repeat("# a comment\n", 8_500_000)])),
    ("robots-binary", "a robots.txt of bytes", "text/plain", || many(1_000, |n| (n..n + 256).map(|b| b as u8).collect::<Vec<u8>>())),
    ("robots-line", "a robots.txt of one line of 600 KB", "text/plain",
        || chain([whole("User-agent: *\nDisallow: /"), repeat("abcdefgh", 75_000)])),
    ("robots-stars", "a robots.txt of 100,000 rules with stars", "text/plain",
        || chain([whole("User-agent: *\n"), many(100_000, |n| format!("Disallow: /*{n}*a*b$\n"))])),
    ("robots-one-star", "a robots.txt with one rule of 4,000 stars", "text/plain",
        || chain([whole("User-agent: *\nDisallow: /"), repeat("*a", 4_000), whole("b$\n")])),
    ("robots-agents", "a robots.txt of 100,000 groups", "text/plain",
        || many(100_000, |n| format!("User-agent: bot{n}\nDisallow: /\n"))),
    ("robots-lines", "a robots.txt of line ends", "text/plain", || repeat("\r", 1_000_000)),
    ("robots-utf16", "a robots.txt in UTF-16", "text/plain; charset=utf-16",
        || whole("\u{feff}User-agent: *\nDisallow: /\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>())),
    ("robots-html", "a robots.txt that is a page", "text/html",
        || whole("<!DOCTYPE html><html><p>User-agent: *<br>Disallow: /</html>")),
    ("robots-ansi", "a robots.txt whose rules steer terminals", "text/plain",
        || whole("User-agent: *\nDisallow: /\u{1b}]0;owned\u{7}\u{1b}[2J*\nSitemap: \u{1b}[31m\n")),
    ("robots-delay", "a robots.txt with delays that are none", "text/plain",
        || whole("User-agent: *\nCrawl-delay: -1\nCrawl-delay: NaN\nCrawl-delay: soon\nAllow: /\n")),
    ("robots-delay-huge", "a robots.txt with a delay that no clock holds", "text/plain",
        || whole("User-agent: *\nCrawl-delay: 1e400\nAllow: /\n")),
    ("robots-delay-nines", "a robots.txt with a delay of forty digits", "text/plain",
        || whole(format!("User-agent: *\nCrawl-delay: {}\nAllow: /\n", "9".repeat(40)))),
    ("robots-delay-words", "a robots.txt with a delay in words", "text/plain",
        || whole("User-agent: *\nCrawl-delay: 700 seconds, please\nAllow: /\n")),
    ("robots-delay-line", "a robots.txt with a delay that almost is a number, on lines of 8 KB", "text/plain",
        || chain([whole("User-agent: *\n"), many(60, |_| format!("Crawl-delay: {}\n", "1.1.".repeat(2_000)))])),
    ("robots-signals", "a robots.txt of 20,000 content signals", "text/plain",
        || chain([whole("User-agent: *\n"), many(20_000, |n| format!("Content-Signal: /*{n} s{n}=yes\n"))])),
];

#[rustfmt::skip]
const TDMREP: &[FileRow] = &[
    ("tdmrep-deep", "a tdmrep.json of 100,000 levels", "application/json", || chain([repeat("[", 100_000), repeat("]", 100_000)])),
    ("tdmrep-huge", "a tdmrep.json of 100 MB", "application/json",
        || many(1_000_000, |n| format!("{{\"location\":\"/*{n}*\",\"tdm-reservation\":0}},"))),
    ("tdmrep-cut", "a tdmrep.json without its end", "application/json", || whole("[{\"location\": \"/\", \"tdm-reservation\": 0}, {\"loc")),
];

const URLSET: &str = "<?xml version='1.0' encoding='UTF-8'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>";
const ENTRY: &str = "<url><loc>http://zoo.test/a.zip</loc></url>";

#[rustfmt::skip]
const SITEMAPS: &[FileRow] = &[
    ("sitemap-laughs", "a sitemap with a billion laughs and the entity of a file", "text/xml", || {
        let laughs: String = (1..10).map(|n| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10))).collect();
        whole(format!("<!DOCTYPE urlset [<!ENTITY l0 \"lol\"><!ENTITY f SYSTEM 'file:///etc/passwd'>{laughs}]>\
            <urlset>{ENTRY}<url><loc>http://zoo.test/&l9;.zip</loc></url><url><loc>http://zoo.test/&f;.zip</loc></url></urlset>"))
    }),
    ("sitemap-elsewhere", "a sitemap of other hosts and schemes", "text/xml", || whole(format!(
        "{URLSET}<url><loc>http://127.0.0.1/a.zip</loc></url><url><loc>file:///etc/passwd</loc></url>\
         <url><loc>http://169.254.169.254/a.zip</loc></url><url><loc>http://victim.zoo.test/a.zip</loc></url></urlset>"))),
    ("sitemap-dates", "a sitemap with dates that are none", "text/xml", || whole(format!(
        "{URLSET}<url><loc>/a.zip</loc><lastmod>99999-01-01</lastmod></url><url><loc>/b.zip</loc><lastmod>-0001-13-99T99:99</lastmod></url>\
         <url><loc>/c.zip</loc><lastmod>{}</lastmod></url><url><loc>/d.zip</loc><lastmod>ä0000-0-0-0</lastmod></url></urlset>", "9".repeat(5_000)))),
    ("sitemap-attributes", "a feed whose link has 200,000 attributes", "text/xml", || chain([
        whole("<feed><entry><link"), many(200_000, |n| format!(" a{n}=''")), whole(" href='/a.zip'/></entry></feed>"),
    ])),
    ("sitemap-long-field", "an address of 10 MB and one more", "text/xml", || chain([
        whole(format!("{URLSET}<url><loc>http://zoo.test/")), repeat("abcdefgh", 1_250_000), whole(format!("</loc></url>{ENTRY}</urlset>")),
    ])),
];

#[rustfmt::skip]
const BROKEN: &[Broken] = &[
    ("sitemap-50001", "a sitemap of 50,001 entries", "text/xml", || chain([
        whole(URLSET), many(50_001, |n| format!("<url><loc>http://zoo.test/{n}.zip</loc></url>")), whole("</urlset>"),
    ]), "more than 50000 addresses"),
    ("sitemap-gzip-bomb", "a sitemap of 48 KB that unpacks to 50 MB", "application/gzip", || {
        let packed = gzip(format!("{URLSET}{ENTRY}<!--").as_bytes(), 52);
        whole(packed)
    }, "longer than"),
    ("sitemap-huge", "a sitemap of 100 MB", "text/xml", || chain([
        whole(format!("{URLSET}{ENTRY}<!--")), repeat("words without end and without a link ", 2_800_000), whole("--></urlset>"),
    ]), "at byte"),
    ("sitemap-broken", "a sitemap whose tags steer terminals and do not match", "text/xml", || {
        whole(format!("{URLSET}{ENTRY}<\u{1b}[31m\u{202e}{}></loc></urlset>", "x".repeat(100_000)))
    }, "at byte"),
    ("sitemap-deep", "a sitemap of elements 1,000,000 deep", "text/xml", || chain([
        whole(format!("{URLSET}{ENTRY}")), repeat("<a>", 1_000_000),
    ]), "deep"),
    ("sitemap-long-addresses", "20,000 addresses of 900 bytes", "text/xml", || chain([
        whole(URLSET), many(20_000, |n| format!("<url><loc>/{}{n}.zip</loc></url>", "x".repeat(900))), whole("</urlset>"),
    ]), "take more than"),
    ("sitemap-lines", "a list of 300,000 lines, of which one is an address", "text/plain", || chain([
        whole("http://zoo.test/a.zip\n"), repeat("x\n", 300_000),
    ]), "lines"),
];

#[rustfmt::skip]
const NONE: &[FileRow] = &[
    ("sitemap-html", "a page that is named as a sitemap", "text/html", || whole("<!DOCTYPE html><html><p>Not here")),
    ("sitemap-binary", "10 MB of bytes that are named as a sitemap", "text/xml", || {
        chain([whole("<"), many(40_000, |_| [0xfe_u8; 256])])
    }),
];

/// Two indexes that list each other.
fn ring() -> Case {
    Case {
        name: "sitemap-ring",
        about: "two indexes of sitemaps that list each other",
        path: "/map.xml",
        serve: Serve::paths(|path| {
            let (one, other) = ("/map.xml", "/other.xml");
            let next = if path == one { other } else { one };
            let index = format!(
                "<sitemapindex><sitemap><loc>http://sitemap-ring.zoo.test{next}</loc></sitemap></sitemapindex>"
            );
            Reply::new("text/xml", index)
        }),
        expect: Expect::done("sitemap").at("http://sitemap-ring.zoo.test/other.xml"),
    }
}

/// A text followed by this many megabytes of blanks, packed in members of one megabyte each.
fn gzip(text: &[u8], megabytes: usize) -> Vec<u8> {
    let member = |text: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        // Writing to memory cannot fail.
        let written = encoder.write_all(text);
        debug_assert!(written.is_ok());
        encoder.finish().unwrap_or_default()
    };
    let blanks = member(&[b' '].repeat(1 << 20));
    [member(text), blanks.repeat(megabytes)].concat()
}
