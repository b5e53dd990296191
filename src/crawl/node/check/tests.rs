use super::*;
use crate::address::PageUrl;
use crate::crawl::cluster::{JobPhase, JobRecord, Node, Revision, SessionRecord, State};

const STORE_CELLS: u16 = 4;

fn cells() -> CellCount {
    CellCount::new(STORE_CELLS).unwrap()
}

fn cell(number: u16) -> CellId {
    CellCount::new(1_024).unwrap().cell(number).unwrap()
}

fn session(node: &str, number: u64) -> SessionId {
    let node = Node::new(node).unwrap();
    SessionId { node, number }
}

fn record(state: State, checkpoint: u64) -> SessionRecord {
    SessionRecord {
        checkpoint,
        ..SessionRecord::new(state, 1)
    }
}

fn base(node: &str, checkpoint: u64) -> Base {
    Base {
        session: session(node, 1),
        checkpoint,
    }
}

/// Two machines: `a` lives and has made checkpoint 5, `b` has ended with 3.
fn survey(cells: &[(u16, CellRecord)]) -> Survey {
    let key = |record| (record, Revision(1));
    Survey {
        job: Some(JobRecord {
            cells: STORE_CELLS,
            phase: JobPhase::Run,
        }),
        sessions: BTreeMap::from([
            (session("a", 1), key(record(State::Live, 5))),
            (session("b", 1), key(record(State::Ended, 3))),
        ]),
        cells: cells
            .iter()
            .map(|(n, record)| (cell(*n), record.clone()))
            .collect(),
        ..Survey::default()
    }
}

/// A checkpoint by its session and number, and the cells that it holds, with how far their logs
/// are read.
type Held<'h> = (&'h str, u64, &'h [(u16, u64)]);

fn held(all: &[Held<'_>]) -> BTreeMap<SessionId, Verified> {
    let mut verified: BTreeMap<SessionId, Verified> = BTreeMap::new();
    for (node, number, cells) in all {
        let of = verified.entry(session(node, 1)).or_default();
        let cells = cells.iter().map(|(n, read)| (cell(*n), *read)).collect();
        of.held.insert(*number, cells);
    }
    verified
}

fn wrong(
    survey: &Survey,
    verified: &BTreeMap<SessionId, Verified>,
    ends: &[(u16, (u64, u64))],
) -> Vec<String> {
    let ends: LogEnds = ends.iter().map(|(n, ends)| (cell(*n), *ends)).collect();
    let mut wrong = BTreeSet::new();
    let mut states = States {
        cells: cells(),
        before: survey,
        after: survey,
        verified,
        wrong: &mut wrong,
    };
    states.keys();
    states.states((&ends, &ends));
    wrong.iter().map(ToString::to_string).collect()
}

fn owned(after: u64, bases: Vec<Base>) -> CellRecord {
    CellRecord {
        owner: Some(session("a", 1)),
        after,
        bases,
    }
}

#[test]
fn a_sound_cluster_has_nothing_wrong() {
    let survey = survey(&[
        // Its owner's checkpoint has it.
        (0, owned(4, vec![base("b", 3)])),
        // Its owner has made none since it took it.
        (1, owned(5, vec![base("b", 3)])),
        // It is new.
        (2, owned(5, Vec::new())),
        (
            3,
            CellRecord {
                owner: None,
                after: 0,
                bases: vec![base("b", 3)],
            },
        ),
    ]);
    let verified = held(&[("a", 5, &[(0, 10)]), ("b", 3, &[(0, 7), (1, 8), (3, 0)])]);
    let ends = [(0, (11, 10)), (1, (9, 20)), (2, (1, 4))];
    assert_eq!(wrong(&survey, &verified, &ends), Vec::<String>::new());
}

#[test]
fn links_that_nobody_holds_are_told() {
    let survey = survey(&[(0, owned(4, Vec::new())), (1, owned(5, vec![base("b", 3)]))]);
    let verified = held(&[("a", 5, &[(0, 10)]), ("b", 3, &[(1, 8)])]);
    // The first has lost two, and the brokers of the other were set back.
    let told = wrong(&survey, &verified, &[(0, (13, 20)), (1, (2, 5))]);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("the links 11 to 12 for cell 0 are gone"),
        "{told:?}"
    );
    assert!(
        told[1].contains("cell 1 has read its links up to number 8"),
        "{told:?}"
    );
    assert!(told[1].contains("up to 5"), "{told:?}");
}

#[test]
fn cells_without_a_state_or_an_owner_are_told() {
    let lost = CellRecord {
        owner: Some(session("c", 9)),
        after: 0,
        bases: vec![base("b", 2)],
    };
    let survey = survey(&[(1, lost), (7, owned(5, Vec::new()))]);
    let verified = held(&[("b", 3, &[(1, 0)])]);
    let told = wrong(&survey, &verified, &[]).join("\n");
    assert!(
        told.contains("cell 1 is c.9's, which the brokers do not know"),
        "{told}"
    );
    assert!(
        told.contains("cell 1 has no state") && told.contains("2 of b.1"),
        "{told}"
    );
    assert!(
        told.contains("a key of cell 7, and the job has 4 cells"),
        "{told}"
    );
}

#[test]
fn two_lives_of_a_machine_are_told() {
    let mut survey = survey(&[]);
    let second = (record(State::Live, 0), Revision(2));
    survey.sessions.insert(session("a", 2), second);
    let told = wrong(&survey, &BTreeMap::new(), &[]);
    assert_eq!(told, ["two sessions of the machine a live: 1 and 2"]);
}

#[test]
fn an_address_in_two_cells_is_told_as_long_as_it_is_there() {
    let url = PageUrl::parse("http://example.org/x").unwrap();
    let home = cells().cell_of(&url.host_key());
    let other = (home.number() + 1) % STORE_CELLS;
    let key = |cell: u16| {
        let space = (0x8000 | cell).to_be_bytes();
        [space.as_slice(), b"Uexample.org\0ph/x"].concat()
    };
    let cells_held: &[(u16, u64)] = &[(home.number(), 0), (other, 0)];
    let told = |see: &dyn Fn(&mut Misplaced)| {
        let mut misplaced = Misplaced::new(cells());
        see(&mut misplaced);
        let verified = held(&[("a", 5, cells_held)]);
        let mut wrong = BTreeSet::new();
        misplaced.tell(&verified[&session("a", 1)], &mut wrong);
        Vec::from_iter(wrong)
    };
    assert_eq!(told(&|m| m.see(5, &key(home.number()), true)), []);
    let wrong = Wrong::Misplaced {
        address: url.to_string(),
        there: cell(other),
        home,
    };
    assert_eq!(told(&|m| m.see(5, &key(other), true)), [wrong]);
    // What was deleted later, or lies in a checkpoint that does not hold the cell.
    let deleted = |m: &mut Misplaced| {
        m.see(5, &key(other), true);
        m.see(5, &key(other), false);
        m.see(4, &key(other), true);
    };
    assert_eq!(told(&deleted), []);
}
