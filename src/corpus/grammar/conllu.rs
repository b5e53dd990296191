//! Sentences with parts of speech, in the CoNLL-U format of Universal Dependencies.

use std::path::Path;

use super::lists::in_line;
use crate::fs::IoError;
use crate::tool_error::ToolError;

/// Which tags are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Column {
    /// The fourth column: the 17 universal tags.
    #[default]
    Upos,
    /// The fifth column: the tags of the language, such as Penn or STTS.
    Xpos,
}

/// The words of a sentence with their tags. Punctuation and symbols are left out, because the
/// taggers here do not see them.
pub type Sentence = Vec<(String, String)>;

/// Reads a file.
///
/// # Errors
///
/// [`ToolError`] names the file and the line.
pub fn read(path: &Path, column: Column) -> Result<Vec<Sentence>, ToolError> {
    let text = crate::fs::read(path).map_err(IoError::at(path, "reading"))?;
    let text = String::from_utf8_lossy(&text);
    let sentences = parse(&text, column);
    let sentences = sentences.map_err(|(line, why)| in_line(path, line, &why))?;
    if sentences.is_empty() {
        return Err(no_sentence(path));
    }
    Ok(sentences)
}

/// There is nothing to learn from.
pub(super) fn no_sentence(path: &Path) -> ToolError {
    let why = "has no sentence with parts of speech; give files in CoNLL-U";
    ToolError::at(path, why)
}

fn parse(text: &str, column: Column) -> Result<Vec<Sentence>, (usize, String)> {
    let mut all: Vec<Sentence> = Vec::new();
    let mut open = Sentence::new();
    // A multi-word token has the tag of its first part: the number of its last part, and its text.
    let mut range: Option<(u32, String)> = None;
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() {
            if !open.is_empty() {
                all.push(std::mem::take(&mut open));
            }
            range = None;
            continue;
        }
        if text.starts_with('#') {
            continue;
        }
        let cells: Vec<&str> = text.split('\t').collect();
        let [id, form, _, upos, xpos, ..] = cells.as_slice() else {
            let why = "has fewer than five columns; CoNLL-U has ten, between tabs";
            return Err((line, why.to_owned()));
        };
        if let Some((_, last)) = id.split_once('-') {
            range = last.parse().ok().map(|last| (last, (*form).to_owned()));
            continue;
        }
        // Empty nodes, such as 8.1.
        let Ok(id) = id.parse::<u32>() else { continue };
        let tag = match column {
            Column::Upos => upos,
            Column::Xpos => xpos,
        };
        let form = match &mut range {
            Some((last, whole)) if id <= *last => std::mem::take(whole),
            _ => (*form).to_owned(),
        };
        if form.chars().any(char::is_alphanumeric) && !matches!(*tag, "_" | "") {
            open.push((form, (*tag).to_owned()));
        }
    }
    all.extend(Some(open).filter(|open| !open.is_empty()));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_tags_are_read() {
        let text = "# text = Im Haus.\n1-2\tIm\t_\t_\t_\n1\tin\tin\tADP\tAPPR\n2\tdem\tder\tDET\tART\n\
            3\tHaus\tHaus\tNOUN\tNN\n3.1\tx\tx\tVERB\tV\n4\t.\t.\tPUNCT\t$.\n\n\n1\tJa\tja\tINTJ\tITJ";
        let of = |column| {
            let all = parse(text, column).unwrap();
            let flat = all.iter().map(|sentence| {
                let words = sentence.iter().map(|(word, tag)| format!("{word}/{tag}"));
                words.collect::<Vec<_>>().join(" ")
            });
            flat.collect::<Vec<_>>()
        };
        assert_eq!(of(Column::Upos), ["Im/ADP Haus/NOUN", "Ja/INTJ"]);
        assert_eq!(of(Column::Xpos), ["Im/APPR Haus/NN", "Ja/ITJ"]);
        let (line, why) = parse("1\tx\n", Column::Upos).unwrap_err();
        assert_eq!((line, why.starts_with("has fewer")), (1, true));
    }
}
