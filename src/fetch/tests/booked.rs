//! Booked requests: to which address they go, and when.

use std::net::IpAddr;
use std::sync::mpsc;

use tokio::time::Instant;

use super::super::resolve::NameService;
use super::*;

const PAUSE: Duration = Duration::from_millis(300);

fn booked_options() -> Options {
    Options {
        booked: true,
        ..lab_options()
    }
}

fn booking(address: Option<IpAddr>) -> Booking {
    Booking {
        address,
        clocks: vec![("address 127.0.0.1".to_owned(), PAUSE)],
        ..Booking::default()
    }
}

async fn ask(fetcher: &Fetcher, url: &str, booking: &Booking) -> Result<Answer, FetchError> {
    let url = PageUrl::parse(url).unwrap();
    let known = Validators::default();
    let answer = fetcher.fetch_booked(&url, TaskKind::Page, &known, booking);
    answer.await.answer
}

/// Delays before a request is sent do not bring it too close to another one.
#[tokio::test]
pub(super) async fn a_request_whose_connection_comes_late_waits_for_those_before_it() {
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let stamps = arrived.clone();
    let server = Server::http(move |mut stream, head| {
        stamps.lock().unwrap().push((Instant::now(), head));
        async move {
            send(&mut stream, &response("", b"here")).await;
        }
    })
    .await;
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let (begun, has_begun) = tokio::sync::oneshot::channel::<()>();
    let begun = Mutex::new(Some(begun));
    let names = NameService::answered_by(move |_| {
        if let Some(begun) = begun.lock().unwrap().take() {
            begun.send(()).unwrap();
        }
        gone.lock().unwrap().recv().unwrap();
        Ok(vec![[127, 0, 0, 1].into()])
    });
    let fetcher = Fetcher::asking(booked_options(), &names).unwrap();
    let port = server.address.port();
    let late = tokio::spawn({
        let fetcher = fetcher.clone();
        async move {
            let url = format!("http://late.example:{port}/");
            ask(&fetcher, &url, &booking(None)).await.unwrap()
        }
    });
    has_begun.await.unwrap();
    // It takes no clock before it is connected, so this one need not wait.
    let before = Instant::now();
    let quick = format!("http://127.0.0.1:{port}/");
    ask(&fetcher, &quick, &booking(None)).await.unwrap();
    go.send(()).unwrap();
    late.await.unwrap();
    ask(&fetcher, &quick, &booking(None)).await.unwrap();
    let arrived = arrived.lock().unwrap();
    let hosts = ["127.0.0.1", "late.example", "127.0.0.1"];
    for ((_, head), host) in arrived.iter().zip(hosts) {
        assert!(
            head.to_lowercase().contains(&format!("host: {host}")),
            "{head}"
        );
    }
    assert_eq!(arrived.len(), 3);
    assert!(
        arrived[0].0 < before + PAUSE,
        "it waited for one that was not sent"
    );
    // For the first, the time of arrival is known; for the others, the moment before sending.
    for (n, (at, _)) in arrived.iter().enumerate().skip(1) {
        assert!(*at >= before + PAUSE * n as u32, "{n}");
    }
}

#[tokio::test]
pub(super) async fn a_request_goes_to_the_address_that_it_was_booked_for() {
    let listener = TcpListener::bind(("127.0.0.2", 0)).await.unwrap();
    let server = Server::http_at(listener, |mut stream, _| async move {
        send(&mut stream, &response("", b"here")).await;
    });
    // The first and last addresses of the name service are different ones.
    let names =
        NameService::answered_by(|_| Ok([3, 2, 4].map(|n| IpAddr::from([127, 0, 0, n])).to_vec()));
    let url = format!("http://many.example:{}/", server.address.port());
    let fetcher = Fetcher::asking(booked_options(), &names).unwrap();
    let second = Booking {
        address: Some([127, 0, 0, 2].into()),
        ..Booking::default()
    };
    ask(&fetcher, &url, &second).await.unwrap();
    assert_eq!(fetcher.names_found(), 0, "the address is known already");
    let third = Booking {
        address: Some([127, 0, 0, 3].into()),
        ..Booking::default()
    };
    // That address does not respond, and no other one is used instead. A separate client has no
    // open connection.
    let fetcher = Fetcher::asking(booked_options(), &names).unwrap();
    let error = ask(&fetcher, &url, &third).await.unwrap_err();
    assert!(
        matches!(error.kind, FetchFailure::Connection { .. }),
        "{error:?}"
    );
    assert_eq!(server.connections(), 1);
    // It is judged again, by the rules of this run.
    let options = Options {
        allow_private: false,
        ..booked_options()
    };
    let fetcher = Fetcher::asking(options, &names).unwrap();
    let error = ask(&fetcher, &url, &second).await.unwrap_err();
    assert!(
        matches!(error.kind, FetchFailure::PrivateAddress { .. }),
        "{error:?}"
    );
}

#[tokio::test]
pub(super) async fn a_connection_that_does_not_stand_in_time_is_given_up() {
    let silent = Server::raw(|mut stream| async move { until_closed(&mut stream).await }).await;
    let fetcher = lab_with(|options| {
        options.booked = true;
        options.connect_timeout = Duration::from_millis(50);
    });
    let url = format!("https://{}/", silent.address);
    let error = ask(&fetcher, &url, &booking(None)).await.unwrap_err();
    let phase = Phase::Connecting;
    assert!(
        matches!(error.kind, FetchFailure::Timeout { phase: p, .. } if p == phase),
        "{error:?}"
    );
}
