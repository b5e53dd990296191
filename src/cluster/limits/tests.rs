use proptest::prelude::*;

use super::super::record::{Node, State};
use super::*;

const SESSIONS: usize = 3;
const LIMIT: Ceiling = Ceiling {
    documents: Some(40),
    fetches: None,
    bytes: None,
};

fn documents(documents: u64) -> Amount {
    Amount {
        documents,
        ..Amount::default()
    }
}

fn id(number: usize) -> SessionId {
    let node = Node::new(&format!("n{number}")).unwrap();
    SessionId { node, number: 1 }
}

/// A session and its key.
#[derive(Default)]
struct Peer {
    used: u64,
    claim: LimitClaim,
    published: Published,
    claims: Option<LimitClaims>,
    /// The revision of its key that it knows, and the changes that it has asked for.
    known: u64,
    asked: Vec<(u64, LimitClaim)>,
    /// The key.
    key: (u64, LimitClaim),
}

#[derive(Default)]
struct ModelPeers {
    all: [Peer; SESSIONS],
    last: u64,
}

impl ModelPeers {
    fn claim(&mut self, n: usize) {
        let peer = &mut self.all[n];
        let share = peer.claims.map(|c| c.share(&LIMIT, documents(peer.used)));
        peer.claim = LimitClaim {
            done: documents(peer.used),
            most: documents(peer.used).plus(share.unwrap_or_default()),
            wants: true,
        };
    }

    fn ask(&mut self, n: usize) {
        let peer = &mut self.all[n];
        let most = peer.claim.most;
        peer.published.replace(Some(Revision(peer.known)), most);
        if let Some(claims) = &mut peer.claims {
            claims.own = claims.own.with(most, u64::min);
        }
        peer.asked.push((peer.known, peer.claim));
    }

    /// One of the requested changes takes effect, possibly late; its answer may be lost.
    fn arrives(&mut self, n: usize, which: usize, is_answered: bool) {
        let peer = &mut self.all[n];
        if peer.asked.is_empty() {
            return;
        }
        let (was, claim) = peer.asked.remove(which % peer.asked.len());
        if was == peer.key.0 {
            self.last += 1;
            peer.key = (self.last, claim);
        }
        if is_answered {
            peer.known = peer.key.0;
        }
    }

    fn look(&mut self, n: usize) {
        let (revision, claim) = self.all[n].key;
        let Some(own) = self.all[n].published.seen(Revision(revision), claim.most) else {
            return;
        };
        let mut claims = LimitClaims {
            own,
            ..LimitClaims::default()
        };
        for (number, other) in self.all.iter().enumerate().filter(|(o, _)| *o != n) {
            let mut record = SessionRecord::new(State::Live, 1);
            record.claim = other.key.1;
            claims.add(&id(n), (&id(number), &record));
        }
        self.all[n].claims = Some(claims);
    }

    /// Uses as much as it may, up to this amount.
    fn spend(&mut self, n: usize, most: u64) {
        let peer = &mut self.all[n];
        let hand = peer.claims.map(|c| c.hand(&LIMIT, peer.claim.most));
        let left = hand.unwrap_or_default().documents.saturating_sub(peer.used);
        peer.used += left.min(most);
    }

    fn used(&self) -> u64 {
        self.all.iter().map(|peer| peer.used).sum()
    }

    fn act(&mut self, (n, what, how): (usize, u8, usize)) {
        match what {
            0 => self.claim(n),
            1 => self.ask(n),
            2 | 3 => self.arrives(n, how, what == 2),
            4 => self.look(n),
            _ => self.spend(n, how as u64),
        }
    }
}

proptest! {
    #![proptest_config(spoor_testing::usual!())]

    #[test]
    fn no_limit_is_passed_and_each_is_reached(
        acts in prop::collection::vec((0..SESSIONS, 0..6u8, 0..8usize), 0..400),
    ) {
        let mut peers = ModelPeers::default();
        for act in acts {
            peers.act(act);
            prop_assert!(peers.used() <= 40, "{} of 40", peers.used());
        }
        for round in 0..60 {
            for n in 0..SESSIONS {
                peers.claim(n);
                peers.all[n].known = peers.all[n].key.0;
                peers.ask(n);
                let last = peers.all[n].asked.len() - 1;
                peers.arrives(n, last, true);
                peers.look(n);
                // The first session is slow.
                peers.spend(n, if n == 0 { u64::from(round % 10 == 0) } else { 9 });
            }
            prop_assert!(peers.used() <= 40);
        }
        prop_assert_eq!(peers.used(), 40);
    }
}

#[test]
fn a_session_that_is_over_counts_with_what_it_has_committed() {
    let mut record = SessionRecord::new(State::Live, 1);
    record.used = documents(5);
    record.claim = LimitClaim {
        done: documents(9),
        most: documents(20),
        wants: true,
    };
    let of = |record: &SessionRecord| {
        let mut claims = LimitClaims::default();
        claims.add(&id(1), (&id(0), record));
        (claims.done.documents, claims.most.documents, claims.wanting)
    };
    assert_eq!(of(&record), (9, 20, 1));
    record.state = State::Fenced;
    assert_eq!(of(&record), (5, 5, 0));
}
