//! The state of a running frontier, and the settings that can be changed from outside.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::codec;
use super::contexts;
use super::control_sample::{Curve, Focus};
use super::image_ledger::{ImageLedger, ImagesLeft};
use super::keys::{self, class};
use super::parts::Frontier;
use super::policy::Policy;
use super::record::{Counts, HostRecord, UrlRecord};
use super::schedule::{HostStates, HostTurn, Slot};
use super::seen::Questions;
use super::store::{Readable, StoreError};
use super::traps::{Budget, budgets};
use super::view::View;
use crate::address::{HostKey, PageUrl};
use crate::page::{ImageContext, TaskKind};

impl Frontier {
    /// Replaces pauses and numbers of attempts. The running pauses of hosts do not change. Shared
    /// clocks, and whether pages are visited again, stay as they were at opening.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = Policy {
            address_delay: self.policy.address_delay,
            domain_delay: self.policy.domain_delay,
            ..policy
        };
        // Another strategy may have no control sample.
        self.policy
            .apply_control(&mut self.ledger.meta_mut().sample);
    }

    /// Sets the greatest number of open requests. Once any host has returned something,
    /// at most three quarters of them are for hosts that have returned nothing yet or
    /// failed last, and a quarter while such hosts stay silent.
    pub fn set_most_open(&mut self, most: usize) {
        self.leases.newcomers.set_most(most);
    }

    /// Adds to the time spent crawling; written with the next commit.
    pub fn add_active(&mut self, millis: u64) {
        let active = &mut self.ledger.meta_mut().active;
        *active = active.saturating_add(millis);
    }

    /// Time spent crawling over all runs, as of the last commit, in milliseconds.
    pub fn active(&self) -> u64 {
        self.ledger.meta().active
    }

    /// The counters.
    pub fn counts(&self) -> &Counts {
        &self.ledger.meta().counts
    }

    /// The number of hosts in memory, by the event that they wait for.
    pub fn hosts_by_state(&self) -> HostStates {
        self.schedule.states()
    }

    /// The next hosts to be requested, up to `most` of each state.
    pub fn turns(&self, most: usize) -> Vec<HostTurn> {
        self.schedule.turns(most)
    }

    /// The number of hosts in memory, and of those given up for now.
    pub fn hosts(&self) -> (usize, usize) {
        (self.schedule.active(), self.schedule.parked())
    }

    /// The pause between two requests to an active host, in milliseconds, without
    /// back-offs and `Retry-After`. `None` if none of its tasks is queued or leased.
    pub fn delay(&self, host: &HostKey) -> Option<u64> {
        let host = self.schedule.host(self.schedule.slot(host)?)?;
        Some(self.policy.delay(&host.record))
    }

    /// Number of open leases.
    pub fn leased(&self) -> usize {
        self.leases.len()
    }

    /// Open leases that are not for images.
    pub fn leased_pages(&self) -> usize {
        self.leases.pages()
    }

    /// Counts of the lookups of known addresses, by the source of the answer.
    pub fn questions(&self) -> &Questions {
        self.ledger.questions()
    }

    /// The counts of pages found by score and by chance, over all runs.
    pub fn focus(&self) -> Focus {
        self.focus_curve().total()
    }

    /// The same over the course of the crawl.
    pub fn focus_curve(&self) -> &Curve {
        &self.ledger.meta().sample.curve
    }

    /// Links of the control sample that wait for their hosts.
    pub fn control_pending(&self) -> usize {
        self.ledger.meta().sample.pending.len()
    }

    /// The image ledger.
    pub fn images(&self) -> &ImageLedger {
        &self.ledger.meta().images
    }

    /// The images still to fetch and the estimated time. Reads every queued image.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn images_left(&self) -> Result<ImagesLeft, StoreError> {
        let mut left = ImagesLeft::default();
        let mut shared: HashMap<String, u64> = HashMap::new();
        for slot in self.schedule.slots() {
            let images = self.queued_images(slot)?;
            let Some(host) = self.schedule.host(slot).filter(|_| images > 0) else {
                continue;
            };
            left.images += images;
            left.hosts += 1;
            let until = host.record.parked_until;
            if until.is_some_and(|until| until > self.process.latest) {
                left.parked += images;
                continue;
            }
            let pause = self.policy.delay(&host.record);
            left.millis = left.millis.max(images.saturating_mul(pause));
            for (group, record) in self.schedule.groups_of(slot) {
                let together = shared.entry(group.to_string()).or_default();
                *together += images;
                left.millis = left.millis.max(together.saturating_mul(record.delay));
            }
        }
        Ok(left)
    }

    fn queued_images(&self, slot: Slot) -> Result<u64, StoreError> {
        let mut images = 0;
        if let Some(host) = self.schedule.host(slot) {
            let queue = keys::queue_class(&host.key, class::IMAGE);
            self.ledger.store().scan(&queue, &[], &mut |_, _| {
                images += 1;
                ControlFlow::Continue(())
            })?;
        }
        Ok(images)
    }

    /// A view of this frontier at this moment.
    pub fn view(&self) -> View<'_> {
        View::live(self.ledger.store(), &self.schedule, self.ledger.home())
    }

    /// The record of an address, if it is known.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn look_up(&self, url: &PageUrl, kind: TaskKind) -> Result<Option<UrlRecord>, StoreError> {
        self.view().url(url, kind)
    }

    /// The record of a host, if it is known.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn look_up_host(&self, host: &HostKey) -> Result<Option<HostRecord>, StoreError> {
        self.view().host(host)
    }

    /// The spent and the remaining budget of the prefixes of an address.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn budget(&self, url: &PageUrl) -> Result<Budget, StoreError> {
        budgets::budget(self.ledger.store(), url)
    }

    /// The known contexts of an image that are not in a sidecar yet.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn contexts(&self, image: &PageUrl) -> Result<Vec<ImageContext>, StoreError> {
        contexts::of(self.ledger.store(), &keys::url(image, TaskKind::Image))
    }

    /// The last address of an image's redirect chain, if there is one.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn image_target(&self, url: &PageUrl) -> Result<Option<PageUrl>, StoreError> {
        self.view().target(url, TaskKind::Image)
    }

    /// The last address of a page's redirect chain, or its canonical address.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn page_target(&self, url: &PageUrl) -> Result<Option<PageUrl>, StoreError> {
        let url = self.scope.canonical(url);
        self.view().target(&url, TaskKind::Page)
    }

    /// The first kept file with these bytes, as the outputs named it; `sha256` is in lower-case
    /// hexadecimal. An entry is committed with its image, so it never names a file that was removed
    /// after a crash. The outputs must check whether the file still exists.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn kept_file(&self, sha256: &str) -> Result<Option<String>, StoreError> {
        let key = keys::kept(sha256);
        let store = self.ledger.store();
        let name = store.get(&key)?.map(String::from_utf8).transpose();
        name.map_err(|why| codec::corrupt(store, &key, why.to_string()))
    }

    /// Where a body with this SHA-1 was archived first, as the outputs said.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn stored_body(&self, sha1: &[u8; 20]) -> Result<Option<String>, StoreError> {
        let key = keys::stored_body(sha1);
        let store = self.ledger.store();
        let place = store.get(&key)?.map(String::from_utf8).transpose();
        place.map_err(|why| codec::corrupt(store, &key, why.to_string()))
    }

    /// The state of the last commit, readable on any thread while the crawl continues. Drop
    /// it before the store is opened again.
    pub fn snapshot(&self) -> Box<dyn Readable> {
        self.ledger.store().snapshot()
    }

    /// The number of commits, over all runs.
    pub fn commits(&self) -> u64 {
        self.ledger.meta().commits
    }

    /// Size of the store on disk, in bytes.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn size(&self) -> Result<u64, StoreError> {
        self.ledger.store().size()
    }
}
