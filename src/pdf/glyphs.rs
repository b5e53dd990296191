//! Bytes to glyphs: an interpreter paints the pages onto a device that records each glyph's
//! characters and position instead of drawing it.

use hayro_interpret::font::{Glyph as Painted, GlyphRun};
use hayro_interpret::hayro_cmap::{BfString, WritingMode};
use hayro_interpret::hayro_syntax::object::{Dict, String as Bytes};
use hayro_interpret::hayro_syntax::page::Page;
use hayro_interpret::kurbo::{Affine, BezPath, Point, Rect};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageDrawProps,
    InterpreterCache, InterpreterSettings, SoftMask, TransformExt, interpret_page,
};

/// Maximum number of glyphs on a page: a page of a dense newspaper has some 30,000.
const MAX_GLYPHS: usize = 300_000;
/// The longest text that replaces glyphs. Longer texts are whole lines, whose parts would lose
/// their positions.
const MAX_REPLACEMENT: usize = 4;

/// The direction in which text runs on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TextDirection {
    /// To the right.
    Upright,
    /// Downwards, as vertical script does too.
    Down,
    /// Upwards.
    Up,
    /// To the left: upside down.
    Over,
}

/// A glyph on a page. Positions are measured along its direction and across it, so that all text
/// looks upright; a greater `y` is lower.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Glyph {
    /// Its characters; U+FFFD if they are unknown.
    pub(super) text: String,
    /// Its left end.
    pub(super) x0: f32,
    /// Its right end.
    pub(super) x1: f32,
    /// Its base line.
    pub(super) y: f32,
    /// The size of the font.
    pub(super) size: f32,
    pub(super) turn: TextDirection,
    /// Its position on the page itself.
    pub(super) place: (f32, f32),
    /// Whether its characters are guessed, because the font does not define them.
    pub(super) guessed: bool,
}

/// The minimum share of letters among the guessed characters for a guess to be kept. In English or
/// German text nine in ten are letters.
const LETTERS: f32 = 0.7;

impl Glyph {
    /// Whether a mark that was painted before it belongs to it, and not to the glyph that ends at
    /// `before`: in right-to-left scripts a letter is painted after its mark.
    pub(super) fn is_under(&self, mark: &Self, before: Option<(f32, f32)>) -> bool {
        let middle = (mark.x0 + mark.x1) / 2.0;
        let off = |x0: f32, x1: f32| (x0 - middle).max(middle - x1).max(0.0);
        let own = off(self.x0, self.x1);
        let is_free = before.is_none_or(|(x0, x1)| off(x0, x1) > 0.0);
        is_free
            && own < 0.4 * self.size
            && (self.y - mark.y).abs() < self.size
            && mark
                .text
                .chars()
                .all(|c| matches!(c, '\u{591}'..='\u{8ff}'))
    }
}

/// The glyphs of a page in painting order.
pub(super) fn of_page<'a>(page: &Page<'a>, cache: &InterpreterCache<'a>) -> Vec<Glyph> {
    let (width, height) = page.render_dimensions();
    let mut notes = Notes {
        glyphs: Vec::new(),
        width,
        height,
        replacements: Vec::new(),
    };
    let area = Rect::new(0.0, 0.0, f64::from(width), f64::from(height));
    let mut context = Context::new(
        page_transform(page),
        area,
        cache,
        page.xref(),
        InterpreterSettings::default(),
    );
    interpret_page(page, &mut context, &mut notes);
    without_bad_guesses(notes.glyphs)
}

/// The glyphs, with U+FFFD for those whose guessed characters do not look like text.
fn without_bad_guesses(mut glyphs: Vec<Glyph>) -> Vec<Glyph> {
    let guessed = || glyphs.iter().filter(|glyph| glyph.guessed);
    let is_word = |glyph: &&Glyph| glyph.text.chars().all(char::is_alphabetic);
    let (letters, all) = (guessed().filter(is_word).count(), guessed().count());
    if (letters as f32) < LETTERS * all as f32 {
        for glyph in glyphs.iter_mut().filter(|glyph| glyph.guessed) {
            glyph.text = char::REPLACEMENT_CHARACTER.to_string();
        }
    }
    glyphs
}

/// From the coordinates of a page to those of its image, whose `y` grows downwards.
pub(super) fn page_transform(page: &Page<'_>) -> Affine {
    page.initial_transform(true).to_kurbo()
}

/// A device that records glyphs.
struct Notes {
    glyphs: Vec<Glyph>,
    width: f32,
    height: f32,
    /// For each open span of marked content, the text that replaces its glyphs.
    replacements: Vec<Option<Replacement>>,
}

/// The text that replaces the glyphs of a span.
struct Replacement {
    text: String,
    /// Whether one of the glyphs has received it.
    used: bool,
}

impl Notes {
    fn note(&mut self, glyph: &Painted<'_>, at: Affine, mode: WritingMode) {
        if self.glyphs.len() >= MAX_GLYPHS {
            return;
        }
        let origin = at * Point::ZERO;
        let up = at * Point::new(0.0, 1000.0);
        let size = (up - origin).hypot() as f32;
        let advance = match glyph {
            Painted::Outline(outline) => outline.advance_width(),
            Painted::Type3(drawn) => drawn.advance_width(),
        };
        let advance = f64::from(advance.unwrap_or(500.0));
        let (turn, end) = match mode {
            WritingMode::Horizontal => {
                let along = at * Point::new(1000.0, 0.0) - origin;
                let turn = if along.x.abs() >= along.y.abs() {
                    if along.x >= 0.0 {
                        TextDirection::Upright
                    } else {
                        TextDirection::Over
                    }
                } else if along.y > 0.0 {
                    TextDirection::Down
                } else {
                    TextDirection::Up
                };
                (turn, at * Point::new(advance, 0.0))
            }
            WritingMode::Vertical => {
                let end = Point::new(origin.x, origin.y + f64::from(size));
                (TextDirection::Down, end)
            }
        };
        let place = (origin.x as f32, origin.y as f32);
        let is_visible = place.0 >= -1.0
            && place.0 <= self.width + 1.0
            && place.1 >= -1.0
            && place.1 <= self.height + size;
        if !is_visible || !size.is_finite() || size < 0.05 {
            return;
        }
        let (from, to, y) = match turn {
            TextDirection::Upright => (origin.x, end.x, origin.y),
            TextDirection::Down => (origin.y, end.y, -origin.x),
            TextDirection::Up => (-origin.y, -end.y, origin.x),
            TextDirection::Over => (-origin.x, -end.x, -origin.y),
        };
        let (x0, x1) = (from.min(to) as f32, from.max(to) as f32);
        if !(x0.is_finite() && x1.is_finite()) {
            return;
        }
        let Some(text) = self.text(glyph, x1).filter(|text| !text.is_empty()) else {
            return;
        };
        // A possible hyphenation point, not a mark on the page.
        if text == "\u{ad}" && x0 >= x1 {
            return;
        }
        self.glyphs.push(Glyph {
            text,
            x0,
            x1,
            y: y as f32,
            size,
            turn,
            place,
            guessed: glyph.as_unicode().is_none(),
        });
    }

    /// The characters of a glyph that ends at `end`; `None` if they belong to the previous one.
    fn text(&mut self, glyph: &Painted<'_>, end: f32) -> Option<String> {
        let open = self.replacements.iter_mut().rev().flatten().next();
        if let Some(open) = open {
            if open.used {
                if let Some(last) = self.glyphs.last_mut() {
                    last.x1 = last.x1.max(end);
                }
                return None;
            }
            open.used = true;
            return Some(open.text.clone());
        }
        Some(match glyph.as_unicode() {
            Some(BfString::Char(c)) => known(c).to_string(),
            Some(BfString::String(text)) => text.chars().map(known).collect(),
            None => match glyph {
                Painted::Type3(drawn) => of_tex(drawn.char_code()),
                Painted::Outline(_) => char::REPLACEMENT_CHARACTER.to_string(),
            },
        })
    }
}

/// White space of any kind becomes a space; private and control characters carry no meaning.
fn known(c: char) -> char {
    match c {
        c if c.is_whitespace() || c == '\0' => ' ',
        '\u{e000}'..='\u{f8ff}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// The characters of a code in a bitmap font without names. Such fonts are nearly always from TeX,
/// in one of its two encodings (OT1 and T1), which agree on ASCII except for these.
fn of_tex(code: u32) -> String {
    let known = match code {
        0x0b | 0x1b => "ff",
        0x0c | 0x1c => "fi",
        0x0d | 0x1d => "fl",
        0x0e | 0x1e => "ffi",
        0x0f | 0x1f => "ffl",
        0x10 => "\u{201c}",
        0x11 => "\u{201d}",
        0x12 => "\u{201e}",
        0x13 => "\u{ab}",
        0x14 => "\u{bb}",
        // It only separates letters that would form a ligature.
        0x17 => "",
        0x15 | 0x7b => "\u{2013}",
        0x16 | 0x7c => "\u{2014}",
        0x22 => "\u{201d}",
        0x27 => "\u{2019}",
        0x5c => "\u{201c}",
        0x60 => "\u{2018}",
        0x7f => "-",
        0xff => "\u{df}",
        code => {
            let c = char::from_u32(code);
            let c = c.filter(|c| matches!(c, ' '..='~' | '\u{c0}'..='\u{fe}'));
            return c.unwrap_or(char::REPLACEMENT_CHARACTER).to_string();
        }
    };
    known.to_owned()
}

/// A text of the file in its own encoding (PDF 32000-1 section 7.9.2.2).
pub(super) fn decoded(bytes: &[u8]) -> String {
    match bytes {
        [0xfe, 0xff, ..] => encoding_rs::UTF_16BE.decode(bytes).0.into_owned(),
        [0xff, 0xfe, ..] => encoding_rs::UTF_16LE.decode(bytes).0.into_owned(),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        // Many programs write UTF-8 without declaring it.
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().map(|byte| of_doc_encoding(*byte)).collect(),
        },
    }
}

/// A character of PDFDocEncoding, which is Latin-1 except for these.
fn of_doc_encoding(byte: u8) -> char {
    const SPECIAL: [char; 32] = [
        '•', '†', '‡', '…', '—', '–', 'ƒ', '⁄', '‹', '›', '−', '‰', '„', '“', '”', '‘', '’', '‚',
        '™', 'ﬁ', 'ﬂ', 'Ł', 'Œ', 'Š', 'Ÿ', 'Ž', 'ı', 'ł', 'œ', 'š', 'ž', '\u{fffd}',
    ];
    let special = byte.checked_sub(0x80).map(usize::from);
    match special.and_then(|place| SPECIAL.get(place)) {
        Some(c) => *c,
        None if byte == 0xa0 => '€',
        None => char::from(byte),
    }
}

impl<'a> Device<'a> for Notes {
    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {}

    fn push_clip_path(&mut self, _: &ClipPath) {}

    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {}

    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, _: &DrawMode) {
        for glyph in run.glyphs() {
            let at = props.transform * glyph.transform();
            self.note(glyph, at, run.writing_mode());
        }
    }

    fn draw_image(&mut self, _: Image<'a, '_>, _: ImageDrawProps<'a>) {}

    fn pop_clip(&mut self) {}

    fn pop_transparency_group(&mut self) {}

    fn begin_marked_content(&mut self, _: &[u8], properties: Option<&Dict<'_>>) {
        let text = properties.and_then(|all| all.get::<Bytes<'_>>(b"ActualText".as_slice()));
        let text = text.map(|bytes| decoded(bytes.as_bytes()));
        let text = text.filter(|text| text.chars().count() <= MAX_REPLACEMENT);
        self.replacements.push(text.map(|text| Replacement {
            text: text.chars().map(known).collect(),
            used: false,
        }));
    }

    fn end_marked_content(&mut self) {
        self.replacements.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_four_encodings() {
        assert_eq!(decoded(b"\xfe\xff\0K\0\xe4"), "Kä");
        assert_eq!(decoded("\u{feff}Kä".as_bytes()), "Kä");
        assert_eq!(decoded("Kä".as_bytes()), "Kä");
        assert_eq!(decoded(b"\x93fi\xe4\xa0"), "ﬁfiä€");
        assert_eq!(decoded(b"\x80"), "•");
    }

    #[test]
    fn codes_of_tex_without_names() {
        let text = |code| of_tex(code);
        assert_eq!(
            (text(0x1c), text(0x0e), text(0x7f)),
            ("fi".into(), "ffi".into(), "-".into())
        );
        assert_eq!((text(0x41), text(0xe4)), ("A".into(), "ä".into()));
        assert_eq!(text(0x03), "\u{fffd}");
    }
}
