use std::sync::Mutex;

use axum::routing::{get, post};
use axum::{Extension, Json};

use super::*;
use crate::crawl::cluster::Alone;

fn session(node: &str, number: u64) -> SessionId {
    let node = Node::new(node).unwrap();
    SessionId { node, number }
}

/// A machine whose API has a few routes, and what it was told by whom.
fn desk(session: SessionId) -> (Desk, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&told);
    let stop = move |Extension(Who(who)): Extension<Who>, _: Extension<FromMachine>| async move {
        notes.lock().unwrap().push(who);
        Json("stopping")
    };
    let router = Router::new()
        .route("/api/status", get(|| async { Json("fine") }))
        .route("/api/board", get(|| async { "x".repeat(LONGEST + 1) }))
        // Each of these takes two bytes in JSON.
        .route(
            "/api/config",
            get(|| async { "\"".repeat(LONGEST / 2 + 1) }),
        )
        .route(
            "/api/explain",
            get(|uri: axum::http::Uri| async move { uri.query().unwrap_or_default().to_owned() }),
        )
        .route("/api/stop", post(stop))
        .route("/api/pause", post(|| async { "never" }))
        .fallback(super::super::routes::nothing);
    (Desk { router, session }, told)
}

/// Another machine that is asked over an engine in memory.
struct Two {
    other: OtherMachine,
    told: Arc<Mutex<Vec<String>>>,
    _answers: JoinHandle<()>,
}

async fn two(node: &str) -> Two {
    let engine = Arc::new(Alone::default());
    let (desk, told) = desk(session(node, 3));
    let mut questions = engine
        .answer(&subject_of(&desk.session.node))
        .await
        .unwrap();
    let answers = tokio::spawn(async move {
        while let Some(question) = questions.recv().await {
            desk.clone().answer(question).await;
        }
    });
    Two {
        other: OtherMachine {
            peers: engine,
            session: session(node, 3),
            from: "machine m1\u{1b}[2J".to_owned(),
        },
        told,
        _answers: answers,
    }
}

impl Two {
    async fn get(&self, path: &str) -> (u16, String) {
        let (status, body) = self
            .other
            .ask(&Method::GET, path, Vec::new())
            .await
            .unwrap();
        (status.as_u16(), body)
    }
}

#[tokio::test]
async fn another_machine_answers_what_may_be_asked() {
    let two = two("crawler-3.rack.example.org").await;
    assert_eq!(two.get("/api/status").await, (200, "\"fine\"".to_owned()));
    let explained = two.get("/api/explain?url=http%3A%2F%2Fa.test%2F").await;
    assert_eq!(explained, (200, "url=http%3A%2F%2Fa.test%2F".to_owned()));
    let (status, _) = two.get("/api/host/a.test").await;
    assert_eq!(status, 404, "allowed, and this router has none");
    let stop = two.other.ask(&Method::POST, "/api/stop", Vec::new());
    assert_eq!(stop.await.unwrap().0, StatusCode::OK);
    let told = two.told.lock().unwrap().join("");
    assert!(
        told.contains("machine m1") && told.ends_with(", over the brokers"),
        "{told}"
    );
    assert!(!told.contains('\u{1b}'), "{told:?}");
}

#[tokio::test]
async fn nothing_else_may_be_asked() {
    let two = two("m0").await;
    for (method, path) in [
        (Method::POST, "/api/pause"),
        (Method::POST, "/api/seeds"),
        (Method::PATCH, "/api/config"),
        (Method::GET, "/api/stop"),
        (Method::GET, "/api/log"),
        (Method::GET, "/api/end"),
        (Method::GET, "/api/host/"),
        (Method::GET, "/api/host/a/../../log"),
        (Method::GET, "/"),
    ] {
        let (status, body) = two.other.ask(&method, path, Vec::new()).await.unwrap();
        assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path}");
        assert!(
            body.contains("cannot be asked from another machine"),
            "{body}"
        );
    }
}

#[tokio::test]
async fn answers_that_no_broker_passes_on_are_an_error_that_says_so() {
    let two = two("m0").await;
    for path in ["/api/board", "/api/config"] {
        let (status, body) = two.get(path).await;
        assert_eq!(status, 413, "{path}");
        assert!(
            body.contains("bytes") && body.contains("spoor ctl"),
            "{body}"
        );
    }
}

#[tokio::test]
async fn only_the_session_that_is_meant_answers() {
    let mut two = two("m0").await;
    two.other.session = session("m0", 4);
    let away = two.other.ask(&Method::GET, "/api/status", Vec::new());
    let away = away.await.unwrap_err().to_string();
    assert!(
        away.contains("`m0` does not answer") && away.contains("forget"),
        "{away}"
    );
    two.other.session = session("m1", 3);
    let away = two.other.ask(&Method::GET, "/api/status", Vec::new());
    assert!(matches!(away.await, Err(ControlError::Away { .. })));
}

#[tokio::test]
async fn a_question_that_cannot_be_read_is_answered_so() {
    let engine = Alone::default();
    let (desk, _) = desk(session("m0", 3));
    let mut questions = engine.answer("ctl.m0").await.unwrap();
    let answers = async {
        for _ in 0..2 {
            let question = questions.recv().await.unwrap();
            desk.clone().answer(question).await;
        }
    };
    let later = serde_json::json!({
        "version": 2, "session": {"node": "m0", "number": 3}, "from": "x",
        "method": "GET", "path": "/api/status",
    });
    let asks = async {
        for wrong in [Bytes::from("nonsense"), later.to_string().into()] {
            let answer = engine.ask("ctl.m0", wrong).await.unwrap();
            let answer: Answered = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer.status, 400);
            assert!(answer.body.contains("same version"), "{}", answer.body);
        }
    };
    tokio::join!(answers, asks);
}
