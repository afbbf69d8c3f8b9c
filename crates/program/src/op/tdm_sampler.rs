//! `tdm_sampler`: for each leaf of X and each layer of the tree, the node on the way to the leaf and
//! nodes of the same layer that are not on it.
//!
//! Row x of Travel is the way to leaf x, one node per layer; the nodes of layer l are rows
//! `layer_offset_lod`\[l\] … \[l + 1\] of Layer. Out holds per layer the node of the way (if
//! `output_positive`) and `neg_samples_num_list`\[l\] different others; Labels is 1 for the former.
//! Where the way ends early (node 0) all are 0, and so is Mask, which is 1 elsewhere. The draws follow
//! from `seed`, but are not Fluid's.

use tensor::rng::Rng;
use tensor::{DType, Number, Shape};

use super::{Infer, Op, Run, for_int, no_gradient, sizes, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};

pub(super) struct TdmSampler;

/// How many nodes of each layer go out.
struct LayerCounts {
    /// Others per layer.
    n_others: Vec<usize>,
    /// Rows of Layer per layer.
    offsets: Vec<usize>,
    output_positive: bool,
}

impl LayerCounts {
    fn of(attrs: &Attrs) -> Result<Self> {
        let n_others = counts(attrs, "neg_samples_num_list")?;
        let offsets = counts(attrs, "layer_offset_lod")?;
        let falls = offsets.windows(2).any(|pair| pair[1] < pair[0]);
        if falls || offsets.len() != n_others.len() + 1 {
            let expected = "one offset more than layers, never falling";
            return Err(bad("layer_offset_lod", expected, &offsets));
        }
        let sizes = offsets.windows(2).map(|pair| pair[1] - pair[0]);
        if n_others.iter().zip(sizes).any(|(&n, size)| n >= size.max(1)) {
            return Err(bad("neg_samples_num_list", "less than each layer has nodes", &n_others));
        }
        let output_positive = attrs.bool("output_positive", true)?;
        Ok(Self { n_others, offsets, output_positive })
    }

    fn n_layers(&self) -> usize {
        self.n_others.len()
    }

    /// Numbers per leaf.
    fn width(&self) -> usize {
        self.n_others.iter().map(|n| n + usize::from(self.output_positive)).sum()
    }
}

fn counts(attrs: &Attrs, attr: &str) -> Result<Vec<usize>> {
    let values = attrs.ints(attr)?;
    let counts = values.iter().map(|&value| usize::try_from(value));
    let counts: std::result::Result<_, _> = counts.collect();
    counts.map_err(|_| bad(attr, "not negative", &values))
}

fn bad(attr: &str, expected: &str, actual: &impl std::fmt::Debug) -> Error {
    let (attr, expected) = (attr.to_string(), expected.to_string());
    Error::BadAttr { attr, expected, actual: format!("{actual:?}") }
}

impl Op for TdmSampler {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let plan = LayerCounts::of(infer.attrs())?;
        let x = infer.input("X")?;
        let dtype = DType::from_code(infer.attrs().int("dtype", 2)?)?;
        let n_rows = x.dims.first().copied().unwrap_or(-1);
        let out = x.with_dims(vec![n_rows, plan.width() as i64]).with_dtype(dtype);
        for port in ["Labels", "Mask", "Out"] {
            infer.set_output(port, out.clone())?;
        }
        Ok(())
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let plan = LayerCounts::of(run.attrs())?;
        let dtype = DType::from_code(run.attrs().int("dtype", 2)?)?;
        let seed = match run.attrs().int("seed", 0)? {
            0 => run.host().fresh_seed(),
            seed => seed as u32,
        };
        let mut out = ["Out", "Labels", "Mask"].map(|port| run.take(port));
        let (x, travel) = (run.input("X")?, run.input("Travel")?);
        let n_rows = x.len();
        let shape = Shape::from_dims(&[n_rows as i64, plan.width() as i64])?;
        let leaves = sizes::integers(x, run.input_name("X"))?;
        for_int!(travel.dtype(), run.input_name("Travel"), I => {
            let tree = Tree::<I>::of(run, &plan)?;
            for_int!(dtype, "Out", O => {
                let [out, labels, mask] = out.each_mut().map(|out| out.resize_zeroed::<O>(shape));
                let mut sampler = Sampler { plan: &plan, rng: Rng::new(seed), at: 0, drawn: Vec::new() };
                for (position, &leaf) in leaves.iter().enumerate() {
                    let way = tree.way(leaf, plan.n_layers()).ok_or_else(|| Error::BadValue {
                        rule: "a leaf must have a row in Travel",
                        var: run.input_name("X").to_string(),
                        position,
                        value: leaf as f64,
                    })?;
                    sampler.write(&tree, way, [&mut *out, &mut *labels, &mut *mask]);
                }
                Ok(())
            })
        })?;
        for (port, out) in ["Out", "Labels", "Mask"].into_iter().zip(out) {
            run.put(port, out);
        }
        Ok(())
    }

    no_gradient!();
}

/// The ways and the nodes of all layers.
struct Tree<'a, I> {
    travel: &'a [I],
    nodes: &'a [I],
}

impl<'a, I: Number + Into<i64>> Tree<'a, I> {
    fn of(run: &'a Run<'_>, plan: &LayerCounts) -> Result<Self> {
        let (travel, layer) = (run.input("Travel")?, run.input("Layer")?);
        if travel.shape().rank() != 2 || travel.shape().last() != plan.n_layers() {
            return Err(run.shape("a way must be one node per layer", "Travel"));
        }
        if plan.offsets.last().is_some_and(|&end| end > layer.len()) {
            return Err(run.shape("layer_offset_lod goes beyond the nodes", "Layer"));
        }
        Ok(Self { travel: travel.data()?, nodes: run.data("Layer")? })
    }

    fn way(&self, leaf: i64, n_layers: usize) -> Option<&'a [I]> {
        let start = usize::try_from(leaf).ok()?.checked_mul(n_layers)?;
        self.travel.get(start..start.checked_add(n_layers)?)
    }
}

/// Writes leaf after leaf.
struct Sampler<'a> {
    plan: &'a LayerCounts,
    rng: Rng,
    /// The next place to write.
    at: usize,
    /// Nodes of the layer at hand that were drawn.
    drawn: Vec<usize>,
}

impl Sampler<'_> {
    /// The nodes for one way; `outputs` are Out, Labels and Mask, zero so far.
    fn write<I, O>(&mut self, tree: &Tree<'_, I>, way: &[I], [out, labels, mask]: [&mut [O]; 3])
    where
        I: Number + Into<i64>,
        O: Number,
    {
        for (l, &node) in way.iter().enumerate() {
            let n_positive = usize::from(self.plan.output_positive);
            let n = self.plan.n_others[l] + n_positive;
            let (start, end) = (self.at, self.at + n);
            self.at = end;
            if node.into() == 0 {
                continue;
            }
            mask[start..end].fill(O::one());
            if n_positive == 1 {
                out[start] = O::of(node.f64());
                labels[start] = O::one();
            }
            let nodes = &tree.nodes[self.plan.offsets[l]..self.plan.offsets[l + 1]];
            let others = &mut out[start + n_positive..end];
            self.draw_others(nodes, node, others);
        }
    }

    /// Different nodes other than `node`. Draws again what does not do, and when that takes long
    /// (few are left) takes the rest in order; a layer that repeats nodes may leave zeros.
    fn draw_others<I: Number, O: Number>(&mut self, nodes: &[I], node: I, out: &mut [O]) {
        self.drawn.clear();
        let n_draws_max = 16 * out.len();
        let draws = (0..n_draws_max).map(|_| self.rng.between(0, nodes.len() as i64 - 1) as usize);
        for index in draws.chain(0..nodes.len()) {
            if self.drawn.len() == out.len() {
                return;
            }
            if nodes[index] != node && !self.drawn.contains(&index) {
                out[self.drawn.len()] = O::of(nodes[index].f64());
                self.drawn.push(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{Check, check, ids};
    use tensor::Tensor;

    /// Two layers: nodes 1, 2 and nodes 3 to 6; the way to leaf 2 ends early.
    fn sample(leaves: [i64; 4], others: Vec<i32>) -> Check {
        check("tdm_sampler")
            .input("X", ids(&[4, 1], &leaves))
            .input("Travel", Tensor::new([4, 2], &[1, 3, 1, 4, 2, 0, 2, 6]).unwrap())
            .input("Layer", Tensor::new([6, 1], &[1, 2, 3, 4, 5, 6]).unwrap())
            .attr("neg_samples_num_list", others)
            .attr("layer_offset_lod", vec![0, 2, 6])
            .attr("seed", 1)
    }

    fn int(dims: [usize; 2], numbers: &[i32]) -> Tensor {
        Tensor::new(dims, numbers).unwrap()
    }

    #[test]
    fn writes_the_way_when_no_others_are_wanted() {
        let way = int([4, 2], &[1, 3, 1, 4, 2, 0, 2, 6]);
        let inside = int([4, 2], &[1, 1, 1, 1, 1, 0, 1, 1]);
        sample([0, 1, 2, 3], vec![0, 0])
            .gives("Out", way)
            .gives("Labels", inside.clone())
            .gives("Mask", inside);
    }

    #[test]
    fn draws_different_others_of_the_same_layer() {
        let labels = [1, 0, 1, 0, 0, 0].repeat(4);
        let checked = sample([0, 1, 0, 3], vec![1, 3]).gives("Labels", int([4, 6], &labels));
        let value = checked.output("Out").run("Out");
        let rows = value.tensor().unwrap().data::<i32>().unwrap().chunks_exact(6);
        for (row, way) in rows.zip([[1, 3], [1, 4], [1, 3], [2, 6]]) {
            assert_eq!([row[0], row[2]], way);
            assert_eq!(row[1], 3 - way[0]);
            let mut layer = row[2..].to_vec();
            layer.sort_unstable();
            assert_eq!(layer, [3, 4, 5, 6]);
        }
    }

    #[test]
    fn leaves_out_the_way_when_told() {
        let only = sample([0, 1, 0, 3], vec![1, 0]).attr("output_positive", false);
        only.gives("Out", int([4, 1], &[2, 2, 2, 1])).gives("Labels", int([4, 1], &[0; 4]));
    }

    #[test]
    fn refuses_leaves_and_layers_that_are_not_there() {
        let error = sample([0, 4, 0, 0], vec![0, 0]).output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { position: 1, .. }), "{error}");
        let error = sample([0; 4], vec![2, 0]).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = sample([0; 4], vec![0, 0]).attr("layer_offset_lod", vec![0, 2, 7]);
        let error = error.output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
