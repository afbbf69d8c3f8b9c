//! `multiplex`: row i of Out is row i of the X that Ids[i] names.
//!
//! Gradient: each row of dOut goes to the X it came from.

use super::sizes;
use super::{Grad, Infer, Keep, Kernel, Op, Run, traits};
use crate::error::{Error, Result};

pub(super) struct Multiplex;
pub(super) struct MultiplexGrad;

const RULE: &str = "the inputs must have one shape, with a row for each id";

impl Op for Multiplex {
    traits!(Never, "Ids": [I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        if x.dims.is_empty() || infer.inputs("X")?.iter().any(|x2| x2.dims.len() != x.dims.len()) {
            return Err(infer.shapes(RULE, "X", "Ids"));
        }
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let first = run.input("X")?;
        let shape = first.shape();
        for index in 0..run.n_inputs("X") {
            let x = run.input_at("X", index)?;
            if x.shape() != shape || x.dtype() != first.dtype() {
                return Err(run.shapes(RULE, "X", "Ids"));
            }
        }
        let picks = picks(run, shape.dim(0), run.n_inputs("X"))?;
        out.resize_as(first.dtype(), shape);
        let width = shape.flatten_2d(1).1 * first.dtype().size();
        for (row, (&pick, to)) in
            picks.iter().zip(out.bytes_mut().chunks_exact_mut(width.max(1))).enumerate()
        {
            to.copy_from_slice(&run.input_at("X", pick)?.bytes()[row * width..][..width]);
        }
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["Ids"]))
    }
}

/// Which input each row comes from.
fn picks(run: &Run<'_>, n_rows: usize, n_inputs: usize) -> Result<Vec<usize>> {
    let ids = sizes::integers(run.input("Ids")?, run.input_name("Ids"))?;
    if ids.len() != n_rows {
        return Err(run.shape(RULE, "Ids"));
    }
    let pick = |(position, &id): (usize, &i64)| match usize::try_from(id) {
        Ok(pick) if pick < n_inputs => Ok(pick),
        _ => Err(Error::BadValue {
            rule: "an id must name an input",
            var: run.input_name("Ids").to_string(),
            position,
            value: id as f64,
        }),
    };
    ids.iter().enumerate().map(pick).collect()
}

impl Kernel for MultiplexGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let n = run.n_outputs("X@GRAD");
        let shape = run.input("Out@GRAD")?.shape();
        let picks = picks(run, shape.dim(0), n)?;
        for index in 0..n {
            if !run.wants_at("X@GRAD", index) {
                continue;
            }
            let mut d_x = run.take_at("X@GRAD", index);
            let d_out = run.input("Out@GRAD")?;
            d_x.resize_as(d_out.dtype(), shape);
            let width = (shape.flatten_2d(1).1 * d_out.dtype().size()).max(1);
            let rows =
                d_x.bytes_mut().chunks_exact_mut(width).zip(d_out.bytes().chunks_exact(width));
            for ((to, from), &pick) in rows.zip(&picks) {
                if pick == index { to.copy_from_slice(from) } else { to.fill(0) }
            }
            run.put_at("X@GRAD", index, d_x);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};
    use tensor::Tensor;

    fn multiplex(picks: &[i32]) -> Check {
        check("multiplex")
            .input("Ids", Tensor::new([picks.len(), 1], picks).unwrap())
            .inputs("X", vec![t(&[2, 1], &[1.0, 2.0]), t(&[2, 1], &[3.0, 4.0])])
    }

    #[test]
    fn picks_a_row_from_each_place() {
        multiplex(&[1, 0]).gives("Out", t(&[2, 1], &[3.0, 2.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        multiplex(&[1, 0]).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_an_input_that_is_not_there() {
        let error = multiplex(&[1, 2]).output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { position: 1, .. }), "{error}");
        let error = multiplex(&[1]).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
