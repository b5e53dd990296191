//! Reads the structure of a file without decoding a pixel: whether there is more than one
//! frame, and whether the file is complete.
//!
//! Decoders tolerate truncated files: they make up the missing pixels. Here only lengths
//! and markers are followed, so it costs next to nothing.

use image::ImageFormat;

/// The structure of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// More than one frame.
    pub animated: bool,
    /// The end of the image is present; always true of formats without an end marker,
    /// whose decoders notice truncation themselves.
    pub whole: bool,
}

/// Reads the structure of a file of that format.
pub(super) fn shape(format: ImageFormat, bytes: &[u8]) -> Shape {
    let found = match format {
        ImageFormat::Jpeg => jpeg(bytes),
        ImageFormat::Png => png(bytes),
        ImageFormat::Gif => gif(bytes),
        ImageFormat::WebP => webp(bytes),
        _ => Some(false),
    };
    Shape {
        animated: found.unwrap_or(false),
        whole: found.is_some(),
    }
}

/// The peak memory of decoding a file of that format, as a multiple of the memory of its
/// pixels.
pub(super) fn copies(format: ImageFormat, bytes: &[u8]) -> u64 {
    match format {
        // All coefficients, two bytes each, are kept until the last scan.
        ImageFormat::Jpeg if is_in_scans(bytes) => 3,
        // The first frame is drawn onto a canvas; WebP decodes it into a separate buffer.
        ImageFormat::Gif => 2,
        ImageFormat::WebP => 3,
        _ => 1,
    }
}

/// Whether a JPEG has several scans, or one scan without every component: ITU-T T.81,
/// B.2.2 (frame header) and B.2.3 (scan header).
fn is_in_scans(bytes: &[u8]) -> bool {
    let mut components = None;
    for (marker, segment) in segments(bytes) {
        match marker {
            0xc0 | 0xc1 => components = segment.get(7).copied(),
            0xda if segment.get(2).copied() == components => return false,
            0xc2..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf | 0xda => return true,
            _ => {}
        }
    }
    false
}

fn segments(bytes: &[u8]) -> Segments<'_> {
    Segments { bytes, at: 0 }
}

/// Iterates over the markers of a JPEG that have a length, each with the bytes that follow
/// it, and then the end (EOI) with no bytes.
struct Segments<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Segments<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.at += self.bytes.get(self.at..)?.iter().position(|b| *b == 0xff)?;
            self.at += self.bytes.get(self.at..)?.iter().position(|b| *b != 0xff)?;
            match *self.bytes.get(self.at)? {
                // A stuffed byte, and markers without a length.
                0x00 | 0x01 | 0xd0..=0xd8 => self.at += 1,
                0xd9 => {
                    self.at = self.bytes.len();
                    return Some((0xd9, &[]));
                }
                marker => {
                    let rest = self.bytes.get(self.at + 1..)?;
                    let length = rest.get(..2)?.try_into().ok()?;
                    self.at += 1 + usize::from(u16::from_be_bytes(length));
                    return Some((marker, rest));
                }
            }
        }
    }
}

/// Whether there are several frames, here and below; `None` if the end is missing. ITU-T
/// T.81, annex B: the end is the marker EOI. Thumbnails have an EOI too, but within a
/// segment, which is skipped by its length.
fn jpeg(bytes: &[u8]) -> Option<bool> {
    segments(bytes)
        .find(|(marker, _)| *marker == 0xd9)
        .map(|_| false)
}

/// PNG (third edition) section 5.3: chunks up to IEND; section 11.3.6: acTL gives the
/// number of frames.
fn png(bytes: &[u8]) -> Option<bool> {
    let mut at = 8;
    let mut animated = false;
    loop {
        let length = u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
        match bytes.get(at + 4..at + 8)? {
            b"IEND" => return Some(animated),
            b"acTL" => {
                let frames = bytes.get(at + 8..at + 12)?.try_into().ok()?;
                animated = u32::from_be_bytes(frames) > 1;
            }
            _ => {}
        }
        at = at.checked_add(usize::try_from(length).ok()?.checked_add(12)?)?;
    }
}

/// GIF89a: blocks up to the trailer. Some writers leave the trailer out, so a file
/// that ends between two blocks is whole.
fn gif(bytes: &[u8]) -> Option<bool> {
    let table = |flags: u8| match flags & 0x80 {
        0 => 0,
        _ => 3 << ((flags & 7) + 1),
    };
    let mut at = 13 + table(*bytes.get(10)?);
    let mut frames = 0;
    loop {
        let head = match bytes.get(at) {
            Some(0x2c) => {
                frames += 1;
                11 + table(*bytes.get(at + 9)?)
            }
            Some(0x21) => 2,
            Some(_) => return Some(frames > 1),
            None => return (frames > 0).then_some(frames > 1),
        };
        at = at.checked_add(head)?;
        while let length @ 1.. = usize::from(*bytes.get(at)?) {
            at += length + 1;
        }
        at += 1;
    }
}

/// RFC 9649 section 2: chunks within a RIFF container of a known size.
fn webp(bytes: &[u8]) -> Option<bool> {
    let number = |at: usize| {
        let four = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(four)).ok()
    };
    let end = number(4)?.checked_add(8)?;
    let mut at = 12;
    let mut frames = 0;
    while at < end {
        let length = number(at + 4)?;
        frames += u32::from(bytes.get(at..at + 4)? == b"ANMF");
        let after = at.checked_add(8)?.checked_add(length)?;
        if after > bytes.len() {
            return None;
        }
        // A chunk of an odd length is padded, but the last one often is not.
        at = after + length % 2;
    }
    Some(frames > 1)
}
