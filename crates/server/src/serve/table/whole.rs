//! A table that is there as a whole: dense parameters, and tables whose optimizer looks at all rows.

use std::sync::Arc;

use program::distributed::Spread;
use protocol::server::Size;
use tensor::{Rows, Tensor, Value};
use train::Scope;
use train::io::rows::Naming;
use wire::message::{CHANGED_MAX, Grad, LookUp, Pull, Save};
use wire::{Refusal, TrainerId};

use super::cut::{CutChunk, CutStep, ImportedValue, RowsCut, TableCut};
use super::saving::Files;
use super::tracking::{Capture, Extent, RowVars, Tracking, row_bytes};
use super::{Accepts, Answer, AskedVar, Captured, Loaded, Table, Updater};
use crate::bad_snapshot::BadSnapshot;
use crate::error::Result;
use crate::serve::changes::Changes;
use crate::serve::snapshot::{FileReader, Kind, RowsHead};
use crate::serve::values::{add_in_place, gather, height};

/// See the module.
pub(in crate::serve) struct WholeTable {
    updater: Updater,
    policy: Policy,
    /// Rows that each trainer has not seen since they changed (GEO).
    changed: Changes,
    /// Variables of which steps change only the rows that gradients list, for cuts.
    by_rows: Option<ByRows>,
}

/// See [`WholeTable::by_rows`].
struct ByRows {
    names: Vec<String>,
    n_rows: usize,
    tracking: Tracking,
}

impl ByRows {
    fn vars<'a>(names: &'a [String], scope: &'a Scope) -> RowVars<'a> {
        RowVars { scope, names: names.iter().map(String::as_str).collect() }
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name)
    }

    /// A variable is about to get these numbers: its rows that have others change.
    fn touch_changed(&mut self, scope: &Scope, name: &str, bytes: &[u8]) {
        let changed = scope.read(name, |value| {
            let own = value.tensor().filter(|own| own.bytes().len() == bytes.len())?;
            let row_bytes = row_bytes(own).max(1);
            let pairs = own.bytes().chunks(row_bytes).zip(bytes.chunks(row_bytes));
            let changed = pairs.zip(0..).filter(|((own, new), _)| own != new);
            Some(changed.map(|(_, place)| place).collect::<Vec<i64>>())
        });
        let vars = Self::vars(&self.names, scope);
        match changed.flatten() {
            Some(places) => self.tracking.touch(&vars, &places),
            None => self.tracking.touch_all(&vars),
        }
    }

    /// Rows that a gradient lists are about to change; all if it lists none.
    fn touch(&mut self, scope: &Scope, grad: &Value) {
        let vars = Self::vars(&self.names, scope);
        match grad {
            Value::Rows(rows) => self.tracking.touch(&vars, &rows.ids),
            _ => self.tracking.touch_all(&vars),
        }
    }
}

/// What a server does with all of its tables.
#[derive(Clone, Copy, Debug)]
pub(in crate::serve) struct Policy {
    pub(in crate::serve) n_trainers: u32,
    /// Trainers send differences, and are told what others changed (GEO).
    pub(in crate::serve) adds_differences: bool,
    /// Parameters are kept as each trainer saw them last (delay-compensated updates).
    pub(in crate::serve) keeps_backups: bool,
    /// This server, and how many there are.
    pub(in crate::serve) number: usize,
    pub(in crate::serve) n_servers: usize,
}

impl WholeTable {
    pub(in crate::serve) fn new(updater: Updater, policy: Policy) -> Self {
        Self { updater, changed: Changes::new(policy.n_trainers), policy, by_rows: None }
    }

    /// A gradient is about to change the table.
    fn touch(&mut self, grad: &Value) {
        if let Some(by_rows) = &mut self.by_rows {
            by_rows.touch(&self.updater.scope, grad);
        }
    }

    /// Adds a difference to its parameter, in place, and remembers which rows others have not seen.
    fn add(&mut self, trainer: TrainerId, grad: Grad) -> Result<()> {
        self.touch(&grad.value);
        let table = self.updater.update.writes.first();
        if let (Value::Rows(rows), Some(table)) = (&grad.value, table) {
            self.changed.note(trainer, table, &rows.ids);
        }
        self.updater.change(|value| match value {
            Value::Tensor(param) => add_in_place(param, &grad.value),
            _ => Ok(()),
        })?;
        self.updater.recycle(grad.value);
        Ok(())
    }

    /// Rows that others changed since the trainer asked last, or the first of them.
    fn unseen(&mut self, trainer: TrainerId, name: &str) -> Answer<Value> {
        let ids = self.changed.take(trainer, name, CHANGED_MAX);
        let value = self.gather(name, &ids)?;
        let height = self.updater.scope.read(name, height).unwrap_or(0);
        Ok(Value::Rows(Rows { ids, height, value }))
    }

    fn gather(&self, table: &str, rows: &[i64]) -> Answer<Tensor> {
        let unknown = || Refusal::UnknownVar(table.to_string());
        let found = self.updater.scope.read(table, |value| {
            gather(value.tensor().ok_or_else(unknown)?, rows, None)
                .map_err(|detail| Refusal::BadValue { var: table.to_string(), detail })
        });
        found.unwrap_or_else(|| Err(unknown()))
    }

    /// A copy of a parameter as a trainer saw it last.
    fn back_up(&mut self, trainer: TrainerId, name: &str) {
        let (scope, backup) = (&self.updater.scope, format!("{name}.trainer_{}_bak", trainer.0));
        if let (Some(value), true) = (scope.get(name), scope.find(&backup).is_some()) {
            scope.set(&backup, value);
            self.updater.note_change(&backup);
        }
    }
}

impl Table for WholeTable {
    fn accepts(&self) -> Vec<Accepts> {
        self.updater.accepts(None)
    }

    fn look_up(&mut self, name: &str, look_up: &LookUp) -> Answer<Tensor> {
        self.gather(name, &look_up.keys)
    }

    fn apply(&mut self, trainer: TrainerId, grad: Grad) -> Result<()> {
        if self.policy.adds_differences {
            return self.add(trainer, grad);
        }
        self.touch(&grad.value);
        self.updater.name_trainer(trainer);
        self.updater.place(grad);
        self.updater.run()
    }

    fn round(&mut self, grads: Vec<Grad>) -> Result<()> {
        let placed = self.updater.placed(&grads);
        for grad in grads {
            self.touch(&grad.value);
            self.updater.place(grad);
        }
        self.updater.place_zeros(&placed);
        self.updater.run()
    }

    fn read(&mut self, trainer: TrainerId, var: AskedVar<'_>, pull: &Pull) -> Answer<Arc<Value>> {
        let name = var.name;
        if self.policy.keeps_backups {
            self.back_up(trainer, name);
        }
        if pull.changed {
            return self.unseen(trainer, name).map(Arc::new);
        }
        // A table of GEO is asked for once: it is not worth a copy that can be read again.
        let is_table = self.updater.update.takes_rows()
            && self.updater.update.writes.iter().any(|written| written == name);
        self.updater.value(var, !(self.policy.adds_differences && is_table))
    }

    fn files(&self, save: &Save) -> Files {
        Files {
            vars: vec![(save.table.clone(), Naming::Fluid)],
            waiting: None,
            number: self.policy.number,
            n: self.policy.n_servers,
            spread: Spread::Range,
        }
    }

    fn size(&self) -> Size {
        let mut size = Size::default();
        let sizes = self.updater.sizes(|_| true);
        size.rows = sizes.iter().map(|size| size.rows).sum();
        size.bytes = sizes.iter().map(|size| size.bytes).sum();
        if self.updater.update.takes_rows() {
            // The states of an optimizer are parts of the same rows.
            size.table_rows = sizes.iter().map(|size| size.rows).max().unwrap_or(0);
            size.table_bytes = size.bytes;
        }
        size
    }

    fn updater(&mut self) -> &mut Updater {
        &mut self.updater
    }
}

impl Captured for WholeTable {
    fn track(&mut self) {
        let names = self.updater.update.row_vars();
        let n_rows = |name: &String| {
            let height = |value: &Value| value.tensor()?.dims().first().copied();
            self.updater.scope.read(name, height)?
        };
        let heights: Vec<Option<usize>> = names.iter().map(n_rows).collect();
        let n_rows = heights.first().copied().flatten().filter(|&n| u32::try_from(n).is_ok());
        // Values that are not there, or of several heights, are no rows of one table.
        let n_rows = n_rows.filter(|_| heights.iter().all(|height| *height == heights[0]));
        let by_rows = |n_rows| ByRows { names, n_rows, tracking: Tracking::noting() };
        self.by_rows = n_rows.map(by_rows);
        let by_rows = self.by_rows.as_ref().map_or(&[][..], |by_rows| &by_rows.names);
        self.updater.track(|name| by_rows.iter().any(|own| own == name));
    }

    fn n_cut_bytes(&self, extent: Extent) -> u64 {
        let rows = self.by_rows.as_ref().map_or(0, |ByRows { names, n_rows, tracking }| {
            let row_bytes = ByRows::vars(names, &self.updater.scope).row_bytes() as u64;
            let n_rows = match extent {
                Extent::Changed => tracking.n_touched(*n_rows),
                _ => *n_rows,
            };
            n_rows as u64 * row_bytes
        });
        self.updater.n_cut_bytes(extent) + rows
    }

    fn mark(&mut self, extent: Extent) -> TableCut {
        if matches!(extent, Extent::Save { .. }) {
            // Its parameter, which is shared: an update that changes it makes a copy first.
            let param = self.updater.param_value().unwrap_or_default();
            let values = vec![(String::new(), Value::clone(&param))];
            return TableCut { extent, values, rows: None, unseen: None, saved: None };
        }
        let values = self.updater.mark(extent);
        let scope = &self.updater.scope;
        let rows = self.by_rows.as_mut().map(|ByRows { names, n_rows, tracking }| {
            let is_whole = extent != Extent::Changed;
            let vars = ByRows::vars(names, scope).described();
            let head = RowsHead { is_whole, n_rows: *n_rows as u64, vars, ..RowsHead::default() };
            let capture = tracking.mark(names.len(), *n_rows, extent);
            RowsCut::new(head, capture, CutStep::Rows)
        });
        let unseen = self.policy.adds_differences.then(|| self.changed.to_bytes());
        TableCut { extent, values, rows, unseen, saved: None }
    }

    fn next_chunk(&mut self, cut: &mut TableCut) -> CutChunk {
        let Some((rows, by_rows)) = cut.rows.as_ref().zip(self.by_rows.as_mut()) else {
            return CutChunk::End;
        };
        let vars = ByRows::vars(&by_rows.names, &self.updater.scope);
        match by_rows.tracking.chunk(&vars, rows.capture) {
            None => CutChunk::GivenUp,
            Some(None) => CutChunk::End,
            Some(Some(chunk)) => CutChunk::Rows(chunk),
        }
    }

    fn end_cut(&mut self, cut: TableCut, is_durable: bool) -> Option<Capture> {
        if !is_durable {
            self.updater.put_back(&cut);
        }
        self.by_rows.as_mut()?.tracking.end(cut.rows?.capture, is_durable)
    }
}

impl Loaded for WholeTable {
    fn begin_load(&mut self) {
        self.updater.begin_load();
        if let Some(by_rows) = &mut self.by_rows {
            by_rows.tracking.reset();
        }
    }

    fn load(&mut self, kind: Kind, file: &mut FileReader) -> std::result::Result<(), BadSnapshot> {
        match (kind, &self.by_rows) {
            (Kind::Value, _) => self.updater.load(file),
            (Kind::Unseen, _) => {
                let loaded = Changes::from_bytes(self.policy.n_trainers, &file.contents()?);
                self.changed = loaded.ok_or_else(|| file.damaged("rows that nobody has seen"))?;
                Ok(())
            }
            (Kind::RowsHead, Some(by_rows)) => {
                if RowsHead::read(file)?.n_rows == by_rows.n_rows as u64 {
                    Ok(())
                } else {
                    Err(file.damaged("a table has another height"))
                }
            }
            (Kind::Rows, Some(by_rows)) => {
                let vars = ByRows::vars(&by_rows.names, &self.updater.scope);
                vars.load(file, by_rows.n_rows)
            }
            _ => Err(file.damaged("a table has parts that it does not have here")),
        }
    }

    fn end_load(&mut self) -> std::result::Result<(), &'static str> {
        Ok(())
    }

    fn import_value(&mut self, value: &ImportedValue<'_>) -> std::result::Result<(), &'static str> {
        let by_rows = self.by_rows.as_mut().filter(|by_rows| by_rows.has(value.name));
        if let Some((by_rows, bytes)) = by_rows.zip(value.bytes.as_deref()) {
            by_rows.touch_changed(&self.updater.scope, value.name, bytes);
        }
        self.updater.import(value)
    }

    fn forget_unseen(&mut self) {
        self.changed = Changes::new(self.policy.n_trainers);
    }

    fn import_unseen(&mut self, trainer: TrainerId, name: &str, rows: &[i64]) {
        self.changed.note_for(trainer, name, rows);
    }
}
