//! Requests that depend on the known version of a page.

use super::*;

fn known(etag: &str, date: &str) -> Validators {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Validators {
        etag: some(etag),
        last_modified: some(date),
    }
}

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

#[tokio::test]
pub(super) async fn a_version_that_still_holds_brings_no_body() {
    for (etag, date) in [("W/\"a b\"", DATE), ("\"x\"", ""), ("", DATE)] {
        let server = Server::answering("HTTP/1.1 304 Same\r\nETag: \"new\"\r\n\r\n").await;
        let version = known(etag, date);
        let url = server.url("/");
        let answer = lab().fetch_unless(&url, TaskKind::Page, &version).await;
        let answer = answer.unwrap();
        assert_eq!((answer.status(), answer.bytes()), (304, 0));
        assert!(answer.elapsed() > Duration::ZERO);
        let Answer::NotModified { validators, .. } = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(validators, known("\"new\"", ""));
        let head = server.heads().concat();
        assert_eq!(header(&head, "if-none-match").concat(), etag);
        assert_eq!(header(&head, "if-modified-since").concat(), date);
    }
}

#[tokio::test]
pub(super) async fn another_version_comes_with_its_validators() {
    let server = Server::answering(format!(
        "HTTP/1.1 200 OK\r\nETag: W/\"2\"\r\nLast-Modified: {DATE}\r\nContent-Length: 2\r\n\r\nhi"
    ))
    .await;
    let url = server.url("/");
    let version = known("\"1\"", "");
    let fetched = body(lab().fetch_unless(&url, TaskKind::Page, &version).await);
    assert_eq!(fetched.validators, known("W/\"2\"", DATE));
    assert_eq!(&fetched.body[..], b"hi");
}

#[tokio::test]
pub(super) async fn without_a_known_version_there_is_no_condition() {
    let server = Server::answering("HTTP/1.1 304 Same\r\n\r\n").await;
    let error = lab().fetch(&server.url("/"), TaskKind::Page).await;
    let error = error.unwrap_err();
    assert!(matches!(
        error.kind,
        FetchFailure::Status { status: 304, .. }
    ));
    let head = server.heads().concat().to_lowercase();
    assert!(!head.contains("\r\nif-"), "{head}");
}
