//! GEO: a trainer trains alone and now and then exchanges differences with the servers.
//!
//! Every `geo_push_nums` steps, with T trainers: delta = (x - old) / T is sent and added to `old`;
//! the servers' values p come back, x += p - old, and old = p. Of tables only the rows travel that
//! this trainer used, and those come back that anybody changed.

use std::collections::{BTreeMap, BTreeSet};

use program::Distributed;
use program::distributed::{PlacedKind, Placement};
use ps::message::{Named, Pull, Push, Reply};
use tensor::{Rows, Tensor, Value};

use super::{Cluster, add, unexpected};
use crate::error::Result;
use crate::scope::Scope;

/// What a trainer remembers between two exchanges.
#[derive(Debug, Default)]
pub(super) struct Geo {
    /// Values the servers had when we last spoke.
    old: BTreeMap<String, Tensor>,
    /// Rows of tables used since.
    touched: BTreeMap<String, BTreeSet<i64>>,
    n_steps: u32,
}

impl Geo {
    /// Rows of a table that a step used.
    pub(super) fn touch(&mut self, table: &str, ids: &[i64]) {
        self.touched.entry(table.to_string()).or_default().extend(ids);
    }

    /// Takes note of the parameters as they are now.
    pub(super) fn snapshot(&mut self, job: &Distributed, scope: &Scope) {
        for origin in origins(job) {
            if let Some(Value::Tensor(tensor)) = scope.get(origin) {
                self.old.insert(origin.to_string(), tensor);
            }
        }
    }

    /// Counts a step; exchanges when it is time.
    pub(super) fn step(
        &mut self,
        cluster: &Cluster,
        job: &Distributed,
        scope: &Scope,
    ) -> Result<()> {
        self.n_steps += 1;
        if self.n_steps < job.geo_push_nums.max(1) {
            return Ok(());
        }
        self.exchange(cluster, job, scope)
    }

    /// Sends what this trainer learnt and fetches what the others did.
    pub(super) fn exchange(
        &mut self,
        cluster: &Cluster,
        job: &Distributed,
        scope: &Scope,
    ) -> Result<()> {
        self.n_steps = 0;
        let touched = std::mem::take(&mut self.touched);
        let mut by_server: BTreeMap<&str, Vec<Named>> = BTreeMap::new();
        for origin in origins(job) {
            let delta = scope.read(origin, |value| {
                let old = self.old.get_mut(origin)?;
                difference(value.tensor()?, old, touched.get(origin), job.n_trainers)
            });
            let Some(delta) = delta.flatten() else { continue };
            for placed in job.pieces(origin) {
                let (first, n) = span(placed);
                let name = format!("{}.delta", placed.slice);
                let value = add::rows_of(&delta, first, n);
                by_server.entry(&placed.endpoint).or_default().push(Named { name, value });
            }
        }
        for (endpoint, grads) in by_server {
            cluster.client(endpoint)?.change(Push { grads })?;
        }
        self.fetch(cluster, job, scope)
    }

    fn fetch(&mut self, cluster: &Cluster, job: &Distributed, scope: &Scope) -> Result<()> {
        for placed in job.placement.iter().filter(|placed| is_param(placed)) {
            let client = cluster.client(&placed.endpoint)?;
            let changed = placed.kind == PlacedKind::RemotePrefetch;
            let ticket =
                client.ask(Pull { after: 0, changed, names: vec![placed.slice.clone()] })?;
            let value = match client.wait(ticket, "parameters")? {
                Reply::Values(values) => values.0.into_iter().next(),
                other => return Err(unexpected(&client, &other)),
            };
            let Some(old) = self.old.get_mut(&placed.origin) else { continue };
            if let Some(value) = value {
                scope.write(&placed.origin, |x| {
                    if let Value::Tensor(x) = x {
                        take_over(x, old, &value, span(placed).0);
                    }
                });
            }
        }
        Ok(())
    }
}

fn is_param(placed: &Placement) -> bool {
    placed.kind != PlacedKind::Optimizer
}

/// Parameters of a job, each once.
fn origins(job: &Distributed) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let all = job.placement.iter().filter(|placed| is_param(placed));
    all.map(|placed| placed.origin.as_str()).filter(|origin| seen.insert(*origin)).collect()
}

/// The rows of a piece: the first, and how many.
fn span(placed: &Placement) -> (i64, i64) {
    let width: i64 = placed.origin_dims.iter().skip(1).product::<i64>().max(1);
    (placed.offset / width, placed.slice_dims.first().copied().unwrap_or(0))
}

/// (x - old) / T, added to `old`; of the touched rows, or of all.
fn difference(
    x: &Tensor,
    old: &mut Tensor,
    touched: Option<&BTreeSet<i64>>,
    n_trainers: usize,
) -> Option<Value> {
    let share = 1.0 / n_trainers.max(1) as f64;
    let Some(ids) = touched else {
        let mut delta = x.clone();
        add::subtract(&mut delta, old);
        add::scale_tensor(&mut delta, share);
        add::add_tensor(old, &delta);
        return Some(Value::Tensor(delta));
    };
    let height = x.dims().first().copied().unwrap_or(0);
    let ids: Vec<i64> = ids.iter().copied().filter(|&id| id >= 0 && id < height as i64).collect();
    let positions: Vec<usize> = ids.iter().map(|&id| id as usize).collect();
    let (mut delta, mut olds) = (add::pick(x, &positions), add::pick(old, &positions));
    add::subtract(&mut delta, &olds);
    add::scale_tensor(&mut delta, share);
    add::add_tensor(&mut olds, &delta);
    put(old, &positions, &olds);
    Some(Value::Rows(Rows { ids, height: height as i64, value: delta }))
}

/// x += p - old; old = p, for a piece or for some rows of it.
fn take_over(x: &mut Tensor, old: &mut Tensor, p: &Value, first: i64) {
    let (positions, p): (Vec<usize>, &Tensor) = match p {
        Value::Rows(rows) => {
            (rows.ids.iter().map(|id| (id + first).max(0) as usize).collect(), &rows.value)
        }
        Value::Tensor(p) => {
            let n = p.dims().first().copied().unwrap_or(0);
            ((first.max(0) as usize..first.max(0) as usize + n).collect(), p)
        }
        _ => return,
    };
    let height = x.dims().first().copied().unwrap_or(0);
    if positions.iter().any(|&at| at >= height) {
        return;
    }
    let mut news = p.clone();
    add::subtract(&mut news, &add::pick(old, &positions));
    add::add_tensor(&mut news, &add::pick(x, &positions));
    put(x, &positions, &news);
    put(old, &positions, p);
}

/// Writes rows to their positions.
fn put(tensor: &mut Tensor, positions: &[usize], rows: &Tensor) {
    let (_, width) = tensor.shape().flatten_2d(1);
    let row_bytes = width * tensor.dtype().size();
    let from = rows.bytes().chunks_exact(row_bytes.max(1));
    let bytes = tensor.bytes_mut();
    for (&at, row) in positions.iter().zip(from) {
        bytes[at * row_bytes..(at + 1) * row_bytes].copy_from_slice(row);
    }
}
