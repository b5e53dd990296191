//! Links that are rated by a learned rating.

use std::sync::Arc;

use super::*;
use crate::page::{Clues, Nearness};
use crate::ratings::learning;
use crate::testing::{POOR, Taught};

over_all! {
    what_was_learned_is_there_after_a_restart
}

pub(super) fn link(address: &str, kind: u32) -> NewTask {
    NewTask {
        clues: Some(Clues {
            traits: vec![kind],
            ..Clues::default()
        }),
        ..page(address, 600.0)
    }
}

/// Finishes the next page, which must be this one, with this share on topic.
fn fetch(f: &mut Frontier, address: &str, reward: f64, links: Vec<NewTask>, now: &mut u64) {
    let task = lease(f, now).unwrap();
    assert_eq!(task.url.as_str(), address);
    let effects = Effects {
        links,
        on_topic: Some(reward),
        nearness: Some(Nearness::Likely(reward)),
        ..Effects::default()
    };
    finish(f, &task, Outcome::Done, effects, *now);
    check(f);
}

/// The next fetch returns no page.
fn lose(f: &mut Frontier, outcome: Outcome, now: &mut u64) {
    let task = lease(f, now).unwrap();
    finish(f, &task, outcome, Effects::default(), *now);
}

fn seeded(path: &Path) -> (Frontier, Arc<Taught>) {
    let (mut f, taught) = taught_at(path, 0);
    let seeds = [url("http://s.org/"), url("http://t.org/")];
    f.add_seeds(&seeds, 0).unwrap();
    (f, taught)
}

fn score(f: &Frontier, address: &str) -> f64 {
    let record = f.look_up(&url(address), TaskKind::Page).unwrap();
    record.unwrap().score
}

#[test]
fn a_link_gains_by_every_page_of_the_topic_that_leads_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (mut f, _) = seeded(path);
    let mut now = 0;
    let links = vec![link("http://a.org/", 1), link("http://b.org/", 2)];
    fetch(&mut f, "http://s.org/", 0.9, links, &mut now);
    assert!((score(&f, "http://a.org/") - 410.0).abs() < 1e-3);
    fetch(
        &mut f,
        "http://t.org/",
        0.8,
        vec![link("http://b.org/", 2)],
        &mut now,
    );
    assert!((score(&f, "http://b.org/") - 330.0).abs() < 1e-3);
    fetch(&mut f, "http://b.org/", 0.5, vec![], &mut now);
}

#[test]
fn of_two_links_the_better_one_stays_by_its_features_and_its_own_score() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, taught) = seeded(folder.path());
    let of_keyword = |keyword| NewTask {
        parts: Some(LinkParts {
            document: 600.0,
            anchor: 600.0,
            keyword,
        }),
        ..link("http://a.org/", 1)
    };
    fetch(&mut f, "http://s.org/", 0.6, vec![of_keyword(0.3)], &mut 0);
    let key = keys::url(&url("http://a.org/"), TaskKind::Page);
    for (keyword, parent, stays) in [(0.0, 0.8, 0.3), (0.2, 0.8, 0.2), (0.4, 0.4, 0.3)] {
        let mut new = of_keyword(keyword);
        new.clues.iter_mut().for_each(|c| c.parent = parent);
        let mut tx = f.ledger.begin();
        let known = tx.record(&key).unwrap();
        let met = learning::meet(&*taught, &mut tx, &key, known.as_ref(), &new);
        let parts = met.unwrap().unwrap().parts.unwrap();
        assert_eq!(parts.keyword, stays, "{keyword} {parent}");
    }
}

#[test]
fn only_new_information_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, taught) = seeded(folder.path());
    let mut now = 0;
    let links = vec![link("http://a.org/", 1)];
    fetch(&mut f, "http://s.org/", 0.9, links, &mut now);
    let key = keys::url(&url("http://a.org/"), TaskKind::Page);
    let written = |cited: Option<f64>| {
        let mut new = link("http://a.org/", 1);
        for clues in new.clues.iter_mut() {
            cited.into_iter().for_each(|reward| clues.cite(reward));
        }
        let mut tx = f.ledger.begin();
        let known = tx.record(&key).unwrap();
        let met = learning::meet(&*taught, &mut tx, &key, known.as_ref(), &new);
        let good = met.unwrap().unwrap().clues.unwrap().good;
        let batch = tx.prepare().batch;
        (good, batch.peek(&keys::clues(&key)).is_some())
    };
    // A redirect, or a page that was not judged.
    assert_eq!(written(None), (0.9, false));
    assert_eq!(written(Some(0.5)), (1.4, true));
}

fn what_was_learned_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mut now = 0;
    let before = {
        let (mut f, taught) = seeded(path);
        let links = (0..6).map(|n| link(&format!("http://{n}.org/"), n));
        fetch(&mut f, "http://s.org/", 0.9, links.collect(), &mut now);
        fetch(&mut f, "http://t.org/", 0.9, vec![], &mut now);
        // The last snapshot, and the examples after it.
        for n in 0..6 {
            fetch(&mut f, &format!("http://{n}.org/"), 0.25, vec![], &mut now);
        }
        assert_eq!(taught.rewards(), [0.25; 6]);
        (taught.examples_so_far(), taught.heard_so_far())
    };
    let (f, after) = taught_at(path, now);
    assert_eq!(after.examples_so_far(), before.0);
    // Only seeds with their own text are used.
    assert_eq!(
        (after.heard_so_far().len(), after.heard_so_far()),
        (6, before.1)
    );
    // And after an export.
    let (lines, found) = exported(f.ledger.store());
    assert!(found.damaged.is_empty(), "{found:?}");
    let other = tempfile::tempdir().unwrap();
    let store = imported(&lines, other.path());
    assert_eq!(exported(&*store).0[1..], lines[1..]);
}

fn taught_at(path: &Path, now: u64) -> (Frontier, Arc<Taught>) {
    taught_to_wait(path, now, 0.0)
}

fn taught_to_wait(path: &Path, now: u64, patience: f64) -> (Frontier, Arc<Taught>) {
    let mut f = open(path, now);
    let taught = Arc::new(Taught::patient(patience));
    f.set_rating(Arc::clone(&taught) as Arc<dyn Rating>)
        .unwrap();
    (f, taught)
}

#[test]
fn a_fetch_that_brings_no_page_teaches_that_it_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (mut f, taught) = seeded(path);
    let mut now = 0;
    let links = ["gone", "down", "more"].map(|name| link(&format!("http://{name}.org/"), 1));
    fetch(&mut f, "http://s.org/", 0.9, links.into(), &mut now);
    fetch(&mut f, "http://t.org/", 0.9, vec![], &mut now);
    lose(
        &mut f,
        Outcome::Drop {
            reason: Reason::ClientError,
        },
        &mut now,
    );
    assert_eq!(taught.rewards(), [0.0]);
    // A network failure is not evidence about the link.
    lose(
        &mut f,
        Outcome::Drop {
            reason: Reason::Timeout,
        },
        &mut now,
    );
    assert_eq!(taught.rewards(), [0.0]);
    // Links to missing pages no longer count as features.
    let again = vec![link("http://gone.org/", 1)];
    fetch(&mut f, "http://more.org/", 0.9, again, &mut now);
    let gone = keys::url(&url("http://gone.org/"), TaskKind::Page);
    let known = crate::ratings::clues::stored(f.ledger.store(), &gone);
    assert_eq!(known.unwrap(), None);
    check(&f);
}

#[test]
fn a_redirect_takes_what_is_known_along() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (mut f, taught) = seeded(path);
    let mut now = 0;
    fetch(
        &mut f,
        "http://s.org/",
        0.9,
        vec![link("http://old.org/", 1)],
        &mut now,
    );
    fetch(&mut f, "http://t.org/", 0.9, vec![], &mut now);
    let to = url("http://new.org/");
    lose(&mut f, Outcome::Redirect { to }, &mut now);
    assert_eq!(taught.rewards(), [0.0], "a fetch was spent");
    fetch(&mut f, "http://new.org/", 0.75, vec![], &mut now);
    let examples = taught.examples_so_far();
    assert_eq!(taught.rewards(), [0.0, 0.75]);
    assert_eq!(examples[1].0.traits, [1]);
}

#[test]
fn what_became_worse_is_lowered_before_it_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (mut f, _) = seeded(path);
    let mut now = 0;
    let links = vec![
        link("http://a.org/", 1),
        link("http://b.org/", 1),
        link("http://c.org/", 2),
    ];
    fetch(&mut f, "http://s.org/", 0.9, links, &mut now);
    fetch(&mut f, "http://t.org/", 0.9, vec![], &mut now);
    fetch(&mut f, "http://a.org/", 0.0, vec![], &mut now);
    // Found before the third, but a similar link was lost.
    fetch(&mut f, "http://c.org/", 0.9, vec![], &mut now);
    fetch(&mut f, "http://b.org/", 0.9, vec![], &mut now);
}

#[test]
fn a_page_is_corrected_by_what_its_targets_turned_out_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (mut f, taught) = seeded(path);
    let mut now = 0;
    let many = (0..5).map(|n| link(&format!("http://{n}.org/"), n));
    fetch(
        &mut f,
        "http://s.org/",
        0.9,
        many.clone().collect(),
        &mut now,
    );
    fetch(
        &mut f,
        "http://t.org/",
        0.9,
        vec![link("http://hub.org/", 9)],
        &mut now,
    );
    for n in 0..5 {
        fetch(&mut f, &format!("http://{n}.org/"), 0.0, vec![], &mut now);
    }
    // On topic by its text, but none of its targets was.
    fetch(&mut f, "http://hub.org/", 0.6, many.collect(), &mut now);
    let last = taught.rewards().pop().unwrap();
    assert!(last < 0.15, "{last}");
}

#[test]
fn a_poor_link_waits_while_the_host_of_a_good_one_rests() {
    for (patience, waits) in [(0.0, false), (0.3, false), (0.5, true), (1.0, true)] {
        let folder = tempfile::tempdir().unwrap();
        let (mut f, _) = taught_to_wait(folder.path(), 0, patience);
        f.add_seeds(&[url("http://s.org/")], 0).unwrap();
        let mut now = 0;
        let links = vec![
            link("http://a.org/1", 1),
            link("http://a.org/2", 1),
            link("http://poor.org/", POOR),
        ];
        // Six of ten good ones and two of ten poor ones count as on topic.
        fetch(&mut f, "http://s.org/", 0.9, links, &mut now);
        let asked = lease(&mut f, &mut now).unwrap();
        assert_eq!(asked.url.as_str(), "http://a.org/1");
        assert!(
            f.lease(now).unwrap().is_none() == waits,
            "{patience}: while it is asked"
        );
        if !waits {
            continue;
        }
        assert!(f.is_patient());
        // Only the answer can change that.
        assert_eq!(f.next_event(), None);
        assert!(!f.is_exhausted());
        finish(&mut f, &asked, Outcome::Done, Effects::default(), now);
        assert!(f.lease(now).unwrap().is_none(), "while it rests");
        let due = f.next_event().unwrap();
        assert!(due > now, "{due}");
        let any = f.lease_any(now).unwrap().unwrap();
        assert!(!f.is_patient());
        assert_eq!(any.host, url("http://poor.org/").host_key());
        f.abandon(&any, now).unwrap();
        let asked = f.lease(due).unwrap().unwrap();
        assert_eq!(asked.url.as_str(), "http://a.org/2");
        finish(&mut f, &asked, Outcome::Done, Effects::default(), due);
        // No better link is left to wait for.
        fetch(&mut f, "http://poor.org/", 0.1, vec![], &mut now);
        assert!(f.is_exhausted());
    }
}
