//! KenLM's binary form of a model: the in-memory tables that it builds when it reads an ARPA file,
//! as bytes.
//!
//! KenLM can write them itself, but only with its command `build_binary`, and the binding's
//! function for that (kenlm-rs 0.1.0, feature `tools`) does not link. The tables are simple (model
//! type *probing*, no quantization, every number an `f32` as in the ARPA file), so they are built
//! here. The tests compare the resulting scores bit by bit with those from KenLM's own reading of
//! the ARPA file.
//!
//! ```text
//!  header | words: hash -> number | 1-grams by number | 2-grams: hash -> weights | ... | n-grams
//! ```
//!
//! The tables are open hash tables with linear probing; key 0 marks an empty slot. The key of an
//! n-gram is a hash of its words from the last to the first. Two signs carry meaning: a positive
//! probability belongs to an n-gram that is the end of a longer one, and a back-off of -0 to an
//! n-gram that no longer one begins with.

use std::io::{self, BufRead, Write};

/// KenLM's `format version 5`; any other value is another format.
const MAGIC: &[u8; 51] = b"mmap lm http://kheafield.com/code format version 5\n";
/// The size of the magic text with its padding.
const MAGIC_SIZE: usize = 56;
/// Slots for each n-gram, KenLM's own default.
const MULTIPLIER: f32 = 1.5;
/// No n-gram of the model begins with this one.
const NO_EXTENSION: f32 = -0.0;
/// A digit, a tab, a letter and the end of the line.
const SHORTEST_LINE: u64 = 4;
/// The number of `<unk>`.
const UNKNOWN: u32 = 0;

/// Why the tables cannot be built: KenLM then reads the file itself, and may report an error.
#[derive(Debug, thiserror::Error)]
pub(super) enum IrregularArpa {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// Its form is not supported here.
    #[error("line {line}: {why}")]
    Form {
        /// Counted from 1.
        line: usize,
        /// The problem.
        why: &'static str,
    },
}

/// The tables of a model.
pub(super) struct Probing {
    words: ProbingTable,
    /// By number; the last one is for an `<unk>` that KenLM would add.
    unigrams: Vec<NgramWeights>,
    /// The other orders, 2-grams first.
    longer: Vec<ProbingTable>,
    counts: Vec<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct NgramWeights {
    log10: f32,
    backoff: f32,
}

impl NgramWeights {
    /// Some n-gram begins with this one.
    fn extend(&mut self) {
        if self.backoff == 0.0 {
            self.backoff = 0.0;
        }
    }

    /// Some n-gram ends with this one.
    fn end_of_longer(&mut self) {
        self.log10 = self.log10.abs();
    }
}

impl Probing {
    /// Reads an ARPA file of this many bytes.
    ///
    /// # Errors
    /// [`IrregularArpa`] with the line.
    pub(super) fn read(arpa: impl BufRead, bytes: u64) -> Result<Self, IrregularArpa> {
        let mut lines = ArpaLines::new(arpa, bytes);
        let counts = lines.counts()?;
        let mut made = Self {
            words: ProbingTable::new(counts[0]),
            unigrams: vec![NgramWeights::default(); lines.fits(counts[0])? + 1],
            longer: counts
                .iter()
                .skip(1)
                .map(|&n| ProbingTable::new(n))
                .collect(),
            counts,
        };
        made.read_words(&mut lines)?;
        for order in 2..=made.counts.len() {
            made.read_order(order, &mut lines)?;
        }
        lines.end()?;
        Ok(made)
    }

    fn read_words(&mut self, lines: &mut ArpaLines<impl BufRead>) -> Result<(), IrregularArpa> {
        lines.section(1)?;
        let mut next = UNKNOWN + 1;
        let mut has_unknown = false;
        for _ in 0..self.counts[0] {
            let (word, weights) = lines.ngram(false, |words| words.to_owned())?;
            let number = if is_unknown(&word) {
                // If there are two, they are not in the order of their numbers.
                if std::mem::replace(&mut has_unknown, true) {
                    return Err(lines.wrong("a second <unk>"));
                }
                UNKNOWN
            } else {
                let slot = self.words.insert(word_hash(&word));
                slot.ok_or_else(|| lines.wrong("a word twice"))?.log10 = f32::from_bits(next);
                next += 1;
                next - 1
            };
            let place = self.unigrams.get_mut(number as usize);
            *place.ok_or_else(|| lines.wrong("too many words"))? = weights;
        }
        let known = |word: &[u8]| self.word(word).is_some();
        if has_unknown && known(b"<s>") && known(b"</s>") {
            Ok(())
        } else {
            Err(lines.wrong("<unk>, <s> or </s> is missing before it"))
        }
    }

    fn word(&self, word: &[u8]) -> Option<u32> {
        if is_unknown(word) {
            return Some(UNKNOWN);
        }
        let weights = self.words.find(word_hash(word))?;
        Some(self.words.slots[weights].weights.log10.to_bits())
    }

    fn read_order(
        &mut self,
        order: usize,
        lines: &mut ArpaLines<impl BufRead>,
    ) -> Result<(), IrregularArpa> {
        lines.section(order)?;
        let highest = order == self.counts.len();
        // From the last word to the first.
        let mut words: Vec<u32> = Vec::with_capacity(order);
        // For the last two words, the last three, and so on.
        let mut keys: Vec<u64> = Vec::with_capacity(order);
        for _ in 0..self.counts[order - 1] {
            words.clear();
            keys.clear();
            let (all_known, mut weights) = lines.ngram(highest, |text| {
                let numbers = text.rsplit(|b| *b == b' ').map(|word| self.word(word));
                words.extend(numbers.flatten());
                text.split(|b| *b == b' ').count() == words.len()
            })?;
            if !all_known || words.len() != order {
                return Err(lines.wrong("a word that is not among the 1-grams, or one too many"));
            }
            let mut key = u64::from(words[0]);
            for word in &words[1..] {
                key = combined(key, *word);
                keys.push(key);
            }
            weights.log10 = -weights.log10.abs();
            let slot = self.longer[order - 2].insert(key);
            *slot.ok_or_else(|| lines.wrong("an n-gram twice, or too many of them"))? = weights;
            let marked = self.mark_end(&words, &keys).is_some();
            if !marked || self.extend_context(&words).is_none() {
                return Err(lines.wrong("an n-gram whose parts are not in the model"));
            }
        }
        Ok(())
    }

    /// Marks the n-grams that this one ends with. Pruned ones are inserted with their back-off
    /// probability, because a search passes through them.
    fn mark_end(&mut self, words: &[u32], keys: &[u64]) -> Option<()> {
        let order = words.len();
        let mut basis = order - 1;
        while basis > 1 && self.longer[basis - 2].find(keys[basis - 2]).is_none() {
            self.longer[basis - 2].insert(keys[basis - 2])?.backoff = NO_EXTENSION;
            basis -= 1;
        }
        let mut log10 = -self.end(words, keys, basis)?.log10.abs();
        self.end(words, keys, basis)?.end_of_longer();
        for missing in basis + 1..order {
            // A back-off of 0 needs no entry in the model.
            if let Some(context) = self.weights(&words[1..missing]) {
                context.extend();
                log10 += context.backoff;
            }
            let made = self.end(words, keys, missing)?;
            made.log10 = log10;
            made.end_of_longer();
        }
        Some(())
    }

    /// The n-gram of the last `order` of the words.
    fn end(&mut self, words: &[u32], keys: &[u64], order: usize) -> Option<&mut NgramWeights> {
        if order == 1 {
            return self.unigrams.get_mut(words[0] as usize);
        }
        self.longer[order - 2].find_mut(keys[order - 2])
    }

    /// Marks the n-gram of all words but the last.
    fn extend_context(&mut self, words: &[u32]) -> Option<()> {
        self.weights(&words[1..])?.extend();
        Some(())
    }

    /// The weights of an n-gram, given with its last word first.
    fn weights(&mut self, words: &[u32]) -> Option<&mut NgramWeights> {
        let (last, others) = words.split_first()?;
        if others.is_empty() {
            return self.unigrams.get_mut(*last as usize);
        }
        let key = others.iter().fold(u64::from(*last), |k, w| combined(k, *w));
        self.longer[others.len() - 1].find_mut(key)
    }

    /// Writes the tables in KenLM's memory layout.
    ///
    /// # Errors
    /// Those of `out`.
    pub(super) fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        self.write_header(out)?;
        // Version of the table of words, and how many there are.
        out.write_all(&0_u32.to_le_bytes())?;
        let words = self.unigrams.len() as u32 - 1;
        out.write_all(&words.to_le_bytes())?;
        // In this table, a word's number takes the place of a probability.
        self.words.write_to(false, out)?;
        for weights in &self.unigrams {
            out.write_all(&weights.log10.to_le_bytes())?;
            out.write_all(&weights.backoff.to_le_bytes())?;
        }
        let (highest, middle) = match self.longer.split_last() {
            Some((highest, middle)) => (Some(highest), middle),
            None => (None, &[][..]),
        };
        for table in middle {
            table.write_to(true, out)?;
        }
        highest.map_or(Ok(()), |table| table.write_to(false, out))
    }

    fn write_header(&self, out: &mut impl Write) -> io::Result<()> {
        let mut header = MAGIC.to_vec();
        header.resize(MAGIC_SIZE, 0);
        // KenLM uses these to recognise a machine with the same number format.
        for number in [0.0_f32, 1.0, -0.5] {
            header.extend(number.to_le_bytes());
        }
        for number in [1, u32::MAX, 0] {
            header.extend(number.to_le_bytes());
        }
        header.extend(1_u64.to_le_bytes());
        header.extend([self.counts.len() as u8, 0, 0, 0]);
        header.extend(MULTIPLIER.to_le_bytes());
        // The type (probing), no word texts at the end, the version of the search.
        for number in [0_u32, 0, 0] {
            header.extend(number.to_le_bytes());
        }
        for count in &self.counts {
            header.extend(count.to_le_bytes());
        }
        header.resize(header.len().next_multiple_of(8), 0);
        out.write_all(&header)
    }
}

/// A hash table with linear probing.
struct ProbingTable {
    slots: Vec<ProbingSlot>,
    empty: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct ProbingSlot {
    key: u64,
    weights: NgramWeights,
}

impl ProbingTable {
    /// KenLM computes the size in single precision.
    fn new(entries: u64) -> Self {
        let size = (MULTIPLIER * entries as f32) as u64;
        let size = size.max(entries.saturating_add(1)) as usize;
        Self {
            slots: vec![ProbingSlot::default(); size],
            empty: size,
        }
    }

    /// The slot of a key, or the empty slot where it belongs.
    fn place(&self, key: u64) -> usize {
        let mut at = (key % self.slots.len() as u64) as usize;
        while self.slots[at].key != key && self.slots[at].key != 0 {
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
        at
    }

    fn find(&self, key: u64) -> Option<usize> {
        let at = self.place(key);
        (self.slots[at].key == key).then_some(at)
    }

    fn find_mut(&mut self, key: u64) -> Option<&mut NgramWeights> {
        let at = self.find(key)?;
        Some(&mut self.slots[at].weights)
    }

    /// `None` if the key exists already, equals that of an empty slot, or would take the last empty
    /// slot, which every search needs to end.
    fn insert(&mut self, key: u64) -> Option<&mut NgramWeights> {
        let at = self.place(key);
        if self.slots[at].key == key || key == 0 || self.empty < 2 {
            return None;
        }
        self.empty -= 1;
        self.slots[at].key = key;
        Some(&mut self.slots[at].weights)
    }

    fn write_to(&self, with_backoff: bool, out: &mut impl Write) -> io::Result<()> {
        for ProbingSlot { key, weights } in &self.slots {
            out.write_all(&key.to_le_bytes())?;
            out.write_all(&weights.log10.to_le_bytes())?;
            if with_backoff {
                out.write_all(&weights.backoff.to_le_bytes())?;
            }
        }
        Ok(())
    }
}

fn is_unknown(word: &[u8]) -> bool {
    word == b"<unk>" || word == b"<UNK>"
}

fn combined(key: u64, word: u32) -> u64 {
    let next = (1 + u64::from(word)).wrapping_mul(17_894_857_484_156_487_943);
    key.wrapping_mul(8_978_948_897_894_561_157) ^ next
}

/// `MurmurHash64A` of a word, with seed 0.
fn word_hash(word: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = (word.len() as u64).wrapping_mul(M);
    let (eights, rest) = word.as_chunks::<8>();
    for eight in eights {
        let mut k = u64::from_le_bytes(*eight).wrapping_mul(M);
        k ^= k >> 47;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(M);
    }
    hash ^= hash >> 47;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 47)
}

/// The lines of an ARPA file.
struct ArpaLines<R> {
    arpa: R,
    line: Vec<u8>,
    number: usize,
    /// The maximum number of n-grams in the file: memory is allocated for as many as it declares.
    most: u64,
}

impl<R: BufRead> ArpaLines<R> {
    fn new(arpa: R, bytes: u64) -> Self {
        Self {
            arpa,
            line: Vec::new(),
            number: 0,
            most: (bytes / SHORTEST_LINE).min(u64::from(u32::MAX)),
        }
    }

    fn wrong(&self, why: &'static str) -> IrregularArpa {
        IrregularArpa::Form {
            line: self.number,
            why,
        }
    }

    /// Reads the next line; false at the end.
    fn next(&mut self) -> Result<bool, IrregularArpa> {
        self.line.clear();
        self.number += 1;
        self.arpa.read_until(b'\n', &mut self.line)?;
        let whole = self.line.pop_if(|b| *b == b'\n').is_some();
        Ok(whole || !self.line.is_empty())
    }

    /// Reads the next non-empty line.
    fn next_filled(&mut self) -> Result<bool, IrregularArpa> {
        while self.next()? {
            if !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The number of n-grams of each order.
    fn counts(&mut self) -> Result<Vec<u64>, IrregularArpa> {
        if !self.next_filled()? || self.line != b"\\data\\" {
            return Err(self.wrong("not \\data\\"));
        }
        let mut counts = Vec::new();
        while self.next()? && !self.line.is_empty() {
            let line = str::from_utf8(&self.line).unwrap_or_default();
            let count = line.strip_prefix(&format!("ngram {}=", counts.len() + 1));
            let Some(Ok(count)) = count.map(str::parse::<u64>) else {
                return Err(self.wrong("not a number of n-grams"));
            };
            let Some(most) = self.most.checked_sub(count) else {
                return Err(self.wrong("more n-grams than the file has room for"));
            };
            self.most = most;
            counts.push(count);
        }
        // The orders that KenLM is compiled for.
        if !(2..=6).contains(&counts.len()) {
            return Err(self.wrong("not of order 2 to 6"));
        }
        Ok(counts)
    }

    fn fits(&self, count: u64) -> Result<usize, IrregularArpa> {
        usize::try_from(count).map_err(|_| self.wrong("too many words"))
    }

    fn section(&mut self, order: usize) -> Result<(), IrregularArpa> {
        if self.next_filled()? && self.line == format!("\\{order}-grams:").as_bytes() {
            Ok(())
        } else {
            Err(self.wrong("not the next section, or more n-grams than were counted"))
        }
    }

    /// The next n-gram: the result of `of` for its words, and its weights.
    fn ngram<T>(
        &mut self,
        highest: bool,
        of: impl FnOnce(&[u8]) -> T,
    ) -> Result<(T, NgramWeights), IrregularArpa> {
        if !self.next()? {
            return Err(self.wrong("the end of the file"));
        }
        let mut columns = self.line.split(|b| *b == b'\t');
        let log10 = columns.next().and_then(number).filter(|n| *n <= 0.0);
        let words = columns.next().filter(|words| !words.is_empty());
        let backoff = match columns.next() {
            Some(_) if highest => None,
            Some(text) => number(text).map(|n| if n == 0.0 { NO_EXTENSION } else { n }),
            None => Some(NO_EXTENSION),
        };
        match (log10, words, backoff, columns.next()) {
            (Some(log10), Some(words), Some(backoff), None) => {
                Ok((of(words), NgramWeights { log10, backoff }))
            }
            _ => Err(self.wrong("not a probability, words and a back-off")),
        }
    }

    fn end(&mut self) -> Result<(), IrregularArpa> {
        if self.next_filled()? && self.line == b"\\end\\" && !self.next_filled()? {
            Ok(())
        } else {
            Err(self.wrong("not the end, or something after it"))
        }
    }
}

fn number(text: &[u8]) -> Option<f32> {
    let number: f32 = str::from_utf8(text).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}
