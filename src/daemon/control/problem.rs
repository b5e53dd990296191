//! The response to a request that failed: what went wrong, and what to do.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::ControlError;

/// What went wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What is wrong.
    pub error: String,
    /// What to do next.
    pub advice: String,
    #[serde(skip)]
    status: u16,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>, advice: &str) -> Self {
        Self {
            error: error.into(),
            advice: advice.to_owned(),
            status: status.as_u16(),
        }
    }

    pub(super) fn wrong(error: impl Into<String>, advice: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, advice)
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        use ControlError as E;
        let (status, advice) = match &error {
            E::Config(_) => (StatusCode::BAD_REQUEST, "correct the job file"),
            E::Change(_) => (
                StatusCode::BAD_REQUEST,
                "GET /api/config shows the current values and what may change",
            ),
            E::Ratings(_) => (
                StatusCode::BAD_REQUEST,
                "correct the named values, then try again",
            ),
            E::Readers(_) => (StatusCode::TOO_MANY_REQUESTS, "try again later"),
            E::Preparing(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "try again when it has; Ctrl-C in its terminal ends it",
            ),
            E::Order(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "check with `spoor cluster status` whether the brokers of the cluster respond",
            ),
            E::Ended => (
                StatusCode::SERVICE_UNAVAILABLE,
                "start the crawl and try again",
            ),
            E::Store(_) | E::Io(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "see the crawl's own log")
            }
            E::NotHere(_) => (
                StatusCode::NOT_FOUND,
                "`spoor host JOB.toml HOST` says which machine has it; or try again in a few \
                 seconds",
            ),
            E::Brokers(_) => (StatusCode::BAD_GATEWAY, "try again later"),
            E::NotRunning(_) | E::Client(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "this is a defect of spoor; please report it",
            ),
        };
        Self::new(status, error.to_string(), advice)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self)).into_response()
    }
}
