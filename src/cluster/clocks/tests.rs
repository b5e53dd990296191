//! One address and the machines that want to contact it: first step by step, then with clocks,
//! messages and owners drawn from seeds.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::frontier::CellCount;

const PASS: u64 = 1_000;
const HOLD: u64 = 1_600;
const DELAY: u64 = 100;

fn cell() -> CellId {
    CellCount::ONE.cell(0).unwrap()
}

fn address(n: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, n])
}

fn query(wish: Wish, machine: u64, number: u64) -> Query {
    Query {
        wish,
        address: address(1),
        pass: PassId { machine, number },
        delay: DELAY,
    }
}

/// The table of a machine that owns the cell, with a quiet time that ended at 0.
struct Owner(PassTable);

impl Owner {
    fn new() -> Self {
        Self(PassTable::new(PassTimes::of(PASS)))
    }

    fn reply(&mut self, wish: Wish, machine: u64, number: u64, now: u64) -> Reply {
        let query = query(wish, machine, number);
        // Long enough after the cell was taken.
        self.0.answer(cell(), 0, query, 10_000 + now)
    }
}

#[test]
fn one_at_a_time_and_the_delay_after_the_end() {
    use Wish::{End, GoOn, Send};
    let mut owner = Owner::new();
    assert_eq!(owner.reply(Send, 1, 1, 0), Reply::Go);
    assert_eq!(owner.reply(Send, 1, 1, 5), Reply::Go, "the answer was lost");
    assert_eq!(owner.reply(Send, 2, 1, 10), Reply::Later(DELAY));
    assert_eq!(owner.reply(Send, 1, 2, 10), Reply::Later(DELAY));
    assert_eq!(owner.reply(GoOn, 1, 1, 900), Reply::Go);
    assert_eq!(owner.reply(GoOn, 2, 1, 900), Reply::Gone);
    assert_eq!(owner.reply(End, 1, 1, 2_000), Reply::Go);
    assert_eq!(owner.reply(Send, 1, 1, 2_001), Reply::Gone, "it came late");
    assert_eq!(owner.reply(GoOn, 1, 1, 2_001), Reply::Gone);
    assert_eq!(owner.reply(Send, 2, 1, 2_040), Reply::Later(60));
    // The other machine was the first to wait.
    assert_eq!(owner.reply(Send, 1, 2, 2_100), Reply::Later(TURN));
    assert_eq!(owner.reply(Send, 2, 1, 2_101), Reply::Go);
    assert_eq!(owner.reply(End, 2, 1, 2_200), Reply::Go);
    // An end that is reported twice changes nothing.
    assert_eq!(owner.reply(End, 2, 1, 2_290), Reply::Go);
    assert_eq!(owner.reply(Send, 1, 2, 2_300), Reply::Go);
    // Its end is lost.
    assert_eq!(owner.reply(Send, 2, 2, 2_300 + HOLD), Reply::Later(DELAY));
    assert_eq!(owner.reply(GoOn, 1, 2, 2_300 + HOLD), Reply::Gone);
    // The machine whose turn it is does not ask.
    let due = 2_300 + HOLD + DELAY;
    assert_eq!(owner.reply(Send, 3, 1, due), Reply::Later(TURN));
    assert_eq!(owner.reply(Send, 3, 1, due + TURN), Reply::Go);
}

#[test]
fn a_new_owner_waits_for_the_passes_of_the_last() {
    let mut table = PassTable::new(PassTimes::of(PASS));
    let mut reply =
        |wish, machine, from, now| table.answer(cell(), from, query(wish, machine, 1), now);
    let from = 5_000;
    assert_eq!(
        reply(Wish::Send, 1, from, 4_000),
        Reply::Later(1_000 + HOLD + DELAY)
    );
    // The request continues under a pass of the last owner.
    assert_eq!(reply(Wish::GoOn, 2, from, from + 10), Reply::Go);
    assert_eq!(reply(Wish::GoOn, 3, from, from + 10), Reply::Gone);
    assert_eq!(reply(Wish::GoOn, 2, from, from + HOLD), Reply::Go);
    let open = from + HOLD + DELAY;
    assert_eq!(reply(Wish::Send, 1, from, open - 1), Reply::Later(1));
    assert_eq!(reply(Wish::Send, 1, from, open), Reply::Later(DELAY));
    assert_eq!(reply(Wish::End, 2, from, open + 50), Reply::Go);
    assert_eq!(reply(Wish::Send, 1, from, open + 60), Reply::Later(90));
    assert_eq!(reply(Wish::Send, 1, from, open + 150), Reply::Go);
    // A pass that the last owner could no longer have given is not confirmed.
    assert_eq!(reply(Wish::End, 1, from, open + 200), Reply::Go);
    assert_eq!(reply(Wish::GoOn, 4, from, open + 201), Reply::Gone);
    // The owner was away and comes back: what it knew before no longer counts.
    let again = 50_000;
    assert_eq!(
        reply(Wish::Send, 1, again, again),
        Reply::Later(HOLD + DELAY)
    );
    table.keep(|_| false);
    assert_eq!(table.clocks(), 0);
}

#[test]
fn clocks_that_have_run_out_are_forgotten() {
    let mut table = PassTable::new(PassTimes::of(PASS));
    let mut most = 0;
    for n in 0..10_000_u64 {
        let now = 100_000 + n * 10;
        let [.., a, b] = n.to_be_bytes();
        let query = |wish| Query {
            address: IpAddr::from([127, 0, a, b]),
            ..query(wish, 1, n)
        };
        assert_eq!(table.answer(cell(), 0, query(Wish::Send), now), Reply::Go);
        table.answer(cell(), 0, query(Wish::End), now + 5);
        most = most.max(table.clocks());
    }
    // As many as are used within the delay and a turn, twice.
    assert!(most <= 80, "{most}");
}

#[test]
fn messages_are_read_as_they_are_written_and_no_others() {
    let query = query(Wish::GoOn, u64::MAX, 7);
    let bytes = query.to_bytes();
    assert_eq!(Query::of(&bytes), Some(query));
    for cut in 0..bytes.len() {
        assert_eq!(Query::of(&bytes[..cut]), None);
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert_eq!(Query::of(&longer), None);
    longer[0] = 2;
    assert_eq!(Query::of(&longer[..bytes.len()]), None);
    for reply in [Reply::Go, Reply::Later(500), Reply::Gone] {
        assert_eq!(Reply::of(&reply.to_bytes()), Some(reply));
    }
    let huge = Query {
        delay: u64::MAX,
        ..query
    };
    let mut table = PassTable::new(PassTimes::of(u64::MAX));
    for wish in [Wish::End, Wish::GoOn, Wish::Send] {
        table.answer(cell(), u64::MAX, Query { wish, ..huge }, u64::MAX);
        table.answer(cell(), 0, Query { wish, ..huge }, u64::MAX);
        table.answer(cell(), 0, Query { wish, ..huge }, 0);
    }
}

/// A clock that runs at 0.8 to 1.25 times the true speed.
#[derive(Clone, Copy)]
struct Speed(f64);

impl Speed {
    fn drawn(dice: &mut ChaCha8Rng) -> Self {
        let speeds = [0.8, 1.0, 1.25];
        Self(speeds[dice.random_range(0..speeds.len())])
    }

    /// The time that it shows.
    fn at(self, truth: u64) -> u64 {
        (truth as f64 * self.0) as u64 + 1_000_000
    }
}

/// The state of one request of a machine.
enum Doing {
    /// It asks for a pass: the number of the last attempt, and when that was sent by its own clock.
    Asking { attempt: u64, sent: u64, again: u64 },
    /// It sends the request, under a pass that was asked for then.
    Sending {
        attempt: u64,
        asked: u64,
        sent: u64,
        ends: u64,
    },
}

struct Request {
    machine: usize,
    number: u64,
    doing: Doing,
}

/// A message on its way: when it arrives, the request and the attempt, and its contents.
enum Message {
    To(Query, u64),
    Back(PassId, u64, Reply),
}

/// Machines with clocks of their own that want to contact one address. All times are true times,
/// unless a machine's clock is mentioned.
struct World {
    times: PassTimes,
    dice: ChaCha8Rng,
    speeds: Vec<Speed>,
    tables: Vec<PassTable>,
    /// Who answers, and from what time on by its own clock.
    owners: Vec<(usize, u64)>,
    /// Until when the last owner may answer.
    last_until: u64,
    requests: Vec<Request>,
    numbers: u64,
    messages: Vec<(u64, Message)>,
    /// When the last request ended, and whether one is open.
    last_end: Option<u64>,
    open: usize,
    begun: usize,
    loss: f64,
}

impl World {
    fn new(seed: u64, times: PassTimes) -> Self {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        let speeds = Vec::from_iter((0..3).map(|_| Speed::drawn(&mut dice)));
        let table = || PassTable::new(times);
        let losses = [0.0, 0.1, 0.4];
        let loss = losses[dice.random_range(0..losses.len())];
        Self {
            times,
            dice,
            speeds,
            tables: (0..3).map(|_| table()).collect(),
            owners: vec![(0, 0)],
            last_until: 0,
            requests: Vec::new(),
            numbers: 0,
            messages: Vec::new(),
            last_end: None,
            open: 0,
            begun: 0,
            loss,
        }
    }

    fn post(&mut self, truth: u64, message: impl Fn() -> Message) {
        let copies = if self.dice.random_bool(0.1) { 2 } else { 1 };
        for _ in 0..copies {
            if !self.dice.random_bool(self.loss) {
                let most = if self.dice.random_bool(0.1) {
                    3_000
                } else {
                    20
                };
                let takes = self.dice.random_range(0..most);
                self.messages.push((truth + takes, message()));
            }
        }
    }

    fn ask(&mut self, truth: u64, wish: Wish, pass: PassId, attempt: u64) {
        let query = query(wish, pass.machine, pass.number);
        self.post(truth, || Message::To(query, attempt));
    }

    fn deliver(&mut self, truth: u64) {
        let (due, rest) = std::mem::take(&mut self.messages)
            .into_iter()
            .partition(|(at, _)| *at <= truth);
        self.messages = rest;
        let due: Vec<(u64, Message)> = due;
        for (_, message) in due {
            match message {
                Message::To(query, attempt) => {
                    let last = self.owners.len().saturating_sub(2);
                    for at in last..self.owners.len() {
                        let is_last = at + 1 == self.owners.len();
                        // The last owner may not have noticed yet.
                        if !is_last && truth >= self.last_until {
                            continue;
                        }
                        let (owner, from) = self.owners[at];
                        let now = self.speeds[owner].at(truth);
                        let reply = self.tables[owner].answer(cell(), from, query, now);
                        self.post(truth, || Message::Back(query.pass, attempt, reply));
                    }
                }
                Message::Back(pass, attempt, reply) => self.hear(truth, pass, attempt, reply),
            }
        }
    }

    fn hear(&mut self, truth: u64, pass: PassId, heard: u64, reply: Reply) {
        let is_it = |r: &Request| r.machine as u64 == pass.machine && r.number == pass.number;
        let Some(at) = self.requests.iter().position(is_it) else {
            return;
        };
        let request = &mut self.requests[at];
        let now = self.speeds[request.machine].at(truth);
        match (&mut request.doing, reply) {
            (Doing::Asking { attempt, sent, .. }, Reply::Go)
                if *attempt == heard && now < *sent + PASS =>
            {
                let ends = truth + self.dice.random_range(1..3 * PASS);
                request.doing = Doing::Sending {
                    attempt: *attempt,
                    asked: *sent,
                    sent: now,
                    ends,
                };
                assert_eq!(self.open, 0, "two at once");
                if let Some(last) = self.last_end {
                    // By the fastest clock.
                    assert!(truth >= last + DELAY * 4 / 5, "{last} and then {truth}");
                }
                self.open += 1;
                self.begun += 1;
            }
            (Doing::Asking { attempt, again, .. }, Reply::Later(ms)) if *attempt == heard => {
                *again = now + ms;
            }
            (
                Doing::Sending {
                    attempt,
                    asked,
                    sent,
                    ..
                },
                Reply::Go,
            ) if *attempt == heard => {
                *asked = (*asked).max(*sent);
            }
            _ => {}
        }
    }

    /// Lets machines begin requests, ask again, continue and end.
    fn act(&mut self, truth: u64) {
        if self.requests.len() < 6 && self.dice.random_bool(0.02) {
            self.numbers += 1;
            let machine = self.dice.random_range(0..self.speeds.len());
            self.requests.push(Request {
                machine,
                number: self.numbers,
                doing: Doing::Asking {
                    attempt: 0,
                    sent: 0,
                    again: 0,
                },
            });
        }
        let mut asks = Vec::new();
        let mut ends = Vec::new();
        for (at, request) in self.requests.iter_mut().enumerate() {
            let now = self.speeds[request.machine].at(truth);
            let pass = PassId {
                machine: request.machine as u64,
                number: request.number,
            };
            match &mut request.doing {
                Doing::Asking {
                    attempt,
                    sent,
                    again,
                } => {
                    if self.dice.random_bool(0.0005) {
                        // The request is no longer wanted.
                        ends.push((at, pass, true, false));
                    } else if now >= *again {
                        (*attempt, *sent, *again) = (*attempt + 1, now, now + PASS / 4);
                        asks.push((Wish::Send, pass, *attempt));
                    }
                }
                Doing::Sending {
                    attempt,
                    asked,
                    sent,
                    ends: end,
                } => {
                    if now >= *asked + PASS {
                        // Cut: the owner lets the pass expire.
                        ends.push((at, pass, false, true));
                    } else if truth >= *end {
                        ends.push((at, pass, true, true));
                    } else if now >= *asked + PASS / 3 && now >= *sent + PASS / 4 {
                        (*attempt, *sent) = (*attempt + 1, now);
                        asks.push((Wish::GoOn, pass, *attempt));
                    }
                }
            }
        }
        for (wish, pass, attempt) in asks {
            self.ask(truth, wish, pass, attempt);
        }
        for (at, pass, is_reported, was_sent) in ends.into_iter().rev() {
            self.requests.remove(at);
            if was_sent {
                self.open -= 1;
                self.last_end = Some(truth);
            }
            if is_reported {
                self.ask(truth, Wish::End, pass, 0);
            }
        }
    }

    /// Gives the cell to another machine, or to the same one after a restart.
    fn change_owner(&mut self, truth: u64) {
        let owner = self.dice.random_range(0..self.speeds.len());
        let (last, _) = self.owners[self.owners.len() - 1];
        let stops = truth + self.dice.random_range(0..2_000);
        if owner == last {
            // A process that died forgets everything, and answers nothing until it is back.
            self.tables[owner] = PassTable::new(self.times);
            self.owners.clear();
        }
        self.last_until = stops;
        self.owners.push((owner, self.speeds[owner].at(stops) + 1));
    }

    fn step(&mut self, truth: u64) {
        self.deliver(truth);
        self.act(truth);
        let clocks: usize = self.tables.iter().map(PassTable::clocks).sum();
        assert!(clocks <= 3);
    }
}

/// Runs a world for 40 s, and returns how many requests were sent.
fn run(seed: u64, times: PassTimes) -> usize {
    let mut world = World::new(seed, times);
    let mut change = world.dice.random_range(3_000..20_000);
    for truth in (0..40_000).step_by(5) {
        if truth >= change {
            world.change_owner(truth);
            change = truth + world.dice.random_range(3_000..20_000);
        }
        world.step(truth);
    }
    world.begun
}

#[test]
fn never_two_at_once_and_never_too_soon_whatever_happens() {
    let mut begun = 0;
    for seed in 0..300 {
        println!("seed {seed}");
        begun += run(seed, PassTimes::of(PASS));
    }
    // The passes are of use as well.
    assert!(begun > 300 * 8, "{begun}");
}

#[test]
fn if_the_owner_waits_no_longer_than_a_pass_there_are_two_at_once() {
    let times = PassTimes {
        pass: PASS,
        hold: PASS,
    };
    let is_broken = |seed| std::panic::catch_unwind(|| run(seed, times)).is_err();
    assert!((0..300).any(is_broken));
}
