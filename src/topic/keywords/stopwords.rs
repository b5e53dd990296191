//! Stopword candidates: words that are common everywhere and do not indicate the topic.
//!
//! The counts that yield keywords also yield their opposite (Werner 2015, outlook): words
//! with a high document frequency on the topic's pages *and* on neutral ones, so that
//! their TF-IDF difference is near 0. They are only candidates: spoor does not use them,
//! and a list should be reviewed before use.

use std::io::Write;
use std::path::Path;

use super::{KeywordError, difference, frequencies};
use crate::fs::atomic;
use crate::lm::Sentence;

/// The smallest share of documents of each kind that contain a stopword.
const MIN_SHARE: f64 = 0.1;

/// The largest difference between a stopword's two inverse document frequencies. At 0.1 a
/// word is about equally common on both sides: at most a quarter less common where it is
/// rarer.
const MAX_DIFFERENCE: f64 = 0.1;

/// The most candidates that are written.
const TABLE_SIZE: usize = 500;

/// A word that is common both on pages of the topic and on neutral ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Stopword {
    /// The token.
    pub token: String,
    /// Documents about the topic that contain it.
    pub df_positive: u64,
    /// Neutral documents that contain it.
    pub df_neutral: u64,
    /// Its keyword weight, [`super::weight`]; of either sign, and small relative to the
    /// word's frequency.
    pub weight: f64,
}

/// The stopword candidates of a corpus, sorted by the share of documents of either kind
/// that contain them; empty unless there are documents of both kinds.
pub fn stopwords<P, N>(positive: &[P], neutral: &[N]) -> Vec<Stopword>
where
    P: AsRef<[Sentence]>,
    N: AsRef<[Sentence]>,
{
    let other = frequencies(neutral);
    let df_neutral = |token: &str| other.get(token).map(|neutral| neutral.documents);
    stopwords_by(positive, df_neutral, neutral.len())
}

/// The same with neutral pages known only by counts: how many of `neutral` pages contain a
/// token, `None` for none.
pub fn stopwords_by<P: AsRef<[Sentence]>>(
    positive: &[P],
    df_neutral: impl Fn(&str) -> Option<u64>,
    neutral: usize,
) -> Vec<Stopword> {
    let share = |df: u64, documents: usize| df as f64 / documents.max(1) as f64;
    let mut candidates: Vec<(f64, Stopword)> = frequencies(positive)
        .into_iter()
        .filter_map(|(token, topic)| {
            let (df_positive, df_neutral) = (topic.documents, df_neutral(token)?);
            let common = share(df_positive, positive.len()).min(share(df_neutral, neutral));
            let difference = difference((df_positive, positive.len()), (Some(df_neutral), neutral));
            let fits = common >= MIN_SHARE && difference.abs() <= MAX_DIFFERENCE;
            fits.then(|| {
                let stopword = Stopword {
                    token: token.to_owned(),
                    df_positive,
                    df_neutral,
                    weight: topic.tokens as f64 * difference,
                };
                (common, stopword)
            })
        })
        .collect();
    candidates
        .sort_unstable_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.token.cmp(&y.token)));
    candidates.truncate(TABLE_SIZE);
    candidates.into_iter().map(|(_, word)| word).collect()
}

/// Writes stopword candidates atomically, one line
/// `token<TAB>df_positive<TAB>df_neutral<TAB>weight` each.
///
/// # Errors
///
/// [`KeywordError::Write`].
pub fn save_stopwords(words: &[Stopword], path: &Path) -> Result<(), KeywordError> {
    atomic::write(path, |out| {
        words.iter().try_for_each(|word| {
            let Stopword {
                token,
                df_positive,
                df_neutral,
                weight,
            } = word;
            writeln!(out, "{token}\t{df_positive}\t{df_neutral}\t{weight}")
        })
    })
    .map_err(|source| KeywordError::Write {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lm::normalise;

    #[test]
    fn stopwords_are_common_on_either_side() {
        let pages = |texts: &[&str]| -> Vec<Vec<Sentence>> {
            texts.iter().map(|text| vec![normalise(text)]).collect()
        };
        let positive = pages(&[
            "the cat and the sofa",
            "the cat of the house and",
            "a cat the of",
        ]);
        let neutral = pages(&[
            "the dog and of",
            "the moon and the sun of",
            "the a sea",
            "the and of",
        ]);
        let found = stopwords(&positive, &neutral);
        let tokens: Vec<&str> = found.iter().map(|word| word.token.as_str()).collect();
        assert_eq!(tokens, ["the", "and", "of", "a"]);
        let the = found.first().unwrap();
        assert_eq!((the.df_positive, the.df_neutral, the.weight), (3, 4, 0.0));
        assert!(stopwords(&positive, &pages(&[])).is_empty());
        assert!(stopwords(&pages(&[]), &neutral).is_empty());

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stopwords.tsv");
        save_stopwords(&found, &path).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().next(), Some("the\t3\t4\t0"));
        assert!(text.lines().all(|line| line.split('\t').count() == 4));
    }
}
