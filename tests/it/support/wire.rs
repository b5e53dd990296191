//! A lab web behind a tap: every request is recorded when its first byte arrives, before the lab or
//! the crawler can continue.
//!
//! The lab's own observer sees a request only when it is answered, and never sees one whose client
//! died before that; but a kill test needs those. So the tap observes the connection: a request
//! began no later than its recorded beginning and ended no earlier than its recorded end, on any
//! machine.

use std::collections::{BTreeMap, HashSet};
use std::net::{SocketAddr, TcpStream as StdStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use spoor_lab::Lab;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use super::process::GUARD;

/// A request as seen on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// When its first byte was read.
    pub began: Instant,
    /// When the last part of its answer was about to be forwarded; `None` without an answer.
    pub ended: Option<Instant>,
    /// The `Host` header.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// The `User-Agent` header.
    pub agent: String,
    /// The status of the answer; `None` without one.
    pub status: Option<u16>,
}

impl Seen {
    /// Host and path.
    pub fn address(&self) -> String {
        format!("{}{}", self.host, self.path)
    }
}

/// Everything that the tap has recorded.
#[derive(Debug, Default)]
pub struct Notes {
    /// Requests in the order in which they began.
    pub requests: Vec<Seen>,
    /// Connections that were accepted.
    pub accepted: usize,
    /// Forwarded parts of answers.
    pub parts: usize,
    open: usize,
    peers: HashSet<u16>,
}

#[derive(Debug, Default)]
struct Shared {
    notes: Mutex<Notes>,
    changed: Condvar,
}

impl Notes {
    /// The number of request beginnings and answer parts: the crawl's own clock.
    pub fn events(&self) -> usize {
        self.requests.len() + self.parts
    }
}

impl Shared {
    fn note<T>(&self, change: impl FnOnce(&mut Notes) -> T) -> T {
        let result = change(&mut self.notes.lock().unwrap());
        self.changed.notify_all();
        result
    }
}

/// A web that is served and observed until this is dropped.
#[derive(Debug)]
pub struct Wire {
    /// The address of the web.
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    cut: tokio::sync::watch::Sender<bool>,
    _runtime: Runtime,
}

impl Wire {
    /// Serves a lab.
    pub fn serve(lab: Lab) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let shared = Arc::new(Shared::default());
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let (listener, addr, behind) = runtime.block_on(async {
            let behind = spoor_lab::spawn(lab, local).await.unwrap();
            let listener = TcpListener::bind(local).await.unwrap();
            let addr = listener.local_addr().unwrap();
            (listener, addr, behind)
        });
        let notes = Arc::clone(&shared);
        let (cut, is_cut) = tokio::sync::watch::channel(false);
        let mut cut_off = is_cut.clone();
        runtime.spawn(async move {
            // Held as long as this runs: dropping it ends the lab.
            let held = behind;
            let mut listener = Some(listener);
            loop {
                let open = match listener.take() {
                    Some(open) => open,
                    None => TcpListener::bind(addr).await.unwrap(),
                };
                let accepted = tokio::select! {
                    _ = cut_off.wait_for(|cut| *cut) => None,
                    accepted = open.accept() => Some(accepted.unwrap()),
                };
                let Some((stream, peer)) = accepted else {
                    // Nothing listens here until the network is restored.
                    drop(open);
                    cut_off.wait_for(|cut| !*cut).await.ok();
                    continue;
                };
                listener = Some(open);
                stream.set_nodelay(true).unwrap();
                notes.note(|n| {
                    n.accepted += 1;
                    n.open += 1;
                    n.peers.insert(peer.port());
                });
                let notes = Arc::clone(&notes);
                let mut is_cut = is_cut.clone();
                let to = held.addr;
                tokio::spawn(async move {
                    tokio::select! {
                        _ = is_cut.wait_for(|cut| *cut) => {}
                        () = tap(stream, to, &notes) => {}
                    }
                    notes.note(|n| n.open -= 1);
                });
            }
        });
        Self {
            addr,
            shared,
            cut,
            _runtime: runtime,
        }
    }

    /// Cuts every connection and stops listening; or listens again.
    pub fn cut(&self, cut: bool) {
        self.cut.send_replace(cut);
    }

    /// Cuts every open connection, but continues to listen.
    pub fn hang_up(&self) {
        self.cut(true);
        self.wait(|n| n.open == 0, || false);
        self.cut(false);
    }

    /// Everything recorded so far.
    pub fn notes(&self) -> MutexGuard<'_, Notes> {
        self.shared.notes.lock().unwrap()
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Seen> {
        self.notes().requests.clone()
    }

    /// Waits until the notes are as wanted; false if `until`, which is called now and then, is true
    /// first.
    pub fn wait(
        &self,
        wanted: impl Fn(&Notes) -> bool,
        mut given_up: impl FnMut() -> bool,
    ) -> bool {
        const LOOK: Duration = Duration::from_millis(50);
        let mut notes = self.notes();
        let mut moved = (Instant::now(), notes.events());
        loop {
            if wanted(&notes) {
                return true;
            }
            if notes.events() > moved.1 {
                moved = (Instant::now(), notes.events());
            }
            assert!(
                moved.0.elapsed() < GUARD,
                "what was waited for did not happen; {} requests were seen",
                notes.requests.len()
            );
            (notes, _) = self.shared.changed.wait_timeout(notes, LOOK).unwrap();
            if given_up() && !wanted(&notes) {
                return false;
            }
        }
    }

    /// Waits until a request for this host and path has begun.
    pub fn wait_for(&self, address: &str) {
        self.wait(
            |n| n.requests.iter().any(|r| r.address() == address),
            || false,
        );
    }

    /// Waits until there was no request for this long. False if that does not happen.
    pub fn silence(&self, least: Duration) -> bool {
        let mut notes = self.notes();
        let begun = Instant::now();
        let mut last = (Instant::now(), notes.events());
        while begun.elapsed() < GUARD {
            if notes.events() > last.1 {
                last = (Instant::now(), notes.events());
            }
            let left = least.saturating_sub(last.0.elapsed());
            if left.is_zero() {
                return true;
            }
            (notes, _) = self.shared.changed.wait_timeout(notes, left).unwrap();
        }
        false
    }

    /// Returns when everything sent before this call is recorded and all connections are closed.
    /// Call it when the clients are dead.
    pub fn settle(&self) {
        // Connections are accepted in the order in which they were made, so when this one is
        // accepted, all of them were.
        let mark = StdStream::connect(self.addr).unwrap();
        let port = mark.local_addr().unwrap().port();
        drop(mark);
        self.wait(|n| n.peers.contains(&port) && n.open == 0, || false);
        self.shared.note(|n| {
            n.peers.clear();
            n.accepted -= 1;
        });
    }
}

/// Forwards bytes in both directions until either side ends.
async fn tap(client: TcpStream, to: SocketAddr, notes: &Shared) {
    let Ok(server) = TcpStream::connect(to).await else {
        return;
    };
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // The number of the request that is being answered on this connection.
    let current = Mutex::new(None);
    tokio::select! {
        () = forth(from_client, to_server, notes, &current) => {}
        () = back(from_server, to_client, notes, &current) => {}
    }
}

async fn forth(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    notes: &Shared,
    current: &Mutex<Option<usize>>,
) {
    let mut buffer = vec![0; 16 * 1024];
    let mut head = Vec::new();
    let mut began = Instant::now();
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        if head.is_empty() {
            began = Instant::now();
        }
        head.extend_from_slice(&buffer[..n]);
        // The crawler sends no bodies, so a blank line ends a request.
        while let Some(end) = head.windows(4).position(|w| w == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&head[..end]).into_owned();
            head.drain(..end + 4);
            let seen = parse(&text, began);
            let number = notes.note(|n| {
                n.requests.push(seen);
                n.requests.len() - 1
            });
            *current.lock().unwrap() = Some(number);
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

async fn back(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    notes: &Shared,
    current: &Mutex<Option<usize>>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let n = from.read(&mut buffer).await.unwrap_or(0);
        let number = *current.lock().unwrap();
        let status = buffer[..n]
            .strip_prefix(b"HTTP/1.1 ")
            .and_then(|rest| std::str::from_utf8(rest.get(..3)?).ok()?.parse().ok());
        notes.note(|notes| {
            notes.parts += 1;
            if let Some(seen) = number.and_then(|i| notes.requests.get_mut(i)) {
                // A connection that closes after the answer does not end the request again.
                if n > 0 || seen.status.is_none() {
                    seen.ended = Some(Instant::now());
                }
                seen.status = seen.status.or(status);
            }
        });
        if n == 0 || to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

fn parse(head: &str, began: Instant) -> Seen {
    let mut lines = head.lines();
    let path = lines.next().and_then(|line| line.split(' ').nth(1));
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    Seen {
        began,
        ended: None,
        host: header("host"),
        path: path.unwrap_or_default().to_owned(),
        agent: header("user-agent"),
        status: None,
    }
}

/// How much too early a request may seem: spoor's clock counts whole milliseconds.
pub const GRAIN: Duration = Duration::from_millis(2);

/// Requests to one host that overlap, or that began less than `delay(host)` after the end of the
/// previous one.
pub fn too_close(requests: &[Seen], delay: impl Fn(&str) -> Duration) -> Vec<String> {
    let mut last: BTreeMap<&str, &Seen> = BTreeMap::new();
    let mut wrong = Vec::new();
    for seen in requests {
        if let Some(before) = last.insert(&seen.host, seen) {
            let free = before.ended.unwrap_or(before.began) + delay(&seen.host);
            if seen.began + GRAIN < free {
                let early = free - seen.began;
                let (a, b) = (&before.path, &seen.path);
                wrong.push(format!("{}: {b} {early:?} too early after {a}", seen.host));
            }
        }
    }
    wrong
}

#[test]
fn requests_that_are_too_close_are_found() {
    let zero = Instant::now();
    let ms = Duration::from_millis;
    let seen = |host: &str, began: u64, ended: Option<u64>| Seen {
        began: zero + ms(began),
        ended: ended.map(|e| zero + ms(e)),
        host: host.to_owned(),
        path: format!("/{began}"),
        agent: String::new(),
        status: Some(200),
    };
    let fine = [
        seen("a", 0, Some(5)),
        seen("b", 1, Some(3)),
        seen("a", 25, None),
        seen("a", 45, None),
    ];
    let delay = |_: &str| ms(20);
    assert_eq!(too_close(&fine, delay), Vec::<String>::new());
    for (second, early) in [(seen("a", 22, None), "3ms"), (seen("a", 4, None), "21ms")] {
        let wrong = too_close(&[seen("a", 0, Some(5)), second], delay);
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].contains(early), "{wrong:?}");
    }
    // A request that was never answered still counts.
    assert_eq!(
        too_close(&[seen("a", 0, None), seen("a", 10, None)], delay).len(),
        1
    );
}
