//! A table of which the touched rows exist.

use std::sync::Arc;

use protocol::server::Size;
use tensor::{DType, Tensor, Value};
use wire::message::{Grad, LookUp, Pull, Save};
use wire::{Refusal, TrainerId};

use super::cut::{CutChunk, ImportedValue, RowsImport, TableCut};
use super::saving::Files;
use super::slab::{ABSENT, Slab};
use super::tracking::{Capture, Extent};
use super::{Accepts, Answer, AskedVar, Captured, Loaded, Table, Updater};
use crate::bad_snapshot::BadSnapshot;
use crate::error::{Error, Result};
use crate::serve::snapshot::{FileReader, Kind};
use crate::serve::values::{check_answer, gather};

/// See the module.
pub(in crate::serve) struct RowTable {
    updater: Updater,
    slab: Slab,
}

impl RowTable {
    pub(super) fn new(updater: Updater, slab: Slab) -> Self {
        Self { updater, slab }
    }

    /// Places a gradient, whose rows' numbers become their places; the numbers of those that the table
    /// has not taken in are the answer.
    fn place(&mut self, mut grad: Grad) -> Result<Vec<i64>> {
        let left_out = match &mut grad.value {
            Value::Rows(rows) => {
                let room = self.slab.make_room(&self.updater.scope, &rows.ids);
                room.map_err(Error::JobFailed)?;
                let taken = self.slab.take(&self.updater.scope, rows);
                let height = rows.height;
                let left_out = taken.map_err(|row| tensor::Error::RowOutOfRange { row, height })?;
                self.slab.keep(&self.updater.scope, &rows.ids);
                left_out
            }
            _ => Vec::new(),
        };
        self.updater.place(grad);
        Ok(left_out)
    }

    fn run(&mut self) -> Result<()> {
        self.slab.keep_all(&self.updater.scope);
        self.updater.run()?;
        self.slab.updates.has_stepped = true;
        Ok(())
    }
}

impl Table for RowTable {
    fn accepts(&self) -> Vec<Accepts> {
        self.updater.accepts(Some(self.slab.plan().share()))
    }

    fn look_up(&mut self, name: &str, look_up: &LookUp) -> Answer<Tensor> {
        let bad = |detail| Refusal::BadValue { var: name.to_string(), detail };
        // Before rows are made for them.
        check_answer(look_up.keys.len(), self.slab.plan().width(), DType::F32).map_err(bad)?;
        let places = if look_up.peek {
            self.slab.peek(&look_up.keys)
        } else {
            self.slab.make_room(&self.updater.scope, &look_up.keys)?;
            self.slab.look_up(&self.updater.scope, &look_up.keys)
        };
        let foreign = |row| bad(format!("row {row} was asked for, which the table does not have"));
        let places = places.map_err(foreign)?;
        let unknown = || Refusal::UnknownVar(name.to_string());
        let found = self.updater.scope.read(self.slab.plan().weights(), |value| {
            gather(value.tensor().ok_or_else(unknown)?, &places, Some(ABSENT)).map_err(bad)
        });
        found.unwrap_or_else(|| Err(unknown()))
    }

    fn apply(&mut self, trainer: TrainerId, grad: Grad) -> Result<()> {
        self.updater.name_trainer(trainer);
        let left_out = self.place(grad)?;
        self.run()?;
        self.slab.count(&self.updater.scope, &left_out);
        Ok(())
    }

    fn round(&mut self, grads: Vec<Grad>) -> Result<()> {
        let placed = self.updater.placed(&grads);
        let mut left_out = Vec::with_capacity(grads.len());
        for grad in grads {
            left_out.push(self.place(grad)?);
        }
        self.updater.place_zeros(&placed);
        self.run()?;
        // Only now: what a round takes in must not depend on whose gradient came first.
        left_out.iter().for_each(|rows| self.slab.count(&self.updater.scope, rows));
        Ok(())
    }

    fn read(&mut self, _: TrainerId, var: AskedVar<'_>, pull: &Pull) -> Answer<Arc<Value>> {
        let name = var.name;
        let unknown = || Refusal::UnknownVar(name.to_string());
        if !self.slab.plan().holds(name) {
            return self.updater.value(var, true);
        }
        if pull.changed {
            return Err(unknown());
        }
        let bad = |detail| Refusal::BadValue { var: name.to_string(), detail };
        check_answer(self.slab.plan().n_rows_max(), self.slab.plan().width(), DType::F32)
            .map_err(bad)?;
        let whole = self.slab.whole(&self.updater.scope, name).map(Value::Tensor);
        whole.map(Arc::new).ok_or_else(unknown)
    }

    fn files(&self, _: &Save) -> Files {
        self.slab.files()
    }

    fn size(&self) -> Size {
        let (rows, bytes) = (self.slab.n_rows() as u64, self.slab.n_bytes() as u64);
        let waiting = self.slab.filter().map_or(0, |filter| filter.n_waiting() as u64);
        let dropped = self.slab.filter().map_or(0, |filter| filter.n_dropped());
        let beside = self.updater.sizes(|name| !self.slab.plan().holds(name));
        let beside_bytes: u64 = beside.iter().map(|size| size.bytes).sum();
        Size {
            rows: rows + beside.iter().map(|size| size.rows).sum::<u64>(),
            bytes: bytes + beside_bytes,
            table_rows: rows + beside.iter().map(|size| size.rows).max().unwrap_or(0),
            table_bytes: bytes + beside_bytes,
            waiting,
            dropped,
        }
    }

    fn updater(&mut self) -> &mut Updater {
        &mut self.updater
    }
}

impl Captured for RowTable {
    fn track(&mut self) {
        self.slab.track();
        self.updater.track(|name| self.slab.plan().holds(name));
    }

    fn n_cut_bytes(&self, extent: Extent) -> u64 {
        self.updater.n_cut_bytes(extent) + self.slab.n_cut_bytes(extent)
    }

    fn mark(&mut self, extent: Extent) -> TableCut {
        let (mut values, mut saved) = (Vec::new(), None);
        match extent {
            Extent::Save { weights_only } => {
                saved = Some(self.slab.saved(&self.updater.scope, weights_only));
            }
            _ => values = self.updater.mark(extent),
        }
        TableCut { extent, values, rows: Some(self.slab.mark(extent)), unseen: None, saved }
    }

    fn next_chunk(&mut self, cut: &mut TableCut) -> CutChunk {
        let scope = &self.updater.scope;
        let (extent, slab) = (cut.extent, &mut self.slab);
        cut.rows.as_mut().map_or(CutChunk::End, |rows| slab.next_chunk(scope, rows, extent))
    }

    fn rows_at(&mut self, cut: &TableCut, var: usize, places: &[u32]) -> Option<Vec<u8>> {
        self.slab.rows_at(&self.updater.scope, cut.rows.as_ref()?, var, places)
    }

    fn end_cut(&mut self, cut: TableCut, is_durable: bool) -> Option<Capture> {
        if !is_durable {
            self.updater.put_back(&cut);
        }
        self.slab.end_cut(cut.rows?, cut.extent, is_durable)
    }
}

impl Loaded for RowTable {
    fn begin_load(&mut self) {
        self.updater.begin_load();
        self.slab.begin_load();
    }

    fn load(&mut self, kind: Kind, file: &mut FileReader) -> std::result::Result<(), BadSnapshot> {
        match kind {
            Kind::Value => self.updater.load(file),
            kind => self.slab.load_section(&self.updater.scope, kind, file),
        }
    }

    fn end_load(&mut self) -> std::result::Result<(), &'static str> {
        self.slab.end_load()
    }

    fn row_vars(&self) -> Vec<String> {
        self.slab.plan().var_names()
    }

    fn import_value(&mut self, value: &ImportedValue<'_>) -> std::result::Result<(), &'static str> {
        self.updater.import(value)
    }

    fn import_rows(&mut self, rows: &RowsImport<'_>) -> std::result::Result<(), &'static str> {
        self.slab.import(&self.updater.scope, rows)
    }
}
