//! What a replay has done, in numbers that are committed with the outputs.

use std::collections::BTreeMap;

use crate::archive::record::Spot;

/// Exchanges are left out for these reasons, beside those for which a crawl drops addresses.
pub(super) const NOT_EMBEDDED: &str = "no page embeds it";
pub(super) const AGAIN: &str = "taken before";
pub(super) const ERROR: &str = "no final answer";
pub(super) const GAP: &str = "damaged";
pub(super) const LIMIT: &str = "limit of the job";
pub(super) const SITEMAP: &str = "sitemap";
pub(super) const NO_IMAGES: &str = "images.enabled is false";
/// A page that was taken without any link to it.
pub(super) const NO_LINK: &str = "no link";

const PASSES: &str = "replay passes";
const EXCHANGES: &str = "replay exchanges";
const COMPLETE: &str = "replay complete";
/// The number of the file plus 1, or 0 at the beginning.
const FILE: &str = "replay file";
const OFFSET: &str = "replay offset";
const INSIDE: &str = "replay inside";
const READ: &str = "replay read";
const CLOCK: &str = "replay clock";
const WAITING: &str = "replay waiting";
const TAKEN: &str = "replay taken";
const LEFT_OUT: &str = "replay left out: ";
const NOT_LED_TO: &str = "replay not led to: ";

/// What was done with the exchanges of the archive, over all runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayTally {
    /// How often the archive was read to its end.
    pub passes: u64,
    /// Exchanges that were looked at in the first pass.
    pub exchanges: u64,
    /// Those that were not taken, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// Pages that were taken although this job would follow no link to them, by reason.
    pub not_led_to: BTreeMap<String, u64>,
    /// Whether all is done.
    pub complete: bool,
    /// The last exchange of this pass.
    pub(super) spot: Option<Spot>,
    /// How many bytes of the archive were read up to there.
    pub(super) read: u64,
    /// The replay's clock.
    pub(super) clock: u64,
    /// Images left out in this pass because no page embeds them.
    pub(super) waiting: u64,
    /// Images taken in this pass.
    pub(super) taken: u64,
}

impl ReplayTally {
    /// As it was committed.
    pub fn of(marks: &BTreeMap<String, u64>) -> Self {
        let number = |name: &str| marks.get(name).copied().unwrap_or_default();
        let under = |prefix: &str| {
            let all = marks.iter().filter(|(_, n)| **n > 0);
            all.filter_map(|(name, n)| Some((name.strip_prefix(prefix)?.to_owned(), *n)))
                .collect()
        };
        let file = number(FILE).checked_sub(1);
        Self {
            passes: number(PASSES),
            exchanges: number(EXCHANGES),
            complete: number(COMPLETE) > 0,
            spot: file.map(|file| Spot {
                file: u32::try_from(file).unwrap_or(u32::MAX),
                offset: number(OFFSET),
                inside: number(INSIDE),
            }),
            read: number(READ),
            clock: number(CLOCK),
            waiting: number(WAITING),
            taken: number(TAKEN),
            left_out: under(LEFT_OUT),
            not_led_to: under(NOT_LED_TO),
        }
    }

    /// How many bytes of the archive were read in this pass.
    pub fn read_bytes(&self) -> u64 {
        self.read
    }

    /// The numbers to be committed.
    pub(super) fn marks(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let spot = self.spot;
        let of_spot = |number: fn(Spot) -> u64| spot.map_or(0, number);
        let fixed = [
            (PASSES, self.passes),
            (EXCHANGES, self.exchanges),
            (COMPLETE, u64::from(self.complete)),
            (FILE, of_spot(|spot| u64::from(spot.file) + 1)),
            (OFFSET, of_spot(|spot| spot.offset)),
            (INSIDE, of_spot(|spot| spot.inside)),
            (READ, self.read),
            (CLOCK, self.clock),
            (WAITING, self.waiting),
            (TAKEN, self.taken),
        ];
        let fixed = fixed.map(|(name, number)| (name.to_owned(), number));
        let named = |prefix: &'static str, all: &'_ BTreeMap<String, u64>| {
            let named = all.iter();
            let named = named.map(|(name, number)| (format!("{prefix}{name}"), *number));
            named.collect::<Vec<_>>()
        };
        let left_out = named(LEFT_OUT, &self.left_out);
        let not_led_to = named(NOT_LED_TO, &self.not_led_to);
        fixed.into_iter().chain(left_out).chain(not_led_to)
    }

    pub(super) fn leave_out(&mut self, why: &str) {
        if why == NOT_EMBEDDED {
            self.waiting += 1;
        }
        *self.left_out.entry(why.to_owned()).or_default() += 1;
    }

    /// Ends a pass. Another one follows while images wait for a page that embeds them: they may
    /// precede it in the archive.
    pub(super) fn end_pass(&mut self, most: u64) {
        self.passes += 1;
        (self.spot, self.read) = (None, 0);
        let again = self.waiting > 0 && (self.passes == 1 || self.taken > 0);
        self.complete = !again || self.passes >= most;
        if !self.complete {
            // They are counted again. The entry stays, so that its number is committed.
            self.left_out.insert(NOT_EMBEDDED.to_owned(), 0);
            (self.waiting, self.taken) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_as_it_was_committed() {
        let mut tally = ReplayTally {
            passes: 1,
            exchanges: 7,
            spot: Some(Spot {
                file: 0,
                offset: 5,
                inside: 9,
            }),
            read: 12,
            clock: 99,
            taken: 2,
            ..ReplayTally::default()
        };
        tally.leave_out("scope");
        tally.leave_out(NOT_EMBEDDED);
        tally.not_led_to.insert("razor".to_owned(), 3);
        let of = |tally: &ReplayTally| ReplayTally::of(&tally.marks().collect());
        assert_eq!(of(&tally), tally);
        assert_eq!(of(&ReplayTally::default()), ReplayTally::default());
        tally.end_pass(3);
        assert!(!tally.complete, "an image was taken, and one waits");
        assert_eq!(tally.spot, None);
        tally.left_out.remove(NOT_EMBEDDED);
        assert_eq!(of(&tally), tally);
        tally.end_pass(3);
        assert!(tally.complete);
    }
}
