//! Whole objects by name, in a folder (`file://`) or in an S3-compatible bucket (`s3://`), with one
//! compare-and-set: for data that must outlive this machine.
//!
//! Names have parts of letters, digits, `-`, `_` and `.`, separated by `/`. An object is there
//! completely or not at all.

pub mod bucket;
mod folder;
#[cfg(test)]
#[path = "tests/simulated.rs"]
pub(crate) mod simulated;

use std::path::Path;

/// Why objects cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// The address is not one of a store.
    #[error("{0:?} is not a store; write \"s3://BUCKET/PATH\", or \"file:///PATH\" for a folder")]
    Address(String),
    /// The name of an object is not valid.
    #[error("{to}: {name:?} is not a valid name of an object; the checkpoint is damaged")]
    Name {
        /// The store.
        to: String,
        /// What was given.
        name: String,
    },
    /// An object is longer than any that is written.
    #[error(
        "{to}: reading failed: it has more than {most} bytes, so another program wrote or changed it"
    )]
    Long {
        /// The object, with its store.
        to: String,
        /// The most bytes.
        most: u64,
    },
    /// A request failed.
    #[error("{to}: {what} failed: {why}")]
    Failed {
        /// The store, and the object if it is about one.
        to: String,
        /// What was attempted.
        what: &'static str,
        /// The problem.
        why: String,
    },
}

/// Identifies one version of the contents of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version(pub String);

/// The result of a request.
type Done<T> = Result<T, ObjectsError>;

/// Objects by name.
pub trait Objects: Send + Sync {
    /// The contents of an object and their version; `None` if there is no such object.
    ///
    /// # Errors
    /// [`ObjectsError::Long`] if it has more than `most` bytes; [`ObjectsError::Failed`].
    fn get(&self, name: &str, most: u64) -> Done<Option<(Vec<u8>, Version)>>;

    /// How many bytes an object has; `None` if there is no such object.
    ///
    /// # Errors
    /// [`ObjectsError::Failed`].
    fn length(&self, name: &str) -> Done<Option<u64>>;

    /// Whether there is an object.
    ///
    /// # Errors
    /// [`ObjectsError::Failed`].
    fn has(&self, name: &str) -> Done<bool> {
        Ok(self.length(name)?.is_some())
    }

    /// Writes an object, and replaces one with the same name.
    ///
    /// # Errors
    /// [`ObjectsError::Failed`].
    fn put(&self, name: &str, bytes: Vec<u8>) -> Done<()>;

    /// Returns when everything written survives a loss of power.
    ///
    /// # Errors
    /// [`ObjectsError::Failed`].
    fn settle(&self) -> Done<()>;

    /// Writes an object if its contents are still `was`, or, for `None`, if there is none. False if
    /// they are not.
    ///
    /// # Errors
    /// [`ObjectsError::Failed`]; whether it was written is then unknown.
    fn swap(&self, name: &str, bytes: &[u8], was: Option<&Version>) -> Done<bool>;

    /// The names of all objects that begin with `folder/`.
    ///
    /// # Errors
    /// [`ObjectsError::Failed`].
    fn list(&self, folder: &str) -> Done<Vec<String>>;

    /// Removes an object if there is one.
    ///
    /// # Errors
    /// [`ObjectsError::Failed`].
    fn delete(&self, name: &str) -> Done<()>;

    /// Where they are, for messages.
    fn address(&self) -> &str;
}

/// The maximum bytes of an object: as many as an image may have.
pub const LONGEST: u64 = 1 << 30;

/// Checks that a name leads to no place outside the store's address. Names also come from
/// manifests, and others may have written to the store.
fn check(to: &str, name: &str) -> Done<()> {
    let is_part = |part: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        part.bytes().any(|byte| byte != b'.') && part.bytes().all(is_letter)
    };
    if name.split('/').all(is_part) {
        return Ok(());
    }
    Err(ObjectsError::Name {
        to: to.to_owned(),
        name: name.to_owned(),
    })
}

/// The objects at an address, `s3://BUCKET/PATH` or `file:///PATH`. Nothing is requested yet.
///
/// # Errors
/// [`ObjectsError::Address`] if it is neither; [`ObjectsError::Failed`] if the environment's `AWS_`
/// variables cannot be used.
pub fn open(address: &str) -> Done<Box<dyn Objects>> {
    if let Some(path) = address.strip_prefix("file://") {
        if !path.starts_with('/') || path.len() < 2 {
            return Err(ObjectsError::Address(address.to_owned()));
        }
        return Ok(Box::new(folder::Folder::new(address, Path::new(path))));
    }
    match address.strip_prefix("s3://") {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') => {
            Ok(Box::new(bucket::Bucket::new(address)?))
        }
        _ => Err(ObjectsError::Address(address.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What any store must do.
    fn keeps_promises(objects: &dyn Objects) {
        assert_eq!(objects.get("a/b", 100).unwrap(), None);
        assert!(!objects.has("a/b").unwrap());
        assert_eq!(objects.length("a/b").unwrap(), None);
        objects.delete("a/b").unwrap();
        assert!(objects.list("a").unwrap().is_empty());
        objects.put("a/b", b"one".to_vec()).unwrap();
        assert_eq!(objects.length("a/b").unwrap(), Some(3));
        objects.put("a/c.d", b"two".to_vec()).unwrap();
        objects.put("ab/c", b"three".to_vec()).unwrap();
        objects.settle().unwrap();
        let mut names = objects.list("a").unwrap();
        names.sort();
        assert_eq!(names, ["a/b", "a/c.d"]);
        let (bytes, first) = objects.get("a/b", 100).unwrap().unwrap();
        assert_eq!(bytes, b"one");
        assert!(!objects.swap("a/b", b"other", None).unwrap());
        assert!(objects.swap("a/b", b"next", Some(&first)).unwrap());
        assert!(!objects.swap("a/b", b"late", Some(&first)).unwrap());
        assert_eq!(objects.get("a/b", 100).unwrap().unwrap().0, b"next");
        assert!(objects.swap("m", b"new", None).unwrap());
        assert!(!objects.swap("m", b"again", None).unwrap());
        objects.delete("a/b").unwrap();
        assert!(!objects.swap("a/b", b"gone", Some(&first)).unwrap());
        assert!(objects.has("a/c.d").unwrap() && !objects.has("a/b").unwrap());
        let long = objects.get("a/c.d", 2).unwrap_err();
        assert!(matches!(long, ObjectsError::Long { most: 2, .. }), "{long}");
    }

    #[test]
    fn a_folder_and_a_simulated_store_keep_the_same_promises() {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("file://{}/deep/er", folder.path().display());
        keeps_promises(&*open(&address).unwrap());
        keeps_promises(&simulated::Simulated::default());
    }

    #[test]
    fn one_of_many_swaps_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("file://{}", folder.path().display());
        let swap = |n: u8| {
            let address = &address;
            move || open(address).unwrap().swap("m", &[n], None).unwrap()
        };
        let won = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|n| scope.spawn(swap(n))).collect();
            let won = all.into_iter().map(|thread| thread.join().unwrap());
            won.filter(|won| *won).count()
        });
        assert_eq!(won, 1);
        // Nothing else is left, however many names are used.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn names_lead_to_nothing_beside_the_store() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x"), "not of the store").unwrap();
        let address = format!("file://{}/store", folder.path().display());
        let objects = open(&address).unwrap();
        for name in [
            "",
            "../x",
            "a/../../x",
            "a//b",
            "/x",
            "./x",
            "a/.",
            "a\\b",
            "a b",
            "a\0",
        ] {
            let refused = objects.get(name, 100).unwrap_err();
            assert!(matches!(refused, ObjectsError::Name { .. }), "{refused}");
            let all = [
                objects.length(name).map(drop),
                objects.put(name, Vec::new()),
                objects.swap(name, b"", None).map(drop),
                objects.delete(name),
                objects.list(name).map(drop),
            ];
            assert!(all.iter().all(Result::is_err), "{name}: {all:?}");
        }
        assert!(!folder.path().join("store").exists());
    }

    #[test]
    fn other_addresses_are_refused() {
        for wrong in [
            "",
            "/tmp",
            "file://",
            "file:///",
            "file://host",
            "s3://",
            "s3:///x",
            "gs://x",
        ] {
            let refused = open(wrong).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(refused.contains("is not a store"), "{wrong}: {refused}");
        }
    }
}
