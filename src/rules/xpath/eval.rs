//! The evaluation of an expression.

use std::collections::HashMap;

use scraper::Node;

use super::super::tree::{Tree, TreeNode};
use super::functions;
use super::parse::{Axis, Comparison, Expr, LocationStep, NodeTest, Operator};
use super::value::{XPathValue, of_number, to_number};
use super::{TooCostly, XPathResult};

/// Maximum length of a string, in bytes.
const MAX_STRING: usize = 4 << 20;

/// Maximum size of the texts on one side of a comparison of node sets, in bytes.
const MAX_TEXTS: usize = 32 << 20;

/// Bytes of text that count as one step.
const BYTES_PER_STEP: usize = 64;

/// Evaluates `expr` at the document.
pub(super) fn evaluate(
    expr: &Expr,
    tree: &Tree<'_>,
    steps: usize,
) -> Result<XPathResult, TooCostly> {
    let mut eval = Eval {
        tree,
        left: steps,
        known: HashMap::new(),
    };
    let at = At {
        node: TreeNode::node(0),
        position: 1,
        size: 1,
    };
    Ok(match eval.expr(expr, at)? {
        XPathValue::Nodes(nodes) => XPathResult::Nodes(nodes),
        XPathValue::Text(text) => XPathResult::Text(text),
        XPathValue::Number(value) => XPathResult::Text(of_number(value)),
        XPathValue::Truth(is) => XPathResult::Text(is.to_string()),
    })
}

/// The context of an expression.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub node: TreeNode,
    pub position: usize,
    pub size: usize,
}

pub(super) struct Eval<'t, 'a> {
    pub tree: &'t Tree<'a>,
    /// Remaining steps.
    left: usize,
    /// Values of paths from the document, which do not depend on the context, by the address of
    /// their expression.
    known: HashMap<usize, Vec<TreeNode>>,
}

/// A step of a path, possibly along another axis than the written one.
#[derive(Clone, Copy)]
struct Along<'e> {
    axis: Axis,
    test: &'e NodeTest,
    predicates: &'e [Expr],
}

impl<'e> Along<'e> {
    fn of(step: &'e LocationStep) -> Self {
        Self {
            axis: step.axis,
            test: &step.test,
            predicates: &step.predicates,
        }
    }
}

impl Eval<'_, '_> {
    /// Counts steps.
    pub fn spend(&mut self, steps: usize) -> Result<(), TooCostly> {
        self.left = self.left.checked_sub(steps).ok_or(TooCostly)?;
        Ok(())
    }

    /// Counts the steps for building a text.
    pub fn spend_text(&mut self, bytes: usize) -> Result<(), TooCostly> {
        self.spend(1 + bytes / BYTES_PER_STEP)
    }

    pub fn expr(&mut self, expr: &Expr, at: At) -> Result<XPathValue, TooCostly> {
        self.spend(1)?;
        Ok(match expr {
            Expr::Or(a, b) => XPathValue::Truth(self.truth(a, at)? || self.truth(b, at)?),
            Expr::And(a, b) => XPathValue::Truth(self.truth(a, at)? && self.truth(b, at)?),
            Expr::Compare(how, a, b) => {
                let (a, b) = (self.expr(a, at)?, self.expr(b, at)?);
                XPathValue::Truth(self.compare(*how, &a, &b)?)
            }
            Expr::Arithmetic(how, a, b) => {
                let (a, b) = (self.number(a, at)?, self.number(b, at)?);
                XPathValue::Number(match how {
                    Operator::Add => a + b,
                    Operator::Subtract => a - b,
                    Operator::Multiply => a * b,
                    Operator::Divide => a / b,
                    Operator::Modulo => a % b,
                })
            }
            Expr::Negate(inner) => XPathValue::Number(-self.number(inner, at)?),
            Expr::Union(a, b) => {
                let (mut all, b) = (self.nodes(a, at)?, self.nodes(b, at)?);
                all.extend(b);
                XPathValue::Nodes(self.sorted(all)?)
            }
            Expr::Number(value) => XPathValue::Number(*value),
            Expr::Literal(text) => XPathValue::Text(text.clone()),
            Expr::Call(function, arguments) => functions::call(self, *function, arguments, at)?,
            Expr::Path {
                from_root: false,
                steps,
            } => XPathValue::Nodes(self.walk(vec![at.node], steps)?),
            Expr::Path {
                from_root: true,
                steps,
            } => {
                let key = std::ptr::from_ref(expr) as usize;
                if let Some(nodes) = self.known.get(&key) {
                    let nodes = nodes.clone();
                    self.spend(nodes.len() / 4)?;
                    return Ok(XPathValue::Nodes(nodes));
                }
                let nodes = self.walk(vec![TreeNode::node(0)], steps)?;
                self.known.insert(key, nodes.clone());
                XPathValue::Nodes(nodes)
            }
            Expr::Filter {
                of,
                predicates,
                steps,
            } => {
                let mut nodes = self.nodes(of, at)?;
                for predicate in predicates {
                    nodes = self.keep(nodes, predicate)?;
                }
                XPathValue::Nodes(self.walk(nodes, steps)?)
            }
        })
    }

    /// The nodes of an expression; none if its value is of another type.
    pub fn nodes(&mut self, expr: &Expr, at: At) -> Result<Vec<TreeNode>, TooCostly> {
        match self.expr(expr, at)? {
            XPathValue::Nodes(nodes) => Ok(nodes),
            _ => Ok(Vec::new()),
        }
    }

    pub fn truth(&mut self, expr: &Expr, at: At) -> Result<bool, TooCostly> {
        let value = self.expr(expr, at)?;
        Ok(truth(&value))
    }

    pub fn number(&mut self, expr: &Expr, at: At) -> Result<f64, TooCostly> {
        let value = self.expr(expr, at)?;
        self.number_of(&value)
    }

    pub fn text(&mut self, expr: &Expr, at: At) -> Result<String, TooCostly> {
        let value = self.expr(expr, at)?;
        self.string_of(value)
    }

    fn number_of(&mut self, value: &XPathValue) -> Result<f64, TooCostly> {
        Ok(match value {
            XPathValue::Number(value) => *value,
            XPathValue::Truth(is) => f64::from(u8::from(*is)),
            XPathValue::Text(text) => to_number(text),
            XPathValue::Nodes(nodes) => match nodes.first() {
                Some(first) => to_number(&self.text_of(*first)?),
                None => f64::NAN,
            },
        })
    }

    fn string_of(&mut self, value: XPathValue) -> Result<String, TooCostly> {
        Ok(match value {
            XPathValue::Text(text) => text,
            XPathValue::Number(value) => of_number(value),
            XPathValue::Truth(is) => is.to_string(),
            XPathValue::Nodes(nodes) => match nodes.first() {
                Some(first) => self.text_of(*first)?,
                None => String::new(),
            },
        })
    }

    /// The text of a node.
    pub fn text_of(&mut self, node: TreeNode) -> Result<String, TooCostly> {
        let mut text = String::new();
        let visited = self.tree.text(node, &mut text, MAX_STRING);
        self.spend(visited)?;
        self.spend_text(text.len())?;
        Ok(text)
    }

    fn sorted(&mut self, mut nodes: Vec<TreeNode>) -> Result<Vec<TreeNode>, TooCostly> {
        self.spend(nodes.len())?;
        nodes.sort_unstable();
        nodes.dedup();
        Ok(nodes)
    }

    /// The nodes that `steps` lead to.
    fn walk(
        &mut self,
        from: Vec<TreeNode>,
        steps: &[LocationStep],
    ) -> Result<Vec<TreeNode>, TooCostly> {
        let mut nodes = from;
        let mut rest = steps;
        while let Some((step, after)) = rest.split_first() {
            rest = after;
            // `//name` without positions is a single step over all descendants.
            if let (true, Some((next, after))) = (is_anywhere(step), rest.split_first())
                && next.axis == Axis::Child
                && next.predicates.iter().all(|p| !is_positional(p))
            {
                let along = Along {
                    axis: Axis::Descendant,
                    ..Along::of(next)
                };
                nodes = self.step(&nodes, along)?;
                rest = after;
                continue;
            }
            nodes = self.step(&nodes, Along::of(step))?;
        }
        Ok(nodes)
    }

    fn step(&mut self, from: &[TreeNode], step: Along<'_>) -> Result<Vec<TreeNode>, TooCostly> {
        let mut out = Vec::new();
        // Descendants of nested nodes are found once.
        let mut passed = 0;
        for node in from {
            let end = self.tree.end(node.index());
            if matches!(step.axis, Axis::Descendant | Axis::DescendantOrSelf)
                && step.predicates.is_empty()
                && node.attribute == 0
            {
                if node.index() + 1 < passed && end <= passed {
                    if step.axis == Axis::DescendantOrSelf && self.fits(*node, step) {
                        out.push(*node);
                    }
                    continue;
                }
                passed = passed.max(end);
            }
            let mut found = self.axis(*node, step)?;
            if step.axis.is_reverse() && !step.predicates.is_empty() {
                found.reverse();
            }
            for predicate in step.predicates {
                found = self.keep(found, predicate)?;
            }
            out.extend(found);
            // Duplicates are removed before a set outgrows the page.
            if out.len() > 4 * self.tree.len() {
                out = self.sorted(out)?;
            }
        }
        self.sorted(out)
    }

    /// The nodes of an axis that pass the test of the step, in document order.
    fn axis(&mut self, node: TreeNode, step: Along<'_>) -> Result<Vec<TreeNode>, TooCostly> {
        let tree = self.tree;
        let at = node.index();
        let is_attribute = node.attribute > 0;
        let end = tree.end(at);
        let mut found: Vec<TreeNode> = Vec::new();
        let mut visited = 1;
        let mut see = |place: TreeNode| {
            visited += 1;
            if fits(tree, place, step) {
                found.push(place);
            }
        };
        match step.axis {
            Axis::SelfNode => see(node),
            Axis::Attribute => {
                if let (false, Some(Node::Element(element))) = (is_attribute, tree.value(at)) {
                    let count = u32::try_from(element.attrs().count()).unwrap_or(u32::MAX);
                    (1..=count).for_each(|attribute| see(TreeNode { attribute, ..node }));
                }
            }
            Axis::Child if !is_attribute => tree.children(at).for_each(|c| see(TreeNode::node(c))),
            Axis::Descendant | Axis::DescendantOrSelf => {
                if step.axis == Axis::DescendantOrSelf {
                    see(node);
                }
                if !is_attribute {
                    (at + 1..end).for_each(|at| see(TreeNode::node(at)));
                }
            }
            Axis::Parent => {
                let parent = if is_attribute {
                    Some(at)
                } else {
                    tree.parent(at)
                };
                parent.into_iter().for_each(|at| see(TreeNode::node(at)));
            }
            Axis::Ancestor | Axis::AncestorOrSelf => {
                let mut line = Vec::new();
                if step.axis == Axis::AncestorOrSelf {
                    line.push(node);
                }
                let mut above = if is_attribute {
                    Some(at)
                } else {
                    tree.parent(at)
                };
                while let Some(at) = above {
                    line.push(TreeNode::node(at));
                    above = tree.parent(at);
                }
                line.into_iter().rev().for_each(see);
            }
            Axis::Following => {
                let from = if is_attribute { at + 1 } else { end };
                (from..tree.len()).for_each(|at| see(TreeNode::node(at)));
            }
            Axis::Preceding => {
                // A node that ends before this one begins is not an ancestor.
                let all = (1..at).filter(|before| tree.end(*before) <= at);
                all.for_each(|at| see(TreeNode::node(at)));
                visited += at;
            }
            Axis::FollowingSibling if !is_attribute => {
                let parent = tree.parent(at);
                let all = parent.into_iter().flat_map(|parent| tree.children(parent));
                all.filter(|sibling| *sibling > at)
                    .for_each(|at| see(TreeNode::node(at)));
            }
            Axis::PrecedingSibling if !is_attribute => {
                let parent = tree.parent(at);
                let all = parent.into_iter().flat_map(|parent| tree.children(parent));
                all.take_while(|sibling| *sibling < at)
                    .for_each(|at| see(TreeNode::node(at)));
            }
            Axis::Child | Axis::FollowingSibling | Axis::PrecedingSibling => {}
        }
        self.spend(visited)?;
        Ok(found)
    }

    fn fits(&self, place: TreeNode, step: Along<'_>) -> bool {
        fits(self.tree, place, step)
    }

    /// The nodes for which a predicate holds.
    fn keep(&mut self, nodes: Vec<TreeNode>, predicate: &Expr) -> Result<Vec<TreeNode>, TooCostly> {
        let size = nodes.len();
        // A number is a position.
        if let Expr::Number(wanted) = predicate {
            let nth = nodes
                .into_iter()
                .zip(1_u32..)
                .find(|(_, nth)| f64::from(*nth) == *wanted);
            return Ok(nth.map(|(node, _)| node).into_iter().collect());
        }
        let mut kept = Vec::new();
        for (index, node) in nodes.into_iter().enumerate() {
            let position = index + 1;
            let at = At {
                node,
                position,
                size,
            };
            let holds = match self.expr(predicate, at)? {
                XPathValue::Number(wanted) => wanted == as_f64(position),
                other => truth(&other),
            };
            if holds {
                kept.push(node);
            }
        }
        Ok(kept)
    }

    fn compare(
        &mut self,
        how: Comparison,
        a: &XPathValue,
        b: &XPathValue,
    ) -> Result<bool, TooCostly> {
        match (a, b) {
            (XPathValue::Nodes(_), XPathValue::Truth(_))
            | (XPathValue::Truth(_), XPathValue::Nodes(_)) => Ok(holds(how, truth(a), truth(b))),
            (XPathValue::Nodes(left), XPathValue::Nodes(right)) => {
                let mut texts = Vec::new();
                let mut bytes = 0;
                for node in right {
                    let text = self.text_of(*node)?;
                    bytes += text.len();
                    if bytes > MAX_TEXTS {
                        return Err(TooCostly);
                    }
                    texts.push(XPathValue::Text(text));
                }
                for node in left {
                    let text = XPathValue::Text(self.text_of(*node)?);
                    for other in &texts {
                        self.spend(1)?;
                        if plain(how, &text, other) {
                            return Ok(true);
                        }
                    }
                }
                Ok(false)
            }
            (XPathValue::Nodes(nodes), other) => {
                for node in nodes {
                    let text = XPathValue::Text(self.text_of(*node)?);
                    if plain(how, &text, other) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            (other, XPathValue::Nodes(nodes)) => {
                for node in nodes {
                    let text = XPathValue::Text(self.text_of(*node)?);
                    if plain(how, other, &text) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => Ok(plain(how, a, b)),
        }
    }
}

/// Compares two values that are not node sets (section 3.4).
fn plain(how: Comparison, a: &XPathValue, b: &XPathValue) -> bool {
    let number = |value: &XPathValue| match value {
        XPathValue::Number(value) => *value,
        XPathValue::Truth(is) => f64::from(u8::from(*is)),
        XPathValue::Text(text) => to_number(text),
        XPathValue::Nodes(_) => f64::NAN,
    };
    let is_equality = matches!(how, Comparison::Equal | Comparison::NotEqual);
    match (a, b) {
        (XPathValue::Truth(_), _) | (_, XPathValue::Truth(_)) if is_equality => {
            holds(how, truth(a), truth(b))
        }
        (XPathValue::Text(a), XPathValue::Text(b)) if is_equality => holds(how, a, b),
        _ => holds(how, number(a), number(b)),
    }
}

fn holds<T: PartialOrd>(how: Comparison, a: T, b: T) -> bool {
    match how {
        Comparison::Equal => a == b,
        Comparison::NotEqual => a != b,
        Comparison::Less => a < b,
        Comparison::LessEqual => a <= b,
        Comparison::More => a > b,
        Comparison::MoreEqual => a >= b,
    }
}

pub(super) fn truth(value: &XPathValue) -> bool {
    match value {
        XPathValue::Nodes(nodes) => !nodes.is_empty(),
        XPathValue::Text(text) => !text.is_empty(),
        XPathValue::Number(value) => *value != 0.0 && !value.is_nan(),
        XPathValue::Truth(is) => *is,
    }
}

/// A count as a number.
pub(super) fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

fn fits(tree: &Tree<'_>, place: TreeNode, step: Along<'_>) -> bool {
    if place.attribute > 0 {
        return match step.test {
            // The principal node type is attribute only on the attribute axis.
            NodeTest::Any => step.axis == Axis::Attribute,
            NodeTest::Name(name) => {
                step.axis == Axis::Attribute
                    && tree
                        .attribute(place)
                        .is_some_and(|(found, _)| found == name)
            }
            NodeTest::Node => true,
            NodeTest::Text | NodeTest::Comment => false,
        };
    }
    let Some(node) = tree.value(place.index()) else {
        return false;
    };
    match step.test {
        NodeTest::Any => node.is_element(),
        NodeTest::Name(name) => node.as_element().is_some_and(|e| e.name() == name),
        // XPath has no node for the doctype.
        NodeTest::Node => !node.is_doctype(),
        NodeTest::Text => node.is_text(),
        NodeTest::Comment => node.is_comment(),
    }
}

fn is_anywhere(step: &LocationStep) -> bool {
    step.axis == Axis::DescendantOrSelf && step.test == NodeTest::Node && step.predicates.is_empty()
}

/// Whether a predicate may depend on the position.
fn is_positional(predicate: &Expr) -> bool {
    use super::parse::Function;
    fn asks(expr: &Expr) -> bool {
        match expr {
            Expr::Call(Function::Position | Function::Last, _) => true,
            Expr::Call(_, arguments) => arguments.iter().any(asks),
            Expr::Or(a, b)
            | Expr::And(a, b)
            | Expr::Compare(_, a, b)
            | Expr::Arithmetic(_, a, b)
            | Expr::Union(a, b) => asks(a) || asks(b),
            Expr::Negate(inner) => asks(inner),
            Expr::Filter { of, .. } => asks(of),
            Expr::Number(_) | Expr::Literal(_) | Expr::Path { .. } => false,
        }
    }
    let is_number = match predicate {
        Expr::Number(_) | Expr::Arithmetic(..) | Expr::Negate(_) => true,
        Expr::Call(function, _) => !matches!(
            function,
            Function::Boolean
                | Function::Not
                | Function::True
                | Function::False
                | Function::Contains
                | Function::StartsWith
                | Function::Lang
                | Function::NormalizeSpace
                | Function::String
                | Function::Concat
                | Function::Id
        ),
        _ => false,
    };
    is_number || asks(predicate)
}
