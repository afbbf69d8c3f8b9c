//! The owner of snapshots: the description of the model and the job in a server's program.

use program::distributed::{Applies, Placement};
use program::{Distributed, OpDesc, Program};

use super::blocks::Update;
use super::snapshot::{Layout, Owner, VarLayout, digest};
use super::table::Shared;
use crate::error::Result;

/// The variables of each table, and what they are parts of.
pub(super) fn layout(
    updates: &[Update],
    shared: &[Vec<Shared>],
    job: Option<&Distributed>,
) -> Layout {
    let endpoint = job.and_then(|job| job.ps_endpoint.as_deref());
    let here: Vec<&Placement> =
        job.zip(endpoint).map_or(Vec::new(), |(job, endpoint)| job.on(endpoint).collect());
    let of_update = |(update, shared): (&Update, &Vec<Shared>)| {
        let is_own = |name: &&str| !shared.iter().any(|shared| shared.name == **name);
        let names: Vec<&str> = update.state().into_iter().filter(is_own).collect();
        names.into_iter().map(|name| var(update, name, &here)).collect()
    };
    Layout(updates.iter().zip(shared).map(of_update).collect())
}

fn var(update: &Update, name: &str, here: &[&Placement]) -> VarLayout {
    let placed = |name: &str| here.iter().find(|placed| placed.piece.name == name);
    if let Some(placed) = placed(name) {
        return VarLayout::placed(placed);
    }
    let dims = update.program.find_var(0, name).map_or(&[][..], |var| &var.meta.dims);
    let whole = VarLayout::whole(name, dims);
    // A copy of the parameter is cut as it is.
    let params = update.params();
    let param = params.first().and_then(|param| placed(&param.name));
    match param.and_then(|param| Some((param, name.strip_prefix(param.piece.name.as_str())?))) {
        Some((param, suffix)) if param.dims() == dims => VarLayout {
            name: name.to_string(),
            origin: format!("{}{suffix}", param.origin),
            ..VarLayout::placed(param)
        },
        _ => whole,
    }
}

/// The owner of a server's snapshots.
pub(super) fn owner(program: &Program, op: &OpDesc, layout: &Layout) -> Result<Owner> {
    let job = program.distributed.as_deref();
    let mut lines: Vec<String> = match job {
        Some(job) => job.placement.iter().map(VarLayout::placed).map(|var| line(&var)).collect(),
        None => layout.0.iter().flatten().map(line).collect(),
    };
    // The way in which servers apply gradients to the same variables.
    lines.push(match Applies::told(op)? {
        Applies::Round { .. } => "rounds".to_string(),
        Applies::Arrival => "arrivals".to_string(),
        Applies::Difference => "differences".to_string(),
    });
    let n_trainers = op.attrs.int("Fanin", 1)?.max(1) as u32;
    let words = job.map_or_else(String::new, Distributed::terms);
    Ok(Owner {
        job: op.attrs.str("job", &words)?.to_string(),
        model: digest(lines),
        server: op.attrs.int("pserver_id", 0)?.max(0) as u32,
        n_servers: job.map_or(1, |job| job.endpoints.len()) as u32,
        n_trainers,
    })
}

fn line(var: &VarLayout) -> String {
    format!("{} {:?} {}", var.origin, var.origin_dims, var.is_hashed)
}
