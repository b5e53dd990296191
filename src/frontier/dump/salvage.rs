//! Reads a store around damaged parts.
//!
//! A damaged block fails every scan that meets it. The data beyond it is found by trying
//! ever farther keys and then halving the distance. The meaning of the pairs is unknown
//! here.

use std::ops::ControlFlow;

use crate::store::{Readable, Visitor};

/// Most damaged places of a store that are skipped, for each kind of record.
const MAX_STUMBLES: usize = 1_000;

/// Most halvings to find the end of a damaged place; eight resolve one byte of a key.
const MAX_HALVINGS: usize = 512;

/// Visits all readable pairs under a prefix, around damaged places. Returns the first
/// error of the backend, if any.
pub(super) fn scan_around_damage(
    store: &dyn Readable,
    prefix: &[u8],
    visit: Visitor<'_>,
) -> Option<String> {
    let mut first = None;
    let mut from = prefix.to_vec();
    for _ in 0..MAX_STUMBLES {
        let mut last = None;
        let scanned = store.scan(prefix, &from, &mut |key, value| {
            last = Some(key.to_vec());
            visit(key, value)
        });
        let Err(error) = scanned else { break };
        first = first.or(Some(error.to_string()));
        let mut at = last.unwrap_or(from);
        at.push(0);
        from = beyond(store, prefix, at);
        if !from.starts_with(prefix) {
            break;
        }
    }
    first
}

/// The nearest key after `at`, as far as it can be found, at which the store is readable
/// again; a key without `prefix` if there is none. Readable pairs between two damaged
/// places close together may be skipped.
fn beyond(store: &dyn Readable, prefix: &[u8], at: Vec<u8>) -> Vec<u8> {
    let readable = |from: &[u8]| {
        let mut stop = |_: &[u8], _: &[u8]| ControlFlow::Break(());
        store.scan(prefix, from, &mut stop).is_ok()
    };
    let mut low = at.clone();
    let mut high = prefix.to_vec();
    // Ever longer steps: the next key after all keys that share an ever shorter prefix
    // with it.
    for length in (1..=at.len()).rev() {
        let mut next = at.get(..length).unwrap_or_default().to_vec();
        match next.last_mut() {
            Some(last) if *last < u8::MAX => *last += 1,
            _ => continue,
        }
        high = next;
        if !high.starts_with(prefix) || readable(&high) {
            break;
        }
        low.clone_from(&high);
    }
    for _ in 0..MAX_HALVINGS {
        let Some(middle) = between(&low, &high) else {
            break;
        };
        if readable(&middle) {
            high = middle
        } else {
            low = middle
        }
    }
    high
}

/// A key about half-way between two keys.
fn between(low: &[u8], high: &[u8]) -> Option<Vec<u8>> {
    let shared = low.iter().zip(high).take_while(|(l, h)| l == h).count();
    // As many bytes after the common prefix as a number holds, with one to spare.
    let number = |key: &[u8]| {
        let tail = key.iter().skip(shared).chain(std::iter::repeat(&0));
        tail.take(15).fold(0, |n: u128, b| n << 8 | u128::from(*b))
    };
    let middle = number(low).midpoint(number(high));
    let mut key = low.get(..shared)?.to_vec();
    key.extend(middle.to_be_bytes().iter().skip(1));
    (low < key.as_slice() && key.as_slice() < high).then_some(key)
}
