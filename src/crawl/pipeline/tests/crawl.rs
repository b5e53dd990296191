//! The outputs of a crawl, and when it ends.

use std::collections::BTreeSet;

use super::web::{Web, hosts};
use super::*;
use crate::frontier::State;
use spoor_lab::{Behaviour, Fault, MemoryTree};

#[test]
fn limits_are_exact_whatever_is_in_flight() {
    for (documents, fetches, reached) in [
        (Some(1), None, "limits.documents"),
        (Some(7), None, "limits.documents"),
        (None, Some(9), "limits.fetches"),
        (Some(5), Some(50), "limits.documents"),
        (Some(50), Some(11), "limits.fetches"),
    ] {
        let (tree, seeds) = hosts(20, 4);
        let web = Web::new(tree, vec![]);
        let limits = Limits {
            documents,
            fetches,
            ..Limits::default()
        };
        let (frontier, limit) = web.crawl(&seeds, limits);
        assert_eq!(limit, Some(reached));
        let counts = frontier.counts();
        match reached {
            "limits.documents" => assert_eq!(Some(counts.documents), documents),
            _ => assert_eq!(Some(counts.fetches), fetches),
        }
        let pages = web.log().into_iter().filter(|l| l["kind"] == "page");
        let outcomes: Vec<_> = pages.map(|l| l["outcome"].clone()).collect();
        assert_eq!(outcomes.len() as u64, counts.fetches);
        let done = outcomes.iter().filter(|o| *o == "done").count();
        assert_eq!(done as u64, counts.documents);
        assert_eq!(frontier.leased(), 0);
    }
}

#[test]
fn a_crawl_brings_home_text_images_and_a_log() {
    let mut tree = MemoryTree::default();
    let page = |more: &str| {
        format!(
            "<title>t</title><p>cat cat cat cat cat</p><img src='http://i.test/c.png' alt=cat>{more}"
        )
    };
    tree.insert(
        "a.test",
        "/",
        page("<a href=/two.html>cat</a><a href=/moved>cat</a>"),
    );
    tree.insert(
        "a.test",
        "/two.html",
        page("<a href=/>cat</a><a href=/flaky.html>cat</a>"),
    );
    tree.insert("a.test", "/flaky.html", "<p>cat</p>");
    assert!(tree.redirect("http://a.test/moved", "http://a.test/two.html"));
    assert!(tree.image("http://i.test/c.png", 200, 100));
    let fault = Fault::Status {
        code: 500,
        retry_after: None,
    };
    let flaky = Behaviour::of("a.test")
        .under("/flaky")
        .fault(fault)
        .times(1);
    let web = Web::new(tree, vec![flaky]);
    let (frontier, limit) = web.crawl(&[url("http://a.test/")], Limits::default());
    assert_eq!(limit, None);
    let counts = frontier.counts();
    assert_eq!((counts.documents, counts.images), (3, 1));
    assert_eq!(
        (counts.queued_pages(), counts.waiting, counts.queued_images),
        (0, 0, 0)
    );
    let log = web.log();
    let moved = log.iter().find(|l| l["outcome"] == "redirected").unwrap();
    assert_eq!(moved["redirect"], "http://a.test/two.html");
    let retried: Vec<_> = log
        .iter()
        .filter(|l| l["url"] == "http://a.test/flaky.html")
        .collect();
    assert_eq!(
        (&retried[0]["outcome"], &retried[1]["outcome"]),
        (&"retrying".into(), &"done".into())
    );
    let ids: BTreeSet<_> = log.iter().filter_map(|l| l["id"].as_u64()).collect();
    assert_eq!(
        ids,
        (1..=5).collect(),
        "three pages, a redirect and an image"
    );
    let image = log.iter().find(|l| l["kind"] == "image").unwrap();
    let file = image["file"].as_str().unwrap();
    let record = frontier.look_up(&url("http://i.test/c.png"), TaskKind::Image);
    let record = record.unwrap().unwrap();
    assert!(matches!(record.state, State::Done { .. }));
    assert_eq!(record.note(), Some(file));
    let sidecar = crate::outputs::Sidecar::load(web.folder.path(), file).unwrap();
    assert_eq!(sidecar.contexts().len(), 2, "both pages embed it");
    let rows = std::fs::read_to_string(web.folder.path().join("images.tsv")).unwrap();
    assert_eq!(rows.lines().count(), 3);
    let only = frontier.only().unwrap();
    let contexts = only.contexts(&url("http://i.test/c.png"));
    assert!(contexts.unwrap().is_empty());
}
