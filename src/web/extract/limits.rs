//! Parses a document once, within limits.
//!
//! A tree builder takes quadratic time for nesting (500 KB of nested `<div>` take 13 s),
//! can multiply nodes (every block reopens all formatting elements left open) and compares
//! each new attribute of a tag with all earlier ones. So the page is fed to it piece by
//! piece, and parsing stops as soon as the tree is too deep or has too many nodes, or a
//! tag has too many attributes.
//!
//! Measuring the growing tree is exact. Counting start and end tags in advance is not: in
//! `<div><object></div>` the parser ignores the end tag, so a counter goes down while the tree gets
//! deeper; and a tokenizer pass would cost 8 to 30 % of the time on every page. Each page is parsed
//! once, and only those that were stopped are read a second time, by [`super::token_stream`].

use std::cell::Cell;
use std::fmt;
use std::ops::Range;

use ego_tree::NodeId;
use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts, TreeSink};
use scraper::{Html, HtmlTreeSink};

use super::Options;

/// The most attributes of one tag; more stop the parse.
const MAX_ATTRIBUTES: usize = 1_000;
/// How many attributes of one tag reach the tree; the tree builder compares all attributes
/// of formatting elements with one another.
const KEPT_ATTRIBUTES: usize = 128;
/// The most comparisons of attributes; more stop the parse. The tree builder compares each new
/// formatting element with all open ones, attribute by attribute: 5,000 `b` of 127 attributes
/// within 240 others took it 156 s. A page with 20,000 of them, of 3 attributes and 30 deep, needs
/// 2.4 million.
pub(super) const MAX_COMPARISONS: usize = 5_000_000;

/// The number of comparisons charged for comparing a start tag with one open element. The tree
/// builder copies and sorts the attributes of both, so many attributes cost more than their number:
/// if each counted as one, 240 open `b` of 127 attributes stayed below the limit and took 5 s.
pub(super) fn comparisons_of(attributes: usize) -> usize {
    (1 + attributes) * (1 + attributes / 16)
}

/// The longest piece, and the length of an unfinished tag at which its attributes are
/// first counted: shorter tags cannot cost much.
const PIECE_BYTES: usize = 4 << 10;

/// The limit that the markup exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excess {
    /// `Options::max_nesting`.
    Nesting,
    /// `Options::max_nodes`.
    Nodes,
    /// More than [`MAX_ATTRIBUTES`].
    Attributes,
    /// More than [`MAX_COMPARISONS`].
    Formatting,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Excess::Nesting => "nested too deep",
            Excess::Nodes => "too many nodes",
            Excess::Attributes => "a tag with too many attributes",
            Excess::Formatting => "too many formatting elements within each other",
        })
    }
}

/// At most the first `max_bytes` bytes of the text, cut between characters.
pub(super) fn cap(text: &str, max_bytes: usize) -> &str {
    &text[..boundary(text, max_bytes)]
}

/// The document's tree, with the content of `noscript` parsed as markup.
///
/// # Errors
///
/// The limit that the markup exceeded; the tree is discarded.
pub(super) fn parse(html: &str, options: &Options) -> Result<Html, Excess> {
    let tokenizer = Tokenizer::new(GrowthWatch::new(options), TokenizerOpts::default());
    let input = BufferQueue::default();
    // html5ever owns its input; all texts of the tree share this one buffer.
    let page = StrTendril::from_slice(html);
    let mut watched = LongTag::default();
    for piece in pieces(html) {
        let (Ok(start), Ok(length)) = (u32::try_from(piece.start), u32::try_from(piece.len()))
        else {
            return Err(Excess::Nodes);
        };
        let tokens = tokenizer.sink.tokens.get();
        input.push_back(page.subtendril(start, length));
        while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
        if let Some(excess) = tokenizer.sink.excess.get() {
            return Err(excess);
        }
        watched.fed(html, piece, tokenizer.sink.tokens.get() != tokens)?;
    }
    tokenizer.end();
    match tokenizer.sink.excess.get() {
        Some(excess) => Err(excess),
        None => Ok(tokenizer.sink.builder.sink.finish()),
    }
}

/// The last boundary between characters up to `at`.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(0)
}

/// The text in pieces of at most [`PIECE_BYTES`], which end before a `<` if possible: a
/// tag that does not fit after others starts a new piece.
fn pieces(html: &str) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let end = boundary(html, start + PIECE_BYTES);
        let fits = html.get(start..end).unwrap_or_default();
        let tag = fits.rfind('<').filter(|at| *at > 0 && end < html.len());
        let piece = start..tag.map_or(end, |at| start + at);
        start = piece.end;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Tracks a tag that does not end, over the pieces fed to the tokenizer.
///
/// No tag is open before a piece that produced a token. So an unfinished one starts after
/// the last such piece, or within it if a value in the tag contains a `<`.
struct LongTag {
    /// The last piece that produced a token.
    last: Range<usize>,
    /// Where the unfinished tag starts, once that has been determined.
    start: Option<usize>,
    count_at: usize,
}

impl Default for LongTag {
    fn default() -> Self {
        Self {
            last: 0..0,
            start: None,
            count_at: PIECE_BYTES,
        }
    }
}

impl LongTag {
    /// The tokenizer has read this piece; `token` is whether it produced a token.
    fn fed(&mut self, html: &str, piece: Range<usize>, token: bool) -> Result<(), Excess> {
        if token {
            *self = Self {
                last: piece,
                ..Self::default()
            };
            return Ok(());
        }
        let last = html.as_bytes().get(self.last.clone()).unwrap_or_default();
        let begin = || self.last.start + unfinished(last).unwrap_or(last.len());
        let start = *self.start.get_or_insert_with(begin);
        if piece.end - start >= self.count_at {
            let tag = html.as_bytes().get(start..piece.end).unwrap_or_default();
            if attributes(tag).0 > MAX_ATTRIBUTES {
                return Err(Excess::Attributes);
            }
            self.count_at = (piece.end - start) * 2;
        }
        Ok(())
    }
}

/// Where in `bytes` a tag starts that does not end there.
fn unfinished(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = bytes.get(at..)?;
        at += rest.iter().position(|b| *b == b'<')?;
        let rest = bytes.get(at..)?;
        at += if rest.starts_with(b"<!--") {
            4 + rest.get(4..)?.windows(3).position(|end| end == b"-->")?
        } else {
            match attributes(rest) {
                (_, Some(end)) => end,
                (_, None) => return Some(at),
            }
        };
    }
}

/// Sits between tokenizer and tree builder and measures growth.
struct GrowthWatch {
    builder: TreeBuilder<NodeId, HtmlTreeSink>,
    max_nesting: usize,
    max_nodes: usize,
    /// Tokens seen, excluding parse errors.
    tokens: Cell<u64>,
    comparisons: Cell<usize>,
    excess: Cell<Option<Excess>>,
}

impl GrowthWatch {
    fn new(options: &Options) -> Self {
        let opts = TreeBuilderOpts {
            scripting_enabled: false,
            ..TreeBuilderOpts::default()
        };
        Self {
            builder: TreeBuilder::new(HtmlTreeSink::new(Html::new_document()), opts),
            max_nesting: options.max_nesting,
            max_nodes: options.max_nodes,
            tokens: Cell::new(0),
            comparisons: Cell::new(0),
            excess: Cell::new(None),
        }
    }

    /// Checks the limits at the newest node, which is at the innermost open element after
    /// a start tag. `compared` is how many attributes were compared with those of each
    /// surrounding element.
    fn measure(&self, after_start_tag: bool, compared: usize) -> Option<Excess> {
        let html = self.builder.sink.0.borrow();
        let mut nodes = html.tree.nodes();
        if nodes.len() > self.max_nodes {
            return Some(Excess::Nodes);
        }
        let depth = match nodes.next_back() {
            Some(newest) if after_start_tag => {
                newest.ancestors().take(self.max_nesting + 1).count()
            }
            _ => 0,
        };
        if depth > self.max_nesting {
            return Some(Excess::Nesting);
        }
        let comparisons = self.comparisons.get() + depth * compared;
        self.comparisons.set(comparisons);
        (comparisons > MAX_COMPARISONS).then_some(Excess::Formatting)
    }
}

impl TokenSink for GrowthWatch {
    type Handle = NodeId;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<NodeId> {
        if self.excess.get().is_some() {
            return TokenSinkResult::Continue;
        }
        let mut starts = false;
        let mut compared = 0;
        let token = match token {
            Token::ParseError(_) => return TokenSinkResult::Continue,
            Token::TagToken(mut tag) => {
                starts = tag.kind == TagKind::StartTag;
                trim(&mut tag);
                if is_formatting(&tag.name) {
                    compared = comparisons_of(tag.attrs.len());
                }
                Token::TagToken(tag)
            }
            other => other,
        };
        self.tokens.set(self.tokens.get() + 1);
        let result = self.builder.process_token(token, line);
        self.excess.set(self.measure(starts, compared));
        result
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder
            .adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// The formatting elements (HTML standard, section 13.2.4.3).
fn is_formatting(name: &str) -> bool {
    matches!(
        name,
        "a" | "b"
            | "big"
            | "code"
            | "em"
            | "font"
            | "i"
            | "nobr"
            | "s"
            | "small"
            | "strike"
            | "strong"
            | "tt"
            | "u"
    )
}

/// Every further `html` and `body` tag adds its attributes to the one element, in time
/// that grows with the number already there; only the language is needed.
fn trim(tag: &mut Tag) {
    if matches!(&*tag.name, "html" | "body") {
        tag.attrs
            .retain(|a| matches!(&*a.name.local, "lang" | "xml:lang"));
    }
    tag.attrs.truncate(KEPT_ATTRIBUTES);
}

/// The number of attributes of the tag at the start of `bytes`, and its end, `None` if it
/// has none there; 0 and 1 if no tag starts there (HTML standard, sections 13.2.5.32 to
/// 13.2.5.39).
fn attributes(bytes: &[u8]) -> (usize, Option<usize>) {
    enum State {
        Gap,
        Name,
        AfterName,
        BeforeValue,
        Bare,
        Quoted(u8),
    }
    let Some(tag) = bytes.strip_prefix(b"<") else {
        return (0, Some(1));
    };
    let tag = tag.strip_prefix(b"/").unwrap_or(tag);
    if !tag.first().is_some_and(u8::is_ascii_alphabetic) {
        return (0, Some(1));
    }
    let before = bytes.len() - tag.len();
    let mut count = 0;
    // The tag's own name ends like an unquoted value.
    let mut state = State::Bare;
    for (at, byte) in tag.iter().enumerate() {
        state = match (state, *byte) {
            (State::Quoted(quote), b) if b == quote => State::Gap,
            (State::Quoted(quote), _) => State::Quoted(quote),
            (_, b'>') => return (count, Some(before + at + 1)),
            (State::Bare, b'/') if count == 0 => State::Gap,
            (State::Bare | State::Gap, b' ' | b'\t' | b'\n' | b'\r' | 0x0C) => State::Gap,
            (State::Bare, _) => State::Bare,
            (State::Name | State::AfterName, b'=') => State::BeforeValue,
            (State::Name | State::AfterName | State::Gap, b'/') => State::Gap,
            (State::Name | State::AfterName, b' ' | b'\t' | b'\n' | b'\r' | 0x0C) => {
                State::AfterName
            }
            (State::Name, _) => State::Name,
            (State::Gap | State::AfterName, _) => {
                count += 1;
                State::Name
            }
            (State::BeforeValue, b' ' | b'\t' | b'\n' | b'\r' | 0x0C) => State::BeforeValue,
            (State::BeforeValue, quote @ (b'"' | b'\'')) => State::Quoted(quote),
            (State::BeforeValue, _) => State::Bare,
        };
    }
    (count, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_falls_on_a_character() {
        assert_eq!(cap("Kätzchen", 2), "K");
        assert_eq!(cap("Kätzchen", 3), "Kä");
        assert_eq!(cap("Kätzchen", 100), "Kätzchen");
    }

    #[test]
    fn attributes_are_counted_as_the_tokenizer_does() {
        for (tag, expected) in [
            ("<a", 0),
            ("<a>b c d", 0),
            ("<a b>", 1),
            ("<a b c/d  e=f g = 'h i j'k=\"l > m\" n>o p", 7),
            ("<a href=/b/c/d e>", 2),
            ("</a b c", 2),
            ("<br/>", 0),
            ("<a b='unfinished c d e", 1),
            ("< a b c", 0),
            ("<!-- a b c", 0),
        ] {
            assert_eq!(attributes(tag.as_bytes()).0, expected, "{tag}");
        }
    }

    #[test]
    fn an_unfinished_tag_is_found_behind_others() {
        for (bytes, expected) in [
            ("<p>a<b c='<d>'>e", None),
            ("<p>a<b c='<d", Some(4)),
            ("<p><!-- <a b --><i j=k", Some(16)),
            ("<p><!-- <a b", None),
            ("a < b <", None),
            ("</p", Some(0)),
        ] {
            assert_eq!(unfinished(bytes.as_bytes()), expected, "{bytes}");
        }
    }

    #[test]
    fn nesting_is_measured_on_the_tree() {
        let options = Options {
            max_nesting: 20,
            ..Options::default()
        };
        let nested = |n: usize| "<div>".repeat(n);
        // The document, `html` and `body` are above, the element itself is not.
        assert!(parse(&nested(18), &options).is_ok());
        assert_eq!(parse(&nested(19), &options).err(), Some(Excess::Nesting));
        // Void and implied ends keep the tree flat, in any number.
        assert!(parse(&"<br><img><p>a<li>b".repeat(500), &options).is_ok());
        // The parser ignores these end tags; a counter of tags would not.
        let ignored = "<div><div><div><object></div></div></div>".repeat(5);
        assert_eq!(parse(&ignored, &options).err(), Some(Excess::Nesting));
    }

    #[test]
    fn attribute_floods_stop_the_parse_and_long_values_do_not() {
        let options = Options::default();
        let flood: String = (0..100_000).map(|i| format!(" a{i}='<'")).collect();
        assert_eq!(
            parse(&format!("<p><a{flood}>b"), &options).err(),
            Some(Excess::Attributes)
        );
        let data = "data:image/png;base64,AAAA/AAA ".repeat(5_000);
        assert!(parse(&format!("<p><img alt='x' src='{data}'>b"), &options).is_ok());
        let script = "if (a <b && c d e f g) {} ".repeat(5_000);
        assert!(parse(&format!("<script>{script}</script>"), &options).is_ok());
        assert!(parse(&format!("<!-- {script} -->"), &options).is_ok());
    }

    #[test]
    fn formatting_elements_that_are_compared_too_often_stop_the_parse() {
        let attributes: String = (0..30).map(|n| format!(" a{n}")).collect();
        let nested: String = (0..200)
            .map(|n| format!("<b{attributes} id={n}>"))
            .collect();
        let more = format!("<b{attributes}></b>").repeat(1_000);
        let options = Options::default();
        assert!(parse(&format!("<p>{nested}"), &options).is_ok());
        assert_eq!(
            parse(&format!("<p>{nested}{more}"), &options).err(),
            Some(Excess::Formatting)
        );
        // Side by side they cost nothing.
        assert!(
            parse(
                &"<p><b class=a id=b><i>x</i></b></p>".repeat(20_000),
                &options
            )
            .is_ok()
        );
    }

    #[test]
    fn noscript_is_markup() {
        let tree = parse(
            "<body><noscript><img src=a></noscript>",
            &Options::default(),
        )
        .unwrap();
        assert!(tree.tree.nodes().any(|n| {
            n.value()
                .as_element()
                .is_some_and(|e| e.name() == "img" && e.attr("src") == Some("a"))
        }));
    }
}
