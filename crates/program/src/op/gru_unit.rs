//! `gru_unit`: one step of a gated recurrent unit over a batch of rows.
//!
//! With G = Input + Bias and H the previous state: (u, r) = gate(G₁₂ + H W₁₂), R = r H,
//! c = act(G₃ + R W₃), Hidden = (1 - u) H + u c, or with `origin_mode` u H + (1 - u) c.
//! Weight holds W₁₂ \[d, 2d\] and behind it W₃ \[d, d\]; its shape is written \[d, 3d\]. Gate is
//! (u, r, c), ResetHiddenPrev is R.

use tensor::gemm::{Matrix, gemm};
use tensor::{Float, Shape};

use super::ragged::data_of_len;
use super::recurrent::{Act, add_to_rows, sum_rows};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct GruUnit;
pub(super) struct GruUnitGrad;

pub(super) const RULE: &str = "Input must be [n, 3d], Weight [d, 3d]";

/// The rules and weights of a step.
pub(super) struct GruCell<'a, T> {
    pub(super) size: usize,
    /// `size` x 3 `size` numbers.
    pub(super) weight: &'a [T],
    pub(super) rules: Rules,
}

/// The attributes of a step.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) gate: Act,
    pub(super) candidate: Act,
    pub(super) origin_mode: bool,
}

/// The outputs of a step. `gate` comes in as the input with its bias.
pub(super) struct GruOutputs<'a, T> {
    pub(super) gate: &'a mut [T],
    pub(super) reset: &'a mut [T],
    pub(super) hidden: &'a mut [T],
}

/// The inputs of the gradient of a step.
pub(super) struct GruForwardStep<'a, T> {
    pub(super) previous: &'a [T],
    pub(super) gate: &'a [T],
    pub(super) reset: &'a [T],
    pub(super) d_hidden: &'a [T],
}

/// The outputs of the gradient of a step; `d_weight` is added to.
pub(super) struct Grads<'a, T> {
    pub(super) d_gate: &'a mut [T],
    pub(super) d_previous: &'a mut [T],
    pub(super) d_weight: &'a mut [T],
}

impl<'a, T: Float> GruCell<'a, T> {
    fn gate_weight(&self) -> Matrix<'a, T> {
        let d = self.size;
        Matrix::new(&self.weight[..2 * d * d], d, 2 * d)
    }

    fn candidate_weight(&self) -> Matrix<'a, T> {
        let d = self.size;
        Matrix::new(&self.weight[2 * d * d..], d, d)
    }

    /// Numbers of scratch memory for `n` rows: 4 in a step, 1 for what a caller hands from step
    /// to step.
    pub(super) fn scratch(&self, n: usize) -> usize {
        5 * n * self.size
    }

    /// One step from the states `previous`.
    pub(super) fn forward(&self, previous: &[T], out: GruOutputs<'_, T>, scratch: &mut [T]) {
        let (d, one) = (self.size, T::one());
        let n = previous.len() / d;
        let product = &mut scratch[..2 * n * d];
        gemm(one, Matrix::new(previous, n, d), self.gate_weight(), T::zero(), product);
        let rows = out.gate.chunks_exact_mut(3 * d).zip(product.chunks_exact(2 * d));
        let rows = rows.zip(previous.chunks_exact(d).zip(out.reset.chunks_exact_mut(d)));
        for ((gate, product), (previous, reset)) in rows {
            for (gate, &p) in gate.iter_mut().zip(product) {
                *gate = self.rules.gate.of(*gate + p);
            }
            for j in 0..d {
                reset[j] = gate[d + j] * previous[j];
            }
        }
        let product = &mut scratch[..n * d];
        let reset = Matrix::new(&*out.reset, n, d);
        gemm(one, reset, self.candidate_weight(), T::zero(), product);
        let rows = out.gate.chunks_exact_mut(3 * d).zip(product.chunks_exact(d));
        let rows = rows.zip(previous.chunks_exact(d).zip(out.hidden.chunks_exact_mut(d)));
        for ((gate, product), (previous, hidden)) in rows {
            for j in 0..d {
                let c = self.rules.candidate.of(gate[2 * d + j] + product[j]);
                gate[2 * d + j] = c;
                let (u, h) = (gate[j], previous[j]);
                let u = if self.rules.origin_mode { one - u } else { u };
                hidden[j] = (one - u) * h + u * c;
            }
        }
    }

    /// The gradients of one step.
    pub(super) fn backward(
        &self,
        known: &GruForwardStep<'_, T>,
        out: Grads<'_, T>,
        scratch: &mut [T],
    ) {
        let d = self.size;
        let one = T::one();
        let zero = T::zero();
        let n = known.previous.len() / d;
        let (d_gates, rest) = scratch[..4 * n * d].split_at_mut(2 * n * d);
        let (d_candidate, d_reset) = rest.split_at_mut(n * d);
        for (at, d_candidate) in d_candidate.iter_mut().enumerate() {
            let (row, j) = (at / d, at % d);
            let (u, c) = (known.gate[row * 3 * d + j], known.gate[row * 3 * d + 2 * d + j]);
            let (h, d_h) = (known.previous[at], known.d_hidden[at]);
            let share = if self.rules.origin_mode { one - u } else { u };
            let d_share = d_h * (c - h);
            let d_u = if self.rules.origin_mode { -d_share } else { d_share };
            d_gates[row * 2 * d + j] = d_u * self.rules.gate.slope(u);
            *d_candidate = d_h * share * self.rules.candidate.slope(c);
            out.d_previous[at] = d_h * (one - share);
        }
        let d_candidate = Matrix::new(&*d_candidate, n, d);
        gemm(one, d_candidate, self.candidate_weight().t(), zero, d_reset);
        for (at, &d_reset) in d_reset.iter().enumerate() {
            let (row, j) = (at / d, at % d);
            let r = known.gate[row * 3 * d + d + j];
            let d_r = d_reset * known.previous[at];
            d_gates[row * 2 * d + d + j] = d_r * self.rules.gate.slope(r);
            out.d_previous[at] += d_reset * r;
        }
        let d_gates_matrix = Matrix::new(&*d_gates, n, 2 * d);
        gemm(one, d_gates_matrix, self.gate_weight().t(), one, out.d_previous);
        let (d_w12, d_w3) = out.d_weight.split_at_mut(2 * d * d);
        gemm(one, Matrix::new(known.previous, n, d).t(), d_gates_matrix, one, d_w12);
        gemm(one, Matrix::new(known.reset, n, d).t(), d_candidate, one, d_w3);
        let d_candidate = &rest[..n * d];
        for (row, d_gate) in out.d_gate.chunks_exact_mut(3 * d).enumerate() {
            d_gate[..2 * d].copy_from_slice(&d_gates[row * 2 * d..(row + 1) * 2 * d]);
            d_gate[2 * d..].copy_from_slice(&d_candidate[row * d..(row + 1) * d]);
        }
    }
}

/// Rows of the input and the size of a state; `input` and Weight agree on it.
pub(super) fn sizes(run: &Run<'_>, input: &str) -> Result<(usize, usize)> {
    let (x, weight) = (run.input(input)?, run.input("Weight")?);
    let (&[n, width], &[d, columns]) = (x.dims(), weight.dims()) else {
        return Err(run.shapes(RULE, input, "Weight"));
    };
    if d == 0 || d.checked_mul(3) != Some(width) || columns != width {
        return Err(run.shapes(RULE, input, "Weight"));
    }
    if run.opt_input("Bias").is_some_and(|bias| bias.len() != width) {
        return Err(run.shapes("Bias must be [1, 3d]", "Bias", "Weight"));
    }
    Ok((n, d))
}

/// Checks Input [n, 3d] against Weight [d, 3d] as far as they are known, and returns (n, d).
pub(super) fn infer_sizes(infer: &Infer<'_>) -> Result<(i64, i64)> {
    let (x, weight) = (infer.input("Input")?, infer.input("Weight")?);
    match (&x.dims[..], &weight.dims[..]) {
        (&[n, width], &[d, columns])
            if columns == d.saturating_mul(3) && (width == columns || width < 0) =>
        {
            Ok((n, d))
        }
        _ => Err(infer.shapes(RULE, "Input", "Weight")),
    }
}

fn rules(attrs: &crate::attr::Attrs) -> Result<Rules> {
    Ok(Rules {
        gate: Act::numbered(attrs, "gate_activation", 1)?,
        candidate: Act::numbered(attrs, "activation", 2)?,
        origin_mode: attrs.bool("origin_mode", false)?,
    })
}

impl Op for GruUnit {
    traits!(Never, "HiddenPrev": [F32, F64], "Input": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (n, d) = infer_sizes(infer)?;
        let x = infer.input("Input")?;
        infer.set_output("Gate", x.with_dims(vec![n, d.saturating_mul(3)]))?;
        infer.set_output("ResetHiddenPrev", x.with_dims(vec![n, d]))?;
        infer.set_output("Hidden", x.with_dims(vec![n, d]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let rules = rules(run.attrs())?;
        let (mut gate, mut reset) = (run.take("Gate"), run.take("ResetHiddenPrev"));
        let (mut hidden, mut scratch) = (run.take("Hidden"), run.spare().tensor());
        let ((n, d), x) = (sizes(run, "Input")?, run.input("Input")?);
        for_float!(x.dtype(), run.input_name("Input"), T => {
            gate.copy_from(x);
            let gate = gate.data_mut::<T>()?;
            if run.n_inputs("Bias") > 0 {
                add_to_rows(run.data::<T>("Bias")?, gate);
            }
            let cell = GruCell { size: d, weight: run.data::<T>("Weight")?, rules };
            let written = GruOutputs {
                gate,
                reset: reset.resize::<T>(Shape::from([n, d])),
                hidden: hidden.resize::<T>(Shape::from([n, d])),
            };
            let scratch = scratch.resize::<T>(Shape::from([cell.scratch(n)]));
            cell.forward(data_of_len(run, "HiddenPrev", n * d)?, written, scratch);
            Ok(())
        })?;
        hidden.set_lod(x.lod().clone());
        run.put("Gate", gate);
        run.put("ResetHiddenPrev", reset);
        run.put("Hidden", hidden);
        run.spare().keep(scratch);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(
            Keep::grads(&["Hidden"], &["Input", "HiddenPrev", "Weight", "Bias"])
                .inputs(&["Input", "HiddenPrev", "Weight", "Bias"])
                .outputs(&["Gate", "ResetHiddenPrev"]),
        )
    }
}

impl Kernel for GruUnitGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let rules = rules(run.attrs())?;
        let (mut d_x, mut d_previous) = (run.take("Input@GRAD"), run.take("HiddenPrev@GRAD"));
        let (mut d_weight, mut d_bias) = (run.take("Weight@GRAD"), run.take("Bias@GRAD"));
        let mut scratch = run.spare().tensor();
        let ((n, d), x) = (sizes(run, "Input")?, run.input("Input")?);
        for_float!(x.dtype(), run.input_name("Input"), T => {
            let cell = GruCell { size: d, weight: run.data::<T>("Weight")?, rules };
            let known = GruForwardStep {
                previous: data_of_len(run, "HiddenPrev", n * d)?,
                gate: data_of_len(run, "Gate", 3 * n * d)?,
                reset: data_of_len(run, "ResetHiddenPrev", n * d)?,
                d_hidden: data_of_len(run, "Hidden@GRAD", n * d)?,
            };
            let d_gate = d_x.resize::<T>(x.shape());
            let grads = Grads {
                d_gate: &mut *d_gate,
                d_previous: d_previous.resize::<T>(Shape::from([n, d])),
                d_weight: d_weight.resize_zeroed::<T>(Shape::from([d, 3 * d])),
            };
            cell.backward(&known, grads, scratch.resize::<T>(Shape::from([cell.scratch(n)])));
            if run.n_inputs("Bias") > 0 {
                sum_rows(d_gate, d_bias.resize::<T>(run.input("Bias")?.shape()));
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("Input@GRAD", d_x);
        run.put("HiddenPrev@GRAD", d_previous);
        run.put("Weight@GRAD", d_weight);
        run.put("Bias@GRAD", d_bias);
        run.spare().keep(scratch);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    const X: [f64; 18] = [
        -0.03, -0.28, 0.42, 0.49, 0.38, 0.38, -0.25, 0.34, -0.32, 0.15, -0.35, -0.11, -0.88, -0.51,
        0.94, -0.54, 0.38, 0.3,
    ];
    const W: [f64; 12] =
        [0.95, 0.34, 0.81, 0.69, -0.24, -0.82, 0.31, 0.12, -0.28, -0.55, -0.19, -0.06];
    const B: [f64; 6] = [-0.46, -0.42, -0.08, 0.72, 0.17, -0.43];
    const H: [f64; 6] = [-0.44, -0.09, -0.59, -0.6, 0.03, -0.83];

    fn unit() -> Check {
        check("gru_unit")
            .input("Input", t(&[3, 6], &X))
            .input("HiddenPrev", t(&[3, 2], &H))
            .input("Weight", t(&[2, 6], &W))
            .input("Bias", t(&[1, 6], &B))
    }

    /// The results of Fluid 1.8.5 for the op `gru_unit` with these inputs, activation 2 and
    /// gate_activation 1.
    #[test]
    fn steps_as_fluid_does() {
        let hidden = [
            -0.1502535045146942,
            -0.03892410174012184,
            -0.4625781774520874,
            -0.4948391914367676,
            0.16021154820919037,
            -0.5146570801734924,
        ];
        let outputs = |check: Check| check.output("Gate").output("ResetHiddenPrev").within(1e-6);
        outputs(unit()).gives("Hidden", t(&[3, 2], &hidden));
        let origin = [
            0.26303473114967346,
            0.020953651517629623,
            -0.196924090385437,
            -0.5148775577545166,
            0.42601829767227173,
            -0.42944109439849854,
        ];
        outputs(unit().attr("origin_mode", true)).gives("Hidden", t(&[3, 2], &origin));
    }

    #[test]
    fn gradients_match_finite_differences() {
        for (origin, gate, act) in [(false, 1, 2), (true, 1, 2), (false, 2, 1), (false, 0, 0)] {
            unit()
                .attr("origin_mode", origin)
                .attr("gate_activation", gate)
                .attr("activation", act)
                .aux("Gate")
                .aux("ResetHiddenPrev")
                .output("Hidden")
                .grad(&["Input", "HiddenPrev", "Weight", "Bias"]);
        }
    }

    #[test]
    fn refuses_sizes_and_activations_that_do_not_fit() {
        let error = unit().attr("activation", 4).output("Hidden").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let wrong = check("gru_unit")
            .input("Input", t(&[1, 6], &[0.0; 6]))
            .input("Weight", t(&[2, 6], &W))
            .input("HiddenPrev", t(&[1, 3], &[0.0; 3]));
        let error = wrong.output("Hidden").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let wrong = check("gru_unit")
            .input("Input", t(&[1, 5], &[0.0; 5]))
            .input("Weight", t(&[2, 6], &W))
            .input("HiddenPrev", t(&[1, 2], &[0.0; 2]));
        let error = wrong.output("Hidden").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
