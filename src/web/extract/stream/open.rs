//! The stack of open elements (HTML standard, section 13.2.4.2).

use std::borrow::Cow;

use super::elements::ElementKind;

/// An open element.
#[derive(Debug)]
pub(super) struct Element<'h> {
    pub(super) name: Cow<'h, str>,
    pub(super) kind: ElementKind,
    /// Unique for each element of the page.
    pub(super) id: u32,
    /// Whether a `p` is open within the nearest button or scope.
    has_p: bool,
    /// Whether the tree builder has removed it from its stack although later elements are still
    /// inside it: it ends with the last of them, and no rule sees it.
    is_detached: bool,
}

/// The open elements, outermost first. The innermost is never a detached one.
#[derive(Debug, Default)]
pub(super) struct OpenElements<'h> {
    all: Vec<Element<'h>>,
    next: u32,
}

impl<'h> OpenElements<'h> {
    /// Adds the innermost element. Returns its id.
    pub(super) fn push(&mut self, name: Cow<'h, str>, kind: ElementKind) -> u32 {
        let above = self.all.last().is_some_and(|e| e.has_p);
        let has_p = *name == *"p" || (above && !kind.ends_scope() && kind != ElementKind::Button);
        self.next += 1;
        self.all.push(Element {
            name,
            kind,
            id: self.next,
            has_p,
            is_detached: false,
        });
        self.next
    }

    /// Removes the innermost element.
    pub(super) fn pop(&mut self) -> Option<Element<'h>> {
        self.all.pop()
    }

    /// Removes the innermost element if it is detached.
    pub(super) fn pop_detached(&mut self) -> Option<Element<'h>> {
        self.all.pop_if(|e| e.is_detached)
    }

    /// The elements that rules see, innermost first.
    pub(super) fn inner_first(&self) -> impl Iterator<Item = &Element<'h>> {
        self.all.iter().rev().filter(|e| !e.is_detached)
    }

    /// The innermost element.
    pub(super) fn innermost(&self) -> Option<&Element<'h>> {
        self.all.last()
    }

    /// The innermost element's kind.
    pub(super) fn top(&self) -> Option<ElementKind> {
        self.all.last().map(|e| e.kind)
    }

    /// Whether the innermost element is this one.
    pub(super) fn top_id_is(&self, id: u32) -> bool {
        self.all.last().is_some_and(|e| e.id == id)
    }

    /// The number of elements that rules see.
    pub(super) fn len(&self) -> usize {
        self.inner_first().count()
    }

    /// Whether rules see no element.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Detaches an element that is not the innermost.
    pub(super) fn detach(&mut self, id: u32) {
        if let Some(element) = self.all.iter_mut().find(|e| e.id == id) {
            element.is_detached = true;
        }
    }

    /// Whether such an element is in scope; `ends` gives further elements that end the scope.
    pub(super) fn in_scope(
        &self,
        wanted: impl Fn(&Element<'h>) -> bool,
        ends: impl Fn(ElementKind, &str) -> bool,
    ) -> bool {
        for element in self.inner_first() {
            if wanted(element) {
                return true;
            }
            if element.kind.ends_scope() || ends(element.kind, &element.name) {
                return false;
            }
        }
        false
    }

    /// Whether an element of this name is in scope.
    pub(super) fn has(&self, name: &str) -> bool {
        self.in_scope(|e| *e.name == *name, |_, _| false)
    }

    /// Whether a `p` is in button scope.
    pub(super) fn has_p(&self) -> bool {
        self.all.last().is_some_and(|e| e.has_p)
    }

    /// Whether an element of this name is in table scope.
    pub(super) fn has_in_table(&self, name: &str) -> bool {
        self.inner_first()
            .find(|e| *e.name == *name || e.kind.ends_table_scope())
            .is_some_and(|e| *e.name == *name)
    }

    /// The kind of the cell or caption that is open within the innermost table.
    pub(super) fn cell(&self) -> Option<ElementKind> {
        self.inner_first()
            .find(|e| {
                matches!(e.kind, ElementKind::Cell | ElementKind::Caption)
                    || e.kind.ends_table_scope()
            })
            .map(|e| e.kind)
            .filter(|kind| matches!(kind, ElementKind::Cell | ElementKind::Caption))
    }
}
