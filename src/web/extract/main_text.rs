//! The main text of a page as its author wrote it: the chosen blocks, laid out for
//! reading.
//!
//! A paragraph ends with an empty line. List items and table rows are on separate lines, cells of a
//! row are separated by tabs, and an explicit line end (`br`, `pre`) is kept. Additions of a wiki
//! are left out if the markup shows them: links to edit a section, and footnote marks. From an
//! article, the menus, tables of contents and lists of sources within it are left out as well, and
//! the headings of sections that contain nothing else.

use super::text::{BlockSpot, Layout};
use crate::page::Span;

/// The text of those lines of `flow` for which `kept` is true; for an article without
/// navigation and lists of sources.
pub(super) fn laid_out(
    flow: &str,
    layout: &Layout,
    is_article: bool,
    kept: impl Fn(usize) -> bool,
) -> String {
    let mut out = String::new();
    let mut before: Option<BlockSpot> = None;
    let mut bare = BareHeadings::default();
    let mut from = 0;
    let cuts = left_out(layout, is_article);
    let mut cuts = cuts.as_slice();
    let mut breaks = layout.breaks.as_slice();
    for (number, line) in flow.split('\n').enumerate() {
        let end = from + line.len();
        cuts = cuts
            .get(cuts.partition_point(|cut| cut.end <= from)..)
            .unwrap_or_default();
        breaks = breaks
            .get(breaks.partition_point(|at| (*at as usize) < from)..)
            .unwrap_or_default();
        if kept(number) {
            let here = layout
                .lines
                .get(number)
                .map(|line| line.spot)
                .unwrap_or_default();
            if let BlockSpot::Heading(level) = here {
                bare.end_sections(level, &mut out, &mut before);
            }
            let length = out.len();
            let preceding = before;
            let separator = before.map_or("", |before| between(before, here));
            out.push_str(separator);
            let begun = out.len();
            let mut at = from;
            for cut in cuts.iter().take_while(|cut| cut.start < end) {
                part(&mut out, begun, flow, at..cut.start.clamp(at, end), breaks);
                at = cut.end.clamp(at, end);
            }
            part(&mut out, begun, flow, at..end, breaks);
            let trimmed = out.trim_end_matches([' ', '\n']).len();
            if trimmed > begun {
                out.truncate(trimmed);
                before = Some(here);
                bare.met(here, length, preceding);
            } else {
                // Nothing is left of the block, so its separator is removed too.
                out.truncate(length);
                bare.emptied();
            }
        }
        from = end + 1;
    }
    bare.end_sections(0, &mut out, &mut before);
    out
}

/// Headings at the end of the text so far with nothing below them, the outermost first.
#[derive(Debug, Default)]
struct BareHeadings(Vec<BareHeading>);

#[derive(Debug)]
struct BareHeading {
    level: u8,
    /// Where it starts in the text, and the spot before it.
    from: usize,
    before: Option<BlockSpot>,
    /// A block below it was left out.
    emptied: bool,
}

impl BareHeadings {
    /// Handles a block that was laid out.
    fn met(&mut self, spot: BlockSpot, from: usize, before: Option<BlockSpot>) {
        match spot {
            BlockSpot::Heading(level) => self.0.push(BareHeading {
                level,
                from,
                before,
                emptied: false,
            }),
            _ => self.0.clear(),
        }
    }

    /// Handles a block that became empty.
    fn emptied(&mut self) {
        for heading in &mut self.0 {
            heading.emptied = true;
        }
    }

    /// Ends the sections of this level and below; removes headings of sections in which
    /// everything was left out.
    fn end_sections(&mut self, level: u8, out: &mut String, before: &mut Option<BlockSpot>) {
        while let Some(heading) = self.0.pop_if(|heading| heading.level >= level) {
            if heading.emptied {
                out.truncate(heading.from);
                *before = heading.before;
            } else {
                // The heading stays, and so do those around it.
                self.0.clear();
            }
        }
    }
}

/// The parts to leave out, in order and disjoint.
fn left_out(layout: &Layout, is_article: bool) -> Vec<Span> {
    if !is_article || layout.furniture.is_empty() {
        return layout.cuts.clone();
    }
    let within = |cut: &Span| {
        let after = layout.furniture.partition_point(|f| f.end <= cut.start);
        let first = layout.furniture.get(after);
        first.is_some_and(|f| f.start < cut.end)
    };
    let marks = layout.cuts.iter().filter(|cut| !within(cut));
    let mut all: Vec<Span> = marks.chain(&layout.furniture).cloned().collect();
    all.sort_unstable_by_key(|part| part.start);
    all
}

/// Appends a part of a line; spaces at which the author ended a line become line ends.
fn part(out: &mut String, begun: usize, flow: &str, range: std::ops::Range<usize>, breaks: &[u32]) {
    let mut at = range.start;
    let of_breaks = breaks.iter().map(|at| *at as usize);
    let inner = of_breaks
        .skip_while(|at| *at < range.start)
        .take_while(|at| *at < range.end);
    for end in inner {
        push(out, begun, flow.get(at..end).unwrap_or_default());
        // The separator itself is one byte.
        while out.len() > begun && out.ends_with(' ') {
            out.pop();
        }
        if out.len() > begun {
            out.push('\n');
        }
        at = (end + 1).min(range.end);
    }
    push(out, begun, flow.get(at..range.end).unwrap_or_default());
}

/// Cutting a part out of a line may leave two spaces.
fn push(out: &mut String, begun: usize, text: &str) {
    let is_spaced = out.len() == begun || out.ends_with([' ', '\n']);
    out.push_str(if is_spaced {
        text.trim_start_matches(' ')
    } else {
        text
    });
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

    use super::super::{Options, extract_text};
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
            "let a = 1;\nlet b = 2;\n\nend\n\nRoses,\nviolets,\nand"
        );
        assert_eq!(all("<p>a<br></p><p><br>b</p><div><br></div>"), "a\n\nb");
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
        let prose = "<p>The keeper climbed to the lamp in the evening and lit it.</p>".repeat(12);
        let html = format!(
            "<article><div id=siteSub>From the free book</div><h3 id=siteSub>Old</h3><nav>Menu</nav>{prose}\
             <div class='toc x'><ul><li>1 Night<li>2 Day</ul></div><h2>Night</h2><p>Late<sup \
             class=reference>[1]</sup>.</p><div class=reflist><ol class=references><li>Source \
             <sup class=reference>[2]</sup> one</ol></div><p>End.</p></article>"
        );
        let article = read(&html, Extractor::Article).text;
        assert!(
            article.ends_with("lit it.\n\nNight\n\nLate.\n\nEnd."),
            "{article}"
        );
        assert!(article.starts_with("The keeper"), "{article}");
        let whole = all(&html);
        for furniture in ["free book", "Menu", "1 Night\n2 Day", "Source one"] {
            assert!(whole.contains(furniture), "{whole}");
        }
        // A page that consists only of a menu keeps it.
        let menu = "<nav><ul><li>One<li>Two</ul></nav>";
        assert_eq!(read(menu, Extractor::Article).text, "One\nTwo");
    }

    #[test]
    fn headings_of_sections_that_are_left_out_go_too() {
        let prose = "<p>The keeper climbed to the lamp in the evening and lit it.</p>".repeat(12);
        let sources = "<ol class=references><li>Source one.</ol>";
        let html = format!(
            "<article><h1>Lamp</h1>{prose}<h2>Parts</h2><h3>Wick</h3><p>Long.</p>\
             <h2>References</h2><h3>Notes</h3>{sources}<h3>Books</h3>{sources}\
             <h2>Empty</h2><h2>Links</h2><p>One.</p><h2>Sources</h2>{sources}</article>"
        );
        let article = read(&html, Extractor::Article).text;
        assert!(
            article.ends_with("Parts\n\nWick\n\nLong.\n\nEmpty\n\nLinks\n\nOne."),
            "{article}"
        );
        assert!(article.starts_with("Lamp\n\nThe keeper"), "{article}");
        assert!(all(&html).ends_with("One.\n\nSources\n\nSource one."));
    }

    #[test]
    fn an_article_that_is_a_list_of_sources_keeps_it() {
        let source = "<li>The Keeper, a history of the lamp and of those who lit it, 1887.";
        let html = format!(
            "<article><p>Sources.</p><ol class=references>{}</ol></article>",
            source.repeat(30)
        );
        let page = read(&html, Extractor::Article);
        assert_eq!(page.share.extractor, Extractor::Article);
        assert_eq!(page.text.matches("a history of the lamp").count(), 30);
        assert!(
            page.text.starts_with("Sources.\n\nThe Keeper"),
            "{}",
            page.text
        );
    }

    #[test]
    fn the_article_is_taken_regardless_of_what_is_rated() {
        let sentence =
            "The keeper climbed to the lamp in the evening, and lit it before the fog came in. ";
        let menu: String = (0..30)
            .map(|n| format!("<li><a href=/{n}>Part {n}</a></li>"))
            .collect();
        let html = format!(
            "<title>Lamp</title><body><div class=nav><ul>{menu}</ul></div><article><h2>Night</h2>{}</article>\
             <div class=footer>Imprint</div>",
            format!("<p>{}</p>", sentence.repeat(5)).repeat(6)
        );
        let url = PageUrl::parse("http://a.test/b").unwrap();
        let options = Options {
            documents: Some(Extractor::Article),
            ..Options::default()
        };
        let page = extract_text(&url, &html, &options);
        assert_eq!(page.text.extractor, Extractor::All);
        let main = page.main.unwrap();
        assert_eq!(main.share.extractor, Extractor::Article);
        assert!(!main.text.contains("Part 3") && !main.text.contains("Imprint"));
        assert!(main.text.contains("Night\n\nThe keeper"), "{}", main.text);
        assert_eq!(main.text.matches("before the fog").count(), 30);
        assert!(main.share.words < page.text.words);
        // Without an article, the whole text is taken, and the result says so.
        let short = read("<ul><li>One<li>Two</ul>", Extractor::Article);
        assert_eq!(
            (short.text.as_str(), short.share.extractor),
            ("One\nTwo", Extractor::All)
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
            prop_assert_eq!(text.trim(), &text);
            prop_assert!(!text.contains("  ") && !text.contains("\n\n\n") && !text.contains(" \n") && !text.contains("\n "));
            if !html.contains("<sup") {
                let url = PageUrl::parse("http://a.test/b").unwrap();
                let blocks = extract_text(&url, &html, &Options::default()).blocks.join(" ");
                let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
                prop_assert_eq!(words(&text), words(&blocks));
            }
        }
    }
}
