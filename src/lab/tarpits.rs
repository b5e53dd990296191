//! A web with hosts that keep requests open as long as they can, or send data that takes long to
//! process.
//!
//! Honest hosts, `h0.test` and so on, have a chain of pages each. The second page of every chain
//! leads to all hostile hosts, `t0.test` and so on, which do one of [`Kind`] as long as the client
//! permits. Names and connections cost their owner nothing, so there may be any number of them; the
//! measure is how many honest pages are requested in the meantime ([`Running::asked`]). Training
//! texts are on a separate host, `texts.test`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::demo;
use super::traps::mix;

/// The pause between two bytes: below any `read_timeout` that an honest web permits.
const DRIP: Duration = Duration::from_secs(1);

/// The bytes at the start of a slow body.
const BEGINNING: usize = 8_960_000;

/// How many large pages or PDF files a hostile host links to.
const MANY: usize = 1_000;

/// Words of an honest page.
const WORDS: u64 = 60;

/// No crawler sends a longer request head.
const MAX_HEAD: usize = 64 * 1024;

const HTML: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";

/// The behaviour of hostile hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Never respond.
    Silent,
    /// Send a byte of the head now and then.
    DripHead,
    /// Send a byte of robots.txt now and then.
    DripRobots,
    /// Have no robots.txt, and send a byte of the page now and then.
    DripPage,
    /// Send 9 MB of a page at once, and then a byte now and then.
    SlowBody,
    /// Send page after page of 9 MB, full of text and links.
    LargeBody,
    /// Send PDF files, one after the other, that could take any amount of time.
    PdfBomb,
}

impl Kind {
    /// All of them, by name.
    pub const ALL: [(&str, Self); 7] = [
        ("silent", Self::Silent),
        ("drip-head", Self::DripHead),
        ("drip-robots", Self::DripRobots),
        ("drip-page", Self::DripPage),
        ("slow-body", Self::SlowBody),
        ("large-body", Self::LargeBody),
        ("pdf-bomb", Self::PdfBomb),
    ];
}

/// The parameters of such a web.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The behaviour of hostile hosts.
    pub kind: Kind,
    /// How many there are.
    pub hostile: usize,
    /// How many honest hosts there are.
    pub honest: usize,
    /// Pages of each honest host.
    pub pages: u64,
    /// Bytes of each honest page.
    pub bytes: usize,
}

impl Plan {
    /// A job file that crawls this web, served at `web`.
    pub fn job(&self, web: SocketAddr) -> String {
        let seeds: Vec<String> = (0..self.honest)
            .map(|n| format!("http://h{n}.test/"))
            .collect();
        let types = match self.kind {
            Kind::PdfBomb => "\n[scope]\naccept_types = [\"text/html\", \"application/pdf\"]\n",
            _ => "",
        };
        format!(
            r#"# Ends when every honest page was asked for, or by a limit.
[job]
name = "tarpits"
contact = "mailto:lab@localhost"

[seeds]
urls = {seeds:?}

[train]
positive = ["http://texts.test/positive.txt"]
neutral = ["http://texts.test/neutral.txt"]

[network]
connect_to = ["*.test:80:{web}"]
{types}
[strategy]
kind = "unfocused"

[control]
listen = false
"#
        )
    }

    /// The page of an honest host with this number, with `bytes` bytes.
    fn page(&self, host: usize, number: u64) -> String {
        let mut html = format!("<!DOCTYPE html><title>{number} of {host}</title>");
        if number + 1 < self.pages {
            html.push_str(&format!("<p><a href=\"/{}\">the next one</a>", number + 1));
        }
        if number == 1 {
            let hostile =
                (0..self.hostile).map(|n| format!(" <a href=\"http://t{n}.test/\">{n}</a>"));
            html.extend(hostile);
        }
        html.push_str(&format!("<p>{}.<!-- ", words(host as u64, number)));
        let left = self.bytes.saturating_sub(html.len() + 4);
        html.extend(std::iter::repeat_n('.', left));
        html.push_str(" -->");
        html
    }
}

/// A running web. Dropping this ends it, with every connection.
#[derive(Debug)]
pub struct Running {
    /// The address that it listens on.
    pub addr: SocketAddr,
    asked: watch::Receiver<u64>,
    held: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

impl Running {
    /// How many honest pages were requested so far.
    pub fn asked(&self) -> watch::Receiver<u64> {
        self.asked.clone()
    }

    /// How many requests the hostile hosts hold at present.
    pub fn held(&self) -> watch::Receiver<u64> {
        self.held.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Web {
    plan: Plan,
    positive: String,
    neutral: String,
    asked: watch::Sender<u64>,
    held: watch::Sender<u64>,
}

/// Counts a request among those that are held, until it is dropped.
struct HeldRequest<'a>(&'a watch::Sender<u64>);

impl Drop for HeldRequest<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held = held.saturating_sub(1));
    }
}

/// Serves such a web in the background.
///
/// # Errors
/// If it cannot listen on `addr`.
pub async fn spawn(plan: Plan, addr: SocketAddr) -> io::Result<Running> {
    let listener = TcpListener::bind(addr).await?;
    let addr = listener.local_addr()?;
    let (asked, asked_for) = watch::channel(0);
    let (held, are_held) = watch::channel(0);
    let texts = demo::training();
    let whole = |texts: &[(String, String)]| -> String {
        let texts: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
        texts.join("\n")
    };
    let web = Arc::new(Web {
        plan,
        positive: whole(&texts.positive),
        neutral: whole(&texts.neutral),
        asked,
        held,
    });
    let task = tokio::spawn(async move {
        let mut open = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let Ok((tcp, _)) = accepted else { continue };
                    let web = Arc::clone(&web);
                    open.spawn(async move { web.converse(tcp).await });
                }
                // Most of them end because the crawler closes the connection.
                Some(ended) = open.join_next() => tracing::trace!(?ended, "a connection"),
            }
        }
    });
    Ok(Running {
        addr,
        asked: asked_for,
        held: are_held,
        task,
    })
}

impl Web {
    async fn converse(&self, mut tcp: TcpStream) -> io::Result<()> {
        tcp.set_nodelay(true)?;
        while let Some((host, path)) = request(&mut tcp).await? {
            let number = |prefix: &str| {
                let name = host.strip_suffix(".test")?.strip_prefix(prefix)?;
                name.parse::<usize>().ok()
            };
            let robots = path == "/robots.txt";
            let answer = match (number("h"), number("t")) {
                (Some(host), _) if host < self.plan.honest && !robots => {
                    self.asked.send_modify(|asked| *asked += 1);
                    let page = path.trim_start_matches('/').parse().unwrap_or(0);
                    let page = (page < self.plan.pages).then(|| self.plan.page(host, page));
                    page.map(|page| ("text/html", page))
                }
                (_, Some(hostile))
                    if hostile < self.plan.hostile && !self.is_honest(robots, &path) =>
                {
                    if let Some((kind, body)) = self.whole(hostile, &path) {
                        self.held
                            .send_modify(|held| *held += u64::from(path != "/"));
                        send(&mut tcp, "200 OK", kind, &body).await?;
                        continue;
                    }
                    self.held.send_modify(|held| *held += 1);
                    let _held = HeldRequest(&self.held);
                    return self.hold(tcp).await;
                }
                _ if host == "texts.test" => match path.as_str() {
                    "/positive.txt" => Some(("text/plain", self.positive.clone())),
                    "/neutral.txt" => Some(("text/plain", self.neutral.clone())),
                    _ => None,
                },
                _ => None,
            };
            let (status, (kind, body)) = match answer {
                Some(answer) => ("200 OK", answer),
                None => ("404 Not Found", ("text/plain", "not found\n".to_owned())),
            };
            send(&mut tcp, status, kind, body.as_bytes()).await?;
        }
        Ok(())
    }

    /// Whether a hostile host answers such a request properly, with 404.
    fn is_honest(&self, robots: bool, path: &str) -> bool {
        match self.plan.kind {
            Kind::Silent | Kind::DripHead => false,
            Kind::DripRobots => !robots,
            Kind::DripPage | Kind::SlowBody | Kind::LargeBody | Kind::PdfBomb => {
                robots || path.starts_with("/.well-known/")
            }
        }
    }

    /// The complete response of a hostile host, if it sends one.
    fn whole(&self, host: usize, path: &str) -> Option<(&'static str, Vec<u8>)> {
        let kind = self.plan.kind;
        if !matches!(kind, Kind::LargeBody | Kind::PdfBomb) {
            return None;
        }
        if path == "/" {
            let links = (0..MANY).map(|n| format!("<a href=\"/{n}\">{n}</a> "));
            return Some(("text/html", links.collect::<String>().into_bytes()));
        }
        let number = path.trim_start_matches('/').parse().unwrap_or(0);
        Some(match kind {
            Kind::PdfBomb => ("application/pdf", bomb(number)),
            _ => ("text/html", large(host as u64, number).into_bytes()),
        })
    }

    /// Continues until the client has gone.
    async fn hold(&self, mut tcp: TcpStream) -> io::Result<()> {
        match self.plan.kind {
            Kind::Silent => {
                let mut buffer = [0; 1024];
                while tcp.read(&mut buffer).await? > 0 {}
                return Ok(());
            }
            Kind::DripHead => tcp.write_all(b"HTTP/1.1 200 OK\r\nX: ").await?,
            Kind::DripRobots => {
                tcp.write_all(HTML.replace("html", "plain").as_bytes())
                    .await?;
            }
            Kind::DripPage => tcp.write_all(HTML.as_bytes()).await?,
            // The other kinds hold nothing.
            Kind::SlowBody | Kind::LargeBody | Kind::PdfBomb => {
                tcp.write_all(HTML.as_bytes()).await?;
                tcp.write_all(&vec![b' '; BEGINNING]).await?;
            }
        }
        loop {
            tokio::time::sleep(DRIP).await;
            tcp.write_all(b"a").await?;
        }
    }
}

/// A page of [`BEGINNING`] bytes that contains as much text and links as allowed.
fn large(host: u64, number: u64) -> String {
    let words = words(1 << 20 | host, number);
    let mut html = String::with_capacity(BEGINNING + 1_024);
    let mut n = 0;
    while html.len() < BEGINNING {
        let link = format!("<p><b>{n}</b> <a href=\"/{number}-{n}\">{n}</a> ");
        html.push_str(&link);
        html.push_str(&words);
        n += 1;
    }
    html
}

/// A PDF file whose page shows a form twice, which shows another form twice, and so on.
pub(crate) fn bomb(number: u64) -> Vec<u8> {
    let resources = |next: u64| format!("/Resources << /XObject << /X {next} 0 R >> >>");
    let mut file = format!(
        "%PDF-1.4\n% {number}\n1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj\n2 0 obj << /Type \
         /Pages /Kids [3 0 R] /Count 1 >> endobj\n3 0 obj << /Type /Page /Parent 2 0 R /MediaBox \
         [0 0 612 792] /Contents 4 0 R {} >> endobj\n4 0 obj << /Length 5 >>\nstream\n/X Do\n\
         endstream endobj\n",
        resources(5)
    );
    for level in 5..45 {
        file.push_str(&format!(
            "{level} 0 obj << /Type /XObject /Subtype /Form /BBox [0 0 612 792] {} /Length 11 >>\n\
             stream\n/X Do /X Do\nendstream endobj\n",
            resources(level + 1)
        ));
    }
    file.push_str("trailer << /Root 1 0 R >>\n%%EOF\n");
    file.into_bytes()
}

async fn send(tcp: &mut TcpStream, status: &str, kind: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
    tcp.write_all(head.as_bytes()).await?;
    tcp.write_all(body).await
}

/// Words that no other page has, so that it does not count as a copy.
fn words(host: u64, page: u64) -> String {
    let word = |n: u64| {
        let mut left = mix(host << 32 ^ page << 8 ^ n);
        let mut letters = String::new();
        for _ in 0..8 {
            letters.push(char::from(b'a' + (left % 26) as u8));
            left /= 26;
        }
        letters
    };
    let words: Vec<String> = (0..WORDS).map(word).collect();
    words.join(" ")
}

/// Host and path of the next request, if there is one.
async fn request(tcp: &mut TcpStream) -> io::Result<Option<(String, String)>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > MAX_HEAD || tcp.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or("/").to_owned();
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let host = lines.find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let host = host.map_or("", |(_, value)| value.trim()).to_owned();
    Ok(Some((host, path)))
}
