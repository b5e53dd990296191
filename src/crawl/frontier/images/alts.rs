//! Alt texts that stand on page after page of a host, at one image after the other:
//! a template wrote them, not a person.
//!
//! The first sights of a text are kept with their images, so that they can be marked
//! as well once there are enough. A text at one image on every page is none of these:
//! it may well describe that image. Whether a single text says anything is not asked
//! here; that is seen without knowing the host.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::spares;
use crate::address::PageUrl;
use crate::crawl::frontier::added::NewImage;
use crate::crawl::frontier::outcome::OutputEdit;
use crate::crawl::frontier::record::State;
use crate::crawl::frontier::store::StoreError;
use crate::crawl::frontier::transaction::Transaction;
use crate::crawl::frontier::{codec, contexts, keys};
use crate::page::{AltKind, TaskKind};

/// Different images on different pages that make a text suspicious; as many are
/// remembered.
const MANY: usize = 5;

/// One of so many pages of the host must have the text as well: five pictures of
/// "a cat" among a thousand pages are five pictures of a cat.
const ONE_OF: u64 = 4;

/// What is known of one alt text on the pages of one host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AltRecord {
    /// The first sights, no image and no page twice; at most [`MANY`].
    pub sights: Vec<Sight>,
    /// Pages that have it: the sights, and once these are full, those that have it at
    /// yet another image.
    pub pages: u64,
    /// It is boilerplate, and stays so.
    pub boilerplate: bool,
}

/// An image with the text, and the page on which it has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sight {
    pub image: PageUrl,
    pub page: PageUrl,
}

/// Marks the alt texts of a page's images that its host repeats. `documents` is
/// how many pages of the host are known, `first` whether this one is new among
/// them, `unknown` the perplexity that stands for a text that says nothing.
pub fn mark(
    tx: &mut Transaction<'_>,
    page: &PageUrl,
    images: &mut [NewImage],
    documents: u64,
    first: bool,
    unknown: f64,
) -> Result<(), StoreError> {
    let host = page.host_key();
    for image in images {
        let texts = &image.context.texts;
        let Some(alt) = texts.alt.as_deref() else {
            continue;
        };
        if texts.alt_kind != Some(AltKind::Written) {
            continue;
        }
        let key = keys::alt(&host, xxh3_64(alt.to_lowercase().as_bytes()));
        let mut record: AltRecord = tx.read(&key)?.unwrap_or_default();
        if !record.boilerplate && first && record.see(&image.url, page) {
            record.boilerplate =
                record.sights.len() >= MANY && record.pages.saturating_mul(ONE_OF) >= documents;
            if record.boilerplate {
                let sights = std::mem::take(&mut record.sights);
                for earlier in sights.iter().filter(|s| s.page != *page) {
                    mark_earlier(tx, earlier, unknown)?;
                }
            }
            tx.write(key, &record)?;
        }
        if record.boilerplate {
            image.context.mark_boilerplate(unknown);
        }
    }
    Ok(())
}

/// Marks the text where it was seen before it was known for what it is: at the image
/// of that address, or at what is there in its place.
fn mark_earlier(tx: &mut Transaction<'_>, sight: &Sight, unknown: f64) -> Result<(), StoreError> {
    for image in spares::stand_ins(tx, &sight.image)? {
        let Some((url, known)) = super::follow(tx, &image)? else {
            continue;
        };
        if let Some(record) = known
            && matches!(record.state, State::Done { .. })
        {
            let page = sight.page.clone();
            let note = record.note().map(str::to_owned);
            let edit = note.map(|note| OutputEdit::MarkBoilerplate { note, page });
            tx.edits.extend(edit);
            continue;
        }
        let image = keys::url(&url, TaskKind::Image);
        if let Some(packed) = tx.get(&keys::context(&image, &sight.page))? {
            let mut words =
                contexts::unpack(&packed).map_err(|why| codec::corrupt(tx.store(), &image, why))?;
            words.context.mark_boilerplate(unknown);
            contexts::put(tx, &image, &words)?;
        }
    }
    Ok(())
}

impl AltRecord {
    /// Takes note of a sight; whether it changes anything.
    fn see(&mut self, image: &PageUrl, page: &PageUrl) -> bool {
        let known = |s: &Sight| s.image == *image || s.page == *page;
        if self.sights.iter().any(known) {
            return false;
        }
        self.pages += 1;
        if self.sights.len() < MANY {
            self.sights.push(Sight {
                image: image.clone(),
                page: page.clone(),
            });
        }
        true
    }
}
