//! Questions of the other machines of a cluster, over its brokers, and questions to them.
//!
//! Each machine answers the subject `ctl.<node>`. A question is a request of this API, and the
//! same router answers it that serves the socket. Only what is in [`may_ask`] can be asked that
//! way. A question names the session that it is for: a process of an earlier session of the same
//! machine, which does not know yet that it is over, leaves it alone.
//!
//! Everything runs on the threads of the runtime, never on that of the crawl.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tower_service::Service;

use super::problem::Problem;
use super::{ControlError, ControlHandle, Who};
use crate::crawl::cluster::{Engine, EngineError, Node, Question, SessionId, Survey};
use crate::sanitize;

/// The layout of questions and answers.
const VERSION: u32 = 1;

/// The most bytes of an answer: brokers pass on 1 MiB.
const LONGEST: usize = 900_000;

/// The most questions that are answered at a time.
const AT_ONCE: usize = 8;

/// The most characters that are shown of whoever asks.
const LONGEST_NAME: usize = 100;

/// How long another machine has for its answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// How soon to try again where questions cannot be heard.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// What connects this process with the machines of a cluster, whatever the engine is.
pub trait Peers: Send + Sync {
    /// Reads all keys of the job.
    fn survey(&self) -> BoxFuture<'_, Result<Survey, EngineError>>;

    /// Asks whoever answers for a subject.
    fn ask_for(&self, subject: String, body: Bytes) -> BoxFuture<'_, Result<Bytes, EngineError>>;
}

impl<E: Engine> Peers for E {
    fn survey(&self) -> BoxFuture<'_, Result<Survey, EngineError>> {
        Survey::of(self).boxed()
    }

    fn ask_for(&self, subject: String, body: Bytes) -> BoxFuture<'_, Result<Bytes, EngineError>> {
        async move { self.ask(&subject, body).await }.boxed()
    }
}

/// Marks a request that another machine has sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct FromMachine;

/// A question.
#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    version: u32,
    /// Whom it is for.
    session: SessionId,
    /// Who asks, in words.
    from: String,
    method: String,
    /// The path with its query.
    path: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    body: String,
}

/// Its answer.
#[derive(Debug, Serialize, Deserialize)]
struct Answered {
    version: u32,
    status: u16,
    media: String,
    body: String,
}

impl Answered {
    fn to_bytes(&self) -> Bytes {
        // Strings and numbers always serialise.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// The subject of a machine. Its name may have dots: the subject has more parts then, and is
/// still that of no other machine.
fn subject_of(node: &Node) -> String {
    format!("ctl.{node}")
}

/// Whether another machine may ask that.
fn may_ask(method: &Method, path: &str) -> bool {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let is_host = || {
        let host = path.strip_prefix("/api/host/");
        host.is_some_and(|host| !host.is_empty() && !host.contains('/'))
    };
    match *method {
        Method::GET => {
            const READ: [&str; 5] = [
                "/api/status",
                "/api/board",
                "/api/explain",
                "/api/config",
                "/metrics",
            ];
            READ.contains(&path) || is_host()
        }
        Method::POST => path == "/api/stop",
        _ => false,
    }
}

/// Answers questions until it is dropped.
#[derive(Debug)]
pub struct Answering(JoinHandle<()>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Answers the questions of other machines about the crawl of this session.
pub fn answer_others<E: Engine>(
    runtime: &Handle,
    engine: Arc<E>,
    session: SessionId,
    handle: ControlHandle,
) -> Answering {
    let desk = Desk {
        router: super::server::router(handle),
        session,
    };
    Answering(runtime.spawn(async move {
        loop {
            if let Ok(mut questions) = engine.answer(&subject_of(&desk.session.node)).await {
                let mut answers = JoinSet::new();
                while let Some(question) = questions.recv().await {
                    while answers.len() >= AT_ONCE {
                        answers.join_next().await;
                    }
                    answers.spawn(desk.clone().answer(question));
                }
            }
            tokio::time::sleep(LISTEN_AGAIN).await;
        }
    }))
}

#[derive(Debug, Clone)]
struct Desk {
    router: Router,
    session: SessionId,
}

impl Desk {
    async fn answer(self, question: Question) {
        let asked: Asked = match serde_json::from_slice(&question.body) {
            Ok(asked) => asked,
            Err(_) => {
                let problem = Problem::wrong(
                    "the question cannot be read",
                    "run the same version of spoor on all machines",
                );
                return question.answer(packed(problem.into_response()).await);
            }
        };
        // Whoever asks hears nothing, as of a machine that is off.
        if asked.session != self.session {
            return;
        }
        let reply = async { packed(self.reply(asked).await).await };
        // Nobody waits for longer.
        if let Ok(answer) = tokio::time::timeout(PATIENCE, reply).await {
            question.answer(answer);
        }
    }

    async fn reply(mut self, asked: Asked) -> Response {
        let Asked {
            version,
            from,
            method,
            path,
            body,
            ..
        } = asked;
        if version != VERSION {
            let error =
                format!("the question has version {version}, and this spoor reads {VERSION}");
            let advice = "run the same version of spoor on all machines";
            return Problem::wrong(error, advice).into_response();
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
        if !may_ask(&method, &path) {
            let error = format!("{method} {path} cannot be asked from another machine");
            let advice = "use `spoor ctl` on the machine itself";
            return Problem::new(StatusCode::FORBIDDEN, error, advice).into_response();
        }
        let from: String = from.chars().take(LONGEST_NAME).collect();
        let who = Who(format!("{}, over the brokers", sanitize::shown(&from)));
        let request = Request::builder()
            .method(method)
            .uri(&path)
            .extension(who)
            .extension(FromMachine)
            .body(Body::from(body));
        match request {
            // A router is always ready.
            Ok(request) => match self.router.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
            Err(error) => Problem::wrong(format!("{path}: {error}"), "ask for a path of this API")
                .into_response(),
        }
    }
}

/// A response as an answer, which is an error where it is too long for the brokers.
async fn packed(response: Response) -> Bytes {
    let status = response.status();
    let media = response.headers().get(header::CONTENT_TYPE);
    let media = media.and_then(|media| media.to_str().ok());
    let media = media.unwrap_or_default().to_owned();
    let too_long = |bytes: String| Answered {
        version: VERSION,
        status: StatusCode::PAYLOAD_TOO_LARGE.as_u16(),
        media: "application/json".to_owned(),
        body: serde_json::json!({
            "error": format!(
                "the answer has {bytes}, and brokers pass on {LONGEST} bytes"
            ),
            "advice": "ask on the machine itself, with `spoor ctl`",
        })
        .to_string(),
    };
    let Ok(body) = axum::body::to_bytes(response.into_body(), LONGEST).await else {
        return too_long(format!("more than {LONGEST} bytes")).to_bytes();
    };
    let answer = Answered {
        version: VERSION,
        status: status.as_u16(),
        media,
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let bytes = answer.to_bytes();
    if bytes.len() > LONGEST {
        return too_long(format!("{} bytes", bytes.len())).to_bytes();
    }
    bytes
}

/// Another machine, as whoever asks it sees it.
#[derive(Clone)]
pub(super) struct OtherMachine {
    pub peers: Arc<dyn Peers>,
    pub session: SessionId,
    /// Who asks, in words.
    pub from: String,
}

impl std::fmt::Debug for OtherMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OtherMachine({})", self.session)
    }
}

impl OtherMachine {
    /// Sends a request; its path begins with `/`. Returns the status and the body.
    pub async fn ask(
        &self,
        method: &Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, String), ControlError> {
        let away = |why: String| ControlError::Away {
            machine: self.session.node.to_string(),
            why,
        };
        let asked = Asked {
            version: VERSION,
            session: self.session.clone(),
            from: self.from.clone(),
            method: method.to_string(),
            path: path.to_owned(),
            body: String::from_utf8_lossy(&body).into_owned(),
        };
        let asked = serde_json::to_vec(&asked).unwrap_or_default();
        let asking = self
            .peers
            .ask_for(subject_of(&self.session.node), asked.into());
        let answer = match tokio::time::timeout(PATIENCE, asking).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(away(error.to_string())),
            Err(_) => return Err(away(format!("nothing came in {} s", PATIENCE.as_secs()))),
        };
        let garbled = |why: String| ControlError::Garbled(format!("{}: {why}", self.session.node));
        let answer: Answered =
            serde_json::from_slice(&answer).map_err(|error| garbled(error.to_string()))?;
        let status = StatusCode::from_u16(answer.status);
        let status = status.map_err(|error| garbled(error.to_string()))?;
        Ok((status, answer.body))
    }
}

#[cfg(test)]
mod tests;
