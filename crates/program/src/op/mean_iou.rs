//! `mean_iou`: OutCorrect and OutWrong count, class by class, the places where Predictions and Labels agree and where they do
//! not (for both classes); OutMeanIou = the mean over classes that occur of correct / (correct + wrong). Counts of InWrongs and
//! InCorrects join, and means of InMeanIou are added.

use tensor::{DType, Shape, Tensor};

use super::label::Labels;
use super::sizes::bad_attr;
use super::{Infer, Op, Run, dims, no_gradient, traits};
use crate::attr::Attrs;
use crate::error::Result;
use crate::var::Meta;

pub(super) struct MeanIou;

fn n_classes(attrs: &Attrs) -> Result<usize> {
    let n = attrs.int("num_classes", 0)?;
    let classes = usize::try_from(n).ok().filter(|&n| n > 0 && n < i32::MAX as usize);
    classes.ok_or_else(|| bad_attr("num_classes", "positive", n))
}

impl Op for MeanIou {
    traits!(Never, "Predictions": [I32, I64], "Labels": [I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let n = n_classes(infer.attrs())? as i64;
        infer.set_output("OutMeanIou", Meta::dense(DType::F32, &[1]))?;
        infer.set_output("OutWrong", Meta::dense(DType::I32, &[n]))?;
        infer.set_output("OutCorrect", Meta::dense(DType::I32, &[n]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let n = n_classes(run.attrs())?;
        let (mut wrong, mut correct) = (run.take("OutWrong"), run.take("OutCorrect"));
        let mut mean = run.take("OutMeanIou");
        dims::run_same(run, "Predictions", "Labels")?;
        sum_of(run, "InWrongs", n, &mut wrong)?;
        sum_of(run, "InCorrects", n, &mut correct)?;
        let (wrongs, corrects) = (wrong.data_mut::<i32>()?, correct.data_mut::<i32>()?);
        let predictions = Labels::new(run, "Predictions", n, None)?;
        let labels = Labels::new(run, "Labels", n, None)?;
        for at in 0..run.input("Labels")?.len() {
            let (Some(predicted), Some(label)) = (predictions.class(at)?, labels.class(at)?) else {
                continue;
            };
            if predicted == label {
                corrects[label] += 1;
            } else {
                wrongs[label] += 1;
                wrongs[predicted] += 1;
            }
        }
        let (mut sum, mut n_seen) = (0.0, 0);
        for (&wrong, &correct) in wrongs.iter().zip(&*corrects) {
            if wrong + correct > 0 {
                sum += correct as f32 / (wrong + correct) as f32;
                n_seen += 1;
            }
        }
        let mut total = sum / n_seen as f32;
        for before in run.inputs("InMeanIou")? {
            total += before.data::<f32>()?.first().copied().unwrap_or(0.0);
        }
        mean.resize::<f32>(Shape::from([1]))[0] = total;
        run.put("OutMeanIou", mean);
        run.put("OutWrong", wrong);
        run.put("OutCorrect", correct);
        Ok(())
    }

    no_gradient!();
}

/// The counts of earlier batches.
fn sum_of(run: &Run<'_>, port: &str, n: usize, out: &mut Tensor) -> Result<()> {
    let sums = out.try_resize_zeroed::<i32>(Shape::from([n]))?;
    for before in run.inputs(port)? {
        let before = before.data::<i32>()?;
        if before.len() != n {
            return Err(run.shape("a count for each class is needed", port));
        }
        sums.iter_mut().zip(before).for_each(|(sum, &count)| *sum = sum.wrapping_add(count));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use crate::error::Error;
    use crate::op::check::{Check, check, ids};

    fn iou() -> Check {
        check("mean_iou")
            .input("Predictions", ids(&[4], &[0, 1, 1, 2]))
            .input("Labels", ids(&[4], &[0, 1, 2, 2]))
            .attr("num_classes", 4)
    }

    #[test]
    fn counts_and_averages() {
        let counts = |data: &[i32]| Tensor::new([4], data).unwrap();
        let mean = |value: f32| Tensor::new([1], &[value]).unwrap();
        iou()
            .gives("OutWrong", counts(&[0, 1, 1, 0]))
            .gives("OutCorrect", counts(&[1, 1, 1, 0]))
            .gives("OutMeanIou", mean(2.0 / 3.0));
        iou()
            .inputs("InWrongs", vec![counts(&[1, 0, 0, 0])])
            .inputs("InCorrects", vec![counts(&[0, 0, 0, 1])])
            .inputs("InMeanIou", vec![mean(0.5)])
            .gives("OutWrong", counts(&[1, 1, 1, 0]))
            .gives("OutCorrect", counts(&[1, 1, 1, 1]))
            .gives("OutMeanIou", mean(0.5 + 2.5 / 4.0));
    }

    #[test]
    fn refuses_classes_that_are_not_there() {
        let error = iou().attr("num_classes", 2).output("OutWrong").fails();
        assert!(matches!(error.root(), Error::LabelOutOfRange { label: 2, .. }), "{error}");
        let error = iou().attr("num_classes", 0).output("OutWrong").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
