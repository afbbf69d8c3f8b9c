//! Ops whose results are the same in every run are run once, when a model is loaded.

use program::Program;
use program::op::constant_ops;
use tensor::Value;
use train::{Executor, Feed, Scope};

/// Puts the results of such ops into the scope, and takes them out of the program. If one of them fails, all stay:
/// a run will report the error.
pub(crate) fn fold_constants(program: &mut Program, scope: &Scope) {
    let constant = constant_ops(program);
    if constant.is_empty() {
        return;
    }
    let ops = &program.block(0).ops;
    let names: Vec<String> =
        constant.iter().flat_map(|&at| ops[at].writes()).map(str::to_string).collect();
    let mut only = program.clone();
    let mut at = 0;
    only.block_mut(0).ops.retain(|_| {
        at += 1;
        constant.contains(&(at - 1))
    });
    let fetches: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut values: Vec<Value> = Vec::new();
    let ran = Executor::new().run_values(&only, scope, &mut Feed::new(), &fetches, &mut values);
    let are_tensors = values.iter().all(|value| value.tensor().is_some());
    if ran.is_err() || !are_tensors || values.len() != names.len() {
        return;
    }
    let block = program.block_mut(0);
    for (name, value) in names.iter().zip(values) {
        scope.set(name, value);
        if let Some(var) = block.var_mut(name) {
            var.persistable = true;
        }
    }
    let mut at = 0;
    block.ops.retain(|_| {
        at += 1;
        !constant.contains(&(at - 1))
    });
}

#[cfg(test)]
mod tests {
    use program::Net;
    use program::layers::{self, Data, Elementwise};
    use tensor::{DType, Tensor};

    use super::*;

    #[test]
    fn what_is_the_same_in_every_run_is_computed_once() {
        let mut net = Net::with_seed(1);
        let b = &mut net.builder();
        let x = layers::data(b, "x", &[2], Data::default()).unwrap();
        let two = layers::fill_constant(b, &[2], DType::F32, 2.0, Default::default()).unwrap();
        let four = layers::elementwise_mul(b, &two, &two, Elementwise::default()).unwrap();
        let out = layers::elementwise_add(b, &x, &four, Elementwise::default()).unwrap();
        let scope = Scope::new();
        fold_constants(&mut net.main, &scope);
        assert_eq!(net.main.block(0).ops.len(), 1, "{}", net.main);
        let mut feed = Feed::new().with("x", Tensor::new([1, 2], &[1.0f32, 2.0]).unwrap());
        for _ in 0..2 {
            let ran = Executor::new().run(&net.main, &scope, &mut feed, &[out.name()]).unwrap();
            assert_eq!(ran[0].data::<f32>().unwrap(), [5.0, 6.0]);
        }
    }
}
