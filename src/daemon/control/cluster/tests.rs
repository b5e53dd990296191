use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::*;
use crate::config::Config;
use crate::crawl::cluster::{
    CellRecord, EngineError, JobRecord, Node, PermitsRecord, Revision, SessionId,
};
use crate::crawl::frontier::CellCount;
use crate::crawl::pipeline::Control;

/// Machines of a cluster: `a` answers, `b` does not, and `c` has ended.
#[derive(Default)]
struct Three {
    surveys: AtomicUsize,
    asked: AtomicUsize,
}

fn session(node: &str) -> SessionId {
    let node = Node::new(node).unwrap();
    SessionId { node, number: 1 }
}

fn record(state: Life, used: Amount) -> (SessionRecord, Revision) {
    let record = SessionRecord {
        checkpoint: 4,
        begun: now(),
        used,
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

impl Peers for Three {
    fn survey(&self) -> BoxFuture<'_, Result<Survey, EngineError>> {
        self.surveys.fetch_add(1, Ordering::Relaxed);
        let cells = CellCount::new(4).unwrap();
        let owners = ["a", "a", "b", "c"];
        let owned = |(cell, owner): (_, &&str)| {
            let owner = Some(session(owner));
            (
                cell,
                CellRecord {
                    owner,
                    ..CellRecord::default()
                },
            )
        };
        let taken = [("a.1", 20), ("b.1", 10), ("c.1", 30)];
        let survey = Survey {
            job: Some(JobRecord {
                cells: 4,
                phase: JobPhase::Run,
            }),
            sessions: [
                (session("a"), record(Life::Live, amount(5))),
                (session("b"), record(Life::Leaving, amount(7))),
                (session("c"), record(Life::Ended, amount(11))),
            ]
            .into(),
            cells: cells.all().zip(&owners).map(owned).collect(),
            permits: PermitsRecord {
                taken: taken.map(|(name, n)| (name.to_owned(), amount(n))).into(),
            },
        };
        std::future::ready(Ok(survey)).boxed()
    }

    fn ask_for(&self, subject: String, _: Bytes) -> BoxFuture<'_, Result<Bytes, EngineError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if subject != "ctl.a" {
            return std::future::pending().boxed();
        }
        let status = Status {
            state: Stage::Running,
            machine: Some(super::super::MachineFigures {
                pages: 9,
                fetches: 10,
                bytes: 9_000,
                unsent: 3,
                ..Default::default()
            }),
            queued: super::super::Queued {
                high: 40,
                images: 2,
                ..Default::default()
            },
            limits: serde_json::json!({"documents": 200}),
            ..Status::default()
        };
        let answer = serde_json::json!({
            "version": 1, "status": 200, "media": "application/json",
            "body": serde_json::to_string(&status).unwrap(),
        });
        std::future::ready(Ok(answer.to_string().into())).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn all_machines_are_added_up_and_the_silent_one_is_marked() {
    let peers: Arc<dyn Peers> = Arc::new(Three::default());
    let limits = Limits {
        documents: Some(100),
        ..Limits::default()
    };
    let begun = Instant::now();
    let found = see(&peers, &limits, "a test").await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(4));
    assert_eq!(found.phase.as_deref(), Some("run"));
    assert_eq!((found.cells, found.waiting_cells), (4, 1));
    let names = found
        .sessions
        .iter()
        .map(|m| (m.machine.as_str(), m.cells, m.pages));
    // What a machine says is newer than its last checkpoint.
    assert_eq!(
        Vec::from_iter(names),
        [("a", 2, 9), ("b", 1, 7), ("c", 1, 11)]
    );
    let [a, b, c] = &found.sessions[..] else {
        panic!("{found:?}")
    };
    assert_eq!(a.now.as_ref().unwrap().queued, 42);
    assert!(b.now.is_none() && b.problem.as_ref().unwrap().contains("`b` does not answer"));
    assert!(c.now.is_none() && c.problem.is_none());
    let sums = &found.sums;
    assert_eq!((sums.live, sums.pages, sums.fetches), (2, 27, 30));
    assert_eq!((sums.queued, sums.unsent), (42, 3));
    // The limit is that of a live machine; of what has ended, what was used counts.
    let [limit] = &found.limits[..] else {
        panic!("{:?}", found.limits)
    };
    assert_eq!(
        (limit.of, limit.done, limit.taken),
        (200.0, 27.0, Some(41.0))
    );
}

fn handle(text: &str) -> ControlHandle {
    let text = format!("[job]\nname = \"x\"\ncontact = \"mailto:x@example.org\"\n{text}");
    let config = Config::parse(&text, "job.toml").unwrap();
    crate::daemon::control_handle(&config, &Control::default())
}

#[tokio::test(start_paused = true)]
async fn many_open_pages_ask_as_often_as_one() {
    let three = Arc::new(Three::default());
    let handle = handle("");
    let place = Place {
        peers: Arc::clone(&three) as Arc<dyn Peers>,
        session: session("b"),
        standing: watch::channel(Standing::default()).1,
        seen: Mutex::default(),
    };
    assert!(handle.0.cluster.set(place).is_ok());
    let asks = || three.asked.load(Ordering::Relaxed);
    let pages = (0..10).map(|_| handle.cluster());
    for found in join_all(pages).await {
        let found = found.unwrap().unwrap();
        // It asks the others, and knows itself.
        let own = found.sessions.iter().find(|m| m.this).unwrap();
        assert_eq!(own.machine, "b");
        assert_eq!(own.now.as_ref().unwrap().stage, Stage::Starting);
    }
    assert_eq!((three.surveys.load(Ordering::Relaxed), asks()), (1, 1));
    tokio::time::advance(KEPT).await;
    handle.cluster().await.unwrap();
    assert_eq!((three.surveys.load(Ordering::Relaxed), asks()), (2, 2));
}

#[tokio::test]
async fn one_machine_is_no_cluster() {
    assert_eq!(handle("").cluster().await.unwrap(), None);
}
