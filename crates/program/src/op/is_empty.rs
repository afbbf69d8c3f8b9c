//! `is_empty`: Out = whether X has no elements.

use tensor::{Bool, DType, Shape};

use super::{Infer, Op, Run, traits};
use crate::error::Result;
use crate::var::Meta;

pub(super) struct IsEmpty;

impl Op for IsEmpty {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        infer.set_output("Out", Meta::dense(DType::Bool, &[1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let empty = run.input("X")?.is_empty();
        out.resize::<Bool>(Shape::from([1]))[0] = Bool::from(empty);
        run.put("Out", out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tensor::{Bool, Tensor};

    use crate::op::check::{check, t};

    #[test]
    fn tells_whether_there_is_anything() {
        let truth = |holds: bool| Tensor::new([1], &[Bool::from(holds)]).unwrap();
        check("is_empty").input("X", t(&[0, 2], &[])).gives("Out", truth(true));
        check("is_empty").input("X", t(&[1], &[0.0])).gives("Out", truth(false));
    }
}
