//! Reads the record at a place of a file.

use std::io::{Chain, Read};
use std::sync::atomic::Ordering;

use super::shelf::{Parts, Stretch};
use crate::gap::RecordSpan;
use crate::reader::{Item, Reader, RecordEntry};
use crate::tool_error::ToolError;

/// The most bytes that are requested from a server before a record begins, unless previous
/// records share its compressed member.
const LEAD: u64 = 16 << 20;
/// The most bytes of such records.
const MAX_INSIDE: u64 = 1 << 30;

/// The sources of a record: the beginning of the file if needed, and the record.
pub type Source<'p> = Chain<&'p [u8], Stretch<'p>>;

/// Calls `each` with the record at a place; `None` if no record begins there. With a length
/// of 0 the record may extend to the end of the file.
///
/// # Errors
///
/// [`ToolError`] names the file, or the error of `each`.
pub fn at<T>(
    parts: &mut dyn Parts,
    place: RecordSpan,
    each: impl FnOnce(&mut RecordEntry<'_, Source<'_>>) -> Result<T, ToolError>,
) -> Result<Option<T>, ToolError> {
    let mut each = Some(each);
    // A zstd dictionary and the version of an ARC are in the first record of a file. If a record
    // needs them, that one is read first.
    for needs_first in [false, true] {
        if needs_first && place.offset == 0 {
            break;
        }
        let first = if needs_first {
            first_record(parts)?
        } else {
            Vec::new()
        };
        let end = match place.length {
            0 => parts.length()?,
            // The length of a record that shares its member counts decompressed bytes.
            _ if place.inside.is_some() => parts.length()?,
            length => place.offset.saturating_add(length),
        };
        let wanted = (first.len() as u64, place.inside.unwrap_or_default());
        let name = parts.name().to_owned();
        let lead = LEAD + wanted.1.min(MAX_INSIDE);
        let (stretch, lead) = Stretch::new(parts, place.offset, end).leading(lead);
        let mut reader = Reader::new(first.as_slice().chain(stretch), &name);
        while let Some(item) = reader.next_item()? {
            let Item::Record(mut entry) = item else {
                continue;
            };
            let here = (entry.record.offset, entry.record.inside.unwrap_or_default());
            if here > wanted {
                break;
            }
            if here == wanted
                && let Some(each) = each.take()
            {
                lead.store(u64::MAX, Ordering::Relaxed);
                entry.record.offset = place.offset;
                return each(&mut entry).map(Some);
            }
        }
    }
    Ok(None)
}

/// The bytes of the first record of a file, and those before it.
fn first_record(parts: &mut dyn Parts) -> Result<Vec<u8>, ToolError> {
    let length = parts.length()?;
    let name = parts.name().to_owned();
    let (stretch, _) = Stretch::new(parts, 0, length).leading(LEAD);
    let mut reader = Reader::new(stretch, &name);
    let end = match reader.next_item()? {
        Some(Item::Record(mut entry)) => entry.finish()?.map(|p| p.offset + p.length),
        _ => None,
    };
    parts.read(0, end.unwrap_or(0))
}
