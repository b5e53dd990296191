//! The document of a page: the results of extraction and rating, in the form that is kept.

use unicode_segmentation::UnicodeSegmentation;

use crate::address::PageUrl;
use crate::crawl::frontier::Finished;
use crate::outputs::{Document, Replaced};
use crate::page::{DocumentScore, Extracted, Task};
use crate::rules::Applied;

/// The document of a page as far as it is known before its task is finished; `None` if the
/// page has no text.
pub(super) fn of_page(
    url: &PageUrl,
    page: &mut Extracted,
    score: &DocumentScore,
    contrast: Option<f64>,
    rules: Option<&Applied>,
) -> Option<Document> {
    let main = page.main.take().filter(|main| !main.text.is_empty())?;
    let meta = std::mem::take(&mut page.metadata);
    Some(Document {
        url: url.as_str().to_owned(),
        canonical: page.canonical.as_ref().map(|c| c.as_str().to_owned()),
        published: meta.published,
        modified: meta.modified,
        title: meta.title,
        authors: meta.authors,
        language: page.guessed.map(|g| g.language.code().to_owned()),
        language_certainty: page.guessed.map(|guess| guess.certainty),
        declared_language: page.language.clone(),
        charset: page.declared_charset.take(),
        charset_used: page.charset.clone(),
        mime: page.mime.take(),
        controls_removed: page.controls,
        extractor: main.share.extractor.name().to_owned(),
        words: words(&main.text),
        hash: Document::hash_of(&main.text),
        text: main.text,
        perplexity: Some(score.perplexity).filter(|p| p.is_finite()),
        contrast: contrast.filter(|contrast| contrast.is_finite()),
        licences: page.terms.licences.clone(),
        terms: Some(page.terms.clone()).filter(|terms| !terms.is_silent()),
        rule: rules.and_then(|applied| applied.rule.clone()),
        fields: rules
            .map(|applied| applied.fields.clone())
            .unwrap_or_default(),
        ..Document::default()
    })
}

/// The number of words of a text by UAX #29, without numbers.
fn words(text: &str) -> u32 {
    // No word has a space in it.
    let count = text.split_ascii_whitespace().map(words_between_spaces);
    u32::try_from(count.sum::<usize>()).unwrap_or(u32::MAX)
}

fn words_between_spaces(text: &str) -> usize {
    // Nearly all are letters with punctuation around them, which takes no table.
    let inner = text.trim_matches(|c: char| c.is_ascii_punctuation());
    if inner.bytes().all(|b| b.is_ascii_alphabetic()) {
        return usize::from(!inner.is_empty());
    }
    let words = text.unicode_words();
    words
        .filter(|word| word.chars().any(char::is_alphabetic))
        .count()
}

/// The document, completed with what is known once its task is finished.
pub(super) fn complete(found: &Document, task: &Task, time: &str, finished: &Finished) -> Document {
    let named = |url: &Option<PageUrl>| url.as_ref().map(|url| url.as_str().to_owned());
    Document {
        fetched: time.to_owned(),
        hops: task.hops,
        via: named(&task.via),
        control: task.control,
        // The same value as in the log.
        on_topic: finished.judged.map(|judged| judged.on_topic.get()),
        replaces: finished.earlier.as_deref().and_then(replaced),
        near_copy_of: named(&finished.near_copy_of),
        ..found.clone()
    }
}

/// The note that tells the next visit of the page which line of it is the last.
pub(super) fn note(document: &Document) -> String {
    format!("{} {}", document.hash, document.fetched)
}

fn replaced(note: &str) -> Option<Replaced> {
    let (hash, fetched) = note.split_once(' ')?;
    Some(Replaced {
        fetched: Some(fetched.to_owned()),
        hash: Some(hash.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn numbers_and_signs_are_no_words() {
        for (text, expected) in [
            ("", 0),
            ("  \n\t. -- 12 3.4 1,000", 0),
            ("The keeper's lamp, \"lit\" (at 9pm).", 6),
            ("rock'n'roll e.g. a.test well-known _so_ x_1", 7),
            ("Ça va: l’été à Köln", 5),
            ("猫は", 2),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    proptest! {
        #![proptest_config(crate::tests::usual())]

        #[test]
        fn words_are_those_of_the_whole_text(
            text in "[ab1 .,:;'\"_()é\u{301}\u{200d}猫\n\t-]{0,40}|[ -~]{0,40}|\\PC{0,30}",
        ) {
            let all = text.unicode_words();
            let all = all.filter(|word| word.chars().any(char::is_alphabetic));
            prop_assert_eq!(words(&text) as usize, all.count());
        }
    }
}
