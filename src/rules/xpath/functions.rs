//! The functions of the core library (XPath 1.0, section 4).

use scraper::Node;

use super::super::tree::TreeNode;
use super::TooCostly;
use super::eval::{At, Eval, as_f64, truth};
use super::parse::{Expr, Function};
use super::value::{XPathValue, to_number};

/// Calls a function whose number of arguments was checked.
pub(super) fn call(
    eval: &mut Eval<'_, '_>,
    function: Function,
    arguments: &[Expr],
    at: At,
) -> Result<XPathValue, TooCostly> {
    let mut call = FunctionCall {
        eval,
        arguments,
        at,
    };
    Ok(match function {
        Function::Last => XPathValue::Number(as_f64(at.size)),
        Function::Position => XPathValue::Number(as_f64(at.position)),
        Function::Count => XPathValue::Number(as_f64(call.nodes()?.len())),
        Function::Id => XPathValue::Nodes(call.by_id()?),
        Function::LocalName | Function::Name => XPathValue::Text(call.name()?),
        Function::String => XPathValue::Text(call.text_or_own(0)?),
        Function::Concat => {
            let mut all = String::new();
            for nth in 0..arguments.len() {
                all.push_str(&call.text(nth)?);
                call.eval.spend_text(all.len())?;
            }
            XPathValue::Text(all)
        }
        Function::StartsWith => {
            let (text, start) = (call.text(0)?, call.text(1)?);
            XPathValue::Truth(text.starts_with(&start))
        }
        Function::Contains => {
            let (text, part) = (call.text(0)?, call.text(1)?);
            XPathValue::Truth(text.contains(&part))
        }
        Function::SubstringBefore => {
            let (text, part) = (call.text(0)?, call.text(1)?);
            let found = text.split_once(&part).map(|(before, _)| before);
            XPathValue::Text(found.unwrap_or_default().to_owned())
        }
        Function::SubstringAfter => {
            let (text, part) = (call.text(0)?, call.text(1)?);
            let found = text.split_once(&part).map(|(_, after)| after);
            XPathValue::Text(found.unwrap_or_default().to_owned())
        }
        Function::Substring => XPathValue::Text(call.substring()?),
        Function::StringLength => {
            let text = call.text_or_own(0)?;
            XPathValue::Number(as_f64(text.chars().count()))
        }
        Function::NormalizeSpace => {
            let text = call.text_or_own(0)?;
            let words = text
                .split([' ', '\t', '\r', '\n'])
                .filter(|word| !word.is_empty());
            XPathValue::Text(words.collect::<Vec<_>>().join(" "))
        }
        Function::Translate => XPathValue::Text(call.translate()?),
        Function::Boolean => XPathValue::Truth(call.truth()?),
        Function::Not => XPathValue::Truth(!call.truth()?),
        Function::True => XPathValue::Truth(true),
        Function::False => XPathValue::Truth(false),
        Function::Lang => XPathValue::Truth(call.lang()?),
        Function::Number => XPathValue::Number(match arguments.first() {
            Some(argument) => call.eval.number(argument, at)?,
            None => to_number(&call.eval.text_of(at.node)?),
        }),
        Function::Sum => {
            let mut sum = 0.0;
            for node in call.nodes()? {
                sum += to_number(&call.eval.text_of(node)?);
            }
            XPathValue::Number(sum)
        }
        Function::Floor => XPathValue::Number(call.number()?.floor()),
        Function::Ceiling => XPathValue::Number(call.number()?.ceil()),
        Function::Round => XPathValue::Number((call.number()? + 0.5).floor()),
    })
}

struct FunctionCall<'c, 't, 'a> {
    eval: &'c mut Eval<'t, 'a>,
    arguments: &'c [Expr],
    at: At,
}

impl FunctionCall<'_, '_, '_> {
    fn nodes(&mut self) -> Result<Vec<TreeNode>, TooCostly> {
        match self.arguments.first() {
            Some(argument) => self.eval.nodes(argument, self.at),
            None => Ok(vec![self.at.node]),
        }
    }

    fn text(&mut self, nth: usize) -> Result<String, TooCostly> {
        match self.arguments.get(nth) {
            Some(argument) => {
                let text = self.eval.text(argument, self.at)?;
                self.eval.spend_text(text.len())?;
                Ok(text)
            }
            None => Ok(String::new()),
        }
    }

    /// An argument, or the text of the context node if it is left out.
    fn text_or_own(&mut self, nth: usize) -> Result<String, TooCostly> {
        if self.arguments.len() > nth {
            self.text(nth)
        } else {
            self.eval.text_of(self.at.node)
        }
    }

    fn number(&mut self) -> Result<f64, TooCostly> {
        match self.arguments.first() {
            Some(argument) => self.eval.number(argument, self.at),
            None => Ok(f64::NAN),
        }
    }

    fn truth(&mut self) -> Result<bool, TooCostly> {
        match self.arguments.first() {
            Some(argument) => Ok(truth(&self.eval.expr(argument, self.at)?)),
            None => Ok(false),
        }
    }

    fn by_id(&mut self) -> Result<Vec<TreeNode>, TooCostly> {
        let value = match self.arguments.first() {
            Some(argument) => self.eval.expr(argument, self.at)?,
            None => return Ok(Vec::new()),
        };
        let names = match value {
            XPathValue::Nodes(nodes) => {
                let mut all = String::new();
                for node in nodes {
                    all.push_str(&self.eval.text_of(node)?);
                    all.push(' ');
                    self.eval.spend_text(all.len())?;
                }
                all
            }
            XPathValue::Text(text) => text,
            XPathValue::Number(_) | XPathValue::Truth(_) => String::new(),
        };
        let mut wanted: Vec<&str> = names.split_ascii_whitespace().collect();
        let mut found = Vec::new();
        let tree = self.eval.tree;
        for at in 0..tree.len() {
            self.eval.spend(1)?;
            let id = tree.value(at).and_then(Node::as_element);
            // The first element with an id has it.
            if let Some(id) = id.and_then(|element| element.attr("id"))
                && let Some(nth) = wanted.iter().position(|name| *name == id)
            {
                wanted.swap_remove(nth);
                found.push(TreeNode::node(at));
            }
        }
        Ok(found)
    }

    fn name(&mut self) -> Result<String, TooCostly> {
        let Some(place) = self.nodes()?.first().copied() else {
            return Ok(String::new());
        };
        let tree = self.eval.tree;
        let name = if place.attribute > 0 {
            tree.attribute(place).map(|(name, _)| name)
        } else {
            let element = tree.value(place.index()).and_then(Node::as_element);
            element.map(|element| element.name())
        };
        Ok(name.unwrap_or_default().to_owned())
    }

    /// Positions count from 1, and are rounded.
    fn substring(&mut self) -> Result<String, TooCostly> {
        let text = self.text(0)?;
        let round = |value: f64| (value + 0.5).floor();
        let mut numbers = [f64::NAN, f64::INFINITY];
        for (number, argument) in numbers.iter_mut().zip(self.arguments.iter().skip(1)) {
            *number = round(self.eval.number(argument, self.at)?);
        }
        let [from, length] = numbers;
        let mut position = 0.0;
        let kept = text.chars().filter(|_| {
            position += 1.0;
            position >= from && position < from + length
        });
        Ok(kept.collect())
    }

    fn translate(&mut self) -> Result<String, TooCostly> {
        let (text, from, to) = (self.text(0)?, self.text(1)?, self.text(2)?);
        let from: Vec<char> = from.chars().collect();
        let to: Vec<char> = to.chars().collect();
        self.eval.spend(text.len() * from.len() / 16)?;
        let kept = text
            .chars()
            .filter_map(|c| match from.iter().position(|known| *known == c) {
                None => Some(c),
                Some(nth) => to.get(nth).copied(),
            });
        Ok(kept.collect())
    }

    /// Whether the language of the node, by the nearest `xml:lang`, is the given one or a
    /// sublanguage of it.
    fn lang(&mut self) -> Result<bool, TooCostly> {
        let wanted = self.text(0)?.to_lowercase();
        let tree = self.eval.tree;
        let mut next = Some(self.at.node.index());
        while let Some(at) = next {
            self.eval.spend(1)?;
            let element = tree.value(at).and_then(Node::as_element);
            if let Some(lang) = element.and_then(|element| element.attr("xml:lang")) {
                let lang = lang.to_lowercase();
                let rest = lang.strip_prefix(&wanted);
                return Ok(rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-')));
            }
            next = tree.parent(at);
        }
        Ok(false)
    }
}
