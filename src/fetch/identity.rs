//! Who the crawler is: signatures of requests (Web Bot Auth, draft-meunier-webbotauth-httpsig-protocol,
//! on HTTP Message Signatures, RFC 9421), and the `From` header (RFC 9110 section 10.1.2).
//!
//! A request is signed if its host has asked for that with `Accept-Signature` on 401, 403 or 429, or
//! if the operator has named the host. The key stays in this module: it is in no message, log or
//! archive.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ed25519_dalek::SigningKey;
use indexmap::IndexMap;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use web_bot_auth::components::{
    CoveredComponent, DerivedComponent, HTTPField, HTTPFieldParameters, HTTPFieldParametersSet,
};
use web_bot_auth::keyring::{Algorithm, Thumbprintable};
use web_bot_auth::message_signatures::{MessageSigner, UnsignedMessage};

use super::headers::text;
use crate::address::PageUrl;
use crate::settings::ScopeRule;

/// How long a signature is valid.
const VALID: Duration = Duration::from_secs(5 * 60);

/// The label of the signature, and its key in `Signature-Agent`.
const LABEL: &str = "spoor";

/// The value of `tag` (section 4.2 of the draft).
const TAG: &str = "web-bot-auth";

/// The most hosts whose wishes are remembered; a forgotten host asks again.
const MOST_HOSTS: usize = 100_000;

/// The longest nonce that is returned, in bytes.
const MAX_NONCE: usize = 256;

/// The components that are covered if a host asks for them; some are covered always.
const ON_DEMAND: [&str; 4] = ["@target-uri", "@scheme", "@query", "user-agent"];

/// The headers of a signature, which no archive contains.
pub const SIGNATURE_HEADERS: [&str; 3] = ["signature", "signature-input", "signature-agent"];

/// A key pair as a file: a JSON Web Key (RFC 7517, RFC 8037).
#[derive(Serialize, Deserialize)]
pub struct KeyFile {
    kty: String,
    crv: String,
    /// The thumbprint (RFC 7638).
    kid: String,
    x: String,
    /// The private part.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    d: String,
    #[serde(rename = "use", default = "signature")]
    usage: String,
}

fn signature() -> String {
    "sig".to_owned()
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyFile")
            .field("kid", &self.kid)
            .finish_non_exhaustive()
    }
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("{}: the key cannot be read: {why}; `spoor keys new` makes one", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// Others may read it.
    #[error(
        "{}: others may read this private key; run `chmod 600 {}`, or make a new key if they may \
         have read it", path.display(), path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// It is not a key.
    #[error("{}: it is not a private Ed25519 key as `spoor keys new` makes one: {why}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The cause, without any part of the key.
        why: &'static str,
    },
    /// The system has no random numbers.
    #[error("the system gave no random numbers: {0}")]
    Random(String),
}

impl KeyFile {
    /// A new key pair.
    ///
    /// # Errors
    ///
    /// [`KeyError::Random`].
    pub fn new() -> Result<Self, KeyError> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| KeyError::Random(error.to_string()))?;
        Ok(Self::of(&SigningKey::from_bytes(&secret)))
    }

    fn of(key: &SigningKey) -> Self {
        let x = BASE64_URL_SAFE_NO_PAD.encode(key.verifying_key().as_bytes());
        let crv = "Ed25519".to_owned();
        let public = Thumbprintable::OKP {
            crv: crv.clone(),
            x: x.clone(),
        };
        Self {
            kty: "OKP".to_owned(),
            crv,
            kid: public.b64_thumbprint(),
            x,
            d: BASE64_URL_SAFE_NO_PAD.encode(key.as_bytes()),
            usage: signature(),
        }
    }

    /// Reads a private key that only its owner may read.
    ///
    /// # Errors
    ///
    /// [`KeyError`] names the file.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let read = |error: std::io::Error| KeyError::Read {
            path: path.to_owned(),
            why: error.to_string(),
        };
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let mode = std::fs::metadata(path).map_err(read)?.mode();
            if mode & 0o077 != 0 {
                return Err(KeyError::Open {
                    path: path.to_owned(),
                });
            }
        }
        let text = crate::fs::read_to_string(path).map_err(read)?;
        let wrong = |why| KeyError::Form {
            path: path.to_owned(),
            why,
        };
        let file: Self = serde_json::from_str(&text).map_err(|_| wrong("not a JSON Web Key"))?;
        let secret = BASE64_URL_SAFE_NO_PAD.decode(&file.d).unwrap_or_default();
        let secret: [u8; 32] = secret
            .try_into()
            .map_err(|_| wrong("`d` has no 32 bytes"))?;
        let own = Self::of(&SigningKey::from_bytes(&secret));
        if own.x != file.x || own.kid != file.kid {
            return Err(wrong("its public part is that of another key"));
        }
        Ok(own)
    }

    /// The name of the key.
    pub fn id(&self) -> &str {
        &self.kid
    }

    /// The private key as JSON.
    pub fn private(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The key directory with the public key, which the operator serves at
    /// `/.well-known/http-message-signatures-directory`.
    pub fn directory(&self) -> serde_json::Value {
        let Self {
            kty,
            crv,
            kid,
            x,
            usage,
            ..
        } = self;
        serde_json::json!({"keys": [{"kty": kty, "crv": crv, "kid": kid, "x": x, "use": usage}]})
    }
}

/// What a host has asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wish {
    /// To be returned in the signature.
    nonce: Option<String>,
    /// The components that it wants to be covered.
    components: BTreeSet<&'static str>,
}

/// Signs requests and names the operator.
pub struct Identity {
    key: Option<(KeyFile, PageUrl)>,
    from: Option<HeaderValue>,
    always: Vec<ScopeRule>,
    asked: Mutex<HashMap<String, Wish>>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// A crawler with a key, whose directory is at the origin of `agent`. Requests to the hosts of
    /// `always` are signed without being asked.
    pub fn new(
        key: Option<(KeyFile, PageUrl)>,
        from: Option<&str>,
        always: Vec<ScopeRule>,
    ) -> Self {
        Self {
            key,
            from: from.and_then(|from| HeaderValue::from_str(from).ok()),
            always,
            asked: Mutex::default(),
        }
    }

    /// The headers of a request to `url`, and the nonce of its signature. Those of a signature come
    /// only if the host wants one.
    pub(super) fn headers(&self, url: &PageUrl, user_agent: &str) -> (HeaderMap, Option<String>) {
        let mut headers = HeaderMap::new();
        headers.extend(self.from.clone().map(|from| (reqwest::header::FROM, from)));
        // A nonce of the host is for one request.
        let taken = |wish: &mut Wish| {
            let nonce = wish.nonce.take();
            Wish {
                nonce,
                ..wish.clone()
            }
        };
        let wish = self.lock().get_mut(&host_of(url)).map(taken);
        let is_named = || {
            let surt = url.surt();
            self.always.iter().any(|rule| rule.covers(url, &surt))
        };
        let wish = match wish {
            None if !is_named() => return (headers, None),
            wish => wish.unwrap_or_default(),
        };
        let Some((key, agent)) = &self.key else {
            return (headers, None);
        };
        let nonce = wish.nonce.clone().unwrap_or_else(nonce);
        match signed(key, agent, url, user_agent, &wish, &nonce) {
            Some(signed) => {
                headers.extend(signed);
                (headers, Some(nonce))
            }
            None => (headers, None),
        }
    }

    /// Notes that a host asks for a signature. Returns false if it does not, or if it has refused the
    /// one that it asked for: `sent` is the nonce of the request's signature.
    pub(super) fn is_challenge(&self, url: &PageUrl, head: &HeaderMap, sent: Option<&str>) -> bool {
        let lines = head.get_all("accept-signature").iter().map(text);
        let lines: Vec<String> = lines.collect();
        let Some(wish) = self.key.as_ref().and_then(|_| wish(&lines.join(", "))) else {
            return false;
        };
        let is_new = match (sent, &wish.nonce) {
            (None, _) => true,
            (Some(sent), Some(nonce)) => sent != nonce,
            (Some(_), None) => false,
        };
        if is_new {
            let mut asked = self.lock();
            if asked.len() >= MOST_HOSTS {
                asked.clear();
            }
            asked.insert(host_of(url), wish);
        }
        is_new
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Wish>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The host and, if it is not that of the scheme, the port (RFC 9421 section 2.2.3).
fn host_of(url: &PageUrl) -> String {
    url.host_key().as_str().to_owned()
}

/// 64 random bytes, as in the examples of the draft.
fn nonce() -> String {
    let mut bytes = [0; 64];
    // Without random numbers a signature is still valid, but may be taken for a replay.
    getrandom::fill(&mut bytes).ok();
    BASE64_STANDARD.encode(bytes)
}

/// The wish in an `Accept-Signature` header (RFC 9421 section 5.1): the first member for this tag, or
/// without a tag.
fn wish(header: &str) -> Option<Wish> {
    let asked: sfv::Dictionary = sfv::Parser::new(header).parse_dictionary().ok()?;
    asked.into_iter().find_map(|(_, member)| {
        let sfv::ListEntry::InnerList(list) = member else {
            return None;
        };
        let of = |name: &str| list.params.get(name).and_then(|value| value.as_string());
        if of("tag").is_some_and(|tag| tag.as_str() != TAG) {
            return None;
        }
        let nonce = of("nonce").map(|nonce| nonce.as_str().to_owned());
        let named = list
            .items
            .iter()
            .filter_map(|item| item.bare_item.as_string());
        Some(Wish {
            nonce: nonce.filter(|nonce| nonce.len() <= MAX_NONCE),
            components: named
                .filter_map(|name| ON_DEMAND.into_iter().find(|own| *own == name.as_str()))
                .collect::<BTreeSet<_>>(),
        })
    })
}

/// A message under way to its signature.
struct Draft {
    components: IndexMap<CoveredComponent, String>,
    signed: Option<(String, String)>,
}

impl UnsignedMessage for Draft {
    fn fetch_components_to_cover(&self) -> IndexMap<CoveredComponent, String> {
        self.components.clone()
    }

    fn register_header_contents(&mut self, input: String, signature: String) {
        self.signed = Some((input, signature));
    }
}

/// The headers of a signature; `None` if it cannot be made.
fn signed(
    key: &KeyFile,
    agent: &PageUrl,
    url: &PageUrl,
    user_agent: &str,
    wish: &Wish,
    nonce: &str,
) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let agent = agent.as_str().trim_end_matches('/');
    let mut components = IndexMap::new();
    let mut cover = |component: DerivedComponent, value: &str| {
        components.insert(CoveredComponent::Derived(component), value.to_owned());
    };
    cover(DerivedComponent::Method { req: false }, "GET");
    cover(DerivedComponent::Authority { req: false }, &host_of(url));
    cover(DerivedComponent::Path { req: false }, url.path());
    for name in &wish.components {
        match *name {
            "@target-uri" => cover(DerivedComponent::TargetUri { req: false }, url.as_str()),
            "@scheme" => cover(DerivedComponent::Scheme { req: false }, url.scheme()),
            "@query" => {
                let query = format!("?{}", url.query().unwrap_or_default());
                cover(DerivedComponent::Query { req: false }, &query);
            }
            _ => {}
        }
    }
    let field = |name: &str, parameters: Vec<HTTPFieldParameters>| {
        CoveredComponent::HTTP(HTTPField {
            name: name.to_owned(),
            parameters: HTTPFieldParametersSet(parameters),
        })
    };
    if wish.components.contains("user-agent") {
        components.insert(field("user-agent", Vec::new()), user_agent.to_owned());
    }
    let own = HTTPFieldParameters::Key(LABEL.to_owned());
    let value = format!("\"{agent}\"");
    components.insert(field("signature-agent", vec![own]), value);
    let mut draft = Draft {
        components,
        signed: None,
    };
    let signer = MessageSigner {
        keyid: key.kid.clone(),
        nonce: nonce.to_owned(),
        tag: TAG.to_owned(),
    };
    let secret = BASE64_URL_SAFE_NO_PAD.decode(&key.d).ok()?;
    signer
        .generate_signature_headers_content(&mut draft, VALID, Algorithm::Ed25519, &secret)
        .ok()?;
    let (input, signature) = draft.signed?;
    let header = |name: &'static str, value: String| {
        let value = HeaderValue::from_str(&value).ok()?;
        Some((HeaderName::from_static(name), value))
    };
    Some(vec![
        header("signature-agent", format!("{LABEL}=\"{agent}\""))?,
        header("signature-input", format!("{LABEL}={input}"))?,
        header("signature", format!("{LABEL}={signature}"))?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use spoor_settings::TextValue;
    use web_bot_auth::WebBotAuthVerifier;
    use web_bot_auth::keyring::{JSONWebKeySet, KeyRing};
    use web_bot_auth::message_signatures::SignedMessage;

    /// The test key of RFC 9421, appendix B.1.4.
    const SECRET: &str = "n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU";

    fn test_key() -> KeyFile {
        let secret = BASE64_URL_SAFE_NO_PAD.decode(SECRET).unwrap();
        KeyFile::of(&SigningKey::from_bytes(&secret.try_into().unwrap()))
    }

    fn url(text: &str) -> PageUrl {
        PageUrl::parse(text).unwrap()
    }

    /// A request as its server sees it.
    struct Seen {
        url: PageUrl,
        headers: Vec<(&'static str, String)>,
    }

    impl Seen {
        fn header(&self, name: &str) -> Vec<String> {
            let named = self.headers.iter().filter(|(own, _)| *own == name);
            named.map(|(_, value)| value.clone()).collect()
        }
    }

    impl SignedMessage for Seen {
        fn lookup_component(&self, name: &CoveredComponent) -> Vec<String> {
            match name {
                CoveredComponent::HTTP(HTTPField { name, parameters }) => {
                    let key = parameters.0.iter().find_map(|parameter| match parameter {
                        HTTPFieldParameters::Key(key) => Some(key),
                        _ => None,
                    });
                    match key {
                        None => self.header(name),
                        Some(key) => {
                            let all = self.header(name).join(", ");
                            let all: sfv::Dictionary =
                                sfv::Parser::new(&all).parse_dictionary().unwrap();
                            let member = all.get(key.as_str()).unwrap();
                            let sfv::ListEntry::Item(item) = member else {
                                return Vec::new();
                            };
                            let text = item.bare_item.as_string().unwrap().as_str();
                            vec![format!("\"{text}\"")]
                        }
                    }
                }
                CoveredComponent::Derived(derived) => vec![match derived {
                    DerivedComponent::Method { .. } => "GET".to_owned(),
                    DerivedComponent::Authority { .. } => self.url.host_key().as_str().to_owned(),
                    DerivedComponent::Path { .. } => self.url.path().to_owned(),
                    DerivedComponent::TargetUri { .. } => self.url.as_str().to_owned(),
                    DerivedComponent::Query { .. } => {
                        format!("?{}", self.url.query().unwrap_or_default())
                    }
                    _ => return Vec::new(),
                }],
            }
        }
    }

    fn is_valid(seen: &Seen, key: &KeyFile) -> bool {
        let keys: JSONWebKeySet = serde_json::from_value(key.directory()).unwrap();
        let mut ring = KeyRing::default();
        assert!(ring.import_jwks(keys).iter().all(Option::is_none));
        let parsed = WebBotAuthVerifier::parse(seen);
        parsed.is_ok_and(|verifier| verifier.verify(&ring, None).is_ok())
    }

    /// The vector of the draft, "EdDSA Using Curve edwards25519", with `Signature-Agent`.
    #[test]
    fn the_key_is_that_of_the_drafts_vector() {
        let key = test_key();
        assert_eq!(key.id(), "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U");
        assert_eq!(key.x, "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs");
        let input = "sig2=(\"@authority\" \"signature-agent\";key=\"agent2\");created=1735689600\
            ;keyid=\"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U\";alg=\"ed25519\";expires=4889289600\
            ;nonce=\"n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==\"\
            ;tag=\"web-bot-auth\"";
        let signature = "sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:";
        let seen = Seen {
            url: url("https://example.com/"),
            headers: vec![
                (
                    "signature-agent",
                    "agent2=\"https://signature-agent.test\"".to_owned(),
                ),
                ("signature-input", input.to_owned()),
                ("signature", signature.to_owned()),
            ],
        };
        assert!(is_valid(&seen, &key));
        let other = Seen {
            url: url("https://example.org/"),
            headers: seen.headers,
        };
        assert!(!is_valid(&other, &key));
    }

    #[test]
    fn a_host_that_asks_gets_signatures_and_others_do_not() {
        let agent = url("https://bot.example/");
        let always = vec![ScopeRule::from_text("host:always.example").unwrap()];
        let key = test_key();
        let identity = Identity::new(Some((test_key(), agent)), Some("ops@bot.example"), always);
        let headers = |page: &PageUrl| {
            let (headers, nonce) = identity.headers(page, "spoor/1 (+x)");
            assert_eq!(headers["from"], "ops@bot.example");
            assert_eq!(headers.contains_key("signature"), nonce.is_some());
            let own = SIGNATURE_HEADERS.iter();
            let own = own
                .filter_map(|name| Some((*name, headers.get(*name)?.to_str().unwrap().to_owned())));
            let mut own: Vec<_> = own.collect();
            own.push(("user-agent", "spoor/1 (+x)".to_owned()));
            let seen = Seen {
                url: page.clone(),
                headers: own,
            };
            (seen, nonce)
        };
        let page = url("http://a.example:8080/x?y=1");
        assert_eq!(headers(&page).1, None, "it has not asked");
        let named = url("https://always.example/");
        assert!(is_valid(&headers(&named).0, &key));
        let head = |value: &str| {
            let value = HeaderValue::from_str(value).unwrap();
            HeaderMap::from_iter([(HeaderName::from_static("accept-signature"), value)])
        };
        for other in [
            "sig=(\"@authority\");tag=\"another\"",
            "nonsense;;",
            "sig=1",
            "",
        ] {
            assert!(!identity.is_challenge(&page, &head(other), None), "{other}");
        }
        let asked = "sig=(\"@target-uri\" \"@query\" \"user-agent\" \"cookie\");created;keyid\
                     ;nonce=\"n1\";tag=\"web-bot-auth\"";
        assert!(identity.is_challenge(&page, &head(asked), None));
        let (seen, nonce) = headers(&page);
        assert_eq!(nonce.as_deref(), Some("n1"));
        let input = seen.header("signature-input").concat();
        for part in [
            "@authority",
            "@target-uri",
            "@query",
            "user-agent",
            "nonce=\"n1\"",
        ] {
            assert!(input.contains(part), "{part} in {input}");
        }
        assert!(is_valid(&seen, &key), "{input}");
        // Not for another address.
        let elsewhere = Seen {
            url: url("http://a.example:8080/other"),
            headers: seen.headers,
        };
        assert!(!is_valid(&elsewhere, &key));
        // Refused although signed as asked: it is no challenge; a new nonce is one.
        assert!(!identity.is_challenge(&page, &head(asked), Some("n1")));
        let again = asked.replace("n1", "n2");
        assert!(identity.is_challenge(&page, &head(&again), Some("n1")));
        assert_eq!(headers(&page).1.as_deref(), Some("n2"));
        // Two signatures have two nonces if the host gives none.
        let plain = "sig=(\"@authority\")";
        assert!(identity.is_challenge(&page, &head(plain), None));
        assert_ne!(headers(&page).1, headers(&page).1);
        assert!(!identity.is_challenge(&page, &head(plain), Some("mine")));
        let none = Identity::new(None, None, Vec::new());
        assert!(
            !none.is_challenge(&page, &head(asked), None),
            "there is no key"
        );
    }

    #[test]
    fn keys_are_read_only_if_they_are_private_and_whole() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("private.jwk");
        let write = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            KeyFile::load(&path)
        };
        let key = KeyFile::new().unwrap();
        let other = KeyFile::new().unwrap();
        assert_ne!(key.id(), other.id());
        let text = key.private();
        assert_eq!(write(&text, 0o600).unwrap().id(), key.id());
        for mode in [0o640, 0o604, 0o644] {
            let error = write(&text, mode).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
        }
        let swapped = text.replace(&key.x, &other.x);
        let secret = key.d.clone();
        for (text, why) in [
            ("", "not a JSON Web Key"),
            (&*key.directory().to_string(), "not a JSON Web Key"),
            (&*text.replace(&key.d, "AAAA"), "32 bytes"),
            (&swapped, "another key"),
        ] {
            let error = write(text, 0o600).unwrap_err().to_string();
            assert!(
                error.contains(why) && error.contains("private.jwk"),
                "{error}"
            );
            assert!(!error.contains(&key.d), "the message has the key");
        }
        let shown = format!("{key:?}");
        let identity = Identity::new(Some((key, url("https://a.org/"))), None, vec![]);
        assert!(!format!("{shown} {identity:?}").contains(&secret));
        let error = KeyFile::load(&folder.path().join("none"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("spoor keys new"), "{error}");
    }
}
