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

    /// The probability for each row of features, which are in the order of their names.
    ///
    /// Several rows go down a tree side by side: the way of one is a chain of loads and of
    /// comparisons that no processor can predict, and those of the others fill its pauses.
    pub(super) fn probabilities(&self, rows: &[f32]) -> Vec<f32> {
        const SIDE_BY_SIDE: usize = 8;
        let width = self.names.len();
        let mut sums = vec![0.0_f32; rows.len() / width.max(1)];
        for root in self.roots() {
            let sides = sums.chunks_mut(SIDE_BY_SIDE);
            for (sums, rows) in sides.zip(rows.chunks(SIDE_BY_SIDE * width)) {
                let mut at = [root; SIDE_BY_SIDE];
                let at = &mut at[..sums.len()];
                while self.step(at, rows, width) {}
                for (sum, leaf) in sums.iter_mut().zip(at) {
                    *sum += self.nodes.get(*leaf).map_or(0.0, |leaf| leaf.value);
                }
            }
        }
        sums.iter().map(|sum| 1.0 / (1.0 + (-sum).exp())).collect()
    }

    /// Moves each row one node down. Returns whether one moved.
    fn step(&self, at: &mut [usize], rows: &[f32], width: usize) -> bool {
        let mut moved = 0;
        for (number, at) in at.iter_mut().enumerate() {
            let Some(node) = self.nodes.get(*at) else {
                continue;
            };
            let feature = usize::from(node.feature);
            let place = number * width + feature.saturating_sub(1);
            let value = rows.get(place).copied().unwrap_or(0.0);
            let above = usize::from(node.above.max(1));
            let down = if value <= node.value { 1 } else { above };
            let down = if feature == 0 { 0 } else { down };
            *at += down;
            moved |= down;
        }
        moved > 0
    }

    /// The number of the first node of each tree.
    fn roots(&self) -> impl Iterator<Item = usize> {
        // After the last leaf of a tree comes the next.
        let mut open = 0_usize;
        self.nodes
            .iter()
            .enumerate()
            .filter_map(move |(number, node)| {
                let is_root = open == 0;
                open = match node.feature {
                    0 => open.max(1) - 1,
                    _ => open.max(1) + 1,
                };
                is_root.then_some(number)
            })
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
