//! `teacher_student_sigmoid_loss`: the cross entropy of sigmoid(X) with a click and, if there is one, with the value of a
//! teacher. Label is -2 (no click), -1 (click), z (no click and teacher's value z in \[0, 1)) or 1 + z (click and z).

use tensor::Float;

use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::error::Result;

pub(super) struct TeacherStudentSigmoidLoss;
pub(super) struct TeacherStudentSigmoidLossGrad;

const COLUMN: &str = "X and Label have one column";

impl Op for TeacherStudentSigmoidLoss {
    traits!(All(&["X", "Label"]), "X": [F32, F64], "Label": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        dims::infer_same(infer, "X", "Label")?;
        let [n_rows, 1 | -1] = *x.dims else { return Err(infer.shapes(COLUMN, "X", "Label")) };
        infer.set_output("Y", x.with_dims(vec![n_rows, 1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        check_columns(run)?;
        run.fill("Y", "X", |run, x, y| {
            for_float!(x.dtype(), run.input_name("X"), T => {
                let pairs = x.data::<T>()?.iter().zip(run.data::<T>("Label")?);
                let y = y.resize::<T>(x.shape()).iter_mut();
                y.zip(pairs).for_each(|(y, (&x, &label))| *y = loss(x, label));
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Y"], &["X"]).inputs(&["X", "Label"]))
    }
}

fn check_columns(run: &Run<'_>) -> Result<()> {
    dims::run_same(run, "X", "Label")?;
    match run.input("X")?.dims() {
        [_, 1] => Ok(()),
        _ => Err(run.shapes(COLUMN, "X", "Label")),
    }
}

fn loss<T: Float>(x: T, label: T) -> T {
    let (zero, one) = (T::zero(), T::one());
    // The cross entropy of sigmoid(x) and 0; that of z is x z less.
    let none = x.max(zero) + (one + (-x.abs()).exp()).ln();
    if label < -one {
        none
    } else if label < zero {
        none - x
    } else if label < one {
        none + none - x * label
    } else {
        none - x + none - x * (label - one)
    }
}

/// dX = (sigmoid(X) of each cross entropy, less what it should be) dY; 0 where X is not between the bounds.
impl Kernel for TeacherStudentSigmoidLossGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let high = run.attrs().float("soft_max_up_bound", 15.0)?;
        let low = run.attrs().float("soft_max_lower_bound", -15.0)?;
        check_columns(run)?;
        dims::run_same(run, "X", "Y@GRAD")?;
        run.fill("X@GRAD", "X", |run, x, d_x| {
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (high, low) = (T::from(high), T::from(low));
                let (labels, d_y) = (run.data::<T>("Label")?, run.data::<T>("Y@GRAD")?);
                let d_x = d_x.resize::<T>(x.shape()).iter_mut().zip(x.data::<T>()?);
                for ((d_x, &x), (&label, &d_y)) in d_x.zip(labels.iter().zip(d_y)) {
                    let inside = x < high && x > low;
                    *d_x = if inside { slope(x, label) * d_y } else { 0.0 };
                }
                Ok(())
            })
        })
    }
}

fn slope<T: Float>(x: T, label: T) -> T {
    let one = T::one();
    let predicted = one / (one + (-x).exp());
    if label < -one {
        predicted
    } else if label < T::zero() {
        predicted - one
    } else {
        predicted + predicted - label
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn costs() -> Check {
        check("teacher_student_sigmoid_loss")
            .input("X", t(&[4, 1], &[0.5, -0.5, 0.25, -1.0]))
            .input("Label", t(&[4, 1], &[-2.0, -1.0, 0.25, 1.5]))
    }

    #[test]
    fn adds_the_costs_of_click_and_teacher() {
        let none = |x: f64| (1.0 + x.exp()).ln();
        let expected =
            [none(0.5), none(-0.5) + 0.5, 2.0 * none(0.25) - 0.0625, 2.0 * none(-1.0) + 1.0 + 0.5];
        costs().gives("Y", t(&[4, 1], &expected));
    }

    #[test]
    fn gradient_matches_finite_differences_between_the_bounds() {
        costs().output("Y").grad(&["X"]);
    }

    #[test]
    fn refuses_more_columns() {
        let check = check("teacher_student_sigmoid_loss").input("X", some(&[2, 2]));
        let error = check.input("Label", some(&[2, 2])).output("Y").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
