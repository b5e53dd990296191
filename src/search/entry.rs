//! Turns a line of JSON into an entry of the index. It may come from a job or from a corpus,
//! which use the same names for the same things.

use serde::Deserialize;
use serde_json::{Map, Value};
use tantivy::TantivyDocument;

use super::named;
use super::schema::{self, About, DOCUMENT, DocumentPlace, IndexFields, Stored};
use crate::address::PageUrl;
use crate::clock::of_timestamp;
use crate::corpus::entities::Mention;
use crate::corpus::pipeline::{DocumentFinder, stated_terms};
use crate::language;
use crate::topic::score::Boundaries;
use spoor_values::page::Terms;

/// The part of a line that is read. Other keys, and values of other types, are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EntryLine {
    pub url: String,
    text: String,
    title: Option<String>,
    host: Option<String>,
    date: Option<String>,
    published: Option<String>,
    pub fetched: Option<String>,
    authors: Value,
    author: Value,
    language: Option<String>,
    perplexity: Value,
    bucket: Option<String>,
    on_topic: Value,
    words: Value,
    near_copy_of: Option<String>,
    copy_of: Option<String>,
    /// A list of mentions, or its JSON.
    entities: Value,
    archive: Option<String>,
    offset: Option<u64>,
    length: Option<u64>,
    /// Its terms of use.
    #[serde(skip)]
    pub terms: Terms,
    /// Whether an earlier line of the same address is outdated.
    replaces: Option<serde::de::IgnoredAny>,
}

impl EntryLine {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// The message of the parser.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        let map: Map<String, Value> = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        let terms = stated_terms(&map)
            .map_err(|error| format!("its terms of use cannot be read: {error}"))?
            .unwrap_or_default();
        let read = Self::deserialize(Value::Object(map)).map_err(|e| e.to_string())?;
        let read = Self { terms, ..read };
        if read.url.is_empty() && read.text.is_empty() {
            return Err("it has neither `url` nor `text`".to_owned());
        }
        Ok(read)
    }

    /// Whether an earlier line has the same page at an earlier visit.
    pub(super) fn is_newer(&self) -> bool {
        self.replaces.is_some()
    }

    /// The entities that the line itself names.
    pub(super) fn own_entities(&self) -> Vec<Mention> {
        let mentions = match &self.entities {
            Value::String(text) => serde_json::from_str(text),
            value => serde_json::from_value(value.clone()),
        };
        let mut mentions: Vec<Mention> = mentions.unwrap_or_default();
        mentions.sort_by_key(|mention| (mention.paragraph, mention.sentence));
        mentions
    }

    /// The entities from a list.
    pub(super) fn entities_of(&self, finder: &DocumentFinder) -> Vec<Mention> {
        let language = self.language.clone().or_else(|| {
            let found = language::recognise(self.text.split("\n\n"));
            found.map(|language| language.code().to_owned())
        });
        finder.find(self.title.as_deref(), &self.text, language.as_deref())
    }

    /// The entries of the index, that of the document first. `boundaries` give a class to a
    /// perplexity without one.
    pub(super) fn entries(
        self,
        place: DocumentPlace,
        fields: &IndexFields,
        boundaries: Option<&Boundaries>,
        mentions: &[Mention],
    ) -> Vec<TantivyDocument> {
        let key = place.key();
        let file = place.file.clone();
        let (title, text) = (self.title.clone().unwrap_or_default(), self.text.clone());
        let until = self.terms.directives.unavailable_after.as_deref();
        let until = until.and_then(day);
        let about = self.about(place, boundaries);
        let mut entry = TantivyDocument::default();
        entry.add_text(fields.file, file);
        entry.add_text(fields.url, &about.url);
        for domain in domains(&about.host) {
            entry.add_text(fields.domain, domain);
        }
        if let Some(language) = &about.language {
            entry.add_text(fields.language, language);
        }
        if let Some(bucket) = &about.bucket {
            entry.add_text(fields.bucket, bucket);
        }
        if let Some(date) = about.date.as_deref().and_then(day) {
            entry.add_u64(fields.date, date);
            entry.add_u64(fields.year, date / 10_000);
        }
        let fetched = about.fetched.as_deref().and_then(of_timestamp);
        entry.add_u64(fields.fetched, fetched.unwrap_or_default());
        if let Some(until) = until {
            entry.add_u64(fields.until, until);
        }
        if let Some(perplexity) = about.perplexity {
            entry.add_f64(fields.perplexity, perplexity);
        }
        let mut common = TantivyDocument::default();
        if !mentions.is_empty() {
            common = entry.clone();
            common.add_u64(fields.parent, key);
        }
        let passages = named::add(&mut entry, (&title, &text), mentions, &common, fields);
        entry.add_text(fields.kind, DOCUMENT);
        entry.add_u64(fields.key, key);
        entry.add_text(fields.text, text);
        entry.add_text(fields.title, title);
        entry.add_text(fields.host, &about.host);
        // Texts and numbers always serialise.
        entry.add_text(
            fields.about,
            serde_json::to_string(&about).unwrap_or_default(),
        );
        std::iter::once(entry).chain(passages).collect()
    }

    fn about(self, place: DocumentPlace, boundaries: Option<&Boundaries>) -> About {
        let date = self.date.or(self.published.clone());
        let date_is_fetched = date.is_none() || (self.published.is_none() && date == self.fetched);
        let date = date.or_else(|| self.fetched.clone());
        let perplexity = self.perplexity.as_f64().filter(|p| p.is_finite());
        let bucket = self.bucket.filter(|bucket| !bucket.is_empty());
        let bucket = bucket.or_else(|| {
            let bucket = boundaries?.bucket(perplexity?);
            Some(bucket.map_or("above", |bucket| bucket.name()).to_owned())
        });
        let capture = self.archive.zip(self.offset).map(|(file, byte)| Stored {
            file,
            byte,
            bytes: self.length.unwrap_or(0),
        });
        About {
            host: host_of(self.host, &self.url),
            url: self.url,
            date_is_fetched: date_is_fetched && date.is_some(),
            date,
            fetched: self.fetched,
            authors: names(&self.authors).chain(names(&self.author)).collect(),
            language: self.language.filter(|language| !language.is_empty()),
            perplexity,
            bucket,
            on_topic: self.on_topic.as_f64(),
            copy_of: self.copy_of.or(self.near_copy_of),
            words: self.words.as_u64(),
            place,
            capture,
        }
    }
}

/// One or several names.
fn names(value: &Value) -> impl Iterator<Item = String> {
    let one = value.as_str().map(str::to_owned);
    let many = value.as_array().into_iter().flatten();
    let many = many.filter_map(|name| name.as_str().map(str::to_owned));
    one.into_iter().chain(many).collect::<Vec<_>>().into_iter()
}

/// The host that a document states, else that of its address.
fn host_of(stated: Option<String>, url: &str) -> String {
    if let Some(host) = stated.filter(|host| !host.is_empty()) {
        return host.to_lowercase();
    }
    let url = PageUrl::parse(url).ok();
    url.map(|url| url.authority().to_owned())
        .unwrap_or_default()
}

/// A host and all domains above it.
fn domains(host: &str) -> impl Iterator<Item = &str> {
    let name = host.split(':').next().unwrap_or(host);
    let is_address = name.parse::<std::net::IpAddr>().is_ok() || name.starts_with('[');
    let above = host.match_indices('.').filter_map(move |(at, _)| {
        let domain = host.get(at + 1..)?;
        (!is_address && !domain.is_empty()).then_some(domain)
    });
    std::iter::once(host).chain(above)
}

/// The first day of a date of any precision as a number: 20260102.
pub(super) fn day(date: &str) -> Option<u64> {
    let (year, month, day) = parts(date)?;
    Some(year * 10_000 + month.unwrap_or(1) * 100 + day.unwrap_or(1))
}

/// The last day of a date of any precision as a number; it may be a day that does not exist.
pub(super) fn last_day(date: &str) -> Option<u64> {
    let (year, month, day) = parts(date)?;
    Some(year * 10_000 + month.unwrap_or(12) * 100 + day.unwrap_or(31))
}

/// Year, month and day of `2026`, `2026-01`, `2026-01-02` or a time.
fn parts(date: &str) -> Option<(u64, Option<u64>, Option<u64>)> {
    let date = date.split(['T', ' ']).next()?;
    let mut parts = date.split('-');
    let mut number = |digits: usize, most: u64| match parts.next() {
        None => Some(None),
        Some(part) if part.len() == digits && part.bytes().all(|b| b.is_ascii_digit()) => {
            let number: u64 = part.parse().ok()?;
            (1..=most).contains(&number).then_some(Some(number))
        }
        Some(_) => None,
    };
    let (year, month, day) = (number(4, 9999)?, number(2, 12)?, number(2, 31)?);
    parts.next().is_none().then_some((year?, month, day))
}

/// The entry of an image on a page.
pub(super) fn of_picture(
    page: &str,
    picture: &schema::Picture,
    fields: &IndexFields,
) -> TantivyDocument {
    let mut entry = TantivyDocument::default();
    entry.add_text(fields.kind, schema::IMAGE);
    entry.add_u64(fields.page, schema::page(page));
    entry.add_text(
        fields.about,
        serde_json::to_string(picture).unwrap_or_default(),
    );
    entry
}

/// The entry with the place in the archive of the document with this key.
pub(super) fn of_capture(key: u64, stored: &Stored, fields: &IndexFields) -> TantivyDocument {
    let mut entry = TantivyDocument::default();
    entry.add_text(fields.kind, schema::CAPTURE);
    entry.add_u64(fields.key, key);
    entry.add_text(
        fields.about,
        serde_json::to_string(stored).unwrap_or_default(),
    );
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_any_precision_are_days() {
        for (date, first, last) in [
            ("2024", 20_240_101, 20_241_231),
            ("2024-05", 20_240_501, 20_240_531),
            ("2024-05-17", 20_240_517, 20_240_517),
            ("2024-05-17T08:30:00+02:00", 20_240_517, 20_240_517),
            ("2024-05-17 08:30", 20_240_517, 20_240_517),
        ] {
            assert_eq!(
                (day(date), last_day(date)),
                (Some(first), Some(last)),
                "{date}"
            );
        }
        for wrong in ["", "24", "2024-13", "2024-00-01", "May", "2024-05-17-1"] {
            assert_eq!((day(wrong), last_day(wrong)), (None, None), "{wrong}");
        }
    }

    #[test]
    fn a_host_is_found_by_each_domain_above_it() {
        let all = |host| domains(host).collect::<Vec<_>>();
        assert_eq!(all("www.a.test"), ["www.a.test", "a.test", "test"]);
        assert_eq!(all("127.0.0.1:8080"), ["127.0.0.1:8080"]);
        assert_eq!(all("[::1]:80"), ["[::1]:80"]);
        assert_eq!(host_of(None, "https://WWW.a.test/x"), "www.a.test");
        assert_eq!(host_of(Some("A.test".to_owned()), "x"), "a.test");
        assert_eq!(host_of(None, "no address"), "");
    }

    #[test]
    fn lines_of_jobs_and_of_corpora_are_read_and_strange_values_passed_over() {
        let boundaries = Boundaries::default();
        let about = |line: &str| {
            let read = EntryLine::parse(line.as_bytes()).unwrap();
            read.about(DocumentPlace::default(), Some(&boundaries))
        };
        let job = about(
            r#"{"url":"http://a.test/","text":"x","fetched":"2026-01-02T03:04:05.678Z",
            "authors":["A","B"],"perplexity":700.5,"on_topic":0.9,"words":1}"#,
        );
        assert_eq!(job.bucket.as_deref(), Some("medium"));
        assert_eq!(job.date.as_deref(), Some("2026-01-02T03:04:05.678Z"));
        assert!(job.date_is_fetched);
        assert_eq!((job.authors.len(), job.words), (2, Some(1)));
        let corpus = about(
            r#"{"url":"http://a.test/","text":"x","host":"b.test","date":"2024-05","bucket":"tail",
            "published":"2024-05","fetched":"2026-01-02T03:04:05.678Z","author":"C",
            "archive":"a.warc.gz","offset":7,"length":9,"perplexity":null,"copy_of":"k"}"#,
        );
        assert_eq!(corpus.host, "b.test");
        assert_eq!(corpus.bucket.as_deref(), Some("tail"));
        assert!(!corpus.date_is_fetched);
        let stored = corpus.capture.unwrap();
        assert_eq!(
            (stored.file.as_str(), stored.byte, stored.bytes),
            ("a.warc.gz", 7, 9)
        );
        let far = about(r#"{"url":"x","text":"x","perplexity":1e9}"#);
        assert_eq!(far.bucket.as_deref(), Some("above"));
        assert_eq!(far.date, None);
        assert!(!far.date_is_fetched);
        for wrong in ["", "{", "[]", "{}", r#"{"url":7}"#] {
            assert!(EntryLine::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
