//! `bpr_loss` (Bayesian personalised ranking): Y = mean over the other classes j of
//! log(1 + exp(X\[j\] - X\[label\])).

use tensor::Float;

use super::cross_entropy::infer_loss;
use super::label::{self, Labels};
use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::error::Result;

pub(super) struct BprLoss;
pub(super) struct BprLossGrad;

const TWO_CLASSES: &str = "ranking needs two classes or more";

impl Op for BprLoss {
    traits!(Never, "X": [F16, F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let loss = infer_loss(infer, false)?;
        infer.set_output("Y", loss)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut y = run.take("Y");
        let x = run.input("X")?;
        let n = x.shape().last();
        let shape = label::loss_shape(run, "X", x.shape().rank() - 1, false)?;
        if n < 2 {
            return Err(run.shape(TWO_CLASSES, "X"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let labels = Labels::new(run, "Label", n, None)?;
            forward(x.data::<T>()?, &labels, y.resize::<T>(shape), n)
        })?;
        y.set_lod(x.lod().clone());
        run.put("Y", y);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Y"], &["X"]).inputs(&["X", "Label"]))
    }
}

fn forward<T: Float>(x: &[T], labels: &Labels<'_>, y: &mut [T], n: usize) -> Result<()> {
    for ((row, y), x) in y.iter_mut().enumerate().zip(x.chunks_exact(n)) {
        let Some(class) = labels.class(row)? else { continue };
        let costs = x.iter().enumerate().filter(|&(j, _)| j != class);
        let costs = costs.map(|(_, &other)| (other - x[class]).exp().ln_1p());
        *y = costs.fold(T::zero(), |sum, cost| sum + cost) / T::of((n - 1) as f64);
    }
    Ok(())
}

/// dX\[j\] = dY sigmoid(X\[j\] - X\[label\]) / (n - 1); the label loses what the others gain.
impl Kernel for BprLossGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        let x = run.input("X")?;
        let n = x.shape().last();
        let shape = label::loss_shape(run, "X", x.shape().rank() - 1, false)?;
        if n < 2 || shape != run.input("Y@GRAD")?.shape() {
            return Err(run.shapes(dims::LOSS, "X", "Y@GRAD"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let labels = Labels::new(run, "Label", n, None)?;
            let d_y = run.data::<T>("Y@GRAD")?;
            backward(x.data::<T>()?, &labels, d_y, d_x.resize::<T>(x.shape()), n)
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

fn backward<T: Float>(
    x: &[T],
    labels: &Labels<'_>,
    d_y: &[T],
    d_x: &mut [T],
    n: usize,
) -> Result<()> {
    let rows = x.chunks_exact(n).zip(d_x.chunks_exact_mut(n));
    for (row, ((x, d_x), &d_y)) in rows.zip(d_y).enumerate() {
        let Some(class) = labels.class(row)? else { continue };
        let mut total = T::zero();
        for j in (0..n).filter(|&j| j != class) {
            let share = d_y / T::of((n - 1) as f64);
            d_x[j] = share / (T::one() + (x[class] - x[j]).exp());
            total += d_x[j];
        }
        d_x[class] = -total;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn loss(label: i64) -> Check {
        check("bpr_loss")
            .input("X", t(&[1, 3], &[0.2, 0.3, 0.5]))
            .input("Label", ids(&[1, 1], &[label]))
    }

    #[test]
    fn averages_the_comparisons() {
        // The value that Fluid 1.8.5 gives.
        loss(2).gives("Y", t(&[1, 1], &[0.576247]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        loss(1).output("Y").grad(&["X"]);
    }

    #[test]
    fn refuses_a_label_that_is_no_class() {
        let error = loss(3).output("Y").fails();
        assert!(matches!(error.root(), Error::LabelOutOfRange { label: 3, .. }), "{error}");
    }
}
