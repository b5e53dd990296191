use super::*;
use crate::frontier::CellCount;
use crate::{Base, Node, Revision, SessionRecord, State};

fn cell(number: u16) -> CellId {
    CellCount::new(8).unwrap().cell(number).unwrap()
}

fn session(node: &str) -> SessionId {
    let node = Node::new(node).unwrap();
    SessionId { node, number: 1 }
}

/// Two machines: `a` is alive and has made checkpoint 5, `b` has ended with 3.
fn survey(cells: &[(u16, Option<&str>, u64)]) -> Survey {
    let record = |state, checkpoint| {
        let record = SessionRecord {
            checkpoint,
            ..SessionRecord::new(state, 1)
        };
        (record, Revision(1))
    };
    let cells = cells.iter().map(|(n, owner, base)| {
        let base = Base {
            session: session("b"),
            checkpoint: *base,
        };
        let record = CellRecord {
            owner: owner.map(session),
            after: 4,
            bases: Vec::from_iter((base.checkpoint > 0).then_some(base)),
        };
        (cell(*n), record)
    });
    Survey {
        sessions: BTreeMap::from([
            (session("a"), record(State::Live, 5)),
            (session("b"), record(State::Ended, 3)),
        ]),
        cells: cells.collect(),
        ..Survey::default()
    }
}

#[test]
fn cells_that_no_checkpoint_holds_are_reported() {
    let before = survey(&[
        // Its owner's checkpoint has it.
        (0, Some("a"), 2),
        // Its owner has made none since it took the cell.
        (1, Some("a"), 3),
        // It is new.
        (2, Some("a"), 0),
        (3, None, 3),
        // These are lost.
        (4, Some("a"), 2),
        (5, None, 2),
        (6, Some("c"), 2),
    ]);
    let of = |number, cells: &[u16]| Verified {
        held: BTreeMap::from([(number, cells.iter().map(|n| cell(*n)).collect())]),
        ..Verified::default()
    };
    let verified = BTreeMap::from([
        (session("a"), of(5, &[0])),
        (session("b"), of(3, &[1, 3, 5])),
    ]);
    let lost = without_state(&before, &before, &verified);
    assert_eq!(lost, [4, 5, 6].map(cell));
    // The machines have moved on.
    let mut after = before.clone();
    after.cells.remove(&cell(6));
    after.sessions.get_mut(&session("a")).unwrap().0.checkpoint = 6;
    assert_eq!(without_state(&before, &after, &verified), [cell(5)]);
}
