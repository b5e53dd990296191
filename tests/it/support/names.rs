//! A name server of a test's own, on loopback, that can fall silent.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::disk::run;

/// Answers every question for the address of a name with 127.0.0.1, as long as it is
/// alive.
#[derive(Debug)]
pub struct NameServer {
    at: Ipv4Addr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    silent: AtomicBool,
    unanswered: AtomicUsize,
    ended: AtomicBool,
}

impl NameServer {
    /// Begins to answer. `None` where this machine does not let a test have a port
    /// below 1024 and a `resolv.conf` of its own, and says so.
    pub fn serve(folder: &Path) -> Option<Self> {
        let [.., high, low] = std::process::id().to_be_bytes();
        let at = Ipv4Addr::new(127, 53, high, low);
        let socket = match UdpSocket::bind(SocketAddrV4::new(at, 53)) {
            Ok(socket) => socket,
            Err(why) => {
                println!("SKIPPED: this machine does not let the test serve names: {why}");
                return None;
            }
        };
        let own = Self {
            at,
            state: Arc::default(),
        };
        if let Err(why) = run(own.asked_by(folder, Path::new("true")).arg("true")) {
            println!("SKIPPED: this machine does not let the test choose a name server: {why}");
            return None;
        }
        let state = Arc::clone(&own.state);
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((n, from)) = socket.recv_from(&mut question) {
                if state.ended.load(Ordering::SeqCst) {
                    return;
                }
                if state.silent.load(Ordering::SeqCst) {
                    state.unanswered.fetch_add(1, Ordering::SeqCst);
                } else if let Some(answer) = answer(&question[..n]) {
                    socket.send_to(&answer, from).ok();
                }
            }
        });
        Some(own)
    }

    /// A command that runs `program` where this server is the only one there is:
    /// in a mount namespace of its own.
    pub fn asked_by(&self, folder: &Path, program: &Path) -> Command {
        let (servers, order) = (folder.join("resolv.conf"), folder.join("nsswitch.conf"));
        let at = self.at;
        // One question, and a second for its answer.
        let text = format!("nameserver {at}\noptions timeout:1 attempts:1\n");
        std::fs::write(&servers, text).unwrap();
        std::fs::write(&order, "hosts: files dns\n").unwrap();
        let script = "mount --bind \"$1\" /etc/resolv.conf && \
                      mount --bind \"$2\" /etc/nsswitch.conf && shift 2 && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]);
        command.args([servers.as_path(), order.as_path(), program]);
        command.stdin(std::process::Stdio::null());
        command
    }

    /// From now on questions stay unanswered, or are answered again.
    pub fn silent(&self, silent: bool) {
        self.state.silent.store(silent, Ordering::SeqCst);
    }

    /// Questions that were left unanswered.
    pub fn unanswered(&self) -> usize {
        self.state.unanswered.load(Ordering::SeqCst)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        // Wakes the thread, so that it sees it.
        let any = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        any.send_to(&[0], (self.at, 53)).ok();
    }
}

/// The answer to one question (RFC 1035 section 4): an address for type A, and that
/// there is none for all others.
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    let name = question.get(HEADER..)?.iter().position(|b| *b == 0)?;
    let end = HEADER + name + 5;
    let asked = question.get(HEADER..end)?;
    let is_address = asked.get(name + 1..name + 3)? == [0, 1];
    let mut answer = question.get(..2)?.to_vec();
    // A response to a recursive question; one question, one answer or none.
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
    answer.extend(asked);
    if is_address {
        // The name of the question, type A, class IN, no time to live.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}
