//! The zoo's listeners: which case a connection is for, and the honest parts of a hostile host.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::tls::Authority;
use super::{Behave, Case, HOST, JOB, Reply, Serve};

/// No crawler sends a longer request head.
const MAX_HEAD: usize = 64 * 1024;

/// The server's end of a connection.
#[derive(Debug)]
pub struct Connection(Io);

#[derive(Debug)]
enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Both directions of a connection.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

impl Connection {
    /// Sends all bytes.
    ///
    /// # Errors
    /// If the other side is gone, which ends most endless cases.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let io = self.io();
        io.write_all(bytes).await?;
        io.flush().await
    }

    /// Waits for some bytes from the other side; 0 if there are no more.
    ///
    /// # Errors
    /// If the connection is broken.
    pub async fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.io().read(buffer).await
    }

    /// Reads the head of a request: its lines, or `None` if there is none.
    ///
    /// # Errors
    /// If the connection is broken, or the data is not a head.
    pub async fn request(&mut self) -> io::Result<Option<String>> {
        let mut head = Vec::new();
        // Byte by byte, because later bytes do not belong to this request.
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if self.receive(&mut byte).await? == 0 {
                return Ok(None);
            }
            head.extend_from_slice(&byte);
            if head.len() > MAX_HEAD {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(Some(String::from_utf8_lossy(&head).into_owned()))
    }

    /// Signals the end, and waits until the other side has closed too, so that no unread data is
    /// lost.
    ///
    /// # Errors
    /// If the connection is broken.
    pub async fn close(mut self) -> io::Result<()> {
        self.io().shutdown().await?;
        self.wait().await
    }

    /// Reads without answering until the other side has closed.
    ///
    /// # Errors
    /// If the connection is broken.
    pub async fn wait(mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        while self.receive(&mut buffer).await? > 0 {}
        Ok(())
    }

    /// Ends the connection with a TCP reset.
    ///
    /// # Errors
    /// If the system does not support it.
    pub fn reset(self) -> io::Result<()> {
        let tcp = match &self.0 {
            Io::Plain(tcp) => tcp,
            Io::Tls(tls) => tls.get_ref().0,
        };
        tcp.set_zero_linger()
    }

    /// Both directions, for another protocol.
    pub fn into_io(self) -> Box<dyn Duplex> {
        match self.0 {
            Io::Plain(tcp) => Box::new(tcp),
            Io::Tls(tls) => tls,
        }
    }

    fn io(&mut self) -> &mut dyn Duplex {
        match &mut self.0 {
            Io::Plain(tcp) => tcp,
            Io::Tls(tls) => tls,
        }
    }
}

/// An open zoo. Dropping it closes it, with every connection.
#[derive(Debug)]
pub struct Running {
    /// Where plain HTTP is served.
    pub addr: SocketAddr,
    /// The certificate of the zoo's authority (PEM), for `network.extra_ca`.
    pub authority: String,
    connect_to: Vec<String>,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    /// [`JOB`] with the keys by which a job finds every case; `ca` is a file with the certificate
    /// of [`Running::authority`].
    pub fn job(&self, ca: Option<&Path>) -> String {
        let mut network = format!("[network]\nconnect_to = {:#?}\n", self.connect_to);
        if let Some(path) = ca {
            network.push_str(&format!("extra_ca = {path:?}\n"));
        }
        JOB.replacen("[network]\n", &network, 1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Opens a zoo with these cases in the background: plain HTTP on `addr` (port 0 takes a free one),
/// and the rest on free ports of the same address.
///
/// # Errors
/// If it cannot listen on `addr`.
pub async fn spawn(cases: Vec<Case>, addr: SocketAddr) -> io::Result<Running> {
    let other = SocketAddr::new(addr.ip(), 0);
    let plain = TcpListener::bind(addr).await?;
    let secure = TcpListener::bind(other).await?;
    let authority = Authority::new()?;
    let addr = plain.local_addr()?;
    let mut connect_to = Vec::new();
    let mut tasks = Vec::new();
    for case in &cases {
        if let Serve::Early { behave, .. } = &case.serve {
            let listener = TcpListener::bind(other).await?;
            connect_to.push(format!("{}::{}", case.host(), listener.local_addr()?));
            let behave = behave.clone();
            tasks.push(accept(listener, move |tcp| {
                behave(Connection(Io::Plain(tcp)), String::new())
            }));
        }
    }
    for (host, port, to) in [
        (format!("*.{HOST}"), 443, secure.local_addr()?),
        (format!("*.{HOST}"), 80, addr),
        (HOST.to_owned(), 80, addr),
    ] {
        connect_to.push(format!("{host}:{port}:{to}"));
    }
    let mut tls = HashMap::new();
    for case in &cases {
        if let Serve::Tls {
            certificate,
            http2,
            behave,
        } = &case.serve
        {
            let config = authority.server(&case.host(), *certificate, *http2)?;
            tls.insert(case.host(), (config, behave.clone()));
        }
    }
    let tls = Arc::new(tls);
    tasks.push(accept(secure, move |tcp| handshake(tls.clone(), tcp)));
    let zoo = Arc::new(cases);
    tasks.push(accept(plain, move |tcp| {
        converse(zoo.clone(), Connection(Io::Plain(tcp)))
    }));
    Ok(Running {
        addr,
        authority: authority.pem(),
        connect_to,
        tasks,
    })
}

/// Serves each connection in a separate task; all of them end with this one.
fn accept<F>(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> JoinHandle<()>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    tokio::spawn(async move {
        let mut open = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let Ok((tcp, _)) = accepted else { continue };
                    if let Err(error) = tcp.set_nodelay(true) {
                        tracing::debug!("TCP_NODELAY: {error}");
                    }
                    open.spawn(serve(tcp));
                }
                // Most cases end because the crawler hangs up.
                Some(ended) = open.join_next() => tracing::trace!(?ended, "a connection"),
            }
        }
    })
}

/// The TLS case that the client names.
async fn handshake(
    cases: Arc<HashMap<String, (Arc<ServerConfig>, Behave)>>,
    tcp: TcpStream,
) -> io::Result<()> {
    let hello = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), tcp).await?;
    let name = hello
        .client_hello()
        .server_name()
        .unwrap_or_default()
        .to_owned();
    let Some((config, behave)) = cases.get(&name) else {
        return Ok(());
    };
    let tls = hello.into_stream(config.clone()).await?;
    behave(Connection(Io::Tls(Box::new(tls))), String::new()).await
}

/// Answers requests until the hostile part of a host must take over.
async fn converse(zoo: Arc<Vec<Case>>, mut connection: Connection) -> io::Result<()> {
    while let Some(head) = connection.request().await? {
        let path = head.split(' ').nth(1).unwrap_or("/").to_owned();
        let host = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("host"))
            .map_or("", |(_, value)| value.trim());
        let case = zoo.iter().find(|case| case.host() == host);
        let reply = match case {
            Some(case) => match (honest(case, &path), &case.serve) {
                (Some(reply), _) => reply,
                (None, Serve::Web(reply)) => reply(&path),
                (None, Serve::Raw(behave)) => return behave(connection, path).await,
                (None, Serve::Early { .. } | Serve::Tls { .. }) => missing(),
            },
            None if host == HOST && path == "/" => front(&zoo),
            None => missing(),
        };
        answer(&mut connection, reply).await?;
    }
    Ok(())
}

/// The honest parts of a hostile host.
fn honest(case: &Case, path: &str) -> Option<Reply> {
    match path {
        _ if path == case.path => None,
        "/robots.txt" if case.expect.kind == "sitemap" => {
            let line = format!("Sitemap: {}\n", case.url());
            Some(Reply::new("text/plain", line))
        }
        "/robots.txt" | "/.well-known/tdmrep.json" => Some(missing()),
        "/" if case.entry() != case.url() => {
            Some(Reply::new("text/html", format!("<p>{}", case.about)))
        }
        _ => None,
    }
}

fn missing() -> Reply {
    Reply::new("text/plain", "not found\n").status(404)
}

/// The page that links to every case.
fn front(zoo: &[Case]) -> Reply {
    let mut html = String::from("<!DOCTYPE html><meta charset=utf-8><title>The zoo</title>");
    for case in zoo {
        let (entry, about) = (case.entry(), case.about);
        // Writing to a string cannot fail.
        let written = if case.is_embedded() {
            writeln!(html, "<p><img src=\"{entry}\" alt=\"{about}\"> {about}")
        } else {
            writeln!(html, "<p><a href=\"{entry}\">{about}</a>")
        };
        debug_assert!(written.is_ok());
    }
    Reply::new("text/html; charset=utf-8", html)
}

async fn answer(connection: &mut Connection, reply: Reply) -> io::Result<()> {
    let Reply {
        status,
        headers,
        body,
    } = reply;
    let mut head = format!("HTTP/1.1 {status} Zoo\r\n");
    let chunked = !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    for (name, value) in &headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(if chunked {
        "Transfer-Encoding: chunked\r\n\r\n"
    } else {
        "\r\n"
    });
    connection.send(head.as_bytes()).await?;
    for part in body.filter(|part: &Bytes| !part.is_empty()) {
        if chunked {
            connection
                .send(format!("{:x}\r\n", part.len()).as_bytes())
                .await?;
        }
        connection.send(&part).await?;
        if chunked {
            connection.send(b"\r\n").await?;
        }
    }
    if chunked {
        connection.send(b"0\r\n\r\n").await
    } else {
        Ok(())
    }
}
