//! Other shapes and other orders: `reshape`, `transpose`, `squeeze`, `slice`, `expand` and the like.

use super::append::one_op;
use super::join::Vars;
use super::sizes::{Size, SizePorts, Sizes};
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
        let cut = SliceBounds { axes, starts: &starts, ends: &ends, dropped: &[] };
        let op = one_op(b, "slice", None).input("Input", input);
        op.with(|b, layer, op| slice_op(b, layer, op, cut))?.out("Out")
    }

    /// Every `strides`-th place from `starts` to before `ends` along `axes`.
    fn strided_slice(input: Input, axes: Ints, starts: Dims, ends: Dims, strides: Dims) -> Var { |b, kind|
        let (starts, ends) = (starts.into(), ends.into());
        let strides = strides.into();
        let cut = SliceBounds { axes, starts: &starts, ends: &ends, dropped: &[] };
        let op = one_op(b, kind, None).input("Input", input);
        op.with(|b, layer, op| strided_op(b, layer, op, cut, &strides))?.out("Out")
    }

    /// A box of `shape` (or of the size of a Variable) that begins at `offsets`, numbers or a Variable.
    fn crop(x: Floats; Crop<'a> {
        shape: MaybeDims = None, offsets: MaybeDims = None, name: Name = None,
    }) -> Var { |b, kind|
        let rank = b.meta(x)?.dims.len();
        let shape = shape.ok_or_else(|| needed("crop", "shape"))?;
        let offsets = offsets.unwrap_or_else(|| Sizes::from(&vec![0i32; rank]));
        let op = one_op(b, kind, name).input("X", x);
        let op = match shape {
            Sizes::In(like) => op.input("Y", &like),
            shape => op.attr("shape", all_known("crop", "shape", &shape)?),
        };
        match offsets {
            Sizes::In(offsets) => op.input("Offsets", &offsets),
            offsets => op.attr("offsets", all_known("crop", "offsets", &offsets)?),
        }
        .out("Out")
    }

    /// A box of `shape` that begins at `offsets`; -1 is all that is behind an offset. Variables may hold
    /// both lists, or single numbers of them.
    fn crop_tensor(x: Input; CropTensor<'a> {
        shape: MaybeDims = None, offsets: MaybeDims = None, name: Name = None,
    }) -> Var { |b, kind|
        let rank = b.meta(x)?.dims.len();
        let shape = shape.ok_or_else(|| needed("crop_tensor", "shape"))?;
        let offsets = offsets.unwrap_or_else(|| Sizes::from(&vec![0i32; rank]));
        check_box(&shape, &offsets)?;
        // A size that a Variable holds is 0 among the known ones, -1 means something else.
        let known = shape.known_ints().into_iter().zip(shape.are_known(0));
        let known: Vec<i32> = known.map(|(size, is_known)| if is_known { size } else { 0 }).collect();
        let from = match &offsets {
            Sizes::In(_) => vec![-1; rank],
            offsets => offsets.known_ints(),
        };
        let op = one_op(b, kind, name).input("X", x).attr("shape", known).attr("offsets", from);
        let op = op.with(|b, layer, op| {
            let ports = SizePorts { whole: "Offsets", list: "OffsetsTensor" };
            let op = offsets.on(b, layer, op, ports)?;
            shape.on(b, layer, op, SizePorts { whole: "Shape", list: "ShapeTensor" })
        })?;
        op.out("Out")
    }

    /// The order turned around along each of `dims`. A name is that of the result.
    fn flip(input: Input, dims: Ints; name: Name = None) -> Var { |b, kind|
        if dims.is_empty() {
            let (argument, rule) = ("dims", "len(dims) must be greater than 0.");
            return Err(Error::BadSizes { layer: "flip", argument, rule, actual: vec![] });
        }
        let op = one_op(b, kind, name).input("X", input).attr("dims", dims.to_vec());
        op.out_named("Out", name)
    }

    /// Moved by `shifts` along `dims`, or along all numbers in a row where `dims` is None; numbers that leave
    /// at one end come in at the other.
    fn roll(input: Input, shifts: Ints; dims: Axes = None) -> Var { |b, kind|
        let meta = b.meta(input)?;
        let layer = b.layer_name(kind, None);
        let out = b.temp(&layer, meta.dtype);
        let (x, dims) = match dims {
            Some(dims) => (input.clone(), dims.to_vec()),
            None => (reshape(b, input, &[-1, 1], Reshape::default())?, vec![0]),
        };
        let longs = |list: &[i32]| list.iter().map(|&at| i64::from(at)).collect::<Vec<i64>>();
        let op = OpDesc::new(kind).input("X", &x).output("Out", &out);
        b.op(op.attr("shifts", longs(shifts)).attr("dims", longs(&dims)))?;
        reshape(b, &out, &meta.dims, Reshape { inplace: true, ..Reshape::default() })
    }

    /// Of each list its numbers along a dimension of its own in a grid of all lists.
    fn meshgrid(input: Inputs; name: Name = None) -> Vars { |b, kind|
        super::join::need_one("meshgrid", input)?;
        let layer = b.layer_name(kind, name);
        let out = |var: &Var| Ok(b.temp(&layer, b.meta(var)?.dtype));
        let outs = input.iter().map(out).collect::<Result<Vec<Var>>>()?;
        b.op(OpDesc::new(kind).input("X", input).output("Out", &*outs))?;
        Ok(outs)
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

/// The error that an argument without a default is None.
fn needed(layer: &'static str, argument: &'static str) -> Error {
    let rule = "must be given";
    Error::BadArgument { layer, argument, rule, actual: "None".to_string() }
}

/// Sizes of which no variable holds any.
fn all_known(layer: &'static str, argument: &'static str, sizes: &Sizes) -> Result<Vec<i32>> {
    if sizes.are_known(0).into_iter().all(|is_known| is_known) {
        return Ok(sizes.known_ints());
    }
    let rule = "numbers, or one Variable for all";
    Err(Error::BadArgument { layer, argument, rule, actual: "a Variable in a list".to_string() })
}

/// Numbers of a box that somebody wrote down must make sense.
fn check_box(shape: &Sizes, offsets: &Sizes) -> Result<()> {
    let is_bad = |sizes: &Sizes, bad: fn(i64) -> bool| match sizes {
        Sizes::List(list) => list.iter().any(|size| matches!(size, Size::Is(size) if bad(*size))),
        Sizes::In(_) => false,
    };
    let (layer, rule) = ("crop_tensor", "sizes are positive or -1, offsets are not negative");
    let argument = if is_bad(shape, |size| size == 0 || size < -1) {
        "shape"
    } else if is_bad(offsets, |offset| offset < 0) {
        "offsets"
    } else {
        return Ok(());
    };
    let actual = format!("{:?} at {:?}", shape.known(), offsets.known());
    Err(Error::BadArgument { layer, argument, rule, actual })
}

/// The op that cuts with strides.
pub(super) fn strided_op(
    b: &mut Builder<'_>,
    layer: &str,
    op: OpDesc,
    cut: SliceBounds<'_>,
    strides: &Sizes,
) -> Result<OpDesc> {
    let op = slice_op(b, layer, op, cut)?;
    let flags = op.attrs.ints("infer_flags")?.into_iter().zip(strides.are_known(cut.axes.len()));
    let flags = flags.map(|(flag, is_known)| if is_known { flag as i32 } else { -1 });
    let op = op.attr("infer_flags", flags.collect::<Vec<i32>>());
    let op = op.attr("strides", strides.known_ints());
    strides.on(b, layer, op, SizePorts { whole: "StridesTensor", list: "StridesTensorList" })
}

/// What to cut out: axes, first places, and places behind the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct SliceBounds<'a> {
    pub(super) axes: &'a [i32],
    pub(super) starts: &'a Sizes,
    pub(super) ends: &'a Sizes,
    /// The dimensions that go.
    pub(super) dropped: &'a [i32],
}

/// The op that cuts.
pub(super) fn slice_op(
    b: &mut Builder<'_>,
    layer: &str,
    op: OpDesc,
    cut: SliceBounds<'_>,
) -> Result<OpDesc> {
    let n = cut.axes.len();
    let known = cut.starts.are_known(n).into_iter().zip(cut.ends.are_known(n));
    let flags = known.map(|(start, end)| if start && end { 1 } else { -1 }).collect::<Vec<i32>>();
    let op = op
        .attr("axes", cut.axes.to_vec())
        .attr("starts", cut.starts.known_ints())
        .attr("ends", cut.ends.known_ints())
        .attr("infer_flags", flags)
        .attr("decrease_axis", cut.dropped.to_vec());
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
    use crate::layers::{self, Data};

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
