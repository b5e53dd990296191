//! A page as plain text.

use console::measure_text_width as columns;

use super::blocks::{Block, Line, Style, Table, linked};
use crate::fold::fold;

/// The space between two columns of a table.
const GAP: usize = 2;

/// The page, with the commands that show the topics it links to.
pub fn page(blocks: &[Block], width: usize) -> String {
    let mut lines = Vec::new();
    all(blocks, width, &mut lines);
    let more: Vec<String> = linked(blocks)
        .iter()
        .map(|name| format!("`spoor help {name}`"))
        .collect();
    if !more.is_empty() {
        lines.push(String::new());
        lines.extend(fold(&format!("See also: {}", more.join(", ")), width));
    }
    lines.join("\n") + "\n"
}

/// The blocks, separated by empty lines.
fn all(blocks: &[Block], width: usize, out: &mut Vec<String>) {
    for (at, block) in blocks.iter().enumerate() {
        if at > 0 {
            out.push(String::new());
        }
        match block {
            Block::Heading(level, line) => {
                let text = plain(line);
                let rule = match level {
                    1 => "=",
                    2 => "-",
                    _ => "~",
                };
                let under = rule.repeat(columns(&text));
                out.extend([text, under]);
            }
            Block::Paragraph(line) => out.extend(fold(&plain(line), width)),
            Block::Code(code) => out.extend(code.lines().map(|line| match line {
                "" => String::new(),
                _ => format!("    {line}"),
            })),
            Block::List(first, items) => list(*first, items, width, out),
            Block::Table(rows) => out.extend(table(rows, width)),
        }
    }
}

fn list(first: Option<u64>, items: &[Vec<Block>], width: usize, out: &mut Vec<String>) {
    for (item, number) in items.iter().zip(first.unwrap_or(0)..) {
        let mark = match first {
            Some(_) => format!("{number}. "),
            None => "- ".to_owned(),
        };
        let mut inner = Vec::new();
        all(item, width.saturating_sub(mark.len()).max(1), &mut inner);
        for (at, line) in inner.iter().enumerate() {
            let before = if at == 0 { &mark } else { "" };
            let indented = format!("{before:<indent$}{line}", indent = mark.len());
            out.push(indented.trim_end().to_owned());
        }
    }
}

/// The text of a line; code keeps its marks, to distinguish it from words.
pub fn plain(line: &Line) -> String {
    let mut text = String::new();
    for (style, part) in line {
        match style {
            Style::Code => text.extend(["`", part, "`"]),
            Style::Topic => text.extend(["\"", part, "\""]),
            _ => text.push_str(part),
        }
    }
    text
}

/// The table in columns if it fits, with cells of several lines if necessary; else a
/// paragraph for each row, with the head of each column before its cell.
pub fn table(table: &Table, width: usize) -> Vec<String> {
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| row.iter().map(plain).collect())
        .collect();
    let Some((head, body)) = rows.split_first() else {
        return Vec::new();
    };
    match widths(&rows, width) {
        Some(widths) => {
            let in_lines = |row: &Vec<String>| {
                let cells = row.iter().zip(&widths).map(|(cell, w)| fold(cell, *w));
                aligned(&cells.collect::<Vec<_>>(), &widths, &table.right)
            };
            let mut lines = in_lines(head);
            let rules = widths.iter().map(|w| vec!["-".repeat(*w)]);
            lines.extend(aligned(&rules.collect::<Vec<_>>(), &widths, &table.right));
            let mut before: Option<usize> = None;
            for row in body.iter().map(in_lines) {
                // Separates rows of several lines by empty lines.
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

/// How wide each column is, if all fit side by side.
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

/// A row of cells, each of some lines, side by side.
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
