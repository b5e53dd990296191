//! What an image file is and what it looks like, from its bytes alone: real format and
//! size, whether it is animated, whether it is complete, and a perceptual hash of the
//! picture.
//!
//! This takes two steps. [`inspect`] reads the header and the structure, which costs next
//! to nothing for any file, and is enough to reject a size.
//! [`ImageInfo::look`] decodes the pixels, once and within a memory limit; a picture that
//! would exceed it is not decoded, which is recorded. Only the first frame of an animation
//! is decoded. Decoding takes milliseconds per million pixels, so it belongs on a thread
//! that may block.
//!
//! SVG is refused: it is a document to execute, not a picture to decode. This module does
//! not know where the bytes came from, where they are stored, or which images are wanted.
//!
//! Reading order: this file, `shape` (structure), `hash`, `label` (wrong names).

mod hash;
mod label;
mod shape;
#[cfg(test)]
mod tests;
mod thumbnail;

use std::io::{self, Cursor};
use std::panic::catch_unwind;

use image::error::{LimitError, LimitErrorKind};
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use self::hash::hash_file;
pub use self::label::{Mislabelled, mislabelled};
pub use thumbnail::thumbnail;

/// The most memory for the decoded pixels of one picture: 26 million pixels of three
/// bytes.
const MAX_MEMORY: u64 = 80 << 20;

/// The most memory for the pixels together with the decoder's working memory.
const MAX_WORKING: u64 = 120 << 20;

/// A picture with this many pixels or more is large.
const LARGE: u64 = 4_000_000;

/// Memory for the parts of a PNG other than its pixels, in addition to the length of the
/// file and two rows: compressed color profiles can expand a thousandfold.
const PNG_EXTRAS: u64 = 1 << 20;

/// How many bytes are searched for the start of an SVG, which may follow declarations and
/// comments.
const SVG_HEAD: usize = 4096;

/// Why an image is not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadImage {
    /// Its bytes are an SVG document.
    #[error("an SVG document, which is never rendered")]
    Svg,
    /// An unknown or unsupported format.
    #[error("not an image of a supported format")]
    Unknown,
    /// The file ends before the image does.
    #[error("truncated: the file ends before the {format} image does")]
    Truncated {
        /// Its format.
        format: &'static str,
    },
    /// The header or the pixels are invalid.
    #[error("broken {format}: {why}")]
    Broken {
        /// Its format.
        format: &'static str,
        /// The decoder's error.
        why: String,
    },
}

/// What an image file is. The keys are those of the sidecar.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageInfo {
    /// SHA-256 of the bytes, in lower-case hexadecimal.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// Format as the bytes show it, such as `jpeg` or `png`.
    pub format: String,
    /// The usual extension of that format.
    #[serde(skip)]
    pub extension: &'static str,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// GIF, WebP or APNG with more than one frame.
    #[serde(default)]
    pub animated: bool,
    /// Whether all pixels were decoded. False if they would take too much memory, if the
    /// decoder does not support this variant of the format, and in sidecars older than
    /// this key.
    #[serde(default)]
    pub decoded: bool,
    /// Perceptual hash, in 16 hexadecimal digits; `None` for a picture of one colour and
    /// for one that was not decoded.
    #[serde(default, with = "hash::hex")]
    #[schemars(with = "Option<String>", regex(pattern = "^[0-9a-f]{16}$"))]
    pub phash: Option<u64>,
    /// Wrong labels of the file; `None` if its labels are right.
    #[serde(default)]
    pub mislabelled: Option<Mislabelled>,
}

/// Reads format and size from the header, and the structure. Pixels are not decoded, so a
/// small file that expands to a huge picture costs nothing.
///
/// # Errors
///
/// [`BadImage`].
pub fn inspect(bytes: &[u8]) -> Result<ImageInfo, BadImage> {
    let reader = reader(bytes).ok_or_else(|| {
        if is_svg(bytes) {
            BadImage::Svg
        } else {
            BadImage::Unknown
        }
    })?;
    let known = reader.format().and_then(|f| Some((f, name_of(f)?)));
    let (format, (name, extension)) = known.ok_or(BadImage::Unknown)?;
    let shape = shape::shape(format, bytes);
    if !shape.whole {
        return Err(BadImage::Truncated { format: name });
    }
    let dimensions = guarded(|| reader.into_dimensions());
    let (width, height) = dimensions.map_err(|why| bad(name, &why))?;
    Ok(ImageInfo {
        sha256: base16ct::lower::encode_string(&Sha256::digest(bytes)),
        format: name.to_owned(),
        extension,
        width,
        height,
        animated: shape.animated,
        ..ImageInfo::default()
    })
}

impl ImageInfo {
    /// Whether [`ImageInfo::look`] takes 16 to 150 MB of memory, so that it should handle
    /// only one picture at a time.
    pub fn is_large(&self) -> bool {
        u64::from(self.width) * u64::from(self.height) > LARGE
    }

    /// Decodes the pixels of the inspected `bytes` and records what they look like.
    ///
    /// # Errors
    ///
    /// [`BadImage::Truncated`] and [`BadImage::Broken`]. A picture that is not decoded for
    /// lack of memory, or because this variant of the format is not supported, is not an
    /// error.
    pub fn look(&mut self, bytes: &[u8]) -> Result<(), BadImage> {
        let known = reader(bytes).and_then(|r| name_of(r.format()?));
        let (name, _) = known.ok_or(BadImage::Unknown)?;
        match decode(bytes) {
            Ok(picture) => {
                self.decoded = true;
                self.phash = hash::hash(&picture);
                Ok(())
            }
            Err(ImageError::Limits(_) | ImageError::Unsupported(_)) => Ok(()),
            Err(error) => Err(bad(name, &error)),
        }
    }
}

/// The usual file extensions of a format.
pub fn extensions(format: &str) -> &'static [&'static str] {
    match format {
        "jpeg" => &["jpg", "jpeg", "jpe"],
        "png" => &["png"],
        "gif" => &["gif"],
        "webp" => &["webp"],
        "bmp" => &["bmp"],
        "tiff" => &["tif", "tiff"],
        "ico" => &["ico"],
        _ => &[],
    }
}

fn name_of(format: ImageFormat) -> Option<(&'static str, &'static str)> {
    Some(match format {
        ImageFormat::Jpeg => ("jpeg", "jpg"),
        ImageFormat::Png => ("png", "png"),
        ImageFormat::Gif => ("gif", "gif"),
        ImageFormat::WebP => ("webp", "webp"),
        ImageFormat::Bmp => ("bmp", "bmp"),
        ImageFormat::Tiff => ("tiff", "tif"),
        ImageFormat::Ico => ("ico", "ico"),
        _ => return None,
    })
}

/// `None` if the format is unknown.
fn reader(bytes: &[u8]) -> Option<ImageReader<Cursor<&[u8]>>> {
    let reader = ImageReader::new(Cursor::new(bytes));
    let mut reader = reader.with_guessed_format().ok()?;
    let format = reader.format()?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(match format {
        // The decoder applies the limit to its own memory; the pixels are ours.
        ImageFormat::Png => png_extras(bytes),
        _ => MAX_MEMORY,
    });
    reader.limits(limits);
    Some(reader)
}

/// Memory for the parts of a PNG other than its pixels. Section 11.2.1: its width is at a
/// fixed offset.
fn png_extras(bytes: &[u8]) -> u64 {
    let width = bytes.get(16..20).and_then(|four| four.try_into().ok());
    let width = u64::from(u32::from_be_bytes(width.unwrap_or_default()));
    let rows = (width * 2 * 8).min(MAX_MEMORY);
    bytes.len() as u64 + rows + PNG_EXTRAS
}

/// The picture of a file, the first frame of an animation, as its pixels are stored.
/// `None` if it cannot be decoded within the memory limit.
pub fn decode_file(bytes: &[u8]) -> Option<DynamicImage> {
    decode(bytes).ok()
}

fn decode(bytes: &[u8]) -> Result<DynamicImage, ImageError> {
    guarded(|| {
        let reader = reader(bytes).ok_or_else(|| io::Error::other("no known format"))?;
        let copies = reader.format().map_or(1, |f| shape::copies(f, bytes));
        let decoder = reader.into_decoder()?;
        let pixels = decoder.total_bytes();
        if pixels > MAX_MEMORY || pixels.saturating_mul(copies) > MAX_WORKING {
            let kind = LimitErrorKind::InsufficientMemory;
            return Err(ImageError::Limits(LimitError::from_kind(kind)));
        }
        DynamicImage::from_decoder(decoder)
    })
}

/// Catches panics: the decoders are tested and fuzzed, but their input is untrusted.
fn guarded<T>(
    decode: impl FnOnce() -> Result<T, ImageError> + std::panic::UnwindSafe,
) -> Result<T, ImageError> {
    let panicked = |_| Err(io::Error::other("the decoder panicked").into());
    catch_unwind(decode).unwrap_or_else(panicked)
}

fn bad(format: &'static str, error: &ImageError) -> BadImage {
    match error {
        ImageError::IoError(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            BadImage::Truncated { format }
        }
        other => BadImage::Broken {
            format,
            why: other.to_string(),
        },
    }
}

fn is_svg(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = text.trim_ascii_start();
    let head = text.get(..SVG_HEAD).unwrap_or(text);
    head.starts_with(b"<") && head.windows(4).any(|w| w.eq_ignore_ascii_case(b"<svg"))
}
