//! Writes the product of a finished task to the outputs of the job.

use super::completion::Completion;
use super::documents;
use super::product::Product;
use crate::crawl::frontier::{Finished, Settled};
use crate::outputs::{Kept, NewImageFile, OutputError, Outputs, TextPlace, Visit};
use crate::page::ImageContext;
use crate::picture::ImageInfo;

/// What the frontier knows of a fetched image.
pub(super) struct KnownImage<'a> {
    /// The words around it on the pages that embed it.
    pub contexts: Vec<ImageContext>,
    /// An earlier file with the same bytes.
    pub earlier: Option<&'a str>,
}

/// Where the product of a task is in the outputs.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The image, as a path below the folder of the job.
    pub file: Option<String>,
    pub sentences: Option<TextPlace>,
    pub document: Option<TextPlace>,
    /// The note for the frontier, which returns it at the next visit.
    pub note: Option<String>,
}

/// Writes the product of a task. Returns where it is, and the digest of an image whose bytes
/// were not met before.
pub(super) fn write(
    outputs: &mut Outputs,
    completion: &Completion<Product>,
    image: KnownImage<'_>,
    time: &str,
    finished: &Finished,
) -> Result<(Places, Option<String>), OutputError> {
    // The visit before has written the same text. Alt texts, images and terms of use may
    // have changed all the same.
    let is_written = finished.changed == Some(false);
    let visit = match finished.changed {
        None => Visit::First,
        Some(false) => Visit::Same,
        Some(true) => Visit::Changed,
    };
    for (file, context) in &finished.extend {
        outputs.extend_image(file, context.clone(), visit)?;
    }
    if let Some(Product::Page(page)) = &completion.product {
        for file in &finished.withheld {
            outputs.restate_terms(file, &completion.task.url, &page.terms)?;
        }
        for (file, on) in &finished.boilerplate {
            outputs.mark_boilerplate(file, on, page.unknown)?;
        }
    }
    let mut places = Places::default();
    if finished.settled != Settled::Done {
        return Ok((places, None));
    }
    match &completion.product {
        Some(Product::Page(page)) => {
            places.note = finished.earlier.clone();
            if !is_written {
                places.sentences = outputs.sentences(&page.sentences)?;
            }
            if let Some(found) = page.kept.as_ref().filter(|_| !is_written) {
                let document = documents::complete(found, &completion.task, time, finished);
                places.document = Some(outputs.document(&document)?);
                places.note = finished.comes_again.then(|| documents::note(&document));
            }
            Ok((places, None))
        }
        Some(Product::Image {
            bytes,
            info,
            content_type,
            terms,
        }) => {
            let new = NewImageFile {
                url: &completion.task.url,
                bytes,
                info: ImageInfo::clone(info),
                content_type: content_type.as_deref(),
                terms: terms.clone(),
                fetched: time,
                contexts: image.contexts,
            };
            let Kept { file, first } = outputs.image_or_link(new, image.earlier)?;
            places.note = Some(file.clone());
            places.file = Some(file);
            Ok((places, first.then(|| info.sha256.clone())))
        }
        Some(
            Product::Forbidden { .. }
            | Product::Refused { .. }
            | Product::Robots(_)
            | Product::Sitemap(_)
            | Product::Tdmrep(_),
        )
        | None => Ok((places, None)),
    }
}
