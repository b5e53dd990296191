//! What the tree builder of the HTML standard needs to know of an element by its name.
//!
//! The lists are those of html5ever 0.40, which the tree is built with: it puts neither
//! `search` nor `keygen` among the special elements, and `select` among those that end a
//! scope.

use crate::extract::names::Names;

/// The rules for an element's start and end tags (HTML standard, section 13.2.6.4.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) fn kind(name: &str) -> Kind {
    KINDS.get(name)
}

/// The kinds with a rule.
static KINDS: Names<Kind> = Names::new(
    &[
        (Kind::Anchor, &["a"]),
        (
            Kind::Block,
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
        (Kind::Item, &["li"]),
        (
            Kind::Formatting,
            &[
                "b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u",
            ],
        ),
        (Kind::Leaf, &["area", "br", "embed", "img", "keygen", "wbr"]),
        (Kind::Cell, &["td", "th"]),
        (Kind::Row, &["tr"]),
        (Kind::TableBody, &["tbody", "tfoot", "thead"]),
        (Kind::Table, &["table"]),
        (Kind::Caption, &["caption"]),
        (Kind::ColumnGroup, &["colgroup"]),
        (Kind::Column, &["col"]),
        (Kind::Heading, &["h1", "h2", "h3", "h4", "h5", "h6"]),
        (
            Kind::HeadLeaf,
            &["base", "basefont", "bgsound", "link", "meta"],
        ),
        (Kind::Script, &["script"]),
        (Kind::HeadRaw, &["style", "noframes"]),
        (Kind::Definition, &["dd", "dt"]),
        (Kind::Form, &["form"]),
        (Kind::Input, &["input"]),
        (Kind::Button, &["button"]),
        (Kind::Choice, &["option"]),
        (Kind::ChoiceGroup, &["optgroup"]),
        (Kind::Select, &["select"]),
        (Kind::Textarea, &["textarea"]),
        (Kind::Preformatted, &["pre", "listing"]),
        (Kind::Rule, &["hr"]),
        (Kind::Parameter, &["param", "source", "track"]),
        (Kind::Title, &["title"]),
        (Kind::Noscript, &["noscript"]),
        (Kind::Raw, &["iframe", "noembed"]),
        (Kind::Foreign, &["svg", "math"]),
        (Kind::Template, &["template"]),
        (Kind::RubyBase, &["rb", "rtc"]),
        (Kind::RubyText, &["rp", "rt"]),
        (Kind::PlainBlock, &["dialog", "search"]),
        (Kind::Object, &["applet", "marquee", "object"]),
        (Kind::Nobr, &["nobr"]),
        (Kind::Html, &["html"]),
        (Kind::Head, &["head"]),
        (Kind::Body, &["body"]),
        (Kind::Frameset, &["frameset"]),
        (Kind::Frame, &["frame"]),
        (Kind::Image, &["image"]),
        (Kind::Xmp, &["xmp"]),
        (Kind::Plaintext, &["plaintext"]),
        (Kind::Special, &["isindex"]),
    ],
    Kind::Other,
);

impl Kind {
    /// Whether formatting is moved into such an element if it was left open around it.
    pub(super) fn is_special(self) -> bool {
        !matches!(
            self,
            Kind::Anchor
                | Kind::Nobr
                | Kind::Formatting
                | Kind::PlainBlock
                | Kind::Choice
                | Kind::ChoiceGroup
                | Kind::RubyBase
                | Kind::RubyText
                | Kind::Image
                | Kind::Foreign
                | Kind::Other
        )
    }

    /// Whether an end tag within such an element ends nothing around it.
    pub(super) fn ends_scope(self) -> bool {
        matches!(
            self,
            Kind::Object
                | Kind::Caption
                | Kind::Html
                | Kind::Table
                | Kind::Cell
                | Kind::Select
                | Kind::Template
        )
    }

    /// Whether table markup within such an element belongs to no table around it.
    pub(super) fn ends_table_scope(self) -> bool {
        matches!(self, Kind::Html | Kind::Table | Kind::Template)
    }

    /// Whether its end tag may be omitted, except for `p`, which is a block.
    pub(super) fn has_implied_end(self) -> bool {
        matches!(
            self,
            Kind::Definition
                | Kind::Item
                | Kind::Choice
                | Kind::ChoiceGroup
                | Kind::RubyBase
                | Kind::RubyText
        )
    }

    /// Whether it is one of the formatting elements (section 13.2.4.3).
    pub(super) fn is_formatting(self) -> bool {
        matches!(self, Kind::Anchor | Kind::Nobr | Kind::Formatting)
    }

    /// Whether only other parts of the table are allowed in it.
    pub(super) fn is_table_frame(self) -> bool {
        matches!(self, Kind::Table | Kind::TableBody | Kind::Row)
    }
}
