//! What a machine that begins takes over of what others have learned.

use tokio::runtime::Handle as Runtime;

use super::{NodeError, Source};
use crate::frontier::Cells;
use crate::{Base, Engine, Survey};

/// How many of the last sessions are looked at.
const MOST: usize = 16;

/// Begins with what the most learned checkpoint of another machine has, where this one has
/// learned nothing. What came later is in the log of lessons, and so is all of it where no
/// checkpoint can be read, unless the log was cut.
///
/// # Errors
/// [`NodeError`] where the store of this machine fails.
pub(super) fn begin(
    engine: &impl Engine,
    runtime: &Runtime,
    source: &dyn Source,
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
    let mut best: Option<(u64, Base)> = None;
    for (session, checkpoint) in saved.into_iter().rev().take(MOST) {
        let base = Base {
            session,
            checkpoint,
        };
        let learned = source.learned(&base).unwrap_or_else(|error| {
            tracing::debug!(session = %base.session, %error, "its last checkpoint is not read");
            0
        });
        if learned > best.as_ref().map_or(0, |(most, _)| *most) {
            best = Some((learned, base));
        }
    }
    let Some((learned, base)) = best else {
        return Ok(());
    };
    match source.read_learned(&base) {
        Ok(pairs) => {
            tracing::info!(session = %base.session, learned, "begins with what it has learned");
            Ok(cells.begin_learned(pairs)?)
        }
        Err(error) => {
            tracing::warn!(session = %base.session, %error, "what it has learned cannot be read");
            Ok(())
        }
    }
}
