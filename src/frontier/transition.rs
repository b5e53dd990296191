//! One task's transition from leased to its next state, with all of its effects.

use super::added::{NewTask, Origin};
use super::contexts;
use super::host_files::{TermsFiles, on_way};
use super::images::{self, alts};
use super::intake::Intake;
use super::outcome::{Effects, Finished, Settled};
use super::policy::Policy;
use super::ratings::learning::take_clues;
use super::record::{HostRecord, State, UrlRecord};
use super::recrawl::{self, Ended, Visits};
use super::store::StoreError;
use super::transaction::Transaction;
use super::traps::budgets::{self, Yield};
use super::traps::copies::{self, Claim};
use super::traps::listing;
use crate::address::PageUrl;
use crate::page::{Bucket, Judged, Outcome, Reason, Task, TaskKind, Terms, Validators};

/// A leased task that is finished.
pub(super) struct Transition<'a> {
    pub task: &'a Task,
    pub key: &'a [u8],
    pub record: UrlRecord,
    /// The judgement of its page; `None` if no page came.
    pub judged: Option<Judged>,
    /// The number of a sitemap that was partly added before.
    pub number: Option<u64>,
    /// The addresses of a sitemap that were skipped before.
    pub beyond: u64,
    pub policy: &'a Policy,
    pub visits: &'a Visits,
    /// The shortest pause before the next visit, in milliseconds.
    pub rest: u64,
    pub intake: Intake<'a>,
    pub now: u64,
}

impl Transition<'_> {
    /// Makes the transition, and returns the result of the task.
    pub fn make(
        self,
        tx: &mut Transaction<'_>,
        outcome: Outcome,
        effects: Effects,
        host: &mut HostRecord,
    ) -> Result<Finished, StoreError> {
        let judged = self.judged;
        let finished = match outcome {
            Outcome::Done => self.done(tx, effects, host),
            Outcome::Unchanged => self.unchanged(tx, &effects),
            Outcome::Redirect { to } => self.redirect(tx, to, &effects.on_way, host),
            Outcome::Drop { reason } => self.fail(tx, reason, false),
            Outcome::Retry {
                reason: Reason::RslUnknown,
                ..
            } => self.await_rsl(tx, &effects.unknown_rsl, host),
            Outcome::Retry {
                reason,
                host_backs_off,
                ..
            } => self.retry(tx, reason, host_backs_off.then_some(host.due)),
        }?;
        Ok(Finished { judged, ..finished })
    }

    fn done(
        mut self,
        tx: &mut Transaction<'_>,
        effects: Effects,
        host: &mut HostRecord,
    ) -> Result<Finished, StoreError> {
        self.leave_queue(tx);
        let id = self.number(tx);
        match self.task.kind {
            TaskKind::Page | TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl => {
                return self.page(tx, effects, host, id);
            }
            TaskKind::Image => self.image(tx)?,
            TaskKind::Sitemap => {
                let host = &self.task.host;
                let hops = self.record.hops;
                let now = listing::add(tx, &self.intake, host, effects, id, hops)?;
                let beyond = self.beyond.saturating_add(now);
                if beyond > 0 {
                    let reason = Reason::ListBudget;
                    let listing = listing::of(tx.store(), host)?;
                    let said = Some(listing::message(&listing, beyond));
                    tx.drop_record(self.key, self.record, reason)?;
                    let finished = Finished::of(Settled::Dropped { reason }, Some(id));
                    return Ok(Finished { said, ..finished });
                }
                tx.meta.counts.sitemaps += 1;
            }
        }
        self.record.state = State::Done { id };
        tx.rest(self.key, &self.record)?;
        Ok(Finished::of(Settled::Done, Some(id)))
    }

    fn image(&self, tx: &mut Transaction<'_>) -> Result<(), StoreError> {
        tx.meta.counts.images += 1;
        contexts::forget(tx, self.key)?;
        Ok(())
    }

    fn page(
        mut self,
        tx: &mut Transaction<'_>,
        effects: Effects,
        host: &mut HostRecord,
        id: u64,
    ) -> Result<Finished, StoreError> {
        let url = &self.task.url;
        // A page that was fetched before was counted and judged then.
        let again = self.record.was_fetched();
        // A copy was counted as well; it is fetched again only if it has a schedule.
        let numbered = self.record.visit.as_ref().is_some_and(|v| v.id.is_some());
        let counted = again || numbered;
        if !counted {
            self.count_page(tx, host)?;
        }
        let simhash = effects.prints.as_ref().and_then(|prints| prints.simhash);
        self.record.simhash = simhash;
        self.record.judged = self.judged;
        // The words of the anchor are no longer needed.
        let earlier = self.record.text.take().filter(|_| again);
        self.record.state = State::Done { id };
        if let Some(named) = effects.canonical.as_ref().filter(|_| !again) {
            let hops = self.record.hops;
            match copies::claim(tx, &self.intake, url, named, hops, simhash)? {
                Claim::None => {}
                Claim::StandsFor(key, known) => {
                    copies::stand_for(tx, &key, known, url, &self.record, id)?;
                }
                Claim::CopyOf(original) => return self.copy_of(tx, original, host, id, counted),
            }
        }
        let changed = self.book_visit(
            Some(id),
            Ended::Page {
                digest: effects.digest,
                validators: &effects.validators,
            },
        );
        tx.rest(self.key, &self.record)?;
        tx.meta.counts.documents += u64::from(!again);
        let copied = match simhash {
            Some(simhash) => copies::near_copy(tx, url, simhash, id)?,
            None => None,
        };
        let comes_again = self.record.visit.is_some();
        let visit = (again, changed);
        self.add_found(tx, effects, host, id, visit, copied.as_ref())?;
        let near_copy_of = copied.map(|(earlier, _)| earlier);
        Ok(Finished {
            changed,
            earlier,
            comes_again,
            near_copy_of,
            ..Finished::of(Settled::Done, Some(id))
        })
    }

    /// Counts a page at its host and its domain.
    fn count_page(
        &self,
        tx: &mut Transaction<'_>,
        host: &mut HostRecord,
    ) -> Result<(), StoreError> {
        host.documents += 1;
        budgets::count_domain(tx, &self.task.host)?;
        if self.policy.sitemaps {
            listing::grow(tx, &self.task.host, host.documents)?;
        }
        Ok(())
    }

    /// Ends as the copy of the page that it declares as its canonical address; its
    /// content is discarded.
    fn copy_of(
        mut self,
        tx: &mut Transaction<'_>,
        original: PageUrl,
        host: &mut HostRecord,
        id: u64,
        counted: bool,
    ) -> Result<Finished, StoreError> {
        let to = original.as_str().to_owned();
        self.record.state = State::Redirected { id, to };
        self.book_visit(Some(id), Ended::Moved);
        tx.rest(self.key, &self.record)?;
        if !counted {
            budgets::charge(tx, &self.task.url, Yield::Barren, host)?;
        }
        Ok(Finished {
            duplicate_of: Some(original),
            ..Finished::of(Settled::Redirected, Some(id))
        })
    }

    /// Adds the links and images of a page, and charges its budgets. `copied` is the page that it
    /// nearly copies, and whether their simhashes are equal.
    fn add_found(
        &self,
        tx: &mut Transaction<'_>,
        mut effects: Effects,
        host: &mut HostRecord,
        id: u64,
        (again, changed): (bool, Option<bool>),
        copied: Option<&(PageUrl, bool)>,
    ) -> Result<(), StoreError> {
        let url = &self.task.url;
        let origin = Origin {
            via: Some(id),
            hops: self.record.hops.saturating_add(1),
            redirects: 0,
            changed,
        };
        if copied.is_none() || self.task.bucket == Bucket::Seed {
            for link in &effects.links {
                self.intake.add_page(tx, link, origin)?;
            }
        }
        tx.meta.images.svgs += u64::from(effects.svgs);
        let before = tx.images_found();
        let (found, unknown) = (&mut effects.images, effects.unknown);
        let pages = (host.documents, !again);
        alts::mark(tx, &self.intake, url, found, pages, unknown)?;
        for image in &effects.images {
            let (words, rated) = (image.context.clone(), (image.score, image.bucket));
            images::add(tx, &self.intake, &image.url, words, rated, origin)?;
        }
        // At a first visit there is nothing to withdraw.
        for image in effects.withheld.iter().filter(|_| again) {
            images::withhold(tx, &self.intake, image, url, &effects.terms)?;
        }
        if let Some(prints) = effects.prints.as_ref().filter(|_| !again) {
            let new_images = tx.images_found() > before;
            let same = copied.is_some_and(|(_, same)| *same);
            let worth = budgets::judge(tx, url, &prints.blocks, new_images, same)?;
            budgets::charge(tx, url, worth, host)?;
            let on_topic = effects.on_topic.is_some_and(|chance| chance >= 0.5);
            let via = self.task.via.as_ref();
            if let Some(via) = via.filter(|via| via.host_key() == self.task.host)
                && on_topic
                && worth == Yield::Fruitful
            {
                budgets::credit(tx, via, url)?;
            }
        }
        Ok(())
    }

    /// The server says that the page has not changed: only the next visit is booked.
    fn unchanged(
        mut self,
        tx: &mut Transaction<'_>,
        effects: &Effects,
    ) -> Result<Finished, StoreError> {
        let known = self.record.visit.as_ref();
        let Some(id) = known.filter(|v| v.visits > 0).and_then(|v| v.id) else {
            // The request had no condition, so 304 is not a valid answer.
            return self.retry(tx, Reason::Protocol, None);
        };
        if effects.reread {
            return self.read_again(tx);
        }
        self.leave_queue(tx);
        self.record.state = State::Done { id };
        let validators = &effects.validators;
        let changed = self.book_visit(Some(id), Ended::Unchanged { validators });
        tx.rest(self.key, &self.record)?;
        Ok(Finished {
            changed,
            ..Finished::of(Settled::Unchanged, Some(id))
        })
    }

    /// Requests the page at once without a condition. What is kept of it no longer counts, so a text
    /// that it still permits is kept anew.
    fn read_again(mut self, tx: &mut Transaction<'_>) -> Result<Finished, StoreError> {
        self.record.text = None;
        let validators = self
            .record
            .visit
            .as_mut()
            .map(|visit| &mut visit.validators);
        match validators {
            Some(validators) if !validators.is_empty() => *validators = Validators::default(),
            _ => return self.retry(tx, Reason::Protocol, None),
        }
        self.keep_place(tx, Reason::Forbidden)
    }

    /// Requests the page or image again after the RSL files that it names.
    fn await_rsl(
        self,
        tx: &mut Transaction<'_>,
        files: &[String],
        record: &HostRecord,
    ) -> Result<Finished, StoreError> {
        let (host, scheme) = (&self.task.host, self.task.url.scheme());
        let mut known = TermsFiles::of(tx.store(), (false, true), host, scheme)?;
        if !self.policy.rsl {
            // They are never read, and an unread one forbids every use.
            return self.fail(tx, Reason::Forbidden, false);
        }
        let max_age = self.policy.terms_hold(record, known.rsl_len());
        known.want(files, max_age, self.now);
        known.write_rsl(tx, host, scheme)?;
        self.keep_place(tx, Reason::RslUnknown)
    }

    fn keep_place(self, tx: &mut Transaction<'_>, reason: Reason) -> Result<Finished, StoreError> {
        tx.put_record(self.key, &self.record)?;
        let due = self.now;
        Ok(Finished::of(Settled::Retrying { reason, due }, None))
    }

    fn redirect(
        mut self,
        tx: &mut Transaction<'_>,
        to: PageUrl,
        on_way: &Terms,
        host: &mut HostRecord,
    ) -> Result<Finished, StoreError> {
        let url = &self.task.url;
        // A site that gives every visitor a session redirects to the same page with a session
        // number; without the number the redirect would lead back to this page.
        let canonical = self.intake.canonical(&to).into_owned();
        let to = if self.task.kind == TaskKind::Page && canonical != *url {
            canonical
        } else {
            to
        };
        if self.record.redirects >= self.policy.max_redirects {
            return self.fail(tx, Reason::RedirectLimit, false);
        }
        on_way::state(tx, &self.intake, &to, self.task.kind, on_way)?;
        if to == *url {
            // It has set a cookie, and keeps its place in the queue.
            self.record.redirects += 1;
            tx.put_record(self.key, &self.record)?;
            return Ok(Finished::of(Settled::Redirected, None));
        }
        self.leave_queue(tx);
        let id = self.number(tx);
        let origin = Origin {
            via: Some(id),
            hops: self.record.hops,
            redirects: self.record.redirects + 1,
            changed: None,
        };
        let rated = (self.record.score, Some(self.record.bucket));
        let anchor = self.record.anchor().map(str::to_owned);
        // The note of a page stays, because the page may come back.
        self.record.text = self.record.note().map(str::to_owned);
        self.record.state = State::Redirected {
            id,
            to: to.as_str().to_owned(),
        };
        let again = self.visits.follows(self.key, self.record.visit.as_ref());
        self.book_visit(Some(id), Ended::Moved);
        tx.rest(self.key, &self.record)?;
        match self.task.kind {
            TaskKind::Image => {
                for words in contexts::of(tx.store(), self.key)? {
                    images::add(tx, &self.intake, &to, words, rated, origin)?;
                }
                contexts::forget(tx, self.key)?;
            }
            TaskKind::Sitemap => self.intake.add_sitemap(tx, to, origin)?,
            TaskKind::Page | TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl => {
                let page = NewTask {
                    parts: self.record.parts,
                    anchor,
                    clues: take_clues(tx, self.key)?,
                    ..NewTask::rated(to, rated)
                };
                self.add_target(tx, &page, origin, again, host)?;
            }
        }
        Ok(Finished::of(Settled::Redirected, Some(id)))
    }

    /// Adds the target of a redirect. `again` is whether the redirecting address is
    /// visited again.
    fn add_target(
        &self,
        tx: &mut Transaction<'_>,
        page: &NewTask,
        origin: Origin,
        again: bool,
        host: &mut HostRecord,
    ) -> Result<(), StoreError> {
        let url = &self.task.url;
        let before = tx.added();
        self.intake.add_page_as_it_is(tx, page, origin)?;
        if again {
            recrawl::visit_target(tx, &page.url, origin.redirects)
        } else if tx.added() == before && url.query().is_some() {
            // For example login pages with a return address, one for every page. Without a query
            // the address is another name of the target, and those are few.
            budgets::charge(tx, url, Yield::Barren, host)
        } else {
            Ok(())
        }
    }

    /// Ends without the page. `passing` if only this visit has failed.
    fn fail(
        self,
        tx: &mut Transaction<'_>,
        reason: Reason,
        passing: bool,
    ) -> Result<Finished, StoreError> {
        self.leave_queue(tx);
        let settled = self
            .visits
            .fail(tx, self.key, self.record, reason, passing, self.now)?;
        if self.task.kind == TaskKind::Image {
            contexts::forget(tx, self.key)?;
        }
        Ok(Finished::of(settled, None))
    }

    /// `host_due` is set if the whole host pauses: the address then keeps its place in the queue.
    /// Otherwise only the address waits.
    fn retry(
        mut self,
        tx: &mut Transaction<'_>,
        reason: Reason,
        host_due: Option<u64>,
    ) -> Result<Finished, StoreError> {
        self.record.attempts = self.record.attempts.saturating_add(1);
        let attempts = u32::from(self.record.attempts);
        if attempts > self.policy.retries {
            return self.fail(tx, reason, true);
        }
        let due = match host_due {
            Some(due) => {
                tx.put_record(self.key, &self.record)?;
                due
            }
            None => {
                let due = self.now.saturating_add(self.policy.pause(attempts));
                self.leave_queue(tx);
                tx.wait(self.key, self.record, due)?;
                due
            }
        };
        Ok(Finished::of(Settled::Retrying { reason, due }, None))
    }

    fn leave_queue(&self, tx: &mut Transaction<'_>) {
        tx.dequeue(self.task.kind, &self.task.host, &self.record);
    }

    /// Its number among the finished pages: from an earlier visit or its first part, or a new one.
    fn number(&self, tx: &mut Transaction<'_>) -> u64 {
        let known = self.record.visit.as_ref().and_then(|v| v.id);
        let taken = self.number.or(known);
        taken.unwrap_or_else(|| tx.number(&self.task.url))
    }

    /// Books the next visit in the record. Returns whether the text has changed.
    fn book_visit(&mut self, id: Option<u64>, ended: Ended<'_>) -> Option<bool> {
        let known = self.record.visit.take();
        let (mut visit, changed) = self.visits.after(self.key, known, id, ended, self.now);
        if let Some(due) = visit.as_mut().and_then(|visit| visit.due.as_mut()) {
            *due = (*due).max(self.now.saturating_add(self.rest));
        }
        self.record.visit = visit;
        changed
    }
}
