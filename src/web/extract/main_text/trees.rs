//! A sum of decision trees, as gradient boosting makes it.
//!
//! The file begins with a line of its own and a line with the names of the features. Each node
//! follows in eight bytes: for a comparison the number of the feature plus one (u16), how many
//! nodes further the larger values go (u16) and the bound (f32), all little-endian; the smaller
//! values, and the bound itself, go to the next node. A leaf has a zero instead of a feature, a
//! number that is not read, and its value.

/// The first line of the file.
const MAGIC: &str = "spoor trees 1";

/// A sum of decision trees.
#[derive(Debug)]
pub(super) struct Trees<'f> {
    /// The names of the features, in the order of their numbers.
    pub(super) names: Vec<&'f str>,
    nodes: Vec<Node>,
    trees: Vec<Tree>,
}

/// A tree: where it begins, and the most comparisons that a row takes.
#[derive(Debug, Clone, Copy)]
struct Tree {
    root: u32,
    depth: u32,
}

/// A comparison, or a leaf: its features are compared with no number, so that it leads to itself.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// The number of the feature.
    feature: u16,
    /// How many nodes further the larger values go; 0 for a leaf.
    above: u16,
    /// The bound of a comparison; not a number for a leaf.
    bound: f32,
    /// The value of a leaf.
    leaf: f32,
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
        let node = |[a, b, c, d, value @ ..]: &[u8; 8]| {
            let above = u16::from_le_bytes([*c, *d]);
            let value = f32::from_le_bytes(*value);
            match u16::from_le_bytes([*a, *b]).checked_sub(1) {
                Some(feature) => Node {
                    feature,
                    above,
                    bound: value,
                    leaf: 0.0,
                },
                None => Node {
                    feature: 0,
                    above: 0,
                    bound: f32::NAN,
                    leaf: value,
                },
            }
        };
        let nodes: Vec<Node> = nodes.iter().map(node).collect();
        let trees = trees(&nodes);
        (magic == MAGIC).then_some(Self {
            names,
            nodes,
            trees,
        })
    }

    /// The probability for each row of features, which are in the order of their names.
    ///
    /// Several rows go down a tree side by side: the way of one is a chain of loads and of
    /// comparisons that no processor can predict, and those of the others fill its pauses.
    pub(super) fn probabilities(&self, rows: &[f32]) -> Vec<f32> {
        const SIDE_BY_SIDE: usize = 8;
        let width = self.names.len();
        let mut sums = vec![0.0_f32; rows.len() / width.max(1)];
        let sides = sums.chunks_mut(SIDE_BY_SIDE);
        for (sums, rows) in sides.zip(rows.chunks(SIDE_BY_SIDE * width)) {
            for tree in &self.trees {
                let mut at = [tree.root as usize; SIDE_BY_SIDE];
                for _ in 0..tree.depth {
                    for (at, row) in at.iter_mut().zip(rows.chunks_exact(width)) {
                        *at += self.nodes.get(*at).map_or(0, |node| node.step(row));
                    }
                }
                for (sum, at) in sums.iter_mut().zip(at) {
                    *sum += self.nodes.get(at).map_or(0.0, |node| node.leaf);
                }
            }
        }
        sums.iter().map(|sum| 1.0 / (1.0 + (-sum).exp())).collect()
    }
}

impl Node {
    fn is_leaf(&self) -> bool {
        self.bound.is_nan()
    }

    /// How many nodes further a row goes.
    fn step(&self, row: &[f32]) -> usize {
        let value = row
            .get(usize::from(self.feature))
            .copied()
            .unwrap_or_default();
        // Without a branch, which would be guessed wrongly half of the time.
        let is_below = usize::from(value <= self.bound);
        is_below + usize::from(self.above) * (1 - is_below)
    }
}

/// The trees that these nodes are, one after the other.
fn trees(nodes: &[Node]) -> Vec<Tree> {
    let mut trees = Vec::new();
    // The depths of the larger sides that come later.
    let mut later: Vec<u32> = Vec::new();
    let (mut depth, mut tree) = (0, None);
    for (at, node) in nodes.iter().enumerate() {
        let of = tree.get_or_insert(Tree {
            root: u32::try_from(at).unwrap_or(u32::MAX),
            depth: 0,
        });
        of.depth = of.depth.max(depth);
        if !node.is_leaf() {
            depth += 1;
            later.push(depth);
        } else if let Some(next) = later.pop() {
            depth = next;
        } else {
            trees.extend(tree.take());
            depth = 0;
        }
    }
    trees
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
        let known = [
            ([3.0, 1.0], 1.5_f32),
            ([2.0, 1.0], -0.5),
            ([3.0, 0.0], 0.5),
            ([f32::NAN, -1.0], 0.5),
        ];
        // More rows than go down side by side, and a part of as many.
        let rows: Vec<_> = known.iter().cycle().take(19).collect();
        let features: Vec<f32> = rows.iter().flat_map(|(features, _)| *features).collect();
        let found = trees.probabilities(&features);
        assert_eq!(found.len(), rows.len());
        for ((features, sum), found) in rows.into_iter().zip(found) {
            let expected = 1.0 / (1.0 + (-sum).exp());
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
