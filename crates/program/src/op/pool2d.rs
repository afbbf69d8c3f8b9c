//! `pool2d`: the largest or the average pixel of a sliding window, NCHW or NHWC.
//!
//! Padding never counts in a maximum, and in an average only when `exclusive` is false. With
//! `global_pooling` the window is the image; with `adaptive` `ksize` is the size of the output and
//! the windows share the image out.

use std::ops::Range;

use tensor::{Float, Shape};

use super::layout::{ImageLayout, Plane};
use super::slide::{self, Slide};
use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};

pub(super) struct Pool2d;
pub(super) struct Pool2dGrad;

const RANK: &str = "images need 4 dimensions";
const SMALL: &str = "the window must fit into the padded image";

#[derive(Clone, Copy)]
struct Windows {
    layout: ImageLayout,
    slides: [Slide; 2],
    adaptive: bool,
    exclusive: bool,
    largest: bool,
}

impl Windows {
    /// How the windows of these attributes lie in images of these dimensions.
    fn of(attrs: &Attrs, dims: [i64; 4]) -> Result<Self> {
        let layout = ImageLayout::of(attrs)?;
        let [_, _, height, width] = layout.nchw(dims);
        let sizes = [height, width];
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
            after: 0,
            out: if size < 0 && out != 1 { -1 } else { out },
        };
        if attrs.bool("global_pooling", false)? {
            let slides = sizes.map(|size| whole(size, 1));
            return Ok(Self { layout, slides, adaptive: true, exclusive, largest });
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
        Ok(Self { layout, slides, adaptive, exclusive, largest })
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

    /// The divisor of an average.
    fn divisor(&self, window: &Window) -> f64 {
        let [h, w] = self.slides;
        let counted = window.rows.len() * window.columns.len();
        let n = if self.exclusive || self.adaptive { counted as i64 } else { h.kernel * w.kernel };
        n.max(1) as f64
    }

    fn output(&self, x: Shape) -> Shape {
        let height = self.layout.height_axis();
        let [h, w] = self.slides;
        x.with_dim(height, h.out as usize).with_dim(height + 1, w.out as usize)
    }

    /// Calls `f` with each channel of each image, before and after pooling.
    fn for_each_plane(&self, x: Shape, mut f: impl FnMut(Plane, Plane)) {
        let dims = [x.dim(0), x.dim(1), x.dim(2), x.dim(3)];
        let [n_images, n_channels, ..] = self.layout.nchw(dims);
        let [h, w] = self.slides;
        let (before, after) = ((h.size * w.size) as usize, (h.out * w.out) as usize);
        for channel in 0..n_images * n_channels {
            let plane = |pixels| self.layout.plane(channel, n_channels, pixels);
            f(plane(before), plane(after));
        }
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

    /// The place of the first of the largest pixels.
    fn largest<T: Float>(&self, x: &[T], plane: Plane) -> Option<usize> {
        let places = self.pixels().map(|pixel| plane.at(pixel));
        places.reduce(|best, at| if x[at] > x[best] { at } else { best })
    }
}

impl Op for Pool2d {
    traits!(Rows("X"), "X": [F16, F32, F64, I32, I64]; knows_is_test);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let Ok(dims) = <[i64; 4]>::try_from(&x.dims[..]) else {
            return Err(infer.shape(RANK, "X"));
        };
        let windows = Windows::of(infer.attrs(), dims)?;
        let [h, w] = windows.slides;
        if h.out == 0 || w.out == 0 {
            return Err(infer.shape(SMALL, "X"));
        }
        let [n, c, ..] = windows.layout.nchw(dims);
        let out = windows.layout.dims([n, c, h.out, w.out]);
        infer.set_output("Out", x.with_dims(out.to_vec()))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let windows = windows(run)?;
        run.fill("Out", "X", |run, x, out| {
            for_float!(x.dtype(), run.input_name("X"), T => {
                let out = out.try_resize::<T>(windows.output(x.shape()))?;
                pool(x.data::<T>()?, x.shape(), out, windows);
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]).outputs(&["Out"]))
    }
}

fn windows(run: &Run<'_>) -> Result<Windows> {
    let &[a, b, c, d] = run.input("X")?.dims() else { return Err(run.shape(RANK, "X")) };
    let windows = Windows::of(run.attrs(), [a, b, c, d].map(|size| size as i64))?;
    if windows.slides.iter().any(|slide| slide.out == 0 || slide.size == 0) {
        return Err(run.shape(SMALL, "X"));
    }
    Ok(windows)
}

fn pool<T: Float>(x: &[T], shape: Shape, out: &mut [T], windows: Windows) {
    windows.for_each_plane(shape, |before, after| {
        windows.for_each(|place, window| {
            out[after.at(place)] = if windows.largest {
                // A window of padding alone is as low as can be, as in Fluid.
                let largest = window.largest(x, before);
                largest.map_or(<T as num_traits::Float>::min_value(), |at| x[at])
            } else {
                let sum = window.pixels().fold(T::zero(), |sum, at| sum + x[before.at(at)]);
                sum / T::of(windows.divisor(&window))
            };
        });
    });
}

/// dX gets dOut at the first of the largest pixels, or spread evenly over the window.
impl Kernel for Pool2dGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        dims::run_same(run, "Out", "Out@GRAD")?;
        let windows = windows(run)?;
        let x = run.input("X")?;
        if run.input("Out")?.shape() != windows.output(x.shape()) {
            return Err(run.shapes("the output must be that of the input", "X", "Out"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (data, d_out) = (x.data::<T>()?, run.data::<T>("Out@GRAD")?);
            let d_x = d_x.resize_zeroed::<T>(x.shape());
            pool_grad(data, x.shape(), d_out, d_x, windows);
            Ok::<(), Error>(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

fn pool_grad<T: Float>(x: &[T], shape: Shape, d_out: &[T], d_x: &mut [T], windows: Windows) {
    windows.for_each_plane(shape, |before, after| {
        windows.for_each(|place, window| {
            let d_out = d_out[after.at(place)];
            if windows.largest {
                if let Some(at) = window.largest(x, before) {
                    d_x[at] += d_out;
                }
            } else {
                let share = d_out / T::of(windows.divisor(&window));
                window.pixels().for_each(|at| d_x[before.at(at)] += share);
            }
        });
    });
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

    /// Two images of two channels, the second a hundred times the first.
    fn channels_last(kind: &str) -> Check {
        let pixels = (1..=9).chain(11..=19).map(f64::from);
        let image: Vec<f64> = pixels.flat_map(|x| [x, 100.0 * x]).collect();
        check("pool2d")
            .input("X", t(&[2, 3, 3, 2], &image))
            .attr("pooling_type", kind)
            .attr("data_format", "NHWC")
    }

    #[test]
    fn channels_may_come_last() {
        let out = |dims: &[usize], pixels: &[f64]| {
            t(dims, &pixels.iter().flat_map(|&x| [x, 100.0 * x]).collect::<Vec<_>>())
        };
        let whole = channels_last("avg").attr("global_pooling", true);
        whole.gives("Out", out(&[2, 1, 1, 2], &[5.0, 15.0]));
        let asymmetric = channels_last("max").attr("ksize", vec![2, 2]);
        let asymmetric = asymmetric.attr("strides", vec![2, 3]).attr("paddings", vec![1, 0, 0, 0]);
        asymmetric.gives("Out", out(&[2, 2, 1, 2], &[2.0, 8.0, 12.0, 18.0]));
        let adaptive = channels_last("avg").attr("adaptive", true).attr("ksize", vec![2, 1]);
        adaptive.gives("Out", out(&[2, 2, 1, 2], &[3.5, 6.5, 13.5, 16.5]));
        for kind in ["max", "avg"] {
            let same = channels_last(kind).attr("ksize", vec![2, 2]).attr("strides", vec![2, 1]);
            same.attr("padding_algorithm", "SAME").output("Out").grad(&["X"]);
            let whole = channels_last(kind).attr("global_pooling", true);
            whole.output("Out").grad(&["X"]);
        }
    }

    /// The results of Fluid 1.8.5: a window that misses by less than a stride has one place.
    #[test]
    fn a_window_may_reach_over_the_edge() {
        let small = |kind: &str| {
            check("pool2d")
                .input("X", t(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]))
                .attr("pooling_type", kind)
                .attr("ksize", vec![3, 3])
                .attr("strides", vec![2, 2])
        };
        small("max").gives("Out", t(&[1, 1, 1, 1], &[4.0]));
        small("avg").gives("Out", t(&[1, 1, 1, 1], &[2.5]));
        let inclusive = small("avg").attr("exclusive", false);
        inclusive.gives("Out", t(&[1, 1, 1, 1], &[10.0 / 9.0]));
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
