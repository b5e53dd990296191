//! Stems by the Snowball algorithms.

use waken_snowball::Algorithm;

use crate::language::Language;

/// Languages with an algorithm.
const ALGORITHMS: &[(&str, Algorithm)] = &[
    ("ar", Algorithm::Arabic),
    ("ca", Algorithm::Catalan),
    ("da", Algorithm::Danish),
    ("de", Algorithm::German),
    ("el", Algorithm::Greek),
    ("en", Algorithm::English),
    ("eo", Algorithm::Esperanto),
    ("es", Algorithm::Spanish),
    ("et", Algorithm::Estonian),
    ("fi", Algorithm::Finnish),
    ("fr", Algorithm::French),
    ("hi", Algorithm::Hindi),
    ("hu", Algorithm::Hungarian),
    ("hy", Algorithm::Armenian),
    ("id", Algorithm::Indonesian),
    ("it", Algorithm::Italian),
    ("lt", Algorithm::Lithuanian),
    ("nb", Algorithm::Norwegian),
    ("ne", Algorithm::Nepali),
    ("nl", Algorithm::Dutch),
    ("pt", Algorithm::Portuguese),
    ("ro", Algorithm::Romanian),
    ("ru", Algorithm::Russian),
    ("sr", Algorithm::Serbian),
    ("sv", Algorithm::Swedish),
    ("ta", Algorithm::Tamil),
    ("tr", Algorithm::Turkish),
    ("yi", Algorithm::Yiddish),
];

/// The stemmer of a language.
#[derive(Debug, Clone, Copy)]
pub struct Stemmer(Algorithm);

/// A prefix whose English words were cut too short before Snowball 3.1: "international" and
/// "interval" had the same stem as "intern".
const INTER: &str = "inter";
/// A substitute prefix with which Snowball 3.0 cuts as 3.1 does with the real one: of the same
/// length, with the same letters at its end.
const LIKE_INTER: &str = "gener";

impl Stemmer {
    /// The stemmer of a language by its code, if there is one.
    pub fn of(language: &str) -> Option<Self> {
        let mut all = ALGORITHMS.iter().filter(|(code, _)| *code == language);
        all.next().map(|(_, algorithm)| Self(*algorithm))
    }

    /// The languages with a stemmer.
    pub fn languages() -> impl Iterator<Item = Language> {
        let codes = ALGORITHMS.iter().map(|(code, _)| *code);
        codes.filter_map(|code| Language::of_code(code).ok())
    }

    /// The stem of a word, in lower case.
    pub fn stem(self, word: &str) -> String {
        let lower = word.to_lowercase().replace('\u{2019}', "'");
        let rest = lower
            .strip_prefix(INTER)
            .filter(|_| self.0 == Algorithm::English);
        let Some(rest) = rest else {
            return waken_snowball::stem(self.0, &lower).into_owned();
        };
        let like = format!("{LIKE_INTER}{rest}");
        let stem = waken_snowball::stem(self.0, &like);
        match stem.strip_prefix(LIKE_INTER) {
            Some(rest) => format!("{INTER}{rest}"),
            None => stem.into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every 250th word of the lists of Debian's wamerican and wngerman, all words on which
    /// Words from the built-in frequencies, and some on which versions of Snowball differ, with
    /// the stems of PyPI's snowballstemmer 3.1.1.
    const SAMPLES: [(&str, &str); 2] = [
        ("en", include_str!("stems/en.tsv")),
        ("de", include_str!("stems/de.tsv")),
    ];

    #[test]
    fn stems_are_those_of_snowball() {
        for (language, sample) in SAMPLES {
            let stemmer = Stemmer::of(language).unwrap();
            let mut words = 0;
            for line in sample.lines() {
                let (word, stem) = line.split_once('\t').unwrap();
                assert_eq!(stemmer.stem(word), stem, "{word}");
                words += 1;
            }
            assert!(words > 400, "{language}: {words}");
        }
    }

    /// The whole lists, where they are installed with Python's snowballstemmer: needs the
    /// packages wamerican and wngerman, and the stems in the files that
    /// `SPOOR_STEMS_EN` and `SPOOR_STEMS_DE` name, a word and its stem in each line.
    #[test]
    #[ignore = "needs lists of stems"]
    fn stems_of_whole_lists_are_those_of_snowball() {
        for language in ["en", "de"] {
            let name = format!("SPOOR_STEMS_{}", language.to_uppercase());
            let Ok(path) = std::env::var(&name) else {
                eprintln!("skipped: {name} names no list");
                continue;
            };
            let list = std::fs::read_to_string(path).unwrap();
            let stemmer = Stemmer::of(language).unwrap();
            let differ = |line: &&str| {
                let (word, stem) = line.split_once('\t').unwrap();
                stemmer.stem(word) != stem
            };
            let differing: Vec<&str> = list.lines().filter(differ).collect();
            eprintln!("{language}: {} words", list.lines().count());
            assert_eq!(differing, [] as [&str; 0]);
        }
    }

    #[test]
    fn every_language_is_known() {
        assert_eq!(
            Stemmer::languages().count(),
            ALGORITHMS.len() - unknown().len()
        );
        assert_eq!(Stemmer::of("de").unwrap().stem("Häuser"), "haus");
        assert_eq!(Stemmer::of("en").unwrap().stem("Don\u{2019}t"), "don't");
        assert!(Stemmer::of("zh").is_none());
    }

    /// Languages that spoor does not recognise but a user may name.
    fn unknown() -> Vec<&'static str> {
        let codes = ALGORITHMS.iter().map(|(code, _)| *code);
        codes
            .filter(|code| Language::of_code(code).is_err())
            .collect()
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn no_word_panics(word in "\\PC{0,20}|(inter|gener)?[a-z'’yäößüéıİşğ]{0,12}|[а-яё]{0,9}|[α-ωά]{0,9}|[ء-ي]{0,9}|[ऀ-ॿ]{0,9}|[஀-௿]{0,9}") {
            for (code, _) in ALGORITHMS {
                Stemmer::of(code).unwrap().stem(&word);
            }
        }
    }
}
