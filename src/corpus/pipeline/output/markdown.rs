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
                format!("{} {}", "#".repeat(level.into()), line(&folded(&text)))
            }
            BlockKind::Item(depth) => lists.item(depth, false, &text),
            BlockKind::Numbered(depth) => lists.item(depth, true, &text),
            BlockKind::Term => format!("**{}**", line(&folded(&text))),
            BlockKind::Definition => prefixed(&lines(&text), ": ", "  "),
            BlockKind::Table => table(&text),
            BlockKind::Code => fenced(&text),
            BlockKind::Quote => prefixed(&lines(&text), "> ", "> "),
            BlockKind::Caption => format!("*{}*", line(&folded(&text))),
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

/// The open lists, outermost first.
#[derive(Debug, Default)]
struct Lists {
    open: Vec<OpenList>,
}

/// A list: the number of its last item, 0 without numbers, and the column where the text of its
/// items begins.
#[derive(Debug, Clone, Copy)]
struct OpenList {
    number: u32,
    column: usize,
}

impl Lists {
    fn item(&mut self, depth: u8, is_numbered: bool, text: &str) -> String {
        // Without an item around it, no item is within another.
        let around = usize::from(depth).saturating_sub(1).min(self.open.len());
        let last = self.open.get(around).map_or(0, |list| list.number);
        self.open.truncate(around);
        let indent = self.open.last().map_or(0, |list| list.column);
        let number = if is_numbered { last + 1 } else { 0 };
        let mark = if is_numbered {
            format!("{number}. ")
        } else {
            "- ".to_owned()
        };
        let column = indent + mark.len();
        self.open.push(OpenList { number, column });
        let first = format!("{}{mark}", " ".repeat(indent));
        prefixed(&lines(text), &first, &" ".repeat(column))
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
        let is_target = text.starts_with('[') && text.contains("]:");
        let is_fence = text.starts_with("```");
        if text.starts_with(['#', '>', '+', '=', '~']) || is_fence || is_target || is_mark(text) {
            out.push('\\');
        }
        text
    };
    for (at, c) in rest.char_indices() {
        let after = rest.get(at + c.len_utf8()..).unwrap_or_default();
        let begins_tag =
            || after.starts_with(|next: char| next.is_ascii_alphabetic() || "/!?".contains(next));
        let is_active = match c {
            '<' => begins_tag(),
            '&' => is_reference(after),
            _ => false,
        };
        if is_active && !out.ends_with('\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Whether a sign `&` with this after it would be shown as another character.
fn is_reference(after: &str) -> bool {
    const LONGEST: usize = 32;
    let name = after.bytes().take(LONGEST);
    let name = name
        .take_while(|b| b.is_ascii_alphanumeric() || *b == b'#')
        .count();
    name > 0 && after.as_bytes().get(name) == Some(&b';')
}

/// Whether a line would be an item or a rule, or make the one before it a heading.
fn is_mark(text: &str) -> bool {
    let mut characters = text.chars();
    let first = characters.next();
    let is_rule = text.len() > 2 && text.chars().all(|c| Some(c) == first || c == ' ');
    let is_line = text.chars().all(|c| c == '-');
    matches!(first, Some('-' | '*' | '_')) && (characters.next() == Some(' ') || is_rule || is_line)
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
        // Readers fill the rows below the head.
        let cells = if number == 0 { columns } else { row.len() };
        for column in 0..cells {
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
            (BlockKind::Heading(2), "Wick <b>"),
            (
                BlockKind::Paragraph,
                "# one\n2. two <b>\n- three\n--\n```\n&lt; A&B;C AT&T\n[1]: x",
            ),
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
            "<!-- http://a.test/-%2Dx -->\n\n# The lamp\n\n## Wick \\<b>\n\n\\# one  \n2\\. two \\<b>  \n\\- three  \n\\--  \n\\```  \n\\&lt; A\\&B;C AT&T  \n\\[1]: x\n\n\
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
    fn lists_within_lists_are_read_as_such() {
        let mut parts = vec![(BlockKind::Numbered(1), "One"); 11];
        parts.insert(10, (BlockKind::Item(2), "Deep"));
        // An item within no other.
        parts.push((BlockKind::Paragraph, "Then"));
        parts.push((BlockKind::Item(3), "Alone"));
        let text = of(&parts);
        let events = Parser::new(&text);
        let lists = events.filter(|event| matches!(event, Event::Start(Tag::List(_))));
        assert_eq!(lists.count(), 3, "{text}");
        assert!(
            text.ends_with("10. One\n    - Deep\n11. One\n\nThen\n\n- Alone\n\n"),
            "{text}"
        );
    }

    #[test]
    fn a_wide_row_does_not_widen_all_others() {
        let rows = "x\n".repeat(1_000) + &"y\t".repeat(1_000);
        let text = of(&[(BlockKind::Table, &rows)]);
        assert!(text.len() < 20 * rows.len(), "{}", text.len());
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
