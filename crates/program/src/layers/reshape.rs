//! Other shapes and other orders: `reshape`, `transpose`, `squeeze`, `slice`, `expand` and the like.

use super::activate;
use super::append::append;
use super::sizes::Sizes;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};

/// Options of [`reshape`]; defaults as in `fluid.layers.reshape`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Reshape<'a> {
    /// A variable that holds the shape when it runs; `shape` is then what is known before.
    pub actual_shape: Option<&'a Var>,
    pub act: Option<&'a str>,
    pub inplace: bool,
    pub name: Option<&'a str>,
}

/// The same numbers in another shape: 0 copies a size, one -1 stands for what is left over.
pub fn reshape(
    b: &mut Builder<'_>,
    x: &Var,
    shape: impl Into<Sizes>,
    options: Reshape<'_>,
) -> Result<Var> {
    let shape = shape.into();
    check_shape(&shape, b.meta(x)?.dims.len())?;
    let (layer, dtype) = (b.layer_name("reshape2", options.name), b.meta(x)?.dtype);
    let op = OpDesc::new("reshape2").input("X", x);
    let mut op = shape.on(b, &layer, op, ("Shape", "ShapeTensor"))?;
    let out = if options.inplace { x.clone() } else { b.temp(&layer, dtype) };
    let x_shape = b.temp(&layer, dtype);
    if let (Some(actual), Sizes::List(_)) = (options.actual_shape, &shape) {
        op = op.input("Shape", actual);
    }
    b.op(op.output("Out", &out).output("XShape", &x_shape).attr("shape", shape.known_ints()))?;
    activate(b, &layer, out, options.act)
}

/// What no input could be reshaped to.
fn check_shape(shape: &Sizes, rank: usize) -> Result<()> {
    let (known, are_known) = (shape.known(), shape.are_known(0));
    let said = known.iter().zip(are_known).filter(|(_, is_known)| *is_known);
    let said: Vec<i64> = said.map(|(&size, _)| size).collect();
    let rule = if said.iter().filter(|&&size| size == -1).count() > 1 {
        "Only one dimension value of 'shape' in reshape can be -1"
    } else if said.iter().any(|&size| size < -1) {
        "Each dimension value of 'shape' in reshape must not be negative except one unknown \
         dimension"
    } else if known.iter().skip(rank).any(|&size| size == 0) {
        "The index of 0 in `shape` must be less than the input tensor X's dimensions"
    } else {
        return Ok(());
    };
    Err(Error::BadSizes { layer: "reshape", argument: "shape", rule, actual: known })
}

/// Appends an op that remembers X's shape beside its result.
fn with_x_shape(b: &mut Builder<'_>, layer: &str, x: &Var, op: OpDesc) -> Result<Var> {
    let dtype = b.meta(x)?.dtype;
    let (out, x_shape) = (b.temp(layer, dtype), b.temp(layer, dtype));
    b.op(op.input("X", x).output("Out", &out).output("XShape", &x_shape))?;
    Ok(out)
}

/// The dimensions in another order.
pub fn transpose(b: &mut Builder<'_>, x: &Var, perm: &[i32], name: Option<&str>) -> Result<Var> {
    let rank = b.meta(x)?.dims.len();
    if perm.len() != rank {
        return Err(Error::BadArgument {
            layer: "transpose",
            argument: "perm",
            rule: "its length should be equal to dimensions of Input(x)",
            actual: format!("{perm:?} for {rank} dimensions"),
        });
    }
    let layer = b.layer_name("transpose", name);
    with_x_shape(b, &layer, x, OpDesc::new("transpose2").attr("axis", perm.to_vec()))
}

/// Without the dimensions of 1 at `axes`, all of them if `axes` is empty.
pub fn squeeze(b: &mut Builder<'_>, input: &Var, axes: &[i32], name: Option<&str>) -> Result<Var> {
    let layer = b.layer_name("squeeze", name);
    with_x_shape(b, &layer, input, OpDesc::new("squeeze2").attr("axes", axes.to_vec()))
}

/// With dimensions of 1 put in at `axes`.
pub fn unsqueeze(
    b: &mut Builder<'_>,
    input: &Var,
    axes: impl Into<Sizes>,
    name: Option<&str>,
) -> Result<Var> {
    let layer = b.layer_name("unsqueeze2", name);
    let axes = axes.into();
    let op = OpDesc::new("unsqueeze2").attr("axes", axes.known_ints());
    let op = axes.on(b, &layer, op, ("AxesTensor", "AxesTensorList"))?;
    with_x_shape(b, &layer, input, op)
}

/// A matrix whose rows are the first `axis` dimensions; Fluid's default axis is 1.
pub fn flatten(b: &mut Builder<'_>, x: &Var, axis: i32, name: Option<&str>) -> Result<Var> {
    let layer = b.layer_name("flatten", name);
    with_x_shape(b, &layer, x, OpDesc::new("flatten2").attr("axis", axis))
}

/// The input repeated along each dimension.
pub fn expand(
    b: &mut Builder<'_>,
    x: &Var,
    times: impl Into<Sizes>,
    name: Option<&str>,
) -> Result<Var> {
    let (dtype, times) = (b.meta(x)?.dtype, times.into());
    let layer = b.layer_name("expand", name);
    let op = OpDesc::new("expand").input("X", x).attr("expand_times", times.known_ints());
    let op = times.on(b, &layer, op, ("ExpandTimes", "expand_times_tensor"))?;
    append(b, ("expand", Some(&layer)), dtype, op)
}

/// The input repeated until it has the target's shape.
pub fn expand_as(b: &mut Builder<'_>, x: &Var, target: &Var, name: Option<&str>) -> Result<Var> {
    let dtype = b.meta(x)?.dtype;
    let op = OpDesc::new("expand_as").input("X", x).input("target_tensor", target);
    append(b, ("expand_as", name), dtype, op)
}

/// What to cut out: axes, first places, and places behind the last.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Cut<'a> {
    pub axes: &'a [i32],
    pub starts: &'a Sizes,
    pub ends: &'a Sizes,
}

/// The op that cuts, and drops the dimensions in `decrease`.
pub(super) fn slice_op(
    b: &mut Builder<'_>,
    layer: &str,
    input: &Var,
    (cut, decrease): (Cut<'_>, &[i32]),
) -> Result<OpDesc> {
    let n = cut.axes.len();
    let known = cut.starts.are_known(n).into_iter().zip(cut.ends.are_known(n));
    let flags = known.map(|(start, end)| if start && end { 1 } else { -1 }).collect::<Vec<i32>>();
    let op = OpDesc::new("slice")
        .input("Input", input)
        .attr("axes", cut.axes.to_vec())
        .attr("starts", cut.starts.known_ints())
        .attr("ends", cut.ends.known_ints())
        .attr("infer_flags", flags)
        .attr("decrease_axis", decrease.to_vec());
    let op = cut.starts.on(b, layer, op, ("StartsTensor", "StartsTensorList"))?;
    cut.ends.on(b, layer, op, ("EndsTensor", "EndsTensorList"))
}

/// A part of the input.
pub fn slice(b: &mut Builder<'_>, input: &Var, cut: Cut<'_>) -> Result<Var> {
    let dtype = b.meta(input)?.dtype;
    let layer = b.layer_name("slice", None);
    let op = slice_op(b, &layer, input, (cut, &[]))?;
    append(b, ("slice", Some(&layer)), dtype, op)
}

/// The input with a value around it: `paddings` before and after each dimension.
pub fn pad(
    b: &mut Builder<'_>,
    x: &Var,
    paddings: &[i32],
    pad_value: f32,
    name: Option<&str>,
) -> Result<Var> {
    let dtype = b.meta(x)?.dtype;
    let op = OpDesc::new("pad").input("X", x).attr("paddings", paddings.to_vec());
    append(b, ("pad", name), dtype, op.attr("pad_value", pad_value))
}

/// The order turned around along each axis.
pub fn reverse(b: &mut Builder<'_>, x: &Var, axis: &[i32]) -> Result<Var> {
    let dtype = b.meta(x)?.dtype;
    let op = OpDesc::new("reverse").input("X", x).attr("axis", axis.to_vec());
    append(b, ("reverse", None), dtype, op)
}

/// Options of [`cumsum`]; defaults as in `fluid.layers.cumsum`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Cumsum {
    pub axis: i32,
    pub exclusive: bool,
    pub reverse: bool,
}

impl Default for Cumsum {
    fn default() -> Self {
        Self { axis: -1, exclusive: false, reverse: false }
    }
}

/// Running sums along an axis.
pub fn cumsum(b: &mut Builder<'_>, x: &Var, options: Cumsum) -> Result<Var> {
    let dtype = b.meta(x)?.dtype;
    let op = OpDesc::new("cumsum")
        .input("X", x)
        .attr("axis", options.axis)
        .attr("exclusive", options.exclusive)
        .attr("reverse", options.reverse);
    append(b, ("cumsum", None), dtype, op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data, Size};

    #[test]
    fn names_and_shapes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[6], Data::default()).unwrap();
        let is = |b: &Builder<'_>, var: Var, name: &str, dims: &[i64]| {
            assert_eq!((var.name(), &*b.meta(&var).unwrap().dims), (name, dims));
        };
        let act = Reshape { act: Some("relu"), ..Reshape::default() };
        let y = reshape(&mut b, &x, &[0, -1, 2], act).unwrap();
        is(&b, y.clone(), "reshape2_0.tmp_2", &[-1, -1, 2]);
        is(&b, Var::from("reshape2_0.tmp_1"), "reshape2_0.tmp_1", &[0, -1, 6]);
        let y = transpose(&mut b, &y, &[1, 0, 2], None).unwrap();
        is(&b, y, "transpose_0.tmp_0", &[-1, -1, 2]);
        let y = unsqueeze(&mut b, &x, &[1], None).unwrap();
        is(&b, y.clone(), "unsqueeze2_0.tmp_0", &[-1, 1, 6]);
        let y = squeeze(&mut b, &y, &[1], None).unwrap();
        is(&b, y, "squeeze_0.tmp_0", &[-1, 6]);
        let y = flatten(&mut b, &x, 1, None).unwrap();
        is(&b, y, "flatten_0.tmp_0", &[-1, 6]);
        let y = expand(&mut b, &x, &[2, 3], None).unwrap();
        is(&b, y.clone(), "expand_0.tmp_0", &[-1, 18]);
        let y = expand_as(&mut b, &x, &y, None).unwrap();
        is(&b, y, "expand_as_0.tmp_0", &[-1, 18]);
        let (starts, ends) = (Sizes::from(&[1, 0]), Sizes::from(&[3, -1]));
        let cut = Cut { axes: &[0, 1], starts: &starts, ends: &ends };
        let y = slice(&mut b, &x, cut).unwrap();
        is(&b, y, "slice_0.tmp_0", &[-1, 5]);
        let y = pad(&mut b, &x, &[0, 0, 1, 2], 0.0, None).unwrap();
        is(&b, y, "pad_0.tmp_0", &[-1, 9]);
        let y = reverse(&mut b, &x, &[1]).unwrap();
        is(&b, y, "reverse_0.tmp_0", &[-1, 6]);
        let y = cumsum(&mut b, &x, Cumsum::default()).unwrap();
        is(&b, y, "cumsum_0.tmp_0", &[-1, 6]);
    }

    #[test]
    fn reshapes_in_place() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[6], Data::default()).unwrap();
        let options = Reshape { inplace: true, ..Reshape::default() };
        assert_eq!(reshape(&mut b, &x, &[-1, 2], options).unwrap(), x);
        assert_eq!(b.meta(&x).unwrap().dims, [-1, 2]);
    }

    #[test]
    fn reshapes_to_what_variables_say() {
        let mut net = Net::default();
        let mut b = net.builder();
        let options = Data { append_batch_size: false, ..Data::default() };
        let x = layers::data(&mut b, "x", &[3, 4, 5], options).unwrap();
        let n = layers::fill_constant(&mut b, &[1], tensor::DType::I32, 2.0, Default::default());
        let sizes = vec![Size::Is(0), Size::In(n.unwrap()), Size::Is(-1)];
        let y = reshape(&mut b, &x, sizes, Reshape::default()).unwrap();
        assert_eq!((y.name(), &*b.meta(&y).unwrap().dims), ("reshape2_0.tmp_2", &[3, -1, -1][..]));
    }
}
