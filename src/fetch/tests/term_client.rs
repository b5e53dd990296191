//! Requests that are sent only during a term: no byte is sent after its end.

use std::pin::Pin;

use tokio::sync::oneshot;

use super::*;
use crate::clock::now;
use crate::settings::Proxy;

const LONG: u64 = 60_000;

/// A term that runs longer than any test.
pub(super) fn running() -> Term {
    let term = Term::default();
    term.set_end(now() + LONG);
    term
}

fn gated(term: &Term) -> Fetcher {
    lab_with(|o| o.term = Some(term.clone()))
}

#[track_caller]
fn must_be_over(answer: Result<Answer, FetchError>) {
    match answer {
        Err(error) if matches!(error.kind, FetchFailure::TermOver { .. }) => {}
        other => panic!("{other:?}"),
    }
}

async fn fetch(fetcher: &Fetcher, server: &Server) -> Result<Answer, FetchError> {
    fetcher.fetch(&server.url("/"), TaskKind::Page).await
}

/// Used once.
type ReportTo = Mutex<Option<oneshot::Sender<Vec<u8>>>>;

/// Collects what a server receives on its first connection after sending has ended: reported when
/// the connection is closed.
fn rest() -> (ReportTo, oneshot::Receiver<Vec<u8>>) {
    let (sender, receiver) = oneshot::channel();
    (Mutex::new(Some(sender)), receiver)
}

async fn report(stream: &mut (impl AsyncReadExt + Unpin), to: &ReportTo) {
    let mut bytes = Vec::new();
    // Closed or reset: either way it is over.
    stream.read_to_end(&mut bytes).await.unwrap_or_default();
    if let Some(to) = to.lock().unwrap().take() {
        to.send(bytes).unwrap();
    }
}

#[tokio::test]
async fn nothing_is_requested_before_or_after_a_term() {
    let server = Server::answering(response("", b"here")).await;
    let term = Term::default();
    let fetcher = gated(&term);
    must_be_over(fetch(&fetcher, &server).await);
    term.set_end(now() + LONG);
    assert_eq!(&body(fetch(&fetcher, &server).await).body[..], b"here");
    term.end();
    must_be_over(fetch(&fetcher, &server).await);
    assert_eq!((server.heads().len(), server.connections()), (1, 1));
    term.set_end(now() + LONG);
    body(fetch(&fetcher, &server).await);
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_connection_that_is_kept_closes_with_the_term() {
    let (rest, received) = rest();
    let rest = Arc::new(rest);
    let server = Server::http(move |mut stream, _| {
        let rest = rest.clone();
        async move {
            send(&mut stream, &response("", b"here")).await;
            report(&mut stream, &rest).await;
        }
    })
    .await;
    let term = running();
    let fetcher = gated(&term);
    body(fetch(&fetcher, &server).await);
    term.end();
    assert_eq!(received.await.unwrap(), b"");
    must_be_over(fetch(&fetcher, &server).await);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_answer_is_not_heard_to_the_end_after_the_term() {
    let (rest, received) = rest();
    let rest = Arc::new(rest);
    let term = running();
    let ends = term.clone();
    let server = Server::http(move |mut stream, _| {
        let (rest, ends) = (rest.clone(), ends.clone());
        async move {
            let half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it";
            send(&mut stream, half).await;
            ends.end();
            report(&mut stream, &rest).await;
        }
    })
    .await;
    must_be_over(fetch(&gated(&term), &server).await);
    assert_eq!(received.await.unwrap(), b"");
}

/// The term ends when the client has sent the first message of the handshake: next would come the
/// end of the handshake, and then the request.
#[tokio::test]
async fn a_handshake_is_not_ended_after_the_term() {
    let authority = tls::authority(&["http/1.1"]);
    let (rest, received) = rest();
    let rest = Arc::new(rest);
    let term = running();
    let (ends, acceptor) = (term.clone(), authority.acceptor.clone());
    let server = Server::raw(move |mut stream| {
        let (rest, ends, acceptor) = (rest.clone(), ends.clone(), acceptor.clone());
        async move {
            // When the first byte is here, the whole message is: it is sent in one write.
            stream.peek(&mut [0]).await.unwrap();
            ends.end();
            let counted = Counted::new(&mut stream);
            let before = counted.read.clone();
            if acceptor.accept(counted).await.is_ok() {
                before
                    .lock()
                    .unwrap()
                    .extend_from_slice(b"the handshake was ended");
            }
            let mut read = before.lock().unwrap().clone();
            // The first message is a record with its length.
            let hello = 5 + usize::from(u16::from_be_bytes([read[3], read[4]]));
            let late = read.split_off(hello);
            if let Some(rest) = rest.lock().unwrap().take() {
                rest.send(late).unwrap();
            }
        }
    })
    .await;
    let fetcher = lab_with(|o| {
        o.term = Some(term.clone());
        o.extra_ca = Some(authority.file.path().to_owned());
    });
    let url = format!("https://127.0.0.1:{}/", server.address.port());
    let url = PageUrl::parse(&url).unwrap();
    must_be_over(fetcher.fetch(&url, TaskKind::Page).await);
    assert_eq!(received.await.unwrap(), b"");
}

/// A request that began to wait for a clock before the end is not sent in the next term: other
/// machines may have requested the host since.
#[tokio::test]
async fn a_request_of_the_last_term_is_not_sent_in_the_next() {
    let server = Server::answering(response("", b"here")).await;
    let term = running();
    let fetcher = lab_with(|o| {
        o.term = Some(term.clone());
        o.booked = true;
    });
    let clocks = vec![("one".to_owned(), Duration::from_secs(30))];
    let booking = Booking {
        clocks,
        ..Booking::default()
    };
    // The clock starts here.
    fetcher.inner.gates.exit(&booking).send(async {}).await;
    let known = Validators::default();
    let url = server.url("/");
    let asked = fetcher.fetch_booked(&url, TaskKind::Page, &known, &booking);
    let next_term = async {
        term.end();
        term.set_end(now() + LONG);
    };
    let (asked, ()) = tokio::join!(asked, next_term);
    must_be_over(asked.answer);
    assert!(term.runs());
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_proxy_is_refused_with_a_term() {
    let mut options = lab_options();
    options.term = Some(running());
    options.proxy = Some(Proxy::from_text("http://127.0.0.1:3128").unwrap());
    let refused = Fetcher::new(options).unwrap_err().to_string();
    assert!(refused.contains("network.proxy"), "{refused}");
}

/// All other tests of requests also pass with this client.
#[test]
fn the_client_with_a_term_is_like_the_one_without() {
    GATED.set(true);
    for test in [
        bodies::a_plain_page as fn(),
        bodies::content_codings_are_decoded,
        bodies::a_chunked_body_is_put_together,
        bodies::no_content_is_an_empty_body,
        bodies::a_bomb_stops_at_the_cap,
        bodies::codings_are_named_in_many_ways,
        bodies::what_cannot_be_decoded_is_a_failure_that_names_the_coding,
        bodies::hundreds_of_header_lines_are_read,
        bodies::a_body_without_end_stops_at_the_cap,
        bodies::caps_are_exact_and_by_kind,
        bodies::a_declared_giant_is_refused_unread,
        bodies::content_length_too_short_gives_what_it_declares,
        bodies::our_own_throttle_is_not_the_servers_slowness,
        bodies::a_dropped_fetch_gives_back_what_it_held,
        failures::a_port_without_a_listener_is_a_failure,
        failures::cut_at_every_stage,
        failures::nonsense,
        failures::header_lines_that_browsers_forgive,
        failures::silence_is_a_timeout,
        failures::a_slow_drip_ends_in_time,
        failures::statuses_keep_their_retry_after,
        failures::redirects_are_answers,
        failures::redirects_to_nowhere,
        failures::reserved_names_do_not_resolve,
        failures::private_addresses_are_not_asked,
        tls::http2_where_both_offer_it,
        tls::https_to_an_address_follows_a_port,
        tls::http1_where_the_server_has_no_other,
        tls::certificates_are_judged,
        tls::a_plain_server_speaks_no_tls,
        tls::a_refused_stream_is_not_sent_again,
        versions::a_version_that_still_holds_brings_no_body,
        versions::another_version_comes_with_its_validators,
        versions::without_a_known_version_there_is_no_condition,
        booked::a_request_whose_connection_comes_late_waits_for_those_before_it,
        booked::a_request_goes_to_the_address_that_it_was_booked_for,
        booked::a_connection_that_does_not_stand_in_time_is_given_up,
        routing::requests_say_who_asks_and_no_more,
        routing::a_mapped_host_keeps_its_name,
        routing::the_first_rule_that_matches_wins,
        routing::without_a_port_the_urls_port_is_kept,
        routing::without_a_host_the_urls_host_is_kept,
        routing::an_address_as_target_needs_no_permission,
        routing::a_rule_without_a_target_exempts,
        routing::rules_that_lead_nowhere_are_refused,
        routing::connections_are_reused_under_the_right_name,
        routing::https_to_a_mapped_address_is_refused_by_name,
        routing::what_was_looked_up_is_what_is_connected_to,
        routing::a_silent_name_server_is_not_mistaken_for_a_silent_host,
    ] {
        test();
    }
}

/// A stream that records all bytes read.
struct Counted<'a> {
    stream: &'a mut TcpStream,
    read: Arc<Mutex<Vec<u8>>>,
}

impl<'a> Counted<'a> {
    fn new(stream: &'a mut TcpStream) -> Self {
        let read = Arc::default();
        Self { stream, read }
    }
}

impl tokio::io::AsyncRead for Counted<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        into: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        let before = into.filled().len();
        let polled = Pin::new(&mut *self.stream).poll_read(context, into);
        self.read
            .lock()
            .unwrap()
            .extend_from_slice(&into.filled()[before..]);
        polled
    }
}

impl tokio::io::AsyncWrite for Counted<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        Pin::new(&mut *self.stream).poll_shutdown(context)
    }
}
