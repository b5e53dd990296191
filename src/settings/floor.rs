//! A lower limit for politeness: orders from other machines never make this machine demand more of
//! a host than its own job file does.

use super::Politeness;

impl Politeness {
    /// These values, except any that demands more of a host than both `now` and `own`.
    #[must_use]
    pub fn bounded(self, now: &Self, own: &Self) -> Self {
        // Spelled out, so that every new key requires a decision here.
        let Self {
            min_delay,
            max_delay,
            delay_factor,
            connections_per_host,
            address_delay,
            domain_delay,
            // A host that asks for a longer delay is left alone, so every value is polite.
            max_crawl_delay,
            requests_per_second,
            bytes_per_second,
            retries,
            back_off,
            max_back_off,
            robots_max_age,
        } = self;
        Self {
            min_delay: at_least(min_delay, now.min_delay, own.min_delay),
            max_delay: at_least(max_delay, now.max_delay, own.max_delay),
            delay_factor: at_least(delay_factor, now.delay_factor, own.delay_factor),
            connections_per_host: at_most(
                connections_per_host,
                now.connections_per_host,
                own.connections_per_host,
            ),
            address_delay: at_least(address_delay, now.address_delay, own.address_delay),
            domain_delay: at_least(domain_delay, now.domain_delay, own.domain_delay),
            max_crawl_delay,
            requests_per_second: limited(
                requests_per_second,
                now.requests_per_second,
                own.requests_per_second,
            ),
            bytes_per_second: limited(bytes_per_second, now.bytes_per_second, own.bytes_per_second),
            retries: at_most(retries, now.retries, own.retries),
            back_off: at_least(back_off, now.back_off, own.back_off),
            max_back_off: at_least(max_back_off, now.max_back_off, own.max_back_off),
            robots_max_age: at_most(robots_max_age, now.robots_max_age, own.robots_max_age),
        }
    }
}

/// A value that may be lower than `now` or `own`, but not lower than both.
fn at_least<T: PartialOrd>(value: T, now: T, own: T) -> T {
    let floor = if now < own { now } else { own };
    if value < floor { floor } else { value }
}

/// A value that may be higher than `now` or `own`, but not higher than both.
fn at_most<T: PartialOrd>(value: T, now: T, own: T) -> T {
    let ceiling = if now > own { now } else { own };
    if value > ceiling { ceiling } else { value }
}

/// The same, with `None` for no limit.
fn limited<T: PartialOrd>(value: Option<T>, now: Option<T>, own: Option<T>) -> Option<T> {
    match (value, now.zip(own)) {
        (value, None) => value,
        (None, Some((now, own))) => Some(if now > own { now } else { own }),
        (Some(value), Some((now, own))) => Some(at_most(value, now, own)),
    }
}
