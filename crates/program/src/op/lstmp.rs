//! `lstmp`: a long short-term memory whose state is projected, run along each sequence.
//!
//! It is `lstm` with R in place of the state that goes back: gates are Input + Bias + R Weight, and R = act(H ProjWeight) of H = o cell(C'). As in
//! Fluid the activation of R is `cell_activation`, unless `proj_activation` is identity. `cell_clip` and `proj_clip` bound C' and R (0: not at all).
//! Projection = R, Cell = C'. BatchGate, BatchHidden and BatchCellPreAct hold gates, H and cell(C') for the gradient, row by row.
//!
//! As in Fluid, no gradient arrives through Cell, and clipping C' does not change the gradient.

use tensor::{Float, Shape, Tensor};

use super::ragged::{self, data_of_len};
use super::recurrent::Act;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Lstmp;
pub(super) struct LstmpGrad;

const OP: &str = "LSTMPOp";
const RULE: &str = "Input must be [n, 4d], Weight [p, 4d]";
const PROJECTION: &str = "ProjWeight must be [d, p]";
const BIAS: &str = "Bias must be [1, 4d], or [1, 7d] with peepholes";
const FIRST: &str =
    "first states have a row for each sequence: H0 [sequences, p], C0 [sequences, d]";

/// What attributes say of a step.
#[derive(Clone, Copy)]
struct ProjectedRules {
    gate: Act,
    cell: Act,
    candidate: Act,
    /// That of a projection, if it has one.
    projects: bool,
    cell_clip: f64,
    proj_clip: f64,
}

impl ProjectedRules {
    fn of(attrs: &Attrs) -> Result<Self> {
        Act::named(attrs, "proj_activation", "tanh")?;
        Ok(Self {
            gate: Act::named(attrs, "gate_activation", "sigmoid")?,
            cell: Act::named(attrs, "cell_activation", "tanh")?,
            candidate: Act::named(attrs, "candidate_activation", "tanh")?,
            projects: attrs.str("proj_activation", "tanh")? != "identity",
            cell_clip: f64::from(attrs.float("cell_clip", 0.0)?),
            proj_clip: f64::from(attrs.float("proj_clip", 0.0)?),
        })
    }
}

/// Weights and sizes of a run.
struct Projected<'r, T> {
    rules: ProjectedRules,
    /// Size of a state.
    d: usize,
    /// Size of a projection.
    p: usize,
    n: usize,
    offsets: &'r [usize],
    reverse: bool,
    weight: &'r [T],
    projection: &'r [T],
    /// Weights of C in gates i, f and o; empty without peepholes.
    peepholes: &'r [T],
    gate_bias: &'r [T],
    h0: Option<&'r [T]>,
    c0: Option<&'r [T]>,
}

impl<'r, T: Float> Projected<'r, T> {
    fn of(run: &'r Run<'_>) -> Result<Self> {
        let (x, weight) = (run.input("Input")?, run.input("Weight")?);
        let (&[n, width], &[p, columns]) = (x.dims(), weight.dims()) else {
            return Err(run.shapes(RULE, "Input", "Weight"));
        };
        let d = width / 4;
        if d == 0 || d * 4 != width || columns != width {
            return Err(run.shapes(RULE, "Input", "Weight"));
        }
        if run.input("ProjWeight")?.dims() != [d, p] {
            return Err(run.shapes(PROJECTION, "ProjWeight", "Weight"));
        }
        let peeps = run.attrs().bool("use_peepholes", true)?;
        if run.input("Bias")?.len() != if peeps { 7 * d } else { 4 * d } {
            return Err(run.shapes(BIAS, "Bias", "Weight"));
        }
        let (gate_bias, peepholes) = run.data::<T>("Bias")?.split_at(4 * d);
        let offsets = ragged::only_offsets(run, OP, "Input")?;
        let first = |port: &str, size: usize| match run.opt_input(port) {
            None => Ok(None),
            Some(state) if state.dims() == [offsets.len() - 1, size] => {
                run.data::<T>(port).map(Some)
            }
            Some(_) => Err(run.shapes(FIRST, port, "Input")),
        };
        Ok(Self {
            rules: ProjectedRules::of(run.attrs())?,
            d,
            p,
            n,
            offsets,
            reverse: run.attrs().bool("is_reverse", false)?,
            weight: run.data("Weight")?,
            projection: run.data("ProjWeight")?,
            peepholes,
            gate_bias,
            h0: first("H0", p)?,
            c0: first("C0", d)?,
        })
    }

    /// The rows of a sequence in the order of time.
    fn rows(&self, sequence: usize) -> Vec<usize> {
        let mut rows: Vec<usize> = (self.offsets[sequence]..self.offsets[sequence + 1]).collect();
        if self.reverse {
            rows.reverse();
        }
        rows
    }

    fn peepholes(&self, j: usize) -> [T; 3] {
        [0, 1, 2].map(|k| self.peepholes.get(k * self.d + j).copied().unwrap_or(T::zero()))
    }

    /// The state before the first step of a sequence.
    fn first(&self, states: Option<&[T]>, sequence: usize, size: usize) -> Vec<T> {
        match states {
            Some(states) => states[sequence * size..(sequence + 1) * size].to_vec(),
            None => vec![T::zero(); size],
        }
    }
}

/// What a run writes, a row for each row of Input.
struct ProjectedRows<'a, T> {
    projection: &'a mut [T],
    cell: &'a mut [T],
    gate: &'a mut [T],
    hidden: &'a mut [T],
    acted: &'a mut [T],
}

fn bounded<T: Float>(x: T, clip: f64) -> T {
    if clip > 0.0 { x.max(T::of(-clip)).min(T::of(clip)) } else { x }
}

fn forward<T: Float>(net: &Projected<'_, T>, x: &[T], all: ProjectedRows<'_, T>) {
    let (d, p) = (net.d, net.p);
    let rules = net.rules;
    for sequence in 0..net.offsets.len() - 1 {
        let mut previous = net.first(net.h0, sequence, p);
        let mut c = net.first(net.c0, sequence, d);
        for row in net.rows(sequence) {
            let gate = &mut all.gate[row * 4 * d..(row + 1) * 4 * d];
            for (column, gate) in gate.iter_mut().enumerate() {
                let start = x[row * 4 * d + column] + net.gate_bias[column];
                let back =
                    previous.iter().enumerate().map(|(k, &r)| r * net.weight[k * 4 * d + column]);
                *gate = back.fold(start, |sum, product| sum + product);
            }
            for (j, c) in c.iter_mut().enumerate() {
                let [p_i, p_f, p_o] = net.peepholes(j);
                let g = rules.candidate.of(gate[j]);
                let i = rules.gate.of(gate[d + j] + p_i * *c);
                let f = rules.gate.of(gate[2 * d + j] + p_f * *c);
                *c = bounded(g * i + *c * f, rules.cell_clip);
                let o = rules.gate.of(gate[3 * d + j] + p_o * *c);
                let acted = rules.cell.of(*c);
                all.cell[row * d + j] = *c;
                all.acted[row * d + j] = acted;
                all.hidden[row * d + j] = o * acted;
                for (k, value) in [g, i, f, o].into_iter().enumerate() {
                    gate[k * d + j] = value;
                }
            }
            let hidden = &all.hidden[row * d..(row + 1) * d];
            for (k, r) in previous.iter_mut().enumerate() {
                let products =
                    hidden.iter().enumerate().map(|(j, &h)| h * net.projection[j * p + k]);
                let sum = products.fold(T::zero(), |sum, product| sum + product);
                let sum = if rules.projects { rules.cell.of(sum) } else { sum };
                *r = bounded(sum, rules.proj_clip);
            }
            all.projection[row * p..(row + 1) * p].copy_from_slice(&previous);
        }
    }
}

impl Op for Lstmp {
    traits!(Never, "Input": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, weight) = (infer.input("Input")?, infer.input("Weight")?);
        ProjectedRules::of(infer.attrs())?;
        let (&[n, width], &[p, columns]) = (&x.dims[..], &weight.dims[..]) else {
            return Err(infer.shapes(RULE, "Input", "Weight"));
        };
        if width >= 0 && width != columns {
            return Err(infer.shapes(RULE, "Input", "Weight"));
        }
        let (d, batch) = (columns / 4, x.with_lod_level(0));
        infer.set_output("Projection", x.with_dims(vec![n, p]))?;
        infer.set_output("Cell", x.with_dims(vec![n, d]))?;
        infer.set_output("BatchGate", batch.with_dims(vec![n, 4 * d]))?;
        infer.set_output("BatchHidden", batch.with_dims(vec![n, d]))?;
        infer.set_output("BatchCellPreAct", batch.with_dims(vec![n, d]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        const PORTS: [&str; 5] =
            ["Projection", "Cell", "BatchGate", "BatchHidden", "BatchCellPreAct"];
        let mut made = PORTS.map(|port| run.take(port));
        let x = run.input("Input")?;
        for_float!(x.dtype(), run.input_name("Input"), T => {
            let net = Projected::<T>::of(run)?;
            let [projection, cell, gate, hidden, acted] = &mut made;
            let state = Shape::from([net.n, net.d]);
            let all = ProjectedRows {
                projection: projection.resize::<T>(Shape::from([net.n, net.p])),
                cell: cell.resize::<T>(state),
                gate: gate.resize::<T>(x.shape()),
                hidden: hidden.resize::<T>(state),
                acted: acted.resize::<T>(state),
            };
            forward(&net, x.data::<T>()?, all);
            Ok(())
        })?;
        for tensor in &mut made[..2] {
            tensor.set_lod(x.lod().clone());
        }
        for (port, tensor) in PORTS.into_iter().zip(made) {
            run.put(port, tensor);
        }
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let inputs = ["Input", "H0", "C0", "Weight", "ProjWeight", "Bias"];
        let outputs = ["Projection", "Cell", "BatchGate", "BatchHidden", "BatchCellPreAct"];
        grad.emit_usual(Keep::grads(&["Projection"], &inputs).inputs(&inputs).outputs(&outputs))
    }
}

/// What the forward pass left.
struct ProjectedForward<'a, T> {
    projection: &'a [T],
    cell: &'a [T],
    gate: &'a [T],
    hidden: &'a [T],
    acted: &'a [T],
    d_projection: &'a [T],
}

/// Gradients under way.
struct ProjectedGrads<'a, T> {
    d_x: &'a mut [T],
    d_weight: &'a mut [T],
    d_project: &'a mut [T],
    d_bias: &'a mut [T],
    d_h0: &'a mut [T],
    d_c0: &'a mut [T],
}

/// What flows back from a step to the one before.
struct Backflow<T> {
    projection: Vec<T>,
    cell: Vec<T>,
}

fn backward<T: Float>(
    net: &Projected<'_, T>,
    known: &ProjectedForward<'_, T>,
    grads: &mut ProjectedGrads<'_, T>,
) {
    let (d, p) = (net.d, net.p);
    for sequence in 0..net.offsets.len() - 1 {
        let (rows, zero) = (net.rows(sequence), T::zero());
        let mut back = Backflow { projection: vec![zero; p], cell: vec![zero; d] };
        for (t, &row) in rows.iter().enumerate().rev() {
            let before = t.checked_sub(1).map(|t| rows[t]);
            let previous = match before {
                Some(row) => known.projection[row * p..(row + 1) * p].to_vec(),
                None => net.first(net.h0, sequence, p),
            };
            let cells = match before {
                Some(row) => known.cell[row * d..(row + 1) * d].to_vec(),
                None => net.first(net.c0, sequence, d),
            };
            let d_hidden = through_projection(net, known, grads, row, &back.projection);
            through_cell(
                net,
                known,
                grads,
                StepBack { row, d_hidden: &d_hidden, cells: &cells, back: &mut back },
            );
            let d_gate = &grads.d_x[row * 4 * d..(row + 1) * 4 * d];
            for (k, r) in previous.iter().enumerate() {
                let weights = &net.weight[k * 4 * d..(k + 1) * 4 * d];
                back.projection[k] =
                    d_gate.iter().zip(weights).fold(zero, |sum, (&g, &w)| sum + g * w);
                let d_weight = &mut grads.d_weight[k * 4 * d..(k + 1) * 4 * d];
                d_weight.iter_mut().zip(d_gate).for_each(|(sum, &g)| *sum += *r * g);
            }
            grads.d_bias.iter_mut().zip(d_gate).for_each(|(sum, &g)| *sum += g);
        }
        if !grads.d_h0.is_empty() {
            grads.d_h0[sequence * p..(sequence + 1) * p].copy_from_slice(&back.projection);
        }
        if !grads.d_c0.is_empty() {
            grads.d_c0[sequence * d..(sequence + 1) * d].copy_from_slice(&back.cell);
        }
    }
}

/// The gradient of H, from that of R.
fn through_projection<T: Float>(
    net: &Projected<'_, T>,
    known: &ProjectedForward<'_, T>,
    grads: &mut ProjectedGrads<'_, T>,
    row: usize,
    back: &[T],
) -> Vec<T> {
    let (d, p) = (net.d, net.p);
    let rules = net.rules;
    let mut d_hidden = vec![T::zero(); d];
    for (k, &back) in back.iter().enumerate().take(p) {
        let r = known.projection[row * p + k];
        let clipped = rules.proj_clip > 0.0 && r.f64().abs() >= rules.proj_clip;
        let slope = if rules.projects { rules.cell.slope(r) } else { T::one() };
        let d_r =
            if clipped { T::zero() } else { (known.d_projection[row * p + k] + back) * slope };
        for (j, d_hidden) in d_hidden.iter_mut().enumerate() {
            *d_hidden += d_r * net.projection[j * p + k];
            grads.d_project[j * p + k] += d_r * known.hidden[row * d + j];
        }
    }
    d_hidden
}

/// One step backwards.
struct StepBack<'a, T> {
    row: usize,
    d_hidden: &'a [T],
    /// The cells before the step.
    cells: &'a [T],
    back: &'a mut Backflow<T>,
}

/// The gradients of the gates, which are those of Input, and of the cells before.
fn through_cell<T: Float>(
    net: &Projected<'_, T>,
    known: &ProjectedForward<'_, T>,
    grads: &mut ProjectedGrads<'_, T>,
    step: StepBack<'_, T>,
) {
    let (d, rules) = (net.d, net.rules);
    let row = step.row;
    let has_peepholes = !net.peepholes.is_empty();
    for j in 0..d {
        let [g, i, f, o] = [0, 1, 2, 3].map(|k| known.gate[row * 4 * d + k * d + j]);
        let [p_i, p_f, p_o] = net.peepholes(j);
        let (acted, before) = (known.acted[row * d + j], step.cells[j]);
        let d_h = step.d_hidden[j];
        let d_o = d_h * acted * rules.gate.slope(o);
        let d_c = step.back.cell[j] + d_h * o * rules.cell.slope(acted) + d_o * p_o;
        let d_g = d_c * i * rules.candidate.slope(g);
        let d_i = d_c * g * rules.gate.slope(i);
        let d_f = d_c * before * rules.gate.slope(f);
        step.back.cell[j] = d_c * f + d_i * p_i + d_f * p_f;
        for (k, slope) in [d_g, d_i, d_f, d_o].into_iter().enumerate() {
            grads.d_x[row * 4 * d + k * d + j] = slope;
        }
        if has_peepholes {
            let cell = known.cell[row * d + j];
            for (k, product) in [d_i * before, d_f * before, d_o * cell].into_iter().enumerate() {
                grads.d_bias[(4 + k) * d + j] += product;
            }
        }
    }
}

impl Kernel for LstmpGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        const PORTS: [&str; 6] = ["Input", "H0", "C0", "Weight", "ProjWeight", "Bias"];
        let mut made: [Tensor; 6] = PORTS.map(|port| run.take(&crate::names::grad(port)));
        let x = run.input("Input")?;
        for_float!(x.dtype(), run.input_name("Input"), T => {
            let net = Projected::<T>::of(run)?;
            let (n, d) = (net.n, net.d);
            let known = ProjectedForward {
                projection: data_of_len(run, "Projection", n * net.p)?,
                cell: data_of_len(run, "Cell", n * d)?,
                gate: data_of_len(run, "BatchGate", 4 * n * d)?,
                hidden: data_of_len(run, "BatchHidden", n * d)?,
                acted: data_of_len(run, "BatchCellPreAct", n * d)?,
                d_projection: data_of_len(run, "Projection@GRAD", n * net.p)?,
            };
            let [d_x, d_h0, d_c0, d_weight, d_project, d_bias] = &mut made;
            let shape = |port: &str| run.opt_input(port).map_or(Shape::from([0]), Tensor::shape);
            let mut grads = ProjectedGrads {
                d_x: d_x.resize_zeroed::<T>(x.shape()),
                d_weight: d_weight.resize_zeroed::<T>(shape("Weight")),
                d_project: d_project.resize_zeroed::<T>(shape("ProjWeight")),
                d_bias: d_bias.resize_zeroed::<T>(shape("Bias")),
                d_h0: d_h0.resize_zeroed::<T>(shape("H0")),
                d_c0: d_c0.resize_zeroed::<T>(shape("C0")),
            };
            backward(&net, &known, &mut grads);
            Ok(())
        })?;
        made[0].set_lod(x.lod().clone());
        for (port, tensor) in PORTS.into_iter().zip(made) {
            run.put(&crate::names::grad(port), tensor);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, seq, some, t};

    fn run_along(reverse: bool, peepholes: bool) -> Check {
        check("lstmp")
            .input("Input", seq(some(&[5, 8]), &[2, 3]))
            .input("Weight", some(&[3, 8]))
            .input("ProjWeight", some(&[2, 3]))
            .input("Bias", some(&[1, if peepholes { 14 } else { 8 }]))
            .attr("is_reverse", reverse)
            .attr("use_peepholes", peepholes)
    }

    #[test]
    fn projects_the_state() {
        // Gates at 0: g = 0, so cells, states and projections are 0.
        check("lstmp")
            .input("Input", seq(t(&[1, 4], &[0.0; 4]), &[1]))
            .input("Weight", t(&[1, 4], &[1.0; 4]))
            .input("ProjWeight", t(&[1, 1], &[2.0]))
            .input("Bias", t(&[1, 4], &[0.0, 0.0, 0.0, 0.0]))
            .input("C0", t(&[1, 1], &[1.0]))
            .attr("use_peepholes", false)
            .attr("proj_activation", "identity")
            .output("BatchGate")
            .output("BatchHidden")
            .output("BatchCellPreAct")
            .gives("Cell", seq(t(&[1, 1], &[0.5]), &[1]))
            .gives("Projection", seq(t(&[1, 1], &[0.5f64.tanh()]), &[1]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        for (reverse, peepholes) in [(false, true), (true, true), (false, false)] {
            run_along(reverse, peepholes)
                .input("H0", some(&[2, 3]))
                .input("C0", some(&[2, 2]))
                .output("Projection")
                .aux("Cell")
                .aux("BatchGate")
                .aux("BatchHidden")
                .aux("BatchCellPreAct")
                .grad(&["Input", "Weight", "ProjWeight", "Bias", "H0", "C0"]);
        }
    }

    #[test]
    fn refuses_weights_that_do_not_fit() {
        let error =
            run_along(false, true).input("ProjWeight", some(&[3, 3])).output("Cell").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = run_along(false, true).input("Bias", some(&[1, 8])).output("Cell").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = run_along(false, true).attr("proj_activation", "sine").output("Cell").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
