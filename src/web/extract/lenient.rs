//! JSON as pages write it: with line ends within texts, comments and CDATA around it, commas and
//! semicolons too many, or several values one after the other.

use serde_json::Value;

/// The values of imperfect JSON: one, or a list of all that could be read.
pub(super) fn parse(json: &str) -> Value {
    let mended = mended(json);
    let mut values: Vec<Value> = Vec::new();
    let mut rest = mended.as_str();
    while let Some(from) = rest.find(['{', '[']) {
        rest = rest.get(from..).unwrap_or_default();
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match stream.next() {
            Some(Ok(value)) => values.push(value),
            _ => break,
        }
        let read = stream.byte_offset().max(1);
        rest = rest.get(read..).unwrap_or_default();
    }
    match values.len() {
        1 => values.pop().unwrap_or_default(),
        _ => Value::Array(values),
    }
}

/// The JSON without comments and superfluous commas; control characters and quotation marks in
/// texts are escaped as JSON wants them.
fn mended(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 16);
    let mut rest = json;
    let mut in_text = false;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        if !in_text && let Some(length) = comment(rest) {
            rest = rest.get(length..).unwrap_or_default();
            continue;
        }
        rest = after;
        match c {
            '"' => {
                in_text = !in_text;
                out.push(c);
            }
            '\\' if in_text => {
                let next = rest.chars().next();
                // Otherwise only the character behind it is meant.
                if let Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' | 'u') = next {
                    out.push('\\');
                }
                out.extend(next);
                rest = rest
                    .get(next.map_or(0, char::len_utf8)..)
                    .unwrap_or_default();
            }
            c if in_text && c.is_control() => out.push(' '),
            ',' if !in_text => {
                let next = rest.trim_start().chars().next();
                if !matches!(next, Some('}' | ']' | ',') | None) {
                    out.push(c);
                }
            }
            _ => out.push(c),
        }
    }
    out
}

/// The bytes of a comment that begins here, or of the marks around a script.
fn comment(text: &str) -> Option<usize> {
    const MARKS: [&str; 4] = ["<!--", "-->", "<![CDATA[", "]]>"];
    if let Some(mark) = MARKS.iter().find(|mark| text.starts_with(**mark)) {
        return Some(mark.len());
    }
    if text.starts_with("/*") {
        return Some(text.find("*/").map_or(text.len(), |at| at + 2));
    }
    if text.starts_with("//") {
        // What hides a mark from scripts ends before it. The first end is found in one pass, as a
        // script may consist of such comments.
        let ends = |(at, c): (usize, char)| {
            let rest = text.get(at..).unwrap_or_default();
            (c == '\n' || MARKS.iter().any(|mark| rest.starts_with(mark))).then_some(at)
        };
        return text.char_indices().find_map(ends).or(Some(text.len()));
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn imperfect_json_has_its_values() {
        let one = json!({"a": "b c", "d": [1, 2]});
        for text in [
            "{\"a\":\"b\nc\",\"d\":[1,2]}",
            "{\"a\":\"b c\",\"d\":[1,2],};",
            "<!--\n{\"a\":\"b c\",\"d\":[1,2,]}\n-->",
            "// <![CDATA[\n{\"a\":\"b c\",,\"d\":[1,2]}\n// ]]>",
            "/* by hand */ {\"a\":\"b c\", // here\n\"d\":[1,2]}",
            "\u{feff}{\"a\":\"b\\ c\",\"d\":[1,2]}",
        ] {
            assert_eq!(parse(text), one, "{text}");
        }
        assert_eq!(
            parse("{\"a\":\"it\\'s // no <!-- comment\"}"),
            json!({"a": "it's // no <!-- comment"})
        );
        assert_eq!(parse("{\"a\":1}\n{\"b\":2}"), json!([{"a": 1}, {"b": 2}]));
        assert_eq!(parse("{\"a\":1} {\"b\":"), json!({"a": 1}));
        let comments = "//<!--".repeat(80_000);
        assert_eq!(parse(&comments), json!([]));
        for text in ["", "{", "}", "[", "\"", "\\", "//", "/*", "nothing"] {
            assert_eq!(parse(text), json!([]), "{text}");
        }
    }
}
