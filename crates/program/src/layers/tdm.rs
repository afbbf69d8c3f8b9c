//! `tdm_child`, `tdm_sampler`: reading and sampling a tree of items (`fluid.contrib.layers`).

use tensor::DType;

use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::param::{Initializer, ParamAttr};

/// Options of [`tdm_child`]; defaults as in `fluid.contrib.layers.tdm_child`.
#[derive(Clone, Debug)]
pub struct TdmChild {
    /// How the tree is named and filled.
    pub param_attr: ParamAttr,
    /// Element type of the results.
    pub dtype: DType,
}

impl Default for TdmChild {
    fn default() -> Self {
        Self { param_attr: ParamAttr::default(), dtype: DType::I32 }
    }
}

/// The children of the nodes in `x` and a mask of those that are leaves, in a tree of `node_nums`
/// nodes of `child_nums` children.
pub fn tdm_child(
    b: &mut Builder<'_>,
    x: &Var,
    node_nums: i64,
    child_nums: i32,
    options: TdmChild,
) -> Result<(Var, Var)> {
    let layer = b.layer_name("tdm_child", None);
    let dims = [node_nums, 3 + i64::from(child_nums)];
    let tree = tree_parameter(b, &layer, &options.param_attr, dims, DType::I32)?;
    if let Some(tree) = b.main.block_mut(0).var_mut(tree.name()) {
        tree.stop_gradient = true;
    }
    let [child, mask] = [(); 2].map(|()| b.temp(&layer, options.dtype));
    b.op(OpDesc::new("tdm_child")
        .input("X", x)
        .input("TreeInfo", &tree)
        .output("Child", &child)
        .output("LeafMask", &mask)
        .attr("dtype", options.dtype.code())
        .attr("child_nums", child_nums))?;
    Ok((child, mask))
}

/// A table of integers that starts as zeros; users load it.
fn tree_parameter(
    b: &mut Builder<'_>,
    layer: &str,
    attr: &ParamAttr,
    dims: [i64; 2],
    dtype: DType,
) -> Result<Var> {
    let default_init = Initializer::ZERO;
    b.parameter(&NewParam { layer, suffix: "w", attr, dims: &dims, dtype, default_init })
}

/// The tree that [`tdm_sampler`] samples.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// How many wrong nodes are drawn in each layer.
    pub neg_samples_num_list: &'a [i32],
    /// How many nodes each layer has.
    pub layer_node_num_list: &'a [i32],
    /// How many leaves there are.
    pub leaf_node_num: i64,
}

/// Options of [`tdm_sampler`]; defaults as in `fluid.contrib.layers.tdm_sampler`.
#[derive(Clone, Debug)]
pub struct TdmSampler {
    /// How the paths from leaves to the root are named and filled.
    pub tree_travel_attr: ParamAttr,
    /// How the nodes of the layers are named and filled.
    pub tree_layer_attr: ParamAttr,
    /// Results also hold the right node of each layer.
    pub output_positive: bool,
    /// Where the random stream starts; 0 takes that of the program.
    pub seed: i32,
    /// Element type of the tree.
    pub tree_dtype: DType,
    /// Element type of the results.
    pub dtype: DType,
}

impl Default for TdmSampler {
    fn default() -> Self {
        Self {
            tree_travel_attr: ParamAttr::default(),
            tree_layer_attr: ParamAttr::default(),
            output_positive: true,
            seed: 0,
            tree_dtype: DType::I32,
            dtype: DType::I32,
        }
    }
}

/// Nodes, their labels and masks, all layers of the tree side by side (Fluid's
/// `output_list=False`).
pub fn tdm_sampler(
    b: &mut Builder<'_>,
    x: &Var,
    tree: Layers<'_>,
    options: &TdmSampler,
) -> Result<[Var; 3]> {
    let layer = b.layer_name("tdm_sampler", None);
    let (others, nodes) = (tree.neg_samples_num_list, tree.layer_node_num_list);
    if others.len() != nodes.len() {
        return Err(Error::BadArgument {
            layer: "tdm_sampler",
            argument: "neg_samples_num_list",
            rule: "must be as long as layer_node_num_list",
            actual: format!("{others:?}"),
        });
    }
    let mut offsets = vec![0];
    for &n in nodes {
        offsets.push(offsets[offsets.len() - 1] + n);
    }
    let n_nodes = i64::from(offsets[nodes.len()]);
    let dtype = options.tree_dtype;
    let dims = [tree.leaf_node_num, nodes.len() as i64];
    let travel = tree_parameter(b, &layer, &options.tree_travel_attr, dims, dtype)?;
    let layers = tree_parameter(b, &layer, &options.tree_layer_attr, [n_nodes, 1], dtype)?;
    let outputs = [(); 3].map(|()| b.temp_stopped(&layer, options.dtype));
    let mut op = OpDesc::new("tdm_sampler").input("X", x).input("Travel", &travel);
    op = op.input("Layer", &layers);
    for (port, out) in ["Out", "Labels", "Mask"].into_iter().zip(&outputs) {
        op = op.output(port, out);
    }
    b.op(op
        .attr("neg_samples_num_list", others.to_vec())
        .attr("output_positive", options.output_positive)
        .attr("layer_offset_lod", offsets)
        .attr("seed", options.seed)
        .attr("dtype", options.dtype.code()))?;
    Ok(outputs)
}

/// What [`tdm_sampler`] gives, as lists with one variable [-1, samples, 1] per layer (Fluid's `output_list=True`).
pub fn tdm_sampler_list(
    b: &mut Builder<'_>,
    x: &Var,
    tree: Layers<'_>,
    options: &TdmSampler,
) -> Result<[Vec<Var>; 3]> {
    let outputs = tdm_sampler(b, x, tree, options)?;
    let mut lists = [const { Vec::new() }; 3];
    let mut start = 0;
    for n_others in tree.neg_samples_num_list {
        let end = start + n_others + i32::from(options.output_positive);
        let mut parts = Vec::new();
        for out in &outputs {
            parts.push(slice_columns(b, out, start, end)?);
        }
        for (list, part) in lists.iter_mut().zip(&parts) {
            list.push(reshape(b, part, vec![-1, end - start, 1])?);
        }
        start = end;
    }
    Ok(lists)
}

fn slice_columns(b: &mut Builder<'_>, x: &Var, start: i32, end: i32) -> Result<Var> {
    let layer = b.layer_name("slice", None);
    let out = b.temp(&layer, b.meta(x)?.dtype);
    b.op(OpDesc::new("slice")
        .input("Input", x)
        .output("Out", &out)
        .attr("axes", vec![1])
        .attr("starts", vec![start])
        .attr("ends", vec![end])
        .attr("infer_flags", vec![1]))?;
    Ok(out)
}

fn reshape(b: &mut Builder<'_>, x: &Var, shape: Vec<i32>) -> Result<Var> {
    let layer = b.layer_name("reshape2", None);
    let dtype = b.meta(x)?.dtype;
    let (out, before) = (b.temp_stopped(&layer, dtype), b.temp(&layer, dtype));
    let op = OpDesc::new("reshape2").input("X", x).attr("shape", shape);
    b.op(op.output("Out", &out).output("XShape", &before))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    /// Names and shapes as Fluid 1.8.5 printed them for the same calls.
    #[test]
    fn names_and_shapes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let ids = Data { dtype: DType::I64, ..Data::default() };
        let x = layers::data(&mut b, "x", &[1], ids).unwrap();
        let (child, mask) = tdm_child(&mut b, &x, 7, 2, TdmChild::default()).unwrap();
        assert_eq!((child.name(), mask.name()), ("tdm_child_0.tmp_0", "tdm_child_0.tmp_1"));
        assert_eq!(b.meta(&child).unwrap().dims, [-1, 1, 2]);
        let tree = Layers {
            neg_samples_num_list: &[0, 1],
            layer_node_num_list: &[2, 4],
            leaf_node_num: 4,
        };
        let lists = tdm_sampler_list(&mut b, &x, tree, &TdmSampler::default()).unwrap();
        let names: Vec<_> = lists.iter().map(|list| list.iter().map(Var::name)).collect();
        let names: Vec<Vec<_>> = names.into_iter().map(Iterator::collect).collect();
        assert_eq!(names[0], ["reshape2_0.tmp_0", "reshape2_3.tmp_0"]);
        assert_eq!(names[2], ["reshape2_2.tmp_0", "reshape2_5.tmp_0"]);
        assert_eq!(b.meta(&lists[1][1]).unwrap().dims, [-1, 2, 1]);
        let params: Vec<_> = b.main.parameters().map(|p| (&*p.name, &*p.meta.dims)).collect();
        let expected = [
            ("tdm_child_0.w_0", &[7i64, 5] as &[i64]),
            ("tdm_sampler_0.w_0", &[4, 2]),
            ("tdm_sampler_0.w_1", &[6, 1]),
        ];
        assert_eq!(params, expected);
    }
}
