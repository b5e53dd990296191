//! A page from an untrusted author, rewritten so that showing it opens no connection.
//!
//! A browser opens more connections than a policy can forbid: for `<link rel=preconnect>`, or for a
//! frame that the policy then blocks. So the page is not shown as it is, but reduced to the text,
//! elements and attributes of the lists below, and style sheets. The policy of the response forbids
//! the addresses in those.
//!
//! A browser may parse the page differently from this module. That is harmless: in the output, `<`
//! only precedes the names of the lists. Texts and values are escaped; in a style sheet it becomes
//! a CSS escape.

use std::collections::HashSet;
use std::sync::LazyLock;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, State, Tokenizer};

/// The elements that are kept; others are removed, but their contents stay. Names with a hyphen
/// have no built-in meaning, so they are kept too.
const ELEMENTS: &str = "\
    a abbr acronym address annotation area article aside audio b bdi bdo big blockquote body br \
    button canvas caption center circle cite clippath code col colgroup data datalist dd defs \
    del desc details dfn dialog dir div dl dt ellipse em fieldset figcaption figure font footer \
    foreignobject form g h1 h2 h3 h4 h5 h6 head header hgroup hr html i img input ins kbd label \
    legend li line lineargradient listing main map mark marker marquee mask math menu meter \
    mfrac mi mn mo mover mpadded mphantom mroot mrow mspace msqrt mstyle msub msubsup msup \
    mtable mtd mtext mtr munder munderover nav nobr ol optgroup option output p path pattern \
    picture polygon polyline pre progress q radialgradient rect rp rt ruby s samp search section \
    select semantics slot small span stop strike strong style sub summary sup svg symbol table \
    tbody td template text textarea textpath tfoot th thead time title tr tspan tt u ul use var \
    video wbr";

/// The attributes that are kept, besides `data-` and `aria-`: no browser loads anything because of
/// them, unless a style refers to it.
const ATTRIBUTES: &str = "\
    abbr align alt axis bgcolor border cellpadding cellspacing char checked class clear clip- \
    path clip-rule color cols colspan compact coords cx cy d datetime dir direction disabled \
    display dx dy face fill fill-opacity fill-rule font-family font-size font-style font-weight \
    for frame fx fy gradienttransform gradientunits headers height hidden high hspace id label \
    lang link low marginheight marginwidth marker-end marker-mid marker-start markerheight \
    markerunits markerwidth mask max media min name noshade nowrap offset opacity open optimum \
    orient part pathlength patterntransform patternunits placeholder points preserveaspectratio \
    r readonly refx refy reversed role rotate rows rowspan rules rx ry scope selected \
    shadowrootmode shape size slot span start stop-color stop-opacity stroke stroke-dasharray \
    stroke-linecap stroke-linejoin stroke-opacity stroke-width style summary tabindex text text- \
    anchor title transform type usemap valign value vector-effect viewbox visibility vlink \
    vspace width wrap x x1 x2 y y1 y2";

/// The lists of elements and of attributes.
static KEPT: LazyLock<(HashSet<&str>, HashSet<&str>)> = LazyLock::new(|| {
    let names = |list: &'static str| list.split_ascii_whitespace().collect();
    (names(ELEMENTS), names(ATTRIBUTES))
});

/// Markup that shows the page as far as possible without loading anything. The response needs a
/// policy that lets styles load nothing from the network.
pub fn page(markup: &str) -> String {
    let mut page = InertPage {
        written: String::with_capacity(markup.len() + markup.len() / 8),
        ..InertPage::default()
    };
    let emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| page.event(event));
    let mut tokenizer = Tokenizer::new_with_emitter(markup, emitter);
    while let Some(Ok(state)) = tokenizer.next() {
        tokenizer.set_state(state);
    }
    drop(tokenizer);
    if page.is_kept {
        // The page ends within this tag.
        page.written.truncate(page.began);
    }
    page.written
}

#[derive(Debug, Default)]
struct InertPage {
    written: String,
    /// The name of the start tag being read.
    tag: Vec<u8>,
    /// Where it starts in the output.
    began: usize,
    /// Whether it is written.
    is_kept: bool,
    /// The attribute being read; its value comes next, if it has one.
    name: String,
    text: RawTextKind,
}

/// The meaning of the text between two tags.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum RawTextKind {
    #[default]
    Shown,
    Style,
    Hidden,
}

impl InertPage {
    /// Returns how to continue after a start tag whose contents are not markup.
    fn event(&mut self, event: CallbackEvent<'_>) -> Option<State> {
        match event {
            CallbackEvent::Doctype {
                name,
                public_identifier,
                system_identifier,
                force_quirks,
            } => {
                // Old pages without a doctype, or with a short one, are laid out by other rules.
                let is_standard = public_identifier.is_none() || system_identifier.is_some();
                if name == b"html" && !force_quirks && is_standard && self.written.is_empty() {
                    self.written.push_str("<!DOCTYPE html>");
                }
            }
            CallbackEvent::OpenStartTag { name } => {
                self.tag = name.to_vec();
                self.began = self.written.len();
                self.is_kept = kept(name).is_some_and(|name| {
                    self.written.push('<');
                    self.written.push_str(name);
                    true
                });
            }
            CallbackEvent::AttributeName { name } => {
                self.attribute("");
                self.name = String::from_utf8_lossy(name).into_owned();
            }
            CallbackEvent::AttributeValue { value } => {
                self.attribute(&String::from_utf8_lossy(value));
            }
            CallbackEvent::CloseStartTag { self_closing } => {
                self.attribute("");
                // An end tag may have attributes too.
                if std::mem::take(&mut self.is_kept) {
                    // Ends an element of a drawing.
                    self.written.push_str(if self_closing { "/>" } else { ">" });
                }
                let (state, text) = contents(&self.tag)?;
                self.text = text;
                return Some(state);
            }
            CallbackEvent::EndTag { name } => {
                self.text = RawTextKind::Shown;
                if let Some(name) = kept(name) {
                    self.written.push_str("</");
                    self.written.push_str(name);
                    self.written.push('>');
                }
            }
            CallbackEvent::String { value } => {
                let value = String::from_utf8_lossy(value);
                match self.text {
                    RawTextKind::Shown => self.escape(&value),
                    RawTextKind::Style => self.style(&value),
                    RawTextKind::Hidden => {}
                }
            }
            CallbackEvent::Comment { .. } | CallbackEvent::Error(_) => {}
        }
        None
    }

    /// Writes the attribute that was read.
    fn attribute(&mut self, value: &str) {
        let name = std::mem::take(&mut self.name);
        if self.is_kept && !name.is_empty() && is_inert(&self.tag, &name, value) {
            self.written.push(' ');
            self.written.push_str(&name);
            self.written.push_str("=\"");
            self.escape(value);
            self.written.push('"');
        }
    }

    /// A style sheet, in which no `<` can begin a tag. Old pages hide it in a comment.
    fn style(&mut self, sheet: &str) {
        for (at, part) in sheet.replace("<!--", "").split('<').enumerate() {
            let is_less_than = part.starts_with([' ', '=']);
            let between = if is_less_than { "<" } else { "\\3c " };
            self.written.push_str(if at == 0 { "" } else { between });
            self.written.push_str(part);
        }
    }

    fn escape(&mut self, text: &str) {
        for part in text.split_inclusive(['&', '<', '>', '"']) {
            let mut chars = part.chars();
            let escaped = match chars.next_back() {
                Some('&') => "&amp;",
                Some('<') => "&lt;",
                Some('>') => "&gt;",
                Some('"') => "&quot;",
                _ => {
                    self.written.push_str(part);
                    continue;
                }
            };
            self.written.push_str(chars.as_str());
            self.written.push_str(escaped);
        }
    }
}

/// The name under which an element is kept.
fn kept(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    match name {
        "xmp" | "plaintext" => Some("pre"),
        _ if !name.bytes().all(is_name) => None,
        _ => (name.contains('-') || KEPT.0.contains(name)).then_some(name),
    }
}

/// Whether a browser loads nothing because of an attribute.
fn is_inert(tag: &[u8], name: &str, value: &str) -> bool {
    let begins = |with: &str| {
        let start = value.trim_start().get(..with.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(with))
    };
    match name {
        "src" => (tag == b"img" || tag == b"input") && begins("data:image/"),
        // A reader who follows a link wants to go there. Addresses relative to the page's own
        // server would lead to ours.
        "href" if tag == b"a" || tag == b"area" => {
            ["#", "http://", "https://"].into_iter().any(begins)
        }
        "href" | "xlink:href" => value.starts_with('#'),
        _ => {
            let rest = name.strip_prefix("data-").or(name.strip_prefix("aria-"));
            let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
            rest.is_some_and(|rest| rest.bytes().all(is_name)) || KEPT.1.contains(name)
        }
    }
}

/// How to continue after a start tag, and what follows, if that is not markup. `noscript` contains
/// markup, because no script runs.
fn contents(tag: &[u8]) -> Option<(State, RawTextKind)> {
    Some(match tag {
        b"title" | b"textarea" => (State::RcData, RawTextKind::Shown),
        b"style" => (State::RawText, RawTextKind::Style),
        b"xmp" => (State::RawText, RawTextKind::Shown),
        b"plaintext" => (State::PlainText, RawTextKind::Shown),
        b"script" => (State::ScriptData, RawTextKind::Hidden),
        b"iframe" | b"noembed" | b"noframes" => (State::RawText, RawTextKind::Hidden),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use scraper::{Html, Node};

    #[test]
    fn what_connects_is_left_out_and_what_shows_the_page_stays() {
        for (stored, shown) in [
            (
                "<!DOCTYPE html><html lang=en><head><title>A &amp; B</title>\
                 <link rel=preconnect href=//h><meta http-equiv=refresh content='0;url=//h'>\
                 <base href=//h></head><body class=x hidden>",
                "<!DOCTYPE html><html lang=\"en\"><head><title>A &amp; B</title></head>\
                 <body class=\"x\" hidden=\"\">",
            ),
            (
                "<!DOCTYPE html PUBLIC \"-//W3C//DTD HTML 3.2//EN\"><p align=left>old",
                "<p align=\"left\">old",
            ),
            (
                "<img src=//h/a srcset=//h/b alt='a \"b\"' onerror=x><img src=' data:image/png;,'>",
                "<img alt=\"a &quot;b&quot;\"><img src=\" data:image/png;,\">",
            ),
            (
                "<a href=#x ping=//h>x</a><a href=HTTPS://h/ target=_blank>h</a>\
                 <a href='javascript:x'>j</a><a href=//h>r</a>",
                "<a href=\"#x\">x</a><a href=\"HTTPS://h/\">h</a><a>j</a><a>r</a>",
            ),
            (
                "<style media=print><!-- a < b, i{} </link> <link rel=preconnect> --></style>x",
                "<style media=\"print\"> a < b, i{} \\3c /link> \\3c link rel=preconnect> -->\
                 </style>x",
            ),
            (
                "<noscript><link rel=preconnect href=//h><p>quiet</noscript>",
                "<p>quiet",
            ),
            (
                "<iframe srcdoc='<link>'><p>no</iframe><script>'<p>'</script><object data=//h>\
                 <embed src=//h>else</object><video poster=//h src=//h><source src=//h></video>",
                "else<video></video>",
            ),
            (
                "<svg viewBox='0 0 1 1'><use href=#a /><use href=//h#a /><image href=//h />\
                 <path d=M0 /></svg><math><mi>x</mi></math>",
                "<svg viewbox=\"0 0 1 1\"><use href=\"#a\"/><use/><path d=\"M0\"/></svg>\
                 <math><mi>x</mi></math>",
            ),
            (
                "<my-card data-a='1' aria-label=b slot=c>d</my-card><x:y>e</x:y><template \
                 shadowrootmode=open>f</template>",
                "<my-card data-a=\"1\" aria-label=\"b\" slot=\"c\">d</my-card>e<template \
                 shadowrootmode=\"open\">f</template>",
            ),
            ("</p class=a><b>c<!-- d --><![CDATA[e]]>", "</p><b>c"),
            (
                "<textarea><link></textarea><xmp><link></xmp><plaintext></plaintext><link>",
                "<textarea>&lt;link&gt;</textarea><pre>&lt;link&gt;</pre>\
                 <pre>&lt;/plaintext&gt;&lt;link&gt;",
            ),
            ("<p>cut <a href='http://h/", "<p>cut "),
        ] {
            assert_eq!(page(stored), shown, "{stored}");
        }
    }

    /// Pieces of markup that browsers and tokenizers have interpreted differently.
    const PIECES: &str = "<link rel=preconnect href=http://h> <meta http-equiv=refresh> <base> \
        <iframe srcdoc=' <object data=x> <embed> <frameset> <noframes> </noframes> <noscript> \
        </noscript> <template> </template> <style> </style> <script> </script> <!-- --> --!> \
        <!--> <![CDATA[ ]]> <svg> </svg> <math> <mtext> <mglyph> <foreignObject> <desc> <title> \
        </title> <textarea> </textarea> <plaintext> <xmp> </xmp> <select> </select> <table> <td> \
        <form> <a title=\" <p/class=' \" ' ` > < </ <? & &lt; &lt;link&gt; \\3c \u{0} \r \n = / \
        src=http://h srcset style=a onload=x xlink:href=#a <a/href=http://h> </p/ x é";

    proptest! {
        #![proptest_config(spoor_testing::cases!(2_000))]

        /// For any input, and for any interpretation of the output by a browser, the output
        /// contains only what is listed.
        #[test]
        fn nothing_else_is_written(picks in prop::collection::vec(any::<(usize, bool)>(), 0..40)) {
            let pieces: Vec<&str> = PIECES.split(' ').collect();
            let stored: String = picks.iter().map(|(pick, spaced)| {
                format!("{}{}", pieces[pick % pieces.len()], if *spaced { " " } else { "" })
            }).collect();
            let shown = page(&stored);
            for (at, _) in shown.match_indices('<') {
                let rest = &shown[at + 1..];
                let name = rest.strip_prefix('/').unwrap_or(rest);
                let end = name.find([' ', '>', '/']).unwrap_or(name.len());
                prop_assert!(
                    rest.starts_with([' ', '='])
                        || at == 0 && rest.starts_with("!DOCTYPE html>")
                        || kept(&name.as_bytes()[..end]).is_some(),
                    "{stored:?} gives {shown:?}"
                );
            }
            for node in Html::parse_document(&shown).tree.values() {
                let Node::Element(element) = node else { continue };
                let name = element.name().to_ascii_lowercase();
                prop_assert!(kept(name.as_bytes()).is_some(), "{stored:?} gives {shown:?}");
                for (attribute, value) in element.attrs() {
                    let attribute = attribute.to_ascii_lowercase();
                    let is_inert = is_inert(name.as_bytes(), &attribute, value)
                        || attribute == "href" && value.starts_with('#');
                    prop_assert!(is_inert, "{stored:?} gives {shown:?}");
                }
            }
            prop_assert_eq!(page(&shown), shown);
        }
    }
}
