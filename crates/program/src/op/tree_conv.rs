//! `tree_conv`: a convolution over trees. EdgeSet lists the edges (parent, child) of each sample, numbered from 1 on and ended by zeros; NodesVector has a
//! row for each node. Out = for each node the sum over the nodes below it, `max_depth` deep, of their rows times Filter: with weights l, r
//! and t for its three matrices that depend on a node's place among its siblings and on its depth.

use tensor::Shape;
use tensor::gemm::{Matrix, gemm};

use super::sizes::bad_attr;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::{Error, Result};

pub(super) struct TreeConv;
pub(super) struct TreeConvGrad;

const NODES: &str = "NodesVector is [samples, nodes, width] and EdgeSet [samples, edges, 2]";
const FILTER: &str = "Filter is [width of NodesVector, 3, size, filters]";

/// What one node adds to the sum of another.
#[derive(Clone, Copy)]
struct NodeShare {
    to: usize,
    from: usize,
    weights: [f64; 3],
}

/// Sizes of one run.
#[derive(Clone, Copy)]
struct TreeSizes {
    n_samples: usize,
    n_nodes: usize,
    width: usize,
    size: usize,
    n_filters: usize,
}

impl TreeSizes {
    fn of(run: &Run<'_>) -> Result<Self> {
        let (nodes, edges) = (run.input("NodesVector")?, run.input("EdgeSet")?);
        let (&[n_samples, n_nodes, width], &[n, _, 2]) = (nodes.dims(), edges.dims()) else {
            return Err(run.shapes(NODES, "NodesVector", "EdgeSet"));
        };
        if n != n_samples {
            return Err(run.shapes(NODES, "NodesVector", "EdgeSet"));
        }
        match *run.input("Filter")?.dims() {
            [rows, 3, size, n_filters] if rows == width => {
                Ok(Self { n_samples, n_nodes, width, size, n_filters })
            }
            _ => Err(run.shapes(FILTER, "NodesVector", "Filter")),
        }
    }

    fn columns(&self) -> usize {
        self.size * self.n_filters
    }
}

/// The shares of a sample.
fn shares(run: &Run<'_>, sizes: TreeSizes, sample: usize) -> Result<Vec<NodeShare>> {
    let depth = run.attrs().int("max_depth", 2)?;
    if depth < 1 {
        return Err(bad_attr("max_depth", "positive", depth));
    }
    let edges = run.data::<i32>("EdgeSet")?;
    let n = edges.len() / sizes.n_samples.max(1);
    let edges = &edges[sample * n..(sample + 1) * n];
    let used = edges.chunks_exact(2).take_while(|edge| edge[0] != 0 && edge[1] != 0);
    let n_used = used.clone().count() + 1;
    let bad = |position: usize, value: i32| {
        let (rule, var) = ("an edge joins nodes", run.input_name("EdgeSet").to_string());
        Error::BadValue { rule, var, position, value: f64::from(value) }
    };
    if n_used > sizes.n_nodes {
        return Err(run.shapes("NodesVector has a row for each node", "NodesVector", "EdgeSet"));
    }
    let mut children = vec![Vec::new(); n_used + 1];
    for (position, edge) in used.enumerate() {
        for &node in edge {
            if !(1..=n_used as i32).contains(&node) {
                return Err(bad(position, node));
            }
        }
        children[edge[0] as usize].push(edge[1] as usize);
    }
    let mut all = Vec::new();
    for root in 1..=n_used {
        below(&children, root, depth as f64, &mut all);
    }
    Ok(all)
}

/// The shares of the nodes below one, which are visited depth first.
fn below(children: &[Vec<usize>], root: usize, max_depth: f64, all: &mut Vec<NodeShare>) {
    let mut add = |node: usize, depth: f64, place: Option<f64>| {
        let t = (max_depth - depth) / max_depth;
        let l = (1.0 - t) * place.unwrap_or(0.5);
        all.push(NodeShare {
            to: root - 1,
            from: node - 1,
            weights: [l, (1.0 - t) * (1.0 - l), t],
        });
    };
    let mut visited = vec![false; children.len()];
    visited[root] = true;
    add(root, 0.0, None);
    let mut stack = vec![(root, 0.0)];
    while let Some((node, depth)) = stack.pop() {
        if depth + 1.0 >= max_depth {
            continue;
        }
        let siblings = &children[node];
        for (index, &child) in siblings.iter().enumerate() {
            if !std::mem::replace(&mut visited[child], true) {
                let place =
                    (siblings.len() > 1).then(|| index as f64 / (siblings.len() - 1) as f64);
                add(child, depth + 1.0, place);
                stack.push((child, depth + 1.0));
            }
        }
    }
}

impl Op for TreeConv {
    traits!(Rows("NodesVector"));

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (nodes, edges) = (infer.input("NodesVector")?, infer.input("EdgeSet")?);
        let [n, n_nodes, _] = *nodes.dims else {
            return Err(infer.shapes(NODES, "NodesVector", "EdgeSet"));
        };
        if edges.dims.len() != 3 {
            return Err(infer.shapes(NODES, "NodesVector", "EdgeSet"));
        }
        let [_, 3, size, n_filters] = *infer.input("Filter")?.dims else {
            return Err(infer.shapes(FILTER, "NodesVector", "Filter"));
        };
        infer.set_output("Out", nodes.with_dims(vec![n, n_nodes, size, n_filters]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.make("Out", |run, out| {
            let (sizes, nodes) = (TreeSizes::of(run)?, run.input("NodesVector")?);
            let TreeSizes { n_samples, n_nodes, width, size, n_filters } = sizes;
            for_float!(nodes.dtype(), run.input_name("NodesVector"), T => {
                let shape = Shape::from([n_samples, n_nodes, size, n_filters]);
                let (data, out) = (nodes.data::<T>()?, out.try_resize::<T>(shape)?);
                let filter = Matrix::new(run.data::<T>("Filter")?, 3 * width, sizes.columns());
                for sample in 0..n_samples {
                    let mut patch = vec![0.0; n_nodes * 3 * width];
                    for NodeShare { to, from, weights } in shares(run, sizes, sample)? {
                        for k in 0..3 * width {
                            let x = data[(sample * n_nodes + from) * width + k / 3];
                            patch[to * 3 * width + k] += x * weights[k % 3] as T;
                        }
                    }
                    let out = &mut out[sample * n_nodes * sizes.columns()..][..n_nodes * sizes.columns()];
                    gemm(1.0, Matrix::new(&patch, n_nodes, 3 * width), filter, 0.0, out);
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let inputs = ["NodesVector", "EdgeSet", "Filter"];
        grad.emit_usual(Keep::grads(&["Out"], &["NodesVector", "Filter"]).inputs(&inputs))
    }
}

impl Kernel for TreeConvGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_nodes, mut d_filter) = (run.take("NodesVector@GRAD"), run.take("Filter@GRAD"));
        let (sizes, nodes) = (TreeSizes::of(run)?, run.input("NodesVector")?);
        let TreeSizes { n_samples, n_nodes, width, .. } = sizes;
        if run.input("Out@GRAD")?.len() != n_samples * n_nodes * sizes.columns() {
            return Err(run.shapes("the result has another shape", "Out@GRAD", "NodesVector"));
        }
        for_float!(nodes.dtype(), run.input_name("NodesVector"), T => {
            let (data, filter) = (nodes.data::<T>()?, run.data::<T>("Filter")?);
            let d_out = run.data::<T>("Out@GRAD")?;
            let d_nodes = d_nodes.resize_zeroed::<T>(nodes.shape());
            let d_filter = d_filter.resize_zeroed::<T>(run.input("Filter")?.shape());
            let filter = Matrix::new(filter, 3 * width, sizes.columns());
            for sample in 0..n_samples {
                let d_out = &d_out[sample * n_nodes * sizes.columns()..][..n_nodes * sizes.columns()];
                let d_out = Matrix::new(d_out, n_nodes, sizes.columns());
                let mut patch = vec![0.0; n_nodes * 3 * width];
                let mut d_patch = vec![0.0; n_nodes * 3 * width];
                gemm(1.0, d_out, filter.t(), 0.0, &mut d_patch);
                for NodeShare { to, from, weights } in shares(run, sizes, sample)? {
                    for k in 0..3 * width {
                        let at = (sample * n_nodes + from) * width + k / 3;
                        patch[to * 3 * width + k] += data[at] * weights[k % 3] as T;
                        d_nodes[at] += d_patch[to * 3 * width + k] * weights[k % 3] as T;
                    }
                }
                gemm(1.0, Matrix::new(&patch, n_nodes, 3 * width).t(), d_out, 1.0, d_filter);
            }
            Ok(())
        })?;
        run.put("NodesVector@GRAD", d_nodes);
        run.put("Filter@GRAD", d_filter);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn tree(edges: &[i32]) -> Check {
        let edges = Tensor::new([1, edges.len() / 2, 2], edges).unwrap();
        check("tree_conv")
            .input("NodesVector", some(&[1, 4, 2]))
            .input("EdgeSet", edges)
            .input("Filter", some(&[2, 3, 2, 1]))
            .attr("max_depth", 2)
    }

    #[test]
    fn adds_children_by_their_place() {
        // The root gets itself (t = 1) and its children (t = 1/2, l = 0 and 1/2).
        check("tree_conv")
            .input("NodesVector", t(&[1, 3, 1], &[1.0, 10.0, 100.0]))
            .input("EdgeSet", Tensor::new([1, 2, 2], &[1i32, 2, 1, 3]).unwrap())
            .input("Filter", t(&[1, 3, 1, 1], &[1.0, 0.0, 0.0]))
            .gives("Out", t(&[1, 3, 1, 1], &[50.0, 0.0, 0.0]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        let check = tree(&[1, 2, 1, 3, 3, 4, 0, 0]);
        check.attr("max_depth", 3).output("Out").grad(&["NodesVector", "Filter"]);
    }

    #[test]
    fn refuses_edges_of_nodes_that_are_not_there() {
        let error = tree(&[1, 5]).output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { .. }), "{error}");
        let error = tree(&[1, 2]).attr("max_depth", 0).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
