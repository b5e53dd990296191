//! Links and promises between cells: the real [`Publisher`], [`apply`] and [`Cuts`], with logs that
//! lose their answers as the keys do. Some pages have a link to a page of another cell.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use bytes::Bytes;

use super::pages::{LINKS, OFFERS, link_in, link_of, promise_in, target};
use super::process::at;
use super::{
    CELLS, CellCount, CellId, CellState, Cells, Event, HOSTS, Process, Without, World, Wrong,
};
use crate::address::HostKey;
use crate::frontier::{CellOffer, LogPlace, OutboxChange, Slip};
use crate::links::{
    AT_A_TIME, Cuts, Envelope, OpenCells, Publisher, Reading, Setting, UNNUMBERED, read,
};

/// How long a link waits for others.
const LINGER: u64 = 2_000;
/// How long without an answer until a message is sent again.
const ANSWER: u64 = 4_000;

/// A cell's state of links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CellLinks {
    /// Links of its pages that wait in the outbox, as a set of bits.
    pub(super) waiting: u64,
    /// Links to it that it has, by the cells of their pages.
    pub(super) known: [u64; CELLS as usize],
    /// Messages that were added, by the numbers of [`Logs::messages`].
    added: [u64; 8],
    pub(super) place: Rc<LogPlace>,
}

/// The links of a process.
pub(super) struct Links {
    pub(super) sender: u64,
    process: u64,
    publisher: Publisher,
    pub(super) notes: BTreeMap<CellId, Vec<u8>>,
    pub(super) opened: OpenCells,
    /// Cells that are closed and about to be given back.
    pub(super) closed: BTreeSet<CellId>,
    pub(super) cuts: Cuts,
    /// Checkpoints that are not committed, with how far they have read the logs.
    saved: VecDeque<(u64, Vec<(CellId, u64)>)>,
    /// Promises that the broker has not stored, with when to send them again.
    promises: BTreeMap<u64, (CellId, usize, u64, u64)>,
    promised: u64,
}

impl Links {
    pub(super) fn new(
        sender: u64,
        process: u64,
        notes: BTreeMap<CellId, Vec<u8>>,
        kept: BTreeSet<CellId>,
    ) -> Self {
        let setting = Setting {
            linger: LINGER,
            filter: 100_000,
            process,
            ..Setting::usual(sender, CellCount::new(CELLS).unwrap())
        };
        let known = Vec::from_iter(notes.clone());
        Self {
            sender,
            process,
            publisher: Publisher::new(setting, &known).unwrap(),
            notes,
            opened: OpenCells::new(kept),
            closed: BTreeSet::new(),
            cuts: Cuts::default(),
            saved: VecDeque::new(),
            promises: BTreeMap::new(),
            promised: 0,
        }
    }

    /// A checkpoint was made.
    pub(super) fn has_saved(&mut self, number: u64, cells: &Cells) {
        let all = cell_ids().zip(cells);
        let places = all.filter_map(|(cell, state)| Some((cell, place(state.as_ref()?))));
        self.saved.push_back((number, places.collect()));
    }

    /// Makes a promise to a host of a cell.
    pub(super) fn promise(&mut self, cell: CellId, host: usize, until: u64) {
        self.promised += 1;
        self.promises.insert(self.promised, (cell, host, until, 0));
    }

    fn change(&mut self, cells: &mut Cells, change: OutboxChange) {
        self.notes.insert(change.to, change.note);
        for slip in change.gone {
            if let Some(state) = &mut cells[at(slip.from)] {
                state.links.waiting &= !(1 << slip.commit);
            }
        }
    }
}

pub(super) fn cell_ids() -> impl Iterator<Item = CellId> {
    CellCount::new(CELLS).into_iter().flat_map(CellCount::all)
}

pub(super) fn place(state: &CellState) -> u64 {
    state.links.place.sequence
}

/// The bits of a set, as numbers.
fn bits(mut set: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let first = (set != 0).then(|| u64::from(set.trailing_zeros()))?;
        set &= set - 1;
        Some(first)
    })
}

/// What a broker's answer confirms as stored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Receipt {
    /// A message with links.
    Links(u64),
    Promise(u64),
}

impl World {
    /// Sends and reads what is due.
    pub(super) fn exchange(&mut self, node: usize, local: u64) -> Result<(), Wrong> {
        self.follow(node);
        self.read(node)?;
        self.publish(node, local);
        self.promises(node);
        self.cut(node);
        if let Some((from, link)) = self.logs.twice.filter(|_| self.broker.set_back == 0) {
            return Err(format!("C4: link {link} of cell {from} is sent twice"));
        }
        Ok(())
    }

    /// Notes which cells were opened or closed.
    fn follow(&mut self, node: usize) {
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        let Process {
            session,
            links,
            cells,
            ..
        } = process;
        let is_open = |cell: &CellId| cells[at(*cell)].is_some() && !links.closed.contains(cell);
        let Some(changed) = links.opened.follow(session.cells().filter(is_open)) else {
            return;
        };
        for gone in changed.closed {
            links.publisher.forget_sender(gone);
        }
        for new in changed.opened {
            if let Some(change) = links.publisher.forget_target(new).unwrap() {
                links.change(cells, change);
            }
        }
        // What open cells have found for each other needs no log.
        let own = links.opened.iter();
        for (from, to) in own.flat_map(|from| links.opened.iter().map(move |to| (from, to))) {
            let waits = |state: &CellState| state.links.waiting & LINKS[at(from)][at(to)];
            let found = cells[at(from)].as_ref().map_or(0, waits);
            if found == 0 {
                continue;
            }
            if let Some(state) = &mut cells[at(to)] {
                state.links.known[at(from)] |= found;
            }
            if let Some(state) = &mut cells[at(from)] {
                state.links.waiting &= !found;
            }
        }
    }

    /// A page of a cell is done, and may have a link.
    pub(super) fn finds(process: &mut Process, cell: CellId, page: u64) {
        let Some(link) = link_of(page) else { return };
        let to = target(at(cell), link);
        let Links { opened, closed, .. } = &process.links;
        let mut open = opened.iter().filter(|open| !closed.contains(open));
        let is_here = open.any(|open| at(open) == to);
        if let Some(state) = process.cells[to].as_mut().filter(|_| is_here) {
            state.links.known[at(cell)] |= 1 << link;
        } else if let Some(state) = &mut process.cells[at(cell)] {
            state.links.waiting |= 1 << link;
        }
    }

    fn publish(&mut self, node: usize, local: u64) {
        let without = self.without;
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        let Process { links, cells, .. } = process;
        let waits = |state: &CellState| state.links.waiting != 0;
        let is_idle = links.publisher.is_idle() && !cells.iter().flatten().any(waits);
        if is_idle || !links.opened.may_send() {
            return;
        }
        let ids = Vec::from_iter(cell_ids());
        for from in links.opened.iter() {
            let waiting = cells[at(from)].as_ref().map_or(0, |s| s.links.waiting);
            for link in bits(waiting) {
                let slip = Slip { from, commit: link };
                let to = ids[target(at(from), link)];
                if links.publisher.wants(to, &slip) {
                    let offer = OFFERS[at(from)][link as usize].clone();
                    links.publisher.take(to, slip, vec![offer], local);
                }
            }
        }
        links.publisher.hurry(!process.giving.is_empty());
        for change in links.publisher.close(local).unwrap() {
            links.change(cells, change);
        }
        let posts = links.publisher.due(local);
        for post in &posts {
            if without == Without::Acknowledgements {
                let change = links.publisher.answer(post.to, post.number, true, local);
                if let Some(change) = change.unwrap() {
                    links.change(cells, change);
                }
            }
        }
        for post in posts {
            let receipt = Receipt::Links(post.number);
            self.send_to_log(node, post.to, post.id, post.message, receipt);
        }
    }

    fn send_to_log(
        &mut self,
        node: usize,
        to: CellId,
        id: String,
        message: Bytes,
        receipt: Receipt,
    ) {
        self.send(node, Event::Message(to, id, message, receipt));
        // When it is given up if there is no answer.
        let at = self.now + ANSWER;
        self.push(at, node, Event::Heard(to, receipt, false));
    }

    /// Sends promises: the next owners of cells learn when their hosts may be contacted.
    fn promises(&mut self, node: usize) {
        let now = self.now;
        let Some(Process { links, .. }) = &mut self.machines[node].process else {
            return;
        };
        let mut due = Vec::new();
        for (number, (cell, host, until, again)) in &mut links.promises {
            if *again > now {
                continue;
            }
            *again = now + ANSWER;
            let host = HostKey::from_stored(&format!("p{host}"));
            let envelope = Envelope {
                session: links.process,
                number: UNNUMBERED,
                offers: vec![CellOffer::promise(&host, *until)],
            };
            let id = format!("promise.{:x}.{number}", links.process);
            due.push((*cell, id, envelope.to_message().unwrap(), *number));
        }
        for (cell, id, message, number) in due {
            self.send_to_log(node, cell, id, message, Receipt::Promise(number));
        }
    }

    /// Processes whether a message was stored.
    pub(super) fn hears(
        &mut self,
        node: usize,
        local: u64,
        to: CellId,
        receipt: Receipt,
        is_stored: bool,
    ) {
        let Some(Process { links, cells, .. }) = &mut self.machines[node].process else {
            return;
        };
        match receipt {
            Receipt::Links(number) => {
                let change = links.publisher.answer(to, number, is_stored, local);
                if let Some(change) = change.unwrap() {
                    links.change(cells, change);
                }
            }
            Receipt::Promise(number) if is_stored => drop(links.promises.remove(&number)),
            Receipt::Promise(_) => {}
        }
    }

    /// Reads the logs of its cells, sometimes starting a few messages early.
    fn read(&mut self, node: usize) -> Result<(), Wrong> {
        let machine = &self.machines[node];
        let is_deaf = self.now < machine.deaf;
        if is_deaf || machine.cut_out || machine.cut_back || self.broker.is_down {
            return Ok(());
        }
        let now = self.now;
        let back = if self.dice.percent(5) { 2 } else { 0 };
        let without = self.without;
        let is_set_back = self.broker.set_back > 0;
        let Some(process) = &mut self.machines[node].process else {
            return Ok(());
        };
        for cell in Vec::from_iter(process.links.opened.iter()) {
            let (log, messages) = (&self.logs.logs[at(cell)], &self.logs.messages);
            let Some(state) = &mut process.cells[at(cell)] else {
                continue;
            };
            let end = log.last();
            process.links.opened.has_heard(cell, end, now);
            if end > place(state) || back > 0 {
                let behind = log.behind(place(state).saturating_sub(back));
                for (sequence, message) in behind.into_iter().take(AT_A_TIME) {
                    add(state, at(cell), (sequence, &message), messages, without)
                        .map_err(|wrong| format!("{wrong} in {cell} on n{node}"))
                        .or_else(|wrong| if is_set_back { Ok(()) } else { Err(wrong) })?;
                    if without == Without::HeldMessages {
                        process.links.cuts.committed([(cell, sequence)]);
                    }
                }
            }
            let place = place(state);
            let is_all = log.behind(place).is_empty();
            process.links.opened.has_read(cell, place, is_all, now);
        }
        Ok(())
    }

    /// Cuts logs up to what committed checkpoints hold.
    fn cut(&mut self, node: usize) {
        let Some(Process { links, session, .. }) = &mut self.machines[node].process else {
            return;
        };
        while let Some((_, places)) = links.saved.pop_front_if(|(n, _)| *n <= session.committed()) {
            links.cuts.committed(places);
        }
        for (cell, sequence) in links.cuts.due() {
            if self.dice.percent(20) {
                self.send(node, Event::Cut(cell, sequence));
            }
        }
    }
}

/// Adds a message to a cell.
fn add(
    state: &mut CellState,
    cell: usize,
    (sequence, message): (u64, &Bytes),
    messages: &BTreeMap<(usize, u64, u64), usize>,
    without: Without,
) -> Result<(), Wrong> {
    let mut before = Rc::clone(&state.links.place);
    if without == Without::Numbers {
        Rc::make_mut(&mut before).note.clear();
    }
    let (offers, place, is_repeated, from) = match read(&before, sequence, message) {
        Ok(Reading::Known) => return Ok(()),
        Ok(Reading::Add {
            offers,
            place,
            is_repeated,
            from,
            ..
        }) => (offers, place, is_repeated, from),
        Ok(Reading::Reject { why, .. }) => return Err(why.to_string()),
        Err(why) => return Err(why.to_string()),
    };
    state.links.place = Rc::new(place);
    for (from, link) in offers.iter().filter_map(link_in) {
        state.links.known[from] |= 1 << link;
    }
    for (host, until) in offers.iter().filter_map(promise_in) {
        let host = &mut state.hosts[host % HOSTS];
        host.paused = host.paused.max(until);
    }
    if from.1 == UNNUMBERED || is_repeated {
        return Ok(());
    }
    let number = messages.get(&(cell, from.0, from.1)).copied();
    let number = number.ok_or("a message that no session has sent")?;
    let bits = state.links.added.get_mut(number / 64);
    let bits = bits.ok_or("too many messages")?;
    if *bits >> (number % 64) & 1 == 1 {
        return Err(format!("C4: message {sequence} is added twice"));
    }
    *bits |= 1 << (number % 64);
    Ok(())
}
