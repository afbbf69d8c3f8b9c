//! The tables of a server that exist row by row, as its program describes them.

use std::collections::BTreeMap;
use std::path::Path;

use program::distributed::Placement;
use program::op::Untouched;
use program::{OpDesc, Program};
use ps::message::Save;
use ps::table::{Entry, Gate, RowInit};
use tensor::{Rows, Tensor, Value};

use super::blocks::{Blocks, Update};
use super::slab::{Cut, Slab, Var};
use crate::error::Result;
use crate::io::rows::WAITING;
use crate::scope::Scope;
use crate::transpile::on_touch::{ROW_ENTRY, ROW_INIT};

/// Tables by the name of their weights.
#[derive(Debug, Default)]
pub(super) struct Slabs {
    tables: BTreeMap<String, Slab>,
}

/// What a server's program says about rows.
struct Said<'a> {
    program: &'a Program,
    inits: BTreeMap<&'a str, RowInit>,
    entries: BTreeMap<&'a str, Entry>,
}

impl Slabs {
    /// Tables whose startup left them to be made row by row, or that were loaded as rows.
    pub(super) fn new(
        program: &Program,
        (op, blocks): (&OpDesc, &Blocks),
        scope: &Scope,
    ) -> Result<Self> {
        let seed = crate::executor::fresh_seed();
        let words = |attr| -> Result<BTreeMap<&str, &str>> {
            Ok(op.attrs.strs(attr)?.iter().filter_map(|words| words.split_once('=')).collect())
        };
        let init = |(name, text)| Some((name, RowInit::from_text(text, seed)?));
        let entry = |(name, text): (_, &str)| Some((name, text.parse().ok()?));
        let said = Said {
            program,
            inits: words(ROW_INIT)?.into_iter().filter_map(init).collect(),
            entries: words(ROW_ENTRY)?.into_iter().filter_map(entry).collect(),
        };
        let mut slabs = Self::default();
        for update in &blocks.updates {
            if let Some((table, slab)) = said.slab(update, scope)? {
                slabs.tables.insert(table, slab);
            }
        }
        Ok(slabs)
    }

    /// A table.
    pub(super) fn get(&mut self, table: &str) -> Option<&mut Slab> {
        self.tables.get_mut(table)
    }

    /// Whether a variable is part of such a table.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.tables.values().any(|slab| slab.holds(name))
    }

    /// Rows and columns of the table that a variable is part of.
    pub(super) fn extent(&self, name: &str) -> Option<(usize, usize)> {
        self.tables.values().find(|slab| slab.holds(name)).map(Slab::extent)
    }

    /// A variable as the whole table would have it.
    pub(super) fn whole(&self, scope: &Scope, name: &str) -> Option<Tensor> {
        self.tables.values().find(|slab| slab.holds(name))?.whole(scope, name)
    }

    /// Writes a table that is saved by rows.
    pub(super) fn save(&self, scope: &Scope, save: &Save) -> Option<Result<()>> {
        let slab = self.tables.get(&save.table)?;
        Some(slab.save(scope, Path::new(&save.dir), save.phase))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slab> {
        self.tables.values()
    }
}

impl Said<'_> {
    fn slab(&self, update: &Update, scope: &Scope) -> Result<Option<(String, Slab)>> {
        let Some(param) = update.param() else { return Ok(None) };
        let [height, width] = param.meta.dims[..] else { return Ok(None) };
        let name = &param.name;
        let is_loaded = scope.read(name, |value| matches!(value, Value::Rows(_))).unwrap_or(false);
        // A start that leaves rows to be made leaves none.
        let has_rows = |value: &Value| value.tensor().is_some_and(|tensor| !tensor.is_empty());
        let is_there = is_loaded || scope.read(name, has_rows).unwrap_or(false);
        if is_there && !is_loaded || !self.inits.contains_key(name.as_str()) {
            return Ok(None);
        }
        let mut names = vec![name.as_str()];
        for read in update.program.block(0).ops.iter().flat_map(|op| op.reads()) {
            if self.inits.contains_key(read) && !names.contains(&read) {
                names.push(read);
            }
        }
        let loaded: Vec<Rows> = match is_loaded {
            true => names.iter().filter_map(|name| taken(scope, name)).collect(),
            false => Vec::new(),
        };
        let vars = names.into_iter().map(|name| self.var(name)).collect();
        let cut = self.cut(name, height);
        let size = (height.max(0) as u64, width.max(0) as usize);
        let mut slab = Slab::new(scope, size, vars, cut);
        if update
            .program
            .block(0)
            .ops
            .iter()
            .any(|op| op.traits().update == Some(Untouched::Forget))
        {
            slab.forget();
        }
        if let Some(&entry) = self.entries.get(name.as_str()) {
            let origin = self.placed(name).map_or(name.as_str(), |placed| &placed.origin);
            let seed = self.program.random_seed as u64;
            slab.guard(Gate::new(entry, (seed, origin), cut.first as u64));
        }
        if is_loaded {
            let waiting = taken(scope, &format!("{name}{WAITING}")).unwrap_or_default();
            slab.load(scope, loaded, &waiting)?;
        }
        Ok(Some((name.clone(), slab)))
    }

    fn placed(&self, slice: &str) -> Option<&Placement> {
        let job = self.program.distributed.as_ref()?;
        let here = |placed: &&Placement| job.ps_endpoint.as_ref() == Some(&placed.endpoint);
        job.placement.iter().filter(here).find(|placed| placed.slice == slice)
    }

    fn var(&self, name: &str) -> Var {
        let origin = self.placed(name).map_or(name, |placed| &placed.origin).to_string();
        Var { name: name.to_string(), init: self.inits[name], origin }
    }

    fn cut(&self, name: &str, height: i64) -> Cut {
        let whole = Cut { first: 0, origin_height: height, block: 0, n_blocks: 1 };
        let Some((job, placed)) = self.program.distributed.as_ref().zip(self.placed(name)) else {
            return whole;
        };
        let width = placed.slice_dims.iter().skip(1).product::<i64>().max(1);
        Cut {
            first: placed.offset / width,
            origin_height: placed.origin_dims.first().copied().unwrap_or(height),
            block: placed.block,
            n_blocks: job.pieces(&placed.origin).count(),
        }
    }
}

/// Rows that were loaded, out of the scope.
fn taken(scope: &Scope, name: &str) -> Option<Rows> {
    match scope.write(name, std::mem::take) {
        Value::Rows(rows) => Some(rows),
        _ => None,
    }
}
