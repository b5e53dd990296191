//! Which images stand in the main text of a page, and where.
//!
//! An image has no words by which the main text is recognised, so what stands around it decides.

use super::containers::{Container, Within};
use super::written::{ImagePlace, WrittenPage};

/// The share of the main text that the element of it holds.
const MOST: f64 = 0.9;
/// How many other blocks may stand between an image and the first or last block of the text.
const MAX_BLOCKS_BETWEEN: usize = 4;
/// The most other text in a box with an image, or between an image and the text, in bytes.
const MAX_OTHER: usize = 300;

/// The main text of a page as blocks, for asking where images stand.
pub(super) struct TextPart<'p> {
    page: &'p WrittenPage,
    /// How many bytes of main text, of other text and of the links in it come before each block.
    sums: Vec<[usize; 3]>,
    /// The first and the last block of the main text.
    ends: (usize, usize),
    /// The innermost element that holds most of it.
    element: Option<u32>,
}

impl<'p> TextPart<'p> {
    /// `None` if no block is kept.
    pub(super) fn of(page: &'p WrittenPage, kept: impl Fn(usize) -> bool) -> Option<Self> {
        let numbers = || 0..page.len();
        let ends = numbers()
            .find(|n| kept(*n))
            .zip(numbers().rfind(|n| kept(*n)))?;
        let mut sums = Vec::with_capacity(page.len() + 1);
        let mut sum = [0; 3];
        let mut links = page.links.iter().peekable();
        for number in numbers() {
            sums.push(sum);
            let range = page.range(number);
            let mut linked = 0;
            while let Some(link) = links.next_if(|link| link.start < range.end) {
                linked += link.len();
            }
            if kept(number) {
                sum[0] += range.len();
            } else {
                sum[1] += range.len();
                sum[2] += linked;
            }
        }
        sums.push(sum);
        let mut part = Self {
            page,
            sums,
            ends,
            element: None,
        };
        let (all, middle) = (sum[0], part.middle(sum[0] / 2));
        let mut around = page.around(middle);
        let holds = |container: &Container| part.within(container)[0] as f64 >= all as f64 * MOST;
        let element = around.find(|(_, container)| holds(container));
        part.element = element.map(|(number, _)| number);
        Some(part)
    }

    /// The block of the main text that has this many bytes of it before its end.
    fn middle(&self, bytes: usize) -> usize {
        let after = self.sums.partition_point(|sum| sum[0] <= bytes);
        after.saturating_sub(1).min(self.ends.1)
    }

    /// The bytes of main text, of other text and of the links in it between two blocks.
    fn between(&self, from: usize, to: usize) -> [usize; 3] {
        let at = |number: usize| self.sums.get(number).or(self.sums.last()).copied();
        let (from, to) = (at(from).unwrap_or_default(), at(to).unwrap_or_default());
        [0, 1, 2].map(|kind| to[kind].saturating_sub(from[kind]))
    }

    fn within(&self, container: &Container) -> [usize; 3] {
        self.between(container.first as usize, container.end as usize)
    }

    /// Whether an image stands in the main text. A caption beside it is no other text.
    pub(super) fn has(&self, image: &ImagePlace, is_captioned: bool) -> bool {
        const OTHER: u32 = Within::Nav as u32
            | Within::Footer as u32
            | Within::NavRole as u32
            | Within::Form as u32
            | Within::Furniture as u32;
        let container = |number: u32| self.page.containers.get(number as usize);
        let mut around = image.container;
        while let Some(number) = around
            && around != self.element
            && let Some(box_of) = container(number)
        {
            let [text, other, linked] = self.within(box_of);
            if text > 0 {
                // It holds the whole text, or a part of it.
                let is_part = self.is_in_element(number);
                return is_part || self.is_at_edge(image);
            }
            let is_figure = is_captioned || box_of.within & Within::Figure as u32 != 0;
            let is_box_of_links = 2 * linked > other;
            if box_of.within & OTHER != 0
                || other > MAX_OTHER && !is_figure
                || other > 0 && is_box_of_links && !is_figure
                || other > 2 * MAX_OTHER
            {
                return false;
            }
            around = box_of.parent;
        }
        self.is_at_edge(image)
    }

    fn is_in_element(&self, mut number: u32) -> bool {
        loop {
            if Some(number) == self.element {
                return true;
            }
            match self
                .page
                .containers
                .get(number as usize)
                .and_then(|c| c.parent)
            {
                Some(parent) => number = parent,
                None => return false,
            }
        }
    }

    /// Whether it stands between blocks of the main text, or close before or behind them.
    fn is_at_edge(&self, image: &ImagePlace) -> bool {
        let (first, last) = self.ends;
        let (from, to) = match image.blocks {
            at if at <= first => (at, first),
            at if at > last => (last + 1, at),
            _ => return true,
        };
        to - from <= MAX_BLOCKS_BETWEEN && self.between(from, to)[1] <= MAX_OTHER
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Options, extract_text};
    use crate::address::PageUrl;
    use crate::page::{Extracted, Extractor};

    fn read(html: &str) -> Extracted {
        let url = PageUrl::parse("http://a.test/").unwrap();
        let options = Options {
            documents: Some(Extractor::Main),
            ..Options::default()
        };
        extract_text(&url, html, &options)
    }

    fn prose(topic: &str) -> String {
        let sentence = |n: usize| {
            format!(
                "In its year {n}, the {topic} was, as the keepers wrote, lit before the fog came in. "
            )
        };
        format!("<p>{}</p>", (0..4).map(sentence).collect::<String>())
    }

    #[test]
    fn images_of_the_main_text_are_known_and_stand_in_their_order() {
        let menu: String = (0..20)
            .map(|n| format!("<li><a href=/{n}><img src=menu{n}.png>Part {n}</a></li>"))
            .collect();
        let related: String = (0..6)
            .map(|n| {
                format!(
                    "<div class=card><a href=/r{n}><img src=card{n}.jpg><h4>Another story, number {n}, that \
                     others like</h4></a><p>What it says in short, and why it should be read too.</p></div>"
                )
            })
            .collect();
        let html = format!(
            "<title>The lamp</title><header><img src=logo.png></header><nav><ul>{menu}</ul></nav>\
             <main><article><h1>The lamp</h1><img src=hero.jpg>{}\
             <figure><img src=one.jpg><figcaption>One lamp of the two</figcaption></figure>{}{}\
             <p><a href=two-large.jpg><img data-src=two.jpg><noscript><img src=two.jpg></noscript></a></p>{}</article><section class=related>{related}</section></main>\
             <footer><p>Imprint</p><img src=badge.png></footer>",
            prose("lamp"),
            prose("tower"),
            prose("wick"),
            prose("oil"),
        );
        let page = read(&html);
        let in_main: Vec<&str> = page
            .images
            .iter()
            .filter(|image| image.embedding.in_main_text == Some(true))
            .map(|image| image.url.path())
            .collect();
        let all = [
            "/hero.jpg",
            "/one.jpg",
            "/two.jpg",
            "/two-large.jpg",
            "/two.jpg",
        ];
        assert_eq!(in_main, all);
        let main = page.main.unwrap();
        let text = |number: usize| &main.text[main.blocks[number].text.clone()];
        let places: Vec<(&str, usize)> = main
            .images
            .iter()
            .map(|image| (image.url.path(), image.blocks_before))
            .collect();
        // Each once, and not what a link leads to.
        assert_eq!(places.len(), 3, "{places:?}");
        assert_eq!(places[0].0, "/hero.jpg");
        assert!(text(places[0].1).contains("the lamp was"), "{places:?}");
        let after_two = text(places[2].1);
        assert!(after_two.contains("the oil was"), "{after_two}");
        assert!(text(places[2].1 - 1).contains("the wick was"));
        assert!(text(places[1].1 - 1).contains("the lamp was"));
    }

    #[test]
    fn without_a_main_text_nothing_is_known_of_images() {
        let url = PageUrl::parse("http://a.test/").unwrap();
        let page = extract_text(&url, "<p>Text<img src=a.png></p>", &Options::default());
        assert_eq!(page.images[0].embedding.in_main_text, None);
        let page = read("<img src=a.png>");
        assert_eq!(page.images[0].embedding.in_main_text, Some(false));
        assert!(page.main.unwrap().images.is_empty());
        let declared = read(&format!(
            "<meta property=og:image content=/a.png>{}",
            prose("lamp")
        ));
        assert_eq!(declared.images[0].embedding.in_main_text, None);
    }
}
