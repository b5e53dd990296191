//! Records to bytes and back, with errors that name the store and the key.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::keys;
use super::store::{Readable, StoreError};
use crate::address::PageUrl;
use crate::page::TaskKind;

/// The longest record that is written to a buffer on the stack.
const SHORT: usize = 256;

pub(super) fn encode<T: Serialize>(store: &dyn Readable, value: &T) -> Result<Vec<u8>, StoreError> {
    // Nearly all records are short.
    if let Ok(short) = postcard::to_slice(value, &mut [0; SHORT]) {
        return Ok(short.to_vec());
    }
    postcard::to_stdvec(value).map_err(|why| StoreError::Io {
        path: store.path().to_owned(),
        why: why.to_string(),
    })
}

pub(super) fn decode<T: DeserializeOwned>(
    store: &dyn Readable,
    key: &[u8],
    bytes: &[u8],
) -> Result<T, StoreError> {
    postcard::from_bytes(bytes).map_err(|why| corrupt(store, key, why.to_string()))
}

pub(super) fn read<T: DeserializeOwned>(
    store: &dyn Readable,
    key: &[u8],
    bytes: Option<Vec<u8>>,
) -> Result<Option<T>, StoreError> {
    bytes.map(|b| decode(store, key, &b)).transpose()
}

/// The record under a key, if there is one.
pub(super) fn get<T: DeserializeOwned>(
    store: &dyn Readable,
    key: &[u8],
) -> Result<Option<T>, StoreError> {
    read(store, key, store.get(key)?)
}

/// The address and the kind of task of a `U` key.
pub(super) fn address_of(
    store: &dyn Readable,
    key: &[u8],
) -> Result<(PageUrl, TaskKind), StoreError> {
    let why = || corrupt(store, key, "names no address".to_owned());
    keys::url_of_key(key).ok_or_else(why)
}

pub(super) fn corrupt(store: &dyn Readable, key: &[u8], why: String) -> StoreError {
    StoreError::Corrupt {
        path: store.path().to_owned(),
        key: key.escape_ascii().to_string(),
        why,
    }
}
