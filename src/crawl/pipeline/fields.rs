//! What the job's rules find on a page.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::address::PageUrl;
use crate::page::Fetched;
use crate::rules::{Applied, Page, RuleSet};
use crate::web::extract;

/// Applies the rules to a page; `None` if none is for its address and day. Only then is the
/// page parsed once more, into a tree. Where the terms of the page forbid keeping its text,
/// the values are left out.
pub(super) fn of_page(
    rules: &RuleSet,
    url: &PageUrl,
    fetched: &Fetched,
    options: &extract::Options,
    may_keep: bool,
) -> Option<Applied> {
    let day = fetched.date.and_then(day);
    if !rules.is_for(url, day) {
        return None;
    }
    let markup = extract::markup(url, fetched, options)?;
    let Some(html) = extract::tree(&markup, options) else {
        // Too large or too deep for a tree: no rule can match it.
        return Some(Applied::default());
    };
    let page = Page {
        url,
        markup: &markup,
        html: &html,
        day,
    };
    let mut applied = rules.apply(&page)?;
    if !may_keep {
        applied.fields.clear();
    }
    Some(applied)
}

/// The day of a time in milliseconds since 1970, in UTC.
fn day(millis: u64) -> Option<jiff::civil::Date> {
    let millis = i64::try_from(millis).ok()?;
    let time = Timestamp::from_millisecond(millis).ok()?;
    Some(time.to_zoned(TimeZone::UTC).date())
}
