//! Uploads a corpus to an S3-compatible store: the same files as in its folder.
//!
//! The mark is uploaded last and removed first, so a store with the mark has the whole corpus.
//! Each object carries the digest of its file, so an interrupted upload continues, and
//! repeating a complete one costs a listing and one request.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::path::{Path as Key, PathPart};
use object_store::{
    Attribute, AttributeValue, Attributes, GetOptions, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, WriteMultipart,
};
use xxhash_rust::xxh3::Xxh3;

use super::super::MARK;
use super::super::error::defect;
use super::Sent;
use crate::crawl::objects::bucket;
use crate::fs::{IoError, files_beneath};
use crate::progress::Step as Progress;
use crate::tool_error::ToolError;

/// The object that marks an unfinished upload.
const SENDING: &str = ".spoor-sending";
/// The folder of the search index, which stays on this machine.
const INDEX: &str = "search";
/// The attribute with the digest of an object; on the mark, that of all files.
const DIGEST: &str = "spoor-digest";
/// The size in bytes from which a file is uploaded in parts, and the size of a part.
const PART: usize = if cfg!(test) { 5_000 } else { 8 << 20 };
/// The number of parts that are uploaded at once.
const PARTS: usize = 4;

/// Makes the store at `to`, as `s3://BUCKET/PATH`, contain exactly the files of a corpus.
///
/// # Errors
///
/// [`ToolError`] names the place, and says what to do.
pub(in crate::pipeline) fn send(folder: &Path, to: &str) -> Result<Sent, ToolError> {
    // In a separate thread, because the caller may be within a runtime.
    let sent = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(IoError::at(folder, "sending"))?;
            let connected = bucket::connect(to);
            let (store, key) = connected.map_err(|error| failed(to, "opening", &error))?;
            runtime.block_on(Sending { store, key, to }.run(folder))
        });
        sending.join()
    });
    sent.unwrap_or_else(|_| Err(defect()))
}

fn failed(to: &str, what: &'static str, error: &object_store::Error) -> ToolError {
    refused(to, what, error)
}

/// A failed request to the store.
fn refused(to: &str, what: &str, why: impl Display) -> ToolError {
    ToolError::new(format_args!(
        "{to}: {what} failed: {why}; correct the plan's `store` or AWS_ACCESS_KEY_ID, \
         AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL, and run this again: what was \
         sent is not sent again"
    ))
}

/// A file of the corpus.
struct LocalFile {
    path: PathBuf,
    size: u64,
    digest: String,
}

struct Sending<'s> {
    store: Arc<dyn ObjectStore>,
    key: Key,
    to: &'s str,
}

impl Sending<'_> {
    async fn run(&self, folder: &Path) -> Result<Sent, ToolError> {
        let files = files(folder)?;
        let there = self.listed().await?;
        let is_known = there.contains_key(MARK) || there.contains_key(SENDING);
        if !there.is_empty() && !is_known {
            let why = format_args!(
                "there are other objects, and no {MARK}; name another `store` under [output]"
            );
            return Err(refused(self.to, "sending", why));
        }
        let digest = of_all(&files);
        let mut sent = Sent {
            to: self.to.to_owned(),
            ..Sent::default()
        };
        let has = |(name, file): (&String, &LocalFile)| there.get(name) == Some(&file.size);
        if !there.contains_key(SENDING)
            && files.iter().all(has)
            && there.len() == files.len()
            && self.digest(MARK).await?.as_ref() == Some(&digest)
        {
            sent.kept = files.len() as u64;
            return Ok(sent);
        }
        self.put(SENDING, Vec::new(), "").await?;
        self.delete(MARK).await?;
        let bytes = files.values().map(|file| file.size).sum();
        let mut progress = Progress::begin("bytes sent", Some(bytes));
        for (name, file) in files.iter().filter(|(name, _)| *name != MARK) {
            let is_there = there.get(name) == Some(&file.size)
                && self.digest(name).await?.as_ref() == Some(&file.digest);
            if is_there {
                sent.kept += 1;
            } else {
                self.file(name, file).await?;
                sent.files += 1;
                sent.bytes += file.size;
            }
            progress.advance(file.size);
        }
        for name in there.keys() {
            if !files.contains_key(name) && name != SENDING {
                self.delete(name).await?;
                sent.deleted += 1;
            }
        }
        if let Some(mark) = files.get(MARK) {
            let text = crate::fs::read(&mark.path).map_err(IoError::at(&mark.path, "reading"))?;
            self.put(MARK, text, &digest).await?;
            sent.files += 1;
            sent.bytes += mark.size;
        }
        self.delete(SENDING).await?;
        Ok(sent)
    }

    fn at(&self, name: &str) -> Key {
        let parts = name.split('/').map(PathPart::from);
        self.key.parts().chain(parts).collect()
    }

    fn failed(&self, what: &'static str) -> impl FnOnce(object_store::Error) -> ToolError {
        let to = self.to.to_owned();
        move |error| failed(&to, what, &error)
    }

    /// The sizes of the stored objects by their names.
    async fn listed(&self) -> Result<BTreeMap<String, u64>, ToolError> {
        let all = bucket::list(&*self.store, &self.key).await;
        let all = all.map_err(self.failed("listing"))?;
        let named = all.into_iter().filter_map(|object| {
            let parts = object.location.prefix_match(&self.key)?;
            let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
            Some((parts.join("/"), object.size))
        });
        Ok(named.collect())
    }

    /// The digest that an object carries.
    async fn digest(&self, name: &str) -> Result<Option<String>, ToolError> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        match self.store.get_opts(&self.at(name), options).await {
            Ok(found) => {
                let digest = found.attributes.get(&Attribute::Metadata(DIGEST.into()));
                Ok(digest.map(|digest| digest.as_ref().to_owned()))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed(self.to, "looking", &error)),
        }
    }

    async fn put(&self, name: &str, bytes: Vec<u8>, digest: &str) -> Result<(), ToolError> {
        let options = PutOptions {
            attributes: attributes(digest),
            ..PutOptions::default()
        };
        let key = self.at(name);
        let put = self.store.put_opts(&key, bytes.into(), options);
        put.await.map_err(self.failed("sending"))?;
        Ok(())
    }

    async fn delete(&self, name: &str) -> Result<(), ToolError> {
        match self.store.delete(&self.at(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(self.to, "deleting", &error)),
        }
    }

    async fn file(&self, name: &str, file: &LocalFile) -> Result<(), ToolError> {
        let mut from = crate::fs::open(&file.path).map_err(IoError::at(&file.path, "opening"))?;
        let mut read = || {
            let mut part = Vec::new();
            let read = from.by_ref().take(PART as u64).read_to_end(&mut part);
            read.map(|_| part)
                .map_err(IoError::at(&file.path, "reading"))
                .map_err(ToolError::from)
        };
        let first = read()?;
        if first.len() < PART {
            return self.put(name, first, &file.digest).await;
        }
        let options = PutMultipartOptions {
            attributes: attributes(&file.digest),
            ..PutMultipartOptions::default()
        };
        let key = self.at(name);
        let upload = self.store.put_multipart_opts(&key, options);
        let upload = upload.await.map_err(self.failed("sending"))?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
        let mut part = first;
        while !part.is_empty() {
            let room = upload.wait_for_capacity(PARTS).await;
            upload.put(part.into());
            let next = room.map_err(self.failed("sending")).and_then(|()| read());
            part = match next {
                Ok(next) => next,
                Err(error) => {
                    // The store would charge its owner for the uploaded parts for ever.
                    upload.abort().await.ok();
                    return Err(error);
                }
            };
        }
        upload.finish().await.map_err(self.failed("sending"))?;
        Ok(())
    }
}

fn attributes(digest: &str) -> Attributes {
    let mut attributes = Attributes::new();
    if !digest.is_empty() {
        let value = AttributeValue::from(digest.to_owned());
        attributes.insert(Attribute::Metadata(DIGEST.into()), value);
    }
    attributes
}

/// The files of a corpus by their names in it, without its index.
fn files(folder: &Path) -> Result<BTreeMap<String, LocalFile>, ToolError> {
    let index = folder.join(INDEX);
    let mut files = BTreeMap::new();
    for path in files_beneath(folder, |path| !path.starts_with(&index))? {
        let name = path.strip_prefix(folder).unwrap_or(&path);
        let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
        let (size, digest) = digest_of(&path)?;
        let name = parts.join("/");
        files.insert(name, LocalFile { path, size, digest });
    }
    Ok(files)
}

fn digest_of(path: &Path) -> Result<(u64, String), ToolError> {
    let mut file = crate::fs::open(path).map_err(IoError::at(path, "opening"))?;
    let mut hash = Xxh3::new();
    let (mut size, mut piece) = (0, vec![0; 1 << 16]);
    loop {
        let read = file
            .read(&mut piece)
            .map_err(IoError::at(path, "reading"))?;
        if read == 0 {
            return Ok((size, format!("{:032x}", hash.digest128())));
        }
        hash.update(piece.get(..read).unwrap_or_default());
        size += read as u64;
    }
}

fn of_all(files: &BTreeMap<String, LocalFile>) -> String {
    let mut hash = Xxh3::new();
    for (name, file) in files {
        hash.update(format!("{name} {}\n", file.digest).as_bytes());
    }
    format!("{:032x}", hash.digest128())
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt;
    use object_store::memory::InMemory;

    use super::*;

    fn run(store: &Arc<InMemory>, folder: &Path) -> Result<Sent, ToolError> {
        let sending = Sending {
            store: Arc::clone(store) as Arc<dyn ObjectStore>,
            key: Key::from("corpora/cats"),
            to: "s3://x/corpora/cats",
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(sending.run(folder))
    }

    fn objects(store: &Arc<InMemory>) -> BTreeMap<String, Vec<u8>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let all: Vec<_> = store.list(None).try_collect().await.unwrap();
            let mut found = BTreeMap::new();
            for object in all {
                let got = store.get(&object.location).await.unwrap();
                let bytes = got.bytes().await.unwrap().to_vec();
                found.insert(object.location.to_string(), bytes);
            }
            found
        })
    }

    #[test]
    fn a_store_has_what_the_folder_has() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        let large: Vec<u8> = (0..23_456_u32).map(|n| (n % 251) as u8).collect();
        write(MARK, b"{}");
        write("README.md", b"card");
        write("documents/00000.jsonl", &large);
        write("documents/00001.jsonl", &large[..PART]);
        write("search/meta.json", b"index");
        let store = Arc::new(InMemory::new());
        let sent = run(&store, folder.path()).unwrap();
        assert_eq!((sent.files, sent.kept, sent.deleted), (4, 0, 0));
        let all = objects(&store);
        assert_eq!(all.len(), 4, "{:?}", all.keys());
        assert_eq!(all["corpora/cats/documents/00000.jsonl"], large);
        assert_eq!(all["corpora/cats/documents/00001.jsonl"], large[..PART]);
        let again = run(&store, folder.path()).unwrap();
        assert_eq!((again.files, again.bytes, again.kept), (0, 0, 4));
        // Deleted and changed files must reach the store, even if a file keeps its size.
        std::fs::remove_file(folder.path().join("documents/00001.jsonl")).unwrap();
        write("README.md", b"gone");
        let less = run(&store, folder.path()).unwrap();
        assert_eq!((less.files, less.kept, less.deleted), (2, 1, 1));
        let all = objects(&store);
        assert_eq!(
            (all.len(), &all["corpora/cats/README.md"][..]),
            (3, &b"gone"[..])
        );
        // An interrupted upload continues.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let at = |name: &str| Key::from(format!("corpora/cats/{name}"));
        runtime.block_on(async {
            store.delete(&at(MARK)).await.unwrap();
            store.put(&at(SENDING), Vec::new().into()).await.unwrap();
        });
        let rest = run(&store, folder.path()).unwrap();
        assert_eq!((rest.files, rest.kept), (1, 2));
        assert!(!objects(&store).contains_key("corpora/cats/.spoor-sending"));
        // Other objects are not touched.
        runtime.block_on(store.delete(&at(MARK))).unwrap();
        let refused = run(&store, folder.path()).unwrap_err().to_string();
        assert!(refused.contains("other objects"), "{refused}");
    }
}
