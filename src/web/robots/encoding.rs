//! Converts a publisher's file with rules to UTF-8. Servers also send robots.txt and tdmrep.json in
//! other encodings; the rules in them are meant just as seriously.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Bytes by which an encoding without a mark is recognised.
const SAMPLE: usize = 4 << 10;

/// The encodings in which most bytes of ordinary text, or every second one, are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wide {
    Utf16(&'static Encoding),
    /// Whether the lowest byte comes first.
    Utf32(bool),
}

/// The same text as UTF-8: by its byte order mark, else by the positions of its zeros, else by the
/// `charset` of its `Content-Type` if it is not UTF-8. Malformed text stays as it is.
pub(super) fn in_utf8<'a>(bytes: &'a [u8], content_type: Option<&str>) -> Cow<'a, [u8]> {
    let (wide, mark) = match bytes {
        [0xFF, 0xFE, 0, 0, ..] => (Some(Wide::Utf32(true)), 4),
        [0, 0, 0xFE, 0xFF, ..] => (Some(Wide::Utf32(false)), 4),
        _ => match Encoding::for_bom(bytes) {
            Some((encoding, length)) if encoding != UTF_8 && has_zeros(bytes) => {
                (Some(Wide::Utf16(encoding)), length)
            }
            _ => (wide(bytes), 0),
        },
    };
    let text = bytes.get(mark..).unwrap_or_default();
    match wide {
        Some(Wide::Utf16(encoding)) => {
            let (text, _) = encoding.decode_without_bom_handling(text);
            return Cow::Owned(text.into_owned().into_bytes());
        }
        Some(Wide::Utf32(is_little)) => {
            let letter = |unit: &[u8]| {
                let unit = unit.try_into().unwrap_or_default();
                let number = if is_little {
                    u32::from_le_bytes(unit)
                } else {
                    u32::from_be_bytes(unit)
                };
                char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER)
            };
            let text: String = text.chunks_exact(4).map(letter).collect();
            return Cow::Owned(text.into_bytes());
        }
        None => {}
    }
    let declared = content_type.and_then(charset);
    match declared.filter(|_| std::str::from_utf8(bytes).is_err()) {
        Some(encoding) if encoding != UTF_8 => {
            let (text, _) = encoding.decode_without_bom_handling(bytes);
            Cow::Owned(text.into_owned().into_bytes())
        }
        _ => Cow::Borrowed(bytes),
    }
}

fn charset(content_type: &str) -> Option<&'static Encoding> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        name.trim()
            .eq_ignore_ascii_case("charset")
            .then(|| Encoding::for_label(value.as_bytes()))?
    })
}

/// Whether there are as many zero bytes as the keywords of rules have in UTF-16. Some files have
/// its mark but are UTF-8.
fn has_zeros(bytes: &[u8]) -> bool {
    let sample = bytes.get(..SAMPLE).unwrap_or(bytes);
    let zeros = sample.iter().filter(|byte| **byte == 0).count();
    zeros * 16 >= sample.len()
}

/// The encoding of a text without a mark, by the positions of its zero bytes: Latin letters, which
/// rules consist of, have them at fixed positions.
fn wide(bytes: &[u8]) -> Option<Wide> {
    let sample = bytes.get(..SAMPLE).unwrap_or(bytes);
    let units = sample.len() / 4;
    let mut zeros = [0; 4];
    for unit in sample.chunks_exact(4) {
        for (count, byte) in zeros.iter_mut().zip(unit) {
            *count += usize::from(*byte == 0);
        }
    }
    let most = zeros.map(|count| units > 0 && count > units / 2);
    match most {
        [false, true, true, true] => Some(Wide::Utf32(true)),
        [true, true, true, false] => Some(Wide::Utf32(false)),
        [false, true, false, true] => Some(Wide::Utf16(UTF_16LE)),
        [true, false, true, false] => Some(Wide::Utf16(UTF_16BE)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "User-agent: *\nDisallow: /caf\u{e9}\nDisallow: /\u{30c4}\n";

    fn units<const N: usize>(text: &str, mark: bool, of: fn(char) -> [u8; N]) -> Vec<u8> {
        let mark = if mark { "\u{feff}" } else { "" };
        [mark, text].concat().chars().flat_map(of).collect()
    }

    fn utf16(c: char) -> u16 {
        u16::try_from(u32::from(c)).unwrap()
    }

    #[test]
    fn every_encoding_gives_the_same_text() {
        for mark in [true, false] {
            for bytes in [
                units(TEXT, mark, |c| utf16(c).to_le_bytes()),
                units(TEXT, mark, |c| utf16(c).to_be_bytes()),
                units(TEXT, mark, |c| u32::from(c).to_le_bytes()),
                units(TEXT, mark, |c| u32::from(c).to_be_bytes()),
            ] {
                let text = in_utf8(&bytes, Some("text/plain; charset=utf-8"));
                assert_eq!(std::str::from_utf8(&text), Ok(TEXT), "{bytes:?}");
            }
        }
        let marked = [b"\xff\xfe\n", TEXT.as_bytes(), b"\0"].concat();
        assert_eq!(in_utf8(&marked, None), marked);
        let latin = encoding_rs::WINDOWS_1252.encode("Disallow: /caf\u{e9}").0;
        let read = in_utf8(&latin, Some("text/plain; Charset=\"ISO-8859-1\""));
        assert_eq!(read.as_ref(), "Disallow: /caf\u{e9}".as_bytes());
        assert_eq!(in_utf8(&latin, None), latin);
        // Valid UTF-8 is read as RFC 9309 says, regardless of its header.
        let text = in_utf8(TEXT.as_bytes(), Some("text/plain; charset=iso-8859-1"));
        assert_eq!(text.as_ref(), TEXT.as_bytes());
        for odd in [
            &b""[..],
            b"\0",
            b"\0\0\0\0",
            b"\xff\xfe",
            b"\xff\xfe\0\0\x01",
        ] {
            in_utf8(odd, None);
        }
    }
}
