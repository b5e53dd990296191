//! A page as a manual page, in roff.

use roff::{Inline, Roff, bold, italic, roman};

use super::Topic;
use super::blocks::{Block, Line, Style, linked};
use super::plain;

/// The width of a table: a terminal of 80 columns minus the indentation of the text.
const TABLE: usize = 72;

/// The page `spoor-<topic>(7)`.
pub fn page(topic: &Topic, blocks: &[Block]) -> String {
    let name = format!("spoor-{}", topic.name);
    let release = format!("spoor {}", env!("CARGO_PKG_VERSION"));
    let mut roff = Roff::new();
    // A space, because an empty date would not count as an argument.
    roff.control("TH", [name.as_str(), "7", " ", release.as_str(), "spoor"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{name} - {}", topic.about))]);
    // The title repeats the name.
    let body = match blocks.split_first() {
        Some((Block::Heading(1, _), rest)) => rest,
        _ => blocks,
    };
    if !matches!(body.first(), Some(Block::Heading(..))) {
        roff.control("SH", ["DESCRIPTION"]);
    }
    all(body, &mut roff);
    roff.control("SH", ["SEE ALSO"]);
    let mut also = vec![bold("spoor"), roman("(1)")];
    for other in linked(blocks) {
        also.extend([roman(", "), bold(format!("spoor-{other}")), roman("(7)")]);
    }
    roff.text(also);
    roff.render()
}

fn all(blocks: &[Block], roff: &mut Roff) {
    for block in blocks {
        match block {
            Block::Heading(level, line) => {
                let title = plain::plain(line);
                if *level < 3 {
                    roff.control("SH", [title.to_uppercase().as_str()]);
                } else {
                    roff.control("SS", [title.as_str()]);
                }
            }
            Block::Paragraph(line) => {
                roff.control("PP", []);
                roff.text(inlines(line));
            }
            Block::Code(code) => verbatim(code.lines(), 4, roff),
            Block::List(first, items) => list(*first, items, roff),
            Block::Table(table) => {
                let lines = plain::table(table, TABLE);
                verbatim(lines.iter().map(String::as_str), 0, roff);
            }
        }
    }
}

fn verbatim<'a>(lines: impl Iterator<Item = &'a str>, indent: usize, roff: &mut Roff) {
    roff.control("PP", []);
    roff.control("RS", [indent.to_string().as_str()]);
    roff.control("EX", []);
    for line in lines {
        roff.text([roman(line)]);
    }
    roff.control("EE", []);
    roff.control("RE", []);
}

fn list(first: Option<u64>, items: &[Vec<Block>], roff: &mut Roff) {
    for (item, number) in items.iter().zip(first.unwrap_or(0)..) {
        let mark = match first {
            Some(_) => format!("{number}."),
            None => "-".to_owned(),
        };
        roff.control("IP", [mark.as_str(), "4"]);
        let mut rest = item.as_slice();
        if let Some((Block::Paragraph(line), more)) = item.split_first() {
            roff.text(inlines(line));
            rest = more;
        }
        if !rest.is_empty() {
            roff.control("RS", ["4"]);
            all(rest, roff);
            roff.control("RE", []);
        }
    }
}

fn inlines(line: &Line) -> Vec<Inline> {
    let mut inlines = Vec::new();
    for (style, text) in line {
        match style {
            Style::Plain => inlines.push(roman(text)),
            Style::Code | Style::Strong => inlines.push(bold(text)),
            Style::Emphasis => inlines.push(italic(text)),
            Style::Topic => inlines.extend([bold(format!("spoor-{text}")), roman("(7)")]),
        }
    }
    inlines
}
