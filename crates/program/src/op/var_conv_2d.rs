//! `var_conv_2d`: a convolution of images of their own sizes. X holds for each sample `InputChannel` images, as high as its sequence of ROW and as wide as
//! that of COLUMN; Out holds `OutputChannel` of them, all numbers below each other. Windows are `KernelH` x `KernelW` around places `StrideH` and
//! `StrideW` apart, with zeros outside. Col = the windows.

use tensor::gemm::{Matrix, gemm};
use tensor::{Float, Lod, Shape};

use super::ragged;
use super::sizes::bad_attr;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::attr::Attrs;
use crate::error::Result;
use crate::var::Meta;

pub(super) struct VarConv2d;
pub(super) struct VarConv2dGrad;

const OP: &str = "VarConv2dOp";
const RULE: &str = "X has as many numbers for each sample as its channels, ROW and COLUMN say";
const FILTER: &str = "W is [OutputChannel, InputChannel x KernelH x KernelW]";

/// What the attributes say.
#[derive(Clone, Copy)]
struct ConvRules {
    n_in: usize,
    n_out: usize,
    kernel: [usize; 2],
    stride: [usize; 2],
}

impl ConvRules {
    fn of(attrs: &Attrs) -> Result<Self> {
        let size = |name: &str| {
            let n = attrs.int(name, 1)?;
            let fits = usize::try_from(n).ok().filter(|&n| (1..=1 << 16).contains(&n));
            fits.ok_or_else(|| bad_attr(name, "positive", n))
        };
        Ok(Self {
            n_in: size("InputChannel")?,
            n_out: size("OutputChannel")?,
            kernel: [size("KernelH")?, size("KernelW")?],
            stride: [size("StrideH")?, size("StrideW")?],
        })
    }

    /// Numbers in a window.
    fn window(&self) -> usize {
        self.n_in * self.kernel[0] * self.kernel[1]
    }
}

/// One sample.
#[derive(Clone, Copy)]
struct SizedImage {
    /// Its first number in X.
    start: usize,
    height: usize,
    width: usize,
    /// Windows of the samples before.
    windows_before: usize,
    down: usize,
    across: usize,
}

impl SizedImage {
    fn n_windows(&self) -> usize {
        self.down * self.across
    }
}

/// All samples of a run.
struct ConvBatch {
    rules: ConvRules,
    images: Vec<SizedImage>,
    n_windows: usize,
}

impl ConvBatch {
    fn of(run: &Run<'_>) -> Result<Self> {
        let rules = ConvRules::of(run.attrs())?;
        if run.input("W")?.dims() != [rules.n_out, rules.window()] {
            return Err(run.shape(FILTER, "W"));
        }
        let x = ragged::offsets(run, OP, "X")?;
        let (rows, columns) =
            (ragged::offsets(run, OP, "ROW")?, ragged::offsets(run, OP, "COLUMN")?);
        if x.len() != rows.len() || x.len() != columns.len() || ragged::width(run.input("X")?) != 1
        {
            return Err(run.shapes(RULE, "X", "ROW"));
        }
        let (mut images, mut n_windows) = (Vec::new(), 0usize);
        for at in 0..x.len() - 1 {
            let (height, width) = (rows[at + 1] - rows[at], columns[at + 1] - columns[at]);
            if x[at + 1] - x[at] != rules.n_in * height * width {
                return Err(run.shapes(RULE, "X", "ROW"));
            }
            let (down, across) =
                (height.div_ceil(rules.stride[0]), width.div_ceil(rules.stride[1]));
            let image =
                SizedImage { start: x[at], height, width, windows_before: n_windows, down, across };
            n_windows += image.n_windows();
            images.push(image);
        }
        Ok(Self { rules, images, n_windows })
    }

    /// Calls with each number of Col and its place in X, if it has one.
    fn each(&self, mut call: impl FnMut(usize, Option<usize>)) {
        let ConvRules { kernel, stride, .. } = self.rules;
        for image in &self.images {
            let n = image.n_windows();
            for k in 0..self.rules.window() {
                let (channel, k) = (k / (kernel[0] * kernel[1]), k % (kernel[0] * kernel[1]));
                let row = (channel * kernel[0] * kernel[1] + k) * n;
                for window in 0..n {
                    let place = |at: usize, side: usize, within: usize, size: usize| {
                        (at * stride[side] + within)
                            .checked_sub(kernel[side] / 2)
                            .filter(|&at| at < size)
                    };
                    let y = place(window / image.across, 0, k / kernel[1], image.height);
                    let x = place(window % image.across, 1, k % kernel[1], image.width);
                    let to = image.windows_before * self.rules.window() + row + window;
                    let from = y
                        .zip(x)
                        .map(|(y, x)| image.start + (channel * image.height + y) * image.width + x);
                    call(to, from);
                }
            }
        }
    }

    fn col_shape(&self) -> Shape {
        Shape::from([self.n_windows.saturating_mul(self.rules.window()), 1])
    }
}

impl Op for VarConv2d {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        ConvRules::of(infer.attrs())?;
        if infer.input("W")?.dims.len() != 2 {
            return Err(infer.shape(FILTER, "W"));
        }
        infer.set_output("Col", Meta::dense(x.dtype, &[-1, 1]))?;
        infer.set_output("Out", x.with_dims(vec![-1, 1]).with_lod_level(1))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut out, mut col) = (run.take("Out"), run.take("Col"));
        let batch = ConvBatch::of(run)?;
        let x = run.input("X")?;
        let (window, n_out) = (batch.rules.window(), batch.rules.n_out);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (data, col) = (x.data::<T>()?, col.try_resize::<T>(batch.col_shape())?);
            batch.each(|to, from| col[to] = from.map_or(0.0, |from| data[from]));
            let out = out.try_resize::<T>(Shape::from([batch.n_windows * n_out, 1]))?;
            let filter = Matrix::new(run.data::<T>("W")?, n_out, window);
            for image in &batch.images {
                let (n, before) = (image.n_windows(), image.windows_before);
                let windows = Matrix::new(&col[before * window..][..n * window], window, n);
                gemm(1.0, filter, windows, 0.0, &mut out[before * n_out..][..n * n_out]);
            }
            Ok(())
        })?;
        out.set_lod(Lod::from_lengths(batch.images.iter().map(|image| image.n_windows() * n_out)));
        col.set_lod(Lod::from_lengths(batch.images.iter().map(|image| image.n_windows() * window)));
        run.put("Out", out);
        run.put("Col", col);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let keep = Keep::grads(&["Out"], &["X", "W"]).inputs(&["X", "ROW", "COLUMN", "W"]);
        grad.emit_usual(keep.outputs(&["Col"]))
    }
}

impl Kernel for VarConv2dGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_w) = (run.take("X@GRAD"), run.take("W@GRAD"));
        let mut d_col = run.spare().tensor();
        let batch = ConvBatch::of(run)?;
        let x = run.input("X")?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let d_w = d_w.resize_zeroed::<T>(run.input("W")?.shape());
            let d_col = d_col.resize::<T>(batch.col_shape());
            windows_grad(run, &batch, d_col, d_w)?;
            let d_x = d_x.resize_zeroed::<T>(x.shape());
            batch.each(|to, from| {
                if let Some(from) = from {
                    d_x[from] += d_col[to];
                }
            });
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        run.put("W@GRAD", d_w);
        run.spare().keep(d_col);
        Ok(())
    }
}

fn windows_grad<T: Float>(
    run: &Run<'_>,
    batch: &ConvBatch,
    d_col: &mut [T],
    d_w: &mut [T],
) -> Result<()> {
    let (window, n_out) = (batch.rules.window(), batch.rules.n_out);
    let col = ragged::data_of_len::<T>(run, "Col", d_col.len())?;
    let d_out = ragged::data_of_len::<T>(run, "Out@GRAD", batch.n_windows * n_out)?;
    let filter = Matrix::new(run.data::<T>("W")?, n_out, window);
    for image in &batch.images {
        let (n, before) = (image.n_windows(), image.windows_before);
        let part = before * window..(before + n) * window;
        let d_out = Matrix::new(&d_out[before * n_out..][..n * n_out], n_out, n);
        gemm(T::one(), filter.t(), d_out, T::zero(), &mut d_col[part.clone()]);
        gemm(T::one(), d_out, Matrix::new(&col[part], window, n).t(), T::one(), d_w);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, seq, some, t};

    fn conv() -> Check {
        check("var_conv_2d")
            .input("X", seq(some(&[2 * 6 + 2 * 2, 1]), &[12, 4]))
            .input("ROW", seq(some(&[3, 1]), &[2, 1]))
            .input("COLUMN", seq(some(&[5, 1]), &[3, 2]))
            .input("W", some(&[2, 2 * 2 * 3]))
            .attr("InputChannel", 2)
            .attr("OutputChannel", 2)
            .attr("KernelH", 2)
            .attr("KernelW", 3)
            .attr("StrideH", 1)
            .attr("StrideW", 2)
    }

    #[test]
    fn sums_windows_of_each_image() {
        check("var_conv_2d")
            .input("X", seq(t(&[4, 1], &[1.0, 2.0, 3.0, 4.0]), &[4]))
            .input("ROW", seq(some(&[2, 1]), &[2]))
            .input("COLUMN", seq(some(&[2, 1]), &[2]))
            .input("W", t(&[1, 9], &[1.0; 9]))
            .attr("KernelH", 3)
            .attr("KernelW", 3)
            .output("Col")
            .gives("Out", seq(t(&[4, 1], &[10.0; 4]), &[4]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        conv().output("Out").aux("Col").grad(&["X", "W"]);
    }

    #[test]
    fn refuses_sizes_that_do_not_fit() {
        let error = conv().attr("InputChannel", 1).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let error = conv().attr("StrideH", 0).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
