//! Startup programs: a trainer receives what servers start with, and a server starts its blocks.

use std::collections::HashMap;

use program::{Attr, Attrs, Meta, OpDesc, Program, VarDesc, role};

use super::make::{self, with_role};
use super::plan::{JobPlan, Param, of_trainer};
use crate::error::{Error, Result};

/// Output port of ops that start variables.
const OUT: &str = "Out";

impl JobPlan {
    /// Rewrites a trainer's startup program in place.
    pub(super) fn rewrite_startup(&self, startup: &mut Program) -> Result<()> {
        self.start_counters(startup, 1.0)?;
        let elsewhere: Vec<&str> = self.elsewhere().collect();
        let mut fakes = Vec::new();
        let block = startup.block_mut(0);
        for &table in &elsewhere {
            if let Some(var) = block.var(table) {
                fakes.push(fake_init(table, &var.meta));
            }
        }
        let gone = |var: &str| self.unused.contains(var) || elsewhere.contains(&var);
        block.ops.retain(|op| !op.writes().any(gone));
        block.retain_vars(|var| !self.unused.contains(&var.name));
        let control = make::control(0);
        let received = self.params.iter().filter(|param| !param.is_remote);
        for param in received.clone() {
            let Some(var) = block.var(&param.name) else { continue };
            let meta = var.meta.clone();
            for piece in param.pieces.iter().filter(|_| param.is_cut()) {
                block.put_var(VarDesc::new(&piece.name, meta.with_dims(param.dims_of(piece))));
            }
            block.ops.push(self.job.recv_op(param.blocks(), self.epmap(param), Vec::new()));
        }
        let out = vec![control.name.clone()];
        block.ops.push(self.job.barrier_op("fetch_barrier", Vec::new(), out));
        block.put_var(control);
        for param in received.filter(|param| param.is_cut()) {
            block.ops.push(make::concat(param.blocks(), &param.name, role::FORWARD));
        }
        block.ops.extend(fakes);
        Ok(())
    }

    /// Tables that trainers never hold.
    fn elsewhere(&self) -> impl Iterator<Item = &str> {
        // A trainer of GEO holds rows of its own.
        let elsewhere = |param: &&Param| param.is_remote && !self.is_geo();
        self.params.iter().filter(elsewhere).map(|param| param.name.as_str())
    }

    /// Counters of each trainer's steps: what a trainer adds, or what a server has seen.
    fn start_counters(&self, startup: &mut Program, first: f32) -> Result<()> {
        let Some(counter) = &self.counter else { return Ok(()) };
        let n = self.job.n_trainers;
        let block = startup.block_mut(0);
        let Some(init) = block.ops.iter_mut().find(|op| op.writes().any(|var| var == counter))
        else {
            return Err(Error::NoInit { var: counter.clone() });
        };
        init.attrs.set("value", -(n as f32));
        let init = init.clone();
        let meta = block.var(counter).map(|var| var.meta.clone()).unwrap_or_default();
        for trainer in 0..n {
            let name = of_trainer(counter, trainer);
            let mut op = init.clone().attr("value", first);
            op.rename_output(counter, &name);
            block.ops.insert(0, op);
            block.put_var(VarDesc::new(&name, meta.clone()).persistable());
        }
        Ok(())
    }

    /// The startup program of a server; `server` is its main program, `original` the startup
    /// program as it was before trainers' was rewritten.
    pub(super) fn server_startup(
        &self,
        server: &Program,
        original: &Program,
        endpoint: &str,
    ) -> Result<Program> {
        let mut source = original.clone();
        if self.counter.is_some() {
            self.start_counters(&mut source, 0.0)?;
        }
        let mut startup = Program::default();
        startup.random_seed = original.random_seed;
        startup.distributed = Some(self.job.for_server(endpoint));
        for var in server.block(0).vars() {
            let persistable = var.meta.kind.has_tensor();
            startup.block_mut(0).put_var(VarDesc { persistable, ..var.clone() });
        }
        let held = self.held(server, endpoint);
        for op in &source.block(0).ops {
            self.start_held(op, &held, &mut startup)?;
        }
        self.start_rate(&mut startup);
        self.start_backups(endpoint, &mut startup)?;
        Ok(startup)
    }

    /// For each variable of the original program, its pieces on this server.
    fn held(&self, server: &Program, endpoint: &str) -> HashMap<String, Vec<Start>> {
        let mut held: HashMap<String, Vec<Start>> = HashMap::new();
        for placed in self.job.on(endpoint) {
            let start = Start {
                var: placed.piece.name.clone(),
                dims: placed.dims(),
                offset: placed.offset(),
                is_whole: placed.is_whole(),
            };
            held.entry(placed.origin.clone()).or_default().push(start);
        }
        for var in server.block(0).vars() {
            held.entry(var.name.clone()).or_insert_with(|| {
                let dims = var.meta.dims.clone();
                vec![Start { var: var.name.clone(), dims, offset: 0, is_whole: true }]
            });
        }
        held
    }

    /// Copies an op for every piece that it starts here.
    fn start_held(
        &self,
        op: &OpDesc,
        held: &HashMap<String, Vec<Start>>,
        startup: &mut Program,
    ) -> Result<()> {
        let Some((origin, pieces)) = op.writes().find_map(|var| held.get_key_value(var)) else {
            return Ok(());
        };
        for piece in pieces {
            let mut copy = op.clone();
            copy.rename_output(origin, &piece.var);
            if piece.is_whole || resize(&mut copy, piece, self.config.fluid_block_init)? {
                startup.block_mut(0).ops.push(copy);
                continue;
            }
            // Whatever it does, the whole is made and the block taken out of it.
            let whole = format!("{origin}@WHOLE");
            let mut copy = op.clone();
            copy.rename_output(origin, &whole);
            startup.append_op(0, copy)?;
            let rows = piece.dims.first().copied().unwrap_or(1);
            let width: i64 = piece.dims.iter().skip(1).product::<i64>().max(1);
            let start = piece.offset / width;
            let take = OpDesc::new("slice")
                .input("Input", &whole)
                .output(OUT, &piece.var)
                .attr("axes", vec![0])
                .attr("starts", vec![start as i32])
                .attr("ends", vec![(start + rows) as i32]);
            startup.block_mut(0).ops.push(with_role(take, role::FORWARD));
        }
        Ok(())
    }

    /// What delayed gradients are corrected by starts as the parameter itself.
    fn start_backups(&self, endpoint: &str, startup: &mut Program) -> Result<()> {
        if !self.config.enable_dc_asgd {
            return Ok(());
        }
        for param in self.params.iter().filter(|param| !param.is_sparse) {
            for piece in param.pieces.iter().filter(|piece| self.is_at(piece, endpoint)) {
                let block = &piece.name;
                for trainer in 0..self.job.n_trainers {
                    let backup = format!("{}_bak", of_trainer(block, trainer));
                    let op = OpDesc::new("assign").input("X", block).output(OUT, backup);
                    startup.block_mut(0).ops.push(with_role(op, role::FORWARD));
                }
            }
        }
        Ok(())
    }
}

/// A piece to start.
struct Start {
    var: String,
    dims: Vec<i64>,
    offset: i64,
    is_whole: bool,
}

/// Makes an op that starts a whole variable start a piece of it; `false` if it cannot.
fn resize(op: &mut OpDesc, piece: &Start, restarts: bool) -> Result<bool> {
    let has_diagonal = op.attrs.int("diag_num", 0)? > 0;
    let is_stream = op.traits().draws_stream && !has_diagonal;
    match op.kind.as_str() {
        "assign_value" => cut_values(&mut op.attrs, piece),
        "fill_constant" => {}
        _ if is_stream => {
            let seeded = op.attrs.int("seed", 0)? != 0;
            if piece.offset > 0 && seeded && !restarts {
                op.attrs.set("stream_offset", piece.offset);
            }
        }
        _ => return Ok(false),
    }
    let dims = match op.attrs.get("shape") {
        Some(Attr::Ints(_)) => Attr::Ints(piece.dims.iter().map(|&dim| dim as i32).collect()),
        _ => Attr::Longs(piece.dims.clone()),
    };
    op.attrs.set("shape", dims);
    Ok(true)
}

/// Takes a piece out of the numbers that an op carries.
fn cut_values(attrs: &mut Attrs, piece: &Start) {
    let n = piece.dims.iter().product::<i64>().max(0) as usize;
    let range = piece.offset as usize..piece.offset as usize + n;
    for name in ["fp32_values", "int32_values", "int64_values", "bool_values"] {
        let cut: Option<Attr> = match attrs.get(name) {
            Some(Attr::Floats(all)) => all.get(range.clone()).map(|part| part.to_vec().into()),
            Some(Attr::Ints(all)) => all.get(range.clone()).map(|part| part.to_vec().into()),
            Some(Attr::Longs(all)) => all.get(range.clone()).map(|part| part.to_vec().into()),
            Some(Attr::Bools(all)) => all.get(range.clone()).map(|part| part.to_vec().into()),
            _ => None,
        };
        if let Some(cut) = cut {
            attrs.set(name, cut);
        }
    }
}

/// Shape without memory.
fn fake_init(var: &str, meta: &Meta) -> OpDesc {
    let op = OpDesc::new("fake_init")
        .output(OUT, var)
        .attr("shape", meta.dims.clone())
        .attr("dtype", meta.dtype.code());
    with_role(op, role::FORWARD)
}
