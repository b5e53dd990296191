//! The meaning of a `Content-Type`.

/// The type of PDF files.
const PDF: &str = "application/pdf";
/// The first bytes of a PDF.
const PDF_BEGIN: &[u8] = b"%PDF-";

/// The media type of a `Content-Type` header, as it is written, without parameters (RFC 9110
/// section 8.3.1).
pub fn media_type(header: &str) -> &str {
    header.split(';').next().unwrap_or_default().trim()
}

/// The content type in the header lines of a response with this body; `None` if they state none, so
/// that the body must be examined.
///
/// If there are several, the last valid one counts, with the charset that an earlier one of the
/// same type names (Fetch standard, "extract a MIME type"). A type that stands for "unknown" counts
/// as none (MIME Sniffing standard, section 7). A PDF sent as arbitrary bytes is a PDF.
///
/// ```
/// use spoor_values::page::content_type;
///
/// let lines = ["text/html; charset=utf-8", "*/*, text/html"];
/// assert_eq!(content_type(&lines, b"").as_deref(), Some("text/html;charset=utf-8"));
/// assert_eq!(content_type(&["html"], b""), None);
/// ```
pub fn content_type<S: AsRef<str>>(
    lines: impl IntoIterator<Item = S>,
    body: &[u8],
) -> Option<String> {
    // The type, the charset, and the type as it was written.
    let mut found: Option<(String, Option<String>, String)> = None;
    for line in lines {
        for member in members(line.as_ref()) {
            let essence = media_type(member).to_ascii_lowercase();
            if !is_type(&essence) || essence == "*/*" {
                continue;
            }
            let before = found.filter(|(known, ..)| *known == essence);
            let named = charset(member).map(str::to_owned);
            let named = named.or_else(|| before.and_then(|(_, named, _)| named));
            found = Some((essence, named, member.trim().to_owned()));
        }
    }
    let (essence, named, written) = found?;
    if matches!(essence.as_str(), "unknown/unknown" | "application/unknown") {
        return None;
    }
    let is_any = matches!(
        essence.as_str(),
        "application/octet-stream" | "binary/octet-stream"
    );
    if is_any && body.starts_with(PDF_BEGIN) {
        return Some(PDF.to_owned());
    }
    match named {
        Some(named) if charset(&written).is_none() => Some(format!("{essence};charset={named}")),
        _ => Some(written),
    }
}

/// The members of a list, whose quoted strings may have commas.
fn members(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    line.split(|c: char| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    })
    .collect()
}

/// Whether a text is two tokens with a slash between them (RFC 9110 sections 5.6.2 and 8.3.1).
fn is_type(text: &str) -> bool {
    let is_token = |part: &str| {
        let is_sign = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || is_sign(b))
    };
    text.split_once('/')
        .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

/// The charset that a content type names: its first parameter of that name that has a value.
pub fn charset(member: &str) -> Option<&str> {
    member.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        let is_it = name.trim().eq_ignore_ascii_case("charset") && !value.is_empty();
        is_it.then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_valid_type_counts_or_none() {
        for (lines, expected) in [
            (&["text/html"][..], Some("text/html")),
            (&["TEXT/HTML ;charset=X"], Some("TEXT/HTML ;charset=X")),
            (
                &["text/html;;charset=UTF-8"],
                Some("text/html;;charset=UTF-8"),
            ),
            (
                &["text/html, text/html; charset=utf-8"],
                Some("text/html; charset=utf-8"),
            ),
            (
                &["text/html; charset=utf-8, text/html"],
                Some("text/html;charset=utf-8"),
            ),
            (
                &["text/html; charset=utf-8", "text/html"],
                Some("text/html;charset=utf-8"),
            ),
            (&["text/html; charset=a, text/plain"], Some("text/plain")),
            (&["text/html, */*", "x"], Some("text/html")),
            (
                &["text/html;x=\",\";charset=y"],
                Some("text/html;x=\",\";charset=y"),
            ),
            (&["application/json, text/html"], Some("text/html")),
            (&["text/html, unknown/unknown"], None),
            (
                &["application/octet-stream"],
                Some("application/octet-stream"),
            ),
            (&[], None),
            (&[""], None),
            (&["\"text/html\""], None),
            (&["text/html charset=utf-8"], None),
            (&["text/html:charset=utf-8"], None),
            (&["text\\html"], None),
            (&["html"], None),
            (&["text/"], None),
            (&["text/html/x"], None),
            (&["*/*"], None),
            (&["application/unknown"], None),
            (&[";charset=utf-8"], None),
        ] {
            assert_eq!(content_type(lines, b"x").as_deref(), expected, "{lines:?}");
        }
        for (media, expected) in [
            ("application/octet-stream", PDF),
            ("binary/octet-stream", PDF),
            ("text/html", "text/html"),
        ] {
            let found = content_type([media], b"%PDF-1.7\n");
            assert_eq!(found.as_deref(), Some(expected));
        }
    }
}
