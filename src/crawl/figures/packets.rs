//! The perplexity of the pages in the order fetched, in bounded memory.

use serde::Serialize;

use crate::page::DocumentScore;

/// Pages per packet at the start.
const FIRST_SPAN: u64 = 10;

/// The maximum number of packets; beyond that, pairs of packets are merged.
const MAX_PACKETS: usize = 200;

/// A geometric mean of perplexities.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MeanPerplexity {
    logs: f64,
    n: u64,
}

impl MeanPerplexity {
    /// Adds a page. One without a sentence has no perplexity of its own.
    pub fn add(&mut self, document: Option<&DocumentScore>) {
        if let Some(document) = document.filter(|d| d.sentences > 0 && d.perplexity >= 1.0) {
            self.logs += document.perplexity.ln();
            self.n += 1;
        }
    }

    pub fn value(self) -> Option<f64> {
        (self.n > 0).then(|| (self.logs / self.n as f64).exp())
    }
}

/// A run of pages that were fetched one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PagePacket {
    /// Number of the first one, from 1.
    pub first: u64,
    /// How many pages there are.
    pub pages: u64,
    /// Geometric mean of their perplexities.
    pub perplexity: f64,
}

/// All packets.
#[derive(Debug, Clone, Default)]
pub(super) struct PagePackets {
    means: Vec<MeanPerplexity>,
    span: u64,
}

impl PagePackets {
    pub fn add(&mut self, document: Option<&DocumentScore>) {
        self.span = self.span.max(FIRST_SPAN);
        match self.means.last_mut() {
            Some(last) if last.n < self.span => last.add(document),
            _ => {
                let mut mean = MeanPerplexity::default();
                mean.add(document);
                self.means.extend((mean.n > 0).then_some(mean));
            }
        }
        if self.means.len() > MAX_PACKETS {
            self.span *= 2;
            let pairs = self.means.chunks(2).map(|pair| {
                let sum = |sum: MeanPerplexity, mean: &MeanPerplexity| MeanPerplexity {
                    logs: sum.logs + mean.logs,
                    n: sum.n + mean.n,
                };
                pair.iter().fold(MeanPerplexity::default(), sum)
            });
            self.means = pairs.collect();
        }
    }

    /// The packets in order.
    pub fn packets(&self) -> Vec<PagePacket> {
        let mut first = 1;
        let packet = |mean: &MeanPerplexity| {
            let packet = PagePacket {
                first,
                pages: mean.n,
                perplexity: mean.value()?,
            };
            first += mean.n;
            Some(packet)
        };
        self.means.iter().filter_map(packet).collect()
    }
}
