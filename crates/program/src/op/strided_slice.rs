//! `strided_slice`: Out = every `strides`-th place of Input from `starts` to before `ends` along `axes`.
//!
//! Negative places count from the end, but for -1 as the end of a negative stride, which is the place
//! before the first. A negative stride takes the places that the positive one takes from the lower end,
//! as Fluid does, and turns their order around. Gradient: dOut in its places, zeros elsewhere.

use tensor::Shape;

use super::moves::{Moves, moves};
use super::sizes::{self, bad_attr};
use super::{Infer, Run};
use crate::attr::Attrs;
use crate::error::Result;

moves! { StridedSlice, StridedSliceGrad: "Input" -> "Out",
    reads ["Input", "StartsTensor", "StartsTensorList", "EndsTensor", "EndsTensorList",
        "StridesTensor", "StridesTensorList"];
    traits(When(|op| op.axes_are_inner("Input", "axes") && op.only_rows("Input")),
        "Input": [F32, F64, I32, I64]);
    infer; plan
}

/// What is taken of a dimension.
#[derive(Clone, Copy, Debug)]
struct Stride {
    /// The place of the first number.
    start: usize,
    /// How far the next one is, back if it is negative.
    step: i64,
    len: usize,
}

impl Stride {
    /// The place of the `i`-th number.
    fn at(&self, i: usize) -> usize {
        (self.start as i64 + i as i64 * self.step) as usize
    }

    /// The places from `start` to `end` by `step` in a dimension of this size.
    fn new(size: i64, [start, end, step]: [i64; 3], is_place: bool) -> Result<Self> {
        if step == 0 {
            return Err(bad_attr("strides", "other than 0", step));
        }
        let from_front = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
        let mut first = from_front(start);
        let mut last = if end == -1 && step < 0 { -1 } else { from_front(end) };
        if is_place && start == -1 && end == 0 {
            last = if step < 0 { first - 1 } else { first + 1 };
        }
        if step < 0 {
            (first, last) = (first.saturating_add(1), last.saturating_add(1));
        }
        if (step > 0 && first >= last) || (step < 0 && first <= last) {
            let expected = format!("beyond the start, {start}, in a dimension of {size}");
            return Err(bad_attr("ends", &expected, end));
        }
        let (left, right) = (first.min(last).max(0), first.max(last).min(size));
        let apart = step.saturating_abs();
        let len = (right - left).max(0).saturating_add(apart - 1) / apart;
        let start = if step > 0 { left } else { left + (len - 1).max(0) * apart };
        let step = if len > 1 { step } else { 1 };
        Ok(Self { start: start.max(0) as usize, step, len: len as usize })
    }
}

fn dropped(attrs: &Attrs, rank: usize) -> Result<Vec<usize>> {
    let axes = attrs.ints("decrease_axis")?;
    axes.iter().map(|&axis| sizes::axis("decrease_axis", axis, rank)).collect()
}

/// The sizes that stay; [1] if none does.
fn kept<T: Copy>(dims: &[T], dropped: &[usize], one: T) -> Vec<T> {
    let kept = dims.iter().enumerate().filter(|(axis, _)| !dropped.contains(axis));
    let kept: Vec<T> = kept.map(|(_, &dim)| dim).collect();
    if kept.is_empty() { vec![one] } else { kept }
}

const PORTS: [[&str; 3]; 3] = [
    ["starts", "StartsTensor", "StartsTensorList"],
    ["ends", "EndsTensor", "EndsTensorList"],
    ["strides", "StridesTensor", "StridesTensorList"],
];

fn infer(infer: &mut Infer<'_>) -> Result<()> {
    let input = infer.input("Input")?;
    let attrs = infer.attrs();
    let (axes, mut dims) = (attrs.ints("axes")?, input.dims.clone());
    let dropped = dropped(attrs, dims.len())?;
    let flags = attrs.ints("infer_flags")?;
    let whole = PORTS.iter().any(|[_, whole, _]| !infer.op().input_names(whole).is_empty());
    let lists = PORTS.iter().any(|[_, _, list]| !infer.op().input_names(list).is_empty());
    let said = [attrs.ints("starts")?, attrs.ints("ends")?, attrs.ints("strides")?];
    if !whole && said.iter().any(|said| said.len() != axes.len()) {
        return Err(bad_attr("starts", "a start, an end and a stride for each axis", said));
    }
    for (i, &axis) in axes.iter().enumerate() {
        let axis = sizes::axis("axes", axis, dims.len())?;
        let is_known = !whole && (!lists || flags.get(i) == Some(&1));
        dims[axis] = match dims[axis] {
            _ if dropped.contains(&axis) => 1,
            _ if !is_known => -1,
            size @ 0.. => {
                Stride::new(size, [said[0][i], said[1][i], said[2][i]], false)?.len as i64
            }
            unknown => unknown,
        };
    }
    let dims = kept(&dims, &dropped, 1);
    infer.set_output("Out", input.with_dims(dims).with_lod_level(0))
}

struct StridePlan {
    input: Shape,
    out: Shape,
    taken: Vec<Stride>,
    /// Where each dimension of the input is in the result.
    places: Vec<Option<usize>>,
}

fn plan(run: &Run<'_>) -> Result<StridePlan> {
    let (attrs, input) = (run.attrs(), run.input("Input")?.shape());
    let axes = attrs.ints("axes")?;
    let mut said = [vec![], vec![], vec![]];
    for (said, [attr, whole, list]) in said.iter_mut().zip(PORTS) {
        *said = match (sizes::integers_at(run, whole)?, sizes::integers_at(run, list)?) {
            (Some(all), _) | (None, Some(all)) => all,
            (None, None) => attrs.ints(attr)?,
        };
        if said.len() != axes.len() {
            return Err(bad_attr(attr, "one for each axis", said));
        }
    }
    let dropped = dropped(attrs, input.rank())?;
    let whole = |&size: &usize| Stride { start: 0, step: 1, len: size };
    let mut taken: Vec<Stride> = input.dims().iter().map(whole).collect();
    for (i, &axis) in axes.iter().enumerate() {
        let axis = sizes::axis("axes", axis, input.rank())?;
        let said = [said[0][i], said[1][i], said[2][i]];
        taken[axis] = Stride::new(input.dim(axis) as i64, said, dropped.contains(&axis))?;
    }
    if let Some(axis) = dropped.iter().find(|&&axis| taken[axis].len != 1) {
        return Err(bad_attr("decrease_axis", "dimensions that are cut to 1", axis));
    }
    let lens: Vec<usize> = taken.iter().map(|stride| stride.len).collect();
    let out = Shape::new(&kept(&lens, &dropped, 1));
    let mut next = 0;
    let place = |axis: usize| {
        let stays = !dropped.contains(&axis);
        next += usize::from(stays);
        stays.then(|| next - 1)
    };
    let places = (0..input.rank()).map(place).collect();
    Ok(StridePlan { input, out, taken, places })
}

impl Moves for StridePlan {
    fn shape(&self) -> Shape {
        self.out
    }

    fn source(&self, at: &[usize]) -> Option<usize> {
        let axes = self.taken.iter().zip(&self.places).enumerate();
        Some(axes.fold(0, |place, (axis, (taken, out))| {
            place * self.input.dim(axis) + taken.at(out.map_or(0, |out| at[out]))
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, some, t};

    fn slice(start: i32, end: i32, stride: i32) -> Check {
        check("strided_slice")
            .input("Input", t(&[5], &[0.0, 1.0, 2.0, 3.0, 4.0]))
            .attr("axes", vec![0])
            .attr("starts", vec![start])
            .attr("ends", vec![end])
            .attr("strides", vec![stride])
    }

    /// What Fluid 1.8.5 gives.
    #[test]
    fn takes_fluids_places() {
        for (start, end, stride, out) in [
            (4, 0, -2, &[3.0, 1.0][..]),
            (4, -1, -2, &[4.0, 2.0, 0.0]),
            (-1, -6, -1, &[4.0, 3.0, 2.0, 1.0, 0.0]),
            (0, 5, 2, &[0.0, 2.0, 4.0]),
            (10, 0, -1, &[4.0, 3.0, 2.0, 1.0]),
            (1, -1, 2, &[1.0, 3.0]),
            (-2, -1, -1, &[3.0, 2.0, 1.0, 0.0]),
        ] {
            slice(start, end, stride).gives("Out", t(&[out.len()], out));
        }
    }

    fn wide() -> Check {
        check("strided_slice")
            .input("Input", some(&[3, 4, 5]))
            .attr("axes", vec![0, 2])
            .attr("starts", vec![1, -1])
            .attr("ends", vec![2, 0])
            .attr("strides", vec![1, -2])
            .attr("decrease_axis", vec![0])
    }

    #[test]
    fn drops_dimensions_and_has_a_gradient() {
        assert_eq!(wide().output("Out").inferred("Out").dims, [4, 2]);
        wide().output("Out").grad(&["Input"]);
    }

    #[test]
    fn tensors_may_say_where() {
        let op = slice(0, 1, 1).input("StartsTensor", ids(&[1], &[1]));
        let op = op.input("EndsTensor", ids(&[1], &[5])).input("StridesTensor", ids(&[1], &[3]));
        op.gives("Out", t(&[2], &[1.0, 4.0]));
    }

    #[test]
    fn refuses_empty_cuts_and_a_stride_of_0() {
        let axis = slice(0, 1, 1).attr("axes", vec![1]);
        for bad in [slice(0, 4, 0), slice(3, 1, 1), slice(1, 3, -1), axis] {
            let error = bad.output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
    }
}
