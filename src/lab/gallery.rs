//! A small web of pictures in several sizes, with common problems: some sizes are missing, some
//! pictures are SVGs by name, and many are on a separate host.
//!
//! Every page shows four pictures, one of each kind:
//!
//! | kind | the page offers | what is there |
//! |---|---|---|
//! | 0 | `srcset` of `2x` and `1.5x`, and `src` | 404, and the others |
//! | 1 | `srcset` of two widths, and `src` | all |
//! | 2 | an SVG in `src`, and a PNG of it in `srcset` | both |
//! | 3 | a `picture` with an SVG, two widths, and `src` | 410, forbidden by robots.txt, and `src` |
//!
//! and a drawing that is an SVG alone, and the first picture of the web once more.

use std::collections::{BTreeMap, BTreeSet};

use super::serve::{Behaviour, Fault};
use super::tree::{Lab, MemoryTree};

/// The size of the web, and the host of its pictures.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// How many pages there are.
    pub pages: usize,
    /// The number of its hosts: `p0.test` and so on.
    pub hosts: usize,
    /// Whether the sizes of `srcset` are on `cdn.test`; else on the page's own host.
    pub cdn: bool,
}

/// The web, and the expected results of a crawl.
pub struct Gallery {
    /// The web.
    pub lab: Lab,
    /// Its first page, from which all others are reached.
    pub seed: String,
    /// The images to be kept, with the pages that show them.
    pub kept: BTreeMap<String, BTreeSet<String>>,
    /// The best sizes that are missing; no other size is fetched in their place.
    pub gone: BTreeSet<String>,
    /// Addresses that must never be fetched.
    pub never: BTreeSet<String>,
}

/// Generates the web; `text` gives the words of the paragraph or picture with a number.
pub fn gallery(shape: Shape, text: impl Fn(usize) -> String) -> Gallery {
    let mut making = Making {
        shape,
        text: &text,
        tree: MemoryTree::default(),
        kept: BTreeMap::new(),
        gone: BTreeSet::new(),
        never: BTreeSet::new(),
        sizes_hosts: BTreeSet::new(),
        first: None,
    };
    for n in 0..shape.pages {
        let pictures = making.pictures(n);
        making.page(n, &pictures);
    }
    let seed = making.address(0);
    let Making {
        mut tree,
        kept,
        gone,
        never,
        sizes_hosts,
        ..
    } = making;
    for host in &sizes_hosts {
        tree.insert(host, "/robots.txt", "User-agent: *\nDisallow: /r/\n");
    }
    let lab = sizes_hosts
        .iter()
        .fold(Lab::from_memory(tree), |lab, host| {
            lab.with_behaviour(Behaviour::of(host).under("/q/").fault(Fault::Status {
                code: 410,
                retry_after: None,
            }))
        });
    Gallery {
        lab,
        seed,
        kept,
        gone,
        never,
    }
}

/// A web being built.
struct Making<'a> {
    shape: Shape,
    text: &'a dyn Fn(usize) -> String,
    tree: MemoryTree,
    kept: BTreeMap<String, BTreeSet<String>>,
    gone: BTreeSet<String>,
    never: BTreeSet<String>,
    /// Hosts of the other sizes.
    sizes_hosts: BTreeSet<String>,
    /// The picture that all pages show: its address, and its beginning in HTML.
    first: Option<(String, String)>,
}

impl Making<'_> {
    fn host(&self, n: usize) -> String {
        format!("p{}.test", n % self.shape.hosts.max(1))
    }

    fn address(&self, n: usize) -> String {
        format!("http://{}/{n}", self.host(n))
    }

    fn keep(&mut self, url: &str, on: usize) {
        let page = self.address(on);
        self.kept.entry(url.to_owned()).or_default().insert(page);
    }

    /// The pictures of a page in HTML; adds them to the web.
    fn pictures(&mut self, n: usize) -> Vec<String> {
        let text = self.text;
        let own = self.host(n);
        let sizes = if self.shape.cdn {
            "cdn.test".to_owned()
        } else {
            own.clone()
        };
        self.sizes_hosts.insert(sizes.clone());
        let at = |folder: &str, end: &str| format!("http://{sizes}/{folder}/{n}{end}");
        let small = |kind: usize| format!("http://{own}/s/{n}-{kind}.png");
        let mut shown = Vec::new();

        let (large, middle) = (at("l", ".png"), at("m", ".png"));
        let set = format!(
            "<img src=\"{}\" srcset=\"{middle} 1.5x, {large} 2x\"",
            small(0)
        );
        shown.push(format!("{set} alt=\"{}\">", text(4 * n)));
        self.gone.insert(large);
        self.never.extend([middle, small(0)]);

        let (wide, narrow) = (at("w", ".png"), at("x", ".png"));
        shown.push(format!(
            "<img src=\"{}\" srcset=\"{narrow} 450w, {wide} 900w\" alt=\"{}\">",
            small(1),
            text(4 * n + 1)
        ));
        let set = format!(
            "<img src=\"{}\" srcset=\"{narrow} 450w, {wide} 900w\"",
            small(1)
        );
        self.keep(&wide, n);
        let (first, again) = self.first.get_or_insert((wide.clone(), set)).clone();
        if n > 0 {
            shown.push(format!("{again} alt=\"{}\">", text(4 * n + 1)));
            self.keep(&first, n);
        }
        self.tree.image(&wide, 160, 120);
        self.tree.image(&narrow, 160, 120);
        self.never.extend([narrow, small(1)]);

        let (drawing, drawn) = (format!("http://{own}/d/{n}.svg"), at("d", ".svg.png"));
        shown.push(format!(
            "<img src=\"{drawing}\" srcset=\"{drawn} 2x\" alt=\"{}\">",
            text(4 * n + 2)
        ));
        self.keep(&drawn, n);
        self.tree.image(&drawn, 160, 120);

        let (best, forbidden) = (at("q", ".png"), at("r", ".png"));
        shown.push(format!(
            "<picture><source type=\"image/svg+xml\" srcset=\"{}\">\
             <source srcset=\"{best} 800w, {forbidden} 400w\">\
             <img src=\"{}\" alt=\"{}\"></picture>",
            at("v", ".svg"),
            small(3),
            text(4 * n + 3)
        ));
        self.tree.image(&forbidden, 160, 120);
        self.gone.insert(best);

        let alone = format!("http://{own}/d/alone-{n}.svg");
        shown.push(format!("<img src=\"{alone}\" alt=\"{}\">", text(n)));
        let v = at("v", ".svg");
        self.never
            .extend([drawing.clone(), forbidden, small(3), v, alone.clone()]);
        for svg in [drawing, alone] {
            let path = svg.trim_start_matches(&format!("http://{own}"));
            self.tree.insert_as(&own, path, "image/svg+xml", SVG);
        }
        for kind in [0, 1, 3] {
            self.tree.image(&small(kind), 160, 120);
        }
        shown
    }

    /// Adds the page of these pictures, with words around them and links.
    fn page(&mut self, n: usize, pictures: &[String]) {
        let text = self.text;
        let links = (1..=3).map(|step| (n + step) % self.shape.pages);
        let links = links.map(|to| format!("<a href=\"{}\">{}</a>", self.address(to), text(to)));
        let paragraphs = pictures.iter().enumerate().map(|(i, picture)| {
            format!(
                "<div><p>{}</p>{picture}<p>{}</p></div>",
                text(n + i),
                text(n + i + 1)
            )
        });
        let html = format!(
            "<!DOCTYPE html><html lang=en><title>Pictures {n}</title><body>{}{}",
            paragraphs.collect::<String>(),
            links.collect::<Vec<_>>().join(" ")
        );
        let (host, path) = (self.host(n), format!("/{n}"));
        self.tree
            .insert_as(&host, &path, "text/html; charset=utf-8", html);
    }
}

const SVG: &str = "<svg xmlns='http://www.w3.org/2000/svg' width='160' height='120'/>";
