//! One task's step from leased to its next state, gathered in a change.

use super::change::{Change, Origin};
use super::finish::{Effects, Settled};
use super::record::{HostRecord, State, UrlRecord};
use super::store::StoreError;
use super::traps::{Claim, Worth};
use super::visits::{Ended, Visits};
use super::{NewTask, contexts, listing};
use crate::address::PageUrl;
use crate::page::{Bucket, Outcome, Reason, Task, TaskKind};

/// One task's step from leased to its next state.
pub(super) struct Step<'a> {
    pub task: &'a Task,
    pub key: &'a [u8],
    pub record: UrlRecord,
    pub number: Option<u64>,
    /// What of a sitemap was passed over before.
    pub beyond: u64,
    pub policy: &'a super::Policy,
    pub visits: &'a Visits,
    pub now: u64,
}

impl Step<'_> {
    /// Takes it, and returns what became of the task and its number among the
    /// finished.
    pub fn take(
        self,
        change: &mut Change<'_>,
        outcome: Outcome,
        effects: Effects,
        host: &mut HostRecord,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        match outcome {
            Outcome::Done => self.done(change, effects, host),
            Outcome::Unchanged => self.unchanged(change, &effects),
            Outcome::Redirect { to } => self.redirect(change, to, host),
            Outcome::Drop { reason } => self.fail(change, reason, false),
            Outcome::Retry {
                reason,
                host_backs_off,
                ..
            } => self.retry(change, reason, host_backs_off.then_some(host.due)),
        }
    }

    fn leave_queue(&self, change: &mut Change<'_>) {
        change.dequeue(self.task.kind, &self.task.host, &self.record);
    }

    fn done(
        mut self,
        change: &mut Change<'_>,
        effects: Effects,
        host: &mut HostRecord,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        self.leave_queue(change);
        let id = self.number(change);
        match self.task.kind {
            TaskKind::Page | TaskKind::Robots | TaskKind::Tdmrep => {
                return self.page(change, effects, host, id);
            }
            TaskKind::Image => {
                change.meta.counts.images += 1;
                change.forget_contexts(self.key)?;
                if change.instead(&self.task.url)?.of.is_some() {
                    change.meta.images.stood_in += 1;
                }
            }
            TaskKind::Sitemap => {
                let host = &self.task.host;
                let now = change.add_listing(host, effects, id, self.record.hops)?;
                let beyond = self.beyond.saturating_add(now);
                if beyond > 0 {
                    let reason = Reason::ListBudget;
                    let listing = listing::of(change.store(), host)?;
                    change.said = Some(listing::told(&listing, beyond));
                    change.drop_record(self.key, self.record, reason)?;
                    return Ok((Settled::Dropped { reason }, Some(id)));
                }
                change.meta.counts.sitemaps += 1;
            }
        }
        self.record.state = State::Done { id };
        change.rest(self.key, &self.record)?;
        Ok((Settled::Done, Some(id)))
    }

    fn page(
        mut self,
        change: &mut Change<'_>,
        mut effects: Effects,
        host: &mut HostRecord,
        id: u64,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        let url = &self.task.url;
        // What was had before was counted and judged then.
        let again = self.record.was_fetched();
        // So was a copy, which comes again only where it has a schedule.
        let numbered = self.record.visit.as_ref().is_some_and(|v| v.id.is_some());
        let counted = again || numbered;
        if !counted {
            host.documents += 1;
            change.count_domain(&self.task.host)?;
            if self.policy.sitemaps {
                change.grow_listing(&self.task.host, host.documents)?;
            }
        }
        let simhash = effects.prints.as_ref().and_then(|prints| prints.simhash);
        self.record.simhash = simhash;
        self.record.judged = change.judged;
        // The words of the anchor have served.
        change.earlier = self.record.note.take().filter(|_| again);
        self.record.state = State::Done { id };
        let claim = match effects.canonical.as_ref().filter(|_| !again) {
            Some(named) => change.claim(url, named, self.record.hops, simhash)?,
            None => Claim::None,
        };
        match claim {
            Claim::None => {}
            Claim::StandsFor(key, known) => {
                change.stand_for(&key, known, url, &self.record, id)?;
            }
            Claim::CopyOf(original) => {
                let to = original.as_str().to_owned();
                self.record.state = State::Redirected { id, to };
                self.visited(Some(id), Ended::Moved);
                change.rest(self.key, &self.record)?;
                if !counted {
                    book(change, url, Worth::Barren, host)?;
                }
                change.duplicate_of = Some(original);
                return Ok((Settled::Redirected, Some(id)));
            }
        }
        let ended = Ended::Page {
            digest: effects.digest,
            validators: &effects.validators,
        };
        change.changed = self.visited(Some(id), ended);
        change.comes_again = self.record.visit.is_some();
        change.rest(self.key, &self.record)?;
        if !again {
            change.meta.counts.documents += 1;
        }
        let copied = match simhash {
            Some(simhash) => change.near_copy(url, simhash, id)?,
            None => None,
        };
        let same = copied.as_ref().is_some_and(|(_, same)| *same);
        change.near_copy_of = copied.map(|(earlier, _)| earlier);
        let origin = Origin {
            via: Some(id),
            hops: self.record.hops.saturating_add(1),
            redirects: 0,
        };
        if change.near_copy_of.is_none() || self.task.bucket == Bucket::Seed {
            for link in &effects.links {
                change.add_page(link, origin)?;
            }
        }
        change.meta.images.svgs += u64::from(effects.svgs);
        // Whatever is inserted takes a number.
        let before = change.meta.next_seq;
        let (images, unknown) = (&mut effects.images, effects.unknown);
        change.mark_alts(url, images, host.documents, !again, unknown)?;
        for image in &effects.images {
            change.add_image(image, origin)?;
        }
        // At a first visit there is nothing to take back.
        for image in effects.withheld.iter().filter(|_| again) {
            change.withhold(image, url)?;
        }
        if let Some(prints) = effects.prints.as_ref().filter(|_| !again) {
            let new_images = change.meta.next_seq > before;
            let worth = change.judge(url, &prints.blocks, new_images, same)?;
            book(change, url, worth, host)?;
        }
        Ok((Settled::Done, Some(id)))
    }

    /// The server says that nothing has changed: only the next visit is booked.
    fn unchanged(
        mut self,
        change: &mut Change<'_>,
        effects: &Effects,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        let known = self.record.visit.as_ref();
        let Some(id) = known.filter(|v| v.visits > 0).and_then(|v| v.id) else {
            // It was not asked whether anything had.
            return self.retry(change, Reason::Protocol, None);
        };
        self.leave_queue(change);
        self.record.state = State::Done { id };
        let validators = &effects.validators;
        change.changed = self.visited(Some(id), Ended::Unchanged { validators });
        change.rest(self.key, &self.record)?;
        Ok((Settled::Unchanged, Some(id)))
    }

    /// Books the next visit in the record; whether the text has changed.
    fn visited(&mut self, id: Option<u64>, ended: Ended<'_>) -> Option<bool> {
        let known = self.record.visit.take();
        let (visit, changed) = self.visits.after(self.key, known, id, ended, self.now);
        self.record.visit = visit;
        changed
    }

    /// Its number among the finished: that of an earlier visit or of its first
    /// part, or a new one.
    fn number(&self, change: &mut Change<'_>) -> u64 {
        let known = self.record.visit.as_ref().and_then(|v| v.id);
        let taken = self.number.or(known);
        taken.unwrap_or_else(|| change.number(&self.task.url))
    }

    fn redirect(
        mut self,
        change: &mut Change<'_>,
        to: PageUrl,
        host: &mut HostRecord,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        let url = &self.task.url;
        let is_page = self.task.kind == TaskKind::Page;
        // A site that gives every visitor a session redirects to the same page with
        // a number; without the number it would lead back here.
        let canonical = change.canonical(&to);
        let to = if is_page && canonical != *url {
            canonical
        } else {
            to
        };
        if self.record.redirects >= self.policy.max_redirects {
            return self.fail(change, Reason::RedirectLimit, false);
        }
        self.leave_queue(change);
        let id = self.number(change);
        let origin = Origin {
            via: Some(id),
            hops: self.record.hops,
            redirects: self.record.redirects + 1,
        };
        let bucket = Some(self.record.bucket);
        let (score, parts) = (self.record.score, self.record.parts);
        let anchor = self.record.anchor().map(str::to_owned);
        let clues = if is_page {
            change.take_clues(self.key)?
        } else {
            None
        };
        self.record.note = None;
        self.record.state = State::Redirected {
            id,
            to: to.as_str().to_owned(),
        };
        let again = self.visits.follows(self.key, self.record.visit.as_ref());
        self.visited(Some(id), Ended::Moved);
        change.rest(self.key, &self.record)?;
        if self.task.kind == TaskKind::Image {
            for words in contexts::words_of(change.store(), self.key)? {
                change.add_words(&to, words, (score, bucket), origin)?;
            }
            change.forget_contexts(self.key)?;
        } else if self.task.kind == TaskKind::Sitemap {
            change.add_sitemap(to, origin)?;
        } else {
            let page = NewTask {
                url: to,
                bucket,
                score,
                parts,
                anchor,
                clues,
            };
            let before = change.meta.next_seq;
            change.add_page_as_it_is(&page, origin)?;
            if again {
                change.visit_target(&page.url, origin.redirects)?;
            } else if change.meta.next_seq == before && url.query().is_some() {
                // As a login that knows the way back, one for every page. Without a
                // query it is another name of the target, and those are few.
                book(change, url, Worth::Barren, host)?;
            }
        }
        Ok((Settled::Redirected, Some(id)))
    }

    /// Ends without the page. `passing` where only this visit has failed.
    fn fail(
        self,
        change: &mut Change<'_>,
        reason: Reason,
        passing: bool,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        self.leave_queue(change);
        let record = self.record.clone();
        let settled = self
            .visits
            .fail(change, self.key, self.record, reason, passing, self.now)?;
        if self.task.kind == TaskKind::Image {
            change.pass_on(self.key, &self.task.url, &record, reason)?;
        }
        Ok((settled, None))
    }

    /// `host_due` is set where the whole host pauses: then the address keeps its
    /// place in the queue. Otherwise it waits alone.
    fn retry(
        mut self,
        change: &mut Change<'_>,
        reason: Reason,
        host_due: Option<u64>,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        self.record.attempts = self.record.attempts.saturating_add(1);
        let attempts = u32::from(self.record.attempts);
        if attempts > self.policy.retries {
            return self.fail(change, reason, true);
        }
        let due = match host_due {
            Some(due) => {
                change.put_record(self.key, &self.record)?;
                due
            }
            None => {
                let due = self.now.saturating_add(self.policy.pause(attempts));
                self.leave_queue(change);
                change.wait(self.key, self.record, due)?;
                due
            }
        };
        Ok((Settled::Retrying { reason, due }, None))
    }
}

/// Charges the budgets of a page's prefixes. What nobody is short of is not looked
/// up, so a host knows how many pages have cost something.
fn book(
    change: &mut Change<'_>,
    url: &PageUrl,
    worth: Worth,
    host: &mut HostRecord,
) -> Result<(), StoreError> {
    host.barren += u64::from(worth == Worth::Barren);
    change.book(url, worth)
}
