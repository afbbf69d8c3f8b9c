//! The plan of a slab: its variables, and which rows of the whole table are here. Rows that are made do not change it.

use tensor::{RowInit, Shape, Tensor, Value, is_row};

use crate::serve::table::saving::Files;
use crate::serve::table::tracking::RowVars;
use train::Scope;
use train::io::overlay;
use train::io::rows::{Naming, Share, WAITING};

/// One variable of a table: its weights or a state of its optimizer.
#[derive(Debug)]
pub(in crate::serve::table) struct SlabVar {
    pub(in crate::serve::table) name: String,
    pub(in crate::serve::table) init: RowInit,
    /// What it is part of.
    pub(in crate::serve::table) origin: String,
    /// How its files are called.
    pub(in crate::serve::table) naming: Naming,
}

/// Which rows of a table a server has, and what their files are called.
#[derive(Clone, Debug)]
pub(in crate::serve::table) struct Extent {
    pub(in crate::serve::table) share: Share,
    /// Rows of the whole table.
    pub(in crate::serve::table) origin_height: i64,
    pub(in crate::serve::table) width: usize,
    /// Which piece it is, of how many.
    pub(in crate::serve::table) number: usize,
    pub(in crate::serve::table) n: usize,
}

/// See the module.
#[derive(Debug)]
pub(in crate::serve::table) struct SlabPlan {
    /// The weights, then the states of the optimizer.
    pub(super) vars: Vec<SlabVar>,
    pub(super) extent: Extent,
}

impl SlabPlan {
    /// Whether a variable is one of this table's.
    pub(in crate::serve::table) fn holds(&self, name: &str) -> bool {
        self.vars.iter().any(|var| var.name == name)
    }

    /// The variables of this table, the weights first.
    pub(in crate::serve::table) fn var_names(&self) -> Vec<String> {
        self.vars.iter().map(|var| var.name.clone()).collect()
    }

    /// The variable with the weights.
    pub(in crate::serve::table) fn weights(&self) -> &str {
        self.vars.first().map_or("", |var| &var.name)
    }

    /// Numbers in a row.
    pub(in crate::serve::table) fn width(&self) -> usize {
        self.extent.width
    }

    /// Bytes of a row of one variable.
    pub(super) fn row_bytes(&self) -> usize {
        self.width() * size_of::<f32>()
    }

    /// Rows that there would be if all existed, as near as need be.
    pub(in crate::serve::table) fn n_rows_max(&self) -> usize {
        usize::try_from(self.extent.share.n_rows()).unwrap_or(usize::MAX)
    }

    /// Which rows are here.
    pub(in crate::serve::table) fn share(&self) -> &Share {
        &self.extent.share
    }

    /// Whether a row, by the number that this server gives it, is here.
    pub(super) fn has(&self, row: i64) -> bool {
        is_row(row, self.extent.share.height())
            && self.extent.share.has(row.saturating_add(self.extent.share.first()))
    }

    /// Variables that a save has.
    pub(super) fn n_saved(&self, weights_only: bool) -> usize {
        if weights_only { 1 } else { self.vars.len() }
    }

    /// The files of the table; one of them has rows that wait, if any may.
    pub(super) fn files(&self, has_waiting: bool) -> Files {
        let waiting = self.vars.first().filter(|_| has_waiting);
        Files {
            vars: self.vars.iter().map(|var| (var.origin.clone(), var.naming)).collect(),
            waiting: waiting.map(|weights| format!("{}{WAITING}", weights.origin)),
            number: self.extent.number,
            n: self.extent.n,
            spread: self.extent.share.spread(),
        }
    }

    /// The variables in the scope that holds them.
    pub(super) fn row_vars<'a>(&'a self, scope: &'a Scope) -> RowVars<'a> {
        RowVars { scope, names: self.vars.iter().map(|var| var.name.as_str()).collect() }
    }

    /// Allocates memory for this many rows. Existing rows stay, unless all rows are loaded.
    pub(super) fn resize(&self, scope: &Scope, n_rows: usize, is_whole: bool) {
        for var in &self.vars {
            scope.write(&var.name, |value| {
                value.unshare();
                let Value::Tensor(tensor) = value else { return };
                if is_whole {
                    tensor.resize::<f32>(Shape::from([n_rows, self.width()]));
                } else {
                    tensor.grow_rows(n_rows);
                }
            });
        }
    }

    /// Rows of the width of this table, from those that were saved.
    pub(super) fn completed(&self, var: &SlabVar, rows: &[i64], saved: Option<Tensor>) -> Tensor {
        let width = self.width();
        let saved = match saved {
            Some(saved) if saved.shape().flatten_2d(1).1 == width => return saved,
            saved => saved.unwrap_or_default(),
        };
        let mut whole = Tensor::default();
        let data = whole.resize::<f32>(Shape::from([rows.len(), width]));
        for (&row, out) in rows.iter().zip(data.chunks_exact_mut(width.max(1))) {
            var.init.fill(row as u64, out);
        }
        overlay(&mut whole, &saved, 0);
        whole
    }
}
