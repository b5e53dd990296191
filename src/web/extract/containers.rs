//! The block-level elements of a page, with the blocks of text within each.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::attributes::ElementAttributes;
use super::html::is_furniture;
use super::names::NameTable;
use super::text::TextRole;

/// A block-level element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Container {
    /// The block-level element around it.
    pub(super) parent: Option<u32>,
    /// Its [`element_code`].
    pub(super) element: u8,
    /// The number of block-level elements around it.
    pub(super) depth: u16,
    /// Equal for elements with the same name and classes.
    pub(super) kind: u32,
    /// The [`class_groups`] of its classes, id and role.
    pub(super) groups: u32,
    /// What it and the elements around it are: a set of [`Within`].
    pub(super) within: u32,
    /// The innermost elements around it, or it itself, that say what text is for its reader.
    pub(super) meaning: Meaning,
    /// The numbers of the blocks of text within it.
    pub(super) first: u32,
    pub(super) end: u32,
    /// How many columns and rows it takes, if it is a cell; else 1.
    pub(super) span: [u16; 2],
    /// Whether terms are directly in it.
    pub(super) has_terms: bool,
}

impl Container {
    /// Its name; empty if it has no code.
    pub(super) fn name(&self) -> &'static str {
        let code = usize::from(self.element).checked_sub(1);
        code.and_then(|code| CODED.get(code))
            .copied()
            .unwrap_or_default()
    }

    /// Whether it is a list. One of definitions without terms only indents.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.name(), "ul" | "ol") || (self.name() == "dl" && self.has_terms)
    }

    /// Whether it is a cell of a table.
    pub(super) fn is_cell(&self) -> bool {
        matches!(self.name(), "td" | "th")
    }
}

/// Elements by which text has a meaning, by their numbers: the kind of a block is known
/// without a walk through all elements around it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Meaning {
    /// A heading, an item, a term, a definition, a quotation, a caption, a cell or a table.
    pub(super) text: Option<u32>,
    /// A cell.
    pub(super) cell: Option<u32>,
    /// A table.
    pub(super) table: Option<u32>,
}

impl Meaning {
    /// That of an element with this name and number, within these.
    fn within(self, name: &str, number: u32) -> Self {
        let number = Some(number);
        match name {
            "table" => Self {
                text: number,
                table: number,
                ..self
            },
            "td" | "th" => Self {
                text: number,
                cell: number,
                ..self
            },
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "li" | "dt" | "dd" | "blockquote"
            | "figcaption" | "caption" => Self {
                text: number,
                ..self
            },
            _ => self,
        }
    }
}

/// Elements whose meaning counts for everything inside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Within {
    Nav = 1,
    Header = 1 << 1,
    Footer = 1 << 2,
    Aside = 1 << 3,
    /// `main`, or the role.
    Main = 1 << 4,
    Article = 1 << 5,
    Form = 1 << 6,
    List = 1 << 7,
    Figure = 1 << 8,
    Preformatted = 1 << 9,
    Dialog = 1 << 10,
    /// The roles of navigation, search, banners and the like.
    NavRole = 1 << 11,
    Noscript = 1 << 12,
    Button = 1 << 13,
    /// Not shown, at least at first.
    Hidden = 1 << 14,
    /// What the markup declares as navigation or as a list of sources.
    Furniture = 1 << 15,
}

impl Within {
    /// Those by which main text is recognised.
    pub(super) const FEATURES: [(&'static str, Within); 13] = [
        ("within_nav", Within::Nav),
        ("within_header", Within::Header),
        ("within_footer", Within::Footer),
        ("within_aside", Within::Aside),
        ("within_main", Within::Main),
        ("within_article", Within::Article),
        ("within_form", Within::Form),
        ("within_list", Within::List),
        ("within_figure", Within::Figure),
        ("within_dialog", Within::Dialog),
        ("within_hidden", Within::Hidden),
        ("within_furniture", Within::Furniture),
        ("within_button", Within::Button),
    ];
}

/// The block-level elements of a page in the order of their starts.
#[derive(Debug, Default)]
pub(super) struct Containers {
    list: Vec<Container>,
    /// The open ones, outermost first.
    open: Vec<u32>,
    /// The names and class groups of the open inline elements within the innermost of them.
    inline: Vec<(u8, u32)>,
}

/// Where a block of text begins among the elements of its page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BlockPlace {
    /// The innermost block-level element, by its number.
    pub(super) container: Option<u32>,
    /// The [`element_code`] of the innermost inline element; 0 if there is none.
    pub(super) inline: u8,
    /// The class groups of all open inline elements.
    pub(super) groups: u32,
}

/// The roles of an element that holds blocks of its own.
pub(super) fn is_container(role: TextRole) -> bool {
    matches!(role, TextRole::Block | TextRole::Preformatted)
}

impl Containers {
    /// Handles the start of a block-level element after this many blocks of text. Returns its class
    /// groups.
    pub(super) fn open_block(
        &mut self,
        name: &str,
        is_hidden: bool,
        attributes: &impl ElementAttributes,
        blocks: usize,
    ) -> u32 {
        if name == "dt" {
            self.note_terms();
        }
        let parent = self.open.last().copied();
        let around = parent.and_then(|parent| self.list.get(parent as usize));
        let class = attributes.get("class").unwrap_or_default();
        let seed = if class.is_empty() {
            0
        } else {
            xxh3_64(class.as_bytes())
        };
        let first = u32::try_from(blocks).unwrap_or(u32::MAX);
        let groups = groups(attributes);
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        let meaning = around.map_or_else(Meaning::default, |around| around.meaning);
        let meaning = meaning.within(name, number);
        let container = Container {
            meaning,
            parent,
            element: element_code(name),
            depth: around.map_or(0, |around| around.depth.saturating_add(1)),
            kind: xxh3_64_with_seed(name.as_bytes(), seed) as u32,
            groups: groups | self.inline_groups(),
            within: around.map_or(0, |around| around.within)
                | within(name, attributes)
                | if is_hidden { Within::Hidden as u32 } else { 0 },
            first,
            end: first,
            span: ["colspan", "rowspan"].map(|name| {
                let is_cell = meaning.cell == Some(number);
                let span = is_cell.then(|| attributes.get(name)).flatten();
                span.and_then(|span| span.trim().parse().ok()).unwrap_or(1)
            }),
            has_terms: false,
        };
        self.open.push(number);
        self.list.push(container);
        groups
    }

    /// Notes a term in the innermost element, and in the one around it: groups of a list of
    /// definitions may be elements.
    fn note_terms(&mut self) {
        for open in self.open.iter().rev().take(2) {
            if let Some(container) = self.list.get_mut(*open as usize) {
                container.has_terms = true;
            }
        }
    }

    /// Handles the end of the innermost block-level element after this many blocks of text.
    pub(super) fn close_block(&mut self, blocks: usize) {
        if let Some(open) = self.open.pop()
            && let Some(container) = self.list.get_mut(open as usize)
        {
            container.end = u32::try_from(blocks).unwrap_or(u32::MAX);
        }
    }

    /// Handles the start of any other element. Returns its class groups.
    pub(super) fn open_inline(&mut self, name: &str, attributes: &impl ElementAttributes) -> u32 {
        let groups = groups(attributes);
        self.inline.push((element_code(name), groups));
        groups
    }

    /// Handles the end of the innermost of them.
    pub(super) fn close_inline(&mut self) {
        self.inline.pop();
    }

    /// Whether the innermost open block-level element is one of running text.
    pub(super) fn is_in_text(&self) -> bool {
        let innermost = self.open.last().and_then(|at| self.list.get(*at as usize));
        let name = innermost.map_or("", Container::name);
        matches!(
            name,
            "p" | "li" | "td" | "th" | "dt" | "dd" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6"
        )
    }

    /// All of them.
    pub(super) fn finish(self) -> Vec<Container> {
        self.list
    }

    fn inline_groups(&self) -> u32 {
        self.inline.iter().fold(0, |all, (_, groups)| all | groups)
    }

    /// Where text is that comes now.
    pub(super) fn here(&self) -> BlockPlace {
        BlockPlace {
            container: self.open.last().copied(),
            inline: self.inline.last().map_or(0, |(code, _)| *code),
            groups: self.inline_groups(),
        }
    }
}

/// The class groups of an element's class, id, role and kind of microdata.
fn groups(attributes: &impl ElementAttributes) -> u32 {
    let of = |(name, value)| match name {
        "class" | "id" | "role" | "itemprop" => class_groups(value),
        _ => 0,
    };
    attributes
        .all()
        .fold(0, |groups, attribute| groups | of(attribute))
}

fn within(name: &str, attributes: &impl ElementAttributes) -> u32 {
    let mut of_name = WITHIN.get(name);
    if is_furniture(name, attributes) {
        of_name |= Within::Furniture as u32;
    }
    let Some(role) = attributes.get("role") else {
        return of_name;
    };
    let of_role = match role.trim().to_ascii_lowercase().as_str() {
        "main" => Within::Main as u32,
        "dialog" | "alertdialog" => Within::Dialog as u32,
        "navigation" | "search" | "banner" | "contentinfo" | "complementary" | "menu"
        | "menubar" | "doc-toc" | "toolbar" | "tablist" => Within::NavRole as u32,
        _ => 0,
    };
    of_name | of_role
}

static WITHIN: NameTable<u32> = NameTable::new(
    &[
        (Within::Nav as u32, &["nav"]),
        (Within::Header as u32, &["header"]),
        (Within::Footer as u32, &["footer"]),
        (Within::Aside as u32, &["aside"]),
        (Within::Main as u32, &["main"]),
        (Within::Article as u32, &["article"]),
        (Within::Form as u32, &["form"]),
        (Within::List as u32, &["ul", "ol", "menu"]),
        (Within::Figure as u32, &["figure"]),
        (
            Within::Preformatted as u32,
            &["pre", "listing", "xmp", "plaintext"],
        ),
        (Within::Dialog as u32, &["dialog"]),
        (Within::Noscript as u32, &["noscript"]),
        (Within::Button as u32, &["button"]),
    ],
    0,
);

/// A small number for the name of an element, 0 for all that are rare. The model's files refer to
/// them, so they must not change.
pub(super) fn element_code(name: &str) -> u8 {
    CODES.get(name)
}

/// The elements with a code, in its order from 1.
const CODED: [&str; 53] = [
    "body",
    "p",
    "div",
    "li",
    "td",
    "th",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "pre",
    "blockquote",
    "figcaption",
    "dt",
    "dd",
    "section",
    "article",
    "button",
    "label",
    "summary",
    "caption",
    "header",
    "footer",
    "nav",
    "aside",
    "main",
    "form",
    "ul",
    "ol",
    "table",
    "tr",
    "tbody",
    "span",
    "a",
    "noscript",
    "figure",
    "address",
    "details",
    "fieldset",
    "legend",
    "center",
    "dl",
    "strong",
    "b",
    "em",
    "i",
    "time",
    "small",
    "code",
    "cite",
    "sup",
];

static CODES: NameTable<u8> = {
    let mut groups: [(u8, &[&str]); CODED.len()] = [(0, &[]); CODED.len()];
    let mut at = 0;
    while at < CODED.len() {
        groups[at] = (at as u8 + 1, CODED.split_at(at).1.split_at(1).0);
        at += 1;
    }
    NameTable::new(&groups, 0)
};

/// What the words of a class or id say about an element, as a set of [`CLASS_GROUPS`].
fn class_groups(value: &str) -> u32 {
    let mut groups = 0;
    // As `packed` makes it, a letter at a time.
    let (mut word, mut length) = (0_u128, 0_u32);
    let mut was_small = false;
    for byte in value.bytes().chain([b' ']) {
        let begins = byte.is_ascii_uppercase() && was_small;
        if begins || !byte.is_ascii_alphabetic() {
            if (1..=LONGEST_WORD).contains(&length) {
                groups |= GROUPS.get_packed(word | 1 << (8 * length));
            }
            (word, length) = (0, 0);
        }
        if byte.is_ascii_alphabetic() {
            if length < LONGEST_WORD {
                word |= u128::from(byte.to_ascii_lowercase()) << (8 * length);
            }
            length += 1;
        }
        was_small = byte.is_ascii_lowercase();
    }
    groups
}

/// The most letters of a word that is looked at.
const LONGEST_WORD: u32 = 15;

/// Words that the makers of pages give to parts of the same use, with the names of two features:
/// whether one is near a block, and whether one is anywhere around it.
pub(super) const CLASS_GROUPS: [(&str, &str, &str); 8] = [
    (
        "near_comment",
        "far_comment",
        "comment comments commentlist disqus respond reply replies discussion responses",
    ),
    (
        "near_related",
        "far_related",
        "related recommended recommendation recommendations recirc more also similar \
         upsell crosssell trending popular latest readmore teaser teasers promo suggested \
         next",
    ),
    (
        "near_news",
        "far_news",
        "newsletter subscribe subscription signup optin form cta banner",
    ),
    (
        "near_dialog",
        "far_dialog",
        "modal popup overlay cookie consent gdpr dialog drawer offcanvas tooltip",
    ),
    (
        "near_nav",
        "far_nav",
        "nav navbar menu navigation toc pagination pager links topbar masthead",
    ),
    ("near_foot", "far_foot", "footer foot copyright legal"),
    (
        "near_caption",
        "far_caption",
        "caption credit figcaption figure gallery carousel slider",
    ),
    (
        "near_rating",
        "far_rating",
        "rating review reviews stars testimonial testimonials",
    ),
];

static GROUPS: NameTable<u32> = {
    let mut groups = [(AUTHOR, AUTHOR_WORDS); CLASS_GROUPS.len() + 1];
    let mut at = 0;
    while at < CLASS_GROUPS.len() {
        groups[at] = (1 << at, CLASS_GROUPS[at].2);
        at += 1;
    }
    NameTable::of_words(&groups, 0)
};

/// The group of the first words of [`CLASS_GROUPS`].
pub(super) const COMMENT: u32 = 1;
/// The group of elements that name an author; the model does not see it.
pub(super) const AUTHOR: u32 = 1 << CLASS_GROUPS.len();
const AUTHOR_WORDS: &str = "author authors byline bylines writer contributor username poster";
