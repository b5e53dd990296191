//! Which blocks are chosen, by their probabilities and by what stands beside them.

use rustc_hash::{FxHashMap, FxHashSet};

use super::features::{NO_PROSE, PageBlock};
use crate::extract::containers::Within;
use crate::extract::written::WrittenPage;
use crate::page::BlockKind;

/// Whether each block is chosen, with these probabilities.
pub(super) fn of(
    page: &WrittenPage,
    blocks: &[PageBlock<'_>],
    mut probabilities: Vec<f32>,
) -> Vec<bool> {
    join_units(blocks, &mut probabilities);
    join_tables(blocks, &mut probabilities);
    join_formulas(blocks, &mut probabilities);
    join_headings(blocks, &mut probabilities);
    let bound = bound(blocks, &probabilities);
    let mut chosen: Vec<bool> = probabilities.iter().map(|of| *of >= bound).collect();
    fill_gaps(page, blocks, &mut chosen);
    add_labels(blocks, &mut chosen);
    add_lists(page, blocks, &mut chosen);
    add_neighbours(page, blocks, &mut chosen);
    leave_out_links(page, blocks, &mut chosen);
    chosen
}

/// A table with whole sentences, beside other text, is not one part.
pub(super) fn part_prose(page: &WrittenPage, blocks: &mut [PageBlock<'_>]) {
    let is_apart = |block: &PageBlock<'_>| {
        let unit = block
            .unit
            .and_then(|unit| page.containers.get(unit as usize));
        !block.is_table && unit.is_some_and(|unit| unit.name() == "table")
    };
    let prose = blocks
        .iter()
        .filter(|block| is_apart(block) && block.is_sentences());
    let prose: FxHashSet<Option<u32>> = prose.map(|block| block.unit).collect();
    for block in blocks {
        if prose.contains(&block.unit) {
            block.unit = None;
        }
    }
}

/// A table or a list is chosen as a whole: its blocks have the mean probability of its words.
fn join_units(blocks: &[PageBlock<'_>], probabilities: &mut [f32]) {
    let mut units: FxHashMap<u32, (f32, f32)> = FxHashMap::default();
    for (block, probability) in blocks.iter().zip(probabilities.iter()) {
        if let Some(unit) = block.unit {
            let (sum, words) = units.entry(unit).or_default();
            *sum += probability * block.measures.words.max(1.0);
            *words += block.measures.words.max(1.0);
        }
    }
    for (block, probability) in blocks.iter().zip(probabilities.iter_mut()) {
        if let Some((sum, words)) = block.unit.and_then(|unit| units.get(&unit)) {
            *probability = sum / words;
        }
    }
}

/// How certain a block is for which the text beside it speaks, as a share of how certain that is.
const BESIDE: f32 = 0.9;

/// A table goes with the text before or after it, if that is more certain.
fn join_tables(blocks: &[PageBlock<'_>], probabilities: &mut [f32]) {
    const SMALLEST: usize = 4;
    let mut first = 0;
    for table in blocks.chunk_by(|a, b| a.is_table && a.unit == b.unit) {
        let end = first + table.len();
        if table.len() >= SMALLEST && table.iter().all(|block| block.is_table) {
            let before = first.checked_sub(1).and_then(|at| probabilities.get(at));
            let beside = before.into_iter().chain(probabilities.get(end));
            let beside = beside.fold(0.0_f32, |most, other| most.max(*other));
            for probability in probabilities.get_mut(first..end).into_iter().flatten() {
                *probability = probability.max(BESIDE * beside);
            }
        }
        first = end;
    }
}

/// A heading goes with what follows it.
fn join_headings(blocks: &[PageBlock<'_>], probabilities: &mut [f32]) {
    let mut after = 0.0;
    for (block, probability) in blocks.iter().zip(probabilities.iter_mut()).rev() {
        if block.is_heading() {
            *probability = probability.max(after);
        }
        after = *probability;
    }
}

/// Whether a block is outside of navigation, footers, dialogs, forms and what stands beside the text.
fn may_be_text(page: &WrittenPage, number: usize) -> bool {
    const OTHER: u32 = NO_PROSE | Within::Aside as u32 | Within::Button as u32;
    page.within(number) & OTHER == 0
}

/// Chooses also paragraphs of whole sentences, and headings, between chosen blocks at their depth.
fn fill_gaps(page: &WrittenPage, blocks: &[PageBlock<'_>], chosen: &mut [bool]) {
    const LONGEST: usize = 4;
    let depth = |number: usize| page.container_of(number).map(|container| container.depth);
    let is_text = |number: usize| {
        let block = blocks.get(number);
        block.is_some_and(|block| block.is_heading() || block.is_sentences())
            && may_be_text(page, number)
    };
    let are_chosen = chosen.iter().enumerate().filter(|(_, is)| **is);
    let numbers: Vec<usize> = are_chosen.map(|(number, _)| number).collect();
    for pair in numbers.windows(2) {
        let [before, after] = *pair else { continue };
        let gap = before + 1..after;
        let depths = [depth(before), depth(after)];
        let fits = |number: usize| is_text(number) && depths.contains(&depth(number));
        if gap.len() <= LONGEST
            && gap.clone().all(fits)
            && let Some(gap) = chosen.get_mut(gap.start..gap.end)
        {
            gap.fill(true);
        }
    }
}

/// Chooses also labels before chosen blocks, such as "Pros:", that are chosen elsewhere: the model
/// takes text that comes again and again for that of the site.
fn add_labels(blocks: &[PageBlock<'_>], chosen: &mut [bool]) {
    let labels = || {
        let labels = blocks.iter().enumerate();
        let labels = labels.filter(|(_, block)| is_label(block));
        labels.map(|(number, block)| (number, block.text))
    };
    let is = |chosen: &[bool], number: usize| chosen.get(number) == Some(&true);
    let known = labels().filter(|(number, _)| is(chosen, *number));
    let known: FxHashSet<&str> = known.map(|(_, text)| text).collect();
    for (number, text) in labels() {
        if is(chosen, number + 1)
            && known.contains(text)
            && let Some(chosen) = chosen.get_mut(number)
        {
            *chosen = true;
        }
    }
}

/// Chooses also lists that a label such as "The lamp is for:" announces after chosen text, unless
/// they are mostly links.
fn add_lists(page: &WrittenPage, blocks: &[PageBlock<'_>], chosen: &mut [bool]) {
    const MOST_LINKED: f32 = 0.6;
    let unit = |number: usize| blocks.get(number).and_then(|block| block.unit);
    for (number, label) in blocks.iter().enumerate() {
        let list = number + 1;
        if label.unit.is_some() || !is_label(label) || unit(list).is_none() {
            continue;
        }
        let before = chosen.get(number.saturating_sub(1)..list);
        if !before.unwrap_or_default().contains(&true) {
            continue;
        }
        let items = blocks.iter().skip(list);
        let items = items.take_while(|block| block.unit == unit(list));
        let sum = |(end, words, linked): (usize, f32, f32), block: &PageBlock<'_>| {
            (
                end + 1,
                words + block.measures.words,
                linked + block.measures.linked,
            )
        };
        let (end, words, linked) = items.fold((list, 0.0, 0.0), sum);
        if linked <= MOST_LINKED * words
            && (number..end).all(|number| may_be_text(page, number))
            && let Some(chosen) = chosen.get_mut(number..end)
        {
            chosen.fill(true);
        }
    }
}

fn is_label(block: &PageBlock<'_>) -> bool {
    block.text.ends_with([':', '：'])
}

/// Chooses also the paragraphs that stand beside the element of the chosen paragraph before or after
/// them, with the headings between. The model has seen few pages with a part of their text in such
/// an element.
fn add_neighbours(page: &WrittenPage, blocks: &[PageBlock<'_>], chosen: &mut [bool]) {
    let is_beside = |number: usize, other: usize| {
        let place = |number: usize| page.around(number).find(|(_, at)| at.name() != "p");
        let Some((place, _)) = place(number).filter(|_| may_be_text(page, number)) else {
            return false;
        };
        let around = page.around(other).skip_while(|(_, at)| at.name() == "p");
        around.skip(1).any(|(other, _)| other == place)
    };
    let is_paragraph = |number: usize| blocks.get(number).is_some_and(PageBlock::is_sentences);
    let mut add = |numbers: &mut dyn Iterator<Item = usize>| {
        let mut last = None;
        let mut headings = Vec::new();
        for number in numbers {
            if blocks.get(number).is_some_and(PageBlock::is_heading) {
                headings.push(number);
                continue;
            }
            let is_chosen = chosen.get(number) == Some(&true);
            last = if !is_paragraph(number) {
                None
            } else if is_chosen {
                Some(number)
            } else {
                last.filter(|last| is_beside(number, *last))
            };
            if last.is_some() && !is_chosen {
                for number in headings.drain(..).chain([number]) {
                    if let Some(chosen) = chosen.get_mut(number) {
                        *chosen = true;
                    }
                }
            }
            headings.clear();
        }
    };
    add(&mut (0..blocks.len()));
    add(&mut (0..blocks.len()).rev());
}

/// A formula between two blocks goes with the text before or after it.
fn join_formulas(blocks: &[PageBlock<'_>], probabilities: &mut [f32]) {
    let mut before = 0.0;
    for (block, probability) in blocks.iter().zip(probabilities.iter_mut()) {
        if block.is_formula() {
            *probability = probability.max(before);
        }
        before = *probability;
    }
    let mut after = 0.0;
    for (block, probability) in blocks.iter().zip(probabilities.iter_mut()).rev() {
        if block.is_formula() {
            *probability = probability.max(after);
        }
        after = *probability;
    }
}

/// The probability from which on blocks are chosen: the one with which the F1 of the chosen words
/// is expected to be the highest (Lewis 1995, "Evaluating and optimizing autonomous text
/// classification systems"; the expectation of each sum stands for the sum).
fn bound(blocks: &[PageBlock<'_>], probabilities: &[f32]) -> f32 {
    let mut ranked: Vec<(f32, f32)> = blocks
        .iter()
        .zip(probabilities)
        .map(|(block, probability)| (*probability, block.measures.words.max(1.0)))
        .collect();
    ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let all: f32 = ranked
        .iter()
        .map(|(probability, words)| probability * words)
        .sum();
    let (mut right, mut chosen) = (0.0, 0.0);
    let mut best = (0.0, 0.0);
    for (probability, words) in ranked {
        right += probability * words;
        chosen += words;
        let expected = 2.0 * right / (chosen + all);
        if expected > best.0 {
            best = (expected, probability);
        }
    }
    best.1
}

/// Leaves out sections that only list links to other pages, with their headings. The headings are
/// those of Wikipedia in twelve languages.
fn leave_out_links(page: &WrittenPage, blocks: &[PageBlock<'_>], chosen: &mut [bool]) {
    const HEADINGS: [&str; 27] = [
        "see also",
        "external links",
        "siehe auch",
        "weblinks",
        "voir aussi",
        "liens externes",
        "véase también",
        "enlaces externos",
        "vedi anche",
        "voci correlate",
        "collegamenti esterni",
        "ver também",
        "ligações externas",
        "zie ook",
        "externe links",
        "zobacz też",
        "linki zewnętrzne",
        "см. также",
        "ссылки",
        "関連項目",
        "外部リンク",
        "参见",
        "參見",
        "外部链接",
        "外部連結",
        "같이 보기",
        "외부 링크",
    ];
    let level = |block: &PageBlock<'_>| match block.kind {
        BlockKind::Heading(level) => Some(level),
        _ => None,
    };
    for (number, heading) in blocks.iter().enumerate() {
        let Some(own) = level(heading) else { continue };
        let name = heading.text.trim_end_matches(':').to_lowercase();
        if !HEADINGS.contains(&name.as_str()) {
            continue;
        }
        let within = blocks.iter().enumerate().skip(number + 1);
        let within = within
            .take_while(|(_, block)| level(block).is_none_or(|level| level > own))
            .filter(|(number, _)| chosen.get(*number) == Some(&true));
        let within: Vec<(usize, &PageBlock<'_>)> = within.collect();
        let is_link = |block: &PageBlock<'_>| {
            (block.kind.is_of_list() || block.measures.links > 0.0) && !block.is_sentences()
        };
        if within
            .iter()
            .all(|(number, block)| is_link(block) || page.is_furniture(*number))
        {
            let gone = within.into_iter().map(|(number, _)| number);
            for number in gone.chain([number]) {
                if let Some(chosen) = chosen.get_mut(number) {
                    *chosen = false;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::blocks;
    use super::*;
    use crate::address::PageUrl;
    use crate::extract::text::TextRole;
    use crate::extract::written::Written;
    use crate::extract::{Options, stream};
    use crate::page::Extractor;

    const SENTENCES: &str =
        "In that year the lamp was, as the keepers wrote, lit before the fog came in.";

    /// The texts that are chosen of a page, if those have a high probability that contain `yes`.
    fn chosen(html: &str) -> Vec<String> {
        let url = PageUrl::parse("http://a.test/b").unwrap();
        let options = Options {
            documents: Some(Extractor::Main),
            ..Options::default()
        };
        let (_, layout) = stream::walk(&url, html, &options).unwrap();
        let page = layout.written.unwrap();
        let blocks = blocks(&page);
        let probability =
            |block: &PageBlock<'_>| if block.text.contains("yes") { 0.9 } else { 0.1 };
        let probabilities = blocks.iter().map(probability).collect();
        let chosen = of(&page, &blocks, probabilities);
        let texts = blocks.iter().zip(chosen).filter(|(_, is)| *is);
        texts.map(|(block, _)| block.text.to_owned()).collect()
    }

    #[test]
    fn sentences_between_chosen_blocks_are_chosen_and_advertisements_are_not() {
        let found = |between: &str| chosen(&format!("<p>yes 1</p>{between}<p>yes 2</p>")).len();
        assert_eq!(found(&format!("<h2>More</h2><p>{SENTENCES}</p>")), 4);
        assert_eq!(found("<div>Advertisement</div>"), 2);
        assert_eq!(found(&format!("<aside><p>{SENTENCES}</p></aside>")), 2);
        assert_eq!(found(&format!("<p>{SENTENCES}</p>").repeat(5)), 2);
    }

    #[test]
    fn a_label_is_chosen_each_time() {
        let html = "<p>yes, pros:</p><p>yes 1</p><p>yes, pros:</p><p>yes 2</p>";
        assert_eq!(chosen(html).len(), 4);
        let html = html.replace("yes, pros", "pros");
        assert_eq!(chosen(&html), ["yes 1", "yes 2"]);
    }

    #[test]
    fn a_list_that_is_announced_is_chosen() {
        let found = |list: &str| chosen(&format!("<p>yes 1<p>The lamp is for:{list}")).len();
        assert_eq!(found("<ul><li>ships<li>boats</ul>"), 4);
        assert_eq!(found("<ul><li><a href=/1>ships</a></ul>"), 1);
        assert_eq!(found("<nav><ul><li>ships</ul></nav>"), 1);
        assert_eq!(
            chosen("<p>No<p>The lamp is for:<ul><li>ships</ul><p>yes").len(),
            1
        );
    }

    #[test]
    fn lists_of_links_go_with_their_headings() {
        let list = "<ul><li><a href=/1>yes, a lamp</a><li>yes, <a href=/2>a wick</a></ul>";
        let html = format!(
            "<p>yes 1</p><h2>See also</h2>{list}<h2>Siehe auch:</h2>{list}<h2>yes, more</h2><p>yes 2"
        );
        assert_eq!(chosen(&html), ["yes 1", "yes, more", "yes 2"]);
        let html = format!("<p>yes 1</p><h2>See also</h2><p>yes. {SENTENCES}</p>{list}");
        assert_eq!(chosen(&html).len(), 5);
    }

    #[test]
    fn a_table_beside_the_text_is_chosen_as_a_whole() {
        let text = "<p>yes</p>".repeat(20);
        let table = |cell: &str| {
            format!("{text}<table><tr><td><p>{cell}<p>no<td>yes<tr><td>no<td>no</table>")
        };
        assert_eq!(chosen(&table("no")).len(), 20);
        assert_eq!(chosen(&table(SENTENCES)).len(), 21);
    }

    #[test]
    fn the_bound_is_where_the_expected_f1_is_highest() {
        let mut written = Written::default();
        for text in ["a", "b", "c", "d"] {
            let attributes = HashMap::new();
            written.open("p", TextRole::Block, None, &attributes);
            written.text(text, 0);
            written.close();
        }
        let page = written.finish();
        let blocks = blocks(&page);
        assert_eq!(bound(&blocks, &[0.9, 0.8, 0.1, 0.1]), 0.8);
        assert_eq!(bound(&blocks, &[0.1, 0.1, 0.1, 0.1]), 0.1);
        assert_eq!(bound(&[], &[]), 0.0);
    }
}
