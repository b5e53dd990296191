//! What each block of a page is for its reader, by the elements around it: a heading, an item of a
//! list, a cell of a table, code, a quotation.
//!
//! A table is one part of the text if it has rows with several cells, and no cell holds headings,
//! code, tables or long text; otherwise it only places text on the page.

use rustc_hash::{FxHashMap, FxHashSet};

use super::containers::{Container, Within};
use super::written::WrittenPage;
use crate::page::BlockKind;

/// The longest text of a cell of a table that is one part, in bytes.
const MAX_CELL_BYTES: usize = 600;

/// Where a block is in a table, by the numbers of block-level elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CellPlace {
    /// The innermost table.
    pub(super) table: u32,
    /// The row.
    pub(super) row: Option<u32>,
    /// The cell.
    pub(super) cell: u32,
}

impl WrittenPage {
    /// What a block is for its reader, by the innermost element that says it.
    pub(super) fn kind(&self, number: usize) -> BlockKind {
        if self.within(number) & Within::Preformatted as u32 != 0 {
            return BlockKind::Code;
        }
        let meaning = self.container_of(number).and_then(|c| c.meaning.text);
        if let Some(container) = meaning.and_then(|at| self.containers.get(at as usize)) {
            let begins = container.first as usize == number;
            match container.name() {
                "h1" => return BlockKind::Heading(1),
                "h2" => return BlockKind::Heading(2),
                "h3" => return BlockKind::Heading(3),
                "h4" => return BlockKind::Heading(4),
                "h5" => return BlockKind::Heading(5),
                "h6" => return BlockKind::Heading(6),
                "li" if begins => {
                    let around = self
                        .around(number)
                        .skip_while(|(at, _)| Some(*at) != meaning);
                    return item(around.skip(1).map(|(_, container)| container.name()));
                }
                "dt" if begins => return BlockKind::Term,
                "dd" if begins && self.has_term(number) => return BlockKind::Definition,
                "blockquote" => return BlockKind::Quote,
                "figcaption" | "caption" => return BlockKind::Caption,
                _ => {}
            }
        }
        let text = self.text_of(number).trim();
        let inner = text.strip_prefix("$$").and_then(|t| t.strip_suffix("$$"));
        match inner {
            Some(inner) if !inner.contains("$$") => BlockKind::Formula,
            _ => BlockKind::Paragraph,
        }
    }

    /// Whether the innermost list of definitions around a block has terms.
    fn has_term(&self, number: usize) -> bool {
        let mut around = self.around(number);
        let list = around.find(|(_, container)| container.name() == "dl");
        list.is_some_and(|(_, list)| list.has_terms)
    }

    /// The cell that a block is in.
    pub(super) fn cell(&self, number: usize) -> Option<CellPlace> {
        let cell = self.container_of(number)?.meaning.cell?;
        let row = self.containers.get(cell as usize)?.parent;
        let table = self.containers.get(row? as usize)?.meaning.table?;
        Some(CellPlace { table, row, cell })
    }

    /// The tables that are one part of the text.
    pub(super) fn whole_tables(&self) -> FxHashSet<u32> {
        let mut whole: FxHashSet<u32> = FxHashSet::default();
        let mut apart: FxHashSet<u32> = FxHashSet::default();
        let mut bytes: FxHashMap<u32, usize> = FxHashMap::default();
        let mut last: Option<CellPlace> = None;
        let mut paragraph = None;
        for number in 0..self.len() {
            let Some(cell) = self.cell(number) else {
                continue;
            };
            let in_cell = bytes.entry(cell.cell).or_default();
            *in_cell += self.text_of(number).len();
            let is_long = *in_cell > MAX_CELL_BYTES;
            let kind = self.kind(number);
            // Several paragraphs, but for parts that only a line end separates.
            let container = self.place(number).container;
            let is_prose = kind == BlockKind::Paragraph && container != Some(cell.cell);
            let is_second =
                is_prose && paragraph.is_some_and(|(of, at)| of == cell.cell && at != container);
            if is_prose {
                paragraph = Some((cell.cell, container));
            }
            if is_long || is_second || matches!(kind, BlockKind::Heading(_) | BlockKind::Code) {
                apart.insert(cell.table);
            }
            if last.is_some_and(|last| last.row == cell.row && last.cell != cell.cell) {
                whole.insert(cell.table);
            }
            if last.is_none_or(|last| last.table != cell.table) {
                let around = self.around(number).skip_while(|(at, _)| *at != cell.table);
                let outer = around
                    .skip(1)
                    .filter(|(_, container)| container.name() == "table");
                apart.extend(outer.map(|(table, _)| table));
            }
            last = Some(cell);
        }
        whole.retain(|table| !apart.contains(table));
        whole
    }

    /// For each cell, the number of columns before it in its row.
    pub(super) fn columns(&self) -> Vec<u32> {
        let mut grids: FxHashMap<Option<u32>, TableGrid> = FxHashMap::default();
        let mut spare = MAX_EMPTY_CELLS;
        let column = |container: &Container| {
            if !container.is_cell() {
                return 0;
            }
            let row = container
                .parent
                .and_then(|row| self.containers.get(row as usize));
            let table = row.and_then(|row| row.meaning.table);
            let grid = grids.entry(table).or_default();
            grid.place(container.parent, container.span, &mut spare)
        };
        self.containers.iter().map(column).collect()
    }
}

/// The widest table whose cells may span several rows or columns, and the most cells of a page that
/// are empty because of it: a short page could ask for millions.
const MAX_COLUMNS: usize = 100;
const MAX_EMPTY_CELLS: usize = 20_000;

/// The columns of a table while its cells are placed row by row.
#[derive(Debug, Default)]
struct TableGrid {
    row: Option<u32>,
    /// The number of the row, from 1.
    number: u32,
    /// The first column without a cell of this row.
    column: usize,
    /// For each column the number of the row at which the cells above end.
    ends: Vec<u32>,
}

impl TableGrid {
    /// The column of the next cell, which is in this row and takes so many columns and rows.
    fn place(&mut self, row: Option<u32>, [across, down]: [u16; 2], spare: &mut usize) -> u32 {
        if self.row != row {
            (self.row, self.column) = (row, 0);
            self.number = self.number.saturating_add(1);
        }
        while self
            .ends
            .get(self.column)
            .is_some_and(|end| *end > self.number)
            && *spare > 0
        {
            self.column += 1;
            *spare -= 1;
        }
        let column = self.column;
        let across = usize::from(across.max(1)).min(*spare + 1).min(MAX_COLUMNS);
        *spare -= across - 1;
        self.column = column + across;
        if self.column <= MAX_COLUMNS {
            self.ends.resize(self.ends.len().max(self.column), 0);
            let end = self.number.saturating_add(u32::from(down.max(1)));
            let of_cell = self.ends.get_mut(column..self.column);
            of_cell
                .into_iter()
                .flatten()
                .for_each(|of_column| *of_column = end);
        }
        u32::try_from(column).unwrap_or(u32::MAX)
    }
}

/// The item of a list with these elements around it, the innermost first.
fn item(around: impl Iterator<Item = &'static str>) -> BlockKind {
    const DEEPEST: usize = 9;
    let mut around = around
        .take_while(|name| !matches!(*name, "td" | "th"))
        .filter(|name| matches!(*name, "ul" | "ol" | "li"));
    let is_numbered = around.next() == Some("ol");
    // A list within a list, without an item around it, is no deeper.
    let items = around.filter(|name| *name == "li").count();
    let depth = (1 + items).min(DEEPEST) as u8;
    if is_numbered {
        BlockKind::Numbered(depth)
    } else {
        BlockKind::Item(depth)
    }
}
