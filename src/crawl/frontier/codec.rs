//! Records to bytes and back, with errors that name the store and the key.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::store::{Store, StoreError};

pub(super) fn encode<T: Serialize>(store: &dyn Store, value: &T) -> Result<Vec<u8>, StoreError> {
    postcard::to_stdvec(value).map_err(|why| StoreError::Io {
        path: store.path().to_owned(),
        why: why.to_string(),
    })
}

pub(super) fn decode<T: DeserializeOwned>(
    store: &dyn Store,
    key: &[u8],
    bytes: &[u8],
) -> Result<T, StoreError> {
    postcard::from_bytes(bytes).map_err(|why| corrupt(store, key, why.to_string()))
}

pub(super) fn read<T: DeserializeOwned>(
    store: &dyn Store,
    key: &[u8],
    bytes: Option<Vec<u8>>,
) -> Result<Option<T>, StoreError> {
    bytes.map(|b| decode(store, key, &b)).transpose()
}

pub(super) fn corrupt(store: &dyn Store, key: &[u8], why: String) -> StoreError {
    StoreError::Corrupt {
        path: store.path().to_owned(),
        key: key.escape_ascii().to_string(),
        why,
    }
}
