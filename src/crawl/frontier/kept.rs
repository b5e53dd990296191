//! Which file of the outputs was the first with certain bytes, so that the same
//! bytes under another address need not be kept twice.
//!
//! An entry is written in the batch of the image that it names, and so never names
//! one that was taken back after a crash. The frontier does not know whether the
//! file is still there: the outputs look before they make use of it.

use super::store::{Batch, StoreError};
use super::{Frontier, codec, keys};

impl Frontier {
    /// The file that was first kept with these bytes, as the outputs named it;
    /// `sha256` in lower-case hexadecimal.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn kept_file(&self, sha256: &str) -> Result<Option<String>, StoreError> {
        let key = keys::kept(sha256);
        let name = self.store.get(&key)?.map(String::from_utf8).transpose();
        name.map_err(|why| codec::corrupt(&*self.store, &key, why.to_string()))
    }

    /// Forgets the files that were first kept with these bytes: the next image that
    /// has them is the first again. Flushed at once, as the files may be removed next.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn forget_files<'a>(
        &mut self,
        sha256s: impl Iterator<Item = &'a str>,
    ) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        for sha256 in sha256s {
            batch.delete(keys::kept(sha256));
        }
        self.commit(batch, self.meta.clone())?;
        self.flush()
    }
}
