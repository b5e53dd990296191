//! A page of the guide as plain text.

use console::measure_text_width as columns;
use pulldown_cmark::{Alignment, Event, Options, Parser, Tag, TagEnd};

use super::Topic;
use crate::fold::fold;

/// The space between two columns of a table.
const GAP: usize = 2;

/// The page as plain text, followed by the commands that show the topics it links to.
pub fn page(markdown: &str, width: usize) -> String {
    let PlainPage { mut out, links, .. } = PlainPage::read(markdown, width);
    let more: Vec<String> = links
        .iter()
        .map(|name| format!("`spoor help {name}`"))
        .collect();
    if !more.is_empty() {
        out.push(String::new());
        out.extend(fold(&format!("See also: {}", more.join(", ")), width));
    }
    out.join("\n") + "\n"
}

/// A page that is being read.
#[derive(Default)]
pub(super) struct PlainPage {
    width: usize,
    out: Vec<String>,
    /// The topics that the page links to, each once and in order.
    pub links: Vec<String>,
    /// The current paragraph, heading, cell or code. Code within text keeps its backticks, to
    /// distinguish it from words.
    text: String,
    /// The open lists: for numbered ones, the number of the next item.
    lists: Vec<Option<u64>>,
    /// The indents of the open items, and the mark before the first line of the next block.
    indents: Vec<usize>,
    mark: String,
    /// Whether something precedes the next block, in the page or in its item.
    goes_on: bool,
    /// The rows of the current table; the first one is the header.
    rows: Vec<Vec<String>>,
    /// For each column, whether it is right-aligned, as numbers are.
    right: Vec<bool>,
    /// The target of the open link, and the length of the text before it.
    link: Option<(String, usize)>,
}

impl PlainPage {
    pub fn read(markdown: &str, width: usize) -> Self {
        let mut page = Self {
            width,
            ..Self::default()
        };
        for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
            match event {
                Event::Start(tag) => page.start(tag),
                Event::End(tag) => page.end(tag),
                Event::Text(text) => page.text.push_str(&text),
                Event::Code(text) => page.text.extend(["`", &*text, "`"]),
                Event::SoftBreak | Event::HardBreak => page.text.push(' '),
                // The guide uses no HTML, footnotes, formulas, rules or check boxes.
                _ => {}
            }
        }
        page
    }

    fn start(&mut self, tag: Tag) {
        match tag {
            Tag::CodeBlock(_) => self.paragraph(),
            Tag::List(first) => {
                // The text of a tight item has no paragraph of its own.
                self.paragraph();
                self.separate();
                self.lists.push(first);
            }
            Tag::Item => {
                let number = self.lists.last_mut().and_then(Option::as_mut);
                self.mark = number
                    .as_ref()
                    .map_or("- ".to_owned(), |n| format!("{n}. "));
                number.into_iter().for_each(|number| *number += 1);
                self.indents.push(self.mark.len());
                self.goes_on = false;
            }
            Tag::Table(columns) => {
                self.right = columns.iter().map(|c| *c == Alignment::Right).collect();
            }
            Tag::TableHead | Tag::TableRow => self.rows.push(Vec::new()),
            Tag::Link { dest_url, .. } => self.link = Some((dest_url.to_string(), self.text.len())),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => {
                let text = std::mem::take(&mut self.text);
                let rule = match level as u8 {
                    1 => "=",
                    2 => "-",
                    _ => "~",
                };
                let under = rule.repeat(columns(&text));
                self.block(vec![text, under]);
            }
            TagEnd::Paragraph => self.paragraph(),
            TagEnd::CodeBlock => {
                let code = std::mem::take(&mut self.text);
                self.block(code.lines().map(|line| format!("    {line}")).collect());
            }
            TagEnd::Item => {
                self.paragraph();
                self.indents.pop();
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.goes_on = true;
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.text);
                if let Some(row) = self.rows.last_mut() {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                let rows = std::mem::take(&mut self.rows);
                self.block(table(&rows, &self.right, self.room()));
            }
            TagEnd::Link => self.end_link(),
            _ => {}
        }
    }

    /// A link to another topic becomes its name; any other address follows the link's
    /// text.
    fn end_link(&mut self) {
        let Some((to, begin)) = self.link.take() else {
            return;
        };
        if let Some(topic) = to.strip_suffix(".md").and_then(Topic::named) {
            self.text.truncate(begin);
            self.text.extend(["\"", topic.name, "\""]);
            if !self.links.iter().any(|name| name == topic.name) {
                self.links.push(topic.name.to_owned());
            }
        } else if self.text.get(begin..) != Some(to.as_str()) {
            self.text.extend([" <", &*to, ">"]);
        }
    }

    fn room(&self) -> usize {
        self.width.saturating_sub(self.indents.iter().sum()).max(1)
    }

    fn paragraph(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            self.block(fold(&text, self.room()));
        }
    }

    /// An empty line, unless nothing precedes.
    fn separate(&mut self) {
        if std::mem::replace(&mut self.goes_on, true) {
            self.out.push(String::new());
        }
    }

    fn block(&mut self, lines: Vec<String>) {
        self.separate();
        let indent = self.indents.iter().sum();
        for line in lines {
            let mark = std::mem::take(&mut self.mark);
            let line = format!("{mark:>indent$}{line}");
            self.out.push(line.trim_end().to_owned());
        }
    }
}

/// The table in columns if it fits, with cells of several lines if necessary; otherwise a
/// paragraph for each row, with the header of the column before each cell.
fn table(rows: &[Vec<String>], right: &[bool], width: usize) -> Vec<String> {
    let Some((head, body)) = rows.split_first() else {
        return Vec::new();
    };
    match widths(rows, width) {
        Some(widths) => {
            let in_lines = |row: &Vec<String>| {
                let cells = row.iter().zip(&widths).map(|(cell, w)| fold(cell, *w));
                aligned(&cells.collect::<Vec<_>>(), &widths, right)
            };
            let mut lines = in_lines(head);
            let rules = widths.iter().map(|w| vec!["-".repeat(*w)]);
            lines.extend(aligned(&rules.collect::<Vec<_>>(), &widths, right));
            let mut before: Option<usize> = None;
            for row in body.iter().map(in_lines) {
                // Empty lines separate rows of several lines.
                if before.is_some_and(|before| before.max(row.len()) > 1) {
                    lines.push(String::new());
                }
                before = Some(row.len());
                lines.extend(row);
            }
            lines
        }
        None => records(head, body, width),
    }
}

/// The width of each column, if all fit side by side.
fn widths(rows: &[Vec<String>], width: usize) -> Option<Vec<usize>> {
    let count = rows.iter().map(Vec::len).max()?;
    let most = |of: &dyn Fn(&str) -> usize| -> Vec<usize> {
        let column = |at| rows.iter().filter_map(move |row: &Vec<String>| row.get(at));
        (0..count)
            .map(|at| column(at).map(|cell| of(cell)).max().unwrap_or(0).max(1))
            .collect()
    };
    let whole = most(&|cell| columns(cell));
    let mut given = most(&|cell| cell.split_whitespace().map(columns).max().unwrap_or(0));
    let room = width.checked_sub(GAP * (count - 1))?;
    let mut left = room.checked_sub(given.iter().sum())?;
    // The remaining width goes, column by column, to the one with the most lines.
    while left > 0 {
        let lines = |at: usize| whole[at] as f64 / given[at] as f64;
        let narrow = (0..count).filter(|at| given[*at] < whole[*at]);
        let Some(at) = narrow.max_by(|a, b| lines(*a).total_cmp(&lines(*b))) else {
            break;
        };
        given[at] += 1;
        left -= 1;
    }
    Some(given)
}

/// A row of cells, each of one or more lines, side by side.
fn aligned(cells: &[Vec<String>], widths: &[usize], right: &[bool]) -> Vec<String> {
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    (0..height)
        .map(|at| {
            let mut line = String::new();
            for (column, cell) in cells.iter().enumerate() {
                let text = cell.get(at).map_or("", String::as_str);
                let pad = " ".repeat(widths[column].saturating_sub(columns(text)));
                match right.get(column) {
                    Some(true) => line.extend([pad.as_str(), text]),
                    _ => line.extend([text, pad.as_str()]),
                }
                line.push_str(&" ".repeat(GAP));
            }
            line.trim_end().to_owned()
        })
        .collect()
}

/// A paragraph for each row.
fn records(head: &[String], body: &[Vec<String>], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for row in body {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        for (at, cell) in row.iter().enumerate() {
            let indent = if at == 0 { "" } else { "  " };
            let named = match head.get(at) {
                Some(name) if at > 0 && !name.is_empty() => format!("{name}: {cell}"),
                _ => cell.clone(),
            };
            let wrapped = fold(&named, width.saturating_sub(indent.len()).max(1));
            lines.extend(wrapped.into_iter().map(|line| format!("{indent}{line}")));
        }
    }
    lines
}
