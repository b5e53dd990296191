//! Sitemaps: the addresses that a site lists (sitemaps.org).
//!
//! [`read`] parses the XML forms (`urlset`, `sitemapindex`), RSS, Atom and plain text,
//! with or without gzip. A broken file is read up to the error. It is pure: bytes in,
//! addresses out; this module does not know when a sitemap is fetched or how its addresses
//! are used.

use std::borrow::Cow;
use std::io::Read;

use jiff::civil::Date;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::address::PageUrl;

/// The most uncompressed bytes of one file that are read (sitemaps.org).
pub const MAX_BYTES: usize = 50 << 20;

/// The most addresses of one file (sitemaps.org).
pub const MAX_ENTRIES: usize = 50_000;

/// The most bytes of all addresses of one file, enough for [`MAX_ENTRIES`] of 335:
/// addresses relative to a long base take much more than the file itself.
const MAX_ADDRESS_BYTES: usize = 16 << 20;

/// The longest field, in bytes; an entry with a longer one is skipped.
const MAX_FIELD_BYTES: usize = 32 << 10;

/// The deepest nesting; a sitemap has four levels, while a feed may contain whole pages.
const MAX_DEPTH: usize = 1_000;

/// The most entries, or lines that are not blank, with or without an address.
const MAX_READ: usize = 2 * MAX_ENTRIES;

/// The longest problem report, in characters; names in it come from the site.
const MAX_TROUBLE_CHARS: usize = 200;

/// The content of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sitemap {
    /// Further sitemaps, if it is an index.
    pub sitemaps: Vec<SitemapUrl>,
    /// Pages.
    pub pages: Vec<SitemapUrl>,
    /// Why it was not read to its end, if that happened.
    pub trouble: Option<String>,
    /// Bytes of all its addresses.
    address_bytes: usize,
}

/// One address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SitemapUrl {
    /// Where it is.
    pub url: PageUrl,
    /// The day of its last change, as the site states it.
    pub modified: Option<Date>,
}

/// Parses the sitemap at `base`. Every input is accepted; invalid addresses are left out.
pub fn read(base: &PageUrl, bytes: &[u8]) -> Sitemap {
    let mut sitemap = Sitemap::default();
    let mut bytes = Cow::Borrowed(bytes);
    if bytes.starts_with(&[0x1F, 0x8B]) {
        let mut unpacked = Vec::new();
        let mut decoder = flate2::read::MultiGzDecoder::new(&*bytes).take(MAX_BYTES as u64 + 1);
        if let Err(error) = decoder.read_to_end(&mut unpacked) {
            sitemap.trouble = Some(format!("the gzip file is damaged: {error}"));
        }
        bytes = unpacked.into();
    }
    if bytes.len() > MAX_BYTES {
        sitemap.trouble = Some(format!("longer than {MAX_BYTES} bytes"));
        match &mut bytes {
            Cow::Borrowed(bytes) => *bytes = bytes.get(..MAX_BYTES).unwrap_or_default(),
            Cow::Owned(bytes) => bytes.truncate(MAX_BYTES),
        }
    }
    let text = text_of(bytes);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let trouble = if text.starts_with('<') {
        xml(base, text, &mut sitemap)
    } else {
        plain(text, &mut sitemap)
    };
    // If the bytes end too early, the content is incomplete as well.
    let trouble = sitemap.trouble.take().or(trouble);
    sitemap.trouble = trouble.map(|words| words.chars().take(MAX_TROUBLE_CHARS).collect());
    sitemap
}

/// The bytes as text of the same length: invalid UTF-8 becomes U+001A, because the usual U+FFFD
/// would turn each byte of a large binary file into three. Uncompressed data is not copied.
fn text_of(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    if let Cow::Borrowed(bytes) = bytes
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        return text.into();
    }
    let mut bytes = bytes.into_owned();
    let mut at = 0;
    while let Err(error) = std::str::from_utf8(bytes.get(at..).unwrap_or_default()) {
        let from = at + error.valid_up_to();
        at = error.error_len().map_or(bytes.len(), |n| from + n);
        if let Some(broken) = bytes.get_mut(from..at) {
            broken.fill(0x1A);
        }
    }
    String::from_utf8(bytes).unwrap_or_default().into()
}

impl Sitemap {
    /// Keeps an entry; returns the reason if no further one is accepted.
    fn push(&mut self, entry: SitemapUrl, index: bool) -> Option<String> {
        self.address_bytes += entry.url.as_str().len();
        if index {
            self.sitemaps.push(entry)
        } else {
            self.pages.push(entry)
        }
        if self.sitemaps.len() + self.pages.len() >= MAX_ENTRIES {
            return Some(format!("it lists more than {MAX_ENTRIES} addresses"));
        }
        (self.address_bytes > MAX_ADDRESS_BYTES)
            .then(|| format!("its addresses take more than {MAX_ADDRESS_BYTES} bytes"))
    }
}

/// Parses one address per line.
fn plain(text: &str, sitemap: &mut Sitemap) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    for (number, line) in lines.enumerate() {
        if number >= MAX_READ {
            return Some(format!("it has more than {MAX_READ} lines"));
        }
        let Ok(url) = PageUrl::parse(line) else {
            continue;
        };
        let modified = None;
        if let Some(full) = sitemap.push(SitemapUrl { url, modified }, false) {
            return Some(full);
        }
    }
    let nothing = sitemap.pages.is_empty() && !text.is_empty();
    nothing.then(|| "not a sitemap: neither XML nor a list of addresses".to_owned())
}

/// The use of an element's text.
#[derive(Clone, Copy, PartialEq)]
enum SitemapField {
    Address,
    Modified,
}

/// The entry being read.
struct SitemapDraft {
    /// The depth of its element; its fields are one level deeper, and even deeper elements (the
    /// images of Google's extension) are not its own.
    depth: usize,
    index: bool,
    feed: bool,
    address: String,
    modified: String,
    /// A field exceeds the limit.
    too_long: bool,
}

impl SitemapDraft {
    fn begun_by(name: &str, depth: usize) -> Option<Self> {
        let feed = matches!(name, "item" | "entry");
        (feed || matches!(name, "url" | "sitemap")).then(|| Self {
            depth,
            index: name == "sitemap",
            feed,
            address: String::new(),
            modified: String::new(),
            too_long: false,
        })
    }

    /// The field that an element at `depth` holds.
    fn field(&self, name: &str, depth: usize) -> Option<SitemapField> {
        if depth != self.depth + 1 {
            return None;
        }
        match (name, self.feed) {
            ("loc", false) | ("link", true) => Some(SitemapField::Address),
            ("lastmod", false) | ("updated" | "pubDate", true) => Some(SitemapField::Modified),
            _ => None,
        }
    }

    fn push(&mut self, field: SitemapField, text: &str) {
        let field = match field {
            SitemapField::Address => &mut self.address,
            SitemapField::Modified => &mut self.modified,
        };
        if field.len() + text.len() > MAX_FIELD_BYTES {
            self.too_long = true
        } else {
            field.push_str(text)
        }
    }

    fn entry(&self, base: &PageUrl) -> Option<SitemapUrl> {
        let address = self.address.trim();
        if self.too_long {
            return None;
        }
        let url = base.join(address).ok().filter(|_| !address.is_empty())?;
        let modified = day(self.modified.trim());
        Some(SitemapUrl { url, modified })
    }
}

/// The day of a W3C date (`2026-01-02T03:04:05Z`) or, in RSS, of an RFC 2822 one.
fn day(text: &str) -> Option<Date> {
    let iso = text.get(..10).and_then(|day| day.parse().ok());
    let mail = || jiff::fmt::rfc2822::parse(text).ok().map(|time| time.date());
    iso.or_else(mail)
}

fn xml(base: &PageUrl, text: &str, sitemap: &mut Sitemap) -> Option<String> {
    let mut reader = Reader::from_str(text);
    // Addresses whose `&` is not escaped are common.
    reader.config_mut().allow_dangling_amp = true;
    let mut depth = 0;
    let mut entries = 0;
    let mut draft: Option<SitemapDraft> = None;
    let mut field: Option<SitemapField> = None;
    loop {
        let event = match reader.read_event() {
            Ok(event) => event,
            Err(error) => return Some(format!("at byte {}: {error}", reader.error_position())),
        };
        match &event {
            Event::Start(start) => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Some(format!(
                        "its elements are nested more than {MAX_DEPTH} deep"
                    ));
                }
                let name = start.local_name();
                let name = name.as_ref();
                if depth == 1 && !is_root(name) {
                    return Some(format!("not a sitemap: its root is `{name}`"));
                }
                match &mut draft {
                    None => draft = SitemapDraft::begun_by(name, depth),
                    Some(draft) => {
                        field = draft.field(name, depth);
                        take_href(draft, field, start);
                    }
                }
            }
            Event::Empty(start) => {
                if let Some(draft) = &mut draft {
                    let name = start.local_name();
                    let field = draft.field(name.as_ref(), depth + 1);
                    take_href(draft, field, start);
                }
            }
            Event::End(_) => {
                field = None;
                if draft.as_ref().is_some_and(|d| d.depth == depth)
                    && let Some(done) = draft.take()
                {
                    entries += 1;
                    if entries > MAX_READ {
                        return Some(format!("it has more than {MAX_READ} entries"));
                    }
                    if let Some(entry) = done.entry(base)
                        && let Some(full) = sitemap.push(entry, done.index)
                    {
                        return Some(full);
                    }
                }
                depth = depth.saturating_sub(1);
            }
            Event::Eof => return (depth > 0).then(|| "it ends within an element".to_owned()),
            other => {
                if let (Some(draft), Some(field)) = (&mut draft, field) {
                    take_text(draft, field, other);
                }
            }
        }
    }
}

fn is_root(name: &str) -> bool {
    matches!(name, "urlset" | "sitemapindex" | "rss" | "RDF" | "feed")
}

/// The address of an Atom link is in an attribute.
fn take_href(draft: &mut SitemapDraft, field: Option<SitemapField>, start: &BytesStart<'_>) {
    if field != Some(SitemapField::Address) || !draft.feed || !draft.address.is_empty() {
        return;
    }
    let value = |name: &str| {
        let attribute = start.try_get_attribute(name).ok().flatten()?;
        let version = quick_xml::XmlVersion::Implicit1_0;
        attribute
            .normalized_value(version)
            .ok()
            .map(|v| v.into_owned())
    };
    if value("rel").is_none_or(|rel| rel == "alternate") {
        let href = value("href").unwrap_or_default();
        draft.push(SitemapField::Address, &href);
    }
}

fn take_text(draft: &mut SitemapDraft, field: SitemapField, event: &Event<'_>) {
    match event {
        Event::Text(text) => draft.push(field, &text.xml10_content()),
        Event::CData(text) => draft.push(field, &text.xml10_content()),
        Event::GeneralRef(name) => match name.resolve_char_ref() {
            Ok(Some(c)) => draft.push(field, c.encode_utf8(&mut [0; 4])),
            _ => {
                let name = name.xml10_content();
                let known = quick_xml::escape::resolve_xml_entity(&name);
                draft.push(field, known.unwrap_or_default());
            }
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use proptest::prelude::*;

    fn base() -> PageUrl {
        PageUrl::parse("https://example.org/maps/a.xml").unwrap()
    }

    fn of(text: &str) -> Sitemap {
        read(&base(), text.as_bytes())
    }

    fn listed(entries: &[SitemapUrl]) -> Vec<String> {
        let shown = |e: &SitemapUrl| match e.modified {
            Some(day) => format!("{} {day}", e.url),
            None => e.url.to_string(),
        };
        entries.iter().map(shown).collect()
    }

    fn packed(text: &str) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(text.as_bytes()).unwrap();
        out.finish().unwrap()
    }

    const URLSET: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
        <urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" xmlns:image=\"x\" xmlns:xhtml=\"y\">\n\
        <!-- a comment --><url><loc> https://example.org/a?x=1&amp;y=&#50; </loc>\
        <lastmod>2026-03-04T05:06:07+01:00</lastmod><priority>1</priority>\
        <image:image><image:loc>https://example.org/i.png</image:loc></image:image></url>\
        <url><xhtml:link rel=\"alternate\" href=\"https://example.org/de\"/>\
        <loc><![CDATA[https://example.org/b?x=1&y=2]]></loc><lastmod>soon</lastmod></url>\
        <url><loc>/relative?a=1&b=2</loc><lastmod>2025-01-01</lastmod></url>\
        <url><loc>mailto:a@example.org</loc></url><url><loc></loc></url></urlset>";

    const PAGES: [&str; 3] = [
        "https://example.org/a?x=1&y=2 2026-03-04",
        "https://example.org/b?x=1&y=2",
        "https://example.org/relative?a=1&b=2 2025-01-01",
    ];

    #[test]
    fn pages_with_their_days_packed_or_not() {
        for bytes in [URLSET.as_bytes().to_vec(), packed(URLSET)] {
            let sitemap = read(&base(), &bytes);
            assert_eq!(listed(&sitemap.pages), PAGES);
            assert_eq!((sitemap.sitemaps.len(), sitemap.trouble), (0, None));
        }
    }

    #[test]
    fn an_index_lists_sitemaps() {
        let sitemap = of(
            "<s:sitemapindex xmlns:s='x'><s:sitemap><s:loc>https://example.org/1.xml.gz</s:loc>\
             <s:lastmod>2026-01-02</s:lastmod></s:sitemap><s:sitemap><s:loc>https://cdn.example/2.xml</s:loc>\
             </s:sitemap></s:sitemapindex>",
        );
        assert_eq!(
            listed(&sitemap.sitemaps),
            [
                "https://example.org/1.xml.gz 2026-01-02",
                "https://cdn.example/2.xml"
            ]
        );
        assert_eq!((sitemap.pages.len(), sitemap.trouble), (0, None));
    }

    #[test]
    fn feeds_and_lists_of_lines() {
        let rss = of(
            "<rss version='2.0'><channel><link>https://example.org/</link><item><title>x</title>\
             <link>https://example.org/1</link><pubDate>Wed, 04 Mar 2026 05:06:07 GMT</pubDate></item>\
             </channel></rss>",
        );
        assert_eq!(listed(&rss.pages), ["https://example.org/1 2026-03-04"]);
        let atom = of(
            "<feed xmlns='http://www.w3.org/2005/Atom'><link href='https://example.org/'/>\
             <entry><link rel='self' href='https://example.org/self'/><link href='https://example.org/1?a&amp;b'/>\
             <updated>2026-03-04T05:06:07Z</updated></entry></feed>",
        );
        assert_eq!(
            listed(&atom.pages),
            ["https://example.org/1?a&b 2026-03-04"]
        );
        let text = of("https://example.org/1\r\n\r\nnonsense\nhttps://example.org/2");
        assert_eq!(
            listed(&text.pages),
            ["https://example.org/1", "https://example.org/2"]
        );
        assert_eq!(
            (rss.trouble, atom.trouble, text.trouble),
            (None, None, None)
        );
    }

    #[test]
    fn what_is_broken_is_read_up_to_the_break() {
        let entry = "<url><loc>https://example.org/a</loc></url>";
        for (text, what) in [
            (
                format!("<urlset>{entry}<url><loc>https://example.org/b</"),
                "at byte",
            ),
            (
                format!("<urlset>{entry}<url><loc>https://example.org/b</url>"),
                "at byte",
            ),
            (
                format!("<urlset>{entry}<url><loc>https://example.org/b"),
                "ends within",
            ),
        ] {
            let sitemap = of(&text);
            assert_eq!(listed(&sitemap.pages), ["https://example.org/a"], "{text}");
            let trouble = sitemap.trouble.unwrap();
            assert!(trouble.contains(what), "{trouble}");
        }
        let many: String = (0..2_000)
            .map(|i| format!("<url><loc>https://example.org/{i}</loc></url>"))
            .collect();
        let mut bytes = packed(&format!("<urlset>{many}</urlset>"));
        bytes.truncate(bytes.len() - 200);
        let sitemap = read(&base(), &bytes);
        assert!(
            (1_000..2_000).contains(&sitemap.pages.len()),
            "{}",
            sitemap.pages.len()
        );
        assert!(sitemap.trouble.unwrap().contains("gzip"));
    }

    #[test]
    fn what_is_no_sitemap_says_so() {
        for text in [
            "<!DOCTYPE html><html><body>Not found</body></html>",
            "Not found",
            "\u{1}\u{2}",
        ] {
            let sitemap = of(text);
            assert!(sitemap.pages.is_empty() && sitemap.sitemaps.is_empty());
            assert!(sitemap.trouble.unwrap().contains("not a sitemap"), "{text}");
        }
        assert_eq!(of("<urlset></urlset>"), Sitemap::default());
        assert_eq!(of(""), Sitemap::default());
    }

    #[test]
    fn the_limits_hold() {
        let many: String = (0..=MAX_ENTRIES)
            .map(|i| format!("https://example.org/{i}\n"))
            .collect();
        let text = of(&many);
        assert_eq!(text.pages.len(), MAX_ENTRIES);
        assert!(text.trouble.unwrap().contains("50000"));
        let urls = many.lines().map(|u| format!("<url><loc>{u}</loc></url>"));
        let xml = of(&format!("<urlset>{}</urlset>", urls.collect::<String>()));
        assert_eq!(xml.pages.len(), MAX_ENTRIES);
        assert!(xml.trouble.is_some());
        let bomb = packed(&format!(
            "https://example.org/a\n{}\nhttps://example.org/b",
            " ".repeat(MAX_BYTES)
        ));
        assert!(bomb.len() < 1_000_000);
        let sitemap = read(&base(), &bomb);
        assert_eq!(listed(&sitemap.pages), ["https://example.org/a"]);
        assert!(sitemap.trouble.unwrap().contains("longer"));
    }

    #[test]
    fn a_long_base_makes_no_more_of_the_addresses() {
        let long = base().join(&format!("/{}/", "b".repeat(7_900))).unwrap();
        let entries = |address: &str| {
            let many = format!("<url><loc>{address}</loc></url>").repeat(MAX_READ + 1);
            read(&long, format!("<urlset>{many}").as_bytes())
        };
        let kept = entries("?1");
        assert!(kept.pages.len() * 7_900 <= MAX_ADDRESS_BYTES + 8_000);
        assert!(kept.trouble.unwrap().contains("take more than"));
        let none = entries(&format!("?{}", "x".repeat(100)));
        assert_eq!(none.pages.len(), 0);
        assert!(none.trouble.unwrap().contains("entries"));
    }

    #[test]
    fn bytes_that_are_no_text_take_no_more_room() {
        let text = text_of(Cow::Borrowed(b"<\xff\xfe\xe4 \xc3\xa4>"));
        assert_eq!(text, "<\u{1a}\u{1a}\u{1a} \u{e4}>");
        assert_eq!(text.len(), 8);
        let latin = b"<urlset><url><loc>/a</loc><x>K\xe4tzchen</x></url></urlset>";
        assert_eq!(
            listed(&read(&base(), latin).pages),
            ["https://example.org/a"]
        );
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn any_bytes_have_a_reading(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(read(&base(), &bytes).pages.len() <= 300);
        }

        #[test]
        fn any_damage_has_a_reading(at in 0..URLSET.len(), byte in any::<u8>(), gzip: bool) {
            let mut bytes = if gzip { packed(URLSET) } else { URLSET.as_bytes().to_vec() };
            let at = at % bytes.len();
            bytes[at] = byte;
            prop_assert!(read(&base(), &bytes).pages.len() <= 5);
        }
    }
}
