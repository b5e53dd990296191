//! Exact and near copies among all documents of a store.
//!
//! 1. Each unit (a document or a part of one) gets a fingerprint, which exact copies share, and
//!    a sketch, whose bands are written to files.
//! 2. The units are sorted by preference: a unit can only be a copy of an earlier one.
//! 3. Units that agree in a band are candidates; one band is in memory at a time.
//! 4. In that order, each unit is compared with the candidates that were kept. It is a copy of
//!    the most similar one, or is kept itself. So each removed unit was compared directly with
//!    the kept one, and copies are never chained through small changes.
//!
//! `all` has the units, `records` the sketches, `sweep` the last step.
//!
//! Memory: 8 bytes per document for its place, 12 to 32 per unit, 16 more while a band is
//! sorted, and 8 per pair of candidates. Each band takes 4 bytes per unit on the disk.

use std::ops::Range;

use rustc_hash::FxHashSet;

use super::super::document::Document;
use super::super::plan::{Copies, Keep, Level};
use super::super::source::CorpusSources;
use super::super::steps::{Measured, synonyms_of};
use super::super::store::{PhaseStore, frame};
use super::super::work::Workplace;
use super::all::{ComparedTexts, Units};
use super::clusters::{compare, numbers};
use super::records::RecordFiles;
use super::sweep::UnitSweep;
use super::units::{DocumentPrints, parts, recorded, shorten};
use super::{Decide, DocumentFate};
use crate::copies::{Alike, Words};
use crate::fs::IoError;
use crate::progress::Step as Progress;
use crate::tool_error::ToolError;

/// The most earlier units that are examined in a group that agrees in a band.
const LOOKED_AT: usize = 64;
/// How many of these, taken from both ends, become candidates.
const TAKEN: usize = 8;
/// The number of pairs in memory at which equal pairs are merged.
const PAIRS: usize = 64 << 20;

/// No unit.
pub(super) const NONE: u32 = u32::MAX;

/// Finds the copies of a store.
pub(super) fn decider(
    step: &Copies,
    number: usize,
    store: &PhaseStore,
    place: &Workplace,
) -> Result<Box<dyn Decide>, ToolError> {
    let alike = alike(step)?;
    let earlier = earlier(step, number, place)?;
    let is_near = step.least < 1.0 && step.level != Level::Url;
    let count = if is_near { step.bands } else { 0 };
    let mut bands = RecordFiles::create(place, &format!("band-{number:03}"), count)?;
    let mut units = Units {
        firsts: Vec::new(),
        earlier: 0,
        prints: Vec::new(),
        words: Vec::new(),
        dates: Vec::new(),
        perplexities: Vec::new(),
    };
    if let Some(earlier) = &earlier {
        sketch((step, &alike), earlier, &mut units, &mut bands)?;
        units.earlier = units.firsts.len();
    }
    sketch((step, &alike), store, &mut units, &mut bands)?;
    let count = u32::try_from(units.prints.len()).map_err(|_| {
        ToolError::new("more than four billion parts to compare; use a higher level")
    })?;
    units.firsts.push(count);
    let order = units.order(step);
    let mut leaders = exact(step, &units, &order);
    units.prints = Vec::new();
    let pairs = candidates(step, &units, &order, &leaders, bands)?;
    let texts = ComparedTexts {
        earlier: earlier.as_ref().map(PhaseStore::places).transpose()?,
        own: store.places()?,
        level: step.level,
    };
    let mut sweep = UnitSweep {
        step,
        alike: &alike,
        number,
        units: &units,
        texts: &texts,
        order: &order,
        path: place.copies(number),
    };
    sweep.run(pairs, &mut leaders)?;
    let mut led = FxHashSet::default();
    if step.keep == Keep::None {
        led.extend(leaders.iter().copied().filter(|leader| *leader != NONE));
    }
    Ok(Box::new(Decisions {
        step: step.clone(),
        alike,
        units,
        texts,
        leaders,
        led,
    }))
}

/// The synonyms.
fn alike(step: &Copies) -> Result<Alike, ToolError> {
    let mut alike = Alike::new(step.ignore_numbers);
    if let Some(path) = &step.synonyms {
        alike.add_synonyms(&synonyms_of(path)?);
    }
    Ok(alike)
}

/// The documents of earlier corpora, in a store of their own.
fn earlier(
    step: &Copies,
    number: usize,
    place: &Workplace,
) -> Result<Option<PhaseStore>, ToolError> {
    if step.against.is_empty() {
        return Ok(None);
    }
    let mut store = PhaseStore::open(place.path(&format!("against-{number:03}")), 0)?;
    let mut failed = None;
    CorpusSources::earlier(&step.against)?.texts(&mut |documents| {
        let frames: std::io::Result<Vec<_>> = documents.iter().map(frame).collect();
        let added = frames
            .map_err(IoError::at(&place.path(""), "compressing"))
            .map_err(ToolError::from)
            .and_then(|frames| store.add(&frames));
        failed = added.err();
        failed.is_none()
    })?;
    failed.map_or(Ok(Some(store)), Err)
}

/// Adds the units of a store.
fn sketch(
    (step, alike): (&Copies, &Alike),
    store: &PhaseStore,
    units: &mut Units,
    bands: &mut RecordFiles<4>,
) -> Result<(), ToolError> {
    let mut progress = Progress::begin("documents sketched", None);
    let prints = |document: Document| DocumentPrints::of(step, alike, &document);
    store.over(prints, |prints| {
        let first = u32::try_from(units.prints.len()).unwrap_or(NONE);
        units.firsts.push(first);
        if step.window.is_some() {
            units.dates.push(prints.date);
        }
        if step.keep == Keep::Best {
            let perplexity = prints.perplexity.unwrap_or(f64::MAX);
            units.perplexities.push(perplexity);
        }
        for part in prints.parts {
            units.prints.push(part.print);
            units.words.push(part.words);
            // A unit without words has no candidates and is skipped.
            let values = part.bands.into_iter().chain(std::iter::repeat(0));
            for (band, value) in (0..bands.count()).zip(values) {
                bands.add(band, value.to_le_bytes())?;
            }
        }
        progress.reach(units.firsts.len() as u64);
        Ok(())
    })
}

/// By unit, the kept one among those with the same fingerprint.
fn exact(step: &Copies, units: &Units, order: &[u32]) -> Vec<u32> {
    let mut leaders = vec![NONE; units.prints.len()];
    let print = |unit: u32| units.prints.get(unit as usize).copied().unwrap_or_default();
    let mut all: Vec<(u64, u32)> = (0..)
        .zip(order)
        .filter(|(_, unit)| units.has_words(**unit))
        .map(|(rank, unit)| (print(*unit), rank))
        .collect();
    all.sort_unstable();
    for group in all
        .chunk_by(|a, b| a.0 == b.0)
        .filter(|group| group.len() > 1)
    {
        let mut kept: Vec<u32> = Vec::new();
        for (_, rank) in group {
            let Some(unit) = order.get(*rank as usize).copied() else {
                continue;
            };
            let recent = kept
                .iter()
                .take(TAKEN)
                .chain(kept.iter().rev().take(LOOKED_AT));
            let of = recent
                .copied()
                .find(|other| units.in_window(step, *other, unit));
            let is_own = units.document(unit) >= units.earlier;
            match (of, leaders.get_mut(unit as usize)) {
                (Some(of), Some(leader)) if is_own => *leader = of,
                _ => kept.push(unit),
            }
        }
    }
    leaders
}

/// Sorted pairs of ranks that agree in a band, the later rank first; a pair occurs once for each
/// band in which it agrees.
fn candidates(
    step: &Copies,
    units: &Units,
    order: &[u32],
    leaders: &[u32],
    bands: RecordFiles<4>,
) -> Result<Vec<u64>, ToolError> {
    let mut ranks = vec![0; order.len()];
    for (rank, unit) in (0_u32..).zip(order) {
        if let Some(place) = ranks.get_mut(*unit as usize) {
            *place = rank;
        }
    }
    let mut pairs: Vec<u64> = Vec::new();
    let mut progress = Progress::begin("bands compared", Some(bands.count() as u64));
    for values in bands.finish()? {
        let values = values?.into_iter().map(u32::from_le_bytes);
        let of_unit = values.zip(0_u32..).zip(leaders);
        let of_unit =
            of_unit.filter(|((_, unit), leader)| **leader == NONE && units.has_words(*unit));
        let mut all: Vec<(u32, u32)> = of_unit
            .map(|((value, unit), _)| (value, ranks.get(unit as usize).copied().unwrap_or(NONE)))
            .collect();
        all.sort_unstable();
        for group in all
            .chunk_by(|a, b| a.0 == b.0)
            .filter(|group| group.len() > 1)
        {
            let unit = |rank: u32| order.get(rank as usize).copied().unwrap_or(NONE);
            for (at, (_, rank)) in group.iter().enumerate() {
                let before = group.get(..at).unwrap_or_default();
                let fits = |other: &&(u32, u32)| units.in_window(step, unit(*rank), unit(other.1));
                let firsts = before.iter().take(LOOKED_AT).filter(fits).take(TAKEN);
                let rest = before.iter().skip(LOOKED_AT).rev().take(LOOKED_AT);
                let lasts = rest.filter(fits).take(TAKEN);
                let all = firsts.chain(lasts);
                pairs.extend(all.map(|(_, other)| u64::from(*rank) << 32 | u64::from(*other)));
            }
        }
        if pairs.len() > PAIRS {
            pairs.sort_unstable();
            pairs.dedup();
        }
        progress.advance(1);
    }
    pairs.sort_unstable();
    Ok(pairs)
}

/// The decisions.
struct Decisions {
    step: Copies,
    alike: Alike,
    units: Units,
    texts: ComparedTexts,
    /// By unit, the unit that it is a copy of.
    leaders: Vec<u32>,
    /// Units that have copies, if no copy is kept.
    led: FxHashSet<u32>,
}

impl Decisions {
    fn leader(&self, unit: u32) -> Option<u32> {
        let leader = self.leaders.get(unit as usize).copied();
        leader.filter(|leader| *leader != NONE)
    }

    fn goes(&self, unit: u32) -> bool {
        self.leader(unit).is_some() || self.led.contains(&unit)
    }

    /// What is left of a document without some of its parts.
    fn shorten(&self, range: Range<u32>, document: &mut Document) -> DocumentFate {
        let all = parts(self.step.level, &document.text);
        let gone = range.clone().zip(all).filter(|(unit, _)| self.goes(*unit));
        let gone: Vec<Range<usize>> = gone.map(|(_, part)| part).collect();
        let rule = ("all parts are copies", "at least one part of its own");
        shorten(document, &gone, rule)
    }

    /// A copy as a whole.
    fn whole(&self, unit: u32, document: &mut Document) -> DocumentFate {
        let Some(leader) = self.leader(unit) else {
            let broken = Measured {
                rule: "has copies".to_owned(),
                value: recorded(1.0),
                bound: "none of several copies".to_owned(),
                stays: false,
            };
            return DocumentFate::Goes(broken, None);
        };
        let Ok((of, range)) = self.texts.unit(&self.units, leader) else {
            return DocumentFate::Stays;
        };
        let is_url = self.step.level == Level::Url;
        let own = 0..document.text.len();
        let compared = compare((&self.step, &self.alike), (document, &own), (&of, &range));
        let similarity = if is_url { 1.0 } else { compared.similarity };
        document.copy_of = Some(of.id.clone());
        if self.step.keep == Keep::All {
            document.similarity = Some(super::super::steps::rounded(similarity));
            document.copy_spans = numbers(&compared.spans);
            return DocumentFate::Marked("copy");
        }
        let (rule, bound) = if is_url {
            ("same address", "each address once".to_owned())
        } else {
            // Half of a text, or a text with its sentences moved, may be equally similar.
            let print = |document: &Document| Words::of(&document.text).print();
            let is_exact = similarity >= 1.0 && print(document) == print(&of);
            let rule = if is_exact { "exact copy" } else { "near copy" };
            (rule, format!("less than {} alike", self.step.least))
        };
        let broken = Measured {
            rule: rule.to_owned(),
            value: recorded(similarity),
            bound,
            stays: false,
        };
        DocumentFate::Goes(broken, Some(of.url))
    }
}

impl Decide for Decisions {
    fn decide(&self, index: usize, document: &mut Document) -> DocumentFate {
        let at = index + self.units.earlier;
        let bound = |at: usize| self.units.firsts.get(at).copied().unwrap_or(NONE);
        let range = bound(at)..bound(at + 1);
        if self.step.level.is_part() {
            return self.shorten(range, document);
        }
        match range.start {
            unit if self.goes(unit) => self.whole(unit, document),
            _ => DocumentFate::Stays,
        }
    }
}
