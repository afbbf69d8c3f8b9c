//! Other shapes and other orders: `reshape`, `transpose`, `squeeze`, `slice`, `expand` and the like.

use super::append::one_op;
use super::sizes::{SizePorts, Sizes};
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};

layers! { shapes;
    /// The same numbers in another shape: 0 copies a size, one -1 stands for what is left over. A
    /// variable `actual_shape` holds the shape when it runs; `shape` is then what is known before.
    fn reshape(x: Input, shape: Dims; Reshape<'a> {
        actual_shape: MaybeInput = None, act: Name = None, inplace: bool = false, name: Name = None,
    }) -> Var { |b|
        let shape = shape.into();
        check_shape(&shape, b.meta(x)?.dims.len())?;
        let actual = actual_shape.filter(|_| matches!(shape, Sizes::List(_)));
        let op = one_op(b, "reshape2", name).input("X", x);
        let op = op.with(|b, layer, op| shape.on(b, layer, op, SizePorts { whole: "Shape", list: "ShapeTensor" }))?;
        let op = if inplace { op.write("Out", x) } else { op.also("Out")? };
        let op = op.also("XShape")?.maybe("Shape", actual).attr("shape", shape.known_ints());
        op.first_activated(act)
    }

    /// The dimensions in another order.
    fn transpose(x: Input, perm: Ints; name: Name = None) -> Var { |b|
        let rank = b.meta(x)?.dims.len();
        if perm.len() != rank {
            return Err(Error::BadArgument {
                layer: "transpose",
                argument: "perm",
                rule: "its length should be equal to dimensions of Input(x)",
                actual: format!("{perm:?} for {rank} dimensions"),
            });
        }
        let op = one_op(b, "transpose", name).of("transpose2").input("X", x);
        op.attr("axis", perm.to_vec()).also("Out")?.also("XShape")?.first()
    }

    /// Without the dimensions of 1 at `axes`, all of them if `axes` is empty.
    fn squeeze(input: Input, axes: Ints; name: Name = None) -> Var { |b|
        let op = one_op(b, "squeeze", name).of("squeeze2").input("X", input);
        op.attr("axes", axes.to_vec()).also("Out")?.also("XShape")?.first()
    }

    /// With dimensions of 1 put in at `axes`.
    fn unsqueeze(input: Input, axes: Places; name: Name = None) -> Var { |b|
        let axes = axes.into();
        let op = one_op(b, "unsqueeze2", name).input("X", input).attr("axes", axes.known_ints());
        let op = op.with(|b, layer, op| axes.on(b, layer, op, SizePorts { whole: "AxesTensor", list: "AxesTensorList" }))?;
        op.also("Out")?.also("XShape")?.first()
    }

    /// A matrix whose rows are the first `axis` dimensions.
    fn flatten(x: Input; axis: i32 = 1, name: Name = None) -> Var { |b|
        let op = one_op(b, "flatten", name).of("flatten2").input("X", x);
        op.attr("axis", axis).also("Out")?.also("XShape")?.first()
    }

    /// The input repeated along each dimension.
    fn expand(x: Input, expand_times: Dims; name: Name = None) -> Var { |b|
        let times = expand_times.into();
        let op = one_op(b, "expand", name).input("X", x).attr("expand_times", times.known_ints());
        let ports = SizePorts { whole: "ExpandTimes", list: "expand_times_tensor" };
        op.with(|b, layer, op| times.on(b, layer, op, ports))?.out("Out")
    }

    /// The input repeated until it has the target's shape.
    fn expand_as(x: Input, target_tensor: Input; name: Name = None) -> Var { |b|
        let op = one_op(b, "expand_as", name).input("X", x);
        op.input("target_tensor", target_tensor).out("Out")
    }

    /// A part of the input: from `starts` to before `ends` along `axes`.
    fn slice(input: Input, axes: Ints, starts: Dims, ends: Dims) -> Var { |b|
        let (starts, ends) = (starts.into(), ends.into());
        let cut = SliceBounds { axes, starts: &starts, ends: &ends };
        let op = one_op(b, "slice", None).input("Input", input);
        op.with(|b, layer, op| slice_op(b, layer, op, cut, &[]))?.out("Out")
    }

    /// The input with a value around it: `paddings` before and after each dimension.
    fn pad(x: Input, paddings: Ints; pad_value: f32 = 0.0, name: Name = None) -> Var { |b|
        let op = one_op(b, "pad", name).input("X", x).attr("paddings", paddings.to_vec());
        op.attr("pad_value", pad_value).out("Out")
    }

    /// The order turned around along one axis or several.
    fn reverse(x: Input, axis: Ints) -> Var { |b|
        one_op(b, "reverse", None).input("X", x).attr("axis", axis.to_vec()).out("Out")
    }

    /// Running sums along an axis, the last unless said.
    fn cumsum(x: Input; Cumsum {
        axis: MaybeI32 = None, exclusive: MaybeBool = None, reverse: MaybeBool = None,
    }) -> Var { |b|
        let op = one_op(b, "cumsum", None).input("X", x).attr("axis", axis.unwrap_or(-1));
        let op = op.attr("exclusive", exclusive.unwrap_or(false));
        op.attr("reverse", reverse.unwrap_or(false)).out("Out")
    }
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

/// What to cut out: axes, first places, and places behind the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct SliceBounds<'a> {
    pub(super) axes: &'a [i32],
    pub(super) starts: &'a Sizes,
    pub(super) ends: &'a Sizes,
}

/// The op that cuts, and drops the dimensions in `decrease`.
pub(super) fn slice_op(
    b: &mut Builder<'_>,
    layer: &str,
    op: OpDesc,
    cut: SliceBounds<'_>,
    decrease: &[i32],
) -> Result<OpDesc> {
    let n = cut.axes.len();
    let known = cut.starts.are_known(n).into_iter().zip(cut.ends.are_known(n));
    let flags = known.map(|(start, end)| if start && end { 1 } else { -1 }).collect::<Vec<i32>>();
    let op = op
        .attr("axes", cut.axes.to_vec())
        .attr("starts", cut.starts.known_ints())
        .attr("ends", cut.ends.known_ints())
        .attr("infer_flags", flags)
        .attr("decrease_axis", decrease.to_vec());
    let op = cut.starts.on(
        b,
        layer,
        op,
        SizePorts { whole: "StartsTensor", list: "StartsTensorList" },
    )?;
    cut.ends.on(b, layer, op, SizePorts { whole: "EndsTensor", list: "EndsTensorList" })
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
        let y = slice(&mut b, &x, &[0, 1], &[1, 0], &[3, -1]).unwrap();
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
