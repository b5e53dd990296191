//! The engine with real servers on loopback.

use std::path::{Path, PathBuf};
use std::process::Command;

use self::broker::Brokers;
use super::*;

mod processes;

/// Shared with the tests of whole machines.
#[allow(dead_code)]
#[path = "../../../tests/it/support/broker.rs"]
mod broker;

/// Connects as soon as the brokers accept it.
async fn connected(brokers: &Brokers) -> Nats {
    let place = Place {
        servers: brokers.addresses(),
        job: "cats".to_owned(),
        replicas: brokers.count(),
        credentials: None,
    };
    until(async || Nats::connect(place.clone()).await).await
}

/// Repeats a call until it succeeds, for at most a minute.
async fn until<T, E: std::fmt::Debug>(act: impl AsyncFn() -> Result<T, E>) -> T {
    let limit = tokio::time::Instant::now() + Duration::from_secs(60);
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    loop {
        match act().await {
            Ok(done) => return done,
            Err(error) if tokio::time::Instant::now() > limit => panic!("{error:?}"),
            Err(_) => drop(pace.tick().await),
        }
    }
}

async fn next<T>(from: &mut mpsc::Receiver<T>) -> Option<T> {
    let next = timeout(Duration::from_secs(30), from.recv());
    next.await.expect("nothing comes")
}

#[test]
fn old_servers_are_recognised() {
    for version in ["2.10.0", "2.15.1", "3.0.0-beta", "2.10"] {
        assert!(is_new_enough(version), "{version}");
    }
    for version in ["2.9.10", "1.99.0", "", "x.y", "2"] {
        assert!(!is_new_enough(version), "{version}");
    }
}

/// A server that claims to be of an old version.
#[tokio::test]
async fn an_old_server_is_refused_by_name() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let port = listener.local_addr().unwrap().port();
    let old = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let info = format!(
            "INFO {{\"server_id\":\"X\",\"server_name\":\"old\",\"version\":\"2.9.10\",\
             \"go\":\"go1\",\"host\":\"127.0.0.1\",\"port\":{port},\"headers\":true,\
             \"max_payload\":1048576,\"proto\":1,\"client_id\":1}}\r\n"
        );
        stream.write_all(info.as_bytes()).await.unwrap();
        let mut sent = [0; 4_096];
        while let Ok(1..) = stream.read(&mut sent).await {
            stream.write_all(b"PONG\r\n").await.unwrap_or_default();
        }
    });
    let place = Place {
        servers: vec![format!("nats://127.0.0.1:{port}")],
        job: "cats".to_owned(),
        replicas: 1,
        credentials: None,
    };
    let refused = Nats::connect(place).await.unwrap_err().to_string();
    assert!(refused.contains("old is nats-server 2.9.10"), "{refused}");
    old.abort();
}

#[tokio::test]
async fn keys_are_replaced_only_if_they_are_what_they_were() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let engine = connected(&brokers).await;
    assert_eq!(engine.get("s.n1.1").await.unwrap(), None);
    let first = engine.swap("s.n1.1", b"a".to_vec(), None).await.unwrap();
    let stale = engine.swap("s.n1.1", b"b".to_vec(), None).await;
    assert_eq!(stale, Err(EngineError::Stale));
    let second = engine
        .swap("s.n1.1", b"b".to_vec(), Some(first))
        .await
        .unwrap();
    assert!(second > first);
    let stale = engine.swap("s.n1.1", b"c".to_vec(), Some(first)).await;
    assert_eq!(stale, Err(EngineError::Stale));
    assert_eq!(
        engine.get("s.n1.1").await.unwrap(),
        Some((b"b".to_vec(), second))
    );

    let mut changes = engine.watch(None).await.unwrap();
    let change = Change::Set("s.n1.1".to_owned(), b"b".to_vec(), second);
    assert_eq!(next(&mut changes).await, Some(change));
    assert_eq!(next(&mut changes).await, Some(Change::Whole));
    let other = engine.swap("c.7", b"x".to_vec(), None).await.unwrap();
    let change = Change::Set("c.7".to_owned(), b"x".to_vec(), other);
    assert_eq!(next(&mut changes).await, Some(change));
}

#[tokio::test]
async fn messages_are_stored_once_read_in_order_and_cut() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let engine = connected(&brokers).await;
    for (id, text) in [("1", "one"), ("2", "two"), ("1", "one"), ("3", "three")] {
        engine.send("links-7", id, text.into()).await.unwrap();
    }
    let mut messages = engine.read("links-7", 0).await.unwrap();
    for (number, text) in [(1, "one"), (2, "two"), (3, "three")] {
        assert_eq!(next(&mut messages).await, Some((number, Bytes::from(text))));
    }
    engine.cut("links-7", 2).await.unwrap();
    let mut messages = engine.read("links-7", 0).await.unwrap();
    assert_eq!(next(&mut messages).await, Some((3, Bytes::from("three"))));

    let mut questions = engine.answer("ctl").await.unwrap();
    let other = connected(&brokers).await;
    let answers = tokio::spawn(async move {
        let first = next(&mut questions).await.unwrap();
        assert_eq!(first.body, "there?");
        first.answer("yes".into());
        // The second question gets no answer.
        drop(next(&mut questions).await);
    });
    let answer = other.ask("ctl", "there?".into()).await.unwrap();
    assert_eq!(answer, "yes");
    assert!(other.ask("ctl", "and now?".into()).await.is_err());
    answers.await.unwrap();
    assert!(other.ask("ctl", "still?".into()).await.is_err());
    assert!(engine.ask("nobody", Bytes::new()).await.is_err());
}

/// Three servers: each is killed once, and then all at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_stored_outlives_the_servers() {
    let Some(mut brokers) = Brokers::start(3) else {
        return;
    };
    let engine = connected(&brokers).await;
    let mut last = until(async || swapped(&engine, 0, None).await).await;
    engine
        .send("links-1", "first", "first".into())
        .await
        .unwrap();
    let mut messages = engine.read("links-1", 0).await.unwrap();
    assert_eq!(next(&mut messages).await, Some((1, Bytes::from("first"))));
    for number in 0..3u8 {
        brokers.kill(usize::from(number));
        // An answer may be lost, so the stored value is read.
        last = until(async || swapped(&engine, number + 1, Some(last)).await).await;
        brokers.begin(usize::from(number));
    }
    (0..3).for_each(|number| brokers.kill(number));
    // This may be sent when the connection is back, or never.
    assert!(swapped(&engine, 9, Some(last)).await.is_err());
    (0..3).for_each(|number| brokers.begin(number));
    let (value, revision) = until(async || {
        let found = engine.get("s.n1.1").await?;
        found.ok_or(EngineError::Stale)
    })
    .await;
    assert!(value == [3] && revision == last || value == [9] && revision > last);

    // The reader starts again if it was not notified that its consumer is gone.
    let id = "second";
    until(async || engine.send("links-1", id, id.into()).await).await;
    let second = until(async || {
        let mut messages = engine.read("links-1", 1).await?;
        let next = timeout(Duration::from_secs(5), messages.recv()).await;
        next.ok().flatten().ok_or(EngineError::Stale)
    })
    .await;
    assert_eq!(second, (2, Bytes::from("second")));
    drop(messages);
}

/// Writes a value, or finds that it has been written.
async fn swapped(engine: &Nats, value: u8, was: Option<Revision>) -> Result<Revision, EngineError> {
    let swapped = engine.swap("s.n1.1", vec![value], was).await;
    if swapped != Err(EngineError::Stale) {
        return swapped;
    }
    match engine.get("s.n1.1").await? {
        Some((found, revision)) if found == [value] => Ok(revision),
        _ => Err(EngineError::Stale),
    }
}

/// Looking again and again leaves nothing behind at the server.
#[tokio::test]
async fn all_keys_are_read_without_leaving_a_consumer() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let engine = connected(&brokers).await;
    assert_eq!(engine.all().await.unwrap(), Vec::new());
    let mut written = Vec::new();
    for n in 0..300 {
        let (key, value) = (format!("c.{n}"), format!("{n}").into_bytes());
        let revision = engine.swap(&key, value.clone(), None).await.unwrap();
        written.push((key, value, revision));
    }
    let (key, _, was) = written.remove(0);
    let revision = engine.swap(&key, b"new".to_vec(), Some(was)).await.unwrap();
    written.push((key, b"new".to_vec(), revision));
    for _ in 0..5 {
        assert_eq!(engine.all().await.unwrap(), written);
    }
    let mut keys = engine.keys.clone();
    assert_eq!(keys.info().await.unwrap().state.consumer_count, 0);
}
