//! Reads markup as a bare token stream, if no tree can be built.
//!
//! Time is linear in the text and the stack does not grow, for any markup. Without a tree
//! it is unknown which end tag ends which element, so images have no parents and siblings,
//! and `hidden` is ignored. The content of raw text elements, including `noscript`, is
//! skipped.

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

use crate::address::PageUrl;
use crate::page::Extracted;

use super::Options;
use super::attributes::ElementAttributes;
use super::html::{Collector, base_of};
use super::json_ld;
use super::text::{Layout, TextRole, role};

/// The most attributes of one tag that are kept.
const MAX_ATTRIBUTES: usize = 64;

/// The page from the tokens, like [`super::html::walk`].
pub(super) fn walk(page: &PageUrl, html: &str, options: &Options) -> (Extracted, Layout) {
    let mut collector = Collector::new(page, base(page, html), options);
    // It rests on the elements around each text.
    collector.written = None;
    let mut stream = TokenStream {
        collector,
        tag: Tag::default(),
        void: None,
        json_ld: None,
        in_link: false,
    };
    tokens(html, |event| {
        stream.event(event);
        None::<()>
    });
    stream.collector.finish()
}

/// Runs the tokenizer until `on_event` returns a value.
fn tokens<T>(html: &str, mut on_event: impl FnMut(CallbackEvent<'_>) -> Option<T>) -> Option<T> {
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| on_event(event));
    emitter.naively_switch_states(true);
    Tokenizer::new_with_emitter(html, emitter)
        .next()
        .and_then(Result::ok)
}

#[derive(Debug, Default)]
struct Tag {
    name: String,
    attributes: Vec<(String, String)>,
    /// The latest attribute is a duplicate or beyond the limit.
    ignored: bool,
}

impl Tag {
    fn begin(&mut self, name: &[u8]) {
        self.name = String::from_utf8_lossy(name).into_owned();
        self.attributes.clear();
        self.ignored = true;
    }

    fn attribute(&mut self, name: &[u8]) {
        let name = String::from_utf8_lossy(name);
        self.ignored = self.attributes.len() >= MAX_ATTRIBUTES || self.get(&name).is_some();
        if !self.ignored {
            self.attributes.push((name.into_owned(), String::new()));
        }
    }

    fn value(&mut self, value: &[u8]) {
        if let Some((_, last)) = self.attributes.last_mut()
            && !self.ignored
        {
            *last = String::from_utf8_lossy(value).into_owned();
        }
    }
}

impl ElementAttributes for Tag {
    fn get(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let attributes = self.attributes.iter();
        attributes.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

struct TokenStream<'a> {
    collector: Collector<'a>,
    tag: Tag,
    /// The void element that is open.
    void: Option<String>,
    /// The JSON-LD script that is open.
    json_ld: Option<String>,
    in_link: bool,
}

impl TokenStream<'_> {
    fn event(&mut self, event: CallbackEvent<'_>) {
        match event {
            CallbackEvent::OpenStartTag { name } => self.tag.begin(name),
            CallbackEvent::AttributeName { name } => self.tag.attribute(name),
            CallbackEvent::AttributeValue { value } => self.tag.value(value),
            CallbackEvent::CloseStartTag { self_closing } => self.start(self_closing),
            CallbackEvent::EndTag { name } => self.end(&String::from_utf8_lossy(name)),
            CallbackEvent::String { value } if self.void.is_none() => {
                self.collector.text(&String::from_utf8_lossy(value), false);
            }
            CallbackEvent::String { value } => {
                if let Some(json) = &mut self.json_ld {
                    json.push_str(&String::from_utf8_lossy(value));
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, self_closing: bool) {
        let role = role(&self.tag.name);
        if self.void.is_some() {
            // A void element that is never closed must not swallow the page.
            if role != TextRole::Block {
                return;
            }
            self.void = None;
            self.json_ld = None;
        }
        if role == TextRole::Void || self.tag.name == "noscript" {
            let ends_at_once = self_closing && matches!(self.tag.name.as_str(), "svg" | "math");
            if !ends_at_once {
                self.void = Some(self.tag.name.clone());
                self.json_ld = json_ld::is_script(&self.tag.name, &self.tag).then(String::new);
            }
        }
        if self.tag.name == "a" {
            if self.in_link {
                self.collector.close("a", role);
            }
            self.in_link = true;
        }
        self.collector.open(&self.tag.name, role, None, &self.tag);
    }

    fn end(&mut self, name: &str) {
        match &self.void {
            Some(void) if void == name => {
                self.void = None;
                if let Some(json) = self.json_ld.take() {
                    self.collector.json_ld(&json);
                }
            }
            Some(_) => {}
            None if name == "a" && !self.in_link => {}
            None => {
                self.in_link &= name != "a";
                self.collector.close(name, role(name));
            }
        }
    }
}

fn base(page: &PageUrl, html: &str) -> PageUrl {
    let mut tag = Tag::default();
    tokens(html, |event| {
        match event {
            CallbackEvent::OpenStartTag { name } => tag.begin(name),
            CallbackEvent::AttributeName { name } => tag.attribute(name),
            CallbackEvent::AttributeValue { value } => tag.value(value),
            CallbackEvent::CloseStartTag { .. } if tag.name == "base" => {
                return tag.get("href").map(|href| base_of(page, href));
            }
            _ => {}
        }
        None
    })
    .unwrap_or_else(|| page.clone())
}
