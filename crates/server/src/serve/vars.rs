//! The variables of a server by number: those that trainers and the server agree on, and what each is
//! for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wire::VarId;
use wire::message::VarInfo;

use super::table::{Accepts, Table};

/// All variables of a store; see the module.
#[derive(Default)]
pub(super) struct StoreVars {
    /// By number: gradients in the order of tables, then the others.
    pub(super) list: Vec<VarInfo>,
    /// The use of each.
    uses: Vec<Use>,
}

/// The use of a variable.
#[derive(Default)]
pub(super) struct Use {
    /// The table that takes it, and what it must be, if it is a gradient.
    pub(super) grad: Option<(usize, Accepts)>,
    /// The table that has it.
    pub(super) table: Option<usize>,
    /// It is a counter of steps that trainers send.
    pub(super) is_counter: bool,
}

/// Names of variables, by what they are for.
pub(super) struct StoreNames<'a> {
    /// Which table has a variable.
    pub(super) by_var: &'a HashMap<String, usize>,
    pub(super) params: &'a [VarInfo],
    pub(super) counters: &'a BTreeSet<String>,
    /// All, in the order of their numbers.
    pub(super) all: BTreeSet<String>,
}

impl StoreVars {
    /// Numbers the gradients that tables take and all other variables, and tells the tables.
    pub(super) fn new(tables: &mut [Box<dyn Table>], names: &StoreNames<'_>) -> Self {
        let params: BTreeMap<&str, &VarInfo> =
            names.params.iter().map(|held| (held.name.as_str(), held)).collect();
        let mut vars = Self::default();
        let mut ids = HashMap::new();
        let mut first = Vec::new();
        for (at, table) in tables.iter().enumerate() {
            first.push(vars.list.len() as u32);
            for accepts in table.accepts() {
                let name = accepts.var.name.clone();
                let mut used = names.used(&name);
                used.grad = Some((at, accepts));
                ids.insert(name.clone(), vars.push(VarInfo::other(&name), used));
            }
        }
        for name in &names.all {
            if !ids.contains_key(name) {
                let held = params.get(name.as_str()).map(|&held| held.clone());
                let held = held.unwrap_or_else(|| VarInfo::other(name));
                ids.insert(name.clone(), vars.push(held, names.used(name)));
            }
        }
        for (table, first) in tables.iter_mut().zip(first) {
            table.updater().number(first, |name| ids.get(name).copied());
        }
        vars
    }

    fn push(&mut self, held: VarInfo, used: Use) -> VarId {
        self.list.push(held);
        self.uses.push(used);
        VarId(self.list.len() as u32 - 1)
    }

    /// The use of a variable; None if the number is unknown.
    pub(super) fn used(&self, var: VarId) -> Option<&Use> {
        self.uses.get(var.0 as usize)
    }

    /// The name of a variable, for scopes and messages.
    pub(super) fn name(&self, var: VarId) -> &str {
        self.list.get(var.0 as usize).map_or("", |held| &held.name)
    }
}

impl StoreNames<'_> {
    fn used(&self, name: &str) -> Use {
        let is_counter = self.counters.contains(name);
        Use { grad: None, table: self.by_var.get(name).copied(), is_counter }
    }
}
