//! What a file states about itself, and where its links lead.

use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::hayro_syntax::object::String as Bytes;
use hayro_interpret::hayro_syntax::object::{Array, DateTime, Dict, Name, Rect, Stream};
use hayro_interpret::hayro_syntax::page::Page;
use hayro_interpret::{RectExt, kurbo};
use quick_xml::events::Event;

use super::glyphs::{Glyph, decoded, page_transform};
use super::original::{About, Link};

/// The most links of a file.
const MAX_LINKS: usize = 20_000;
/// The longest address of a link in bytes.
const MAX_URL: usize = 8_000;
/// The longest title or name of an author in characters.
const MAX_FIELD: usize = 1_000;
/// The most authors.
const MAX_AUTHORS: usize = 200;
/// Maximum size of XML metadata that is read, in bytes.
const MAX_XMP: usize = 1 << 20;

/// What a file states about itself: in its XMP metadata, or if these lack it, in its document
/// information.
pub(super) fn of(pdf: &Pdf) -> About {
    let info = pdf.metadata();
    let catalog = pdf.xref().get::<Dict<'_>>(pdf.xref().root_id());
    let mut about = About::default();
    if let Some(catalog) = &catalog {
        about.language = catalog
            .get::<Bytes<'_>>(b"Lang".as_slice())
            .and_then(|tag| field(&decoded(tag.as_bytes())));
        let xmp = catalog.get::<Stream<'_>>(b"Metadata".as_slice());
        if let Some(Ok(xmp)) = xmp.map(|stream| stream.decoded_data())
            && xmp.len() <= MAX_XMP
        {
            read_xmp(&xmp, &mut about);
        }
    }
    let stated = |bytes: &Option<Box<[u8]>>| field(&decoded(bytes.as_ref()?));
    about.title = about.title.or_else(|| stated(&info.title));
    about.title = about.title.and_then(|title| without_program(&title));
    if about.authors.is_empty() {
        about.authors.extend(stated(&info.author));
    }
    let date = |date: &Option<DateTime>| iso(date.as_ref()?);
    about.created = about.created.or_else(|| date(&info.creation_date));
    about.modified = about.modified.or_else(|| date(&info.modification_date));
    about
}

/// The links of a page, each with the glyphs that it covers.
pub(super) fn links(page: &Page<'_>, number: u32, glyphs: &[Glyph], links: &mut Vec<Link>) {
    let Some(all) = page.raw().get::<Array<'_>>(b"Annots".as_slice()) else {
        return;
    };
    let transform = page_transform(page);
    for annotation in all.iter::<Dict<'_>>() {
        if links.len() >= MAX_LINKS {
            return;
        }
        let action = annotation.get::<Dict<'_>>(b"A".as_slice());
        let Some(action) = action.filter(|action| {
            let kind = action.get::<Name<'_>>(b"S".as_slice());
            kind.is_some_and(|kind| kind.as_str() == "URI")
        }) else {
            continue;
        };
        let Some(url) = action.get::<Bytes<'_>>(b"URI".as_slice()) else {
            continue;
        };
        let url = decoded(url.as_bytes());
        let area = annotation.get::<Rect>(b"Rect".as_slice());
        let area = area.map(|area| transform.transform_rect_bbox(area.to_kurbo()));
        if url.len() <= MAX_URL
            && let Some(area) = area
        {
            links.push(Link {
                url,
                text: covered(&area, glyphs),
                page: number,
            });
        }
    }
}

/// The text of the glyphs in an area, in the order in which they are painted.
fn covered(area: &kurbo::Rect, glyphs: &[Glyph]) -> String {
    // Glyphs are on their base line, and links often begin there.
    let area = area.inflate(0.5, 2.0);
    let mut text = String::new();
    let mut end: Option<(f32, f32)> = None;
    for glyph in glyphs {
        let middle = (glyph.x1 - glyph.x0) / 2.0;
        let (x, y) = glyph.place;
        if !area.contains(kurbo::Point::new(f64::from(x + middle), f64::from(y))) {
            continue;
        }
        let is_apart = end.is_some_and(|(x1, y)| {
            (y - glyph.y).abs() > glyph.size * 0.5 || glyph.x0 - x1 > glyph.size * 0.15
        });
        if is_apart && !text.ends_with(' ') && glyph.text != " " {
            text.push(' ');
        }
        text.push_str(&glyph.text);
        end = Some((glyph.x1, glyph.y));
        if text.len() > MAX_FIELD {
            break;
        }
    }
    text.trim().to_owned()
}

/// A field without surrounding white space and without control characters; `None` if it is empty.
fn field(text: &str) -> Option<String> {
    let mut folded = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if !word.is_empty() {
            if !folded.is_empty() {
                folded.push(' ');
            }
            folded.push_str(word);
        }
    }
    let cut = folded.char_indices().nth(MAX_FIELD);
    if let Some((end, _)) = cut {
        folded.truncate(end);
    }
    (!folded.is_empty()).then_some(folded)
}

/// A title without the preceding name of the program; `None` if nothing else is left.
fn without_program(title: &str) -> Option<String> {
    const PROGRAMS: [&str; 2] = ["Microsoft Word - ", "Microsoft PowerPoint - "];
    const NONE: [&str; 4] = ["untitled", "untitled document", "()", "none"];
    let name = PROGRAMS
        .iter()
        .find_map(|prefix| title.strip_prefix(prefix));
    let title = name.unwrap_or(title).trim();
    let says_nothing = title.is_empty() || NONE.contains(&title.to_ascii_lowercase().as_str());
    (!says_nothing).then(|| title.to_owned())
}

/// A date of the document information in ISO 8601.
fn iso(date: &DateTime) -> Option<String> {
    let (year, month, day) = (i16::try_from(date.year).ok()?, date.month, date.day);
    let day = jiff::civil::Date::new(
        year,
        i8::try_from(month.max(1)).ok()?,
        i8::try_from(day.max(1)).ok()?,
    );
    let day = day.ok().filter(|_| year > 0)?;
    let (hour, minute) = (date.utc_offset_hour, date.utc_offset_minute);
    let is_time = date.hour < 24 && date.minute < 60 && date.second < 60;
    if !is_time {
        return Some(day.to_string());
    }
    let zone = if hour == 0 && minute == 0 {
        "Z".to_owned()
    } else {
        let sign = if hour < 0 { '-' } else { '+' };
        format!("{sign}{:02}:{minute:02}", hour.unsigned_abs())
    };
    let (hour, minute, second) = (date.hour, date.minute, date.second);
    Some(format!("{day}T{hour:02}:{minute:02}:{second:02}{zone}"))
}

/// Reads title, authors, dates and language from XMP metadata.
fn read_xmp(xml: &[u8], about: &mut About) {
    let xml = String::from_utf8_lossy(xml);
    let mut reader = quick_xml::Reader::from_str(&xml);
    let mut path: Vec<String> = Vec::new();
    let mut text = String::new();
    loop {
        match reader.read_event() {
            Ok(Event::Start(start)) => {
                for (name, value) in attributes(&start) {
                    take(&name, &value, about);
                }
                path.push(start.name().as_ref().to_owned());
                text.clear();
            }
            Ok(Event::Empty(start)) => {
                for (name, value) in attributes(&start) {
                    take(&name, &value, about);
                }
            }
            Ok(Event::Text(part)) => text.push_str(&part.xml10_content()),
            Ok(Event::GeneralRef(reference)) => match reference.resolve_char_ref() {
                Ok(Some(c)) => text.push(c),
                _ => {
                    let name = reference.xml10_content();
                    let known = quick_xml::escape::resolve_xml_entity(&name);
                    text.push_str(known.unwrap_or_default());
                }
            },
            Ok(Event::End(_)) => {
                // The values of lists are in `rdf:li` two levels below the property.
                let depth = path.len();
                let own = path.last().map(String::as_str).unwrap_or_default();
                let name = if own == "rdf:li" && depth >= 3 {
                    path.get(depth - 3).cloned().unwrap_or_default()
                } else {
                    own.to_owned()
                };
                take(&name, &text, about);
                text.clear();
                path.pop();
            }
            Ok(Event::Eof) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

fn attributes(start: &quick_xml::events::BytesStart<'_>) -> Vec<(String, String)> {
    let all = start.attributes().flatten();
    let pairs = all.map(|attribute| {
        (
            attribute.key.as_ref().to_owned(),
            attribute.value.into_owned(),
        )
    });
    pairs.collect()
}

/// Takes a property; only the first of each kind, except for authors.
fn take(name: &str, value: &str, about: &mut About) {
    let Some(value) = field(value) else {
        return;
    };
    match name {
        "dc:title" if about.title.is_none() => about.title = Some(value),
        "dc:creator" if about.authors.len() < MAX_AUTHORS => about.authors.push(value),
        "dc:language" if about.language.is_none() => about.language = Some(value),
        "xmp:CreateDate" | "xap:CreateDate" if about.created.is_none() => {
            about.created = date(&value);
        }
        "xmp:ModifyDate" | "xap:ModifyDate" if about.modified.is_none() => {
            about.modified = date(&value);
        }
        _ => {}
    }
}

/// A date from XMP, if it is one: they are already in ISO 8601.
fn date(text: &str) -> Option<String> {
    let is_time = text.parse::<jiff::Timestamp>().is_ok();
    let is_day = || {
        let day = text
            .get(..10)
            .and_then(|day| day.parse::<jiff::civil::Date>().ok());
        day.is_some()
    };
    let is_year = || {
        let year = text
            .get(..4)
            .is_some_and(|year| year.bytes().all(|b| b.is_ascii_digit()));
        year && matches!(text.len(), 4 | 7)
    };
    (text.len() <= 40 && (is_time || is_day() || is_year())).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xmp_gives_title_authors_and_dates() {
        let xml = br#"<?xpacket?><x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF>
            <rdf:Description xmp:CreateDate="2021-03-04T05:06:07+01:00">
            <dc:title><rdf:Alt><rdf:li xml:lang="x-default">Cats &amp; dogs</rdf:li></rdf:Alt>
            </dc:title><dc:creator><rdf:Seq><rdf:li>Ada</rdf:li><rdf:li>Bob</rdf:li></rdf:Seq>
            </dc:creator><xmp:ModifyDate>soon</xmp:ModifyDate></rdf:Description></rdf:RDF>"#;
        let mut about = About::default();
        read_xmp(xml, &mut about);
        assert_eq!(about.title.as_deref(), Some("Cats & dogs"));
        assert_eq!(about.authors, ["Ada", "Bob"]);
        assert_eq!(about.created.as_deref(), Some("2021-03-04T05:06:07+01:00"));
        assert_eq!(about.modified, None);
    }

    #[test]
    fn dates_are_checked() {
        let at = |year, month, day, hour| DateTime {
            year,
            month,
            day,
            hour,
            minute: 2,
            second: 3,
            utc_offset_hour: -5,
            utc_offset_minute: 30,
        };
        let shown = iso(&at(1999, 12, 31, 23));
        assert_eq!(shown.as_deref(), Some("1999-12-31T23:02:03-05:30"));
        assert_eq!(iso(&at(1999, 12, 31, 25)).as_deref(), Some("1999-12-31"));
        assert_eq!(iso(&at(1999, 13, 31, 1)), None);
        assert_eq!(iso(&at(0, 1, 1, 1)), None);
        assert_eq!(date("2020").as_deref(), Some("2020"));
        assert_eq!(date("2020-02-30T00:00"), None);
    }

    #[test]
    fn names_of_programs_are_no_titles() {
        let title = |text| without_program(text);
        assert_eq!(
            title("Microsoft Word - cats.doc").as_deref(),
            Some("cats.doc")
        );
        assert_eq!(title("Untitled"), None);
        assert_eq!(field(" a\u{7}\n b "), Some("a b".to_owned()));
    }
}
