//! Ops that run another block of the program, on the same variables.
//!
//! `conditional_block`: runs `sub_block` if Cond holds (or, without `is_scalar_condition`, if no
//! Input is empty). `while`: runs it as long as Condition holds; the block itself changes Condition.
//! `select_input`: Out = the X that Mask names.

use tensor::{Bool, Value};

use super::{Grad, Infer, InnerPort, Op, Run, step_values, traits};
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::program::Program;

pub(super) struct ConditionalBlock;
pub(super) struct SelectInput;
pub(super) struct While;

/// The one truth value at a port.
fn holds(run: &Run<'_>, port: &str) -> Result<bool> {
    match run.data::<Bool>(port)? {
        [truth] => Ok(truth.get()),
        _ => Err(run.shape("a condition is one truth value", port)),
    }
}

impl Op for ConditionalBlock {
    traits!(Never);

    fn inner(&self, op: &OpDesc, program: &Program) -> Vec<InnerPort> {
        let Some(block) = step_values::block_of(op, program) else { return Vec::new() };
        let lists = step_values::lists(program, block, false);
        vec![InnerPort { port: "lists", block, vars: lists }]
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let block = run.attrs().block("sub_block")?;
        let wanted = if run.attrs().bool("is_scalar_condition", false)? {
            holds(run, "Cond")?
        } else {
            run.inputs("Input")?.iter().all(|input| !input.is_empty())
        };
        if !wanted {
            return Ok(());
        }
        step_values::clear(run, "lists");
        run.run_block(block)
    }
}

impl Op for While {
    traits!(Never; knows_is_test);

    fn inner(&self, op: &OpDesc, program: &Program) -> Vec<InnerPort> {
        let Some(block) = step_values::block_of(op, program) else { return Vec::new() };
        let lists = step_values::lists(program, block, false);
        let mut ports = vec![InnerPort { port: "lists", block, vars: lists }];
        if let Some(grad) = step_values::gradient_of(op, "StepScopes", "while_grad", program) {
            let restored = grad.attrs.strs("restored").unwrap_or_default().to_vec();
            ports.extend(step_values::kept(program, block));
            ports.push(InnerPort { port: "restored", block, vars: restored });
        }
        ports
    }

    /// For a gradient, a turn leaves what the variables of its block hold, and what variables around it held before.
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let block = run.attrs().block("sub_block")?;
        let (n_saved, n_restored) = (run.n_inputs("saved"), run.n_inputs("restored"));
        let mut steps = match run.take_output_value("StepScopes") {
            Value::Steps(steps) => steps,
            _ => Vec::new(),
        };
        let mut n = 0;
        while holds(run, "Condition")? {
            step_values::clear(run, "lists");
            if n_saved + n_restored > 0 {
                if steps.len() == n {
                    steps.push(Vec::new());
                }
                steps[n].resize_with(n_saved + n_restored, Value::default);
                for k in 0..n_restored {
                    step_values::copy(run.value_at("restored", k)?, &mut steps[n][n_saved + k]);
                }
            }
            run.run_block(block)?;
            for (k, step) in steps.get_mut(n).into_iter().flatten().take(n_saved).enumerate() {
                run.swap_value_at("saved", k, step);
            }
            n += 1;
        }
        if n_saved + n_restored > 0 {
            steps.truncate(n);
            run.put_value_at("StepScopes", 0, Value::Steps(steps));
        }
        Ok(())
    }
}

impl Op for SelectInput {
    traits!(Never, "Mask": [I32]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mask = run.scalar("Mask")?;
        if !(mask >= 0.0 && mask < run.n_inputs("X") as f64) {
            let (rule, var) = ("the mask must name an input", run.input_name("Mask").to_string());
            return Err(Error::BadValue { rule, var, position: 0, value: mask });
        }
        let mut out = run.take("Out");
        out.copy_from(run.input_at("X", mask as usize)?);
        run.put("Out", out);
        Ok(())
    }

    /// Only the X that was chosen has a gradient.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let op = OpDesc::new("select_output").input("X", grad.output_grad("Out"));
        let op = op.input("Mask", grad.input("Mask"));
        grad.emit(op.output("Out", grad.input_grad("X")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::Attr;
    use crate::op::check::{check, ids, t};
    use crate::op::{Host, Spare, Wiring, find};
    use tensor::Tensor;

    /// Counts how often a block was run; the third run clears variable 0.
    struct Counter(Vec<usize>);

    impl Host for Counter {
        fn run_block(&mut self, block: usize, vars: &mut [Value]) -> Result<()> {
            self.0.push(block);
            if self.0.len() == 3 {
                vars[0] = Value::Tensor(truth(false));
            }
            Ok(())
        }
    }

    fn truth(holds: bool) -> Tensor {
        Tensor::new([1], &[Bool::from(holds)]).unwrap()
    }

    /// Runs the op on one condition and says which blocks it ran.
    fn blocks_run(op: &OpDesc, condition: Tensor) -> Result<Vec<usize>> {
        let wiring = Wiring::new(op, |_| 0);
        let mut vars = [Value::Tensor(condition)];
        let (mut spare, mut host) = (Spare::default(), Counter(Vec::new()));
        find(&op.kind)?.run(&mut Run::new(op, &wiring, &mut vars, &mut spare, &mut host))?;
        Ok(host.0)
    }

    #[test]
    fn a_block_runs_if_its_condition_holds() {
        let op =
            OpDesc::new("conditional_block").input("Cond", "c").attr("sub_block", Attr::Block(2));
        let op = op.attr("is_scalar_condition", true);
        assert_eq!(blocks_run(&op, truth(true)).unwrap(), [2]);
        assert!(blocks_run(&op, truth(false)).unwrap().is_empty());
        let error = blocks_run(&op, t(&[1], &[1.0])).unwrap_err();
        assert!(matches!(error.root(), Error::Tensor(_)), "{error}");
        let two = Tensor::new([2], &[Bool(1), Bool(1)]).unwrap();
        assert!(matches!(blocks_run(&op, two).unwrap_err().root(), Error::Shape { .. }));
        let any = OpDesc::new("conditional_block").input("Input", "x");
        let any = any.attr("sub_block", Attr::Block(1));
        assert_eq!(blocks_run(&any, t(&[1], &[0.0])).unwrap(), [1]);
        assert!(blocks_run(&any, t(&[0], &[])).unwrap().is_empty());
    }

    #[test]
    fn a_loop_ends_when_its_condition_does() {
        let op = OpDesc::new("while").input("Condition", "c").attr("sub_block", Attr::Block(1));
        assert_eq!(blocks_run(&op, truth(true)).unwrap(), [1, 1, 1]);
        let lost = OpDesc::new("while").input("Condition", "c");
        let error = blocks_run(&lost, truth(true)).unwrap_err();
        assert!(matches!(error.root(), Error::MissingAttr { .. }), "{error}");
    }

    #[test]
    fn selects_one_input() {
        let select = |mask: i64| {
            let inputs = vec![t(&[1], &[5.0]), t(&[1], &[6.0])];
            check("select_input").inputs("X", inputs).input("Mask", ids(&[1], &[mask]))
        };
        select(1).gives("Out", t(&[1], &[6.0]));
        let error = select(2).output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { .. }), "{error}");
    }
}
