//! Access control for TCP. The socket in the job's folder needs none of this: only its owner can
//! open it.
//!
//! With a token, only clients that send it have access. If the operator chose a loopback address
//! and no token, everyone on this machine has access. In both cases web pages of other sites in a
//! local browser have none (see `local::origin`). The operator's own token is never written
//! anywhere. A token generated for the run is part of the link that `spoor crawl` prints, and of
//! responses on the owner's socket; it ends with the run.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::dashboard;
use super::problem::Problem;
use super::routes;
use crate::local::access::Access;
use crate::local::origin::{self, Sender};
use crate::local::server::Seat;
use crate::settings;
use crate::settings::Listen;

/// The variable with the token, used if no file is configured.
const VARIABLE: &str = "SPOOR_CONTROL_TOKEN";

/// The fewest characters of a token.
const SHORTEST: usize = 16;

/// The most bytes of a token file.
const LONGEST: u64 = 4096;

/// The path that is served without a token.
const LOGIN: &str = "/login";

/// A secret that lets its bearer control a crawl. It is never displayed.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Why `[control]` cannot be applied, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AccessError(pub(super) String);

impl Token {
    /// The token that a section asks for, from its file or else from the environment; an
    /// empty variable means none.
    ///
    /// # Errors
    ///
    /// [`AccessError`], also if a token is required and there is none.
    pub fn of(section: &settings::Control) -> Result<Option<Self>, AccessError> {
        let variable = std::env::var(VARIABLE).ok();
        Self::from(section, variable.filter(|text| !text.is_empty()))
    }

    fn from(
        section: &settings::Control,
        variable: Option<String>,
    ) -> Result<Option<Self>, AccessError> {
        let token = match (&section.token_file, variable) {
            (Some(path), _) => Some(Self::read(path)?),
            (None, Some(text)) => Some(Self::parse(&text, VARIABLE)?),
            (None, None) => None,
        };
        match section.listen {
            Listen::At(address) if token.is_none() && !address.ip().is_loopback() => {
                Err(AccessError(format!(
                    "control.listen = \"{address}\" can be reached from other machines, so it needs \
                     a token: write one into a file that only you may read and name it as \
                     control.token_file, or set {VARIABLE}"
                )))
            }
            _ => Ok(token),
        }
    }

    /// Reads a token from a file that not everyone can read.
    ///
    /// # Errors
    /// [`AccessError`] names the file.
    pub fn read(path: &Path) -> Result<Self, AccessError> {
        use std::io::Read;
        let unreadable = |error: std::io::Error| {
            AccessError(format!(
                "control.token_file = {path:?} cannot be read: {error}"
            ))
        };
        let file = crate::fs::open(path).map_err(unreadable)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = file.metadata().map_err(unreadable)?.permissions().mode();
            if mode & 0o007 != 0 {
                return Err(AccessError(format!(
                    "control.token_file = {path:?} can be read by everyone on this machine; chmod \
                     600 it"
                )));
            }
        }
        let mut text = String::new();
        let mut part = file.take(LONGEST + 1);
        part.read_to_string(&mut text).map_err(unreadable)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// A random token; `None` if the system provides no random numbers.
    pub(super) fn random() -> Option<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(base16ct::lower::encode_string(&bytes)))
    }

    /// The address of a server with the token in its fragment, which no request transmits.
    pub(super) fn link(&self, address: std::net::SocketAddr) -> String {
        format!("http://{address}/#token={}", self.0)
    }

    /// The value of the header with the token.
    pub(super) fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }

    fn parse(text: &str, from: &str) -> Result<Self, AccessError> {
        let text = text.trim();
        let fits = (SHORTEST as u64..=LONGEST).contains(&(text.len() as u64))
            && text.bytes().all(|b| b.is_ascii_graphic());
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(AccessError(format!(
                "{from} contains no token: {SHORTEST} to {LONGEST} visible ASCII characters on one \
                 line, as `openssl rand -hex 32` prints"
            )))
        }
    }
}

/// Access control for a server on TCP.
#[derive(Debug)]
pub(crate) struct Auth {
    access: Option<Access>,
    /// The paths served without a token: the page that asks for it, and nothing more.
    open: &'static [&'static str],
    /// Whether other machines have access.
    remote: bool,
}

impl Auth {
    /// For a server on this address.
    pub fn new(address: std::net::SocketAddr, token: Option<Token>) -> Self {
        Self {
            access: token.map(|token| Access::with(&token.0, address)),
            open: &dashboard::PARTS,
            remote: !address.ip().is_loopback(),
        }
    }

    /// The same for a server with a page of these parts.
    pub fn open_for(self, parts: &'static [&'static str]) -> Self {
        Self {
            open: parts,
            ..self
        }
    }

    fn is_open(&self, path: &str) -> bool {
        path == LOGIN || self.open.contains(&path)
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        let access = self.access.as_ref();
        access.is_none_or(|access| access.admits(headers))
    }
}

/// Lets authorised requests pass, and adds the headers to responses.
pub(crate) async fn authorize(
    State(auth): State<Arc<Auth>>,
    mut request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let changes = ![Method::GET, Method::HEAD].contains(request.method());
    let refusal = match origin::own_host(headers, auth.remote) {
        None => Some(Problem::new(
            StatusCode::FORBIDDEN,
            "the Host is not this machine",
            "use the IP address, or localhost",
        )),
        Some(host) if changes && origin::sender(headers, host) == Sender::Foreign => {
            Some(Problem::new(
                StatusCode::FORBIDDEN,
                "the request comes from a page of another site",
                "send it from a page of this server, or with a program",
            ))
        }
        Some(_) if !auth.is_open(request.uri().path()) && !auth.knows(headers) => {
            Some(Problem::new(
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong",
                "send it as Authorization: Bearer, or log in with POST /login",
            ))
        }
        Some(_) => {
            // Clients without access cannot take this one's place.
            if let Some(seat) = request.extensions().get::<Arc<Seat>>()
                && auth.knows(headers)
            {
                seat.admit();
            }
            None
        }
    };
    let mut response = match refusal {
        Some(problem) => problem.into_response(),
        None => {
            request.extensions_mut().insert(Arc::clone(&auth));
            next.run(request).await
        }
    };
    if response.status() == StatusCode::UNAUTHORIZED {
        let scheme = header::HeaderValue::from_static("Bearer");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, scheme);
    }
    origin::put_headers(&mut response);
    response
}

/// The body of a login.
#[derive(Deserialize, Serialize)]
pub(super) struct Login {
    /// The operator's token.
    token: String,
}

/// Sets a cookie that identifies a browser from then on, over TCP; scripts cannot read it,
/// and other sites cannot send it.
pub(crate) async fn login(
    auth: Option<Extension<Arc<Auth>>>,
    body: Bytes,
) -> Result<Response, Problem> {
    let login: Login = routes::read(&body, "send {\"token\": \"...\"}")?;
    let Some(Extension(auth)) = auth else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let Some(access) = &auth.access else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    if !access.is(login.token.trim()) {
        return Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "the token is wrong",
            "use the link that `spoor crawl` or `spoor ctl JOB status` prints, or the token of \
             the file that control.token_file names",
        ));
    }
    let cookie = access.set_cookie("Strict");
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn section(listen: &str, token_file: Option<&Path>) -> settings::Control {
        settings::Control {
            listen: Listen::At(listen.parse().unwrap()),
            token_file: token_file.map(Path::to_owned),
        }
    }

    #[test]
    fn a_server_for_others_has_a_token_that_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let of = |listen: &str, file: Option<&Path>, variable: Option<&str>| {
            let token = Token::from(&section(listen, file), variable.map(str::to_owned));
            token.map(|t| t.map(|t| t.0)).map_err(|e| e.to_string())
        };
        let said = |result: Result<Option<String>, String>, part: &str| {
            let said = result.unwrap_err();
            assert!(said.contains(part), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        };
        assert_eq!(of("127.0.0.1:0", None, None), Ok(None));
        assert_eq!(of("[::1]:0", None, None), Ok(None));
        said(of("0.0.0.0:1", None, None), "\"0.0.0.0:1\"");
        said(of("[::]:1", None, None), "needs a token");
        said(of("127.0.0.1:0", Some(&path), None), "cannot be read");
        let long = "hunter2hunter2hunter2";
        for (text, mode, part) in [
            ("hunter2hunter2\n", 0o600, "contains no token"),
            ("hunter2 hunter2 hunter2", 0o600, "contains no token"),
            (long, 0o604, "chmod 600"),
            (long, 0o602, "chmod 600"),
        ] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            said(of("0.0.0.0:1", Some(&path), None), part);
        }
        std::fs::write(&path, format!("{long}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let other = "variable-variable";
        let read = of("0.0.0.0:1", Some(&path), Some(other));
        assert_eq!(read, Ok(Some(long.to_owned())), "the file takes precedence");
        assert_eq!(
            of("0.0.0.0:1", None, Some(other)),
            Ok(Some(other.to_owned()))
        );
        said(of("0.0.0.0:1", None, Some("hunter2")), VARIABLE);
        let address = "127.0.0.1:99".parse().unwrap();
        let (token, access) = (Token(long.to_owned()), Access::with(long, address));
        let shown = format!("{token:?} {access:?} {}", access.session());
        assert!(!shown.contains("hunter2"));
    }

    #[test]
    fn only_the_token_or_its_cookie_opens() {
        let address: std::net::SocketAddr = "127.0.0.1:99".parse().unwrap();
        let token = Token("0123456789abcdef".to_owned());
        let session = Access::with(&token.0, address).session();
        let auth = Auth::new(address, Some(token));
        let knows = |name: header::HeaderName, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            auth.knows(&headers)
        };
        use header::{AUTHORIZATION, COOKIE};
        assert!(knows(AUTHORIZATION, "Bearer 0123456789abcdef"));
        assert!(knows(AUTHORIZATION, "bearer 0123456789abcdef"));
        assert!(knows(COOKIE, &format!("a=b; spoor-99={session}")));
        for wrong in [
            "Bearer 0123456789abcde",
            "Bearer ",
            "0123456789abcdef",
            "Basic 0123456789abcdef",
        ] {
            assert!(!knows(AUTHORIZATION, wrong), "{wrong}");
        }
        assert!(
            !knows(COOKIE, "spoor-99=0123456789abcdef"),
            "the token itself"
        );
        assert!(!knows(COOKIE, &format!("spoor-98={session}")));
        assert!(!auth.knows(&HeaderMap::new()));
        assert!(Auth::new(address, None).knows(&HeaderMap::new()));
    }
}
