//! Keeps each address, each file and each picture once: the first image in order, which
//! counts its duplicates.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::Path;

use rayon::prelude::*;

use super::{Duplicate, Ranked, Why};
use crate::fs::beneath;
use crate::outputs::picture;

/// The duplicates and the images that were kept instead.
#[derive(Default)]
pub(super) struct DuplicateGroups {
    left_out: Vec<(Ranked, Why)>,
    /// By file the one that was kept instead, which a later step may leave out as well.
    instead: HashMap<String, String>,
}

impl DuplicateGroups {
    /// Keeps the first image of each key.
    pub fn first_of_each<K: Eq + Hash>(
        &mut self,
        why: Why,
        images: Vec<Ranked>,
        key: impl Fn(&Ranked) -> K,
    ) -> Vec<Ranked> {
        let mut places = HashMap::new();
        self.first(why, images, |image, place| {
            *places.entry(key(image)).or_insert(place)
        })
    }

    /// Keeps the first of the images whose hashes differ from a kept one in at most `near`
    /// bits. Images without a hash are all kept.
    pub fn first_of_near(&mut self, images: Vec<Ranked>, near: u32) -> Vec<Ranked> {
        let mut kept = KeptPictures::new(near);
        self.first(Why::Picture, images, |image, place| match image.phash {
            Some(hash) => kept.find_or_add(hash, place),
            None => place,
        })
    }

    /// Keeps the images to which `place` assigns the next index; the others are counted at
    /// theirs.
    fn first(
        &mut self,
        why: Why,
        images: Vec<Ranked>,
        mut place: impl FnMut(&Ranked, usize) -> usize,
    ) -> Vec<Ranked> {
        let mut kept: Vec<Ranked> = Vec::new();
        for image in images {
            let place = place(&image, kept.len());
            match kept.get_mut(place) {
                Some(first) => {
                    first.duplicates += 1 + image.duplicates;
                    let file = image.file.clone();
                    self.instead.insert(file, first.file.clone());
                    self.left_out.push((image, why));
                }
                None => kept.push(image),
            }
        }
        kept
    }

    /// All duplicates, by the kept one among `images`.
    pub fn duplicates(self, images: &[Ranked]) -> Vec<Duplicate> {
        let places: HashMap<&str, usize> = images
            .iter()
            .enumerate()
            .map(|(place, image)| (image.file.as_str(), place))
            .collect();
        let Self { left_out, instead } = self;
        // An image kept at one step can only be left out at a later one, so the chain
        // ends.
        let last = |file: &str| {
            let next = |file: &&String| instead.get(*file);
            std::iter::successors(instead.get(file), next).last()
        };
        let place = |image: &Ranked| places.get(last(&image.file)?.as_str()).copied();
        let mut found: Vec<(usize, Ranked, Why)> = left_out
            .into_iter()
            .filter_map(|(image, why)| Some((place(&image)?, image, why)))
            .collect();
        found.sort_by(|(at, a, _), (bt, b, _)| {
            let by_score = at.cmp(bt).then(a.score.total_cmp(&b.score));
            by_score.then_with(|| a.file.cmp(&b.file))
        });
        let of = |(place, image, why): (usize, Ranked, Why)| {
            let kept = images.get(place)?;
            let hashes = image.phash.zip(kept.phash);
            Some(Duplicate {
                kept: kept.file.clone(),
                file: image.file,
                url: image.url,
                why,
                distance: hashes.map(|(a, b)| (a ^ b).count_ones()),
            })
        };
        found.into_iter().filter_map(of).collect()
    }
}

/// Kept hashes, searchable by similarity. Hashes that differ in `n` bits agree in at least
/// one of `n` + 1 parts, so only those that share a part are compared.
struct KeptPictures {
    near: u32,
    by_part: HashMap<(u32, u64), Vec<(u64, usize)>>,
}

impl KeptPictures {
    fn new(near: u32) -> Self {
        Self {
            // A hash has 64 parts at most.
            near: near.min(63),
            by_part: HashMap::new(),
        }
    }

    /// The index of the first similar kept hash, which may be this one itself.
    fn find_or_add(&mut self, hash: u64, place: usize) -> usize {
        let parts = self.near + 1;
        let bounds = |n: u32| (64 * n / parts, 64 * (n + 1) / parts);
        let keys = (0..parts).map(|n| {
            let (from, to) = bounds(n);
            (n, hash << (64 - to) >> (64 - to + from))
        });
        let sharing = keys.clone().filter_map(|key| self.by_part.get(&key));
        let near = sharing
            .flatten()
            .filter(|(other, _)| (other ^ hash).count_ones() <= self.near)
            .map(|(_, place)| *place)
            .min();
        if let Some(first) = near {
            return first;
        }
        for key in keys {
            self.by_part.entry(key).or_default().push((hash, place));
        }
        place
    }
}

/// Hashes the picture of every image whose sidecar has no hash, on all cores.
pub(super) fn hash_pictures(folder: &Path, images: &mut [Ranked]) {
    let unhashed = images.par_iter_mut().filter(|image| image.phash.is_none());
    unhashed.for_each(|image| image.phash = hash_picture(folder, image));
}

fn hash_picture(folder: &Path, image: &Ranked) -> Option<u64> {
    let path = folder.join(&image.file);
    match beneath::read(folder, &image.file) {
        Ok(bytes) => picture::hash_file(&bytes),
        Err(error) => {
            tracing::warn!(path = %path.display(), "not compared as a picture: {error}");
            None
        }
    }
}
