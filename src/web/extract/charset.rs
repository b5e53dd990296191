//! Detects the encoding of a body and decodes it.
//!
//! The order is that of the WHATWG: byte order mark, HTTP header, `meta` or XML declaration,
//! detection. Labels are those of the Encoding standard; unknown ones are ignored. One thing goes
//! beyond the HTML standard's prescan of 1,024 bytes: of 27 real pages that were not UTF-8, nine
//! declared it later, so the search continues to the `body` element, like browsers that reload the
//! page.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};
use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

/// The most bytes searched for a `meta` element.
const META_BYTES: usize = 64 << 10;
/// Bytes used for detection, starting at the first non-ASCII byte.
const DETECT_BYTES: usize = 256 << 10;

/// A body with all hints at its encoding.
#[derive(Debug, Clone, Copy)]
pub(super) struct EncodingHints<'a> {
    /// The bytes.
    pub body: &'a [u8],
    /// The `Content-Type` header.
    pub content_type: Option<&'a str>,
    /// The bytes are markup, so a `meta` element counts.
    pub markup: bool,
    /// The host that sent it; its top-level domain helps the detection.
    pub host: &'a str,
}

impl<'a> EncodingHints<'a> {
    /// The encoding that the header or the markup declares.
    pub(super) fn declared(&self) -> Option<&'static Encoding> {
        self.content_type
            .and_then(of_header)
            .or_else(|| self.markup.then(|| of_markup(self.body)).flatten())
    }

    /// The encoding for decoding the body, given the `declared` one.
    pub(super) fn encoding(&self, declared: Option<&'static Encoding>) -> &'static Encoding {
        match Encoding::for_bom(self.body) {
            Some((encoding, _)) => encoding,
            None => declared.unwrap_or_else(|| detect(self.body, self.host)),
        }
    }

    /// The text without a byte order mark, undecodable bytes replaced by U+FFFD. It
    /// contains at least the first `max_bytes` bytes of UTF-8, if there are that many, and
    /// borrows from a body in UTF-8.
    pub(super) fn decode(&self, encoding: &'static Encoding, max_bytes: usize) -> Cow<'a, str> {
        let mark = match Encoding::for_bom(self.body) {
            Some((of_mark, bytes)) if of_mark == encoding => bytes,
            _ => 0,
        };
        let body = &self.body[mark..];
        // Four bytes of any encoding decode to at least one byte of UTF-8.
        let body = &body[..body.len().min(max_bytes.saturating_mul(4))];
        encoding.decode_without_bom_handling(body).0
    }
}

fn of_header(content_type: &str) -> Option<&'static Encoding> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        if !name.trim().eq_ignore_ascii_case("charset") {
            return None;
        }
        Encoding::for_label(value.trim().trim_matches(['"', '\'']).as_bytes())
    })
}

/// The declaration in the markup, with the HTML standard's correction: bytes that were
/// readable as ASCII are not UTF-16.
fn of_markup(body: &[u8]) -> Option<&'static Encoding> {
    let encoding = of_xml_declaration(body).or_else(|| of_meta(body))?;
    Some(if encoding == UTF_16LE || encoding == UTF_16BE {
        UTF_8
    } else if encoding == X_USER_DEFINED {
        WINDOWS_1252
    } else {
        encoding
    })
}

fn of_xml_declaration(body: &[u8]) -> Option<&'static Encoding> {
    let rest = body.strip_prefix(b"<?xml")?;
    let end = rest.iter().take(200).position(|b| *b == b'>')?;
    let text = std::str::from_utf8(&rest[..end]).ok()?;
    let (_, value) = text.split_once("encoding")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    Encoding::for_label(value[1..].split(quote).next()?.as_bytes())
}

enum CharsetSource {
    Encoding(&'static Encoding),
    Body,
}

fn of_meta(body: &[u8]) -> Option<&'static Encoding> {
    let head = &body[..body.len().min(META_BYTES)];
    let mut meta: Option<MetaCharset> = None;
    let mut emitter = CallbackEmitter::new(move |event: CallbackEvent<'_>, _: Span<()>| {
        match event {
            CallbackEvent::OpenStartTag { name: b"body" } => return Some(CharsetSource::Body),
            CallbackEvent::OpenStartTag { name } => {
                meta = (name == b"meta").then(MetaCharset::default);
            }
            CallbackEvent::AttributeName { name } => {
                if let Some(meta) = &mut meta {
                    meta.attribute = name.to_vec();
                }
            }
            CallbackEvent::AttributeValue { value } => {
                if let Some(meta) = &mut meta {
                    meta.value(value);
                }
            }
            CallbackEvent::CloseStartTag { .. } => {
                return meta.take()?.encoding().map(CharsetSource::Encoding);
            }
            _ => {}
        }
        None
    });
    emitter.naively_switch_states(true);
    match Tokenizer::new_with_emitter(head, emitter).next() {
        Some(Ok(CharsetSource::Encoding(encoding))) => Some(encoding),
        _ => None,
    }
}

#[derive(Default)]
struct MetaCharset {
    attribute: Vec<u8>,
    charset: Option<Vec<u8>>,
    content: Option<Vec<u8>>,
    declares_type: bool,
}

impl MetaCharset {
    fn value(&mut self, value: &[u8]) {
        match self.attribute.as_slice() {
            b"charset" => {
                self.charset.get_or_insert_with(|| value.to_vec());
            }
            b"content" => {
                self.content.get_or_insert_with(|| value.to_vec());
            }
            b"http-equiv" => {
                self.declares_type |= value.trim_ascii().eq_ignore_ascii_case(b"content-type");
            }
            _ => {}
        }
    }

    fn encoding(self) -> Option<&'static Encoding> {
        if let Some(label) = self.charset {
            return Encoding::for_label(&label);
        }
        if !self.declares_type {
            return None;
        }
        let content = String::from_utf8_lossy(&self.content?).to_ascii_lowercase();
        content.match_indices("charset").find_map(|(at, name)| {
            let value = content[at + name.len()..].trim_start().strip_prefix('=')?;
            let value = value.trim_start();
            let label = match value.chars().next()? {
                quote @ ('"' | '\'') => value[1..].split(quote).next()?,
                _ => value
                    .split(|c: char| c == ';' || c.is_ascii_whitespace())
                    .next()?,
            };
            Encoding::for_label(label.as_bytes())
        })
    }
}

/// The most probable encoding of undeclared bytes.
fn detect(body: &[u8], host: &str) -> &'static Encoding {
    const ESCAPE: u8 = 0x1B;
    let Some(start) = body.iter().position(|b| !b.is_ascii() || *b == ESCAPE) else {
        return UTF_8;
    };
    let is_utf8 = match std::str::from_utf8(body) {
        Ok(_) => true,
        // Only the last character is incomplete: the body was truncated at a cap.
        Err(error) => error.error_len().is_none(),
    };
    if is_utf8 && !body.contains(&ESCAPE) {
        return UTF_8;
    }
    // Includes the words before the first non-ASCII byte as evidence.
    let rest = &body[start.saturating_sub(64)..];
    let part = &rest[..rest.len().min(DETECT_BYTES)];
    // Browsers reject ISO-2022-JP because it can hide scripts; nothing is executed here,
    // and old Japanese pages use it.
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(part, part.len() == rest.len());
    let top = host.rsplit('.').next().filter(|label| {
        !label.is_empty()
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.bytes().all(|b| b.is_ascii_digit())
    });
    detector.guess(top.map(str::as_bytes), Utf8Detection::Allow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(header: Option<&'a str>, body: &'a [u8]) -> (&'static str, Cow<'a, str>) {
        let source = EncodingHints {
            body,
            content_type: header,
            markup: true,
            host: "www.example.org",
        };
        let encoding = source.encoding(source.declared());
        (encoding.name(), source.decode(encoding, 1 << 20))
    }

    /// Name of the case, header, bytes, expected encoding, expected text part.
    type Case<'a> = (
        &'a str,
        Option<&'a str>,
        &'a [u8],
        &'static str,
        &'static str,
    );

    #[test]
    fn the_order_is_mark_header_meta_detection() {
        let cases: &[Case] = &[
            ("nothing", None, b"", "UTF-8", ""),
            ("ASCII", None, b"<p>cat", "UTF-8", "cat"),
            (
                "undeclared UTF-8",
                None,
                "<p>Kätzchen".as_bytes(),
                "UTF-8",
                "Kätzchen",
            ),
            (
                "undeclared UTF-8, cut within a character",
                None,
                b"<p>K\xC3\xA4tzchen \xE2\x82",
                "UTF-8",
                "Kätzchen",
            ),
            (
                "UTF-8 mark beats a lying header and meta",
                Some("text/html; charset=windows-1251"),
                b"\xEF\xBB\xBF<meta charset=koi8-r><p>K\xC3\xA4tzchen",
                "UTF-8",
                "Kätzchen",
            ),
            (
                "UTF-16LE mark beats a lying header",
                Some("text/html; charset=utf-8"),
                b"\xFF\xFEc\0a\0t\0 \0\x3A\x04",
                "UTF-16LE",
                "cat к",
            ),
            (
                "UTF-16BE mark",
                None,
                b"\xFE\xFF\0c\0a\0t\x73\x2B",
                "UTF-16BE",
                "cat猫",
            ),
            (
                "header beats meta",
                Some("text/html; charset=\"Windows-1251\""),
                b"<meta charset=utf-8><p>\xEA\xEE\xF8\xEA\xE0",
                "windows-1251",
                "кошка",
            ),
            (
                "header in single quotes, upper case, second parameter",
                Some("text/html; boundary=x; CHARSET='KOI8-R'"),
                b"<p>\xCB\xCF\xDB\xCB\xC1",
                "KOI8-R",
                "кошка",
            ),
            (
                "unknown header label is passed over",
                Some("text/html; charset=nonsense"),
                b"<meta charset=windows-1251><p>\xEA\xEE\xF8\xEA\xE0",
                "windows-1251",
                "кошка",
            ),
            (
                "ISO-8859-1 means windows-1252",
                Some("text/html; charset=iso-8859-1"),
                b"<p>\x80 \xE4",
                "windows-1252",
                "€ ä",
            ),
            (
                "UTF-16LE by header alone",
                Some("text/html; charset=utf-16le"),
                b"c\0a\0t\0",
                "UTF-16LE",
                "cat",
            ),
            (
                "meta Shift_JIS",
                None,
                b"<html><head><meta charset=Shift_JIS></head><p>\x94L",
                "Shift_JIS",
                "猫",
            ),
            (
                "meta http-equiv EUC-JP",
                None,
                b"<META HTTP-EQUIV=\"Content-Type\" CONTENT=\"text/html; charset=EUC-JP\"><p>\xC7\xAD",
                "EUC-JP",
                "猫",
            ),
            (
                "content before http-equiv, EUC-KR",
                None,
                b"<meta content='text/html;charset=ks_c_5601-1987' http-equiv=content-type><p>\xB0\xED\xBE\xE7\xC0\xCC",
                "EUC-KR",
                "고양이",
            ),
            (
                "meta gb2312 means GBK",
                None,
                b"<meta charset=\"gb2312\"><p>\xC3\xA8",
                "GBK",
                "猫",
            ),
            (
                "meta Big5",
                None,
                b"<meta charset=big5><p>\xBF\xDF",
                "Big5",
                "貓",
            ),
            (
                "meta ISO-8859-2",
                None,
                b"<meta charset=iso-8859-2><p>ko\xE8ka",
                "ISO-8859-2",
                "kočka",
            ),
            (
                "meta windows-1254",
                None,
                b"<meta charset=iso-8859-9><p>\xFEu",
                "windows-1254",
                "şu",
            ),
            (
                "meta TIS-620",
                None,
                b"<meta charset=tis-620><p>\xE1\xC1\xC7",
                "windows-874",
                "แมว",
            ),
            (
                "UTF-16 in meta means UTF-8",
                None,
                "<meta charset=utf-16><p>Kätzchen".as_bytes(),
                "UTF-8",
                "Kätzchen",
            ),
            (
                "x-user-defined in meta means windows-1252",
                None,
                b"<meta charset=x-user-defined><p>K\xE4tzchen",
                "windows-1252",
                "Kätzchen",
            ),
            (
                "the first meta that names a known encoding",
                None,
                b"<meta charset=nonsense><meta charset=iso-8859-2><meta charset=utf-8><p>ko\xE8ka",
                "ISO-8859-2",
                "kočka",
            ),
            (
                "a meta within a comment or a script does not count",
                None,
                b"<!-- <meta charset=utf-8> --><script>'<meta charset=big5>'</script>\
                  <meta charset=iso-8859-2><p>ko\xE8ka",
                "ISO-8859-2",
                "kočka",
            ),
            (
                "content without http-equiv does not count",
                None,
                b"<meta name=description content='charset=utf-8'><meta charset=iso-8859-2><p>ko\xE8ka",
                "ISO-8859-2",
                "kočka",
            ),
            (
                "XML declaration",
                None,
                b"<?xml version='1.0' encoding='iso-8859-2'?><html><p>ko\xE8ka",
                "ISO-8859-2",
                "kočka",
            ),
        ];
        for (name, header, body, encoding, part) in cases {
            let (found, text) = read(*header, body);
            assert_eq!(found, *encoding, "{name}");
            assert!(text.contains(part), "{name}: {text}");
        }
    }

    #[test]
    fn a_late_meta_is_found_and_one_in_the_body_is_not() {
        let filler = "<link rel=stylesheet href=/a.css>".repeat(200);
        let late = [
            b"<html><head>" as &[u8],
            filler.as_bytes(),
            b"<meta charset=windows-1251><body>\xEA\xEE\xF8\xEA\xE0",
        ]
        .concat();
        assert!(late.len() > 4_096);
        let (encoding, text) = read(None, &late);
        assert_eq!(encoding, "windows-1251");
        assert!(text.ends_with("кошка"));
        let (encoding, _) = read(
            None,
            "<body><meta charset=big5>Kätzchen und Kater".as_bytes(),
        );
        assert_eq!(encoding, "UTF-8");
    }

    #[test]
    fn undeclared_legacy_text_is_detected() {
        for (label, text) in [
            (
                "windows-1251",
                "Кошка домашняя — животное семейства кошачьих, спутник человека.",
            ),
            (
                "Shift_JIS",
                "猫は、狭義には食肉目ネコ科ネコ属に分類されるリビアヤマネコが家畜化したイエネコである。",
            ),
            (
                "EUC-KR",
                "고양이는 식육목 고양이과에 속하는 포유류이다. 집에서 기르는 동물로 널리 알려져 있다.",
            ),
            (
                "GBK",
                "猫是一种小型肉食性哺乳动物，在世界各地被作为宠物饲养，也会捕捉老鼠。",
            ),
            ("ISO-2022-JP", "猫は人間によくペットとして飼われている。"),
        ] {
            let encoding = Encoding::for_label(label.as_bytes()).unwrap();
            let (bytes, _, unmappable) = encoding.encode(text);
            assert!(!unmappable, "{label}");
            let body = [b"<html><body><p>" as &[u8], &bytes].concat();
            let (found, decoded) = read(None, &body);
            assert_eq!(found, encoding.name());
            assert!(decoded.ends_with(text), "{label}: {decoded}");
        }
    }

    #[test]
    fn bad_bytes_are_replaced_and_the_cap_holds() {
        let (_, text) = read(Some("text/html; charset=utf-8"), b"a\xFFb");
        assert_eq!(text, "a\u{FFFD}b");
        let source = EncodingHints {
            body: &[b'a'; 1_000],
            content_type: None,
            markup: true,
            host: "192.0.2.1",
        };
        assert_eq!(source.decode(UTF_8, 10).len(), 40);
    }

    #[test]
    fn hosts_of_every_form_are_safe_for_the_detector() {
        for host in [
            "",
            "localhost",
            "192.0.2.7",
            "[::1]",
            "a.xn--p1ai",
            "a_b.c_d",
        ] {
            assert_ne!(detect(b"K\xE4tzchen", host), UTF_8);
        }
    }
}
