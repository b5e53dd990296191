//! A formula over the recorded scores of an image, used for ranking images.
//!
//! The language is arithmetic and nothing else: numbers, names, `+ - * / ^`, parentheses
//! and the functions of [`FUNCTIONS`]. A formula is parsed once into a list of steps for a
//! stack machine, so evaluating it takes as many steps as it has parts, and no value can
//! make parsing or evaluation fail. No existing expression crate fits: one is AGPL, one
//! refuses nested calls and exponents, the others are no longer maintained.

mod variable;

use super::messages::shown;
use super::values::TextValue;

pub use variable::{ImageText, Measure, Variable};

/// The longest formula, in bytes.
const MAX_BYTES: usize = 1_000;

/// How deep parentheses and signs may nest.
const MAX_DEPTH: usize = 50;

/// The functions of the language.
const FUNCTIONS: [(&str, FormulaFunction); 7] = [
    ("sqrt", FormulaFunction::One(f64::sqrt)),
    ("ln", FormulaFunction::One(f64::ln)),
    ("log10", FormulaFunction::One(f64::log10)),
    ("exp", FormulaFunction::One(f64::exp)),
    ("abs", FormulaFunction::One(f64::abs)),
    ("min", FormulaFunction::Two(f64::min)),
    ("max", FormulaFunction::Two(f64::max)),
];

/// A checked formula.
#[derive(Debug, Clone)]
pub struct Formula {
    text: String,
    steps: Vec<FormulaStep>,
}

#[derive(Debug, Clone, Copy)]
enum FormulaStep {
    Number(f64),
    Variable(Variable),
    Call(FormulaFunction),
}

#[derive(Debug, Clone, Copy)]
enum FormulaFunction {
    One(fn(f64) -> f64),
    Two(fn(f64, f64) -> f64),
}

/// Formulas are compared by their text, which determines everything else.
impl PartialEq for Formula {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Formula {
    /// Its value, with `value` giving each variable. The result is NaN or infinite as IEEE
    /// 754 arithmetic defines.
    pub fn evaluate(&self, value: impl Fn(Variable) -> f64) -> f64 {
        let mut stack = Vec::new();
        for step in &self.steps {
            // The parser made sure that every step finds its operands.
            let mut take = || stack.pop().unwrap_or(f64::NAN);
            let result = match *step {
                FormulaStep::Number(number) => number,
                FormulaStep::Variable(variable) => value(variable),
                FormulaStep::Call(FormulaFunction::One(call)) => call(take()),
                FormulaStep::Call(FormulaFunction::Two(call)) => {
                    let right = take();
                    call(take(), right)
                }
            };
            stack.push(result);
        }
        stack.pop().unwrap_or(f64::NAN)
    }

    /// Whether it uses any text, which an image may lack.
    pub fn rates_texts(&self) -> bool {
        let text = |step: &FormulaStep| matches!(step, FormulaStep::Variable(Variable::Text(..)));
        self.steps.iter().any(text)
    }
}

impl TextValue for Formula {
    const KIND: &'static str = "a formula";
    const FORM: &'static str = "numbers, + - * / ^ ( ), sqrt ln log10 exp abs min max, and the names words, alt, title, aria_label, caption, figcaption, heading, file_name, parent0.. and sibling0.., each with .perplexity, .keyword or .weighted, document_perplexity, in_main_text, width, height, bytes";
    const EXAMPLE: &'static str = "sqrt(alt.weighted * parent1.weighted)";

    fn from_text(text: &str) -> Result<Self, String> {
        let mut reader = FormulaParser {
            text,
            at: 0,
            steps: Vec::new(),
        };
        match reader.whole() {
            Ok(()) => Ok(Self {
                text: text.to_owned(),
                steps: reader.steps,
            }),
            Err(why) => {
                let before = text.get(..reader.at).unwrap_or(text).chars().count();
                let (text, kind) = (shown(text), Self::KIND);
                Err(format!(
                    "\"{text}\" is not {kind}: at character {}, {why}",
                    before + 1
                ))
            }
        }
    }
    fn text(&self) -> String {
        self.text.clone()
    }
}

/// A recursive-descent parser that writes the steps in the order of evaluation. `at` is
/// the byte position for errors.
struct FormulaParser<'t> {
    text: &'t str,
    at: usize,
    steps: Vec<FormulaStep>,
}

impl<'t> FormulaParser<'t> {
    fn whole(&mut self) -> Result<(), String> {
        if self.text.len() > MAX_BYTES {
            return Err(format!("is longer than {MAX_BYTES} bytes"));
        }
        self.sum(0)?;
        match self.rest().chars().next() {
            None => Ok(()),
            Some(c) => Err(format!("`{}` is not expected", c.escape_debug())),
        }
    }

    fn sum(&mut self, depth: usize) -> Result<(), String> {
        self.product(depth)?;
        loop {
            let call: fn(f64, f64) -> f64 = match () {
                () if self.eat('+') => |a, b| a + b,
                () if self.eat('-') => |a, b| a - b,
                () => return Ok(()),
            };
            self.product(depth)?;
            self.steps
                .push(FormulaStep::Call(FormulaFunction::Two(call)));
        }
    }

    fn product(&mut self, depth: usize) -> Result<(), String> {
        self.signed(depth)?;
        loop {
            let call: fn(f64, f64) -> f64 = match () {
                () if self.eat('*') => |a, b| a * b,
                () if self.eat('/') => |a, b| a / b,
                () => return Ok(()),
            };
            self.signed(depth)?;
            self.steps
                .push(FormulaStep::Call(FormulaFunction::Two(call)));
        }
    }

    fn signed(&mut self, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("is nested deeper than {MAX_DEPTH}"));
        }
        if self.eat('-') {
            self.signed(depth + 1)?;
            self.steps
                .push(FormulaStep::Call(FormulaFunction::One(|a| -a)));
            return Ok(());
        }
        self.atom(depth)?;
        // As in mathematics: -2^2 is -4, and 2^3^2 is 2^9.
        if self.eat('^') {
            self.signed(depth + 1)?;
            self.steps
                .push(FormulaStep::Call(FormulaFunction::Two(f64::powf)));
        }
        Ok(())
    }

    fn atom(&mut self, depth: usize) -> Result<(), String> {
        if self.eat('(') {
            self.sum(depth + 1)?;
            return self.close();
        }
        let rest = self.rest();
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            let number = number_at(rest);
            let value: f64 = number.parse().map_err(|_| "a number is wrong".to_owned())?;
            if !value.is_finite() {
                return Err(format!("{} is too large", shown(number)));
            }
            self.at += number.len();
            self.steps.push(FormulaStep::Number(value));
            return Ok(());
        }
        let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let end = rest.find(|c| !of_name(c)).unwrap_or(rest.len());
        let name = rest.get(..end).unwrap_or_default();
        if name.is_empty() {
            return Err("a number, a name or `(` is missing".to_owned());
        }
        match FUNCTIONS.iter().find(|(known, _)| *known == name) {
            Some((_, function)) => {
                self.at += end;
                self.call(name, *function, depth)
            }
            None => {
                let variable = name.parse()?;
                self.at += end;
                self.steps.push(FormulaStep::Variable(variable));
                Ok(())
            }
        }
    }

    /// The arguments of a function; functions of two accept two or more.
    fn call(&mut self, name: &str, function: FormulaFunction, depth: usize) -> Result<(), String> {
        if !self.eat('(') {
            return Err(format!("`(` is missing after {name}"));
        }
        self.sum(depth + 1)?;
        if let FormulaFunction::Two(_) = function {
            let mut count = 1;
            while self.eat(',') {
                self.sum(depth + 1)?;
                self.steps.push(FormulaStep::Call(function));
                count += 1;
            }
            if count < 2 {
                return Err(format!("{name} needs two values or more"));
            }
        } else {
            self.steps.push(FormulaStep::Call(function));
        }
        self.close()
    }

    fn close(&mut self) -> Result<(), String> {
        if self.eat(')') {
            Ok(())
        } else {
            Err("`)` is missing".to_owned())
        }
    }

    /// The remaining text, without leading white space.
    fn rest(&mut self) -> &'t str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.rest().starts_with(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }
}

/// The number at the beginning of `text`, which starts with a digit.
fn number_at(text: &str) -> &str {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let rest = bytes.iter().skip(from);
        from + rest.take_while(|b| b.is_ascii_digit()).count()
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = end + 1 + sign;
        if digits(exponent) > exponent {
            end = digits(exponent);
        }
    }
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> f64 {
        Formula::from_text(text)
            .unwrap()
            .evaluate(|variable| match variable {
                Variable::Text(ImageText::Alt, Measure::Weighted) => 4.0,
                Variable::Text(ImageText::Parent(1), Measure::Weighted) => 9.0,
                Variable::Text(ImageText::Sibling(19), Measure::Keyword) => 0.5,
                Variable::Text(..) => f64::NAN,
                Variable::DocumentPerplexity => 100.0,
                Variable::Width => 640.0,
                Variable::Height => 480.0,
                Variable::Bytes => 1e4,
                Variable::InMainText => 1.0,
            })
    }

    #[test]
    fn arithmetic_is_that_of_mathematics() {
        for (text, expected) in [
            ("sqrt(alt.weighted * parent1.weighted)", 6.0),
            ("1 + 2 * 3 - 4 / 2", 5.0),
            ("10 - 4 - 3", 3.0),
            ("-2^2", -4.0),
            ("2^-1", 0.5),
            ("2^3^2", 512.0),
            ("--1", 1.0),
            ("max(3, min(1, 2))", 3.0),
            ("min(max(1,5), max(2,3), 2.5)", 2.5),
            ("1.5e3 + 1E-1", 1500.1),
            (" ( width-height )/bytes ", 0.016),
            ("abs(-log10(document_perplexity)) * sibling19.keyword", 1.0),
            ("ln(exp(2))", 2.0),
        ] {
            assert!(
                (value(text) - expected).abs() < 1e-12,
                "{text}: {}",
                value(text)
            );
        }
        assert!(value("sqrt(-1)").is_nan());
        assert_eq!(value("1/0"), f64::INFINITY);
    }

    #[test]
    fn what_is_no_formula_is_reported_with_its_place() {
        for (text, said) in [
            ("", "at character 1, a number, a name or `(` is missing"),
            (
                "alt",
                "at character 1, `alt` lacks a rating; write alt.perplexity",
            ),
            (
                "1 + alt.weighed",
                "at character 5, `alt.weighed` lacks a rating",
            ),
            ("atl.weighted", "did you mean `alt.weighted`?"),
            (
                "2 * heigth",
                "at character 5, `heigth` is not a known name; did you mean `height`?",
            ),
            (
                "parent20.weighted",
                "`parent20.weighted` is not a known name",
            ),
            ("sqrt 4", "at character 6, `(` is missing after sqrt"),
            ("max(1)", "max needs two values or more"),
            ("sqrt(1,2)", "at character 7, `)` is missing"),
            ("(1", "at character 3, `)` is missing"),
            ("1 2", "at character 3, `2` is not expected"),
            ("1 é", "at character 3, `é` is not expected"),
            ("1e999", "at character 1, 1e999 is too large"),
        ] {
            let error = Formula::from_text(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let deep = format!("{}1{}", "(".repeat(400), ")".repeat(400));
        assert!(Formula::from_text(&deep).unwrap_err().contains("nested"));
        assert!(
            Formula::from_text(&"-".repeat(999))
                .unwrap_err()
                .contains("nested")
        );
        assert!(
            Formula::from_text(&"1+".repeat(999))
                .unwrap_err()
                .contains("longer")
        );
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn no_text_panics(text in "(alt\\.weighted|max|sqrt|width|[0-9.e]{1,4}|[-+*/^(), ]|\\PC){0,20}") {
            if let Ok(formula) = Formula::from_text(&text) {
                formula.evaluate(|_| 1.0);
                prop_assert!(Formula::from_text(&formula.text()).is_ok());
            }
        }

        #[test]
        fn sums_are_as_rust_has_them(a in 0_u16.., b in 1_u16.., c in 0_u16..) {
            let own = value(&format!("{a} - {c} * {a} / {b} + {c}"));
            let (a, b, c) = (f64::from(a), f64::from(b), f64::from(c));
            prop_assert_eq!(own, a - c * a / b + c);
        }
    }
}
