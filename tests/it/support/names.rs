//! A name server for one test, on loopback, that can stop answering.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use super::disk::run;

/// Answers every question for the address of a name with 127.0.0.1, unless it is silent.
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
    /// Starts it. `None`, with a message, if this machine does not let a test use a port below 1024
    /// and a separate `resolv.conf`.
    pub fn serve(folder: &Path) -> Option<Self> {
        static SERVERS: AtomicU8 = AtomicU8::new(53);
        let [.., high, low] = std::process::id().to_be_bytes();
        // A different address for each test of this process.
        let at = Ipv4Addr::new(127, SERVERS.fetch_add(1, Ordering::Relaxed), high, low);
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

    /// A command that runs `program` with this server as the only one, in a separate mount
    /// namespace.
    pub fn asked_by(&self, folder: &Path, program: &Path) -> Command {
        let (servers, order) = (folder.join("resolv.conf"), folder.join("nsswitch.conf"));
        let at = self.at;
        // One attempt, with a timeout of a second.
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

    /// The number of questions that were left unanswered.
    pub fn unanswered(&self) -> usize {
        self.state.unanswered.load(Ordering::SeqCst)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        // Wakes the thread, so that it sees the flag.
        let any = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        any.send_to(&[0], (self.at, 53)).ok();
    }
}

/// The answer to one question (RFC 1035 section 4): an address for type A, and none for all other
/// types.
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
        // The name of the question, type A, class IN, TTL 0.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}
