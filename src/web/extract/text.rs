//! Visible text: folding of white space, the effect of each element on text, and the flow of a
//! page from which blocks are cut.

use super::names::NameTable;
use super::written::WrittenPage;

/// The effect of an element on the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextRole {
    /// Its text joins the text around it.
    Inline,
    /// It ends the block before and after it.
    Block,
    /// A block in which line ends count: a blank line ends the block.
    Preformatted,
    /// It ends a line; two in a row end the block.
    Break,
    /// It is part of the line and separates words, without text of its own.
    Object,
    /// Its text is not part of the page's prose: it belongs to no block and no image's
    /// context, but a link inside it still has its anchor text.
    Aside,
    /// Nothing inside it is used. It separates words.
    Void,
}

/// The role of an element by its lower-case name.
///
/// `Aside` are controls, fallbacks that readers with scripts and video never see, and the
/// glosses of ruby (they would occur within words). `alt` texts are not text. List items
/// and table cells are blocks.
pub(super) fn role(name: &str) -> TextRole {
    ROLES.get(name)
}

/// The exceptions to the usual role.
static ROLES: NameTable<TextRole> = NameTable::new(
    &[
        (
            TextRole::Block,
            &[
                "address",
                "article",
                "aside",
                "blockquote",
                "body",
                "caption",
                "center",
                "col",
                "colgroup",
                "dd",
                "details",
                "dialog",
                "dir",
                "div",
                "dl",
                "dt",
                "fieldset",
                "figcaption",
                "figure",
                "footer",
                "form",
                "frameset",
                "h1",
                "h2",
                "h3",
                "h4",
                "h5",
                "h6",
                "head",
                "header",
                "hgroup",
                "hr",
                "html",
                "legend",
                "li",
                "main",
                "menu",
                "nav",
                "ol",
                "p",
                "search",
                "section",
                "summary",
                "table",
                "tbody",
                "td",
                "tfoot",
                "th",
                "thead",
                "tr",
                "ul",
            ],
        ),
        (
            TextRole::Preformatted,
            &["pre", "listing", "xmp", "plaintext"],
        ),
        (TextRole::Break, &["br"]),
        (
            TextRole::Object,
            &["img", "image", "input", "embed", "area", "frame"],
        ),
        (
            TextRole::Aside,
            &["noscript", "button", "audio", "video", "canvas", "rt", "rp"],
        ),
        (
            TextRole::Void,
            &[
                "script", "style", "template", "svg", "math", "textarea", "select", "option",
                "optgroup", "datalist", "iframe", "noframes", "noembed",
            ],
        ),
    ],
    TextRole::Inline,
);

/// The blocks of plain text: a blank line ends one. White space is folded, none
/// is empty.
pub fn plain_text(text: &str) -> Vec<String> {
    plain_flow(text).blocks()
}

/// The flow of plain text.
pub(super) fn plain_flow(text: &str) -> Flow {
    let mut flow = Flow::default();
    flow.open(TextRole::Preformatted);
    flow.text(text);
    flow
}

/// The text folded into one line of at most `max_chars` characters.
pub(super) fn fold(text: &str, max_chars: usize) -> String {
    let mut folder = WhitespaceFolder::new(max_chars);
    folder.push(text);
    folder.finish()
}

/// [`fold`], `None` if nothing is left.
pub(super) fn fold_some(text: &str, max_chars: usize) -> Option<String> {
    Some(fold(text, max_chars)).filter(|folded| !folded.is_empty())
}

/// Folds text that comes in parts.
///
/// White space of any kind and control characters become one separator between words;
/// invisible characters that may occur within a word (soft hyphen, zero width space, byte
/// order mark) are dropped. The joiners U+200C and U+200D are kept, because Persian and
/// the Indic scripts use them for spelling.
#[derive(Debug)]
pub(super) struct WhitespaceFolder {
    out: String,
    gap: Option<char>,
    /// Remaining characters.
    room: usize,
}

impl WhitespaceFolder {
    /// An empty text with room for `max_chars` characters.
    pub(super) fn new(max_chars: usize) -> Self {
        Self {
            out: String::new(),
            gap: None,
            room: max_chars,
        }
    }

    /// Reserves memory for this many bytes of text.
    pub(super) fn expect(&mut self, bytes: usize) {
        self.out.reserve(bytes);
    }

    /// Adds text.
    pub(super) fn push(&mut self, text: &str) {
        if text.is_ascii() && text.len() < self.room {
            self.push_ascii(text);
        } else {
            self.push_any(text);
        }
    }

    /// Adds ASCII text that is known to fit: what is already folded is copied as it is,
    /// many words at a time.
    fn push_ascii(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let run = folded_run(rest);
            self.seen_ascii(text.get(at..at + run).unwrap_or_default());
            at += run;
            let rest = bytes.get(at..).unwrap_or_default();
            let gap = rest.iter().position(|b| !separates(*b));
            let gap = gap.unwrap_or(rest.len());
            if gap > 0 {
                self.space();
            }
            at += gap;
        }
    }

    fn push_any(&mut self, text: &str) {
        let mut words = text.split(|c: char| c.is_whitespace() || c.is_control());
        if let Some(word) = words.next() {
            self.word(word);
        }
        for word in words {
            self.space();
            self.word(word);
        }
    }

    /// Separates the following text as another word.
    pub(super) fn space(&mut self) {
        if self.gap.is_none() {
            self.gap = Some(' ');
        }
    }

    /// Separates the following text as another word, even if it was to be another line.
    pub(super) fn same_line(&mut self) {
        self.gap = Some(' ');
    }

    /// Separates the following text as another line.
    pub(super) fn line(&mut self) {
        self.gap = Some('\n');
    }

    /// Bytes of text so far, without the separator of what comes next.
    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    /// Adds text with its white space and line ends as they are.
    pub(super) fn raw(&mut self, text: &str) {
        let is_kept = |c: &char| matches!(c, '\n' | '\t') || !(c.is_control() || *c == '\u{FEFF}');
        let mut kept = text.chars().filter(is_kept).peekable();
        if kept.peek().is_some()
            && let Some(gap) = self.gap.take()
            && !self.out.is_empty()
        {
            self.out.push(gap);
        }
        self.out.extend(kept);
    }

    /// The text from here on, without the separator before it.
    pub(super) fn since(&self, from: usize) -> Option<&str> {
        self.out.get(from..).map(str::trim)
    }

    /// The last character so far.
    pub(super) fn last(&self) -> Option<char> {
        self.out.chars().next_back()
    }

    /// Takes off the text from here on, with the separator before it.
    pub(super) fn cut(&mut self, from: usize) -> String {
        if self.out.is_char_boundary(from) && from < self.out.len() {
            self.out.split_off(from)
        } else {
            String::new()
        }
    }

    /// Adds text directly behind the last.
    pub(super) fn append(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Whether nothing but white space was added.
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// The folded text.
    pub(super) fn finish(self) -> String {
        self.out
    }

    fn word(&mut self, word: &str) {
        if word.is_ascii() {
            self.seen(word);
        } else {
            for part in word.split(['\u{AD}', '\u{200B}', '\u{2060}', '\u{FEFF}']) {
                self.seen(part);
            }
        }
    }

    /// The same for ASCII that is known to fit, with a gap before it.
    fn seen_ascii(&mut self, part: &str) {
        if part.is_empty() {
            return;
        }
        if let Some(gap) = self.gap.take()
            && !self.out.is_empty()
        {
            self.out.push(gap);
            self.room -= 1;
        }
        self.out.push_str(part);
        self.room -= part.len();
    }

    fn seen(&mut self, part: &str) {
        if part.is_empty() || self.room == 0 {
            return;
        }
        if let Some(gap) = self.gap.take()
            && !self.out.is_empty()
        {
            if self.room == 1 {
                self.room = 0;
                return;
            }
            self.out.push(gap);
            self.room -= 1;
        }
        if part.len() <= self.room {
            self.out.push_str(part);
            // Bytes are an upper bound of characters, and exact when it matters.
            self.room -= if part.is_ascii() {
                part.len()
            } else {
                part.chars().count()
            };
        } else {
            let end = part
                .char_indices()
                .nth(self.room)
                .map_or(part.len(), |(i, _)| i);
            self.room -= part[..end].chars().count();
            self.out.push_str(&part[..end]);
        }
    }
}

/// White space and control characters of ASCII.
fn separates(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}

/// Length of the longest beginning that consists of words with single spaces; 0 if the
/// text does not begin with a word.
fn folded_run(ascii: &[u8]) -> usize {
    let mut spaced = true;
    let mut at = 0;
    for eight in ascii.chunks_exact(8) {
        let Ok(word) = eight.try_into().map(u64::from_le_bytes) else {
            break;
        };
        let spaces = bytes_equal(word, b' ');
        // A space after a space, and any other separator.
        let twice = spaces & (spaces << 8 | u64::from(spaced) << 7);
        if twice | below_space(word) | bytes_equal(word, 0x7f) != 0 {
            break;
        }
        spaced = spaces >> 63 == 1;
        at += 8;
    }
    for (i, byte) in ascii.iter().enumerate().skip(at) {
        let space = separates(*byte);
        if space && (spaced || *byte != b' ') {
            return i.saturating_sub(usize::from(spaced));
        }
        spaced = space;
    }
    ascii.len() - usize::from(spaced && !ascii.is_empty())
}

/// The highest bit of each byte of `word` that equals `byte`; all are ASCII.
fn bytes_equal(word: u64, byte: u8) -> u64 {
    let differs = word ^ u64::from_ne_bytes([byte; 8]);
    // Adding 127 sets the highest bit of each byte but 0.
    !(differs + u64::from_ne_bytes([0x7f; 8])) & u64::from_ne_bytes([0x80; 8])
}

/// The highest bit of each byte of `word` that is less than a space; all are ASCII.
fn below_space(word: u64) -> u64 {
    !(word + u64::from_ne_bytes([0x80 - b' '; 8])) & u64::from_ne_bytes([0x80; 8])
}

/// All visible text of a page in document order, one block per line.
///
/// The text of any element is one range of it, from the length when the element starts to
/// the length when it ends; a range never ends with a separator.
#[derive(Debug)]
pub(super) struct Flow {
    folder: WhitespaceFolder,
    /// Line ends since the last word that do not end a block by themselves.
    breaks: u32,
    /// All line ends since the last word.
    ends: u32,
    preformatted: u32,
    lines: Vec<BlockLine>,
}

/// The layout of a page's text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// The positions of its visible blocks, one entry for each line of the flow.
    pub(super) lines: Vec<BlockLine>,
    /// The text as its author wrote it, if it is wanted.
    pub(super) written: Option<WrittenPage>,
}

/// The position of a block of text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BlockLine {
    /// Empty lines between it and the previous block.
    pub(super) above: u32,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            folder: WhitespaceFolder::new(usize::MAX),
            breaks: 0,
            ends: 0,
            preformatted: 0,
            lines: Vec::new(),
        }
    }
}

impl Flow {
    /// Reserves memory for this many bytes of text.
    pub(super) fn expect(&mut self, bytes: usize) {
        self.folder.expect(bytes);
    }

    /// Handles the start of an element.
    pub(super) fn open(&mut self, role: TextRole) {
        match role {
            TextRole::Inline | TextRole::Aside => {}
            TextRole::Block => self.end_block(),
            TextRole::Preformatted => {
                self.end_block();
                self.preformatted += 1;
            }
            TextRole::Break => self.end_line(),
            TextRole::Object | TextRole::Void => self.folder.space(),
        }
    }

    /// Handles the end of an element.
    pub(super) fn close(&mut self, role: TextRole) {
        match role {
            TextRole::Block => self.end_block(),
            TextRole::Preformatted => {
                self.end_block();
                self.preformatted = self.preformatted.saturating_sub(1);
            }
            _ => {}
        }
    }

    /// Handles text.
    pub(super) fn text(&mut self, text: &str) {
        if self.preformatted == 0 {
            self.part(text);
            return;
        }
        for (i, line) in text.split('\n').enumerate() {
            if i > 0 {
                self.end_line();
            }
            self.part(line);
        }
    }

    /// The number of the block that the following text is in.
    pub(super) fn number(&self) -> usize {
        let is_within = self.len() > 0 && self.folder.gap != Some('\n');
        self.lines.len() - usize::from(is_within)
    }

    /// Bytes of text so far.
    pub(super) fn len(&self) -> usize {
        self.folder.len()
    }

    /// The text so far, blocks separated by line ends.
    pub(super) fn as_str(&self) -> &str {
        &self.folder.out
    }

    /// The blocks.
    pub(super) fn blocks(&self) -> Vec<String> {
        let text = self.as_str();
        let mut blocks = Vec::with_capacity(self.lines.len());
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', text.as_bytes()).chain([text.len()]) {
            let block = text.get(start..end).unwrap_or_default();
            if !block.is_empty() {
                blocks.push(block.to_owned());
            }
            start = end + 1;
        }
        blocks
    }

    /// The text and the positions of its blocks.
    pub(super) fn into_parts(self) -> (String, Vec<BlockLine>) {
        (self.folder.finish(), self.lines)
    }

    fn part(&mut self, text: &str) {
        let before = self.len();
        let begins = before == 0 || self.folder.gap == Some('\n');
        self.folder.push(text);
        let added = self.len() - before;
        if added == 0 {
            return;
        }
        if begins {
            self.lines.push(BlockLine {
                above: self.ends.saturating_sub(1),
            });
        }
        self.ends = 0;
        self.breaks = 0;
    }

    fn end_block(&mut self) {
        self.ends = self.ends.saturating_add(1);
        self.folder.line();
    }

    fn end_line(&mut self) {
        self.ends = self.ends.saturating_add(1);
        self.breaks = self.breaks.saturating_add(1);
        if self.breaks >= 2 {
            self.folder.line();
        } else {
            self.folder.space();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn folding() {
        for (given, expected) in [
            ("", ""),
            (" \n\t ", ""),
            ("  a  b\r\nc ", "a b c"),
            ("a\u{A0}\u{3000}b\u{85}c\u{0}d", "a b c d"),
            ("Donau\u{AD}dampf\u{200B}schiff", "Donaudampfschiff"),
            ("می\u{200C}خواهم", "می\u{200C}خواهم"),
        ] {
            assert_eq!(fold(given, 100), expected, "{given:?}");
        }
        assert_eq!(fold("ab cd", 4), "ab c");
        assert_eq!(fold("äöü ß", 4), "äöü");
        assert_eq!(fold("äöü ß", 5), "äöü ß");
        assert_eq!(fold_some(" \u{AD} ", 10), None);
    }

    #[test]
    fn plain_text_ends_blocks_at_blank_lines() {
        assert_eq!(
            plain_text("\u{FEFF}A line\nand  its end.\r\n\r\nNext\n \n\nLast\n"),
            ["A line and its end.", "Next", "Last"]
        );
        assert!(plain_text(" \n\n ").is_empty());
    }

    #[test]
    fn line_ends_between_blocks_are_counted() {
        let mut flow = Flow::default();
        let mut above = |steps: &[TextRole]| {
            // Each role begins and ends.
            for role in steps {
                flow.open(*role);
                flow.close(*role);
            }
            flow.text("x");
            let last = flow.lines.last().unwrap();
            (flow.lines.len(), last.above)
        };
        assert_eq!(above(&[]), (1, 0));
        assert_eq!(
            above(&[TextRole::Inline, TextRole::Break]),
            (1, 0),
            "the same block"
        );
        assert_eq!(above(&[TextRole::Break, TextRole::Break]), (2, 1));
        assert_eq!(above(&[TextRole::Block]), (3, 1));
        assert_eq!(above(&[TextRole::Block, TextRole::Preformatted]), (4, 3));
        assert_eq!(flow.lines.len(), flow.blocks().len());
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn folded_text_is_clean(text in "\\PC{0,40}[ \\t\\n\u{A0}\u{AD}]{0,5}\\PC{0,40}", max in 0usize..60) {
            let folded = fold(&text, max);
            prop_assert!(folded.chars().count() <= max);
            prop_assert!(!folded.contains("  ") && folded.trim() == folded);
            prop_assert_eq!(fold(&folded, max), folded);
        }

        #[test]
        fn text_of_ascii_is_folded_as_any(
            parts in proptest::collection::vec("[ab \\x00-\\x20\\x7f]{0,12}", 0..5), max in 0usize..40,
        ) {
            let (mut one, mut other) = (WhitespaceFolder::new(max), WhitespaceFolder::new(max));
            for part in &parts {
                one.push(part);
                other.push_any(part);
            }
            prop_assert_eq!((one.gap, one.room), (other.gap, other.room));
            prop_assert_eq!(one.finish(), other.finish());
        }
    }
}
