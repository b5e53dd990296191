//! Drops products that the processing accepted. These rules may change while a body is
//! processed, so they are applied on the thread that owns the frontier, just before the
//! commit.

use super::completion::Completion;
use super::product::Product;
use crate::frontier::Cells;
use crate::page::{ImageContext, Outcome, Reason, TaskKind};

/// Drops a page with a media type that the scope does not accept.
pub(super) fn refuse_type(frontier: &Cells, completion: &mut Completion<Product>) {
    if completion.task.kind != TaskKind::Page || completion.outcome != Outcome::Done {
        return;
    }
    if let Err(media) = frontier
        .scope()
        .content_type(completion.content_type.as_deref())
    {
        let reason = Reason::ContentType;
        completion.outcome = Outcome::Drop { reason };
        completion.product = None;
        completion.error = Some(format!("`{media}` is not in scope.accept_types"));
    }
}

/// Drops an image whose bytes were taken down, at any address.
pub(super) fn refuse_bytes(frontier: &Cells, completion: &mut Completion<Product>) {
    let Some(Product::Image { bytes, .. }) = &completion.product else {
        return;
    };
    if let Some(order) = frontier.scope().takedowns().covering_bytes(bytes) {
        completion.error = Some(format!("its bytes were taken down: {order}"));
        let reason = Reason::Takedown;
        completion.outcome = Outcome::Drop { reason };
        completion.product = None;
    }
}

/// Drops an image without words: since its lease, every page that embeds it was visited again and
/// no longer permits its use.
pub(super) fn refuse_without_context(
    completion: &mut Completion<Product>,
    contexts: &[ImageContext],
) {
    if matches!(completion.product, Some(Product::Image { .. })) && contexts.is_empty() {
        completion.error = Some("no page that embeds it allows its use any more".to_owned());
        let reason = Reason::Forbidden;
        completion.outcome = Outcome::Drop { reason };
        completion.product = None;
    }
}
