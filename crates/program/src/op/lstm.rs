//! `lstm`: a long short-term memory run along each sequence.
//!
//! With (g, i, f, o) = Input + Bias + H W, each d wide, and peephole weights p from the end of Bias:
//! g = candidate(g), i = gate(i + p₁ C), f = gate(f + p₂ C), C' = g i + C f, o = gate(o + p₃ C'),
//! Hidden = o cell(C'). States start at H0 and C0 (one row per sequence, both or none) or 0;
//! `is_reverse` runs from the end; `use_peepholes` says whether there are p. BatchGate holds
//! (g, i, f, o) and BatchCellPreAct holds cell(C'), in the order of the batches (see `recurrent`).
//!
//! As in Fluid, no gradient arrives through Cell.

use tensor::gemm::{Matrix, gemm};
use tensor::{Float, Shape, Tensor};

use super::ragged::{self, data_of_len};
use super::recurrent::{Act, Steps, add_to_rows, sum_rows};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};

pub(super) struct Lstm;
pub(super) struct LstmGrad;

const OP: &str = "LSTMOp";
const RULE: &str = "Input must be [n, 4d], Weight [d, 4d]";
const BIAS_RULE: &str = "Bias must be [1, 4d], or [1, 7d] with peepholes";

/// The attributes of a step.
#[derive(Clone, Copy)]
struct Rules {
    gate: Act,
    cell: Act,
    candidate: Act,
}

impl Rules {
    fn of(attrs: &Attrs) -> Result<Self> {
        Ok(Self {
            gate: Act::named(attrs, "gate_activation", "sigmoid")?,
            cell: Act::named(attrs, "cell_activation", "tanh")?,
            candidate: Act::named(attrs, "candidate_activation", "tanh")?,
        })
    }
}

/// How many times as wide as a state the bias is.
fn bias_width(attrs: &Attrs) -> Result<usize> {
    Ok(if attrs.bool("use_peepholes", true)? { 7 } else { 4 })
}

/// The rules and weights of a step.
struct LstmCell<'a, T> {
    size: usize,
    weight: Matrix<'a, T>,
    /// Weights of C in gates i, f and o, one after the other; empty without peepholes.
    peepholes: &'a [T],
    rules: Rules,
}

impl<'a, T: Float> LstmCell<'a, T> {
    /// The cell, and the bias of the gates.
    fn of(run: &'a Run<'_>, d: usize) -> Result<(Self, &'a [T])> {
        let (gates, peepholes) = run.data::<T>("Bias")?.split_at(4 * d);
        let weight = Matrix::new(run.data::<T>("Weight")?, d, 4 * d);
        Ok((Self { size: d, weight, peepholes, rules: Rules::of(run.attrs())? }, gates))
    }

    /// The weights of C in gate i, f or o of element `j`.
    fn peepholes(&self, j: usize) -> [T; 3] {
        let weight = |k| self.peepholes.get(k * self.size + j).copied().unwrap_or(T::zero());
        [weight(0), weight(1), weight(2)]
    }
}

/// How the sequences of a run lie in its buffers.
///
/// A *timeline* holds a state for every step in the order of the batches, and in front of them the
/// states before the first step.
struct SequenceLayout {
    steps: Steps,
    /// Rows of Input.
    n: usize,
    /// Size of a state.
    d: usize,
}

impl SequenceLayout {
    fn of(run: &Run<'_>) -> Result<Self> {
        let (n, d) = sizes(run)?;
        let offsets = ragged::only_offsets(run, OP, "Input")?;
        for (port, other) in [("H0", "C0"), ("C0", "H0")] {
            let Some(state) = run.opt_input(port) else { continue };
            if state.dims() != [offsets.len() - 1, d] {
                return Err(run.shapes("first states must be [sequences, d]", port, "Input"));
            }
            if run.opt_input(other).is_none() {
                let op = "lstm".to_string();
                return Err(Error::MissingInput { op, port: other.to_string() });
            }
        }
        let steps = Steps::new(offsets, run.attrs().bool("is_reverse", false)?);
        Ok(Self { steps, n, d })
    }

    /// Numbers in front of a timeline.
    fn n_first(&self) -> usize {
        self.steps.n_first() * self.d
    }

    /// Where batch `t` begins in a timeline, and where its previous states do.
    fn places(&self, t: usize) -> (usize, usize) {
        let place = |t: usize| self.n_first() + self.steps.batch(t).0 * self.d;
        (place(t), t.checked_sub(1).map_or(0, place))
    }

    /// A timeline that begins with the states at port `first` (0 if there are none), followed by
    /// those at port `all`, or by zeros.
    fn timeline<'a, T: Float>(
        &self,
        run: &Run<'_>,
        first: Option<&str>,
        all: Option<&str>,
        tensor: &'a mut Tensor,
    ) -> Result<&'a mut [T]> {
        let n_rows = self.steps.n_first() + self.n;
        let states = tensor.resize_zeroed::<T>(Shape::from([n_rows, self.d]));
        let (before, batches) = states.split_at_mut(self.n_first());
        if let Some(port) = first.filter(|port| run.opt_input(port).is_some()) {
            self.steps.gather_first(run.data::<T>(port)?, self.d, before);
        }
        if let Some(port) = all {
            self.steps.gather(data_of_len(run, port, self.n * self.d)?, self.d, batches);
        }
        Ok(states)
    }
}

/// Rows of Input and the size of a state.
fn sizes(run: &Run<'_>) -> Result<(usize, usize)> {
    let (x, weight) = (run.input("Input")?, run.input("Weight")?);
    let (&[n, width], &[d, columns]) = (x.dims(), weight.dims()) else {
        return Err(run.shapes(RULE, "Input", "Weight"));
    };
    if d == 0 || d.checked_mul(4) != Some(width) || columns != width {
        return Err(run.shapes(RULE, "Input", "Weight"));
    }
    if run.input("Bias")?.len() != bias_width(run.attrs())? * d {
        return Err(run.shapes(BIAS_RULE, "Bias", "Weight"));
    }
    Ok((n, d))
}

impl Op for Lstm {
    traits!(Never, "Input": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, weight) = (infer.input("Input")?, infer.input("Weight")?);
        Rules::of(infer.attrs())?;
        let (n, d) = match (&x.dims[..], &weight.dims[..]) {
            (&[n, width], &[d, columns])
                if columns == d.saturating_mul(4) && (width == columns || width < 0) =>
            {
                (n, d)
            }
            _ => return Err(infer.shapes(RULE, "Input", "Weight")),
        };
        let batch = x.with_lod_level(0);
        infer.set_output("BatchGate", batch.with_dims(vec![n, d.saturating_mul(4)]))?;
        infer.set_output("BatchCellPreAct", batch.with_dims(vec![n, d]))?;
        infer.set_output("Cell", x.with_dims(vec![n, d]))?;
        infer.set_output("Hidden", x.with_dims(vec![n, d]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut hidden, mut cell) = (run.take("Hidden"), run.take("Cell"));
        let (mut gate, mut acted) = (run.take("BatchGate"), run.take("BatchCellPreAct"));
        let mut spare: [Tensor; 3] = std::array::from_fn(|_| run.spare().tensor());
        let [all_hidden, all_cell, product] = &mut spare;
        let (layout, x) = (SequenceLayout::of(run)?, run.input("Input")?);
        let SequenceLayout { steps, n, d } = &layout;
        let state = Shape::from([*n, *d]);
        for_float!(x.dtype(), run.input_name("Input"), T => {
            let (rules, bias) = LstmCell::<T>::of(run, *d)?;
            let written = LstmOutputs {
                gate: gate.resize::<T>(x.shape()),
                hidden: layout.timeline(run, Some("H0"), None, all_hidden)?,
                cell: layout.timeline(run, Some("C0"), None, all_cell)?,
                acted: acted.resize::<T>(state),
            };
            steps.gather(x.data::<T>()?, 4 * d, written.gate);
            add_to_rows(bias, written.gate);
            let product = product.resize::<T>(Shape::from([steps.n_first(), 4 * d]));
            forward(&rules, &layout, written, product);
            let batches = layout.n_first()..;
            steps.scatter(&all_hidden.data::<T>()?[batches.clone()], *d, hidden.resize::<T>(state));
            steps.scatter(&all_cell.data::<T>()?[batches], *d, cell.resize::<T>(state));
            Ok(())
        })?;
        hidden.set_lod(x.lod().clone());
        cell.set_lod(x.lod().clone());
        run.put("Hidden", hidden);
        run.put("Cell", cell);
        run.put("BatchGate", gate);
        run.put("BatchCellPreAct", acted);
        spare.into_iter().for_each(|tensor| run.spare().keep(tensor));
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(
            Keep::grads(&["Hidden"], &["Input", "H0", "C0", "Weight", "Bias"])
                .inputs(&["Input", "H0", "C0", "Weight", "Bias"])
                .outputs(&["Hidden", "Cell", "BatchGate", "BatchCellPreAct"]),
        )
    }
}

/// The outputs of the steps. `gate` comes in as the input with its bias; `hidden` and `cell` are
/// timelines.
struct LstmOutputs<'a, T> {
    gate: &'a mut [T],
    hidden: &'a mut [T],
    cell: &'a mut [T],
    acted: &'a mut [T],
}

/// All steps, batch by batch.
fn forward<T: Float>(
    cell: &LstmCell<'_, T>,
    layout: &SequenceLayout,
    all: LstmOutputs<'_, T>,
    product: &mut [T],
) {
    let (d, rules) = (layout.d, cell.rules);
    for t in 0..layout.steps.len() {
        let ((start, n), (here, before)) = (layout.steps.batch(t), layout.places(t));
        let gate = &mut all.gate[start * 4 * d..(start + n) * 4 * d];
        let acted = &mut all.acted[start * d..(start + n) * d];
        let product = &mut product[..n * 4 * d];
        let previous = Matrix::new(&all.hidden[before..before + n * d], n, d);
        gemm(T::one(), previous, cell.weight, T::zero(), product);
        gate.iter_mut().zip(&*product).for_each(|(gate, &p)| *gate += p);
        for (at, acted) in acted.iter_mut().enumerate() {
            let (place, [p_i, p_f, p_o]) = (at / d * 4 * d + at % d, cell.peepholes(at % d));
            let c = all.cell[before + at];
            let g = rules.candidate.of(gate[place]);
            let i = rules.gate.of(gate[place + d] + p_i * c);
            let f = rules.gate.of(gate[place + 2 * d] + p_f * c);
            let c = g * i + c * f;
            let o = rules.gate.of(gate[place + 3 * d] + p_o * c);
            *acted = rules.cell.of(c);
            all.cell[here + at] = c;
            all.hidden[here + at] = o * *acted;
            for (k, value) in [g, i, f, o].into_iter().enumerate() {
                gate[place + k * d] = value;
            }
        }
    }
}

impl Kernel for LstmGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let ports = ["Input@GRAD", "H0@GRAD", "C0@GRAD", "Weight@GRAD", "Bias@GRAD"];
        let mut grads = ports.map(|port| run.take(port));
        let mut spare: [Tensor; 5] = std::array::from_fn(|_| run.spare().tensor());
        let [all_hidden, all_cell, d_hidden, d_cell, d_gate] = &mut spare;
        let (layout, x) = (SequenceLayout::of(run)?, run.input("Input")?);
        let SequenceLayout { steps, n, d } = &layout;
        for_float!(x.dtype(), run.input_name("Input"), T => {
            let [d_x, d_h0, d_c0, d_weight, d_bias] = &mut grads;
            let (rules, _) = LstmCell::<T>::of(run, *d)?;
            let known = LstmForward {
                hidden: layout.timeline(run, Some("H0"), Some("Hidden"), all_hidden)?,
                cell: layout.timeline(run, Some("C0"), Some("Cell"), all_cell)?,
                gate: data_of_len(run, "BatchGate", 4 * n * d)?,
                acted: data_of_len(run, "BatchCellPreAct", n * d)?,
            };
            let bias = d_bias.resize_zeroed::<T>(run.input("Bias")?.shape());
            let (d_bias, d_peepholes) = bias.split_at_mut(4 * d);
            let flow = Flow {
                d_hidden: layout.timeline(run, None, Some("Hidden@GRAD"), d_hidden)?,
                d_cell: layout.timeline(run, None, None, d_cell)?,
                d_gate: d_gate.resize::<T>(x.shape()),
                d_weight: d_weight.resize_zeroed::<T>(Shape::from([*d, 4 * d])),
                d_peepholes,
            };
            backward(&rules, &layout, &known, flow);
            let d_gate = d_gate.data::<T>()?;
            sum_rows(d_gate, d_bias);
            steps.scatter(d_gate, 4 * d, d_x.resize::<T>(x.shape()));
            for (port, from, to) in [("H0", d_hidden, d_h0), ("C0", d_cell, d_c0)] {
                if let Some(first) = run.opt_input(port) {
                    let from = &from.data::<T>()?[..layout.n_first()];
                    steps.scatter_first(from, *d, to.resize::<T>(first.shape()));
                }
            }
            Ok(())
        })?;
        grads[0].set_lod(x.lod().clone());
        for (port, grad) in ports.into_iter().zip(grads) {
            run.put(port, grad);
        }
        spare.into_iter().for_each(|tensor| run.spare().keep(tensor));
        Ok(())
    }
}

/// The results of the forward pass; `hidden` and `cell` are timelines.
struct LstmForward<'a, T> {
    hidden: &'a [T],
    cell: &'a [T],
    gate: &'a [T],
    acted: &'a [T],
}

/// Gradients under way. `d_hidden` and `d_cell` are timelines that gather what flows back in time.
struct Flow<'a, T> {
    d_hidden: &'a mut [T],
    d_cell: &'a mut [T],
    d_gate: &'a mut [T],
    d_weight: &'a mut [T],
    d_peepholes: &'a mut [T],
}

/// All steps backwards.
fn backward<T: Float>(
    cell: &LstmCell<'_, T>,
    layout: &SequenceLayout,
    known: &LstmForward<'_, T>,
    flow: Flow<'_, T>,
) {
    let (d, rules) = (layout.d, cell.rules);
    let has_peepholes = !flow.d_peepholes.is_empty();
    for t in (0..layout.steps.len()).rev() {
        let ((start, n), (here, before)) = (layout.steps.batch(t), layout.places(t));
        for at in 0..n * d {
            let (j, place) = (at % d, start * 4 * d + at / d * 4 * d + at % d);
            let [g, i, f, o] = [0, 1, 2, 3].map(|k| known.gate[place + k * d]);
            let [p_i, p_f, p_o] = cell.peepholes(j);
            let (acted, c_before) = (known.acted[start * d + at], known.cell[before + at]);
            let d_h = flow.d_hidden[here + at];
            let d_o = d_h * acted * rules.gate.slope(o);
            let d_c = flow.d_cell[here + at] + d_h * o * rules.cell.slope(acted) + d_o * p_o;
            let d_g = d_c * i * rules.candidate.slope(g);
            let d_i = d_c * g * rules.gate.slope(i);
            let d_f = d_c * c_before * rules.gate.slope(f);
            flow.d_cell[before + at] += d_c * f + d_i * p_i + d_f * p_f;
            for (k, value) in [d_g, d_i, d_f, d_o].into_iter().enumerate() {
                flow.d_gate[place + k * d] = value;
            }
            if has_peepholes {
                flow.d_peepholes[j] += d_i * c_before;
                flow.d_peepholes[d + j] += d_f * c_before;
                flow.d_peepholes[2 * d + j] += d_o * known.cell[here + at];
            }
        }
        let d_gate = Matrix::new(&flow.d_gate[start * 4 * d..(start + n) * 4 * d], n, 4 * d);
        let previous = Matrix::new(&known.hidden[before..before + n * d], n, d);
        let d_previous = &mut flow.d_hidden[before..before + n * d];
        gemm(T::one(), d_gate, cell.weight.t(), T::one(), d_previous);
        gemm(T::one(), previous.t(), d_gate, T::one(), flow.d_weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{Check, check, seq, t};

    const X: [f64; 40] = [
        0.45, -0.05, 0.19, -0.87, -0.85, -0.6, -0.7, -0.8, -0.74, 0.11, -0.62, 0.9, 0.36, 0.08,
        0.41, -0.47, 0.85, 0.68, 0.45, -0.04, 0.68, 0.49, 0.32, 0.83, 0.27, -0.27, 0.11, -0.61,
        -0.62, 0.45, 0.57, 0.94, 0.7, 0.09, -0.82, -0.02, 0.86, 0.58, -0.03, -0.09,
    ];
    const W: [f64; 16] = [
        -0.56, -0.65, -0.85, 0.78, 0.28, -0.71, -0.17, -0.9, -0.58, 0.46, 0.3, -0.04, -0.45, 0.3,
        0.91, -0.13,
    ];
    const B: [f64; 14] = [
        -0.86, -0.88, -0.83, 0.92, 0.08, 0.67, -0.66, -0.48, 0.38, 0.79, -0.32, -0.87, 0.73, -0.42,
    ];
    const H0: [f64; 6] = [-0.44, -0.09, -0.59, -0.6, 0.03, -0.83];
    const C0: [f64; 6] = [0.48, -0.68, 0.39, 0.68, 0.45, -0.28];

    fn lstm(lengths: &[usize], peepholes: bool) -> Check {
        let width = if peepholes { 14 } else { 8 };
        check("lstm")
            .input("Input", seq(t(&[5, 8], &X), lengths))
            .input("Weight", t(&[2, 8], &W))
            .input("Bias", t(&[1, width], &B[..width]))
            .attr("use_peepholes", peepholes)
    }

    fn started(check: Check) -> Check {
        check.input("H0", t(&[3, 2], &H0)).input("C0", t(&[3, 2], &C0))
    }

    fn saved(check: Check) -> Check {
        check.aux("BatchGate").aux("BatchCellPreAct").aux("Cell")
    }

    /// The results of Fluid 1.8.5 for the op `lstm` with these inputs and attributes.
    #[test]
    fn runs_along_sequences_as_fluid_does() {
        let hidden = [
            0.016117654740810394,
            -0.2088014930486679,
            0.012565325945615768,
            -0.04211938753724098,
            0.01165001094341278,
            -0.13853687047958374,
            0.04915505647659302,
            -0.4214235246181488,
            0.033143967390060425,
            -0.36827048659324646,
        ];
        saved(started(lstm(&[1, 2, 2], true)))
            .gives("Hidden", seq(t(&[5, 2], &hidden), &[1, 2, 2]));
        let cell = [
            -0.13411886990070343,
            -0.3744274973869324,
            -0.17297816276550293,
            -0.668667197227478,
            -0.004061129409819841,
            -0.13950926065444946,
            -0.15549230575561523,
            -0.8331215977668762,
            -0.025559699162840843,
            -0.4680955410003662,
        ];
        lstm(&[1, 2, 2], false)
            .attr("is_reverse", true)
            .aux("BatchGate")
            .aux("BatchCellPreAct")
            .output("Hidden")
            .gives("Cell", seq(t(&[5, 2], &cell), &[1, 2, 2]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        let ports = ["Input", "Weight", "Bias", "H0", "C0"];
        for (peepholes, reverse) in [(true, false), (false, true)] {
            let check = started(lstm(&[2, 0, 3], peepholes)).attr("is_reverse", reverse);
            saved(check).output("Hidden").grad(&ports);
        }
        let others = lstm(&[1, 4], true).attr("cell_activation", "identity");
        let others = others.attr("candidate_activation", "sigmoid").attr("gate_activation", "tanh");
        saved(others).output("Hidden").grad(&ports[..3]);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let error = saved(lstm(&[5], true).attr("use_peepholes", false)).output("Hidden").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let half = lstm(&[1, 2, 2], true).input("H0", t(&[3, 2], &H0));
        let error = saved(half).output("Hidden").fails();
        assert!(matches!(error.root(), Error::MissingInput { .. }), "{error}");
        let error = saved(started(lstm(&[5], true))).output("Hidden").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = saved(lstm(&[4, 4], true)).output("Hidden").fails();
        assert!(matches!(error.root(), Error::Tensor(tensor::Error::BadLod(_))), "{error}");
    }
}
