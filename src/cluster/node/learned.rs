//! What a machine that begins takes over from what others have learned.

use tokio::runtime::Handle as Runtime;

use super::NodeError;
use crate::crawl::saved::SavedCells;
use crate::frontier::Cells;
use crate::{Engine, SessionId, Survey};

/// How many of the last sessions are examined.
const MOST: usize = 16;

/// If this machine has learned nothing, it starts with the checkpoint of another machine that has
/// learned most. Later lessons are in the log; so are all of them if no checkpoint can be read,
/// unless the log was cut.
///
/// # Errors
/// [`NodeError`] if the store of this machine fails.
pub(super) fn begin(
    engine: &impl Engine,
    runtime: &Runtime,
    store: &str,
    cells: &mut Cells,
) -> Result<(), NodeError> {
    if cells.learned_place()? > 0 {
        return Ok(());
    }
    let saved = match runtime.block_on(Survey::of(engine)) {
        Ok(survey) => survey.saved(),
        Err(error) => {
            tracing::warn!(%error, "what other machines have learned is not known");
            return Ok(());
        }
    };
    let mut best: Option<(SessionId, SavedCells)> = None;
    for (session, checkpoint) in saved.into_iter().rev().take(MOST) {
        let most = best.as_ref().map_or(0, |(_, best)| best.learned());
        match SavedCells::open(store, &session.to_string(), checkpoint) {
            Ok(saved) if saved.learned() > most => best = Some((session, saved)),
            Ok(_) => {}
            Err(error) => tracing::debug!(%session, %error, "its last checkpoint is not read"),
        }
    }
    let Some((session, best)) = best else {
        return Ok(());
    };
    match best.read_learned() {
        Ok(pairs) => {
            let learned = best.learned();
            tracing::info!(%session, learned, "begins with what it has learned");
            Ok(cells.begin_learned(pairs)?)
        }
        Err(error) => {
            tracing::warn!(%session, %error, "what it has learned cannot be read");
            Ok(())
        }
    }
}
