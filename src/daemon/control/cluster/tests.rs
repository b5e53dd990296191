use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::cluster::wanted::{SetKey, WantedBy};
use crate::cluster::{CellRecord, JobRecord, LAYOUT, LimitClaim, Node};
use crate::config::Config;
use crate::crawl::pipeline::Control;
use crate::frontier::CellCount;

/// Machines of a cluster: `a` has just reported, `b` has been silent for long, and `c` has ended.
#[derive(Default)]
struct Three {
    surveys: AtomicUsize,
}

fn session(node: &str) -> SessionId {
    let node = Node::new(node).unwrap();
    SessionId { node, number: 1 }
}

fn record(state: Life, used: u64, done: u64) -> (SessionRecord, Revision) {
    let record = SessionRecord {
        checkpoint: 4,
        begun: now(),
        used: amount(used),
        claim: LimitClaim {
            done: amount(done),
            ..LimitClaim::default()
        },
        ..SessionRecord::new(state, 1)
    };
    (record, Revision(1))
}

fn amount(documents: u64) -> Amount {
    Amount {
        documents,
        fetches: documents + 1,
        bytes: 1_000 * documents,
    }
}

fn said(at: u64) -> serde_json::Value {
    let kept = KeptKey {
        key: "politeness.min_delay".to_owned(),
        value: None,
        ordered: None,
        version: 7,
        by: "a test".to_owned(),
    };
    let now = RunningNow {
        at,
        version: 7,
        queued: 42,
        unsent: 3,
        checkpoint_age_seconds: Some(1.0),
        kept: vec![kept],
        ..RunningNow::default()
    };
    serde_json::to_value(now).unwrap()
}

impl Peers for Three {
    fn survey(&self) -> BoxFuture<'_, Result<Survey, EngineError>> {
        self.surveys.fetch_add(1, Ordering::Relaxed);
        let cells = CellCount::new(4).unwrap();
        let owners = ["a", "a", "b", "c"];
        let owned = |(cell, owner): (_, &&str)| {
            let owner = Some(session(owner));
            let rest = CellRecord::default();
            (cell, CellRecord { owner, ..rest })
        };
        let set = SetKey {
            value: 200.into(),
            said: WantedBy::default(),
        };
        let survey = Survey {
            job: Some(JobRecord {
                cells: 4,
                phase: JobPhase::Run,
                layout: LAYOUT,
            }),
            sessions: [
                (session("a"), record(Life::Live, 5, 9)),
                (session("b"), record(Life::Leaving, 7, 7)),
                (session("c"), record(Life::Ended, 11, 30)),
            ]
            .into(),
            cells: cells.all().zip(&owners).map(owned).collect(),
            statuses: [
                (session("a"), said(now())),
                (session("b"), said(now() - 40_000)),
                (session("c"), said(now())),
            ]
            .into(),
            wanted: WantedState {
                keys: [("limits.documents".to_owned(), set)].into(),
                ..WantedState::default()
            },
        };
        std::future::ready(Ok(survey)).boxed()
    }

    fn change<'p>(
        &'p self,
        _: Option<&'p WantedList>,
        _: &'p WantedEdit<'p>,
    ) -> BoxFuture<'p, Result<WantedState, WantedError>> {
        std::future::pending().boxed()
    }

    fn say(
        &self,
        _: &SessionId,
        _: Vec<u8>,
        _: Option<Revision>,
    ) -> BoxFuture<'_, Result<Revision, EngineError>> {
        std::future::pending().boxed()
    }
}

#[tokio::test]
async fn all_machines_are_added_up_and_the_silent_one_is_marked() {
    let text = "[job]\nname = \"x\"\n[limits]\ndocuments = 100\n";
    let config = Config::parse(text, "job.toml").unwrap();
    let found = see(&Three::default(), &config, Some(&session("b"))).await;
    let found = found.unwrap();
    assert_eq!(found.phase.as_deref(), Some("run"));
    assert_eq!((found.cells, found.waiting_cells), (4, 1));
    let names = found
        .sessions
        .iter()
        .map(|m| (m.machine.as_str(), m.cells, m.pages));
    // A live machine's report is newer than its last checkpoint; for an ended one, the checkpoint
    // counts.
    assert_eq!(
        Vec::from_iter(names),
        [("a", 2, 9), ("b", 1, 7), ("c", 1, 11)]
    );
    let [a, b, c] = &found.sessions[..] else {
        panic!("{found:?}")
    };
    assert_eq!(a.now.as_ref().unwrap().queued, 42);
    assert!(b.this && !a.this);
    let problem = b.problem.as_ref().unwrap();
    assert!(
        b.now.is_none() && problem.contains("`b` for 40 s"),
        "{problem}"
    );
    assert!(c.now.is_none() && c.problem.is_none());
    let sums = &found.sums;
    assert_eq!((sums.live, sums.pages, sums.fetches), (2, 27, 30));
    assert_eq!((sums.queued, sums.unsent), (42, 3));
    // The limit in the wanted state takes precedence over that of the job file.
    let [limit] = &found.limits[..] else {
        panic!("{:?}", found.limits)
    };
    assert_eq!((limit.of, limit.done), (200.0, 27.0));
    let survey = Three::default().survey().await.unwrap();
    assert_eq!((that_keep(&survey, 7), that_keep(&survey, 6)), (2, 0));
    let (applied, not) = survey.applied(8);
    assert_eq!((applied.len(), not.len()), (0, 2));
    assert_eq!(survey.applied(7).0.len(), 2);
}

fn handle(text: &str) -> ControlHandle {
    let text = format!("[job]\nname = \"x\"\ncontact = \"mailto:x@example.org\"\n{text}");
    let config = Config::parse(&text, "job.toml").unwrap();
    crate::control_handle(&config, &Control::default())
}

#[tokio::test(start_paused = true)]
async fn many_open_pages_ask_as_often_as_one() {
    let three = Arc::new(Three::default());
    let handle = handle("");
    let place = ClusterPlace {
        peers: Arc::clone(&three) as Arc<dyn Peers>,
        session: session("b"),
        standing: watch::channel(Standing::default()).1,
        seen: Mutex::default(),
    };
    assert!(handle.0.cluster.set(place).is_ok());
    for _ in 0..10 {
        let found = handle.cluster().await.unwrap().unwrap();
        assert_eq!(found.sessions.iter().filter(|m| m.this).count(), 1);
    }
    assert_eq!(three.surveys.load(Ordering::Relaxed), 1);
    tokio::time::advance(KEPT).await;
    handle.cluster().await.unwrap();
    assert_eq!(three.surveys.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn one_machine_is_not_a_cluster() {
    assert_eq!(handle("").cluster().await.unwrap(), None);
}
