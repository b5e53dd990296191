//! Objects in an S3-compatible bucket, with the credentials and the endpoint that the usual
//! `AWS_` variables name.
//!
//! The compare-and-set is a conditional request (`If-Match`, `If-None-Match`).

use std::future::Future;
use std::sync::Arc;

use futures_util::TryStreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as ConfigKey};
use object_store::path::{Path as Key, PathPart};
use object_store::{
    ClientConfigKey as ClientKey, Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    RetryConfig, UpdateVersion,
};
use tokio::runtime::Runtime;

use super::{Done, Objects, ObjectsError, Version};

/// How long one request may take.
const PATIENCE: &str = "300 seconds";
/// How long a request that fails is repeated.
const RETRIES: std::time::Duration = std::time::Duration::from_secs(20);

/// The store of an address, with what the environment says of it, and the beginning of the
/// keys there.
///
/// # Errors
/// What is wrong with the address or the environment.
pub(crate) fn connect(to: &str) -> Result<(Arc<dyn ObjectStore>, Key), Error> {
    // Another part of the program may have chosen it already.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let path = to
        .strip_prefix("s3://")
        .and_then(|rest| rest.split_once('/'));
    let key = Key::parse(path.map_or("", |(_, path)| path))?;
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let mut builder = AmazonS3Builder::from_env().with_url(to);
    if !is_set("AWS_TIMEOUT") {
        builder = builder.with_config(ConfigKey::Client(ClientKey::Timeout), PATIENCE);
    }
    let keys = [ConfigKey::S3Endpoint, ConfigKey::Endpoint];
    let endpoint = keys.iter().find_map(|key| builder.get_config_value(key));
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    let retry = RetryConfig {
        retry_timeout: RETRIES,
        ..RetryConfig::default()
    };
    let store = builder.with_retry(retry).build()?;
    Ok((Arc::new(store), key))
}

/// The objects of a bucket whose keys begin alike.
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

    fn at(&self, name: &str) -> Key {
        let parts = name.split('/').map(PathPart::from);
        self.key.parts().chain(parts).collect()
    }

    /// Waits for a request on a thread of its own, because a caller may be within a runtime.
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
            to: format!("{}/{name}", self.address.trim_end_matches('/')),
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
    fn get(&self, name: &str) -> Done<Option<(Vec<u8>, Version)>> {
        let key = self.at(name);
        self.wait(name, "reading", async {
            let found = match self.store.get(&key).await {
                Err(Error::NotFound { .. }) => return Ok(None),
                found => found?,
            };
            let version = Version(found.meta.e_tag.clone().unwrap_or_default());
            Ok(Some((found.bytes().await?.to_vec(), version)))
        })
    }

    fn length(&self, name: &str) -> Done<Option<u64>> {
        let key = self.at(name);
        self.wait(name, "looking", async {
            match self.store.head(&key).await {
                Err(Error::NotFound { .. }) => Ok(None),
                found => found.map(|found| Some(found.size)),
            }
        })
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> Done<()> {
        let key = self.at(name);
        self.wait(name, "writing", async {
            self.store.put(&key, bytes.into()).await.map(drop)
        })
    }

    fn settle(&self) -> Done<()> {
        Ok(())
    }

    fn swap(&self, name: &str, bytes: &[u8], was: Option<&Version>) -> Done<bool> {
        let key = self.at(name);
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
                // The object is gone that was to be replaced.
                Err(Error::NotFound { .. }) => Ok(false),
                put => put.map(|_| true),
            }
        })
    }

    fn list(&self, folder: &str) -> Done<Vec<String>> {
        let below = self.at(folder);
        let found: Vec<_> = self.wait(
            folder,
            "listing",
            self.store.list(Some(&below)).try_collect(),
        )?;
        let named = found.into_iter().filter_map(|object| {
            let parts = object.location.prefix_match(&self.key)?;
            let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
            Some(parts.join("/"))
        });
        Ok(named.collect())
    }

    fn delete(&self, name: &str) -> Done<()> {
        let key = self.at(name);
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
