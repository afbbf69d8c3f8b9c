//! `lstm_unit`: one step of a long short-term memory from X = (i, f, o, g), each \[n, d\]:
//! C = sigmoid(f + forget_bias) C_prev + sigmoid(i) tanh(g), H = sigmoid(o) tanh(C).

use tensor::{Float, Number, Shape};

use super::ragged::data_of_len;
use super::recurrent::Act;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct LstmUnit;
pub(super) struct LstmUnitGrad;

const RULE: &str = "X must be four times as wide as C_prev";

impl Op for LstmUnit {
    traits!(Never, "C_prev": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, c) = (infer.input("X")?, infer.input("C_prev")?);
        let (&[_, width], &[_, d]) = (&x.dims[..], &c.dims[..]) else {
            return Err(infer.shapes(RULE, "X", "C_prev"));
        };
        if width >= 0 && d >= 0 && width != d.saturating_mul(4) {
            return Err(infer.shapes(RULE, "X", "C_prev"));
        }
        infer.set_output("C", c.clone())?;
        infer.set_output("H", c)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut c, mut h) = (run.take("C"), run.take("H"));
        let shape = state_shape(run)?;
        let bias = run.attrs().float("forget_bias", 0.0)?;
        let previous = run.input("C_prev")?;
        for_float!(previous.dtype(), run.input_name("C_prev"), T => {
            let (x, previous) = (run.data::<T>("X")?, previous.data::<T>()?);
            let (c, h) = (c.resize::<T>(shape), h.resize::<T>(shape));
            let d = shape.last();
            for at in 0..c.len() {
                let [i, f, o, g] = gates(x, at, d, T::of(bias.into()));
                c[at] = f * previous[at] + i * g;
                h[at] = o * c[at].tanh();
            }
            Ok(())
        })?;
        run.put("C", c);
        run.put("H", h);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(
            Keep::grads(&["C", "H"], &["X", "C_prev"]).inputs(&["X", "C_prev"]).outputs(&["C"]),
        )
    }
}

/// The shape of C_prev, if X fits it.
fn state_shape(run: &Run<'_>) -> Result<Shape> {
    let (x, c) = (run.input("X")?, run.input("C_prev")?);
    match (x.dims(), c.dims()) {
        (&[n, width], &[rows, d]) if n == rows && d.checked_mul(4) == Some(width) => Ok(c.shape()),
        _ => Err(run.shapes(RULE, "X", "C_prev")),
    }
}

/// Where gate i of element `at` is in X; the others follow `d` apart.
fn place(at: usize, d: usize) -> usize {
    at / d * 4 * d + at % d
}

fn gates<T: Float>(x: &[T], at: usize, d: usize, forget_bias: T) -> [T; 4] {
    let start = place(at, d);
    let sigmoid = |k: usize| Act::Sigmoid.of(x[start + k * d]);
    let forget = Act::Sigmoid.of(x[start + d] + forget_bias);
    [sigmoid(0), forget, sigmoid(2), x[start + 3 * d].tanh()]
}

/// With dC' = dC + dH o (1 - tanh² C): dC_prev = f dC'; di, df, dg from dC', do from dH.
impl Kernel for LstmUnitGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_previous) = (run.take("X@GRAD"), run.take("C_prev@GRAD"));
        let shape = state_shape(run)?;
        let bias = run.attrs().float("forget_bias", 0.0)?;
        let (x, previous) = (run.input("X")?, run.input("C_prev")?);
        let (n, d) = (previous.len(), shape.last());
        for_float!(previous.dtype(), run.input_name("C_prev"), T => {
            let c = data_of_len::<T>(run, "C", n)?;
            let d_c = data_of_len::<T>(run, "C@GRAD", n)?;
            let d_h = data_of_len::<T>(run, "H@GRAD", n)?;
            let (previous, x_data) = (previous.data::<T>()?, run.data::<T>("X")?);
            let d_x = d_x.resize::<T>(x.shape());
            let d_previous = d_previous.resize::<T>(shape);
            for at in 0..n {
                let [i, f, o, g] = gates(x_data, at, d, T::of(bias.into()));
                let tanh = c[at].tanh();
                let d_c = d_c[at] + d_h[at] * o * Act::Tanh.slope(tanh);
                let start = place(at, d);
                d_x[start] = d_c * g * Act::Sigmoid.slope(i);
                d_x[start + d] = d_c * previous[at] * Act::Sigmoid.slope(f);
                d_x[start + 2 * d] = d_h[at] * tanh * Act::Sigmoid.slope(o);
                d_x[start + 3 * d] = d_c * i * Act::Tanh.slope(g);
                d_previous[at] = d_c * f;
            }
            Ok(())
        })?;
        run.put("X@GRAD", d_x);
        run.put("C_prev@GRAD", d_previous);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn unit() -> Check {
        let x = [
            0.45, -0.72, -0.37, -0.16, 0.75, -0.69, 0.76, 0.6, 0.94, -0.26, -0.59, -0.52, 0.66,
            0.93, 0.4, -0.04,
        ];
        check("lstm_unit")
            .input("X", t(&[2, 8], &x))
            .input("C_prev", t(&[2, 2], &[0.48, -0.68, 0.39, 0.68]))
            .attr("forget_bias", 0.5f32)
    }

    /// The results of Fluid 1.8.5 for the op `lstm_unit` with these inputs and forget_bias 0.5.
    #[test]
    fn steps_as_fluid_does() {
        let c = [0.6470447778701782, -0.22142332792282104, 0.4594520926475525, 0.31919485330581665];
        let h = [0.38691261410713196, -0.07277720421552658, 0.2832430303096771, 0.2214176058769226];
        unit().gives("C", t(&[2, 2], &c)).gives("H", t(&[2, 2], &h));
    }

    #[test]
    fn gradients_match_finite_differences() {
        unit().output("C").output("H").grad(&["X", "C_prev"]);
    }

    #[test]
    fn refuses_other_widths() {
        let wrong = check("lstm_unit").input("X", t(&[1, 4], &[0.0; 4]));
        let error = wrong.input("C_prev", t(&[1, 2], &[0.0; 2])).output("C").output("H").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
