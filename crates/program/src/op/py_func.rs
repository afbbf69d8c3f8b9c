//! `py_func`: Out = what a function outside of the program makes of X. `forward_callable_id` says which one ([`add_function`]).
//!
//! The gradient is another `py_func` with the function `backward_callable_id`, which is given X and Out (without `backward_skip_vars`) and the
//! gradients of Out; without such a function no gradient passes.

use std::error::Error as StdError;
use std::sync::{Arc, RwLock};

use base::EvenIfPoisoned;
use tensor::Tensor;

use super::sizes::bad_attr;
use super::{Grad, Infer, Op, Run, host_error, traits};
use crate::block::OpDesc;
use crate::error::Result;

pub(super) struct PyFunc;

/// What a function of a user answers: a tensor for each output, or none.
pub type FunctionResult = std::result::Result<Vec<Option<Tensor>>, Box<dyn StdError + Send + Sync>>;

/// A function that programs may call.
pub type Function = Arc<dyn Fn(&[&Tensor]) -> FunctionResult + Send + Sync>;

/// Programs name functions by number, so all of a process are in one list, as in Fluid.
static FUNCTIONS: RwLock<Vec<Function>> = RwLock::new(Vec::new());

/// Adds a function; its number is good as long as the process lives.
pub fn add_function(function: Function) -> i32 {
    let mut functions = FUNCTIONS.write().even_if_poisoned();
    functions.push(function);
    functions.len() as i32 - 1
}

fn function(id: i64) -> Result<Function> {
    let functions = FUNCTIONS.read().even_if_poisoned();
    let found = usize::try_from(id).ok().and_then(|id| functions.get(id).cloned());
    found.ok_or_else(|| bad_attr("forward_callable_id", "a function of this process", id))
}

impl Op for PyFunc {
    traits!(Never; has_side_effect);

    fn infer(&self, _infer: &mut Infer<'_>) -> Result<()> {
        Ok(())
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let function = function(run.attrs().int("forward_callable_id", -1)?)?;
        let inputs = run.inputs("X")?;
        let made = function(&inputs).map_err(|error| host_error(FunctionFailed(error)))?;
        let n = run.n_outputs("Out");
        if n > 0 && made.len() != n {
            let actual = made.len();
            return Err(host_error(WrongCount { expected: n, actual }));
        }
        for (index, tensor) in made.into_iter().enumerate() {
            if let Some(tensor) = tensor.filter(|_| run.wants_at("Out", index)) {
                run.put_at("Out", index, tensor);
            }
        }
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let attrs = &grad.op().attrs;
        let backward = attrs.int("backward_callable_id", -1)?;
        if backward < 0 {
            return Ok(());
        }
        let skipped = attrs.strs("backward_skip_vars")?.to_vec();
        let mut read = [grad.input("X"), grad.output("Out")].concat();
        read.retain(|var| !skipped.contains(var));
        read.extend(grad.output_grad("Out"));
        let op = OpDesc::new("py_func").input("X", read).output("Out", grad.input_grad("X"));
        let op = op.attr("forward_callable_id", backward as i32).attr("backward_callable_id", -1);
        grad.emit(op.attr("backward_skip_vars", Vec::<String>::new()))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct FunctionFailed(Box<dyn StdError + Send + Sync>);

#[derive(Debug, thiserror::Error)]
#[error("the function of py_func gave {actual} results where {expected} are declared")]
struct WrongCount {
    expected: usize,
    actual: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::op::check::{check, t};

    fn scaled(by: f64) -> i32 {
        add_function(Arc::new(move |inputs| {
            let last = inputs[inputs.len() - 1];
            let data: Vec<f64> = last.data::<f64>()?.iter().map(|x| x * by).collect();
            Ok(vec![Some(Tensor::new(last.shape(), &data)?)])
        }))
    }

    fn call(id: i32) -> crate::op::check::Check {
        check("py_func").inputs("X", vec![t(&[2], &[1.0, 2.0])]).attr("forward_callable_id", id)
    }

    #[test]
    fn calls_a_function() {
        let out = call(scaled(3.0)).outputs("Out", 1).run("Out");
        assert_eq!(out.tensor().unwrap().data::<f64>().unwrap(), [3.0, 6.0]);
    }

    #[test]
    fn the_gradient_is_another_function() {
        let check = call(scaled(3.0)).attr("backward_callable_id", scaled(3.0));
        check.outputs("Out", 1).grad(&["X"]);
    }

    #[test]
    fn refuses_unknown_functions_and_other_counts() {
        let error = call(-1).outputs("Out", 1).fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = call(scaled(1.0)).outputs("Out", 2).fails();
        assert!(matches!(error.root(), Error::Host(_)), "{error}");
        let failing = add_function(Arc::new(|_| Err("no".into())));
        let error = call(failing).outputs("Out", 1).fails();
        assert!(matches!(error.root(), Error::Host(_)), "{error}");
    }
}
