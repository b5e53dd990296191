//! The stored words around images that are not fetched yet.
//!
//! A context holds the same words up to six times (an element and its ancestors and
//! siblings), so it is stored deflated.

use std::io::{Read, Write};
use std::ops::ControlFlow;

use super::store::{Store, StoreError};
use super::transaction::Transaction;
use super::{codec, keys};
use crate::page::ImageContext;

/// The stored contexts of the image with the `U` key `image`, by page address.
pub(super) fn of(store: &dyn Store, image: &[u8]) -> Result<Vec<ImageContext>, StoreError> {
    let mut packed = Vec::new();
    store.scan(&keys::contexts_of(image), &[], &mut |key, value| {
        packed.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    packed
        .iter()
        .map(|(key, value)| unpack(value).map_err(|why| codec::corrupt(store, key, why)))
        .collect()
}

/// Keys of the stored contexts of an image.
pub(super) fn keys_of(store: &dyn Store, image: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut found = Vec::new();
    store.scan(&keys::contexts_of(image), &[], &mut |key, _| {
        found.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Stores words until the image is fetched.
pub(super) fn put(
    tx: &mut Transaction<'_>,
    image: &[u8],
    words: &ImageContext,
) -> Result<(), StoreError> {
    let packed = pack(tx.store(), image, words)?;
    tx.put(keys::context(image, &words.page), packed);
    Ok(())
}

/// Deletes the stored words around an image.
pub(super) fn forget(tx: &mut Transaction<'_>, image: &[u8]) -> Result<(), StoreError> {
    for key in keys_of(tx.store(), image)? {
        tx.delete(key);
    }
    Ok(())
}

/// The stored form of a context of `image`.
pub(super) fn pack(
    store: &dyn Store,
    image: &[u8],
    words: &ImageContext,
) -> Result<Vec<u8>, StoreError> {
    let deflated = || -> std::io::Result<Vec<u8>> {
        let json = serde_json::to_vec(words)?;
        let fast = flate2::Compression::fast();
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), fast);
        encoder.write_all(&json)?;
        encoder.finish()
    };
    deflated().map_err(|e| codec::corrupt(store, image, e.to_string()))
}

/// Reverses [`pack`].
pub(super) fn unpack(bytes: &[u8]) -> Result<ImageContext, String> {
    let mut json = Vec::new();
    flate2::read::DeflateDecoder::new(bytes)
        .read_to_end(&mut json)
        .map_err(|e| e.to_string())?;
    serde_json::from_slice(&json).map_err(|e| e.to_string())
}
