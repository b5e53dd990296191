//! Superscripts and subscripts in one line of text, so that `10<sup>-7</sup>` is not read as 10−7.
//!
//! Digits, signs and the letters for which Unicode has them become its superscripts and subscripts
//! (Unicode, "Superscripts and Subscripts"); anything else that is a number or a variable is
//! written after `^` or `_`. Ordinals (`1<sup>st</sup>`) and words stay as they are.
//!
//! Here is also which letters are of a script without spaces between words.

/// The text in superscripts; `None` if Unicode lacks one of its characters.
pub(super) fn raised(text: &str) -> Option<String> {
    scripted(text, |c| {
        Some(match c {
            '0' => '⁰',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            '4'..='9' => char::from_u32('⁴' as u32 + (c as u32 - '4' as u32))?,
            '+' => '⁺',
            '-' | '−' | '–' => '⁻',
            'n' => 'ⁿ',
            'i' => 'ⁱ',
            '⁰' | '¹' | '²' | '³' | '⁴'..='⁹' | '⁺' | '⁻' => c,
            ',' => c,
            _ => return None,
        })
    })
}

/// The text in subscripts; `None` if Unicode lacks one of its characters.
pub(super) fn lowered(text: &str) -> Option<String> {
    scripted(text, |c| {
        Some(match c {
            '0'..='9' => char::from_u32('₀' as u32 + (c as u32 - '0' as u32))?,
            '+' => '₊',
            '-' | '−' | '–' => '₋',
            '₀'..='₉' | '₊' | '₋' => c,
            ',' => c,
            _ => return None,
        })
    })
}

fn scripted(text: &str, of: impl Fn(char) -> Option<char>) -> Option<String> {
    let text = text.trim();
    let kept = text.chars().filter(|c| !c.is_whitespace());
    let scripted: Option<String> = kept.map(of).collect();
    scripted.filter(|scripted| !scripted.is_empty())
}

/// What `sup` holds, as text after `before`; `is_note` if it is the mark of a footnote by its
/// markup.
pub(super) fn superscript(text: &str, is_note: bool) -> String {
    let text = text.trim();
    let is_bracketed = text.starts_with('[') && text.ends_with(']');
    if is_bracketed || (is_note && text.chars().count() <= MAX_MARK_CHARS) {
        return String::new();
    }
    raised(text).unwrap_or_else(|| after_mark('^', text))
}

/// What `sub` holds, as text.
pub(super) fn subscript(text: &str) -> String {
    let text = text.trim();
    lowered(text).unwrap_or_else(|| after_mark('_', text))
}

/// The longest mark of a footnote.
const MAX_MARK_CHARS: usize = 6;
/// The longest script that is written after a mark; a longer one is small print.
const MAX_SCRIPT_CHARS: usize = 12;

/// A variable or a term after a mark; words as they are.
fn after_mark(mark: char, text: &str) -> String {
    let mut letters = text.chars();
    let is_ordinal = mark == '^'
        && text.chars().all(|c| c.is_alphabetic() || c == '.')
        && (text.chars().count() > 1
            || matches!(letters.next(), Some('a' | 'e' | 'o' | 'r' | 'd')));
    let is_term = |c: char| c.is_alphanumeric() || "+-−–*/·.,()=".contains(c);
    let count = text.chars().count();
    if is_ordinal || count > MAX_SCRIPT_CHARS || !text.chars().all(is_term) || count == 0 {
        text.to_owned()
    } else if text.chars().all(char::is_alphabetic) {
        format!("{mark}{text}")
    } else {
        format!("{mark}({text})")
    }
}

/// Whether it is a letter of a script that writes no spaces between words.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_keep_their_meaning() {
        for (text, expected) in [
            ("-7", "⁻⁷"),
            ("2", "²"),
            ("+", "⁺"),
            (" 10 ", "¹⁰"),
            ("1,2", "¹,²"),
            ("th", "th"),
            ("er", "er"),
            ("o", "o"),
            ("x", "^x"),
            ("2x", "^(2x)"),
            ("n+1", "ⁿ⁺¹"),
            ("k+1", "^(k+1)"),
            ("[12]", ""),
            ("[citation needed]", ""),
            (
                "a long remark in small print",
                "a long remark in small print",
            ),
            ("®", "®"),
            ("", ""),
        ] {
            assert_eq!(superscript(text, false), expected, "{text}");
        }
        for (text, expected) in [("2", "₂"), ("max", "_max"), ("i+1", "_(i+1)"), ("", "")] {
            assert_eq!(subscript(text), expected, "{text}");
        }
        assert_eq!(superscript("3", true), "");
        assert_eq!(superscript("a longer note", true), "a longer note");
    }
}
