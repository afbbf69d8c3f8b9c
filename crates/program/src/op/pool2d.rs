//! `pool2d`: the largest or the average pixel of a sliding window, NCHW.
//!
//! Padding never counts in a maximum, and in an average only when `exclusive` is false. With
//! `global_pooling` the window is the image; with `adaptive` `ksize` is the size of the output and
//! the windows share the image out.

use std::ops::Range;

use tensor::{Float, Shape};

use super::slide::{self, Slide};
use super::{Grad, Infer, Keep, Op, Run, Traits, dims, for_float};
use crate::attr::Attrs;
use crate::error::{Error, Result};

pub(super) struct Pool2d;
pub(super) struct Pool2dGrad;

const RANK: &str = "images need 4 dimensions";
const SMALL: &str = "the window must fit into the padded image";

#[derive(Clone, Copy)]
struct Windows {
    slides: [Slide; 2],
    adaptive: bool,
    exclusive: bool,
    largest: bool,
}

impl Windows {
    fn of(attrs: &Attrs, sizes: [i64; 2]) -> Result<Self> {
        let largest = match attrs.str("pooling_type", "max")? {
            "max" => true,
            "avg" => false,
            other => return Err(slide::bad("pooling_type", "max or avg", other.to_string())),
        };
        let adaptive = attrs.bool("adaptive", false)?;
        let exclusive = attrs.bool("exclusive", true)?;
        let whole = |size: i64, out: i64| Slide {
            size,
            kernel: size,
            stride: 1,
            dilation: 1,
            before: 0,
            out: if size < 0 && out != 1 { -1 } else { out },
        };
        if attrs.bool("global_pooling", false)? {
            let slides = sizes.map(|size| whole(size, 1));
            return Ok(Self { slides, adaptive: true, exclusive, largest });
        }
        let kernels = match attrs.ints("ksize")?[..] {
            [h, w] if h > 0 && w > 0 => [h, w],
            ref other => {
                return Err(slide::bad("ksize", "two positive numbers", format!("{other:?}")));
            }
        };
        let slides = if adaptive {
            [whole(sizes[0], kernels[0]), whole(sizes[1], kernels[1])]
        } else {
            slide::slides(attrs, sizes, kernels)?
        };
        Ok(Self { slides, adaptive, exclusive, largest })
    }

    /// The pixels of window `place` along dimension `d`.
    fn range(&self, d: usize, place: usize) -> Range<usize> {
        let slide = self.slides[d];
        let (place, size) = (place as i64, slide.size);
        let (start, end) = if self.adaptive {
            (place * size / slide.out, ((place + 1) * size + slide.out - 1) / slide.out)
        } else {
            let start = place * slide.stride - slide.before;
            (start.max(0), (start + slide.kernel).min(size))
        };
        start as usize..end.max(start) as usize
    }

    /// Calls `f(place, pixels of a window in a plane)` for each window, row by row.
    fn for_each(&self, mut f: impl FnMut(usize, Window)) {
        let [h, w] = self.slides;
        for oh in 0..h.out as usize {
            for ow in 0..w.out as usize {
                let rows = self.range(0, oh);
                let window = Window { rows, columns: self.range(1, ow), width: w.size as usize };
                f(oh * w.out as usize + ow, window);
            }
        }
    }

    /// What an average is divided by.
    fn divisor(&self, window: &Window) -> f64 {
        let [h, w] = self.slides;
        let counted = window.rows.len() * window.columns.len();
        let n = if self.exclusive || self.adaptive { counted as i64 } else { h.kernel * w.kernel };
        n.max(1) as f64
    }

    fn output(&self, x: Shape) -> Shape {
        x.with_dim(2, self.slides[0].out as usize).with_dim(3, self.slides[1].out as usize)
    }
}

/// A rectangle of a plane.
struct Window {
    rows: Range<usize>,
    columns: Range<usize>,
    width: usize,
}

impl Window {
    fn pixels(&self) -> impl Iterator<Item = usize> {
        let (columns, width) = (self.columns.clone(), self.width);
        self.rows.clone().flat_map(move |row| columns.clone().map(move |c| row * width + c))
    }

    /// The first of the largest pixels.
    fn largest<T: Float>(&self, x: &[T]) -> Option<usize> {
        self.pixels().reduce(|best, at| if x[at] > x[best] { at } else { best })
    }
}

impl Op for Pool2d {
    fn name(&self) -> &'static str {
        "pool2d"
    }

    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits { knows_is_test: true, ..Traits::NONE }
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let [n, c, h, w] = x.dims[..] else { return Err(infer.shape(RANK, "X")) };
        let [h, w] = Windows::of(infer.attrs(), [h, w])?.slides;
        if h.out == 0 || w.out == 0 {
            return Err(infer.shape(SMALL, "X"));
        }
        infer.set_output("Out", x.with_dims(vec![n, c, h.out, w.out]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let windows = windows(run)?;
        let x = run.input("X")?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            pool(x.data::<T>()?, out.resize::<T>(windows.output(x.shape())), windows);
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep {
            inputs: &["X"],
            outputs: &["Out"],
            out_grads: &["Out"],
            in_grads: &["X"],
        })
    }
}

fn windows(run: &Run<'_>) -> Result<Windows> {
    let &[_, _, h, w] = run.input("X")?.dims() else { return Err(run.shape(RANK, "X")) };
    let windows = Windows::of(run.attrs(), [h as i64, w as i64])?;
    if windows.slides.iter().any(|slide| slide.out == 0 || slide.size == 0) {
        return Err(run.shape(SMALL, "X"));
    }
    Ok(windows)
}

/// Pixels of a plane before and after pooling.
fn planes(windows: &Windows) -> (usize, usize) {
    let [h, w] = windows.slides;
    ((h.size * w.size) as usize, (h.out * w.out) as usize)
}

fn pool<T: Float>(x: &[T], out: &mut [T], windows: Windows) {
    let (before, after) = planes(&windows);
    for (x, out) in x.chunks_exact(before).zip(out.chunks_exact_mut(after)) {
        windows.for_each(|place, window| {
            out[place] = if windows.largest {
                // A window of padding alone is as low as can be, as in Fluid.
                window.largest(x).map_or(<T as num_traits::Float>::min_value(), |at| x[at])
            } else {
                let sum = window.pixels().fold(T::zero(), |sum, at| sum + x[at]);
                sum / T::of(windows.divisor(&window))
            };
        });
    }
}

/// dX gets dOut at the first of the largest pixels, or spread evenly over the window.
impl Op for Pool2dGrad {
    fn name(&self) -> &'static str {
        "pool2d_grad"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        dims::run_same(run, "Out", "Out@GRAD")?;
        let windows = windows(run)?;
        let x = run.input("X")?;
        if run.input("Out")?.shape() != windows.output(x.shape()) {
            return Err(run.shapes("the output must be that of the input", "X", "Out"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let inputs = (x.data::<T>()?, run.data::<T>("Out@GRAD")?);
            pool_grad(inputs, d_x.resize_zeroed::<T>(x.shape()), windows);
            Ok::<(), Error>(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

fn pool_grad<T: Float>((x, d_out): (&[T], &[T]), d_x: &mut [T], windows: Windows) {
    let (before, after) = planes(&windows);
    let planes = x.chunks_exact(before).zip(d_out.chunks_exact(after));
    for ((x, d_out), d_x) in planes.zip(d_x.chunks_exact_mut(before)) {
        windows.for_each(|place, window| {
            if windows.largest {
                if let Some(at) = window.largest(x) {
                    d_x[at] += d_out[place];
                }
            } else {
                let share = d_out[place] / T::of(windows.divisor(&window));
                window.pixels().for_each(|at| d_x[at] += share);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{Check, check, t};

    fn pool(kind: &str) -> Check {
        let image = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        check("pool2d").input("X", t(&[1, 1, 3, 3], &image)).attr("pooling_type", kind)
    }

    fn padded(kind: &str) -> Check {
        let pool = pool(kind).attr("ksize", vec![2, 2]);
        pool.attr("strides", vec![2, 2]).attr("paddings", vec![1, 1])
    }

    #[test]
    fn takes_the_largest_or_the_average() {
        let max = pool("max").attr("ksize", vec![2, 2]);
        max.gives("Out", t(&[1, 1, 2, 2], &[5.0, 6.0, 8.0, 9.0]));
        padded("max").gives("Out", t(&[1, 1, 2, 2], &[1.0, 3.0, 7.0, 9.0]));
        padded("avg").gives("Out", t(&[1, 1, 2, 2], &[1.0, 2.5, 5.5, 7.0]));
        let inclusive = padded("avg").attr("exclusive", false);
        inclusive.gives("Out", t(&[1, 1, 2, 2], &[0.25, 1.25, 2.75, 7.0]));
    }

    #[test]
    fn ceil_mode_keeps_the_rest() {
        let pool = || pool("max").attr("ksize", vec![2, 2]).attr("strides", vec![2, 2]);
        pool().gives("Out", t(&[1, 1, 1, 1], &[5.0]));
        pool().attr("ceil_mode", true).gives("Out", t(&[1, 1, 2, 2], &[5.0, 6.0, 8.0, 9.0]));
    }

    #[test]
    fn global_and_adaptive_windows() {
        pool("avg").attr("global_pooling", true).gives("Out", t(&[1, 1, 1, 1], &[5.0]));
        let adaptive = pool("avg").attr("adaptive", true).attr("ksize", vec![2, 1]);
        adaptive.gives("Out", t(&[1, 1, 2, 1], &[3.5, 6.5]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        for kind in ["max", "avg"] {
            padded(kind).output("Out").grad(&["X"]);
            pool(kind).attr("global_pooling", true).output("Out").grad(&["X"]);
            let adaptive = pool(kind).attr("adaptive", true).attr("ksize", vec![2, 2]);
            adaptive.output("Out").grad(&["X"]);
            let ceil = pool(kind).attr("ksize", vec![2, 2]).attr("strides", vec![2, 2]);
            ceil.attr("ceil_mode", true).output("Out").grad(&["X"]);
        }
        padded("avg").attr("exclusive", false).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_unknown_kinds_and_windows_that_do_not_fit() {
        let error = pool("min").attr("ksize", vec![2, 2]).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = pool("max").attr("ksize", vec![4, 4]).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let error = pool("max").attr("ksize", vec![-1, -1]).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
