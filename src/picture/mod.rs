//! What an image file is and what it looks like, from its bytes alone: real format
//! and size by decoding the header, and a perceptual hash of the picture.
//!
//! Nothing here knows where the bytes came from, where they lie, or what is wanted.

mod hash;

use std::io::Cursor;

use image::{ImageFormat, ImageReader};
use serde::{Deserialize, Serialize};

pub use self::hash::{decode_file, hash_file};
use crate::page::Reason;

/// What the header of an image says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageInfo {
    /// Format by the bytes themselves, as `jpeg` or `png`.
    pub format: String,
    /// The usual extension of that format.
    #[serde(skip)]
    pub extension: &'static str,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

/// Reads format and size from the header; the pixels are not decoded, so a small
/// file that unfolds to a huge picture costs nothing.
///
/// # Errors
/// [`Reason::BadImage`] where the bytes are no image of a supported format.
pub fn inspect(bytes: &[u8]) -> Result<ImageInfo, Reason> {
    let reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|_| Reason::BadImage)?;
    let format = reader.format().ok_or(Reason::BadImage)?;
    let (name, extension) = name_of(format).ok_or(Reason::BadImage)?;
    let (width, height) = reader.into_dimensions().map_err(|_| Reason::BadImage)?;
    Ok(ImageInfo {
        format: name.to_owned(),
        extension,
        width,
        height,
    })
}

/// Extensions under which a file of a format usually lies.
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
