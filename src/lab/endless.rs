//! An endless web: enough pages for any crawl, each computed from its address alone, so
//! that serving the millionth costs as much as the first.
//!
//! The pages form chains, four for each of [`HOSTS`] hosts; page 7 of chain 12 is
//! `http://h12.test/keepers/7-12.html`. Every page links to the next one of its chain,
//! mostly to the next one of other chains as well, on the same and on another host, and
//! back to earlier pages. So a breadth-first crawl has some tens of thousands of queued
//! addresses, and a focused one more and more, as on the real web.
//!
//! | share of links | target |
//! |---|---|
//! | most | a page with its own text: a unique combination of six sentences, between none and all of them on the demo's topic, and similar to its neighbours in the chain |
//! | some | a redirect (`/go/`), a missing page (`/gone/`), a page forbidden by robots.txt (`/private/`), a server that is always busy (`/busy/`) |
//!
//! One page in forty is a copy of the previous one, one in twenty-four has a picture, and one host
//! in four has no robots.txt. [`job`] crawls it; its training texts are on a separate host,
//! `texts.test`.
//!
//! Unlike a trap, it has something new on every page, so a crawl ends only by the job's limit or a
//! bug.

use std::net::SocketAddr;

use super::demo;
use super::traps::{Page, mix};
use super::tree::{Lab, LabResponse, PictureSize};

/// Hosts with pages, `h0.test` and so on.
pub const HOSTS: u64 = 4_096;

/// Chains of pages, a power of two as [`HOSTS`] is.
const CHAINS: u64 = 4 * HOSTS;

/// First folders of a path.
const SECTIONS: [&str; 6] = ["keepers", "lamps", "notes", "towers", "harbours", "logs"];

/// A job without limits that crawls this web, served on `web`.
pub fn job(web: SocketAddr) -> String {
    let seeds: Vec<String> = (0..16)
        .map(|n| format!("http://h{}.test/", n * HOSTS / 16))
        .collect();
    format!(
        r#"# A crawl without an end; state one under [limits], or stop it.
[job]
name = "endless"
contact = "mailto:lab@localhost"

[seeds]
urls = {seeds:#?}

[train]
positive = ["http://texts.test/positive.txt"]
neutral = ["http://texts.test/neutral.txt"]

[network]
connect_to = ["*.test:80:{web}"]
concurrency = 32

# The only server that is asked is our own.
[politeness]
min_delay = "5ms"
delay_factor = 1.0
max_delay = "1s"
retries = 1
back_off = "100ms"
max_back_off = "1s"

[frontier]
store = "fjall"

[images]
min_width = 8
min_height = 8
"#
    )
}

/// The web, ready to be served.
pub fn web() -> Lab {
    let web = Web::new();
    Lab::made(move |host, target| web.answer(host, target).unwrap_or(LabResponse::Missing))
}

/// The random decisions for a page, each with its own random numbers.
#[derive(Clone, Copy)]
enum Draw {
    Text,
    Topic,
    Copy,
    Picture,
    Section,
    Links,
}

/// A page: its position in its chain, and the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChainSpot {
    place: u64,
    chain: u64,
}

impl ChainSpot {
    fn parse(name: &str) -> Option<Self> {
        let (place, chain) = name.split_once('-')?;
        let (place, chain) = (place.parse().ok()?, chain.parse().ok()?);
        (chain < CHAINS).then_some(Self { place, chain })
    }

    fn host(self) -> u64 {
        self.chain % HOSTS
    }

    fn section(self) -> &'static str {
        let at = self.draw(Draw::Section) % SECTIONS.len() as u64;
        SECTIONS.get(at as usize).copied().unwrap_or("pages")
    }

    fn url(self) -> String {
        let Self { place, chain } = self;
        let (host, section) = (self.host(), self.section());
        format!("http://h{host}.test/{section}/{place}-{chain}.html")
    }

    /// The same page by another path, such as `/go/`.
    fn by(self, folder: &str) -> String {
        let Self { place, chain } = self;
        format!("http://h{}.test/{folder}/{place}-{chain}", self.host())
    }

    fn draw(self, what: Draw) -> u64 {
        mix(mix(self.place).wrapping_add(what as u64) ^ self.chain)
    }

    /// Whether it has the text of the previous page.
    fn is_copy(self) -> bool {
        self.place > 0 && self.draw(Draw::Copy).is_multiple_of(40)
    }

    /// Another chain of the same host.
    fn sibling(self, place: u64) -> Self {
        Self {
            place,
            chain: (self.chain + HOSTS) % CHAINS,
        }
    }
}

/// The two halves of a sentence, from which others are composed.
type Halves = (String, String);

struct Web {
    topical: Vec<Halves>,
    other: Vec<Halves>,
    positive: String,
    neutral: String,
}

impl Web {
    fn new() -> Self {
        let texts = demo::training();
        let whole = |files: &[(String, String)]| {
            let texts: Vec<&str> = files.iter().map(|(_, text)| text.as_str()).collect();
            texts.join("\n")
        };
        let (positive, neutral) = (whole(&texts.positive), whole(&texts.neutral));
        Self {
            topical: halves(&positive),
            other: halves(&neutral),
            positive,
            neutral,
        }
    }

    fn answer(&self, host: &str, target: &str) -> Option<LabResponse> {
        if host == "texts.test" {
            return match target {
                "/positive.txt" => Some(plain(&self.positive)),
                "/neutral.txt" => Some(plain(&self.neutral)),
                _ => None,
            };
        }
        let number = host.strip_prefix('h')?.strip_suffix(".test")?;
        let host: u64 = number.parse().ok().filter(|host| *host < HOSTS)?;
        let (folder, name) = target
            .strip_prefix('/')?
            .split_once('/')
            .unwrap_or_default();
        let here = |name| ChainSpot::parse(name).filter(|spot| spot.host() == host);
        match folder {
            "" if target == "/" => self.front(host),
            "" if target == "/robots.txt" => match host % 4 {
                0 => None,
                1 => Some(plain("User-agent: *\nAllow: /\nDisallow: /private/\n")),
                _ => Some(plain("User-agent: *\nDisallow: /private/\n")),
            },
            "" | "gone" | "private" => None,
            "go" => Some(LabResponse::Moved {
                location: here(name)?.url(),
            }),
            "busy" => here(name).map(|_| LabResponse::Busy { seconds: 1 }),
            "pictures" => here(name.strip_suffix(".png")?).map(|spot| LabResponse::Picture {
                url: spot.url(),
                size: PictureSize {
                    width: 16,
                    height: 12,
                },
            }),
            section => {
                let spot = here(name.strip_suffix(".html")?)?;
                (spot.section() == section).then(|| self.page(spot))?
            }
        }
    }

    /// A host's front page, with links to the beginnings of its chains.
    fn front(&self, host: u64) -> Option<LabResponse> {
        let first = |chain| ChainSpot { place: 0, chain };
        let mut page = Page::new("A house of lights", &self.sentence(first(host), 0));
        for chain in (host..CHAINS).step_by(HOSTS as usize) {
            self.link(&mut page, first(chain));
        }
        page.answer()
    }

    fn page(&self, spot: ChainSpot) -> Option<LabResponse> {
        let mut page = Page::new(&self.title(spot), &self.text(spot, 0));
        page.text(&self.text(spot, 1));
        let dice = spot.draw(Draw::Links);
        let one_in = |n: u64, salt: u64| mix(dice ^ salt).is_multiple_of(n);
        let next = spot.place.checked_add(1)?;
        // An odd factor, so that exactly one other chain links to each.
        let chain = (spot.chain * 5 + next % CHAINS * 7_919 + 1) % CHAINS;
        let aside = ChainSpot { place: next, chain };
        self.link(
            &mut page,
            ChainSpot {
                place: next,
                ..spot
            },
        );
        if one_in(2, 1) {
            self.link(&mut page, aside);
        }
        if one_in(2, 2) {
            self.link(&mut page, spot.sibling(next));
        }
        if let Some(place) = spot.place.checked_sub(1) {
            self.link(&mut page, ChainSpot { place, ..spot });
            self.link(&mut page, spot.sibling(place));
        }
        page.link("/", "The front page of this house of lights");
        page.link(&format!("http://h{}.test/", dice % HOSTS), "Another house");
        for (n, salt, folder) in [
            (16, 3, "go"),
            (24, 4, "gone"),
            (24, 5, "private"),
            (200, 6, "busy"),
        ] {
            if one_in(n, salt) {
                page.link(&aside.by(folder), &self.title(aside));
            }
        }
        if spot.draw(Draw::Picture).is_multiple_of(24) {
            let ChainSpot { place, chain } = spot;
            page.text(&format!(
                "<img src=\"/pictures/{place}-{chain}.png\" alt=\"{}\">",
                self.title(spot)
            ));
        }
        page.answer()
    }

    fn link(&self, page: &mut Page, to: ChainSpot) {
        page.link(&to.url(), &self.title(to));
    }

    fn title(&self, spot: ChainSpot) -> String {
        let sentence = self.sentence(spot, 0);
        let words: Vec<&str> = sentence.split(' ').take(7).collect();
        words.join(" ")
    }

    /// A paragraph of a page.
    fn text(&self, spot: ChainSpot, paragraph: u64) -> String {
        let sentences: Vec<String> = (0..3)
            .map(|i| self.sentence(spot, paragraph * 3 + i))
            .collect();
        sentences.join(" ")
    }

    /// A sentence of a page: the first half of one written sentence and the second half of
    /// another.
    fn sentence(&self, spot: ChainSpot, number: u64) -> String {
        let mut of = spot;
        while of.is_copy() {
            of.place -= 1;
        }
        let stretch = ChainSpot {
            place: of.place / 4,
            ..of
        };
        let topical = number < stretch.draw(Draw::Topic) % 7;
        let list = if topical { &self.topical } else { &self.other };
        let dice = mix(of.draw(Draw::Text) ^ number);
        let pick = |dice: u64| list.get((dice % list.len().max(1) as u64) as usize);
        match (pick(dice), pick(mix(dice))) {
            (Some((first, _)), Some((_, second))) => format!("{first} {second}"),
            _ => String::new(),
        }
    }
}

fn halves(text: &str) -> Vec<Halves> {
    let halve = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let (first, second) = words.split_at(words.len() / 2);
        (first.join(" "), second.join(" "))
    };
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(halve).collect()
}

fn plain(text: &str) -> LabResponse {
    LabResponse::File {
        content_type: "text/plain; charset=utf-8".to_owned(),
        bytes: text.to_owned().into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::address::PageUrl;

    fn get(lab: &Lab, url: &str) -> LabResponse {
        let url = PageUrl::parse(url).unwrap();
        lab.answer(url.host(), url.path_and_query()).unwrap()
    }

    fn html(lab: &Lab, url: &str) -> String {
        match get(lab, url) {
            LabResponse::File { bytes, .. } => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("{url}: {other:?}"),
        }
    }

    /// The addresses in attributes of a page, absolute.
    fn leads(url: &str, html: &str) -> Vec<PageUrl> {
        let base = PageUrl::parse(url).unwrap();
        let after = html.split("href=\"").skip(1);
        let hrefs = after.filter_map(|rest| rest.split('"').next());
        hrefs
            .map(|href| PageUrl::join(&base, href).unwrap())
            .collect()
    }

    #[test]
    fn the_same_address_has_the_same_page_on_any_server() {
        let (one, other) = (web(), web());
        for spot in (0..200).map(|n| ChainSpot {
            place: n * n,
            chain: n * 71,
        }) {
            assert_eq!(html(&one, &spot.url()), html(&other, &spot.url()));
        }
    }

    #[test]
    fn pages_are_small_and_differ_but_for_the_copies() {
        let web = Web::new();
        let spots = (0..40).flat_map(|place| {
            (0..100).map(move |n| ChainSpot {
                place,
                chain: n * 163,
            })
        });
        let mut texts = HashSet::new();
        let mut copies = 0;
        for spot in spots {
            let text = [web.text(spot, 0), web.text(spot, 1)].concat();
            assert!((300..2_000).contains(&text.len()), "{text}");
            let known = !texts.insert(text);
            assert_eq!(known, spot.is_copy(), "{spot:?}");
            copies += u64::from(known);
        }
        assert!((60..140).contains(&copies), "{copies} of 4,000");
    }

    #[test]
    fn a_walk_finds_new_pages_on_new_hosts_without_an_end() {
        let lab = web();
        let mut url = "http://h7.test/".to_owned();
        let mut met = HashSet::from([url.clone()]);
        let mut hosts = HashSet::new();
        let mut links = 0;
        for step in 0..2_000_u64 {
            let page = html(&lab, &url);
            assert!(page.len() < 4_000, "{page}");
            let all = leads(&url, &page);
            links += all.len();
            let page_of = format!("/{step}-");
            let further =
                |to: &&PageUrl| to.path().contains(&page_of) && to.path().ends_with(".html");
            let fresh: Vec<&PageUrl> = all.iter().filter(further).collect();
            let to = fresh.get(step as usize % fresh.len()).unwrap();
            url = to.as_str().to_owned();
            hosts.insert(to.host().to_owned());
            assert!(met.insert(url.clone()), "{url}");
        }
        assert!((10_000..16_000).contains(&links), "{links}");
        assert!(hosts.len() > 300, "{}", hosts.len());
    }

    #[test]
    fn every_kind_of_answer_is_there() {
        let lab = web();
        let spot = ChainSpot {
            place: 5,
            chain: 4_097,
        };
        assert_eq!(
            spot.url(),
            format!("http://h1.test/{}/5-4097.html", spot.section())
        );
        let moved = LabResponse::Moved {
            location: spot.url(),
        };
        assert_eq!(get(&lab, &spot.by("go")), moved);
        assert_eq!(
            get(&lab, &spot.by("busy")),
            LabResponse::Busy { seconds: 1 }
        );
        assert!(matches!(
            get(&lab, "http://h1.test/pictures/5-4097.png"),
            LabResponse::Picture { .. }
        ));
        for missing in [
            &spot.by("gone"),
            "http://h0.test/robots.txt",
            "http://h2.test/keepers/5-4097.html",
            "http://h1.test/keepers/5-99999.html",
            "http://h1.test/keepers/18446744073709551615-1.html",
            "http://h4096.test/",
            "http://elsewhere.test/",
        ] {
            assert_eq!(get(&lab, missing), LabResponse::Missing, "{missing}");
        }
        assert!(html(&lab, "http://h2.test/robots.txt").contains("/private/"));
        assert!(html(&lab, "http://texts.test/positive.txt").lines().count() > 500);
    }
}
