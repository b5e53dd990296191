//! A sum of decision trees, as gradient boosting makes it.
//!
//! The file begins with a line of its own and a line with the names of the features. Each node
//! follows in eight bytes: for a comparison the number of the feature plus one (u16), how many
//! nodes further the larger values go (u16) and the bound (f32), all little-endian; the smaller
//! values, and the bound itself, go to the next node. A leaf has a zero instead of a feature, how
//! many nodes further the next tree begins, and its value.

/// The first line of the file.
const MAGIC: &str = "spoor trees 1";

/// A sum of decision trees.
#[derive(Debug)]
pub(super) struct Trees<'f> {
    /// The names of the features, in the order of their numbers.
    pub(super) names: Vec<&'f str>,
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    /// The number of the feature plus 1; 0 for a leaf.
    feature: u16,
    /// How many nodes further the larger values go; for a leaf, where the next tree begins.
    above: u16,
    /// The bound of a comparison, or the value of a leaf.
    value: f32,
}

impl<'f> Trees<'f> {
    /// The trees in a file; `None` if it is none.
    pub(super) fn of_file(file: &'f [u8]) -> Option<Self> {
        let (magic, rest) = line(file)?;
        let (names, rest) = line(rest)?;
        let names: Vec<&str> = names.split(' ').collect();
        let (nodes, []) = rest.as_chunks::<8>() else {
            return None;
        };
        let nodes: Vec<Node> = nodes
            .iter()
            .map(|[a, b, c, d, value @ ..]| Node {
                feature: u16::from_le_bytes([*a, *b]),
                above: u16::from_le_bytes([*c, *d]),
                value: f32::from_le_bytes(*value),
            })
            .collect();
        (magic == MAGIC).then_some(Self { names, nodes })
    }

    /// The probability for these values of the features, in the order of their names.
    pub(super) fn probability(&self, features: &[f32]) -> f32 {
        let mut sum = 0.0;
        let mut at = 0;
        while let Some(node) = self.nodes.get(at) {
            let feature = usize::from(node.feature).checked_sub(1);
            let value = feature.map(|feature| features.get(feature).copied().unwrap_or(0.0));
            at += match value {
                Some(value) if value <= node.value => 1,
                _ => usize::from(node.above.max(1)),
            };
            sum += if value.is_none() { node.value } else { 0.0 };
        }
        1.0 / (1.0 + (-sum).exp())
    }
}

/// The first line of a text and what follows it.
fn line(text: &[u8]) -> Option<(&str, &[u8])> {
    let end = memchr::memchr(b'\n', text)?;
    let (line, rest) = text.split_at_checked(end)?;
    Some((std::str::from_utf8(line).ok()?, rest.get(1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two trees: 1 if `a` is above 2, else -1; and half of that for `b`.
    fn file() -> Vec<u8> {
        let mut file = b"spoor trees 1\na b\n".to_vec();
        for (feature, above, value) in [
            (1_u16, 2_u16, 2.0_f32),
            (0, 2, -1.0),
            (0, 1, 1.0),
            (2, 2, 0.0),
            (0, 2, -0.5),
            (0, 1, 0.5),
        ] {
            file.extend(feature.to_le_bytes());
            file.extend(above.to_le_bytes());
            file.extend(value.to_le_bytes());
        }
        file
    }

    #[test]
    fn the_leaves_are_added() {
        let file = file();
        let trees = Trees::of_file(&file).unwrap();
        assert_eq!(trees.names, ["a", "b"]);
        for (features, sum) in [
            ([3.0, 1.0], 1.5_f32),
            ([2.0, 1.0], -0.5),
            ([3.0, 0.0], 0.5),
            ([f32::NAN, -1.0], 0.5),
        ] {
            let expected = 1.0 / (1.0 + (-sum).exp());
            let found = trees.probability(&features);
            assert!((found - expected).abs() < 1e-6, "{features:?}: {found}");
        }
    }

    #[test]
    fn broken_files_are_refused() {
        let file = file();
        for broken in [
            &file[..20],
            b"",
            b"spoor trees 2\na\n",
            &file[..file.len() - 1],
        ] {
            assert!(Trees::of_file(broken).is_none());
        }
    }
}
