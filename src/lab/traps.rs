//! A web with traps: four sites with endless addresses, and an archive whose every page is
//! worth reading.
//!
//! | host | what it is |
//! |---|---|
//! | `archive.test` | articles by number, all different but of the same form; links with campaign parameters |
//! | `calendar.test` | months and days for ever in both directions, in paths and in queries |
//! | `facets.test` | forty lights, and a list of them by every combination and order of filters |
//! | `session.test` | twenty pages; every answer has links with session ids that were never seen before |
//! | `loop.test` | endless redirects, in circles and otherwise; paths that grow; a login that leads back |
//!
//! All of it is on the demo's topic, including the traps, so that no language model can
//! distinguish them. [`content`] defines what is worth a fetch.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use super::demo;
use super::tree::{Lab, LabResponse};
use crate::address::PageUrl;

/// The hosts, the archive first. Each has a front page, which is a good seed.
pub const HOSTS: [&str; 5] = [
    "archive.test",
    "calendar.test",
    "facets.test",
    "session.test",
    "loop.test",
];

/// Articles that one page of the archive's index lists.
const LISTED: u64 = 50;
const LIGHTS: u64 = 40;
const SESSION_PAGES: u64 = 20;
/// Filters of the list of lights and their values.
const FILTERS: [(&str, &[&str]); 4] = [
    ("colour", &["white", "red", "green", "yellow", "striped"]),
    ("region", &["north", "south", "east", "west", "island"]),
    ("lamp", &["oil", "gas", "electric", "paraffin"]),
    ("sort", &["height", "age", "range", "name"]),
];

/// The web, with this many articles in its archive.
pub fn web(articles: u64) -> Lab {
    let web = Web {
        articles,
        lines: demo::training()
            .positive
            .iter()
            .flat_map(|(_, text)| text.lines().map(str::to_owned))
            .collect(),
        answers: AtomicU64::new(0),
    };
    Lab::made(move |host, target| {
        let url = PageUrl::parse(&format!("http://{host}{target}"));
        let answer = url.ok().and_then(|url| web.answer(&url));
        answer.unwrap_or(LabResponse::Missing)
    })
}

/// The content of an address that is worth a fetch, the same for all addresses with that content;
/// `None` for pages that only a trap shows, and for missing pages.
pub fn content(url: &PageUrl) -> Option<String> {
    let host = url.host();
    let path = url.path().split(';').next()?;
    let content = match host {
        "session.test" => match path.rsplit_once("/page/") {
            Some((_, page)) => format!("/page/{page}"),
            None => path.to_owned(),
        },
        "archive.test" => path.to_owned(),
        "facets.test" if path.starts_with("/light/") => path.to_owned(),
        "calendar.test" | "facets.test" | "loop.test" if path == "/" => path.to_owned(),
        _ => return None,
    };
    Some(format!("{host}{content}"))
}

struct Web {
    articles: u64,
    /// Sentences on the topic.
    lines: Vec<String>,
    /// Answers so far, which make session ids fresh.
    answers: AtomicU64,
}

impl Web {
    fn answer(&self, url: &PageUrl) -> Option<LabResponse> {
        let path = url.path().split(';').next()?;
        match url.host() {
            "archive.test" => self.archive(path),
            "calendar.test" => self.calendar(url, path),
            "facets.test" => self.facets(url, path),
            "session.test" => self.session(path),
            "loop.test" => self.circle(path),
            _ => None,
        }
    }

    fn archive(&self, path: &str) -> Option<LabResponse> {
        let last = self.articles.div_ceil(LISTED);
        if path == "/" {
            let mut page = Page::new("The lighthouse archive", &self.some(1, 3));
            for host in HOSTS.iter().skip(1) {
                page.link(&format!("http://{host}/"), &self.title(host.len() as u64));
            }
            page.link("/index/1", "All articles about lighthouses");
            return page.answer();
        }
        if let Some(number) = number(path, "/index/").filter(|n| (1..=last).contains(n)) {
            let mut page = Page::new("Articles", "Articles about the lighthouses of the coast.");
            let first = (number - 1) * LISTED + 1;
            for article in first..=self.articles.min(first + LISTED - 1) {
                page.link(&format!("/article/{article}"), &self.title(article));
            }
            if number < last {
                page.link(&format!("/index/{}", number + 1), "More about lighthouses");
            }
            return page.answer();
        }
        let article = number(path, "/article/").filter(|n| (1..=self.articles).contains(n))?;
        let mut page = Page::new(&self.title(article), &self.some(article * 3, 4));
        page.text(&self.some(article * 3 + 1, 3));
        page.text(&self.some(article * 3 + 2, 5));
        let next = article % self.articles + 1;
        page.link(
            &format!("/article/{next}?utm_source=next&utm_campaign={article}"),
            &self.title(next),
        );
        page.link(
            "/?fbclid=archive",
            "The front page of the lighthouse archive",
        );
        page.answer()
    }

    fn calendar(&self, url: &PageUrl, path: &str) -> Option<LabResponse> {
        const NAMES: [&str; 12] = [
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ];
        if path == "/" {
            let mut page = Page::new("Events at the lighthouse", &self.some(7, 3));
            page.link("/events/2026/11/", "What happens at the lighthouse");
            page.link(
                "/day?date=2026-11-21",
                "What happens at the lighthouse today",
            );
            return page.answer();
        }
        let mut parts = path.strip_prefix("/events/").map(|rest| rest.split('/'));
        if let Some(parts) = &mut parts {
            let year: i64 = parts.next()?.parse().ok()?;
            let month: i64 = parts
                .next()?
                .parse()
                .ok()
                .filter(|m| (1..=12).contains(m))?;
            let name = NAMES.get(usize::try_from(month - 1).ok()?)?;
            let title = format!("{name} {year}");
            let mut page = Page::new(&title, "There are no events at the lighthouse this month.");
            for (step, text) in [(-1, "The month before"), (1, "The month after")] {
                let months = year * 12 + month - 1 + step;
                let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
                page.link(&format!("/events/{year}/{month:02}/"), text);
            }
            for day in 1..=28 {
                let href = format!("/day?date={year}-{month:02}-{day:02}");
                page.link(&href, &format!("{day}"));
            }
            return page.answer();
        }
        let url = url.to_url().ok()?;
        let (_, date) = url.query_pairs().find(|(name, _)| name == "date")?;
        let mut date = date.splitn(3, '-').map(str::parse::<i64>);
        let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
        let title = format!("{day} {month} {year}");
        let mut page = Page::new(&title, "The lighthouse is open and there are no events.");
        for (step, text) in [(-1, "The day before"), (1, "The day after")] {
            let days = (year * 12 + month - 1) * 28 + day - 1 + step;
            let (months, day) = (days.div_euclid(28), days.rem_euclid(28) + 1);
            let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
            page.link(&format!("/day?date={year}-{month:02}-{day:02}"), text);
        }
        page.answer()
    }

    fn facets(&self, url: &PageUrl, path: &str) -> Option<LabResponse> {
        if path == "/" {
            let mut page = Page::new("Forty lights of the coast", &self.some(11, 3));
            page.link("/lights", "The list of all lighthouses of the coast");
            return page.answer();
        }
        if let Some(light) = number(path, "/light/").filter(|n| *n < LIGHTS) {
            let mut page = Page::new(&self.title(900 + light), &self.some(5_000 + light * 2, 5));
            page.text(&self.some(5_001 + light * 2, 4));
            page.link("/lights", "The list of all lighthouses of the coast");
            return page.answer();
        }
        if path != "/lights" {
            return None;
        }
        let url = url.to_url().ok()?;
        let pairs = url.query_pairs();
        let chosen: Vec<(String, String)> = pairs
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        let words: Vec<&str> = chosen.iter().map(|(_, value)| value.as_str()).collect();
        let title = format!("Lighthouses of the coast: {}", words.join(", "));
        let mut page = Page::new(&title, "Choose a lighthouse of the coast from this list.");
        let value_of = |name: &str| chosen.iter().find(|(n, _)| n == name).map(|(_, v)| v);
        let mut lights: Vec<u64> = (0..LIGHTS).collect();
        for (f, (name, values)) in FILTERS.iter().enumerate() {
            let Some(value) = value_of(name) else {
                continue;
            };
            let at = values.iter().position(|v| v == value)? as u64;
            match *name {
                "sort" => lights.sort_by_key(|light| mix(light * 4 + at)),
                _ => lights.retain(|l| mix(l * 4 + f as u64) % values.len() as u64 == at),
            }
        }
        for light in lights {
            page.link(&format!("/light/{light}"), &self.title(900 + light));
        }
        for (name, values) in FILTERS {
            let rest: Vec<String> = chosen
                .iter()
                .filter(|(n, _)| n != name)
                .map(|(n, v)| format!("{n}={v}"))
                .collect();
            for value in values {
                // In the order of the clicks, so that each order has a separate address.
                let query = [rest.clone(), vec![format!("{name}={value}")]].concat();
                let href = format!("/lights?{}", query.join("&"));
                page.link(&href, &format!("Lighthouses by {name}: {value}"));
            }
        }
        page.answer()
    }

    fn session(&self, path: &str) -> Option<LabResponse> {
        let page = match path {
            "/" => 0,
            _ => {
                let (_, page) = path.rsplit_once("/page/")?;
                page.parse().ok().filter(|n| *n < SESSION_PAGES)?
            }
        };
        let title = self.title(700 + page);
        let mut html = Page::new(&title, &self.some(9_000 + page, 5));
        let id = mix(self.answers.fetch_add(1, Ordering::Relaxed));
        for step in 1..=3 {
            let to = (page + step) % SESSION_PAGES;
            let title = self.title(700 + to);
            html.link(&format!("/page/{to}?PHPSESSID={id:x}"), &title);
            html.link(&format!("/page/{to};jsessionid={id:X}.node1"), &title);
            html.link(&format!("/page/{to}?sid={id:016x}{id:016x}"), &title);
            // This one is on no list.
            html.link(&format!("/visit/{id:x}7/page/{to}"), &title);
        }
        html.answer()
    }

    fn circle(&self, path: &str) -> Option<LabResponse> {
        let to = |location: String| Some(LabResponse::Moved { location });
        match path {
            "/" => {
                let mut page = Page::new("Round the lighthouse", &self.some(17, 3));
                for href in ["/a", "/self", "/chain/1", "/chain/1000", "/grow/"] {
                    page.link(href, "The way round the lighthouse");
                }
                page.link("/login?back=/", "The keepers of the lighthouse");
                page.answer()
            }
            "/a" => to("/b".to_owned()),
            "/b" => to("/a".to_owned()),
            "/self" => to("/self".to_owned()),
            "/login" => to("/".to_owned()),
            _ if path.starts_with("/chain/") => {
                to(format!("/chain/{}", number(path, "/chain/")? + 1))
            }
            _ if path.starts_with("/grow/") => {
                let mut page = Page::new("Up the lighthouse", &self.some(19, 3));
                for href in ["tower/", "stair/lamp/", "lamp/stair/"] {
                    page.link(href, "Further up the stairs of the lighthouse");
                }
                page.link(&format!("/login?back={path}"), "The keepers");
                page.answer()
            }
            _ => None,
        }
    }

    /// Some sentences, always the same for one `which`.
    fn some(&self, which: u64, sentences: u64) -> String {
        let line = |i| {
            let at = mix(which * 16 + i) % self.lines.len().max(1) as u64;
            self.lines.get(at as usize).map_or("", String::as_str)
        };
        let lines: Vec<&str> = (0..sentences).map(line).collect();
        lines.join(" ")
    }

    /// The beginning of a sentence.
    fn title(&self, which: u64) -> String {
        let sentence = self.some(which + 100_000, 1);
        let words: Vec<&str> = sentence.split(' ').take(7).collect();
        words.join(" ")
    }
}

/// The number after a prefix of a path.
fn number(path: &str, prefix: &str) -> Option<u64> {
    path.strip_prefix(prefix)?.parse().ok()
}

/// A hash of the number (the finaliser of SplitMix64, Steele et al. 2014).
pub(super) fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// A page with the same frame on every site.
pub(super) struct Page(String);

impl Page {
    pub fn new(title: &str, text: &str) -> Self {
        let mut page = Self(format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <title>{title}</title></head><body>\n\
             <ul><li>Lighthouses</li><li>Keepers</li><li>About this site</li></ul>\n\
             <h1>{title}</h1>\n"
        ));
        page.text(text);
        page
    }

    pub fn text(&mut self, text: &str) {
        // Writing to a string cannot fail.
        writeln!(self.0, "<p>{text}</p>").ok();
    }

    pub fn link(&mut self, href: &str, anchor: &str) {
        let href = href.replace('&', "&amp;");
        writeln!(self.0, "<p><a href=\"{href}\">{anchor}</a></p>").ok();
    }

    pub fn answer(mut self) -> Option<LabResponse> {
        self.0.push_str("</body></html>\n");
        Some(LabResponse::File {
            content_type: "text/html; charset=utf-8".to_owned(),
            bytes: self.0.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(lab: &Lab, url: &str) -> String {
        let url = PageUrl::parse(url).unwrap();
        match lab.answer(url.host(), url.path_and_query()).unwrap() {
            LabResponse::File { bytes, .. } => String::from_utf8(bytes.to_vec()).unwrap(),
            LabResponse::Moved { location } => format!("to {location}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn articles_differ_and_lights_do_not() {
        let lab = web(120);
        let article = |n| get(&lab, &format!("http://archive.test/article/{n}"));
        assert_ne!(article(1), article(2));
        assert_eq!(article(3), article(3));
        for gone in ["/article/0", "/article/121", "/index/4", "/robots.txt"] {
            assert_eq!(get(&lab, &format!("http://archive.test{gone}")), "Missing");
        }
        assert_eq!(
            get(&lab, "http://archive.test/index/3")
                .matches("/article/")
                .count(),
            20
        );
        let all = get(&lab, "http://facets.test/lights");
        assert_eq!(all.matches("/light/").count(), 40);
        let few = get(&lab, "http://facets.test/lights?lamp=gas&colour=red");
        assert!(few.matches("/light/").count() < 10);
        assert!(
            few.contains("?lamp=gas&amp;colour=red&amp;sort=age"),
            "{few}"
        );
    }

    #[test]
    fn traps_have_no_end() {
        let lab = web(1);
        let months = get(&lab, "http://calendar.test/events/2026/12/");
        assert!(months.contains("/events/2027/01/") && months.contains("/events/2026/11/"));
        let days = get(&lab, "http://calendar.test/day?date=2026-01-01");
        assert!(
            days.contains("2025-12-28") && days.contains("2026-01-02"),
            "{days}"
        );
        let once = get(&lab, "http://session.test/page/3");
        assert_ne!(once, get(&lab, "http://session.test/page/3"));
        assert_eq!(get(&lab, "http://loop.test/b"), "to /a");
        assert_eq!(get(&lab, "http://loop.test/chain/41"), "to /chain/42");
        assert!(get(&lab, "http://loop.test/grow/stair/lamp/").contains("\"tower/\""));
    }

    #[test]
    fn contents_are_distinguished_from_traps() {
        for (url, expected) in [
            (
                "http://archive.test/article/3?utm_source=x",
                "archive.test/article/3",
            ),
            (
                "http://session.test/page/3;jsessionid=1",
                "session.test/page/3",
            ),
            (
                "http://session.test/visit/ab7/page/3",
                "session.test/page/3",
            ),
            ("http://calendar.test/", "calendar.test/"),
            ("http://facets.test/light/3", "facets.test/light/3"),
        ] {
            assert_eq!(
                content(&PageUrl::parse(url).unwrap()).as_deref(),
                Some(expected)
            );
        }
        for url in [
            "http://calendar.test/events/2026/11/",
            "http://facets.test/lights?lamp=gas",
            "http://loop.test/a",
            "http://other.test/",
        ] {
            assert_eq!(content(&PageUrl::parse(url).unwrap()), None, "{url}");
        }
    }
}
