//! Layers of one sequence op each: they add it and name its result.

use tensor::DType;

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};

/// Appends `op` with one result at `port`, in the type of `like`.
fn append(
    b: &mut Builder<'_>,
    op: OpDesc,
    like: &Var,
    (port, name): (&str, Option<&str>),
) -> Result<Var> {
    let dtype = b.meta(like)?.dtype;
    let layer = b.layer_name(&op.kind, name);
    let out = b.temp(&layer, dtype);
    b.op(op.output(port, &out))?;
    Ok(out)
}

/// Softmax within each sequence; `x` has one number per step.
pub fn sequence_softmax(b: &mut Builder<'_>, x: &Var, name: Option<&str>) -> Result<Var> {
    let op = OpDesc::new("sequence_softmax").input("X", x).attr("use_cudnn", false);
    append(b, op, x, ("Out", name))
}

/// Repeats each sequence of `x` as level `ref_level` of `y` says; -1 is the innermost.
pub fn sequence_expand(
    b: &mut Builder<'_>,
    x: &Var,
    y: &Var,
    ref_level: i32,
    name: Option<&str>,
) -> Result<Var> {
    let op = OpDesc::new("sequence_expand").input("X", x).input("Y", y);
    append(b, op.attr("ref_level", ref_level), x, ("Out", name))
}

/// Row i of `x`, once for each step of sequence i of `y`.
pub fn sequence_expand_as(
    b: &mut Builder<'_>,
    x: &Var,
    y: &Var,
    name: Option<&str>,
) -> Result<Var> {
    let op = OpDesc::new("sequence_expand_as").input("X", x).input("Y", y);
    append(b, op, x, ("Out", name))
}

/// Pads sequences to `maxlen` steps (the longest, if `None`); also returns their lengths.
pub fn sequence_pad(
    b: &mut Builder<'_>,
    x: &Var,
    pad_value: &Var,
    maxlen: Option<i32>,
    name: Option<&str>,
) -> Result<(Var, Var)> {
    let layer = b.layer_name("sequence_pad", name);
    let out = b.temp(&layer, b.meta(x)?.dtype);
    let length = b.temp_stopped(&layer, DType::I64);
    if let Some(value) = b.main.block_mut(0).var_mut(pad_value.name()) {
        value.stop_gradient = true;
    }
    b.op(OpDesc::new("sequence_pad")
        .input("X", x)
        .input("PadValue", pad_value)
        .output("Out", &out)
        .output("Length", &length)
        .attr("padded_length", maxlen.unwrap_or(-1)))?;
    Ok((out, length))
}

/// The first `length[i]` steps of each row of `x`, as sequences.
pub fn sequence_unpad(
    b: &mut Builder<'_>,
    x: &Var,
    length: &Var,
    name: Option<&str>,
) -> Result<Var> {
    let op = OpDesc::new("sequence_unpad").input("X", x).input("Length", length);
    append(b, op, x, ("Out", name))
}

/// Steps of `new_dim` numbers; each sequence keeps its numbers.
pub fn sequence_reshape(b: &mut Builder<'_>, x: &Var, new_dim: i32) -> Result<Var> {
    let op = OpDesc::new("sequence_reshape").input("X", x).attr("new_dim", new_dim);
    append(b, op, x, ("Out", None))
}

/// Joins the inputs sequence by sequence.
pub fn sequence_concat(b: &mut Builder<'_>, inputs: &[Var], name: Option<&str>) -> Result<Var> {
    let first = inputs.first().ok_or_else(|| Error::BadArgument {
        layer: "sequence_concat",
        argument: "input",
        rule: "at least one variable is needed",
        actual: "none".to_string(),
    })?;
    append(b, OpDesc::new("sequence_concat").input("X", inputs), first, ("Out", name))
}

/// Columns of [`sequence_mask`].
#[derive(Clone, Debug, Default)]
pub enum MaxLen {
    /// As many as the largest length.
    #[default]
    Largest,
    /// A number.
    Fixed(i32),
    /// What a variable holds.
    Var(Var),
}

/// For each length in `x` a row of ones, then zeros.
pub fn sequence_mask(
    b: &mut Builder<'_>,
    x: &Var,
    maxlen: &MaxLen,
    dtype: DType,
    name: Option<&str>,
) -> Result<Var> {
    let layer = b.layer_name("sequence_mask", name);
    let out = b.temp_stopped(&layer, dtype);
    let op = OpDesc::new("sequence_mask").input("X", x).attr("out_dtype", dtype.code());
    let op = match maxlen {
        MaxLen::Largest => op.attr("maxlen", -1),
        MaxLen::Fixed(length) => op.attr("maxlen", *length),
        MaxLen::Var(length) => op.input("MaxLenTensor", length).attr("maxlen", -1),
    };
    b.op(op.output("Y", &out))?;
    Ok(out)
}

/// The steps of each sequence, last first.
pub fn sequence_reverse(b: &mut Builder<'_>, x: &Var, name: Option<&str>) -> Result<Var> {
    append(b, OpDesc::new("sequence_reverse").input("X", x), x, ("Y", name))
}

/// `length[i]` steps of sequence i of `x`, from step `offset[i]` on.
pub fn sequence_slice(
    b: &mut Builder<'_>,
    x: &Var,
    offset: &Var,
    length: &Var,
    name: Option<&str>,
) -> Result<Var> {
    for var in [offset, length] {
        if let Some(desc) = b.main.block_mut(0).var_mut(var.name()) {
            desc.stop_gradient = true;
        }
    }
    let op = OpDesc::new("sequence_slice").input("X", x).input("Offset", offset);
    append(b, op.input("Length", length), x, ("Out", name))
}

/// Windows of `win_size` ids, `pad_value` beyond the end of a sequence.
pub fn sequence_enumerate(
    b: &mut Builder<'_>,
    x: &Var,
    win_size: i32,
    pad_value: i32,
    name: Option<&str>,
) -> Result<Var> {
    let layer = b.layer_name("sequence_enumerate", name);
    let out = b.temp_stopped(&layer, b.meta(x)?.dtype);
    let op = OpDesc::new("sequence_enumerate").input("X", x).output("Out", &out);
    b.op(op.attr("win_size", win_size).attr("pad_value", pad_value))?;
    Ok(out)
}

/// Where [`lod_reset`] finds the new sequences.
#[derive(Clone, Debug)]
pub enum Sequences {
    /// Those of a variable, or the offsets it holds.
    Of(Var),
    /// These offsets.
    Offsets(Vec<i32>),
}

/// `x` with other sequences.
pub fn lod_reset(b: &mut Builder<'_>, x: &Var, sequences: Sequences) -> Result<Var> {
    let op = OpDesc::new("lod_reset").input("X", x).attr("append", false);
    let op = match sequences {
        Sequences::Of(y) => op.input("Y", &y).attr("target_lod", Vec::<i32>::new()),
        Sequences::Offsets(offsets) => op.attr("target_lod", offsets),
    };
    append(b, op, x, ("Out", None))
}

/// `x` with a further, innermost level of sequences.
pub fn lod_append(b: &mut Builder<'_>, x: &Var, level: Sequences) -> Result<Var> {
    let layer = b.layer_name("lod_append", None);
    let out = b.temp(&layer, b.meta(x)?.dtype);
    let op = OpDesc::new("lod_reset").input("X", x).output("Out", &out).attr("append", true);
    b.op(match level {
        Sequences::Of(y) => op.input("Y", &y).attr("target_lod", Vec::<i32>::new()),
        Sequences::Offsets(offsets) => op.attr("target_lod", offsets),
    })?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    /// Names, shapes and levels as Fluid 1.8.5 printed them for the same calls.
    #[test]
    fn results_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let input = |b: &mut Builder<'_>, name: &str, lod_level, dtype| {
            let data = Data { lod_level, dtype, ..Data::default() };
            layers::data(b, name, &[2], data).unwrap()
        };
        let x = input(&mut b, "x", 1, DType::F32);
        let y = input(&mut b, "y", 2, DType::F32);
        let dense = input(&mut b, "dense", 0, DType::F32);
        let lengths = input(&mut b, "lengths", 0, DType::I64);
        let one = layers::data(&mut b, "one", &[1], Data::default()).unwrap();
        let results = [
            sequence_expand(&mut b, &x, &y, -1, None).unwrap(),
            sequence_expand_as(&mut b, &dense, &x, None).unwrap(),
            sequence_pad(&mut b, &x, &one, Some(5), None).unwrap().0,
            sequence_reshape(&mut b, &x, 4).unwrap(),
            sequence_concat(&mut b, &[x.clone(), x.clone()], None).unwrap(),
            sequence_mask(&mut b, &lengths, &MaxLen::Fixed(5), DType::F32, None).unwrap(),
            sequence_reverse(&mut b, &x, None).unwrap(),
            lod_reset(&mut b, &x, Sequences::Of(y)).unwrap(),
            lod_append(&mut b, &x, Sequences::Offsets(vec![0, 1, 2])).unwrap(),
        ];
        let shown: Vec<_> = results
            .iter()
            .map(|var| (var.name(), b.meta(var).unwrap()))
            .map(|(name, meta)| (name, meta.dims, meta.lod_level))
            .collect();
        let expected = [
            ("sequence_expand_0.tmp_0", vec![-1, 2], 1),
            ("sequence_expand_as_0.tmp_0", vec![-1, 2], 1),
            ("sequence_pad_0.tmp_0", vec![-1, 5, 2], 0),
            ("sequence_reshape_0.tmp_0", vec![-1, 4], 1),
            ("sequence_concat_0.tmp_0", vec![-1, 2], 1),
            ("sequence_mask_0.tmp_0", vec![-1, 2, 5], 0),
            ("sequence_reverse_0.tmp_0", vec![-1, 2], 1),
            ("lod_reset_0.tmp_0", vec![-1, 2], 2),
            ("lod_append_0.tmp_0", vec![-1, 2], 2),
        ];
        assert_eq!(shown, expected);
    }
}
