//! `assign`: Out = X, whatever X holds.

use tensor::Value;

use super::{Grad, Infer, Op, Run, traits};
use crate::block::OpDesc;
use crate::error::Result;

pub(super) struct Assign;

impl Op for Assign {
    traits!(Rows("X"), "X": [F16, F32, F64, I32, I64, Bool]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        match run.value("X")? {
            Value::Rows(_) | Value::Array(_) => {
                let copy = run.value("X")?.clone();
                run.put_value_at("Out", 0, copy);
            }
            _ => {
                let mut out = run.take("Out");
                out.copy_from(run.input("X")?);
                run.put("Out", out);
            }
        }
        Ok(())
    }

    /// dX = dOut.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let op = OpDesc::new("assign").input("X", grad.output_grad("Out"));
        grad.emit(op.output("Out", grad.input_grad("X")))
    }
}

#[cfg(test)]
mod tests {
    use crate::op::check::{check, seq, t};

    #[test]
    fn copies_numbers_and_sequences() {
        let x = || seq(t(&[2], &[1.0, 2.0]), &[2]);
        check("assign").input("X", x()).gives("Out", x());
    }

    #[test]
    fn gradient_matches_finite_differences() {
        check("assign").input("X", t(&[2], &[1.0, 2.0])).output("Out").grad(&["X"]);
    }
}
