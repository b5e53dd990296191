//! The bytes of messages between machines: a version, and zstd of postcard.
//!
//! A message comes from another machine of the same operator, and is still read as if from a
//! stranger: within bounds.

use std::io::Read;

use bytes::Bytes;

use crate::frontier::store::StoreError;
use crate::frontier::{CellsError, Unsound};

/// The level of compression. Most of a message are hashes, which a higher one makes no smaller.
pub(super) const LEVEL: i32 = 1;
/// The most bytes of a message, and of what is in it.
pub(super) const MOST_BYTES: usize = 1 << 20;
/// The most bytes of a message that is written: a broker takes [`MOST_BYTES`] with what goes
/// before it.
const MOST_WRITTEN: usize = MOST_BYTES - (4 << 10);
const MOST_INFLATED: u64 = 8 << 20;
/// The largest window of the compression, as a power of two: that of [`MOST_INFLATED`].
const WINDOW: u32 = 23;

/// Why a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// It is of another version.
    #[error(
        "the message is of version {0} and not 1; do all machines run the same version of spoor?"
    )]
    Version(u8),
    /// It is larger than any that is sent.
    #[error("the message has {0}, more than any that is sent")]
    TooLarge(String),
    /// It is cut off, or damaged.
    #[error("a message or a note on messages is damaged: {0}")]
    Damaged(String),
    /// It offers what no machine offers.
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

/// The message with these contents.
///
/// # Errors
/// [`EnvelopeError::TooLarge`] where nobody would read it.
pub(super) fn pack(version: u8, raw: &[u8]) -> Result<Bytes, EnvelopeError> {
    let mut message = vec![version];
    zstd::stream::copy_encode(raw, &mut message, LEVEL)
        .map_err(|why| EnvelopeError::Unwritten(why.to_string()))?;
    if message.len() > MOST_WRITTEN {
        return Err(EnvelopeError::TooLarge(format!("{} bytes", message.len())));
    }
    Ok(message.into())
}

/// The contents of a message.
///
/// # Errors
/// [`EnvelopeError`], where it has another version, is too large or damaged.
pub(super) fn unpack(version: u8, message: &[u8]) -> Result<Vec<u8>, EnvelopeError> {
    if message.len() > MOST_BYTES {
        return Err(EnvelopeError::TooLarge(format!("{} bytes", message.len())));
    }
    match message.split_first() {
        Some((first, packed)) if *first == version => inflated(packed),
        Some((&other, _)) => Err(EnvelopeError::Version(other)),
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
