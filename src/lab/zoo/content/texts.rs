//! Texts that lie about their encoding, and words that harm programs which print, open or store
//! them.

use super::{Case, Expect, Parts, Reply, Serve, chain, repeat, whole};
use crate::{picture, tarpits};

/// The cases of this group.
pub(super) fn cases() -> Vec<Case> {
    let page = |(name, about, content_type, body)| {
        super::case(
            name,
            about,
            "/case",
            content_type,
            body,
            Expect::done("page"),
        )
    };
    let binary = |(name, about, content_type, body)| {
        let expect = Expect::dropped("page", "content_type");
        super::case(name, about, "/case", content_type, body, expect)
    };
    let mut cases: Vec<Case> = CHARSETS.iter().copied().map(page).collect();
    cases.extend(BINARY.iter().copied().map(binary));
    cases.extend(
        FILES
            .iter()
            .map(|((name, about, content_type, body), error)| {
                let expect = Expect::dropped("page", "bad_pdf").saying(error);
                super::case(name, about, "/case", content_type, *body, expect)
            }),
    );
    cases.push(words());
    cases
}

/// Name, description, `Content-Type`, and body.
type TextRow = (&'static str, &'static str, &'static str, fn() -> Parts);

#[rustfmt::skip]
const CHARSETS: &[TextRow] = &[
    ("charset-not-utf8", "says UTF-8 and is Latin-1", "text/html; charset=utf-8",
        || whole(&b"<meta charset=utf-8><p>K\xe4tzchen, the end"[..])),
    ("charset-meta-utf16", "a meta element says UTF-16, in ASCII", "text/html",
        || whole("<meta charset=utf-16><p>Kätzchen, the end")),
    ("charset-header-utf16", "the header says UTF-16, and it is ASCII", "text/html; charset=utf-16be",
        || whole("<p>Kaetzchen, the end")),
    ("charset-two", "two meta elements and a comment say three things", "text/html",
        || whole(&b"<!-- <meta charset=big5> --><meta charset=iso-8859-1><meta charset=koi8-r><p>K\xe4tzchen, the end"[..])),
    ("charset-mark", "a byte order mark against the header and a meta element", "text/html; charset=utf-16le",
        || whole(&b"\xef\xbb\xbf<meta charset=koi8-r><p>K\xc3\xa4tzchen, the end"[..])),
    ("charset-unknown", "labels that are none", "text/html; charset=\"; charset='\"x",
        || whole("<meta charset='\u{0}'><meta http-equiv=content-type content='charset'><p>Kätzchen, the end")),
    ("charset-utf7", "UTF-7 with a script", "text/html; charset=utf-7",
        || whole("<meta charset=utf-7><p>+ADw-script+AD4-alert(1)+ADw-/script+AD4- the end")),
    ("charset-iso-2022-jp", "escapes that hide markup", "text/html; charset=iso-2022-jp",
        || whole(&b"<p>\x1b$B<img src=x onerror=alert(1)>\x1b(B\x1b(J the end \x1b$"[..])),
    ("charset-hz", "an encoding that browsers refuse", "text/html; charset=hz-gb-2312",
        || whole("<p>~{<script>~}alert(1) the end")),
    ("charset-overlong", "overlong forms, surrogates and bytes that are no UTF-8", "text/html; charset=utf-8",
        || whole(&b"<p>\xc0\xbcscript\xc0\xbe \xe0\x80\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xff\xfe the end"[..])),
    ("charset-late", "a meta element behind 60 KB", "text/html",
        || chain([repeat("<link rel=x>", 5_000), whole(&b"<meta charset=koi8-r><p>\xcb\xcf\xdb\xcb\xc1 the end"[..])])),
    ("nul-rare", "NUL bytes within words, tags and attributes", "text/html",
        || chain([whole("<p>some words of an honest text that say little "), repeat("many words in a row, and more of them so that NUL is rare <a\u{0} hr\u{0}ef='/x.zip'>x</a>", 2_000), whole(" the end")])),
    ("utf16-header", "UTF-16 without a mark, which the header names", "text/html; charset=utf-16le",
        || whole("<p>Kätzchen, the end".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>())),
    ("plain-blocks", "plain text of two million blocks", "text/plain", || repeat("a\n\n", 2_000_000)),
];

#[rustfmt::skip]
const BINARY: &[TextRow] = &[
    ("utf16-le", "UTF-16LE without a mark or a name", "text/html",
        || whole("<p>Katzen, the end".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>())),
    ("utf16-be", "UTF-16BE without a mark or a name", "text/html",
        || whole("<p>Katzen, the end".encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>())),
    ("nul-everywhere", "NUL bytes and little else", "text/html", || repeat("\u{0}<\u{0}p\u{0}>\u{0}", 1_000_000)),
    ("binary-text", "a program that is sent as HTML", "text/html", || chain([whole(&b"\x7fELF\x02\x01\x01\x00"[..]), repeat("\u{0}\u{1}\u{2}\u{3}x", 100_000)])),
    ("svg-page", "an SVG with a script, an entity of a file and a billion laughs, as a page", "image/svg+xml", || whole(super::images::SVG)),
];

#[rustfmt::skip]
const FILES: &[(TextRow, &str)] = &[
    (("pdf-page", "a PDF with nothing in it", "application/pdf", || whole("%PDF-1.7\n%\u{1}\u{2}")), "damaged"),
    (("pdf-forms", "a PDF whose forms show one another 2^40 times", "application/pdf", || whole(tarpits::bomb(0))), "timeout"),
];

/// Words for titles, alts and file names.
pub(super) const EVIL: &[&str] = &[
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>",
    "\u{1b}[2J\u{1b}[31m\u{1b}]0;owned\u{7}\u{9b}2J",
    "photo\u{202e}gpj.exe\u{2066}\u{200f}",
    "../../../../etc/passwd\u{0}.png",
    "..\\..\\con.png",
    "=HYPERLINK(\"http://evil.test\",\"x\")",
    "\t +cmd|'/c calc'!A1",
    "@SUM(1+1)",
    "\u{ff1d}1+1",
    "-2+3",
    "\"a\tb\r\nc\"",
    "CON",
    "a\u{2028}b\u{2029}c\u{85}d",
    "{{7*7}}${7*7}%n%s",
];

/// An image on the page of hostile words, whose name escapes every folder.
const NAMED: &str = "http://evil-words.zoo.test/..%2F..%2F%1B%5B31m%E2%80%AEgpj.exe/CON.png";

/// A page whose title, alts and file names are all [`EVIL`].
fn words() -> Case {
    Case {
        name: "evil-words",
        about: "titles, alts and file names that mean harm",
        path: "/case",
        serve: Serve::paths(|path| match path {
            "/case" => Reply::new("text/html; charset=utf-8", evil_page()),
            path => match picture::draw(path, 160, 120) {
                Ok(drawn) => Reply::new(drawn.content_type, drawn.bytes),
                Err(_) => Reply::new("text/plain", "no picture").status(500),
            },
        }),
        expect: Expect::done("page"),
    }
}

/// The page of [`words`].
fn evil_page() -> String {
    let escaped = |text: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        text.replace('"', "&quot;")
    };
    let mut html = String::from("<!DOCTYPE html><meta charset=utf-8><title>");
    EVIL.iter().for_each(|evil| html.push_str(&escaped(evil)));
    html.push_str(&"long ".repeat(1_000));
    html.push_str("</title>");
    for (n, evil) in EVIL.iter().enumerate() {
        let evil = escaped(evil);
        let file: String = evil.replace(['#', '?'], "_");
        html.push_str(&format!(
            "<p title=\"{evil}\">{evil}<img src=\"/{n}/{file}.png\" alt=\"{evil}\" class=\"{evil}\"></p>"
        ));
    }
    let path = NAMED
        .strip_prefix("http://evil-words.zoo.test")
        .unwrap_or_default();
    html.push_str(&format!(
        "<img src='{path}' alt='{}'>",
        "word ".repeat(1_000)
    ));
    html
}
