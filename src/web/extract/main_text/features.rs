//! What the model sees of each block of a page.
//!
//! Sums over the blocks from the first one on describe any range of blocks at the same cost, so all
//! features of a page take time in proportion to its blocks and containers.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::extract::containers::{CLASS_GROUPS, Container, Within};
use crate::extract::written::WrittenPage;
use crate::page::BlockKind;

use super::measures::Measures;

/// The fewest words of a paragraph, and the share of them within links that it stays below.
const PARAGRAPH_WORDS: f32 = 15.0;
const PARAGRAPH_LINKED: f32 = 0.4;
/// The fewest words of a block that is left out if its text was there before.
const REPEATED_WORDS: f32 = 8.0;
/// How many blocks before and after a block are its neighbours.
const NEAR: usize = 3;
/// The largest share of a page's blocks in a table that is not all of the page.
const TABLE_BESIDE: f32 = 0.3;
/// The most characters by which blocks are taken for the same.
const SAME_CHARS: usize = 200;

/// A range of blocks: the first, and the one after the last.
type Blocks = (usize, usize);

/// One block of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageBlock<'p> {
    pub(super) text: &'p str,
    pub(super) measures: Measures,
    pub(super) kind: BlockKind,
    /// The table, the list or the list of definitions that it is part of, and chosen with.
    pub(super) unit: Option<u32>,
    /// Whether that is a table.
    pub(super) is_table: bool,
    container: Option<u32>,
    inline: u8,
    groups: u32,
}

impl<'p> PageBlock<'p> {
    /// The block of this number.
    pub(super) fn of(page: &'p WrittenPage, number: usize, measures: Measures) -> Self {
        let place = page.place(number);
        let kind = page.kind(number);
        let unit = unit(page, number, kind);
        Self {
            text: page.text_of(number),
            measures,
            kind,
            is_table: unit.is_some_and(|unit| page.tables.contains(&unit)),
            unit,
            container: place.container,
            inline: place.inline,
            groups: place.groups,
        }
    }

    /// Whether it stays if its text was there before: short ones, headings, parts of tables and
    /// lists, and code may repeat.
    pub(super) fn may_repeat(&self) -> bool {
        self.measures.words < REPEATED_WORDS
            || self.unit.is_some()
            || self.is_heading()
            || self.is_formula()
            || self.kind == BlockKind::Code
    }

    /// Whether it is nothing but formulas.
    pub(super) fn is_formula(&self) -> bool {
        let text = self.text.trim_end_matches(['.', ',', ';']);
        let text = text
            .strip_prefix('$')
            .and_then(|text| text.strip_suffix('$'));
        let inner = text.map(|text| text.trim_matches('$'));
        inner.is_some_and(|inner| !inner.is_empty() && !inner.contains('$'))
    }

    /// Whether it is a paragraph of whole sentences.
    pub(super) fn is_sentences(&self) -> bool {
        let of = &self.measures;
        self.kind == BlockKind::Paragraph
            && of.words >= PARAGRAPH_WORDS
            && of.is_ended
            && of.linked < of.words * PARAGRAPH_LINKED
    }

    pub(super) fn is_heading(&self) -> bool {
        matches!(self.kind, BlockKind::Heading(_))
    }
}

/// What a block is chosen with.
fn unit(page: &WrittenPage, number: usize, kind: BlockKind) -> Option<u32> {
    let table = page.cell(number).map(|cell| cell.table);
    if let Some(table) = table.filter(|table| page.tables.contains(table)) {
        return Some(table);
    }
    // One with text in paragraphs, beside the text of the page.
    let beside = |container: &Container| {
        let blocks = container.end.saturating_sub(container.first);
        blocks as f32 <= TABLE_BESIDE * page.len() as f32
    };
    if table.is_some() {
        let tables = page
            .around(number)
            .filter(|(_, around)| around.name() == "table");
        if let Some((table, _)) = tables.last().filter(|(_, table)| beside(table)) {
            return Some(table);
        }
    }
    let mut around = page.around(number).filter(|_| kind.is_of_list());
    let list = around.find(|(_, container)| container.is_list());
    list.map(|(list, _)| list)
}

/// Takes the features of a block, always in the same order.
pub(super) trait FeatureSink {
    fn put(&mut self, name: &'static str, value: f32);
}

impl FeatureSink for Vec<f32> {
    fn put(&mut self, _: &'static str, value: f32) {
        self.push(value);
    }
}

impl FeatureSink for Vec<&'static str> {
    fn put(&mut self, name: &'static str, _: f32) {
        self.push(name);
    }
}

/// Sums over all blocks before one.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    words: f32,
    linked: f32,
    /// Words of paragraphs.
    paragraphs: f32,
    /// Words of paragraphs outside of navigation, footers, dialogs and forms.
    prose: f32,
    sentences: f32,
}

/// What the blocks within the same kinds of elements are like.
#[derive(Debug, Clone, Copy, Default)]
struct Pattern {
    blocks: f32,
    words: f32,
    linked: f32,
    sentences: f32,
}

/// A block's position among the headings.
#[derive(Debug, Clone, Copy)]
struct InSection {
    /// Blocks and words since the last heading.
    blocks: f32,
    words: f32,
    /// Blocks to the next.
    left: f32,
}

/// The containers around a block that are described, the innermost first.
const LEVELS: [[&str; 8]; 2] = [
    [
        "level1_share",
        "level1_words",
        "level1_linked",
        "level1_per_block",
        "level1_blocks",
        "level1_paragraphs",
        "level1_paragraph_share",
        "level1_sentences",
    ],
    [
        "level2_share",
        "level2_words",
        "level2_linked",
        "level2_per_block",
        "level2_blocks",
        "level2_paragraphs",
        "level2_paragraph_share",
        "level2_sentences",
    ],
];

/// The containers with the fewest words that have this share of the prose.
const MAIN: [(f32, [&str; 4]); 2] = [
    (0.5, ["half_in", "half_away", "half_after", "half_linked"]),
    (0.75, ["most_in", "most_away", "most_after", "most_linked"]),
];

pub(super) const NO_PROSE: u32 = Within::Nav as u32
    | Within::NavRole as u32
    | Within::Footer as u32
    | Within::Dialog as u32
    | Within::Form as u32;

/// A page as the model sees it.
#[derive(Debug)]
pub(super) struct PageFeatures<'p> {
    blocks: &'p [PageBlock<'p>],
    containers: &'p [Container],
    sums: Vec<Sum>,
    all: Sum,
    /// For each container the nearest one around it with more blocks.
    wider: Vec<Option<u32>>,
    main: [Blocks; MAIN.len()],
    patterns: Vec<Pattern>,
    /// How often each block is on the page, and how often up to here.
    repeats: Vec<(f32, f32)>,
    sections: Vec<InSection>,
    /// The first heading of level 1 that is most like the title.
    heading: Option<usize>,
    /// The mean depth of its words.
    depth: f32,
}

impl<'p> PageFeatures<'p> {
    pub(super) fn of(
        blocks: &'p [PageBlock<'p>],
        containers: &'p [Container],
        title: &str,
    ) -> Self {
        let sums = sums(blocks, containers);
        let mut page = Self {
            blocks,
            containers,
            all: sums.last().copied().unwrap_or_default(),
            sums,
            wider: wider(containers),
            main: [(0, blocks.len()); MAIN.len()],
            patterns: Vec::new(),
            repeats: repeats(blocks),
            sections: Vec::new(),
            heading: title_heading(blocks, title),
            depth: 0.0,
        };
        page.main = MAIN.map(|(share, _)| page.smallest_with(share));
        page.patterns = page.patterns();
        page.sections = page.sections();
        page.depth = page.mean_depth();
        page
    }

    /// The sums over a range of blocks.
    fn sum(&self, (first, end): Blocks) -> Sum {
        let before = |at: usize| self.sums.get(at).copied().unwrap_or(self.all);
        let (from, to) = (before(first), before(end));
        Sum {
            words: to.words - from.words,
            linked: to.linked - from.linked,
            paragraphs: to.paragraphs - from.paragraphs,
            prose: to.prose - from.prose,
            sentences: to.sentences - from.sentences,
        }
    }

    fn container(&self, number: u32) -> Option<&'p Container> {
        self.containers.get(number as usize)
    }

    /// The containers around a block, the innermost first.
    fn around(&self, block: &PageBlock<'_>) -> impl Iterator<Item = &'p Container> {
        let mut next = block.container;
        std::iter::from_fn(move || {
            let container = self.container(next?)?;
            next = container.parent;
            Some(container)
        })
    }

    /// Those of them with at least two blocks and more than the one before.
    fn levels(&self, block: &PageBlock<'_>) -> impl Iterator<Item = Blocks> {
        let next = |number: &u32| self.wider.get(*number as usize).copied().flatten();
        let numbers = std::iter::successors(block.container, next);
        let ranges = numbers.filter_map(|number| self.container(number).map(range));
        ranges.filter(|(first, end)| end - first > 1)
    }

    fn smallest_with(&self, share: f32) -> Blocks {
        let wanted = share * self.all.prose.max(1.0);
        let mut best = (0, self.blocks.len());
        let mut least = f32::INFINITY;
        for range in self.containers.iter().map(range) {
            let sum = self.sum(range);
            // One long paragraph is not where the others are.
            if range.1 - range.0 > 1 && sum.prose >= wanted && sum.words <= least {
                (best, least) = (range, sum.words);
            }
        }
        best
    }

    fn patterns(&self) -> Vec<Pattern> {
        let key = |block: &PageBlock<'_>| {
            let mut kinds = self.around(block).map(|container| container.kind);
            FxBuildHasher.hash_one((kinds.next(), kinds.next(), block.inline))
        };
        let keys: Vec<u64> = self.blocks.iter().map(key).collect();
        let mut patterns: FxHashMap<u64, Pattern> = FxHashMap::default();
        for (key, block) in keys.iter().zip(self.blocks) {
            let pattern = patterns.entry(*key).or_default();
            pattern.blocks += 1.0;
            pattern.words += block.measures.words;
            pattern.linked += block.measures.linked;
            pattern.sentences += block.measures.sentences;
        }
        let of = |key: &u64| patterns.get(key).copied().unwrap_or_default();
        keys.iter().map(of).collect()
    }

    fn sections(&self) -> Vec<InSection> {
        // As far away as if there were none.
        let mut sections = vec![
            InSection {
                blocks: 999.0,
                words: 9_999.0,
                left: 999.0,
            };
            self.blocks.len()
        ];
        let mut last = None;
        for (at, (block, section)) in self.blocks.iter().zip(&mut sections).enumerate() {
            if block.is_heading() {
                last = Some(at);
            }
            if let Some(last) = last {
                section.blocks = (at - last) as f32;
                section.words = self.sum((last, at)).words;
            }
        }
        let mut left = 999.0;
        for (block, section) in self.blocks.iter().zip(&mut sections).rev() {
            section.left = left;
            left = if block.is_heading() { 0.0 } else { left + 1.0 };
        }
        sections
    }

    fn mean_depth(&self) -> f32 {
        let depth = |block: &PageBlock<'_>| self.depth(block) * block.measures.words;
        self.blocks.iter().map(depth).sum::<f32>() / self.all.words.max(1.0)
    }

    fn depth(&self, block: &PageBlock<'_>) -> f32 {
        let container = block.container.and_then(|number| self.container(number));
        container.map_or(0.0, |container| f32::from(container.depth))
    }

    /// Puts all features of a block.
    pub(super) fn put(&self, number: usize, sink: &mut impl FeatureSink) {
        let Some(block) = self.blocks.get(number) else {
            return;
        };
        self.put_own(number, block, sink);
        self.put_elements(block, sink);
        self.put_ranges(number, block, sink);
        self.put_position(number, sink);
    }

    /// Its own text, and how often it is there.
    fn put_own(&self, number: usize, block: &PageBlock<'_>, sink: &mut impl FeatureSink) {
        let of = block.measures;
        let words = of.words.max(1.0);
        sink.put("words", of.words.ln_1p());
        sink.put("linked", of.linked / words);
        sink.put("links", of.links / words);
        sink.put("sentences", of.sentences / words);
        sink.put("small", of.small);
        sink.put("is_ended", flag(of.is_ended));
        let (all, seen) = self.repeats.get(number).copied().unwrap_or((1.0, 1.0));
        sink.put("repeats", all);
        sink.put("repeat", seen);
    }

    /// The elements around it, and those of the same kinds.
    fn put_elements(&self, block: &PageBlock<'_>, sink: &mut impl FeatureSink) {
        let container = self.around(block).next();
        sink.put("element", container.map_or(0.0, |c| f32::from(c.element)));
        sink.put("inline", f32::from(block.inline));
        sink.put("depth", self.depth(block) - self.depth);
        let level = match block.kind {
            BlockKind::Heading(level) => f32::from(level),
            _ => 0.0,
        };
        sink.put("heading", level);
        let within = container.map_or(0, |container| container.within);
        for (name, one) in Within::FEATURES {
            sink.put(name, flag(within & one as u32 != 0));
        }
        let (mut near, mut far) = (block.groups, block.groups);
        for (distance, container) in self.around(block).enumerate() {
            near |= if distance < NEAR { container.groups } else { 0 };
            far |= container.groups;
        }
        for (at, (of_near, of_far, _)) in CLASS_GROUPS.iter().enumerate() {
            sink.put(of_near, flag(near >> at & 1 == 1));
            sink.put(of_far, flag(far >> at & 1 == 1));
        }
    }

    /// The containers around it, those with most of the prose, and the blocks like it.
    fn put_ranges(&self, number: usize, block: &PageBlock<'_>, sink: &mut impl FeatureSink) {
        let mut levels = self.levels(block);
        for names in LEVELS {
            let values = levels.next().map(|range| self.level(range));
            for (name, value) in names.iter().zip(values.unwrap_or([-1.0; 8])) {
                sink.put(name, value);
            }
        }
        for ((first, end), (_, [is_in, away, after, linked])) in self.main.iter().zip(MAIN) {
            let (first, end) = (*first, *end);
            let sum = self.sum((first, end));
            let before = first.saturating_sub(number);
            let behind = (number + 1).saturating_sub(end);
            sink.put(is_in, flag((first..end).contains(&number)));
            sink.put(away, (before + behind) as f32);
            let from = self.sum((0, first)).words;
            sink.put(
                after,
                (self.sum((0, number)).words - from) / sum.words.max(1.0),
            );
            sink.put(linked, sum.linked / sum.words.max(1.0));
        }
        let pattern = self.patterns.get(number).copied().unwrap_or_default();
        sink.put("pattern_blocks", pattern.blocks);
        sink.put("pattern_words", pattern.words / pattern.blocks.max(1.0));
        sink.put("pattern_linked", pattern.linked / pattern.words.max(1.0));
        sink.put("pattern_share", pattern.words / self.all.words.max(1.0));
        sink.put(
            "pattern_sentences",
            pattern.sentences / pattern.blocks.max(1.0),
        );
    }

    fn level(&self, (first, end): Blocks) -> [f32; 8] {
        let sum = self.sum((first, end));
        let blocks = (end - first).max(1) as f32;
        let words = sum.words.max(1.0);
        [
            words / self.all.words.max(1.0),
            words.ln_1p(),
            sum.linked / words,
            words / blocks,
            blocks,
            sum.paragraphs / words,
            sum.paragraphs / self.all.paragraphs.max(1.0),
            sum.sentences / words,
        ]
    }

    /// Where it is on the page, from its title, among the headings and its neighbours.
    fn put_position(&self, number: usize, sink: &mut impl FeatureSink) {
        let before = self.sum((0, number));
        sink.put("after_share", before.words / self.all.words.max(1.0));
        sink.put("after_prose", before.prose / self.all.prose.max(1.0));
        let from_title = self.heading.map(|at| {
            let words = before.words - self.sum((0, at)).words;
            (number as f32 - at as f32, words)
        });
        let (blocks, words) = from_title.unwrap_or((-999.0, -9_999.0));
        sink.put("title_blocks", blocks);
        sink.put("title_words", words);
        if let Some(section) = self.sections.get(number) {
            sink.put("section_blocks", section.blocks);
            sink.put("section_words", section.words);
            sink.put("section_left", section.left);
        }
        let first = number.saturating_sub(NEAR);
        let end = (number + NEAR + 1).min(self.blocks.len());
        let near = self.sum((first, end));
        sink.put("near_linked", near.linked / near.words.max(1.0));
        sink.put("near_words", near.words / (end - first).max(1) as f32);
        sink.put("near_paragraphs", near.paragraphs / near.words.max(1.0));
    }
}

fn flag(is: bool) -> f32 {
    f32::from(u8::from(is))
}

fn range(container: &Container) -> Blocks {
    (container.first as usize, container.end as usize)
}

fn sums(blocks: &[PageBlock<'_>], containers: &[Container]) -> Vec<Sum> {
    let mut sum = Sum::default();
    let mut sums = vec![sum];
    for block in blocks {
        let of = block.measures;
        let is_paragraph = of.words >= PARAGRAPH_WORDS && of.linked < of.words * PARAGRAPH_LINKED;
        let container = block.container.and_then(|c| containers.get(c as usize));
        let is_prose = container.is_none_or(|container| container.within & NO_PROSE == 0);
        let paragraph = if is_paragraph { of.words } else { 0.0 };
        sum.words += of.words;
        sum.linked += of.linked;
        sum.paragraphs += paragraph;
        sum.prose += if is_prose { paragraph } else { 0.0 };
        sum.sentences += of.sentences;
        sums.push(sum);
    }
    sums
}

fn wider(containers: &[Container]) -> Vec<Option<u32>> {
    let mut all: Vec<Option<u32>> = Vec::with_capacity(containers.len());
    for container in containers {
        let wider = container.parent.and_then(|parent| {
            let around = containers.get(parent as usize)?;
            if range(around) == range(container) {
                all.get(parent as usize).copied().flatten()
            } else {
                Some(parent)
            }
        });
        all.push(wider);
    }
    all
}

fn repeats(blocks: &[PageBlock<'_>]) -> Vec<(f32, f32)> {
    let mut lower = String::new();
    let key = |block: &PageBlock<'_>| {
        let end = block.text.char_indices().nth(SAME_CHARS);
        let start = end.map_or(block.text, |(end, _)| block.text.split_at(end).0);
        lower.clear();
        if start.is_ascii() {
            lower.push_str(start);
            lower.make_ascii_lowercase();
        } else {
            lower.extend(start.chars().flat_map(char::to_lowercase));
        }
        FxBuildHasher.hash_one(&lower)
    };
    let keys: Vec<u64> = blocks.iter().map(key).collect();
    let mut counts: FxHashMap<u64, f32> = FxHashMap::default();
    let mut count = |key: &u64| {
        let count = counts.entry(*key).or_default();
        *count += 1.0;
        *count
    };
    let seen: Vec<f32> = keys.iter().map(&mut count).collect();
    let all = keys
        .iter()
        .map(|key| counts.get(key).copied().unwrap_or(1.0));
    all.zip(seen).collect()
}

fn title_heading(blocks: &[PageBlock<'_>], title: &str) -> Option<usize> {
    let title = words_of(title);
    let mut best: Option<(usize, f32)> = None;
    for (at, block) in blocks.iter().enumerate() {
        if block.kind == BlockKind::Heading(1) {
            let words = words_of(block.text);
            let share = words.intersection(&title).count() as f32 / words.len().max(1) as f32;
            if best.is_none_or(|(_, most)| share > most) {
                best = Some((at, share));
            }
        }
    }
    best.map(|(at, _)| at)
}

fn words_of(text: &str) -> FxHashSet<u64> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words
        .map(|word| FxBuildHasher.hash_one(word.to_lowercase()))
        .collect()
}
