//! The attributes of an element, whether it is in a tree or in a stream of tokens.

use scraper::node::Element;

/// The attributes of an element.
pub(super) trait ElementAttributes {
    /// The value of the attribute; `None` if the element lacks it.
    fn get(&self, name: &str) -> Option<&str>;

    /// All attributes with their values.
    fn all(&self) -> impl Iterator<Item = (&str, &str)>;
}

impl ElementAttributes for Element {
    fn get(&self, name: &str) -> Option<&str> {
        // `Element::attr` would intern the name each time.
        self.attrs().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attrs()
    }
}
