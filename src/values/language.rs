//! Language identification.
//!
//! The script comes first: that of most words, because a Chinese page may have more Latin letters
//! than Chinese characters, in names and code. `whatlang` then recognises a language from the
//! letters of this script, by the most frequent trigrams (Cavnar and Trenkle 1994) and by letters
//! that only some alphabets have. It knows the 70 languages of [`Language::all`]; a text in any
//! other language is reported as the most similar of these or as none.
//!
//! The cost does not depend on the length of a page: at most [`MAX_BYTES`] of its running
//! text are examined. Text shorter than [`MIN_LETTERS`], or equally similar to two
//! languages, gets no language.
//!
//! `lingua` is more accurate on single words and short lines, but its n-gram models would
//! add 100 MB to the program. A page's text is long enough for trigrams.

mod script;

use std::fmt;

use serde::{Deserialize, Serialize};
use whatlang::Lang;

/// Bytes of a page's running text that are examined. 400 of 400 excerpts of encyclopedia
/// pages half as long were recognised correctly. This takes a tenth of a millisecond, and
/// four times as many bytes take twice as long.
pub const MAX_BYTES: usize = 1 << 10;
/// The maximum number of blocks in the sample.
const DRAWN: usize = 8;
/// The fewest letters for which a language is recognised.
pub const MIN_LETTERS: usize = 60;
/// The confidence, as whatlang reports it, above which a result counts as certain.
const CERTAIN: f64 = 0.9;
/// Blocks shorter than this many bytes are not running text but menus or names. They are
/// used only if a page has nothing else.
const RUNNING_BYTES: usize = 60;

/// A language that can be recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub struct Language(Lang);

/// The code is not that of a known language.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the ISO 639 code of a language that spoor can recognise")]
pub struct UnknownLanguage(pub String);

impl Language {
    /// All known languages.
    pub fn all() -> impl Iterator<Item = Self> {
        Lang::all().iter().copied().map(Self)
    }

    /// The language of an ISO 639-1 or 639-3 code in any case, such as `en` or `eng`.
    ///
    /// # Errors
    ///
    /// [`UnknownLanguage`] for any other text.
    pub fn of_code(code: &str) -> Result<Self, UnknownLanguage> {
        let lower = code.trim().to_ascii_lowercase();
        // Codes of macrolanguages whose main language is the recognised one.
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

    /// The shortest ISO 639 code, as BCP 47 requires; all of these languages have one of
    /// two letters.
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

    /// The English name.
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

/// Recognises the language of running text that comes in blocks; `None` if there is too
/// little text or the result is not certain.
///
/// The sample is spread evenly over all blocks, so that a notice at the top does not
/// decide for the whole page. Blocks of a few words are skipped unless there are no
/// others: menus and names are in the language of the site, or in none.
pub fn recognise<'a>(blocks: impl Iterator<Item = &'a str> + Clone) -> Option<Language> {
    guess(blocks).and_then(Guess::certain)
}

/// The most similar language and the confidence in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guess {
    /// The language.
    pub language: Language,
    /// From 0 to 1.
    pub certainty: f64,
}

impl Guess {
    /// The language, if the confidence is high enough to act on.
    pub fn certain(self) -> Option<Language> {
        (self.certainty > CERTAIN).then_some(self.language)
    }
}

/// Like [`recognise`], but includes uncertain results; `None` if there is too little text.
pub fn guess<'a>(blocks: impl Iterator<Item = &'a str> + Clone) -> Option<Guess> {
    let running = blocks.clone().filter(|block| block.len() >= RUNNING_BYTES);
    let text = match sample(&running.collect::<Vec<_>>()) {
        none if none.is_empty() => sample(&blocks.collect::<Vec<_>>()),
        text => text,
    };
    let (text, writing) = script::of_most_words(&text);
    let letters: usize = text.chars().map(|c| writing.letters(c)).sum();
    if letters < MIN_LETTERS {
        return None;
    }
    if let Some(language) = writing.east_asian(&text) {
        return Some(Guess {
            language: Language(language),
            certainty: 1.0,
        });
    }
    let info = whatlang::detect(&text)?;
    Some(Guess {
        language: Language(info.lang()),
        certainty: info.confidence(),
    })
}

/// The beginnings of some blocks, one per line, [`MAX_BYTES`] at most.
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

    /// Sentences with names and code in Latin letters, and Latin sentences with words in other
    /// scripts.
    #[test]
    fn names_and_code_in_other_letters_do_not_decide() {
        for (text, code) in [
            (
                "dcli 是一个简单的数据库管理工具，平时工作中需要通过 mysql-client 连接到多个 mysql server，\
              每次连接都需要输入 username password host port 参数。支持 OpenSSL native_tls feature",
                "zh",
            ),
            (
                "東京都渋谷区の株式会社 Example Software は Rust と Kubernetes の技術者を募集中です。",
                "ja",
            ),
            (
                "日本国憲法第九条戦争放棄条文全文、日本国民は正義と秩序を基調とする国際平和を誠実に希求し。",
                "ja",
            ),
            (
                "등대는 밤바다를 비추는 건물입니다. LED lamp 를 사용하는 lighthouse 도 있고 Wi-Fi 도 있습니다.",
                "ko",
            ),
            (
                "يضيء الحارس Keeper المنارة كل ليلة بمصباح LED من شركة Philips Lighting International حتى ترى السفن الطريق إلى الميناء في الظلام والضباب",
                "ar",
            ),
            (
                "ประภาคารส่องแสงในเวลากลางคืนด้วย LED lamp ของ Philips Lighting International Company",
                "th",
            ),
            (
                "Смотритель маяка включает лампу Philips MasterColour CDM Elite каждый вечер на башне.",
                "ru",
            ),
            (
                "Ο φύλακας του φάρου ανάβει τη λάμπα Philips MasterColour CDM Elite κάθε βράδυ στον πύργο.",
                "el",
            ),
            (
                "השומר של המגדלור מדליק את המנורה Philips MasterColour CDM Elite בכל ערב בראש המגדל",
                "he",
            ),
            (
                "दीपस्तंभ का रखवाला हर शाम Philips MasterColour CDM Elite दीपक जलाता है और समुद्र को देखता है, ताकि जहाज अंधेरे में बंदरगाह का रास्ता पा सकें और सुबह होने पर वह उसे बुझा देता है।",
                "hi",
            ),
            (
                "The word 灯塔 is read dēngtǎ in Chinese, and 灯台 is read tōdai in Japanese; both mean lighthouse.",
                "en",
            ),
            (
                "Das Wort φάρος kommt von der Insel Φάρος vor Alexandria, auf der der alte Leuchtturm stand.",
                "de",
            ),
        ] {
            assert_eq!(of(&format!("{text}\n").repeat(3)), Some(code), "{text}");
        }
        // Paragraphs in two languages: the one with more words wins.
        let english =
            "The keeper climbs the stairs of the tower every evening and lights the lamp.\n";
        let chinese = "灯塔看守人每天晚上都会爬上楼梯，点燃塔顶的大灯，为海上的船只指引方向。\n";
        assert_eq!(of(&format!("{english}{}", chinese.repeat(3))), Some("zh"));
        assert_eq!(of(&format!("{}{chinese}", english.repeat(3))), Some("en"));
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
        #![proptest_config(spoor_testing::usual!())]

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
