//! A line of a CDXJ index: a capture and its place in an archive.
//!
//! ```text
//! org,example)/a 20260102030405 {"url": "http://example.org/a", "mime": "text/html", ...}
//! ```
//!
//! The fields and their order are those of `cdxj-indexer`; lines of pywb and Common Crawl
//! are read too. A record that shares its compressed member with others also has the field
//! `inside`, which only spoor knows.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::gap::RecordSpan;
use super::surt;
use crate::tool_error::ToolError;

/// The media type of revisits, whose contents are in other records.
pub const REVISIT: &str = "warc/revisit";
/// The most characters of a line that messages repeat.
const SHOWN: usize = 60;

/// One capture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CdxjLine {
    /// The key of the address; see [`surt::key`].
    pub key: String,
    /// When it was captured: fourteen digits.
    pub time: String,
    /// The address.
    pub url: String,
    /// The media type as declared, without parameters; [`REVISIT`] for revisits.
    pub mime: Option<String>,
    /// The status, as `200`.
    pub status: Option<String>,
    /// The digest of the payload, as `sha1:` and base 32.
    pub digest: Option<String>,
    /// The name of the file.
    pub filename: Option<String>,
    /// The place of the record in it.
    pub place: Option<RecordSpan>,
}

/// The fields that are read. Some programs write numbers as text.
#[derive(Deserialize)]
struct CdxjFields(Map<String, Value>);

impl CdxjFields {
    fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Value::String(text) if text == "-" || text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }
}

impl CdxjLine {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// [`ToolError`] says what is wrong with it.
    pub fn parse(line: &str) -> Result<Self, ToolError> {
        let short = || line.chars().take(SHOWN).collect::<String>();
        let no_line = || {
            ToolError::new(format_args!(
                "`{}` is not a line of a CDXJ index; indexes of the older form CDX are not read: \
                 make one from the files with `spoor archive index`",
                short()
            ))
        };
        let mut parts = line.trim_end().splitn(3, ' ');
        let (Some(key), Some(time), Some(json)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(no_line());
        };
        if !json.starts_with('{') {
            return Err(no_line());
        }
        let fields: CdxjFields = serde_json::from_str(json).map_err(|why| {
            ToolError::new(format_args!(
                "`{}` is not a line of a CDXJ index: {why}",
                short()
            ))
        })?;
        let place = fields.number("offset").map(|offset| RecordSpan {
            offset,
            length: fields.number("length").unwrap_or(0),
            inside: fields.number("inside"),
        });
        Ok(Self {
            key: key.to_owned(),
            time: time.to_owned(),
            url: fields.text("url").unwrap_or_default(),
            mime: fields.text("mime"),
            status: fields.text("status"),
            digest: fields.text("digest"),
            filename: fields.text("filename"),
            place,
        })
    }

    /// The line as text, without its end.
    pub fn to_text(&self) -> String {
        let mut out = format!("{} {} {{\"url\": ", self.key, self.time);
        quote(&self.url, &mut out);
        let mut field = |name: &str, value: &str| {
            out.push_str(", \"");
            out.push_str(name);
            out.push_str("\": ");
            quote(value, &mut out);
        };
        let texts = [
            ("mime", &self.mime),
            ("status", &self.status),
            ("digest", &self.digest),
        ];
        for (name, value) in texts {
            if let Some(value) = value {
                field(name, value);
            }
        }
        if let Some(place) = self.place {
            field("length", &place.length.to_string());
            field("offset", &place.offset.to_string());
        }
        if let Some(filename) = &self.filename {
            field("filename", filename);
        }
        if let Some(inside) = self.place.and_then(|place| place.inside) {
            field("inside", &inside.to_string());
        }
        out.push('}');
        out
    }

    /// A line with only this address and time.
    pub fn of(url: &str, time: String) -> Self {
        Self {
            key: surt::key(url),
            time,
            url: url.to_owned(),
            ..Self::default()
        }
    }

    /// Whether the contents are in another record.
    pub fn is_revisit(&self) -> bool {
        self.mime.as_deref() == Some(REVISIT)
    }

    /// The digest without the name of its algorithm, which some programs leave out.
    pub fn bare_digest(&self) -> Option<&str> {
        let digest = self.digest.as_deref()?;
        Some(digest.rsplit(':').next().unwrap_or(digest))
    }
}

/// Writes a JSON string in ASCII, with the escapes that Python writes.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            c => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_written_as_other_programs_do() {
        let text = r#"test,a)/x 20260102030405 {"url": "http://a.test/X\u00e9\"", "mime": "text/html", "status": "200", "digest": "sha1:ABC", "length": "345", "offset": "12", "filename": "a.warc.gz"}"#;
        let line = CdxjLine::parse(text).unwrap();
        assert_eq!(line.url, "http://a.test/X\u{e9}\"");
        assert_eq!(line.bare_digest(), Some("ABC"));
        let place = RecordSpan {
            offset: 12,
            length: 345,
            inside: None,
        };
        assert_eq!(line.place, Some(place));
        assert_eq!(line.to_text(), text);
        // pywb, with numbers and unknown fields.
        let other = r#"test,a)/ 20260102030405 {"url":"http://a.test/","mime":"warc/revisit","status":304,"digest":"ABC","offset":12,"x":[1],"filename":"-"}"#;
        let line = CdxjLine::parse(other).unwrap();
        assert!(line.is_revisit());
        assert_eq!(line.status.as_deref(), Some("304"));
        assert_eq!(line.filename, None);
        let inside = CdxjLine {
            place: Some(RecordSpan {
                inside: Some(7),
                ..place
            }),
            ..line
        };
        assert_eq!(CdxjLine::parse(&inside.to_text()).unwrap(), inside);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            " CDX N b a m s k r M S V g",
            "test,a)/ 20260102030405 http://a.test/ text/html 200 ABC - - 345 12 a.warc.gz",
            "test,a)/ 20260102030405",
        ] {
            let error = CdxjLine::parse(text).unwrap_err().to_string();
            assert!(error.contains("of the older form CDX"), "{text}: {error}");
        }
        for text in ["k 2026 {", "k 2026 {\"a\"}", "k 2026 {} x"] {
            let error = CdxjLine::parse(text).unwrap_err().to_string();
            assert!(
                error.contains("is not a line of a CDXJ index: "),
                "{text}: {error}"
            );
        }
    }
}
