//! Whether a program computes each sample of a batch alone.
//!
//! Then samples of several callers can be computed as one batch, and a large batch in parts. An op that is not
//! known here may look at the whole batch: its program is left alone.

use std::collections::{HashMap, HashSet};

use crate::block::OpDesc;
use crate::names::EMPTY;
use crate::program::Program;

/// Whether each of `fetches` has rows that depend on their own sample only, if `feeds` have a row or a sequence
/// for each sample.
pub fn computes_by_sample(program: &Program, feeds: &[String], fetches: &[String]) -> bool {
    let mut rows: HashSet<&str> = feeds.iter().map(String::as_str).collect();
    let persistable = |name: &str| program.find_var(0, name).is_some_and(|var| var.persistable);
    for op in &program.block(0).ops {
        // The executor does these by itself.
        if op.kind == "feed" || op.kind == "fetch" {
            continue;
        }
        // A parameter that changes, or another block: nobody knows. Averages stay as they are in tests.
        let changes = op.writes().any(persistable) && op.kind != "batch_norm";
        if !op.sub_blocks().is_empty() || changes {
            return false;
        }
        let of_samples = OpOnRows { op, program, rows: &rows };
        if op.reads().any(|var| rows.contains(var)) {
            if !of_samples.is_by_sample() {
                return false;
            }
            rows.extend(op.writes());
        } else if !of_samples.is_constant() {
            return false;
        }
    }
    fetches.iter().all(|name| rows.contains(name.as_str()))
}

/// The ops of block 0 that give the same numbers in every run, in order: they read parameters that nobody
/// changes, and each other.
pub fn constant_ops(program: &Program) -> Vec<usize> {
    let all = || program.blocks().iter().flat_map(|block| &block.ops);
    let mut n_written: HashMap<&str, usize> = HashMap::new();
    all().flat_map(|op| op.writes()).for_each(|var| *n_written.entry(var).or_default() += 1);
    let is_persistable =
        |var: &str| program.find_var(0, var).is_some_and(|var| var.persistable && !var.is_data);
    let (mut constant, mut made) = (Vec::new(), HashSet::new());
    for (at, op) in program.block(0).ops.iter().enumerate() {
        let is_steady =
            |var: &str| made.contains(var) || is_persistable(var) && !n_written.contains_key(var);
        let is_new = |var: &str| n_written.get(var) == Some(&1) && !is_persistable(var);
        let is_plain = OpOnRows { op, program, rows: &HashSet::new() }.is_constant()
            && op.sub_blocks().is_empty();
        if is_plain && op.reads().all(is_steady) && op.writes().all(is_new) {
            constant.push(at);
            made.extend(op.writes());
        }
    }
    constant
}

/// An op, and the variables that have a row for each sample.
struct OpOnRows<'a> {
    op: &'a OpDesc,
    program: &'a Program,
    rows: &'a HashSet<&'a str>,
}

impl OpOnRows<'_> {
    /// Whether it gives the same numbers in every run, from parameters or from nothing.
    fn is_constant(&self) -> bool {
        let traits = self.op.traits();
        let is_fixed = matches!(
            self.op.kind.as_str(),
            "assign"
                | "assign_value"
                | "cast"
                | "concat"
                | "elementwise_add"
                | "elementwise_mul"
                | "elementwise_sub"
                | "fill_constant"
                | "mul"
                | "range"
                | "reshape2"
                | "scale"
                | "slice"
                | "split"
                | "sum"
                | "transpose2"
        );
        is_fixed && !traits.has_side_effect
    }

    fn dims(&self, var: &str) -> Option<&[i64]> {
        self.program.find_var(0, var).map(|var| &*var.meta.dims)
    }

    fn rank(&self, port: &str) -> Option<i64> {
        let first = self.op.input_names(port).first()?;
        self.dims(first).map(|dims| dims.len() as i64)
    }

    fn all_rows(&self, port: &str) -> bool {
        let names = self.op.input_names(port);
        !names.is_empty() && names.iter().all(|name| self.rows.contains(name.as_str()))
    }

    fn no_rows(&self, port: &str) -> bool {
        let names = self.op.input_names(port);
        names.iter().all(|name| name == EMPTY || !self.rows.contains(name.as_str()))
    }

    /// Every input that has a row for each sample is at this port, and there is nothing else at it.
    fn only_rows(&self, port: &str) -> bool {
        self.all_rows(port)
            && self.op.inputs.iter().all(|(other, _)| other == port || self.no_rows(other))
    }

    /// Whether an attribute names another dimension than that of the samples.
    fn axis_is_inner(&self, port: &str, attr: &str, usual: i64) -> bool {
        let (Some(rank), Ok(axis)) = (self.rank(port), self.op.attrs.int(attr, usual)) else {
            return false;
        };
        (if axis < 0 { axis + rank } else { axis }) > 0
    }

    /// The same for a list of dimensions, which is not empty.
    fn axes_are_inner(&self, port: &str, attr: &str) -> bool {
        let (Some(rank), Ok(axes)) = (self.rank(port), self.op.attrs.ints(attr)) else {
            return false;
        };
        let is_inner = |&axis: &i64| (if axis < 0 { axis + rank } else { axis }) > 0;
        !axes.is_empty() && axes.iter().all(is_inner)
    }

    fn is_true(&self, attr: &str) -> bool {
        self.op.attrs.bool(attr, false).unwrap_or(false)
    }

    /// It reads rows, and each row of its result is of one of them.
    fn is_by_sample(&self) -> bool {
        match self.op.kind.as_str() {
            "lookup_table" | "lookup_table_v2" => self.only_rows("Ids"),
            "abs" | "assign" | "brelu" | "cast" | "ceil" | "clip" | "cos" | "elu" | "erf"
            | "exp" | "floor" | "gelu" | "hard_shrink" | "hard_sigmoid" | "hard_swish"
            | "leaky_relu" | "log" | "logical_not" | "logsigmoid" | "one_hot" | "one_hot_v2"
            | "pow" | "reciprocal" | "relu" | "relu6" | "round" | "rsqrt" | "scale"
            | "sequence_conv" | "sequence_pool" | "sequence_reverse" | "sequence_softmax"
            | "sigmoid" | "sign" | "sin" | "softplus" | "softshrink" | "softsign" | "sqrt"
            | "square" | "stanh" | "sum" | "swish" | "tanh" | "tanh_shrink"
            | "thresholded_relu" => self.only_rows("X"),
            "sequence_expand" | "sequence_expand_as" | "cos_sim" => {
                self.all_rows("X") && self.all_rows("Y")
            }
            "sequence_concat" => self.only_rows("X"),
            "dropout" => self.is_true("is_test") && self.only_rows("X"),
            "batch_norm" => {
                (self.is_true("is_test") || self.is_true("use_global_stats")) && self.only_rows("X")
            }
            "data_norm" => self.only_rows("X"),
            "layer_norm" => self.axis_is_inner("X", "begin_norm_axis", 1) && self.only_rows("X"),
            "conv2d" | "depthwise_conv2d" => self.only_rows("Input"),
            "pool2d" => self.only_rows("X"),
            "prelu" => {
                self.only_rows("X")
                    && self.op.attrs.str("mode", "all").is_ok_and(|mode| mode != "element")
            }
            "mul" => self.only_rows("X"),
            "matmul" => self.is_product_by_sample(),
            "softmax" => self.axis_is_inner("X", "axis", -1) && self.only_rows("X"),
            "top_k" => self.rank("X").is_some_and(|rank| rank > 1) && self.only_rows("X"),
            "arg_max" | "arg_min" | "concat" | "split" | "stack" | "norm" => {
                self.axis_is_inner("X", "axis", 0) && self.only_rows("X")
            }
            "reduce_max" | "reduce_mean" | "reduce_min" | "reduce_prod" | "reduce_sum" => {
                !self.is_true("reduce_all")
                    && self.axes_are_inner("X", "dim")
                    && self.only_rows("X")
            }
            "slice" => self.axes_are_inner("Input", "axes") && self.only_rows("Input"),
            "squeeze2" | "unsqueeze2" => self.axes_are_inner("X", "axes") && self.only_rows("X"),
            "flatten2" => {
                self.op.attrs.int("axis", 1).is_ok_and(|axis| axis == 1) && self.only_rows("X")
            }
            "transpose2" => {
                self.op.attrs.ints("axis").is_ok_and(|axes| axes.first() == Some(&0))
                    && self.only_rows("X")
            }
            "reshape2" => self.keeps_rows() && self.only_rows("X"),
            "elementwise_add" | "elementwise_div" | "elementwise_max" | "elementwise_min"
            | "elementwise_mul" | "elementwise_pow" | "elementwise_sub" => {
                self.is_binary_by_sample()
            }
            _ => false,
        }
    }

    /// X and Y with a row for each sample, or Y the same for all of them.
    fn is_binary_by_sample(&self) -> bool {
        let (Some(x), Some(y)) = (self.rank("X"), self.rank("Y")) else { return false };
        let axis = self.op.attrs.int("axis", -1).unwrap_or(-1);
        let axis = if axis == -1 { x - y } else { axis };
        let first = self.op.input_names("Y").first().and_then(|name| self.dims(name)?.first());
        self.all_rows("X")
            && match self.all_rows("Y") {
                true => axis == 0,
                false => axis > 0 || first.is_some_and(|&size| size == 1),
            }
    }

    /// Each sample a row of X, or a matrix of X and perhaps of Y.
    fn is_product_by_sample(&self) -> bool {
        let (Some(x), Some(y)) = (self.rank("X"), self.rank("Y")) else { return false };
        match self.all_rows("Y") {
            true => self.all_rows("X") && x == y && x > 2,
            false => {
                self.all_rows("X") && y == 2 && (x > 2 || x == 2 && !self.is_true("transpose_X"))
            }
        }
    }

    /// A reshape that leaves the dimension of the samples alone.
    fn keeps_rows(&self) -> bool {
        let Ok(shape) = self.op.attrs.ints("shape") else { return false };
        let Some(dims) = self.op.input_names("X").first().and_then(|name| self.dims(name)) else {
            return false;
        };
        let size = |dims: &[i64]| {
            let is_known = dims.iter().all(|&dim| dim > 0);
            is_known.then(|| dims.iter().product::<i64>())
        };
        match shape.split_first() {
            Some((0, _)) => true,
            Some((-1, rest)) => size(rest).is_some() && size(rest) == size(&dims[1..]),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::{self, Data, Elementwise, Embedding, Fc, Reduce};
    use crate::{Builder, Net, Result, Var};
    use tensor::DType;

    /// Builds on ids and numbers; what it returns is fetched.
    fn holds(build: impl FnOnce(&mut Builder<'_>, Var, Var) -> Result<Var>) -> bool {
        let mut net = Net::with_seed(1);
        let mut b = net.builder();
        let ids = Data { dtype: DType::I64, lod_level: 1, ..Data::default() };
        let ids = layers::data(&mut b, "ids", &[1], ids).unwrap();
        let x = layers::data(&mut b, "x", &[4], Data::default()).unwrap();
        let out = build(&mut b, ids, x).unwrap().name().to_string();
        let feeds = ["ids".to_string(), "x".to_string()];
        computes_by_sample(&net.main, &feeds, &[out])
    }

    #[test]
    fn a_net_for_clicks_computes_by_sample() {
        assert!(holds(|b, ids, x| {
            let rows = layers::embedding(b, &ids, [10, 4], Embedding::default())?;
            let both = layers::concat(b, &[rows, x], 1, None)?;
            let hidden = layers::fc(b, &[both], 8, Fc { act: Some("relu"), ..Fc::default() })?;
            layers::fc(b, &[hidden], 2, Fc { act: Some("softmax"), ..Fc::default() })
        }));
    }

    #[test]
    fn what_looks_at_the_batch_does_not() {
        assert!(!holds(|b, _, x| layers::reduce_mean(b, &x, Reduce::default())));
        let of_samples = Reduce { dim: Some(&[1]), ..Reduce::default() };
        assert!(holds(|b, _, x| layers::reduce_mean(b, &x, of_samples)));
        assert!(!holds(|b, _, x| layers::concat(b, &[x.clone(), x], 0, None)));
        assert!(!holds(|b, _, x| {
            let of_batch = Reduce { dim: Some(&[0]), keep_dim: true, ..Reduce::default() };
            let mean = layers::reduce_mean(b, &x, of_batch)?;
            layers::elementwise_sub(b, &x, &mean, Elementwise::default())
        }));
    }
}
