//! The result of a crawl in one sentence for readers who do not know language models, and
//! the same as data.

use std::fmt;

use serde::Serialize;

use super::harvest::{Focus, Tally};

/// Fewest pages for which anything is reported; with fewer, one page more or less changes
/// the share too much.
pub const MIN_PAGES: u64 = 30;

/// The widest range for which a single figure is reported in addition to the range, for fewer pages
/// than [`SETTLED`] and for more. On the lab web, figures with wider ranges were off by up to 33
/// points, the others by less than 10.
const WIDEST_EARLY: f64 = 0.2;
const WIDEST: f64 = 0.35;
const SETTLED: u64 = 250;

/// Fewest pages drawn by chance for which their share is always reported.
const MIN_DRAWN: u64 = 30;

/// The same if the gain is certain. Fewer pages prove nothing, even with a favourable interval.
const MIN_CERTAIN: u64 = 10;

/// Share of pages that look on topic above which too few other pages were seen: a judge
/// that takes a whole field for the topic gives the same result. On the lab web one did
/// so for 90 % of the pages and more, where a third to two thirds were on topic.
const ALIKE: f64 = 0.86;

/// Fewest pages drawn by chance that can show that the judge does refuse pages.
const MIN_REFUSED: u64 = 20;

/// The first line of every summary: how many of the chosen pages are on topic, and how
/// many of those drawn by chance from the same links. [`Display`](fmt::Display) gives it
/// in words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Headline {
    /// The topic, as it is named in the sentence.
    pub topic: String,
    /// Pages that the crawl chose.
    pub pages: u64,
    /// The share of them that are on topic, 0 to 1; `None` if it is unknown.
    pub share: Option<f64>,
    /// The range of the true share, given the uncertainty of the judge; also if `doubt` is
    /// [`Doubt::Wide`].
    pub share_range: Option<(f64, f64)>,
    /// Why the share is unknown.
    pub doubt: Option<Doubt>,
    /// Pages drawn by chance from the same links.
    pub drawn: u64,
    /// The share of them that are on topic, 0 to 1; `None` if it is unknown.
    pub drawn_share: Option<f64>,
    /// The range of the share of all these links. It allows for the uncertainty of the
    /// judge and for the small number of drawn pages (95 %).
    pub drawn_range: Option<(f64, f64)>,
    /// The ratio of `share` to `drawn_share`.
    pub gain: Option<f64>,
    /// The 95 % interval of `gain`; its upper end is `None` if it is infinite.
    pub gain_interval: Option<(f64, Option<f64>)>,
}

/// Why the share of on-topic pages is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Doubt {
    /// Too few pages were fetched so far.
    Early,
    /// Only a range is known, because too many pages may or may not be on topic.
    Wide,
    /// Nearly all pages look on topic. Either they are, or the judge takes a whole field
    /// for the topic; it has seen too few others to decide.
    Alike,
    /// The model has too little text: no neutral text to compare the topic with, or too
    /// few sentences about the topic. The judgements are guesses.
    Guessed {
        /// The share of the pages that the judge takes for the topic, 0 to 1.
        familiar: f64,
    },
}

impl Focus {
    /// The result of the crawl in plain words, such as "Of 100 pages it chose, about 54
    /// (41 to 66) are about lighthouses; of 100 drawn by chance from the same links,
    /// about 9 (3 to 17)."
    pub fn sentence(&self, topic: &str) -> String {
        self.headline(topic).to_string()
    }

    /// The same as data.
    pub fn headline(&self, topic: &str) -> Headline {
        let doubt = self.doubt();
        let share = self.focused.share().filter(|_| doubt.is_none());
        let is_known = matches!(doubt, None | Some(Doubt::Wide));
        let interval = self.gain_interval();
        let excludes_one = interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0);
        let drawn = self.control.pages;
        let enough = drawn >= MIN_DRAWN || (drawn >= MIN_CERTAIN && excludes_one);
        let compares = is_known && enough;
        Headline {
            topic: topic.to_owned(),
            pages: self.focused.pages,
            share,
            share_range: self.focused.range().filter(|_| is_known),
            doubt,
            drawn: self.control.pages,
            drawn_share: self.control.share().filter(|_| compares && share.is_some()),
            drawn_range: self.control.drawn_range().filter(|_| compares),
            gain: self.gain().filter(|_| compares),
            gain_interval: interval
                .filter(|_| compares)
                .map(|(low, high)| (low, high.is_finite().then_some(high))),
        }
    }

    fn doubt(&self) -> Option<Doubt> {
        let Tally {
            pages,
            on_topic,
            guessed,
            ..
        } = self.focused;
        let of_pages = |n: u64| n as f64 / pages.max(1) as f64;
        if pages < MIN_PAGES {
            return Some(Doubt::Early);
        }
        if of_pages(guessed) > 0.5 {
            let familiar = of_pages(on_topic);
            return Some(Doubt::Guessed { familiar });
        }
        let (_, highest) = self.control.interval().unwrap_or((0.0, 1.0));
        let refuses = self.control.pages >= MIN_REFUSED && highest < 0.5;
        if of_pages(on_topic) > ALIKE && !refuses {
            return Some(Doubt::Alike);
        }
        let widest = if pages < SETTLED {
            WIDEST_EARLY
        } else {
            WIDEST
        };
        let (low, high) = self.focused.range()?;
        (high - low > widest).then_some(Doubt::Wide)
    }
}

impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topic = self.topic.trim();
        let about = match topic {
            "" => "on topic".to_owned(),
            topic => format!("about {topic}"),
        };
        let texts = match topic {
            "" => "the texts that it was given".to_owned(),
            topic => format!("the texts about {topic}"),
        };
        let pages = self.pages;
        match self.doubt {
            None | Some(Doubt::Wide) => {}
            Some(Doubt::Alike) => {
                return write!(
                    f,
                    "Cannot tell yet how many of the {pages} pages it chose are {about}: nearly \
                     all read like {texts}, and too few others came to check that."
                );
            }
            Some(Doubt::Guessed { familiar }) => {
                return write!(
                    f,
                    "Cannot tell how many of the {pages} pages it chose are {about}: about {} of \
                     100 read like {texts}, but its model has too little text to judge by.",
                    of_hundred(familiar)
                );
            }
            Some(Doubt::Early) => {
                let pages = match pages {
                    0 => "no page".to_owned(),
                    1 => "1 page".to_owned(),
                    n => format!("{n} pages"),
                };
                return write!(
                    f,
                    "Too early to tell how many of the pages it chose are {about} ({pages} so far)."
                );
            }
        }
        let verb = match self.share.map(of_hundred) {
            Some(1) => "is",
            _ => "are",
        };
        let many = with_range(self.share, self.share_range);
        write!(f, "Of 100 pages it chose, {many} {verb} {about}")?;
        match (self.drawn_range, self.drawn) {
            (Some(range), _) => {
                let many = with_range(self.drawn_share, Some(range));
                write!(f, "; of 100 drawn by chance from the same links, {many}.")
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

/// A percentage with the range of the true one, such as "about 54 (41 to 66)"; without the
/// percentage "between 41 and 66".
fn with_range(share: Option<f64>, range: Option<(f64, f64)>) -> String {
    let middle = || range.map(|(low, high)| in_words(f64::midpoint(low, high)));
    let whole = range.map(|(low, high)| (of_hundred(low), of_hundred(high)));
    match (share.map(in_words), whole.filter(|(low, high)| low < high)) {
        (Some(many), Some((low, high))) if many.parse::<u32>().is_ok() => {
            format!("about {many} ({low} to {high})")
        }
        (Some(many), Some((low, high))) => format!("{many} ({low} to {high})"),
        (Some(many), None) => many,
        (None, Some((low, high))) => format!("between {low} and {high}"),
        (None, None) => middle().unwrap_or_else(|| "some".to_owned()),
    }
}

/// Whole numbers; "none" and "all" only if that is exact.
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
        let tally = |(on_topic, pages)| Tally {
            fetches: pages,
            pages,
            on_topic,
            thousandths: 1_000 * on_topic,
            guessed: 0,
            strict: 1_000 * on_topic,
            lax: 1_000 * on_topic,
        };
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
            // Few pages, but enough for a gain that is certainly above 1.
            (
                (80, 100),
                (1, 14),
                "Of 100 pages it chose, 80 are about bees; of 100 drawn by chance from the \
                 same links, about 7 (1 to 31)."
                    .to_owned(),
            ),
            // No certain gain, but many pages were drawn.
            (
                (10, 100),
                (3, 30),
                "Of 100 pages it chose, 10 are about bees; of 100 drawn by chance from the \
                 same links, about 10 (3 to 26)."
                    .to_owned(),
            ),
            (
                (1, 100),
                (0, 30),
                "Of 100 pages it chose, 1 is about bees; of 100 drawn by chance from the same \
                 links, none (0 to 11)."
                    .to_owned(),
            ),
            // Nearly all look similar, and nothing shows that the judge refuses any.
            (
                (94, 100),
                (5, 19),
                "Cannot tell yet how many of the 100 pages it chose are about bees: nearly all \
                 read like the texts about bees, and too few others came to check that."
                    .to_owned(),
            ),
            (
                (94, 100),
                (5, 20),
                "Of 100 pages it chose, 94 are about bees; of 100 drawn by chance from the same \
                 links, about 25 (11 to 47)."
                    .to_owned(),
            ),
            (
                (0, 30),
                (30, 30),
                "Of 100 pages it chose, none are about bees; of 100 drawn by chance from the \
                 same links, all (89 to 100)."
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
        assert!(
            focus((99, 100), (0, 0))
                .sentence("")
                .contains("the texts that it was given,")
        );
    }

    #[test]
    fn the_sentence_says_how_far_the_judge_may_be_off() {
        let mut doubtful = focus((135, 250), (5, 100));
        (doubtful.focused.strict, doubtful.focused.lax) = (102_500, 166_000);
        (doubtful.control.strict, doubtful.control.lax) = (2_000, 9_000);
        assert_eq!(
            doubtful.sentence("bees"),
            "Of 100 pages it chose, about 54 (41 to 66) are about bees; of 100 drawn by chance \
             from the same links, about 5 (1 to 16)."
        );
        let headline = doubtful.headline("bees");
        assert_eq!(headline.share_range, Some((0.41, 0.664)));
        doubtful.focused.pages = 29;
        assert_eq!(doubtful.headline("bees").share_range, None);
    }

    #[test]
    fn a_wide_range_has_no_single_figure() {
        let mut wide = focus((540, 1_000), (5, 100));
        (wide.focused.strict, wide.focused.lax) = (300_000, 660_000);
        (wide.control.strict, wide.control.lax) = (2_000, 9_000);
        assert_eq!(
            wide.sentence("bees"),
            "Of 100 pages it chose, between 30 and 66 are about bees; of 100 drawn by chance from \
             the same links, between 1 and 16."
        );
        let headline = wide.headline("bees");
        assert_eq!(headline.doubt, Some(Doubt::Wide));
        assert_eq!((headline.share, headline.drawn_share), (None, None));
        assert_eq!(headline.share_range, Some((0.3, 0.66)));
        let rare = Focus {
            control: focus((0, 0), (1, 4_000)).control,
            ..wide
        };
        assert!(rare.sentence("bees").ends_with("links, hardly any."));
        wide.focused.strict = 320_000;
        assert_eq!(wide.headline("bees").share, Some(0.54));
        // With fewer pages it must be narrower.
        let mut few = focus((50, 100), (0, 2));
        (few.focused.strict, few.focused.lax) = (39_000, 60_000);
        assert_eq!(
            few.sentence("bees"),
            "Of 100 pages it chose, between 39 and 60 are about bees; too early to compare with \
             chance (2 pages drawn so far)."
        );
        few.focused.strict = 41_000;
        assert_eq!(few.headline("bees").share, Some(0.5));
    }

    #[test]
    fn a_guess_is_called_one() {
        let mut guessed = focus((54, 100), (2, 40));
        guessed.focused.guessed = 51;
        assert_eq!(
            guessed.sentence("bees"),
            "Cannot tell how many of the 100 pages it chose are about bees: about 54 of 100 read \
             like the texts about bees, but its model has too little text to judge by."
        );
        let headline = guessed.headline("bees");
        assert_eq!(
            (headline.share, headline.drawn_share, headline.gain),
            (None, None, None)
        );
        assert_eq!(
            serde_json::to_value(headline.doubt).unwrap(),
            serde_json::json!({"why": "guessed", "familiar": 0.54})
        );
        // Few pages, from before the model was trained with neutral text.
        guessed.focused.guessed = 50;
        assert_eq!(guessed.headline("bees").share, Some(0.54));
    }

    #[test]
    fn a_gain_is_reported_only_if_there_is_one() {
        let early = focus((54, 100), (2, 5)).headline("bees");
        assert_eq!((early.gain, early.gain_interval), (None, None));
        let headline = focus((54, 100), (10, 100)).headline("bees");
        assert!(headline.gain.is_some_and(|gain| (gain - 5.4).abs() < 1e-9));
        // Chance found nothing: the gain has no upper bound, and JSON has no infinity.
        let endless = focus((54, 100), (0, 100)).headline("bees");
        assert_eq!(endless.gain, None);
        assert!(matches!(endless.gain_interval, Some((low, None)) if low > 1.0));
    }
}
