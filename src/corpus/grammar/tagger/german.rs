//! German nouns, by a model without capitals combined with the spelling.
//!
//! Within a sentence capital letters identify nouns better than any model. They say nothing
//! about the first word of a sentence, a headline in capitals, or a text without capitals:
//! there the model decides.

use super::UNKNOWN;
use crate::grammar::is_noun;

/// Corrects the tags of a sentence that the model gave by the spelling. `is_no_noun` says
/// whether a word is known to be something else.
pub(super) fn spelled<'t>(
    sentence: &[&str],
    mut tags: Vec<&'t str>,
    is_no_noun: impl Fn(&str) -> bool,
) -> Vec<&'t str> {
    let begins = |word: &str, fits: fn(char) -> bool| word.chars().next().is_some_and(fits);
    let has_capitals = sentence.iter().any(|word| begins(word, char::is_uppercase));
    let has_others = sentence.iter().any(|word| begins(word, char::is_lowercase));
    let mut is_first = true;
    for (word, tag) in sentence.iter().zip(&mut tags) {
        let is_word = word.chars().any(char::is_alphabetic);
        let is_begin = std::mem::take(&mut is_first);
        is_first = is_begin && !is_word;
        *tag = if !is_word {
            "NUM"
        } else if !begins(word, char::is_uppercase) {
            // In a text with capitals, nouns have them.
            if has_capitals && is_noun(tag) {
                UNKNOWN
            } else {
                tag
            }
        } else if is_begin || (!has_others && is_shouted(word)) {
            tag
        } else if is_polite(word) || (!has_others && is_no_noun(word)) {
            UNKNOWN
        } else {
            "NOUN"
        };
    }
    tags
}

/// Whether a word is all in capitals.
fn is_shouted(word: &str) -> bool {
    word.chars().filter(|c| c.is_alphabetic()).count() > 1 && !word.chars().any(char::is_lowercase)
}

/// "Sie", "Ihnen" are the polite form.
fn is_polite(word: &str) -> bool {
    matches!(
        word,
        "Sie" | "Ihnen" | "Ihr" | "Ihre" | "Ihrem" | "Ihren" | "Ihrer" | "Ihres"
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Tagger, nouns, tags};
    use super::*;
    use crate::grammar::{Token, tokens};

    fn found(text: &str) -> Vec<String> {
        let tagger = Tagger::built_in("de").unwrap();
        let tokens = tokens(text);
        let tags = tags(&tagger, &tokens);
        let nouns = tokens.iter().zip(tags).filter(|(_, tag)| tag == "NOUN");
        nouns.map(|(token, _)| token.text.to_owned()).collect()
    }

    #[test]
    fn german_nouns_are_found_with_and_without_capitals() {
        let text = "Gestern fuhr der alte Mann für Sie 3 km nach Berlin.";
        assert_eq!(found(text), ["Mann", "Berlin"]);
        assert_eq!(found("Häuser stehen am Fluss."), ["Häuser", "Fluss"]);
        let headline = "DIE STADT PLANT EINEN NEUEN BAHNHOF";
        assert_eq!(found(headline), ["STADT", "BAHNHOF"]);
        assert_eq!(found(&headline.to_lowercase()), ["stadt", "bahnhof"]);
        assert!(found("").is_empty());

        let text = "Gestern fuhr er nach Berlin. Wiesbach liegt 3 km weiter. Die Brücke.";
        let tagger = Tagger::built_in("de").unwrap();
        let places = nouns(&tagger, &tokens(text));
        let chars: Vec<char> = text.chars().collect();
        let words: Vec<String> = places
            .iter()
            .map(|(from, to)| chars[*from as usize..*to as usize].iter().collect())
            .collect();
        // "Wiesbach" may be a name; "Die" is not.
        assert!(words.iter().any(|word| word == "Wiesbach"), "{words:?}");
        assert!(words.iter().any(|word| word == "3"), "{words:?}");
        assert!(words.iter().all(|word| word != "Die"), "{words:?}");
    }

    /// Nouns at the beginnings of sentences, labelled by hand.
    const FIRST: &str = "Auerfelden Beetrosen Beuten Bienen Blattläuse Bohrlöcher Briefe Deckel Drohnen \
        Eltern Faulbrut Fotografen Fotos Fragen Frühschwimmer Fundsachen Führungen \
        Gartenabfälle Gefahr Gekochtes Gläser Gurken Gäste Hefeteig Heizer Honig Hornissen \
        Hunde Höhepunkt Imker Karten Kinder Kochen Ladesäulen Leimringe Licht Lindenhonig \
        Linsensuppe Moos Möbel Möhren Notenkenntnisse Phacelia Plätze Pottasche Raps \
        Rapshonig Reste Rosen Sauerkraut Schiedsrichter Schulklassen Schwarmbienen \
        Schönheitsreparaturen Sperrmüll Süßkirschen Tomaten Torwart Trainer \
        Unwetterwarnungen Verblühtes Wespen Wildbienen Zucchini Zuschriften";

    /// Capitalised words within a sentence that are not nouns.
    const NOT: &str =
        "Amerikanischer Freiwillige Gemeine Hat Ihr Ihre Kaltenbrunner Mit Sie Unsere";

    /// The sentences of the German test web, which was not used for training.
    fn sentences() -> Vec<String> {
        let train = include_str!("../../../../tests/fixtures/german/train.txt");
        let web = include_str!("../../../../tests/fixtures/german/web.txt");
        let link = regex::Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap();
        let lines = train.lines().chain(web.lines());
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['@', '=', '/']));
        lines
            .map(|line| link.replace_all(line, "$1").into_owned())
            .collect()
    }

    /// Nouns, words tagged as nouns, and nouns tagged as nouns: among all words, and among the
    /// first words of sentences.
    fn counted(shown: impl Fn(&str) -> String) -> [(u32, u32, u32); 2] {
        let tagger = Tagger::built_in("de").unwrap();
        let first_nouns: Vec<&str> = FIRST.split(' ').collect();
        let no_nouns: Vec<&str> = NOT.split(' ').collect();
        let mut sums = [(0, 0, 0); 2];
        for line in sentences() {
            let spelled = tokens(&line);
            let text: Vec<String> = spelled.iter().map(|token| shown(token.text)).collect();
            // The sentences are those of the original text.
            let shown: Vec<Token<'_>> = spelled
                .iter()
                .zip(&text)
                .map(|(token, text)| Token { text, ..*token })
                .collect();
            let mut is_first = true;
            for (token, tag) in spelled.iter().zip(tags(&tagger, &shown)) {
                is_first |= token.begins;
                if !token.is_word() {
                    continue;
                }
                let is_begin = std::mem::take(&mut is_first);
                let capital = token.text.starts_with(char::is_uppercase);
                let is = if is_begin {
                    first_nouns.contains(&token.text)
                } else {
                    capital && !no_nouns.contains(&token.text)
                };
                let taken = is_noun(&tag);
                let both = if is_begin { 2 } else { 1 };
                for (nouns, all, right) in &mut sums[..both] {
                    *nouns += u32::from(is);
                    *all += u32::from(taken);
                    *right += u32::from(is && taken);
                }
            }
        }
        sums
    }

    /// The figures of the guide. The spelling alone finds no first word, and nothing in texts all
    /// in lower case or in capitals.
    #[test]
    fn german_nouns_are_found_as_often_as_stated() {
        let [all, first] = counted(str::to_owned);
        let [small, _] = counted(str::to_lowercase);
        let [large, _] = counted(str::to_uppercase);
        assert_eq!(
            [all, first, small, large],
            [
                (1985, 1991, 1975),
                (68, 67, 58),
                (1985, 1969, 1910),
                (1985, 1979, 1910)
            ]
        );
    }
}
