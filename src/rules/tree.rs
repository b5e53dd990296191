//! The tree of a page in document order, on which rules are evaluated.

use ego_tree::NodeId;
use ego_tree::iter::Edge;
use scraper::{ElementRef, Html, Node};

/// A node of a page: an element, a text, a comment, the document, or an attribute.
///
/// Nodes are ordered as in the document; the attributes of an element come right after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TreeNode {
    /// The number of the node in document order; 0 is the document.
    pub at: u32,
    /// 0 for the node itself, or the number of one of its attributes, from 1.
    pub attribute: u32,
}

impl TreeNode {
    /// The node number `at`.
    pub fn node(at: usize) -> Self {
        Self {
            at: u32::try_from(at).unwrap_or(u32::MAX),
            attribute: 0,
        }
    }

    /// The node's number.
    pub fn index(self) -> usize {
        self.at as usize
    }
}

/// A node with its neighbours.
#[derive(Debug)]
struct NodeLinks<'a> {
    id: NodeId,
    value: &'a Node,
    parent: usize,
    /// The number after its last descendant.
    end: usize,
}

/// A parsed page whose nodes are numbered in document order.
///
/// Numbering takes one pass and 40 bytes a node.
#[derive(Debug)]
pub struct Tree<'a> {
    html: &'a Html,
    nodes: Vec<NodeLinks<'a>>,
}

impl<'a> Tree<'a> {
    /// Numbers the nodes of a page.
    pub fn new(html: &'a Html) -> Self {
        let mut nodes: Vec<NodeLinks<'a>> = Vec::with_capacity(html.tree.nodes().len());
        let mut open: Vec<usize> = Vec::new();
        for edge in html.tree.root().traverse() {
            match edge {
                Edge::Open(node) => {
                    let at = nodes.len();
                    nodes.push(NodeLinks {
                        id: node.id(),
                        value: node.value(),
                        parent: open.last().copied().unwrap_or(0),
                        end: at + 1,
                    });
                    open.push(at);
                }
                Edge::Close(_) => {
                    let end = nodes.len();
                    if let Some(entry) = open.pop().and_then(|at| nodes.get_mut(at)) {
                        entry.end = end;
                    }
                }
            }
        }
        Self { html, nodes }
    }

    /// The parsed page.
    pub fn html(&self) -> &'a Html {
        self.html
    }

    /// The number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn value(&self, at: usize) -> Option<&'a Node> {
        self.nodes.get(at).map(|entry| entry.value)
    }

    /// The number after the node's last descendant.
    pub(super) fn end(&self, at: usize) -> usize {
        self.nodes.get(at).map_or(at + 1, |entry| entry.end)
    }

    /// The parent of a node; `None` for the document.
    pub(super) fn parent(&self, at: usize) -> Option<usize> {
        let entry = self.nodes.get(at)?;
        (at > 0).then_some(entry.parent)
    }

    /// The children of a node, in document order.
    pub(super) fn children(&self, at: usize) -> impl Iterator<Item = usize> {
        let end = self.end(at);
        let mut next = at + 1;
        std::iter::from_fn(move || {
            let child = (next < end).then_some(next)?;
            next = self.end(child);
            Some(child)
        })
    }

    /// The name and value of an attribute.
    pub(super) fn attribute(&self, place: TreeNode) -> Option<(&'a str, &'a str)> {
        let element = self.value(place.index())?.as_element()?;
        let nth = (place.attribute as usize).checked_sub(1)?;
        element.attrs().nth(nth)
    }

    /// The element at this node.
    pub(super) fn element(&self, place: TreeNode) -> Option<ElementRef<'a>> {
        if place.attribute > 0 {
            return None;
        }
        let id = self.nodes.get(place.index())?.id;
        ElementRef::wrap(self.html.tree.get(id)?)
    }

    /// The node of an element of this page.
    #[cfg(test)]
    pub(super) fn find(&self, id: NodeId) -> Option<TreeNode> {
        let at = self.nodes.iter().position(|entry| entry.id == id)?;
        Some(TreeNode::node(at))
    }

    /// The whole text of a node, for tests.
    #[cfg(test)]
    pub(super) fn whole(&self, place: TreeNode) -> String {
        let mut text = String::new();
        self.text(place, &mut text, usize::MAX);
        text
    }

    /// Appends the text of a node and its descendants, like the DOM's `textContent`, at most `room`
    /// bytes. Returns the number of visited nodes.
    pub(super) fn text(&self, place: TreeNode, out: &mut String, room: usize) -> usize {
        if place.attribute > 0 {
            push(
                out,
                self.attribute(place).map_or("", |(_, value)| value),
                room,
            );
            return 1;
        }
        let at = place.index();
        match self.value(at) {
            Some(Node::Text(text)) => push(out, text, room),
            Some(Node::Comment(comment)) => push(out, comment, room),
            _ => {
                for inner in self.nodes.get(at..self.end(at)).unwrap_or_default() {
                    if let Node::Text(text) = inner.value {
                        push(out, text, room);
                    }
                }
            }
        }
        self.end(at) - at
    }
}

/// The maximum number of siblings on pages where selectors are used: the time of `:nth-child` and
/// of `:has(~ x)` is quadratic in their number, 0.2 and 0.4 s for this many.
const MAX_SIBLINGS: usize = 10_000;

/// Whether an element of the page has too many children.
pub(super) fn is_too_wide(html: &Html) -> bool {
    if html.tree.nodes().len() <= MAX_SIBLINGS {
        return false;
    }
    html.tree.nodes().any(|node| {
        let children = node.children().filter(|child| child.value().is_element());
        children.take(MAX_SIBLINGS + 1).count() > MAX_SIBLINGS
    })
}

/// Appends as much of `text` as fits.
fn push(out: &mut String, text: &str, room: usize) {
    let left = room.saturating_sub(out.len());
    let mut end = text.len().min(left);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.push_str(text.get(..end).unwrap_or_default());
}
