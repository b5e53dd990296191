//! The main text of a page as its author wrote it: the chosen blocks, laid out for reading.
//!
//! A paragraph ends with an empty line. List items and table rows are on separate lines, cells of a
//! row are separated by tabs, an explicit line end (`br`) is kept, and preformatted text stays as
//! it is. From main text, the menus, tables of contents and lists of sources within it are left out
//! as well, and the headings of sections that contain nothing else. The parts of the text and what
//! each is are returned with it.

use super::containers::{Container, Within};
use super::structure::CellPlace;
use super::written::WrittenPage;
use crate::page::{BlockKind, TextBlock};

/// A text laid out for reading.
#[derive(Debug, Default)]
pub(super) struct LaidOut {
    pub(super) text: String,
    /// Its parts.
    pub(super) blocks: Vec<TextBlock>,
    /// Each block of the page that is in it, in order, with the number of parts up to it.
    parts: Vec<(usize, usize)>,
}

impl LaidOut {
    /// How many parts come before what stands before this block of the page.
    pub(super) fn parts_before(&self, block: usize) -> usize {
        let before = self.parts.partition_point(|(number, _)| *number < block);
        let last = before.checked_sub(1).and_then(|at| self.parts.get(at));
        last.map_or(0, |(_, parts)| *parts)
    }
}

/// The text of those blocks of `page` for which `kept` is true, and its parts; `is_main` leaves out
/// navigation and lists of sources.
pub(super) fn laid_out(page: &WrittenPage, is_main: bool, kept: impl Fn(usize) -> bool) -> LaidOut {
    let mut chosen: Vec<ChosenBlock> = Vec::with_capacity(page.len());
    for number in 0..page.len() {
        let is_furniture = is_main && page.is_furniture(number);
        let kind = page.kind(number);
        let is_code = kind == BlockKind::Code;
        let block = ChosenBlock {
            number,
            kind,
            code: is_code.then(|| code_around(page, number)).flatten(),
            cell: page.cell(number),
            is_kept: kept(number) && !is_furniture,
            indent: 0,
        };
        let is_table = || {
            block
                .cell
                .is_some_and(|cell| page.tables.contains(&cell.table))
        };
        let is_lost = || is_furniture || block.kind.is_of_list() || is_table();
        if block.is_kept || (is_main && is_lost()) {
            chosen.push(block);
        }
    }
    leave_out_bare_headings(&mut chosen);
    chosen.retain(|block| block.is_kept && !is_gutter(page, block));
    prepare_code(page, &mut chosen);
    chosen.retain(|block| block.is_kept);
    let columns = page.columns();
    let mut out = DocumentText::default();
    let mut parts = Vec::with_capacity(chosen.len());
    for block in &chosen {
        let text = page.text_of(block.number);
        match block.cell {
            Some(cell) if page.tables.contains(&cell.table) => {
                let column = columns.get(cell.cell as usize).copied().unwrap_or(0);
                out.cell(cell, column, text);
            }
            _ if block.kind == BlockKind::Code => {
                out.code(block.code, block.indent, text);
            }
            _ => out.block(block.kind, text.trim()),
        }
        parts.push((block.number, out.blocks.len()));
    }
    LaidOut {
        text: out.text,
        blocks: out.blocks,
        parts,
    }
}

/// A chosen block, or one of a list, a table or navigation that was left out.
#[derive(Debug, Clone, Copy)]
struct ChosenBlock {
    number: usize,
    kind: BlockKind,
    cell: Option<CellPlace>,
    is_kept: bool,
    /// The preformatted element around code.
    code: Option<u32>,
    /// How many spaces of each line of code only indent it on its page.
    indent: usize,
}

/// Leaves out the headings of sections of which only lists, tables and navigation are known, and all
/// of these were left out.
fn leave_out_bare_headings(blocks: &mut [ChosenBlock]) {
    // For a heading of each level, what stands between it and the next of its level or above.
    let mut has_text = [false; 7];
    let mut has_lost = [false; 7];
    for block in blocks.iter_mut().rev() {
        let BlockKind::Heading(level) = block.kind else {
            let what = if block.is_kept {
                &mut has_text
            } else {
                &mut has_lost
            };
            what.fill(true);
            continue;
        };
        let level = usize::from(level.min(6));
        block.is_kept &= has_text[level] || !has_lost[level];
        let (around, within) = has_text.split_at_mut(level);
        within.fill(false);
        around.iter_mut().for_each(|has| *has |= block.is_kept);
        has_lost.iter_mut().skip(level).for_each(|has| *has = false);
    }
}

/// Whether it only numbers the lines of the code beside it.
fn is_gutter(page: &WrittenPage, block: &ChosenBlock) -> bool {
    let mut lines = page.text_of(block.number).split_whitespace().enumerate();
    let first = lines
        .next()
        .and_then(|(_, first)| first.parse::<usize>().ok());
    block.kind == BlockKind::Code
        && block.cell.is_some()
        && first.is_some_and(|first| lines.all(|(at, line)| line.parse() == Ok(first + at)))
}

/// Leaves out numbers of lines that are elements of their own among the lines of code, and finds
/// the spaces that all lines begin with.
fn prepare_code(page: &WrittenPage, blocks: &mut [ChosenBlock]) {
    const FEWEST: usize = 3;
    let elements = blocks.chunk_by_mut(|a, b| a.code == b.code);
    for code in elements.filter(|code| code.iter().any(|block| block.code.is_some())) {
        let number = |block: &ChosenBlock| page.text_of(block.number).trim().parse().ok();
        let numbers: Vec<usize> = code.iter().filter_map(number).collect();
        let are_some = (FEWEST..code.len()).contains(&numbers.len());
        let are_counted = |pair: &[usize]| matches!(pair, [a, b] if *b == a.saturating_add(1));
        if are_some && 3 * numbers.len() >= code.len() && numbers.windows(2).all(are_counted) {
            for block in code.iter_mut() {
                block.is_kept = number(block).is_none();
            }
        }
        let kept = code.iter().filter(|block| block.is_kept);
        let lines = kept.flat_map(|block| page.text_of(block.number).lines());
        let lines = lines.filter(|line| !line.trim().is_empty());
        let indents = lines.map(|line| line.len() - line.trim_start_matches(' ').len());
        let indent = indents.min().unwrap_or_default();
        code.iter_mut().for_each(|block| block.indent = indent);
    }
}

/// The preformatted element around a block.
fn code_around(page: &WrittenPage, number: usize) -> Option<u32> {
    let mut around = page.around(number);
    let is_code = |container: &Container| container.within & Within::Preformatted as u32 != 0;
    let mut outermost = None;
    while let Some((number, _)) = around.next().filter(|(_, container)| is_code(container)) {
        outermost = Some(number);
    }
    outermost
}

/// A text while it is laid out.
#[derive(Debug, Default)]
pub(super) struct DocumentText {
    pub(super) text: String,
    pub(super) blocks: Vec<TextBlock>,
    /// The last cell, with its column.
    cell: Option<(CellPlace, u32)>,
    /// The preformatted element of the last block.
    code: Option<u32>,
}

impl DocumentText {
    /// Adds a block, if it has text.
    pub(super) fn block(&mut self, kind: BlockKind, text: &str) {
        if text.is_empty() {
            return;
        }
        let before = self.blocks.last().map(|block| block.kind);
        self.text
            .push_str(before.map_or("", |before| between(before, kind)));
        let from = self.text.len();
        self.text.push_str(text);
        self.blocks.push(TextBlock {
            kind,
            text: from..self.text.len(),
        });
        self.cell = None;
        self.code = None;
    }

    fn code(&mut self, element: Option<u32>, indent: usize, text: &str) {
        let mut lines = String::with_capacity(text.len());
        for line in text.trim_matches('\n').trim_end().lines() {
            lines.push_str(line.get(indent..).unwrap_or_default().trim_end());
            lines.push('\n');
        }
        let text = lines.trim_end_matches('\n');
        if element.is_some() && self.code == element {
            self.more("\n", text);
        } else {
            self.block(BlockKind::Code, text);
        }
        self.code = element;
    }

    fn cell(&mut self, cell: CellPlace, column: u32, text: &str) {
        let mut line = String::with_capacity(text.len());
        for word in text.split_whitespace() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        // Cells without text keep their places.
        let tabs = |from: u32| "\t".repeat(column.saturating_sub(from) as usize);
        match self.cell.filter(|(last, _)| last.table == cell.table) {
            None => self.block(BlockKind::Table, &(tabs(0) + &line)),
            Some((last, _)) if last.cell == cell.cell => self.more(" ", &line),
            Some((last, before)) if last.row == cell.row => self.more(&tabs(before), &line),
            Some(_) => self.more(&format!("\n{}", tabs(0)), &line),
        }
        self.cell = Some((cell, column));
    }

    /// Adds to the last block.
    fn more(&mut self, separator: &str, text: &str) {
        self.text.push_str(separator);
        self.text.push_str(text);
        if let Some(block) = self.blocks.last_mut() {
            block.text.end = self.text.len();
        }
    }
}

/// The separator of two blocks.
fn between(before: BlockKind, here: BlockKind) -> &'static str {
    if before.is_of_list() && here.is_of_list() {
        "\n"
    } else {
        "\n\n"
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Options, extract_text, stream};
    use super::*;
    use crate::address::PageUrl;
    use crate::page::{Extractor, MainText};

    fn read(html: &str, extractor: Extractor) -> MainText {
        let url = PageUrl::parse("http://a.test/b").unwrap();
        let options = Options {
            documents: Some(extractor),
            ..Options::default()
        };
        extract_text(&url, html, &options).main.unwrap()
    }

    /// The page laid out as if the model had chosen all of it.
    fn of_main(html: &str) -> String {
        let url = PageUrl::parse("http://a.test/b").unwrap();
        let options = Options {
            documents: Some(Extractor::Main),
            ..Options::default()
        };
        let (_, layout) = stream::walk(&url, html, &options).unwrap();
        laid_out(&layout.written.unwrap(), true, |_| true).text
    }

    /// Paragraphs that differ.
    fn evenings(count: usize) -> String {
        let evening =
            |n: usize| format!("<p>On evening {n}, the keeper climbed to the lamp and lit it.</p>");
        (0..count).map(evening).collect()
    }

    fn all(html: &str) -> String {
        read(html, Extractor::All).text
    }

    #[test]
    fn words_are_as_the_author_wrote_them() {
        let html = "<h1>The Lamp, No. 7</h1><p>Lit at 6:15&nbsp;p.m. on 3 May 1887 &mdash; \
                    “Fog,” she   said;\n £3.50.</p><p>Δέλτα, ЁЖ &amp; 東京!</p>";
        assert_eq!(
            all(html),
            "The Lamp, No. 7\n\nLit at 6:15 p.m. on 3 May 1887 — “Fog,” she said; £3.50.\n\nΔέλτα, ЁЖ & 東京!"
        );
    }

    #[test]
    fn lists_tables_and_lines_can_be_read() {
        assert_eq!(
            all("<p>Before</p><ul><li>One<li>Two <b>bold</b><ul><li>Deep</ul></ul><p>After</p>"),
            "Before\n\nOne\nTwo bold\nDeep\n\nAfter"
        );
        assert_eq!(
            all(
                "<table><caption>Lamps</caption><tr><th>Name<th>Year<tr><td>Skerry<td>1811<tr><td>Bell</table><p>After"
            ),
            "Lamps\n\nName\tYear\nSkerry\t1811\nBell\n\nAfter"
        );
        // Cells stand in their columns.
        assert_eq!(
            all(
                "<table><tr><th rowspan=2>A<th colspan=2>B<td>C<tr><td>1<td>2<td>3<tr><td>x<td>y</table>"
            ),
            "A\tB\t\tC\n\t1\t2\t3\nx\ty"
        );
        // Without terms, a list of definitions only indents.
        let kinds = |html: &str| -> Vec<String> {
            let text = read(html, Extractor::All);
            text.blocks.iter().map(|block| block.kind.name()).collect()
        };
        assert_eq!(kinds("<dl><dd>One<dd>Two</dl>"), ["paragraph", "paragraph"]);
        assert_eq!(
            kinds("<dl><div><dt>One<dd>Two</div></dl>"),
            ["term", "definition"]
        );
        // A table that is used only for layout.
        assert_eq!(
            all("<table><tr><td><p>One one.<p>Two two.<td>Side<br><br>More</table>"),
            "One one.\n\nTwo two.\n\nSide\n\nMore"
        );
        assert_eq!(
            all("<pre>let a = 1;\n  let b = 2;\n\nend</pre><p>Roses,<br>violets,<br/> and</p>"),
            "let a = 1;\n  let b = 2;\n\nend\n\nRoses,\nviolets,\nand"
        );
        assert_eq!(all("<p>a<br></p><p><br>b</p><div><br></div>"), "a\n\nb");
        // What has no text does not part words, and the label of a box stays in its line.
        assert_eq!(
            all(
                "<p>Rates <button aria-label=more><svg></svg></button> of <noscript><img src=a></noscript>5%"
            ),
            "Rates of 5%"
        );
        assert_eq!(all("<ul><li><label>▢ </label>3 lamps</ul>"), "▢ 3 lamps");
    }

    #[test]
    fn code_can_be_run_as_it_is() {
        let read = |html: &str| read(html, Extractor::All).text;
        let code = "if lit:\n    climb()\n\nend()";
        for html in [
            "<pre>  if lit:\n      climb()\n\n  end()</pre>",
            "<pre><span class=linenos>1</span>if lit:\n<span class=linenos>2</span>    climb()\n\n\
             <span class=linenos>4</span>end()</pre>",
        ] {
            assert_eq!(read(html), code, "{html}");
        }
        assert_eq!(
            read(
                "<pre><div>1</div><div> if lit:</div><div>2</div><div>     climb()</div>\
                 <div>3</div><div> end()</div></pre>"
            ),
            code.replace("\n\n", "\n")
        );
        // These are numbers, and no lines are numbered by them.
        assert_eq!(read("<pre>1\n2\n3</pre>"), "1\n2\n3");
        assert_eq!(
            read("<pre><div>1</div><div>2</div><div>3</div></pre>"),
            "1\n2\n3"
        );
    }

    #[test]
    fn words_that_only_their_style_parts_are_two() {
        for (html, expected) in [
            ("<a>Coleman</a><span>Stove</span>", "Coleman Stove"),
            ("<b>Yucy</b><span>3/4/2025</span>", "Yucy 3/4/2025"),
            ("<b>e</b><b>mail</b>", "email"),
            ("<a>FPS</a><a>Shooter</a>", "FPS Shooter"),
            ("<a>灯台</a><a>守</a>", "灯台守"),
            ("Mac<b>Donald</b>, <i>B</i>Z<i>a</i>", "MacDonald, BZa"),
            ("<i>H</i><sub>2</sub>O, <i>x</i><sup>2</sup>", "H₂O, x²"),
            ("<pre><b>get</b><b>Name</b></pre>", "getName"),
        ] {
            assert_eq!(all(html), expected, "{html}");
        }
    }

    #[test]
    fn a_short_page_does_not_ask_for_a_wide_table() {
        let row = format!("<tr><td>x{}", "<td rowspan=9999 colspan=9999>y".repeat(50));
        let html = format!("<table>{row}{}</table>", "<tr><td>z<td>z".repeat(20_000));
        assert!(all(&html).len() < html.len());
    }

    #[test]
    fn plain_text_keeps_its_lines() {
        let page = WrittenPage::plain("One line\nand  its end.\r\n \t\r\n\n\nNext\n");
        assert_eq!(
            laid_out(&page, false, |_| true).text,
            "One line\nand its end.\n\nNext"
        );
    }

    #[test]
    fn what_a_wiki_adds_is_left_out_and_the_like_of_it_stays() {
        let html = "<h2>Mars<span class=\"mw-editsection\"><span>[</span><a href=/e>edit</a><span>]</span></span></h2>\
                    <p>Red<sup id=x class=\"reference\"><a>[12]</a></sup> planet <sup class=reference>[3]</sup> here. \
                    As [12] and [edit] say, 2<sup>10</sup>.</p>\
                    <p><sup class=reference>[4]</sup></p><p>End</p>";
        assert_eq!(
            all(html),
            "Mars\n\nRed planet here. As [12] and [edit] say, 2¹⁰.\n\nEnd"
        );
    }

    #[test]
    fn an_article_is_without_what_leads_around_the_site() {
        let prose = evenings(12);
        let html = format!(
            "<article><div id=siteSub>From the free book</div><h3 id=siteSub>Old</h3><nav>Menu</nav>{prose}\
             <div class='toc x'><ul><li>1 Night<li>2 Day</ul></div><h2>Night</h2><p>Late<sup \
             class=reference>[1]</sup>.</p><div class=reflist><ol class=references><li>Source \
             <sup class=reference>[2]</sup> one</ol></div><p>End.</p></article>"
        );
        let article = of_main(&html);
        assert!(
            article.ends_with("lit it.\n\nNight\n\nLate.\n\nEnd."),
            "{article}"
        );
        assert!(article.starts_with("On evening 0"), "{article}");
        let whole = all(&html);
        for furniture in ["free book", "Menu", "1 Night\n2 Day", "Source one"] {
            assert!(whole.contains(furniture), "{whole}");
        }
        // A page that consists only of a menu keeps it.
        let menu = "<nav><ul><li>One<li>Two</ul></nav>";
        assert_eq!(of_main(menu), "");
        assert_ne!(read(menu, Extractor::Main).text, "");
    }

    #[test]
    fn headings_of_sections_that_are_left_out_go_too() {
        let prose = evenings(12);
        let sources = "<ol class=references><li>Source one.</ol>";
        let html = format!(
            "<article><h1>Lamp</h1>{prose}<h2>Parts</h2><h3>Wick</h3><p>Long.</p>\
             <h2>References</h2><h3>Notes</h3>{sources}<h3>Books</h3>{sources}\
             <h2>Empty</h2><h2>Links</h2><p>One.</p><h2>Sources</h2>{sources}</article>"
        );
        let article = of_main(&html);
        assert!(
            article.ends_with("Parts\n\nWick\n\nLong.\n\nEmpty\n\nLinks\n\nOne."),
            "{article}"
        );
        assert!(article.starts_with("Lamp\n\nOn evening 0"), "{article}");
        assert!(all(&html).ends_with("One.\n\nSources\n\nSource one."));
    }

    #[test]
    fn an_article_that_is_a_list_of_sources_keeps_it() {
        let source =
            |n| format!("<li>The Keeper, a history of the lamp and of those who lit it, 18{n}.");
        let html = format!(
            "<article><p>Sources.</p><ol class=references>{}</ol></article>",
            (10..40).map(source).collect::<String>()
        );
        let page = read(&html, Extractor::Main);
        assert_eq!(page.share.extractor, Extractor::Main);
        assert_eq!(page.text.matches("a history of the lamp").count(), 30);
    }

    #[test]
    fn the_article_is_taken_regardless_of_what_is_rated() {
        let sentence = |n: usize| {
            format!(
                "On evening {n}, the keeper climbed to the lamp, and lit it before the fog came in. "
            )
        };
        let paragraph = |n: usize| {
            format!(
                "<p>{}</p>",
                (5 * n..5 * n + 5).map(sentence).collect::<String>()
            )
        };
        let menu: String = (0..30)
            .map(|n| format!("<li><a href=/{n}>Part {n}</a></li>"))
            .collect();
        let html = format!(
            "<title>Lamp</title><body><div class=nav><ul>{menu}</ul></div><article><h2>Night</h2>{}</article>\
             <div class=footer>Imprint</div>",
            (0..6).map(paragraph).collect::<String>()
        );
        let url = PageUrl::parse("http://a.test/b").unwrap();
        let options = Options {
            documents: Some(Extractor::Main),
            ..Options::default()
        };
        let page = extract_text(&url, &html, &options);
        assert_eq!(page.text.extractor, Extractor::All);
        let main = page.main.unwrap();
        assert_eq!(main.share.extractor, Extractor::Main);
        assert!(!main.text.contains("Part 3") && !main.text.contains("Imprint"));
        assert!(main.text.contains("Night\n\nOn evening 0"), "{}", main.text);
        assert_eq!(main.text.matches("before the fog").count(), 30);
        assert!(main.share.words < page.text.words);
        // Without any text, nothing was chosen.
        let empty = read("<ul><li></ul>", Extractor::Main);
        assert_eq!(
            (empty.text.as_str(), empty.share.extractor),
            ("", Extractor::All)
        );
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn any_markup_gives_clean_text_with_every_word(
            parts in proptest::collection::vec(prop_oneof![
                Just("<p>"), Just("</p>"), Just("<br>"), Just("<li>"), Just("<td>"), Just("<tr>"), Just("<table>"),
                Just("</table>"), Just("<pre>"), Just("</pre>"), Just("<sup class=reference>"), Just("</sup>"),
                Just("\n"), Just(" "), Just("<b>"), Just("ä "), Just("word "), Just("x"),
            ], 0..40)
        ) {
            let html: String = parts.concat();
            let text = all(&html);
            prop_assert_eq!(text.trim_end(), &text);
            prop_assert!(!text.contains(" \n"));
            if !html.contains("<pre>") {
                prop_assert_eq!(text.trim(), &text);
                prop_assert!(!text.contains("  ") && !text.contains("\n\n\n") && !text.contains("\n "));
            }
            if !html.contains("<sup") {
                let url = PageUrl::parse("http://a.test/b").unwrap();
                let blocks = extract_text(&url, &html, &Options::default()).blocks.join(" ");
                let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
                prop_assert_eq!(words(&text), words(&blocks));
            }
        }
    }
}
