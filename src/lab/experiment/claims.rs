//! What a crawl says of itself, beside what the labels say of the same pages.

use serde::Serialize;

use crate::crawl::frontier::Focus;

/// The share of pages on topic at one number of fetches: claimed and true.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// The number of fetches.
    pub fetches: u64,
    /// Of the pages that the crawl chose.
    pub chosen: Beside,
    /// Of those that were drawn by chance.
    pub drawn: Beside,
}

/// A share as the crawl claims it, and as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Beside {
    /// How many pages.
    pub pages: u64,
    /// The share of them that the crawl takes to be on topic, 0 to 1; `None` where it says
    /// that it cannot tell yet.
    pub claimed: Option<f64>,
    /// The range in which the crawl claims that it lies.
    pub range: Option<(f64, f64)>,
    /// The share that is on topic by the labels; `None` without a page.
    #[serde(rename = "true")]
    pub truth: Option<f64>,
}

/// Watches what a crawl counts, and judges the same pages by their labels.
#[derive(Debug, Default)]
pub(super) struct Witness {
    marks: Vec<u64>,
    chosen: u64,
    drawn: u64,
    last: Focus,
    claims: Vec<Claim>,
}

impl Witness {
    /// Of a crawl that is asked at these numbers of fetches, in ascending order.
    pub fn new(marks: &[u64]) -> Self {
        Self {
            marks: marks.to_vec(),
            ..Self::default()
        }
    }

    /// After each fetch: how many there were, what the crawl counts now, and whether the
    /// page that came last is on topic by its label.
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

    /// All claims; those of marks that the crawl did not reach are those of its end.
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
