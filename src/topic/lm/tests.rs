//! Compares our models and scores with those of KenLM's own tools; see
//! `tests/fixtures/lm/README.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::perplexity::{self, perplexity};
use super::*;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/lm")
        .join(name)
}

fn fixture_text(name: &str) -> String {
    let bytes = fs::read(fixture(name)).unwrap();
    let mut text = String::new();
    if name.ends_with(".gz") {
        flate2::read::GzDecoder::new(bytes.as_slice())
            .read_to_string(&mut text)
            .unwrap();
        text
    } else {
        String::from_utf8(bytes).unwrap()
    }
}

fn corpus(name: &str) -> Vec<Sentence> {
    fixture_text(name).lines().map(normalise).collect()
}

fn arpa_text(estimate: &Estimate) -> String {
    let mut bytes = Vec::new();
    arpa::write_to(estimate, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Words to log10 probability and back-off, 0 if there is none, by order less one.
fn ngrams(estimate: &Estimate) -> Vec<BTreeMap<String, (f64, f64)>> {
    let mut all = Vec::new();
    let done: Result<(), ()> = estimate.each_section(|section| {
        assert_eq!(section.order(), all.len() + 1);
        let section = section.ngrams().map(|ngram| {
            let words = ngram.words().collect::<Vec<_>>().join(" ");
            (words, (f64::from(ngram.log10), f64::from(ngram.backoff)))
        });
        all.push(section.collect());
        Ok(())
    });
    assert_eq!(done, Ok(()));
    all
}

/// Words to log10 probability and, if the line has one, back-off.
fn parse_arpa(text: &str) -> BTreeMap<&str, (f64, Option<f64>)> {
    text.lines()
        .filter(|line| line.contains('\t'))
        .map(|line| {
            let mut columns = line.split('\t');
            let log10 = columns.next().unwrap().parse().unwrap();
            let words = columns.next().unwrap();
            let backoff = columns.next().map(|text| text.parse().unwrap());
            (words, (log10, backoff))
        })
        .collect()
}

/// Compares our model with lmplz's; `name` as in `o3` or `tiny_o5`.
fn like_lmplz(train: &str, name: &str, order: usize, fallbacks: &[usize]) {
    let ours = estimate(corpus(train), order).unwrap();
    assert_eq!(ours.fallbacks(), fallbacks);

    let discounts = fixture_text(&format!("lmplz_{name}.discounts.txt"));
    let rows = discounts
        .lines()
        .filter(|row| row.contains(" D1=") && !row.contains("Subst"));
    let mut orders = 0;
    for ((row, discount), count) in rows.zip(ours.discounts()).zip(ours.ngram_counts()) {
        let mut columns = row.split(' ').skip(1);
        assert_eq!(columns.next().unwrap(), count.to_string(), "{row}");
        for ours in [discount.one, discount.two, discount.three_plus] {
            let theirs: f64 = columns
                .next()
                .unwrap()
                .split_once('=')
                .unwrap()
                .1
                .parse()
                .unwrap();
            assert!((ours - theirs).abs() < 1e-5, "{row}: {ours}");
        }
        orders += 1;
    }
    assert_eq!(orders, order);

    let (ours, theirs) = (
        arpa_text(&ours),
        fixture_text(&format!("lmplz_{name}.arpa.gz")),
    );
    let header = |text: &str| text.split("\n\n").next().unwrap().to_owned();
    assert_eq!(header(&ours), header(&theirs));
    let (ours, theirs) = (parse_arpa(&ours), parse_arpa(&theirs));
    assert!(theirs.len() > 5_000);
    assert!(ours.keys().eq(theirs.keys()));
    let mut worst: f64 = 0.0;
    for ((words, (p, b)), (_, (their_p, their_b))) in ours.iter().zip(&theirs) {
        assert_eq!(b.is_some(), their_b.is_some(), "{words}");
        let off = (p - their_p)
            .abs()
            .max((b.unwrap_or(0.0) - their_b.unwrap_or(0.0)).abs());
        assert!(
            off < 1e-4,
            "{words}: {p} {b:?}, lmplz {their_p} {their_b:?}"
        );
        worst = worst.max(off);
    }
    println!(
        "{name}: {} n-grams, worst difference {worst:.1e}",
        ours.len()
    );
}

#[test]
fn order_3_as_lmplz() {
    like_lmplz("train.txt", "o3", 3, &[]);
}

#[test]
fn order_5_as_lmplz() {
    like_lmplz("train.txt", "o5", 5, &[]);
}

#[test]
fn too_few_counts_as_lmplz_with_fallback() {
    like_lmplz("tiny.txt", "tiny_o5", 5, &[4, 5]);
}

/// Scores the test sentences with a model file as KenLM's `query` did.
fn like_query(model: &Path, order: u8) {
    let lm = KenLm::load(model).unwrap().of_order(order).unwrap();
    let sentences = corpus("test.txt");
    let expected = fixture_text(&format!("query_o{order}.txt"));
    assert_eq!(expected.lines().count(), sentences.len());
    let (mut log10, mut unknown, mut n) = (0.0, 0, 0);
    for (sentence, row) in sentences.iter().zip(expected.lines()) {
        let columns: Vec<&str> = row.split(' ').collect();
        let score = lm.score(sentence);
        let total: f64 = columns[1].parse().unwrap();
        assert!(
            (score.log10 - total).abs() < 1e-3,
            "{sentence}: {} {row}",
            score.log10
        );
        assert_eq!(score.unknown.to_string(), columns[3], "{sentence}");
        log10 += score.log10;
        unknown += score.unknown;
        n += sentence.len() + 1;
    }

    let summary = fixture_text(&format!("query_o{order}.summary.txt"));
    let value = |key: &str| -> f64 {
        let line = summary.lines().find(|line| line.starts_with(key)).unwrap();
        line.split('\t').nth(1).unwrap().parse().unwrap()
    };
    let expected = value("Perplexity including OOVs:");
    let pp = perplexity(log10, n);
    assert!((pp / expected - 1.0).abs() < 1e-4, "{pp} {expected}");
    assert_eq!(unknown as f64, value("OOVs:"));
    assert_eq!(n as f64, value("Tokens:"));

    let document = perplexity::document(&lm, &sentences);
    assert!(sentences.iter().all(|s| s.len() >= MIN_TOKENS));
    assert_eq!(document.perplexity, pp);
    assert_eq!(
        (document.sentences, document.tokens),
        (sentences.len(), n - sentences.len())
    );
    assert_eq!(document.unknown, unknown);
}

#[test]
fn scores_as_query_with_our_models_and_with_lmplzs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lm.arpa");
    for order in [3, 5] {
        arpa::write(&estimate(corpus("train.txt"), order).unwrap(), &path).unwrap();
        like_query(&path, order as u8);
        same_by_binary(&path);
        fs::write(&path, fixture_text(&format!("lmplz_o{order}.arpa.gz"))).unwrap();
        like_query(&path, order as u8);
        same_by_binary(&path);
    }
}

/// Compares the binary form with KenLM's own reading of the ARPA file: every score of every part of
/// the text, bit by bit.
fn same_by_binary(arpa: &Path) {
    let binary = arpa.with_extension("binary");
    let (by_arpa, by_binary) = (
        KenLm::load(arpa).unwrap(),
        binary::load(arpa, &binary).unwrap(),
    );
    // This must not fall back to the ARPA file.
    KenLm::load_binary(&binary, arpa).unwrap();
    assert_eq!(by_arpa.order(), by_binary.order());
    assert_eq!(by_arpa.unknown_log10(), by_binary.unknown_log10());
    for file in ["test.txt", "train.txt", "tiny.txt"] {
        for sentence in corpus(file) {
            assert_eq!(by_arpa.score(&sentence), by_binary.score(&sentence));
            let models = [&by_arpa, &by_binary];
            let [words, of_binary] = models.map(|lm| {
                let words = sentence.tokens().map(|token| lm.word(token));
                Vec::from_iter(words)
            });
            let one = by_arpa.read(&words, &mut [words.len()].into_iter());
            let other = by_binary.read(&of_binary, &mut std::iter::empty());
            let (one, other) = (one.unwrap(), other.unwrap());
            for start in 0..words.len() {
                let part = start..words.len();
                assert_eq!(one.score(part.clone()), other.score(part));
            }
        }
    }
}

/// Ends of longer n-grams that were pruned: KenLM inserts them with their back-off probability, and
/// scores depend on it.
#[test]
fn a_pruned_model_scores_the_same_by_its_binary() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lm.arpa");
    let whole = fixture_text("lmplz_o5.arpa.gz");
    let words_of = |line: &str| line.split('\t').nth(1).map(str::to_owned);
    let all: BTreeSet<String> = whole.lines().filter_map(words_of).collect();
    let contexts = all.iter().filter_map(|words| words.rsplit_once(' '));
    let contexts: BTreeSet<&str> = contexts.map(|(context, _)| context).collect();
    let mut counts = [0; 5];
    let mut body = String::new();
    let (_, sections) = whole.split_once("\n\n").unwrap();
    for line in sections.lines() {
        if let Some(words) = words_of(line) {
            let order = words.split(' ').count();
            if matches!(order, 2..=4) && words.len() % 3 > 0 && !contexts.contains(&*words) {
                continue;
            }
            counts[order - 1] += 1;
        }
        body.push_str(line);
        body.push('\n');
    }
    let head = (1..).zip(counts);
    let head: String = head
        .map(|(n, count)| format!("ngram {n}={count}\n"))
        .collect();
    assert!(counts.iter().sum::<usize>() + 100 < all.len(), "{counts:?}");
    fs::write(&path, format!("\\data\\\n{head}\n{body}")).unwrap();
    same_by_binary(&path);
}

/// A damaged, stale or foreign binary is replaced.
#[test]
fn a_binary_that_does_not_fit_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = tiny_model(folder.path(), 3);
    let binary = path.with_extension("binary");
    let load = || binary::load(&path, &binary).unwrap();
    load();
    let first = fs::read(&binary).unwrap();
    load();
    assert_eq!(fs::read(&binary).unwrap(), first);
    let mut damaged = vec![
        Vec::new(),
        b"junk".to_vec(),
        first[..first.len() - 1].to_vec(),
    ];
    for at in [
        0,
        60,
        200,
        first.len() / 2,
        first.len() - 30,
        first.len() - 1,
    ] {
        let mut bytes = first.clone();
        bytes[at] ^= 1;
        damaged.push(bytes);
    }
    // As sealed by another version of KenLM.
    let mut other = first[..first.len() - 8].to_vec();
    other[49] = b'4';
    other.extend(xxhash_rust::xxh3::xxh3_64(&other).to_le_bytes());
    damaged.push(other);
    for bytes in damaged {
        fs::write(&binary, &bytes).unwrap();
        assert_eq!(load().order(), 3);
        assert_eq!(fs::read(&binary).unwrap(), first, "{}", bytes.len());
    }
    let copied = fs::read(&path).unwrap();
    arpa::write(&estimate(corpus("train.txt"), 4).unwrap(), &path).unwrap();
    assert_eq!(load().order(), 4);
    assert!(fs::read(&binary).unwrap() != first);
    fs::write(&path, copied).unwrap();
    assert_eq!(load().order(), 3);
}

/// The ARPA file is loaded if its binary cannot be stored or built.
#[test]
fn a_model_without_a_binary_loads_from_its_arpa_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = tiny_model(folder.path(), 3);
    let nowhere = folder.path().join("none/lm.binary");
    assert_eq!(binary::load(&path, &nowhere).unwrap().order(), 3);
    let taken = folder.path().join("taken");
    fs::create_dir(&taken).unwrap();
    assert_eq!(binary::load(&path, &taken).unwrap().order(), 3);
    let text = fs::read_to_string(&path).unwrap();
    let binary = path.with_extension("binary");
    fs::write(&path, format!("# as KenLM allows it\n{text}")).unwrap();
    assert_eq!(binary::load(&path, &binary).unwrap().order(), 3);
    assert!(!binary.exists());
    // A count that would need more memory than there is.
    fs::write(&path, text.replacen("ngram 3=", "ngram 3=99999999", 1)).unwrap();
    let error = binary::load(&path, &binary).unwrap_err();
    assert!(error.to_string().contains("tiny.arpa"), "{error}");
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 2, "nothing half written: {names:?}");
}

fn tiny_model(folder: &Path, order: usize) -> PathBuf {
    let path = folder.join("tiny.arpa");
    arpa::write(&estimate(corpus("tiny.txt"), order).unwrap(), &path).unwrap();
    path
}

#[test]
fn text_with_nothing_to_score_is_a_run_of_unknown_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = tiny_model(folder.path(), 5);
    let lm = KenLm::load(&path).unwrap();
    let unk = parse_arpa(&fs::read_to_string(&path).unwrap())["<unk>"].0;
    assert!((lm.unknown_log10() - unk).abs() < 1e-6);

    let run = 10_f64.powf(-unk);
    let near_run = |pp: f64| (pp / run - 1.0).abs() < 1e-5;
    assert!(near_run(perplexity::text(&lm, &normalise("99 :)"))));
    let short = sentences(["We shall have to.", "The little man."]);
    assert!(near_run(perplexity::document(&lm, &short).perplexity));
    assert!(near_run(
        perplexity::document::<Sentence>(&lm, &[]).perplexity
    ));

    // A short text is scored as a whole nevertheless, and a long unknown one approaches the run.
    assert!(perplexity::text(&lm, &short[1]) < run / 2.0);
    let junk = normalise(&"qqq zzz ".repeat(500));
    assert!((perplexity::text(&lm, &junk) / run - 1.0).abs() < 0.02);
    assert_eq!(lm.score(&junk).unknown, 1_000);
}

#[test]
fn a_model_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = tiny_model(folder.path(), 3);
    let whole = fs::read_to_string(&path).unwrap();
    let mismatch = KenLm::load(&path)
        .unwrap()
        .of_order(5)
        .unwrap_err()
        .to_string();
    assert!(
        mismatch.contains("order 3, not 5") && mismatch.contains("tiny.arpa"),
        "{mismatch}"
    );

    let missing = KenLm::load(&folder.path().join("none.arpa")).unwrap_err();
    assert!(matches!(missing, ModelError::Read { .. }), "{missing}");
    assert!(missing.to_string().contains("none.arpa"));
    assert!(matches!(
        KenLm::load(folder.path()).unwrap_err(),
        ModelError::Read { .. }
    ));

    let broken = folder.path().join("broken.arpa");
    let seven: String = (1..=7).map(|order| format!("ngram {order}=1\n")).collect();
    for text in [
        String::new(),
        "\n\n".into(),
        "junk".into(),
        "\\data\\\n".into(),
        "\\data\\\nngram 1=99999999999999\nngram 2=5\n\n\\1-grams:\n".into(),
        format!("\\data\\\n{seven}\n"),
        "\u{1f}\u{fffd}\u{8b}".into(),
        "mmap lm http://kheafield.com/code format version 5\n\0".into(),
        whole[..whole.len() / 2].to_owned(),
        whole.replacen("ngram 2=", "ngram 2=1", 1),
        whole.replacen("\\2-grams:", "\\3-grams:", 1),
        whole.replacen("\n-", "\n", 5),
        whole.replace("\n-", "\nnan"),
    ] {
        fs::write(&broken, &text).unwrap();
        let error = KenLm::load(&broken).unwrap_err();
        assert!(matches!(error, ModelError::Broken { .. }), "{error}");
        let error = error.to_string();
        assert!(
            error.contains("broken.arpa") && error.contains("train it again"),
            "{error}"
        );
    }
    // KenLM's message reaches the user, its source location does not.
    fs::write(&broken, format!("\\data\\\n{seven}\n")).unwrap();
    let error = KenLm::load(&broken).unwrap_err().to_string();
    assert!(
        error.contains("broken: This model has order 7 but"),
        "{error}"
    );
    assert!(!error.contains(".cc:"), "{error}");

    #[cfg(target_os = "linux")]
    {
        use std::os::unix::ffi::OsStrExt;
        let odd = folder
            .path()
            .join(std::ffi::OsStr::from_bytes(b"\xff.arpa"));
        fs::copy(&path, &odd).unwrap();
        let error = KenLm::load(&odd).unwrap_err();
        assert!(matches!(error, ModelError::Path { .. }), "{error}");
    }

    // A model of another tool may lack `<unk>`; KenLM then takes -100.
    let header: usize = whole.find("ngram 1=").unwrap() + "ngram 1=".len();
    let unigrams = whole[header..].lines().next().unwrap();
    let fewer = (unigrams.parse::<u32>().unwrap() - 1).to_string();
    let lacking: String = whole
        .replacen(unigrams, &fewer, 1)
        .lines()
        .filter(|line| !line.contains("\t<unk>"))
        .flat_map(|line| [line, "\n"])
        .collect();
    fs::write(&broken, lacking).unwrap();
    let lm = KenLm::load(&broken).unwrap();
    assert_eq!(perplexity::text(&lm, &Sentence::default()), 1e100);
}

#[test]
fn nothing_can_be_made_of_nothing() {
    let none: [Sentence; 0] = [];
    assert_eq!(estimate(&none, 5).unwrap_err(), EstimateError::EmptyCorpus);
    let empty = [Sentence::default(), normalise("99 :)")];
    assert_eq!(estimate(&empty, 5).unwrap_err(), EstimateError::EmptyCorpus);
    for order in [0, 1, 7] {
        let error = estimate(&[normalise("a")], order).unwrap_err();
        assert_eq!(error, EstimateError::Order { order });
    }
}

#[test]
fn one_word_makes_a_model_of_every_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lm.arpa");
    for order in 2..=6 {
        let model = estimate(&[normalise("cat"), Sentence::default()], order).unwrap();
        assert_eq!((model.sentences(), model.tokens()), (1, 1));
        assert_eq!(model.fallbacks(), (1..=order).collect::<Vec<_>>());
        arpa::write(&model, &path).unwrap();
        let lm = KenLm::load(&path).unwrap().of_order(order as u8).unwrap();
        assert!(lm.score(&normalise("cat")).log10 > lm.score(&normalise("dog")).log10);
    }
}

#[test]
fn an_unwritable_folder_is_named() {
    let model = estimate(&[normalise("cat")], 2).unwrap();
    let error = arpa::write(&model, Path::new("/no/such/folder/lm.arpa")).unwrap_err();
    assert!(error.to_string().contains("/no/such/folder/lm.arpa"));
}

/// Small corpora of few words, so that n-grams recur.
fn corpora() -> impl Strategy<Value = (Vec<Sentence>, usize)> {
    let sentence = prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d", "e"]), 1..8);
    let corpus = prop::collection::vec(
        sentence.prop_map(|words| normalise(&words.join(" "))),
        1..25,
    );
    (corpus, 2_usize..=6)
}

/// log10 p(word | context) by the back-off rule of ARPA files.
fn log10(model: &BTreeMap<String, (f64, f64)>, context: &[&str], word: &str) -> f64 {
    let ngram = [context, &[word]].concat().join(" ");
    match (model.get(&ngram), context) {
        (Some((p, _)), _) => *p,
        (None, []) => panic!("{word} is no unigram"),
        (None, [_, shorter @ ..]) => {
            let backoff = model
                .get(&context.join(" "))
                .map_or(0.0, |(_, backoff)| *backoff);
            backoff + log10(model, shorter, word)
        }
    }
}

/// The formulas of Chen & Goodman taken literally, over maps of whole n-grams.
fn reference(corpus: &[Sentence], order: usize) -> Vec<BTreeMap<Vec<&str>, (f64, f64)>> {
    let mut raw = vec![BTreeMap::<Vec<&str>, u64>::new(); order];
    for sentence in corpus {
        let words: Vec<&str> = ["<s>"]
            .into_iter()
            .chain(sentence.tokens())
            .chain(["</s>"])
            .collect();
        for k in 1..=order {
            for ngram in words.windows(k) {
                *raw[k - 1].entry(ngram.to_vec()).or_default() += 1;
            }
        }
    }
    let mut counts = raw.clone();
    for k in 1..order {
        for (ngram, count) in &mut counts[k - 1] {
            if ngram[0] != "<s>" {
                let preceded = raw[k].keys().filter(|longer| longer[1..] == ngram[..]);
                *count = preceded.count() as u64;
            }
        }
    }
    counts[0].insert(vec!["<s>"], 0);
    counts[0].insert(vec!["<unk>"], 0);

    let mut model: Vec<BTreeMap<Vec<&str>, (f64, f64)>> = Vec::new();
    for k in 1..=order {
        let n = |count| counts[k - 1].values().filter(|&&c| c == count).count() as f64;
        let y = n(1) / (n(1) + 2.0 * n(2));
        let mut discounts =
            [1.0, 2.0, 3.0].map(|j| j - (j + 1.0) * y * n(j as u64 + 1) / n(j as u64));
        if n(1) * n(2) * n(3) == 0.0
            || discounts
                .iter()
                .zip(1..)
                .any(|(d, j)| *d <= 0.0 || *d > f64::from(j))
        {
            discounts = [0.5, 1.0, 1.5];
        }
        let discount = |count: u64| {
            if count == 0 {
                0.0
            } else {
                discounts[count.min(3) as usize - 1]
            }
        };
        let total = |context: &[&str]| {
            let after = counts[k - 1]
                .iter()
                .filter(|(ngram, _)| ngram[..k - 1] == *context);
            after.fold((0.0, 0.0), |(all, off), (_, &count)| {
                (all + count as f64, off + discount(count))
            })
        };
        if let Some(below) = model.last_mut() {
            for (context, (_, backoff)) in below {
                let (all, off) = total(context);
                *backoff = if all == 0.0 { 0.0 } else { (off / all).log10() };
            }
        }
        let this = counts[k - 1].iter().map(|(ngram, &count)| {
            let (all, off) = total(&ngram[..k - 1]);
            let shorter = match model.last() {
                Some(below) => 10_f64.powf(below[&ngram[1..]].0),
                None => 1.0 / (counts[0].len() - 1) as f64,
            };
            let p = match ngram[..] {
                ["<s>"] => 1.0,
                _ => (count as f64 - discount(count)) / all + off / all * shorter,
            };
            (ngram.clone(), (p.log10(), 0.0))
        });
        let this = this.collect();
        model.push(this);
    }
    model
}

proptest! {
    #![proptest_config(spoor_testing::cases!(64))]

    #[test]
    fn every_ngram_is_as_the_formulas_say((corpus, order) in corpora()) {
        let model = estimate(&corpus, order).unwrap();
        let (ours, expected) = (ngrams(&model), reference(&corpus, order));
        prop_assert_eq!(model.ngram_counts(), expected.iter().map(BTreeMap::len).collect::<Vec<_>>());
        prop_assert_eq!(ours.len(), expected.len());
        for (ours, expected) in ours.iter().zip(&expected) {
            prop_assert_eq!(ours.len(), expected.len());
            for (words, (p, backoff)) in expected {
                let (our_p, our_backoff) = ours[&words.join(" ")];
                // 1e-9 before both are rounded to the `f32` in the file.
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 + f64::from(f32::EPSILON) * b.abs();
                prop_assert!(near(our_p, p.min(0.0)) && near(our_backoff, *backoff), "{words:?} {our_p} {p} {our_backoff} {backoff}");
            }
        }
    }

    #[test]
    fn probabilities_of_every_context_sum_to_one((corpus, order) in corpora()) {
        let model = estimate(&corpus, order).unwrap();
        let by_order = ngrams(&model);
        let contexts = by_order[..order - 1].iter().flat_map(BTreeMap::keys);
        let contexts: Vec<String> = contexts.filter(|words| !words.contains("</s>")).cloned().collect();
        let vocabulary: Vec<&str> = by_order[0].keys().map(String::as_str).filter(|word| *word != "<s>").collect();
        let ngrams: BTreeMap<_, _> = by_order.iter().flatten().map(|(words, value)| (words.clone(), *value)).collect();
        for context in std::iter::once(String::new()).chain(contexts) {
            let context: Vec<&str> = context.split_whitespace().collect();
            let sum: f64 = vocabulary
                .iter()
                .map(|word| 10_f64.powf(log10(&ngrams, &context, word)))
                .sum();
            prop_assert!((sum - 1.0).abs() < 1e-5, "{context:?}: {sum}");
        }
    }

    #[test]
    fn the_order_of_the_sentences_does_not_matter(
        ((corpus, order), shuffled) in corpora().prop_flat_map(|(corpus, order)| {
            let shuffled = Just(corpus.clone()).prop_shuffle();
            (Just((corpus, order)), shuffled)
        })
    ) {
        let text = arpa_text(&estimate(&corpus, order).unwrap());
        prop_assert_eq!(&text, &arpa_text(&estimate(&shuffled, order).unwrap()));
        prop_assert_eq!(text, arpa_text(&estimate(&corpus, order).unwrap()));
    }

    #[test]
    fn our_probabilities_are_those_kenlm_reads((corpus, order) in corpora()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lm.arpa");
        let model = estimate(&corpus, order).unwrap();
        arpa::write(&model, &path).unwrap();
        let lm = KenLm::load(&path).unwrap();
        let ngrams: BTreeMap<_, _> = ngrams(&model).into_iter().flatten().collect();
        for sentence in corpus.iter().take(5) {
            let words: Vec<&str> = ["<s>"].into_iter().chain(sentence.tokens()).chain(["</s>"]).collect();
            let expected: f64 = (1..words.len())
                .map(|at| log10(&ngrams, &words[(at + 1).saturating_sub(order)..at], words[at]))
                .sum();
            let score = lm.score(sentence);
            prop_assert!((score.log10 - expected).abs() < 1e-4, "{} {expected}", score.log10);
        }
    }
}
