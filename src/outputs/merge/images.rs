//! Images of several parts under their paths, and which are copies of which.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::super::{
    OutputError, Sidecar, is_there, link_whole, make_folder_of, names, part_of, remove, sidecar,
};
use super::timed::millis;
use super::{Earlier, MergeError, Merged, Part};
use crate::address::PageUrl;
use crate::fs::IoError;
use crate::fs::atomic::Durability;
use crate::fs::beneath::{self, JobPath, Kind};
use crate::progress::Step;

/// The folder of the images.
const IMAGES: &str = "images";

/// Where images are that did not keep their paths, and which paths two parts had.
pub(super) struct Images<'p> {
    parts: &'p [Part],
    into: &'p Path,
    earlier: Option<Earlier<'p>>,
    /// The new path of an image, by its part and its path there.
    renamed: BTreeMap<(usize, String), String>,
    /// The parts that have kept an image, and its path there, where there are several.
    united: BTreeMap<String, Vec<(usize, String)>>,
}

impl<'p> Images<'p> {
    /// Takes the images of all parts.
    pub fn gather(
        parts: &'p [Part],
        into: &'p Path,
        earlier: Option<Earlier<'p>>,
        merged: &mut Merged,
    ) -> Result<Self, MergeError> {
        let mut images = Self {
            parts,
            into,
            earlier,
            renamed: BTreeMap::new(),
            united: BTreeMap::new(),
        };
        let mut step = Step::begin("gathering images", None);
        for (number, part) in parts.iter().enumerate() {
            let listing = |name: &str, error| part.unread(name, "listing")(error);
            each_image(&part.folder, &listing, &mut |file| {
                step.advance(1);
                images.take(number, part, file, merged)
            })?;
        }
        drop(step);
        merged.copies = link_copies(into)?;
        Ok(images)
    }

    /// The new path of an image of a part; `None` where it is the old one.
    pub fn renamed(&self, part: usize, file: &str) -> Option<&str> {
        if self.renamed.is_empty() {
            return None;
        }
        let now = self.renamed.get(&(part, file.to_owned()))?;
        Some(now)
    }

    /// Whether a part has fetched the image at this path again at `time` or later, and knew
    /// the page: then its words are newer than a change of that time.
    pub fn is_newer(&self, file: &str, page: &PageUrl, time: u64) -> Result<bool, MergeError> {
        for (part, own) in self.united.get(file).into_iter().flatten() {
            let Some(part) = self.parts.get(*part) else {
                continue;
            };
            let sidecar = Sidecar::load(&part.folder, own).map_err(|error| part.wrong(error))?;
            if fetched(&sidecar) >= time && sidecar.has_page(page) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes one image of a part.
    fn take(
        &mut self,
        number: usize,
        part: &Part,
        file: &str,
        merged: &mut Merged,
    ) -> Result<(), MergeError> {
        // Was being written when the power failed, and belongs to no page.
        if beneath::length(&part.folder, sidecar::name_of(file)) == Some(0) {
            return Ok(());
        }
        let own = Sidecar::load(&part.folder, file).map_err(|error| part.wrong(error))?;
        let (place, before) = self.place(&own, file)?;
        if place != file {
            let now = place.clone();
            self.renamed.insert((number, file.to_owned()), now);
        }
        let path = JobPath::parse(&place).map_err(|error| part.damaged(file, error.to_string()))?;
        let mut now = own.clone().moved_to(path);
        now.set_same_as(None);
        let Some(before) = before else {
            self.bring(part, &own, &place, merged)?;
            now.save_alone(self.into, Durability::Later)?;
            merged.images += 1;
            return Ok(());
        };
        merged.united += 1;
        self.note(number, file, &place);
        let now = if fetched(&own) >= fetched(&before) {
            self.bring(part, &own, &place, merged)?;
            now.united_with(before)
        } else {
            before.united_with(now)
        };
        Ok(now.save_alone(self.into, Durability::Later)?)
    }

    /// Brings the bytes of an image to a place.
    fn bring(
        &self,
        part: &Part,
        own: &Sidecar,
        place: &str,
        merged: &mut Merged,
    ) -> Result<(), MergeError> {
        if let Some(earlier) = self.earlier
            && link_same(earlier.folder, own, self.into, place)?
        {
            merged.reused += 1;
            return Ok(());
        }
        copy_checked(part, own, self.into, place)
    }

    /// Records which parts have an image that several have.
    fn note(&mut self, part: usize, file: &str, place: &str) {
        let earlier = self.parts.iter().enumerate().take(part);
        let renamed = &self.renamed;
        let mut all: Vec<(usize, String)> = earlier
            .filter_map(|(number, other)| {
                let of_part = renamed
                    .range((number, String::new())..(number + 1, String::new()))
                    .find(|(_, now)| *now == place);
                let own = of_part.map_or(place, |((_, own), _)| own);
                let is_there = beneath::is_file(&other.folder, sidecar::name_of(own));
                is_there.then(|| (number, own.to_owned()))
            })
            .collect();
        all.push((part, file.to_owned()));
        self.united.insert(place.to_owned(), all);
    }

    /// Where an image belongs, and what is there already of the same address.
    fn place(&self, own: &Sidecar, file: &str) -> Result<(String, Option<Sidecar>), MergeError> {
        let mut place = file.to_owned();
        loop {
            if !is_there(self.into, &sidecar::name_of(&place))? {
                return Ok((place, None));
            }
            let there = Sidecar::load_alone(self.into, &place)?;
            if there.url() == own.url() {
                return Ok((place, Some(there)));
            }
            // As a crawl names the second of two addresses that share a path.
            place = names::beside(&place, own.url());
        }
    }
}

fn fetched(sidecar: &Sidecar) -> u64 {
    millis(sidecar.fetched()).unwrap_or(0)
}

/// Calls `each` with every image below a folder that has a sidecar, always in the same order.
/// Holds the listing of one folder and of those above it.
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

/// Makes a link to the same image in what was merged before; false where there is none.
fn link_same(earlier: &Path, own: &Sidecar, into: &Path, place: &str) -> Result<bool, MergeError> {
    let is_same = Sidecar::load_alone(earlier, place).is_ok_and(|before| {
        (before.url(), before.sha256(), before.bytes()) == (own.url(), own.sha256(), own.bytes())
    });
    if !is_same {
        return Ok(false);
    }
    make_folder_of(into, place)?;
    let new = part_of(place);
    remove(into, &new)?;
    let linked = beneath::hard_link_into(earlier, place, into, &new).is_ok();
    if !linked || beneath::length(into, &new) != Some(own.bytes()) {
        remove(into, &new)?;
        return Ok(false);
    }
    put(into, &new, place)?;
    Ok(true)
}

/// Gives a file its name.
fn put(into: &Path, new: &str, place: &str) -> Result<(), MergeError> {
    beneath::rename(into, new, place).map_err(IoError::at(&into.join(place), "renaming"))?;
    // Two names of one file are not renamed onto each other (POSIX `rename`).
    Ok(remove(into, new)?)
}

/// Brings the bytes of an image to a place, as a link where the file system can, and checks
/// them.
fn copy_checked(part: &Part, own: &Sidecar, into: &Path, place: &str) -> Result<(), MergeError> {
    let file = own.file();
    let unread = |error| part.unread(file, "reading")(error);
    let mut from = match beneath::open(&part.folder, file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(part.damaged(file, "the image is missing, and its sidecar is there"));
        }
        opened => opened.map_err(part.unread(file, "opening"))?,
    };
    make_folder_of(into, place)?;
    let new = part_of(place);
    remove(into, &new)?;
    let writing = |error| IoError::at(&into.join(&new), "writing")(error);
    // Images are never written in place, so a link stays what it is.
    let mut copy = match beneath::hard_link_into(&part.folder, file, into, &new) {
        Ok(()) => None,
        Err(_) => Some(beneath::create(into, &new).map_err(writing)?),
    };
    let mut hash = Sha256::new();
    let mut length = 0;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).map_err(unread)?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        hash.update(bytes);
        length += bytes.len() as u64;
        if let Some(copy) = &mut copy {
            copy.write_all(bytes).map_err(writing)?;
        }
    }
    drop(copy);
    if length != own.bytes() {
        let why = format!("{length} bytes long, but its sidecar says {}", own.bytes());
        return Err(part.damaged(file, why));
    }
    let digest = base16ct::lower::encode_string(&hash.finalize());
    if !digest.eq_ignore_ascii_case(own.sha256()) {
        return Err(part.damaged(file, "its bytes are not those that its sidecar is of"));
    }
    put(into, &new, place)
}

/// An image, by the beginning of its digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Print {
    digest: u128,
    fetched: u64,
    /// Its number among all, in the order of [`each_image`].
    number: u32,
}

/// Makes every image a link to the one with the same bytes that was fetched first. Returns
/// how many became links.
fn link_copies(into: &Path) -> Result<u64, MergeError> {
    let listing =
        |name: &str, error| MergeError::from(IoError::at(&into.join(name), "listing")(error));
    let mut prints: Vec<Print> = Vec::new();
    let mut number = 0_u32;
    each_image(into, &listing, &mut |file| {
        let sidecar = Sidecar::load_alone(into, file)?;
        let digest = sidecar.sha256().get(..32).unwrap_or_default();
        prints.extend(u128::from_str_radix(digest, 16).ok().map(|digest| Print {
            digest,
            fetched: fetched(&sidecar),
            number,
        }));
        number = number.saturating_add(1);
        Ok(())
    })?;
    prints.sort_unstable();
    // By their numbers: the first of each copy, and the path of each first.
    let mut copies: BTreeMap<u32, u32> = BTreeMap::new();
    let mut firsts: BTreeMap<u32, JobPath> = BTreeMap::new();
    for same in prints.chunk_by(|a, b| a.digest == b.digest) {
        if let [first, others @ ..] = same {
            copies.extend(others.iter().map(|other| (other.number, first.number)));
        }
    }
    drop(prints);
    if copies.is_empty() {
        return Ok(0);
    }
    let wanted: std::collections::BTreeSet<u32> = copies.values().copied().collect();
    number = 0;
    each_image(into, &listing, &mut |file| {
        if wanted.contains(&number) {
            firsts.extend(JobPath::parse(file).ok().map(|path| (number, path)));
        }
        number = number.saturating_add(1);
        Ok::<_, MergeError>(())
    })?;
    number = 0;
    let mut linked = 0;
    each_image(into, &listing, &mut |file| {
        let first = copies.get(&number).and_then(|first| firsts.get(first));
        number = number.saturating_add(1);
        if let Some(first) = first {
            link(into, file, first)?;
            linked += 1;
        }
        Ok::<_, MergeError>(())
    })?;
    Ok(linked)
}

fn link(into: &Path, file: &str, first: &JobPath) -> Result<(), OutputError> {
    let mut sidecar = Sidecar::load_alone(into, file)?;
    sidecar.set_same_as(Some(first.clone()));
    sidecar.save_alone(into, Durability::Later)?;
    // Where the file system can link no more, the copy stays.
    link_whole(into, first.as_str(), file).map(drop)
}
