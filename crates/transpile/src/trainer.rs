//! The trainer's program: gradients go out where they are computed, parameters come back at the
//! end, and what servers do now is gone.

use program::distributed::Spread;
use program::distributed::ops::SendOp;
use program::{OpDesc, Program, VarDesc, role};

use super::lookups::Replaced;
use super::make::{self, with_role};
use super::plan::{JobPlan, Param, last_writers, of_trainer};
use crate::error::{Error, Result};

/// The trainer's block while it is rebuilt.
struct TrainerBlock<'a> {
    plan: &'a JobPlan,
    vars: Vec<VarDesc>,
    /// For each parameter, the variable that its `send` writes.
    controls: Vec<String>,
    n_controls: usize,
}

impl JobPlan {
    /// Rewrites the main program in place.
    pub(super) fn rewrite_main(&self, main: &mut Program) -> Result<()> {
        let mut trainer =
            TrainerBlock { plan: self, vars: Vec::new(), controls: Vec::new(), n_controls: 0 };
        let replaced = self.replace_lookups(main);
        trainer.declare_blocks(main)?;
        let ops = trainer.ops(main, replaced)?;
        let block = main.block_mut(0);
        block.ops = ops;
        for var in trainer.vars {
            block.put_var(var);
        }
        block.retain_vars(|var| !self.unused.contains(&var.name));
        self.rename_grads(main)?;
        self.address_lookups(main);
        Ok(())
    }

    /// Gives this trainer's gradients their own names, where the server tells trainers apart.
    fn rename_grads(&self, main: &mut Program) -> Result<()> {
        for param in self.params.iter().filter(|param| self.renames(param)) {
            let to = self.role_grad(param);
            main.block_mut(0).rename_var(&param.grad, &to)?;
            for block in 0..main.blocks().len() {
                for op in &mut main.block_mut(block).ops {
                    op.rename_input(&param.grad, &to);
                    op.rename_output(&param.grad, &to);
                    rename_role_var(op, &param.grad, &to);
                }
            }
        }
        Ok(())
    }
}

/// Renames a variable in `op_role_var`.
pub(super) fn rename_role_var(op: &mut OpDesc, from: &str, to: &str) {
    let Ok(vars) = op.attrs.strs(role::ROLE_VAR) else { return };
    if vars.iter().any(|var| var == from) {
        let renamed = vars.iter().map(|var| if var == from { to } else { var }.to_string());
        op.attrs.set(role::ROLE_VAR, renamed.collect::<Vec<_>>());
    }
}

impl TrainerBlock<'_> {
    fn control(&mut self) -> String {
        let var = make::control(self.n_controls);
        self.n_controls += 1;
        let name = var.name.clone();
        self.vars.push(var);
        name
    }

    /// Declares the blocks of what is cut.
    fn declare_blocks(&mut self, main: &Program) -> Result<()> {
        for param in self.plan.params.iter().filter(|param| param.is_cut()) {
            let (value, grad) = (main.need_var(0, &param.name)?, main.need_var(0, &param.grad)?);
            let sent = if self.plan.job.via_communicator && !param.is_hashed() {
                param.pieces.iter().map(|p| param.block(&param.grad, p.block)).collect()
            } else {
                self.plan.sent_names(param)
            };
            for ((piece, name), sent) in param.pieces.iter().zip(param.blocks()).zip(sent) {
                self.vars.push(VarDesc::new(&name, value.meta.with_dims(param.dims_of(piece))));
                self.vars.push(VarDesc::new(&sent, grad.meta.with_dims(param.dims_of(piece))));
            }
        }
        Ok(())
    }

    /// The new list of ops.
    fn ops(&mut self, main: &Program, mut replaced: Replaced) -> Result<Vec<OpDesc>> {
        let old = &main.block(0).ops;
        let last = last_writers(old);
        let mut ops = Vec::with_capacity(old.len() * 2);
        self.controls = vec![String::new(); self.plan.params.len()];
        for (at, op) in old.iter().enumerate() {
            ops.extend(replaced.before.remove(&at).unwrap_or_default());
            if !self.plan.moved.contains(&at) && !replaced.gone.contains(&at) {
                ops.push(op.clone());
            }
            let written = |grad: &str| last.get(grad) == Some(&at);
            for (number, param) in self.plan.params.iter().enumerate() {
                if written(&param.grad) {
                    self.send_grad(number, param, &mut ops);
                }
            }
        }
        if let Some(at) = self.controls.iter().position(String::is_empty) {
            let Param { name, grad, .. } = &self.plan.params[at];
            return Err(Error::GradNotComputed { param: name.clone(), grad: grad.clone() });
        }
        let mut sends: Vec<String> =
            self.plan.order.iter().map(|&at| self.controls[at].clone()).collect();
        sends.extend(self.send_counter(main, &mut ops));
        self.receive(sends, &mut ops);
        Ok(ops)
    }

    fn send_grad(&mut self, number: usize, param: &Param, ops: &mut Vec<OpDesc>) {
        let plan = self.plan;
        let control = self.control();
        let role_var = Some([param.name.clone(), param.grad.clone()]);
        let names = plan.sent_names(param);
        let via = plan.job.via_communicator;
        // By hash, ops of the program partition the rows, no matter how they are sent.
        let is_split = param.is_cut() && (!via || param.is_hashed());
        if is_split {
            ops.push(split_op(param, &names));
        }
        // A whole gradient is renamed later, with every op that names it.
        let vars = if is_split { names.clone() } else { vec![param.grad.clone()] };
        let sections = if is_split { Vec::new() } else { param.sections() };
        let (sections, names) = if via { (sections, names) } else { Default::default() };
        ops.push(plan.job.send_op(SendOp {
            vars,
            control: &control,
            epmap: plan.epmap(param),
            sections,
            names,
            role_var,
            is_counter: false,
        }));
        self.controls[number] = control;
    }

    /// One more step of this trainer, for servers whose learning rate depends on it.
    fn send_counter(&mut self, main: &Program, ops: &mut Vec<OpDesc>) -> Option<String> {
        let plan = self.plan;
        let counter = plan.counter.as_ref()?;
        let desc = main.block(0).var(counter)?;
        for trainer in 0..plan.job.n_trainers {
            let name = of_trainer(counter, trainer);
            self.vars.push(VarDesc::new(&name, desc.meta.clone()).persistable());
        }
        let own = of_trainer(counter, plan.job.trainer_id);
        let control = self.control();
        let names = if plan.job.via_communicator { vec![own.clone()] } else { Vec::new() };
        ops.push(plan.job.send_op(SendOp {
            vars: vec![own.clone()],
            control: &control,
            epmap: plan.job.endpoints.clone(),
            sections: Vec::new(),
            names,
            role_var: Some([own.clone(), own]),
            is_counter: true,
        }));
        Some(control)
    }

    /// Barriers and parameters at the end of a step.
    fn receive(&mut self, sends: Vec<String>, ops: &mut Vec<OpDesc>) {
        let plan = self.plan;
        let via = plan.job.via_communicator;
        let barriers = plan.job.mode.waits_for_all() && !via;
        let half = via && plan.job.mode.threads_synchronize();
        let mut after = None;
        if barriers || half {
            let control = self.control();
            let op = plan.job.barrier_op("send_barrier", sends, vec![control.clone()]);
            ops.push(op.attr("half_async", half));
            after = Some(control).filter(|_| barriers);
        }
        let received: Vec<(usize, &Param)> =
            plan.params.iter().enumerate().filter(|(_, param)| !param.is_remote).collect();
        let mut all = Vec::new();
        for &(number, param) in &received {
            let control = after.clone().unwrap_or_else(|| self.controls[number].clone());
            let (out, names) = if via {
                (vec![param.name.clone()], param.blocks())
            } else {
                (param.blocks(), Vec::new())
            };
            all.extend(out.iter().cloned());
            let mut op = plan.job.recv_op(out, plan.epmap(param), names).input("X", control);
            op.attrs.set(role::ROLE_VAR, vec![param.name.clone(), param.grad.clone()]);
            ops.push(op);
        }
        if let Some(control) = after {
            ops.push(plan.job.barrier_op("fetch_barrier", vec![control], all));
        }
        if !via {
            for (_, param) in received.iter().filter(|(_, param)| param.is_cut()) {
                ops.push(make::concat(param.blocks(), &param.name, role::DIST));
            }
        }
    }
}

/// Cuts a gradient into its blocks.
fn split_op(param: &Param, names: &[String]) -> OpDesc {
    if param.is_hashed() {
        let op = OpDesc::new("split_ids").attr(Spread::ATTR, param.spread.name());
        return with_role(op.input("Ids", &param.grad).output("Out", names), role::DIST);
    }
    let op = if param.is_sparse {
        OpDesc::new("split_selected_rows").attr("height_sections", param.sections())
    } else {
        let sections: Vec<i32> = param.sections().iter().map(|&rows| rows as i32).collect();
        OpDesc::new("split_byref").attr("sections", sections).attr("num", 0)
    };
    with_role(op.input("X", &param.grad).output("Out", names), role::DIST)
}
