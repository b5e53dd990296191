//! The link structure: communities, bridges, farms, misleading anchors and dead ends.
//!
//! A focused crawl can learn from it: links between pages of one topic are common; a
//! descriptive anchor on a dull page may be the only path to an island; a promising anchor
//! may lead to a farm, and "click here" to the best page.

use std::collections::BTreeSet;

use super::bank::{Dice, Subject};
use super::plan::{Anchor, Kind, LinkSpot, Page, has_contact};
use super::sites::Role;

/// Data about links besides the pages.
#[derive(Debug, Default)]
pub(super) struct Roads {
    /// Redirects: address and location.
    pub(super) redirects: Vec<(String, String)>,
    /// Linked addresses that answer 404.
    pub(super) missing: BTreeSet<String>,
}

const VAGUE: &[&str] = &[
    "click here",
    "read on",
    "more",
    "this page",
    "see here",
    "next page",
    "continue",
    "link",
];
const EMPTY: &[&str] = &[
    "go",
    "page",
    "more offers",
    "visit now",
    "top ten",
    "new",
    "enter",
];
const BAIT: &[&str] = &[
    "best lighthouse photos here",
    "famous lighthouses to visit",
    "lighthouse lamps and lenses, cheap",
    "free lighthouse pictures",
    "work as a lighthouse keeper",
    "the lighthouse at the harbour, all pictures",
];

/// A path to an island: from a page of the web over one or two off-topic pages.
struct Bridge {
    /// Host whose first article links to the bridge, and the anchor.
    from: (&'static str, &'static str),
    /// The off-topic pages, by host and number of the article, each with the anchor of its
    /// onward link.
    over: &'static [(&'static str, usize, &'static str)],
    /// Host of the island, and the number of its article.
    to: (&'static str, usize),
}

const BRIDGES: &[Bridge] = &[
    Bridge {
        from: (
            "lanternroom.test",
            "papers of the harbour board on the tower",
        ),
        over: &[(
            "harbour-board.test",
            3,
            "the lighthouse on the skerry and its keepers",
        )],
        to: ("skerry-light.test", 2),
    },
    Bridge {
        from: ("gateway.test", "a garden by the sea"),
        over: &[(
            "seafront-garden.test",
            4,
            "life on the rock lighthouse, told by its keepers",
        )],
        to: ("rockstation.test", 1),
    },
    Bridge {
        from: ("coast-visitor.test", "notices for visitors to Saltwick"),
        over: &[(
            "saltwick-council.test",
            5,
            "the lantern and the lens of the cape lighthouse",
        )],
        to: ("capelantern.test", 3),
    },
    Bridge {
        from: ("seamarks.test", "supper at the inn below the tower"),
        over: &[
            (
                "slowkitchen.test",
                6,
                "the bus to the lighthouse at the far point",
            ),
            (
                "bus-times.test",
                4,
                "the far lighthouse: its lamp, its lens, its last keeper",
            ),
        ],
        to: ("farpoint.test", 0),
    },
];

/// Gives every page its links.
pub(super) fn connect(pages: &mut [Page]) -> Roads {
    let mut roads = Roads::default();
    let map = Map::of(pages);
    for i in 0..pages.len() {
        let mut links = Links {
            dice: Dice::new(&format!("links of {}", pages[i].url())),
            pages,
            out: Vec::new(),
        };
        match (pages[i].kind, pages[i].site.role) {
            (Kind::Article, _) => article(&mut links, &map, i, &mut roads),
            (Kind::Home, Role::Portal) => portal_home(&mut links, &map, i),
            (Kind::Home, _) => links.half_of(&map.articles_of(pages, i)),
            (Kind::About | Kind::Contact, _) => {}
        }
        let out = links.out;
        if !has_contact(pages[i].site) {
            roads.missing.insert(pages[i].site.url("/contact.html"));
        }
        pages[i].links = out;
    }
    point_out(pages, &map);
    build_bridges(pages);
    add_redirects(pages, &mut roads);
    roads
}

/// The pages by role, as indices into the list of pages.
struct Map {
    core: Vec<usize>,
    closed: Vec<usize>,
    other: Vec<usize>,
    noise: Vec<usize>,
    farm: Vec<usize>,
    bait: Vec<usize>,
    /// On-topic articles on sites of another subject.
    guests: Vec<usize>,
}

impl Map {
    fn of(pages: &[Page]) -> Self {
        let those = |wanted: &dyn Fn(&Page) -> bool| -> Vec<usize> {
            let articles = pages.iter().enumerate();
            articles
                .filter(|(_, page)| page.kind == Kind::Article && wanted(page))
                .map(|(i, _)| i)
                .collect()
        };
        let role = |role: Role| those(&|page| page.site.role == role && !page.hidden);
        Self {
            core: role(Role::Core),
            closed: those(&|page| page.hidden),
            other: role(Role::Other),
            noise: those(&|page| page.site.role == Role::Noise && !page.on_topic()),
            farm: role(Role::Farm),
            bait: role(Role::Bait),
            guests: those(&|page| page.on_topic() && !page.site.on_topic() && !page.hidden),
        }
    }

    /// The open articles of the site of page `i`. Portals do not list their on-topic
    /// pages; those are linked from elsewhere.
    fn articles_of(&self, pages: &[Page], i: usize) -> Vec<usize> {
        let site = pages[i].site;
        let all = pages.iter().enumerate().filter(|(_, page)| {
            page.site.host == site.host
                && page.kind == Kind::Article
                && (!page.hidden || site.role == Role::Closed)
                && (site.on_topic() || !page.on_topic())
        });
        all.map(|(j, _)| j).collect()
    }
}

/// Collects the links of one page.
struct Links<'a> {
    dice: Dice,
    pages: &'a [Page],
    out: Vec<Anchor>,
}

impl Links<'_> {
    fn put(&mut self, to: usize, text: &str) {
        let to = self.pages[to].url();
        if self.out.iter().any(|link| link.to == to) {
            return;
        }
        let spot = if self.dice.chance(35) {
            LinkSpot::Text
        } else {
            LinkSpot::List
        };
        let text = text.to_owned();
        self.out.push(Anchor { to, text, spot });
    }

    /// Links to `n` of `among`, `titled` percent of them with their titles as anchors.
    fn some(&mut self, among: &[usize], n: usize, titled: usize) {
        for to in self.dice.some(among, n) {
            self.one(to, titled);
        }
    }

    fn one(&mut self, to: usize, titled: usize) {
        let title = self.pages[to].title.clone();
        let vague = self.dice.pick(VAGUE);
        let has_title = self.dice.chance(titled);
        self.put(to, if has_title { &title } else { vague });
    }

    /// Links to `n` of `among`, each with one of `anchors`.
    fn under(&mut self, among: &[usize], n: usize, anchors: &[&'static str]) {
        for to in self.dice.some(among, n) {
            let anchor = self.dice.pick(anchors);
            self.put(to, anchor);
        }
    }

    /// A table of contents with every second article; the others are reached from their
    /// neighbours.
    fn half_of(&mut self, articles: &[usize]) {
        for to in articles.iter().step_by(2) {
            self.one(*to, 90);
        }
    }
}

fn article(links: &mut Links<'_>, map: &Map, i: usize, roads: &mut Roads) {
    let page = &links.pages[i];
    let same = map.articles_of(links.pages, i);
    let at = same.iter().position(|j| *j == i);
    if let Some(at) = at
        && let Some(next) = same.get(at + 1)
    {
        links.one(*next, 60);
    }
    if page.site.role == Role::Calendar {
        if let Some(before) = at
            .and_then(|at| at.checked_sub(1))
            .and_then(|at| same.get(at))
        {
            links.put(*before, "previous month");
        }
        links.some(&map.noise, 2, 50);
        return;
    }
    let kin = |wanted: &dyn Fn(&Page) -> bool, among: &[usize]| -> Vec<usize> {
        let among = among.iter().copied();
        among.filter(|j| wanted(&links.pages[*j])).collect()
    };
    match page.site.role {
        Role::Core => {
            let far = kin(&|other| other.site.host != page.site.host, &map.core);
            links.some(&same, 2, 80);
            links.some(&far, 2, 75);
            links.some(&map.noise, 4, 65);
            if links.dice.chance(35) {
                links.under(&map.bait, 1, BAIT);
            }
            if links.dice.chance(20) {
                links.some(&map.other, 1, 100);
            }
            if links.dice.chance(15) {
                links.some(&map.guests, 1, 70);
            }
            if links.dice.chance(25) {
                links.some(&map.closed, 1, 100);
            }
        }
        Role::Island(_) | Role::Closed => {
            let role = page.site.role;
            let near: Vec<usize> = (0..links.pages.len())
                .filter(|j| {
                    let other = &links.pages[*j];
                    other.site.role == role
                        && other.site.host != page.site.host
                        && other.kind == Kind::Article
                })
                .collect();
            links.some(&same, 2, 80);
            links.some(&near, 1, 70);
            links.some(&map.noise, 4, 60);
        }
        Role::Other => {
            let far = kin(&|other| other.site.host != page.site.host, &map.other);
            links.some(&same, 3, 80);
            links.some(&far, 2, 80);
            links.some(&map.noise, 2, 60);
            if links.dice.chance(8) {
                links.some(&map.core, 1, 100);
            }
        }
        Role::Portal => shelf(links, map, i),
        Role::Farm => {
            links.under(&map.farm, 10, EMPTY);
            links.under(&map.bait, 1, EMPTY);
        }
        Role::Bait => {
            links.under(&map.bait, 8, BAIT);
            links.under(&map.farm, 2, BAIT);
        }
        Role::Noise | Role::Calendar => {
            let subject = page.site.subject;
            let kin = kin(&|other| other.subject == subject, &map.noise);
            links.some(&same, 3, 75);
            links.some(&kin, 2, 70);
            links.some(&map.noise, 2, 60);
            if links.dice.chance(12) {
                links.under(&map.farm, 1, EMPTY);
            }
            if links.dice.chance(7) {
                links.some(&map.other, 1, 80);
            }
            if links.dice.chance(5) {
                // The promise is empty: the target is as dull as this page.
                links.under(&map.noise, 1, BAIT);
            }
            if links.dice.chance(4) {
                links.under(&map.core, 1, VAGUE);
            }
            if page.on_topic() {
                links.some(&map.core, 1, 60);
            }
        }
    }
    if links.dice.chance(5) {
        let gone = page
            .site
            .url(&format!("/lost/{}.html", 10 + links.dice.below(80)));
        roads.missing.insert(gone.clone());
        let text = links.dice.pick(VAGUE).to_owned();
        let spot = LinkSpot::List;
        let to = gone;
        links.out.push(Anchor { to, text, spot });
    }
}

/// A portal's page on one subject: half of its links are about something else.
fn shelf(links: &mut Links<'_>, map: &Map, i: usize) {
    let subject = links.pages[i].subject;
    let all = [&map.core, &map.other, &map.noise, &map.guests].map(|part| part.as_slice());
    let all = all.concat();
    let about = all.iter().copied();
    let about: Vec<usize> = about
        .filter(|j| links.pages[*j].subject == subject)
        .collect();
    links.some(&about, 6, 85);
    links.some(&all, 7, 50);
    links.under(&map.farm, 1, VAGUE);
    links.under(&map.bait, 1, BAIT);
}

fn portal_home(links: &mut Links<'_>, map: &Map, i: usize) {
    for shelf in map.articles_of(links.pages, i) {
        links.one(shelf, 100);
    }
    links.some(&map.noise, 8, 60);
    links.some(&map.core, 1, 0);
    links.some(&map.other, 2, 50);
    links.under(&map.bait, 1, BAIT);
    let homes = (0..links.pages.len()).filter(|j| {
        let page = &links.pages[*j];
        page.kind == Kind::Home && matches!(page.site.role, Role::Portal | Role::Calendar)
    });
    for home in homes.filter(|j| *j != i).collect::<Vec<_>>() {
        links.one(home, 100);
    }
}

/// Links every on-topic page that its own site does not list, a guest or a forbidden one,
/// from a page of the core.
fn point_out(pages: &mut [Page], map: &Map) {
    for (k, to) in map.guests.iter().chain(&map.closed).enumerate() {
        let Some(&from) = map.core.get((k * 11 + 3) % map.core.len().max(1)) else {
            return;
        };
        let (to, text) = (pages[*to].url(), pages[*to].title.clone());
        if pages[from].links.iter().all(|link| link.to != to) {
            let spot = LinkSpot::List;
            pages[from].links.push(Anchor { to, text, spot });
        }
    }
}

fn build_bridges(pages: &mut [Page]) {
    let article = |pages: &[Page], host: &str, n: usize| -> Option<usize> {
        let of_host = pages.iter().enumerate();
        of_host
            .filter(|(_, page)| page.site.host == host && page.kind == Kind::Article)
            .nth(n)
            .map(|(i, _)| i)
    };
    for bridge in BRIDGES {
        let mut at = article(pages, bridge.from.0, 0);
        let mut words = bridge.from.1;
        let stops = bridge
            .over
            .iter()
            .map(|(host, n, words)| (*host, *n, *words));
        for (host, n, onward) in stops.chain([(bridge.to.0, bridge.to.1, "")]) {
            let next = article(pages, host, n);
            let (Some(from), Some(to)) = (at, next) else {
                break;
            };
            let to = pages[to].url();
            let (text, spot) = (words.to_owned(), LinkSpot::Text);
            pages[from].links.push(Anchor { to, text, spot });
            (at, words) = (next, onward);
        }
    }
}

/// Some addresses have moved, some of them twice, and some links are outdated.
fn add_redirects(pages: &mut [Page], roads: &mut Roads) {
    let moved: Vec<(String, String)> = pages
        .iter()
        .enumerate()
        .filter(|(i, page)| page.kind == Kind::Article && !page.hidden && i % 23 == 4)
        .map(|(i, page)| (page.url(), page.site.url(&format!("/old/{i}.html"))))
        .collect();
    for (n, (url, old)) in moved.iter().enumerate() {
        if n % 4 == 1 {
            let between = old.replace("/old/", "/older/");
            roads.redirects.push((old.clone(), between.clone()));
            roads.redirects.push((between, url.clone()));
        } else {
            roads.redirects.push((old.clone(), url.clone()));
        }
    }
    let hosts = pages.iter().filter(|page| page.kind == Kind::Home);
    for page in hosts.filter(|page| page.site.host.len() % 4 == 0) {
        let www = format!("http://www.{}/", page.site.host);
        roads.redirects.push((www, page.url()));
    }
    let mut dice = Dice::new("which links are old");
    for page in pages.iter_mut().filter(|p| p.subject != Subject::Plain) {
        for link in &mut page.links {
            let old = roads.redirects.iter().find(|(_, to)| *to == link.to);
            if let Some((old, _)) = old
                && dice.chance(50)
            {
                link.to.clone_from(old);
            }
        }
    }
}
