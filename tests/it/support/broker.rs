//! Real NATS servers on loopback, for the tests of a cluster and of its engine, and for its bench.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::StreamExt as _;

/// The path of the server, if there is one: where `.ci/run` puts it, or in the path.
pub fn server() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/nats/bin/nats-server");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&path).map(|folder| folder.join("nats-server"));
    let runs = |path: &PathBuf| {
        let asked = Command::new(path).arg("--version").output();
        let said = asked.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
        // spoor refuses version 2.9, which Debian 12 has.
        said.is_ok_and(|said| !said.contains("v2.9."))
    };
    let server = std::iter::once(own).chain(others).find(runs);
    if server.is_none() {
        eprintln!("SKIPPED: no nats-server of 2.10 or newer; `.ci/run` installs one");
    }
    server
}

/// A port that is free and stays so, because servers are restarted on it. The system gives ports
/// from 32,768 on to anything that binds to port 0 or opens a connection, which other tests do all
/// the time.
fn free_port() -> u16 {
    static DRAWN: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    loop {
        // Concurrent processes begin at different ports.
        let drawn = DRAWN.fetch_add(1, Ordering::Relaxed);
        let place = std::process::id().wrapping_mul(1_009).wrapping_add(drawn) % 20_000;
        let port = 12_000 + u16::try_from(place).expect("below 20,000");
        if is_free(&port) {
            return port;
        }
    }
}

/// A server's output for a configuration; `None`, with a message, if none is installed.
pub fn check_configuration(text: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nats.conf");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(server()?);
    let checked = command
        .args(["-t", "-c"])
        .arg(&file)
        .env("SERVER_NAME", "n1");
    let out = checked.output().unwrap();
    Some(String::from_utf8_lossy(&out.stderr).into_owned())
}

fn address(port: u16) -> String {
    format!("nats://127.0.0.1:{port}")
}

/// The contents of streams.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stored {
    /// The number of messages.
    pub messages: u64,
    /// Their bytes, as counted by the servers.
    pub bytes: u64,
}

/// Servers, each of which can be killed and restarted.
pub struct Brokers {
    folder: tempfile::TempDir,
    server: PathBuf,
    ports: Vec<(u16, u16)>,
    running: Vec<Option<Child>>,
}

impl Brokers {
    /// Starts this many; `None`, with a message, if no server is installed.
    pub fn start(count: usize) -> Option<Self> {
        let server = server()?;
        let mut brokers = Self {
            folder: tempfile::tempdir().unwrap(),
            server,
            ports: (0..count).map(|_| (free_port(), free_port())).collect(),
            running: (0..count).map(|_| None).collect(),
        };
        (0..count).for_each(|number| brokers.begin(number));
        Some(brokers)
    }

    /// Starts one server.
    pub fn begin(&mut self, number: usize) {
        let (port, route) = self.ports[number];
        let store = self.folder.path().join(format!("n{number}"));
        let mut config = format!(
            "server_name: n{number}\nlisten: 127.0.0.1:{port}\n\
             jetstream {{ store_dir: {store:?}, sync_interval: always }}\n"
        );
        if self.ports.len() > 1 {
            let routes = self.ports.iter().map(|(_, port)| address(*port));
            let routes = Vec::from_iter(routes).join(",");
            config.push_str(&format!(
                "cluster {{ name: test, listen: \"127.0.0.1:{route}\", routes: [{routes}] }}\n"
            ));
        }
        let file = self.folder.path().join(format!("n{number}.conf"));
        std::fs::write(&file, config).unwrap();
        let child = Command::new(&self.server)
            .arg("-c")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.running[number] = Some(child.unwrap());
    }

    /// Kills one server.
    pub fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.running[number].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// The addresses for clients.
    pub fn addresses(&self) -> Vec<String> {
        self.ports.iter().map(|(port, _)| address(*port)).collect()
    }

    /// The same, as a list in TOML.
    pub fn list(&self) -> String {
        format!("{:?}", self.addresses())
    }

    /// The ports for clients.
    pub fn ports(&self) -> Vec<u16> {
        self.ports.iter().map(|(port, _)| *port).collect()
    }

    /// The ids of the running processes.
    pub fn ids(&self) -> Vec<u32> {
        self.running.iter().flatten().map(Child::id).collect()
    }

    /// The contents of all streams together.
    pub fn stored(&self) -> Stored {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let client = async_nats::connect(self.addresses()).await.unwrap();
            let mut streams = async_nats::jetstream::new(client).streams();
            let mut stored = Stored::default();
            while let Some(stream) = streams.next().await {
                let state = stream.unwrap().state;
                stored.messages += state.messages;
                stored.bytes += state.bytes;
            }
            stored
        })
    }

    /// The number of servers.
    pub fn count(&self) -> usize {
        self.ports.len()
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        (0..self.running.len()).for_each(|number| self.kill(number));
    }
}
