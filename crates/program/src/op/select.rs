//! `where`: Out = X where Condition holds, else Y; all of one shape.

use tensor::{Bool, Element};

use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, for_number, traits};
use crate::error::Result;

pub(super) struct Where;
pub(super) struct WhereGrad;

impl Op for Where {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.input("Y")?;
        infer.input("Condition")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        dims::run_same(run, "X", "Y")?;
        dims::run_same(run, "X", "Condition")?;
        run.fill("Out", "X", |run, x, out| for_number!(x.dtype(), run.input_name("X"), T => {
            let (condition, y) = (run.data::<Bool>("Condition")?, run.data::<T>("Y")?);
            let out = out.resize::<T>(x.shape());
            for (((out, truth), &x), &y) in out.iter_mut().zip(condition).zip(x.data::<T>()?).zip(y)
            {
                *out = if truth.get() { x } else { y };
            }
            Ok(())
        }))
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Y"]).inputs(&["Condition", "X", "Y"]))
    }
}

/// dX = dOut where Condition holds, else 0; dY the other way around.
impl Kernel for WhereGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
        dims::run_same(run, "Condition", "Out@GRAD")?;
        let (condition, d_out) = (run.data::<Bool>("Condition")?, run.input("Out@GRAD")?);
        for_float!(d_out.dtype(), run.input_name("Out@GRAD"), T => {
            for (port, side, target) in [("X@GRAD", true, &mut d_x), ("Y@GRAD", false, &mut d_y)] {
                if run.wants(port) {
                    let target = target.resize::<T>(d_out.shape());
                    mask(condition, side, d_out.data::<T>()?, target);
                }
            }
            Ok(())
        })?;
        for (port, mut tensor) in [("X@GRAD", d_x), ("Y@GRAD", d_y)] {
            tensor.set_lod(run.input("Out@GRAD")?.lod().clone());
            run.put(port, tensor);
        }
        Ok(())
    }
}

/// `out[i] = d[i]` where the condition is as asked, else 0.
fn mask<T: Element>(condition: &[Bool], asked: bool, d: &[T], out: &mut [T]) {
    for ((out, truth), &d) in out.iter_mut().zip(condition).zip(d) {
        *out = if truth.get() == asked { d } else { T::zeroed() };
    }
}

#[cfg(test)]
mod tests {
    use tensor::{Bool, Tensor};

    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn choose(n: usize) -> Check {
        let condition: Vec<Bool> = (0..n).map(|i| Bool::from(i % 2 == 0)).collect();
        check("where").input("Condition", Tensor::new([n], &condition).unwrap())
    }

    #[test]
    fn chooses_by_element() {
        let op = choose(3).input("X", t(&[3], &[1.0, 2.0, 3.0]));
        op.input("Y", t(&[3], &[7.0, 8.0, 9.0])).gives("Out", t(&[3], &[1.0, 8.0, 3.0]));
        let op = choose(2).input("X", ids(&[2], &[1, 2])).input("Y", ids(&[2], &[7, 8]));
        op.gives("Out", ids(&[2], &[1, 8]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let op = choose(2).input("X", t(&[2], &[1.0, 2.0])).input("Y", t(&[2], &[7.0, 8.0]));
        op.output("Out").grad(&["X", "Y"]);
    }

    #[test]
    fn refuses_other_shapes_and_types() {
        let op = choose(3).input("X", t(&[2], &[1.0, 2.0])).input("Y", t(&[2], &[7.0, 8.0]));
        let error = op.output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let op = choose(1).input("X", t(&[1], &[1.0])).input("Y", ids(&[1], &[7]));
        let error = op.output("Out").fails();
        assert!(matches!(error.root(), Error::Tensor(_)), "{error}");
    }
}
