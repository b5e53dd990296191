//! The bytes of messages between machines: a version, and zstd of postcard.
//!
//! A message comes from another machine of the same operator, but is read with the same care as
//! one from a stranger: its size is bounded.

use std::io::Read;

use bytes::Bytes;

use crate::frontier::store::StoreError;
use crate::frontier::{CellsError, Unsound};

/// The level of compression. Messages are mostly hashes, which a higher level does not shrink.
pub(super) const LEVEL: i32 = 1;
/// The most bytes of a message that is read.
pub(super) const MOST_BYTES: usize = 1 << 20;
/// The most bytes of a message that is written: the broker counts its headers towards its limit
/// of [`MOST_BYTES`].
const MOST_WRITTEN: usize = MOST_BYTES - (4 << 10);
const MOST_INFLATED: u64 = 8 << 20;
/// The largest window of the compression, as a power of two: that of [`MOST_INFLATED`].
const WINDOW: u32 = 23;

/// Why a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// It has another version.
    #[error(
        "the message is of version {found} and not {expected}; do all machines run the same version of spoor?"
    )]
    Version {
        /// The version of the message.
        found: u8,
        /// The version that this machine reads.
        expected: u8,
    },
    /// It exceeds the limits for messages.
    #[error("the message has {0}, which is more than any machine sends")]
    TooLarge(String),
    /// It is truncated or damaged.
    #[error("a message or a note on messages is damaged: {0}")]
    Damaged(String),
    /// It contains something that no machine offers.
    #[error("the message is refused: {0}")]
    Unsound(#[from] Unsound),
    /// It cannot be written.
    #[error("the message cannot be written: {0}")]
    Unwritten(String),
}

/// Why messages cannot be exchanged with other machines.
#[derive(Debug, thiserror::Error)]
pub enum MessagesError {
    /// The frontier failed.
    #[error(transparent)]
    Cells(#[from] CellsError),
    /// A message cannot be written, or a note on messages cannot be read.
    #[error("messages to other machines: {0}")]
    Envelope(#[from] EnvelopeError),
}

impl From<StoreError> for MessagesError {
    fn from(error: StoreError) -> Self {
        Self::Cells(error.into())
    }
}

/// Encodes a message with these contents.
///
/// # Errors
/// [`EnvelopeError::TooLarge`] if the receiver would refuse it.
pub(super) fn pack(version: u8, raw: &[u8]) -> Result<Bytes, EnvelopeError> {
    let mut message = vec![version];
    zstd::stream::copy_encode(raw, &mut message, LEVEL)
        .map_err(|why| EnvelopeError::Unwritten(why.to_string()))?;
    if message.len() > MOST_WRITTEN {
        return Err(EnvelopeError::TooLarge(format!("{} bytes", message.len())));
    }
    Ok(message.into())
}

/// Decodes the contents of a message.
///
/// # Errors
/// [`EnvelopeError`] if it has another version, is too large or is damaged.
pub(super) fn unpack(version: u8, message: &[u8]) -> Result<Vec<u8>, EnvelopeError> {
    if message.len() > MOST_BYTES {
        return Err(EnvelopeError::TooLarge(format!("{} bytes", message.len())));
    }
    match message.split_first() {
        Some((first, packed)) if *first == version => inflated(packed),
        Some((&found, _)) => Err(EnvelopeError::Version {
            found,
            expected: version,
        }),
        None => Err(EnvelopeError::Damaged("it is empty".to_owned())),
    }
}

pub(super) fn inflated(packed: &[u8]) -> Result<Vec<u8>, EnvelopeError> {
    let damaged = |why: std::io::Error| EnvelopeError::Damaged(why.to_string());
    let mut decoder = zstd::Decoder::with_buffer(packed).map_err(damaged)?;
    decoder.window_log_max(WINDOW).map_err(damaged)?;
    let mut raw = Vec::new();
    let mut bounded = decoder.take(MOST_INFLATED + 1);
    bounded.read_to_end(&mut raw).map_err(damaged)?;
    if raw.len() as u64 > MOST_INFLATED {
        return Err(EnvelopeError::TooLarge("more than 8 MiB".to_owned()));
    }
    Ok(raw)
}
