//! The process itself: its limits, and the reading.

use std::io::{self, Read, Write};

use hayro_interpret::InterpreterCache;
use hayro_interpret::hayro_syntax::{DecryptionError, LoadPdfError, Pdf};

use super::super::original::{Original, PdfLine, Start, characters};
use super::super::{about, glyphs, layout};
use super::{ChildAnswer, Limits};

/// Reads the file at standard input within the limits, and writes the answer.
///
/// # Errors
///
/// The limits cannot be set, or standard input or output is broken.
pub fn work(limits: &Limits) -> io::Result<()> {
    crate::limit::this_process(limits.memory, Some(limits.time))?;
    // The exit code reports a crash. A backtrace about someone else's file is useless.
    std::panic::set_hook(Box::new(|_| {}));
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    let answer = read(bytes, limits);
    let mut out = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer(&mut out, &answer)?;
    out.flush()
}

/// Reads a file.
pub(super) fn read(bytes: Vec<u8>, limits: &Limits) -> ChildAnswer {
    let pdf = match Pdf::new(bytes) {
        Ok(pdf) => pdf,
        Err(LoadPdfError::Decryption(
            DecryptionError::PasswordProtected | DecryptionError::UnsupportedAlgorithm,
        )) => return ChildAnswer::Encrypted,
        Err(LoadPdfError::Decryption(_) | LoadPdfError::Invalid) => return ChildAnswer::Damaged,
    };
    if pdf.pages().is_empty() {
        return ChildAnswer::Damaged;
    }
    let mut original = Original {
        about: about::of(&pdf),
        ..Original::default()
    };
    let cache = InterpreterCache::new();
    let mut at = 0;
    for (number, page) in (1..).zip(pdf.pages().iter()) {
        if number as usize > limits.pages || original.text.len() > limits.text {
            original.cut = true;
            break;
        }
        let glyphs = glyphs::of_page(page, &cache);
        about::links(page, number, &glyphs, &mut original.links);
        original.pages.push(at);
        let lines = layout::lines(glyphs);
        if number == 1 && original.about.title.is_none() {
            original.about.title = layout::title(&lines);
        }
        for line in lines {
            let unknown = line.text.matches(char::REPLACEMENT_CHARACTER).count();
            original.unknown += u32::try_from(unknown).unwrap_or(u32::MAX);
            original.lines.push(PdfLine {
                at,
                start: line.start,
            });
            at += characters(&line.text) + 1;
            original.text.push_str(&line.text);
            original.text.push('\n');
        }
    }
    // The first line of the text begins a paragraph.
    if let Some(first) = original.lines.first_mut() {
        first.start = Start::Paragraph;
    }
    ChildAnswer::Read(Box::new(original))
}
