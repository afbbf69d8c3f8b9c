//! A store that writes down everything it is told to apply.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use protocol::server::{CutRecord, OnDisk, Size, Store, TableGrads, Unit, WrittenCut};
use tensor::{Rows, Tensor, Value};
use wire::message::{Grad, LookUp, Pull, Save, VarInfo};
use wire::{Refusal, TrainerId, VarId};

use super::disk::Disk;
use super::trainer::{Step, tag, whose};

/// A gradient, as it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Applied {
    /// The round, from 1; 0 without rounds.
    pub round: u64,
    /// The sender.
    pub trainer: u32,
    /// Which of its gradients.
    pub tag: i64,
}

/// The variable that all trainers change.
pub const SHARED: &str = "shared";

/// The numbers of the first variables of [`vars`]: gradients, the shared variable, a table, news.
pub const GRAD: VarId = VarId(0);
/// The variable that all trainers change.
pub const SHARED_VAR: VarId = VarId(1);
/// A table.
pub const TABLE: VarId = VarId(2);

/// The variables of a server with so many trainers.
pub fn vars(n_trainers: u32) -> Vec<VarInfo> {
    let first = ["grad", SHARED, "table", "news"].map(VarInfo::other);
    first.into_iter().chain((0..n_trainers).map(|trainer| VarInfo::other(&own(trainer)))).collect()
}

/// One number per trainer and one for all; the order of gradients shows in their bits.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Everything, in its order.
    pub applied: Vec<Applied>,
    /// The trainers that had a part in each round, in the order in which the parts came.
    pub rounds: Vec<Vec<u32>>,
    /// Current numbers.
    pub params: BTreeMap<String, f32>,
    n_trainers: u32,
    /// The changes of others since the last question of each trainer.
    news: BTreeMap<u32, Vec<i64>>,
    /// Units of rounds, in the order in which they were applied.
    pub units: Vec<usize>,
}

impl Ledger {
    /// For so many trainers.
    pub fn new(n_trainers: u32) -> Self {
        Self { n_trainers, ..Self::default() }
    }

    /// Fails if not every gradient of the scripts was applied once, in the order of its trainer.
    #[track_caller]
    pub fn check_once_and_in_order(&self, scripts: &[Vec<Step>], context: &str) {
        for (id, script) in (0..).zip(scripts) {
            let of_trainer = self.applied.iter().filter(|one| one.trainer == id);
            let applied: Vec<i64> = of_trainer.map(|one| one.tag).collect();
            let sent = script.iter().flat_map(|step| match *step {
                Step::Part(step, n) | Step::Push(step, n) => {
                    (0..n).map(|k| tag(id, step, k)).collect()
                }
                _ => Vec::new(),
            });
            assert_eq!(applied, sent.collect::<Vec<_>>(), "trainer {id}, {context}");
        }
    }

    /// Writes down a gradient that was applied.
    fn note(&mut self, round: u64, trainer: u32, tag: i64) {
        self.applied.push(Applied { round, trainer, tag });
        for other in (0..self.n_trainers).filter(|&other| other != trainer) {
            self.news.entry(other).or_default().push(tag);
        }
    }

    fn change(&mut self, name: &str, grad: &Grad) {
        let param = self.params.entry(name.to_string()).or_default();
        *param = *param * 0.9 + rows(grad).value.get_f64(0) as f32;
    }

    /// Changes a table: the first is what all share, and the others are one trainer's each.
    fn change_table(&mut self, TableGrads { table, grads }: &TableGrads) {
        let round = self.rounds.len() as u64;
        for grad in grads {
            let tag = rows(grad).ids[0];
            match table.checked_sub(1) {
                Some(trainer) => self.change(&own(trainer as u32), grad),
                None => {
                    self.change(SHARED, grad);
                    self.note(round, whose(tag), tag);
                }
            }
        }
        self.units.push(*table);
    }
}

fn rows(grad: &Grad) -> &Rows {
    match &grad.value {
        Value::Rows(rows) => rows,
        _ => panic!("trainers send rows"),
    }
}

/// The variable that only this trainer changes.
pub fn own(trainer: u32) -> String {
    format!("own{trainer}")
}

/// A gradient with its number.
pub fn grad(tag: i64, server: usize) -> Grad {
    grad_after(tag, server, 0)
}

/// A gradient that depends on what its trainer saw.
pub(super) fn grad_after(tag: i64, server: usize, seen: u64) -> Grad {
    let hash =
        (tag as u64 * 31 + server as u64).wrapping_add(seen).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            >> 40;
    let x = hash as f32 / (1u64 << 24) as f32 - 0.5;
    let rows = Rows { ids: vec![tag], height: i64::MAX, value: Tensor::full([1, 1], x) };
    Grad { var: GRAD, value: Value::Rows(rows) }
}

/// A ledger that threads write in.
#[derive(Debug)]
pub struct Book {
    ledger: Mutex<Ledger>,
    vars: Vec<VarInfo>,
    marked: Mutex<Option<(u64, Ledger)>>,
    disk: Mutex<Disk>,
}

impl Book {
    /// For so many trainers.
    pub fn new(n_trainers: u32) -> Self {
        Self::on(n_trainers, Disk::default())
    }

    /// The ledger of a process that finds this disk.
    pub fn on(n_trainers: u32, disk: Disk) -> Self {
        Self {
            ledger: Mutex::new(Ledger::new(n_trainers)),
            vars: vars(n_trainers),
            marked: Mutex::default(),
            disk: Mutex::new(disk),
        }
    }

    /// Whether a cut is marked or being written.
    pub fn makes_cut(&self) -> bool {
        self.marked.lock().expect("nobody failed").is_some() || self.disk().writes_cut()
    }

    /// Its disk.
    pub fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().expect("nobody failed while writing")
    }

    /// The ledger.
    pub fn into_ledger(self) -> Ledger {
        self.ledger.into_inner().expect("nobody failed while writing")
    }

    /// The present ledger.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("nobody failed while writing")
    }
}

impl Store for Book {
    fn vars(&self) -> &[VarInfo] {
        &self.vars
    }

    fn check(&self, grad: &Grad) -> Result<(), Refusal> {
        match grad.var {
            GRAD => Ok(()),
            other => Err(Refusal::UnknownVar(self.name(other))),
        }
    }

    fn apply(&self, trainer: TrainerId, grad: Grad) -> Result<(), Refusal> {
        let mut ledger = self.ledger();
        ledger.change(&own(trainer.0), &grad);
        ledger.change(SHARED, &grad);
        ledger.note(0, trainer.0, rows(&grad).ids[0]);
        Ok(())
    }

    /// A unit for what all share, and one for each trainer's own.
    fn begin_round(&self, grads: Vec<(TrainerId, Vec<Grad>)>) -> Result<Vec<Unit>, Refusal> {
        self.ledger().rounds.push(grads.iter().map(|(trainer, _)| trainer.0).collect());
        let all: Vec<Grad> = grads.iter().flat_map(|(_, grads)| grads).cloned().collect();
        let shared = TableGrads { table: 0, grads: all };
        let own = |(TrainerId(id), grads)| TableGrads { table: id as usize + 1, grads };
        let tables = std::iter::once(shared).chain(grads.into_iter().map(own));
        Ok(tables.map(|table| Unit { tables: vec![table] }).collect())
    }

    fn apply_unit(&self, unit: Unit) -> Result<(), Refusal> {
        unit.tables.iter().for_each(|table| self.ledger().change_table(table));
        Ok(())
    }

    fn read(&self, trainer: TrainerId, pull: &Pull) -> Result<Vec<Arc<Value>>, Refusal> {
        let mut ledger = self.ledger();
        if pull.changed {
            let ids = ledger.news.remove(&trainer.0).unwrap_or_default();
            let value = Tensor::full([ids.len(), 1], 0f32);
            return Ok(vec![Arc::new(Value::Rows(Rows { ids, height: i64::MAX, value }))]);
        }
        let value = |&var: &VarId| {
            let x = ledger.params.get(&self.name(var)).copied().unwrap_or_default();
            Arc::new(Value::Tensor(Tensor::full([1], x)))
        };
        Ok(pull.vars.iter().map(value).collect())
    }

    fn look_up(&self, look_up: &LookUp) -> Result<Tensor, Refusal> {
        match look_up.table {
            TABLE => Ok(Tensor::full([look_up.keys.len(), 1], self.ledger().rounds.len() as f32)),
            other => Err(Refusal::UnknownVar(self.name(other))),
        }
    }

    fn save(&self, save: &Save) -> Result<(), Refusal> {
        Err(Refusal::UnknownVar(save.table.clone()))
    }

    fn on_disk(&self) -> Result<OnDisk, Refusal> {
        Ok(self.disk().on_disk())
    }

    fn whole_cuts(&self) -> Vec<u64> {
        self.disk().cuts()
    }

    fn mark(&self, cut: u64) -> Result<(), Refusal> {
        *self.marked.lock().expect("nobody failed") = Some((cut, self.ledger().clone()));
        Ok(())
    }

    fn write_cut(&self, record: &CutRecord) -> Result<WrittenCut, Refusal> {
        let marked = self.marked.lock().expect("nobody failed").take();
        let (cut, ledger) = marked.expect("it was marked");
        assert_eq!(cut, record.cut);
        self.disk().begin_cut(record.clone(), ledger);
        Ok(WrittenCut { bytes: 1 })
    }

    fn roll_back(&self, cut: u64, term: u64) -> Result<Vec<u8>, Refusal> {
        let mut disk = self.disk();
        let file = disk.load(cut).ok_or_else(|| Refusal::Failed(format!("no cut {cut}")))?;
        disk.begin_rollback(cut, term);
        *self.marked.lock().expect("nobody failed") = None;
        *self.ledger() = file.ledger;
        Ok(file.record.state.to_vec())
    }

    fn journal(&self, cut: u64) -> Result<Vec<u8>, Refusal> {
        self.disk().recall(cut).ok_or_else(|| Refusal::Failed(format!("no cut {cut}")))
    }

    fn size(&self) -> Size {
        let rows = self.ledger().params.len() as u64;
        Size { rows, bytes: 4 * rows, ..Size::default() }
    }
}
