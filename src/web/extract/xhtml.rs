//! XHTML as XML means it, written so that an HTML parser reads the same: an element that ends
//! itself is empty (XML 1.0, section 3.1), CDATA is text (section 2.7), and elements of MathML and
//! XHTML may have a prefix.

use std::borrow::Cow;

use memchr::{memchr, memmem};

/// Elements that are empty in HTML as well (HTML standard, section 13.1.2).
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// The usual prefixes of MathML and XHTML.
const PREFIXES: [&str; 4] = ["m:", "mml:", "xhtml:", "h:"];

/// The markup for an HTML parser.
pub(super) fn as_html(xml: &str) -> Cow<'_, str> {
    let mut out = String::new();
    // What was copied so far.
    let mut copied = 0;
    let mut at = 0;
    while let Some(start) = memchr(b'<', xml.as_bytes().get(at..).unwrap_or_default()) {
        let start = at + start;
        let rest = xml.get(start..).unwrap_or_default();
        let after = |end: &str| {
            let end_at = memmem::find(rest.as_bytes(), end.as_bytes());
            start + end_at.map_or(rest.len(), |at| at + end.len())
        };
        if rest.starts_with("<!--") {
            at = after("-->");
        } else if rest.starts_with("<![CDATA[") {
            at = after("]]>");
            let text = xml.get(start + "<![CDATA[".len()..at).unwrap_or_default();
            let text = text.strip_suffix("]]>").unwrap_or(text);
            out.push_str(xml.get(copied..start).unwrap_or_default());
            out.push_str(&text.replace('&', "&amp;").replace('<', "&lt;"));
            copied = at;
        } else {
            let tag = tag(rest);
            at = start + tag.len().max(1);
            if let Some(written) = rewritten(tag) {
                out.push_str(xml.get(copied..start).unwrap_or_default());
                out.push_str(&written);
                copied = at;
            }
            // The content of these is not markup in HTML.
            let name = name(tag);
            if matches!(name, "script" | "style") && !tag.ends_with("/>") {
                let end = format!("</{name}");
                let rest = xml.get(at..).unwrap_or_default();
                at += memmem::find(rest.as_bytes(), end.as_bytes()).unwrap_or(rest.len());
            }
        }
    }
    if copied == 0 {
        return Cow::Borrowed(xml);
    }
    out.push_str(xml.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// The tag with which a text begins, up to its `>`.
fn tag(text: &str) -> &str {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (byte, quote) {
            (b'"' | b'\'', None) => quote = Some(byte),
            (_, Some(open)) if open == byte => quote = None,
            (b'>', None) => return text.get(..=at).unwrap_or_default(),
            _ => {}
        }
    }
    text
}

/// The name of a start tag.
fn name(tag: &str) -> &str {
    let name = tag.strip_prefix('<').unwrap_or_default();
    let end = name.find(|c: char| c.is_whitespace() || matches!(c, '/' | '>'));
    name.get(..end.unwrap_or(name.len())).unwrap_or_default()
}

/// The tag as HTML needs it; `None` if it can stay.
fn rewritten(tag: &str) -> Option<String> {
    let (open, rest) = match tag.strip_prefix("</") {
        Some(rest) => ("</", rest),
        None => ("<", tag.strip_prefix('<')?),
    };
    let bare = PREFIXES.iter().find_map(|prefix| rest.strip_prefix(prefix));
    let whole = format!("{open}{}", bare.unwrap_or(rest));
    let name = name(&whole).to_owned();
    let inner = whole.strip_suffix("/>");
    let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic());
    match inner.filter(|_| is_word && !VOID.contains(&name.as_str())) {
        Some(inner) => Some(format!("{inner}></{name}>")),
        None => bare.map(|_| whole),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn html_reads_what_xml_means() {
        for (xml, html) in [
            ("<p>a<br/>b<img src=\"a/>\" /></p>", None),
            ("<title/><p>x</p>", Some("<title></title><p>x</p>")),
            ("<a id='>' />y", Some("<a id='>' ></a>y")),
            (
                "<p><![CDATA[a < b & c]]></p>",
                Some("<p>a &lt; b &amp; c</p>"),
            ),
            (
                "<m:math><m:mn>1</m:mn></m:math>",
                Some("<math><mn>1</mn></math>"),
            ),
            (
                "<script>a = '<b/>'</script><i/>",
                Some("<script>a = '<b/>'</script><i></i>"),
            ),
            ("<!-- <i/> --><?xml version='1.0'?><!DOCTYPE html>", None),
            ("<![CDATA[open", Some("open")),
        ] {
            assert_eq!(as_html(xml), html.unwrap_or(xml), "{xml}");
        }
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn any_markup_is_rewritten_once(parts in proptest::collection::vec(prop_oneof![
            Just("<a/>"), Just("<b x='"), Just("'/>"), Just("<![CDATA["), Just("]]>"), Just("<!--"),
            Just("-->"), Just("<script>"), Just("</script>"), Just("<m:mi>"), Just("ä"), Just("<"), Just(">"),
        ], 0..20)) {
            let xml = parts.concat();
            let html = as_html(&xml);
            prop_assert!(html.len() <= 8 * xml.len());
        }
    }
}
