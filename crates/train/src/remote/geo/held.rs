//! Tables that no memory holds: a trainer of GEO has the rows that it used.
//!
//! A row comes from the servers when a step reads it for the first time, and again when a step reads it for the first time
//! after an exchange that did not bring it: x += p - old, old = p. An exchange sends the differences of rows that were used
//! since the last one, and fetches these.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use program::distributed::route::{IdPartition, LookUpRoute};
use program::distributed::{PlacedKind, ServerId, Spread, difference_of};
use program::remote::HeldLookUp;
use program::{Distributed, Error as ProgramError};
use tensor::{KeyedTable, OtherRows, ReadRows, Rows, Shape, Tensor, Value};
use wire::VarId;
use wire::message::Grad;

use super::{Geo, put};
use crate::error::Result;
use crate::gradients::scale_tensor;
use crate::recover::{GeoState, GeoTable};
use crate::remote::links::Links;
use crate::remote::rows::{deal_rows, fetch_rows};
use crate::remote::rows_of::{add_tensor, pick, subtract};
use crate::scope::Scope;

/// What a trainer remembers of such a table.
#[derive(Debug)]
pub(super) struct HeldRows {
    /// Where the rows are.
    route: LookUpRoute,
    /// Rows as the servers had them when we last spoke of them.
    old: KeyedTable,
    /// Rows used since the last exchange.
    touched: BTreeSet<i64>,
    /// Rows that came with the last exchange, or since.
    fresh: HashSet<i64>,
}

/// The tables of a job that no trainer holds whole; none of their rows is here.
pub(super) fn held_tables(job: &Distributed) -> BTreeMap<String, HeldRows> {
    let mut held = BTreeMap::new();
    for placed in job.placement.iter().filter(|p| p.kind == PlacedKind::RemotePrefetch) {
        let &[height, width] = &placed.origin_dims[..] else { continue };
        let width = width.max(0) as usize;
        let Ok(old) = KeyedTable::empty(height, width, OtherRows::default()) else { continue };
        let route = LookUpRoute {
            pieces: job.pieces(&placed.origin).map(|placed| placed.piece.clone()).collect(),
            partition: match placed.spread {
                Spread::Hash => IdPartition::Hash,
                Spread::Range => IdPartition::Range,
            },
            padding: None,
            peek: false,
            width,
            plain_ids: false,
            ids: Vec::new(),
        };
        let rows = HeldRows { route, old, touched: BTreeSet::new(), fresh: HashSet::new() };
        held.entry(placed.origin.clone()).or_insert(rows);
    }
    held
}

/// Does something with a table of the scope; nothing if it is not there.
fn write_table<T>(
    scope: &Scope,
    name: &str,
    write: impl FnOnce(&mut KeyedTable) -> T,
) -> Option<T> {
    scope.write(name, |value| match value {
        Value::Keyed(table) => Some(write(Arc::make_mut(table))),
        _ => None,
    })
}

impl HeldRows {
    pub(super) fn touch(&mut self, ids: &[i64]) {
        // What no look-up read has no base: padding.
        self.touched.extend(ids.iter().filter(|&&id| self.old.find(id).is_some()));
    }

    /// Rows among these that must come from the servers first, each once.
    fn missing(&self, ids: &[&[i64]], padding: Option<i64>) -> Vec<i64> {
        let mut seen = HashSet::new();
        let all = ids.iter().copied().flatten().copied();
        all.filter(|id| !self.fresh.contains(id) && Some(*id) != padding && seen.insert(*id))
            .collect()
    }

    /// x += p - old; old = p. What has no base is p.
    fn take_over(&mut self, x: &mut KeyedTable, ids: &[i64], p: &Tensor) -> tensor::Result<()> {
        let (width, n) = (self.old.width(), ids.len());
        if p.shape() != Shape::from([n, width]) {
            let (expected, actual) = (Shape::from([n, width]), p.shape());
            return Err(tensor::Error::ShapeMismatch { expected, actual });
        }
        let has_base: Vec<bool> = ids.iter().map(|&id| self.old.find(id).is_some()).collect();
        let (here, base) = (positions(x.make(ids)?), positions(self.old.make(ids)?));
        let mut news = p.clone();
        subtract(&mut news, &pick(self.old.value(), &base));
        add_tensor(&mut news, &pick(x.value(), &here));
        let new = news.data_mut::<f32>()?.chunks_exact_mut(width.max(1));
        let rows = new.zip(p.data::<f32>()?.chunks_exact(width.max(1))).zip(has_base);
        for ((new, p), _) in rows.filter(|(_, has_base)| !has_base) {
            new.copy_from_slice(p);
        }
        put(x.value_mut(), &here, &news);
        put(self.old.value_mut(), &base, p);
        self.fresh.extend(ids);
        Ok(())
    }

    /// (x - old) / T of the touched rows, added to `old`.
    fn difference(&mut self, x: &KeyedTable, n_trainers: usize) -> Rows {
        let ids: Vec<i64> =
            self.touched.iter().copied().filter(|&id| x.find(id).is_some()).collect();
        let at = |table: &KeyedTable| ids.iter().filter_map(|&id| table.find(id)).collect();
        let (here, base): (Vec<usize>, Vec<usize>) = (at(x), at(&self.old));
        let (mut delta, mut olds) = (pick(x.value(), &here), pick(self.old.value(), &base));
        subtract(&mut delta, &olds);
        scale_tensor(&mut delta, 1.0 / n_trainers.max(1) as f64);
        add_tensor(&mut olds, &delta);
        put(self.old.value_mut(), &base, &olds);
        Rows { ids, height: self.old.height(), value: delta }
    }

    /// What servers answered to a test, with what was learnt here: p + (x - old). Nothing is kept of it.
    fn for_test(&self, x: &KeyedTable, ids: Vec<i64>, p: Tensor) -> tensor::Result<KeyedTable> {
        let rows = Rows { ids, height: self.old.height(), value: p };
        let mut read = KeyedTable::new(rows, OtherRows::default())?;
        let learnt = self.learnt(x);
        let is_read = |at: &usize| read.find(learnt.ids[*at]).is_some();
        let from: Vec<usize> = (0..learnt.ids.len()).filter(is_read).collect();
        let to: Vec<usize> = from.iter().filter_map(|&at| read.find(learnt.ids[at])).collect();
        let mut news = pick(&learnt.value, &from);
        add_tensor(&mut news, &pick(read.value(), &to));
        put(read.value_mut(), &to, &news);
        Ok(read)
    }

    /// x - old, where that is not zero.
    fn learnt(&self, x: &KeyedTable) -> Rows {
        let news = x.value().data::<f32>().unwrap_or(&[]);
        let olds = self.old.value().data::<f32>().unwrap_or(&[]);
        let width = self.old.width();
        let mut ids = Vec::new();
        let mut here = Vec::new();
        let mut base = Vec::new();
        for (at, &id) in self.old.ids().iter().enumerate() {
            let Some(place) = x.find(id) else { continue };
            if news.get(place * width..(place + 1) * width)
                != olds.get(at * width..(at + 1) * width)
            {
                ids.push(id);
                here.push(place);
                base.push(at);
            }
        }
        let mut value = pick(x.value(), &here);
        subtract(&mut value, &pick(self.old.value(), &base));
        Rows { ids, height: self.old.height(), value }
    }
}

fn positions(places: Vec<i64>) -> Vec<usize> {
    places.into_iter().map(|place| place.max(0) as usize).collect()
}

impl Geo {
    /// Reads rows of a table for a step. Those that are not here come from the servers.
    pub(in crate::remote) fn look_up(
        &mut self,
        links: &Links,
        look_up: HeldLookUp<'_>,
        out: &mut [Tensor],
    ) -> program::Result<()> {
        let HeldLookUp { route, ids, table } = look_up;
        let all: program::Result<Vec<&[i64]>> =
            ids.iter().map(|ids| Ok(ids.data::<i64>()?)).collect();
        let all = all?;
        let held = self.held.values_mut().find(|held| held.route.pieces == route.pieces);
        let held =
            held.ok_or(ProgramError::NoHost { op: String::new(), what: "noted parameters" })?;
        let missing = held.missing(&all, route.padding);
        let mut read_only = None;
        if !missing.is_empty() {
            let p = fetch_rows(links, route, &missing)?;
            if route.peek {
                read_only = Some(held.for_test(table, missing, p)?);
            } else {
                held.take_over(table, &missing, &p)?;
            }
        }
        let width = table.width();
        let read =
            ReadRows { padding: route.padding, is_test: route.peek, stride: width, offset: 0 };
        for (ids, out) in all.into_iter().zip(out) {
            let out = out.try_resize::<f32>(Shape::from([ids.len(), width]))?;
            table.gather(ids, read, out).map_err(|position| ProgramError::IdOutOfRange {
                var: route.ids.first().cloned().unwrap_or_default(),
                position,
                id: ids[position],
                height: table.height(),
            })?;
            let Some(others) = &read_only else { continue };
            let rows = others.value().data::<f32>()?;
            for (out, &id) in out.chunks_exact_mut(width.max(1)).zip(ids) {
                if let Some(place) = others.find(id) {
                    out.copy_from_slice(&rows[place * width..(place + 1) * width]);
                }
            }
        }
        Ok(())
    }

    /// What was learnt in rows of such tables, for each server.
    pub(super) fn held_differences(
        &mut self,
        job: &Distributed,
        scope: &Scope,
    ) -> Result<Vec<(ServerId, Grad)>> {
        let mut grads = Vec::new();
        for (name, held) in &mut self.held {
            let delta = scope.read(name, |value| match value {
                Value::Keyed(x) => Some(held.difference(x, job.n_trainers)),
                _ => None,
            });
            let Some(delta) = delta.flatten().filter(|delta| !delta.ids.is_empty()) else {
                continue;
            };
            let parts = deal_rows(&held.route, &delta)?;
            for (piece, rows) in held.route.pieces.iter().zip(parts) {
                let var = job.var(piece.server, &difference_of(&piece.name));
                let Some(var) = var.filter(|_| !rows.ids.is_empty()) else { continue };
                grads.push((piece.server, Grad { var: VarId(var.0), value: Value::Rows(rows) }));
            }
        }
        Ok(grads)
    }

    /// Fetches the rows that were used since the last exchange.
    pub(super) fn fetch_held(&mut self, links: &Links, scope: &Scope) -> Result<()> {
        for (name, held) in &mut self.held {
            held.fresh.clear();
            let ids: Vec<i64> = std::mem::take(&mut held.touched).into_iter().collect();
            for ids in ids.chunks(wire::message::CHANGED_MAX) {
                let p = fetch_rows(links, &held.route, ids)?;
                write_table(scope, name, |x| held.take_over(x, ids, &p)).transpose()?;
            }
        }
        Ok(())
    }

    /// Adds what is to be kept of such tables.
    pub(super) fn save_held(&self, scope: &Scope, state: &mut GeoState) {
        for (name, held) in &self.held {
            let rows = scope.read(name, |value| match value {
                Value::Keyed(x) => Some(held.learnt(x)),
                _ => None,
            });
            let Some(rows) = rows.flatten() else { continue };
            let touched = held.touched.iter().copied().collect();
            state.tables.insert(name.clone(), GeoTable { touched, rows });
        }
    }

    /// Goes on with what was kept of such tables: x = p + d, where there is a difference.
    pub(in crate::remote) fn restore_held(
        &mut self,
        links: &Links,
        scope: &Scope,
        state: &GeoState,
    ) -> Result<()> {
        for (name, held) in &mut self.held {
            let (height, width) = (held.old.height(), held.old.width());
            let mut x = KeyedTable::empty(height, width, OtherRows::default())?;
            if let Some(table) = state.tables.get(name) {
                let ids: Vec<i64> = table.rows.ids.clone();
                for (at, ids) in ids.chunks(wire::message::CHANGED_MAX).enumerate() {
                    let p = fetch_rows(links, &held.route, ids)?;
                    held.take_over(&mut x, ids, &p)?;
                    let first = at * wire::message::CHANGED_MAX;
                    let rows: Vec<usize> = (first..first + ids.len()).collect();
                    let mut news = pick(&table.rows.value, &rows);
                    add_tensor(&mut news, &p);
                    put(x.value_mut(), &rows, &news);
                }
                held.touched = table.touched.iter().copied().collect();
            }
            scope.set(name, Value::Keyed(Arc::new(x)));
        }
        Ok(())
    }
}
