//! Work on complete files, which a separate thread does while the crawl continues.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use super::rotate::pack;
use spoor_archive::index::{self, Reads};

/// A task for a file, given by its path below the job's folder. If it fails, the file remains
/// readable, and the next opening of the job tries again.
#[derive(Debug)]
pub(super) enum Chore {
    /// Compress a file of a table.
    Pack(String),
    /// Write the index of a file of the archive.
    Index(String),
}

/// The thread; not started before the first chore.
#[derive(Default)]
pub(super) struct Chores(Option<(Sender<Chore>, JoinHandle<()>)>);

impl Chores {
    /// Queues a task.
    pub fn add(&mut self, folder: &Path, chore: Chore) {
        let worker = match self.0.take() {
            Some(worker) => worker,
            None => {
                let (sender, chores) = channel::<Chore>();
                let folder = folder.to_owned();
                let work = move || chores.iter().for_each(|chore| done(&folder, &chore));
                let thread = std::thread::Builder::new().name("spoor-chores".to_owned());
                match thread.spawn(work) {
                    Ok(thread) => (sender, thread),
                    Err(error) => {
                        tracing::warn!("{chore:?} is put off: {error}");
                        return;
                    }
                }
            }
        };
        // The thread ends only when this sender is dropped.
        worker.0.send(chore).ok();
        self.0 = Some(worker);
    }
}

fn done(folder: &Path, chore: &Chore) {
    match chore {
        Chore::Pack(name) => {
            if let Err(error) = pack(folder, name) {
                tracing::warn!("not compressed: {error}");
            }
        }
        Chore::Index(name) => index(folder, name),
    }
}

/// Writes the index of a complete file of the archive. A failure is logged.
pub(super) fn index(folder: &Path, name: &str) {
    if let Err(error) = index::beside(&folder.join(name), Reads::Heads) {
        tracing::warn!("not indexed: {error}");
    }
}

impl Drop for Chores {
    /// Waits for the thread, so that the job is not written to after it was released.
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            // It has logged its errors.
            thread.join().ok();
        }
    }
}
