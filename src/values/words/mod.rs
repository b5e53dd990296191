//! Words: running text becomes normalised [`Sentence`]s of tokens.
//!
//! Sentences and words are split by Unicode UAX #29. Only the letters of a word and their combining
//! marks are kept, in lower case:
//!
//! - digits and invisible characters (soft hyphen, joiners, variation selectors) are removed
//!   without separating: `mp3` becomes `mp`, and `99` gives no token;
//! - every other character, including the apostrophe, separates tokens: `don't` becomes `don t`,
//!   `l'homme` becomes `l homme`, and `cat's` becomes `cat s`, which contains the keyword `cat`.
//!   KenLM's reference corpora use the same form;
//! - scripts without spaces are split as UAX #29 does: one token per Han, Hiragana or Thai
//!   character, while runs of Katakana and Hangul stay whole;
//! - no Unicode normalisation form is applied, because web pages are in NFC.
//!
//! Fingerprints, training, documents, anchors, alt texts and keyword tables all use this module,
//! and no other code in spoor may split or lower-case words. The text of a page is split once, when
//! it is extracted ([`Tokens`]). `letters` has the classes of characters, `bounds` finds sentence
//! ends quickly, [`WordMap`] maps words to values, [`Distinct`] numbers them, and [`count()`]
//! counts the words of a text as people do.

mod bounds;
mod count;
mod distinct;
mod letters;
mod map;
mod sentence;
mod tokens;

pub use bounds::bounded_sentences;
pub use count::count;
pub use distinct::Distinct;
pub use map::WordMap;
pub use map::packed;
pub use sentence::{MIN_TOKENS, Sentence, normalise, sentences};
pub use tokens::{Block, Tokens};
