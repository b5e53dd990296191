//! The pages of the demo web before they have links: addresses, titles, texts.

use super::bank::{BankShare, Dice, Slots, Subject};
use super::foreign;
use super::sites::{Role, SITES, Site};

/// The kind of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Home,
    About,
    Contact,
    Article,
}

/// The position of a link on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkSpot {
    /// In a separate sentence, after a paragraph.
    Text,
    /// In the list below the text.
    List,
}

/// A link of a page.
#[derive(Debug, Clone)]
pub(super) struct Anchor {
    pub(super) to: String,
    pub(super) text: String,
    pub(super) spot: LinkSpot,
}

/// A page before it is rendered.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub(super) site: &'static Site,
    pub(super) kind: Kind,
    pub(super) path: String,
    pub(super) title: String,
    pub(super) language: &'static str,
    pub(super) subject: Subject,
    /// Its topics in the judge's form, `-` for none.
    pub(super) label: String,
    /// robots.txt forbids it.
    pub(super) hidden: bool,
    pub(super) paragraphs: Vec<Vec<String>>,
    pub(super) links: Vec<Anchor>,
    pub(super) slots: Slots,
}

impl Page {
    pub(super) fn url(&self) -> String {
        self.site.url(&self.path)
    }

    /// Whether it counts for the target topic.
    pub(super) fn on_topic(&self) -> bool {
        self.label.contains("lighthouses:2")
    }
}

/// All pages, those of a site together, its home page first.
pub(super) fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    for site in SITES {
        pages.push(home(site));
        pages.push(about(site));
        if has_contact(site) {
            pages.push(contact(site));
        }
        let first = pages.len();
        for i in 0..site.pages {
            pages.push(article(site, site.subject, "", i));
        }
        for i in 0..site.guests {
            pages.push(article(site, Subject::Lighthouses, "", site.pages + i));
        }
        for i in 0..site.private {
            pages.push(article(site, Subject::Lighthouses, "/private", i));
        }
        if site.role == Role::Calendar {
            for (i, page) in pages.iter_mut().skip(first).enumerate() {
                let (year, month) = (2019 + i / 12, i % 12 + 1);
                page.path = format!("/{year}/{month:02}.html");
                page.title = format!("Dates of {year}, month {month}");
            }
        }
        if site.role == Role::Portal {
            let shelves = Subject::ALL.iter().filter(|s| **s != Subject::Plain);
            for (page, subject) in pages.iter_mut().skip(first).zip(shelves) {
                if page.subject == Subject::Plain {
                    page.path = format!("/shelf/{}/", subject.name());
                    page.title = format!("Links about {}", subject.name());
                    page.subject = *subject;
                    page.label = "-".to_owned();
                }
            }
        }
    }
    add_foreign(&mut pages);
    mix(&mut pages);
    pages
}

/// Adds the pages in other languages after the other articles of their sites.
fn add_foreign(pages: &mut Vec<Page>) {
    for foreign in foreign::PAGES {
        let last = pages
            .iter()
            .rposition(|page| page.site.host == foreign.host && page.kind == Kind::Article);
        let Some(at) = last else { continue };
        let Some(mut page) = pages.get(at).cloned() else {
            continue;
        };
        page.path = foreign.path.to_owned();
        page.title = foreign.title.to_owned();
        page.language = foreign.language;
        page.label = foreign.label.to_owned();
        page.paragraphs = foreign
            .text
            .chunks(2)
            .map(|chunk| chunk.iter().map(|s| (*s).to_owned()).collect())
            .collect();
        pages.insert(at + 1, page);
    }
}

/// Every third site has a contact page; on the others the link to it is dead.
pub(super) fn has_contact(site: &Site) -> bool {
    Dice::new(site.host).below(3) == 0
}

fn blank(site: &'static Site, kind: Kind, path: &str) -> (Page, Dice) {
    let mut dice = Dice::new(&site.url(path));
    let page = Page {
        site,
        kind,
        path: path.to_owned(),
        title: site.title.to_owned(),
        language: "en",
        subject: site.subject,
        label: "-".to_owned(),
        hidden: site.role == Role::Closed,
        paragraphs: Vec::new(),
        links: Vec::new(),
        slots: Slots::draw(&mut dice, BankShare::Pages),
    };
    (page, dice)
}

fn home(site: &'static Site) -> Page {
    let (mut page, mut dice) = blank(site, Kind::Home, "/");
    let many = if site.subject == Subject::Plain { 2 } else { 5 };
    page.paragraphs = vec![
        sentences(&mut dice, site.subject, &page.slots, many),
        sentences(&mut dice, Subject::Plain, &page.slots, 2),
    ];
    page.label = label(site.subject, 2);
    page
}

fn about(site: &'static Site) -> Page {
    let (mut page, mut dice) = blank(site, Kind::About, "/about.html");
    page.title = format!("About {}", site.title);
    page.label = label(site.subject, 1);
    page.subject = Subject::Plain;
    page.paragraphs = vec![
        sentences(&mut dice, Subject::Plain, &page.slots, 4),
        sentences(&mut dice, site.subject, &page.slots, 1),
    ];
    page
}

fn contact(site: &'static Site) -> Page {
    let (mut page, mut dice) = blank(site, Kind::Contact, "/contact.html");
    page.title = format!("Contact {}", site.title);
    page.subject = Subject::Plain;
    page.paragraphs = vec![sentences(&mut dice, Subject::Plain, &page.slots, 3)];
    page
}

fn article(site: &'static Site, subject: Subject, folder: &str, i: usize) -> Page {
    let (mut page, mut dice) = blank(site, Kind::Article, &format!("{folder}/{subject:?}/{i}"));
    page.subject = subject;
    page.label = label(subject, 2);
    page.hidden |= !folder.is_empty();
    page.title = page.slots.fill(dice.pick(subject.titles()));
    // Sites have their own style: words in the address, folders, or bare numbers.
    page.path = match site.host.len() % 3 {
        0 => format!("{folder}/notes/{}-{i}.html", slug(&page.title)),
        1 => format!("{folder}/{}-{i}/", slug(&page.title)),
        _ => format!(
            "{folder}/page{}.html",
            100 + i * 7 + subject as usize * 1000
        ),
    };
    let lengths: Vec<usize> = (0..3 + dice.below(2)).map(|_| 3 + dice.below(3)).collect();
    let text = sentences(&mut dice, subject, &page.slots, lengths.iter().sum());
    let mut text = text.into_iter();
    for (n, many) in lengths.into_iter().enumerate() {
        page.paragraphs.push(text.by_ref().take(many).collect());
        if n == 0 && dice.chance(30) {
            let plain = sentences(&mut dice, Subject::Plain, &page.slots, 1);
            page.paragraphs.push(plain);
        }
    }
    page
}

/// Sentences of the pages' share; half of them have their own slot values.
fn sentences(dice: &mut Dice, subject: Subject, slots: &Slots, n: usize) -> Vec<String> {
    dice.some(&subject.sentences(BankShare::Pages), n)
        .into_iter()
        .map(|sentence| {
            let other = Slots::draw(dice, BankShare::Pages);
            let slots = if dice.chance(50) { slots } else { &other };
            slots.fill(sentence)
        })
        .collect()
}

/// Turns some articles into mixtures: related pages of the target topic, and two that are on both
/// topics, so that the boundary between them is not sharp.
fn mix(pages: &mut [Page]) {
    let articles = pages.iter_mut().filter(|page| {
        page.kind == Kind::Article && page.site.role == Role::Core && page.language == "en"
    });
    for (i, page) in articles.filter(|page| !page.hidden).enumerate() {
        let mut dice = Dice::new(&format!("mix {}", page.url()));
        let subject = match i % 16 {
            5 => Subject::Gardening,
            11 => Subject::Council,
            15 if i < 32 => Subject::Beekeeping,
            _ => continue,
        };
        let mut other: Vec<_> = (0..3)
            .map(|_| sentences(&mut dice, subject, &page.slots, 4))
            .collect();
        if subject == Subject::Beekeeping {
            page.title = page
                .slots
                .fill("The bees on the lighthouse island of {place}");
            page.label = "lighthouses:2,beekeeping:2".to_owned();
        } else {
            page.title = match subject {
                Subject::Gardening => page.slots.fill("The garden below the tower at {place}"),
                _ => page.slots.fill("The council of {place} and its tower"),
            };
            page.label = label(Subject::Lighthouses, 1);
            page.paragraphs.truncate(1);
        }
        page.paragraphs.append(&mut other);
    }
}

fn label(subject: Subject, level: u8) -> String {
    match subject {
        Subject::Lighthouses | Subject::Beekeeping => format!("{}:{level}", subject.name()),
        _ => "-".to_owned(),
    }
}

/// A title as part of an address: lower-case ASCII letters, digits and hyphens.
pub(super) fn slug(title: &str) -> String {
    let mut out = String::new();
    for c in title.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.trim_end_matches('-').to_owned()
}
