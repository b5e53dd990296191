//! One kind of work with many items, several at a time.

use rayon::prelude::*;

/// What `act` makes of each item, in the order of the items, on up to `threads` threads. After
/// an error no further item is begun.
///
/// # Errors
/// The error of an item.
pub fn each<T: Sync, R: Send, E: Send>(
    threads: usize,
    items: &[T],
    act: impl Fn(&T) -> Result<R, E> + Send + Sync,
) -> Result<Vec<R>, E> {
    match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool.install(|| items.par_iter().map(act).collect()),
        // No thread can be started: one item after the other.
        Err(_) => items.iter().map(act).collect(),
    }
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
