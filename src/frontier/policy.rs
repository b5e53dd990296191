//! The job's settings for politeness, retries and visits, in the units of the frontier.

use super::control_sample::{Sample, SampleSettings};
use crate::clock::millis;
use crate::page::Signal;
use crate::settings;

/// The interval between visits, adapted to the rate of change of a page. All times are in
/// milliseconds; `min <= after <= max`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recrawl {
    /// The pause after the first visit.
    pub after: u64,
    /// The shortest pause.
    pub min: u64,
    /// The longest pause.
    pub max: u64,
}

impl Recrawl {
    /// The interval after one of `interval`: half of it if the page has changed, half as much again
    /// if it has not. A page is thus visited at most at about twice the rate of its changes, and
    /// one that never changes costs a visit every `max`.
    pub(super) fn next(&self, interval: u64, changed: bool) -> u64 {
        let next = if changed {
            interval / 2
        } else {
            interval.saturating_add(interval.div_ceil(2))
        };
        next.max(self.min).min(self.max)
    }
}

/// The `[politeness]` section in milliseconds, with the settings of `[network]` that the
/// frontier needs.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Least pause between two requests to a host.
    pub min_delay: u64,
    /// Greatest pause that the adaptive rule chooses.
    pub max_delay: u64,
    /// The pause is this many times the last request's duration.
    pub delay_factor: f64,
    /// Requests open at one host at the same time.
    pub connections: usize,
    /// Attempts after the first, for a URL and for a host.
    pub retries: u32,
    /// First pause after a failure; doubles with every further one.
    pub back_off: u64,
    /// Greatest pause that doubling reaches, and how long a host is parked.
    pub max_back_off: u64,
    /// The greatest part of itself by which a pause after a failure is longer for some hosts.
    pub jitter: f64,
    /// A `Crawl-delay` above this parks the host.
    pub max_crawl_delay: u64,
    /// How long robots rules hold.
    pub robots_max_age: u64,
    /// Least pause between two requests to one IP address; 0 for none.
    pub address_delay: u64,
    /// Least pause between two requests to one registered domain; 0 for none.
    pub domain_delay: u64,
    /// Redirects in a row that are followed.
    pub max_redirects: u8,
    /// Product token that robots.txt groups are matched against.
    pub agent: String,
    /// Whether the sitemaps that robots.txt names are read.
    pub sitemaps: bool,
    /// Whether hosts are asked for their `tdmrep.json`.
    pub tdmrep: bool,
    /// Whether RSL files are requested.
    pub rsl: bool,
    /// The terms of use that are obeyed.
    pub obeyed: Vec<Signal>,
    /// When pages are visited again; `None` if they are fetched once.
    pub recrawl: Option<Recrawl>,
    /// The size of the control sample.
    pub control: SampleSettings,
    /// The share of the requests that go to images while pages and images wait, 0 to 1.
    pub image_share: f64,
}

impl Policy {
    /// Takes the values of a checked config; sitemaps and files with terms are not read,
    /// and there is no control sample.
    pub fn new(politeness: &settings::Politeness, network: &settings::Network) -> Self {
        Self {
            min_delay: millis(politeness.min_delay),
            max_delay: millis(politeness.max_delay),
            delay_factor: politeness.delay_factor,
            connections: politeness.connections_per_host,
            retries: u32::from(politeness.retries),
            back_off: millis(politeness.back_off),
            max_back_off: millis(politeness.max_back_off),
            jitter: 0.25,
            max_crawl_delay: millis(politeness.max_crawl_delay),
            robots_max_age: millis(politeness.robots_max_age),
            address_delay: millis(politeness.address_delay),
            domain_delay: millis(politeness.domain_delay),
            max_redirects: network.max_redirects,
            agent: network.user_agent.as_str().to_owned(),
            sitemaps: false,
            tdmrep: false,
            rsl: false,
            obeyed: Signal::ALL.to_vec(),
            recrawl: None,
            control: SampleSettings::default(),
            image_share: 0.33,
        }
    }

    /// The same, with this share of the requests for images.
    pub fn with_images(self, section: &settings::Images) -> Self {
        let image_share = section.share;
        Self {
            image_share,
            ..self
        }
    }

    /// The same, with a control sample. A crawl without preferences has none: the sample
    /// would not differ from the other fetches.
    pub fn with_control(
        self,
        section: &settings::ControlSample,
        kind: settings::StrategyKind,
    ) -> Self {
        let share = if crate::topic::strategy::prefers(kind) {
            section.share
        } else {
            0.0
        };
        let seed = section.seed;
        let control = SampleSettings { share, seed };
        Self { control, ..self }
    }

    /// Applies the share and the seed of the policy to the control sample.
    pub(super) fn apply_control(&self, sample: &mut Sample) {
        let SampleSettings { share, seed } = self.control;
        (sample.share, sample.seed) = (share, seed);
    }

    /// The same, with pages visited again according to `[recrawl]`.
    pub fn with_recrawl(self, section: &settings::Recrawl) -> Self {
        let recrawl = section.after.map(|after| Recrawl {
            after: millis(after),
            min: millis(section.min),
            max: millis(section.max),
        });
        Self { recrawl, ..self }
    }
}

#[cfg(any(test, feature = "testing"))]
pub(super) fn test_policy() -> Policy {
    Policy {
        min_delay: 1_000,
        max_delay: 60_000,
        delay_factor: 5.0,
        connections: 1,
        retries: 3,
        back_off: 30_000,
        max_back_off: 86_400_000,
        jitter: 0.0,
        max_crawl_delay: 600_000,
        robots_max_age: 86_400_000,
        address_delay: 0,
        domain_delay: 0,
        max_redirects: 5,
        agent: "spoor".to_owned(),
        sitemaps: false,
        tdmrep: false,
        rsl: false,
        obeyed: Signal::ALL.to_vec(),
        recrawl: None,
        control: SampleSettings::default(),
        image_share: 0.33,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_pause_follows_the_changes() {
        let rule = Recrawl {
            after: 1_000,
            min: 300,
            max: 2_000,
        };
        let mut pause = rule.after;
        let mut next = |changed| {
            pause = rule.next(pause, changed);
            pause
        };
        assert_eq!([true, true, true].map(&mut next), [500, 300, 300]);
        assert_eq!(
            [false; 6].map(&mut next),
            [450, 675, 1_013, 1_520, 2_000, 2_000]
        );
        assert_eq!(next(true), 1_000);
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        /// Always within its bounds; shorter after a change and longer otherwise, as far as the
        /// bounds allow.
        #[test]
        fn the_pause_keeps_its_bounds(
            bounds in proptest::array::uniform3(1_u64..), visits in proptest::collection::vec(any::<bool>(), 0..100)
        ) {
            let mut bounds = bounds;
            bounds.sort_unstable();
            let [min, after, max] = bounds;
            let rule = Recrawl { after, min, max };
            let mut pause = after;
            for changed in visits {
                let next = rule.next(pause, changed);
                prop_assert!((min..=max).contains(&next));
                if changed { prop_assert!(next < pause || next == min) } else { prop_assert!(next > pause || next == max) }
                pause = next;
            }
        }
    }
}
