//! Rows by number: `gather`, `gather_nd`, `scatter`, `one_hot`.

use tensor::DType;

use super::append::{append, append_stopped};
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// The rows of `input` that `index` names; Fluid's default is to `overwrite` (which nothing reads).
pub fn gather(b: &mut Builder<'_>, input: &Var, index: &Var, overwrite: bool) -> Result<Var> {
    let dtype = b.meta(input)?.dtype;
    let op = OpDesc::new("gather").input("X", input).input("Index", index);
    append(b, ("gather", None), dtype, op.attr("overwrite", overwrite))
}

/// What lies at the places that the last dimension of `index` names.
pub fn gather_nd(b: &mut Builder<'_>, input: &Var, index: &Var, name: Option<&str>) -> Result<Var> {
    let dtype = b.meta(input)?.dtype;
    let op = OpDesc::new("gather_nd").input("X", input).input("Index", index);
    append(b, ("gather_nd", name), dtype, op)
}

/// Rows put in place of those of another variable.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Updates<'a> {
    pub index: &'a Var,
    pub updates: &'a Var,
    /// Fluid's default is true; false adds up the rows of a repeated index.
    pub overwrite: bool,
}

/// `input` with the rows at `index` replaced.
pub fn scatter(
    b: &mut Builder<'_>,
    input: &Var,
    rows: Updates<'_>,
    name: Option<&str>,
) -> Result<Var> {
    let dtype = b.meta(input)?.dtype;
    let op = OpDesc::new("scatter")
        .input("X", input)
        .input("Ids", rows.index)
        .input("Updates", rows.updates)
        .attr("overwrite", rows.overwrite);
    append(b, ("scatter", name), dtype, op)
}

/// How many places a one-hot row has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Depth {
    /// As many.
    Is(i32),
    /// As many as a variable holds when it runs.
    In(Var),
}

/// Rows with a 1 at the place the input names; the input ends in a dimension of 1
/// (`fluid.layers.one_hot`).
pub fn one_hot(
    b: &mut Builder<'_>,
    input: &Var,
    depth: &Depth,
    allow_out_of_range: bool,
) -> Result<Var> {
    let op = one_hot_op("one_hot", input, depth, allow_out_of_range);
    append_stopped(b, ("one_hot", None), DType::F32, op)
}

/// The same for an input of any shape (`fluid.one_hot`).
pub fn one_hot_v2(
    b: &mut Builder<'_>,
    input: &Var,
    depth: &Depth,
    allow_out_of_range: bool,
) -> Result<Var> {
    let op = one_hot_op("one_hot_v2", input, depth, allow_out_of_range);
    append(b, ("one_hot_v2", None), DType::F32, op)
}

fn one_hot_op(kind: &str, input: &Var, depth: &Depth, allow_out_of_range: bool) -> OpDesc {
    let op = OpDesc::new(kind).input("X", input).attr("allow_out_of_range", allow_out_of_range);
    match depth {
        Depth::Is(depth) => op.attr("depth", *depth),
        Depth::In(var) => op.input("depth_tensor", var),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_and_shapes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[6], Data::default()).unwrap();
        let ints = || Data { dtype: DType::I64, ..Data::default() };
        let column = layers::data(&mut b, "c", &[1], ints()).unwrap();
        let list = layers::data(&mut b, "l", &[-1], ints()).unwrap();
        let is = |b: &Builder<'_>, var: Var, name: &str, dims: &[i64]| {
            assert_eq!((var.name(), &*b.meta(&var).unwrap().dims), (name, dims));
        };
        let y = gather(&mut b, &x, &list, true).unwrap();
        is(&b, y.clone(), "gather_0.tmp_0", &[-1, 6]);
        let rows = Updates { index: &list, updates: &y, overwrite: true };
        let y = scatter(&mut b, &x, rows, None).unwrap();
        is(&b, y, "scatter_0.tmp_0", &[-1, 6]);
        let y = gather_nd(&mut b, &x, &column, None).unwrap();
        is(&b, y, "gather_nd_0.tmp_0", &[-1, 6]);
        let y = one_hot(&mut b, &column, &Depth::Is(5), false).unwrap();
        assert!(b.desc(&y).unwrap().stop_gradient);
        is(&b, y, "one_hot_0.tmp_0", &[-1, 5]);
        let y = one_hot_v2(&mut b, &list, &Depth::Is(5), false).unwrap();
        is(&b, y, "one_hot_v2_0.tmp_0", &[-1, 5]);
    }
}
