//! `accuracy`: the share of rows whose label is among the row's Indices.
//!
//! Correct and Total are the two counts (int32); Accuracy is float32.

use tensor::{DType, Shape};

use super::{Infer, Op, Run, traits};
use crate::error::Result;
use crate::var::Meta;

pub(super) struct Accuracy;

impl Op for Accuracy {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (indices, label) = (infer.input("Indices")?, infer.input("Label")?);
        let rows = |meta: &Meta| meta.dims.first().copied().unwrap_or(-1);
        if rows(&indices) >= 0 && rows(&label) >= 0 && rows(&indices) != rows(&label) {
            return Err(infer.shapes(RULE, "Indices", "Label"));
        }
        infer.set_output("Accuracy", Meta::dense(DType::F32, &[1]))?;
        infer.set_output("Correct", Meta::dense(DType::I32, &[1]))?;
        infer.set_output("Total", Meta::dense(DType::I32, &[1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (indices, label) = (run.input("Indices")?, run.input("Label")?);
        let (n_rows, k) = indices.shape().flatten_2d(1);
        if label.len() != n_rows {
            return Err(run.shapes(RULE, "Indices", "Label"));
        }
        let (rows, labels) = (run.data::<i64>("Indices")?, run.data::<i64>("Label")?);
        let rows = rows.chunks_exact(k.max(1)).zip(labels);
        let n_correct = rows.filter(|(row, label)| row.contains(label)).count();
        let share = if n_rows == 0 { 0.0 } else { n_correct as f32 / n_rows as f32 };
        let mut accuracy = run.take("Accuracy");
        accuracy.resize::<f32>(Shape::from([1]))[0] = share;
        run.put("Accuracy", accuracy);
        for (port, count) in [("Correct", n_correct), ("Total", n_rows)] {
            let mut out = run.take(port);
            out.resize::<i32>(Shape::from([1]))[0] = count as i32;
            run.put(port, out);
        }
        Ok(())
    }
}

const RULE: &str = "a label for each row is needed";

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use crate::error::Error;
    use crate::op::check::{Check, check, ids};

    fn accuracy(labels: &[i64]) -> Check {
        check("accuracy")
            .input("Indices", ids(&[3, 2], &[0, 1, 2, 1, 3, 0]))
            .input("Label", ids(&[labels.len(), 1], labels))
    }

    #[test]
    fn counts_labels_among_the_indices() {
        accuracy(&[1, 0, 3])
            .gives("Accuracy", Tensor::new([1], &[2.0f32 / 3.0]).unwrap())
            .gives("Correct", Tensor::new([1], &[2i32]).unwrap())
            .gives("Total", Tensor::new([1], &[3i32]).unwrap());
    }

    #[test]
    fn an_empty_batch_is_not_accurate() {
        check("accuracy")
            .input("Indices", ids(&[0, 1], &[]))
            .input("Label", ids(&[0, 1], &[]))
            .gives("Accuracy", Tensor::new([1], &[0f32]).unwrap());
    }

    #[test]
    fn refuses_too_few_labels() {
        let error = accuracy(&[1]).output("Accuracy").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
