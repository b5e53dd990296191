//! Who the crawler is, as a server sees it that asks for signatures and checks them.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use web_bot_auth::WebBotAuthVerifier;
use web_bot_auth::components::{
    CoveredComponent, DerivedComponent, HTTPField, HTTPFieldParameters,
};
use web_bot_auth::keyring::{JSONWebKeySet, KeyRing};
use web_bot_auth::message_signatures::SignedMessage;

use crate::archiving::{ARCHIVE, records};
use crate::support::texts::plain;
use crate::support::{Job, JobText, Ran, spoor};

/// A request: its path and its headers in lower case.
#[derive(Debug, Clone)]
struct Asked {
    path: String,
    headers: HashMap<String, String>,
}

impl SignedMessage for Asked {
    fn lookup_component(&self, name: &CoveredComponent) -> Vec<String> {
        let header = |name: &str| self.headers.get(name).cloned();
        match name {
            CoveredComponent::HTTP(HTTPField { name, parameters }) => {
                let mut all = parameters.0.iter();
                let is_member = all.any(|p| matches!(p, HTTPFieldParameters::Key(_)));
                // The crawler sends one member.
                let value = header(name).map(|value| match value.split_once('=') {
                    Some((_, member)) if is_member => member.to_owned(),
                    _ => value.clone(),
                });
                value.into_iter().collect()
            }
            CoveredComponent::Derived(derived) => match derived {
                DerivedComponent::Method { .. } => vec!["GET".to_owned()],
                DerivedComponent::Authority { .. } => header("host").into_iter().collect(),
                DerivedComponent::Path { .. } => vec![self.path.clone()],
                _ => Vec::new(),
            },
        }
    }
}

/// How a server treats requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    /// Asks for a signature and accepts a valid one once.
    Asks,
    /// The same with a nonce of its own, in answers of 429.
    AsksWithNonce,
    /// Its clock is a day ahead.
    Ahead,
    /// Its clock is a day behind.
    Behind,
    /// Knows another key.
    Stranger,
    /// Asks for nothing.
    Open,
}

/// A server that verifies.
struct Site {
    addr: SocketAddr,
    asked: Arc<Mutex<Vec<(Asked, u16)>>>,
}

struct Checks {
    how: Server,
    ring: Option<KeyRing>,
    nonces: Mutex<HashSet<String>>,
    given: Mutex<u32>,
}

impl Checks {
    /// Why a request is refused, if it is.
    fn refusal(&self, asked: &Asked) -> Option<&'static str> {
        if self.how == Server::Open {
            return None;
        }
        let Ok(verifier) = WebBotAuthVerifier::parse(asked) else {
            return Some("unsigned");
        };
        let parameters = verifier.get_parsed_label().base.parameters.details.clone();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs() as i64;
        let now = match self.how {
            Server::Ahead => now + 86_400,
            Server::Behind => now - 86_400,
            _ => now,
        };
        let (created, expires) = (parameters.created.unwrap(), parameters.expires.unwrap());
        if created > now + 60 {
            return Some("created in the future");
        }
        if expires < now {
            return Some("expired");
        }
        assert!(expires - created <= 86_400, "valid for more than a day");
        if verifier.verify(self.ring.as_ref().unwrap(), None).is_err() {
            return Some("invalid");
        }
        let nonce = parameters.nonce.unwrap();
        let is_new = self.nonces.lock().unwrap().insert(nonce);
        (!is_new).then_some("replayed")
    }
}

impl Site {
    fn serve(how: Server, directory: Option<&Path>) -> Self {
        let ring = directory.map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            let keys: JSONWebKeySet = serde_json::from_str(&text).unwrap();
            let mut ring = KeyRing::default();
            assert!(ring.import_jwks(keys).iter().all(Option::is_none));
            ring
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<(Asked, u16)>>> = Arc::default();
        let (log, checks) = (
            Arc::clone(&asked),
            Arc::new(Checks {
                how,
                ring,
                nonces: Mutex::default(),
                given: Mutex::default(),
            }),
        );
        // The thread ends with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, checks) = (Arc::clone(&log), Arc::clone(&checks));
                std::thread::spawn(move || answer(stream, &checks, &log));
            }
        });
        Self { addr, asked }
    }

    fn asked(&self) -> Vec<(Asked, u16)> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, checks: &Checks, log: &Mutex<Vec<(Asked, u16)>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut line = || lines.next().and_then(Result::ok).unwrap_or_default();
    let first = line();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = HashMap::new();
    loop {
        let header = line();
        let Some((name, value)) = header.split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let asked = Asked { path, headers };
    let refusal = checks.refusal(&asked);
    let (status, more, body) = match refusal {
        None => match asked.path.as_str() {
            "/" => (200, String::new(), plain(&["/next"], &[])),
            "/next" => (200, String::new(), plain(&[], &[])),
            _ => (404, String::new(), "none".to_owned()),
        },
        Some(_) => {
            let wish = "spoor=(\"@authority\" \"signature-agent\";key=\"spoor\");created;expires;keyid;tag=\"web-bot-auth\"";
            let mut given = checks.given.lock().unwrap();
            *given += 1;
            match checks.how {
                Server::AsksWithNonce => {
                    let more = format!("Accept-Signature: {wish};nonce=\"n{given}\"\r\n");
                    (429, more, String::new())
                }
                _ => (403, format!("Accept-Signature: {wish}\r\n"), String::new()),
            }
        }
    };
    log.lock().unwrap().push((asked, status));
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Type: text/html\r\n{more}Content-Length: {length}\r\n\r\n"
    );
    // The client may have closed the connection.
    stream.write_all(head.as_bytes()).ok();
    stream.write_all(body.as_bytes()).ok();
}

/// A job with a new key, and its key directory.
fn job(addr: SocketAddr, identity: &str) -> Job {
    let rest = format!(
        "{ARCHIVE}[images]\nenabled = false\n[buckets]\nboundaries = \"fixed\"\nrazor = 1e12\n[identity]\n{identity}\n"
    );
    let text = JobText {
        seeds: &["http://a.test/"],
        rest: &rest,
        politeness: "min_delay = 0\ndelay_factor = 0\nretries = 3\nback_off = \"1ms\"",
        ..JobText::default()
    };
    Job::at(addr, &text)
}

/// Makes keys as a user does, and returns the `[identity]` lines that the command prints.
fn new_keys(folder: &Path) -> String {
    let site = Site::serve(Server::Open, None);
    let blank = job(site.addr, "");
    let to = folder.to_str().unwrap();
    let arguments = [
        "keys",
        "new",
        blank.file().to_str().unwrap(),
        "--agent",
        "https://bot.example.org",
        "--purpose",
        "a study of lighthouses",
        "--to",
        to,
    ]
    .map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let out = Ran::of(&mut spoor(&arguments)).good();
    let error = Ran::of(&mut spoor(&arguments)).refused();
    assert!(error.contains("there is a key already"), "{error}");
    let private = folder.join("private.jwk");
    assert_eq!(
        private.metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    let (_, lines) = out.split_once("[identity]\n").unwrap();
    lines.to_owned()
}

#[test]
fn requests_are_signed_where_a_server_asks_and_accepted_once() {
    let folder = tempfile::tempdir().unwrap();
    let identity = new_keys(folder.path());
    let directory = folder.path().join("http-message-signatures-directory");
    let text = std::fs::read_to_string(folder.path().join("private.jwk")).unwrap();
    let secret: serde_json::Value = serde_json::from_str(&text).unwrap();
    let secret = secret["d"].as_str().unwrap().to_owned();
    for how in [Server::Asks, Server::AsksWithNonce] {
        let site = Site::serve(how, Some(&directory));
        let job = job(site.addr, &identity);
        let out = job.run();
        let asked = site.asked();
        let statuses: Vec<(&str, u16)> = asked
            .iter()
            .map(|(asked, status)| (asked.path.as_str(), *status))
            .collect();
        // Unsigned and refused once; from then on signed and accepted.
        assert!(statuses[0].1 == 403 || statuses[0].1 == 429, "{statuses:?}");
        assert!(!asked[0].0.headers.contains_key("signature"));
        let accepted: Vec<&str> = asked
            .iter()
            .filter(|(_, status)| *status == 200)
            .map(|(asked, _)| asked.path.as_str())
            .collect();
        assert_eq!(accepted, ["/", "/next"], "{how:?} {statuses:?}\n{out}");
        for (asked, _) in asked.iter().filter(|(_, status)| *status == 200) {
            assert_eq!(
                asked.headers["signature-agent"],
                "spoor=\"https://bot.example.org\""
            );
        }
        // A replay of an accepted request is refused.
        let (accepted, _) = asked.iter().find(|(_, status)| *status == 200).unwrap();
        let mut stream = TcpStream::connect(site.addr).unwrap();
        let mut request = format!("GET {} HTTP/1.1\r\n", accepted.path);
        for (name, value) in &accepted.headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        stream
            .write_all(format!("{request}\r\n").as_bytes())
            .unwrap();
        let mut first = String::new();
        BufReader::new(stream).read_line(&mut first).unwrap();
        assert!(first.contains("403") || first.contains("429"), "{first}");
        // Neither the signatures nor the key are in anything that the job keeps.
        for record in records(&job) {
            let block = String::from_utf8_lossy(&record.block).to_lowercase();
            let head = block
                .split("\r\n\r\n")
                .next()
                .unwrap_or_default()
                .to_owned();
            assert!(!head.contains("\r\nsignature"), "{head}");
            assert!(!block.contains(&secret.to_lowercase()));
        }
        let log = std::fs::read_to_string(job.folder().join("logs/crawl.jsonl")).unwrap();
        let config = std::fs::read_to_string(job.folder().join("job.toml")).unwrap();
        for text in [&log, &config, &out] {
            assert!(!text.contains(&secret));
        }
        assert!(log.contains("\"challenge\""), "{log}");
    }
}

#[test]
fn a_server_that_refuses_valid_signatures_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let identity = new_keys(folder.path());
    let other = tempfile::tempdir().unwrap();
    new_keys(other.path());
    let name = "http-message-signatures-directory";
    for (how, directory) in [
        (Server::Ahead, folder.path()),
        (Server::Behind, folder.path()),
        (Server::Stranger, other.path()),
    ] {
        let site = Site::serve(how, Some(&directory.join(name)));
        let job = job(site.addr, &identity);
        job.run();
        let asked = site.asked();
        assert!(asked.iter().all(|(_, status)| *status == 403), "{how:?}");
        let is_signed = |asked: &Asked| asked.headers.contains_key("signature");
        assert!(asked.iter().any(|(asked, _)| is_signed(asked)));
        // The robots.txt, its signed repetition, and the page: nothing is asked on and on.
        assert!(asked.len() <= 4, "{how:?}: {}", asked.len());
    }
}

#[test]
fn the_mail_address_is_sent_and_named_hosts_get_signatures_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let identity = new_keys(folder.path());
    let directory = folder.path().join("http-message-signatures-directory");
    let site = Site::serve(Server::Asks, Some(&directory));
    let always = format!("{identity}\nsign = [\"host:a.test\"]\nfrom = \"ops@bot.example.org\"\n");
    job(site.addr, &always).run();
    let asked = site.asked();
    assert!(
        asked
            .iter()
            .all(|(asked, _)| asked.headers["from"] == "ops@bot.example.org")
    );
    assert!(asked.iter().all(|(_, status)| *status != 403), "{asked:#?}");
    let open = Site::serve(Server::Open, None);
    job(open.addr, &identity).run();
    for (asked, _) in open.asked() {
        assert!(!asked.headers.contains_key("signature") && !asked.headers.contains_key("from"));
    }
}

#[test]
fn wrong_identities_are_refused_before_the_crawl() {
    let folder = tempfile::tempdir().unwrap();
    let identity = new_keys(folder.path());
    let private = folder.path().join("private.jwk");
    let site = Site::serve(Server::Open, None);
    let key = identity.lines().next().unwrap();
    let says = |identity: &str, words: &[&str]| {
        let error = Ran::of(&mut job(site.addr, identity).crawl()).refused();
        for word in words {
            assert!(error.contains(word), "{word} in {error}");
        }
    };
    says(key, &["identity.key", "identity.agent is missing"]);
    says(
        &format!("{key}\nagent = \"https://bot.example.org/path\""),
        &["identity.agent", "without a path"],
    );
    says(
        &format!("{key}\nagent = \"http://bot.example.org\""),
        &["identity.agent", "https"],
    );
    says(
        "from = \"https://a.org/\"",
        &["identity.from", "mail address"],
    );
    says("sign = [\"host:a.test\"]", &["identity.sign", "no effect"]);
    says(
        "key = \"none.jwk\"\nagent = \"https://bot.example.org\"",
        &["none.jwk", "spoor keys new"],
    );
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o644)).unwrap();
    says(&identity, &["private.jwk", "chmod 600"]);
    assert!(site.asked().is_empty());
}

#[test]
fn a_page_explains_the_crawler() {
    let site = Site::serve(Server::Open, None);
    let blank = job(site.addr, "");
    let file = blank.file();
    let file = file.to_str().unwrap();
    let page = Ran::of(&mut spoor(&[
        "keys",
        "page",
        file,
        "--purpose",
        "a <b>study</b>",
    ]))
    .good();
    for part in [
        "<title>spoor: about this crawler</title>",
        "User-agent: spoor",
        "mailto:tests@spoor.example",
        "a &lt;b>study&lt;/b>",
        "(+mailto:tests@spoor.example)",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let card = tempfile::tempdir().unwrap();
    new_keys(card.path());
    let card = std::fs::read_to_string(card.path().join("signature-agent-card.json")).unwrap();
    let card: serde_json::Value = serde_json::from_str(&card).unwrap();
    assert_eq!(card["contacts"][0], "mailto:tests@spoor.example");
    assert_eq!(card["web_bot_auth"]["purpose"], "a study of lighthouses");
    assert_eq!(card["web_bot_auth"]["rfc9309-compliance"], true);
    assert_eq!(
        card["jwks_uri"],
        "https://bot.example.org/.well-known/http-message-signatures-directory"
    );
}
