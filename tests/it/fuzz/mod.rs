//! Everything that reads input from strangers or from a possibly damaged disk, with mutated real
//! inputs. No reader may panic or take long, and the results must satisfy their promises.
//!
//! The ordinary suite runs a bounded number of inputs from a fixed seed, so its result is always
//! the same. The long one runs each target for `SPOOR_FUZZ_SECONDS` (60 by default) from
//! `SPOOR_FUZZ_SEED` (the time by default) and prints the totals:
//!
//! ```sh
//! CARGO_PROFILE_TEST_OPT_LEVEL=2 cargo test --test it fuzz:: -- --ignored --nocapture
//! ```
//!
//! A failure shows the input, which belongs in a test of the module it broke.

mod archives;
mod mutate;
mod store;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mutate::Mutator;

/// Far more than any input takes in a build without optimisation on a busy machine.
const LONGEST: Duration = Duration::from_secs(20);

/// Reads one input, and panics if the result is wrong.
type Run = dyn Fn(&[u8]);

/// A reader to fuzz.
struct Target {
    name: &'static str,
    /// Valid inputs.
    seeds: Vec<Vec<u8>>,
    /// Words that have a meaning to the reader.
    words: &'static [&'static str],
    /// The number of inputs in the ordinary suite.
    cases: u64,
    run: Box<Run>,
}

/// The amount of work done.
struct Totals {
    inputs: u64,
    bytes: u64,
    slowest: Duration,
}

impl Target {
    fn fuzz(&self, seed: u64, mut more: impl FnMut(u64) -> bool) -> Totals {
        let mut mutator = Mutator::new(seed);
        let mut totals = Totals {
            inputs: 0,
            bytes: 0,
            slowest: Duration::ZERO,
        };
        for input in &self.seeds {
            self.case(input, &mut totals);
        }
        while more(totals.inputs) {
            let input = mutator.next(&self.seeds, self.words);
            self.case(&input, &mut totals);
        }
        totals
    }

    fn case(&self, input: &[u8], totals: &mut Totals) {
        let begun = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| (self.run)(input)));
        let took = begun.elapsed();
        if let Err(panic) = result {
            eprintln!("{} on b\"{}\"", self.name, input.escape_ascii());
            resume_unwind(panic);
        }
        let shown = || input.escape_ascii().to_string();
        assert!(
            took < LONGEST,
            "{}: {took:?} on b\"{}\"",
            self.name,
            shown()
        );
        totals.inputs += 1;
        totals.bytes += input.len() as u64;
        totals.slowest = totals.slowest.max(took);
    }

    fn short(&self) {
        let totals = self.fuzz(1, |done| done < self.cases);
        assert!(totals.inputs >= self.cases);
    }

    fn long(&self) {
        let variable = |name: &str| Some(std::env::var(name).ok()?.parse::<u64>().unwrap());
        let seconds = variable("SPOOR_FUZZ_SECONDS").unwrap_or(60);
        let time = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let seed = variable("SPOOR_FUZZ_SEED").unwrap_or_else(|| time().as_secs());
        let end = Instant::now() + Duration::from_secs(seconds);
        let totals = self.fuzz(seed, |_| Instant::now() < end);
        eprintln!(
            "{:<10} {:>9} inputs {:>7.1} MB in {seconds} s, the slowest {:.1} ms, seed {seed}",
            self.name,
            totals.inputs,
            totals.bytes as f64 / 1e6,
            totals.slowest.as_secs_f64() * 1e3,
        );
    }
}

macro_rules! targets {
    ($($name:ident: $target:expr;)*) => {$(
        mod $name {
            #[test]
            fn short() {
                $target.short();
            }

            #[test]
            #[ignore = "runs for SPOOR_FUZZ_SECONDS"]
            fn long() {
                $target.long();
            }
        }
    )*};
}

targets! {
    address: super::targets::address();
    surt: super::targets::surt();
    robots: super::targets::robots();
    page: super::targets::page();
    picture: super::targets::picture();
    sidecar: super::targets::sidecar();
    config: super::targets::config();
    formula: super::targets::formula();
    tdmrep: super::targets::tdmrep();
    sitemap: super::targets::sitemap();
    votes: super::targets::votes();
    archive: super::store::archive();
    record: super::store::record();
    warc: super::archives::warc();
    wacz: super::archives::wacz();
    remote: super::archives::remote();
}
