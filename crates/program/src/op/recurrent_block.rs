//! `recurrent`: runs `sub_block` once for each step of `inputs`, whose first dimension is time.
//!
//! In the block a variable has the name it has outside: `inputs` are one step there, and `outputs`
//! are stacked from one step each. `states` of a step are the `ex_states` of the next; the first step
//! has `initial_states`. `recurrent_grad` runs a block of gradient ops for each step, the last one
//! first; the values that the forward steps left in the block's variables are kept in
//! `step_scopes`.

use tensor::{Shape, Tensor, Value};

use super::step_values::{self, block_of, gradient_of, kept, lists, zeros};
use super::sum::add_to;
use super::{InnerPort, Kernel, Op, Run, for_number, traits};
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::names::{self, EMPTY};
use crate::program::Program;

pub(super) struct Recurrent;
pub(super) struct RecurrentGrad;

fn strs<'a>(op: &'a OpDesc, attr: &str) -> &'a [String] {
    op.attrs.strs(attr).unwrap_or_default()
}

/// How many steps there are: all inputs agree.
fn n_steps(run: &Run<'_>) -> Result<usize> {
    let mut n = None;
    for x in run.inputs("inputs")? {
        let steps = x.shape().dims().first().copied().unwrap_or(0);
        if steps == 0 || n.is_some_and(|n| n != steps) {
            return Err(run.shape("all inputs must have the same steps, one at least", "inputs"));
        }
        n = Some(steps);
    }
    let missing =
        || Error::MissingInput { op: "recurrent".to_string(), port: "inputs".to_string() };
    n.ok_or_else(missing)
}

/// The steps in the order they are taken.
fn order(run: &Run<'_>) -> Result<Vec<usize>> {
    let mut steps: Vec<usize> = (0..n_steps(run)?).collect();
    if run.attrs().bool("reverse", false)? {
        steps.reverse();
    }
    Ok(steps)
}

/// One step of a tensor of so many steps; `None` if it has others.
fn step_of(whole: &Tensor, step: usize, n: usize) -> Option<Tensor> {
    let (&steps, dims) = whole.dims().split_first()?;
    if steps != n || step >= n {
        return None;
    }
    let n_bytes = whole.bytes().len() / n;
    let shape = if dims.is_empty() { Shape::from([1]) } else { inside(whole.shape()) };
    let mut out = Tensor::default();
    out.resize_as(whole.dtype(), shape);
    out.bytes_mut().copy_from_slice(&whole.bytes()[step * n_bytes..][..n_bytes]);
    Some(out)
}

/// The shape without its first dimension.
fn inside(shape: Shape) -> Shape {
    let dims: Vec<i64> = shape.to_i64()[1..].to_vec();
    Shape::from_dims(&dims).unwrap_or(shape)
}

/// Puts one step into its place in a tensor of all steps.
fn put_step(part: &Tensor, step: usize, n: usize, whole: &mut Tensor) -> Result<()> {
    let dims = [&[n as i64][..], &part.shape().to_i64()].concat();
    let shape = Shape::from_dims(&dims)?;
    if !whole.is_initialized() {
        whole.resize_as(part.dtype(), shape);
        whole.bytes_mut().fill(0);
    }
    if whole.shape() != shape || whole.dtype() != part.dtype() {
        let (rule, var) = ("every step must give the same shape", String::new());
        return Err(Error::Shape { rule, var, dims: part.shape().to_i64() });
    }
    let n_bytes = part.bytes().len();
    whole.bytes_mut()[step * n_bytes..][..n_bytes].copy_from_slice(part.bytes());
    Ok(())
}

fn copy(run: &mut Run<'_>, from: &str, to: &str, index: usize) -> Result<()> {
    let mut tensor = Tensor::default();
    tensor.copy_from(run.input_at(from, index)?);
    run.put_at(to, index, tensor);
    Ok(())
}

fn check_states(run: &Run<'_>) -> Result<usize> {
    let n = run.n_inputs("initial_states");
    if n != run.n_inputs("ex_states") || n != run.n_inputs("states") {
        let (attr, expected) = ("states".to_string(), format!("{n} names"));
        let actual = format!("{} and {}", run.n_inputs("ex_states"), run.n_inputs("states"));
        return Err(Error::BadAttr { attr, expected, actual });
    }
    Ok(n)
}

impl Op for Recurrent {
    traits!(Never);

    fn inner(&self, op: &OpDesc, program: &Program) -> Vec<InnerPort> {
        let Some(block) = block_of(op, program) else { return Vec::new() };
        let port = |port, vars: &[String]| InnerPort { port, block, vars: vars.to_vec() };
        let grad = "recurrent_grad";
        let keeps = gradient_of(op, "step_scopes", grad, program).is_some();
        let mut ports = if keeps { kept(program, block) } else { Vec::new() };
        ports.extend([
            port("step_inputs", op.input_names("inputs")),
            port("step_outputs", op.output_names("outputs")),
            port("ex_states", strs(op, "ex_states")),
            port("states", strs(op, "states")),
            port("lists", &lists(program, block, false)),
        ]);
        ports
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (block, n_states) = (run.attrs().block("sub_block")?, check_states(run)?);
        let steps = order(run)?;
        let mut outs: Vec<Tensor> =
            (0..run.n_outputs("outputs")).map(|_| Tensor::default()).collect();
        let mut saved = Vec::new();
        for (nth, &step) in steps.iter().enumerate() {
            for k in 0..run.n_inputs("inputs") {
                let x = step_of(run.input_at("inputs", k)?, step, steps.len());
                let x = x.ok_or_else(|| run.shape("it must have as many steps", "inputs"))?;
                run.put_at("step_inputs", k, x);
            }
            for k in 0..n_states {
                let before = if nth == 0 { "initial_states" } else { "states" };
                copy(run, before, "ex_states", k)?;
            }
            step_values::clear(run, "lists");
            run.run_block(block)?;
            for (k, out) in outs.iter_mut().enumerate() {
                put_step(run.input_at("step_outputs", k)?, step, steps.len(), out)?;
            }
            let held = (0..run.n_inputs("saved")).map(|k| run.value_at("saved", k).cloned());
            saved.push(held.collect::<Result<Vec<_>>>()?);
        }
        for (k, out) in outs.into_iter().enumerate() {
            run.put_at("outputs", k, out);
        }
        run.put_value_at("step_scopes", 0, Value::Steps(saved));
        Ok(())
    }
}

impl Kernel for RecurrentGrad {
    fn inner(&self, op: &OpDesc, program: &Program) -> Vec<InnerPort> {
        let Some(block) = block_of(op, program) else { return Vec::new() };
        let forward = program.block(block).parent.max(0) as usize;
        let gradients = |port, vars: &[String]| {
            let name = |var: &String| {
                let grad = names::grad(var);
                let known = program.block(block).var(&grad).is_some();
                if known { grad } else { EMPTY.to_string() }
            };
            InnerPort { port, block, vars: vars.iter().map(name).collect() }
        };
        let mut ports = kept(program, forward);
        ports.extend([
            InnerPort { port: "states", block: forward, vars: strs(op, "states").to_vec() },
            InnerPort { port: "list_grads", block: forward, vars: lists(program, forward, true) },
            gradients("state_grads", strs(op, "states")),
            gradients("ex_state_grads", strs(op, "ex_states")),
            gradients("step_input_grads", op.input_names("inputs")),
            gradients("step_output_grads", op.input_names("outputs")),
            gradients("parameter_grads", op.input_names("parameters")),
        ]);
        ports
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let block = run.attrs().block("sub_block")?;
        let steps = order(run)?;
        let mut sums = Sums::new(run);
        for (nth, &step) in steps.iter().enumerate().rev() {
            restore(run, nth, steps.len())?;
            for k in 0..run.n_inputs("step_output_grads") {
                let part = step_of(run.input_at("outputs@GRAD", k)?, step, steps.len());
                let rule = "it must have as many steps as the inputs";
                let part = part.ok_or_else(|| run.shape(rule, "outputs@GRAD"))?;
                run.put_at("step_output_grads", k, part);
            }
            sums.hand_over(run)?;
            for port in ["ex_state_grads", "step_input_grads", "parameter_grads", "list_grads"] {
                step_values::clear(run, port);
            }
            run.run_block(block)?;
            sums.collect(run, step, steps.len())?;
        }
        sums.put(run)
    }
}

/// Puts back what the variables of the block held after its `nth` run.
fn restore(run: &mut Run<'_>, nth: usize, n_steps: usize) -> Result<()> {
    let n_saved = run.n_inputs("saved");
    let steps = step_values::steps(run, "step_scopes", n_saved)?;
    if steps.len() != n_steps {
        let (port, var) = ("step_scopes", run.input_name("step_scopes").to_string());
        return Err(Error::NotInitialized { port: port.to_string(), var });
    }
    for (k, value) in steps[nth].clone().into_iter().enumerate() {
        run.put_value_at("saved", k, value);
    }
    Ok(())
}

/// Gradients as they come together, from the last step to the first.
struct Sums {
    /// For the states of the step before; none before the last step.
    states: Vec<Option<Tensor>>,
    inputs: Vec<Tensor>,
    parameters: Vec<Vec<Value>>,
}

impl Sums {
    fn new(run: &Run<'_>) -> Self {
        Self {
            states: vec![None; run.n_inputs("states")],
            inputs: vec![Tensor::default(); run.n_inputs("inputs")],
            parameters: vec![Vec::new(); run.n_inputs("parameters")],
        }
    }

    /// Tells the block what the gradients of its states are.
    fn hand_over(&mut self, run: &mut Run<'_>) -> Result<()> {
        for (k, state) in self.states.iter_mut().enumerate() {
            let grad = match state.take() {
                Some(grad) => grad,
                None => zeros(run.input_at("states", k)?),
            };
            run.put_at("state_grads", k, grad);
        }
        Ok(())
    }

    /// Takes what the block computed for one step.
    fn collect(&mut self, run: &Run<'_>, step: usize, n: usize) -> Result<()> {
        let grad = |port: &str, k| run.value_at(port, k).ok().and_then(Value::tensor);
        for (k, state) in self.states.iter_mut().enumerate() {
            *state = grad("ex_state_grads", k).cloned();
            if state.is_none() {
                *state = Some(zeros(run.input_at("states", k)?));
            }
        }
        for (k, whole) in self.inputs.iter_mut().enumerate() {
            if let Some(part) = grad("step_input_grads", k) {
                put_step(part, step, n, whole)?;
            }
        }
        for (k, parts) in self.parameters.iter_mut().enumerate() {
            match run.value_at("parameter_grads", k) {
                Ok(Value::Tensor(part)) => add(parts, part)?,
                Ok(Value::Rows(rows)) => parts.push(Value::Rows(rows.clone())),
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives the variables outside what came together.
    fn put(self, run: &mut Run<'_>) -> Result<()> {
        for (k, state) in self.states.into_iter().enumerate() {
            let zero = zeros(run.input_at("initial_states", k)?);
            run.put_at("initial_states@GRAD", k, state.unwrap_or(zero));
        }
        for (k, whole) in self.inputs.into_iter().enumerate() {
            let like = run.input_at("inputs", k)?;
            let mut whole = if whole.is_initialized() { whole } else { zeros(like) };
            whole.set_lod(like.lod().clone());
            run.put_at("inputs@GRAD", k, whole);
        }
        for (k, mut parts) in self.parameters.into_iter().enumerate() {
            let total = match parts.len() {
                0 if run.wants_at("parameters@GRAD", k) => {
                    Value::Tensor(zeros(run.input_at("parameters", k)?))
                }
                0 => Value::Empty,
                1 => parts.remove(0),
                _ => joined(parts)?,
            };
            run.put_value_at("parameters@GRAD", k, total);
        }
        Ok(())
    }
}

/// Adds a dense part to the one that is there.
pub(super) fn add(parts: &mut Vec<Value>, part: &Tensor) -> Result<()> {
    let Some(Value::Tensor(sum)) = parts.first_mut() else {
        parts.push(Value::Tensor(part.clone()));
        return Ok(());
    };
    for_number!(part.dtype(), "a gradient", T => {
        add_to(sum.data_mut::<T>()?, part.data::<T>()?);
        Ok(())
    })
}

/// Rows of all steps, one after another; readers merge equal ids.
pub(super) fn joined(parts: Vec<Value>) -> Result<Value> {
    let mut all: Option<tensor::Rows> = None;
    for part in parts {
        let Value::Rows(part) = part else { continue };
        let Some(rows) = &mut all else {
            all = Some(part);
            continue;
        };
        let same = part.value.dtype() == rows.value.dtype() && part.width() == rows.width();
        if part.ids.is_empty() {
            continue;
        }
        if !same {
            let (rule, var) = ("every step must give rows of the same width", String::new());
            return Err(Error::Shape { rule, var, dims: part.value.shape().to_i64() });
        }
        let n = rows.ids.len() + part.ids.len();
        let mut value = Tensor::default();
        value.resize_as(rows.value.dtype(), rows.value.shape().with_dim(0, n));
        let (first, second) = value.bytes_mut().split_at_mut(rows.value.bytes().len());
        first.copy_from_slice(rows.value.bytes());
        second.copy_from_slice(part.value.bytes());
        rows.ids.extend(part.ids);
        rows.value = value;
    }
    Ok(all.map_or(Value::Empty, Value::Rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::t;

    #[test]
    fn steps_are_taken_out_and_put_back() {
        // The work of `recurrent` on its inputs, and of `recurrent_grad` on gradients.
        let whole = t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let mut copy = Tensor::default();
        for step in [1, 0] {
            let part = step_of(&whole, step, 2).expect("it is there");
            assert_eq!(part.dims(), [2]);
            put_step(&part, step, 2, &mut copy).expect("it fits");
        }
        assert_eq!(copy, whole);
        assert!(step_of(&whole, 0, 3).is_none());
        let error = put_step(&t(&[3], &[0.0; 3]), 0, 2, &mut copy).expect_err("another shape");
        assert!(matches!(error, Error::Shape { .. }), "{error}");
    }

    #[test]
    fn rows_of_all_steps_come_one_after_another() {
        let rows =
            |id, value| tensor::Rows { ids: vec![id], height: 9, value: t(&[1, 1], &[value]) };
        let all = joined(vec![Value::Rows(rows(4, 1.0)), Value::Rows(rows(4, 2.0))]).unwrap();
        let all = all.rows().expect("rows").clone();
        assert_eq!((all.ids, all.value), (vec![4, 4], t(&[2, 1], &[1.0, 2.0])));
    }
}
