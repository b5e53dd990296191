//! What a crawl found, in one sentence for somebody who has never read of a language
//! model, and the same as data.

use std::fmt;

use serde::Serialize;

use super::focus::{Focus, Tally};

/// Pages from which on a share is told: of fewer, one page more or less moves it too far.
pub const MIN_PAGES: u64 = 30;

/// Links drawn by chance from which on their share is told, whatever it is.
const MIN_DRAWN: u64 = 30;

/// The first line of every summary: how many of the pages are about the topic, and how
/// many of those that chance draws from the same links. [`Display`](fmt::Display) gives it
/// in words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Headline {
    /// What the crawl is about, as it stands in the sentence.
    pub topic: String,
    /// Pages that the crawl chose.
    pub pages: u64,
    /// The share of them that are on topic, 0 to 1; `None` where it is too early to tell.
    pub share: Option<f64>,
    /// Pages that were drawn by chance from the same links.
    pub drawn: u64,
    /// The share of them that are on topic, 0 to 1; `None` where it is too early to tell.
    pub drawn_share: Option<f64>,
    /// The 95 % interval of `drawn_share`.
    pub drawn_interval: Option<(f64, f64)>,
    /// How many times as large `share` is as `drawn_share`.
    pub gain: Option<f64>,
    /// The 95 % interval of `gain`; its upper end is `None` where it has none.
    pub gain_interval: Option<(f64, Option<f64>)>,
}

impl Focus {
    /// What the crawl found, in plain words, as "Of 100 pages it chose, 54 are about
    /// lighthouses; of 100 drawn by chance from the same links, about 9."
    pub fn sentence(&self, topic: &str) -> String {
        self.headline(topic).to_string()
    }

    /// The same as data.
    pub fn headline(&self, topic: &str) -> Headline {
        let told = |tally: &Tally, enough: bool| tally.share().filter(|_| enough);
        let is_enough = self.focused.fetches >= MIN_PAGES;
        let interval = self.gain_interval();
        let excludes_one = interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0);
        let compares = is_enough && (self.control.fetches >= MIN_DRAWN || excludes_one);
        Headline {
            topic: topic.to_owned(),
            pages: self.focused.fetches,
            share: told(&self.focused, is_enough),
            drawn: self.control.fetches,
            drawn_share: told(&self.control, compares),
            drawn_interval: self.control.interval().filter(|_| compares),
            gain: self.gain().filter(|_| compares),
            gain_interval: interval
                .filter(|_| compares)
                .map(|(low, high)| (low, high.is_finite().then_some(high))),
        }
    }
}

impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = match self.topic.trim() {
            "" => "on topic".to_owned(),
            topic => format!("about {topic}"),
        };
        let Some(share) = self.share else {
            let pages = match self.pages {
                0 => "no page".to_owned(),
                1 => "1 page".to_owned(),
                n => format!("{n} pages"),
            };
            return write!(
                f,
                "Too early to tell how many of the pages it chose are {about} ({pages} so far)."
            );
        };
        let verb = match of_hundred(share) {
            1 => "is",
            _ => "are",
        };
        let many = in_words(share);
        write!(f, "Of 100 pages it chose, {many} {verb} {about}")?;
        match (self.drawn_share, self.drawn) {
            (Some(drawn), _) => {
                let many = in_words(drawn);
                let about = match many.parse::<u32>() {
                    Ok(_) => "about ",
                    Err(_) => "",
                };
                write!(
                    f,
                    "; of 100 drawn by chance from the same links, {about}{many}."
                )
            }
            (None, 0) => f.write_str("."),
            (None, 1) => f.write_str("; too early to compare with chance (1 page drawn so far)."),
            (None, n) => write!(
                f,
                "; too early to compare with chance ({n} pages drawn so far)."
            ),
        }
    }
}

fn of_hundred(share: f64) -> u32 {
    (share * 100.0).round() as u32
}

/// Whole numbers, but 0 and 100 only where that is exactly so.
fn in_words(share: f64) -> String {
    match of_hundred(share) {
        0 if share <= 0.0 => "none".to_owned(),
        0 => "hardly any".to_owned(),
        100 if share >= 1.0 => "all".to_owned(),
        100 => "nearly all".to_owned(),
        n => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn focus(focused: (u64, u64), control: (u64, u64)) -> Focus {
        let tally = |(on_topic, fetches)| Tally { fetches, on_topic };
        Focus {
            focused: tally(focused),
            control: tally(control),
        }
    }

    #[test]
    fn the_sentence_says_what_is_known_and_no_more() {
        let early = "Too early to tell how many of the pages it chose are about bees";
        for (focused, control, sentence) in [
            ((0, 0), (0, 0), format!("{early} (no page so far).")),
            ((1, 1), (0, 0), format!("{early} (1 page so far).")),
            ((20, 29), (0, 12), format!("{early} (29 pages so far).")),
            (
                (54, 100),
                (0, 0),
                "Of 100 pages it chose, 54 are about bees.".to_owned(),
            ),
            (
                (54, 100),
                (0, 1),
                "Of 100 pages it chose, 54 are about bees; too early to compare with chance \
                 (1 page drawn so far)."
                    .to_owned(),
            ),
            (
                (54, 100),
                (2, 5),
                "Of 100 pages it chose, 54 are about bees; too early to compare with chance \
                 (5 pages drawn so far)."
                    .to_owned(),
            ),
            // Few, but enough that the gain is above 1 for certain.
            (
                (90, 100),
                (1, 11),
                "Of 100 pages it chose, 90 are about bees; of 100 drawn by chance from the \
                 same links, about 9."
                    .to_owned(),
            ),
            // No gain is certain, but many were drawn.
            (
                (10, 100),
                (3, 30),
                "Of 100 pages it chose, 10 are about bees; of 100 drawn by chance from the \
                 same links, about 10."
                    .to_owned(),
            ),
            (
                (1, 100),
                (0, 30),
                "Of 100 pages it chose, 1 is about bees; of 100 drawn by chance from the same \
                 links, none."
                    .to_owned(),
            ),
            (
                (0, 30),
                (30, 30),
                "Of 100 pages it chose, none are about bees; of 100 drawn by chance from the \
                 same links, all."
                    .to_owned(),
            ),
            (
                (1_999, 2_000),
                (1, 2_000),
                "Of 100 pages it chose, nearly all are about bees; of 100 drawn by chance from \
                 the same links, hardly any."
                    .to_owned(),
            ),
        ] {
            assert_eq!(focus(focused, control).sentence("bees"), sentence);
        }
        assert_eq!(
            focus((50, 100), (0, 0)).sentence(" "),
            "Of 100 pages it chose, 50 are on topic."
        );
    }

    #[test]
    fn a_gain_is_told_only_where_there_is_one_to_tell() {
        let early = focus((54, 100), (2, 5)).headline("bees");
        assert_eq!((early.gain, early.gain_interval), (None, None));
        let told = focus((54, 100), (10, 100)).headline("bees");
        assert!(told.gain.is_some_and(|gain| (gain - 5.4).abs() < 1e-9));
        // Nothing was found by chance: the gain has no upper end, and JSON no infinity.
        let endless = focus((54, 100), (0, 100)).headline("bees");
        assert_eq!(endless.gain, None);
        assert!(matches!(endless.gain_interval, Some((low, None)) if low > 1.0));
    }
}
