//! Training pages from the web.

use tokio::runtime::Handle;

use super::TrainError;
use super::corpus::{Document, of_pdf};
use crate::address::PageUrl;
use crate::fetch::Fetcher;
use crate::few::{self, FewPages, FewProduct};
use crate::page::{Fetched, Outcome, Reason};
use crate::pdf;
use crate::pipeline::{Work, pdf_reader};
use crate::settings::JobSettings;
use crate::web::extract;

/// Fetches all of `urls`.
///
/// # Errors
/// [`TrainError::Pages`] lists every address that could not be fetched, and why.
pub(super) fn fetch(
    config: &JobSettings,
    runtime: &Handle,
    fetcher: &Fetcher,
    urls: &[PageUrl],
) -> Result<FewPages<Document>, TrainError> {
    let options = extract::Options {
        max_text_bytes: config.text.max_bytes.as_len(),
        max_nesting: config.text.max_nesting,
        extractor: config.text.extractor,
        ..extract::Options::default()
    };
    // A PDF file that is named is wanted, even if the job does not accept such pages.
    let pdf = pdf_reader(config);
    let pages = few::fetch(config, runtime, fetcher, urls, move |task, fetched| {
        if extract::is_pdf(&fetched) {
            let pdf = pdf.clone();
            return Work::File(Box::new(move || of_file(&pdf, &fetched)));
        }
        match extract::extract(&task.url, &fetched, &options) {
            Ok(page) => {
                let document = Document::of_blocks(&page.blocks);
                Work::Done(Outcome::Done, Some(FewProduct::Page(document)))
            }
            Err(_) => {
                let reason = Reason::ContentType;
                Work::Done(Outcome::Drop { reason }, None)
            }
        }
    })?;
    let missing = urls
        .iter()
        .filter_map(|url| Some(format!("{url}: {}", pages.page(url).err()?)));
    let missing = Vec::from_iter(missing);
    if missing.is_empty() {
        Ok(pages)
    } else {
        Err(TrainError::Pages(missing))
    }
}

/// The text of a PDF file, or why it has none.
fn of_file(pdf: &pdf::Reader, fetched: &Fetched) -> (Outcome, Option<FewProduct<Document>>) {
    match pdf.read(&fetched.body) {
        Ok(original) => {
            let document = Document::of_blocks(&of_pdf(&original));
            (Outcome::Done, Some(FewProduct::Page(document)))
        }
        Err(failure) => {
            let reason = Reason::BadPdf;
            let cut = if fetched.truncated { " (cut)" } else { "" };
            let why = format!("{}{cut}: {failure}", reason.name());
            (Outcome::Drop { reason }, Some(FewProduct::Failure(why)))
        }
    }
}
