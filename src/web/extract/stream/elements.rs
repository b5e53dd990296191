//! The properties of an element's name that the tree builder of the HTML standard needs.
//!
//! The lists are those of html5ever 0.40, which builds the tree: it does not count `search` and
//! `keygen` among the special elements, and counts `select` among those that end a scope.

use crate::extract::names::NameTable;

/// The rules for an element's start and end tags (HTML standard, section 13.2.6.4.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementKind {
    /// `html`.
    Html,
    /// `head`.
    Head,
    /// `body`.
    Body,
    /// `frameset`.
    Frameset,
    /// `frame`.
    Frame,
    /// `base`, `basefont`, `bgsound`, `link`, `meta`: no content, and allowed in the head.
    HeadLeaf,
    /// `title`.
    Title,
    /// `style`, `noframes`: raw text, and allowed in the head.
    HeadRaw,
    /// `script`.
    Script,
    /// `template`.
    Template,
    /// `noscript`.
    Noscript,
    /// A block, or `p`: its start tag ends an open `p`.
    Block,
    /// `dialog`, `search`: a block that is not special.
    PlainBlock,
    /// `h1` to `h6`.
    Heading,
    /// `pre`, `listing`.
    Preformatted,
    /// `form`.
    Form,
    /// `li`.
    Item,
    /// `dd`, `dt`.
    Definition,
    /// `plaintext`.
    Plaintext,
    /// `button`.
    Button,
    /// `a`.
    Anchor,
    /// `nobr`.
    Nobr,
    /// The other formatting elements (section 13.2.4.3).
    Formatting,
    /// `applet`, `marquee`, `object`: formatting does not cross them.
    Object,
    /// `table`.
    Table,
    /// `caption`.
    Caption,
    /// `colgroup`.
    ColumnGroup,
    /// `col`.
    Column,
    /// `tbody`, `tfoot`, `thead`.
    TableBody,
    /// `tr`.
    Row,
    /// `td`, `th`.
    Cell,
    /// `area`, `br`, `embed`, `img`, `keygen`, `wbr`: no content.
    Leaf,
    /// `image`, which is read as `img`.
    Image,
    /// `input`.
    Input,
    /// `param`, `source`, `track`: no content, and no formatting around it.
    Parameter,
    /// `hr`.
    Rule,
    /// `textarea`.
    Textarea,
    /// `xmp`.
    Xmp,
    /// `iframe`, `noembed`: raw text.
    Raw,
    /// `select`.
    Select,
    /// `option`.
    Choice,
    /// `optgroup`.
    ChoiceGroup,
    /// `rb`, `rtc`.
    RubyBase,
    /// `rp`, `rt`.
    RubyText,
    /// `svg`, `math`.
    Foreign,
    /// `isindex`: special, and otherwise without a rule.
    Special,
    /// Any other element.
    Other,
}

/// The kind of an element by its lower-case name.
pub(super) fn kind(name: &str) -> ElementKind {
    KINDS.get(name)
}

/// The kinds with a rule.
static KINDS: NameTable<ElementKind> = NameTable::new(
    &[
        (ElementKind::Anchor, &["a"]),
        (
            ElementKind::Block,
            &[
                "address",
                "article",
                "aside",
                "blockquote",
                "center",
                "details",
                "dir",
                "div",
                "dl",
                "fieldset",
                "figcaption",
                "figure",
                "footer",
                "header",
                "hgroup",
                "main",
                "menu",
                "nav",
                "ol",
                "p",
                "section",
                "summary",
                "ul",
            ],
        ),
        (ElementKind::Item, &["li"]),
        (
            ElementKind::Formatting,
            &[
                "b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u",
            ],
        ),
        (
            ElementKind::Leaf,
            &["area", "br", "embed", "img", "keygen", "wbr"],
        ),
        (ElementKind::Cell, &["td", "th"]),
        (ElementKind::Row, &["tr"]),
        (ElementKind::TableBody, &["tbody", "tfoot", "thead"]),
        (ElementKind::Table, &["table"]),
        (ElementKind::Caption, &["caption"]),
        (ElementKind::ColumnGroup, &["colgroup"]),
        (ElementKind::Column, &["col"]),
        (ElementKind::Heading, &["h1", "h2", "h3", "h4", "h5", "h6"]),
        (
            ElementKind::HeadLeaf,
            &["base", "basefont", "bgsound", "link", "meta"],
        ),
        (ElementKind::Script, &["script"]),
        (ElementKind::HeadRaw, &["style", "noframes"]),
        (ElementKind::Definition, &["dd", "dt"]),
        (ElementKind::Form, &["form"]),
        (ElementKind::Input, &["input"]),
        (ElementKind::Button, &["button"]),
        (ElementKind::Choice, &["option"]),
        (ElementKind::ChoiceGroup, &["optgroup"]),
        (ElementKind::Select, &["select"]),
        (ElementKind::Textarea, &["textarea"]),
        (ElementKind::Preformatted, &["pre", "listing"]),
        (ElementKind::Rule, &["hr"]),
        (ElementKind::Parameter, &["param", "source", "track"]),
        (ElementKind::Title, &["title"]),
        (ElementKind::Noscript, &["noscript"]),
        (ElementKind::Raw, &["iframe", "noembed"]),
        (ElementKind::Foreign, &["svg", "math"]),
        (ElementKind::Template, &["template"]),
        (ElementKind::RubyBase, &["rb", "rtc"]),
        (ElementKind::RubyText, &["rp", "rt"]),
        (ElementKind::PlainBlock, &["dialog", "search"]),
        (ElementKind::Object, &["applet", "marquee", "object"]),
        (ElementKind::Nobr, &["nobr"]),
        (ElementKind::Html, &["html"]),
        (ElementKind::Head, &["head"]),
        (ElementKind::Body, &["body"]),
        (ElementKind::Frameset, &["frameset"]),
        (ElementKind::Frame, &["frame"]),
        (ElementKind::Image, &["image"]),
        (ElementKind::Xmp, &["xmp"]),
        (ElementKind::Plaintext, &["plaintext"]),
        (ElementKind::Special, &["isindex"]),
    ],
    ElementKind::Other,
);

impl ElementKind {
    /// Whether formatting is moved into such an element if it was left open around it.
    pub(super) fn is_special(self) -> bool {
        !matches!(
            self,
            ElementKind::Anchor
                | ElementKind::Nobr
                | ElementKind::Formatting
                | ElementKind::PlainBlock
                | ElementKind::Choice
                | ElementKind::ChoiceGroup
                | ElementKind::RubyBase
                | ElementKind::RubyText
                | ElementKind::Image
                | ElementKind::Foreign
                | ElementKind::Other
        )
    }

    /// Whether an end tag within such an element ends nothing around it.
    pub(super) fn ends_scope(self) -> bool {
        matches!(
            self,
            ElementKind::Object
                | ElementKind::Caption
                | ElementKind::Html
                | ElementKind::Table
                | ElementKind::Cell
                | ElementKind::Select
                | ElementKind::Template
        )
    }

    /// Whether table markup within such an element belongs to no table around it.
    pub(super) fn ends_table_scope(self) -> bool {
        matches!(
            self,
            ElementKind::Html | ElementKind::Table | ElementKind::Template
        )
    }

    /// Whether its end tag may be omitted, except for `p`, which is a block.
    pub(super) fn has_implied_end(self) -> bool {
        matches!(
            self,
            ElementKind::Definition
                | ElementKind::Item
                | ElementKind::Choice
                | ElementKind::ChoiceGroup
                | ElementKind::RubyBase
                | ElementKind::RubyText
        )
    }

    /// Whether it is one of the formatting elements (section 13.2.4.3).
    pub(super) fn is_formatting(self) -> bool {
        matches!(
            self,
            ElementKind::Anchor | ElementKind::Nobr | ElementKind::Formatting
        )
    }

    /// Whether only other parts of the table are allowed in it.
    pub(super) fn is_table_frame(self) -> bool {
        matches!(
            self,
            ElementKind::Table | ElementKind::TableBody | ElementKind::Row
        )
    }
}
