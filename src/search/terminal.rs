//! The results of a search, for a terminal.

use super::find::{Hit, SearchResult};
use super::query::Request;
use super::snippet::{Snippet, SnippetPart};
use crate::corpus::report::count;
use crate::fold::fold;
use crate::sanitize;

/// The layout of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns.
    pub width: usize,
    /// Whether the searched words are bold.
    pub bold: bool,
}

/// The indent of all lines of a hit except the first.
const INDENT: &str = "    ";

/// The results of a search.
pub fn text(found: &SearchResult, request: &Request, style: Style) -> String {
    let query = request.query.trim();
    let documents = count(found.documents);
    let matching = match found.total {
        0 => "none".to_owned(),
        total => count(total),
    };
    let what = if query.is_empty() {
        "are in the selection".to_owned()
    } else {
        format!("match {}", sanitize::shown(query))
    };
    let near = request
        .with
        .iter()
        .map(|name| sanitize::shown(name).into_owned());
    let near: Vec<String> = near.collect();
    let what = if near.is_empty() {
        what
    } else {
        format!("{what} with {}", near.join(" and "))
    };
    let head = format!("{matching} of {documents} documents {what}");
    let mut out = wrapped(&head, "", style.width);
    if found.total > found.hits.len() as u64 && !found.hits.is_empty() {
        let first = request.offset + 1;
        let last = request.offset + found.hits.len();
        out.push_str(&format!("hits {first} to {last}; --limit shows more\n"));
    }
    for (at, hit) in found.hits.iter().enumerate() {
        out.push('\n');
        out.push_str(&of_hit(request.offset + at + 1, hit, style));
    }
    out
}

fn of_hit(number: usize, hit: &Hit, style: Style) -> String {
    let about = &hit.about;
    let mut out = String::new();
    let title = match hit.title.trim() {
        "" => "(no title)".to_owned(),
        _ => marked(&hit.marked, style.bold),
    };
    let head = format!("{number:>2}  ");
    let titled = wrapped(&title, INDENT, style.width);
    out.push_str(&titled.replacen(INDENT, &head, 1));
    let mut line = |text: &str| out.push_str(&wrapped(text, INDENT, style.width));
    line(&sanitize::shown(&about.url));
    line(&facts(hit).join(" \u{b7} "));
    line(&marked(&hit.snippet, style.bold));
    if let Some(copy) = &about.copy_of {
        line(&format!("a copy of {}", sanitize::shown(copy)));
    }
    let place = &about.place;
    line(&format!(
        "in {}, line {}, byte {}",
        place.file,
        count(place.line),
        count(place.byte)
    ));
    if let Some(stored) = &about.capture {
        let file = sanitize::shown(&stored.file);
        line(&format!("stored in {file}, byte {}", count(stored.byte)));
    }
    out
}

/// The data about a document, in a few words each.
pub(super) fn facts(hit: &Hit) -> Vec<String> {
    let about = &hit.about;
    let mut facts = Vec::new();
    let shown = |text: &str| sanitize::shown(text).into_owned();
    if !about.host.is_empty() {
        facts.push(shown(&about.host));
    }
    if let Some(date) = &about.date {
        let day: String = date.chars().take(10).collect();
        let day = shown(&day);
        facts.push(if about.date_is_fetched {
            format!("fetched {day}")
        } else {
            day
        });
    }
    facts.extend(about.language.as_deref().map(shown));
    if let Some(perplexity) = about.perplexity {
        facts.push(format!("perplexity {}", count(perplexity.round() as u64)));
    }
    let class = about.bucket.as_deref();
    facts.extend(class.map(|class| format!("class {}", shown(class))));
    facts
}

fn marked(snippet: &Snippet, bold: bool) -> String {
    let part = |part: &SnippetPart| {
        let text = sanitize::shown(&part.text);
        if bold && part.is_match {
            format!("\u{1b}[1m{text}\u{1b}[0m")
        } else {
            text.into_owned()
        }
    };
    snippet.parts.iter().map(part).collect()
}

/// Text in lines of at most `width` columns, each after `indent`.
fn wrapped(text: &str, indent: &str, width: usize) -> String {
    let lines = fold(text, width.saturating_sub(indent.len()));
    lines.iter().fold(String::new(), |mut out, line| {
        out.extend([indent, line, "\n"]);
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, DocumentPlace};

    #[test]
    fn results_fit_the_terminal_and_cannot_steer_it() {
        let words = |text: &str, is_match| SnippetPart {
            text: text.to_owned(),
            is_match,
        };
        let hit = Hit {
            key: 1,
            score: Some(1.0),
            title: "A \u{1b}[31mlamp".to_owned(),
            marked: Snippet {
                parts: vec![words("A \u{1b}[31m", false), words("lamp", true)],
            },
            snippet: Snippet {
                parts: vec![
                    words(&"so many words ".repeat(12), false),
                    words("lamp", true),
                ],
            },
            about: About {
                url: "http://a.test/a".to_owned(),
                host: "a.test".to_owned(),
                date: Some("2024-05-17T01:02:03Z".to_owned()),
                perplexity: Some(1_234.4),
                place: DocumentPlace {
                    file: "documents/00000.jsonl.zst".to_owned(),
                    line: 1_017,
                    byte: 10_234,
                    inside: 0,
                },
                ..About::default()
            },
        };
        let found = SearchResult {
            documents: 1_204,
            total: 2,
            hits: vec![hit],
            ..SearchResult::default()
        };
        let request = Request {
            query: "lamp".to_owned(),
            ..Request::default()
        };
        let style = Style {
            width: 80,
            bold: false,
        };
        let shown = text(&found, &request, style);
        let expected = "\
2 of 1,204 documents match lamp
hits 1 to 1; --limit shows more

 1  A \\u{1b}[31mlamp
    http://a.test/a
    a.test \u{b7} 2024-05-17 \u{b7} perplexity 1,234
    so many words so many words so many words so many words so many words so
    many words so many words so many words so many words so many words so many
    words so many words lamp
    in documents/00000.jsonl.zst, line 1,017, byte 10,234
";
        assert_eq!(shown, expected);
        let bold = text(
            &found,
            &request,
            Style {
                bold: true,
                ..style
            },
        );
        assert!(bold.contains("\u{1b}[1mlamp\u{1b}[0m"), "{bold}");
        let none = text(&SearchResult::default(), &Request::default(), style);
        assert_eq!(none, "none of 0 documents are in the selection\n");
    }
}
