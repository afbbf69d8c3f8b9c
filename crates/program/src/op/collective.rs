//! Ops of trainers that exchange values with each other; the host does the talking.
//!
//! `c_gen_nccl_id`, `gen_nccl_id`: meets the other trainers. `c_comm_init`: checks that all are there.
//! `c_allreduce_sum` (`max`, `min`, `prod`), `allreduce`: Out = what X of all trainers comes to, added up in the
//! order of ranks. `c_broadcast`, `broadcast`: Out = X of trainer `root`. `c_allgather`: Out = X of all trainers, one
//! below the other. `c_reducescatter`: Out = this trainer's rows of their sum. `c_sync_calc_stream`,
//! `c_sync_comm_stream`: Out = X; there are no streams here, and the reader of a variable waits for
//! it.

use super::{Infer, Op, Run, traits};
use crate::attr::Attrs;
use crate::block::OpDesc;
use crate::distributed::Mode;
use crate::error::{Error, Result};
use crate::program::Program;
use crate::trainers::{Asked, Collective, Expected, ReduceOp, TrainerGroup};
use crate::var::Meta;

pub(super) struct AllReduce(pub(super) Option<ReduceOp>);
pub(super) struct Broadcast;
pub(super) struct AllGather;
pub(super) struct ReduceScatter;
pub(super) struct Sync;
pub(super) struct GenId;
pub(super) struct GenIdOfAll;
pub(super) struct CommInit;
pub(super) struct CommInitAll;

fn same_as_input(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input("X")?;
    infer.set_output("Out", x)
}

/// An op's request to the other trainers; `None` if it has none.
pub fn asked(op: &OpDesc) -> Result<Option<Asked>> {
    let collective = match op.kind.as_str() {
        "c_allreduce_sum" => Collective::AllReduce(ReduceOp::Sum),
        "c_allreduce_prod" => Collective::AllReduce(ReduceOp::Product),
        "c_allreduce_max" => Collective::AllReduce(ReduceOp::Max),
        "c_allreduce_min" => Collective::AllReduce(ReduceOp::Min),
        "allreduce" => Collective::AllReduce(reduction(&op.attrs)?),
        "c_broadcast" | "broadcast" => {
            let root = op.attrs.int("root", 0)?;
            let bad_root = |_| bad("root", "the number of a trainer", root);
            Collective::Broadcast { root: u32::try_from(root).map_err(bad_root)? }
        }
        "c_allgather" => Collective::AllGather,
        "c_reducescatter" => Collective::ReduceScatter(ReduceOp::Sum),
        _ => return Ok(None),
    };
    let var = op.input_names("X").first().cloned().unwrap_or_default();
    Ok(Some(Asked { collective, var, ring: op.attrs.int("ring_id", 0)? }))
}

/// How the trainers of a program exchange: as its job says, or with each other if its ops do. None if it is trained
/// alone.
pub fn mode_of(program: &Program) -> Option<Mode> {
    let exchanges = |op: &OpDesc| {
        asked(op).is_ok_and(|asked| asked.is_some())
            || members(op).is_ok_and(|members| members.is_some())
    };
    let mut ops = program.blocks().iter().flat_map(|block| &block.ops);
    match &program.distributed {
        Some(job) => Some(job.mode),
        None => ops.any(exchanges).then(Mode::without_servers),
    }
}

/// Whether an op waits for the stream of a graphics card: there are none here.
pub fn waits_for_stream(op: &OpDesc) -> bool {
    matches!(op.kind.as_str(), "c_sync_calc_stream" | "c_sync_comm_stream")
}

/// The trainers that an op meets; `None` if it meets none.
pub fn members(op: &OpDesc) -> Result<Option<TrainerGroup>> {
    let place = |name: &'static str| -> Result<usize> {
        let rank = op.attrs.int(name, 0)?;
        usize::try_from(rank).map_err(|_| bad(name, "the number of a trainer", rank))
    };
    match op.kind.as_str() {
        "c_gen_nccl_id" => {
            let mut endpoints = op.attrs.strs("other_endpoints")?.to_vec();
            let rank = place("rank")?;
            if rank > endpoints.len() {
                return Err(bad("rank", "the number of a trainer", rank as i64));
            }
            endpoints.insert(rank, op.attrs.str("endpoint", "")?.to_string());
            Ok(Some(TrainerGroup { rank, endpoints, mode: "collective" }))
        }
        "gen_nccl_id" => {
            let (rank, endpoints) = (place("trainer_id")?, op.attrs.strs("trainers")?.to_vec());
            if rank >= endpoints.len() {
                return Err(bad("trainer_id", "the number of a trainer", rank as i64));
            }
            Ok(Some(TrainerGroup { rank, endpoints, mode: "nccl2" }))
        }
        _ => Ok(None),
    }
}

fn bad(name: &'static str, expected: &'static str, actual: i64) -> Error {
    let (attr, expected) = (name.to_string(), expected.to_string());
    Error::BadAttr { attr, expected, actual: actual.to_string() }
}

/// Fluid's numbers of `reduce_type`.
fn reduction(attrs: &Attrs) -> Result<ReduceOp> {
    match attrs.int("reduce_type", 0)? {
        0 => Ok(ReduceOp::Sum),
        1 => Ok(ReduceOp::Product),
        2 => Ok(ReduceOp::Max),
        3 => Ok(ReduceOp::Min),
        other => Err(bad("reduce_type", "0, 1, 2 or 3", other)),
    }
}

impl Op for AllReduce {
    traits!(Never; has_side_effect);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        same_as_input(infer)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let collective = match self.0 {
            Some(reduction) => Collective::AllReduce(reduction),
            None => Collective::AllReduce(reduction(run.attrs())?),
        };
        run.exchange(collective)
    }
}

impl Op for Broadcast {
    traits!(Never; has_side_effect);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        same_as_input(infer)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        match asked(run.op())? {
            Some(Asked { collective, .. }) => run.exchange(collective),
            None => Ok(()),
        }
    }
}

/// The rows of Out, from those of X and the number of trainers.
fn infer_rows(infer: &mut Infer<'_>, rows: impl Fn(i64, i64) -> Option<i64>) -> Result<()> {
    let mut x = infer.input("X")?;
    let n = infer.attrs().int("nranks", 1)?;
    if n < 1 {
        return Err(bad("nranks", "1 or more", n));
    }
    let fits = match x.dims.first_mut() {
        Some(first) if *first > 0 => rows(*first, n).map(|rows| *first = rows).is_some(),
        _ => true,
    };
    if !fits {
        return Err(infer.shape("the rows of X must be dealt out evenly among the trainers", "X"));
    }
    infer.set_output("Out", x)
}

impl Op for AllGather {
    traits!(Never; has_side_effect);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        infer_rows(infer, |rows, n| rows.checked_mul(n))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let n_trainers = run.attrs().int("nranks", 1)?;
        run.trainers()?.check(Expected { rank: None, n_trainers })?;
        run.exchange(Collective::AllGather)
    }
}

impl Op for ReduceScatter {
    traits!(Never; has_side_effect);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        infer_rows(infer, |rows, n| (rows % n == 0).then_some(rows / n))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let n_trainers = run.attrs().int("nranks", 1)?;
        run.trainers()?.check(Expected { rank: None, n_trainers })?;
        run.exchange(Collective::ReduceScatter(ReduceOp::Sum))
    }
}

impl Op for Sync {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        same_as_input(infer)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        if run.op().input_names("X") != run.op().output_names("Out") {
            let copy = run.value("X")?.clone();
            run.put_value_at("Out", 0, copy);
        }
        Ok(())
    }
}

impl Op for GenId {
    traits!(Never; has_side_effect);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        keep_raw(infer, "Out")
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        join(run)
    }
}

impl Op for GenIdOfAll {
    traits!(Never; has_side_effect);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        keep_raw(infer, "NCCLID")
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        join(run)
    }
}

/// The code that runs the program knows the trainers; the variable stays as it is declared.
fn keep_raw(infer: &mut Infer<'_>, port: &str) -> Result<()> {
    let raw = Meta { kind: crate::var::VarKind::Raw, ..Meta::default() };
    infer.set_output(port, raw)
}

fn join(run: &mut Run<'_>) -> Result<()> {
    match members(run.op())? {
        Some(members) => run.trainers()?.join(&members),
        None => Ok(()),
    }
}

impl Op for CommInit {
    traits!(Never; has_side_effect);

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (n_trainers, rank) = (run.attrs().int("nranks", 1)?, run.attrs().int("rank", 0)?);
        run.trainers()?.check(Expected { rank: Some(rank), n_trainers })
    }
}

impl Op for CommInitAll {
    traits!(Never);

    /// The places of one process need no connections.
    fn run(&self, _run: &mut Run<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{check, t};

    #[test]
    fn ops_say_what_they_ask_for() {
        let op =
            |kind: &str| OpDesc::new(kind).input("X", "g").output("Out", "g").attr("ring_id", 1);
        let sum = asked(&op("c_allreduce_sum")).unwrap().unwrap();
        assert_eq!(sum.collective, Collective::AllReduce(ReduceOp::Sum));
        assert_eq!((sum.var.as_str(), sum.ring), ("g", 1));
        let least = asked(&op("allreduce").attr("reduce_type", 3)).unwrap().unwrap();
        assert_eq!(least.collective, Collective::AllReduce(ReduceOp::Min));
        let root = asked(&op("c_broadcast").attr("root", 2)).unwrap().unwrap();
        assert_eq!(root.collective, Collective::Broadcast { root: 2 });
        assert_eq!(asked(&op("scale")).unwrap(), None);
        assert!(asked(&op("allreduce").attr("reduce_type", 9)).is_err());
        assert!(asked(&op("c_broadcast").attr("root", -1)).is_err());
    }

    #[test]
    fn ops_say_whom_they_meet() {
        let others = vec!["a:1".to_string(), "c:3".to_string()];
        let op = OpDesc::new("c_gen_nccl_id").attr("rank", 1).attr("endpoint", "b:2");
        let met = members(&op.attr("other_endpoints", others)).unwrap().unwrap();
        assert_eq!((met.rank, met.endpoints.join(",").as_str()), (1, "a:1,b:2,c:3"));
        let far = OpDesc::new("c_gen_nccl_id").attr("rank", 7).attr("endpoint", "b:2");
        assert!(members(&far).is_err());
        let all = vec!["a:1".to_string(), "b:2".to_string()];
        let op = OpDesc::new("gen_nccl_id").attr("trainers", all).attr("trainer_id", 1);
        assert_eq!(members(&op).unwrap().unwrap().rank, 1);
        assert!(members(&op.clone().attr("trainer_id", 2)).is_err());
        assert!(members(&op.attr("trainer_id", -2)).is_err());
    }

    #[test]
    fn alone_they_refuse() {
        for kind in ["c_allreduce_sum", "c_broadcast", "allreduce", "broadcast"] {
            let error = check(kind).input("X", t(&[2], &[1.0, 2.0])).output("Out").fails();
            assert!(matches!(error.root(), Error::NoHost { op, .. } if op == kind), "{error}");
        }
        let error = check("gen_nccl_id").attr("trainers", vec!["a:1".to_string()]).fails();
        assert!(matches!(error.root(), Error::NoHost { .. }), "{error}");
    }

    #[test]
    fn rows_are_dealt_out_and_put_together() {
        let x = || t(&[4, 2], &[0.0; 8]);
        let all = check("c_allgather").input("X", x()).attr("nranks", 3).output("Out");
        assert_eq!(all.inferred("Out").dims, [12, 2]);
        let part = check("c_reducescatter").input("X", x()).attr("nranks", 2).output("Out");
        assert_eq!(part.inferred("Out").dims, [2, 2]);
        let error =
            check("c_reducescatter").input("X", x()).attr("nranks", 3).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }

    #[test]
    fn a_stream_is_nothing_to_wait_for() {
        check("c_sync_calc_stream").input("X", t(&[1], &[3.0])).gives("Out", t(&[1], &[3.0]));
    }
}
