//! Alt texts that appear on page after page of a host at different images: template
//! boilerplate.
//!
//! The first occurrences of a text are stored with their images, so that these can be
//! marked as well once there are enough. A text at the same image on every page is not
//! boilerplate: it may well describe that image. Whether a single text is meaningful is
//! judged elsewhere; that needs no knowledge of the host.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::added::NewImage;
use crate::address::PageUrl;
use crate::intake::Intake;
use crate::outcome::OutputEdit;
use crate::page::{AltKind, TaskKind};
use crate::record::State;
use crate::referral::Referred;
use crate::store::StoreError;
use crate::transaction::Transaction;
use crate::{codec, contexts, keys};

/// Number of different images on different pages that makes a text suspicious; as many
/// occurrences are stored.
const MANY: usize = 5;

/// How many cells a mark may pass: each may know several addresses of the picture.
const MOST_CELLS: u8 = 4;

/// At least one in this number of the host's pages must have the text as well: five
/// pictures of "a cat" among a thousand pages are five pictures of a cat.
const ONE_OF: u64 = 4;

/// The stored occurrences of one alt text on the pages of one host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AltRecord {
    /// The first occurrences, without repeated images or pages; at most [`MANY`].
    pub sights: Vec<Sight>,
    /// Pages with the text: the stored occurrences, and once these are full, pages that
    /// have the text at yet another image.
    pub pages: u64,
    /// Whether the text is boilerplate; once true, it stays true.
    pub boilerplate: bool,
}

/// An image with the text, and the page that embeds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sight {
    pub image: PageUrl,
    pub page: PageUrl,
}

/// Marks the alt texts of a page's images that its host repeats. `documents` is the
/// number of known pages of the host, `first` whether this page is new among them,
/// `unknown` the perplexity of a text without meaning.
pub fn mark(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    page: &PageUrl,
    images: &mut [NewImage],
    (documents, first): (u64, bool),
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
                    mark_earlier(tx, intake, earlier, unknown)?;
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

/// Marks an earlier occurrence of the text.
pub fn mark_earlier(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    sight: &Sight,
    unknown: f64,
) -> Result<(), StoreError> {
    let Some((url, known)) = super::follow(tx, &sight.image)? else {
        return Ok(());
    };
    let page = sight.page.clone();
    if let Some(to) = intake.elsewhere(&url) {
        if tx.passed < MOST_CELLS {
            let image = url;
            tx.refer(
                to,
                Referred::Bare {
                    image,
                    page,
                    unknown,
                },
            );
        }
        return Ok(());
    }
    if let Some(record) = known
        && matches!(record.state, State::Done { .. })
    {
        let note = record.note().map(str::to_owned);
        let edit = note.map(|note| OutputEdit::MarkBoilerplate {
            note,
            page,
            unknown,
        });
        tx.edits.extend(edit);
        return Ok(());
    }
    let image = keys::url(&url, TaskKind::Image);
    if let Some(packed) = tx.get(&keys::context(&image, &page))? {
        let mut words =
            contexts::unpack(&packed).map_err(|why| codec::corrupt(tx.store(), &image, why))?;
        words.mark_boilerplate(unknown);
        contexts::put(tx, &image, &words)?;
    }
    Ok(())
}

impl AltRecord {
    /// Adds an occurrence. Returns whether that changes anything.
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
