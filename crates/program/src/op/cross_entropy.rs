//! `cross_entropy`: Y = -log X\[label\], or -sum(label log X) with soft labels.
//!
//! X holds probabilities along its last dimension. The log of 0 counts as -1e20, as in Fluid, and
//! rows labelled `ignore_index` cost nothing.

use tensor::Float;

use super::label::{self, Labels};
use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::error::Result;

pub(super) struct CrossEntropy;
pub(super) struct CrossEntropyGrad;

const NEEDS_CLASSES: &str = "probabilities need a dimension of classes";

/// The log, with its infinities replaced by large numbers.
pub(super) fn log<T: Float>(x: T) -> T {
    let large = T::of(1e20);
    let log = x.ln();
    if log == T::neg_infinity() {
        -large
    } else if log == T::infinity() {
        large
    } else {
        log
    }
}

/// Shape of the loss of probabilities X; also that of `cross_entropy2` and `bpr_loss`.
pub(super) fn infer_loss(infer: &Infer<'_>, soft: bool) -> Result<crate::var::Meta> {
    let x = infer.input("X")?;
    if x.dims.is_empty() {
        return Err(infer.shape(NEEDS_CLASSES, "X"));
    }
    label::infer_loss(infer, "X", x.dims.len() - 1, soft)
}

impl Op for CrossEntropy {
    traits!(Never, "X": [F16, F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let loss = infer_loss(infer, infer.attrs().bool("soft_label", false)?)?;
        infer.set_output("Y", loss)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let soft = run.attrs().bool("soft_label", false)?;
        let ignored = run.attrs().int("ignore_index", -100)?;
        run.fill("Y", "X", |run, x, y| {
            let n_classes = x.shape().last();
            let shape = label::loss_shape(run, "X", x.shape().rank() - 1, soft)?;
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (x, y) = (x.data::<T>()?, y.resize::<T>(shape));
                if soft {
                    soft_loss(x, run.data::<T>("Label")?, y, n_classes);
                    Ok(())
                } else {
                    hard_loss(x, &Labels::new(run, "Label", n_classes, Some(ignored))?, y, n_classes)
                }
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Y"], &["X"]).inputs(&["X", "Label"]))
    }
}

fn soft_loss<T: Float>(x: &[T], label: &[T], y: &mut [T], n_classes: usize) {
    let rows = x.chunks_exact(n_classes.max(1)).zip(label.chunks_exact(n_classes.max(1)));
    for (y, (x, label)) in y.iter_mut().zip(rows) {
        *y = -x.iter().zip(label).fold(T::zero(), |sum, (&x, &label)| sum + label * log(x));
    }
}

fn hard_loss<T: Float>(x: &[T], labels: &Labels<'_>, y: &mut [T], n: usize) -> Result<()> {
    for (row, y) in y.iter_mut().enumerate() {
        *y = match labels.class(row)? {
            Some(class) => -log(x[row * n + class]),
            None => T::zero(),
        };
    }
    Ok(())
}

/// dX = -dY label / X with soft labels; -dY / X at the label, 0 elsewhere with hard ones.
impl Kernel for CrossEntropyGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let soft = run.attrs().bool("soft_label", false)?;
        let ignored = run.attrs().int("ignore_index", -100)?;
        let mut d_x = run.take("X@GRAD");
        let (x, d_y) = (run.input("X")?, run.input("Y@GRAD")?);
        let n = x.shape().last();
        if label::loss_shape(run, "X", x.shape().rank() - 1, soft)? != d_y.shape() {
            return Err(run.shapes(dims::LOSS, "X", "Y@GRAD"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let d_y = run.data::<T>("Y@GRAD")?;
            let d_x = d_x.resize_zeroed::<T>(x.shape());
            let x = x.data::<T>()?;
            if soft {
                let label = run.data::<T>("Label")?;
                for (at, d_x) in d_x.iter_mut().enumerate() {
                    *d_x = -d_y[at / n] * label[at] / x[at];
                }
            } else {
                let labels = Labels::new(run, "Label", n, Some(ignored))?;
                for (row, &d_y) in d_y.iter().enumerate() {
                    if let Some(class) = labels.class(row)? {
                        d_x[row * n + class] = -d_y / x[row * n + class];
                    }
                }
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn hard(labels: &[i64]) -> Check {
        check("cross_entropy")
            .input("X", t(&[2, 3], &[0.2, 0.3, 0.5, 0.6, 0.4, 0.0]))
            .input("Label", ids(&[2, 1], labels))
    }

    #[test]
    fn takes_the_log_of_the_labelled_class() {
        hard(&[2, 0]).gives("Y", t(&[2, 1], &[2f64.ln(), -(0.6f64.ln())]));
    }

    #[test]
    fn the_log_of_zero_is_bounded_and_ignored_rows_cost_nothing() {
        let check = hard(&[1, 2]).attr("ignore_index", 1);
        check.within(1e-3).gives("Y", t(&[2, 1], &[0.0, 1e20]));
    }

    #[test]
    fn soft_labels_weigh_the_logs() {
        check("cross_entropy")
            .input("X", t(&[1, 2], &[0.5, 0.25]))
            .input("Label", t(&[1, 2], &[1.0, 0.5]))
            .attr("soft_label", true)
            .gives("Y", t(&[1, 1], &[2.0 * 2f64.ln()]));
    }

    #[test]
    fn labels_may_leave_the_classes_out() {
        check("cross_entropy")
            .input("X", t(&[2, 2], &[0.5, 0.5, 0.25, 0.75]))
            .input("Label", ids(&[2], &[0, 0]))
            .gives("Y", t(&[2], &[2f64.ln(), 4f64.ln()]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        hard(&[2, 0]).output("Y").grad(&["X"]);
        hard(&[1, 0]).attr("ignore_index", 1).output("Y").grad(&["X"]);
        check("cross_entropy")
            .input("X", t(&[2, 2], &[0.5, 0.5, 0.25, 0.75]))
            .input("Label", t(&[2, 2], &[0.1, 0.9, 0.4, 0.6]))
            .attr("soft_label", true)
            .output("Y")
            .grad(&["X"]);
    }

    #[test]
    fn refuses_a_label_that_is_no_class() {
        let error = hard(&[0, 3]).output("Y").fails();
        let at = |e: &Error| matches!(e, Error::LabelOutOfRange { row: 1, label: 3, .. });
        assert!(at(error.root()), "{error}");
    }

    #[test]
    fn refuses_labels_of_another_shape() {
        let error = check("cross_entropy")
            .input("X", t(&[2, 2], &[0.5, 0.5, 0.25, 0.75]))
            .input("Label", ids(&[1, 1], &[0]))
            .output("Y")
            .fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
