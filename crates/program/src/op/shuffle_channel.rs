//! `shuffle_channel`: Out = X (four dimensions) with its channels in another order: seen as a matrix of `group` rows, they are transposed.

use tensor::Shape;

use super::sizes::bad_attr;
use super::{Grad, Infer, Keep, Kernel, Op, Run, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct ShuffleChannel;
pub(super) struct ShuffleChannelGrad;

const RANK: &str = "X has four dimensions";

fn n_groups(attrs: &Attrs, n_channels: i64) -> Result<usize> {
    let group = attrs.int("group", 1)?;
    if group >= 1 && (n_channels < 0 || n_channels % group == 0) {
        return Ok(group as usize);
    }
    Err(bad_attr("group", &format!("a divisor of the {n_channels} channels"), group))
}

impl Op for ShuffleChannel {
    traits!(Rows("X"));

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        if x.dims.len() != 4 {
            return Err(infer.shape(RANK, "X"));
        }
        n_groups(infer.attrs(), x.dims[1])?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        shuffle(run, "X", "Out", false)
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]))
    }
}

impl Kernel for ShuffleChannelGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        shuffle(run, "Out@GRAD", "X@GRAD", true)
    }
}

fn shuffle(run: &mut Run<'_>, from: &str, to: &str, back: bool) -> Result<()> {
    run.fill(to, from, |run, x, out| {
        let &[n_samples, n_channels, height, width] = x.dims() else {
            return Err(run.shape(RANK, from));
        };
        let n_groups = n_groups(run.attrs(), n_channels as i64)?;
        let n_rows = if back { n_channels / n_groups } else { n_groups };
        let n_columns = n_channels / n_rows.max(1);
        let size = height * width * x.dtype().size();
        out.resize_as(x.dtype(), Shape::new(x.dims()));
        let (bytes, out) = (x.bytes(), out.bytes_mut());
        for sample in 0..n_samples {
            for channel in 0..n_channels {
                let (row, column) = (channel / n_columns, channel % n_columns);
                let from = (sample * n_channels + channel) * size;
                let to = (sample * n_channels + column * n_rows + row) * size;
                out[to..to + size].copy_from_slice(&bytes[from..from + size]);
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, some, t};

    #[test]
    fn transposes_groups() {
        let data: Vec<f64> = (0..6).map(f64::from).collect();
        check("shuffle_channel")
            .input("X", t(&[1, 6, 1, 1], &data))
            .attr("group", 2)
            .gives("Out", t(&[1, 6, 1, 1], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let check = check("shuffle_channel").input("X", some(&[2, 6, 2, 1])).attr("group", 3);
        check.output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_groups_that_do_not_divide() {
        let error = check("shuffle_channel").input("X", some(&[1, 3, 1, 1])).attr("group", 2);
        let error = error.output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = check("shuffle_channel").input("X", some(&[3])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
