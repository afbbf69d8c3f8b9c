//! `im2sequence`: Out = the windows of each image (`kernels` high and wide, `strides` apart, over `paddings` zeros: above, left, below, right),
//! one row per window with its channels behind each other; an image is a sequence of windows.
//!
//! Y, a height and a width for each image, limits them to that size divided by `out_stride`, if there are several.

use tensor::{Lod, Shape};

use super::sizes::bad_attr;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Im2sequence;
pub(super) struct Im2sequenceGrad;

const RANK: &str = "X has four dimensions";
const SIZES: &str = "Y has a height and a width for each image";

/// What the attributes say, height first.
struct Windows {
    kernels: [usize; 2],
    strides: [usize; 2],
    paddings: [usize; 4],
    out_stride: [usize; 2],
}

fn list<const N: usize>(attrs: &Attrs, name: &str, least: i64, usual: i64) -> Result<[usize; N]> {
    let given = attrs.ints(name)?;
    let given = if given.is_empty() { vec![usual; N] } else { given };
    let fits = given.len() == N && given.iter().all(|n| (least..=1 << 20).contains(n));
    if !fits {
        return Err(bad_attr(name, &format!("{N} numbers of {least} or more"), given));
    }
    Ok(std::array::from_fn(|at| given[at] as usize))
}

impl Windows {
    fn of(attrs: &Attrs) -> Result<Self> {
        Ok(Self {
            kernels: list(attrs, "kernels", 1, 0)?,
            strides: list(attrs, "strides", 1, 1)?,
            paddings: list(attrs, "paddings", 0, 0)?,
            out_stride: list(attrs, "out_stride", 1, 1)?,
        })
    }

    /// How many windows there are in a size, for height (0) or width (1).
    fn count(&self, side: usize, size: usize) -> Option<usize> {
        let padded = size + self.paddings[side] + self.paddings[side + 2];
        Some(padded.checked_sub(self.kernels[side])? / self.strides[side] + 1)
    }
}

/// The windows of a batch.
struct WindowBatch {
    windows: Windows,
    n_channels: usize,
    /// Height and width of the images.
    size: [usize; 2],
    /// Windows down and across, of each image.
    counts: Vec<[usize; 2]>,
}

impl WindowBatch {
    fn of(run: &Run<'_>) -> Result<Self> {
        let windows = Windows::of(run.attrs())?;
        let &[n, n_channels, height, width] = run.input("X")?.dims() else {
            return Err(run.shape(RANK, "X"));
        };
        let real = run.opt_input("Y").filter(|_| n > 1);
        if real.is_some_and(|real| real.len() != 2 * n) {
            return Err(run.shapes(SIZES, "X", "Y"));
        }
        let small = || run.shape("a window is no larger than the image", "X");
        let count = |image: usize| {
            let size = |side: usize, whole: usize| match real {
                Some(real) => (real.get_f64(2 * image + side).max(0.0) as usize)
                    .div_ceil(windows.out_stride[side]),
                None => whole,
            };
            let down = windows.count(0, size(0, height));
            Ok([down.ok_or_else(small)?, windows.count(1, size(1, width)).ok_or_else(small)?])
        };
        let counts = (0..n).map(count).collect::<Result<_>>()?;
        Ok(Self { windows, n_channels, size: [height, width], counts })
    }

    fn row_width(&self) -> usize {
        self.n_channels * self.windows.kernels[0] * self.windows.kernels[1]
    }

    fn n_rows(&self) -> usize {
        self.counts.iter().map(|[down, across]| down.saturating_mul(*across)).sum()
    }

    /// Calls with each number of the result and its place in X, if it has one.
    fn each(&self, mut call: impl FnMut(usize, Option<usize>)) {
        let ([height, width], Windows { kernels, strides, paddings, .. }) =
            (self.size, &self.windows);
        let mut to = 0;
        for (image, &[down, across]) in self.counts.iter().enumerate() {
            for window in 0..down * across {
                let top = window / across * strides[0];
                let left = window % across * strides[1];
                for k in 0..self.row_width() {
                    let area = kernels[0] * kernels[1];
                    let (channel, k) = (k / area, k % area);
                    let y = (top + k / kernels[1]).checked_sub(paddings[0]).filter(|&y| y < height);
                    let x = (left + k % kernels[1]).checked_sub(paddings[1]).filter(|&x| x < width);
                    let plane = (image * self.n_channels + channel) * height * width;
                    call(to, y.zip(x).map(|(y, x)| plane + y * width + x));
                    to += 1;
                }
            }
        }
    }
}

impl Op for Im2sequence {
    traits!(Rows("X"), "X": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let [_, n_channels, _, _] = *x.dims else { return Err(infer.shape(RANK, "X")) };
        let Windows { kernels, .. } = Windows::of(infer.attrs())?;
        let width = if n_channels < 0 { -1 } else { n_channels * (kernels[0] * kernels[1]) as i64 };
        infer.set_output("Out", x.with_dims(vec![-1, width]).with_lod_level(1))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.make("Out", |run, out| {
            let batch = WindowBatch::of(run)?;
            let x = run.input("X")?;
            let shape = Shape::from([batch.n_rows(), batch.row_width()]);
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (data, out) = (x.data::<T>()?, out.try_resize::<T>(shape)?);
                batch.each(|to, from| out[to] = from.map_or(0.0, |from| data[from]));
                Ok(())
            })?;
            out.set_lod(Lod::from_lengths(batch.counts.iter().map(|[down, across]| down * across)));
            Ok(())
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X", "Y"]))
    }
}

impl Kernel for Im2sequenceGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.fill("X@GRAD", "X", |run, x, d_x| {
            let batch = WindowBatch::of(run)?;
            let d_out = run.input("Out@GRAD")?;
            if d_out.shape() != Shape::from([batch.n_rows(), batch.row_width()]) {
                return Err(run.shapes("the result has another shape", "Out@GRAD", "X"));
            }
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (d_x, d_out) = (d_x.resize_zeroed::<T>(x.shape()), d_out.data::<T>()?);
                batch.each(|to, from| {
                    if let Some(from) = from {
                        d_x[from] += d_out[to];
                    }
                });
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, seq, some, t};

    fn windows(x: tensor::Tensor) -> Check {
        check("im2sequence").input("X", x).attr("kernels", vec![2, 2])
    }

    #[test]
    fn lists_windows() {
        let x = t(&[1, 1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        windows(x.clone())
            .gives("Out", seq(t(&[2, 4], &[1.0, 2.0, 4.0, 5.0, 2.0, 3.0, 5.0, 6.0]), &[2]));
        windows(x).attr("strides", vec![2, 2]).attr("paddings", vec![1, 1, 1, 0]).gives(
            "Out",
            seq(
                t(
                    &[4, 4],
                    &[
                        0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 3.0, 0.0, 4.0, 0.0, 0.0, 5.0, 6.0, 0.0,
                        0.0,
                    ],
                ),
                &[4],
            ),
        );
    }

    #[test]
    fn images_may_have_their_own_size() {
        let out = windows(some(&[2, 1, 3, 3]))
            .input("Y", t(&[2, 2], &[3.0, 3.0, 2.0, 2.0]))
            .output("Out")
            .run("Out");
        assert_eq!(out.tensor().unwrap().lod().lengths(), [[4, 1]]);
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let check = windows(some(&[2, 2, 3, 3])).attr("paddings", vec![1, 0, 0, 1]);
        check.output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_windows_larger_than_the_image() {
        let error = windows(some(&[1, 1, 1, 3])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let error = windows(some(&[1, 1, 2, 2])).attr("strides", vec![0, 1]).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
