//! Several variables into one, and back: `concat`, `sums`, `stack`, `multiplex`, `split`, `unstack`.

use super::append::one_op;
use super::sizes::{Size, SizePorts, Sizes};
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};

/// Several results.
pub type Vars = Vec<Var>;

layers! { joins;
    /// The inputs one after another along an axis.
    fn concat(input: Inputs; axis: Dim = [Size::Is(0), "0"], name: Name = None) -> Var { |b|
        need_one("concat", input)?;
        let op = one_op(b, "concat", name).input("X", input);
        match axis.into() {
            Size::Is(axis) => op.attr("axis", axis as i32),
            Size::In(axis) => op.input("AxisTensor", &axis).attr("axis", 0),
        }
        .out("Out")
    }

    /// The sum of the inputs, in a variable of its own or in `out`.
    fn sums(input: Inputs; out: MaybeInput = None) -> Var { |b|
        need_one("sums", input)?;
        let op = one_op(b, "sum", None).input("X", input).attr("use_mkldnn", false);
        op.out_into("Out", out)
    }

    /// The sum of the inputs.
    fn sum(x: Inputs) -> Var { |b| sums(b, x, None) }

    /// The inputs side by side along a new dimension.
    fn stack(x: Inputs; axis: i32 = 0) -> Var { |b|
        need_one("stack", x)?;
        one_op(b, "stack", None).input("X", x).attr("axis", axis).out("Y")
    }

    /// The slices along an axis; `num` says how many if the size is not known.
    fn unstack(x: Input; axis: i32 = 0, num: MaybeI32 = None) -> Vars { |b|
        let meta = b.meta(x)?;
        let axis_of = i64::from(axis).rem_euclid(meta.dims.len().max(1) as i64) as usize;
        let num = num.map(i64::from).or(meta.dims.get(axis_of).copied()).filter(|&num| num > 0);
        let num = num.ok_or_else(|| unknown("unstack", "num", &meta.dims))?;
        let layer = b.layer_name("unstack", None);
        let outs: Vec<Var> = (0..num).map(|_| b.temp(&layer, meta.dtype)).collect();
        let op = OpDesc::new("unstack").input("X", x).output("Y", &*outs);
        b.op(op.attr("axis", axis).attr("num", num as i32))?;
        Ok(outs)
    }

    /// Row i of the result is row i of the input that `index[i]` names.
    fn multiplex(inputs: Inputs, index: Input) -> Var { |b|
        need_one("multiplex", inputs)?;
        one_op(b, "multiplex", None).input("X", inputs).input("Ids", index).out("Out")
    }
}

pub(super) fn need_one(layer: &'static str, inputs: &[Var]) -> Result<()> {
    if !inputs.is_empty() {
        return Ok(());
    }
    let (argument, rule) = ("input", "at least one variable is needed");
    Err(Error::BadArgument { layer, argument, rule, actual: "none".to_string() })
}

fn unknown(layer: &'static str, argument: &'static str, dims: &[i64]) -> Error {
    let rule = "it is needed, and positive, when the size is not known";
    Error::BadArgument { layer, argument, rule, actual: format!("a shape of {dims:?}") }
}

/// How to cut in [`split`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    /// This many equal parts.
    Equal(i32),
    /// Parts of these sizes; one may be -1 for the rest.
    Sizes(Vec<i32>),
    /// Parts of sizes that variables may hold.
    Computed(Vec<Size>),
}

/// Consecutive parts along a dimension; Fluid's default dimension is -1.
pub fn split(
    b: &mut Builder<'_>,
    input: &Var,
    parts: &Parts,
    dim: impl Into<Size>,
    name: Option<&str>,
) -> Result<Vec<Var>> {
    let meta = b.meta(input)?;
    let (num, sections) = match parts {
        Parts::Equal(num) => (*num, Sizes::List(Vec::new())),
        Parts::Sizes(sizes) => (0, Sizes::from(sizes)),
        Parts::Computed(sizes) => (0, Sizes::from(sizes.clone())),
    };
    let known = sections.known_ints();
    let dim = dim.into();
    let n = known.len().max(num.max(0) as usize);
    if n == 0 {
        return Err(unknown("split", "num_or_sections", &meta.dims));
    }
    let axis = match dim {
        Size::Is(dim) if dim < 0 => dim.saturating_add(meta.dims.len() as i64),
        Size::Is(dim) => dim,
        Size::In(_) => -1,
    };
    let size = usize::try_from(axis).ok().and_then(|axis| meta.dims.get(axis)).copied();
    if size.is_some_and(|size| size > 0 && num > 0 && size % i64::from(num) != 0) {
        let rule = "The input's size along the split dimension must be evenly divisible by \
                    Attr(num_or_sections)";
        let (layer, argument) = ("split", "num_or_sections");
        return Err(Error::BadSizes { layer, argument, rule, actual: vec![num.into()] });
    }
    let layer = b.layer_name("split", name);
    let outs: Vec<Var> = (0..n).map(|_| b.temp(&layer, meta.dtype)).collect();
    let op = OpDesc::new("split").input("X", input).output("Out", &*outs);
    let op = match dim {
        Size::Is(_) => op.attr("axis", axis as i32),
        Size::In(dim) => op.input("AxisTensor", &dim).attr("axis", 0),
    };
    let op = sections.on(b, &layer, op, SizePorts { whole: "", list: "SectionsTensorList" })?;
    b.op(op.attr("num", num).attr("sections", known))?;
    Ok(outs)
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
        let dims = |b: &Builder<'_>, var: &Var| b.meta(var).unwrap().dims;
        let joined = concat(&mut b, &[x.clone(), x.clone()], -1, None).unwrap();
        assert_eq!((joined.name(), dims(&b, &joined)), ("concat_0.tmp_0", vec![-1, 12]));
        let added = sums(&mut b, &[x.clone(), x.clone()], None).unwrap();
        assert_eq!((added.name(), dims(&b, &added)), ("sum_0.tmp_0", vec![-1, 6]));
        let into = sums(&mut b, &[x.clone(), added.clone()], Some(&added)).unwrap();
        assert_eq!(into, added);
        let parts = split(&mut b, &x, &Parts::Equal(3), -1, None).unwrap();
        assert_eq!((parts[2].name(), dims(&b, &parts[2])), ("split_0.tmp_2", vec![-1, 2]));
        let parts = split(&mut b, &x, &Parts::Sizes(vec![2, -1]), 1, None).unwrap();
        assert_eq!((parts[1].name(), dims(&b, &parts[1])), ("split_1.tmp_1", vec![-1, 4]));
        let stacked = stack(&mut b, &[x.clone(), x.clone()], 1).unwrap();
        assert_eq!((stacked.name(), dims(&b, &stacked)), ("stack_0.tmp_0", vec![-1, 2, 6]));
        let apart = unstack(&mut b, &stacked, 1, None).unwrap();
        assert_eq!((apart[1].name(), dims(&b, &apart[1])), ("unstack_0.tmp_1", vec![-1, 6]));
    }

    #[test]
    fn refuses_no_inputs_and_unknown_sizes() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[6], Data::default()).unwrap();
        for error in [
            concat(&mut b, &[], 0, None).unwrap_err(),
            unstack(&mut b, &x, 0, None).unwrap_err(),
            split(&mut b, &x, &Parts::Equal(0), 0, None).unwrap_err(),
        ] {
            assert!(matches!(error.root(), Error::BadArgument { .. }), "{error}");
        }
    }
}
