//! Thumbnails: a file's picture, re-encoded at a bounded size.

use std::io::Cursor;
use std::panic::catch_unwind;

use image::codecs::jpeg::JpegEncoder;
use image::imageops::{self, FilterType};
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageReader, Rgba, RgbaImage};

use super::decode_file;

/// JPEG quality out of 100, sufficient for photographs.
const QUALITY: u8 = 85;

/// A file's picture as a JPEG, upright, transparency on light grey, its longer side at
/// most `side` pixels. `None` if it cannot be decoded within the limits.
pub fn thumbnail(bytes: &[u8], side: u32) -> Option<Vec<u8>> {
    let mut picture = decode_file(bytes)?;
    if picture.width().max(picture.height()) > side {
        picture = picture.resize(side, side, FilterType::Triangle);
    }
    if let Some(orientation) = catch_unwind(|| orientation(bytes)).ok().flatten() {
        picture.apply_orientation(orientation);
    }
    let rgb = if !picture.color().has_alpha() {
        picture.to_rgb8()
    } else {
        // White and black lines must both be visible.
        let grey = Rgba([224, 224, 224, 255]);
        let mut ground = RgbaImage::from_pixel(picture.width(), picture.height(), grey);
        imageops::overlay(&mut ground, &picture.to_rgba8(), 0, 0);
        DynamicImage::from(ground).to_rgb8()
    };
    let mut out = Cursor::new(Vec::new());
    let encoder = JpegEncoder::new_with_quality(&mut out, QUALITY);
    rgb.write_with_encoder(encoder).ok()?;
    Some(out.into_inner())
}

/// The camera orientation that the file records.
fn orientation(bytes: &[u8]) -> Option<Orientation> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    reader.ok()?.into_decoder().ok()?.orientation().ok()
}
