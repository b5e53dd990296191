//! The keyword table: the words that distinguish the topic from everything else, and how
//! many of them a text contains.
//!
//! A token's weight is its TF-IDF difference between pages of the topic and neutral pages
//! (Werner 2015, section 3.4): its number of occurrences on the topic's pages, times how
//! much rarer pages with it are among the neutral ones. The best tokens form the
//! [`KeywordTable`]. The keyword score of a text is the share of the table's weight that
//! it contains; it amplifies ratings based on perplexity.
//!
//! Texts arrive as [`Sentence`]s, so that a table and a text have the same tokens. This module does
//! not know perplexities, links or pages.

mod stopwords;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};
use sha2::{Digest, Sha256};

use crate::fs::atomic;
use crate::lm::{Sentence, normalise};

pub use stopwords::{Stopword, save_stopwords, stopwords, stopwords_by};

/// How many keywords a table has unless configured otherwise (Werner 2015).
pub const TABLE_SIZE: usize = 50;

/// Why a keyword table cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeywordError {
    /// The file cannot be read.
    #[error("cannot read the keyword table {path}: {source}; train one, or correct the path", path = path.display())]
    Read {
        /// The table's file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write the keyword table {path}: {source}; check the folder and the free space", path = path.display())]
    Write {
        /// The table's file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line is not a token, a tab and a weight.
    #[error("{path}, line {line}: {why}; write a token, a tab and a weight, as in `cat<TAB>12.5`", path = path.display())]
    Line {
        /// The table's file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// Tokens of the topic with their weights, all above 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeywordTable {
    /// Highest weight first, equal ones sorted by token.
    ranked: Vec<(String, f64)>,
    weights: FxHashMap<String, f64>,
    /// The sum of all weights.
    sum: f64,
}

impl KeywordTable {
    /// Builds the table of the `size` best tokens that separate pages of the topic from
    /// neutral pages; a page is the list of its sentences.
    ///
    /// Only weights above 0 are kept: a token that is as common on neutral pages does not indicate
    /// the topic. So without neutral pages the table is empty.
    pub fn train<P, N>(positive: &[P], neutral: &[N], size: usize) -> Self
    where
        P: AsRef<[Sentence]>,
        N: AsRef<[Sentence]>,
    {
        let other = frequencies(neutral);
        let df_neutral = |token: &str| other.get(token).map(|neutral| neutral.documents);
        Self::train_by(positive, df_neutral, neutral.len(), size)
    }

    /// The same with neutral pages known only by counts: how many of `neutral` pages
    /// contain a token, `None` for none.
    pub fn train_by<P: AsRef<[Sentence]>>(
        positive: &[P],
        df_neutral: impl Fn(&str) -> Option<u64>,
        neutral: usize,
        size: usize,
    ) -> Self {
        let topic = frequencies(positive);
        let weighted = topic.iter().map(|(&token, frequency)| {
            let weight = weight(
                frequency.tokens,
                (frequency.documents, positive.len()),
                (df_neutral(token), neutral),
            );
            (token.to_owned(), weight)
        });
        weighted.collect::<Self>().best(size)
    }

    /// The `size` best keywords of this table.
    #[must_use]
    pub fn best(mut self, size: usize) -> Self {
        self.ranked.truncate(size);
        Self::of_ranked(self.ranked)
    }

    /// The keywords with their weights, best first.
    pub fn ranked(&self) -> &[(String, f64)] {
        &self.ranked
    }

    /// How many keywords there are.
    pub fn len(&self) -> usize {
        self.ranked.len()
    }

    /// Whether there is no keyword; every text then scores 0.
    pub fn is_empty(&self) -> bool {
        self.ranked.is_empty()
    }

    /// The keyword score of a text: the weights of its tokens, counting every occurrence,
    /// over the weights of the table. At least 0, and above 1 if keywords are repeated.
    pub fn score(&self, text: &Sentence) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        self.share(text.tokens().filter_map(|token| self.weight(token)))
    }

    /// The weight of a token; `None` if it is not a keyword.
    pub fn weight(&self, token: &str) -> Option<f64> {
        self.weights.get(token).copied()
    }

    /// The keyword score of a text with keywords of these weights, in order.
    pub fn share(&self, weights: impl Iterator<Item = f64>) -> f64 {
        // A fold from +0, because the sum of nothing is -0.
        let found = weights.fold(0.0, |found, weight| found + weight);
        if self.is_empty() {
            0.0
        } else {
            found / self.sum
        }
    }

    /// The keyword score of a link's anchor: [`KeywordTable::score`] divided by its number
    /// of tokens; from 0 to 1, and 0 for an anchor without tokens.
    pub fn link_score(&self, anchor: &Sentence) -> f64 {
        self.score(anchor) / anchor.len().max(1) as f64
    }

    /// Reads a table, one line `token<TAB>weight` each, skipping empty lines.
    ///
    /// # Errors
    ///
    /// [`KeywordError`] names the file and, if a line is wrong, its number: it lacks a column, the
    /// weight is not a number above 0, the token occurs twice, or it is not a single token of
    /// [`crate::words`] and could never match.
    pub fn load(path: &Path) -> Result<Self, KeywordError> {
        let text = crate::fs::read_to_string(path).map_err(|source| KeywordError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut seen = FxHashSet::default();
        let mut rows = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() {
                continue;
            }
            let row = parse(line).and_then(|(token, weight)| {
                if seen.insert(token) {
                    Ok((token.to_owned(), weight))
                } else {
                    Err(format!("`{token}` is listed twice"))
                }
            });
            rows.push(row.map_err(|why| KeywordError::Line {
                path: path.to_owned(),
                line: number,
                why,
            })?);
        }
        Ok(rows.into_iter().collect())
    }

    /// Writes the table atomically in the format of [`KeywordTable::load`], best keyword
    /// first. Loading gives an equal table.
    ///
    /// # Errors
    ///
    /// [`KeywordError::Write`].
    pub fn save(&self, path: &Path) -> Result<(), KeywordError> {
        atomic::write(path, |out| {
            self.ranked
                .iter()
                .try_for_each(|(token, weight)| writeln!(out, "{token}\t{weight}"))
        })
        .map_err(|source| KeywordError::Write {
            path: path.to_owned(),
            source,
        })
    }

    /// A hash that is equal for tables of equal tokens and weights, in every process.
    pub fn digest(&self) -> u64 {
        let mut hash = Sha256::new();
        for (token, weight) in &self.ranked {
            hash.update(format!("{token}\t{weight}\n"));
        }
        let hash = hash.finalize();
        let first = hash.iter().take(8);
        first.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }

    fn of_ranked(ranked: Vec<(String, f64)>) -> Self {
        Self {
            sum: ranked.iter().map(|(_, weight)| weight).sum(),
            weights: ranked.iter().cloned().collect(),
            ranked,
        }
    }
}

/// From distinct tokens with their weights; weights not above 0 are left out.
impl FromIterator<(String, f64)> for KeywordTable {
    fn from_iter<I: IntoIterator<Item = (String, f64)>>(weighted: I) -> Self {
        let mut ranked: Vec<_> = weighted
            .into_iter()
            .filter(|(_, weight)| *weight > 0.0)
            .collect();
        ranked.sort_unstable_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
        Self::of_ranked(ranked)
    }
}

/// `tf * (idf_neutral - idf_positive)` with `idf = log10(1 + N / df)`.
///
/// `tf` is the number of occurrences on all pages of the topic; each pair is the number of
/// pages with the token and the number of all pages. A token that is on no neutral page
/// counts as being on a tenth of a page.
pub fn weight(tf: u64, positive: (u64, usize), neutral: (Option<u64>, usize)) -> f64 {
    tf as f64 * difference(positive, neutral)
}

/// How much rarer pages with a token are among the neutral ones.
fn difference(
    (df_positive, positive): (u64, usize),
    (df_neutral, neutral): (Option<u64>, usize),
) -> f64 {
    let idf = |df: f64, pages: usize| (1.0 + pages as f64 / df).log10();
    let df_neutral = df_neutral.map_or(0.1, |df| df as f64);
    idf(df_neutral, neutral) - idf(df_positive as f64, positive)
}

#[derive(Default)]
struct Frequency {
    tokens: u64,
    documents: u64,
    /// Number of the last document that contained it, from 1.
    last: usize,
}

fn frequencies<D: AsRef<[Sentence]>>(documents: &[D]) -> HashMap<&str, Frequency> {
    let mut frequencies: HashMap<&str, Frequency> = HashMap::new();
    for (number, document) in (1..).zip(documents) {
        for token in document.as_ref().iter().flat_map(Sentence::tokens) {
            let frequency = frequencies.entry(token).or_default();
            frequency.tokens += 1;
            frequency.documents += u64::from(frequency.last != number);
            frequency.last = number;
        }
    }
    frequencies
}

fn parse(line: &str) -> Result<(&str, f64), String> {
    let (token, weight) = line.split_once('\t').ok_or("the tab is missing")?;
    let normal = normalise(token);
    if normal.as_str() != token || normal.len() != 1 {
        return Err(format!("`{token}` is not one token in lower case"));
    }
    match weight.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok((token, number)),
        _ => Err(format!("`{}` is not a weight above 0", weight.trim())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/fixtures/thesis")
            .join(name)
    }

    fn thesis() -> Value {
        serde_json::from_slice(&fs::read(fixture("thesis.json")).unwrap()).unwrap()
    }

    fn cases<'a>(thesis: &'a Value, part: &str, list: &str) -> &'a Vec<Value> {
        let cases = thesis[part][list].as_array().unwrap();
        assert!(!cases.is_empty());
        cases
    }

    fn assert_close(ours: f64, published: &Value) {
        let published = published.as_f64().unwrap();
        let off = (ours - published).abs();
        assert!(
            off <= 1e-9 * published.abs(),
            "{ours}, published {published}"
        );
    }

    fn page(text: &str) -> Vec<Sentence> {
        vec![normalise(text)]
    }

    #[test]
    fn weights_of_the_thesis() {
        let thesis = thesis();
        for case in cases(&thesis, "keyword_weight", "cases") {
            let count = |key: &str| case[key].as_u64();
            let pages = |key: &str| count(key).unwrap() as usize;
            let weight = weight(
                count("tf_pos").unwrap(),
                (count("df_pos").unwrap(), pages("n_pos")),
                (count("df_neutral"), pages("n_neutral")),
            );
            assert_close(weight, &case["weight"]);
        }
    }

    #[test]
    fn scores_of_the_thesis() {
        let thesis = thesis();
        let table = KeywordTable::load(&fixture("keywords_cat.tsv"))
            .unwrap()
            .best(TABLE_SIZE);
        assert_eq!(table.len(), 50);
        assert_close(table.sum, &thesis["keyword_score"]["table_sum"]);
        for case in cases(&thesis, "keyword_score", "cases") {
            let text = normalise(case["text"].as_str().unwrap());
            assert_close(table.score(&text), &case["score"]);
        }
        for case in cases(&thesis, "keyword_score", "link_cases") {
            let anchor = normalise(case["text"].as_str().unwrap());
            assert_close(table.link_score(&anchor), &case["score"]);
        }
    }

    /// A page with the frequencies of the published cat and volcano tables must reproduce the
    /// published weights.
    #[test]
    fn training_gives_the_published_weights() {
        let thesis = thesis();
        for pages in [1, 7] {
            let mut positive = vec![vec![Sentence::default()]; pages];
            let mut expected = Vec::new();
            for case in cases(&thesis, "keyword_weight", "cases") {
                if case["n_pos"].as_u64() != Some(pages as u64) {
                    continue;
                }
                let token = case["token"].as_str().unwrap();
                expected.push((token, &case["weight"]));
                let tf = case["tf_pos"].as_u64().unwrap() as usize;
                for (index, page) in positive.iter_mut().enumerate() {
                    let share = tf / pages + usize::from(index < tf % pages);
                    page.push(normalise(&format!("{token} the ").repeat(share)));
                }
            }
            let neutral = vec![page("the dog barks at the moon"); 7];
            let table = KeywordTable::train(&positive, &neutral, TABLE_SIZE);
            let tokens: Vec<&str> = table.ranked().iter().map(|(t, _)| t.as_str()).collect();
            assert_eq!(tokens, expected.iter().map(|(t, _)| *t).collect::<Vec<_>>());
            for ((_, weight), (_, published)) in table.ranked().iter().zip(expected) {
                assert_close(*weight, published);
            }
        }
    }

    #[test]
    fn published_tables_survive_a_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keywords.tsv");
        for (name, rows) in [("cat", 90), ("deathstar", 40), ("volcano", 46)] {
            let table = KeywordTable::load(&fixture(&format!("keywords_{name}.tsv"))).unwrap();
            assert_eq!(table.len(), rows);
            table.save(&path).unwrap();
            assert_eq!(KeywordTable::load(&path).unwrap(), table);
        }
    }

    #[test]
    fn common_words_stay_out_and_ties_go_by_token() {
        let positive = [page("cat cat purr meow the of of of"), page("cat the of")];
        let neutral = [page("the of dog"), page("the of")];
        let table = KeywordTable::train(&positive, &neutral, 2);
        let tokens: Vec<&str> = table.ranked().iter().map(|(t, _)| t.as_str()).collect();
        assert_eq!(tokens, ["cat", "meow"]);

        let none: [Vec<Sentence>; 0] = [];
        assert!(KeywordTable::train(&positive, &none, 50).is_empty());
        assert!(KeywordTable::train(&none, &neutral, 50).is_empty());
        let empty = KeywordTable::default();
        assert_eq!(empty.score(&normalise("cat")), 0.0);
        assert_eq!(table.score(&Sentence::default()), 0.0);
        assert_eq!(table.link_score(&Sentence::default()), 0.0);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keywords.tsv");
        let good = "cat\t2.5\r\n\nmaus\t1e-3\n";
        fs::write(&path, good).unwrap();
        assert_eq!(KeywordTable::load(&path).unwrap().len(), 2);
        for (line, why) in [
            ("dog 1", "the tab is missing"),
            ("dog\tmuch", "`much` is not a weight"),
            ("dog\t", "`` is not a weight"),
            ("dog\t0", "not a weight above 0"),
            ("dog\t-1", "not a weight above 0"),
            ("dog\tNaN", "not a weight above 0"),
            ("dog\tinf", "not a weight above 0"),
            ("cat\t1", "`cat` is listed twice"),
            ("Dog\t1", "not one token"),
            ("maine coon\t1", "not one token"),
            ("99\t1", "not one token"),
        ] {
            fs::write(&path, format!("{good}{line}\n")).unwrap();
            let error = KeywordTable::load(&path).unwrap_err().to_string();
            assert!(
                error.contains("keywords.tsv, line 4: ") && error.contains(why),
                "{error}"
            );
        }
        let missing = KeywordTable::load(&folder.path().join("none.tsv")).unwrap_err();
        assert!(missing.to_string().contains("none.tsv"));
        let unwritable = KeywordTable::default().save(&folder.path().join("no/such.tsv"));
        assert!(unwritable.unwrap_err().to_string().contains("such.tsv"));
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn the_order_of_pages_does_not_matter_and_tables_round_trip(
            positive in prop::collection::vec("([a-h]{1,2} ){0,12}", 0..6),
            neutral in prop::collection::vec("([c-k]{1,2} ){0,12}", 0..6),
            size in 0_usize..12,
        ) {
            let pages = |texts: &[String]| texts.iter().map(|text| page(text)).collect::<Vec<_>>();
            let (mut positive, mut neutral) = (pages(&positive), pages(&neutral));
            let table = KeywordTable::train(&positive, &neutral, size);
            positive.reverse();
            neutral.reverse();
            prop_assert_eq!(&table, &KeywordTable::train(&positive, &neutral, size));
            prop_assert!(table.len() <= size);
            for text in positive.iter().chain(&neutral).flatten() {
                prop_assert!(table.score(text) >= 0.0);
                prop_assert!((0.0..=1.0 + 1e-12).contains(&table.link_score(text)));
            }

            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("keywords.tsv");
            table.save(&path).unwrap();
            prop_assert_eq!(KeywordTable::load(&path).unwrap(), table);
        }
    }
}
