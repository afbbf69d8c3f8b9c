//! `gru`: a gated recurrent unit run along each sequence; one step is that of `gru_unit`.
//!
//! States start at H0 (one row per sequence) or 0; `is_reverse` runs from the end. Steps of all
//! sequences are computed as batches (see `recurrent`); BatchGate, BatchResetHiddenPrev and
//! BatchHidden hold what the gradient needs, in that order. Hidden is in the order of Input.

use tensor::{Float, Shape, Tensor};

use super::gru_unit::{Grads, GruCell, GruForwardStep, GruOutputs, Rules, infer_sizes, sizes};
use super::ragged::{self, data_of_len};
use super::recurrent::{Act, Steps, add_to_rows, sum_rows};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct Gru;
pub(super) struct GruGrad;

const OP: &str = "GRUOp";

fn rules(attrs: &crate::attr::Attrs) -> Result<Rules> {
    Ok(Rules {
        gate: Act::named(attrs, "gate_activation", "sigmoid")?,
        candidate: Act::named(attrs, "activation", "tanh")?,
        origin_mode: attrs.bool("origin_mode", false)?,
    })
}

fn steps(run: &Run<'_>) -> Result<Steps> {
    let offsets = ragged::only_offsets(run, OP, "Input")?;
    if run.opt_input("H0").is_some_and(|h0| h0.dims().first() != Some(&(offsets.len() - 1))) {
        return Err(run.shapes("H0 must have a row for each sequence", "H0", "Input"));
    }
    Ok(Steps::new(offsets, run.attrs().bool("is_reverse", false)?))
}

/// The states before the first step, in the order of batch 0.
fn first_states<'a, T: Float>(
    run: &Run<'_>,
    steps: &Steps,
    d: usize,
    states: &'a mut Tensor,
) -> Result<&'a [T]> {
    let states = states.resize_zeroed::<T>(Shape::from([steps.n_first(), d]));
    if let Some(h0) = run.opt_input("H0") {
        let h0 = data_of_len(run, "H0", h0.shape().dim(0) * d)?;
        steps.gather_first(h0, d, states);
    }
    Ok(states)
}

impl Op for Gru {
    traits!(Never, "Input": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (n, d) = infer_sizes(infer)?;
        let x = infer.input("Input")?;
        let batch = x.with_lod_level(0);
        infer.set_output("BatchGate", batch.with_dims(vec![n, d.saturating_mul(3)]))?;
        infer.set_output("BatchResetHiddenPrev", batch.with_dims(vec![n, d]))?;
        infer.set_output("BatchHidden", batch.with_dims(vec![n, d]))?;
        infer.set_output("Hidden", x.with_dims(vec![n, d]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let rules = rules(run.attrs())?;
        let (mut gate, mut reset) = (run.take("BatchGate"), run.take("BatchResetHiddenPrev"));
        let (mut batch, mut hidden) = (run.take("BatchHidden"), run.take("Hidden"));
        let (mut scratch, mut first) = (run.spare().tensor(), run.spare().tensor());
        let ((n, d), steps) = (sizes(run, "Input")?, steps(run)?);
        let (x, state) = (run.input("Input")?, Shape::from([n, d]));
        for_float!(x.dtype(), run.input_name("Input"), T => {
            let cell = GruCell { size: d, weight: run.data::<T>("Weight")?, rules };
            let scratch = scratch.resize::<T>(Shape::from([cell.scratch(steps.n_first())]));
            let gate = gate.resize::<T>(x.shape());
            steps.gather(x.data::<T>()?, 3 * d, gate);
            if run.n_inputs("Bias") > 0 {
                add_to_rows(run.data::<T>("Bias")?, gate);
            }
            let first = first_states::<T>(run, &steps, d, &mut first)?;
            let (reset, batch) = (reset.resize::<T>(state), batch.resize::<T>(state));
            let written = GruOutputs { gate, reset, hidden: &mut *batch };
            forward(&cell, &steps, first, written, scratch);
            steps.scatter(batch, d, hidden.resize::<T>(state));
            Ok(())
        })?;
        hidden.set_lod(x.lod().clone());
        run.put("BatchGate", gate);
        run.put("BatchResetHiddenPrev", reset);
        run.put("BatchHidden", batch);
        run.put("Hidden", hidden);
        run.spare().keep(scratch);
        run.spare().keep(first);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(
            Keep::grads(&["Hidden"], &["Input", "H0", "Weight", "Bias"])
                .inputs(&["Input", "H0", "Weight", "Bias"])
                .outputs(&["BatchGate", "BatchResetHiddenPrev", "BatchHidden", "Hidden"]),
        )
    }
}

/// All steps, batch by batch.
fn forward<T: Float>(
    cell: &GruCell<'_, T>,
    steps: &Steps,
    first: &[T],
    all: GruOutputs<'_, T>,
    scratch: &mut [T],
) {
    let d = cell.size;
    for t in 0..steps.len() {
        let (start, n) = steps.batch(t);
        let (before, here) = all.hidden.split_at_mut(start * d);
        let previous = match t {
            0 => first,
            _ => &before[steps.batch(t - 1).0 * d..][..n * d],
        };
        let written = GruOutputs {
            gate: &mut all.gate[start * 3 * d..(start + n) * 3 * d],
            reset: &mut all.reset[start * d..(start + n) * d],
            hidden: &mut here[..n * d],
        };
        cell.forward(previous, written, scratch);
    }
}

impl Kernel for GruGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let rules = rules(run.attrs())?;
        let (mut d_x, mut d_h0) = (run.take("Input@GRAD"), run.take("H0@GRAD"));
        let (mut d_weight, mut d_bias) = (run.take("Weight@GRAD"), run.take("Bias@GRAD"));
        let mut spare: [Tensor; 5] = std::array::from_fn(|_| run.spare().tensor());
        let [scratch, first, d_gate, d_batch, d_first] = &mut spare;
        let ((n, d), steps) = (sizes(run, "Input")?, steps(run)?);
        let x = run.input("Input")?;
        for_float!(x.dtype(), run.input_name("Input"), T => {
            let cell = GruCell { size: d, weight: run.data::<T>("Weight")?, rules };
            let scratch = scratch.resize::<T>(Shape::from([cell.scratch(steps.n_first())]));
            let d_gate = d_gate.resize::<T>(x.shape());
            let d_batch = d_batch.resize::<T>(Shape::from([n, d]));
            steps.gather(data_of_len(run, "Hidden@GRAD", n * d)?, d, d_batch);
            let saved = GruForward {
                steps: &steps,
                first: first_states(run, &steps, d, first)?,
                gate: data_of_len(run, "BatchGate", 3 * n * d)?,
                reset: data_of_len(run, "BatchResetHiddenPrev", n * d)?,
                hidden: data_of_len(run, "BatchHidden", n * d)?,
            };
            let d_first = d_first.resize_zeroed::<T>(Shape::from([steps.n_first(), d]));
            let grads = Grads {
                d_gate: &mut *d_gate,
                d_previous: &mut *d_first,
                d_weight: d_weight.resize_zeroed::<T>(Shape::from([d, 3 * d])),
            };
            backward(&cell, &saved, d_batch, grads, scratch);
            steps.scatter(d_gate, 3 * d, d_x.resize::<T>(x.shape()));
            if run.n_inputs("Bias") > 0 {
                sum_rows(d_gate, d_bias.resize::<T>(run.input("Bias")?.shape()));
            }
            if run.n_inputs("H0") > 0 {
                steps.scatter_first(d_first, d, d_h0.resize::<T>(run.input("H0")?.shape()));
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("Input@GRAD", d_x);
        run.put("H0@GRAD", d_h0);
        run.put("Weight@GRAD", d_weight);
        run.put("Bias@GRAD", d_bias);
        spare.into_iter().for_each(|tensor| run.spare().keep(tensor));
        Ok(())
    }
}

/// The results of the forward pass, in the order of the batches.
struct GruForward<'a, T> {
    steps: &'a Steps,
    first: &'a [T],
    gate: &'a [T],
    reset: &'a [T],
    hidden: &'a [T],
}

/// All steps backwards; `d_batch` holds the gradients of the states and gathers those that flow
/// back in time, `grads.d_previous` those of the first states.
fn backward<T: Float>(
    cell: &GruCell<'_, T>,
    saved: &GruForward<'_, T>,
    d_batch: &mut [T],
    grads: Grads<'_, T>,
    scratch: &mut [T],
) {
    let d = cell.size;
    let steps = saved.steps;
    let first = saved.first;
    let d_first = grads.d_previous;
    // The gradient that flows back from one batch; the first is the largest.
    let (scratch, flowing) = scratch.split_at_mut(4 * first.len());
    for t in (0..steps.len()).rev() {
        let (start, n) = steps.batch(t);
        let before = t.checked_sub(1).map(|before| steps.batch(before).0 * d);
        let here = start * d..(start + n) * d;
        let known = GruForwardStep {
            previous: before.map_or(first, |at| &saved.hidden[at..at + n * d]),
            gate: &saved.gate[3 * here.start..3 * here.end],
            reset: &saved.reset[here.clone()],
            d_hidden: &d_batch[here.clone()],
        };
        let step = Grads {
            d_gate: &mut grads.d_gate[3 * here.start..3 * here.end],
            d_previous: &mut flowing[..n * d],
            d_weight: &mut *grads.d_weight,
        };
        cell.backward(&known, step, scratch);
        let target = match before {
            Some(at) => &mut d_batch[at..at + n * d],
            None => &mut *d_first,
        };
        target.iter_mut().zip(&*flowing).for_each(|(sum, &d)| *sum += d);
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, seq, t};

    const X: [f64; 30] = [
        0.1, 0.42, -0.42, 0.02, 0.79, 0.79, -0.75, -0.59, -0.9, -0.12, -0.94, -0.09, 0.3, -0.44,
        0.35, 0.18, -0.95, 0.12, -0.48, -0.17, -0.43, 0.39, -0.12, -0.69, 0.09, 0.56, -0.39, -0.56,
        -0.22, 0.87,
    ];
    const W: [f64; 12] =
        [0.95, 0.34, 0.81, 0.69, -0.24, -0.82, 0.31, 0.12, -0.28, -0.55, -0.19, -0.06];
    const B: [f64; 6] = [-0.46, -0.42, -0.08, 0.72, 0.17, -0.43];
    const H0: [f64; 6] = [-0.44, -0.09, -0.59, -0.6, 0.03, -0.83];

    fn gru(lengths: &[usize]) -> Check {
        check("gru")
            .input("Input", seq(t(&[5, 6], &X), lengths))
            .input("Weight", t(&[2, 6], &W))
            .input("Bias", t(&[1, 6], &B))
    }

    fn saved(check: Check) -> Check {
        check.aux("BatchGate").aux("BatchResetHiddenPrev").aux("BatchHidden")
    }

    /// The results of Fluid 1.8.5 for the op `gru` with these inputs and attributes.
    #[test]
    fn runs_along_sequences_as_fluid_does() {
        let hidden = [
            -0.05532868206501007,
            0.1498841643333435,
            -0.5905489325523376,
            -0.5411954522132874,
            -0.5839288234710693,
            -0.40648791193962097,
            0.07347127050161362,
            -0.8123383522033691,
            0.050288088619709015,
            0.04855963587760925,
        ];
        saved(gru(&[1, 2, 2]).input("H0", t(&[3, 2], &H0)))
            .gives("Hidden", seq(t(&[5, 2], &hidden), &[1, 2, 2]));
        let reversed = [
            0.5443463325500488,
            0.18192484974861145,
            -0.043363988399505615,
            -0.06251499801874161,
            -0.2122456133365631,
            -0.21693596243858337,
            0.08466954529285431,
            -0.19512628018856049,
            0.029605848714709282,
            -0.4383808672428131,
        ];
        let check = gru(&[1, 2, 2]).input("H0", t(&[3, 2], &H0)).attr("activation", "relu");
        saved(check.attr("is_reverse", true).attr("origin_mode", true))
            .gives("Hidden", seq(t(&[5, 2], &reversed), &[1, 2, 2]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        for reverse in [false, true] {
            let check = gru(&[2, 0, 3]).attr("is_reverse", reverse).input("H0", t(&[3, 2], &H0));
            saved(check).output("Hidden").grad(&["Input", "H0", "Weight", "Bias"]);
        }
        let origin = gru(&[1, 4]).attr("origin_mode", true);
        saved(origin).output("Hidden").grad(&["Input", "Weight", "Bias"]);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let error = saved(gru(&[3, 3])).output("Hidden").fails();
        assert!(matches!(error.root(), Error::Tensor(tensor::Error::BadLod(_))), "{error}");
        let error = saved(gru(&[5]).input("H0", t(&[3, 2], &H0))).output("Hidden").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = saved(gru(&[5]).attr("activation", "swish")).output("Hidden").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let plain = check("gru").input("Input", t(&[5, 6], &X)).input("Weight", t(&[2, 6], &W));
        let error = saved(plain).output("Hidden").fails();
        assert!(matches!(error.root(), Error::NoLod { .. }), "{error}");
    }
}
