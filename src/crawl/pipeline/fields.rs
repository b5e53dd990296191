//! What the job's rules find on a page.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::address::PageUrl;
use crate::page::Fetched;
use crate::rules::{Applied, Page, RuleSet};
use crate::web::extract;

/// Applies the rules to a page; `None` if no rule covers its address and day. Only a covered page
/// is parsed again, into a tree. The values are left out if the page's terms forbid keeping its
/// text.
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

/// The UTC day of a time in milliseconds since 1970.
fn day(millis: u64) -> Option<jiff::civil::Date> {
    let millis = i64::try_from(millis).ok()?;
    let time = Timestamp::from_millisecond(millis).ok()?;
    Some(time.to_zoned(TimeZone::UTC).date())
}
