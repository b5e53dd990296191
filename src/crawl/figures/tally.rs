//! Counting in bounded memory: names, and quantities along an axis.
//!
//! This module does not know what is counted.

use std::collections::HashMap;

use serde::Serialize;

/// The maximum number of distinct names; some of them come from the web.
const MAX_NAMES: usize = 10_000;

/// Counts names.
#[derive(Debug, Clone, Default)]
pub struct NameTally {
    names: HashMap<String, u64>,
    others: u64,
}

impl NameTally {
    /// Counts one.
    pub fn add(&mut self, name: &str) {
        if let Some(count) = self.names.get_mut(name) {
            *count += 1;
        } else if self.names.len() < MAX_NAMES {
            self.names.insert(name.to_owned(), 1);
        } else {
            self.others += 1;
        }
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: Self) {
        self.others += other.others;
        for (name, n) in other.names {
            if let Some(count) = self.names.get_mut(&name) {
                *count += n;
            } else if self.names.len() < MAX_NAMES {
                self.names.insert(name, n);
            } else {
                self.others += n;
            }
        }
    }

    /// The `top` most frequent, and the rest.
    pub fn finish(&self, top: usize) -> Counted {
        let names = self.names.iter();
        let mut names: Vec<(String, u64)> = names.map(|(name, n)| (name.clone(), *n)).collect();
        names.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let rest = names.split_off(names.len().min(top));
        let others = rest.iter().map(|(_, count)| count).sum::<u64>();
        Counted {
            top: names,
            others: self.others + others,
        }
    }
}

/// A number with a comma between thousands.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Names with their frequencies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// The most frequent, most first.
    pub top: Vec<(String, u64)>,
    /// The frequency of all others.
    pub others: u64,
}

/// Sums along an axis that begins at 0, in steps of equal width. If it grows beyond `MAX`
/// steps, pairs of neighbours are merged, so that memory is bounded and the resolution
/// fits the length.
#[derive(Debug, Clone)]
pub struct Steps<T> {
    width: u64,
    sums: Vec<T>,
}

impl<T: Default + Clone + std::ops::AddAssign> Steps<T> {
    const MAX: usize = 240;

    /// Steps of at least this width, 1 or more.
    pub fn of(width: u64) -> Self {
        let sums = Vec::new();
        Self { width, sums }
    }

    /// Adds `value` at `place`.
    pub fn add(&mut self, place: u64, value: T) {
        while place / self.width >= Self::MAX as u64 {
            self.sums = self
                .sums
                .chunks(2)
                .map(|pair| {
                    let mut sum = T::default();
                    pair.iter().for_each(|value| sum += value.clone());
                    sum
                })
                .collect();
            self.width = self.width.saturating_mul(2);
        }
        let at = usize::try_from(place / self.width).unwrap_or_default();
        if self.sums.len() <= at {
            self.sums.resize(at + 1, T::default());
        }
        if let Some(sum) = self.sums.get_mut(at) {
            *sum += value;
        }
    }

    /// The width of a step.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// The steps in order.
    pub fn sums(&self) -> &[T] {
        &self.sums
    }
}

/// Running totals along an axis.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Series {
    /// The position on the axis, ascending, and the total before it.
    pub points: Vec<(u64, u64)>,
}

impl Series {
    /// The running sums, from 0 to the `end` of the axis.
    pub fn running(steps: &Steps<u64>, end: u64) -> Self {
        let mut sum = 0;
        let mut points = vec![(0, 0)];
        for (n, count) in (1..).zip(steps.sums()) {
            sum += count;
            points.push((steps.width().saturating_mul(n).min(end), sum));
        }
        if points.last().is_some_and(|(at, _)| *at < end) {
            points.push((end, sum));
        }
        Self { points }
    }
}
