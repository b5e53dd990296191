//! Which blocks of a page are its main text.
//!
//! Each block is described by numbers: its own text ([`measures`]), the elements around it, the
//! parts of the page that hold most of the prose, the blocks that stand in the same kind of place,
//! and its position ([`features`]). Decision trees turn them into a probability ([`trees`]), those
//! of a table or a list into one. Those blocks are chosen with which the F1 of the words is expected
//! to be the highest, and some of what stands beside them ([`choice`]). A text that was chosen before
//! is not chosen again.
//!
//! The blocks are labelled by the words of main text known by hand, as in Pomikálek 2011
//! ("Removing boilerplate and duplicate content from web corpora"), and learned as in Vogels et al.
//! 2018 ("Web2Text"), but without dependence between neighbours, which did not help.

mod choice;
mod features;
mod measures;
mod trees;

use std::sync::LazyLock;

use rustc_hash::FxHashSet;

use super::written::{Written, WrittenPage};

use choice::part_prose;
use features::{PageBlock, PageFeatures};
use measures::Measures;
use trees::Trees;

/// What the model sees of one block, for training it.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenBlock {
    /// The text.
    pub text: String,
    /// The features, in the order of [`feature_names`].
    pub features: Vec<f32>,
    /// Words.
    pub words: f32,
    /// Whether it stays if its text was there before.
    pub may_repeat: bool,
    /// The table or the list that it is chosen with.
    pub unit: Option<u32>,
    /// Whether it is chosen with what follows.
    pub is_heading: bool,
}

/// The names of all features.
pub fn feature_names() -> Vec<&'static str> {
    let mut page = Written::default();
    page.text("x", 0);
    let page = page.finish();
    let blocks = blocks(&page);
    let mut names: Vec<&'static str> = Vec::new();
    PageFeatures::of(&blocks, &[], "").put(0, &mut names);
    names
}

/// What the model sees of each block of a page.
pub(super) fn seen(page: &WrittenPage, title: &str) -> Vec<SeenBlock> {
    let blocks = blocks(page);
    let features = PageFeatures::of(&blocks, &page.containers, title);
    let seen = |(number, block): (usize, &PageBlock<'_>)| {
        let mut values: Vec<f32> = Vec::new();
        features.put(number, &mut values);
        SeenBlock {
            text: block.text.to_owned(),
            features: values,
            words: block.measures.words,
            may_repeat: block.may_repeat(),
            unit: block.unit,
            is_heading: block.is_heading(),
        }
    };
    blocks.iter().enumerate().map(seen).collect()
}

/// The blocks of a page with their measures.
fn blocks(page: &WrittenPage) -> Vec<PageBlock<'_>> {
    let mut links = page.links.as_slice();
    let block = |number: usize| {
        let range = page.range(number);
        while let Some((_, rest)) = links
            .split_first()
            .filter(|(link, _)| link.end <= range.start)
        {
            links = rest;
        }
        let within = links.iter().take_while(|link| link.start < range.end);
        let within = links.get(..within.count()).unwrap_or_default();
        let measures = Measures::of(page.text_of(number), range.start, within);
        PageBlock::of(page, number, measures)
    };
    let mut blocks: Vec<PageBlock<'_>> = (0..page.len()).map(block).collect();
    part_prose(page, &mut blocks);
    blocks
}

/// The probability that a block of a page belongs to its main text, as learned from pages whose
/// main text is known; `models/main-text` says how.
static MODEL: &[u8] = include_bytes!("../../../../models/main-text/blocks.trees");

/// The trees of [`MODEL`]; `None` if they are for other features.
fn trees() -> Option<&'static Trees<'static>> {
    static TREES: LazyLock<Option<Trees<'static>>> = LazyLock::new(|| {
        let trees = Trees::of_file(MODEL)?;
        (trees.names == feature_names()).then_some(trees)
    });
    TREES.as_ref()
}

/// Whether each block of a page belongs to its main text.
pub(super) fn chosen(page: &WrittenPage, title: &str) -> Vec<bool> {
    let blocks = blocks(page);
    let Some(trees) = trees() else {
        return vec![true; blocks.len()];
    };
    let features = PageFeatures::of(&blocks, &page.containers, title);
    let judged = judged(page, &blocks);
    let mut values: Vec<f32> = Vec::with_capacity(judged.len() * trees.names.len());
    for number in &judged {
        features.put(*number, &mut values);
    }
    let mut probabilities = vec![0.0; blocks.len()];
    for (number, probability) in judged.into_iter().zip(trees.probabilities(&values)) {
        if let Some(of_block) = probabilities.get_mut(number) {
            *of_block = probability;
        }
    }
    let mut chosen = choice::of(page, &blocks, probabilities);
    let mut seen = FxHashSet::default();
    for (block, is_chosen) in blocks.iter().zip(&mut chosen) {
        *is_chosen &= block.may_repeat() || seen.insert(block.text);
    }
    chosen
}

/// The blocks that are judged: declared navigation and lists of sources are left out, unless they
/// are most of what the page has. Encyclopedias have hundreds of such blocks on a page.
fn judged(page: &WrittenPage, blocks: &[PageBlock<'_>]) -> Vec<usize> {
    const ENOUGH_WORDS: f32 = 200.0;
    let is_other = |number: &usize| !page.is_furniture(*number);
    let others: Vec<usize> = (0..blocks.len()).filter(is_other).collect();
    let words = others.iter().filter_map(|number| blocks.get(*number));
    if words.map(|block| block.measures.words).sum::<f32>() >= ENOUGH_WORDS {
        others
    } else {
        (0..blocks.len()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Options, extract_text, seen_by_model};
    use super::*;
    use crate::address::PageUrl;
    use crate::page::Extractor;

    fn page() -> PageUrl {
        PageUrl::parse("http://a.test/").unwrap()
    }

    fn main_text(html: &str) -> String {
        let options = Options {
            documents: Some(Extractor::Main),
            ..Options::default()
        };
        extract_text(&page(), html, &options).main.unwrap().text
    }

    #[test]
    fn the_model_is_for_these_features() {
        let trees = trees().unwrap();
        assert_eq!(trees.names, feature_names());
        for block in seen_by_model(&page(), "<nav><a href=/>Home</a></nav><p>Text of one page.") {
            assert_eq!(block.features.len(), trees.names.len());
            assert!(
                block.features.iter().all(|value| value.is_finite()),
                "{block:?}"
            );
        }
    }

    /// Sentences that differ.
    fn prose(topic: &str, count: usize) -> String {
        let sentence = |n: usize| {
            format!(
                "In its year {n}, the {topic} was, as the keepers wrote, lit before the fog came in. "
            )
        };
        (0..count).map(sentence).collect()
    }

    #[test]
    fn threads_and_tabs_are_main_text_and_menus_are_not() {
        let menu: String = (0..20)
            .map(|n| format!("<li><a href=/{n}>Part {n}</a></li>"))
            .collect();
        let posts: String = ["lamp", "tower", "wick"]
            .map(|topic| {
                format!(
                    "<div class=post><div class=user><a href=/u>keeper</a></div>\
                     <div class=message><p>{}</p><p>{}</p></div></div>",
                    prose(topic, 3),
                    prose(&topic.to_uppercase(), 2),
                )
            })
            .concat();
        let foot = "<footer><ul><li><a href=/i>Imprint</a><li><a href=/p>Privacy</a></ul></footer>";
        for (around, inside) in [
            ("<div class=thread>", "</div>"),
            ("<noscript>", "</noscript>"),
        ] {
            let html = format!(
                "<title>Lamps</title><nav><ul>{menu}</ul></nav><main><h1>Lamps</h1>{around}{posts}{inside}</main>{foot}"
            );
            let text = main_text(&html);
            assert!(
                !text.contains("Part 3") && !text.contains("Imprint"),
                "{text}"
            );
            for topic in ["lamp", "TOWER", "wick"] {
                assert!(text.contains(topic), "{text}");
            }
        }
    }

    /// trafilatura's issue 46.
    #[test]
    fn paragraphs_beside_the_text_go_with_it() {
        let [first, second, third] = ["lamp", "tower", "wick"].map(|topic| {
            (0..3)
                .map(|n| format!("<p>{}</p>", prose(&format!("{topic} {n}"), 2)))
                .collect::<String>()
        });
        let foot = "<footer><p>All rights are reserved by the people who run this page, as is usual for such pages, and always were.</p></footer>";
        for (before, after) in [("", "<h2>Hello reef</h2>"), ("<h2>Hello reef</h2>", "")] {
            let text = main_text(&format!(
                "<title>After</title><body>{before}{}<div>{first}{second}</div>{after}{}{foot}",
                if after.is_empty() { &third } else { "" },
                if after.is_empty() { "" } else { &third },
            ));
            assert!(
                text.contains("Hello reef") && text.contains("the wick 2 was"),
                "{text}"
            );
            assert!(!text.contains("rights"), "{text}");
        }
    }

    #[test]
    fn a_text_is_taken_once() {
        let lead = prose("lamp", 4);
        let html = format!(
            "<main><h1>The lamp</h1><p>{lead}</p><p>{}</p><p>{}</p><p>{lead}</p></main>",
            prose("tower", 4),
            prose("wick", 4)
        );
        assert_eq!(main_text(&html).matches(lead.trim()).count(), 1);
    }

    #[test]
    fn scripts_without_spaces_have_words() {
        let measures = |text: &str| Measures::of(text, 0, &[]);
        assert_eq!(measures("灯台は海を照らす。").words, 4.0);
        assert_eq!(measures("灯台は海を照らす。夜も。").sentences, 2.0);
        // Letters; two of its characters are marks of tone.
        assert_eq!(measures("ประภาคารส่องแสง").words, 7.0);
        assert_eq!(measures("منارة قديمة على الشاطئ.").words, 4.0);
        let link = std::slice::from_ref(&(0..6));
        assert_eq!(Measures::of("灯台は海", 0, link).linked, 1.0);
    }
}
