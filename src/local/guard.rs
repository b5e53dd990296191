//! The door of a page: who has its link comes in, within a time, and no other site acts in its
//! name.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State as Shared};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;

use crate::access::{Access, NO_LINK};
use crate::origin::{self, Sender};
use crate::server::Seat;

/// The time limit for the body of a request and for the start of its response.
const ANSWER: Duration = Duration::from_secs(60);

/// How a page is guarded.
#[derive(Debug)]
pub struct PageGuard {
    /// The secret of the link.
    pub access: Access,
    /// Whether other machines have access.
    pub remote: bool,
    /// How the page says that a request is refused.
    pub told: fn(StatusCode, &str) -> Response,
}

/// The routes of a page behind its door.
pub fn guarded(app: Router, guard: PageGuard) -> Router {
    let guard = Arc::new(guard);
    let in_time = middleware::from_fn_with_state(Arc::clone(&guard), in_time);
    app.layer(in_time)
        .layer(middleware::from_fn_with_state(guard, admitted))
}

async fn in_time(Shared(guard): Shared<Arc<PageGuard>>, request: Request, next: Next) -> Response {
    let answer = tokio::time::timeout(ANSWER, next.run(request)).await;
    answer.unwrap_or_else(|_| (guard.told)(StatusCode::SERVICE_UNAVAILABLE, "It took too long."))
}

/// Admits who has the link, lets only the page itself change something, and adds the headers to
/// responses.
async fn admitted(Shared(guard): Shared<Arc<PageGuard>>, request: Request, next: Next) -> Response {
    let PageGuard {
        access,
        remote,
        told,
    } = &*guard;
    let headers = request.headers();
    let mut response = match origin::own_host(headers, *remote) {
        None => {
            let why = "The Host is not this machine; use the address that spoor printed.";
            told(StatusCode::FORBIDDEN, why)
        }
        Some(_) if !access.admits(headers) => {
            let login = access.login(request.uri());
            login.unwrap_or_else(|| told(StatusCode::UNAUTHORIZED, NO_LINK))
        }
        Some(host)
            if request.method() != Method::GET && origin::sender(headers, host) != Sender::Own =>
        {
            told(StatusCode::FORBIDDEN, "Only the page itself may do that.")
        }
        Some(_) => {
            if let Some(seat) = request.extensions().get::<Arc<Seat>>() {
                seat.admit();
            }
            next.run(request).await
        }
    };
    origin::put_headers(&mut response);
    response
}
