//! The binary form of a model beside its ARPA file, for fast loading.
//!
//! The ARPA file is the model: people exchange it, and every tool reads it. The binary file is
//! built from it, in KenLM's memory layout, and can be removed at any time. Its end, which KenLM
//! ignores, is a seal with:
//!
//! - the size of the ARPA file, its modification time and its digest: a binary of another file is
//!   rebuilt. Computing the digest of 400 MB takes 0.1 s if the file is in memory, and otherwise as
//!   long as reading it. So a large file of the same size and time is assumed to be unchanged; a
//!   copy with another time is read again at each load. Small files are always read, because they
//!   may change twice within a tick of the file system's clock.
//! - the digest of the binary itself, checked at each load: KenLM trusts the contents of its
//!   tables, so a damaged file must never reach it. Reading the file for this costs little, because
//!   KenLM then finds it in memory.
//!
//! The digests detect damage, not malice, because anyone can compute them: write access to a
//! model's folder implies trust, see SECURITY.md.

use std::fs::Metadata;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::time::UNIX_EPOCH;

use xxhash_rust::xxh3::Xxh3;

use super::kenlm::{KenLm, ModelError};
use super::probing::{IrregularArpa, Probing};
use crate::fs::atomic;

/// Files up to this size are always read to compare them: a hundredth of a second.
const SMALL: u64 = 64 << 20;
const BUFFER: usize = 1 << 20;
/// Begins the seal; the last digit is its version.
const MAGIC: [u8; 8] = *b"spoorlm1";
const SEAL: usize = 40;

/// Loads the model of an ARPA file from its binary, which is built if it is missing, stale, damaged
/// or from another version of KenLM. If it cannot be built or stored, the ARPA file is loaded.
///
/// # Errors
/// [`ModelError`] names the ARPA file.
pub fn load(arpa: &Path, binary: &Path) -> Result<KenLm, ModelError> {
    if is_of(arpa, binary) {
        match KenLm::load_binary(binary, arpa) {
            Ok(model) => return Ok(model),
            Err(error) => tracing::debug!("it is made anew: {error}"),
        }
    }
    match make(arpa, binary) {
        Ok(()) => match KenLm::load_binary(binary, arpa) {
            Ok(model) => return Ok(model),
            Err(error) => tracing::debug!("the ARPA file is loaded instead: {error}"),
        },
        // KenLM may still load it, or report what is wrong with it.
        Err(MakeError::Arpa(why)) => {
            tracing::debug!("{}: no binary form: {why}", arpa.display());
        }
        Err(MakeError::Write(error)) => tracing::debug!(
            "{}: not written: {error}; the model loads more slowly without it",
            binary.display()
        ),
    }
    KenLm::load(arpa)
}

/// Whether the binary is intact and was built from this ARPA file. An unreadable one is not.
fn is_of(arpa: &Path, binary: &Path) -> bool {
    let checked = (|| {
        let Some(seal) = Seal::read(binary)? else {
            return Ok(false);
        };
        let arpa = crate::fs::open(arpa)?;
        let metadata = arpa.metadata()?;
        if metadata.len() != seal.size {
            return Ok(false);
        }
        let same = seal.size > SMALL && changed(&metadata) == seal.changed;
        Ok(same || digest(arpa, u64::MAX)?.digest() == seal.digest)
    })();
    checked.unwrap_or_else(|error: io::Error| {
        tracing::debug!("{}: {error}", binary.display());
        false
    })
}

/// Why there is no binary form.
#[derive(Debug, thiserror::Error)]
enum MakeError {
    #[error(transparent)]
    Arpa(#[from] IrregularArpa),
    #[error(transparent)]
    Write(io::Error),
}

/// Writes the binary form, completely or not at all.
fn make(arpa: &Path, binary: &Path) -> Result<(), MakeError> {
    if cfg!(not(all(
        target_endian = "little",
        target_pointer_width = "64"
    ))) {
        return Err(MakeError::Write(io::ErrorKind::Unsupported.into()));
    }
    let file = crate::fs::open(arpa).map_err(IrregularArpa::from)?;
    // Before reading: if the file changes in the meantime, the seal belongs to the old one.
    let metadata = file.metadata().map_err(IrregularArpa::from)?;
    let mut seal = Seal {
        size: metadata.len(),
        changed: changed(&metadata),
        digest: 0,
    };
    let mut read = Hashing::new(file);
    let buffered = BufReader::with_capacity(BUFFER, &mut read);
    let tables = Probing::read(buffered, metadata.len())?;
    seal.digest = read.hash.digest();
    atomic::write(binary, |out| {
        let mut out = Hashing::new(out);
        tables.write_to(&mut out)?;
        out.write_all(&MAGIC)?;
        for number in [seal.size, seal.changed, seal.digest] {
            out.write_all(&number.to_le_bytes())?;
        }
        let whole = out.hash.digest();
        out.inner.write_all(&whole.to_le_bytes())
    })
    .map_err(MakeError::Write)
}

/// The information about the ARPA file at the end of a binary.
struct Seal {
    size: u64,
    /// Nanoseconds since 1970, 0 if unknown.
    changed: u64,
    digest: u64,
}

impl Seal {
    /// Reads the whole binary; `None` if it is damaged or has no seal.
    fn read(binary: &Path) -> io::Result<Option<Self>> {
        let mut file = crate::fs::open(binary)?;
        let Some(tables) = file.metadata()?.len().checked_sub(SEAL as u64) else {
            return Ok(None);
        };
        let mut hash = digest(&mut file, tables)?;
        let mut seal = [0; SEAL];
        file.read_exact(&mut seal)?;
        let (said, whole) = seal.split_at(SEAL - 8);
        hash.update(said);
        let number = |at: usize| {
            let bytes = said.get(at..at + 8).and_then(|b| b.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let sound = said.starts_with(&MAGIC) && whole == hash.digest().to_le_bytes();
        Ok(sound.then(|| Self {
            size: number(8),
            changed: number(16),
            digest: number(24),
        }))
    }
}

fn changed(metadata: &Metadata) -> u64 {
    let since = metadata.modified().ok();
    let since = since.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// The digest of the next bytes of a file.
fn digest(file: impl Read, bytes: u64) -> io::Result<Xxh3> {
    let mut hashing = Hashing::new(file.take(bytes));
    let mut buffer = vec![0; BUFFER];
    while hashing.read(&mut buffer)? > 0 {}
    Ok(hashing.hash)
}

/// Computes the digest of everything written or read through it.
struct Hashing<T> {
    inner: T,
    hash: Xxh3,
}

impl<T> Hashing<T> {
    fn new(inner: T) -> Self {
        Self {
            inner,
            hash: Xxh3::new(),
        }
    }
}

impl<T: Read> Read for Hashing<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.update(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

impl<T: Write> Write for Hashing<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
