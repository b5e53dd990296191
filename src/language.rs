//! Which language a text is in.
//!
//! Recognised by `whatlang` from the letters alone: the script first, then the most
//! frequent groups of three letters (Cavnar and Trenkle 1994) and the letters that only
//! some alphabets have. It knows the 70 languages of [`Language::all`]; a text in
//! another one is taken for the most alike of them or for none.
//!
//! A page costs the same however long it is: only [`MAX_BYTES`] of its running text are
//! looked at. What is shorter than [`MIN_LETTERS`], or as like one language as
//! another, is in no language that anybody should act on.
//!
//! `lingua` is surer of single words and short lines, at the price of n-gram models of
//! 100 MB in the program for all languages; a page's text is long enough for trigrams.

use std::fmt;

use serde::{Deserialize, Serialize};
use whatlang::Lang;

/// Bytes of a page's running text by which its language is recognised. Of 400 pieces of
/// encyclopedia pages half as long each was recognised; a tenth of a millisecond goes to
/// this, and twice as much to four times as many bytes.
pub const MAX_BYTES: usize = 1 << 10;
/// Blocks of which these are the beginnings, at most.
const DRAWN: usize = 8;
/// Letters below which nothing is recognised.
pub const MIN_LETTERS: usize = 60;
/// The certainty above which a language is recognised, as whatlang has it.
const CERTAIN: f64 = 0.9;
/// Bytes of a block below which it is no running text, but a menu or a name, unless a
/// page has nothing else.
const RUNNING_BYTES: usize = 60;

/// A language that can be recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub struct Language(Lang);

/// What is no code of a language that can be recognised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no ISO 639 code of a language that can be recognised")]
pub struct UnknownLanguage(pub String);

impl Language {
    /// All that there are.
    pub fn all() -> impl Iterator<Item = Self> {
        Lang::all().iter().copied().map(Self)
    }

    /// The language of an ISO 639-1 or 639-3 code in any case, as `en` or `eng`.
    ///
    /// # Errors
    /// [`UnknownLanguage`] for everything else.
    pub fn of_code(code: &str) -> Result<Self, UnknownLanguage> {
        let lower = code.trim().to_ascii_lowercase();
        // The codes of the groups that the recognised one is the main language of.
        let code3 = match lower.as_str() {
            "zh" | "zho" => "cmn",
            "fa" | "fas" => "pes",
            "no" | "nor" => "nob",
            other => other,
        };
        Self::all()
            .find(|language| language.0.code() == code3 || language.code() == code3)
            .ok_or_else(|| UnknownLanguage(code.to_owned()))
    }

    /// Its shortest ISO 639 code, as BCP 47 asks for: two letters for each of them.
    pub fn code(self) -> &'static str {
        match self.0 {
            Lang::Epo => "eo",
            Lang::Eng => "en",
            Lang::Rus => "ru",
            Lang::Cmn => "zh",
            Lang::Spa => "es",
            Lang::Por => "pt",
            Lang::Ita => "it",
            Lang::Ben => "bn",
            Lang::Fra => "fr",
            Lang::Deu => "de",
            Lang::Ukr => "uk",
            Lang::Kat => "ka",
            Lang::Ara => "ar",
            Lang::Hin => "hi",
            Lang::Jpn => "ja",
            Lang::Heb => "he",
            Lang::Yid => "yi",
            Lang::Pol => "pl",
            Lang::Amh => "am",
            Lang::Jav => "jv",
            Lang::Kor => "ko",
            Lang::Nob => "nb",
            Lang::Dan => "da",
            Lang::Swe => "sv",
            Lang::Fin => "fi",
            Lang::Tur => "tr",
            Lang::Nld => "nl",
            Lang::Hun => "hu",
            Lang::Ces => "cs",
            Lang::Ell => "el",
            Lang::Bul => "bg",
            Lang::Bel => "be",
            Lang::Mar => "mr",
            Lang::Kan => "kn",
            Lang::Ron => "ro",
            Lang::Slv => "sl",
            Lang::Hrv => "hr",
            Lang::Srp => "sr",
            Lang::Mkd => "mk",
            Lang::Lit => "lt",
            Lang::Lav => "lv",
            Lang::Est => "et",
            Lang::Tam => "ta",
            Lang::Vie => "vi",
            Lang::Urd => "ur",
            Lang::Tha => "th",
            Lang::Guj => "gu",
            Lang::Uzb => "uz",
            Lang::Pan => "pa",
            Lang::Aze => "az",
            Lang::Ind => "id",
            Lang::Tel => "te",
            Lang::Pes => "fa",
            Lang::Mal => "ml",
            Lang::Ori => "or",
            Lang::Mya => "my",
            Lang::Nep => "ne",
            Lang::Sin => "si",
            Lang::Khm => "km",
            Lang::Tuk => "tk",
            Lang::Aka => "ak",
            Lang::Zul => "zu",
            Lang::Sna => "sn",
            Lang::Afr => "af",
            Lang::Lat => "la",
            Lang::Slk => "sk",
            Lang::Cat => "ca",
            Lang::Tgl => "tl",
            Lang::Hye => "hy",
            Lang::Cym => "cy",
        }
    }

    /// Its name in English.
    pub fn name(self) -> &'static str {
        self.0.eng_name()
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl From<Language> for &'static str {
    fn from(language: Language) -> Self {
        language.code()
    }
}

impl TryFrom<String> for Language {
    type Error = UnknownLanguage;

    fn try_from(code: String) -> Result<Self, UnknownLanguage> {
        Self::of_code(&code)
    }
}

/// The language of running text that comes in blocks; `None` where there is too little of
/// it, or where it is not certain.
///
/// Some blocks are drawn evenly from all, so that a notice at the top does not decide for
/// the whole page. Blocks of a few words are passed over unless there are no others: menus
/// and names are in the language of the site, or in none.
pub fn recognise<'a>(blocks: impl Iterator<Item = &'a str> + Clone) -> Option<Language> {
    guess(blocks).and_then(Guess::certain)
}

/// What a text is most like, and how certain that is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guess {
    /// The language.
    pub language: Language,
    /// From 0 to 1.
    pub certainty: f64,
}

impl Guess {
    /// The language, where somebody may act on it.
    pub fn certain(self) -> Option<Language> {
        (self.certainty > CERTAIN).then_some(self.language)
    }
}

/// The same with what is not certain; `None` where there is too little text.
pub fn guess<'a>(blocks: impl Iterator<Item = &'a str> + Clone) -> Option<Guess> {
    let running = blocks.clone().filter(|block| block.len() >= RUNNING_BYTES);
    let text = match sample(&running.collect::<Vec<_>>()) {
        none if none.is_empty() => sample(&blocks.collect::<Vec<_>>()),
        text => text,
    };
    if text.chars().filter(|c| c.is_alphabetic()).count() < MIN_LETTERS {
        return None;
    }
    let info = whatlang::detect(&text)?;
    Some(Guess {
        language: Language(info.lang()),
        certainty: info.confidence(),
    })
}

/// The beginnings of some of the blocks, a line each, [`MAX_BYTES`] at most.
fn sample(blocks: &[&str]) -> String {
    let drawn = blocks.len().min(DRAWN);
    let mut text = String::new();
    for i in 0..drawn {
        let block = blocks.get(i * blocks.len() / drawn).unwrap_or(&"");
        let end = (0..=(MAX_BYTES / drawn - 1).min(block.len()))
            .rev()
            .find(|at| block.is_char_boundary(*at))
            .unwrap_or(0);
        text.push_str(block.get(..end).unwrap_or_default());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn of(text: &str) -> Option<&'static str> {
        recognise(text.lines()).map(Language::code)
    }

    #[test]
    fn running_text_is_recognised() {
        for (text, code) in [
            (
                "The keeper of the lighthouse climbs the stairs every evening and lights the great lamp.",
                "en",
            ),
            (
                "Der Wärter des Leuchtturms steigt jeden Abend die Treppe hinauf und zündet die große Lampe an.",
                "de",
            ),
            (
                "Le gardien du phare monte chaque soir les marches et allume la grande lampe de la tour.",
                "fr",
            ),
            (
                "El guardián del faro sube cada noche las escaleras y enciende la gran lámpara de la torre.",
                "es",
            ),
            (
                "Смотритель маяка каждый вечер поднимается по лестнице и зажигает большую лампу на башне.",
                "ru",
            ),
            (
                "灯塔看守人每天晚上都会爬上楼梯，点燃塔顶的大灯，为海上的船只指引方向，让他们安全地回到港口。灯塔看守人每天晚上都会爬上楼梯，点燃塔顶的大灯。",
                "zh",
            ),
            (
                "灯台守は毎晩階段を上って、塔の上の大きなランプに火をともし、海の上の船が無事に港に帰れるように道を照らしています。夜明けにはそれを消します。",
                "ja",
            ),
            (
                "Ο φύλακας του φάρου ανεβαίνει κάθε βράδυ τις σκάλες και ανάβει τη μεγάλη λάμπα του πύργου.",
                "el",
            ),
        ] {
            assert_eq!(of(text), Some(code), "{text}");
        }
    }

    #[test]
    fn the_running_text_decides_and_not_the_menu() {
        let menu = "Home\nContact\nAbout the site\nSign in\nDeutsch\nFrançais\n".repeat(20);
        let text = "Der Wärter des Leuchtturms steigt jeden Abend die Treppe hinauf und zündet die große Lampe an.\n";
        assert_eq!(of(&format!("{menu}{text}")), Some("de"));
        let notice =
            "This site uses cookies for a better experience and to remember who you are.\n";
        assert_eq!(of(&format!("{notice}{}", text.repeat(9))), Some("de"));
    }

    #[test]
    fn little_and_unclear_text_is_in_no_language() {
        for text in [
            "",
            "Lighthouse",
            "12 345 678 9\n".repeat(50).as_str(),
            "GmbH OK 2.0",
        ] {
            assert_eq!(of(text), None, "{text:?}");
        }
    }

    #[test]
    fn every_language_has_codes_that_lead_to_it() {
        let codes: BTreeSet<&str> = Language::all().map(Language::code).collect();
        assert_eq!(codes.len(), Language::all().count());
        for language in Language::all() {
            assert_eq!(language.code().len(), 2);
            assert_eq!(Language::of_code(language.code()), Ok(language));
            assert_eq!(Language::of_code(language.0.code()), Ok(language));
            assert_eq!(
                Language::of_code(&language.code().to_uppercase()),
                Ok(language)
            );
            let json = serde_json::to_string(&language).unwrap();
            assert_eq!(serde_json::from_str::<Language>(&json).unwrap(), language);
        }
        for (code, expected) in [("zho", "zh"), ("no", "nb"), ("fas", "fa")] {
            assert_eq!(Language::of_code(code).map(Language::code), Ok(expected));
        }
        for wrong in ["", "e", "english", "xx", "en-gb"] {
            assert!(Language::of_code(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #![proptest_config(crate::tests::usual())]

        #[test]
        fn anything_is_in_a_language_or_in_none(blocks in proptest::collection::vec("\\PC{0,200}", 0..6)) {
            recognise(blocks.iter().map(String::as_str));
        }

        #[test]
        fn a_sample_is_bounded(blocks in proptest::collection::vec("[a-zäßあ ]{0,900}", 0..20)) {
            let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
            prop_assert!(sample(&blocks).len() <= MAX_BYTES);
        }
    }
}
