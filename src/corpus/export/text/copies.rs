//! Near copies: texts that share most of their shingles of [`SHINGLE`] words.
//!
//! Candidates are found by MinHash and bands (Broder 1997; Leskovec, Rajaraman and Ullman,
//! Mining of Massive Datasets, chapter 3): two texts are compared if they agree in all
//! [`ROWS`] minima of one of [`BANDS`] bands. The comparison uses the shingles themselves,
//! which are in a file, so a text is left out because of its true Jaccard similarity and
//! never because of a sketch. Of texts with a similarity of 0.8 the bands miss 2 in 1,000,
//! of 0.9 fewer than one in 100,000.
//!
//! A text takes 300 to 500 bytes of memory, and four bytes per word in the file.

use std::io;
use std::path::Path;

use rustc_hash::FxHashMap;
use unicode_segmentation::UnicodeSegmentation;
use xxhash_rust::xxh3::xxh3_64;

use super::spool::Spool;

/// Words of a shingle.
pub(super) const SHINGLE: usize = 5;
const BANDS: usize = 12;
const ROWS: usize = 4;
/// How many texts are considered in each band, the newest first. Thousands of pages of one
/// template may agree in a band.
const LOOKED_AT: usize = 64;
/// How many of these, with the most bands in common, are compared.
const COMPARED: usize = 8;

/// The texts kept so far.
pub(super) struct Copies {
    shingles: Spool,
    /// By text, where its shingles begin and their number.
    places: Vec<(u64, u32)>,
    /// By band, the newest text with these minima.
    newest: Vec<FxHashMap<u32, u32>>,
    /// By text and band, the text before it with the same minima.
    before: Vec<[u32; BANDS]>,
    /// The least similarity of a near copy.
    least: f64,
}

/// No text.
const NONE: u32 = u32::MAX;

/// The result for a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Found {
    /// It is similar to none of the kept texts, and now has this number among them.
    New(u32),
    /// It is a copy of this kept text, with this similarity.
    Copy(u32, f64),
}

impl Copies {
    /// Keeps the shingles in the file `path`. Texts with at least the similarity `least`
    /// are near copies.
    pub(super) fn create(path: &Path, least: f64) -> io::Result<Self> {
        Ok(Self {
            shingles: Spool::create(path)?,
            places: Vec::new(),
            newest: vec![FxHashMap::default(); BANDS],
            before: Vec::new(),
            least,
        })
    }

    /// Compares a text with the kept ones, and keeps it if it is similar to none.
    pub(super) fn add(&mut self, text: &str) -> io::Result<Found> {
        let own = shingles(text);
        let bands = bands(&own);
        let mut best: Option<(u32, f64)> = None;
        for candidate in self.candidates(&bands) {
            let similarity = jaccard(&own, &self.shingles_of(candidate)?);
            // Of equally similar ones the first.
            if similarity >= self.least
                && best.is_none_or(|(at, most)| {
                    similarity > most || similarity == most && candidate < at
                })
            {
                best = Some((candidate, similarity));
            }
        }
        if let Some((at, similarity)) = best {
            return Ok(Found::Copy(at, similarity));
        }
        let at = u32::try_from(self.places.len()).map_err(io::Error::other)?;
        let bytes: Vec<u8> = own.iter().flat_map(|s| s.to_le_bytes()).collect();
        let count = u32::try_from(own.len()).map_err(io::Error::other)?;
        self.places.push((self.shingles.append(&bytes)?, count));
        let mut before = [NONE; BANDS];
        let links = self.newest.iter_mut().zip(&bands).zip(&mut before);
        for ((newest, band), before) in links {
            *before = newest.insert(*band, at).unwrap_or(NONE);
        }
        self.before.push(before);
        Ok(Found::New(at))
    }

    /// The texts that agree in the most bands.
    fn candidates(&self, bands: &[u32; BANDS]) -> Vec<u32> {
        let mut agree: FxHashMap<u32, u32> = FxHashMap::default();
        for (band, (newest, value)) in self.newest.iter().zip(bands).enumerate() {
            let mut at = newest.get(value).copied();
            for _ in 0..LOOKED_AT {
                let Some(text) = at else { break };
                *agree.entry(text).or_default() += 1;
                let before = self.before.get(text as usize);
                at = before.and_then(|b| b.get(band)).copied();
                at = at.filter(|at| *at != NONE);
            }
        }
        let mut found: Vec<(u32, u32)> = agree.into_iter().collect();
        found.sort_by_key(|(text, bands)| (std::cmp::Reverse(*bands), *text));
        found.truncate(COMPARED);
        found.into_iter().map(|(text, _)| text).collect()
    }

    fn shingles_of(&mut self, text: u32) -> io::Result<Vec<u32>> {
        let (at, count) = self.places.get(text as usize).copied().unwrap_or_default();
        let bytes = self.shingles.read(at, count as usize * 4)?;
        let (numbers, _) = bytes.as_chunks::<4>();
        Ok(numbers.iter().map(|n| u32::from_le_bytes(*n)).collect())
    }
}

/// The hashes of a text's shingles, each once and sorted. A text of fewer words is one
/// shingle.
fn shingles(text: &str) -> Vec<u32> {
    let mut normal = String::with_capacity(text.len());
    let mut starts = Vec::new();
    for word in text.unicode_words() {
        starts.push(normal.len());
        normal.extend(word.chars().flat_map(char::to_lowercase));
        normal.push(' ');
    }
    let last = starts.len().saturating_sub(SHINGLE);
    let mut all: Vec<u32> = starts
        .iter()
        .take(last + 1)
        .enumerate()
        .map(|(i, start)| {
            let end = starts.get(i + SHINGLE).copied().unwrap_or(normal.len());
            let shingle = normal.get(*start..end).unwrap_or_default();
            (xxh3_64(shingle.as_bytes()) >> 32) as u32
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The bands of a set: the hash of its minima under [`ROWS`] permutations each.
fn bands(shingles: &[u32]) -> [u32; BANDS] {
    let mut bands = [0; BANDS];
    for (number, band) in bands.iter_mut().enumerate() {
        let mut minima = [0; ROWS * 4];
        let (cells, _) = minima.as_chunks_mut::<4>();
        for (row, cell) in cells.iter_mut().enumerate() {
            let seed = ((number * ROWS + row + 1) as u64) << 32;
            let hashes = shingles.iter().map(|s| mixed(seed | u64::from(*s)));
            *cell = hashes.min().unwrap_or_default().to_le_bytes();
        }
        *band = xxh3_64(&minima) as u32;
    }
    bands
}

/// SplitMix64 (Steele, Lea and Flood 2014): every bit of the result depends on every bit
/// of `x`.
fn mixed(x: u64) -> u32 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 32) as u32
}

/// The share of the elements of two sorted sets that are in both.
fn jaccard(a: &[u32], b: &[u32]) -> f64 {
    let (mut i, mut j, mut both) = (0, 0, 0_usize);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        both += usize::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    let either = a.len() + b.len() - both;
    match either {
        0 => 1.0,
        _ => both as f64 / either as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that no other text has, but for a seed that is the same.
    fn words(seed: usize, count: usize) -> Vec<String> {
        (0..count).map(|n| format!("w{seed}x{n}")).collect()
    }

    fn copies() -> (tempfile::TempDir, Copies) {
        let folder = tempfile::tempdir().unwrap();
        let copies = Copies::create(&folder.path().join("shingles"), 0.8).unwrap();
        (folder, copies)
    }

    #[test]
    fn a_near_copy_has_its_true_similarity() {
        let (_folder, mut copies) = copies();
        let first = words(1, 200);
        assert_eq!(copies.add(&first.join(" ")).unwrap(), Found::New(0));
        assert_eq!(copies.add(&words(2, 200).join(" ")).unwrap(), Found::New(1));
        // A word changed in the middle changes five of 196 shingles.
        let mut changed = first.clone();
        changed[100] = "other".to_owned();
        let similarity = 191.0 / 201.0;
        assert_eq!(
            copies.add(&changed.join(" ")).unwrap(),
            Found::Copy(0, similarity)
        );
        let loud = first.join(",\n\n").to_uppercase();
        assert_eq!(copies.add(&loud).unwrap(), Found::Copy(0, 1.0));
        // Half of it is another text.
        let half = first[..100].join(" ");
        assert_eq!(copies.add(&half).unwrap(), Found::New(2));
        // And few words are compared whole.
        assert_eq!(copies.add("Not found").unwrap(), Found::New(3));
        assert_eq!(copies.add("not FOUND.").unwrap(), Found::Copy(3, 1.0));
        assert_eq!(copies.add("not here").unwrap(), Found::New(4));
    }

    #[test]
    fn the_most_similar_is_named() {
        let (_folder, mut copies) = copies();
        let text = words(1, 100);
        // 5 of 91 shingles are others: like none by 0.8 are only those that differ more.
        let altered = |places: &[usize]| {
            let mut text = text.clone();
            for at in places {
                text[*at] = format!("other{at}");
            }
            text.join(" ")
        };
        assert_eq!(copies.add(&altered(&[20, 40, 60])).unwrap(), Found::New(0));
        assert_eq!(copies.add(&altered(&[30, 50, 70])).unwrap(), Found::New(1));
        // From the first it differs in one word, from the second in five.
        let found = copies.add(&altered(&[20, 40])).unwrap();
        assert_eq!(found, Found::Copy(0, 91.0 / 101.0));
    }

    #[test]
    fn bands_find_what_is_similar() {
        // Pairs with a similarity a little above 0.8; the bands miss 2 in 1,000.
        let (_folder, mut copies) = copies();
        let mut missed = 0;
        for seed in 0..300 {
            let mut text = words(seed, 300);
            assert!(matches!(
                copies.add(&text.join(" ")).unwrap(),
                Found::New(_)
            ));
            for at in [40, 90, 140, 190, 240, 280] {
                text[at] = "other".to_owned();
            }
            match copies.add(&text.join(" ")).unwrap() {
                Found::Copy(_, similarity) => assert!((0.8..0.85).contains(&similarity)),
                Found::New(_) => missed += 1,
            }
        }
        assert!(missed <= 3, "{missed}");
    }
}
