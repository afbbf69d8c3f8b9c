//! Which tables of a server exist row by row, as its program describes them.

use std::collections::BTreeMap;

use program::distributed::{EntryRule, Placement};
use program::op::Untouched;
use program::{OpDesc, Program};
use tensor::{RowInit, Rows, Value};
use train::io::rows::{Naming, Share, WAITING};
use train::{Scope, io};
use transpile::{ROW_ENTRY, ROW_INIT};

use crate::table::EntryFilter;

use super::rows::RowTable;
use super::slab::{Extent, Slab, SlabVar};
use super::whole::{Policy, WholeTable};
use super::{Table, Updater};
use crate::error::{Error, Result};

/// What a server's program says about tables that exist row by row.
pub(in crate::serve) struct RowTables<'a> {
    program: &'a Program,
    inits: BTreeMap<String, RowInit>,
    entries: BTreeMap<String, EntryRule>,
}

impl<'a> RowTables<'a> {
    pub(in crate::serve) fn new(program: &'a Program, op: &OpDesc) -> Result<Self> {
        let seed = train::executor::fresh_seed();
        let inits = said(op, ROW_INIT, |text| RowInit::from_text(text, seed))?;
        let entries = said(op, ROW_ENTRY, |text| text.parse().ok())?;
        Ok(Self { program, inits, entries })
    }

    /// The slab of a table whose startup left it to be made row by row, or that was loaded as rows;
    /// `None` if the table is whole.
    fn slab(&self, updater: &Updater) -> Result<Option<Slab>> {
        let (update, scope) = (&updater.update, &updater.scope);
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
        let loaded: Vec<Option<Rows>> = if is_loaded {
            names.iter().map(|name| taken(scope, name)).collect()
        } else {
            Vec::new()
        };
        let vars = names.into_iter().map(|name| self.var(name)).collect();
        let extent = self.extent(name, height, width.max(0) as usize);
        let first = extent.share.first() as u64;
        let mut slab = Slab::new(scope, vars, extent);
        let mut ops = update.program.block(0).ops.iter();
        match ops.find_map(|op| op.traits().update) {
            Some(Untouched::Stay) => {}
            Some(Untouched::Forget) => {
                slab.updates.forgets = true;
                slab.updates.changes_all = true;
            }
            _ => slab.updates.changes_all = true,
        }
        if let Some(&entry) = self.entries.get(name.as_str()) {
            let origin = self.placed(name).map_or(name.as_str(), |placed| &placed.origin);
            let seed = self.program.random_seed as u64;
            slab.set_filter(EntryFilter::new(entry, seed, origin, first));
        }
        if is_loaded {
            // Under a name that no block knows, so it is still with the server.
            let waiting = taken(&updater.server, &format!("{name}{WAITING}")).unwrap_or_default();
            slab.load(scope, loaded, &waiting)?;
        }
        Ok(Some(slab))
    }

    /// The table of a block: by rows if it was left to be made row by row.
    pub(in crate::serve) fn table(
        &self,
        updater: Updater,
        policy: Policy,
    ) -> Result<Box<dyn Table>> {
        Ok(match self.slab(&updater)? {
            Some(slab) => Box::new(RowTable::new(updater, slab)),
            None => Box::new(WholeTable::new(updater, policy)),
        })
    }

    fn placed(&self, slice: &str) -> Option<&Placement> {
        let job = self.program.distributed.as_ref()?;
        job.on(job.ps_endpoint.as_deref()?).find(|placed| placed.piece.name == slice)
    }

    fn var(&self, name: &str) -> SlabVar {
        let origin = self.placed(name).map_or(name, |placed| &placed.origin).to_string();
        let job = self.program.distributed.as_ref();
        let naming = job.map_or(Naming::Counted, |job| io::naming(job, &origin));
        SlabVar { name: name.to_string(), init: self.inits[name], origin, naming }
    }

    fn extent(&self, name: &str, height: i64, width: usize) -> Extent {
        let share = Share::Range(0..height);
        let whole = Extent { share, origin_height: height, width, number: 0, n: 1 };
        let Some((job, placed)) = self.program.distributed.as_ref().zip(self.placed(name)) else {
            return whole;
        };
        let server = job.server_number().unwrap_or(0);
        Extent {
            share: Share::of(placed, server, job.endpoints.len()),
            origin_height: placed.origin_dims.first().copied().unwrap_or(height),
            width,
            number: placed.piece.block,
            n: job.pieces(&placed.origin).count(),
        }
    }
}

/// What an attribute of `listen_and_serv` says of variables, `name=words` each.
fn said<T>(
    op: &OpDesc,
    attr: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<BTreeMap<String, T>> {
    let one = |words: &String| {
        let (name, text) = words.split_once('=')?;
        Some((name.to_string(), read(text)?))
    };
    let refused = |words: &String| Error::RowRule { attr, words: words.clone() };
    let words = op.attrs.strs(attr)?.iter();
    words.map(|words| one(words).ok_or_else(|| refused(words))).collect()
}

/// Rows that were loaded, out of the scope.
fn taken(scope: &Scope, name: &str) -> Option<Rows> {
    match scope.write(name, std::mem::take) {
        Value::Rows(rows) => Some(rows),
        _ => None,
    }
}
