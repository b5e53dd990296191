//! Images of several parts under their paths, and the copies among them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::super::{Sidecar, is_there, link_whole, names, sidecar};
use super::rows_in_order::millis;
use super::{MachinePart, Merged};
use crate::address::PageUrl;
use crate::fs::IoError;
use crate::fs::atomic::Durability;
use crate::fs::beneath::{self, JobPath, Kind};
use crate::progress::Step;
use crate::tool_error::ToolError;

/// The folder of the images.
const IMAGES: &str = "images";

/// The new paths of images that could not keep theirs, and the paths that two parts had.
#[derive(Default)]
pub(super) struct Images {
    /// The new path of an image, by its part and its path there.
    renamed: BTreeMap<(usize, String), String>,
    /// The data of the parts about an image that several have kept.
    united: BTreeMap<String, Vec<Sidecar>>,
}

impl Images {
    /// Adds the images of all parts.
    pub fn gather(
        parts: &[MachinePart],
        into: &Path,
        merged: &mut Merged,
    ) -> Result<Self, ToolError> {
        let mut images = Self::default();
        let mut step = Step::begin("gathering images", None);
        for part in parts.iter().enumerate() {
            let listing = |name: &str, error| part.1.unread(name, "listing")(error);
            each_image(&part.1.folder, &listing, &mut |file| {
                step.advance(1);
                images.take(part, file, into, merged)
            })?;
        }
        drop(step);
        merged.copies = link_copies(into)?;
        Ok(images)
    }

    /// The new path of an image of a part; `None` if it is unchanged.
    pub fn renamed(&self, part: usize, file: &str) -> Option<&str> {
        if self.renamed.is_empty() {
            return None;
        }
        let now = self.renamed.get(&(part, file.to_owned()))?;
        Some(now)
    }

    /// Whether a part has fetched the image at this path again at `time` or later, and knew
    /// the page. Then its words are newer than a change of that time.
    pub fn is_newer(&self, file: &str, page: &PageUrl, time: u64) -> bool {
        let mut all = self.united.get(file).into_iter().flatten();
        all.any(|sidecar| fetched(sidecar) >= time && sidecar.has_page(page))
    }

    /// Adds one image of a part.
    fn take(
        &mut self,
        (number, part): (usize, &MachinePart),
        file: &str,
        into: &Path,
        merged: &mut Merged,
    ) -> Result<(), ToolError> {
        // It was being written when the power failed, and belongs to no page.
        if beneath::length(&part.folder, sidecar::name_of(file)) == Some(0) {
            return Ok(());
        }
        let own = Sidecar::load(&part.folder, file).map_err(|error| part.wrong(error))?;
        let (place, before) = free_place(into, &own, file)?;
        if place != file {
            self.renamed
                .insert((number, file.to_owned()), place.clone());
        }
        let path = JobPath::parse(&place).map_err(|error| part.damaged(file, error.to_string()))?;
        let mut now = own.clone().moved_to(path);
        now.set_same_as(None);
        let is_newest = before
            .as_ref()
            .is_none_or(|before| fetched(&own) >= fetched(before));
        if is_newest {
            part.link(file, into, &place)?;
            let length = beneath::length(into, &place).unwrap_or(0);
            if length != own.bytes() {
                let why = format!("{length} bytes long, but its sidecar says {}", own.bytes());
                return Err(part.damaged(file, why));
            }
        }
        let now = match before {
            None => {
                merged.images += 1;
                now
            }
            Some(before) => {
                merged.united += 1;
                let all = self.united.entry(place).or_default();
                if all.is_empty() {
                    all.push(before.clone());
                }
                all.push(own);
                if is_newest {
                    now.united_with(before)
                } else {
                    before.united_with(now)
                }
            }
        };
        Ok(now.save_alone(into, Durability::Later)?)
    }
}

/// The place of an image, and the data already there for the same address.
fn free_place(
    into: &Path,
    own: &Sidecar,
    file: &str,
) -> Result<(String, Option<Sidecar>), ToolError> {
    let mut place = file.to_owned();
    while is_there(into, &sidecar::name_of(&place))? {
        let there = Sidecar::load_alone(into, &place)?;
        if there.url() == own.url() {
            return Ok((place, Some(there)));
        }
        // Like a crawl names the second of two addresses that share a path.
        place = names::beside(&place, own.url());
    }
    Ok((place, None))
}

fn fetched(sidecar: &Sidecar) -> u64 {
    millis(sidecar.fetched()).unwrap_or(0)
}

/// Calls `each` with every image below a folder that has a sidecar, always in the same order.
/// It needs memory for the listings of one folder and of those above it.
fn each_image<E>(
    folder: &Path,
    listing: &dyn Fn(&str, std::io::Error) -> E,
    each: &mut dyn FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    if !beneath::is_dir(folder, IMAGES) {
        return Ok(());
    }
    let mut folders = vec![IMAGES.to_owned()];
    while let Some(below) = folders.pop() {
        let mut entries = beneath::entries(folder, &below).map_err(|e| listing(&below, e))?;
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (name, kind) in entries {
            match kind {
                Kind::Folder => folders.push(format!("{below}/{name}")),
                Kind::File => {
                    if let Some(image) = name.strip_suffix(".json") {
                        each(&format!("{below}/{image}"))?;
                    }
                }
                // spoor itself creates no symbolic links.
                Kind::Link | Kind::Other => {}
            }
        }
    }
    Ok(())
}

/// Makes every image a link to the one with the same bytes that was fetched first. Returns
/// how many became links.
fn link_copies(into: &Path) -> Result<u64, ToolError> {
    let listing =
        |name: &str, error| ToolError::from(IoError::at(&into.join(name), "listing")(error));
    let mut firsts: HashMap<String, (u64, JobPath)> = HashMap::new();
    each_image(into, &listing, &mut |file| {
        let sidecar = Sidecar::load_alone(into, file)?;
        let own = (fetched(&sidecar), sidecar.path().clone());
        let first = firsts
            .entry(sidecar.sha256().to_ascii_lowercase())
            .or_insert_with(|| own.clone());
        if own.0 < first.0 {
            *first = own;
        }
        Ok::<_, ToolError>(())
    })?;
    let mut linked = 0;
    each_image(into, &listing, &mut |file| {
        let mut sidecar = Sidecar::load_alone(into, file)?;
        let first = firsts.get(&sidecar.sha256().to_ascii_lowercase());
        if let Some((_, first)) = first.filter(|(_, first)| first.as_str() != file) {
            sidecar.set_same_as(Some(first.clone()));
            sidecar.save_alone(into, Durability::Later)?;
            // If the file system permits no more links, the copy remains.
            link_whole(into, first.as_str(), file)?;
            linked += 1;
        }
        Ok::<_, ToolError>(())
    })?;
    Ok(linked)
}
