//! `rnn_memory_helper`: Out = X; gives what a step of a recurrent block leaves a name of its own.

use super::{Grad, Infer, Kernel, Op, Run, traits};
use crate::block::OpDesc;
use crate::error::Result;

pub(super) struct RnnMemoryHelper;
pub(super) struct RnnMemoryHelperGrad;

impl Op for RnnMemoryHelper {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        out.copy_from(run.input("X")?);
        run.put("Out", out);
        Ok(())
    }

    /// dX = dOut.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let op = OpDesc::new("rnn_memory_helper_grad").input("X", grad.input("X"));
        let op = op.input("Out@GRAD", grad.output_grad("Out"));
        grad.emit(op.output("X@GRAD", grad.input_grad("X")))
    }
}

impl Kernel for RnnMemoryHelperGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut grad = run.take("X@GRAD");
        grad.copy_from(run.input("Out@GRAD")?);
        run.put("X@GRAD", grad);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::op::check::{check, t};

    #[test]
    fn copies_and_so_does_its_gradient() {
        let x = || t(&[2], &[1.0, 2.0]);
        check("rnn_memory_helper").input("X", x()).gives("Out", x());
        check("rnn_memory_helper").input("X", x()).output("Out").grad(&["X"]);
    }
}
