//! Formulas as text on one line.
//!
//! Where the page has TeX (`annotation`, `alttext`, or the `alt` of an image of a formula), it is
//! written as `$…$`, or `$$…$$` for a formula on its own line. Presentation MathML without it is
//! written as it is read: `(a + b)/2`, `√x`, `10⁻⁷`, `x_max`. Parentheses are added where a number
//! would otherwise change. Names are those of MathML Core and of MathML 3, chapter 3.

use super::attributes::ElementAttributes;
use super::scripts::{lowered, raised};
use super::text::fold;

/// The most bytes of a formula; what follows is left out.
const MAX_BYTES: usize = 8 << 10;

/// A formula while its element is open.
#[derive(Debug, Default)]
pub(super) struct Formula {
    /// The open elements, outermost first.
    open: Vec<FormulaPart>,
    /// The content of `math`.
    whole: FormulaText,
    tex: Option<String>,
    alt_text: Option<String>,
    is_display: bool,
    /// Bytes so far.
    length: usize,
}

/// An open element of a formula.
#[derive(Debug, Default)]
struct FormulaPart {
    name: String,
    /// The contents of the elements within it.
    children: Vec<FormulaText>,
    /// Their bytes, and one for each.
    length: usize,
    /// Its own text.
    text: String,
    /// `open`, `close` and `separators` of `mfenced`, or `linethickness` or `encoding` first.
    attributes: [Option<String>; 3],
}

/// A part of a formula as text.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct FormulaText {
    text: String,
    /// Whether it is one number, one name, or in brackets.
    is_one: bool,
}

impl FormulaText {
    fn one(text: String) -> Self {
        Self { text, is_one: true }
    }

    fn several(text: String) -> Self {
        Self {
            text,
            is_one: false,
        }
    }

    /// The text, in parentheses unless it is one thing.
    fn bracketed(&self) -> String {
        if self.is_one || self.text.trim().chars().count() < 2 {
            self.text.trim().to_owned()
        } else {
            format!("({})", self.text)
        }
    }
}

impl Formula {
    /// Handles the start of `math` or of an element within it.
    pub(super) fn open(&mut self, name: &str, attributes: &impl ElementAttributes) {
        let owned = |name: &str| attributes.get(name).map(str::to_owned);
        let attributes = match name {
            "math" if self.open.is_empty() => {
                self.alt_text = owned("alttext");
                let is = |name: &str, value: &str| {
                    attributes
                        .get(name)
                        .is_some_and(|v| v.trim().eq_ignore_ascii_case(value))
                };
                self.is_display = is("display", "block") || is("mode", "display");
                [None, None, None]
            }
            "mfenced" => ["open", "close", "separators"].map(owned),
            "mfrac" => [owned("linethickness"), None, None],
            "annotation" => [owned("encoding"), None, None],
            _ => [None, None, None],
        };
        self.open.push(FormulaPart {
            name: name.to_owned(),
            attributes,
            ..FormulaPart::default()
        });
    }

    /// Handles text.
    pub(super) fn text(&mut self, text: &str) {
        self.length = self.length.saturating_add(text.len());
        if self.length <= MAX_BYTES
            && let Some(part) = self.open.last_mut()
        {
            part.text.push_str(text);
        }
    }

    /// Handles the end of the innermost element.
    pub(super) fn close(&mut self) {
        let Some(part) = self.open.pop() else {
            return;
        };
        if part.name == "annotation" {
            let encoding = part.attributes[0].as_deref().unwrap_or_default();
            let encoding = encoding.to_ascii_lowercase();
            if encoding.contains("tex") && self.tex.is_none() {
                self.tex = tex(&part.text);
            }
        }
        let content = part.content();
        match self.open.last_mut() {
            Some(around) => {
                // Each level of nesting may double what a script or a fraction adds.
                let length = around.length + content.text.len() + 1;
                if length <= MAX_BYTES {
                    around.length = length;
                    around.children.push(content);
                }
            }
            None => self.whole = content,
        }
    }

    /// The formula as text; `None` if it is empty.
    pub(super) fn finish(mut self) -> Option<String> {
        while !self.open.is_empty() {
            self.close();
        }
        let is_tex = |text: &String| text.contains(['\\', '^', '_', '{']);
        let alt_text = || self.alt_text.as_deref().and_then(tex).filter(is_tex);
        match self.tex.or_else(alt_text) {
            Some(tex) => Some(in_dollars(&tex, self.is_display)),
            None => Some(fold(&self.whole.text, usize::MAX)).filter(|text| !text.is_empty()),
        }
    }
}

/// TeX as part of a text.
fn in_dollars(tex: &str, is_display: bool) -> String {
    if is_display {
        format!("$${tex}$$")
    } else {
        format!("${tex}$")
    }
}

/// TeX on one line, without comments, dollars around it, and the style that only shows that it is
/// within a line; `None` if nothing is left.
fn tex(source: &str) -> Option<String> {
    const STYLES: [&str; 3] = ["\\displaystyle", "\\textstyle", "\\scriptstyle"];
    let mut lines = String::with_capacity(source.len().min(MAX_BYTES));
    for line in source.lines() {
        let mut escaped = false;
        let comment = line.find(|c| {
            let begins = c == '%' && !escaped;
            escaped = c == '\\' && !escaped;
            begins
        });
        lines.push_str(
            line.get(..comment.unwrap_or(line.len()))
                .unwrap_or_default(),
        );
        lines.push(' ');
    }
    let folded = fold(&lines, MAX_BYTES);
    let mut tex = folded.as_str();
    loop {
        let before = tex;
        tex = tex.trim();
        for (open, close) in [("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")] {
            let inner = tex.strip_prefix(open).and_then(|t| t.strip_suffix(close));
            tex = inner.filter(|inner| !inner.contains(close)).unwrap_or(tex);
        }
        if let Some(inner) = tex.strip_prefix('{').and_then(|t| t.strip_suffix('}'))
            && STYLES.iter().any(|style| inner.starts_with(style))
        {
            tex = inner;
        }
        for style in STYLES {
            let rest = tex.strip_prefix(style);
            tex = rest
                .filter(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
                .unwrap_or(tex);
        }
        if tex == before {
            break;
        }
    }
    (!tex.is_empty()).then(|| tex.to_owned())
}

/// Whether the element contains TeX for a script that shows formulas (MathJax 2, "TeX and LaTeX
/// input").
pub(super) fn is_script(name: &str, attributes: &impl ElementAttributes) -> bool {
    name == "script"
        && attributes
            .get("type")
            .is_some_and(|kind| kind.trim().to_ascii_lowercase().starts_with("math/tex"))
}

/// The TeX of such an element, as text.
pub(super) fn of_script(source: &str, attributes: &impl ElementAttributes) -> Option<String> {
    let kind = attributes.get("type").unwrap_or_default();
    Some(in_dollars(&tex(source)?, kind.contains("mode=display")))
}

/// The TeX of an image of a formula, as text; `None` if the image is none.
pub(super) fn of_image(attributes: &impl ElementAttributes) -> Option<String> {
    const CLASSES: [&str; 6] = ["tex", "latex", "math", "equation", "mathimg", "mwe-math"];
    const PLACES: [&str; 5] = [
        "latex.codecogs.com",
        "/latex.php",
        "/mathtex.cgi",
        "/mimetex.cgi",
        "/math/render/",
    ];
    let alt = attributes.get("alt").filter(|alt| !alt.trim().is_empty())?;
    let class = attributes.get("class").unwrap_or_default();
    let of_class = class.split_ascii_whitespace().any(|class| {
        let class = class.to_ascii_lowercase();
        CLASSES.contains(&class.as_str()) || class.starts_with("mwe-math-fallback-image")
    });
    let src = attributes.get("src").unwrap_or_default();
    let of_place = || PLACES.iter().any(|place| src.contains(place));
    let of_alt = || {
        let alt = alt.trim();
        alt.starts_with("{\\displaystyle") || alt.starts_with("\\displaystyle")
    };
    let tex = (of_class || of_place() || of_alt()).then(|| tex(alt))??;
    // Else it is a description in words.
    let is_tex = tex.contains(['\\', '^', '_', '{', '=']) || !tex.contains(' ');
    let is_display = class.contains("fallback-image-display");
    is_tex.then(|| in_dollars(&tex, is_display))
}

impl FormulaPart {
    fn child(&self, at: usize) -> FormulaText {
        self.children.get(at).cloned().unwrap_or_default()
    }

    /// The element as text.
    fn content(&self) -> FormulaText {
        let child = |at: usize| self.child(at);
        match self.name.as_str() {
            "mi" | "mn" => FormulaText::one(fold(&self.own_text(), MAX_BYTES)),
            "mo" => FormulaText::several(operator(&fold(&self.own_text(), MAX_BYTES))),
            "mtext" => FormulaText::several(format!(" {} ", fold(&self.own_text(), MAX_BYTES))),
            "ms" => FormulaText::one(format!("\"{}\"", self.own_text())),
            "mspace" => FormulaText::several(" ".to_owned()),
            "mprescripts" => FormulaText::one(PRESCRIPTS.to_owned()),
            "annotation" | "annotation-xml" | "mphantom" | "none" | "maligngroup"
            | "malignmark" => FormulaText::default(),
            "semantics" | "maction" => child(0),
            "mfrac" => self.fraction(),
            "msqrt" => {
                let under = self.row();
                FormulaText::one(format!("√{}", under.bracketed()))
            }
            "mroot" => {
                let index = child(1).text;
                match raised(&index) {
                    Some(index) => FormulaText::one(format!("{index}√{}", child(0).bracketed())),
                    None => {
                        let base = child(0).bracketed();
                        FormulaText::several(format!("{base}^(1/{})", child(1).bracketed()))
                    }
                }
            }
            "msup" => with_scripts(&child(0), None, Some(&child(1))),
            "msub" => with_scripts(&child(0), Some(&child(1)), None),
            "msubsup" | "munderover" => with_scripts(&child(0), Some(&child(1)), Some(&child(2))),
            "munder" => with_scripts(&child(0), Some(&child(1)), None),
            "mover" => match accent(&child(1).text) {
                Some(mark) if child(0).text.chars().count() == 1 => {
                    FormulaText::one(format!("{}{mark}", child(0).text))
                }
                _ => with_scripts(&child(0), None, Some(&child(1))),
            },
            "mmultiscripts" => self.with_all_scripts(),
            "mfenced" => self.fenced(),
            "mtable" => FormulaText::several(self.joined("; ")),
            "mtr" | "mlabeledtr" => {
                // The sides of an equation are in cells of their own.
                let begins_related = |child: &FormulaText| {
                    let text = child.text.trim();
                    text.starts_with(is_relation) || text.ends_with(is_relation)
                };
                let is_equation = self.children.iter().any(begins_related);
                FormulaText::several(self.joined(if is_equation { " " } else { ", " }))
            }
            _ => self.row(),
        }
    }

    /// The text of a token, which may contain elements of HTML.
    fn own_text(&self) -> String {
        let mut text = self.text.clone();
        for child in &self.children {
            text.push_str(&child.text);
        }
        text
    }

    fn joined(&self, separator: &str) -> String {
        let parts = self.children.iter().map(|child| child.text.trim());
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        parts.join(separator)
    }

    fn fraction(&self) -> FormulaText {
        let (over, under) = (self.child(0), self.child(1));
        let line = self.attributes[0].as_deref().unwrap_or_default().trim();
        if line.starts_with('0') {
            let (over, under) = (over.text.trim(), under.text.trim());
            return FormulaText::one(format!("({over} choose {under})"));
        }
        FormulaText::several(format!("{}/{}", over.bracketed(), under.bracketed()))
    }

    fn fenced(&self) -> FormulaText {
        let [open, close, separators] = &self.attributes;
        let separators = separators.as_deref().unwrap_or(",");
        let mut separators = separators.chars().filter(|c| !c.is_whitespace());
        let mut last = None;
        let mut out = open.as_deref().unwrap_or("(").to_owned();
        for (at, child) in self.children.iter().enumerate() {
            if at > 0 {
                last = separators.next().or(last);
                out.extend(last);
                out.push(' ');
            }
            out.push_str(child.text.trim());
        }
        out.push_str(close.as_deref().unwrap_or(")"));
        FormulaText::one(out)
    }

    /// A base with scripts behind it, and before it after `mprescripts`.
    fn with_all_scripts(&self) -> FormulaText {
        let scripts = self.children.get(1..).unwrap_or_default();
        let mut sides = scripts.split(|script| script.text == PRESCRIPTS);
        let (after, before) = (
            sides.next().unwrap_or_default(),
            sides.next().unwrap_or_default(),
        );
        let nothing = FormulaText::default();
        let mut out = String::new();
        for pair in before.chunks(2) {
            out.push_str(&with_scripts(&nothing, pair.first(), pair.get(1)).text);
        }
        out.push_str(&self.child(0).bracketed());
        for pair in after.chunks(2) {
            out.push_str(&with_scripts(&nothing, pair.first(), pair.get(1)).text);
        }
        FormulaText::one(out)
    }

    /// The children in a row, with spaces where numbers or names would run together.
    fn row(&self) -> FormulaText {
        if let [only] = self.children.as_slice()
            && self.text.trim().is_empty()
        {
            return only.clone();
        }
        let mut out = fold(&self.text, MAX_BYTES);
        let mut last: Option<&FormulaText> = None;
        let mut is_product = false;
        for child in &self.children {
            if child.text == INVISIBLE_TIMES {
                is_product = true;
                continue;
            }
            if child.text.is_empty() || child.text == PRESCRIPTS {
                continue;
            }
            if let Some(last) = last
                && would_run_together(last, child)
            {
                out.push(if is_product { '·' } else { ' ' });
            }
            out.push_str(&child.text);
            last = Some(child);
            is_product = false;
        }
        let is_bracketed = out.starts_with(['(', '[', '{', '|'])
            && out.ends_with([')', ']', '}', '|'])
            && !out
                .get(1..out.len() - 1)
                .unwrap_or_default()
                .contains(['(', ')', '|']);
        FormulaText {
            text: out,
            is_one: is_bracketed,
        }
    }
}

const INVISIBLE_TIMES: &str = "\u{2062}";
/// Stands for `mprescripts`.
const PRESCRIPTS: &str = "\0";

/// An operator, with spaces around those that relate or add two sides.
fn operator(text: &str) -> String {
    match text {
        "\u{2061}" | "\u{2064}" => " ".to_owned(),
        "\u{2063}" => ",".to_owned(),
        "," | ";" => format!("{text} "),
        _ if text
            .chars()
            .all(|c| is_relation(c) || "+−±∓×÷⋅·∧∨∩∪-∗".contains(c))
            && !text.is_empty() =>
        {
            format!(" {} ", if text == "-" { "−" } else { text })
        }
        _ => text.to_owned(),
    }
}

fn is_relation(c: char) -> bool {
    matches!(
        c,
        '=' | '<'
            | '>'
            | '≠'
            | '≈'
            | '≡'
            | '≤'
            | '≥'
            | '∼'
            | '≅'
            | '∝'
            | '∈'
            | '∉'
            | '⊂'
            | '⊆'
            | '→'
            | '←'
            | '↔'
            | '⇒'
            | '⇔'
            | '⟶'
            | '↦'
            | '≪'
            | '≫'
            | '≔'
    )
}

/// Whether two parts in a row need something between them.
fn would_run_together(before: &FormulaText, after: &FormulaText) -> bool {
    let (Some(last), Some(first)) = (before.text.chars().last(), after.text.chars().next()) else {
        return false;
    };
    let is_fraction = !before.is_one && before.text.contains('/');
    let is_long = |part: &FormulaText| part.text.chars().filter(|c| c.is_alphabetic()).count() > 1;
    let is_word = |part: &FormulaText| part.is_one && is_long(part);
    match (last, first) {
        (a, b) if a.is_numeric() && b.is_numeric() => true,
        (a, b) if a.is_alphabetic() && b.is_numeric() => true,
        (_, b) if is_fraction && (b.is_alphanumeric() || b == '(' || b == '√') => true,
        (a, b) if a.is_alphabetic() && b.is_alphabetic() => is_word(before) || is_word(after),
        _ => false,
    }
}

/// A base with a script below and one above.
fn with_scripts(
    base: &FormulaText,
    below: Option<&FormulaText>,
    above: Option<&FormulaText>,
) -> FormulaText {
    let mut out = base.bracketed().trim().to_owned();
    let written = |script: &FormulaText, mark: char, short: fn(&str) -> Option<String>| {
        let text = script.text.trim();
        match short(text) {
            _ if text.is_empty() => String::new(),
            Some(short) => short,
            None if script.is_one => format!("{mark}{text}"),
            None => format!("{mark}({text})"),
        }
    };
    if let Some(below) = below {
        out.push_str(&written(below, '_', lowered));
    }
    if let Some(above) = above {
        if above.text.chars().all(|c| "′″‴'*†".contains(c)) {
            out.push_str(&above.text);
        } else {
            out.push_str(&written(above, '^', raised));
        }
    }
    // A sum over a range is followed by what is summed.
    let is_operator = base.text.trim().chars().all(|c| "∑∏∫∮⋃⋂".contains(c));
    if is_operator && !base.text.is_empty() {
        out.push(' ');
    }
    FormulaText::one(out)
}

/// The combining mark of an accent above a letter.
fn accent(text: &str) -> Option<char> {
    Some(match text.trim() {
        "¯" | "‾" | "_" | "\u{304}" | "―" | "−" => '\u{304}',
        "^" | "ˆ" | "\u{302}" => '\u{302}',
        "~" | "˜" | "∼" | "\u{303}" => '\u{303}',
        "˙" | "." | "\u{307}" => '\u{307}',
        "¨" | ".." | "\u{308}" => '\u{308}',
        "→" | "⃗" | "⟶" => '\u{20D7}',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Options, extract_text};
    use crate::address::PageUrl;
    use crate::page::Extractor;

    fn text(html: &str) -> String {
        let url = PageUrl::parse("http://a.test/b").unwrap();
        let options = Options {
            documents: Some(Extractor::All),
            ..Options::default()
        };
        let page = extract_text(&url, html, &options);
        assert_eq!(page.fallback, None, "{html}");
        page.main.unwrap().text
    }

    #[test]
    fn tex_of_a_page_is_kept() {
        let mathml = "<math alttext=\"{\\displaystyle x_{2}}\"><semantics><msub><mi>x</mi><mn>2</mn></msub>\
            <annotation encoding=application/x-tex>{\\displaystyle x_{2}}</annotation></semantics></math>";
        let image =
            "<img class=mwe-math-fallback-image-inline alt=\"{\\displaystyle x_{2}}\" src=a.svg>";
        for (html, expected) in [
            (format!("<p>so ({mathml}),"), "so ($x_{2}$),"),
            // As wikis have both, and hide one.
            (
                format!("<p>so <span style='display: none'>{mathml}</span>{image}."),
                "so $x_{2}$.",
            ),
            (
                format!("<p>so <span>{mathml}</span>{image}."),
                "so $x_{2}$.",
            ),
            (
                "<p>so <math display=block alttext='a^2 % b'><mi>a</mi></math>".to_owned(),
                "so $$a^2$$",
            ),
            (
                "<p>so <script type='math/tex; mode=display'>\\frac{1}{2}</script>".to_owned(),
                "so $$\\frac{1}{2}$$",
            ),
            (
                "<p>E <img src=//latex.codecogs.com/x alt='$mc^2$'>".to_owned(),
                "E $mc^2$",
            ),
            (
                "<p>A <img class=tex alt='a picture of a lamp' src=a.png> B".to_owned(),
                "A B",
            ),
            (
                format!(
                    "<p>so <span class=katex>{mathml}<span class=katex-html aria-hidden=true>x2</span></span>."
                ),
                "so $x_{2}$.",
            ),
        ] {
            assert_eq!(text(&html), expected, "{html}");
        }
    }

    #[test]
    fn presentation_is_written_so_that_no_number_changes() {
        for (mathml, expected) in [
            ("<mn>10</mn>", "10"),
            (
                "<msup><mn>10</mn><mrow><mo>-</mo><mn>7</mn></mrow></msup>",
                "10⁻⁷",
            ),
            ("<mn>3</mn><mfrac><mn>1</mn><mn>2</mn></mfrac>", "3 1/2"),
            (
                "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac><mi>x</mi>",
                "(a + b)/2 x",
            ),
            ("<mn>2</mn><mo>&#x2062;</mo><mn>3</mn>", "2·3"),
            ("<mn>2</mn><mo>&InvisibleTimes;</mo><mi>x</mi>", "2x"),
            ("<msqrt><mn>2</mn><mi>x</mi></msqrt>", "√(2x)"),
            ("<mroot><mi>x</mi><mn>3</mn></mroot>", "³√x"),
            ("<msubsup><mi>v</mi><mn>0</mn><mn>2</mn></msubsup>", "v₀²"),
            ("<msub><mi>x</mi><mi>max</mi></msub>", "x_max"),
            (
                "<msup><mrow><mo>(</mo><mi>a</mi><mo>−</mo><mi>b</mi><mo>)</mo></mrow><mn>2</mn></msup>",
                "(a − b)²",
            ),
            (
                "<msup><mrow><mi>a</mi><mi>b</mi></mrow><mn>2</mn></msup>",
                "(ab)²",
            ),
            (
                "<mi>sin</mi><mo>&#x2061;</mo><mi>x</mi><mo>=</mo><mn>0.5</mn>",
                "sin x = 0.5",
            ),
            (
                "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mi>i</mi>",
                "∑_(i = 1)ⁿ i",
            ),
            ("<mover><mi>x</mi><mo>¯</mo></mover>", "x\u{304}"),
            (
                "<mmultiscripts><mi>C</mi><mprescripts/><mn>6</mn><mn>14</mn></mmultiscripts>",
                "₆¹⁴C",
            ),
            ("<mfenced><mi>a</mi><mi>b</mi></mfenced>", "(a, b)"),
            (
                "<mfrac linethickness=0><mi>n</mi><mi>k</mi></mfrac>",
                "(n choose k)",
            ),
            (
                "<mtable><mtr><mtd><mi>x</mi></mtd><mtd><mo>=</mo><mn>1</mn></mtd></mtr>\
                 <mtr><mtd><mi>y</mi></mtd><mtd><mo>=</mo><mn>2</mn></mtd></mtr></mtable>",
                "x = 1; y = 2",
            ),
            ("<mn>1</mn><mtext>if</mtext><mi>x</mi>", "1 if x"),
            ("<mphantom><mn>9</mn></mphantom><mn>1</mn>", "1"),
            ("", ""),
        ] {
            let html = format!("<p>a <math>{mathml}</math> b");
            assert_eq!(
                text(&html),
                format!("a {expected} b").replace("  ", " "),
                "{mathml}"
            );
        }
    }

    #[test]
    fn hostile_formulas_are_bounded() {
        let deep = "<msup><mfrac>".repeat(100);
        for html in [
            format!("<p>a<math>{deep}<mi>x</mi></math>b"),
            format!("<p>a<math>{}</math>b", "<mi>x</mi>".repeat(50_000)),
            format!("<p>a<math>{}</math>b", "<mi/>".repeat(200_000)),
            format!("<p>a<math alttext='{}'></math>b", "\\x ".repeat(50_000)),
            "<p>a<math></mrow></math></mi>b".to_owned(),
            "<p>a<math><mi>".to_owned(),
        ] {
            let url = PageUrl::parse("http://a.test/b").unwrap();
            let options = Options {
                documents: Some(Extractor::All),
                ..Options::default()
            };
            let text = extract_text(&url, &html, &options).main.unwrap().text;
            assert!(
                text.starts_with('a') && text.len() < 64 << 10,
                "{}",
                text.len()
            );
        }
    }
}
