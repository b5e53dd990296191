//! Zstd frames (RFC 8878), with the dictionary that a WARC may begin with (IIPC,
//! "WARC file compression using Zstandard", section 4).

use zstd::stream::raw::{DParameter, Decoder, Operation};

use super::gap::Why;
use super::gzip::InflateStep;

/// The first bytes of a frame of data.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// The skippable frame that holds the dictionary.
pub(super) const DICTIONARY: u32 = 0x184D_2A5D;
/// The largest dictionary in bytes, as stored and decompressed. Those of web archives have
/// about one megabyte.
pub(super) const MAX_DICTIONARY: usize = 16 << 20;
/// The largest window is 2^27 bytes, the default limit of zstd.
const WINDOW_LOG: u32 = 27;

/// The kind of frame at the beginning of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// A frame of data.
    Data,
    /// The dictionary: this many bytes after a header of eight.
    Dictionary(u64),
    /// This many bytes to skip.
    Skippable(u64),
    /// Too few bytes to say.
    Part,
    /// Something else.
    Not,
}

/// Reads the beginning of a frame.
pub(super) fn frame(bytes: &[u8]) -> Frame {
    let begin = bytes.get(..4).unwrap_or(bytes);
    if begin == MAGIC {
        return Frame::Data;
    }
    let is_skippable = match begin {
        [] => true,
        [first, rest @ ..] => (0x50..=0x5F).contains(first) && [0x2A, 0x4D, 0x18].starts_with(rest),
    };
    if MAGIC.starts_with(begin) || (is_skippable && bytes.len() < 8) {
        return Frame::Part;
    }
    match bytes.get(..8) {
        Some([a, b, c, d, e, f, g, h]) if is_skippable => {
            let length = u64::from(u32::from_le_bytes([*e, *f, *g, *h]));
            if u32::from_le_bytes([*a, *b, *c, *d]) == DICTIONARY {
                Frame::Dictionary(length)
            } else {
                Frame::Skippable(length)
            }
        }
        _ => Frame::Not,
    }
}

/// Decompresses one frame after another.
#[derive(Default)]
pub(super) struct ZstdFrames {
    decoder: Option<Decoder<'static>>,
    dictionary: Vec<u8>,
}

impl std::fmt::Debug for ZstdFrames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZstdFrames").finish_non_exhaustive()
    }
}

impl ZstdFrames {
    /// Loads the contents of the dictionary's frame, which may be compressed.
    pub(super) fn use_dictionary(&mut self, stored: &[u8]) -> Result<(), Why> {
        self.dictionary = if stored.starts_with(&MAGIC) {
            let mut plain = Vec::new();
            let mut frames = Self::default();
            frames.begin()?;
            let mut rest = stored;
            let mut chunk = vec![0; 64 << 10];
            loop {
                let step = frames.step(rest, &mut chunk)?;
                plain.extend_from_slice(chunk.get(..step.written).unwrap_or_default());
                rest = rest.get(step.read..).unwrap_or_default();
                if step.ended {
                    break plain;
                }
                let is_stuck = step.read == 0 && step.written == 0;
                if is_stuck || plain.len() > MAX_DICTIONARY {
                    return Err(Why::Dictionary);
                }
            }
        } else {
            stored.to_vec()
        };
        self.decoder = None;
        Ok(())
    }

    /// A second decompressor to try other frames of the same file.
    pub(super) fn scout(&self) -> Self {
        Self {
            decoder: None,
            dictionary: self.dictionary.clone(),
        }
    }

    /// Begins a frame.
    pub(super) fn begin(&mut self) -> Result<(), Why> {
        if let Some(decoder) = &mut self.decoder {
            return decoder.reinit().map_err(|_| Why::Compression);
        }
        let mut decoder =
            Decoder::with_dictionary(&self.dictionary).map_err(|_| Why::Dictionary)?;
        let limit = DParameter::WindowLogMax(WINDOW_LOG);
        decoder.set_parameter(limit).map_err(|_| Why::Compression)?;
        self.decoder = Some(decoder);
        Ok(())
    }

    /// Decompresses as much as fits into `output`. A checksum at the end of the frame is verified.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<InflateStep, Why> {
        let decoder = self.decoder.as_mut().ok_or(Why::Compression)?;
        let done = decoder.run_on_buffers(input, output);
        let done = done.map_err(|_| Why::Compression)?;
        Ok(InflateStep {
            read: done.bytes_read,
            written: done.bytes_written,
            ended: done.remaining == 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_form() {
        let data = zstd::bulk::compress(b"text", 3).unwrap();
        assert_eq!(frame(&data), Frame::Data);
        let dictionary = [&DICTIONARY.to_le_bytes()[..], &[5, 0, 0, 0]].concat();
        assert_eq!(frame(&dictionary), Frame::Dictionary(5));
        let other = [&0x184D_2A50_u32.to_le_bytes()[..], &[0, 1, 0, 0]].concat();
        assert_eq!(frame(&other), Frame::Skippable(256));
        for whole in [&data[..4], &dictionary, &other] {
            for n in 0..whole.len() {
                assert_eq!(frame(&whole[..n]), Frame::Part, "{n}");
            }
        }
        assert_eq!(frame(b"WARC/1.0"), Frame::Not);
    }
}
