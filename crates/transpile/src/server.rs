//! A server's program: the learning rate, one block per parameter, and `listen_and_serv`.

use std::collections::HashMap;

use program::distributed::Piece;
use program::op::STEPS_WITHOUT_ROWS;
use program::{Attr, Block, BlockId, Meta, OpDesc, Program, VarDesc, role};

use super::make::with_role;
use super::plan::{JobPlan, Param, of_trainer};
use super::trainer::rename_role_var;
use crate::error::{Error, Result};

/// Threads of Fluid's RPC server, kept for programs that print them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// `rpc_send_thread_num`.
    pub send: i32,
    /// `rpc_get_thread_num`.
    pub get: i32,
    /// `rpc_prefetch_thread_num`.
    pub prefetch: i32,
}

impl Default for Threads {
    fn default() -> Self {
        Self { send: 12, get: 12, prefetch: 12 }
    }
}

/// A server's program while it is built.
pub(super) struct Server<'a> {
    pub(super) plan: &'a JobPlan,
    pub(super) main: &'a Program,
    pub(super) endpoint: &'a str,
    pub(super) blocks: Vec<Block>,
    /// What `listen_and_serv` waits for.
    pub(super) inputs: Vec<String>,
    pub(super) optimize_blocks: Vec<i32>,
    pub(super) grad_to_block: Vec<String>,
    pub(super) sparse_grads: Vec<String>,
    lr_block: i32,
    n_corrections: usize,
}

impl JobPlan {
    /// The program of one server, made from the program as it was before trainers' was rewritten.
    pub(super) fn server_main(
        &self,
        main: &Program,
        endpoint: &str,
        threads: Threads,
    ) -> Result<Program> {
        let number = self.job.endpoints.iter().position(|known| known == endpoint);
        let number = number.ok_or_else(|| Error::UnknownEndpoint {
            endpoint: endpoint.to_string(),
            endpoints: self.job.endpoints.clone(),
        })?;
        let mut server = Server {
            plan: self,
            main,
            endpoint,
            blocks: vec![Block::new(0, -1)],
            inputs: Vec::new(),
            optimize_blocks: Vec::new(),
            grad_to_block: Vec::new(),
            sparse_grads: Vec::new(),
            lr_block: -1,
            n_corrections: 0,
        };
        if self.is_geo() {
            server.exchange()?
        } else {
            server.train()?
        }
        if server.optimize_blocks.is_empty() {
            server.open_block(0);
        }
        let listen = server.listen(number, threads);
        server.blocks[0].ops.push(listen);
        let mut program = Program::from_blocks(server.blocks);
        program.random_seed = main.random_seed;
        program.distributed = Some(self.job.for_server(endpoint));
        Ok(program)
    }

    /// The parameters of a server in order of their updates, with the blocks it has.
    pub(super) fn held_by<'a>(
        &'a self,
        endpoint: &'a str,
    ) -> impl Iterator<Item = (&'a Param, &'a Piece)> {
        let pieces = |param: &'a Param| param.pieces.iter().map(move |piece| (param, piece));
        self.params.iter().flat_map(pieces).filter(move |(_, piece)| self.is_at(piece, endpoint))
    }
}

impl Server<'_> {
    /// Opens a block that runs when its gradient is complete.
    pub(super) fn open_block(&mut self, parent: i32) -> BlockId {
        let id = self.blocks.len();
        self.blocks.push(Block::new(id as i32, parent));
        self.optimize_blocks.push(id as i32);
        id
    }

    pub(super) fn declare(&mut self, name: &str, meta: Meta, persistable: bool) {
        if self.blocks[0].var(name).is_none() {
            self.blocks[0].put_var(VarDesc { persistable, ..VarDesc::new(name, meta) });
        }
    }

    fn train(&mut self) -> Result<()> {
        let plan = self.plan;
        for &at in &plan.order {
            let param = &plan.params[at];
            let endpoint = self.endpoint;
            for piece in param.pieces.iter().filter(|piece| plan.is_at(piece, endpoint)) {
                self.declare_grad(param, piece)?;
            }
        }
        if plan.held_by(self.endpoint).next().is_some() {
            self.schedule()?;
        }
        let parent = self.lr_block.max(0);
        for (param, piece) in plan.held_by(self.endpoint) {
            let block = self.open_block(parent);
            let merged = param.block(&param.grad, piece.block);
            self.grad_to_block.push(format!("{merged}:{block}"));
            if param.is_sparse {
                let value = piece.name.clone();
                self.sparse_grads.push(format!("{merged}:{value}"));
            }
            self.update(block, param, piece)?;
        }
        Ok(())
    }

    /// The gradient, and what each trainer sends of it.
    fn declare_grad(&mut self, param: &Param, piece: &Piece) -> Result<()> {
        let (value, grad) = (self.meta(&param.name)?, self.meta(&param.grad)?);
        self.declare(&piece.name, value.with_dims(param.dims_of(piece)), true);
        let merged = param.block(&param.grad, piece.block);
        let grad = grad.with_dims(param.dims_of(piece));
        self.declare(&merged, grad.clone(), true);
        let mut inputs = vec![merged.clone()];
        if self.plan.per_trainer() {
            inputs = (0..self.plan.job.n_trainers).map(|id| of_trainer(&merged, id)).collect();
            for name in &inputs {
                self.declare(name, grad.clone(), false);
            }
        }
        self.inputs.extend(inputs);
        Ok(())
    }

    fn meta(&self, var: &str) -> Result<Meta> {
        Ok(self.main.need_var(0, var)?.meta.clone())
    }

    /// The ops that compute the learning rate, in a block of their own.
    fn schedule(&mut self) -> Result<()> {
        let ops = &self.main.block(0).ops;
        if self.plan.lr_ops.is_empty() {
            return Ok(());
        }
        let block = self.open_block(0);
        self.lr_block = block as i32;
        for &at in &self.plan.lr_ops {
            let mut op = ops[at].clone();
            let counts = |counter: &&String| {
                op.kind == "increment" && op.writes().any(|var| var == *counter)
            };
            if let Some(counter) = self.plan.counter.as_ref().filter(counts) {
                op = self.sum_counters(counter, &op)?;
            }
            for var in op.reads().chain(op.writes()).map(str::to_string).collect::<Vec<_>>() {
                self.declare_shared(&var)?;
            }
            self.copy_sub_blocks(&mut op, block)?;
            self.blocks[block].ops.push(op);
        }
        Ok(())
    }

    /// Counts the steps of all trainers.
    fn sum_counters(&mut self, counter: &str, increment: &OpDesc) -> Result<OpDesc> {
        let meta = self.meta(counter)?;
        let n = self.plan.job.n_trainers;
        let names: Vec<String> = (0..n).map(|trainer| of_trainer(counter, trainer)).collect();
        for name in &names {
            self.declare(name, meta.clone(), true);
        }
        let op = OpDesc::new("sum").input("X", names).output("Out", counter);
        Ok(with_role(op, increment.role()))
    }

    fn declare_shared(&mut self, var: &str) -> Result<()> {
        if self.blocks[0].var(var).is_some() {
            return Ok(());
        }
        let meta = self.meta(var)?;
        let persistable = meta.kind.has_tensor();
        self.declare(var, meta, persistable);
        Ok(())
    }

    /// Copies the blocks that an op runs, and theirs.
    fn copy_sub_blocks(&mut self, op: &mut OpDesc, parent: BlockId) -> Result<()> {
        let attrs: Vec<(String, Attr)> =
            op.attrs.iter().map(|(name, attr)| (name.to_string(), attr.clone())).collect();
        for (name, attr) in attrs {
            match attr {
                Attr::Block(block) => {
                    let copy = self.copy_block(block as usize, parent)?;
                    op.attrs.set(&name, Attr::Block(copy as i32));
                }
                Attr::Blocks(blocks) => {
                    let copies = blocks
                        .iter()
                        .map(|&block| Ok(self.copy_block(block as usize, parent)? as i32));
                    let copies = copies.collect::<Result<Vec<i32>>>()?;
                    op.attrs.set(&name, Attr::Blocks(copies));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn copy_block(&mut self, from: BlockId, parent: BlockId) -> Result<BlockId> {
        let original = self.main.block(from);
        let id = self.blocks.len();
        let mut copy = Block::new(id as i32, parent as i32);
        original.vars().iter().for_each(|var| copy.put_var(var.clone()));
        self.blocks.push(copy);
        for op in &original.ops {
            for var in op.reads().chain(op.writes()) {
                if original.var(var).is_none() {
                    self.declare_shared(var)?;
                }
            }
            let mut op = op.clone();
            self.copy_sub_blocks(&mut op, id)?;
            self.blocks[id].ops.push(op);
        }
        Ok(id)
    }

    /// The block of one gradient: average, correct, clip, decay, update.
    fn update(&mut self, block: BlockId, param: &Param, piece: &Piece) -> Result<()> {
        let merged = param.block(&param.grad, piece.block);
        if self.plan.per_trainer() {
            self.merge(block, &merged, !param.is_distributed);
        }
        let mut names = HashMap::from([
            (param.name.clone(), piece.name.clone()),
            (param.grad.clone(), merged.clone()),
        ]);
        if self.plan.config.enable_dc_asgd && !param.is_sparse {
            let corrected = self.correct(block, param, piece, &merged);
            names.insert(param.grad.clone(), corrected);
        }
        let own = param.before.iter().chain([&param.update]).chain(&param.after);
        for &at in own {
            let mut op = self.main.block(0).ops[at].clone();
            self.move_vars(&mut op, param, piece, &mut names)?;
            if param.is_hashed() && at == param.update {
                op.attrs.set(STEPS_WITHOUT_ROWS, true);
            }
            rename_role_var(&mut op, &param.grad, &self.plan.role_grad(param));
            self.blocks[block].ops.push(op);
        }
        Ok(())
    }

    /// Adds up what trainers sent, in their order, and divides, unless the sum is wanted.
    fn merge(&mut self, block: BlockId, merged: &str, divides: bool) {
        let n = self.plan.job.n_trainers;
        let sent: Vec<String> = (0..n).map(|id| of_trainer(merged, id)).collect();
        let sum = OpDesc::new("sum").input("X", sent).output("Out", merged);
        let scale = OpDesc::new("scale")
            .input("X", merged)
            .output("Out", merged)
            .attr("scale", 1.0 / n as f32)
            .attr("bias", 0.0f32)
            .attr("bias_after_scale", true);
        let ops = &mut self.blocks[block].ops;
        ops.push(with_role(sum, role::FORWARD));
        if divides {
            ops.push(with_role(scale, role::FORWARD));
        }
    }

    /// Delay compensation: g + g * g * (p - what the trainer had when it computed g).
    fn correct(&mut self, block: BlockId, param: &Param, piece: &Piece, grad: &str) -> String {
        let value = piece.name.clone();
        let dims = &param.dims_of(piece);
        let meta = self.blocks[0].var(&value).map(|var| var.meta.with_dims(dims.clone()));
        let meta = meta.unwrap_or_default();
        let backup = |trainer| format!("{}_bak", of_trainer(&value, trainer));
        let backups: Vec<String> = (0..self.plan.job.n_trainers).map(backup).collect();
        for name in &backups {
            self.declare(name, meta.clone(), false);
        }
        let local = format!("{value}.local_bak");
        let mut temporary = || {
            self.n_corrections += 1;
            format!("tmp_dc_output_{}", self.n_corrections - 1)
        };
        let names = [temporary(), temporary(), temporary(), temporary()];
        let [delta, scaled, squared, corrected] = &names;
        let own = &mut self.blocks[block];
        let trainer = Meta::dense(tensor::DType::I64, &[1]);
        own.put_var(VarDesc::new("@TRAINER_ID@", trainer));
        for name in names.iter().chain([&local]) {
            own.put_var(VarDesc::new(name, meta.clone()));
        }
        let pick = OpDesc::new("ref_by_trainer_id")
            .input("X", backups)
            .input("TrainerId", "@TRAINER_ID@")
            .output("Out", &local);
        let binary = |kind: &str, x: &str, y: &str, out: &str| {
            OpDesc::new(kind).input("X", x).input("Y", y).output("Out", out).attr("axis", -1)
        };
        let ops = [
            pick,
            binary("elementwise_sub", &value, &local, delta),
            binary("elementwise_mul", delta, grad, scaled),
            binary("elementwise_mul", scaled, grad, squared),
            binary("elementwise_add", grad, squared, corrected),
        ];
        own.ops.extend(ops.into_iter().map(|op| with_role(op, role::FORWARD)));
        corrected.clone()
    }

    /// Renames the variables of an op to those of a block, and declares them.
    fn move_vars(
        &mut self,
        op: &mut OpDesc,
        param: &Param,
        piece: &Piece,
        names: &mut HashMap<String, String>,
    ) -> Result<()> {
        let rates = op.input_names("LearningRate").to_vec();
        let scheduled = |var: &String| rates.contains(var);
        for var in op.reads().chain(op.writes()).map(str::to_string).collect::<Vec<_>>() {
            if names.contains_key(&var) {
                continue;
            }
            let meta = self.meta(&var)?;
            let (name, dims) = if scheduled(&var) {
                (var.clone(), meta.dims.clone())
            } else {
                (param.beside(&var, piece), param.dims_beside(&meta.dims, piece))
            };
            self.declare(&name, meta.with_dims(dims), true);
            names.insert(var, name);
        }
        for (_, vars) in op.inputs.iter_mut().chain(&mut op.outputs) {
            for var in vars {
                if let Some(name) = names.get(var) {
                    var.clone_from(name);
                }
            }
        }
        Ok(())
    }

    fn listen(&self, number: usize, threads: Threads) -> OpDesc {
        let job = &self.plan.job;
        let op = OpDesc::new("listen_and_serv")
            .input("X", self.inputs.clone())
            .attr("endpoint", self.endpoint)
            .attr("Fanin", job.n_trainers as i32)
            .attr("optimize_blocks", Attr::Blocks(self.optimize_blocks.clone()))
            .attr("grad_to_block_id", self.grad_to_block.clone())
            .attr("sparse_grad_to_param", self.sparse_grads.clone())
            .attr("prefetch_var_name_to_block_id", Vec::<String>::new())
            .attr("checkpint_block_id", -1)
            .attr("lr_decay_block_id", self.lr_block)
            .attr("dc_asgd", self.plan.config.enable_dc_asgd);
        let op = job
            .mode
            .tell_server(op, job.via_communicator)
            .attr("pserver_id", number as i32)
            .attr("rpc_get_thread_num", threads.get)
            .attr("rpc_send_thread_num", threads.send)
            .attr("rpc_prefetch_thread_num", threads.prefetch)
            .attr("job", job.job.as_str());
        with_role(op, role::FORWARD)
    }
}

/// The op that makes a program a server's: its last op. Called at every run, so it must not search.
pub fn server_op(program: &Program) -> Option<&OpDesc> {
    program.block(0).ops.last().filter(|op| op.kind == "listen_and_serv")
}
