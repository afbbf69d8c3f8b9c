//! GEO: trainers keep their whole program and exchange differences; servers add them up.

use program::distributed::ops::SendOp;
use program::distributed::route::PARAM_INIT;
use program::distributed::{WHOLE_BYTES_MAX, difference_of, table_bytes};
use program::{Meta, OpDesc, Program, VarDesc, VarKind, role};
use tensor::DType;

use super::make::{self, with_role};
use super::plan::{JobPlan, Param};
use super::server::Server;
use crate::error::Result;

impl Param {
    fn delta_meta(&self, meta: &Meta, dims: &[i64]) -> Meta {
        let kind = if self.is_sparse { VarKind::SelectedRows } else { VarKind::LodTensor };
        Meta { kind, ..meta.with_dims(dims.to_vec()) }
    }
}

/// What differences are taken times, where servers keep a table by rows: p - (-1) d is p + d.
pub(super) const RATE: &str = "@GEO_RATE@";

impl JobPlan {
    /// Whether trainers need not hold a table that is only looked up. Trainers of GEO do, if there may be memory for it; of
    /// a larger one they hold the rows that they used.
    pub(super) fn is_elsewhere(&self, main: &Program, table: &str, dims: &[i64]) -> bool {
        let inner = main.blocks().iter().skip(1).flat_map(|block| &block.ops);
        let is_inside = |op: &OpDesc| op.reads().any(|var| var == table);
        !self.is_geo()
            || table_bytes(dims) > WHOLE_BYTES_MAX
                && !self.entries.contains_key(table)
                && !inner.into_iter().any(is_inside)
    }

    /// Starts what differences are taken times.
    pub(super) fn start_rate(&self, startup: &mut Program) {
        if startup.block(0).var(RATE).is_some() {
            let op = OpDesc::new("fill_constant").output("Out", RATE);
            let op = op.attr("shape", vec![1i64]).attr("dtype", DType::F32.code());
            startup.block_mut(0).ops.push(with_role(op.attr("value", -1.0f32), role::FORWARD));
        }
    }

    /// Adds one op to the trainer's program: it says which ids the step used.
    pub(super) fn rewrite_geo(&self, main: &mut Program) -> Result<()> {
        let (mut ids, mut tables) = (Vec::new(), Vec::new());
        for block in 0..main.blocks().len() {
            for op in main.block_mut(block).ops.iter_mut().filter(|op| op.traits().looks_up) {
                op.attrs.set("remote_prefetch", false);
                let table = op.input_names("W").first().cloned().unwrap_or_default();
                if block == 0 && self.params.iter().any(|p| p.is_sparse && p.name == table) {
                    ids.extend(op.input_names("Ids").iter().cloned());
                    tables.push(table);
                }
            }
        }
        let replaced = self.replace_lookups(main);
        let block = main.block_mut(0);
        block.ops = replaced.apply(std::mem::take(&mut block.ops));
        self.declare_deltas(main, true)?;
        let control = make::control(0);
        let op = self.job.send_op(SendOp {
            vars: ids,
            control: &control.name,
            epmap: self.job.endpoints.clone(),
            names: tables,
            ..SendOp::default()
        });
        let block = main.block_mut(0);
        block.put_var(control);
        block.ops.push(op);
        Ok(())
    }

    /// The trainer's startup program: receives everything, then takes note of it.
    pub(super) fn rewrite_geo_startup(&self, startup: &mut Program) -> Result<()> {
        self.rewrite_startup(startup)?;
        self.declare_deltas(startup, false)?;
        let control = make::control(1);
        let op = self.job.send_op(SendOp {
            vars: vec![PARAM_INIT.to_string()],
            control: &control.name,
            epmap: self.job.endpoints.clone(),
            names: vec![PARAM_INIT.to_string()],
            ..SendOp::default()
        });
        let block = startup.block_mut(0);
        block.put_var(control);
        block.put_var(VarDesc::new(PARAM_INIT, Meta::default()));
        block.ops.push(op);
        Ok(())
    }

    fn declare_deltas(&self, program: &mut Program, blocks: bool) -> Result<()> {
        for param in &self.params {
            let meta = program.need_var(0, &param.name)?.meta.clone();
            let block = program.block_mut(0);
            let whole = param.delta_meta(&meta, &param.dims);
            block.put_var(VarDesc::new(&difference_of(&param.name), whole));
            for piece in param.pieces.iter().filter(|_| blocks && param.is_cut()) {
                let dims = param.dims_of(piece);
                block.put_var(VarDesc::new(&piece.name, meta.with_dims(dims.clone())));
                let part = param.delta_meta(&meta, &dims);
                block.put_var(VarDesc::new(&difference_of(&piece.name), part));
            }
        }
        Ok(())
    }
}

impl Server<'_> {
    /// One block per parameter: it adds the difference that arrived.
    pub(super) fn exchange(&mut self) -> Result<()> {
        for (param, piece) in self.plan.held_by(self.endpoint) {
            let meta = self.main.need_var(0, &param.name)?.meta.clone();
            let (value, dims) = (piece.name.clone(), param.dims_of(piece));
            let arrived = difference_of(&value);
            self.declare(&value, meta.with_dims(dims.clone()), true);
            self.declare(&arrived, param.delta_meta(&meta, &dims), false);
            let block = self.open_block(0);
            let add = if param.is_remote {
                let rate = meta.with_dims(vec![1]);
                self.declare(RATE, Meta { kind: VarKind::LodTensor, ..rate }, true);
                OpDesc::new("sgd")
                    .input("Param", &value)
                    .input("Grad", &arrived)
                    .input("LearningRate", RATE)
                    .output("ParamOut", &value)
            } else {
                OpDesc::new("sum")
                    .input("X", vec![value.clone(), arrived.clone()])
                    .output("Out", &value)
            };
            self.blocks[block].ops.push(with_role(add, role::FORWARD));
            self.grad_to_block.push(format!("{arrived}:{block}"));
            if param.is_sparse {
                self.sparse_grads.push(format!("{arrived}:{value}"));
            }
        }
        Ok(())
    }
}
