//! Deflate (RFC 1951) for short records: one block with the fixed codes.
//!
//! Libraries keep tables of 128 KB and clear them for each member. For the 600 bytes of a
//! request or of an answer that says "not found", that takes eight times as long as the
//! compressing, and an exchange has three such records.

/// The longest record that is compressed here, in bytes. All of it is within the reach of a
/// match.
pub(super) const MAX: usize = 4 << 10;

/// Shorter matches take more bits than the letters.
const MIN_MATCH: usize = 4;
/// The longest match that has a code (section 3.2.5).
const MAX_MATCH: usize = 258;
/// Entries of the table: places are found by a hash of four bytes.
const HASH_BITS: u32 = 10;
/// The symbol that ends a block.
const END: usize = 256;
/// The symbol of the shortest match with a length of 3.
const FIRST_LENGTH: usize = 257;

/// A code and its number of bits, the first bit of the code lowest.
#[derive(Clone, Copy)]
struct Code(u16, u32);

/// The fixed codes of letters and lengths (section 3.2.6).
static CODES: [Code; 288] = codes();

const fn codes() -> [Code; 288] {
    let mut codes = [Code(0, 0); 288];
    let mut symbol = 0;
    while symbol < 288 {
        let n = symbol as u16;
        let (code, bits) = match symbol {
            0..=143 => (0x30 + n, 8),
            144..=255 => (0x190 + (n - 144), 9),
            256..=279 => (n - 256, 7),
            _ => (0xC0 + (n - 280), 8),
        };
        codes[symbol] = Code(code.reverse_bits() >> (16 - bits), bits);
        symbol += 1;
    }
    codes
}

/// Appends `record`, which has at most [`MAX`] bytes, as a whole stream of deflate.
pub(super) fn deflate(record: &[u8], to: &mut Vec<u8>) {
    // Places are counted from 1; 0 is none.
    let mut places = [0_u16; 1 << HASH_BITS];
    let mut bits = Bits {
        to,
        open: 0,
        count: 0,
    };
    // The last block, with the fixed codes.
    bits.put(0b011, 3);
    let mut at = 0;
    while let Some(next) = four(record, at) {
        let earlier = remember(&mut places, next, at);
        match earlier.map(|from| (from, equal(record, from, at))) {
            Some((from, length)) if length >= MIN_MATCH => {
                bits.put_match(length, at - from);
                let end = at + length;
                // A later text often repeats what follows a match along with its end.
                let last = end - 2;
                if let Some(four) = four(record, last) {
                    remember(&mut places, four, last);
                }
                at = end;
            }
            _ => {
                bits.put_symbol(usize::from(next as u8));
                at += 1;
            }
        }
    }
    let rest = record.get(at..).unwrap_or_default();
    rest.iter().for_each(|byte| bits.put_symbol((*byte).into()));
    bits.put_symbol(END);
    bits.end();
}

/// The four bytes at a place.
fn four(record: &[u8], at: usize) -> Option<u32> {
    let bytes = record.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

/// Enters a place, and returns the one before with the same hash.
fn remember(places: &mut [u16; 1 << HASH_BITS], four: u32, at: usize) -> Option<usize> {
    let hash = four.wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS);
    let place = places.get_mut(hash as usize)?;
    let earlier = std::mem::replace(place, at as u16 + 1);
    usize::from(earlier).checked_sub(1)
}

/// How many bytes at two places are equal, as far as a match has a code.
fn equal(record: &[u8], from: usize, at: usize) -> usize {
    let (earlier, now) = (record.get(from..), record.get(at..));
    let pairs = earlier
        .unwrap_or_default()
        .iter()
        .zip(now.unwrap_or_default());
    pairs.take(MAX_MATCH).take_while(|(a, b)| a == b).count()
}

/// Bits on their way to bytes, the first one lowest.
struct Bits<'a> {
    to: &'a mut Vec<u8>,
    open: u64,
    count: u32,
}

impl Bits<'_> {
    /// Appends the lowest `count` bits of a value; at most 32.
    fn put(&mut self, value: u32, count: u32) {
        self.open |= u64::from(value) << self.count;
        self.count += count;
        if self.count >= 32 {
            self.to.extend_from_slice(&(self.open as u32).to_le_bytes());
            self.open >>= 32;
            self.count -= 32;
        }
    }

    fn put_symbol(&mut self, symbol: usize) {
        if let Some(Code(code, bits)) = CODES.get(symbol) {
            self.put((*code).into(), *bits);
        }
    }

    /// A match of 3 to 258 bytes, 1 to 32,768 bytes before (section 3.2.5).
    fn put_match(&mut self, length: usize, distance: usize) {
        let n = length as u32 - 3;
        if length == MAX_MATCH {
            self.put_symbol(285);
        } else if n < 8 {
            self.put_symbol(FIRST_LENGTH + n as usize);
        } else {
            // Four codes for each power of two from 8 on.
            let extra = n.ilog2() - 2;
            let code = 4 * extra + (n >> extra);
            self.put_symbol(FIRST_LENGTH + code as usize);
            self.put(n & ((1 << extra) - 1), extra);
        }
        let n = distance as u32 - 1;
        if n < 4 {
            self.put_distance(n);
        } else {
            // Two codes for each power of two from 4 on.
            let extra = n.ilog2() - 1;
            self.put_distance(2 * extra + (n >> extra));
            self.put(n & ((1 << extra) - 1), extra);
        }
    }

    fn put_distance(&mut self, code: u32) {
        self.put(code.reverse_bits() >> 27, 5);
    }

    fn end(self) {
        let bytes = self.open.to_le_bytes();
        let left = self.count.div_ceil(8) as usize;
        self.to
            .extend_from_slice(bytes.get(..left).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::DeflateDecoder;
    use proptest::prelude::*;

    use super::*;

    fn packed(record: &[u8]) -> Vec<u8> {
        let mut to = Vec::new();
        deflate(record, &mut to);
        to
    }

    fn holds(record: &[u8]) {
        let packed = packed(record);
        let mut decoder = DeflateDecoder::new(&packed[..]);
        let mut plain = Vec::new();
        decoder.read_to_end(&mut plain).unwrap();
        assert_eq!(plain, record);
        assert_eq!(decoder.total_in(), packed.len() as u64);
    }

    #[test]
    fn every_length_and_distance_of_a_match() {
        for distance in [1, 2, 4, 5, 6, 7, 8, 9, 12, 13, 255, 256, 257, 3_000] {
            for length in 0..=300 {
                let text = (0..distance).map(|n| (n * 7 + n / 256 * 11) as u8);
                let text: Vec<u8> = text.collect();
                let repeated = text.iter().cycle().take(distance + length);
                holds(&repeated.copied().collect::<Vec<_>>());
            }
        }
        holds(&[0; MAX]);
    }

    #[test]
    fn a_request_becomes_shorter() {
        let request = "WARC/1.1\r\nWARC-Type: request\r\n\
            WARC-Record-ID: <urn:uuid:4c0f8a1e-5b1c-8d3e-9a51-1c2b3d4e5f60>\r\n\
            WARC-Date: 2026-01-02T03:04:05Z\r\n\
            Content-Type: application/http; msgtype=request\r\n\
            WARC-Target-URI: http://a.test/images/one.png\r\n\
            WARC-Concurrent-To: <urn:uuid:4c0f8a1e-5b1c-8d3e-9a51-1c2b3d4e5f61>\r\n\r\n\
            GET /images/one.png HTTP/1.1\r\nhost: a.test\r\naccept: image/*\r\n\r\n";
        let packed = packed(request.as_bytes());
        assert!(5 * packed.len() < 4 * request.len(), "{}", packed.len());
        holds(request.as_bytes());
    }

    proptest! {
        #[test]
        fn any_record_comes_back(
            record in proptest::collection::vec(any::<u8>(), 0..MAX),
            few in proptest::collection::vec(0_u8..3, 0..MAX),
        ) {
            holds(&record);
            holds(&few);
        }
    }
}
