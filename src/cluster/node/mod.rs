//! A machine of a cluster: its session, its cells, the links between its cells and those of others,
//! and its checkpoints, put together.
//!
//! A [`Node`] is the [`Companion`] of a crawl. It opens cells that its session has taken, with
//! their states from the checkpoints of their last owners, closes cells that others should own, and
//! says when hosts may be contacted. Work counts once a checkpoint with it is committed; if later
//! work is lost, others do it again.
//!
//! # A cell
//!
//! ```text
//!  taken --> its state is read --> open, quiet until its time has come --> hosts are contacted
//!   given back <-- in a checkpoint <-- closed <-- nothing is open or unsent <-- to be given
//! ```
//!
//! # The end of a term
//!
//! When the session's term is over, open requests are cut. Their hosts may have received them all
//! the same. So nothing is leased until all of them have ended; then all cells are opened again as
//! after the death of a process, and each host waits for its delay.
//!
//! | part | one line |
//! |---|---|
//! | `join` | before the job is opened: which session it is, and whether the folder is its own |
//! | `keeping` | what survives the process: `session.json` |
//! | `loading` | the states of cells, read on a separate thread |
//! | `learned` | what a machine that begins takes over from what others have learned |
//! | `giving` | cells that others should own |
//! | `addresses` | the clocks of IP addresses over all machines |
//! | `shares` | how many more pages it may request, if limits hold for all machines |
//! | `settings` | whether it has the configuration and the model of the others |
//! | `wanted` | applies the state that an operator wants of all machines |
//! | `store` | whether it has the store of the others |
//! | `error` | what ends a session |
//! | `check` | whether all keys and checkpoints of a cluster are as they should be |

mod addresses;
pub mod check;
mod error;
mod giving;
mod join;
mod keeping;
mod learned;
mod loading;
mod settings;
mod shares;
mod store;
mod wanted;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle as Runtime;

pub use self::addresses::Setting as AddressSetting;
use self::addresses::{Addresses, Running};
pub use self::error::NodeError;
use self::giving::Giving;
pub use self::join::{Commits, Joined, insist, join, name_of};
pub use self::keeping::Keeping;
use self::loading::Loading;
pub use self::settings::of as settings_of;
use self::shares::OwnShare;
use self::wanted::ObeyedState;
pub use self::wanted::{Obey, WantedErrand, WantedErrands, WantedReader};
use super::lessons::Lessons;
use super::links::{self, Links};
use super::{Engine, Handle, News, Over, SessionCommand, Standing, Terms};
use crate::address::PageUrl;
use crate::clock::millis;
use crate::crawl::metrics::Metrics;
use crate::crawl::pipeline::{Allowance, Companion, Course, CrawlError, Limits, PassGate};
use crate::crawl::saved::{Keeper, SaveError};
use crate::frontier::{Asked, CellId, Cells, Outside};
use crate::settings::JobSettings;

/// The shortest time between two turns, in milliseconds: a crawl with many pages calls it more
/// often.
const PAUSE: u64 = 20;

/// What each cell begins with.
#[derive(Debug, Clone, Default)]
pub struct Beginning {
    /// The operator's own addresses.
    pub seeds: Vec<PageUrl>,
    /// Those seeds that have a schedule of their own.
    pub watched: Vec<(PageUrl, Duration)>,
}

/// A machine of a cluster. See the module's documentation.
pub struct Node<E> {
    runtime: Runtime,
    handle: Handle,
    links: Links<E>,
    lessons: Lessons<E>,
    keeping: Keeping,
    checkpoints: Keeper,
    loading: Loading,
    addresses: Addresses<E>,
    /// Answers the questions of other machines about addresses.
    _answers: Running,
    giving: Giving,
    shares: OwnShare,
    obeyed: ObeyedState,
    /// Reads the wanted state; `None` once it was taken.
    reader: Option<WantedReader<E>>,
    /// The limit, last reported to the crawl, that leaves nothing for any machine.
    reached: Option<&'static str>,
    /// Whether images are still fetched then.
    finishes_images: bool,
    beginning: Beginning,
    metrics: Metrics,
    /// Checkpoints that were committed.
    committed: Commits,
    /// Whether requests were cut, so that all cells must be opened again.
    was_cut: bool,
    is_leaving: bool,
    is_done: bool,
    is_idle: bool,
    /// The last batch of the store at the time when nothing was left to do.
    rested: Option<u64>,
    /// Why the node ends: the session is over, or has lost what it did.
    end: Option<NodeError>,
    has_left: bool,
    /// When the next turn is due.
    due: u64,
}

impl<E: Engine> Node<E> {
    /// Continues with the cells that the last process kept, once the session has confirmed them. No
    /// cell may be open. Cells in the store that are not kept are deleted.
    ///
    /// # Errors
    /// [`NodeError`] if the store fails.
    pub fn new(
        joined: Joined<E>,
        config: &JobSettings,
        beginning: Beginning,
        (checkpoints, committed): (Keeper, Commits),
        (metrics, cells): (Metrics, &mut Cells),
    ) -> Result<Self, NodeError> {
        let kept = joined.keeping.kept().map(|kept| kept.cells);
        let kept: BTreeSet<CellId> = kept.unwrap_or_default().into_keys().collect();
        let stored = cells.stored()?;
        for cell in stored.difference(&kept) {
            cells.drop_cell(*cell)?;
        }
        if let Some(gone) = kept.difference(&stored).next() {
            // An empty cell in its place would look like one without addresses.
            joined.keeping.forget()?;
            return Err(NodeError::Stopped(format!(
                "the job's folder has no state of {gone} any more, which this machine had; what it \
                 did since its last checkpoint is done again. Run the command again: it begins a \
                 new session"
            )));
        }
        learned::begin(&*joined.engine, &joined.runtime, &joined.store, cells)?;
        let addresses = Addresses::new(
            (Arc::clone(&joined.engine), joined.runtime.clone()),
            joined.handle.standing.clone(),
            AddressSetting {
                machine: joined.secret,
                cells: joined.cells,
                times: Terms::new(config.cluster.term, config.cluster.settle).passes(),
            },
            cells.address_clocks(),
        );
        let links = links::Setting {
            linger: millis(config.cluster.linger),
            process: joined.secret,
            ..links::Setting::usual(joined.sender, joined.cells)
        };
        let (obeyed, reader) = wanted::of(Arc::clone(&joined.engine));
        Ok(Self {
            runtime: joined.runtime,
            handle: joined.handle,
            lessons: Lessons::new(Arc::clone(&joined.engine), cells)?,
            links: Links::new(joined.engine, links, kept, cells)?,
            keeping: joined.keeping,
            checkpoints,
            loading: Loading::new(joined.store),
            _answers: addresses.serve(),
            addresses,
            giving: Giving::default(),
            shares: OwnShare::default(),
            obeyed,
            reader: Some(reader),
            reached: None,
            finishes_images: false,
            beginning,
            metrics,
            committed,
            was_cut: false,
            is_leaving: false,
            is_done: false,
            is_idle: false,
            rested: None,
            end: None,
            has_left: false,
            due: 0,
        })
    }

    /// Makes the last checkpoint, if the session is not over. The node cannot be used afterwards.
    ///
    /// # Errors
    /// [`SaveError`] if the session is over.
    pub fn end(self, cells: &Cells) -> Result<(), SaveError> {
        if self.has_left {
            // The last checkpoint already has everything, and there can be no other.
            return Ok(());
        }
        self.checkpoints.end(cells)
    }

    /// The reader of the wanted state, once. No host is contacted before it runs.
    pub fn wanted_reader(&mut self) -> Option<WantedReader<E>> {
        self.reader.take()
    }

    fn standing(&self) -> Standing {
        self.handle.standing.borrow().clone()
    }

    fn command(&self, command: SessionCommand) {
        // A session that is over ignores commands; its last news are still to be read.
        self.handle.commands.send(command).ok();
    }

    fn step(
        &mut self,
        cells: &mut Cells,
        now: u64,
        outside: &mut dyn Outside<CrawlError>,
    ) -> Result<Course, CrawlError> {
        let standing = self.standing();
        let place = (self.keeping.folder(), &mut *cells);
        let seeds = &mut self.beginning.seeds;
        self.obeyed.turn(place, seeds, standing.resumed, now)?;
        if !self.obeyed.has_begun() && standing.over.is_none() && !self.is_leaving {
            // Cells are opened with the configuration and the takedowns in force.
            return Ok(Course::Rest);
        }
        while let Ok(news) = self.handle.news.try_recv() {
            self.hear(cells, news, now)?;
        }
        if let Some(end) = self.end.take() {
            self.keeping.forget().map_err(NodeError::from)?;
            return Err(end.into());
        }
        self.checkpoints.round(cells);
        let standing = self.standing();
        self.open_loaded(cells, &standing, now, outside)?;
        while let Ok(committed) = self.committed.try_recv() {
            self.links.committed(committed.cells);
            self.lessons.committed(committed.learned);
        }
        let may_ask = self.may_ask(cells, &standing, now)?;
        let asked = |cell: &CellId| standing.cells.get(cell).is_some_and(|from| *from <= now);
        // Before its log was read, promises that its last owner made to hosts may be unknown.
        let is_ready = |cell: &CellId| asked(cell) && self.links.has_caught_up(*cell);
        let is_held = |cell: &CellId| self.is_leaving || self.giving.has(*cell) || !is_ready(cell);
        cells.hold(cells.opened().filter(is_held).collect());
        self.addresses.release(self.is_leaving, self.giving.cells());
        self.links.hurry(!self.giving.is_empty());
        {
            let _entered = self.runtime.enter();
            self.links.turn(cells, now, outside)?;
            for lag in self.links.take_lags() {
                self.metrics.links_are_sent(Duration::from_millis(lag));
            }
            self.lessons.turn(cells, now)?;
        }
        self.give(cells, outside)?;
        if let Some(claim) = self.shares.turn(cells, standing.claims.as_ref(), now) {
            self.command(SessionCommand::Claim(claim));
        }
        self.say_whether_idle(cells, &standing, may_ask);
        Ok(match may_ask {
            _ if self.is_done || self.is_leaving => Course::End,
            true => Course::Crawl,
            false => Course::Rest,
        })
    }

    fn hear(&mut self, cells: &mut Cells, news: News, now: u64) -> Result<(), NodeError> {
        match news {
            News::Taken {
                cell,
                state,
                revision,
            } => {
                self.is_idle = false;
                self.loading.want(cell, state, revision);
            }
            News::Kept(cell) => {
                self.is_idle = false;
                let from = self.standing().cells.get(&cell).copied();
                let asked = Asked::Last(from.unwrap_or(now).max(now));
                cells.open_after(cell, asked, now)?;
                self.begin_cells(cells, &BTreeSet::from([cell]), now)?;
            }
            News::Give(cell) => self.giving.begin(cell),
            News::Given(cell) => {
                self.giving.end(cell);
                // A cell that is named there must be in the store already.
                self.keeping.change(|kept| {
                    kept.cells.remove(&cell);
                })?;
                cells.drop_cell(cell)?;
            }
            News::Lost(cell) => self.lose(NodeError::Lost(cell)),
            News::Over(Over::Left) => {
                self.has_left = true;
                self.keeping.forget()?;
            }
            News::Over(why) => self.lose(NodeError::Over(why)),
            News::Done => self.is_done = true,
        }
        Ok(())
    }

    /// Ends the node. The first reason counts: a session that is over loses all of its cells as
    /// well.
    fn lose(&mut self, why: NodeError) {
        let is_cell = |end: &NodeError| matches!(end, NodeError::Lost(_));
        if self.end.as_ref().is_none_or(is_cell) {
            self.end = Some(why);
        }
    }

    /// Opens the cells whose states were read.
    fn open_loaded(
        &mut self,
        cells: &mut Cells,
        standing: &Standing,
        now: u64,
        outside: &mut dyn Outside<CrawlError>,
    ) -> Result<(), CrawlError> {
        let loaded = self.loading.turn(cells, now)?;
        if loaded.is_empty() {
            return Ok(());
        }
        let mut opened = Vec::new();
        for (cell, state, revision) in loaded {
            let Some(from) = standing.cells.get(&cell) else {
                // It was lost in the meantime; that news is still to come.
                cells.drop_cell(cell).map_err(NodeError::from)?;
                continue;
            };
            let is_new = state.clean && state.bases.is_empty();
            let opening = match state.clean {
                _ if is_new => cells.open_cell(cell, now),
                true => cells.open_after(cell, Asked::Last(*from), now),
                false => cells.open_after(cell, Asked::Later(*from), now),
            };
            opening.map_err(NodeError::from)?;
            opened.push((cell, revision));
        }
        let new = opened.iter().map(|(cell, _)| *cell).collect();
        self.begin_cells(cells, &new, now)?;
        outside.sync()?;
        cells.flush()?;
        let kept = self.keeping.change(|kept| kept.cells.extend(opened));
        Ok(kept.map_err(NodeError::from)?)
    }

    /// Adds the operator's addresses to cells that were just opened. Known addresses are left as
    /// they are.
    fn begin_cells(
        &self,
        cells: &mut Cells,
        new: &BTreeSet<CellId>,
        now: u64,
    ) -> Result<(), NodeError> {
        let opened: BTreeSet<CellId> = cells.opened().collect();
        let Beginning { seeds, watched } = &self.beginning;
        let seeds = seeds.iter().filter(|url| new.contains(&cells.home_of(url)));
        let seeds = Vec::from_iter(seeds.cloned());
        let watched = watched
            .iter()
            .filter(|(url, _)| opened.contains(&cells.home_of(url)));
        let watched = Vec::from_iter(watched.cloned());
        cells.catch_up_takedowns(now)?;
        cells.add_seeds(&seeds, now)?;
        Ok(cells.watch(&watched, now)?)
    }

    /// Whether hosts may be contacted. If requests were cut, all of them have to end first.
    fn may_ask(
        &mut self,
        cells: &mut Cells,
        standing: &Standing,
        now: u64,
    ) -> Result<bool, NodeError> {
        if now >= standing.until {
            self.was_cut |= cells.opened().next().is_some();
            return Ok(false);
        }
        if self.was_cut {
            if cells.leased() > 0 {
                return Ok(false);
            }
            cells.reopen(Asked::Last(standing.resumed.max(now)), now)?;
            self.was_cut = false;
        }
        // Changes that others received while this machine was away must be known first.
        Ok(self.obeyed.may_ask(standing.resumed))
    }

    /// Moves cells that others should own forward: emptied, closed, in a checkpoint.
    fn give(
        &mut self,
        cells: &mut Cells,
        outside: &mut dyn Outside<CrawlError>,
    ) -> Result<(), CrawlError> {
        if self.is_done && !self.is_leaving {
            // The crawl is about to end. What it has done must be counted before its cells go.
            return Ok(());
        }
        let last = self.checkpoints.last();
        let is_loading = |cell| self.loading.has(cell);
        if self.giving.close(cells, self.is_leaving, is_loading)? {
            outside.sync()?;
            cells.flush()?;
        }
        let given = self.giving.turn(last);
        for (cell, checkpoint) in given {
            self.command(SessionCommand::Give(cell, checkpoint));
        }
        if self.giving.waits_for_checkpoint() {
            self.checkpoints.hurry();
        }
        Ok(())
    }

    /// Whether nothing is left to do in the cells, or nothing that is allowed.
    fn has_nothing(&self, cells: &Cells) -> bool {
        match self.reached {
            // While pages are closed, it is unknown whether one can be fetched; a higher limit
            // opens them.
            None => cells.are_empty() && !(cells.pages_are_closed() && shares::has_any(cells)),
            Some("limits.bytes") => cells.leased() == 0,
            Some(_) if self.finishes_images => cells.pages_are_closed() && cells.are_empty(),
            Some(_) => cells.leased() == 0,
        }
    }

    fn say_whether_idle(&mut self, cells: &Cells, standing: &Standing, may_ask: bool) {
        let opened: BTreeSet<CellId> = cells.opened().collect();
        let rests = may_ask
            && self.giving.is_empty()
            && self.obeyed.is_quiet()
            && self.loading.is_empty()
            && standing.cells.keys().eq(opened.iter())
            && self.has_nothing(cells)
            && self.links.is_quiet(cells);
        // Nothing may be lost if this machine dies while others take the job for done.
        let rested = self.rested.unwrap_or(cells.commits());
        self.rested = rests.then_some(rested);
        let is_saved = |(_, until): (u64, u64)| until >= rested;
        let is_idle = rests && self.checkpoints.last().is_some_and(is_saved);
        if rests && !is_idle {
            self.checkpoints.hurry();
        }
        if is_idle != self.is_idle {
            self.is_idle = is_idle;
            self.command(SessionCommand::Idle(is_idle.then_some(opened)));
        }
    }
}

impl<E: Engine> Companion for Node<E> {
    fn turn(
        &mut self,
        frontier: &mut Cells,
        now: u64,
        outside: &mut dyn Outside<CrawlError>,
    ) -> Result<Course, CrawlError> {
        if now < self.due && !self.was_cut && now < self.handle.standing.borrow().until {
            return Ok(self.course());
        }
        self.due = now.saturating_add(PAUSE);
        self.step(frontier, now, outside)
    }

    fn gate(&self) -> Option<Arc<dyn PassGate>> {
        Some(Arc::new(self.addresses.clone()))
    }

    fn allowance(&mut self, frontier: &Cells, limits: &Limits) -> Allowance {
        let (claims, first_begun) = {
            let standing = self.handle.standing.borrow();
            (standing.claims, standing.first_begun)
        };
        let allowance = self.shares.allowance(limits, frontier, claims.as_ref());
        self.reached = allowance.reached;
        self.finishes_images = limits.finish_images;
        Allowance {
            first_begun,
            ..allowance
        }
    }

    fn forbidden(&mut self) {
        self.was_cut = true;
    }

    fn leave(&mut self) {
        self.is_leaving = true;
        self.links.stop_reading();
        self.command(SessionCommand::Leave);
    }

    fn has_left(&self) -> bool {
        self.has_left
    }
}

impl<E: Engine> Node<E> {
    /// The course between two turns, while the term runs and nothing was cut.
    fn course(&self) -> Course {
        if self.is_done || self.is_leaving {
            Course::End
        } else {
            Course::Crawl
        }
    }
}
