//! A document in Markdown (CommonMark, with the tables of GitHub).
//!
//! Only what would change the structure of the text is escaped: marks at the beginning of a line,
//! and tags.

use crate::page::{BlockKind, blocks_of_lists};
use crate::sanitize;

use super::super::document::{Document, folded};

/// A document, after a comment with its address. A text without known parts stays as it is.
pub(super) fn document(document: &Document) -> String {
    let kinds = &document.block_kinds;
    let blocks = blocks_of_lists(&document.text, kinds, &document.block_offsets);
    let url = document.url.replace("--", "-%2D");
    let mut out = format!("<!-- {} -->\n\n", sanitize::shown(&url));
    let has_title = kinds.iter().any(|kind| kind == "heading1");
    if let Some(title) = document.title.as_deref().filter(|_| !has_title) {
        out.push_str(&format!("# {}\n\n", line(&folded(title))));
    }
    if blocks.is_empty() {
        out.push_str(&clean(&document.text));
        out.push_str("\n\n");
    }
    let mut lists = Lists::default();
    let mut before: Option<BlockKind> = None;
    for block in blocks {
        let text = clean(document.text.get(block.text).unwrap_or_default());
        let is_item = |kind| matches!(kind, BlockKind::Item(_) | BlockKind::Numbered(_));
        if let Some(before) = before {
            let is_list = is_item(before) && is_item(block.kind);
            out.push_str(if is_list { "\n" } else { "\n\n" });
        }
        if !is_item(block.kind) {
            lists = Lists::default();
        }
        let written = match block.kind {
            BlockKind::Heading(level) => {
                format!("{} {}", "#".repeat(level.into()), folded(&text))
            }
            BlockKind::Item(depth) => lists.item(depth, None, &text),
            BlockKind::Numbered(depth) => {
                let number = lists.next(depth);
                lists.item(depth, Some(number), &text)
            }
            BlockKind::Term => format!("**{}**", folded(&text)),
            BlockKind::Definition => prefixed(&lines(&text), ": ", "  "),
            BlockKind::Table => table(&text),
            BlockKind::Code => fenced(&text),
            BlockKind::Quote => prefixed(&lines(&text), "> ", "> "),
            BlockKind::Caption => format!("*{}*", folded(&text)),
            BlockKind::Paragraph | BlockKind::Formula => lines(&text),
        };
        out.push_str(&written);
        before = Some(block.kind);
    }
    if before.is_some() {
        out.push_str("\n\n");
    }
    out
}

/// The numbers of the open lists.
#[derive(Debug, Default)]
struct Lists {
    numbers: Vec<u32>,
}

impl Lists {
    /// The number of the next item at a depth.
    fn next(&mut self, depth: u8) -> u32 {
        self.numbers.resize(usize::from(depth).max(1), 0);
        let Some(last) = self.numbers.last_mut() else {
            return 1;
        };
        *last += 1;
        *last
    }

    fn item(&mut self, depth: u8, number: Option<u32>, text: &str) -> String {
        if number.is_none() {
            self.numbers.truncate(usize::from(depth).saturating_sub(1));
        }
        // Wide enough for the items of a list with numbers around it.
        let indent = "   ".repeat(usize::from(depth).saturating_sub(1));
        let mark = number.map_or("- ".to_owned(), |number| format!("{number}. "));
        let behind = format!("{indent}{}", " ".repeat(mark.len()));
        prefixed(&lines(text), &format!("{indent}{mark}"), &behind)
    }
}

/// Lines with something before the first and before all others.
fn prefixed(text: &str, first: &str, others: &str) -> String {
    let mut out = first.to_owned();
    out.push_str(&text.replace('\n', &format!("\n{others}")));
    out
}

/// Text with its line ends.
fn lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(line).collect();
    lines.join("  \n")
}

/// A line that Markdown takes for nothing but text.
fn line(text: &str) -> String {
    let text = text.trim();
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = number.len() < text.len() && number.starts_with(['.', ')']);
    let mut out = String::with_capacity(text.len() + 2);
    let rest = if is_number {
        let (digits, rest) = text.split_at(text.len() - number.len());
        out.push_str(digits);
        out.push('\\');
        rest
    } else {
        if text.starts_with(['#', '>', '+', '=', '~']) || is_mark(text) {
            out.push('\\');
        }
        text
    };
    let mut before = ' ';
    let mut characters = rest.chars().peekable();
    while let Some(c) = characters.next() {
        let begins_tag =
            |next: &char| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?');
        if c == '<' && before != '\\' && characters.peek().is_some_and(begins_tag) {
            out.push('\\');
        }
        out.push(c);
        before = c;
    }
    out
}

/// Whether a line would be an item or a rule.
fn is_mark(text: &str) -> bool {
    let mut characters = text.chars();
    let first = characters.next();
    let is_rule = text.len() > 2 && text.chars().all(|c| Some(c) == first || c == ' ');
    matches!(first, Some('-' | '*' | '_')) && (characters.next() == Some(' ') || is_rule)
}

/// Rows by line and cells by tab; the first row is the head.
fn table(text: &str) -> String {
    let rows: Vec<Vec<String>> = text
        .lines()
        .map(|row| {
            row.split('\t')
                .map(|cell| line(cell).replace('|', "\\|"))
                .collect()
        })
        .collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = String::with_capacity(text.len() * 2);
    for (number, row) in rows.iter().enumerate() {
        out.push_str(if number > 0 { "\n|" } else { "|" });
        for column in 0..columns {
            let cell = row.get(column).map_or("", String::as_str);
            out.push_str(&format!(" {cell} |"));
        }
        if number == 0 {
            out.push_str("\n|");
            out.push_str(&" --- |".repeat(columns));
        }
    }
    out
}

/// Code between more backticks than it has in a row.
fn fenced(text: &str) -> String {
    let longest = text
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

/// Without characters that control a terminal or the direction of writing.
fn clean(text: &str) -> String {
    let is_kept = |c: &char| matches!(c, '\n' | '\t') || !sanitize::acts(*c);
    text.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use pulldown_cmark::{Event, Options, Parser, Tag};

    use super::*;
    use crate::page::{TextBlock, block_lists};

    fn of(parts: &[(BlockKind, &str)]) -> String {
        let mut text = String::new();
        let mut blocks = Vec::new();
        for (kind, part) in parts {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            let from = text.len();
            text.push_str(part);
            blocks.push(TextBlock {
                kind: *kind,
                text: from..text.len(),
            });
        }
        let (block_kinds, block_offsets) = block_lists(&text, &blocks);
        document(&Document {
            url: "http://a.test/--x".to_owned(),
            title: Some("The lamp".to_owned()),
            text,
            block_kinds,
            block_offsets,
            ..Document::default()
        })
    }

    #[test]
    fn parts_are_written_as_what_they_are() {
        let text = of(&[
            (BlockKind::Heading(2), "Wick"),
            (BlockKind::Paragraph, "# one\n2. two <b>\n- three"),
            (BlockKind::Numbered(1), "First\nmore"),
            (BlockKind::Item(2), "Deep"),
            (BlockKind::Numbered(1), "Second"),
            (BlockKind::Table, "Name\tYear\nSkerry|Rock\t1811\n\t1812"),
            (BlockKind::Code, "if x:\n    y = \"```\""),
            (BlockKind::Quote, "It\nburns"),
            (BlockKind::Formula, "$$x^2$$"),
            (BlockKind::Term, "Lamp"),
            (BlockKind::Definition, "A light"),
        ]);
        assert_eq!(
            text,
            "<!-- http://a.test/-%2Dx -->\n\n# The lamp\n\n## Wick\n\n\\# one  \n2\\. two \\<b>  \n\\- three\n\n\
             1. First  \n   more\n   - Deep\n2. Second\n\n\
             | Name | Year |\n| --- | --- |\n| Skerry\\|Rock | 1811 |\n|  | 1812 |\n\n\
             ````\nif x:\n    y = \"```\"\n````\n\n> It  \n> burns\n\n$$x^2$$\n\n**Lamp**\n\n: A light\n\n"
        );
    }

    #[test]
    fn a_reader_of_markdown_finds_the_parts() {
        let text = of(&[
            (
                BlockKind::Paragraph,
                "> no quote\n1. no list <script> * * *",
            ),
            (BlockKind::Paragraph, "---"),
            (BlockKind::Item(1), "One"),
            (BlockKind::Item(2), "Two"),
            (BlockKind::Table, "a\tb\nc\td"),
            (BlockKind::Code, "x\n\n  y"),
        ]);
        let events: Vec<Event<'_>> = Parser::new_ext(&text, Options::ENABLE_TABLES).collect();
        let count = |wanted: &dyn Fn(&Tag<'_>) -> bool| {
            let starts = events
                .iter()
                .filter(|event| matches!(event, Event::Start(tag) if wanted(tag)));
            starts.count()
        };
        assert_eq!(count(&|tag| matches!(tag, Tag::List(_))), 2);
        assert_eq!(count(&|tag| matches!(tag, Tag::Item)), 2);
        assert_eq!(count(&|tag| matches!(tag, Tag::BlockQuote(_))), 0);
        assert_eq!(count(&|tag| matches!(tag, Tag::Table(_))), 1);
        assert_eq!(count(&|tag| matches!(tag, Tag::CodeBlock(_))), 1);
        let code = events
            .iter()
            .any(|event| matches!(event, Event::Text(text) if &**text == "x\n\n  y\n"));
        let is_rule = |event: &&Event<'_>| matches!(event, Event::Rule | Event::InlineHtml(_));
        assert!(code && !events.iter().any(|event| is_rule(&event)));
    }

    #[test]
    fn a_text_without_parts_stays_as_it_is() {
        let document = Document {
            url: "http://a.test/".to_owned(),
            text: "One\n\nTwo".to_owned(),
            ..Document::default()
        };
        assert_eq!(
            super::document(&document),
            "<!-- http://a.test/ -->\n\nOne\n\nTwo\n\n"
        );
    }
}
