//! Addresses that need no parser, because they are already canonical.
//!
//! A page has hundreds of links, and nearly all are of this kind: a host in lower case, and a path
//! of letters, digits and a few signs. All others go through the parser of the URL standard, which
//! gives the same result for these; a test compares the two.

use super::MAX_URL_BYTES;
use super::parts::AddressParts;

/// The address of `href` on the page `base`; `None` if it must be parsed. The text is trimmed.
pub(super) fn resolved(base: &AddressParts, href: &str) -> Option<AddressParts> {
    if !base.has_labels || href.len() + base.text().len() > MAX_URL_BYTES {
        return None;
    }
    match href.as_bytes().first()? {
        b'/' if href.starts_with("//") => None,
        b'/' => {
            let (end, query) = tail(href)?;
            Some(base.with_path(&[&href[..end]], query))
        }
        b'?' => {
            let (end, query) = tail(href)?;
            let path = base.path();
            Some(base.with_path(&[path, &href[..end]], path.len() + query))
        }
        _ => absolute(href).or_else(|| relative(base, href)),
    }
}

/// The absolute text of `href` on the page `base`, to be parsed without also parsing the base.
/// `None` if the parser may take the host from `href`.
pub(super) fn spelled_out(base: &AddressParts, href: &str) -> Option<String> {
    let is_rest = !href.starts_with("//")
        // The parser removes control characters, and reads a backslash as a slash.
        && !href.bytes().any(|byte| byte < b' ' || byte == b'\\')
        && !segment(href).contains(':')
        && !href.starts_with(['?', '#'])
        && !href.is_empty();
    if !is_rest {
        return None;
    }
    let path = base.path();
    let folder = if href.starts_with('/') {
        ""
    } else {
        &path[..=path.rfind('/')?]
    };
    Some([base.origin(), folder, href].concat())
}

/// The beginning of a text up to the end of its first segment of a path.
fn segment(text: &str) -> &str {
    text.split(['/', '?', '#']).next().unwrap_or_default()
}

/// The address given by `text`, if it is absolute and canonical.
pub(super) fn absolute(text: &str) -> Option<AddressParts> {
    if text.len() > MAX_URL_BYTES {
        return None;
    }
    let rest = text.strip_prefix("http")?;
    let rest = rest.strip_prefix('s').unwrap_or(rest).strip_prefix("://")?;
    let start = text.len() - rest.len();
    let host = start..start + rest.find('/')?;
    if !is_plain_host(&text[host.clone()]) {
        return None;
    }
    let (end, query) = tail(&text[host.end..])?;
    let (end, query) = (host.end + end, host.end + query);
    Some(AddressParts::written(&text[..end], host, query))
}

/// The address of an `href` that begins with a segment of a path.
fn relative(base: &AddressParts, href: &str) -> Option<AddressParts> {
    let path = base.path();
    let mut folder = &path[..=path.rfind('/')?];
    let mut rest = href;
    loop {
        if let Some(after) = rest.strip_prefix("../") {
            // The first folder has no parent.
            let above = folder[..folder.len() - 1].rfind('/');
            folder = &folder[..=above.unwrap_or(0)];
            rest = after;
        } else if let Some(after) = rest.strip_prefix("./") {
            rest = after;
        } else {
            break;
        }
    }
    let (end, query) = tail(rest)?;
    let segment = segment(rest);
    // A scheme, a dot segment, or nothing at all.
    if segment.is_empty() || segment.starts_with('.') || segment.contains(':') {
        return None;
    }
    Some(base.with_path(&[folder, &rest[..end]], folder.len() + query))
}

/// Where a path with its query ends, before any fragment, and where its query begins (or its end);
/// `None` if the parser would change anything in it.
fn tail(text: &str) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let path = plain(bytes, 0, PATH)?;
    if memchr::memmem::find(&bytes[..path], b"/.").is_some() {
        return None;
    }
    if bytes.get(path) != Some(&b'?') {
        return Some((path, path));
    }
    let end = plain(bytes, path + 1, QUERY)?;
    // An empty query is dropped.
    (end > path + 1).then_some((end, path))
}

/// Where the characters of such a part end, at the latest at the end of the text; `None` if one of
/// them must be changed.
fn plain(bytes: &[u8], from: usize, part: u8) -> Option<usize> {
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        let class = CLASSES[usize::from(*byte)];
        if class & part != 0 {
            at += 1;
        } else if *byte == b'%' {
            if !is_plain_escape(bytes.get(at + 1..at + 3)?) {
                return None;
            }
            at += 3;
        } else if class & END != 0 {
            return Some(at);
        } else {
            return None;
        }
    }
    Some(at)
}

/// Whether these two digits belong to an escape that stays unchanged.
fn is_plain_escape(digits: &[u8]) -> bool {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    let [Some(high), Some(low)] =
        [digits.first(), digits.get(1)].map(|d| d.and_then(|d| value(*d)))
    else {
        return false;
    };
    let byte = high << 4 | low;
    !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'_' | b'~' | b'.')
}

/// Whether a host is a name that the standard leaves unchanged.
fn is_plain_host(host: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    let last = host.rsplit('.').next().unwrap_or_default();
    host.bytes().all(is_plain)
        // Neither punycode nor an IP address.
        && !host.contains("--")
        && last.starts_with(|c: char| c.is_ascii_lowercase())
        && !host.starts_with('.')
        && !host.contains("..")
}

// Where a byte is allowed unchanged.
const PATH: u8 = 1;
const QUERY: u8 = 2;
/// It ends a path or a query.
const END: u8 = 4;

/// The classes of each byte.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let signs = b"-._~!$&()*+,;=:@/";
    let mut at = 0;
    while at < signs.len() {
        classes[signs[at] as usize] = PATH | QUERY;
        at += 1;
    }
    let mut byte = 0;
    while byte < 128_u8 {
        if byte.is_ascii_alphanumeric() {
            classes[byte as usize] = PATH | QUERY;
        }
        byte += 1;
    }
    classes[b'\'' as usize] = PATH;
    classes[b'?' as usize] = QUERY | END;
    classes[b'#' as usize] = END;
    classes
};
