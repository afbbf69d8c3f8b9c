//! `where_index`: Out = the index of each true element of Condition, one row each, in order.

use tensor::{Bool, DType, Shape};

use super::{Infer, Op, Run, no_gradient, traits};
use crate::error::Result;
use crate::var::Meta;

pub(super) struct WhereIndex;

impl Op for WhereIndex {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let rank = infer.input("Condition")?.dims.len() as i64;
        infer.set_output("Out", Meta::dense(DType::I64, &[-1, rank]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let (shape, truths) = (run.input("Condition")?.shape(), run.data::<Bool>("Condition")?);
        let n = truths.iter().filter(|truth| truth.get()).count();
        let rows = out.resize::<i64>(Shape::from([n, shape.rank()]));
        let places = truths.iter().enumerate().filter(|(_, truth)| truth.get());
        for (row, (mut place, _)) in rows.chunks_exact_mut(shape.rank()).zip(places) {
            for (index, &size) in row.iter_mut().zip(shape.dims()).rev() {
                *index = (place % size) as i64;
                place /= size;
            }
        }
        run.put("Out", out);
        Ok(())
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use tensor::{Bool, Tensor};

    use crate::error::Error;
    use crate::op::check::{check, ids, t};

    #[test]
    fn lists_the_places_of_truths() {
        let truths = [true, false, true, false, true, false].map(Bool::from);
        let op = check("where_index").input("Condition", Tensor::new([2, 3], &truths).unwrap());
        op.gives("Out", ids(&[3, 2], &[0, 0, 0, 2, 1, 1]));
    }

    #[test]
    fn refuses_numbers() {
        let error = check("where_index").input("Condition", t(&[1], &[1.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::Tensor(_)), "{error}");
    }
}
