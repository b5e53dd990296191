//! The minimum politeness of a configuration.

use super::{Config, Politeness};

impl Config {
    /// These values, but in `[politeness]` none that demands more of a host than the current values
    /// and the machine's `own`.
    #[must_use]
    pub fn bounded(mut self, in_force: &Self, own: &Politeness) -> Self {
        let politeness = self.settings.politeness;
        self.settings.politeness = politeness.bounded(&in_force.politeness, own);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(politeness: &str) -> Config {
        let text = format!("[job]\nname = \"x\"\n[politeness]\n{politeness}");
        Config::parse(&text, "x").unwrap()
    }

    const OWN: &str = "min_delay = \"5s\"\nmax_delay = \"2m\"\ndelay_factor = 8\n\
        connections_per_host = 2\nrequests_per_second = 10\nbytes_per_second = \"1 MiB\"\n\
        retries = 2\nback_off = \"1m\"\nmax_back_off = \"2h\"\nrobots_max_age = \"1h\"\n";

    #[test]
    fn every_key_may_become_more_polite_and_none_less() {
        let own = config(OWN);
        let ruder = config(
            "min_delay = \"0s\"\nmax_delay = \"1s\"\ndelay_factor = 0\n\
             connections_per_host = 16\nretries = 20\nback_off = \"1ms\"\n\
             max_back_off = \"1ms\"\nrobots_max_age = \"24h\"\n",
        );
        assert_eq!(ruder.bounded(&own, &own.politeness), own);
        let more_polite = config(
            "min_delay = \"9s\"\nmax_delay = \"9m\"\ndelay_factor = 9\n\
             connections_per_host = 1\nrequests_per_second = 1\nbytes_per_second = \"1 KiB\"\n\
             retries = 0\nback_off = \"9m\"\nmax_back_off = \"9h\"\nrobots_max_age = \"1m\"\n\
             max_crawl_delay = \"1h\"\n",
        );
        let bounded = more_polite.clone().bounded(&own, &own.politeness);
        assert_eq!(bounded, more_polite);
        // Other sections stay unchanged.
        let mut other = own.clone();
        other.limits.documents = Some(7);
        assert_eq!(other.clone().bounded(&own, &own.politeness), other);
    }

    #[test]
    fn what_the_operator_of_this_machine_has_set_is_not_undone() {
        let (own, set) = (config(OWN), config("min_delay = \"1s\"\n"));
        // Below the job file, because it was set here, but no further.
        assert_eq!(set.clone().bounded(&set, &own.politeness), set);
        let order = config("min_delay = \"500ms\"\nconnections_per_host = 9\n");
        let bounded = order.bounded(&set, &own.politeness);
        assert_eq!(bounded.politeness.min_delay, set.politeness.min_delay);
        assert_eq!(bounded.politeness.connections_per_host, 2);
        assert_eq!(bounded.politeness.requests_per_second, None);
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn what_is_bounded_is_still_a_job_file(
            seconds in prop::collection::vec((0_u32..9, 0_u32..9), 6),
        ) {
            let of = |[min, max, off]: [(u32, u32); 3]| {
                let [(min, max), (off, more)] = [(min.0, min.0 + max.1), (off.0 + 1, max.0)];
                config(&format!(
                    "min_delay = \"{min}s\"\nmax_delay = \"{max}s\"\nback_off = \"{off}s\"\n\
                     max_back_off = \"{}s\"\n", off + more
                ))
            };
            let (Some(order), Some(own)) = (seconds[..3].first_chunk(), seconds[3..].first_chunk())
            else { unreachable!() };
            let (order, own) = (of(*order), of(*own));
            let bounded = order.bounded(&own, &own.politeness);
            prop_assert!(Config::parse(&bounded.to_toml(), "x").is_ok());
            prop_assert!(bounded.politeness.min_delay >= own.politeness.min_delay);
        }
    }
}
