//! The gain of focusing: counts of pages found by score and by chance, as pure arithmetic
//! without a store or a model. The caller says how likely a page is on topic.

use serde::{Deserialize, Serialize};

use crate::page::{Judged, Likelihood};

/// The normal quantile of a two-sided interval of 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// Uncertainty of the judge's boundary between on-topic and other pages, as log-odds. Training sees
/// texts, not the pages that a crawl will meet, so the boundary is only known to be somewhere
/// between the two kinds. This moves it halfway to the mean text of the topic, or as far in the
/// other direction. On the lab web the true share was in that range in 42 of the 46 cases with a
/// range, and never more than 6 points outside of it. The error is larger only with seed pages as
/// texts and long neutral texts (see the topic `headline` of the guide).
const DOUBT: f64 = 1.6;

/// Greatest number of points in a curve; beyond it, each two points become one.
const MAX_POINTS: usize = 64;

/// Fetches per point at first.
const FIRST_SPAN: u64 = 50;

/// Counts of followed links and of the on-topic pages that they led to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Links fetched for the first time, whether or not a page came. A redirect is
    /// counted by its final target.
    pub fetches: u64,
    /// Fetches that returned a page.
    pub pages: u64,
    /// Pages that are more likely on topic than not.
    pub on_topic: u64,
    /// The sum over the pages of the probability of being on topic, in thousandths.
    pub thousandths: u64,
    /// Pages whose probability is a guess.
    pub guessed: u64,
    /// The same sum by a judge with the strictest plausible boundary.
    pub strict: u64,
    /// The same sum by a judge with the laxest plausible boundary.
    pub lax: u64,
}

impl Tally {
    /// The share of pages on topic, 0 to 1: the mean of their probabilities. `None`
    /// without a page.
    pub fn share(&self) -> Option<f64> {
        self.mean(self.thousandths)
    }

    /// The range of the true share, given the uncertainty of the judge: from the strict
    /// count to the lax count. `None` without a page.
    pub fn range(&self) -> Option<(f64, f64)> {
        self.mean(self.strict).zip(self.mean(self.lax))
    }

    fn mean(&self, thousandths: u64) -> Option<f64> {
        let all = self.pages as f64 * f64::from(Likelihood::ONE);
        (self.pages > 0).then(|| thousandths as f64 / all)
    }

    /// The 95 % confidence interval of the share (Wilson 1927), which is also valid for
    /// few pages and for shares near 0; `None` without a page.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.around(self.share()?)
    }

    /// The range of the share of all links in the population of this sample: from the
    /// lower end of the interval around the strict count to the upper end of the one
    /// around the lax count.
    pub fn drawn_range(&self) -> Option<(f64, f64)> {
        let (strict, lax) = self.range()?;
        Some((self.around(strict)?.0, self.around(lax)?.1))
    }

    fn around(&self, share: f64) -> Option<(f64, f64)> {
        let n = Some(self.pages as f64).filter(|n| *n > 0.0)?;
        let middle = share + Z * Z / (2.0 * n);
        let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
        let scale = 1.0 + Z * Z / n;
        // At the ends rounding may miss 0 and 1.
        let low = if share <= 0.0 {
            0.0
        } else {
            (middle - half) / scale
        };
        let high = if share >= 1.0 {
            1.0
        } else {
            (middle + half) / scale
        };
        Some((low, high))
    }

    fn count(&mut self, page: Option<Judged>) {
        self.fetches += 1;
        if let Some(page) = page {
            self.pages += 1;
            self.on_topic += u64::from(page.on_topic.is_likely());
            self.thousandths += u64::from(page.on_topic.thousandths());
            self.guessed += u64::from(page.guessed);
            self.strict += u64::from(page.on_topic.raised(-DOUBT).thousandths());
            self.lax += u64::from(page.on_topic.raised(DOUBT).thousandths());
        }
    }

    fn add(&mut self, other: &Tally) {
        self.fetches += other.fetches;
        self.pages += other.pages;
        self.on_topic += other.on_topic;
        self.thousandths += other.thousandths;
        self.guessed += other.guessed;
        self.strict += other.strict;
        self.lax += other.lax;
    }
}

/// Counts of pages found by score and by chance. Seeds are in neither count, since every
/// strategy is given them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Focus {
    /// Links that the strategy chose.
    pub focused: Tally,
    /// Links of the control sample.
    pub control: Tally,
}

impl Focus {
    /// The ratio of the on-topic share of fetches that the strategy chose to that of the
    /// control sample; `None` while the control sample has found nothing on topic,
    /// because the gain then has no upper bound.
    pub fn gain(&self) -> Option<f64> {
        let control = self.control.share().filter(|share| *share > 0.0)?;
        Some(self.focused.share()? / control)
    }

    /// The 95 % confidence interval of the gain, from those of both shares (the method
    /// MOVER for ratios, Donner and Zou 2012). The upper end is infinite while the
    /// control sample has found nothing on topic; `None` without a fetch of both.
    pub fn gain_interval(&self) -> Option<(f64, f64)> {
        let (p, q) = (self.focused.share()?, self.control.share()?);
        let (p_low, p_high) = self.focused.interval()?;
        let (q_low, q_high) = self.control.interval()?;
        let root = |own: f64, other: f64| {
            let inner = (p * q).powi(2) - own * other * (2.0 * p - own) * (2.0 * q - other);
            inner.max(0.0).sqrt()
        };
        // Both are solutions of a quadratic equation, in a form that never divides by a
        // difference of nearly equal numbers.
        let low = p_low * (2.0 * p - p_low) / (p * q + root(p_low, q_high)).max(f64::MIN_POSITIVE);
        let high = (p * q + root(p_high, q_low)) / (q_low * (2.0 * q - q_low));
        Some((low.max(0.0), if q_low > 0.0 { high } else { f64::INFINITY }))
    }

    /// Counts one more link, and the judgement of its page if one came.
    pub fn count(&mut self, control: bool, page: Option<Judged>) {
        if control {
            self.control.count(page)
        } else {
            self.focused.count(page)
        }
    }

    pub(crate) fn add(&mut self, other: &Focus) {
        self.focused.add(&other.focused);
        self.control.add(&other.control);
    }
}

/// [`Focus`] over the course of a crawl: points that span equally many fetches each,
/// few enough to be written with every commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Curve {
    /// Fetches per point.
    span: u64,
    /// The points, oldest first; the last one may be incomplete.
    points: Vec<Focus>,
}

impl Default for Curve {
    fn default() -> Self {
        Self {
            span: FIRST_SPAN,
            points: Vec::new(),
        }
    }
}

impl Curve {
    /// One point.
    pub(crate) fn of_one(point: Focus) -> Self {
        Self {
            points: vec![point],
            ..Self::default()
        }
    }

    /// Fetches per point, of both kinds together.
    pub fn span(&self) -> u64 {
        self.span
    }

    /// The points, oldest first; the last one may be incomplete.
    pub fn points(&self) -> &[Focus] {
        &self.points
    }

    /// The sum of all points.
    pub fn total(&self) -> Focus {
        self.sum(self.points.len())
    }

    /// The sum of the last `points` points.
    pub fn recent(&self, points: usize) -> Focus {
        self.sum(points)
    }

    fn sum(&self, last: usize) -> Focus {
        let mut sum = Focus::default();
        for point in self.points.iter().rev().take(last) {
            sum.add(point);
        }
        sum
    }

    /// Counts one more link, and the judgement of its page if one came.
    pub fn count(&mut self, control: bool, page: Option<Judged>) {
        let fetches = |p: &Focus| p.focused.fetches + p.control.fetches;
        if self.points.last().is_none_or(|p| fetches(p) >= self.span) {
            if self.points.len() >= MAX_POINTS {
                let halved = self.points.chunks(2).map(|two| {
                    let mut sum = Focus::default();
                    two.iter().for_each(|point| sum.add(point));
                    sum
                });
                self.points = halved.collect();
                self.span = self.span.saturating_mul(2);
            }
            self.points.push(Focus::default());
        }
        if let Some(point) = self.points.last_mut() {
            point.count(control, page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tally(on_topic: u64, fetches: u64) -> Tally {
        Tally {
            fetches,
            pages: fetches,
            on_topic,
            thousandths: 1_000 * on_topic,
            guessed: 0,
            strict: 1_000 * on_topic,
            lax: 1_000 * on_topic,
        }
    }

    #[test]
    fn the_range_is_wide_where_many_pages_are_doubtful() {
        let mut tally = Tally::default();
        let range = |tally: &Tally| tally.range().map(|(low, high)| (1e3 * low, 1e3 * high));
        for likely in [0.5, 0.99] {
            let on_topic = Likelihood::from(likely);
            tally.count(Some(Judged {
                on_topic,
                ..Judged::default()
            }));
        }
        // By hand: 0.168 and 0.952, 0.832 and 0.998.
        let (low, high) = range(&tally).unwrap();
        assert!(
            (low - 560.0).abs() < 1.0 && (high - 915.0).abs() < 1.0,
            "{low} {high}"
        );
        assert_eq!(tally.share(), Some(0.745));
        let (low, high) = tally.drawn_range().unwrap();
        assert!(low < 0.56 && high > 0.915 && high < 1.0, "{low} {high}");
        assert_eq!(
            (Tally::default().range(), Tally::default().drawn_range()),
            (None, None)
        );
    }

    /// Newcombe 1998, Statistics in Medicine 17, table I, method 3 (Wilson).
    #[test]
    fn intervals_are_those_of_the_literature() {
        for (on_topic, fetches, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let (l, h) = tally(on_topic, fetches).interval().unwrap();
            assert!((l - low).abs() < 5e-5 && (h - high).abs() < 5e-5, "{l} {h}");
        }
        assert_eq!(tally(7, 7).interval().unwrap().1, 1.0);
        assert_eq!((tally(0, 0).share(), tally(0, 0).interval()), (None, None));
    }

    #[test]
    fn a_gain_without_a_bound_says_so() {
        let focus = Focus {
            focused: tally(30, 60),
            control: tally(0, 10),
        };
        assert_eq!(focus.gain(), None);
        let (low, high) = focus.gain_interval().unwrap();
        assert!(low > 1.0 && high.is_infinite(), "{low} {high}");
        assert_eq!(Focus::default().gain_interval(), None);
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        /// The gain is in its interval, and the interval of the inverse is the inverse
        /// interval.
        #[test]
        fn the_interval_of_a_gain_is_that_of_a_ratio(
            a in 1..500_u64, b in 1..500_u64, more in 0..500_u64, rest in 0..500_u64
        ) {
            let (focused, control) = (tally(a, a + more), tally(b, b + rest));
            let ours = Focus { focused, control };
            let inverse = Focus { focused: control, control: focused };
            let (low, high) = ours.gain_interval().unwrap();
            let gain = ours.gain().unwrap();
            prop_assert!(low <= gain * (1.0 + 1e-9) && gain <= high * (1.0 + 1e-9), "{low} {gain} {high}");
            let (other_low, other_high) = inverse.gain_interval().unwrap();
            prop_assert!((low * other_high - 1.0).abs() < 1e-6, "{low} {other_high}");
            prop_assert!((high * other_low - 1.0).abs() < 1e-6, "{high} {other_low}");
        }

        /// For a crawl of any length, the curve counts every fetch once, has few points,
        /// and all points but the last are complete.
        #[test]
        fn a_curve_is_bounded_and_loses_nothing(
            fetches in proptest::collection::vec((any::<bool>(), any::<Option<f64>>()), 0..9_000)
        ) {
            let (mut curve, mut total) = (Curve::default(), Focus::default());
            for (control, page) in fetches {
                let page = page.map(|likely: f64| Judged {
                    on_topic: likely.into(),
                    ..Judged::default()
                });
                curve.count(control, page);
                total.count(control, page);
            }
            prop_assert_eq!(curve.total(), total);
            prop_assert!(curve.points().len() <= MAX_POINTS);
            if let Some((_, complete)) = curve.points().split_last() {
                for point in complete {
                    prop_assert_eq!(point.focused.fetches + point.control.fetches, curve.span());
                }
            }
        }
    }
}
