//! Layers over sequences that are one op each.

use tensor::DType;

use super::append::{OneOp, one_op};
use crate::builder::{Builder, Var};
use crate::error::Result;

layers! { sequences;
    /// One row per sequence; `pool_type` is average, sum, sqrt, max, last or first. `pad_value` is what
    /// an empty sequence gives.
    fn sequence_pool(input: Input, pool_type: Text; SequencePool {
        is_test: bool = false, pad_value: f32 = 0.0,
    }) -> Var { |b|
        let (kind, dtype) = (pool_type.to_uppercase(), b.meta(input)?.dtype);
        // Fluid declares the rows with the type of the input, whatever it writes into them.
        let is_max = kind == "MAX";
        let op = one_op(b, "sequence_pool", None).input("X", input).attr("pooltype", kind);
        let op = op.attr("is_test", is_test).attr("pad_value", pad_value).also("Out")?;
        let op = if is_max { op.also_stopped("MaxIndex", dtype) } else { op.also("MaxIndex")? };
        op.first()
    }

    /// The first step of each sequence.
    fn sequence_first_step(input: Input) -> Var { |b|
        sequence_pool(b, input, "first", SequencePool::default())
    }

    /// The last step of each sequence.
    fn sequence_last_step(input: Input) -> Var { |b|
        sequence_pool(b, input, "last", SequencePool::default())
    }

    /// A softmax over the steps of each sequence.
    fn sequence_softmax(input: Input; SequenceSoftmax<'a> {
        use_cudnn: bool = false, name: Name = None,
    }) -> Var { |b|
        let _ = use_cudnn;
        let op = one_op(b, "sequence_softmax", name).input("X", input);
        op.attr("use_cudnn", false).out("Out")
    }

    /// Sequences of `x` repeated as often as level `ref_level` of `y` says; -1 is the innermost.
    fn sequence_expand(x: Input, y: Input; ref_level: i32 = (-1), name: Name = None) -> Var { |b|
        let op = one_op(b, "sequence_expand", name).input("X", x).input("Y", y);
        op.attr("ref_level", ref_level).out("Out")
    }

    /// Row i of `x` repeated as often as sequence i of `y` is long.
    fn sequence_expand_as(x: Input, y: Input; name: Name = None) -> Var { |b, kind|
        one_op(b, kind, name).input("X", x).input("Y", y).out("Out")
    }

    /// The sequences filled up to one length (`maxlen`, or the longest), and their own lengths.
    fn sequence_pad(x: Input, pad_value: Input; maxlen: MaybeI32 = None, name: Name = None)
    -> (Var, Var) { |b|
        if let Some(value) = b.main.block_mut(0).var_mut(pad_value.name()) {
            value.stop_gradient = true;
        }
        let op = one_op(b, "sequence_pad", name).input("X", x).input("PadValue", pad_value);
        let op = op.attr("padded_length", maxlen.unwrap_or(-1));
        op.also("Out")?.also_stopped("Length", DType::I64).pair()
    }

    /// The first `length[i]` steps of each row of `x`, as sequences.
    fn sequence_unpad(x: Input, length: Input; name: Name = None) -> Var { |b|
        one_op(b, "sequence_unpad", name).input("X", x).input("Length", length).out("Out")
    }

    /// The numbers of each sequence in rows of another width.
    fn sequence_reshape(input: Input, new_dim: i32) -> Var { |b|
        one_op(b, "sequence_reshape", None).input("X", input).attr("new_dim", new_dim).out("Out")
    }

    /// Joins the inputs sequence by sequence.
    fn sequence_concat(input: Inputs; name: Name = None) -> Var { |b|
        super::join::need_one("sequence_concat", input)?;
        one_op(b, "sequence_concat", name).input("X", input).out("Out")
    }

    /// The steps of each sequence, last first.
    fn sequence_reverse(x: Input; name: Name = None) -> Var { |b|
        one_op(b, "sequence_reverse", name).input("X", x).out("Y")
    }

    /// `length[i]` steps of sequence i, from step `offset[i]` on.
    fn sequence_slice(input: Input, offset: Input, length: Input; name: Name = None) -> Var { |b|
        for var in [offset, length] {
            if let Some(desc) = b.main.block_mut(0).var_mut(var.name()) {
                desc.stop_gradient = true;
            }
        }
        let op = one_op(b, "sequence_slice", name).input("X", input);
        op.input("Offset", offset).input("Length", length).out("Out")
    }

    /// Windows of `win_size` ids, `pad_value` beyond the end of a sequence.
    fn sequence_enumerate(input: Input, win_size: i32; pad_value: i32 = 0, name: Name = None)
    -> Var { |b|
        let dtype = b.meta(input)?.dtype;
        let op = one_op(b, "sequence_enumerate", name).input("X", input).attr("win_size", win_size);
        op.attr("pad_value", pad_value).out_stopped("Out", dtype)
    }
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
    let op = one_op(b, "sequence_mask", name).input("X", x).attr("out_dtype", dtype.code());
    match maxlen {
        MaxLen::Largest => op.attr("maxlen", -1),
        MaxLen::Fixed(length) => op.attr("maxlen", *length),
        MaxLen::Var(length) => op.input("MaxLenTensor", length).attr("maxlen", -1),
    }
    .out_stopped("Y", dtype)
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
    with_sequences(one_op(b, "lod_reset", None), x, sequences).attr("append", false).out("Out")
}

/// `x` with a further, innermost level of sequences.
pub fn lod_append(b: &mut Builder<'_>, x: &Var, level: Sequences) -> Result<Var> {
    let op = one_op(b, "lod_append", None).of("lod_reset");
    with_sequences(op, x, level).attr("append", true).out("Out")
}

fn with_sequences<'b, 'p>(op: OneOp<'b, 'p>, x: &Var, sequences: Sequences) -> OneOp<'b, 'p> {
    let op = op.input("X", x);
    match sequences {
        Sequences::Of(y) => op.input("Y", &y).attr("target_lod", Vec::<i32>::new()),
        Sequences::Offsets(offsets) => op.attr("target_lod", offsets),
    }
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

    #[test]
    fn pooling_follows_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let data = Data { lod_level: 2, ..Data::default() };
        let x = layers::data(&mut b, "x", &[4], data).unwrap();
        let out = sequence_pool(&mut b, &x, "max", SequencePool::default()).unwrap();
        assert_eq!(out.name(), "sequence_pool_0.tmp_0");
        let meta = b.meta(&out).unwrap();
        assert_eq!((meta.dims, meta.lod_level), (vec![-1, 4], 1));
        assert!(b.desc(&Var::from("sequence_pool_0.tmp_1")).unwrap().stop_gradient);
        assert_eq!(sequence_last_step(&mut b, &x).unwrap().name(), "sequence_pool_1.tmp_0");
    }
}
