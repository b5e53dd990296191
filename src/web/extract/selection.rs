//! Selects the blocks that make up the text of a page, and recognises their language.

use rustc_hash::FxHashSet;

use crate::language::{self, Guess};
use crate::page::{
    BlockKind, Extracted, Extractor, ImageCandidate, MainText, PlacedImage, TextShare,
};
use crate::words::Tokens;

use super::density;
use super::document::{DocumentText, laid_out};
use super::fingerprint::fingerprints;
use super::main_text;
use super::placed::TextPart;
use super::text::Layout;
use super::written::{ImagePlace, WrittenPage};

/// The fewest words that `density` must leave, and those from which on a main text is long.
const MIN_WORDS: u64 = 50;
/// The smallest share of the page's words that `density` must leave, and of the chosen text that
/// must be left without navigation and lists of sources.
const MIN_SHARE: f64 = 0.05;

/// Keeps the blocks that the extractor chooses, or all if `density` would leave too little, and
/// recognises their language. Fingerprints cover all blocks. `layout` gives the position
/// of each block. `documents` is the extractor of the main text to keep as written, if wanted.
pub(super) fn text(
    page: &mut Extracted,
    layout: &Layout,
    extractor: Extractor,
    documents: Option<Extractor>,
) {
    page.tokens = Tokens::of(page.blocks.iter().map(String::as_str));
    let (prints, words) = fingerprints(&page.tokens);
    page.prints = prints;
    let main = layout
        .written
        .as_ref()
        .filter(|_| [Some(extractor), documents].contains(&Some(Extractor::Main)));
    let main =
        main.map(|written| main_text::chosen(written, page.title.as_deref().unwrap_or_default()));
    let choice = |extractor| Choice::of(page, layout, &words, extractor, main.as_deref());
    let chosen = choice(extractor);
    let document = documents.map(|wanted| {
        let other = (wanted != extractor).then(|| choice(wanted));
        let chosen = other.as_ref().unwrap_or(&chosen);
        let in_main = chosen.in_main(page, layout);
        let text = chosen.document(page, layout, &in_main);
        (text, in_main)
    });
    if let Some((text, in_main)) = document {
        page.main = Some(text);
        for (image, is_in_main) in page.images.iter_mut().zip(in_main) {
            image.embedding.in_main_text = Some(is_in_main);
        }
    }
    page.text = chosen.share;
    if let Some(kept) = chosen.blocks {
        part(page, &kept);
    }
    page.guessed = language::guess(page.blocks.iter().map(String::as_str));
    page.recognised = page.guessed.and_then(Guess::certain);
}

/// The blocks that an extractor chooses.
struct Choice<'a> {
    /// Whether each visible block is chosen; `None` if all are.
    blocks: Option<Vec<bool>>,
    /// The same for the text as written, if the model chose.
    written: Option<&'a [bool]>,
    share: TextShare,
}

impl<'a> Choice<'a> {
    fn of(
        page: &Extracted,
        layout: &Layout,
        words: &[u32],
        extractor: Extractor,
        main: Option<&'a [bool]>,
    ) -> Self {
        let of: u64 = words.iter().map(|n| u64::from(*n)).sum();
        let chosen = match extractor {
            Extractor::All => None,
            // All of it may be hidden at first.
            Extractor::Main => main.and_then(|main| {
                let written = layout.written.as_ref()?;
                let kept = written.visible(main, page.blocks.len());
                kept.contains(&true).then_some(kept)
            }),
            Extractor::Density => {
                let title = page.title.as_deref();
                let kept = density::dense(&page.blocks, &layout.lines, words, title);
                let left = count(words, &kept);
                let is_enough = left >= MIN_WORDS && left as f64 >= of as f64 * MIN_SHARE;
                is_enough.then_some(kept)
            }
        };
        let left = chosen.as_deref().map_or(of, |kept| count(words, kept));
        let written = main.filter(|main| extractor == Extractor::Main && main.contains(&true));
        let is_chosen = chosen.is_some() || written.is_some();
        Self {
            written,
            blocks: chosen,
            share: TextShare {
                extractor: if is_chosen { extractor } else { Extractor::All },
                words: u32::try_from(left).unwrap_or(u32::MAX),
                of: u32::try_from(of).unwrap_or(u32::MAX),
            },
        }
    }

    /// Whether a block of the text as written is chosen.
    fn keeps(&self, written: &WrittenPage, number: usize) -> bool {
        match self.written {
            Some(chosen) => chosen.get(number).copied().unwrap_or(false),
            None => written.is_visible(number) && self.sees(written.visible_number(number)),
        }
    }

    /// Whether a visible block is chosen.
    fn sees(&self, number: usize) -> bool {
        let blocks = self.blocks.as_ref();
        blocks.is_none_or(|kept| kept.get(number) == Some(&true))
    }

    /// Whether each image of an element stands in the chosen text.
    fn in_main(&self, page: &Extracted, layout: &Layout) -> Vec<bool> {
        // Most jobs for text alone read no images.
        let Some(written) = layout.written.as_ref().filter(|w| !w.images.is_empty()) else {
            return Vec::new();
        };
        let part = TextPart::of(written, |number| self.keeps(written, number));
        let places = written.images.iter().zip(&page.images);
        let is_in = |(place, image): (&ImagePlace, &ImageCandidate)| {
            let is_captioned = image.texts.figcaption.is_some();
            part.as_ref()
                .is_some_and(|part| part.has(place, is_captioned))
        };
        places.map(is_in).collect()
    }

    /// The chosen text as its author wrote it, with its images.
    fn document(&self, page: &Extracted, layout: &Layout, in_main: &[bool]) -> MainText {
        let Some(written) = &layout.written else {
            let mut out = DocumentText::default();
            let blocks = page.blocks.iter().enumerate();
            for (_, text) in blocks.filter(|(number, _)| self.sees(*number)) {
                out.block(BlockKind::Paragraph, text);
            }
            return MainText {
                text: out.text,
                blocks: out.blocks,
                images: Vec::new(),
                share: self.share,
            };
        };
        let is_main = self.share.extractor == Extractor::Main;
        let kept = |number: usize| self.keeps(written, number);
        let mut main = laid_out(written, is_main, kept);
        // Hardly anything would be left of a page that is itself a list of sources or a
        // table of contents.
        let words = main.text.split_whitespace().take(MIN_WORDS as usize);
        if is_main && (words.count() as u64) < MIN_WORDS {
            let whole = laid_out(written, false, kept);
            if (main.text.len() as f64) < whole.text.len() as f64 * MIN_SHARE {
                main = whole;
            }
        }
        let places = written.images.iter().zip(&page.images).zip(in_main);
        // What a link leads to is another size of the image before, and what is shown without
        // scripts is the same again.
        let mut seen = FxHashSet::default();
        let shown = places.filter(|((place, image), is_in)| {
            **is_in && !place.is_linked && seen.insert(&image.url)
        });
        let images = shown.map(|((place, image), _)| PlacedImage {
            url: image.url.clone(),
            blocks_before: main.parts_before(place.blocks),
        });
        MainText {
            images: images.collect(),
            text: main.text,
            blocks: main.blocks,
            share: self.share,
        }
    }
}

/// The words of the kept blocks.
fn count(words: &[u32], kept: &[bool]) -> u64 {
    let words = words.iter().zip(kept).filter(|(_, kept)| **kept);
    words.map(|(n, _)| u64::from(*n)).sum()
}

/// Separates the kept blocks from the others, and updates the positions of the links.
fn part(page: &mut Extracted, kept: &[bool]) {
    let count = |wanted| kept.iter().filter(|kept| **kept == wanted).count();
    let (mut chosen, mut other) = (0, count(true));
    let places: Vec<usize> = kept
        .iter()
        .map(|kept| {
            let next = if *kept { &mut chosen } else { &mut other };
            *next += 1;
            *next - 1
        })
        .collect();
    let moved = |block: Option<u32>| u32::try_from(*places.get(block? as usize)?).ok();
    for link in &mut page.links {
        link.place.block = moved(link.place.block);
        link.place.heading = moved(link.place.heading);
    }
    page.tokens.choose(kept);
    let blocks = std::mem::take(&mut page.blocks).into_iter().zip(kept);
    let (chosen, other): (Vec<_>, Vec<_>) = blocks.partition(|(_, kept)| **kept);
    let texts = |blocks: Vec<(String, &bool)>| blocks.into_iter().map(|(text, _)| text).collect();
    (page.blocks, page.left_out) = (texts(chosen), texts(other));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Options, extract_text};
    use super::*;
    use crate::address::PageUrl;
    use crate::page::Link;

    const EXTRACTORS: [Extractor; 3] = [Extractor::All, Extractor::Main, Extractor::Density];

    fn read(html: &str, extractor: Extractor) -> Extracted {
        let url = PageUrl::parse("http://a.test/b").unwrap();
        let options = Options {
            extractor,
            ..Options::default()
        };
        extract_text(&url, html, &options)
    }

    type Around<'a> = (&'a Link, Option<&'a str>, Option<&'a str>);

    /// The links with the block around each and the heading above it; their positions may have
    /// different numbers.
    fn around(page: &Extracted) -> Vec<Around<'_>> {
        let text = |number: Option<u32>| page.block(number?);
        let links = page.links.iter();
        links
            .map(|link| (link, text(link.place.block), text(link.place.heading)))
            .collect()
    }

    fn same_links(a: &Extracted, b: &Extracted) -> bool {
        let bare = |link: &Link| (link.url.clone(), link.anchor.clone(), link.place.path);
        let (a, b) = (around(a), around(b));
        let same =
            |(a, b): (&Around<'_>, &Around<'_>)| bare(a.0) == bare(b.0) && (a.1, a.2) == (b.1, b.2);
        a.len() == b.len() && a.iter().zip(&b).all(same)
    }

    /// A paragraph of 5 sentences that differ from those of other numbers.
    fn paragraph(n: usize) -> String {
        let sentence = |i: usize| {
            format!("In year {n}, the keeper of tower {n} climbed, as always, to its lamp {i}. ")
        };
        format!("<p>{}</p>", (0..5).map(sentence).collect::<String>())
    }

    fn site(article: &str) -> String {
        let menu: String = (0..30)
            .map(|n| format!("<li><a href=/{n}>Part {n}</a></li>"))
            .collect();
        format!(
            "<html lang=en><head><title>The tower of light</title></head><body>\
             <div class=nav><ul>{menu}</ul></div>\
             <div class=main><div><h1>The tower</h1></div>{article}<p><img src=a.png alt=x></p></div>\
             <div class=footer><ul><li>Imprint</li><li>Contact</li></ul></div></body></html>"
        )
    }

    #[test]
    fn menus_go_and_links_and_images_stay() {
        let text: String = (0..6).map(paragraph).collect();
        let html = site(&text);
        let all = read(&html, Extractor::All);
        assert_eq!((all.links.len(), all.images.len()), (30, 1));
        assert_eq!(all.text.words, all.text.of);
        for extractor in [Extractor::Main, Extractor::Density] {
            let page = read(&html, extractor);
            assert_eq!(page.text.extractor, extractor);
            assert_eq!(page.text.of, all.text.of);
            assert!(page.text.words < all.text.words);
            let tower = page.blocks.iter().filter(|b| b.starts_with("In year"));
            assert_eq!(tower.count(), 6, "{extractor:?} {:?}", page.blocks);
            let menu = |b: &&String| b.starts_with("Part") || *b == "Imprint";
            assert_eq!(page.blocks.iter().find(menu), None, "{extractor:?}");
            assert!(same_links(&page, &all));
            assert_eq!(page.images, all.images);
            assert_eq!(page.prints, all.prints);
        }
        // Sparse, but about the subject of the title.
        let dense = read(&html, Extractor::Density);
        assert!(dense.blocks.contains(&"The tower".to_owned()));
    }

    #[test]
    fn where_little_would_be_left_all_is_taken() {
        for html in [
            site("<p>Nothing to see here.</p>"),
            site(""),
            "<p>One".to_owned(),
            "<title>x</title>".to_owned(),
        ] {
            let page = read(&html, Extractor::Density);
            assert_eq!(page.text.extractor, Extractor::All, "{html}");
            assert_eq!(page.blocks, read(&html, Extractor::All).blocks);
        }
    }

    #[test]
    fn a_page_without_a_tree_has_no_article_but_dense_segments() {
        let text: String = (0..6).map(paragraph).collect();
        let html = format!("{}{}", site(&text), "<div>".repeat(2_000));
        let article = read(&html, Extractor::Main);
        assert_eq!(article.text.extractor, Extractor::All);
        let dense = read(&html, Extractor::Density);
        assert_eq!(dense.text.extractor, Extractor::Density);
        assert!(dense.text.words < dense.text.of);
    }

    proptest! {
        #![proptest_config(spoor_testing::cases!(128))]

        /// For any markup: blocks are chosen and not created, links and images are those of the
        /// whole page, and the text never disappears completely.
        #[test]
        fn extractors_choose_among_the_blocks(parts in proptest::collection::vec(
            prop_oneof![
                "[a-z ,.]{0,80}",
                Just("<div class=nav>".to_owned()),
                Just("<div class=article>".to_owned()),
                Just("</div>".to_owned()),
                Just("<p>".to_owned()),
                Just("<li><a href=/x>more</a>".to_owned()),
                Just("<table><tr><td>".to_owned()),
                Just("</table>".to_owned()),
                Just("<br><br>".to_owned()),
                Just("<pre>a\n\n\n\nb".to_owned()),
                Just("<noscript><img src=a>".to_owned()),
                Just("<img src=b>".to_owned()),
                (0..9_usize).prop_map(paragraph),
            ],
            0..40,
        )) {
            let html = parts.concat();
            let all = read(&html, Extractor::All);
            for extractor in EXTRACTORS {
                let page = read(&html, extractor);
                prop_assert!(same_links(&page, &all));
                prop_assert_eq!(&page.images, &all.images);
                prop_assert_eq!(&page.prints, &all.prints);
                prop_assert_eq!(page.blocks.is_empty(), all.blocks.is_empty());
                let mut rest = all.blocks.iter();
                prop_assert!(page.blocks.iter().all(|b| rest.any(|other| other == b)));
                prop_assert!(page.text.words <= page.text.of);
            }
        }
    }
}
