//! A robots.txt at a host of another cell.

use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::host_files::RobotsAnswer;
use crate::page::Reason;
use crate::record::{RobotsState, State};

const SECOND: Duration = Duration::from_secs(1);
const OWN: [&str; 2] = ["http://a.org/", "http://a.org/shut"];

/// Crawls two pages of a host, with this answer for its robots.txt and for the addresses that it
/// redirects to. The process dies after every task. Returns the records of the pages, and the
/// requests for rules.
fn crawl_by(answer: &dyn Fn(&str) -> RobotsAnswer, cells: u16) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(folder.path());
    let mut now = 1_000;
    let open = |now| opened(Box::new(store.reopened()), cells, now);
    let mut all = open(now);
    all.add_seeds(&OWN.map(url), now).unwrap();
    let mut asked = Vec::new();
    while asked.len() < 20 {
        let Some(task) = all.lease_best(now).unwrap() else {
            match all.next_event() {
                Some(at) => now = at.max(now),
                None => break,
            }
            continue;
        };
        let cell = all.cells().cell_of(&task.host);
        all.with(cell, now, |f| {
            if task.kind == TaskKind::Robots {
                asked.push(task.url.to_string());
                let write = |_: &_| Ok::<_, StoreError>(Vec::new());
                let answer = answer(task.url.as_str());
                f.finish_robots(&task, answer, SECOND, now, write).map(drop)
            } else {
                web::answer(f, &task, Outcome::Done, Effects::default(), now)
            }
        })
        .unwrap();
        drop(all);
        all = open(now);
    }
    let states = OWN.map(|own| match all.look_up(&url(own), TaskKind::Page) {
        Ok(Some(record)) => web::state(&record),
        other => format!("{other:?}"),
    });
    (states.to_vec(), asked)
}

#[test]
fn rules_are_followed_into_other_cells_and_back() {
    let away = ["http://b.org/1", "http://c.org/2", "http://a.org/3"];
    for steps in 1..=3 {
        let answer = |asked: &str| {
            let at = away
                .iter()
                .position(|to| *to == asked)
                .map_or(0, |at| at + 1);
            match away[..steps].get(at) {
                Some(next) => RobotsAnswer::Redirect(url(next)),
                None => RobotsAnswer::Rules(Bytes::from("User-agent: *\nDisallow: /shut\n")),
            }
        };
        let one = crawl_by(&answer, 1);
        assert_eq!(one.0, ["done", "dropped: Robots"]);
        assert_eq!(one.1.len(), steps + 1, "{:?}", one.1);
        assert_eq!(crawl_by(&answer, 64), one);
    }
}

#[test]
fn rules_that_are_missing_elsewhere_permit_everything() {
    let answer = |asked: &str| match asked {
        "http://b.org/1" => RobotsAnswer::Missing,
        _ => RobotsAnswer::Redirect(url("http://b.org/1")),
    };
    let one = crawl_by(&answer, 1);
    assert_eq!(one.0, ["done", "done"]);
    assert_eq!(crawl_by(&answer, 64), one);
}

#[test]
fn rules_that_cannot_be_had_elsewhere_forbid_everything() {
    let unreachable = RobotsAnswer::Unreachable {
        reason: Reason::Timeout,
        retry_after: None,
    };
    let answers: [&dyn Fn(&str) -> RobotsAnswer; 2] = [
        &|asked| match asked {
            "http://b.org/1" => unreachable.clone(),
            _ => RobotsAnswer::Redirect(url("http://b.org/1")),
        },
        // A circle.
        &|asked| match asked {
            "http://b.org/1" => RobotsAnswer::Redirect(url("http://c.org/2")),
            _ => RobotsAnswer::Redirect(url("http://b.org/1")),
        },
    ];
    for answer in answers {
        let (states, asked) = crawl_by(answer, 64);
        assert_eq!(states, ["Queued", "Queued"], "{asked:?}");
        assert!(asked.len() > 2);
    }
}

#[test]
fn the_host_waits_for_rules_from_another_cell() {
    let folder = tempfile::tempdir().unwrap();
    let mut now = 1_000;
    let mut cells = opened(Box::new(MemoryStore::new(folder.path())), 64, now);
    cells.add_seeds(&OWN.map(url), now).unwrap();
    let task = cells.lease_best(now).unwrap().unwrap();
    let answer = RobotsAnswer::Redirect(url("http://b.org/1"));
    let write = |_: &_| Ok::<_, StoreError>(Vec::new());
    cells
        .of_task(&task, |cell| {
            cell.finish_robots(&task, answer, SECOND, now, write)
        })
        .unwrap();
    cells.deliver_but_edits(now).unwrap();
    now += 1_000_000;
    let errand = cells.lease_best(now).unwrap().unwrap();
    assert_eq!(errand.url.as_str(), "http://b.org/1");
    assert_eq!(cells.lease_best(now).unwrap(), None);
    let of = |cells: &Cells| {
        let id = cells.cells().cell_of(&task.host);
        let host = cells.open[&id].frontier.look_up_host(&task.host);
        host.unwrap().unwrap().robots("http").clone()
    };
    assert_eq!(of(&cells), RobotsState::Awaiting);
    let known = cells.look_up(&url(OWN[0]), TaskKind::Page).unwrap();
    assert_eq!(known.unwrap().state, State::Queued);
}
