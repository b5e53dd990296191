//! Placeholder pictures: drawn on demand, the same bytes for the same address.
//!
//! A picture is a coarse mosaic whose colours are seeded by the SHA-256 of its address;
//! the hash is also in the file's metadata, so that even pictures of one pixel differ from
//! each other. This module does not know tables or HTTP.

use image::codecs::bmp::BmpEncoder;
use image::codecs::gif::GifEncoder;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::codecs::webp::WebPEncoder;
use image::{ExtendedColorType, ImageEncoder, ImageError, ImageResult};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// The longest side that is drawn, in pixels; longer ones are reduced to it.
pub const MAX_SIDE: u32 = 4096;

const COLUMNS: usize = 8;
const ROWS: usize = 6;

/// A drawn picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestPicture {
    /// The media type of `bytes`.
    pub content_type: &'static str,
    /// The encoded picture.
    pub bytes: Vec<u8>,
}

/// The media type of a picture with this extension (lower case, no dot), `None` if the lab
/// does not serve such pictures.
pub fn content_type(extension: &str) -> Option<&'static str> {
    Some(match extension {
        "png" => "image/png",
        "jpg" | "jpeg" | "jpe" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "bmp" => "image/bmp",
        "svg" => "image/svg+xml",
        "ico" => "image/x-icon",
        "tif" | "tiff" => "image/tiff",
        "avif" => "image/avif",
        _ => return None,
    })
}

/// Draws the picture of `url`, each side clamped to 1..=[`MAX_SIDE`].
///
/// The format follows the extension of the path: PNG, JPEG, GIF, WebP
/// (lossless), BMP or SVG, and PNG for every other.
///
/// # Errors
/// The encoder's error; none is known to occur at these sizes.
pub fn draw(url: &str, width: u32, height: u32) -> ImageResult<TestPicture> {
    let (width, height) = (width.clamp(1, MAX_SIDE), height.clamp(1, MAX_SIDE));
    let seed: [u8; 32] = Sha256::digest(url.as_bytes()).into();
    let hash = base16ct::lower::encode_string(&seed);
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    let extension = extension.to_ascii_lowercase();
    let rgb = ExtendedColorType::Rgb8;
    let mut bytes = Vec::new();
    let content_type = match extension.as_str() {
        "svg" => {
            bytes = svg(&hash, width, height).into_bytes();
            "image/svg+xml"
        }
        "jpg" | "jpeg" | "jpe" => {
            let mut encoder = JpegEncoder::new_with_quality(&mut bytes, 60);
            encoder
                .set_exif_metadata(exif(&hash))
                .map_err(ImageError::Unsupported)?;
            encoder.write_image(&mosaic(seed, width, height), width, height, rgb)?;
            "image/jpeg"
        }
        "gif" => {
            GifEncoder::new_with_speed(&mut bytes, 30).encode(
                &mosaic(seed, width, height),
                width,
                height,
                rgb,
            )?;
            add_gif_comment(&mut bytes, &hash);
            "image/gif"
        }
        "webp" => {
            let mut encoder = WebPEncoder::new_lossless(&mut bytes);
            encoder
                .set_exif_metadata(exif(&hash))
                .map_err(ImageError::Unsupported)?;
            encoder.write_image(&mosaic(seed, width, height), width, height, rgb)?;
            "image/webp"
        }
        "bmp" => {
            BmpEncoder::new(&mut bytes).write_image(
                &mosaic(seed, width, height),
                width,
                height,
                rgb,
            )?;
            // Four bytes that the format reserves for the writing program.
            for (to, from) in bytes.iter_mut().skip(6).take(4).zip(seed) {
                *to = from;
            }
            "image/bmp"
        }
        _ => {
            // Rows repeat, so the difference to the row above is mostly zeros,
            // which the fast mode packs well; unfiltered it would store them raw.
            let mut encoder =
                PngEncoder::new_with_quality(&mut bytes, CompressionType::Fast, FilterType::Up);
            encoder
                .set_exif_metadata(exif(&hash))
                .map_err(ImageError::Unsupported)?;
            encoder.write_image(&mosaic(seed, width, height), width, height, rgb)?;
            "image/png"
        }
    };
    Ok(TestPicture {
        content_type,
        bytes,
    })
}

/// RGB rows of a mosaic of eight by six colours. A row of pixels is built once for each row of the
/// mosaic and then only copied.
fn mosaic(seed: [u8; 32], width: u32, height: u32) -> Vec<u8> {
    let mut colours = [[0u8; 3]; COLUMNS * ROWS];
    ChaCha8Rng::from_seed(seed).fill_bytes(colours.as_flattened_mut());
    let (width, height) = (width as usize, height as usize);
    let mut out = Vec::with_capacity(width * height * 3);
    let mut line = Vec::with_capacity(width * 3);
    let mut drawn = usize::MAX;
    for y in 0..height {
        let row = y * ROWS / height;
        if row != drawn {
            line.clear();
            for x in 0..width {
                let cell = row * COLUMNS + x * COLUMNS / width;
                line.extend_from_slice(&colours.get(cell).copied().unwrap_or_default());
            }
            drawn = row;
        }
        out.extend_from_slice(&line);
    }
    out
}

fn svg(hash: &str, width: u32, height: u32) -> String {
    let colour = hash.get(..6).unwrap_or("808080");
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\">\
         <desc>{hash}</desc><rect width=\"100%\" height=\"100%\" fill=\"#{colour}\"/></svg>\n"
    )
}

/// The smallest Exif block: a little-endian TIFF header and one directory whose
/// only entry is ImageDescription (TIFF 6.0, tag 270).
fn exif(text: &str) -> Vec<u8> {
    let mut out = b"II\x2a\x00\x08\x00\x00\x00\x01\x00\x0e\x01\x02\x00".to_vec();
    let length = u32::try_from(text.len() + 1).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&26u32.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.push(0);
    out
}

/// Adds a comment extension (GIF89a section 24) after the screen descriptor and its colour
/// table. `text` is at most 255 bytes.
fn add_gif_comment(gif: &mut Vec<u8>, text: &str) {
    let Some(&packed) = gif.get(10) else { return };
    let table = if packed & 0x80 == 0 {
        0
    } else {
        3 << ((packed & 7) + 1)
    };
    let at = 13 + table;
    if at > gif.len() {
        return;
    }
    let mut comment = vec![0x21, 0xfe, u8::try_from(text.len()).unwrap_or(u8::MAX)];
    comment.extend(text.bytes().take(255));
    comment.push(0);
    gif.splice(at..at, comment);
}
