//! GEO: a trainer trains alone and exchanges differences with the servers every few steps.
//!
//! Every `push_every` steps, with T trainers: delta = (x - old) / T is sent and added to `old`. The
//! servers' values p come back, x += p - old, and old = p. Of a table, only the rows that this
//! trainer used are sent, and only rows that changed come back. A table that no memory holds is one of rows that this
//! trainer used ([`held`]).

mod held;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use net::tcp::{Client, Ticket};
use program::Distributed;
use program::distributed::{PlacedKind, Placement, ServerId, difference_of};
use tensor::{Rows, Tensor, Value};
use wire::VarId;
use wire::message::{CHANGED_MAX, Grad, Pull, Push, Reply};

use self::held::{HeldRows, held_tables};
use super::links::Links;
use super::rows_of::{add_tensor, pick, rows_of, slice, subtract};
use super::{unexpected, wire_id};
use crate::error::{Error, Result};
use crate::gradients::scale_tensor;
use crate::row_set::RowSet;
use crate::scope::Scope;

/// A trainer's memory between two exchanges.
#[derive(Debug, Default)]
pub(super) struct Geo {
    /// Values the servers had when we last spoke.
    old: BTreeMap<String, Tensor>,
    /// Rows of tables used since. A variable without an entry is not a table: all of it travels.
    touched: BTreeMap<String, RowSet>,
    /// Rows of tables that may differ from `old`, beside those that were touched.
    used: BTreeMap<String, RowSet>,
    /// Tables of which this trainer holds the rows that it used.
    held: BTreeMap<String, HeldRows>,
    n_steps: u32,
    /// There was a step: parameters may differ from `old`.
    has_stepped: bool,
    /// The job whose parameters were noted.
    job: Option<Arc<Distributed>>,
}

impl Geo {
    /// Rows of a table that a step used.
    pub(super) fn touch(&mut self, table: &str, ids: &[i64]) {
        if let Some(held) = self.held.get_mut(table) {
            return held.touch(ids);
        }
        if !self.touched.contains_key(table) {
            self.touched.insert(table.to_string(), RowSet::default());
            self.used.insert(table.to_string(), RowSet::default());
        }
        let height = self.old.get(table).and_then(|old| old.dims().first().copied()).unwrap_or(0);
        if let Some(touched) = self.touched.get_mut(table) {
            // Those that the table does not have are nobody's.
            let rows = ids.iter().filter_map(|&id| usize::try_from(id).ok());
            rows.filter(|&row| row < height).for_each(|row| touched.insert(row));
        }
    }

    /// Takes note of the parameters as they are now.
    pub(super) fn snapshot(&mut self, job: &Arc<Distributed>, scope: &Scope) {
        *self = Self { job: Some(job.clone()), held: held_tables(job), ..Self::default() };
        for origin in origins(job) {
            if let Some(Value::Tensor(tensor)) = scope.get(origin) {
                self.old.insert(origin.to_string(), tensor);
            }
        }
    }

    /// Counts a step; exchanges when it is time.
    pub(super) fn step(&mut self, links: &Links, job: &Distributed, scope: &Scope) -> Result<()> {
        self.n_steps += 1;
        self.has_stepped = true;
        if job.mode.exchanges_every().is_some_and(|every| self.n_steps < every) {
            return Ok(());
        }
        self.exchange(links, job, scope)
    }

    /// The last exchange: nothing that was learnt is lost.
    pub(super) fn finish(&mut self, links: &Links, scope: &Scope) -> Result<()> {
        match self.job.take() {
            Some(job) if self.n_steps > 0 => self.exchange(links, &job, scope),
            Some(job) => self.fetch(links, &job, scope),
            None => Ok(()),
        }
    }

    /// Sends what this trainer learnt and fetches what the others did.
    fn exchange(&mut self, links: &Links, job: &Distributed, scope: &Scope) -> Result<()> {
        self.n_steps = 0;
        let mut by_server: BTreeMap<ServerId, Vec<Grad>> = BTreeMap::new();
        for origin in origins(job) {
            if let (Some(touched), Some(used)) =
                (self.touched.get(origin), self.used.get_mut(origin))
            {
                used.unite(touched);
            }
            let touched = self.touched.get_mut(origin).map(|touched| touched.take(usize::MAX));
            let delta = scope.read(origin, |value| {
                let old = self.old.get_mut(origin)?;
                Some(difference(value.tensor()?, old, touched.as_deref(), job.n_trainers))
            });
            let Some(delta) = delta.flatten() else { continue };
            for piece in job.pieces(origin).map(|placed| &placed.piece) {
                let Some(var) = job.var(piece.server, &difference_of(&piece.name)) else {
                    continue;
                };
                let value = rows_of(&delta, piece.rows.start, piece.n_rows());
                by_server.entry(piece.server).or_default().push(Grad { var: VarId(var.0), value });
            }
        }
        for (server, grads) in self.held_differences(job, scope)? {
            by_server.entry(server).or_default().push(grads);
        }
        for (server, grads) in by_server {
            push(&*links.client(server)?, grads)?;
        }
        self.fetch(links, job, scope)?;
        self.fetch_held(links, scope)
    }

    /// All servers are asked before the first is waited for.
    fn fetch(&mut self, links: &Links, job: &Distributed, scope: &Scope) -> Result<()> {
        let mut tickets = Vec::new();
        for placed in job.placement.iter().filter(|placed| is_param(placed)) {
            let piece = &placed.piece;
            let client = links.client(piece.server)?;
            let changed = self.touched.contains_key(&placed.origin);
            let pull = Pull { changed, ..Pull::new(0, vec![wire_id(piece)]) };
            let ticket = client.ask(pull.clone())?;
            tickets.push((client, placed, pull, ticket));
        }
        for (client, placed, pull, mut ticket) in tickets {
            while let Some(value) = self.take_answer(&client, ticket, placed, scope)? {
                let Value::Rows(rows) = &*value else { break };
                if rows.ids.len() < CHANGED_MAX {
                    break;
                }
                // There may be more.
                ticket = client.ask(pull.clone())?;
            }
        }
        Ok(())
    }

    /// Waits for values of a piece of a parameter, and takes them over.
    fn take_answer(
        &mut self,
        client: &Client,
        ticket: Ticket,
        placed: &Placement,
        scope: &Scope,
    ) -> Result<Option<Arc<Value>>> {
        let value = match client.wait(ticket, "parameters")? {
            Reply::Values(values) => values.0.into_iter().next(),
            other => return Err(unexpected(client, &other)),
        };
        if let (Some(old), Some(value)) = (self.old.get_mut(&placed.origin), &value) {
            scope
                .write(&placed.origin, |x| match x {
                    Value::Tensor(x) => take_over(x, old, value, placed.piece.rows.start),
                    _ => true,
                })
                .then_some(())
                .ok_or_else(|| Error::NotDense {
                    endpoint: client.endpoint().to_string(),
                    var: placed.piece.name.clone(),
                    actual: "rows that do not fit",
                })?;
        }
        Ok(value)
    }
}

/// Sends differences, those of many rows in several messages: neither side needs memory for all.
fn push(client: &Client, grads: Vec<Grad>) -> Result<()> {
    let mut together = Vec::new();
    for Grad { var, value } in grads {
        let Value::Rows(rows) = &value else {
            together.push(Grad { var, value });
            continue;
        };
        for (at, ids) in rows.ids.chunks(CHANGED_MAX).enumerate() {
            let some = slice(&rows.value, at * CHANGED_MAX, ids.len());
            let some = Rows { ids: ids.to_vec(), height: rows.height, value: some };
            client.change(Push::new(vec![Grad { var, value: Value::Rows(some) }]))?;
            client.settle()?;
        }
    }
    if together.is_empty() { Ok(()) } else { Ok(client.change(Push::new(together))?) }
}

fn is_param(placed: &Placement) -> bool {
    placed.kind == PlacedKind::Param
}

/// Parameters of a job, each once.
fn origins(job: &Distributed) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let all = job.placement.iter().filter(|placed| is_param(placed));
    all.map(|placed| placed.origin.as_str()).filter(|origin| seen.insert(*origin)).collect()
}

/// (x - old) / T, added to `old`; of the touched rows, or of all.
fn difference(x: &Tensor, old: &mut Tensor, touched: Option<&[i64]>, n_trainers: usize) -> Value {
    let share = 1.0 / n_trainers.max(1) as f64;
    let Some(ids) = touched else {
        let mut delta = x.clone();
        subtract(&mut delta, old);
        scale_tensor(&mut delta, share);
        add_tensor(old, &delta);
        return Value::Tensor(delta);
    };
    let height = x.dims().first().copied().unwrap_or(0);
    let ids: Vec<i64> = ids.iter().copied().filter(|&id| id >= 0 && id < height as i64).collect();
    let positions: Vec<usize> = ids.iter().map(|&id| id as usize).collect();
    let (mut delta, mut olds) = (pick(x, &positions), pick(old, &positions));
    subtract(&mut delta, &olds);
    scale_tensor(&mut delta, share);
    add_tensor(&mut olds, &delta);
    put(old, &positions, &olds);
    Value::Rows(Rows { ids, height: height as i64, value: delta })
}

/// x += p - old; old = p, for a piece or for some rows of it; `false` if it does not fit.
fn take_over(x: &mut Tensor, old: &mut Tensor, p: &Value, first: i64) -> bool {
    let (positions, p): (Vec<usize>, &Tensor) = match p {
        Value::Rows(rows) => (
            rows.ids.iter().map(|id| id.saturating_add(first).max(0) as usize).collect(),
            &rows.value,
        ),
        Value::Tensor(p) => {
            let n = p.dims().first().copied().unwrap_or(0);
            ((first.max(0) as usize..first.max(0) as usize + n).collect(), p)
        }
        _ => return false,
    };
    let (height, width) = x.shape().flatten_2d(1);
    let is_alike = p.dtype() == x.dtype() && p.shape().flatten_2d(1).1 == width;
    if !is_alike || positions.iter().any(|&at| at >= height) {
        return false;
    }
    let mut news = p.clone();
    subtract(&mut news, &pick(old, &positions));
    add_tensor(&mut news, &pick(x, &positions));
    put(x, &positions, &news);
    put(old, &positions, p);
    true
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

#[cfg(test)]
mod tests {
    use super::*;

    fn table(values: &[f32]) -> Tensor {
        Tensor::new([values.len(), 1], values).unwrap()
    }

    #[test]
    fn only_touched_rows_travel() {
        let (x, mut old) = (table(&[1.0, 2.0, 3.0, 4.0]), table(&[0.0, 0.0, 1.0, 0.0]));
        let mut geo = Geo { old: [("t".to_string(), old.clone())].into(), ..Geo::default() };
        geo.touch("t", &[2, 0, 9, 2, -1, i64::MAX]);
        let touched = geo.touched.get_mut("t").unwrap().take(usize::MAX);
        let Value::Rows(rows) = difference(&x, &mut old, Some(&touched[..]), 2) else { panic!() };
        assert_eq!((rows.ids, rows.height), (vec![0, 2], 4));
        assert_eq!(rows.value, table(&[0.5, 1.0]));
        assert_eq!(old, table(&[0.5, 0.0, 2.0, 0.0]));
        let Value::Tensor(all) = difference(&x, &mut old, None, 1) else { panic!() };
        assert_eq!(all, table(&[0.5, 2.0, 1.0, 4.0]));
        assert_eq!(old, x);
    }

    #[test]
    fn what_others_learnt_is_added_to_what_was_learnt_here() {
        let (mut x, mut old) = (table(&[1.0, 2.0, 3.0]), table(&[0.5, 2.0, 1.0]));
        let changed = Rows { ids: vec![0, 1], height: 2, value: table(&[5.0, 7.0]) };
        take_over(&mut x, &mut old, &Value::Rows(changed), 1);
        assert_eq!(x, table(&[1.0, 5.0, 9.0]));
        assert_eq!(old, table(&[0.5, 5.0, 7.0]));
        take_over(&mut x, &mut old, &Value::Tensor(table(&[1.0])), 0);
        assert_eq!(x, table(&[1.5, 5.0, 9.0]));
    }
}
