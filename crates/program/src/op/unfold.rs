//! `unfold`: Y = of each image the numbers under a sliding window, a column for each place: [images, channels x
//! taps, places]. `paddings` are those above, left, below and right.

use tensor::Shape;

use super::moves::{Moves, moves};
use super::sizes::bad_attr;
use super::{Infer, Run};
use crate::attr::Attrs;
use crate::error::Result;

moves! { Unfold, UnfoldGrad: "X" -> "Y", reads ["X"];
    traits(Rows("X"), "X": [F32, F64]); infer; plan
}

const RANK: &str = "images need 4 dimensions";

/// A window that slides along one dimension.
#[derive(Clone, Copy)]
struct Along {
    size: i64,
    kernel: i64,
    stride: i64,
    dilation: i64,
    before: i64,
    places: i64,
}

fn along(attrs: &Attrs, sizes: [i64; 2]) -> Result<[Along; 2]> {
    let pair = |attr: &str| match attrs.ints(attr)?[..] {
        [h, w] if h > 0 && w > 0 => Ok([h, w]),
        ref other => Err(bad_attr(attr, "two positive numbers", other)),
    };
    let (kernels, strides) = (pair("kernel_sizes")?, pair("strides")?);
    let dilations = pair("dilations")?;
    let paddings = attrs.ints("paddings")?;
    let [above, left, below, right] = match <[i64; 4]>::try_from(&paddings[..]) {
        Ok(four) if four.iter().all(|&padding| padding >= 0) => four,
        _ => return Err(bad_attr("paddings", "four numbers, none below 0", paddings)),
    };
    let make = |d: usize, before: i64, after: i64| {
        let (size, kernel) = (sizes[d], kernels[d]);
        let (stride, dilation) = (strides[d], dilations[d]);
        let taps = dilation.saturating_mul(kernel - 1).saturating_add(1);
        let free = size.saturating_add(before).saturating_add(after).saturating_sub(taps);
        let places = match size {
            ..0 => -1,
            _ if free < 0 => {
                return Err(bad_attr("kernel_sizes", "within the padded image", kernel));
            }
            _ => free / stride + 1,
        };
        Ok(Along { size, kernel, stride, dilation, before, places })
    };
    Ok([make(0, above, below)?, make(1, left, right)?])
}

fn infer(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input("X")?;
    let &[n, c, h, w] = &x.dims[..] else { return Err(infer.shape(RANK, "X")) };
    let [rows, columns] = along(infer.attrs(), [h, w])?;
    let known = |a: i64, b: i64| if a < 0 || b < 0 { -1 } else { a.saturating_mul(b) };
    let taps = known(c, rows.kernel.saturating_mul(columns.kernel));
    let dims = vec![n, taps, known(rows.places, columns.places)];
    infer.set_output("Y", x.with_dims(dims))
}

struct UnfoldPlan {
    channels: usize,
    rows: Along,
    columns: Along,
    out: Shape,
}

fn plan(run: &Run<'_>) -> Result<UnfoldPlan> {
    let x = run.input("X")?.shape();
    let &[n, c, h, w] = x.dims() else { return Err(run.shape(RANK, "X")) };
    let [rows, columns] = along(run.attrs(), [h as i64, w as i64])?;
    let taps = (c as i64).saturating_mul(rows.kernel).saturating_mul(columns.kernel);
    let out = Shape::from_dims(&[n as i64, taps, rows.places.saturating_mul(columns.places)])?;
    Ok(UnfoldPlan { channels: c, rows, columns, out })
}

impl Along {
    fn pixel(&self, place: usize, tap: usize) -> Option<usize> {
        let at = place as i64 * self.stride - self.before + tap as i64 * self.dilation;
        (0..self.size).contains(&at).then_some(at as usize)
    }
}

impl Moves for UnfoldPlan {
    fn shape(&self) -> Shape {
        self.out
    }

    fn source(&self, at: &[usize]) -> Option<usize> {
        let (kw, width) = (self.columns.kernel as usize, self.columns.places as usize);
        let taps = self.rows.kernel as usize * kw;
        let row = self.rows.pixel(at[2] / width, at[1] % taps / kw)?;
        let column = self.columns.pixel(at[2] % width, at[1] % kw)?;
        let plane = at[0] * self.channels + at[1] / taps;
        Some((plane * self.rows.size as usize + row) * self.columns.size as usize + column)
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn unfold(x: tensor::Tensor, kernel: [i32; 2], paddings: [i32; 4]) -> Check {
        let op = check("unfold").input("X", x).attr("kernel_sizes", kernel.to_vec());
        let op = op.attr("strides", vec![1, 1]).attr("dilations", vec![1, 1]);
        op.attr("paddings", paddings.to_vec())
    }

    #[test]
    fn windows_become_columns() {
        let x = || t(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
        unfold(x(), [1, 2], [0; 4]).gives("Y", t(&[1, 2, 2], &[1.0, 3.0, 2.0, 4.0]));
        unfold(x(), [2, 2], [0, 1, 0, 0])
            .gives("Y", t(&[1, 4, 2], &[0.0, 1.0, 1.0, 2.0, 0.0, 3.0, 3.0, 4.0]));
        let op = unfold(some(&[1, 2, 3, 3]), [2, 2], [1, 0, 0, 1]).attr("strides", vec![2, 1]);
        op.output("Y").grad(&["X"]);
    }

    #[test]
    fn refuses_windows_that_do_not_fit() {
        let error = unfold(some(&[1, 1, 2, 2]), [3, 1], [0; 4]).output("Y").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = unfold(some(&[1, 2, 2]), [1, 1], [0; 4]).output("Y").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
