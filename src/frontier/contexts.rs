//! The words around images that are not kept yet, as they lie in the store.
//!
//! A context holds the same words up to six times over (an element and those
//! around it), so it is stored deflated.

use std::io::{Read, Write};
use std::ops::ControlFlow;

use super::store::{Store, StoreError};
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

/// Their keys.
pub(super) fn keys_of(store: &dyn Store, image: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut found = Vec::new();
    store.scan(&keys::contexts_of(image), &[], &mut |key, _| {
        found.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// The bytes that are stored of a context of `image`.
pub(super) fn pack(
    store: &dyn Store,
    image: &[u8],
    context: &ImageContext,
) -> Result<Vec<u8>, StoreError> {
    let deflated = || -> std::io::Result<Vec<u8>> {
        let json = serde_json::to_vec(context)?;
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
