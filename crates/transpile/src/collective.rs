//! Programs of trainers that exchange with each other, without servers: Fluid's modes "nccl2" and
//! "collective".

use program::op::proto;
use program::{Meta, OpDesc, Program, UniqueNames, VarDesc, VarKind, role};

use crate::error::{Error, Result};

/// How trainers without servers keep their parameters equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveMode {
    /// The startup program meets the others; whoever runs the main program on devices adds up its
    /// gradients (Fluid: mode "nccl2").
    Nccl2,
    /// Ops of the main program add up gradients ("grad_allreduce").
    GradAllReduce,
    /// Every trainer updates its own parameters, which are then averaged ("local_sgd").
    LocalSgd,
    /// One process; its devices are all there is ("single_process_multi_thread").
    OneProcess,
}

impl CollectiveMode {
    /// Back from Fluid's `mode` and `collective_mode`.
    pub fn from_fluid(mode: &str, collective_mode: Option<&str>) -> Result<Self> {
        let bad = |field, rule, actual: &str| {
            Err(Error::BadConfig { field, rule, actual: actual.to_string() })
        };
        match (mode, collective_mode) {
            ("nccl2", _) => Ok(Self::Nccl2),
            ("collective", Some("grad_allreduce")) => Ok(Self::GradAllReduce),
            ("collective", Some("local_sgd")) => Ok(Self::LocalSgd),
            ("collective", Some("single_process_multi_thread")) => Ok(Self::OneProcess),
            ("collective", other) => {
                let rule =
                    "must be \"grad_allreduce\", \"local_sgd\" or \"single_process_multi_thread\"";
                bad("collective_mode", rule, other.unwrap_or("None"))
            }
            (other, _) => bad("mode", "must be \"pserver\", \"nccl2\" or \"collective\"", other),
        }
    }
}

/// The trainers of a job without servers, and which of them this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveJob {
    /// This trainer, from 0.
    pub trainer_id: i64,
    /// All, `ip:port`, in the order of their numbers.
    pub endpoints: Vec<String>,
    /// The end point that the user says is this trainer's.
    pub current_endpoint: String,
    /// Groups of exchanges (Fluid: `nccl_comm_num`).
    pub n_rings: usize,
    /// Trainers of a machine add up among themselves first (Fluid's switch for it; one way does for both here).
    pub is_hierarchical: bool,
    /// How many those are.
    pub n_inner: i64,
}

impl CollectiveJob {
    /// A job of these trainers, `ip:port,ip:port`.
    pub fn new(trainer_id: i64, endpoints: &str) -> Self {
        let endpoints: Vec<String> =
            endpoints.split(',').map(|one| one.trim().to_string()).collect();
        let current = usize::try_from(trainer_id).ok().and_then(|at| endpoints.get(at).cloned());
        Self {
            trainer_id,
            current_endpoint: current.unwrap_or_default(),
            endpoints,
            n_rings: 1,
            is_hierarchical: false,
            n_inner: 0,
        }
    }

    fn check(&self, mode: CollectiveMode) -> Result<()> {
        if self.trainer_id < 0 {
            return Err(Error::NegativeTrainer { trainer_id: self.trainer_id });
        }
        if mode == CollectiveMode::OneProcess {
            return Ok(());
        }
        for (at, text) in self.endpoints.iter().enumerate() {
            let parsed = text.parse::<base::Endpoint>();
            parsed.map_err(|source| Error::Endpoint { text: text.clone(), source })?;
            if self.endpoints[..at].contains(text) {
                return Err(Error::TrainerTwice { endpoint: text.clone() });
            }
        }
        let n = self.endpoints.len();
        if n == 1 && mode != CollectiveMode::Nccl2 {
            return Err(Error::OneTrainer);
        }
        let trainer_id = self.trainer_id as usize;
        if trainer_id >= n {
            return Err(Error::TrainerId { trainer_id, n_trainers: n });
        }
        let own = &self.endpoints[trainer_id];
        if !self.endpoints.contains(&self.current_endpoint) {
            let (endpoint, endpoints) = (self.current_endpoint.clone(), self.endpoints.clone());
            return Err(Error::NotATrainer { endpoint, endpoints });
        }
        if *own != self.current_endpoint {
            let current = self.current_endpoint.clone();
            return Err(Error::OtherEndpoint { trainer_id, own: own.clone(), current });
        }
        Ok(())
    }

    fn others(&self) -> Vec<String> {
        self.endpoints.iter().filter(|one| **one != self.current_endpoint).cloned().collect()
    }
}

/// Makes `main` and `startup` those of a trainer among trainers.
pub fn transpile_collective(
    main: &mut Program,
    startup: &mut Program,
    mode: CollectiveMode,
    job: &CollectiveJob,
    unique: &mut UniqueNames,
) -> Result<()> {
    job.check(mode)?;
    let is_made = |program: &Program| program.block(0).ops.iter().any(meets);
    if is_made(startup) && mode != CollectiveMode::OneProcess {
        return Err(Error::TranspiledTwice);
    }
    let (mut new_main, mut new_startup) = (main.clone(), startup.clone());
    let n = job.endpoints.len();
    match mode {
        CollectiveMode::Nccl2 => meet_for_devices(&mut new_startup, job)?,
        CollectiveMode::GradAllReduce => {
            begin_equal(&mut new_startup, job, unique)?;
            add_up_gradients(&mut new_main, n, job.n_rings, true)?;
        }
        CollectiveMode::LocalSgd => {
            begin_equal(&mut new_startup, job, unique)?;
            keep_snapshots(&mut new_startup)?;
            average_params(&mut new_main, n, job.n_rings)?;
        }
        CollectiveMode::OneProcess => {
            let op = OpDesc::new("c_comm_init_all").attr("ring_id", 0);
            new_startup.append_op(0, op)?;
            add_up_gradients(&mut new_main, 1, 1, true)?;
        }
    }
    main.replace(new_main);
    startup.replace(new_startup);
    Ok(())
}

fn meets(op: &OpDesc) -> bool {
    program::op::collective::members(op).is_ok_and(|members| members.is_some())
}

fn with_role(op: OpDesc, number: i32) -> OpDesc {
    op.attr(role::ROLE, number)
}

/// An op with all of Fluid's attributes.
fn complete(mut op: OpDesc) -> Result<OpDesc> {
    if let Some(proto) = proto(&op.kind) {
        proto.complete(&mut op)?;
    }
    Ok(op)
}

fn raw(name: &str) -> VarDesc {
    VarDesc::new(name, Meta { kind: VarKind::Raw, ..Meta::default() }).persistable()
}

/// Mode "nccl2": one op that meets the others; the rest is up to who runs the main program.
fn meet_for_devices(startup: &mut Program, job: &CollectiveJob) -> Result<()> {
    let block = startup.block_mut(0);
    block.put_var(raw("NCCLID"));
    for ring in 1..job.n_rings {
        block.put_var(raw(&format!("NCCLID_{ring}")));
    }
    for ring in (0..job.n_rings).filter(|_| job.is_hierarchical) {
        block.put_var(raw(&format!("Hierarchical_inter_NCCLID_{ring}")));
        block.put_var(raw(&format!("Hierarchical_exter_NCCLID_{ring}")));
    }
    let op = OpDesc::new("gen_nccl_id")
        .output("NCCLID", "NCCLID")
        .attr("trainers", job.endpoints.clone())
        .attr("trainer_id", job.trainer_id as i32)
        .attr("nccl_comm_num", job.n_rings as i32)
        .attr("use_hierarchical_allreduce", job.is_hierarchical)
        .attr("hierarchical_allreduce_inter_nranks", job.n_inner as i32);
    Ok(startup.append_op(0, op)?)
}

/// Meets the others, and takes the parameters of trainer 0.
fn begin_equal(startup: &mut Program, job: &CollectiveJob, unique: &mut UniqueNames) -> Result<()> {
    for ring in 0..job.n_rings {
        let id = unique.generate("nccl_id");
        startup.block_mut(0).put_var(raw(&id));
        let meet = OpDesc::new("c_gen_nccl_id")
            .output("Out", id.as_str())
            .attr("rank", job.trainer_id as i32)
            .attr("endpoint", job.current_endpoint.as_str())
            .attr("other_endpoints", job.others());
        startup.append_op(0, with_role(meet, role::FORWARD))?;
        let init = OpDesc::new("c_comm_init")
            .input("X", id.as_str())
            .attr("nranks", job.endpoints.len() as i32)
            .attr("rank", job.trainer_id as i32)
            .attr("ring_id", ring as i32);
        startup.append_op(0, with_role(init, role::FORWARD))?;
    }
    let params = params(startup);
    for (at, param) in params.iter().enumerate() {
        let op = on_var("c_broadcast", param).attr("ring_id", (at % job.n_rings.max(1)) as i32);
        let op = complete(op.attr("root", 0))?;
        startup.append_op(0, with_role(op, role::FORWARD))?;
    }
    // Fluid's loop leaves the last parameter, distributed or not.
    if let Some(last) = all_params(startup).last() {
        for ring in 0..job.n_rings {
            let op = on_var("c_sync_comm_stream", last).attr("ring_id", ring as i32);
            startup.append_op(0, with_role(op, role::FORWARD))?;
        }
    }
    Ok(())
}

fn all_params(program: &Program) -> Vec<String> {
    let params = program.block(0).vars().iter().filter(|var| var.param.is_some());
    params.map(|var| var.name.clone()).collect()
}

/// Parameters that every trainer has.
fn params(program: &Program) -> Vec<String> {
    let here = |name: &String| !is_distributed(program, name);
    all_params(program).into_iter().filter(here).collect()
}

fn is_distributed(program: &Program, param: &str) -> bool {
    let param = program.block(0).var(param).and_then(|var| var.param.as_ref());
    param.is_some_and(|param| param.is_distributed)
}

/// An op that changes a variable in place.
fn on_var(kind: &str, var: &str) -> OpDesc {
    OpDesc::new(kind).input("X", var).output("Out", var)
}

/// Scales the gradient of the loss (unless who runs the program does) and adds up the gradients of all
/// trainers, each as soon as it is there.
pub fn add_up_gradients(main: &mut Program, n: usize, n_rings: usize, scales: bool) -> Result<()> {
    if scales {
        scale_loss(main, n)?;
    }
    let mut ring = n_rings.saturating_sub(1);
    let mut last = None;
    for at in (0..main.block(0).ops.len()).rev() {
        let op = &main.block(0).ops[at];
        let pairs =
            if op.is_backward() { op.attrs.strs(role::ROLE_VAR)?.to_vec() } else { continue };
        let mut place = at;
        for pair in pairs.chunks_exact(2) {
            let [param, grad] = pair else { continue };
            last = Some(grad.clone());
            if is_distributed(main, param) {
                continue;
            }
            if place == at {
                let sync = with_role(on_var("c_sync_calc_stream", grad), role::BACKWARD);
                main.insert_op(0, at + 1, sync)?;
                place = at + 2;
            }
            ring = (ring + 1) % n_rings.max(1);
            let op = on_var("c_allreduce_sum", grad).attr("ring_id", ring as i32);
            main.insert_op(0, place, with_role(complete(op)?, role::BACKWARD))?;
        }
    }
    let Some(grad) = last else { return Ok(()) };
    let is_update = |op: &OpDesc| op.role() & role::OPTIMIZE != 0;
    let Some(first) = main.block(0).ops.iter().position(is_update) else { return Ok(()) };
    for ring in 0..n_rings {
        let op = on_var("c_sync_comm_stream", &grad).attr("ring_id", ring as i32);
        main.insert_op(0, first + ring, with_role(op, role::BACKWARD))?;
    }
    Ok(())
}

fn scale_loss(main: &mut Program, n: usize) -> Result<()> {
    let is_start = |op: &OpDesc| op.is_backward() && op.role() & role::LOSS != 0;
    for at in (0..main.block(0).ops.len()).rev() {
        let op = &main.block(0).ops[at];
        let Some(grad) = op.writes().next().filter(|_| is_start(op)).map(str::to_string) else {
            continue;
        };
        let scale = complete(on_var("scale", &grad).attr("scale", (1.0 / n as f64) as f32))?;
        main.insert_op(0, at + 1, with_role(scale, role::BACKWARD))?;
    }
    Ok(())
}

fn snapshot_of(param: &str) -> String {
    format!("{param}@SNAPSHOT")
}

fn put_snapshot(program: &mut Program, param: &str) -> Result<String> {
    let name = snapshot_of(param);
    let dims = program.need_var(0, param)?.meta.dims.clone();
    let meta = program.need_var(0, param)?.meta.with_dims(dims).with_lod_level(0);
    let var = VarDesc { stop_gradient: true, ..VarDesc::new(&name, meta).persistable() };
    program.block_mut(0).put_var(var);
    Ok(name)
}

/// Local SGD: every trainer remembers the parameters that all had.
fn keep_snapshots(startup: &mut Program) -> Result<()> {
    for param in params(startup) {
        let snapshot = put_snapshot(startup, &param)?;
        let op = OpDesc::new("assign").input("X", param.as_str()).output("Out", snapshot.as_str());
        startup.append_op(0, with_role(op, role::FORWARD))?;
    }
    Ok(())
}

/// Local SGD: after its update, a parameter becomes the mean of all trainers'.
fn average_params(main: &mut Program, n: usize, n_rings: usize) -> Result<()> {
    let optimize = |op: OpDesc| -> Result<OpDesc> { Ok(with_role(complete(op)?, role::OPTIMIZE)) };
    let minus = |left: &str, right: &str, out: &str| {
        OpDesc::new("elementwise_sub").input("X", left).input("Y", right).output("Out", out)
    };
    let is_update = |op: &OpDesc| {
        ["Param", "Grad", "LearningRate"].iter().all(|port| !op.input_names(port).is_empty())
    };
    let mut ring = n_rings.saturating_sub(1);
    let (mut changed, mut last) = (Vec::new(), None);
    for at in (0..main.block(0).ops.len()).rev() {
        let op = &main.block(0).ops[at];
        let Some(param) = op.input_names("Param").first().filter(|_| is_update(op)).cloned() else {
            continue;
        };
        last = Some(param.clone());
        if is_distributed(main, &param) {
            continue;
        }
        let snapshot = put_snapshot(main, &param)?;
        main.insert_op(0, at + 1, optimize(minus(&snapshot, &param, &param))?)?;
        main.insert_op(0, at + 2, optimize(on_var("c_sync_calc_stream", &param))?)?;
        ring = (ring + 1) % n_rings.max(1);
        let sum = on_var("c_allreduce_sum", &param).attr("ring_id", ring as i32);
        main.insert_op(0, at + 3, optimize(sum)?)?;
        changed.push((param, snapshot));
    }
    let Some(last) = last else { return Ok(()) };
    for ring in 0..n_rings {
        let op = on_var("c_sync_comm_stream", &last).attr("ring_id", ring as i32);
        main.append_op(0, optimize(op)?)?;
    }
    for (param, snapshot) in changed.iter().rev() {
        let scale = on_var("scale", param).attr("scale", (1.0 / n as f64) as f32);
        main.append_op(0, optimize(scale)?)?;
        main.append_op(0, optimize(minus(snapshot, param, param))?)?;
        let keep =
            OpDesc::new("assign").input("X", param.as_str()).output("Out", snapshot.as_str());
        main.append_op(0, optimize(keep)?)?;
    }
    Ok(())
}
