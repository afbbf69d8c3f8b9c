//! Where the nodes of a graph are drawn: in layers, each node below all that it depends on.

/// How often nodes are sorted by their neighbours.
const SWEEPS: usize = 4;

/// A graph without cycles: each node lists the nodes before it.
pub(super) type NodesBefore = Vec<Vec<usize>>;

/// The place of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodePlace {
    /// Its layer, from the top.
    pub(super) layer: usize,
    /// Its position in the layer.
    pub(super) at: usize,
}

/// Puts nodes into layers so that edges lead downwards, and sorts each layer so that edges are short.
/// Nodes are given so that each comes after those before it.
pub(super) fn places(before: &NodesBefore) -> Vec<NodePlace> {
    let mut layers: Vec<usize> = Vec::with_capacity(before.len());
    for edges in before {
        layers.push(edges.iter().map(|&node| layers[node] + 1).max().unwrap_or(0));
    }
    // A node without predecessors stands just above the first that uses it.
    let mut after = vec![Vec::new(); before.len()];
    for (node, edges) in before.iter().enumerate() {
        edges.iter().for_each(|&from| after[from].push(node));
    }
    for node in (0..before.len()).filter(|&node| before[node].is_empty()) {
        let below = after[node].iter().map(|&to| layers[to]).min();
        layers[node] = below.map_or(layers[node], |below| below.saturating_sub(1));
    }
    let n_layers = layers.iter().max().map_or(0, |last| last + 1);
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); n_layers];
    layers.iter().enumerate().for_each(|(node, &layer)| rows[layer].push(node));
    let mut at = vec![0.0; before.len()];
    let number = |row: &[usize], at: &mut [f64]| {
        row.iter().enumerate().for_each(|(position, &node)| {
            at[node] = position as f64 - row.len() as f64 / 2.0;
        });
    };
    rows.iter().for_each(|row| number(row, &mut at));
    for sweep in 0..SWEEPS {
        let neighbours = if sweep % 2 == 0 { before } else { &after };
        for layer in 0..n_layers {
            let layer = if sweep % 2 == 0 { layer } else { n_layers - 1 - layer };
            sort(&mut rows[layer], neighbours, &at);
            number(&rows[layer], &mut at);
        }
    }
    let mut places = vec![NodePlace::default(); before.len()];
    for (layer, row) in rows.iter().enumerate() {
        row.iter().enumerate().for_each(|(at, &node)| places[node] = NodePlace { layer, at });
    }
    places
}

/// Sorts a layer by the mean position of neighbours; nodes without any keep theirs.
fn sort(row: &mut [usize], neighbours: &NodesBefore, at: &[f64]) {
    let mean = |node: usize| match neighbours[node].len() {
        0 => at[node],
        n => neighbours[node].iter().map(|&other| at[other]).sum::<f64>() / n as f64,
    };
    row.sort_by(|&a, &b| mean(a).total_cmp(&mean(b)).then(a.cmp(&b)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_lead_downwards_and_do_not_cross_without_need() {
        // Two inputs, each to an op of its own, in the wrong order; then both to one.
        let before = vec![vec![], vec![], vec![1], vec![0], vec![2, 3]];
        let places = places(&before);
        for (node, edges) in before.iter().enumerate() {
            assert!(edges.iter().all(|&from| places[from].layer < places[node].layer));
        }
        assert_eq!(places[0].at < places[1].at, places[3].at < places[2].at);
    }

    #[test]
    fn an_input_stands_above_its_use() {
        let before = vec![vec![], vec![0], vec![1], vec![], vec![2, 3]];
        assert_eq!(places(&before)[3].layer, 2);
    }
}
