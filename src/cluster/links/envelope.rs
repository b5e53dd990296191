//! The layout of a message with links.
//!
//! The first byte is the version, 1. The rest is zstd of postcard: the session that sends it, the
//! number of the message, the number of offers, and the offers. They are those in the sender's
//! store ([`CellOffer`]), so a change of their layout needs another version.
//!
//! A message comes from another machine of the same operator, but is read with the same care as one
//! from a stranger: sizes are bounded, addresses are parsed again, numbers are checked.

use bytes::Bytes;

use crate::frontier::CellOffer;
use crate::packed;
pub use crate::packed::EnvelopeError;

/// The version of a message.
const VERSION: u8 = 1;
/// The most offers in a message.
const MOST_OFFERS: u32 = 2_000;
/// A message.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// The sender: a number that each session draws when it begins.
    pub session: u64,
    /// How many messages it has sent to this cell, including this one.
    pub number: u64,
    /// Its contents.
    pub offers: Vec<CellOffer>,
}

impl Envelope {
    /// Encodes the message.
    ///
    /// # Errors
    /// [`EnvelopeError::TooLarge`] if the receiver would refuse it.
    pub fn to_message(&self) -> Result<Bytes, EnvelopeError> {
        let unwritten = |why: String| EnvelopeError::Unwritten(why);
        let count = u32::try_from(self.offers.len()).unwrap_or(u32::MAX);
        if count > MOST_OFFERS {
            return Err(EnvelopeError::TooLarge(format!("{count} offers")));
        }
        let mut raw = postcard::to_stdvec(&(self.session, self.number, count))
            .map_err(|why| unwritten(why.to_string()))?;
        for offer in &self.offers {
            raw = postcard::to_extend(offer, raw).map_err(|why| unwritten(why.to_string()))?;
        }
        packed::pack(VERSION, &raw)
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// [`EnvelopeError`] if no machine of this version can have written it.
    pub fn of(message: &[u8]) -> Result<Self, EnvelopeError> {
        let damaged = |why: &dyn std::fmt::Display| EnvelopeError::Damaged(why.to_string());
        let raw = packed::unpack(VERSION, message)?;
        let ((session, number, count), mut rest): ((u64, u64, u32), _) =
            postcard::take_from_bytes(&raw).map_err(|why| damaged(&why))?;
        if count > MOST_OFFERS {
            return Err(EnvelopeError::TooLarge(format!("{count} offers")));
        }
        let mut offers = Vec::new();
        for _ in 0..count {
            let (offer, behind): (CellOffer, _) =
                postcard::take_from_bytes(rest).map_err(|why| damaged(&why))?;
            offer.check()?;
            offers.push(offer);
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(damaged(&"it continues after its last offer"));
        }
        Ok(Self {
            session,
            number,
            offers,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{link, links};
    use super::*;
    use crate::packed::{LEVEL, MOST_BYTES, inflated};

    fn envelope(offers: usize) -> Envelope {
        Envelope {
            session: 7,
            number: 300,
            offers: links(offers),
        }
    }

    /// These bytes, without the version, compressed as a message.
    fn packed(raw: &[u8]) -> Vec<u8> {
        let mut message = vec![VERSION];
        zstd::stream::copy_encode(raw, &mut message, LEVEL).unwrap();
        message
    }

    #[test]
    fn what_is_written_is_read() {
        for offers in [0, 1, 500, 2_000] {
            let envelope = envelope(offers);
            let message = envelope.to_message().unwrap();
            assert_eq!(Envelope::of(&message).unwrap(), envelope);
        }
    }

    /// Another layout needs another version.
    #[test]
    fn the_layout_is_fixed() {
        let one = Envelope {
            session: 7,
            number: 300,
            offers: vec![link("http://a.org/x", 2.5)],
        };
        let raw = inflated(&one.to_message().unwrap()[1..]).unwrap();
        let digest = xxhash_rust::xxh3::xxh3_64(&raw);
        assert_eq!((raw.len(), digest), LAYOUT, "{raw:?}");
    }

    const LAYOUT: (usize, u64) = (111, 6_531_166_973_478_850_953);

    #[test]
    fn what_is_too_large_is_refused() {
        let too_large = |error| matches!(error, Err(EnvelopeError::TooLarge(_)));
        let many = Envelope {
            offers: links(2_001),
            ..envelope(0)
        };
        assert!(many.to_message().is_err());
        let count = postcard::to_stdvec(&(7_u64, 300_u64, 2_001_u32)).unwrap();
        assert!(too_large(Envelope::of(&packed(&count))));
        assert!(too_large(Envelope::of(&vec![VERSION; MOST_BYTES + 1])));
        // A few hundred bytes that inflate to 9 MiB.
        let bomb = packed(&vec![0; 9 << 20]);
        assert!(bomb.len() < 2_000);
        assert!(too_large(Envelope::of(&bomb)));
    }

    #[test]
    fn what_is_damaged_is_named() {
        let message = envelope(3).to_message().unwrap();
        let mut other = message.to_vec();
        other[0] = 2;
        let error = Envelope::of(&other).unwrap_err();
        assert!(error.to_string().contains("version 2"), "{error}");
        assert!(matches!(Envelope::of(&[]), Err(EnvelopeError::Damaged(_))));
        let mut raw = inflated(&message[1..]).unwrap();
        raw.push(0);
        let error = Envelope::of(&packed(&raw)).unwrap_err();
        assert!(error.to_string().contains("continues after"), "{error}");
    }

    #[test]
    fn what_no_machine_offers_is_refused() {
        let raw = inflated(&envelope(1).to_message().unwrap()[1..]).unwrap();
        let at = raw.windows(4).position(|bytes| bytes == b"http").unwrap();
        let refused = |from: &[u8], to: &[u8]| {
            let at = at
                + raw[at..]
                    .windows(from.len())
                    .position(|b| b == from)
                    .unwrap();
            let mut other = raw.clone();
            other[at..at + to.len()].copy_from_slice(to);
            Envelope::of(&packed(&other)).unwrap_err()
        };
        // An address that is not canonical is made canonical; anything else that is not an address
        // counts as damage.
        assert!(matches!(
            refused(b"http:", b"gttp:"),
            EnvelopeError::Damaged(_)
        ));
        assert!(matches!(
            refused(b"h0.", b"..."),
            EnvelopeError::Damaged(_) | EnvelopeError::Unsound(_)
        ));
        let infinite = Envelope {
            offers: vec![link("http://a.org/", f64::INFINITY)],
            ..envelope(0)
        };
        let error = Envelope::of(&infinite.to_message().unwrap()).unwrap_err();
        assert!(error.to_string().contains("http://a.org/"), "{error}");
    }

    proptest! {
        #![proptest_config(spoor_testing::cases!(64))]

        #[test]
        fn damage_never_panics(
            offers in 0_usize..6,
            edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut in any::<prop::sample::Index>(),
            is_cut: bool,
            is_inside: bool,
        ) {
            let message = envelope(offers).to_message().unwrap().to_vec();
            // Only damage to the inflated bytes reaches the decoder of offers.
            let mut bytes = if is_inside { inflated(&message[1..]).unwrap() } else { message };
            for (at, byte) in edits {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if is_cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            let read = Envelope::of(&if is_inside { packed(&bytes) } else { bytes });
            // What can be decoded can be encoded again.
            if let Ok(envelope) = read {
                let again = Envelope::of(&envelope.to_message().unwrap()).unwrap();
                prop_assert_eq!(again.offers.len(), envelope.offers.len());
            }
        }
    }
}
