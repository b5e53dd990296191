//! Compares the share of pages on topic that a crawl claims with that by the labels.

use serde::Serialize;

use spoor::frontier::Focus;

/// The share of pages on topic at one number of fetches: claimed and true.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// The number of fetches.
    pub fetches: u64,
    /// The pages that the crawl chose.
    pub chosen: Beside,
    /// The pages of the control sample.
    pub drawn: Beside,
}

/// A share as claimed by the crawl, and the true one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Beside {
    /// How many pages.
    pub pages: u64,
    /// The claimed share, 0 to 1; `None` if the crawl does not claim one yet, or only a range.
    pub claimed: Option<f64>,
    /// The claimed range.
    pub range: Option<(f64, f64)>,
    /// The share by the labels; `None` without a page.
    #[serde(rename = "true")]
    pub truth: Option<f64>,
}

/// Follows the counts of a crawl, and judges the same pages by their labels.
#[derive(Debug, Default)]
pub(super) struct Witness {
    marks: Vec<u64>,
    chosen: u64,
    drawn: u64,
    last: Focus,
    claims: Vec<Claim>,
}

impl Witness {
    /// For a crawl that is examined after these numbers of fetches, in ascending order.
    pub fn new(marks: &[u64]) -> Self {
        Self {
            marks: marks.to_vec(),
            ..Self::default()
        }
    }

    /// Called after each fetch with the number of fetches, the crawl's counts, and whether
    /// the last page is on topic by its label.
    pub fn fetched(&mut self, fetches: u64, focus: Focus, on_topic: bool) {
        if on_topic {
            self.chosen += focus.focused.pages - self.last.focused.pages;
            self.drawn += focus.control.pages - self.last.control.pages;
        }
        self.last = focus;
        while self
            .marks
            .get(self.claims.len())
            .is_some_and(|mark| fetches >= *mark)
        {
            self.claim();
        }
    }

    /// All claims; those of marks that the crawl did not reach are from its end.
    pub fn claims(mut self) -> Vec<Claim> {
        while self.claims.len() < self.marks.len() {
            self.claim();
        }
        self.claims
    }

    fn claim(&mut self) {
        let headline = self.last.headline("");
        let share = |on_topic: u64, of: u64| (of > 0).then(|| on_topic as f64 / of as f64);
        let Some(fetches) = self.marks.get(self.claims.len()).copied() else {
            return;
        };
        self.claims.push(Claim {
            fetches,
            chosen: Beside {
                pages: headline.pages,
                claimed: headline.share,
                range: headline.share_range,
                truth: share(self.chosen, headline.pages),
            },
            drawn: Beside {
                pages: headline.drawn,
                claimed: headline.drawn_share,
                range: headline.drawn_range,
                truth: share(self.drawn, headline.drawn),
            },
        });
    }
}
