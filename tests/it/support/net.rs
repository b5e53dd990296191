//! A separate network for a process, like that of a machine with a bad line.
//!
//! It is a network namespace with only loopback. Some ports of the test's own loopback are
//! available there under the same numbers, through a relay, so a process in it needs no other
//! settings. Packets to these ports, and from them, can be lost: some at random, or all. The kernel
//! drops them, so the effects are those of TCP: it sends again, with growing delays. The network
//! disappears when its processes and this value are gone.

use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use nix::sched::{CloneFlags, unshare};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// Loss of packets.
#[derive(Debug, Clone, Copy)]
pub struct Loss {
    /// The port on the other side.
    pub port: u16,
    /// The share lost of the packets to it.
    pub to: f64,
    /// The share lost of the packets from it.
    pub from: f64,
}

type Errand = Box<dyn FnOnce() + Send>;

/// A network. See the module's documentation.
#[derive(Debug)]
pub struct Net {
    errands: Option<Sender<Errand>>,
    inside: Option<JoinHandle<()>>,
    _relays: Runtime,
}

impl Net {
    /// A network with these ports; `None`, with a message, if the system does not permit it.
    pub fn with(ports: &[u16]) -> Option<Self> {
        let (errands, errand) = channel::<Errand>();
        let (sender, receiver) = channel();
        let wanted = ports.to_vec();
        let inside = std::thread::spawn(move || {
            let begun = begin(&wanted);
            let is_there = begun.is_ok();
            sender.send(begun).unwrap();
            if is_there {
                errand.into_iter().for_each(|errand| errand());
            }
        });
        let listeners = match receiver.recv().unwrap() {
            Ok(listeners) => listeners,
            Err(why) => {
                println!("SKIPPED: this machine lets the test have no network: {why}");
                return None;
            }
        };
        let relays = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        for (listener, port) in listeners.into_iter().zip(ports.to_vec()) {
            relays.spawn(relay(listener, port));
        }
        let net = Self {
            errands: Some(errands),
            inside: Some(inside),
            _relays: relays,
        };
        Some(net)
    }

    /// Runs `act` inside: a process that it starts is in this network.
    pub fn run<T: Send + 'static>(&self, act: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, receiver) = channel();
        let act = Box::new(move || sender.send(act()).unwrap());
        self.errands.as_ref().unwrap().send(act).unwrap();
        receiver.recv().unwrap()
    }

    /// Loses these packets, and no others.
    pub fn lose(&self, losses: &[Loss]) {
        let program = program(losses);
        self.run(move || lose(&program)).unwrap();
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.errands = None;
        if let Some(inside) = self.inside.take() {
            inside.join().ok();
        }
    }
}

/// Moves this thread into a new network, and listens there.
fn begin(ports: &[u16]) -> Result<Vec<StdListener>, String> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| error.to_string())?;
    call("ip", "link set lo up")?;
    call("tc", "qdisc add dev lo clsact")?;
    lose(&program(&[]))?;
    let listen = |port: &u16| {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, *port))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let listeners: std::io::Result<_> = ports.iter().map(listen).collect();
    listeners.map_err(|error| error.to_string())
}

fn call(program: &str, arguments: &str) -> Result<(), String> {
    call_with(program, arguments.split(' ').collect())
}

fn call_with(program: &str, arguments: Vec<&str>) -> Result<(), String> {
    match Command::new(program).args(&arguments).output() {
        Ok(ran) if ran.status.success() => Ok(()),
        Ok(ran) => Err(format!(
            "{program} {arguments:?}: {}",
            String::from_utf8_lossy(&ran.stderr)
        )),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

fn lose(program: &str) -> Result<(), String> {
    // Replaces the filter at once, so that no packet passes in between.
    let filter = "filter replace dev lo egress protocol all prio 1 handle 1 bpf da bytecode";
    let mut arguments: Vec<&str> = filter.split(' ').collect();
    arguments.push(program);
    call_with("tc", arguments)
}

/// A program of the packet filter (classic BPF) for packets that leave on loopback: TCP over
/// IPv4 in an Ethernet frame.
fn program(losses: &[Loss]) -> String {
    const PASS: u32 = 0;
    const DROP: u32 = 2;
    /// A random number in place of a part of the packet.
    const RANDOM: u32 = 0xffff_f000 + 56;
    let mut code: Vec<(u16, u8, u8, u32)> = Vec::new();
    // X is the length of the IP header, after which come the two ports.
    code.push((0xb1, 0, 0, 14));
    for loss in losses {
        for (at, share) in [(14, loss.from), (16, loss.to)] {
            let below = (share * f64::from(u32::MAX)) as u32;
            code.push((0x48, 0, 0, at));
            code.push((0x15, 0, 3, u32::from(loss.port)));
            code.push((0x20, 0, 0, RANDOM));
            code.push((0x35, 1, 0, below));
            code.push((0x06, 0, 0, DROP));
        }
    }
    code.push((0x06, 0, 0, PASS));
    let lines = code
        .iter()
        .map(|(op, yes, no, k)| format!("{op} {yes} {no} {k},"));
    format!("{},{}", code.len(), String::from_iter(lines))
}

async fn relay(listener: StdListener, port: u16) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let (mut inner, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let Ok(mut outer) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else {
                // Nothing listens there: the connection is reset.
                return;
            };
            inner.set_nodelay(true).unwrap();
            outer.set_nodelay(true).unwrap();
            // If one side breaks, both end.
            drop(tokio::io::copy_bidirectional(&mut inner, &mut outer).await);
        });
    }
}

#[test]
fn packets_are_lost_as_they_are_to_be() {
    use std::io::{Read, Write};
    use std::time::Duration;

    let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let Some(net) = Net::with(&[port]) else {
        return;
    };
    let connect = move || {
        let to = (Ipv4Addr::LOCALHOST, port).into();
        std::net::TcpStream::connect_timeout(&to, Duration::from_millis(300))
    };
    let mut inner = net.run(connect).unwrap();
    let (mut outer, _) = listener.accept().unwrap();
    let wait = Some(Duration::from_millis(300));
    inner.set_read_timeout(wait).unwrap();
    outer.set_read_timeout(wait).unwrap();
    let mut byte = [0];
    // Nothing arrives at the other side, but packets from there do.
    let cut = |to, from| net.lose(&[Loss { port, to, from }]);
    cut(1.0, 0.0);
    inner.write_all(b"a").unwrap();
    outer.write_all(b"b").unwrap();
    assert!(outer.read(&mut byte).is_err());
    inner.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"b");
    assert!(net.run(connect).is_err());
    // Lost packets are sent again.
    cut(0.0, 0.0);
    outer.set_read_timeout(None).unwrap();
    outer.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"a");
    cut(0.0, 1.0);
    inner.write_all(b"c").unwrap();
    outer.read_exact(&mut byte).unwrap();
    outer.write_all(b"d").unwrap();
    assert!(inner.read(&mut byte).is_err());
    // With a third lost, everything arrives in the end.
    cut(0.3, 0.3);
    inner.set_read_timeout(None).unwrap();
    inner.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"d");
}
