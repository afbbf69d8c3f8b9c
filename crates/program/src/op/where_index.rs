//! `where_index`: Out = the places where Condition is true, one row per place.

use tensor::{Bool, DType, Shape};

use super::{Grad, Infer, Op, Run};
use crate::error::Result;
use crate::var::Meta;

pub(super) struct WhereIndex;

impl Op for WhereIndex {
    fn name(&self) -> &'static str {
        "where_index"
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let rank = infer.input("Condition")?.dims.len() as i64;
        infer.set_output("Out", Meta::dense(DType::I64, &[-1, rank]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let shape = run.input("Condition")?.shape();
        let condition = run.data::<Bool>("Condition")?;
        let n = condition.iter().filter(|truth| truth.get()).count();
        let rows = out.resize::<i64>(Shape::from([n, shape.rank()]));
        let found = condition.iter().enumerate().filter(|(_, truth)| truth.get());
        for ((mut at, _), row) in found.zip(rows.chunks_exact_mut(shape.rank().max(1))) {
            for (place, &dim) in row.iter_mut().zip(shape.dims()).rev() {
                *place = (at % dim) as i64;
                at /= dim;
            }
        }
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, _grad: &mut Grad<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, t};
    use tensor::{Bool, Tensor};

    #[test]
    fn lists_true_places() {
        let condition = Tensor::new([2, 2], &[1u8, 0, 1, 1].map(Bool)).unwrap();
        check("where_index")
            .input("Condition", condition)
            .gives("Out", ids(&[3, 2], &[0, 0, 1, 0, 1, 1]));
    }

    #[test]
    fn refuses_numbers() {
        let error = check("where_index").input("Condition", t(&[1], &[1.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::Tensor(_)), "{error}");
    }
}
