//! Reads a program with an optimizer in it: which parameters there are, what happens to their
//! gradients, and which block of what goes to which server.

use std::collections::{BTreeMap, HashMap, HashSet};

use program::distributed::{
    Distributed, Origin, Piece, PlacedKind, Placement, ServerId, Spread, VarId,
};
use program::{OpDesc, Program, VarKind, role};

use super::config::{Config, Job};
use super::entries::entries;
use super::pieces::{piece, rows_of, servers_of};
use super::split::{self, Dispatch};
use super::table;
use crate::error::{Error, Result};

/// Multiplies a gradient by a factor computed from those of all parameters.
const GLOBAL_CLIP: &str = "elementwise_mul";

/// A parameter that servers train.
#[derive(Clone, Debug)]
pub(super) struct Param {
    pub(super) name: String,
    pub(super) dims: Vec<i64>,
    /// What trainers send: its gradient, or that clipped by the norm of all.
    pub(super) grad: String,
    /// The gradient is keyed rows.
    pub(super) is_sparse: bool,
    /// Trainers ask for rows and never hold the whole.
    pub(super) is_remote: bool,
    /// Its update needs all of it: it is not cut.
    pub(super) is_whole: bool,
    /// It is the table made with `is_distributed`: gradients of trainers are added up and not divided
    /// by their number, as in Fluid.
    pub(super) is_distributed: bool,
    /// Which server has which row.
    pub(super) spread: Spread,
    /// The op that updates it, by its place in block 0.
    pub(super) update: usize,
    /// Ops between gradient and update that servers run: clip, decay.
    pub(super) before: Vec<usize>,
    /// Ops after the update.
    pub(super) after: Vec<usize>,
    pub(super) pieces: Vec<Piece>,
}

impl Param {
    pub(super) fn is_cut(&self) -> bool {
        self.pieces.len() > 1
    }

    /// A block's name: `w.block0`, or just `w` if it is not cut.
    pub(super) fn block(&self, var: &str, block: usize) -> String {
        if self.is_cut() { format!("{var}.block{block}") } else { var.to_string() }
    }

    /// Names of all blocks of its value.
    pub(super) fn blocks(&self) -> Vec<String> {
        self.pieces.iter().map(|piece| piece.name.clone()).collect()
    }

    /// Whether a hash says which server has a row.
    pub(super) fn is_hashed(&self) -> bool {
        self.spread == Spread::Hash
    }

    /// Rows of each block; of a table spread by hash, those of the whole.
    pub(super) fn sections(&self) -> Vec<i64> {
        if self.is_hashed() {
            return self.dims[..1].to_vec();
        }
        self.pieces.iter().map(Piece::n_rows).collect()
    }

    /// The shape of a block.
    pub(super) fn dims_of(&self, piece: &Piece) -> Vec<i64> {
        piece.dims_of(&self.dims)
    }

    /// A server's name for a variable beside a block: its own if the server holds one block only.
    pub(super) fn beside(&self, var: &str, piece: &Piece) -> String {
        let here = self.pieces.iter().filter(|other| other.server == piece.server).count();
        if here > 1 { format!("{var}.block{}", piece.block) } else { var.to_string() }
    }

    /// The shape of a variable beside a block: what is like the parameter is cut like it.
    pub(super) fn dims_beside(&self, dims: &[i64], piece: &Piece) -> Vec<i64> {
        if dims == self.dims { self.dims_of(piece) } else { dims.to_vec() }
    }
}

/// Everything the programs of a job are made from.
#[derive(Debug)]
pub(super) struct JobPlan {
    pub(super) config: Config,
    pub(super) job: Distributed,
    /// In order of their updates.
    pub(super) params: Vec<Param>,
    /// The order in which blocks were given out, as places in `params`.
    pub(super) order: Vec<usize>,
    /// Ops that compute the learning rate.
    pub(super) lr_ops: Vec<usize>,
    /// Ops that trainers do not run any more.
    pub(super) moved: HashSet<usize>,
    /// Variables that only those need.
    pub(super) unused: HashSet<String>,
    /// Which rows tables take in, by table.
    pub(super) entries: BTreeMap<String, String>,
    /// The counter of steps that the learning rate depends on, if servers count by trainer.
    pub(super) counter: Option<String>,
    /// What the user should know.
    pub(super) warnings: Vec<String>,
}

/// The variable that schedules count steps in.
pub(super) const COUNTER: &str = "@LR_DECAY_COUNTER@";

impl JobPlan {
    pub(super) fn new(
        main: &Program,
        startup: &Program,
        config: &Config,
        job: &Job,
        dispatch: &mut dyn Dispatch,
    ) -> Result<Self> {
        config.check()?;
        job.check()?;
        if main.distributed.is_some() {
            return Err(Error::TranspiledTwice);
        }
        let job = describe(config, job);
        let mut plan = Self {
            config: config.clone(),
            job,
            params: Vec::new(),
            order: Vec::new(),
            lr_ops: lr_ops(main),
            moved: HashSet::new(),
            unused: HashSet::new(),
            entries: entries(main)?,
            counter: None,
            warnings: Vec::new(),
        };
        plan.job.lookup_table = table::find(main)?;
        let mut kept = HashSet::new();
        plan.find_params(main, startup, &mut kept)?;
        plan.give_out(main.random_seed as u32, dispatch)?;
        plan.find_moved(main, &kept);
        let counts = plan.job.mode.updates_on_arrival();
        let has_counter = plan.lr_ops.iter().any(|&at| main.block(0).ops[at].kind == "increment");
        plan.counter =
            (counts && has_counter && main.block(0).var(COUNTER).is_some()).then(|| COUNTER.into());
        plan.place(main, startup);
        plan.keep_rows(main, startup)?;
        plan.number();
        (plan.job.job, plan.job.digest) = (plan.job.terms(), plan.job.hash_job());
        Ok(plan)
    }

    pub(super) fn is_geo(&self) -> bool {
        self.job.mode.exchanges_every().is_some()
    }

    /// Whether each trainer's gradient has a name of its own on servers.
    pub(super) fn per_trainer(&self) -> bool {
        self.job.mode.waits_for_all() && self.job.n_trainers > 1
    }

    /// Whether trainers rename the gradient itself.
    pub(super) fn renames(&self, param: &Param) -> bool {
        self.per_trainer() && !self.job.via_communicator && !param.is_cut()
    }

    /// The gradient's name in `op_role_var`, after renaming.
    pub(super) fn role_grad(&self, param: &Param) -> String {
        if self.renames(param) {
            of_trainer(&param.grad, self.job.trainer_id)
        } else {
            param.grad.clone()
        }
    }

    /// Names under which this trainer's gradient reaches the servers.
    pub(super) fn sent_names(&self, param: &Param) -> Vec<String> {
        let name = |piece: &Piece| {
            if self.per_trainer() {
                of_trainer(&param.block(&param.grad, piece.block), self.job.trainer_id)
            } else {
                param.block(&param.grad, piece.block)
            }
        };
        param.pieces.iter().map(name).collect()
    }

    fn find_params(
        &mut self,
        main: &Program,
        startup: &Program,
        kept: &mut HashSet<usize>,
    ) -> Result<()> {
        let ops = &main.block(0).ops;
        for (update, op) in ops.iter().enumerate() {
            let Some(Updated { param: name, grad }) = updated(op) else { continue };
            let dims = main.need_var(0, name)?.meta.dims.clone();
            let chain = GradChain::of(ops, update, grad);
            kept.extend(&chain.kept);
            let is_sparse = main.need_var(0, &chain.sent)?.meta.kind == VarKind::SelectedRows;
            let of_param = |at: &usize| role_param(&ops[*at]) == Some(name) && *at > update;
            let is_distributed = self.job.lookup_table.as_deref() == Some(name);
            let mut param = Param {
                name: name.to_string(),
                is_sparse,
                is_remote: is_sparse
                    && only_looked_up(main, name)
                    && self.is_elsewhere(main, name, &dims),
                dims,
                is_distributed,
                spread: Spread::Range,
                grad: chain.sent,
                is_whole: chain.before.iter().any(|&at| ops[at].traits().needs_whole)
                    || op.traits().needs_whole,
                update,
                before: chain.before,
                after: (0..ops.len()).filter(of_param).collect(),
                pieces: Vec::new(),
            };
            param.spread = self.spread(main, startup, &param)?;
            self.params.push(param);
        }
        if self.params.is_empty() {
            return Err(Error::NothingToOptimize);
        }
        Ok(())
    }

    /// Cuts the parameters and chooses servers.
    fn give_out(&mut self, seed: u32, dispatch: &mut dyn Dispatch) -> Result<()> {
        let n = self.params.len();
        self.order =
            if self.config.slice_var_up { (0..n).collect() } else { split::shuffled(n, seed) };
        let endpoints = self.job.endpoints.clone();
        for &at in &self.order {
            let param = &mut self.params[at];
            if param.is_hashed() {
                // Every server has some of its rows, and knows them by their numbers in the whole.
                let rows = 0..param.dims.first().copied().unwrap_or(1);
                let names = split::block_names(&param.name, endpoints.len()).into_iter();
                let all = names.enumerate();
                param.pieces =
                    all.map(|(at, name)| piece(at, name, ServerId(at), rows.clone())).collect();
                continue;
            }
            let cut = self.config.slice_var_up && !param.is_whole;
            let n_servers = if cut { endpoints.len() } else { 1 };
            let cuts = split::slice_variable(&param.dims, n_servers, self.config.min_block_size);
            let names = split::block_names(&param.name, cuts.len());
            let chosen = dispatch.dispatch(&names, &endpoints);
            let servers = servers_of(&chosen, cuts.len(), &endpoints)?;
            let all = names.into_iter().zip(servers).zip(cuts).enumerate();
            param.pieces =
                all.map(|(at, ((name, server), rows))| piece(at, name, server, rows)).collect();
        }
        Ok(())
    }

    /// Ops that only servers run, and variables that only those ops need.
    fn find_moved(&mut self, main: &Program, kept: &HashSet<usize>) {
        if self.is_geo() {
            return;
        }
        let ops = &main.block(0).ops;
        let is_optimize = |op: &OpDesc| op.role() & role::OPTIMIZE != 0;
        let of_param = |op: &OpDesc| role_param(op).is_some();
        for (at, op) in ops.iter().enumerate() {
            if is_optimize(op) && of_param(op) && !kept.contains(&at) {
                self.moved.insert(at);
            }
        }
        let mut unused: HashSet<String> = HashSet::new();
        let mut named: HashSet<String> = HashSet::new();
        for &at in &self.moved {
            unused.extend(ops[at].reads().map(str::to_string));
            named.extend(ops[at].attrs.strs(role::ROLE_VAR).unwrap_or(&[]).iter().cloned());
        }
        self.moved.extend(&self.lr_ops);
        for (at, op) in ops.iter().enumerate().filter(|(at, _)| !self.moved.contains(at)) {
            debug_assert!(!self.moved.contains(&at));
            op.reads().chain(op.writes()).for_each(|var| {
                unused.remove(var);
            });
        }
        self.unused = unused.difference(&named).cloned().collect();
        self.params.iter().for_each(|param| {
            self.unused.remove(&param.name);
        });
    }

    /// Notes what will be where.
    fn place(&mut self, main: &Program, startup: &Program) {
        let mut placement = Vec::new();
        for param in &self.params {
            let kind = if param.is_remote { PlacedKind::RemotePrefetch } else { PlacedKind::Param };
            for piece in &param.pieces {
                placement.push(Placement {
                    origin: param.name.clone(),
                    origin_dims: param.dims.clone(),
                    piece: piece.clone(),
                    kind,
                    spread: param.spread,
                });
            }
        }
        if !self.is_geo() {
            for param in &self.params {
                self.place_states(main, param, &mut placement);
            }
            self.place_shared(main, startup, &mut placement);
        }
        self.job.placement = placement;
    }

    /// The optimizer's state of one parameter.
    fn place_states(&self, main: &Program, param: &Param, placement: &mut Vec<Placement>) {
        for state in states(main, param) {
            let dims = &main.block(0).var(&state).map(|var| var.meta.dims.clone());
            let dims = dims.clone().unwrap_or_default();
            for piece in &param.pieces {
                let is_cut = dims == param.dims;
                placement.push(Placement {
                    origin: state.clone(),
                    origin_dims: dims.clone(),
                    piece: Piece {
                        name: param.beside(&state, piece),
                        rows: if is_cut { piece.rows.clone() } else { rows_of(&dims) },
                        ..piece.clone()
                    },
                    kind: PlacedKind::Optimizer,
                    spread: if is_cut { param.spread } else { Spread::Range },
                });
            }
        }
    }

    /// Learning rate and counter, which every server has.
    fn place_shared(&self, main: &Program, startup: &Program, placement: &mut Vec<Placement>) {
        let ops = &main.block(0).ops;
        let rates =
            self.params.iter().flat_map(|param| ops[param.update].input_names("LearningRate"));
        let scheduled: HashSet<&str> = self.lr_ops.iter().flat_map(|&at| ops[at].reads()).collect();
        let in_order = self.lr_ops.iter().flat_map(|&at| ops[at].reads().map(str::to_string));
        let mut shared: Vec<String> = rates.cloned().chain(in_order).collect();
        let mut seen = HashSet::new();
        shared.retain(|var| seen.insert(var.clone()));
        let starts = |var: &str| {
            startup.block(0).ops.iter().any(|op| op.writes().any(|written| written == var))
        };
        for var in shared.iter().filter(|var| starts(var)) {
            let Some(desc) = main.block(0).var(var).filter(|desc| desc.persistable) else {
                continue;
            };
            // A server that has no use for it does not know it.
            let uses = |param: &Param| {
                scheduled.contains(var.as_str())
                    || ops[param.update].input_names("LearningRate").contains(var)
            };
            let used_at = |endpoint: ServerId| {
                let here = |param: &Param| param.pieces.iter().any(|p| p.server == endpoint);
                self.params.iter().any(|param| uses(param) && here(param))
            };
            let servers = (0..self.job.endpoints.len()).map(ServerId);
            for server in servers.filter(|&server| used_at(server)) {
                placement.push(Placement {
                    origin: var.clone(),
                    origin_dims: desc.meta.dims.clone(),
                    piece: Piece {
                        name: var.clone(),
                        server,
                        var: VarId::NONE,
                        block: 0,
                        rows: rows_of(&desc.meta.dims),
                    },
                    kind: PlacedKind::Optimizer,
                    spread: Spread::Range,
                });
            }
        }
    }
}

/// `<grad>.trainer_<id>`.
pub(super) fn of_trainer(var: &str, trainer: usize) -> String {
    format!("{var}.trainer_{trainer}")
}

/// The state of an optimizer for a parameter: what its update reads and writes beside the
/// parameter.
pub(super) fn states(main: &Program, param: &Param) -> Vec<String> {
    let op = &main.block(0).ops[param.update];
    let own = |port: &str| !matches!(port, "Param" | "Grad" | "LearningRate");
    let vars = op.inputs.iter().filter(|(port, _)| own(port)).flat_map(|(_, vars)| vars);
    let mut seen = HashSet::new();
    vars.filter(|var| seen.insert(*var)).cloned().collect()
}

/// The parameter that an op updates, and by which gradient.
struct Updated<'a> {
    param: &'a str,
    grad: &'a str,
}

fn updated(op: &OpDesc) -> Option<Updated<'_>> {
    let is_update = op.role() & role::OPTIMIZE != 0 && op.role() & role::LR_SCHED == 0;
    match (is_update, op.input_names("Param"), op.input_names("Grad")) {
        (true, [param], [grad]) => Some(Updated { param, grad }),
        _ => None,
    }
}

/// The parameter that an optimize-role op belongs to.
fn role_param(op: &OpDesc) -> Option<&str> {
    if op.role() & role::OPTIMIZE == 0 {
        return None;
    }
    op.attrs.strs(role::ROLE_VAR).ok()?.first().map(String::as_str)
}

fn lr_ops(main: &Program) -> Vec<usize> {
    let ops = main.block(0).ops.iter().enumerate();
    ops.filter(|(_, op)| op.role() & role::LR_SCHED != 0).map(|(at, _)| at).collect()
}

/// What happens to a gradient between backward pass and update.
struct GradChain {
    /// The variable that is sent.
    sent: String,
    /// Ops for the server.
    before: Vec<usize>,
    /// Ops that stay with the trainer.
    kept: HashSet<usize>,
}

impl GradChain {
    /// Walks back from an update over clip and decay.
    fn of(ops: &[OpDesc], update: usize, grad: &str) -> Self {
        let param = role_param(&ops[update]).map(str::to_string);
        let mut sent = grad.to_string();
        let mut at = update;
        let mut first = update;
        while let Some(writer) = last_writer(ops, &sent, at) {
            let op = &ops[writer];
            if op.role() & role::OPTIMIZE == 0 {
                break;
            }
            if op.kind == GLOBAL_CLIP {
                let kept = closure(ops, writer);
                let before = between(ops, param.as_deref(), writer + 1, update, &kept);
                return Self { sent, before, kept };
            }
            let Some(source) = op.input_names("X").first() else { break };
            sent = source.clone();
            (at, first) = (writer, writer);
        }
        // The ops that compute a weight decay come before the op that adds it.
        let start = ops[..first].iter().rposition(|op| op.role() & role::OPTIMIZE == 0);
        let start = start.map_or(0, |at| at + 1);
        let before = between(ops, param.as_deref(), start, update, &HashSet::new());
        Self { sent, before, kept: HashSet::new() }
    }
}

/// Ops of a parameter in a range.
fn between(
    ops: &[OpDesc],
    param: Option<&str>,
    from: usize,
    to: usize,
    except: &HashSet<usize>,
) -> Vec<usize> {
    let own = |at: &usize| {
        role_param(&ops[*at]) == param
            && ops[*at].role() & role::LR_SCHED == 0
            && !except.contains(at)
    };
    (from..to).filter(own).collect()
}

fn last_writer(ops: &[OpDesc], var: &str, before: usize) -> Option<usize> {
    ops[..before].iter().rposition(|op| op.writes().any(|written| written == var))
}

/// An op and all optimize-role ops it depends on.
fn closure(ops: &[OpDesc], op: usize) -> HashSet<usize> {
    let mut found = HashSet::from([op]);
    let mut open = vec![op];
    while let Some(at) = open.pop() {
        for var in ops[at].reads() {
            let writer = last_writer(ops, var, at);
            let writer = writer.filter(|&w| ops[w].role() & role::OPTIMIZE != 0);
            if let Some(writer) = writer.filter(|writer| found.insert(*writer)) {
                open.push(writer);
            }
        }
    }
    found
}

/// Whether a program uses nothing of a table but some rows.
fn only_looked_up(main: &Program, table: &str) -> bool {
    let mut any = false;
    for op in main.blocks().iter().flat_map(|block| &block.ops) {
        let is_update = op.role() & role::OPTIMIZE != 0;
        if is_update || !op.reads().any(|var| var == table) {
            continue;
        }
        let is_remote = |attr: &str| op.attrs.bool(attr, false).unwrap_or(false);
        if op.traits().looks_up && (is_remote("remote_prefetch") || is_remote("is_distributed")) {
            any = true;
        } else if !op.traits().is_lookup_grad {
            return false;
        }
    }
    any
}

fn describe(config: &Config, job: &Job) -> Distributed {
    Distributed {
        mode: config.mode,
        via_communicator: config.via_communicator,
        trainer_id: job.trainer_id,
        n_trainers: job.n_trainers,
        endpoints: job.endpoints.clone(),
        ps_endpoint: job.current_endpoint.clone(),
        placement: Vec::new(),
        vars: Vec::new(),
        lookup_table: None,
        by_rows: Vec::new(),
        job: String::new(),
        digest: String::new(),
        origin: Origin::default(),
    }
}

/// Positions of the last writer of each variable, over the whole block.
pub(super) fn last_writers(ops: &[OpDesc]) -> HashMap<&str, usize> {
    let mut last = HashMap::new();
    for (at, op) in ops.iter().enumerate() {
        last.extend(op.writes().map(|var| (var, at)));
    }
    last
}
