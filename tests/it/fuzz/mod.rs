//! Everything that reads what strangers wrote, or what a disk may have damaged, with
//! inputs that nobody would think of: real ones, mutated. None may panic or take long,
//! and what is read must hold to what is promised of it.
//!
//! The ordinary suite runs a bounded number of inputs from a fixed seed, so that it
//! gives the same every time. The long one runs each target for `SPOOR_FUZZ_SECONDS`
//! (60 by default) from `SPOOR_FUZZ_SEED` (the time by default) and tells the totals:
//!
//! ```sh
//! CARGO_PROFILE_TEST_OPT_LEVEL=2 cargo test --test it fuzz:: -- --ignored --nocapture
//! ```
//!
//! A failure shows the input, which belongs into a test of the module it broke.

mod archives;
mod mutate;
mod store;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mutate::Mutator;

/// Far more than any input takes in a build without optimisation on a busy machine.
const LONGEST: Duration = Duration::from_secs(20);

/// Reads one input and panics where it should not be read so.
type Run = dyn Fn(&[u8]);

/// What is run on inputs.
struct Target {
    name: &'static str,
    /// Inputs as they should be.
    seeds: Vec<Vec<u8>>,
    /// What means something to the reader.
    words: &'static [&'static str],
    /// Inputs of the ordinary suite.
    cases: u64,
    run: Box<Run>,
}

/// How much was done.
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
