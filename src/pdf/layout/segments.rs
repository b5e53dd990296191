//! Adjacent glyphs on a base line, in painting order.

use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

use super::super::glyphs::Glyph;
use super::is_mark;

/// The widest gap within a segment, relative to the font size. A wider one may be between two
/// columns.
pub(super) const GAP: f32 = 1.4;
/// How far a raised or lowered glyph may be from the base line, relative to the font size.
const RAISED: f32 = 0.5;
/// How far a glyph may be from itself if it is painted twice to look bold, relative to the font
/// size.
const TWICE: f32 = 0.1;

/// The characters of a glyph, with their position.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlacedGlyph {
    pub(super) text: String,
    pub(super) x0: f32,
    pub(super) x1: f32,
    pub(super) size: f32,
}

impl PlacedGlyph {
    pub(super) fn is_blank(&self) -> bool {
        self.text == " "
    }
}

/// Adjacent glyphs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlacedRun {
    pub(super) items: Vec<PlacedGlyph>,
    pub(super) x0: f32,
    pub(super) x1: f32,
    /// The base line of its largest glyph.
    pub(super) y: f32,
    /// The size of that glyph.
    pub(super) size: f32,
}

impl PlacedRun {
    /// How high its letters reach.
    pub(super) fn top(&self) -> f32 {
        self.y - 0.75 * self.size
    }

    /// How deep its letters reach.
    pub(super) fn bottom(&self) -> f32 {
        self.y + 0.2 * self.size
    }

    pub(super) fn width(&self) -> f32 {
        self.x1 - self.x0
    }

    /// The number of its glyphs that are not blank.
    pub(super) fn letters(&self) -> usize {
        self.items.iter().filter(|item| !item.is_blank()).count()
    }

    fn of(glyph: Glyph) -> Self {
        Self {
            x0: glyph.x0,
            x1: glyph.x1,
            y: glyph.y,
            size: glyph.size,
            items: vec![item(glyph)],
        }
    }

    /// Whether a glyph continues it, on either side.
    fn goes_on_with(&self, glyph: &Glyph) -> bool {
        let size = self.size.max(glyph.size);
        let apart = (glyph.x0 - self.x1).max(self.x0 - glyph.x1);
        (glyph.y - self.y).abs() <= RAISED * size && apart <= GAP * size.min(2.0 * glyph.size)
    }

    fn push(&mut self, glyph: Glyph) {
        if glyph.size > self.size * 1.05 {
            self.y = glyph.y;
            self.size = glyph.size;
        }
        self.x0 = self.x0.min(glyph.x0);
        self.x1 = self.x1.max(glyph.x1);
        self.items.push(item(glyph));
    }
}

fn item(glyph: Glyph) -> PlacedGlyph {
    PlacedGlyph {
        text: glyph.text,
        x0: glyph.x0,
        x1: glyph.x1,
        size: glyph.size,
    }
}

/// The segments of a page. Blank glyphs do not extend a segment: some programs use them to separate
/// columns.
pub(super) fn of(glyphs: Vec<Glyph>) -> Vec<PlacedRun> {
    let mut seen = PaintedGlyphs::default();
    let mut segments: Vec<PlacedRun> = Vec::new();
    let mut blank: Option<Glyph> = None;
    // A mark that waits for its letter.
    let mut mark: Option<Glyph> = None;
    for mut glyph in glyphs {
        if glyph.text.trim().is_empty() {
            glyph.text = " ".to_owned();
            blank = Some(glyph);
            continue;
        }
        if seen.has(&glyph) {
            continue;
        }
        if glyph.text.chars().all(is_mark) {
            put_on_last(&mut segments, mark.replace(glyph));
            continue;
        }
        if let Some(mark) = mark.take() {
            // From right to left, a letter is painted after its mark.
            let last = segments.last().and_then(|open| open.items.last());
            if glyph.is_under(&mark, last.map(|last| (last.x0, last.x1))) {
                glyph.text.push_str(&mark.text);
            } else {
                put_on_last(&mut segments, Some(mark));
            }
        }
        let open = segments.last_mut();
        match open.filter(|open| open.goes_on_with(&glyph)) {
            Some(open) => {
                if accented(open, &glyph) {
                    continue;
                }
                if let Some(blank) = blank.take() {
                    open.items.push(item(blank));
                }
                open.push(glyph);
            }
            None => segments.push(PlacedRun::of(glyph)),
        }
        blank = None;
    }
    put_on_last(&mut segments, mark);
    segments
}

/// Places a mark on the previously painted letter.
fn put_on_last(segments: &mut Vec<PlacedRun>, mark: Option<Glyph>) {
    let Some(mark) = mark else {
        return;
    };
    let open = segments.last_mut();
    let last = open.and_then(|open| open.items.last_mut());
    match last {
        Some(last) => last.text.push_str(&mark.text),
        None => segments.push(PlacedRun::of(mark)),
    }
}

/// Joins an accent with its letter if one is painted over the other, as with old TeX fonts; returns
/// whether it did.
fn accented(open: &mut PlacedRun, glyph: &Glyph) -> bool {
    let Some(last) = open.items.last_mut() else {
        return false;
    };
    let middle = |x0: f32, x1: f32| (x0 + x1) / 2.0;
    let one = |text: &str| {
        let mut all = text.chars();
        all.next().filter(|_| all.next().is_none())
    };
    let (Some(before), Some(own)) = (one(&last.text), one(&glyph.text)) else {
        return false;
    };
    // Usually the accent comes first.
    if let Some(mark) = combining(before)
        && base(own).is_some()
        && (glyph.x0..=glyph.x1).contains(&middle(last.x0, last.x1))
    {
        last.text = format!("{}{mark}", base(own).unwrap_or(own));
        (last.x0, last.x1) = (glyph.x0, glyph.x1);
        open.x1 = open.x1.max(glyph.x1);
        return true;
    }
    if let Some(mark) = combining(own)
        && base(before).is_some()
        && (last.x0..=last.x1).contains(&middle(glyph.x0, glyph.x1))
    {
        last.text = format!("{}{mark}", base(before).unwrap_or(before));
        return true;
    }
    false
}

/// The letter under an accent.
fn base(c: char) -> Option<char> {
    match c {
        // These lose their dot under an accent.
        '\u{131}' => Some('i'),
        '\u{237}' => Some('j'),
        c => c.is_alphabetic().then_some(c),
    }
}

/// The combining form of a stand-alone accent.
fn combining(c: char) -> Option<char> {
    Some(match c {
        '`' => '\u{300}',
        '\u{b4}' => '\u{301}',
        '^' | '\u{2c6}' => '\u{302}',
        '~' | '\u{2dc}' => '\u{303}',
        '\u{af}' | '\u{2c9}' => '\u{304}',
        '\u{2d8}' => '\u{306}',
        '\u{2d9}' => '\u{307}',
        '\u{a8}' => '\u{308}',
        '\u{2da}' => '\u{30a}',
        '\u{2dd}' => '\u{30b}',
        '\u{2c7}' => '\u{30c}',
        '\u{b8}' => '\u{327}',
        '\u{2db}' => '\u{328}',
        _ => return None,
    })
}

/// The painted glyphs, by position.
#[derive(Default)]
struct PaintedGlyphs(FxHashMap<(u64, i32, i32), (f32, f32)>);

impl PaintedGlyphs {
    /// Records a glyph; returns whether the same one is already at this position.
    fn has(&mut self, glyph: &Glyph) -> bool {
        let cell = TWICE * glyph.size;
        let mut hash = FxHasher::default();
        glyph.text.hash(&mut hash);
        (cell.to_bits() >> 14).hash(&mut hash);
        let hash = hash.finish();
        let (x, y) = ((glyph.x0 / cell) as i32, (glyph.y / cell) as i32);
        for dx in -1..=1 {
            for dy in -1..=1 {
                let place = (hash, x.saturating_add(dx), y.saturating_add(dy));
                if let Some((x0, y)) = self.0.get(&place)
                    && (x0 - glyph.x0).abs() < cell
                    && (y - glyph.y).abs() < cell
                {
                    return true;
                }
            }
        }
        self.0.insert((hash, x, y), (glyph.x0, glyph.y));
        false
    }
}
