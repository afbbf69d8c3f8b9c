//! `elementwise_add`: Out = X + Y, Y broadcast along `axis`.

use tensor::Shape;

use super::broadcast::{self, Span};
use super::{Grad, Infer, Keep, Op, Run, for_float, for_number};
use crate::error::Result;

pub(super) struct ElementwiseAdd;
pub(super) struct ElementwiseAddGrad;

const RULE: &str = "Y must match a run of X's dimensions starting at axis";

impl Op for ElementwiseAdd {
    fn name(&self) -> &'static str {
        "elementwise_add"
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, y) = (infer.input("X")?, infer.input("Y")?);
        if !broadcast::fits(&x.dims, &y.dims, infer.attrs().int("axis", -1)?) {
            return Err(infer.shapes(RULE, "X", "Y"));
        }
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let axis = run.attrs().int("axis", -1)?;
        let mut out = run.take("Out");
        let (x, y) = (run.input("X")?, run.input("Y")?);
        let span = Span::of(x.shape(), y.shape(), axis);
        let span = span.ok_or_else(|| run.shapes(RULE, "X", "Y"))?;
        for_number!(x.dtype(), run.input_name("X"), T => {
            let (x_data, y) = (x.data::<T>()?, run.data::<T>("Y")?);
            let out = out.resize::<T>(x.shape());
            span.for_each(|at, j| out[at] = x_data[at] + y[j]);
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep {
            inputs: &["X", "Y"],
            out_grads: &["Out"],
            in_grads: &["X", "Y"],
            ..Keep::default()
        })
    }
}

/// dX = dOut, dY = dOut summed over what Y was broadcast along.
impl Op for ElementwiseAddGrad {
    fn name(&self) -> &'static str {
        "elementwise_add_grad"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let axis = run.attrs().int("axis", -1)?;
        let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
        let (d_out, y) = (run.input("Out@GRAD")?, run.input("Y")?);
        let span = Span::of(d_out.shape(), y.shape(), axis);
        let span = span.ok_or_else(|| run.shapes(RULE, "Out@GRAD", "Y"))?;
        if run.wants("X@GRAD") {
            d_x.copy_from(d_out);
        }
        if run.wants("Y@GRAD") {
            let shape: Shape = y.shape();
            for_float!(d_out.dtype(), run.input_name("Out@GRAD"), T => {
                let (d_out, d_y) = (d_out.data::<T>()?, d_y.resize_zeroed::<T>(shape));
                span.for_each(|at, j| d_y[j] += d_out[at]);
                Ok(())
            })?;
        }
        run.put("X@GRAD", d_x);
        run.put("Y@GRAD", d_y);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, t};

    #[test]
    fn adds_a_bias_to_each_row() {
        check("elementwise_add")
            .input("X", t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input("Y", t(&[2], &[10.0, 20.0]))
            .attr("axis", 1)
            .gives("Out", t(&[2, 2], &[11.0, 22.0, 13.0, 24.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        check("elementwise_add")
            .input("X", t(&[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 0.0, -1.0, 5.0, 6.0]))
            .input("Y", t(&[2], &[10.0, 20.0]))
            .attr("axis", 1)
            .output("Out")
            .grad(&["X", "Y"]);
    }

    #[test]
    fn refuses_a_shape_that_does_not_line_up() {
        let error = check("elementwise_add")
            .input("X", t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input("Y", t(&[3], &[1.0, 2.0, 3.0]))
            .output("Out")
            .fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
