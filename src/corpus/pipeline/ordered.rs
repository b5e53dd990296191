//! Runs work on all cores and returns the results in order.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

use super::error::defect;
use crate::tool_error::ToolError;

/// The number of pieces of work in progress per core.
const AHEAD: usize = 2;

/// Takes what `feed` pushes, works on it on all cores, and passes the results to `take` in
/// the order in which they were pushed. `feed` runs on its own thread; pushing blocks while
/// enough work is queued, and returns false when no more work is wanted.
///
/// # Errors
///
/// The first error of `take`, else that of `feed`.
pub(super) fn ordered<T: Send, U: Send>(
    feed: impl FnOnce(&mut dyn FnMut(T) -> bool) -> Result<(), ToolError> + Send,
    work: impl Fn(T) -> U + Sync,
    mut take: impl FnMut(U) -> Result<(), ToolError>,
) -> Result<(), ToolError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (pushed, fed) = sync_channel::<T>(1);
    let (jobs, queue) = channel::<(T, Sender<U>)>();
    let queue = Mutex::new(queue);
    std::thread::scope(|scope| {
        let feeder = scope.spawn(move || feed(&mut |item| pushed.send(item).is_ok()));
        for _ in 0..cores {
            scope.spawn(|| worker(&queue, &work));
        }
        let mut waiting: VecDeque<Receiver<U>> = VecDeque::new();
        let mut goes_on = true;
        let taken = loop {
            while goes_on && waiting.len() < cores * AHEAD {
                let Ok(item) = fed.recv() else {
                    goes_on = false;
                    break;
                };
                let (done, result) = channel();
                // The workers live as long as this sender.
                jobs.send((item, done)).ok();
                waiting.push_back(result);
            }
            let Some(next) = waiting.pop_front() else {
                break Ok(());
            };
            let taken = next.recv().map_err(|_| defect()).and_then(&mut take);
            if taken.is_err() {
                break taken;
            }
        };
        // Both end the other threads.
        drop((fed, jobs));
        let fed = feeder.join().unwrap_or_else(|_| Err(defect()));
        taken.and(fed)
    })
}

fn worker<T, U>(queue: &Mutex<Receiver<(T, Sender<U>)>>, work: &(impl Fn(T) -> U + Sync)) {
    loop {
        // The lock protects no data of its own.
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((item, done)) = next else { return };
        // After an error the other results are not received.
        done.send(work(item)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_errors_end_it() {
        let mut taken = Vec::new();
        let feed = |push: &mut dyn FnMut(u64) -> bool| {
            (0..500).for_each(|n| assert!(push(n)));
            Ok(())
        };
        let spin =
            |n: u64| (0..(n * 7_919) % 5_000).fold(n, |a, b| std::hint::black_box(a ^ b ^ b));
        ordered(feed, spin, |n| {
            taken.push(n);
            Ok(())
        })
        .unwrap();
        assert_eq!(taken, (0..500).collect::<Vec<_>>());

        let endless = |push: &mut dyn FnMut(u64) -> bool| {
            let pushed = (0..).take_while(|n| push(*n)).count();
            assert!(pushed < 100, "{pushed}");
            Ok(())
        };
        let stop = |n| {
            if n == 7 { Err(defect()) } else { Ok(()) }
        };
        assert_eq!(ordered(endless, |n| n, stop), Err(defect()));
        let failing = |push: &mut dyn FnMut(u64) -> bool| {
            push(1);
            Err(defect())
        };
        let ended = ordered(failing, |n| n, |_| Ok(()));
        assert_eq!(ended, Err(defect()));
    }
}
