//! `cvm`: the first two columns of X are show and click counts of a slot.
//!
//! With `use_cvm` they become log(show + 1) and log(click + 1) - log(show + 1); without they are
//! cut off. Their gradient is the pair CVM, which is how counts reach the table they came from.

use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct Cvm;
pub(super) struct CvmGrad;

const WIDTH: &str = "X needs rows of a show and a click count at least";
const PAIRS: &str = "a row of two counts for each row of X is needed";

/// Columns of a matrix of counts.
fn width(run: &Run<'_>) -> Result<usize> {
    match run.input("X")?.dims() {
        &[_, width @ (2..)] => Ok(width),
        _ => Err(run.shape(WIDTH, "X")),
    }
}

impl Op for Cvm {
    traits!(Never, "X": [F16, F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let [n, width @ (2..)] = x.dims[..] else { return Err(infer.shape(WIDTH, "X")) };
        let cut = if infer.attrs().bool("use_cvm", true)? { 0 } else { 2 };
        infer.set_output("Y", x.with_dims(vec![n, width - cut]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let keep = run.attrs().bool("use_cvm", true)?;
        let width = width(run)?;
        run.fill("Y", "X", |run, x, y| {
            let width_out = if keep { width } else { width - 2 };
            for_float!(x.dtype(), run.input_name("X"), T => {
                let out = y.resize::<T>(x.shape().with_dim(1, width_out));
                let rows = x.data::<T>()?.chunks_exact(width);
                for (x, y) in rows.zip(out.chunks_exact_mut(width_out.max(1))) {
                    y.copy_from_slice(&x[width - width_out..]);
                    if keep {
                        y[0] = (x[0] + 1.0).ln();
                        y[1] = (x[1] + 1.0).ln() - y[0];
                    }
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Y"], &["X"]).inputs(&["X", "CVM"]))
    }
}

/// dX = CVM in the first two columns, dY in the rest.
impl Kernel for CvmGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let keep = run.attrs().bool("use_cvm", true)?;
        let mut d_x = run.take("X@GRAD");
        let width = width(run)?;
        let x = run.input("X")?;
        let d_y = run.input("Y@GRAD")?;
        let cvm = run.input("CVM")?;
        let n_rows = x.dims()[0];
        let width_out = if keep { width } else { width - 2 };
        if d_y.len() != n_rows * width_out {
            return Err(run.shapes("a gradient for each column is needed", "X", "Y@GRAD"));
        }
        if cvm.len() != n_rows * 2 && !per_sequence(run)? {
            return Err(run.shapes(PAIRS, "X", "CVM"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (d_y, cvm) = (run.data::<T>("Y@GRAD")?, run.data::<T>("CVM")?);
            let lod = x.lod().last();
            let d_x = d_x.resize::<T>(x.shape());
            for (row, d_x) in d_x.chunks_exact_mut(width).enumerate() {
                let pair = if cvm.len() == n_rows * 2 { row } else { sequence_of(lod, row) };
                let end = (row + 1) * width_out;
                d_x[..2].copy_from_slice(&cvm[pair * 2..][..2]);
                d_x[2..].copy_from_slice(&d_y[end - (width - 2)..end]);
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

/// Whether CVM has one pair for each sequence of X.
fn per_sequence(run: &Run<'_>) -> Result<bool> {
    let n_pairs = run.input("CVM")?.len() / 2;
    Ok(run.input("X")?.lod().last().is_some_and(|offsets| offsets.len() == n_pairs + 1))
}

fn sequence_of(offsets: Option<&[usize]>, row: usize) -> usize {
    let offsets = offsets.unwrap_or(&[]);
    offsets.partition_point(|&offset| offset <= row).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use tensor::Value;

    use crate::error::Error;
    use crate::op::check::{Check, check, seq, t};

    fn cvm() -> Check {
        check("cvm")
            .input("X", t(&[2, 3], &[1.0, 0.0, 0.5, 3.0, 1.0, 0.25]))
            .input("CVM", t(&[2, 2], &[5.0, 6.0, 7.0, 8.0]))
    }

    #[test]
    fn counts_become_logs_or_go() {
        let (two, four) = (2f64.ln(), 4f64.ln());
        cvm().gives("Y", t(&[2, 3], &[two, -two, 0.5, four, two - four, 0.25]));
        cvm().attr("use_cvm", false).gives("Y", t(&[2, 1], &[0.5, 0.25]));
    }

    #[test]
    fn the_gradient_carries_the_counts() {
        let grad = |keep: bool, d_y, cvm| {
            check("cvm_grad")
                .input("X", seq(t(&[2, 3], &[0.0; 6]), &[2]))
                .input("CVM", cvm)
                .input("Y@GRAD", d_y)
                .attr("use_cvm", keep)
                .output("X@GRAD")
        };
        let expect = |check: Check, expected: &[f64]| match check.run("X@GRAD") {
            Value::Tensor(d_x) => assert_eq!(d_x.data::<f64>().unwrap(), expected),
            other => panic!("{other:?}"),
        };
        let pairs = || t(&[2, 2], &[5.0, 6.0, 7.0, 8.0]);
        let full = t(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        expect(grad(true, full, pairs()), &[5.0, 6.0, 3.0, 7.0, 8.0, 6.0]);
        let cut = || t(&[2, 1], &[3.0, 6.0]);
        expect(grad(false, cut(), pairs()), &[5.0, 6.0, 3.0, 7.0, 8.0, 6.0]);
        let one = t(&[1, 2], &[5.0, 6.0]);
        expect(grad(false, cut(), one), &[5.0, 6.0, 3.0, 5.0, 6.0, 6.0]);
    }

    #[test]
    fn refuses_rows_without_counts() {
        let error = check("cvm").input("X", t(&[1, 1], &[1.0])).output("Y").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
