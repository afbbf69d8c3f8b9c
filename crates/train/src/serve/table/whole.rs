//! A table that is there as a whole: dense parameters, and tables whose optimizer looks at all rows.

use std::sync::Arc;

use program::distributed::Spread;
use ps::message::{CHANGED_MAX, Grad, LookUp, Pull, Save};
use ps::server::Size;
use ps::{Refusal, TrainerId};
use tensor::{Rows, Tensor, Value};

use super::saving::{Files, Snapshot};
use super::{Accepts, Answer, Table, Updater, Var};
use crate::error::Result;
use crate::io::rows::Naming;
use crate::serve::changes::Changes;
use crate::serve::values::{add_in_place, gather, height};

/// See the module.
pub(in crate::serve) struct WholeTable {
    updater: Updater,
    policy: Policy,
    /// Rows that each trainer has not seen since somebody changed them (GEO).
    changed: Changes,
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
        Self { updater, changed: Changes::new(policy.n_trainers), policy }
    }

    /// Adds a difference to its parameter, in place, and remembers which rows others have not seen.
    fn add(&mut self, trainer: TrainerId, grad: Grad) -> Result<()> {
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
    fn back_up(&self, trainer: TrainerId, name: &str) {
        let (scope, backup) = (&self.updater.scope, format!("{name}.trainer_{}_bak", trainer.0));
        if let (Some(value), true) = (scope.get(name), scope.get(&backup).is_some()) {
            scope.set(&backup, value);
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
        self.updater.name_trainer(trainer);
        self.updater.place(grad);
        self.updater.run()
    }

    fn round(&mut self, grads: Vec<Grad>) -> Result<()> {
        let placed = self.updater.placed(&grads);
        grads.into_iter().for_each(|grad| self.updater.place(grad));
        self.updater.place_zeros(&placed);
        self.updater.run()
    }

    fn read(&mut self, trainer: TrainerId, var: Var<'_>, pull: &Pull) -> Answer<Arc<Value>> {
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

    fn begin_save(&mut self) -> Snapshot {
        Snapshot::Whole(self.updater.param_value().unwrap_or_default())
    }

    fn size(&self) -> Size {
        let mut size = Size::default();
        let sizes = self.updater.sizes(|_| true);
        size.rows = sizes.iter().map(|size| size.0).sum();
        size.bytes = sizes.iter().map(|size| size.1).sum();
        if self.updater.update.takes_rows() {
            // The states of an optimizer are parts of the same rows.
            size.table_rows = sizes.iter().map(|size| size.0).max().unwrap_or(0);
            size.table_bytes = size.bytes;
        }
        size
    }

    fn updater(&mut self) -> &mut Updater {
        &mut self.updater
    }
}
