//! A perceptual hash of 64 bits.
//!
//! The hash uses the discrete cosine transform (Zauner, "Implementation and Benchmarking
//! of Perceptual Image Hash Functions", 2010): the picture is reduced to 32 by 32 grey
//! pixels, and each of its 64 lowest frequencies gives one bit, which is set if it is
//! above their median. Other formats, sizes and compressions of a picture change few of
//! the bits. Half of the bits are set for any picture, so that pictures of a small object
//! on white do not all look alike.

use std::f64::consts::PI;

use image::DynamicImage;
use image::imageops::FilterType;

use super::decode;

const SIDE: usize = 32;
const LOW: usize = 8;

/// Frequencies below this are compression noise; a picture without any other is of one
/// colour. In shades of grey, for a sum over the pixels scaled to their mean.
const FAINT: f64 = 0.5;

/// The hash of a file's picture, the first frame of an animation. `None` if it cannot be
/// decoded within the limits, and for a picture of one colour, because all of those look
/// alike.
pub fn hash_file(bytes: &[u8]) -> Option<u64> {
    hash(&decode(bytes).ok()?)
}

/// The hash of a picture; `None` for a picture of one colour.
pub(super) fn hash(picture: &DynamicImage) -> Option<u64> {
    let side = SIDE as u32;
    let grey = DynamicImage::from(picture.to_luma8());
    let small = grey
        .resize_exact(side, side, FilterType::Triangle)
        .to_luma8();
    let rows = small.as_raw().chunks_exact(SIDE);
    let rows: Vec<[f64; LOW]> = rows
        .map(|row| frequencies(row.iter().map(|p| f64::from(*p))))
        .collect();
    let columns = (0..LOW).map(|u| frequencies(rows.iter().filter_map(|row| row.get(u).copied())));
    let all: Vec<f64> = columns.flatten().collect();
    // The first one is the overall brightness.
    if all.iter().skip(1).all(|f| f.abs() < FAINT) {
        return None;
    }
    let mut sorted = all.clone();
    sorted.sort_by(f64::total_cmp);
    let median = sorted.get(all.len() / 2).copied()?;
    let bits = all.iter().map(|f| u64::from(*f >= median));
    Some(bits.fold(0, |hash, bit| hash << 1 | bit))
}

/// The lowest frequencies of [`SIDE`] values, scaled to their mean (DCT-II).
fn frequencies(values: impl Iterator<Item = f64>) -> [f64; LOW] {
    let mut out = [0.0; LOW];
    for (x, value) in values.enumerate() {
        for (u, sum) in out.iter_mut().enumerate() {
            *sum += value * (PI / SIDE as f64 * (x as f64 + 0.5) * u as f64).cos() / SIDE as f64;
        }
    }
    out
}

/// Serialises hashes as 16 hexadecimal digits, because many JSON readers round 64-bit
/// numbers.
pub(super) mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(hash: &Option<u64>, out: S) -> Result<S::Ok, S::Error> {
        match hash {
            Some(hash) => out.collect_str(&format_args!("{hash:016x}")),
            None => out.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        let parsed = text.map(|text| u64::from_str_radix(&text, 16));
        parsed.transpose().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use spoor_lab::picture::draw;

    fn distance(a: u64, b: u64) -> u32 {
        (a ^ b).count_ones()
    }

    fn encoded(picture: &DynamicImage, format: image::ImageFormat) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        picture.to_rgb8().write_to(&mut out, format).unwrap();
        out.into_inner()
    }

    #[test]
    fn copies_of_a_picture_are_near_and_others_are_not() {
        let mut hashes = Vec::new();
        let (mut copies, mut within_4) = (0, 0);
        for n in 0..20 {
            let drawn = draw(&format!("http://a.test/{n}.png"), 600, 450).unwrap();
            let picture = decode(&drawn.bytes).unwrap();
            let own = hash_file(&drawn.bytes).unwrap();
            let smaller = picture.resize_exact(173, 129, FilterType::CatmullRom);
            for copy in [
                encoded(&picture, image::ImageFormat::Jpeg),
                encoded(&picture, image::ImageFormat::WebP),
                encoded(&smaller, image::ImageFormat::Jpeg),
                encoded(&smaller, image::ImageFormat::Png),
                encoded(&smaller.brighten(8), image::ImageFormat::Bmp),
            ] {
                let near = distance(own, hash_file(&copy).unwrap());
                assert!(near <= 6, "picture {n}: {near} bits");
                copies += 1;
                within_4 += u32::from(near <= 4);
            }
            hashes.push(own);
        }
        // 98 of 100 when this was written; the others differ in 6 bits.
        assert!(within_4 * 20 >= copies * 19, "{within_4} of {copies}");
        for (n, a) in hashes.iter().enumerate() {
            for b in hashes.iter().skip(n + 1) {
                assert!(distance(*a, *b) > 12, "{a:x} {b:x}");
            }
        }
    }

    #[test]
    fn small_things_on_white_do_not_look_alike() {
        let with_dot = |x: u32, y: u32| {
            let mut picture = image::GrayImage::from_pixel(200, 200, image::Luma([255]));
            for (dx, dy) in (0..20).flat_map(|x| (0..20).map(move |y| (x, y))) {
                picture.put_pixel(x + dx, y + dy, image::Luma([0]));
            }
            hash(&picture.into()).unwrap()
        };
        assert!(distance(with_dot(20, 30), with_dot(130, 90)) > 12);
        assert!(distance(with_dot(20, 30), with_dot(160, 30)) > 12);
    }

    #[test]
    fn what_shows_nothing_has_no_hash() {
        for shade in [0, 77, 255] {
            let plain = image::GrayImage::from_pixel(100, 80, image::Luma([shade]));
            assert_eq!(hash(&plain.into()), None, "{shade}");
        }
        let drawn = draw("http://a.test/cut.jpg", 300, 200).unwrap();
        assert!(hash_file(&drawn.bytes).is_some());
        assert_eq!(hash_file(b"no picture"), None);
        assert_eq!(hash_file(&drawn.bytes[..40]), None);
        assert_eq!(hash_file(b""), None);
    }
}
