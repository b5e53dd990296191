//! Renders the planned pages: three layouts, images with alt texts of varying quality, two
//! charsets.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::DemoImage;
use super::bank::{BankShare, Dice, Slots, Subject};
use super::plan::{Anchor, Kind, LinkSpot, Page, slug};
use super::sites::Role;

/// Every image that a page embeds, by address.
pub(super) type Images = BTreeMap<String, DemoImage>;

const SIZES: &[(u32, u32)] = &[
    (640, 480),
    (800, 600),
    (320, 240),
    (480, 640),
    (200, 150),
    (1024, 683),
    (120, 90),
    (400, 400),
];
const EXTENSIONS: &[&str] = &[
    "jpg", "jpg", "jpg", "jpeg", "png", "png", "webp", "gif", "JPG", "bmp",
];
const WRONG: &[&str] = &[
    "IMG 2041",
    "picture",
    "banner",
    "photo of our dog",
    "logo",
    "DSC01177.JPG",
];
const LIGHTHOUSE_ALTS: &[&str] = &[
    "{place} lighthouse seen from the sea",
    "The lantern and the lens of {place}",
    "Keeper {name} beside the lamp",
    "The lighthouse of {place} in a storm",
    "Fog signal house below the lighthouse",
    "The harbour light of {place} at dusk",
    "Prisms of the lens, {year}",
    "The tower on its rock off {place}",
];
const BEE_ALTS: &[&str] = &[
    "Hives in the apiary of {place}",
    "A frame of sealed brood",
    "{name} with a swarm in {year}",
    "Jars of honey from {place}",
    "The queen among her workers",
];

/// The bytes of `page`; its images are added to `images`.
pub(super) fn html(page: &Page, images: &mut Images) -> Vec<u8> {
    let mut dice = Dice::new(&format!("layout of {}", page.url()));
    let layout = Dice::new(page.site.title).below(3);
    let mut out = String::new();
    let charset = if page.site.legacy {
        ["iso-8859-1", "windows-1252"][Dice::new(&page.path).below(2)]
    } else {
        "utf-8"
    };
    let title = escaped(&page.title);
    let head = match layout {
        // In the style of the nineties: no doctype, upper case, no closing tags.
        1 => format!(
            "<HTML><HEAD><META HTTP-EQUIV=\"Content-Type\" CONTENT=\"text/html; charset={charset}\">\n\
             <TITLE>{title}</TITLE></HEAD><BODY LANG={}>\n",
            page.language
        ),
        _ => format!(
            "<!DOCTYPE html>\n<html lang=\"{}\"><head><meta charset=\"{charset}\">\
             <title>{title} - {}</title></head>\n<body>\n",
            page.language,
            escaped(page.site.title)
        ),
    };
    out.push_str(&head);
    navigation(&mut out, page, layout, images);
    let (open, close) = match layout {
        0 => ("<main>", "</main>"),
        1 => ("<TABLE><TR><TD>", "</TABLE>"),
        _ => ("<div class=\"post\">", "</div>"),
    };
    add(&mut out, format_args!("{open}<h1>{title}</h1>\n"));
    let mut inline = page.links.iter().filter(|link| link.spot == LinkSpot::Text);
    let pictures = pictures(page, &mut dice, images);
    let mut pictures = pictures.into_iter();
    for paragraph in &page.paragraphs {
        let text: Vec<String> = paragraph.iter().map(|s| escaped(s)).collect();
        let text = text.join(" ");
        match layout {
            1 => add(&mut out, format_args!("<P>{text}\n")),
            _ => add(&mut out, format_args!("<p>{text}</p>\n")),
        }
        if let Some(link) = inline.next() {
            add(
                &mut out,
                format_args!("<p>See also {}.</p>\n", anchor(page, link)),
            );
        }
        out.push_str(&pictures.next().unwrap_or_default());
    }
    out.extend(pictures);
    let rest: Vec<&Anchor> = inline
        .chain(page.links.iter().filter(|link| link.spot == LinkSpot::List))
        .collect();
    if !rest.is_empty() {
        let items: String = rest
            .iter()
            .map(|link| format!("<li>{}</li>\n", anchor(page, link)))
            .collect();
        add(&mut out, format_args!("<ul>\n{items}</ul>\n"));
    }
    out.push_str(close);
    add(
        &mut out,
        format_args!(
            "\n<div class=\"foot\"><a href=\"/about.html#imprint\">Imprint</a> \
             <img src=\"/img/spacer.gif\" width=\"1\" height=\"1\" alt=\"\"> {}</div>\n</body></html>\n",
            escaped(page.site.title)
        ),
    );
    note(images, page, "/img/spacer.gif", (1, 1), "");
    if page.site.legacy {
        // Characters missing in windows-1252 become numeric references; nothing is lost.
        encoding_rs::WINDOWS_1252.encode(&out).0.into_owned()
    } else {
        out.into_bytes()
    }
}

fn navigation(out: &mut String, page: &Page, layout: usize, images: &mut Images) {
    let links = [
        ("/", "Home"),
        ("/about.html", "About"),
        ("/contact.html", "Contact"),
    ];
    let items: Vec<String> = links
        .iter()
        .map(|(href, text)| format!("<a href=\"{href}\">{text}</a>"))
        .collect();
    match layout {
        0 => {
            note(images, page, "/img/home.png", (16, 16), "home");
            add(
                out,
                format_args!(
                    "<nav><img src=\"/img/home.png\" width=\"16\" height=\"16\" alt=\"home\">{}</nav>\n",
                    items.join("\n")
                ),
            );
        }
        1 => {
            note(images, page, "/img/banner.gif", (468, 60), "banner");
            add(
                out,
                format_args!(
                    "<CENTER><IMG SRC=/img/banner.gif ALT=banner><BR>{}</CENTER><HR>\n",
                    items.join(" | ")
                ),
            );
        }
        _ => {
            note(images, page, "/img/logo.svg", (88, 31), "");
            add(
                out,
                format_args!(
                    "<div class=\"head\"><a href=\"/\"><img src=\"/img/logo.svg\" width=\"88\" height=\"31\"></a>\
                     <p>{}</p></div>\n",
                    items.join(" ")
                ),
            );
        }
    }
}

/// The page's own pictures as HTML, one block each.
fn pictures(page: &Page, dice: &mut Dice, images: &mut Images) -> Vec<String> {
    let many = match (page.kind, page.site.role) {
        (Kind::Contact | Kind::About, _) | (_, Role::Portal | Role::Calendar | Role::Farm) => 0,
        (Kind::Home, _) => 1,
        (Kind::Article, _) if page.on_topic() => 1 + dice.below(3),
        (Kind::Article, Role::Bait) => 1,
        (Kind::Article, _) => dice.below(3),
    };
    (0..many).map(|n| picture(page, n, dice, images)).collect()
}

fn picture(page: &Page, n: usize, dice: &mut Dice, images: &mut Images) -> String {
    let good = match page.subject {
        Subject::Lighthouses => page.slots.fill(dice.pick(LIGHTHOUSE_ALTS)),
        Subject::Beekeeping => page.slots.fill(dice.pick(BEE_ALTS)),
        _ if page.site.role == Role::Bait => "The famous lighthouse in a storm".to_owned(),
        _ => page.title.clone(),
    };
    let number = n + 10 * (1 + dice.below(900));
    let name = if dice.chance(65) {
        format!("{}-{number}", slug(&good))
    } else {
        format!("dsc{number:05}")
    };
    let path = format!("/img/{name}.{}", dice.pick(EXTENSIONS));
    let size = dice.pick(SIZES);
    // Good, wrong, empty and missing, as on the web.
    let alt = match dice.below(100) {
        0..60 => Some(good.clone()),
        60..73 => Some(dice.pick(WRONG).to_owned()),
        73..86 => Some(String::new()),
        _ => None,
    };
    note(
        images,
        page,
        &path,
        size,
        alt.as_deref().unwrap_or_default(),
    );
    let mut tag = format!("<img src=\"{path}\"");
    if let Some(alt) = &alt {
        add(&mut tag, format_args!(" alt=\"{}\"", escaped(alt)));
    }
    if dice.chance(60) {
        add(
            &mut tag,
            format_args!(" width=\"{}\" height=\"{}\"", size.0, size.1),
        );
    }
    if dice.chance(15) {
        add(&mut tag, format_args!(" title=\"{}\"", escaped(&good)));
    }
    tag.push('>');
    let caption = dice.pick(&page.subject.sentences(BankShare::Pages));
    let other = Slots::draw(dice, BankShare::Pages);
    let slots = if page.language == "en" {
        &page.slots
    } else {
        &other
    };
    let caption = escaped(&slots.fill(caption));
    match dice.below(4) {
        0 => format!("<figure>{tag}<figcaption>{caption}</figcaption></figure>\n"),
        1 => format!("<p>{tag} {caption}</p>\n"),
        2 => format!("<div class=\"picture\"><div>{tag}</div><div>{caption}</div></div>\n"),
        _ => format!("<div>{tag}</div>\n"),
    }
}

fn note(images: &mut Images, page: &Page, path: &str, size: (u32, u32), alt: &str) {
    let url = page.site.url(path);
    let image = images.entry(url.clone()).or_insert_with(|| DemoImage {
        url,
        width: size.0,
        height: size.1,
        pages: 0,
        topics: page.label.clone(),
        alt: alt.to_owned(),
    });
    image.pages += 1;
}

fn anchor(page: &Page, link: &Anchor) -> String {
    let own = format!("http://{}", page.site.host);
    let href = match link.to.strip_prefix(&own) {
        Some(path) if path.starts_with('/') => path,
        _ => &link.to,
    };
    format!("<a href=\"{}\">{}</a>", escaped(href), escaped(&link.text))
}

fn add(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    out.write_fmt(text).unwrap_or_default();
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
