//! `kldiv_loss`: each element costs Target (log Target - X), or 0 where Target <= 0.
//!
//! `reduction` says what becomes of them: `none` leaves them, `sum` adds them up, `mean` divides
//! that by their number, `batchmean` by the number of rows.

use tensor::Shape;

use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};

pub(super) struct KldivLoss;
pub(super) struct KldivLossGrad;

enum Reduction {
    None,
    Sum,
    Mean,
    BatchMean,
}

impl Reduction {
    fn of(attrs: &Attrs) -> Result<Self> {
        match attrs.str("reduction", "mean")? {
            "none" => Ok(Self::None),
            "sum" => Ok(Self::Sum),
            "mean" => Ok(Self::Mean),
            "batchmean" => Ok(Self::BatchMean),
            other => Err(Error::BadAttr {
                attr: "reduction".to_string(),
                expected: "one of none, sum, mean, batchmean".to_string(),
                actual: other.to_string(),
            }),
        }
    }

    /// The divisor of the sum.
    fn divisor(&self, shape: Shape) -> f64 {
        match self {
            Self::None | Self::Sum => 1.0,
            Self::Mean => shape.n_elements() as f64,
            Self::BatchMean => shape.dim(0) as f64,
        }
    }
}

impl Op for KldivLoss {
    traits!(Never, "Target": [F32, F64], "X": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        dims::infer_same(infer, "X", "Target")?;
        let x = infer.input("X")?.with_lod_level(0);
        let loss = match Reduction::of(infer.attrs())? {
            Reduction::None => x,
            _ => x.with_dims(vec![1]),
        };
        infer.set_output("Loss", loss)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let reduction = Reduction::of(run.attrs())?;
        let mut loss = run.take("Loss");
        dims::run_same(run, "X", "Target")?;
        let x = run.input("X")?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let pairs = x.data::<T>()?.iter().zip(run.data::<T>("Target")?);
            let costs = pairs.map(|(&x, &t)| if t <= 0.0 { 0.0 } else { t * (t.ln() - x) });
            if let Reduction::None = reduction {
                let loss = loss.resize::<T>(x.shape());
                loss.iter_mut().zip(costs).for_each(|(loss, cost)| *loss = cost);
            } else {
                let sum = costs.sum::<T>() / (reduction.divisor(x.shape()) as T);
                loss.resize::<T>(Shape::from([1]))[0] = sum;
            }
            Ok(())
        })?;
        run.put("Loss", loss);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Loss"], &["X"]).inputs(&["X", "Target"]))
    }
}

/// dX = -dLoss Target where Target > 0, divided as the loss is.
impl Kernel for KldivLossGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let reduction = Reduction::of(run.attrs())?;
        let mut d_x = run.take("X@GRAD");
        let (target, d_loss) = (run.input("Target")?, run.input("Loss@GRAD")?);
        let n_needed = if let Reduction::None = reduction { target.len() } else { 1 };
        if d_loss.len() != n_needed {
            return Err(run.shapes(dims::LOSS, "Target", "Loss@GRAD"));
        }
        let divisor = reduction.divisor(target.shape());
        for_float!(target.dtype(), run.input_name("Target"), T => {
            let d_loss = run.data::<T>("Loss@GRAD")?.iter().cycle();
            let pairs = target.data::<T>()?.iter().zip(d_loss);
            for (d_x, (&t, &d)) in d_x.resize::<T>(target.shape()).iter_mut().zip(pairs) {
                *d_x = if t <= 0.0 { 0.0 } else { -t * d / (divisor as T) };
            }
            Ok(())
        })?;
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn loss(reduction: &str) -> Check {
        check("kldiv_loss")
            .input("X", t(&[2, 2], &[0.5, 1.0, -1.0, 2.0]))
            .input("Target", t(&[2, 2], &[1.0, 0.0, 2.0, -1.0]))
            .attr("reduction", reduction)
    }

    #[test]
    fn reduces_in_four_ways() {
        let far = 2.0 * (2f64.ln() + 1.0);
        loss("none").gives("Loss", t(&[2, 2], &[-0.5, 0.0, far, 0.0]));
        loss("sum").gives("Loss", t(&[1], &[far - 0.5]));
        loss("mean").gives("Loss", t(&[1], &[(far - 0.5) / 4.0]));
        loss("batchmean").gives("Loss", t(&[1], &[(far - 0.5) / 2.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        for reduction in ["none", "sum", "mean", "batchmean"] {
            loss(reduction).output("Loss").grad(&["X"]);
        }
    }

    #[test]
    fn refuses_an_unknown_reduction() {
        let error = loss("most").output("Loss").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
