//! Pronouns that mean the last entity of their gender.
//!
//! Only pronouns that nearly always mean a person are used. "It" and "they" can mean anything,
//! and German "sie" or "ihr" often means "they" or "you". These are left out, because a wrong
//! entity is worse than a missing one.

use super::Gender;

/// The pronouns by language.
const PRONOUNS: &[(&str, Gender, &[&str])] = &[
    ("en", Gender::Male, &["he", "him", "his", "himself"]),
    ("en", Gender::Female, &["she", "her", "hers", "herself"]),
    ("de", Gender::Male, &["er", "ihn", "ihm"]),
    ("fr", Gender::Female, &["elle"]),
    ("es", Gender::Male, &["él"]),
    ("es", Gender::Female, &["ella"]),
    ("it", Gender::Male, &["lui"]),
    ("it", Gender::Female, &["lei"]),
    ("nl", Gender::Male, &["hij", "hem"]),
];

/// The length of the longest pronoun in characters.
pub(super) const LONGEST: usize = 7;

/// The gender of a pronoun of a language.
pub(super) fn gender(word: &str, language: &str) -> Option<Gender> {
    let lower = word.to_lowercase();
    let of_language = PRONOUNS.iter().filter(|(code, ..)| *code == language);
    let mut fitting = of_language.filter(|(.., words)| words.contains(&lower.as_str()));
    fitting.next().map(|(_, gender, _)| *gender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pronouns_of_persons() {
        assert_eq!(gender("She", "en"), Some(Gender::Female));
        assert_eq!(gender("himself", "en"), Some(Gender::Male));
        assert_eq!(gender("er", "de"), Some(Gender::Male));
        for (word, language) in [("it", "en"), ("sie", "de"), ("er", "en"), ("he", "sv")] {
            assert_eq!(gender(word, language), None, "{word}");
        }
        let all = PRONOUNS.iter().flat_map(|(.., words)| *words);
        assert_eq!(all.map(|word| word.chars().count()).max(), Some(LONGEST));
    }
}
