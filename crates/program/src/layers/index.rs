//! `x[...]`: a part of a variable as Python names it.

use tensor::DType;

use super::reshape::{SliceBounds, slice_op, strided_op};
use super::sizes::{Size, Sizes};
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};
use crate::var::{Meta, VarDesc};

/// Behind the end of any dimension.
const END: i64 = 10_000_000;

/// What is said of one dimension between the brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Index {
    /// One place; the dimension goes.
    At(Size),
    /// `start:end`.
    Range(Option<Size>, Option<Size>),
    /// `start:end:step`.
    Steps(IndexSteps),
    /// `::-1`.
    Reversed,
    /// `...`: the dimensions that nothing is said of.
    Rest,
}

/// Places at equal distances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSteps {
    /// The first place, 0 if nothing is said.
    pub start: Option<Size>,
    /// Behind the last place, the end if nothing is said.
    pub end: Option<Size>,
    /// How far places are apart.
    pub step: Size,
}

/// What an index means.
#[derive(Default)]
struct IndexParts {
    axes: Vec<i32>,
    starts: Vec<Size>,
    ends: Vec<Size>,
    steps: Vec<Size>,
    dropped: Vec<i32>,
    reversed: Vec<i32>,
}

/// A part of `x`: `<x>_slice_0`; `x` itself if the index takes all of it.
pub fn index(b: &mut Builder<'_>, x: &Var, places: &[Index]) -> Result<Var> {
    let meta = b.meta(x)?;
    let places = one_for_each(places, meta.dims.len())?;
    let mut parts = IndexParts::default();
    for (axis, place) in places.into_iter().enumerate() {
        let size = meta.dims[axis];
        let axis = axis as i32;
        match place {
            Index::At(at) => {
                let end = behind(b, &at, size)?;
                parts.dropped.push(axis);
                parts.cut(axis, at, end);
            }
            Index::Range(None, None) | Index::Rest => {}
            Index::Range(start, end) => {
                parts.cut(axis, start.unwrap_or(Size::Is(0)), end.unwrap_or(Size::Is(END)));
            }
            Index::Steps(IndexSteps { start, end, step }) => {
                if matches!(step, Size::Is(..0)) && (start.is_none() || end.is_none()) {
                    let rule = "a negative step needs a start and an end, or is -1 over all";
                    return Err(refuse(rule, format!("{step:?}")));
                }
                parts.cut(axis, start.unwrap_or(Size::Is(0)), end.unwrap_or(Size::Is(END)));
                *parts.steps.last_mut().expect("it was just cut") = step;
            }
            Index::Reversed => parts.reversed.push(axis),
        }
    }
    let mut out = x.clone();
    if !parts.axes.is_empty() {
        let (starts, ends) = (Sizes::List(parts.starts), Sizes::List(parts.ends));
        let dropped = &parts.dropped;
        let cut = SliceBounds { axes: &parts.axes, starts: &starts, ends: &ends, dropped };
        let is_plain = parts.steps.iter().all(|step| *step == Size::Is(1));
        let kind = if is_plain { "slice" } else { "strided_slice" };
        let layer = format!("{}_{kind}", x.name());
        let op = OpDesc::new(kind).input("Input", x);
        let op = if is_plain {
            slice_op(b, &layer, op, cut)?
        } else {
            strided_op(b, &layer, op, cut, &Sizes::List(parts.steps))?
        };
        out = named(b, &layer, meta.dtype, op)?;
    }
    if !parts.reversed.is_empty() {
        let op = OpDesc::new("reverse").input("X", &out).attr("axis", parts.reversed);
        out = named(b, &format!("{}_slice_reverse", x.name()), meta.dtype, op)?;
    }
    Ok(out)
}

impl IndexParts {
    fn cut(&mut self, axis: i32, start: Size, end: Size) {
        self.axes.push(axis);
        self.starts.push(start);
        self.ends.push(end);
        self.steps.push(Size::Is(1));
    }
}

fn refuse(rule: &'static str, actual: String) -> Error {
    Error::BadArgument { layer: "Variable", argument: "index", rule, actual }
}

/// The index written out: one entry for each dimension.
fn one_for_each(places: &[Index], rank: usize) -> Result<Vec<Index>> {
    let n_rests = places.iter().filter(|&place| *place == Index::Rest).count();
    if n_rests > 1 {
        return Err(refuse("`...` can stand only once", n_rests.to_string()));
    }
    let n_said = places.len() - n_rests;
    let Some(n_left) = rank.checked_sub(n_said) else {
        let rule = "more dimensions than the variable has";
        return Err(refuse(rule, format!("{n_said} for {rank}")));
    };
    let at = places.iter().position(|place| *place == Index::Rest).unwrap_or(n_said);
    let all = || Index::Range(None, None);
    let mut full: Vec<Index> = places[..at].to_vec();
    full.extend((0..n_left).map(|_| all()));
    full.extend(places[at..].iter().filter(|&place| *place != Index::Rest).cloned());
    Ok(full)
}

/// The place behind `at` in a dimension of `size`.
fn behind(b: &mut Builder<'_>, at: &Size, size: i64) -> Result<Size> {
    match at {
        Size::Is(at) if size >= 0 && !(-size..size).contains(at) => {
            Err(refuse("it lies outside of the dimension", format!("{at} of {size}")))
        }
        Size::Is(-1) => Ok(Size::Is(END)),
        Size::Is(at) => Ok(Size::Is(at + 1)),
        Size::In(var) => {
            let dtype = b.meta(var)?.dtype;
            let one = OpDesc::new("fill_constant").attr("shape", vec![1i64]).attr("value", 1.0f32);
            let one = one.attr("dtype", dtype.code()).attr("str_value", "").attr("force_cpu", true);
            let one = named(b, "_generated_var", dtype, one)?;
            let op = OpDesc::new("elementwise_add").input("X", var).input("Y", &one);
            Ok(Size::In(named(b, "_generated_var", dtype, op.attr("axis", -1))?))
        }
    }
}

/// Appends an op whose result has a name of this key.
fn named(b: &mut Builder<'_>, key: &str, dtype: DType, op: OpDesc) -> Result<Var> {
    let name = b.names.generate(key);
    let block = b.main.current_block();
    b.main.block_mut(block).put_var(VarDesc::new(&name, Meta::dense(dtype, &[])));
    b.op(op.output("Out", &name))?;
    Ok(Var::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data, FillConstant};

    fn data(b: &mut Builder<'_>) -> Var {
        let options = Data { append_batch_size: false, ..Data::default() };
        layers::data(b, "x", &[3, 4, 5], options).unwrap()
    }

    #[test]
    fn names_and_shapes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = data(&mut b);
        let at = |place| Index::At(Size::Is(place));
        let range = |start: i64, end| Index::Range(Some(Size::Is(start)), end);
        let all = || Index::Range(None, None);
        let mut is = |places: &[Index], name: &str, dims: &[i64]| {
            let var = index(&mut b, &x, places).unwrap();
            assert_eq!((var.name(), &*b.meta(&var).unwrap().dims), (name, dims));
        };
        is(&[at(0)], "x_slice_0", &[4, 5]);
        is(&[at(-1)], "x_slice_1", &[4, 5]);
        is(&[at(0), at(1), at(2)], "x_slice_2", &[1]);
        is(&[range(1, None)], "x_slice_3", &[2, 4, 5]);
        is(&[all(), range(1, Some(Size::Is(3)))], "x_slice_4", &[3, 2, 5]);
        is(&[Index::Rest, at(0)], "x_slice_5", &[3, 4]);
        is(&[Index::Reversed], "x_slice_reverse_0", &[3, 4, 5]);
        is(&[all()], "x", &[3, 4, 5]);
        let ops = &net.main.block(0).ops;
        assert_eq!(ops[1].attrs.ints("ends").unwrap(), [END]);
        assert_eq!(ops[4].attrs.ints("axes").unwrap(), [1]);
    }

    #[test]
    fn steps_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = data(&mut b);
        let steps = |start, end, step| {
            let (start, end) = (Some(Size::Is(start)), Some(Size::Is(end)));
            Index::Steps(IndexSteps { start, end, step: Size::Is(step) })
        };
        let part = index(&mut b, &x, &[steps(0, 3, 2), Index::At(Size::Is(-1))]).unwrap();
        let dims = b.meta(&part).unwrap().dims;
        assert_eq!((part.name(), &*dims), ("x_strided_slice_0", &[2, 5][..]));
        let part = index(&mut b, &x, &[steps(2, 0, -1)]).unwrap();
        assert_eq!(b.meta(&part).unwrap().dims, [2, 4, 5]);
        let open = Index::Steps(IndexSteps { start: None, end: None, step: Size::Is(2) });
        let part = index(&mut b, &x, &[open]).unwrap();
        assert_eq!(b.meta(&part).unwrap().dims, [2, 4, 5]);
        let back = Index::Steps(IndexSteps { start: None, end: None, step: Size::Is(-2) });
        let error = index(&mut b, &x, &[back]).unwrap_err();
        assert!(matches!(error.root(), Error::BadArgument { .. }), "{error}");
    }

    #[test]
    fn a_variable_may_be_the_place() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = data(&mut b);
        let i = layers::fill_constant(&mut b, &[1], DType::I32, 1.0, FillConstant::default());
        let part = index(&mut b, &x, &[Index::At(Size::In(i.unwrap()))]).unwrap();
        assert_eq!(b.meta(&part).unwrap().dims, [4, 5]);
        let op = b.main.block(0).ops.last().unwrap();
        assert_eq!(op.input_names("EndsTensorList"), ["_generated_var_1"]);
        assert_eq!(op.attrs.ints("infer_flags").unwrap(), [-1]);
    }

    #[test]
    fn refuses_what_is_not_there() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = data(&mut b);
        let at = |place| Index::At(Size::Is(place));
        let bad = [vec![at(3)], vec![at(-4)], vec![Index::Rest, Index::Rest], vec![at(0); 4]];
        for places in bad {
            let error = index(&mut b, &x, &places).unwrap_err();
            assert!(matches!(error.root(), Error::BadArgument { .. }), "{error}");
        }
    }
}
