//! Receiving: what becomes of a message in the log of a cell.
//!
//! The cell's record says how far the log was read, with the number of the last message from each
//! session. The batch that adds the offers of a message replaces both. So a message is added once,
//! whenever the process is killed and wherever reading resumes.

use serde::{Deserialize, Serialize};

use super::envelope::{Envelope, EnvelopeError};
use crate::frontier::{CellOffer, LogPlace};

/// The most sessions whose last numbers are remembered. The one that has been silent longest is
/// forgotten first; if it sent again, its earlier messages would count as lost.
const MOST_SESSIONS: usize = 1_024;

/// The `number` of a message that may come more than once, and in any order.
pub(crate) const UNNUMBERED: u64 = 0;

/// What to do with a message.
#[derive(Debug)]
pub enum Reading {
    /// Nothing: it was read before.
    Known,
    /// Add this and the place, in one batch.
    Add {
        /// Its offers; none if another message already brought them.
        offers: Vec<CellOffer>,
        /// How far the log has been read afterwards.
        place: LogPlace,
        /// Messages of its session that never came.
        lost: u64,
        /// Whether it had already come under another number of the log.
        is_repeated: bool,
        /// The session that sent it, and its number there.
        from: (u64, u64),
    },
    /// Put it aside and note the place.
    Reject {
        /// How far the log has been read afterwards.
        place: LogPlace,
        /// Why it cannot be read.
        why: EnvelopeError,
    },
}

/// The number of the last message from each session; the session that sent most recently is last.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Heard(Vec<(u64, u64)>);

impl Heard {
    /// Notes a message. Returns how many before it never came, or `None` if it came before.
    fn hear(&mut self, session: u64, number: u64) -> Option<u64> {
        let known = self.0.iter().position(|(known, _)| *known == session);
        let last = known.map_or(0, |at| self.0.remove(at).1);
        self.0.push((session, last.max(number)));
        if self.0.len() > MOST_SESSIONS {
            self.0.remove(0);
        }
        number.checked_sub(last)?.checked_sub(1)
    }
}

/// Decides what to do with the message under this number, in the log of a cell that was read up to
/// `place`.
///
/// # Errors
/// [`EnvelopeError::Damaged`] if the note in the place cannot be read.
pub fn read(place: &LogPlace, sequence: u64, message: &[u8]) -> Result<Reading, EnvelopeError> {
    if sequence <= place.sequence {
        return Ok(Reading::Known);
    }
    let envelope = match Envelope::of(message) {
        Ok(envelope) => envelope,
        Err(why) => {
            let note = place.note.clone();
            let place = LogPlace { sequence, note };
            return Ok(Reading::Reject { place, why });
        }
    };
    let damaged = |why: postcard::Error| EnvelopeError::Damaged(why.to_string());
    let mut heard: Heard = match place.note.as_slice() {
        [] => Heard::default(),
        note => postcard::from_bytes(note).map_err(damaged)?,
    };
    let Envelope {
        session,
        number,
        offers,
    } = envelope;
    if number == UNNUMBERED {
        let note = place.note.clone();
        return Ok(Reading::Add {
            offers,
            place: LogPlace { sequence, note },
            lost: 0,
            is_repeated: false,
            from: (session, number),
        });
    }
    let lost = heard.hear(session, number);
    let note = postcard::to_stdvec(&heard).map_err(damaged)?;
    Ok(Reading::Add {
        offers: if lost.is_some() { offers } else { Vec::new() },
        place: LogPlace { sequence, note },
        lost: lost.unwrap_or_default(),
        is_repeated: lost.is_none(),
        from: (session, number),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::links;
    use super::*;

    fn message(session: u64, number: u64) -> bytes::Bytes {
        let offers = links(2);
        let envelope = Envelope {
            session,
            number,
            offers,
        };
        envelope.to_message().unwrap()
    }

    /// How many offers, how many lost messages, and whether it is a repeated one.
    fn added(place: &mut LogPlace, sequence: u64, message: &[u8]) -> Option<(usize, u64, bool)> {
        match read(place, sequence, message).unwrap() {
            Reading::Known => None,
            Reading::Add {
                offers,
                place: next,
                lost,
                is_repeated,
                ..
            } => {
                *place = next;
                Some((offers.len(), lost, is_repeated))
            }
            Reading::Reject { why, .. } => panic!("{why}"),
        }
    }

    #[test]
    fn messages_are_added_once_and_missed_ones_counted() {
        let mut place = LogPlace::default();
        let mut read =
            |sequence, session, number| added(&mut place, sequence, &message(session, number));
        assert_eq!(read(1, 7, 1), Some((2, 0, false)));
        // Read again, and stored again by the broker.
        assert_eq!(read(1, 7, 1), None);
        assert_eq!(read(2, 7, 1), Some((0, 0, true)));
        // Each session has its own numbers; the log may have gaps.
        assert_eq!(read(5, 8, 1), Some((2, 0, false)));
        assert_eq!(read(6, 7, 4), Some((2, 2, false)));
        assert_eq!(read(7, 7, 3), Some((0, 0, true)));
        assert_eq!(read(8, 8, 2), Some((2, 0, false)));
    }

    #[test]
    fn a_message_without_a_number_comes_as_often_as_it_is_sent() {
        let mut place = LogPlace::default();
        let mut read = |sequence, number| added(&mut place, sequence, &message(7, number));
        assert_eq!(read(1, 1), Some((2, 0, false)));
        assert_eq!(read(2, UNNUMBERED), Some((2, 0, false)));
        assert_eq!(read(3, UNNUMBERED), Some((2, 0, false)));
        assert_eq!(read(4, 2), Some((2, 0, false)));
    }

    #[test]
    fn what_cannot_be_read_is_passed_over() {
        let mut place = LogPlace::default();
        added(&mut place, 4, &message(7, 1));
        let Ok(Reading::Reject { place: next, why }) = read(&place, 5, b"\x09hello") else {
            panic!("it was read");
        };
        assert!(why.to_string().contains("version 9"), "{why}");
        assert_eq!((next.sequence, &next.note), (5, &place.note));
        let damaged = LogPlace {
            sequence: 4,
            note: vec![0xff],
        };
        assert!(read(&damaged, 5, &message(7, 2)).is_err());
    }

    #[test]
    fn the_sessions_that_are_known_are_bounded() {
        let mut heard = Heard::default();
        for session in 0..2_000 {
            assert_eq!(heard.hear(session, 1), Some(0));
            assert_eq!(heard.hear(u64::MAX, session + 1), Some(0));
        }
        assert_eq!(heard.0.len(), MOST_SESSIONS);
    }
}
