//! `sequence_reshape`: steps of `new_dim` numbers; each sequence keeps its numbers.

use tensor::{Lod, Shape};

use super::ragged;
use super::{Grad, Infer, Keep, Kernel, Op, Run, traits};
use crate::error::{Error, Result};

pub(super) struct SequenceReshape;
pub(super) struct SequenceReshapeGrad;

const OP: &str = "SequenceReshapeOp";

fn new_dim(attrs: &crate::attr::Attrs) -> Result<usize> {
    let value = attrs.int("new_dim", 0)?;
    let positive = usize::try_from(value).ok().filter(|&dim| dim > 0);
    positive.ok_or_else(|| Error::BadAttr {
        attr: "new_dim".to_string(),
        expected: "positive".to_string(),
        actual: value.to_string(),
    })
}

impl Op for SequenceReshape {
    traits!(Never, "X": [F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        if x.dims.len() != 2 {
            return Err(infer.shape("X must be a matrix", "X"));
        }
        let dims = vec![-1, new_dim(infer.attrs())? as i64];
        infer.set_output("Out", x.with_dims(dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let new_dim = new_dim(run.attrs())?;
        let mut out = run.take("Out");
        let (x, offsets) = (run.input("X")?, ragged::only_offsets(run, OP, "X")?);
        let &[n_rows, width] = x.dims() else {
            return Err(run.shape("X must be a matrix", "X"));
        };
        if offsets.iter().any(|offset| offset * width % new_dim != 0) {
            let rule = "the numbers of each sequence must be a multiple of new_dim";
            return Err(run.shape(rule, "X"));
        }
        let lod = offsets.iter().map(|offset| offset * width / new_dim).collect();
        out.copy_from(x);
        out.reshape(Shape::from([n_rows * width / new_dim, new_dim]))?;
        out.set_lod(Lod::from_offsets(vec![lod]));
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]))
    }
}

/// dX = dOut in the shape of X.
impl Kernel for SequenceReshapeGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        let x = run.input("X")?;
        d_x.copy_from(run.input("Out@GRAD")?);
        d_x.reshape(x.shape())?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{Check, check, seq, t};

    fn reshape(lengths: &[usize], new_dim: i32) -> Check {
        let data: Vec<f64> = (1..=12).map(f64::from).collect();
        let x = seq(t(&[6, 2], &data), lengths);
        check("sequence_reshape").input("X", x).attr("new_dim", new_dim)
    }

    #[test]
    fn widens_and_narrows_steps() {
        let data: Vec<f64> = (1..=12).map(f64::from).collect();
        reshape(&[2, 4], 4).gives("Out", seq(t(&[3, 4], &data), &[1, 2]));
        reshape(&[2, 0, 4], 1).gives("Out", seq(t(&[12, 1], &data), &[4, 0, 8]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        reshape(&[2, 4], 4).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_a_remainder_and_no_width() {
        let error = reshape(&[1, 5], 4).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let error = reshape(&[2, 4], 0).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
