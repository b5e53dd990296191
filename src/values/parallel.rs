//! One kind of work with many items, several at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What `act` makes of each item, in the order of the items, on up to `threads` threads. After
/// an error no further item is begun.
///
/// # Errors
/// The error of an item.
pub fn each<T: Sync, R: Send, E: Send>(
    threads: usize,
    items: &[T],
    act: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return Ok(done);
            };
            let made = act(item).inspect_err(|_| next.store(items.len(), Ordering::Relaxed))?;
            done.push((at, made));
        }
    };
    let done: Result<Vec<_>, E> = std::thread::scope(|scope| {
        let threads = (0..threads.min(items.len())).map(|_| scope.spawn(work));
        let threads: Vec<_> = threads.collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut done: Vec<_> = done?.into_iter().flatten().collect();
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, made)| made).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_the_order_of_the_items_and_an_error_ends_it() {
        let items: Vec<u32> = (0..1_000).collect();
        let doubled = super::each(4, &items, |item| Ok::<_, ()>(item * 2)).unwrap();
        assert!(
            doubled
                .iter()
                .zip(&items)
                .all(|(double, item)| *double == item * 2)
        );
        assert_eq!(doubled.len(), items.len());
        let failed = super::each(
            4,
            &items,
            |item| if *item < 7 { Ok(()) } else { Err(*item) },
        );
        assert!(failed.is_err_and(|item| item >= 7));
        assert_eq!(
            super::each(4, &[] as &[u32], |_| Ok::<_, ()>(())),
            Ok(vec![])
        );
    }
}
