//! Real files, complete, truncated and changed.

mod memory;

use std::sync::LazyLock;

use image::codecs::gif::GifEncoder;
use image::{Delay, Frame, RgbaImage};
use proptest::prelude::*;

use super::*;
use spoor_lab::picture::draw;

fn drawn(extension: &str, width: u32, height: u32) -> Vec<u8> {
    let url = format!("http://a.test/x.{extension}");
    draw(&url, width, height).unwrap().bytes
}

fn encoded(format: ImageFormat, width: u32, height: u32) -> Vec<u8> {
    let picture = image::load_from_memory(&drawn("png", width, height)).unwrap();
    let mut out = Cursor::new(Vec::new());
    match format {
        // The decoder of icons accepts no other PNG.
        ImageFormat::Ico => picture.to_rgba8().write_to(&mut out, format).unwrap(),
        _ => picture.to_rgb8().write_to(&mut out, format).unwrap(),
    }
    out.into_inner()
}

fn animated_gif(frames: u32) -> Vec<u8> {
    let picture = image::load_from_memory(&drawn("png", 90, 60)).unwrap();
    let frame = |n: u32| {
        let shown: RgbaImage = picture.huerotate(40 * n as i32).to_rgba8();
        Frame::from_parts(shown, 0, 0, Delay::from_numer_denom_ms(100, 1))
    };
    let mut bytes = Vec::new();
    let mut encoder = GifEncoder::new_with_speed(&mut bytes, 30);
    encoder.encode_frames((0..frames).map(frame)).unwrap();
    drop(encoder);
    bytes
}

fn png_chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut chunk = (data.len() as u32).to_be_bytes().to_vec();
    chunk.extend_from_slice(kind);
    chunk.extend_from_slice(data);
    let mut crc = flate2::Crc::new();
    crc.update(&chunk[4..]);
    chunk.extend_from_slice(&crc.sum().to_be_bytes());
    chunk
}

/// An APNG with this many copies of the same frame.
fn animated_png(frames: u32) -> Vec<u8> {
    let still = encoded(ImageFormat::Png, 90, 60);
    let (mut head, mut data, mut at) = (still[..33].to_vec(), Vec::new(), 33);
    while let Some(length) = still.get(at..at + 4) {
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        if &still[at + 4..at + 8] == b"IDAT" {
            data.extend_from_slice(&still[at + 8..at + 8 + length]);
        }
        at += length + 12;
    }
    let mut sequence = 0_u32;
    let mut control = || {
        let mut fields = sequence.to_be_bytes().to_vec();
        for side in [90_u32, 60, 0, 0] {
            fields.extend_from_slice(&side.to_be_bytes());
        }
        fields.extend_from_slice(&[0, 1, 0, 10, 0, 0]);
        sequence += 2;
        png_chunk(b"fcTL", &fields)
    };
    let mut acts = frames.to_be_bytes().to_vec();
    acts.extend_from_slice(&[0; 4]);
    head.extend(png_chunk(b"acTL", &acts));
    head.extend(control());
    head.extend(png_chunk(b"IDAT", &data));
    for n in 1..frames {
        head.extend(control());
        let mut frame = (2 * n - 1 + 1).to_be_bytes().to_vec();
        frame.extend_from_slice(&data);
        head.extend(png_chunk(b"fdAT", &frame));
    }
    head.extend(png_chunk(b"IEND", &[]));
    head
}

fn riff_chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut chunk = kind.to_vec();
    chunk.extend_from_slice(&(data.len() as u32).to_le_bytes());
    chunk.extend_from_slice(data);
    if data.len() % 2 == 1 {
        chunk.push(0);
    }
    chunk
}

/// A WebP with this many copies of the same lossless frame.
fn animated_webp(frames: u32) -> Vec<u8> {
    let still = encoded(ImageFormat::WebP, 90, 60);
    let canvas = [89, 0, 0, 59, 0, 0];
    let mut body = b"WEBP".to_vec();
    body.extend(riff_chunk(b"VP8X", &[&[2, 0, 0, 0][..], &canvas].concat()));
    body.extend(riff_chunk(b"ANIM", &[0; 6]));
    for _ in 0..frames {
        let head = [&[0; 6][..], &canvas, &[100, 0, 0, 0]].concat();
        body.extend(riff_chunk(b"ANMF", &[&head, &still[12..]].concat()));
    }
    riff_chunk(b"RIFF", &body)
}

/// Inspects and decodes, as the crawl does.
fn known(bytes: &[u8]) -> Result<ImageInfo, BadImage> {
    let mut info = inspect(bytes)?;
    info.look(bytes)?;
    Ok(info)
}

/// Every format, still and moving.
static SAMPLES: LazyLock<Vec<(&str, Vec<u8>)>> = LazyLock::new(|| {
    vec![
        ("jpeg", encoded(ImageFormat::Jpeg, 90, 60)),
        // With an EXIF segment.
        ("jpeg", drawn("jpg", 90, 60)),
        ("png", encoded(ImageFormat::Png, 90, 60)),
        ("gif", encoded(ImageFormat::Gif, 90, 60)),
        ("webp", encoded(ImageFormat::WebP, 90, 60)),
        ("bmp", encoded(ImageFormat::Bmp, 90, 60)),
        ("tiff", encoded(ImageFormat::Tiff, 90, 60)),
        ("ico", encoded(ImageFormat::Ico, 90, 60)),
        ("gif", animated_gif(3)),
        ("png", animated_png(3)),
        ("webp", animated_webp(3)),
    ]
});

#[test]
fn whole_files_are_known_for_what_they_are() {
    for (n, (format, bytes)) in SAMPLES.iter().enumerate() {
        let info = known(bytes).unwrap_or_else(|e| panic!("{n}: {e}"));
        assert_eq!(
            (info.format.as_str(), info.width, info.height),
            (*format, 90, 60)
        );
        assert_eq!(info.animated, n >= 8, "{n}");
        assert!(info.decoded && info.phash.is_some(), "{n}");
        assert_eq!(info.phash, hash_file(bytes), "{n}");
        assert_eq!(info.sha256.len(), 64);
    }
    for one_frame in [animated_gif(1), animated_png(1), animated_webp(1)] {
        assert!(!known(&one_frame).unwrap().animated);
    }
}

#[test]
fn what_follows_the_end_of_an_image_does_not_matter() {
    for (n, (_, bytes)) in SAMPLES.iter().enumerate() {
        let mut bytes = bytes.clone();
        let before = known(&bytes).unwrap();
        bytes.extend_from_slice(b"\0\0\xff\xd8 trailing <svg>");
        let after = known(&bytes).unwrap_or_else(|e| panic!("{n}: {e}"));
        assert_eq!(
            (before.phash, before.animated),
            (after.phash, after.animated)
        );
    }
}

#[test]
fn a_file_cut_anywhere_is_refused_or_has_all_its_pixels() {
    for (n, (format, bytes)) in SAMPLES.iter().enumerate() {
        let whole = decode(bytes).unwrap();
        let (mut refused, mut truncated) = (0, 0);
        for cut in 0..bytes.len() {
            let part = &bytes[..cut];
            match known(part) {
                Ok(_) => {
                    let pixels = decode(part).unwrap();
                    assert!(
                        pixels == whole,
                        "{format} {n} cut at {cut} of {}",
                        bytes.len()
                    );
                }
                Err(bad) => {
                    refused += 1;
                    truncated += usize::from(matches!(bad, BadImage::Truncated { .. }));
                }
            }
        }
        // Only a GIF may end early, between two of its blocks; and the mask of an
        // icon is not decoded.
        let most = bytes.len() - bytes.len() / 50;
        assert!(
            refused >= most || *format == "ico",
            "{format} {n}: {refused}"
        );
        assert!(
            truncated * 10 >= refused * 9,
            "{format} {n}: {truncated} of {refused}"
        );
    }
}

#[test]
fn a_header_of_a_huge_picture_is_read_and_the_picture_not_unfolded() {
    let mut png = encoded(ImageFormat::Png, 64, 64);
    let huge = 60_000_u32.to_be_bytes();
    let header = [&huge[..], &huge, &png[24..29]].concat();
    png.splice(8..33, png_chunk(b"IHDR", &header));
    let mut gif = encoded(ImageFormat::Gif, 64, 64);
    gif[6..10].copy_from_slice(&[0x60, 0xea, 0x60, 0xea]);
    let mut jpeg = encoded(ImageFormat::Jpeg, 64, 64);
    let frame = jpeg.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0xea, 0x60, 0xea, 0x60]);
    for (format, bytes) in [("png", png), ("gif", gif), ("jpeg", jpeg)] {
        let info = known(&bytes).unwrap();
        assert_eq!(
            (info.format.as_str(), info.width, info.height),
            (format, 60_000, 60_000)
        );
        assert!(!info.decoded, "{format}");
        assert_eq!(info.phash, None);
        assert_eq!(hash_file(&bytes), None);
    }
}

#[test]
fn a_plain_picture_is_decoded_and_has_no_hash() {
    let mut bytes = Cursor::new(Vec::new());
    image::RgbImage::new(80, 80)
        .write_to(&mut bytes, ImageFormat::Png)
        .unwrap();
    let info = known(bytes.get_ref()).unwrap();
    assert_eq!((info.decoded, info.phash), (true, None));
}

#[test]
fn an_svg_is_told_from_other_markup_and_never_an_image() {
    let late = format!(
        "\u{feff}\n <!-- {} --><SVG xmlns='x'><script/></SVG>",
        "x".repeat(2_000)
    );
    for svg in ["<svg/>", "<?xml version='1.0'?>\n<svg>", late.as_str()] {
        assert_eq!(inspect(svg.as_bytes()), Err(BadImage::Svg), "{svg}");
    }
    for other in ["<html>not found</html>", "", "a <svg>", "\0\0\0\0"] {
        assert_eq!(inspect(other.as_bytes()), Err(BadImage::Unknown), "{other}");
    }
}

#[test]
fn the_hash_is_hexadecimal_in_json_and_may_be_absent() {
    let info = ImageInfo {
        phash: Some(0xab),
        ..ImageInfo::default()
    };
    let json = serde_json::to_value(&info).unwrap();
    assert_eq!(json["phash"], "00000000000000ab");
    assert_eq!(
        serde_json::from_value::<ImageInfo>(json.clone()).unwrap(),
        info
    );
    let mut wrong = json;
    wrong["phash"] = "no hash".into();
    assert!(serde_json::from_value::<ImageInfo>(wrong.clone()).is_err());
    wrong.as_object_mut().unwrap().remove("phash");
    assert_eq!(
        serde_json::from_value::<ImageInfo>(wrong).unwrap().phash,
        None
    );
}

proptest! {
    #![proptest_config(spoor_testing::cases!(400))]

    #[test]
    fn no_bytes_make_it_panic(
        magic in proptest::sample::select(vec![
            &b""[..], b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF\x20\0\0\0WEBPVP8 ",
            b"BM", b"II*\0", b"\0\0\x01\0",
        ]),
        rest in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let bytes = [magic, &rest[..]].concat();
        if let Ok(info) = known(&bytes) {
            prop_assert!(!info.format.is_empty());
        }
        for format in [ImageFormat::Jpeg, ImageFormat::Png, ImageFormat::Gif, ImageFormat::WebP] {
            // Even if the header would have been refused before.
            shape::shape(format, &bytes);
        }
    }

    #[test]
    fn no_changed_file_makes_it_panic(
        sample in 0..11_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = SAMPLES[sample].1.clone();
        for (at, value) in changes {
            // Damage in headers has the most effect.
            let at = if value % 2 == 0 { at.index(bytes.len()) } else { at.index(64) };
            bytes[at] = value;
        }
        let length = cut.index(bytes.len() * 2).min(bytes.len());
        if let Ok(info) = known(&bytes[..length]) {
            prop_assert!(info.decoded || info.phash.is_none());
        }
    }
}
