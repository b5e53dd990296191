//! Objects in an S3-compatible bucket, with the credentials and the endpoint that the usual
//! `AWS_` variables name.
//!
//! The compare-and-set is a conditional request (`If-Match`, `If-None-Match`). Redirects are not
//! followed, because a signature is valid for one host only. The size of an endpoint's answers is
//! bounded.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as ConfigKey};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::path::{Path as Key, PathPart};
use object_store::{
    ClientConfigKey as ClientKey, ClientOptions, Error, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, PutOptions, RetryConfig, UpdateVersion,
};
use tokio::runtime::Runtime;

use super::{Done, Objects, ObjectsError, Version, check};

/// The time limit of one request, and of the next object of a listing.
const PATIENCE: Duration = Duration::from_secs(300);
/// The time limit of a connection.
const CONNECTING: Duration = Duration::from_secs(5);
/// How long a failing request is repeated.
const RETRIES: Duration = Duration::from_secs(20);
/// The maximum bytes of an answer that is not an object. A page of a listing has a thousand names.
const ANSWER: usize = 16 << 20;
/// The maximum number of objects in a listing.
const LISTED: usize = 4_000_000;

/// The store at an address, with the settings from the environment, and the prefix of its keys.
///
/// # Errors
/// What is wrong with the address or the environment.
pub fn connect(to: &str) -> Result<(Arc<dyn ObjectStore>, Key), Error> {
    // Another part of the program may have chosen it already.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let path = to
        .strip_prefix("s3://")
        .and_then(|rest| rest.split_once('/'));
    let key = Key::parse(path.map_or("", |(_, path)| path))?;
    let mut builder = AmazonS3Builder::from_env().with_url(to);
    let keys = [ConfigKey::S3Endpoint, ConfigKey::Endpoint];
    let endpoint = keys.iter().find_map(|key| builder.get_config_value(key));
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    let retry = RetryConfig {
        retry_timeout: RETRIES,
        ..RetryConfig::default()
    };
    let builder = builder.with_retry(retry).with_http_connector(Connector);
    Ok((Arc::new(builder.build()?), key))
}

/// All objects below a key.
///
/// # Errors
/// A request fails, or the listing does not end.
pub async fn list(store: &dyn ObjectStore, below: &Key) -> Result<Vec<ObjectMeta>, Error> {
    let mut all = Vec::new();
    let mut listing = store.list(Some(below));
    let endless = |why: String| Error::Generic {
        store: "S3",
        source: why.into(),
    };
    loop {
        let next = tokio::time::timeout(PATIENCE, listing.try_next()).await;
        let next = next.map_err(|_| endless(format!("nothing new in {PATIENCE:?}")))?;
        let Some(object) = next? else {
            return Ok(all);
        };
        if all.len() == LISTED {
            return Err(endless(format!("it has more than {LISTED} objects")));
        }
        all.push(object);
    }
}

/// Makes the client of a store.
#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient, Error> {
        let is = |key: ClientKey| options.get_config_value(&key).as_deref() == Some("true");
        let failed = |error: reqwest::Error| Error::Generic {
            store: "S3",
            source: error.into(),
        };
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .connect_timeout(CONNECTING)
            .http1_only()
            .https_only(!is(ClientKey::AllowHttp))
            .danger_accept_invalid_certs(is(ClientKey::AllowInvalidCertificates));
        if let Some(proxy) = options.get_config_value(&ClientKey::ProxyUrl) {
            builder = builder.proxy(reqwest::Proxy::all(proxy).map_err(failed)?);
        }
        Ok(HttpClient::new(Bounded(builder.build().map_err(failed)?)))
    }
}

/// A client that limits the size of answers. Objects have their own limits.
#[derive(Debug)]
struct Bounded(reqwest::Client);

impl HttpService for Bounded {
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> BoxFuture<'f, Result<HttpResponse, HttpError>>
    where
        's: 'f,
        Self: 'f,
    {
        let is_object = request.method() == "GET" && request.uri().query().is_none();
        let answer = self.0.call(request);
        let bounded = async move {
            let (head, body) = answer.await?.into_parts();
            if is_object && head.status.is_success() {
                return Ok(HttpResponse::from_parts(head, body));
            }
            let mut all = BytesMut::new();
            let mut pieces = body.bytes_stream();
            while let Some(piece) = pieces.try_next().await? {
                if all.len() + piece.len() > ANSWER {
                    let why = format!("an answer has more than {ANSWER} bytes");
                    return Err(HttpError::new(HttpErrorKind::Decode, io::Error::other(why)));
                }
                all.extend_from_slice(&piece);
            }
            Ok(HttpResponse::from_parts(head, all.freeze().into()))
        };
        bounded.boxed()
    }
}

/// The objects of a bucket whose keys have the same prefix.
pub(super) struct Bucket {
    address: String,
    store: Arc<dyn ObjectStore>,
    key: Key,
    runtime: Runtime,
}

impl Bucket {
    pub(super) fn new(address: &str) -> Done<Self> {
        let failed = |why: String| ObjectsError::Failed {
            to: address.to_owned(),
            what: "opening",
            why,
        };
        let (store, key) = connect(address).map_err(|error| failed(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("spoor-bucket")
            .enable_all()
            .build()
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self {
            address: address.to_owned(),
            store,
            key,
            runtime,
        })
    }

    fn at(&self, name: &str) -> Done<Key> {
        check(&self.address, name)?;
        let parts = name.split('/').map(PathPart::from);
        Ok(self.key.parts().chain(parts).collect())
    }

    /// An object with its store, for messages.
    fn name_of(&self, name: &str) -> String {
        format!("{}/{name}", self.address.trim_end_matches('/'))
    }

    /// Waits for a request on a separate thread, because a caller may be within a runtime.
    fn wait<T: Send>(
        &self,
        name: &str,
        what: &'static str,
        request: impl Future<Output = Result<T, Error>> + Send,
    ) -> Done<T> {
        let done = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| self.runtime.block_on(request));
            waiting.join()
        });
        let failed = |why: String| ObjectsError::Failed {
            to: self.name_of(name),
            what,
            why,
        };
        match done {
            Ok(done) => done.map_err(|error| failed(error.to_string())),
            Err(_) => Err(failed("a defect of spoor; please report it".to_owned())),
        }
    }
}

impl Objects for Bucket {
    fn get(&self, name: &str, most: u64) -> Done<Option<(Vec<u8>, Version)>> {
        let key = self.at(name)?;
        // An answer is at most as long as it declares.
        let found = self.wait(name, "reading", async {
            let found = match self.store.get(&key).await {
                Err(Error::NotFound { .. }) => return Ok(None),
                found => found?,
            };
            if found.meta.size > most {
                return Ok(Some(None));
            }
            let version = Version(found.meta.e_tag.clone().unwrap_or_default());
            Ok(Some(Some((found.bytes().await?.to_vec(), version))))
        })?;
        let long = || ObjectsError::Long {
            to: self.name_of(name),
            most,
        };
        found.map(|found| found.ok_or_else(long)).transpose()
    }

    fn length(&self, name: &str) -> Done<Option<u64>> {
        let key = self.at(name)?;
        self.wait(name, "looking", async {
            match self.store.head(&key).await {
                Err(Error::NotFound { .. }) => Ok(None),
                found => found.map(|found| Some(found.size)),
            }
        })
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> Done<()> {
        let key = self.at(name)?;
        self.wait(name, "writing", async {
            self.store.put(&key, bytes.into()).await.map(drop)
        })
    }

    fn settle(&self) -> Done<()> {
        Ok(())
    }

    fn swap(&self, name: &str, bytes: &[u8], was: Option<&Version>) -> Done<bool> {
        let key = self.at(name)?;
        let mode = match was {
            None => PutMode::Create,
            Some(Version(tag)) => PutMode::Update(UpdateVersion {
                e_tag: Some(tag.clone()),
                version: None,
            }),
        };
        let options = PutOptions {
            mode,
            ..PutOptions::default()
        };
        let bytes = bytes.to_vec();
        self.wait(name, "writing", async {
            match self.store.put_opts(&key, bytes.into(), options).await {
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
                // The object to be replaced is gone.
                Err(Error::NotFound { .. }) => Ok(false),
                put => put.map(|_| true),
            }
        })
    }

    fn list(&self, folder: &str) -> Done<Vec<String>> {
        let below = self.at(folder)?;
        let found = self.wait(folder, "listing", list(&*self.store, &below))?;
        let named = found.into_iter().filter_map(|object| {
            let parts = object.location.prefix_match(&self.key)?;
            let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
            let name = parts.join("/");
            check(&self.address, &name).ok()?;
            Some(name)
        });
        Ok(named.collect())
    }

    fn delete(&self, name: &str) -> Done<()> {
        let key = self.at(name)?;
        self.wait(name, "removing", async {
            match self.store.delete(&key).await {
                Err(Error::NotFound { .. }) => Ok(()),
                deleted => deleted,
            }
        })
    }

    fn address(&self) -> &str {
        &self.address
    }
}
