//! Entities in a text.

use std::cell::RefCell;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::index::EntityRecord;
use super::paragraph::{Paragraph, bounds};
use super::written::{is_boundary, places};
use super::{Gender, Index};

/// A field of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Field {
    /// Its title.
    Title,
    /// Its text.
    Text,
}

/// An entity at a place in a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mention {
    /// In the title or in the text.
    #[serde(rename = "in")]
    pub field: Field,
    /// The first character, from 0.
    pub from: u32,
    /// The character after the last one.
    pub to: u32,
    /// The text there.
    pub surface: String,
    /// The name of the entity.
    pub entity: String,
    /// Its number in Wikidata, or its name.
    pub id: String,
    /// Its classes.
    pub classes: Vec<String>,
    /// The number of the sentence in the field, from 0.
    pub sentence: u32,
    /// The number of the paragraph, from 0.
    pub paragraph: u32,
    /// Whether it is a pronoun.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pronoun: bool,
}

/// The positions of words in a sentence: start and end in its characters, in order.
pub type Words = Vec<(u32, u32)>;

/// Returns the nouns of a sentence; `None` if they are not known.
pub type Nouns<'t> = &'t dyn Fn(&str) -> Option<Words>;

/// A document to look in.
#[derive(Clone, Copy, Default)]
pub struct Text<'t> {
    /// Its title.
    pub title: Option<&'t str>,
    /// Its text; an empty line separates two paragraphs.
    pub text: &'t str,
    /// The code of its language, which selects the pronouns.
    pub language: Option<&'t str>,
    /// Recognises nouns. If set, a match in the text must be a noun, or have a capital letter
    /// within a sentence.
    pub nouns: Option<Nouns<'t>>,
}

/// Finds the entities of an index.
#[derive(Debug, Clone)]
pub struct Finder {
    index: Arc<Index>,
    /// Whether pronouns are resolved.
    pronouns: bool,
    /// Whether parts of longer names are left out.
    whole_names: bool,
}

/// A candidate for some places.
#[derive(Clone, Copy)]
enum What {
    Entity(u64),
    Pronoun(Gender),
}

#[derive(Clone, Copy)]
struct EntityCandidate {
    from: usize,
    /// The last place.
    last: usize,
    what: What,
}

/// The persons mentioned so far.
#[derive(Default)]
struct PersonMentions {
    female: Option<(u64, u32)>,
    male: Option<(u64, u32)>,
}

impl PersonMentions {
    fn of(&mut self, gender: Gender) -> Option<&mut Option<(u64, u32)>> {
        match gender {
            Gender::None => None,
            Gender::Female => Some(&mut self.female),
            Gender::Male => Some(&mut self.male),
        }
    }
}

impl Finder {
    /// A finder for an index.
    pub fn new(index: Arc<Index>, pronouns: bool) -> Self {
        Self {
            index,
            pronouns,
            whole_names: false,
        }
    }

    /// The same, but leaves out single words that are part of a longer name, if `whole_names`
    /// is set.
    pub fn whole_names(self, whole_names: bool) -> Self {
        Self {
            whole_names,
            ..self
        }
    }

    /// The index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The entities of a document in their order, those of the title first.
    pub fn find(&self, text: Text<'_>) -> Vec<Mention> {
        let mut found = Vec::new();
        let mut said = PersonMentions::default();
        let title = text.title.unwrap_or_default();
        let whole = Text {
            text: title,
            nouns: None,
            ..text
        };
        self.in_field(Field::Title, whole, &mut said, &mut found);
        self.in_field(Field::Text, text, &mut said, &mut found);
        found
    }

    fn in_field(
        &self,
        field: Field,
        text: Text<'_>,
        said: &mut PersonMentions,
        found: &mut Vec<Mention>,
    ) {
        let mut begin = (0, 0);
        let (mut sentences, mut paragraphs) = (0, 0);
        let mut all = Vec::new();
        for part in text.text.split("\n\n") {
            if !part.trim().is_empty() {
                let bounds = bounds(part, begin.0, sentences);
                places(part, begin, &mut all);
                let paragraph = Paragraph {
                    field,
                    text,
                    places: &all,
                    sentences: &bounds,
                    end: begin.0 + part.len(),
                    number: paragraphs,
                    nouns: RefCell::default(),
                };
                self.in_paragraph(&paragraph, said, found);
                sentences = bounds.last().map_or(sentences, |(_, number)| number + 1);
                paragraphs += 1;
            }
            begin.0 += part.len() + 2;
            begin.1 += part.chars().count() + 2;
        }
    }

    fn in_paragraph(
        &self,
        paragraph: &Paragraph<'_>,
        said: &mut PersonMentions,
        found: &mut Vec<Mention>,
    ) {
        for candidate in resolved(self.candidates(paragraph), paragraph.places.len()) {
            // The title and the first paragraph follow one another.
            let now = match paragraph.field {
                Field::Title => 0,
                Field::Text => paragraph.number + 1,
            };
            let (number, record) = match candidate.what {
                What::Entity(number) => (number, self.index.record(number)),
                What::Pronoun(gender) => {
                    let last = said.of(gender).and_then(|last| *last);
                    match last.filter(|(_, when)| self.pronouns && when + 1 >= now) {
                        Some((number, _)) => (number, self.index.record(number)),
                        None => continue,
                    }
                }
            };
            let Some(record) = record else { continue };
            if let Some(last) = said.of(record.gender) {
                *last = Some((number, now));
            }
            let is_pronoun = matches!(candidate.what, What::Pronoun(_));
            found.extend(self.mention(paragraph, candidate, record, is_pronoun));
        }
    }

    /// All aliases and pronouns of a paragraph.
    fn candidates(&self, paragraph: &Paragraph<'_>) -> Vec<EntityCandidate> {
        let places = paragraph.places;
        let c = |at: usize| places.get(at).map(|place| place.c);
        let mut all = Vec::new();
        for from in 0..places.len() {
            let before = from.checked_sub(1).and_then(c);
            if c(from) == Some(' ') || !is_boundary(before, c(from)) {
                continue;
            }
            if let Some((last, gender)) = paragraph.pronoun(from) {
                let what = What::Pronoun(gender);
                all.push(EntityCandidate { from, last, what });
                continue;
            }
            let mut walk = self.index.walk();
            for (last, place) in places.iter().enumerate().skip(from) {
                let Some(on) = walk.on(place.c) else { break };
                walk = on;
                if let Some(entity) = walk.ends()
                    && is_boundary(Some(place.c), c(last + 1))
                    && paragraph.is_noun(from, last)
                    && !(self.whole_names && paragraph.is_in_longer_name(from, last))
                {
                    let what = What::Entity(entity);
                    all.push(EntityCandidate { from, last, what });
                }
            }
        }
        all
    }

    fn mention(
        &self,
        paragraph: &Paragraph<'_>,
        candidate: EntityCandidate,
        record: EntityRecord,
        pronoun: bool,
    ) -> Option<Mention> {
        let from = paragraph.places.get(candidate.from)?;
        let last = paragraph.places.get(candidate.last)?;
        let rest = paragraph.text.text.get(last.byte as usize..)?;
        let end = last.byte as usize + rest.chars().next()?.len_utf8();
        Some(Mention {
            field: paragraph.field,
            from: from.at,
            to: last.at + 1,
            surface: paragraph.text.text.get(from.byte as usize..end)?.to_owned(),
            classes: self.index.classes_of(&record),
            entity: record.name,
            id: record.id,
            sentence: paragraph.sentence(from),
            paragraph: paragraph.number,
            pronoun,
        })
    }
}

/// Of overlapping matches keeps the longest, and of equally long ones the first; in order.
fn resolved(mut all: Vec<EntityCandidate>, places: usize) -> Vec<EntityCandidate> {
    all.sort_by_key(|candidate| {
        let length = candidate.last - candidate.from;
        (std::cmp::Reverse(length), candidate.from)
    });
    let mut taken = vec![false; places];
    all.retain(|candidate| {
        let Some(range) = taken.get_mut(candidate.from..=candidate.last) else {
            return false;
        };
        let is_free = !range.contains(&true);
        if is_free {
            range.fill(true);
        }
        is_free
    });
    all.sort_by_key(|candidate| candidate.from);
    all
}
