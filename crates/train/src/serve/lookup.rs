//! The part of a table spread over all servers by id: rows exist from their first use on, and SGD
//! changes them.
//!
//! The server's program says how: a `lookup_sparse_table` op for how rows start and how many there
//! may be, and the `sgd` op of its update. Those ops would copy the table for every new row; here it
//! grows in place.

use std::collections::HashMap;

use program::{Attrs, OpDesc, Program};
use ps::message::Named;
use tensor::rows::merge_sorted;
use tensor::update::{Rule, Sgd};
use tensor::{DType, MergeScratch, Rows, Shape, Tensor, Value};

use super::blocks::Blocks;
use super::values::{check_answer, first_number};
use crate::error::{Error, Result};
use crate::executor::fresh_seed;
use crate::scope::Scope;

/// A server's rows of the table.
#[derive(Debug)]
pub(super) struct Lookup {
    pub(super) table: String,
    /// Which update is this table's; it is not run.
    pub(super) update: usize,
    grads: Vec<String>,
    rate: String,
    /// This server's number and how many there are.
    shard: (i64, i64),
    capacity: usize,
    width: usize,
    init: Attrs,
    places: HashMap<i64, usize>,
    ids: Vec<i64>,
    values: Vec<f32>,
    scratch: MergeScratch,
    merged: Rows,
}

impl Lookup {
    /// The table of a server's program, if it has one; with the rows that were loaded.
    pub(super) fn new(
        program: &Program,
        (listen, blocks): (&OpDesc, &Blocks),
        scope: &Scope,
    ) -> Result<Option<Self>> {
        let ops = program.blocks().iter().flat_map(|block| &block.ops);
        let Some(op) = ops.into_iter().find(|op| op.kind == "lookup_sparse_table") else {
            return Ok(None);
        };
        let Some(table) = op.input_names("W").first().cloned() else { return Ok(None) };
        let is_its = |at: &usize| blocks.updates[*at].writes.contains(&table);
        let Some(update) = (0..blocks.updates.len()).find(is_its) else { return Ok(None) };
        let own = &blocks.updates[update];
        let rates = own.program.block(0).ops.iter().flat_map(|op| op.input_names("LearningRate"));
        let mut init = op.attrs.clone();
        if init.int("seed", 0)? == 0 {
            init.set("seed", fresh_seed() as i32);
        }
        let n_servers = program.distributed.as_ref().map_or(1, |job| job.endpoints.len());
        let mut lookup = Self {
            update,
            grads: own.grads.iter().map(|grad| grad.name.clone()).collect(),
            rate: rates.into_iter().next().cloned().unwrap_or_default(),
            shard: (listen.attrs.int("pserver_id", 0)?, n_servers.max(1) as i64),
            capacity: op.attrs.int("capacity", i64::MAX)?.max(0) as usize,
            width: op.attrs.int("width", 0)?.max(0) as usize,
            init,
            places: HashMap::new(),
            ids: Vec::new(),
            values: Vec::new(),
            scratch: MergeScratch::default(),
            merged: Rows::default(),
            table,
        };
        if let Some(Value::Rows(rows)) = scope.get(&lookup.table) {
            lookup.load(&rows)?;
        }
        Ok(Some(lookup))
    }

    fn load(&mut self, rows: &Rows) -> Result<()> {
        self.check_rows(rows).map_err(|detail| Error::LoadedTable {
            table: self.table.clone(),
            server: self.shard.0,
            detail,
        })?;
        self.ids.clone_from(&rows.ids);
        self.values = rows.value.data::<f32>()?.to_vec();
        self.places = self.ids.iter().enumerate().map(|(at, &id)| (id, at)).collect();
        match self.places.len() == self.ids.len() {
            true => Ok(()),
            false => Err(Error::LoadedTable {
                table: self.table.clone(),
                server: self.shard.0,
                detail: "a row is listed twice".to_string(),
            }),
        }
    }

    /// Whether a variable is a gradient of this table.
    pub(super) fn takes(&self, name: &str) -> bool {
        self.grads.iter().any(|grad| grad == name)
    }

    /// Whether a gradient can be applied.
    pub(super) fn check(&self, grad: &Named) -> std::result::Result<(), String> {
        match &grad.value {
            Value::Rows(rows) => self.check_rows(rows),
            other => Err(format!("{} came, keyed rows are needed", other.kind())),
        }
    }

    fn check_rows(&self, rows: &Rows) -> std::result::Result<(), String> {
        if rows.value.dtype() != DType::F32 {
            return Err(format!("{} came, float32 is needed", rows.value.dtype()));
        }
        let shape = rows.value.shape().to_i64();
        if shape != [rows.ids.len() as i64, self.width as i64] {
            return Err(format!("rows of shape {shape:?} came, the table is {} wide", self.width));
        }
        self.check_ids(&rows.ids)
    }

    /// Rows live where their id says, and there is room for new ones.
    fn check_ids(&self, ids: &[i64]) -> std::result::Result<(), String> {
        let (number, n_servers) = self.shard;
        if let Some(id) = ids.iter().find(|&&id| id < 0 || id % n_servers != number) {
            return Err(format!("row {id} is not one of server {number} of {n_servers}"));
        }
        let mut fresh: Vec<i64> =
            ids.iter().copied().filter(|id| !self.places.contains_key(id)).collect();
        fresh.sort_unstable();
        fresh.dedup();
        if self.ids.len() + fresh.len() > self.capacity {
            return Err(format!("selected rows is full, then length exceed {}", self.capacity));
        }
        Ok(())
    }

    /// Rows of these ids; those that do not exist are made.
    pub(super) fn look_up(&mut self, ids: &[i64]) -> std::result::Result<Tensor, String> {
        let width = self.width;
        check_answer(ids.len(), width, DType::F32)?;
        self.check_ids(ids)?;
        let mut out = Tensor::default();
        let rows = out.resize::<f32>(Shape::from([ids.len(), width]));
        for (row, &id) in rows.chunks_exact_mut(width.max(1)).zip(ids) {
            let at = self.place(id).map_err(|error| error.to_string())?;
            row.copy_from_slice(&self.values[at * width..(at + 1) * width]);
        }
        Ok(out)
    }

    /// Where a row is, which is made if it does not exist.
    fn place(&mut self, id: i64) -> program::Result<usize> {
        if let Some(&at) = self.places.get(&id) {
            return Ok(at);
        }
        let at = self.ids.len();
        let from = self.values.len();
        self.values.resize(from + self.width, 0.0);
        program::op::first_row(&self.init, id, &mut self.values[from..])?;
        self.ids.push(id);
        self.places.insert(id, at);
        Ok(at)
    }

    /// One step with the sum of these gradients, which were checked.
    pub(super) fn train(&mut self, grads: &[Named], scope: &Scope) -> Result<()> {
        let rate = scope.read(&self.rate, first_number);
        let rate = rate.flatten().ok_or_else(|| Error::NotInScope { var: self.rate.clone() })?;
        let rows = grads.iter().filter_map(|grad| grad.value.rows());
        let inputs = rows.filter_map(|rows| Some((&rows.ids[..], rows.value.data::<f32>().ok()?)));
        let (mut scratch, mut merged) =
            (std::mem::take(&mut self.scratch), std::mem::take(&mut self.merged));
        merge_sorted(inputs, self.width, &mut scratch, &mut merged);
        let stepped = self.step(&Sgd { lr: rate as f32 }, &merged);
        (self.scratch, self.merged) = (scratch, merged);
        stepped
    }

    fn step(&mut self, rule: &Sgd<f32>, grad: &Rows) -> Result<()> {
        let width = self.width;
        if grad.ids.is_empty() {
            return Ok(());
        }
        let grads = grad.value.data::<f32>()?.chunks_exact(width.max(1));
        for (&id, grad) in grad.ids.iter().zip(grads) {
            let at = self.place(id)?;
            rule.update(&mut self.values[at * width..(at + 1) * width], [], grad);
        }
        Ok(())
    }

    /// All rows, by id.
    pub(super) fn rows(&self) -> Result<Rows> {
        let mut places: Vec<(i64, usize)> = self.ids.iter().copied().zip(0..).collect();
        places.sort_unstable();
        let row = |&(_, at): &(i64, usize)| &self.values[at * self.width..(at + 1) * self.width];
        let values: Vec<f32> = places.iter().flat_map(row).copied().collect();
        Ok(Rows {
            ids: places.iter().map(|&(id, _)| id).collect(),
            height: self.capacity as i64,
            value: Tensor::new([places.len(), self.width], &values)?,
        })
    }

    /// Rows and bytes.
    pub(super) fn size(&self) -> (u64, u64) {
        let bytes = self.values.len() * 4 + self.ids.len() * 3 * size_of::<i64>();
        (self.ids.len() as u64, bytes as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Server 1 of 2, with room for three rows of two numbers that start as 4.
    fn lookup() -> Lookup {
        let mut init = Attrs::default();
        init.set("init", "fill_constant");
        init.set("value", 4.0f32);
        Lookup {
            table: "t".to_string(),
            update: 0,
            grads: vec!["t@GRAD.pserver_1".to_string()],
            rate: "lr".to_string(),
            shard: (1, 2),
            capacity: 3,
            width: 2,
            init,
            places: HashMap::new(),
            ids: Vec::new(),
            values: Vec::new(),
            scratch: MergeScratch::default(),
            merged: Rows::default(),
        }
    }

    fn grad(ids: &[i64], width: usize) -> Named {
        let value = Tensor::full([ids.len(), width], 1.0f32);
        let rows = Rows { ids: ids.to_vec(), height: 100, value };
        Named { name: "t@GRAD.pserver_1".to_string(), value: Value::Rows(rows) }
    }

    #[test]
    fn rows_grow_up_to_their_number() {
        let (mut lookup, scope) = (lookup(), Scope::new());
        scope.set("lr", Tensor::full([1], 0.5f32));
        assert_eq!(lookup.look_up(&[7, 3, 7]), Ok(Tensor::full([3, 2], 4.0f32)));
        // Two trainers' gradients of one row are one step; a row may be new to a gradient.
        lookup.train(&[grad(&[3], 2), grad(&[9, 3], 2)], &scope).unwrap();
        let rows = lookup.rows().unwrap();
        assert_eq!(rows.ids, [3, 7, 9]);
        let values = [3.0f32, 3.0, 4.0, 4.0, 3.5, 3.5];
        assert_eq!(rows.value, Tensor::new([3, 2], &values).unwrap());
        let full = "selected rows is full, then length exceed 3";
        assert_eq!(lookup.look_up(&[3, 11]), Err(full.to_string()));
        assert_eq!(lookup.check(&grad(&[11], 2)), Err(full.to_string()));
        assert_eq!(lookup.size().0, 3, "what was refused left nothing behind");
    }

    #[test]
    fn what_is_not_of_this_table_is_refused() {
        let mut lookup = lookup();
        assert_eq!(lookup.check(&grad(&[1, 5], 2)), Ok(()));
        let foreign = "row 4 is not one of server 1 of 2".to_string();
        assert_eq!(lookup.check(&grad(&[1, 4], 2)), Err(foreign.clone()));
        assert_eq!(lookup.look_up(&[4]), Err(foreign));
        assert!(lookup.look_up(&[-1]).is_err());
        let wide = lookup.check(&grad(&[1], 3)).unwrap_err();
        assert!(wide.contains("[1, 3]") && wide.contains("2 wide"), "{wide}");
        let dense = Named { value: Tensor::full([1, 2], 1.0f32).into(), ..grad(&[1], 2) };
        assert!(lookup.check(&dense).is_err());
    }
}
