//! The reference of a synchronous job, computed by one process: the gradients of every trainer's
//! batch one after the other, their average in the order of the trainers, one update.

use program::{Net, OpDesc, Program, Var, VarDesc, role};
use train::{Executor, Feed, Scope};

/// Its results.
#[derive(Debug)]
pub struct Outcome {
    /// By trainer and step.
    pub losses: Vec<Vec<f64>>,
    /// Parameters and state.
    pub scope: Scope,
}

/// Trains as `n_trainers` would together; `feed` gives each one's batches.
pub fn run(
    net: &Net,
    loss: &Var,
    n_trainers: usize,
    feed: impl Fn(usize, usize) -> Feed,
    n_steps: usize,
) -> Outcome {
    let grads = grads(&net.main);
    let (backward, update) = (backward(&net.main, &grads), update(&net.main, &grads, n_trainers));
    let (scope, mut exe) = (Scope::new(), Executor::new());
    let mut run = |program: &Program, feed: &mut Feed, fetch: &[&str]| {
        exe.run(program, &scope, feed, fetch).unwrap_or_else(|error| panic!("reference: {error}"))
    };
    run(&net.startup, &mut Feed::new(), &[]);
    let mut losses = vec![Vec::new(); n_trainers];
    for step in 0..n_steps {
        for (trainer, losses) in losses.iter_mut().enumerate() {
            let got = run(&backward, &mut feed(trainer, step), &[loss.name()]);
            losses.push(got[0].get_f64(0));
            for grad in &grads {
                let value = scope.get(&merged(grad)).unwrap_or_else(|| panic!("{}", grad.name));
                scope.set(&of_trainer(&grad.name, trainer), value);
            }
        }
        run(&update, &mut Feed::new(), &[]);
    }
    Outcome { losses, scope }
}

fn is_update(op: &OpDesc) -> bool {
    op.role() & (role::OPTIMIZE | role::LR_SCHED) != 0
}

/// The gradients that are applied.
fn grads(main: &Program) -> Vec<VarDesc> {
    let updates = main.block(0).ops.iter().filter(|op| is_update(op));
    let names = updates.filter(|op| !op.input_names("Param").is_empty());
    let names = names.flat_map(|op| op.input_names("Grad"));
    names.map(|name| main.block(0).var(name).expect("declared").clone()).collect()
}

/// In the gradient of one batch, a row occurs once, even if the batch used it several times.
fn merged(grad: &VarDesc) -> String {
    match grad.meta.kind {
        program::VarKind::SelectedRows => format!("{}.merged", grad.name),
        _ => grad.name.clone(),
    }
}

fn of_trainer(grad: &str, trainer: usize) -> String {
    format!("{grad}.of_{trainer}")
}

fn backward(main: &Program, grads: &[VarDesc]) -> Program {
    let mut program = main.clone();
    let block = program.block_mut(0);
    block.ops.retain(|op| !is_update(op));
    for grad in grads {
        let name = merged(grad);
        if name != grad.name {
            let op = OpDesc::new("merge_selected_rows").input("X", &grad.name);
            block.ops.push(op.output("Out", &name));
        }
        block.put_var(VarDesc { name, persistable: true, ..grad.clone() });
    }
    program
}

fn update(main: &Program, grads: &[VarDesc], n_trainers: usize) -> Program {
    let mut program = main.clone();
    let block = program.block_mut(0);
    let updates: Vec<OpDesc> = block.ops.iter().filter(|op| is_update(op)).cloned().collect();
    block.ops.clear();
    for grad in grads {
        let names: Vec<String> =
            (0..n_trainers).map(|trainer| of_trainer(&grad.name, trainer)).collect();
        for name in &names {
            let (name, persistable) = (name.clone(), true);
            block.put_var(VarDesc { name, persistable, ..grad.clone() });
        }
        let sum = OpDesc::new("sum").input("X", names).output("Out", &grad.name);
        let scale = OpDesc::new("scale").input("X", &grad.name).output("Out", &grad.name);
        block.ops.extend([sum, scale.attr("scale", 1.0 / n_trainers as f32)]);
    }
    block.ops.extend(updates);
    program
}
