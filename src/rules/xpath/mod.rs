//! XPath 1.0 over the tree of a page, bounded in time and memory.
//!
//! All of XPath 1.0 (W3C, 1999) except variables, namespaces, processing instructions and the
//! functions that need a schema. Names are as in the HTML parser: lower case for HTML. Unsupported
//! features are errors when the expression is read, with their position.
//!
//! Each visited node and each 64 bytes of created text count as a step; an expression that needs
//! more than [`MAX_STEPS`] ends with an error. A node set contains each node once, so memory is
//! bounded by the page.

mod eval;
mod functions;
mod lexer;
mod parse;
mod value;

use self::parse::Expr;
use super::tree::{Tree, TreeNode};

/// The longest expression, in bytes.
pub(super) const MAX_BYTES: usize = 4_096;

/// Maximum number of steps of one evaluation, about a second of work. `//*` over the largest page
/// that is read takes 600,000.
pub(super) const MAX_STEPS: usize = 20_000_000;

/// Why an expression is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at character {}: {why}", at + 1)]
pub struct XPathError {
    /// The position in the expression, in characters from 0.
    pub at: usize,
    /// What is wrong.
    pub why: String,
}

fn error(at: usize, why: &str) -> XPathError {
    XPathError {
        at,
        why: why.to_owned(),
    }
}

/// The evaluation took more than the allowed number of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("gave up after {MAX_STEPS} steps; make it more specific")]
pub(super) struct TooCostly;

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub struct XPath {
    text: String,
    expr: Expr,
}

/// The result of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum XPathResult {
    /// Nodes, in document order, each once.
    Nodes(Vec<TreeNode>),
    /// A string, or a number or boolean as a string.
    Text(String),
}

impl XPath {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// [`XPathError`] with the position and the reason.
    pub fn parse(text: &str) -> Result<Self, XPathError> {
        if text.len() > MAX_BYTES {
            return Err(error(0, &format!("longer than {MAX_BYTES} bytes")));
        }
        let expr = parse::parse(text).map_err(|wrong| XPathError {
            at: text.get(..wrong.at).map_or(0, |t| t.chars().count()),
            ..wrong
        })?;
        Ok(Self {
            text: text.to_owned(),
            expr,
        })
    }

    /// The expression as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Evaluates the expression at the document.
    pub(super) fn find(&self, tree: &Tree<'_>) -> Result<XPathResult, TooCostly> {
        eval::evaluate(&self.expr, tree, MAX_STEPS)
    }
}

#[cfg(test)]
impl XPathResult {
    /// The text of each node, for tests.
    pub fn texts(self, tree: &Tree<'_>) -> Vec<String> {
        match self {
            XPathResult::Text(text) => vec![text],
            XPathResult::Nodes(nodes) => nodes.into_iter().map(|node| tree.whole(node)).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
