//! The other end of the control channel.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use url::Url;

use super::{ControlError, Reloaded};
use crate::address::{HostKey, PageUrl};
use crate::explain::{Explanation, HostReport};

/// The longest that an answer is waited for: the crawl may just be flushing to a
/// slow disk.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks the crawl that works on a job.
#[derive(Debug, Clone)]
pub struct Client {
    folder: PathBuf,
}

impl Client {
    /// For the job in `folder`.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// As [`Desk::explain`](super::Desk::explain).
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn explain(&self, url: &PageUrl) -> Result<Explanation, ControlError> {
        let query = |target: &mut Url| {
            target.set_path("explain");
            target.query_pairs_mut().append_pair("url", url.as_str());
        };
        self.ask(Method::GET, query, String::new()).await
    }

    /// As [`Desk::host`](super::Desk::host).
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn host(&self, host: &HostKey) -> Result<HostReport, ControlError> {
        let path = |target: &mut Url| target.set_path(&format!("host/{host}"));
        self.ask(Method::GET, path, String::new()).await
    }

    /// As [`Desk::reload`](super::Desk::reload), with the text of a job file.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn reload(&self, job: String) -> Result<Reloaded, ControlError> {
        self.ask(Method::POST, |target| target.set_path("rules"), job)
            .await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        target: impl FnOnce(&mut Url),
        body: String,
    ) -> Result<T, ControlError> {
        let silent = |why: String| ControlError::Silent {
            path: self.folder.join("control.sock"),
            why,
        };
        // The host says nothing here, but a request must have one.
        let mut url = Url::parse("http://spoor/").map_err(|e| silent(e.to_string()))?;
        target(&mut url);
        let (client, _place) = self.client().map_err(silent)?;
        let sent = client.request(method, url).body(body).send().await;
        let answer = sent.map_err(|e| silent(root_cause(&e)))?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(|e| silent(root_cause(&e)))?;
        if status != StatusCode::OK {
            let why = String::from_utf8_lossy(&bytes).into_owned();
            return Err(ControlError::Refused(why));
        }
        serde_json::from_slice(&bytes).map_err(|e| ControlError::Garbled(e.to_string()))
    }

    /// A client that connects to the socket, and what must live as long.
    #[cfg(unix)]
    fn client(&self) -> Result<(reqwest::Client, super::socket::Place), String> {
        let place = super::socket::Place::of(&self.folder).map_err(|e| e.to_string())?;
        // No TLS is spoken here, but the client is not built without it.
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .unix_socket(place.path.as_path())
            .timeout(PATIENCE)
            .build()
            .map_err(|e| root_cause(&e))?;
        Ok((client, place))
    }

    #[cfg(not(unix))]
    fn client(&self) -> Result<(reqwest::Client, ()), String> {
        Err("this system has no Unix domain sockets".to_owned())
    }
}

/// The innermost error: what the system said.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
