//! Which node should own which cell.
//!
//! Rendezvous hashing: each node draws a number for each cell, by hashing both, and the highest
//! number wins the cell. All machines that know the same nodes get the same result. A node that
//! joins takes its share from all others and moves no other cell; one that leaves gives its cells
//! to all others. A node of twice the weight gets twice as many cells.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::record::Node;
use crate::frontier::CellId;

/// The node that should own a cell; `None` if there are no nodes. Weights that are not above zero
/// count as the smallest possible.
pub fn heir<'a>(
    cell: CellId,
    nodes: impl IntoIterator<Item = (&'a Node, f64)>,
) -> Option<&'a Node> {
    let drawn = |(node, weight): (&'a Node, f64)| (draw(cell, node, weight), node);
    let highest = nodes
        .into_iter()
        .map(drawn)
        // Of equal numbers, the first node by name wins.
        .max_by(|(a, one), (b, other)| a.total_cmp(b).then(other.cmp(one)));
    highest.map(|(_, node)| node)
}

/// The number that a node draws for a cell.
fn draw(cell: CellId, node: &Node, weight: f64) -> f64 {
    let hash = xxh3_64_with_seed(node.as_str().as_bytes(), u64::from(cell.number()));
    // 53 bits, as many as a float holds; never 0 or 1.
    let uniform = ((hash >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    // Of exponentially distributed numbers, each node's is the smallest with a probability equal to
    // its share of the rates.
    uniform.ln() / weight.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontier::CellCount;

    fn nodes(count: usize) -> Vec<Node> {
        let names = (0..count).map(|n| Node::new(&format!("node-{n}")).unwrap());
        names.collect()
    }

    fn owners(nodes: &[(&Node, f64)]) -> Vec<String> {
        let cells = CellCount::new(1_024).unwrap().all();
        let heirs = cells.map(|cell| heir(cell, nodes.iter().copied()).unwrap());
        heirs.map(|node| node.to_string()).collect()
    }

    fn equal(nodes: &[Node]) -> Vec<(&Node, f64)> {
        nodes.iter().map(|node| (node, 1.0)).collect()
    }

    #[test]
    fn a_node_that_joins_moves_no_cell_between_others() {
        let all = nodes(8);
        let (before, after) = (owners(&equal(&all[..7])), owners(&equal(&all)));
        let moved = before.iter().zip(&after).filter(|(a, b)| a != b);
        let joined: Vec<_> = moved.map(|(_, to)| to.as_str()).collect();
        assert!(joined.iter().all(|to| *to == "node-7"));
        assert!((100..160).contains(&joined.len()), "{}", joined.len());
    }

    #[test]
    fn the_order_of_nodes_does_not_matter() {
        let all = nodes(5);
        let mut turned = equal(&all);
        turned.reverse();
        assert_eq!(owners(&equal(&all)), owners(&turned));
    }

    #[test]
    fn shares_follow_weights() {
        let all = nodes(3);
        let weights = [(&all[0], 1.0), (&all[1], 2.0), (&all[2], 1.0)];
        let owners = owners(&weights);
        let of = |name: &str| owners.iter().filter(|owner| *owner == name).count();
        assert!((460..560).contains(&of("node-1")), "{}", of("node-1"));
        assert!((210..300).contains(&of("node-0")), "{}", of("node-0"));
        for weight in [0.0, -1.0, f64::NAN] {
            let weights = [(&all[0], weight), (&all[1], 1.0)];
            let heir = heir(CellCount::ONE.cell(0).unwrap(), weights);
            assert_eq!(heir, Some(&all[1]), "{weight}");
        }
        let no_nodes: [(&Node, f64); 0] = [];
        assert_eq!(heir(CellCount::ONE.cell(0).unwrap(), no_nodes), None);
    }
}
