//! Continues from the snapshots of other servers: each server takes its own part, for any earlier number of servers.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use program::distributed::server_of;
use protocol::server::{CutRecord, KeptBytes, ServerShare, repartition};
use tensor::{DType, Shape, Tensor, Value};
use train::recover::LocalState;

use super::changes::{Changes, UnseenRows};
use super::cuts::{CutTables, locked};
use super::schedule::Schedule;
use super::snapshot::{
    Layout, Owner, Picks, RowsState, ServerRead, ServerState, Source, VarLayout,
};
use super::table::{ImportedValue, RowsImport};
use crate::bad_snapshot::{BadSnapshot, SnapshotResult};

/// Which rows are this server's.
#[derive(Clone, Copy)]
pub(super) struct OwnRows<'a> {
    pub(super) owner: &'a Owner,
    pub(super) layout: &'a Layout,
}

impl OwnRows<'_> {
    /// This server's number for a row of the whole, if the row is here.
    fn local(&self, var: &VarLayout, row: i64) -> Option<u64> {
        let is_here = if var.is_hashed {
            server_of(row, self.owner.n_servers as usize) == self.owner.server as usize
        } else {
            let height = var.dims.first().copied().unwrap_or(0);
            row >= var.first && row - var.first < height
                || var.first == 0 && tensor::is_row(row, height)
        };
        is_here.then_some((row - if var.is_hashed { 0 } else { var.first }) as u64)
    }
}

/// The number of a row in the whole table, from that on its server.
fn whole_number(theirs: &VarLayout, number: u64) -> i64 {
    (number as i64).saturating_add(if theirs.is_hashed { 0 } else { theirs.first })
}

impl Picks for OwnRows<'_> {
    fn has(&self, theirs: &VarLayout, number: u64) -> bool {
        let own = self.layout.0.iter().flatten().find(|var| var.origin == theirs.origin);
        own.is_some_and(|own| self.local(own, whole_number(theirs, number)).is_some())
    }
}

/// How rows of a table come that several servers had.
#[derive(Clone, Copy)]
struct ImportTurn {
    /// None has come yet.
    is_first: bool,
    /// The table has the others already.
    is_update: bool,
}

/// The place of this server among those that continue.
pub(super) struct Resuming<'a> {
    pub(super) held: &'a CutTables,
    pub(super) own: OwnRows<'a>,
    pub(super) source: &'a Source,
    pub(super) folder: &'a Path,
}

impl Resuming<'_> {
    /// Brings the tables to the source's cut: by all of it, or by the changes after the part that was read before. If
    /// that fails, neither the tables nor the part that was read can be used.
    pub(super) fn take(&self, read: &mut Vec<ServerRead>) -> SnapshotResult<()> {
        let is_update = !read.is_empty();
        let mut parts = vec![ImportTurn { is_first: true, is_update }; self.own.layout.0.len()];
        (0..parts.len()).for_each(|at| self.held.table(at).forget_unseen());
        for server in 0..self.source.n_servers() {
            match read.get_mut(server) {
                Some(read) => self.source.read_on(server, &self.own, read)?,
                None => read.push(self.source.read(server, &self.own)?),
            }
            let state = &mut read[server].state;
            for (at, turn) in parts.iter_mut().enumerate() {
                self.take_rows(at, state, turn)?;
                self.take_unseen(at, state)?;
            }
            // The tables have them: one copy is enough.
            state.forget_rows();
        }
        let (mut whole, mut counted) = (WholeValues::default(), BTreeMap::new());
        for ServerRead { state, .. } in read.iter() {
            for (name, value) in &state.values {
                counted.entry(name.clone()).or_insert_with(|| value.clone());
            }
            whole.collect(state);
        }
        whole.share(&mut counted);
        self.take_values(&whole, &counted)?;
        self.take_shared(&counted);
        Ok(())
    }

    /// The first cut to write, when everything was taken.
    pub(super) fn record(&self, read: &[ServerRead]) -> SnapshotResult<CutRecord> {
        let kept = read.iter().enumerate().map(|(server, read)| {
            let journal = self.source.journal(server)?;
            Ok(KeptBytes { state: read.state.state.clone(), journal })
        });
        let kept: Vec<KeptBytes> = kept.collect::<SnapshotResult<_>>()?;
        let KeptBytes { state, journal } = self.repartitioned(&kept)?;
        let (cut, term) = (self.source.next_cut, self.source.term + 1);
        Ok(CutRecord { cut, term, complete: 0, state: state.into(), journal: journal.into() })
    }

    /// Whether the trainers are the same ones.
    pub(super) fn keeps_trainers(&self) -> bool {
        self.source.owner.n_trainers == self.own.owner.n_trainers
    }

    fn repartitioned(&self, kept: &[KeptBytes]) -> SnapshotResult<KeptBytes> {
        let share = ServerShare {
            server: self.own.owner.server as usize,
            n_servers: self.own.owner.n_servers as usize,
            keeps_trainers: self.keeps_trainers(),
            n_trainers: self.own.owner.n_trainers as usize,
        };
        let unread = Cell::new(None);
        let of_others = |given: &[Vec<u8>]| match LocalState::of_others(given) {
            Ok(state) => state.to_bytes(),
            Err(error) => {
                unread.set(Some(error));
                Vec::new()
            }
        };
        let share = repartition(kept, share, &of_others);
        match unread.take() {
            Some(error) => Err(self.wrong(error.to_string())),
            None => share.map_err(|error| self.wrong(error.to_string())),
        }
    }

    fn wrong(&self, detail: impl Into<String>) -> BadSnapshot {
        let n_servers = self.source.n_servers();
        let folder = self.folder.to_path_buf();
        BadSnapshot::Incomplete { folder, n_servers, detail: detail.into() }
    }

    /// Takes the rows of a table that exist row by row.
    fn take_rows(
        &self,
        at: usize,
        state: &ServerState,
        turn: &mut ImportTurn,
    ) -> SnapshotResult<()> {
        let table = &mut *self.held.table(at);
        let order = table.row_vars();
        let own: Vec<&VarLayout> =
            self.own.layout.0[at].iter().filter(|var| order.contains(&var.name)).collect();
        for (theirs, layout) in state.tables.iter().zip(&state.layout.0) {
            let Some(rows) = theirs.rows.as_ref().filter(|rows| !rows.head.inits.is_empty()) else {
                continue;
            };
            let Some(import) = self.import(&order, &own, rows, layout) else {
                continue;
            };
            if !rows.is_complete() {
                return Err(self.wrong("a row is missing"));
            }
            let (head, is_update) = (turn.is_first.then_some(&rows.head), turn.is_update);
            let import = RowsImport { head, is_update, ..import };
            table.import_rows(&import).map_err(|problem| self.wrong(problem))?;
            turn.is_first = false;
        }
        Ok(())
    }

    /// Rows of another server's table that are this one's now; none if it is another table.
    fn import<'a>(
        &self,
        order: &[String],
        own: &[&VarLayout],
        rows: &'a RowsState,
        layout: &[VarLayout],
    ) -> Option<RowsImport<'a>> {
        let named = |name: &str| own.iter().find(|var| var.name == name);
        let origin = |name: &str| layout.iter().find(|var| var.name == name);
        let first = named(order.first()?)?;
        let mut at = Vec::new();
        for name in order {
            let wanted = &named(name)?.origin;
            let is_it = |(theirs, _): &(String, u32)| {
                origin(theirs).is_some_and(|theirs| theirs.origin == *wanted)
            };
            at.push(rows.head.vars.iter().position(is_it)?);
        }
        let theirs = origin(&rows.head.vars.get(*at.first()?)?.0)?;
        let whole = |number: u64| whole_number(theirs, number);
        let here = rows.picked().enumerate().filter_map(|(slot, number)| {
            let number = self.own.local(first, whole(number?))?;
            Some((slot, number))
        });
        let waiting = rows
            .waiting
            .iter()
            .filter_map(|(&row, &count)| Some((self.own.local(first, whole(row))?, count)));
        // Counted once for the table, by its first part.
        let is_first = first.first == 0 && (!first.is_hashed || self.own.owner.server == 0);
        Some(RowsImport {
            head: None,
            is_update: false,
            absent: rows.head.absent.and_then(|absent| rows.slot(absent as usize)),
            rows: here.collect(),
            values: at.iter().map(|&at| rows.values[at].as_slice()).collect(),
            waiting: waiting.collect(),
            inits: at
                .iter()
                .filter_map(|&at| rows.head.inits.get(at))
                .map(String::as_str)
                .collect(),
            n_rows_after: first.first - theirs.first,
            n_dropped: if is_first { rows.head.n_dropped } else { 0 },
        })
    }

    /// Takes what trainers have not seen of a table.
    fn take_unseen(&self, at: usize, state: &ServerState) -> SnapshotResult<()> {
        if !self.keeps_trainers() {
            return Ok(());
        }
        for (theirs, layout) in state.tables.iter().zip(&state.layout.0) {
            let changes = Changes::from_bytes(self.own.owner.n_trainers, &theirs.unseen);
            let changes = changes.ok_or_else(|| self.wrong("rows that nobody has seen"))?;
            for UnseenRows { trainer, table, rows } in changes.into_rows() {
                let Some(from) = layout.iter().find(|var| var.name == table) else { continue };
                let own = self.own.layout.0[at].iter().find(|var| var.origin == from.origin);
                let Some(own) = own else { continue };
                let local = |row: &i64| Some(self.own.local(own, row + from.first)? as i64);
                let rows: Vec<i64> = rows.iter().filter_map(local).collect();
                self.held.table(at).import_unseen(trainer, &own.name, &rows);
            }
        }
        Ok(())
    }

    /// Puts variables together that are whole values here.
    fn take_values(
        &self,
        whole: &WholeValues<'_>,
        shared: &BTreeMap<String, Value>,
    ) -> SnapshotResult<()> {
        for (at, vars) in self.own.layout.0.iter().enumerate() {
            let table = &mut *self.held.table(at);
            let by_rows = table.row_vars();
            for var in vars.iter().filter(|var| !by_rows.contains(&var.name)) {
                let Some(pieces) = whole.0.get(var.origin.as_str()) else {
                    if self.is_of_trainer(&var.name) {
                        continue;
                    }
                    // One table uses it here, and several did there: a learning rate.
                    if let Some(value) = shared.get(&var.origin) {
                        let piece = Piece::of(var, value);
                        let name = &var.name;
                        let dims = &var.dims;
                        let dtype = piece.dtype;
                        let bytes = piece.bytes.map(Cow::from);
                        let value = ImportedValue { name, dims, dtype, bytes };
                        table.import_value(&value).map_err(|problem| self.wrong(problem))?;
                        continue;
                    }
                    return Err(self.wrong(format!("variable `{}` is missing", var.origin)));
                };
                let misfit = || self.wrong(format!("`{}` is not all there", var.origin));
                let value = assembled(var, pieces).ok_or_else(misfit)?;
                table.import_value(&value).map_err(|problem| self.wrong(problem))?;
            }
        }
        Ok(())
    }

    /// Whether a variable is a trainer's, and there may be others now.
    fn is_of_trainer(&self, name: &str) -> bool {
        !self.keeps_trainers() && name.contains(".trainer_")
    }

    /// Takes the variables that belong to no table. Steps that trainers counted before still count.
    fn take_shared(&self, values: &BTreeMap<String, Value>) {
        let mut schedule = locked(&self.held.schedule);
        let counters = (0..self.source.owner.n_trainers).map(Schedule::counter_of);
        let counters: Vec<String> = counters.collect();
        for (name, value) in values {
            if self.keeps_trainers() || !counters.contains(name) {
                schedule.load(name, value.clone());
            }
        }
        if !self.keeps_trainers() {
            let number = |value: &Value| value.tensor().map_or(0.0, |tensor| tensor.get_f64(0));
            let sum: f64 = counters.iter().filter_map(|name| values.get(name)).map(number).sum();
            for trainer in 0..self.own.owner.n_trainers {
                schedule.set_steps(trainer, if trainer == 0 { sum } else { 0.0 });
            }
        }
    }
}

/// Values that several tables use (learning rates, counters) are not larger.
const SHARED_BYTES_MAX: usize = 64;

/// Pieces of variables, by what they are parts of.
#[derive(Default)]
struct WholeValues<'a>(BTreeMap<&'a str, Vec<Piece<'a>>>);

struct Piece<'a> {
    layout: &'a VarLayout,
    dtype: DType,
    /// None if it was never written.
    bytes: Option<&'a [u8]>,
}

impl<'a> Piece<'a> {
    fn of(layout: &'a VarLayout, value: &'a Value) -> Self {
        let tensor = value.tensor();
        let dtype = tensor.map_or_else(DType::default, Tensor::dtype);
        Self { layout, dtype, bytes: tensor.map(Tensor::bytes) }
    }

    fn rows(&self) -> std::ops::Range<i64> {
        self.layout.first..self.layout.first + self.layout.dims.first().copied().unwrap_or(0)
    }
}

impl<'a> WholeValues<'a> {
    /// Adds small variables that were one table's own there, and may belong to several here.
    fn share(&self, shared: &mut BTreeMap<String, Value>) {
        for (origin, pieces) in &self.0 {
            let Some(Piece { layout, dtype, bytes: Some(bytes) }) = pieces.first() else {
                continue;
            };
            let is_small = bytes.len() <= SHARED_BYTES_MAX && layout.dims == layout.origin_dims;
            let dims: Vec<usize> = layout.dims.iter().map(|&dim| dim.max(0) as usize).collect();
            if is_small && !shared.contains_key(*origin) {
                let tensor = Tensor::from_bytes(*dtype, Shape::new(&dims), bytes);
                let value = tensor.ok().map(Value::Tensor);
                shared.extend(value.map(|value| (origin.to_string(), value)));
            }
        }
    }

    fn collect(&mut self, state: &'a ServerState) {
        for (table, layout) in state.tables.iter().zip(&state.layout.0) {
            // A table of which all rows exist is a whole value too.
            let rows = table.rows.as_ref().filter(|rows| rows.head.inits.is_empty());
            for var in layout {
                let of_rows = rows.and_then(|rows| {
                    let at = rows.head.vars.iter().position(|(name, _)| *name == var.name)?;
                    rows.values.get(at).map(Vec::as_slice)
                });
                let piece = match (of_rows, table.values.get(&var.name)) {
                    (Some(bytes), _) => {
                        Piece { layout: var, dtype: DType::default(), bytes: Some(bytes) }
                    }
                    (None, Some(value)) => Piece::of(var, value),
                    (None, None) => continue,
                };
                self.0.entry(&piece.layout.origin).or_default().push(piece);
            }
        }
    }
}

/// A variable of this server, put together from pieces; nothing if one is missing.
fn assembled<'a>(var: &'a VarLayout, pieces: &[Piece<'a>]) -> Option<ImportedValue<'a>> {
    let first = pieces.first()?;
    let value =
        |bytes| ImportedValue { name: &var.name, dims: &var.dims, dtype: first.dtype, bytes };
    // A variable that is not cut is the same on all servers.
    if var.dims == var.origin_dims && first.layout.dims == first.layout.origin_dims {
        return Some(value(first.bytes.map(Cow::from)));
    }
    if pieces.iter().all(|piece| piece.bytes.is_none()) {
        return Some(value(None));
    }
    let mut bytes = Vec::new();
    let mut row = var.first;
    let end = var.first + var.dims.first()?;
    while row < end {
        let piece = pieces.iter().find(|piece| piece.rows().contains(&row))?;
        let (own, rows) = (piece.bytes?, piece.rows());
        let row_bytes = own.len() / rows.clone().count().max(1);
        let at = |row: i64| (row - rows.start) as usize * row_bytes;
        let next = rows.end.min(end);
        bytes.extend_from_slice(own.get(at(row)..at(next))?);
        row = next;
    }
    Some(value(Some(bytes.into())))
}
