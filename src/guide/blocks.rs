//! Parses Markdown into the few kinds of block that the guide uses.

use pulldown_cmark::{Alignment, Event, Options, Parser, Tag, TagEnd};

use super::Topic;

/// The style of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    Code,
    Strong,
    Emphasis,
    /// The name of another topic.
    Topic,
}

/// Pieces of one line of text.
pub type Line = Vec<(Style, String)>;

/// A part of a page.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Heading(u8, Line),
    Paragraph(Line),
    Code(String),
    /// The number of its first item, if it is numbered.
    List(Option<u64>, Vec<Vec<Block>>),
    Table(Table),
}

/// A table; its first row is the head.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Whether a column contains numbers, which are right-aligned.
    pub right: Vec<bool>,
    pub rows: Vec<Vec<Line>>,
}

/// The blocks of a page.
pub fn parse(markdown: &str) -> Vec<Block> {
    let mut reader = Reader::default();
    reader.open.push(Vec::new());
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        reader.take(event);
    }
    reader.open.pop().unwrap_or_default()
}

/// The topics that a page links to, each once and in order.
pub fn linked(blocks: &[Block]) -> Vec<String> {
    let mut names = Vec::new();
    each_line(blocks, &mut |line| {
        for (style, text) in line {
            if *style == Style::Topic && !names.contains(text) {
                names.push(text.clone());
            }
        }
    });
    names
}

/// Calls `see` for every line except code.
pub fn each_line(blocks: &[Block], see: &mut impl FnMut(&Line)) {
    for block in blocks {
        match block {
            Block::Heading(_, line) | Block::Paragraph(line) => see(line),
            Block::Code(_) => {}
            Block::List(_, items) => items.iter().for_each(|item| each_line(item, see)),
            Block::Table(table) => table.rows.iter().flatten().for_each(&mut *see),
        }
    }
}

#[derive(Default)]
struct Reader {
    /// The blocks being filled: of the page, and of each open item.
    open: Vec<Vec<Block>>,
    /// The open lists: the number of the first item, and the items.
    lists: Vec<(Option<u64>, Vec<Vec<Block>>)>,
    line: Line,
    code: Option<String>,
    table: Table,
    style: Option<Style>,
    /// The target of the open link, and how much of the line came before it.
    link: Option<(String, usize)>,
}

impl Reader {
    fn take(&mut self, event: Event) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.say(self.style.unwrap_or(Style::Plain), &text),
            },
            Event::Code(text) => self.say(Style::Code, &text),
            Event::SoftBreak | Event::HardBreak => self.say(Style::Plain, " "),
            // The guide uses no HTML, footnotes, formulas, rules or check boxes.
            _ => {}
        }
    }

    fn say(&mut self, style: Style, text: &str) {
        match self.line.last_mut() {
            Some((last, said)) if *last == style && style != Style::Code => said.push_str(text),
            _ => self.line.push((style, text.to_owned())),
        }
    }

    fn start(&mut self, tag: Tag) {
        match tag {
            Tag::CodeBlock(_) => self.code = Some(String::new()),
            Tag::List(first) => {
                // The text of a tight item has no paragraph of its own.
                self.paragraph();
                self.lists.push((first, Vec::new()));
            }
            Tag::Item => self.open.push(Vec::new()),
            Tag::Table(columns) => {
                let right = columns.iter().map(|c| *c == Alignment::Right).collect();
                self.table = Table {
                    right,
                    rows: Vec::new(),
                };
            }
            Tag::TableHead | Tag::TableRow => self.table.rows.push(Vec::new()),
            Tag::Strong => self.style = Some(Style::Strong),
            Tag::Emphasis => self.style = Some(Style::Emphasis),
            Tag::Link { dest_url, .. } => {
                self.link = Some((dest_url.to_string(), self.line.len()));
                // Separates it from the text before it.
                self.line.push((Style::Plain, String::new()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => {
                let line = std::mem::take(&mut self.line);
                self.push(Block::Heading(level as u8, line));
            }
            TagEnd::Paragraph => self.paragraph(),
            TagEnd::CodeBlock => {
                let code = self.code.take().unwrap_or_default();
                self.push(Block::Code(code));
            }
            TagEnd::Item => {
                self.paragraph();
                let item = self.open.pop().unwrap_or_default();
                if let Some((_, items)) = self.lists.last_mut() {
                    items.push(item);
                }
            }
            TagEnd::List(_) => {
                if let Some((first, items)) = self.lists.pop() {
                    self.push(Block::List(first, items));
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.line);
                if let Some(row) = self.table.rows.last_mut() {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                let table = std::mem::take(&mut self.table);
                self.push(Block::Table(table));
            }
            TagEnd::Strong | TagEnd::Emphasis => self.style = None,
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
        let text: String = self.line.iter().skip(begin).map(|(_, t)| &**t).collect();
        let topic = to.strip_suffix(".md").and_then(Topic::named);
        if let Some(topic) = topic {
            self.line.truncate(begin);
            self.line.push((Style::Topic, topic.name.to_owned()));
        } else if text != to {
            self.line.push((Style::Plain, format!(" <{to}>")));
        }
        // Separates it from the text after it.
        self.line.push((Style::Plain, String::new()));
    }

    fn paragraph(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.push(Block::Paragraph(line));
        }
    }

    fn push(&mut self, block: Block) {
        if let Some(blocks) = self.open.last_mut() {
            blocks.push(block);
        }
    }
}
