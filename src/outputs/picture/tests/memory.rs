//! Measures the peak memory of [`ImageInfo::look`] at the limits: each picture is handled in
//! a separate process, which reports its peak.

use std::io::Write;
use std::process::Command;

use image::ExtendedColorType::{Rgb8, Rgba16};
use image::{ImageEncoder, codecs};

use super::super::*;

/// The highest peak allowed, in KiB, including the process itself.
const MOST: u64 = 190 << 10;

const FILE: &str = "SPOOR_TEST_PICTURE";

/// A JPEG whose scans hold the first coefficient of each component and nothing more.
fn jpeg(frame: u8, scans: &[&[u8]], width: u16, height: u16) -> Vec<u8> {
    let mut out = vec![0xff, 0xd8];
    let mut segment = |marker: u8, parts: &[&[u8]]| {
        let parts = parts.concat();
        let length = u16::try_from(parts.len() + 2).unwrap();
        out.extend([0xff, marker]);
        out.extend(length.to_be_bytes());
        out.extend(parts);
    };
    segment(0xdb, &[&[0], &[1; 64]]);
    let size = [&[8][..], &height.to_be_bytes(), &width.to_be_bytes()].concat();
    segment(frame, &[&size, &[3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0]]);
    for table in [0x00, 0x10] {
        // One code of two bits, and with it no difference at all.
        let counts = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        segment(0xc4, &[&[table], &counts, &[0]]);
    }
    for scan in scans {
        let of: Vec<u8> = scan.iter().flat_map(|c| [*c, 0]).collect();
        let last = if frame == 0xc2 { 0 } else { 63 };
        segment(0xda, &[&[scan.len() as u8], &of, &[0, last, 0]]);
    }
    out.extend([0xff, 0xd9]);
    out
}

/// A PNG of one colour, row by row.
fn png_16(width: u32, height: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let row = vec![0x80; width as usize * 8];
    let encoder = codecs::png::PngEncoder::new(&mut out);
    let all = row.repeat(height as usize);
    encoder.write_image(&all, width, height, Rgba16).unwrap();
    out
}

fn gif(width: u16, height: u16) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = codecs::gif::GifEncoder::new_with_speed(&mut out, 30);
    for _ in 0..2 {
        // Smaller than the screen, so that it is put together.
        let frame = image::RgbaImage::new(u32::from(width) - 1, u32::from(height));
        encoder.encode_frame(image::Frame::new(frame)).unwrap();
    }
    drop(encoder);
    // The width of the screen: bytes 6 and 7.
    out.splice(6..8, width.to_le_bytes());
    out
}

fn webp(width: u32, height: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let all = vec![0x80; (width * height * 3) as usize];
    let encoder = codecs::webp::WebPEncoder::new_lossless(&mut out);
    encoder.write_image(&all, width, height, Rgb8).unwrap();
    out
}

/// Run by the test below.
#[test]
#[ignore = "the child of another test"]
fn one_picture() {
    let bytes = std::fs::read(std::env::var(FILE).unwrap()).unwrap();
    let mut info = inspect(&bytes).unwrap();
    info.look(&bytes).unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    println!("looked {} {}", info.decoded, peak.unwrap());
}

#[test]
#[cfg(target_os = "linux")]
fn at_the_limit_a_picture_takes_no_more_than_is_allowed() {
    take_no_more_than_is_allowed(&["progressive", "gif"]);
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "long; the default suite has the two that take the most memory"]
fn at_the_limit_a_picture_of_any_kind_takes_no_more_than_is_allowed() {
    take_no_more_than_is_allowed(&[]);
}

/// Looks at pictures of these kinds, or of all if none is named, each in its own process.
#[cfg(target_os = "linux")]
fn take_no_more_than_is_allowed(kinds: &[&str]) {
    let pixels = |bytes: u64| (bytes as f64).sqrt() as u32 - 8;
    let side = |bytes: u64| pixels(bytes) / 8 * 8;
    let of_jpeg = side(MAX_WORKING / 9);
    let all: &[&[u8]] = &[&[1, 2, 3]];
    let apart: &[&[u8]] = &[&[1], &[2], &[3]];
    let cases = [
        ("progressive", of_jpeg, true),
        ("progressive", side(MAX_MEMORY / 3), false),
        ("scans", of_jpeg, true),
        ("one scan", of_jpeg, true),
        ("baseline", side(MAX_MEMORY / 3), true),
        ("png", side(MAX_MEMORY / 8), true),
        ("gif", side(MAX_WORKING / 8), true),
        ("webp", side(MAX_WORKING / 9), true),
    ];
    let chosen = |name: &str| kinds.is_empty() || kinds.contains(&name);
    for (name, side, decoded) in cases.into_iter().filter(|case| chosen(case.0)) {
        let short = side as u16;
        let bytes = match name {
            "progressive" => jpeg(0xc2, all, short, short),
            "scans" => jpeg(0xc0, apart, short, short),
            "one scan" => jpeg(0xc0, &[&[1]], short, short),
            "baseline" => jpeg(0xc0, all, short, short),
            "png" => png_16(side, side),
            "gif" => gif(short, short),
            _ => webp(side, side),
        };
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "picture::tests::memory::one_picture"])
            .args(["--ignored", "--nocapture"])
            .env(FILE, file.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout).into_owned();
        let line = said.lines().find_map(|l| l.split_once("looked "));
        let (_, line) = line.unwrap_or_else(|| panic!("{name}: {said}"));
        let mut words = line.split_whitespace();
        println!("{name}, {side} x {side}: {line}");
        assert_eq!(words.next(), Some(decoded.to_string().as_str()), "{name}");
        let peak: u64 = words.next().unwrap().parse().unwrap();
        assert!(peak < MOST, "{name}: {peak} KiB");
    }
}
