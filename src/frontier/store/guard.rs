//! Guarded calls into a backend: a panic there means damaged files.
//!
//! The program's panic hook asks [`is_guarded`] whether a panic will become an error with advice,
//! where a backtrace would only confuse. All other panics are printed.

use std::cell::Cell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::StoreError;

thread_local! {
    /// Whether this thread is inside a call that [`guarded`] watches.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic on this thread becomes an error of the store.
pub fn is_guarded() -> bool {
    // The thread-local is gone while a thread ends.
    GUARDED.try_with(Cell::get).unwrap_or(false)
}

/// Whether this thread was started by a backend. A panic there does not end the process:
/// the next call into the backend fails with an error.
pub fn is_of_backend(thread: &std::thread::Thread) -> bool {
    let names = ["sled-io-", "log flusher", "fjall:"];
    let name = thread.name().unwrap_or_default();
    names.iter().any(|own| name.starts_with(own))
}

/// Marks the thread as inside or outside a guarded call until it is dropped.
struct Mark {
    before: bool,
}

impl Mark {
    fn set(guarded: bool) -> Self {
        let before = GUARDED.try_with(|mark| mark.replace(guarded));
        Self {
            before: before.unwrap_or(false),
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // A thread that is ending has no mark any more.
        GUARDED.try_with(|mark| mark.set(self.before)).ok();
    }
}

/// Runs a call into a backend; a panic becomes an error about damaged files.
pub(super) fn guarded<T>(
    path: &Path,
    call: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    caught(call).unwrap_or_else(|why| {
        Err(StoreError::Damaged {
            path: path.to_owned(),
            why,
        })
    })
}

/// Runs spoor's own code inside a guarded call. Its panics are printed.
pub(super) fn unguarded<T>(call: impl FnOnce() -> T) -> T {
    let _mark = Mark::set(false);
    call()
}

fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    let _mark = Mark::set(true);
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| panic_text(panic.as_ref()))
}

/// The first line of a panic's message.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(200).collect()
}

/// A backend's handle that is dropped inside the same guard. sled syncs its file when its last
/// handle is dropped, and panics if the disk fails: that panic would hide the error with which a
/// crawl ends.
pub(super) struct Held<T>(Option<T>);

impl<T> Held<T> {
    pub fn new(handle: T) -> Self {
        Self(Some(handle))
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(handle) => handle,
            None => unreachable!("it is taken only when it is dropped"),
        }
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        let handle = self.0.take();
        if let Err(why) = caught(|| drop(handle)) {
            // By then, everything committed has been flushed, or an error was reported.
            tracing::debug!("closing the store failed: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Stubborn;

    impl Drop for Stubborn {
        fn drop(&mut self) {
            assert!(is_guarded());
            panic!("the disk is gone");
        }
    }

    #[test]
    fn only_what_is_guarded_is_said_to_be() {
        let path = Path::new("frontier");
        assert!(!is_guarded());
        let result = guarded(path, || {
            assert!(is_guarded());
            unguarded(|| assert!(!is_guarded()));
            assert!(is_guarded());
            guarded(path, || Ok(())).unwrap();
            assert!(is_guarded());
            let elsewhere = std::thread::spawn(is_guarded).join();
            assert!(!elsewhere.unwrap());
            if is_guarded() {
                panic!("damaged\nin many lines");
            }
            Ok(())
        });
        assert!(!is_guarded());
        match result {
            Err(StoreError::Damaged { why, .. }) => assert_eq!(why, "damaged"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_handle_that_panics_when_it_goes_takes_nothing_with_it() {
        let held = Held::new(Stubborn);
        let _: &Stubborn = &held;
        drop(held);
        assert!(!is_guarded());
    }

    #[test]
    fn threads_of_the_backends_are_known_by_name() {
        let named = |name: &str| {
            let thread = std::thread::Builder::new().name(name.to_owned());
            let thread = thread.spawn(std::thread::current).unwrap();
            is_of_backend(&thread.join().unwrap())
        };
        assert!(named("sled-io-3") && named("log flusher") && named("fjall:worker"));
        assert!(!named("export") && !named("tokio-rt-worker"));
    }
}
