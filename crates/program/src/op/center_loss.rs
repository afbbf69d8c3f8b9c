//! `center_loss`: SampleCenterDiff = X - Centers\[label\], Loss = half its square, summed over the columns. With
//! `need_update` CentersOut = Centers + CenterUpdateRate x (the sum of a class's differences) / (1 + how many it has).

use tensor::{Shape, Tensor};

use super::label::Labels;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct CenterLoss;
pub(super) struct CenterLossGrad;

const RULE: &str = "X and Centers are matrices of the same width";

impl Op for CenterLoss {
    traits!(Never, "X": [F32, F64], "Label": [I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, centers) = (infer.input("X")?, infer.input("Centers")?);
        let ([n_rows, _], [_, width]) = (&x.dims[..], &centers.dims[..]) else {
            return Err(infer.shapes(RULE, "X", "Centers"));
        };
        infer.set_output("SampleCenterDiff", x.with_dims(vec![*n_rows, *width]))?;
        infer.set_output("Loss", x.with_dims(vec![*n_rows, 1]))?;
        infer.set_output("CentersOut", centers)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.update([("Centers", "CentersOut")], |run, [centers]| {
            let (mut diff, mut loss) = (run.take("SampleCenterDiff"), run.take("Loss"));
            compute(run, centers, &mut diff, &mut loss)?;
            loss.set_lod(run.input("X")?.lod().clone());
            run.put("SampleCenterDiff", diff);
            run.put("Loss", loss);
            Ok(())
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let keep = Keep::grads(&["Loss"], &["X"]).inputs(&["X"]);
        grad.emit_usual(keep.outputs(&["SampleCenterDiff"]))
    }
}

fn compute(
    run: &Run<'_>,
    centers: &mut Tensor,
    diff: &mut Tensor,
    loss: &mut Tensor,
) -> Result<()> {
    let x = run.input("X")?;
    let (&[n_rows, width], &[n_classes, columns]) = (x.dims(), centers.dims()) else {
        return Err(run.shapes(RULE, "X", "Centers"));
    };
    if width != columns {
        return Err(run.shapes(RULE, "X", "Centers"));
    }
    if run.input("Label")?.len() != n_rows {
        return Err(run.shapes("Label has a class for each row of X", "X", "Label"));
    }
    let rate = run.scalar("CenterUpdateRate")?;
    let updates = run.attrs().bool("need_update", false)?;
    let labels = Labels::new(run, "Label", n_classes, None)?;
    let classes = (0..n_rows).map(|row| Ok(labels.class(row)?.unwrap_or(0)));
    let classes: Vec<usize> = classes.collect::<Result<_>>()?;
    for_float!(x.dtype(), run.input_name("X"), T => {
        let (x, centers) = (x.data::<T>()?, centers.data_mut::<T>()?);
        let diff = diff.resize::<T>(Shape::from([n_rows, width]));
        let loss = loss.resize::<T>(Shape::from([n_rows, 1]));
        for (row, &class) in classes.iter().enumerate() {
            let places = row * width..(row + 1) * width;
            let center = &centers[class * width..(class + 1) * width];
            loss[row] = 0.0;
            for ((diff, &x), &center) in diff[places.clone()].iter_mut().zip(&x[places]).zip(center) {
                *diff = x - center;
                loss[row] += *diff * *diff * 0.5;
            }
        }
        if updates {
            let mut counts = vec![1.0; n_classes];
            classes.iter().for_each(|&class| counts[class] += 1.0);
            for (&class, diff) in classes.iter().zip(diff.chunks_exact(width.max(1))) {
                let step = rate as T / counts[class];
                let center = &mut centers[class * width..(class + 1) * width];
                center.iter_mut().zip(diff).for_each(|(center, &diff)| *center += step * diff);
            }
        }
        Ok(())
    })
}

/// dX = dLoss SampleCenterDiff.
impl Kernel for CenterLossGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.fill("X@GRAD", "X", |run, x, d_x| {
            let (diff, d_loss) = (run.input("SampleCenterDiff")?, run.input("Loss@GRAD")?);
            let &[n_rows, width] = x.dims() else { return Err(run.shapes(RULE, "X", "Loss@GRAD")) };
            if diff.shape() != x.shape() || d_loss.len() != n_rows {
                return Err(run.shapes("the result has another shape", "X", "SampleCenterDiff"));
            }
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (diff, d_loss) = (diff.data::<T>()?, d_loss.data::<T>()?);
                let d_x = d_x.resize::<T>(x.shape()).iter_mut().zip(diff).enumerate();
                d_x.for_each(|(at, (d_x, &diff))| *d_x = diff * d_loss[at / width]);
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, some, t};

    fn centers(update: bool) -> Check {
        check("center_loss")
            .input("X", t(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
            .input("Label", ids(&[3, 1], &[1, 0, 1]))
            .input("Centers", t(&[2, 2], &[1.0, 1.0, 2.0, 2.0]))
            .input("CenterUpdateRate", t(&[1], &[0.5]))
            .attr("cluster_num", 2)
            .attr("need_update", update)
    }

    #[test]
    fn measures_and_moves_centers() {
        centers(true)
            .gives("SampleCenterDiff", t(&[3, 2], &[-1.0, 0.0, 2.0, 3.0, 3.0, 4.0]))
            .gives("Loss", t(&[3, 1], &[0.5, 6.5, 12.5]))
            .gives("CentersOut", t(&[2, 2], &[1.5, 1.75, 2.0 + 1.0 / 3.0, 2.0 + 2.0 / 3.0]));
        centers(false)
            .output("SampleCenterDiff")
            .output("Loss")
            .gives("CentersOut", t(&[2, 2], &[1.0, 1.0, 2.0, 2.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        centers(false).aux("SampleCenterDiff").aux("CentersOut").output("Loss").grad(&["X"]);
    }

    #[test]
    fn refuses_a_class_without_a_center() {
        let error = centers(true).input("Label", ids(&[3, 1], &[0, 2, 1])).output("Loss").fails();
        assert!(matches!(error.root(), Error::LabelOutOfRange { label: 2, .. }), "{error}");
        let error = centers(true).input("X", some(&[3, 3])).output("Loss").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
