//! The client of the control API.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::AUTHORIZATION;
use reqwest::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;
use url::form_urlencoded::Serializer;

use super::Token;
use super::routes::MACHINES;
use super::{Changes, ControlError, Done, InForce, Machines, NewSeeds, Problem, Seeded, Status};
use crate::address::{HostKey, PageUrl};
use crate::crawl::checkpoint;
use crate::explain::{Explanation, HostReport};

/// The time limit for a response: the crawl may be flushing to a slow disk.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most bytes of an incomplete log event that are kept.
const MAX_EVENT: usize = 4 << 20;

/// Sends requests to a running crawl.
#[derive(Debug, Clone)]
pub struct Client {
    /// The job's folder, for its socket.
    folder: Option<PathBuf>,
    /// The address of the API. The host is irrelevant to a socket, but a request must have one.
    base: String,
    token: Option<Token>,
    /// [`Client::machines`].
    machines: Arc<Mutex<Option<Machines>>>,
}

/// An event of the log that is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// `row`, `change` or `lost`.
    pub event: String,
    /// JSON.
    pub data: String,
}

impl Client {
    /// For the job in `folder`, by its socket.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: Some(folder.to_owned()),
            base: "http://spoor/".to_owned(),
            token: None,
            machines: Arc::default(),
        }
    }

    /// For the crawl whose API is at `url`, such as `http://127.0.0.1:8470`.
    pub fn at(url: Url, token: Option<Token>) -> Self {
        Self {
            folder: None,
            base: url.into(),
            token,
            machines: Arc::default(),
        }
    }

    /// How many machines of the cluster have applied the last request; `None` if a single machine
    /// crawls the job.
    pub fn machines(&self) -> Option<Machines> {
        *self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`ControlHandle::status`](super::ControlHandle::status).
    ///
    /// # Errors
    /// [`ControlError`], here and below.
    pub async fn status(&self) -> Result<Status, ControlError> {
        self.get("api/status").await
    }

    /// `pause`, `resume`, `stop` or `checkpoint`, as the methods of
    /// [`ControlHandle`](super::ControlHandle) with these names.
    ///
    /// # Errors
    ///
    /// [`ControlError`].
    pub async fn command(&self, what: &str) -> Result<Done, ControlError> {
        self.send(Method::POST, &format!("api/{what}"), Vec::new())
            .await
    }

    /// As [`ControlHandle::add_seeds`](super::ControlHandle::add_seeds).
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn add_seeds(&self, seeds: &NewSeeds) -> Result<Vec<Seeded>, ControlError> {
        self.send(Method::POST, "api/seeds", json(seeds)?).await
    }

    /// As [`ControlHandle::config`](super::ControlHandle::config).
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn config(&self) -> Result<InForce, ControlError> {
        self.get("api/config").await
    }

    /// As [`ControlHandle::change`](super::ControlHandle::change), with single keys.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn set(
        &self,
        values: &serde_json::Map<String, Value>,
    ) -> Result<Changes, ControlError> {
        self.send(Method::PATCH, "api/config", json(values)?).await
    }

    /// As [`ControlHandle::explain`](super::ControlHandle::explain).
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn explain(&self, url: &PageUrl) -> Result<Explanation, ControlError> {
        let mut query = Serializer::new(String::new());
        let query = query.append_pair("url", url.as_str()).finish();
        self.get(&format!("api/explain?{query}")).await
    }

    /// As [`ControlHandle::host`](super::ControlHandle::host).
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn host(&self, host: &HostKey) -> Result<HostReport, ControlError> {
        self.get(&format!("api/host/{host}")).await
    }

    /// As [`ControlHandle::change`](super::ControlHandle::change), with the text of a job file.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn reload(&self, job: String) -> Result<Changes, ControlError> {
        self.send(Method::POST, "api/rules", job.into_bytes()).await
    }

    /// The last `n` rows of the crawl log.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn log(&self, n: usize) -> Result<Vec<Value>, ControlError> {
        self.get(&format!("api/log?last={n}")).await
    }

    /// Passes every row of the log to `take` as it is written, until the crawl ends or
    /// `take` returns false.
    ///
    /// # Errors
    ///
    /// [`ControlError`].
    pub async fn follow(&self, mut take: impl FnMut(Followed) -> bool) -> Result<(), ControlError> {
        let (client, _place) = self.client(None)?;
        let target = self.target("api/log/follow")?;
        let mut answer = self.answered(client.get(target)).await?;
        let mut pending = Vec::new();
        // A broken connection is treated as the end of the crawl.
        while let Ok(Some(part)) = answer.chunk().await {
            pending.extend_from_slice(&part);
            while let Some(end) = pending.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = pending.drain(..end + 2).collect();
                if let Some(followed) = Followed::parse(&String::from_utf8_lossy(&event))
                    && !take(followed)
                {
                    return Ok(());
                }
            }
            if pending.len() > MAX_EVENT {
                return Err(garbled("an event without end"));
            }
        }
        Ok(())
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ControlError> {
        self.send(Method::GET, path, Vec::new()).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, ControlError> {
        let (client, _place) = self.client(Some(PATIENCE))?;
        let request = client.request(method, self.target(path)?).body(body);
        let answer = self.answered(request).await?;
        let machines = answer.headers().get(MACHINES);
        let machines = machines.and_then(|machines| machines.to_str().ok()?.parse().ok());
        *self.machines.lock().unwrap_or_else(PoisonError::into_inner) = machines;
        let bytes = answer.bytes().await;
        let bytes = bytes.map_err(|e| self.silent(root_cause(&e)))?;
        serde_json::from_slice(&bytes).map_err(garbled)
    }

    fn target(&self, path: &str) -> Result<Url, ControlError> {
        let joined = Url::parse(&self.base).and_then(|url| url.join(path));
        joined.map_err(|error| self.silent(error))
    }

    async fn answered(&self, request: reqwest::RequestBuilder) -> Result<Response, ControlError> {
        let request = match &self.token {
            Some(token) => request.header(AUTHORIZATION, token.bearer()),
            None => request,
        };
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => return Err(self.unreached(root_cause(&error))),
            Err(error) => return Err(self.silent(root_cause(&error))),
        };
        if answer.status() == StatusCode::OK {
            return Ok(answer);
        }
        let bytes = answer.bytes().await.unwrap_or_default();
        let said = match serde_json::from_slice::<Problem>(&bytes) {
            Ok(Problem { error, advice, .. }) => format!("{error}; {advice}"),
            Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
        };
        Err(ControlError::Client(format!(
            "the running crawl refused: {said}"
        )))
    }

    /// The error if nothing accepts connections there.
    fn unreached(&self, why: String) -> ControlError {
        match &self.folder {
            // The job is locked, so a process is running.
            Some(folder) if checkpoint::is_locked(folder) => self.silent(why),
            Some(folder) => not_running(folder),
            None => ControlError::NotRunning(format!(
                "{}: nothing listens there ({why}); is the crawl over, or does `listen` under \
                 [control] of its job name another address?",
                self.base
            )),
        }
    }

    fn silent(&self, why: impl Display) -> ControlError {
        let place = match &self.folder {
            Some(folder) => folder.join("control.sock").display().to_string(),
            None => self.base.clone(),
        };
        ControlError::Client(format!(
            "a spoor process is using this job, but it does not respond on {place}: {why}; it may \
             be starting, ending or busy with maintenance, so try again soon"
        ))
    }

    /// A client that connects there, and a guard that must live as long as the client.
    fn client(
        &self,
        timeout: Option<Duration>,
    ) -> Result<(reqwest::Client, SocketGuard), ControlError> {
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let roots = webpki_roots::TLS_SERVER_ROOTS.iter().cloned();
        let roots: rustls::RootCertStore = roots.collect();
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| self.silent(e))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy();
        if let Some(timeout) = timeout {
            builder = builder.timeout(timeout);
        }
        let mut place = SocketGuard::default();
        if let Some(folder) = &self.folder {
            (builder, place) = self.through_socket(builder, folder)?;
        }
        let client = builder.build();
        Ok((client.map_err(|e| self.silent(root_cause(&e)))?, place))
    }

    #[cfg(unix)]
    fn through_socket(
        &self,
        builder: reqwest::ClientBuilder,
        folder: &Path,
    ) -> Result<(reqwest::ClientBuilder, SocketGuard), ControlError> {
        let place = super::socket::ShortPath::of(folder).map_err(|_| not_running(folder))?;
        let builder = builder.unix_socket(place.path.as_path());
        Ok((builder, Some(place)))
    }

    #[cfg(not(unix))]
    fn through_socket(
        &self,
        _: reqwest::ClientBuilder,
        _: &Path,
    ) -> Result<(reqwest::ClientBuilder, SocketGuard), ControlError> {
        Err(self.silent("this system has no Unix domain sockets; name the API's --url"))
    }
}

#[cfg(unix)]
type SocketGuard = Option<super::socket::ShortPath>;
#[cfg(not(unix))]
type SocketGuard = ();

impl Followed {
    /// Parses one event (WHATWG HTML, section 9.2.5) with a single line of data, as this server
    /// sends them; `None` for a comment.
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(value.strip_prefix(' ').unwrap_or(value).to_owned())
        };
        Some(Self {
            event: field("event:").unwrap_or_default(),
            data: field("data:")?,
        })
    }
}

fn not_running(folder: &Path) -> ControlError {
    let folder = folder.display();
    ControlError::NotRunning(format!("{folder}: no crawl of this job is running"))
}

fn garbled(why: impl Display) -> ControlError {
    ControlError::Client(format!(
        "the running crawl's response cannot be read: {why}; is it another version of spoor?"
    ))
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, ControlError> {
    serde_json::to_vec(value).map_err(garbled)
}

/// The innermost error, which is the operating system's.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
