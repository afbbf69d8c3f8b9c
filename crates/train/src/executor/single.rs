//! Runs one op on the variables of a scope, without a program around it.

use program::{Block, Meta, OpDesc, Program, VarDesc};

use super::{Executor, Feed};
use crate::error::Result;
use crate::scope::Scope;

/// Runs `op` on variables of `scope`, by name. Shapes are not checked beforehand.
pub fn run_op(op: &OpDesc, scope: &Scope) -> Result<()> {
    program::op::find(&op.kind)?;
    let mut block = Block::new(0, -1);
    for var in op.reads().chain(op.writes()) {
        // Variables of a scope exist before and after this run.
        block.put_var(VarDesc::new(var, Meta::default()).persistable());
    }
    block.ops.push(op.clone());
    let program = Program::from_blocks(vec![block]);
    Executor::new().run(&program, scope, &mut Feed::default(), &[]).map(|_| ())
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use super::*;

    #[test]
    fn an_op_changes_variables_of_the_scope() {
        let scope = Scope::new();
        scope.set("p", Tensor::new([2], &[1.0f32, 2.0]).unwrap());
        scope.set("g", Tensor::new([2], &[10.0f32, 10.0]).unwrap());
        scope.set("lr", Tensor::new([1], &[0.1f32]).unwrap());
        let op = OpDesc::new("sgd").input("Param", "p").input("Grad", "g");
        let op = op.input("LearningRate", "lr").output("ParamOut", "p");
        run_op(&op, &scope).expect("all is there");
        let new = scope.read("p", |value| value.tensor().map(|t| (t.get_f64(0), t.get_f64(1))));
        assert_eq!(new.flatten(), Some((0.0, 1.0)));
    }

    #[test]
    fn an_op_that_is_not_there_is_named() {
        let error = run_op(&OpDesc::new("no_such_op"), &Scope::new()).expect_err("there is none");
        assert!(error.to_string().contains("no_such_op"), "{error}");
    }
}
