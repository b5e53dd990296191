//! The main text of a page as its author wrote it: the chosen blocks, laid out for reading.
//!
//! A paragraph ends with an empty line. List items and table rows are on separate lines, cells of a
//! row are separated by tabs, an explicit line end (`br`) is kept, and preformatted text stays as
//! it is. From main text, the menus, tables of contents and lists of sources within it are left out
//! as well, and the headings of sections that contain nothing else.

use super::containers::Within;
use super::written::{BlockSpot, WrittenPage};

/// The text of those blocks of `page` for which `kept` is true; `is_main` leaves out navigation and
/// lists of sources.
pub(super) fn laid_out(page: &WrittenPage, is_main: bool, kept: impl Fn(usize) -> bool) -> String {
    let mut blocks: Vec<LaidOut> = Vec::with_capacity(page.len());
    for number in (0..page.len()).filter(|number| kept(*number)) {
        blocks.push(LaidOut {
            number,
            spot: page.spot(number),
            is_kept: !is_main || page.within(number) & Within::Furniture as u32 == 0,
        });
    }
    leave_out_bare_headings(&mut blocks);
    let mut out = String::new();
    let mut before: Option<BlockSpot> = None;
    for block in blocks.iter().filter(|block| block.is_kept) {
        out.push_str(before.map_or("", |before| between(before, block.spot)));
        let text = page.text_of(block.number);
        if block.spot == BlockSpot::Preformatted {
            let lines = text.trim_matches('\n').trim_end().lines();
            for (number, line) in lines.enumerate() {
                out.push_str(if number > 0 { "\n" } else { "" });
                out.push_str(line.trim_end());
            }
        } else {
            out.push_str(text.trim());
        }
        before = Some(block.spot);
    }
    out
}

/// A chosen block.
#[derive(Debug, Clone, Copy)]
struct LaidOut {
    number: usize,
    spot: BlockSpot,
    is_kept: bool,
}

/// Leaves out the headings of sections in which everything was left out.
fn leave_out_bare_headings(blocks: &mut [LaidOut]) {
    // For a heading of each level, what stands between it and the next of its level or above.
    let mut has_text = [false; 7];
    let mut has_lost = [false; 7];
    for block in blocks.iter_mut().rev() {
        let BlockSpot::Heading(level) = block.spot else {
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

/// The separator of two blocks.
fn between(before: BlockSpot, here: BlockSpot) -> &'static str {
    match (before, here) {
        (BlockSpot::Item, BlockSpot::Item) => "\n",
        (BlockSpot::Cell { row, cell }, BlockSpot::Cell { row: r, cell: c }) => {
            match (row == r, cell == c) {
                (true, true) => "\n\n",
                (true, false) => "\t",
                (false, _) => "\n",
            }
        }
        _ => "\n\n",
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
        laid_out(&layout.written.unwrap(), true, |_| true)
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
    }

    #[test]
    fn plain_text_keeps_its_lines() {
        let page = WrittenPage::plain("One line\nand  its end.\r\n \t\r\n\n\nNext\n");
        assert_eq!(
            laid_out(&page, false, |_| true),
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
            "Mars\n\nRed planet here. As [12] and [edit] say, 210.\n\nEnd"
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
