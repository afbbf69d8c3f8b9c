//! `size`: Out = how many numbers Input has.

use tensor::{DType, Shape};

use super::{Infer, Op, Run, no_gradient, traits};
use crate::error::Result;
use crate::var::Meta;

pub(super) struct Size;

impl Op for Size {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        infer.input("Input")?;
        infer.set_output("Out", Meta::dense(DType::I64, &[1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.make("Out", |run, out| {
            out.resize::<i64>(Shape::from([1]))[0] = run.input("Input")?.len() as i64;
            Ok(())
        })
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use crate::op::check::{check, ids, some};

    #[test]
    fn counts_numbers() {
        check("size").input("Input", some(&[3, 4])).gives("Out", ids(&[1], &[12]));
        check("size").input("Input", some(&[3, 0])).gives("Out", ids(&[1], &[0]));
    }
}
