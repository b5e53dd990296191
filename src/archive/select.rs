//! Selects captures by address, time, media type and status.

use std::ops::RangeInclusive;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::cdxj::CdxjLine;
use super::surt;
use crate::tool_error::ToolError;

/// A part of a sorted index: all lines from `begin` on and before `end`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// The least text of a line.
    pub begin: String,
    /// The least text of a line after it.
    pub end: String,
}

impl Range {
    /// Everything.
    fn all() -> Self {
        Self {
            begin: String::new(),
            end: "\u{10ffff}".to_owned(),
        }
    }

    fn holds(&self, line: &CdxjLine) -> bool {
        // A key ends where the line has a space.
        let text = format!("{} ", line.key);
        text.as_str() >= self.begin.as_str() && text.as_str() < self.end.as_str()
    }
}

/// A filter of captures. A criterion without values is ignored; of several addresses, hosts,
/// types or statuses, any may match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    ranges: Vec<Range>,
    from: Option<String>,
    to: Option<String>,
    mimes: Vec<String>,
    statuses: Vec<String>,
}

impl Selection {
    /// Adds an address.
    pub fn url(&mut self, url: &str) {
        let key = surt::key(url);
        self.add(format!("{key} "), format!("{key}!"));
    }

    /// Adds all addresses with a prefix: a URL, or a SURT as in `org,example)/folder/`.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the text is empty.
    pub fn prefix(&mut self, prefix: &str) -> Result<(), ToolError> {
        let is_surt = !prefix.contains("://") && prefix.contains([',', ')']);
        let mut key = if is_surt {
            prefix.to_ascii_lowercase()
        } else {
            surt::key(prefix)
        };
        // The key of a folder has no slash at its end.
        for end in ['/', '?'] {
            if !is_surt && prefix.ends_with(end) && !key.ends_with(end) {
                key.push(end);
            }
        }
        let wrong = || {
            ToolError::new(format_args!(
                "`{prefix}` is not a prefix of addresses; write it as in \
                 https://example.org/folder/ or, as SURT, org,example)/folder/"
            ))
        };
        let end = after(&key).ok_or_else(wrong)?;
        self.add(key, end);
        Ok(())
    }

    /// Adds a host, and with `deep` its subdomains. `www.` makes no difference.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the text is invalid.
    pub fn host(&mut self, host: &str, deep: bool) -> Result<(), ToolError> {
        let wrong = || {
            ToolError::new(format_args!(
                "`{host}` is not a host; write it as in www.example.org or example.org:8080"
            ))
        };
        if host.is_empty() || host.contains(['/', ' ', '@']) {
            return Err(wrong());
        }
        let key = surt::key(&format!("http://{host}/"));
        let name = key.strip_suffix(")/").ok_or_else(wrong)?;
        // `)` ends the host, `:` begins its port, `,` a subdomain.
        let mut ends = vec![")"];
        if !name.contains(':') {
            ends.push(":");
        }
        if deep {
            ends.push(",");
        }
        for end in ends {
            let begin = format!("{name}{end}");
            let end = after(&begin).ok_or_else(wrong)?;
            self.add(begin, end);
        }
        Ok(())
    }

    /// Excludes earlier captures.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the text is invalid.
    pub fn from(&mut self, date: &str) -> Result<(), ToolError> {
        let digits = digits(date)?;
        self.from = Some(format!("{digits:0<14}"));
        Ok(())
    }

    /// Excludes later captures; a year counts to its end.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the text is invalid.
    pub fn to(&mut self, date: &str) -> Result<(), ToolError> {
        let digits = digits(date)?;
        self.to = Some(format!("{digits:9<14}"));
        Ok(())
    }

    /// Adds a media type; `image/*` means all with this prefix.
    pub fn mime(&mut self, mime: &str) {
        self.mimes.push(mime.to_ascii_lowercase());
    }

    /// Adds a status; `3xx` means all that begin with 3.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the text is invalid.
    pub fn status(&mut self, status: &str) -> Result<(), ToolError> {
        let text = status.to_ascii_lowercase();
        let bare = text.trim_end_matches('x');
        let is_number = !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit());
        if text.len() != 3 || !is_number {
            return Err(ToolError::new(format_args!(
                "`{status}` is not a status; write three digits, as in 200, or 3xx for all that \
                 begin with 3"
            )));
        }
        self.statuses.push(bare.to_owned());
        Ok(())
    }

    fn add(&mut self, begin: String, end: String) {
        self.ranges.push(Range { begin, end });
    }

    /// The ranges of an index to read, in order and without overlaps.
    pub fn ranges(&self) -> Vec<Range> {
        let mut ranges = self.ranges.clone();
        if ranges.is_empty() {
            ranges.push(Range::all());
        }
        ranges.sort();
        let mut joined: Vec<Range> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.begin <= last.end => last.end = last.end.clone().max(range.end),
                _ => joined.push(range),
            }
        }
        joined
    }

    /// Whether a capture is wanted.
    pub fn takes(&self, line: &CdxjLine) -> bool {
        let is_addressed = self.ranges.is_empty() || self.ranges.iter().any(|r| r.holds(line));
        let from = self
            .from
            .as_deref()
            .is_none_or(|from| line.time.as_str() >= from);
        let to = self.to.as_deref().is_none_or(|to| line.time.as_str() <= to);
        is_addressed && from && to && self.is_typed(line) && self.has_status(line)
    }

    fn is_typed(&self, line: &CdxjLine) -> bool {
        let mime = line.mime.as_deref().unwrap_or_default();
        let mime = mime.to_ascii_lowercase();
        let fits = |wanted: &String| match wanted.strip_suffix('*') {
            Some(begin) => mime.starts_with(begin),
            None => mime == *wanted,
        };
        self.mimes.is_empty() || self.mimes.iter().any(fits)
    }

    fn has_status(&self, line: &CdxjLine) -> bool {
        // A resource has no status, because there was no request, but it exists.
        let is_there = line.mime.is_some() && !line.is_revisit();
        let of_none = if is_there { "200" } else { "" };
        let status = line.status.as_deref().unwrap_or(of_none);
        let fits = |begin: &String| status.len() == 3 && status.starts_with(begin.as_str());
        self.statuses.is_empty() || self.statuses.iter().any(fits)
    }
}

/// The least text after all texts with this prefix; `None` for the empty prefix.
fn after(begin: &str) -> Option<String> {
    let mut text = begin.to_owned();
    let last = text.pop()?;
    text.push(char::from_u32(u32::from(last) + 1)?);
    Some(text)
}

/// A date as seconds since 1970; an imprecise date counts from its beginning.
///
/// # Errors
///
/// [`ToolError`] if the text is invalid.
pub fn seconds(date: &str) -> Result<i64, ToolError> {
    let given = digits(date)?;
    let rest = "00000101000000".get(given.len()..).unwrap_or_default();
    let parsed = DateTime::strptime("%Y%m%d%H%M%S", format!("{given}{rest}"));
    let zoned = parsed.and_then(|parsed| parsed.to_zoned(TimeZone::UTC));
    Ok(zoned.map_err(|_| no_date(date))?.timestamp().as_second())
}

fn no_date(date: &str) -> ToolError {
    ToolError::new(format_args!(
        "`{date}` is not a date; write a year, a month, a day or a time, as in 2026-01-02 or \
         20260102030405"
    ))
}

/// How many digits a date may have: a year, a month and so on.
const DIGITS: RangeInclusive<usize> = 4..=14;

fn digits(date: &str) -> Result<String, ToolError> {
    let is_known = |c: char| c.is_ascii_digit() || "-:TtZz ".contains(c);
    let digits: String = date.chars().filter(char::is_ascii_digit).collect();
    let is_right = date.chars().all(is_known)
        && DIGITS.contains(&digits.len())
        && digits.len().is_multiple_of(2);
    is_right.then_some(digits).ok_or_else(|| no_date(date))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(url: &str, time: &str, mime: &str, status: &str) -> CdxjLine {
        CdxjLine {
            mime: Some(mime.to_owned()),
            status: Some(status.to_owned()),
            ..CdxjLine::of(url, time.to_owned())
        }
    }

    fn taken(selection: &Selection, urls: &[&str]) -> Vec<String> {
        let lines = urls
            .iter()
            .map(|url| line(url, "20260102030405", "a/b", "200"));
        let taken = lines.filter(|line| selection.takes(line));
        taken.map(|line| line.url).collect()
    }

    #[test]
    fn addresses_are_selected_exactly_and_by_their_beginnings() {
        let urls = [
            "http://a.test/",
            "http://a.test/x",
            "http://a.test/xy",
            "http://a.test/x/y",
            "http://a.test:81/x",
            "http://b.a.test/x",
            "http://a-b.test/x",
            "http://test/",
        ];
        let of = |make: &dyn Fn(&mut Selection)| {
            let mut selection = Selection::default();
            make(&mut selection);
            taken(&selection, &urls)
        };
        assert_eq!(of(&|_| ()), urls);
        assert_eq!(of(&|s| s.url("https://www.a.test/X?")), ["http://a.test/x"]);
        assert_eq!(of(&|s| s.prefix("http://a.test/x").unwrap()), urls[1..4]);
        assert_eq!(of(&|s| s.prefix("http://a.test/x/").unwrap()), urls[3..4]);
        assert_eq!(of(&|s| s.prefix("test,a").unwrap()), urls[..7]);
        assert_eq!(of(&|s| s.host("a.test", false).unwrap()), urls[..5]);
        assert_eq!(of(&|s| s.host("a.test:81", false).unwrap()), urls[4..5]);
        assert_eq!(of(&|s| s.host("a.test", true).unwrap()), urls[..6]);
        assert_eq!(of(&|s| s.host("test", true).unwrap()), urls);
        let two = |s: &mut Selection| {
            s.url("http://test/");
            s.url("http://a.test/");
        };
        assert_eq!(of(&two), ["http://a.test/", "http://test/"]);
        for bad in ["", "a b", "http://a.test/"] {
            assert!(Selection::default().host(bad, false).is_err(), "{bad}");
        }
    }

    #[test]
    fn dates_types_and_statuses_narrow_it() {
        let line = line("http://a.test/", "20260102030405", "Text/HTML", "301");
        let takes = |make: &dyn Fn(&mut Selection) -> Result<(), ToolError>| {
            let mut selection = Selection::default();
            make(&mut selection).map(|()| selection.takes(&line))
        };
        for (from, is_taken) in [("2026", true), ("2026-01-02T03:04:06Z", false)] {
            assert_eq!(takes(&|s| s.from(from)), Ok(is_taken), "{from}");
        }
        for (to, is_taken) in [("2026", true), ("20260102", true), ("2026-01-01", false)] {
            assert_eq!(takes(&|s| s.to(to)), Ok(is_taken), "{to}");
        }
        for (mime, is_taken) in [("text/html", true), ("text/*", true), ("text", false)] {
            let given = takes(&|s| {
                s.mime(mime);
                Ok(())
            });
            assert_eq!(given, Ok(is_taken), "{mime}");
        }
        for (status, is_taken) in [("301", true), ("3xx", true), ("200", false)] {
            assert_eq!(takes(&|s| s.status(status)), Ok(is_taken), "{status}");
        }
        for bad in ["soon", "202", "20260", "2026-01-02T03:04:05.6", "-2026x"] {
            assert!(takes(&|s| s.from(bad)).is_err(), "{bad}");
        }
        for bad in ["", "x", "xxx", "2000", "2x0", "ok"] {
            assert!(takes(&|s| s.status(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn dates_are_compared_by_their_seconds() {
        assert_eq!(seconds("1970"), Ok(0));
        assert_eq!(seconds("1970-01-02T00:00:01Z"), Ok(86_401));
        assert_eq!(seconds("202601"), seconds("20260101000000"));
        assert!(seconds("20261301").is_err() && seconds("now").is_err());
    }

    #[test]
    fn ranges_are_joined_where_they_meet() {
        let mut selection = Selection::default();
        selection.host("a.test", true).unwrap();
        selection.prefix("http://a.test/x").unwrap();
        selection.url("http://b.test/");
        let ranges = selection.ranges();
        let begins: Vec<&str> = ranges.iter().map(|range| range.begin.as_str()).collect();
        assert_eq!(begins, ["test,a)", "test,a,", "test,a:", "test,b)/ "]);
    }
}
