//! `where_index`: Out = the index of each element of Condition that is true, or not 0, one row each, in order.

use tensor::{DType, Shape};

use super::{Infer, Op, Run, no_gradient, traits};
use crate::error::{Error, Result};
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
        let condition = run.input("Condition")?;
        if condition.dtype() == DType::F16 {
            let var = run.input_name("Condition").to_string();
            let expected = "truths or numbers";
            return Err(Error::DType { var, expected, actual: DType::F16 });
        }
        let shape = condition.shape();
        let holds = |place: &usize| condition.get_f64(*place) != 0.0;
        let n = (0..condition.len()).filter(holds).count();
        let rows = out.resize::<i64>(Shape::from([n, shape.rank()]));
        let places = (0..condition.len()).filter(holds);
        for (row, mut place) in rows.chunks_exact_mut(shape.rank().max(1)).zip(places) {
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
    fn numbers_are_true_unless_they_are_0() {
        let op = check("where_index").input("Condition", t(&[3], &[0.5, 0.0, -1.0]));
        op.gives("Out", ids(&[2, 1], &[0, 2]));
        let op = check("where_index").input("Condition", ids(&[2], &[0, 7]));
        op.gives("Out", ids(&[1, 1], &[1]));
    }

    #[test]
    fn refuses_nothing() {
        let error = check("where_index").output("Out").fails();
        assert!(matches!(error.root(), Error::MissingInput { .. }), "{error}");
    }
}
