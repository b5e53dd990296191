//! `ln(1 + n)` of numbers of occurrences. Most words of a text occur once or twice, and a logarithm
//! takes longer than the rest of the computation for a word, so the first values are in tables.

use std::array;
use std::sync::LazyLock;

/// The number of values in the tables.
const KNOWN: usize = 16;

static DOUBLE: LazyLock<[f64; KNOWN]> = LazyLock::new(|| array::from_fn(|n| (n as f64).ln_1p()));
static SINGLE: LazyLock<[f32; KNOWN]> = LazyLock::new(|| array::from_fn(|n| (n as f32).ln_1p()));

/// In double precision.
pub(super) fn double(times: u32) -> f64 {
    let known = DOUBLE.get(times as usize).copied();
    known.unwrap_or_else(|| f64::from(times).ln_1p())
}

/// In single precision.
pub(super) fn single(times: u32) -> f32 {
    let known = SINGLE.get(times as usize).copied();
    known.unwrap_or_else(|| (times as f32).ln_1p())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_hold_the_logarithms() {
        for times in 0..40 {
            assert_eq!(double(times), f64::from(times).ln_1p());
            assert_eq!(single(times), (times as f32).ln_1p());
        }
        assert_eq!(double(u32::MAX), (2.0_f64).powi(32).ln());
    }
}
