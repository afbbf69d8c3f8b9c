//! `nearest_interp`, `bilinear_interp`, `trilinear_interp`, `bicubic_interp`: Out = the images of X in another size.
//!
//! The size is in SizeTensor, else in OutSize, else it follows from Scale or `scale`, else it is in `out_d`,
//! `out_h` and `out_w`. Along each dimension a pixel is a sum of 1, 2 or 4 pixels of X with weights.

use tensor::{Float, Shape};

use super::layout::channels_last;
use super::moves::for_each_place;
use super::sizes::{self, bad_attr};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::attr::Attrs;
use crate::error::Result;

const RANK: &str = "bilinear, bicubic and nearest need 4 dimensions, trilinear needs 5";

/// How pixels are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Nearest,
    Linear,
    Cubic,
}

/// The method, how many dimensions have pixels, and where the pixel of a place lies.
#[derive(Clone, Copy)]
struct Resample {
    method: Method,
    n_sizes: usize,
    last: bool,
    align_corners: bool,
    /// Centres of pixels lie at halves.
    halves: bool,
}

impl Resample {
    fn of(attrs: &Attrs) -> Result<Self> {
        let method = match attrs.str("interp_method", "bilinear")? {
            "nearest" => Method::Nearest,
            "bilinear" | "trilinear" => Method::Linear,
            "bicubic" => Method::Cubic,
            other => return Err(bad_attr("interp_method", "a known method", other)),
        };
        let is_deep = attrs.str("interp_method", "bilinear")? == "trilinear";
        let align_corners = attrs.bool("align_corners", true)?;
        let halves =
            !align_corners && (attrs.int("align_mode", 1)? == 0 || method == Method::Cubic);
        let last = channels_last(attrs, "data_layout")?;
        Ok(Self { method, n_sizes: if is_deep { 3 } else { 2 }, last, align_corners, halves })
    }

    /// The dimension of the first size.
    fn first(&self) -> usize {
        if self.last { 1 } else { 2 }
    }

    /// The sources of a pixel along one dimension: places and weights.
    fn taps(&self, size: usize, out: usize, at: usize) -> Taps {
        if size == out && self.method != Method::Cubic {
            return Taps::one(at);
        }
        let (size, out) = (size as f32, out as f32);
        let ratio = if out <= 1.0 {
            0.0
        } else if self.align_corners {
            (size - 1.0) / (out - 1.0)
        } else {
            size / out
        };
        let at = at as f32;
        let last = size as usize - 1;
        if self.method == Method::Nearest {
            let place = ratio * at + if self.align_corners { 0.5 } else { 0.0 };
            return Taps::one((place as usize).min(last));
        }
        let exact = if self.halves { ratio * (at + 0.5) - 0.5 } else { ratio * at };
        if self.method == Method::Linear {
            let exact = exact.max(0.0);
            let low = (exact as usize).min(last);
            let share = f64::from(exact - low as f32);
            let places = [low, (low + 1).min(last), 0, 0];
            return Taps { n: 2, places, weights: [1.0 - share, share, 0.0, 0.0] };
        }
        let low = exact.floor();
        let share = f64::from(exact - low);
        let place = |i: i64| (low as i64 + i).clamp(0, last as i64) as usize;
        Taps { n: 4, places: [place(-1), place(0), place(1), place(2)], weights: cubic(share) }
    }
}

/// Where a pixel comes from along one dimension.
#[derive(Clone, Copy)]
struct Taps {
    n: usize,
    places: [usize; 4],
    weights: [f64; 4],
}

impl Taps {
    fn one(place: usize) -> Self {
        Self { n: 1, places: [place, 0, 0, 0], weights: [1.0, 0.0, 0.0, 0.0] }
    }
}

/// The weights of four neighbours of a place that lies `t` behind the second.
fn cubic(t: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

/// The sizes that attributes say: -1 for what is not known yet.
fn sizes_said(attrs: &Attrs, now: &[i64]) -> Result<Vec<i64>> {
    let scale = attrs.float("scale", 0.0)?;
    if scale > 0.0 {
        let scaled = |&size: &i64| if size < 0 { -1 } else { (size as f32 * scale) as i64 };
        return Ok(now.iter().map(scaled).collect());
    }
    let names = ["out_d", "out_h", "out_w"];
    names[3 - now.len()..].iter().map(|name| attrs.int(name, 0)).collect()
}

fn infer(infer: &mut Infer<'_>) -> Result<()> {
    let (x, attrs) = (infer.input("X")?, infer.attrs());
    let it = Resample::of(attrs)?;
    if x.dims.len() != it.n_sizes + 2 {
        return Err(infer.shape(RANK, "X"));
    }
    let now = it.first()..it.first() + it.n_sizes;
    let has = |port| !infer.op().input_names(port).is_empty();
    let mut said = sizes_said(attrs, &x.dims[now.clone()])?;
    if has("OutSize") || (has("Scale") && !has("SizeTensor")) {
        said.fill(-1);
    }
    let mut dims = x.dims.clone();
    for (dim, &size) in dims[now].iter_mut().zip(&said) {
        *dim = match size {
            1.. => size,
            -1 => -1,
            _ => return Err(bad_attr("out_h", "positive sizes", &said)),
        };
    }
    infer.set_output("Out", x.with_dims(dims))
}

/// What was worked out for a run.
struct InterpPlan {
    it: Resample,
    x: Shape,
    out: Shape,
}

fn plan(run: &Run<'_>) -> Result<InterpPlan> {
    let (x, it) = (run.input("X")?.shape(), Resample::of(run.attrs())?);
    if x.rank() != it.n_sizes + 2 {
        return Err(run.shape(RANK, "X"));
    }
    let now = x.dims()[it.first()..it.first() + it.n_sizes].to_vec();
    let now_known: Vec<i64> = now.iter().map(|&size| size as i64).collect();
    let said = match (sizes::integers_at(run, "SizeTensor")?, sizes::integers_at(run, "OutSize")?) {
        (Some(said), _) | (None, Some(said)) => said,
        (None, None) if run.n_inputs("Scale") > 0 => {
            let scale = run.scalar("Scale")? as f32;
            now_known.iter().map(|&size| (size as f32 * scale) as i64).collect()
        }
        (None, None) => sizes_said(run.attrs(), &now_known)?,
    };
    if said.len() != it.n_sizes || said.iter().any(|&size| size < 1) || now.contains(&0) {
        return Err(bad_attr("out_h", "a positive size for each dimension", said));
    }
    let mut dims = x.to_i64();
    dims[it.first()..it.first() + it.n_sizes].copy_from_slice(&said);
    Ok(InterpPlan { it, x, out: Shape::from_dims(&dims)? })
}

impl InterpPlan {
    /// Calls `f(place of the result, place of the input, weight)` for all that is summed up.
    fn for_each(&self, mut f: impl FnMut(usize, usize, f64)) {
        let (first, n) = (self.it.first(), self.it.n_sizes);
        let sizes = first..first + n;
        let dims = |axis: usize| (self.x.dim(axis), self.out.dim(axis));
        let table: Vec<Vec<Taps>> = sizes
            .map(|axis| {
                let (size, out) = dims(axis);
                (0..out).map(|at| self.it.taps(size, out, at)).collect()
            })
            .collect();
        let is_same = self.x == self.out;
        for_each_place(self.out, |place, at| {
            if is_same {
                return f(place, place, 1.0);
            }
            let mut taps = [Taps::one(0); 3];
            for d in 0..n {
                taps[d] = table[d][at[first + d]];
            }
            let counts = taps.map(|taps| taps.n);
            for i in 0..counts.iter().product::<usize>() {
                let picked =
                    [i / (counts[1] * counts[2]), i / counts[2] % counts[1], i % counts[2]];
                let (mut source, mut weight) = (0, 1.0);
                for (axis, &coordinate) in at.iter().enumerate() {
                    let d = axis.checked_sub(first).filter(|&d| d < n);
                    let from = d.map_or(coordinate, |d| taps[d].places[picked[d]]);
                    weight *= d.map_or(1.0, |d| taps[d].weights[picked[d]]);
                    source = source * self.x.dim(axis) + from;
                }
                f(place, source, weight);
            }
        });
    }
}

fn run(run: &mut Run<'_>) -> Result<()> {
    run.fill("Out", "X", |run, x, out| {
        let plan = plan(run)?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (data, out) = (x.data::<T>()?, out.try_resize_zeroed::<T>(plan.out)?);
            plan.for_each(|to, from, weight| out[to] += data[from] * of::<T>(weight));
            Ok(())
        })
    })
}

fn of<T: Float>(weight: f64) -> T {
    T::of(weight)
}

fn run_grad(run: &mut Run<'_>) -> Result<()> {
    run.fill("X@GRAD", "X", |run, x, d_x| {
        let plan = plan(run)?;
        if run.input("Out@GRAD")?.shape() != plan.out {
            return Err(run.shapes("the gradient must have the result's shape", "Out@GRAD", "X"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let d_out = run.data::<T>("Out@GRAD")?;
            let d_x = d_x.resize_zeroed::<T>(x.shape());
            plan.for_each(|from, to, weight| d_x[to] += d_out[from] * of::<T>(weight));
            Ok(())
        })
    })
}

/// One set of rules under several names.
macro_rules! interp {
    ($($op:ident, $grad_op:ident;)*) => {$(
        pub(super) struct $op;
        pub(super) struct $grad_op;

        impl Op for $op {
            traits!(Rows("X"), "X": [F32, F64, U8]);

            fn infer(&self, i: &mut Infer<'_>) -> Result<()> {
                infer(i)
            }

            fn run(&self, r: &mut Run<'_>) -> Result<()> {
                run(r)
            }

            fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
                let has = |port: &&str| !grad.op().input_names(port).is_empty();
                let read: Vec<&str> =
                    ["X", "SizeTensor", "OutSize", "Scale"].into_iter().filter(has).collect();
                grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&read))
            }
        }

        impl Kernel for $grad_op {
            fn run(&self, r: &mut Run<'_>) -> Result<()> {
                run_grad(r)
            }
        }
    )*};
}

interp! {
    NearestInterp, NearestInterpGrad;
    BilinearInterp, BilinearInterpGrad;
    TrilinearInterp, TrilinearInterpGrad;
    BicubicInterp, BicubicInterpGrad;
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, some, t};

    fn interp(kind: &str) -> Check {
        let op = check(&format!("{kind}_interp")).attr("interp_method", kind);
        op.input("X", t(&[1, 1, 1, 2], &[1.0, 3.0])).attr("out_h", 1).attr("out_w", 4)
    }

    #[test]
    fn linear_in_all_alignments() {
        let third = 2.0 / 3.0;
        let corners = [1.0, 1.0 + third, 1.0 + 2.0 * third, 3.0];
        interp("bilinear").gives("Out", t(&[1, 1, 1, 4], &corners));
        let edges = interp("bilinear").attr("align_corners", false);
        edges.gives("Out", t(&[1, 1, 1, 4], &[1.0, 2.0, 3.0, 3.0]));
        let halves = interp("bilinear").attr("align_corners", false).attr("align_mode", 0);
        halves.gives("Out", t(&[1, 1, 1, 4], &[1.0, 1.5, 2.5, 3.0]));
    }

    #[test]
    fn the_nearest_pixel() {
        interp("nearest").gives("Out", t(&[1, 1, 1, 4], &[1.0, 1.0, 3.0, 3.0]));
        let last = check("nearest_interp").attr("interp_method", "nearest").attr("scale", 2.0f32);
        let last = last.input("X", t(&[1, 1, 1, 2], &[1.0, 3.0])).attr("data_layout", "NHWC");
        last.gives("Out", t(&[1, 2, 2, 2], &[1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0, 3.0]));
    }

    #[test]
    fn tensors_may_say_the_size() {
        let op = interp("nearest").input("OutSize", ids(&[2], &[1, 1]));
        op.gives("Out", t(&[1, 1, 1, 1], &[1.0]));
        let op = interp("nearest").inputs("SizeTensor", vec![ids(&[1], &[1]), ids(&[1], &[2])]);
        let op = op.attr("out_w", -1);
        op.gives("Out", t(&[1, 1, 1, 2], &[1.0, 3.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        for kind in ["bilinear", "nearest", "bicubic"] {
            for aligned in [true, false] {
                let op = check(&format!("{kind}_interp")).attr("interp_method", kind);
                let op = op.input("X", some(&[1, 2, 3, 2])).attr("out_h", 2).attr("out_w", 5);
                let op = op.attr("align_corners", aligned).attr("align_mode", 0);
                op.output("Out").grad(&["X"]);
            }
        }
        let op = check("trilinear_interp").attr("interp_method", "trilinear").attr("scale", 1.5f32);
        op.input("X", some(&[1, 1, 2, 2, 3])).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_other_ranks_and_no_size() {
        let bad = check("bilinear_interp").input("X", some(&[1, 2, 2])).attr("scale", 2.0f32);
        let error = bad.output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let error = interp("bilinear").attr("out_h", 0).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
