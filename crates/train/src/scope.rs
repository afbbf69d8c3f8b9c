//! Where variables live between runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use base::EvenIfPoisoned;
use tensor::{Tensor, Value};

use crate::cell::Cell;
use crate::error::{Error, Result};

/// Named variables, with a scope around them whose variables are seen too.
///
/// Copying a scope copies the handle, not the variables. A run holds the scope for its whole time:
/// another thread that asks for a variable waits and never sees half a step. Threads that train
/// together borrow variables one by one: see [`Scope::lend`].
#[derive(Clone, Debug)]
pub struct Scope(Arc<Node>);

#[derive(Debug)]
struct Node {
    id: u64,
    /// Grows whenever a name appears or goes, so that places found before are looked up again.
    generation: AtomicU64,
    parent: Option<Scope>,
    vars: Mutex<ScopeVars>,
    /// Told when variables that were lent are back.
    returned: Condvar,
    readers: Mutex<HashMap<String, Box<dyn BatchSource>>>,
    kids: Mutex<Vec<Scope>>,
    /// Whether changes are noted.
    is_watched: AtomicBool,
    changed: Mutex<BTreeSet<String>>,
}

/// Where the batches of a `read` op come from.
pub trait BatchSource: Send {
    /// The next batch, one tensor per field; `None` at the end of a pass.
    fn next(&mut self) -> Result<Option<Vec<Tensor>>>;
}

impl std::fmt::Debug for dyn BatchSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a reader")
    }
}

/// The variables of one scope: an index that never moves, so that a prepared program may keep it.
#[derive(Debug, Default)]
pub(crate) struct ScopeVars {
    index: HashMap<String, usize>,
    values: Vec<Value>,
    /// Variables that threads train at the moment, by place.
    lent: HashMap<usize, Arc<Cell>>,
}

impl ScopeVars {
    pub(crate) fn value_mut(&mut self, at: usize) -> &mut Value {
        &mut self.values[at]
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self::new()
    }
}

impl Scope {
    /// An empty scope with nothing around it.
    pub fn new() -> Self {
        Self::with_parent(None)
    }

    fn with_parent(parent: Option<Scope>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let vars = Mutex::default();
        let kids = Mutex::default();
        let readers = Mutex::default();
        let generation = AtomicU64::new(0);
        let returned = Condvar::new();
        let (is_watched, changed) = (AtomicBool::new(false), Mutex::default());
        Self(Arc::new(Node {
            id,
            generation,
            parent,
            vars,
            returned,
            readers,
            kids,
            is_watched,
            changed,
        }))
    }

    /// Whether somebody has it, or a scope inside of it, beside the handles of each that `n_own` says
    /// the caller has.
    pub(crate) fn is_held(&self, n_own: &dyn Fn(&Scope) -> usize) -> bool {
        let lists_this = |parent: &Scope| parent.kids().iter().any(|kid| kid.id() == self.id());
        self.is_held_beside(usize::from(self.parent().is_some_and(lists_this)), n_own)
    }

    /// `n_listed`: the handles that the scope around it has.
    fn is_held_beside(&self, n_listed: usize, n_own: &dyn Fn(&Scope) -> usize) -> bool {
        let kids = self.kids();
        // Each scope inside has this one.
        let n_known = n_own(self) + n_listed + kids.len();
        Arc::strong_count(&self.0) > n_known || kids.iter().any(|kid| kid.is_held_beside(1, n_own))
    }

    /// From now on, or no longer, changes of this scope's own variables are noted.
    pub(crate) fn watch(&self, is_on: bool) {
        self.0.is_watched.store(is_on, Ordering::Relaxed);
    }

    /// The variables that were changed or removed while the scope was watched, since the last call.
    pub(crate) fn take_changed(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.changed())
    }

    fn note(&self, name: &str) {
        if self.0.is_watched.load(Ordering::Relaxed) {
            self.changed().insert(name.to_string());
        }
    }

    fn changed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.changed.lock().even_if_poisoned()
    }

    /// Copies of the variables of this scope itself that hold something and are wanted.
    pub(crate) fn own_vars(&self, is_wanted: impl Fn(&str) -> bool) -> BTreeMap<String, Value> {
        let names = self.names().into_iter().filter(|name| is_wanted(name));
        let vars = names.filter_map(|name| self.get_own(&name).map(|value| (name, value)));
        vars.filter(|(_, value)| !value.is_empty()).collect()
    }

    /// A copy of a variable of this scope itself.
    pub(crate) fn get_own(&self, name: &str) -> Option<Value> {
        let is_own = self.lock().index.contains_key(name);
        if is_own { self.get(name) } else { None }
    }

    /// A scope inside this one. It lives until [`Scope::drop_kids`] or the end of this scope.
    pub fn new_scope(&self) -> Self {
        let kid = Self::with_parent(Some(self.clone()));
        self.kids().push(kid.clone());
        kid
    }

    /// A scope inside this one that this one does not keep.
    pub(crate) fn detached(&self) -> Self {
        Self::with_parent(Some(self.clone()))
    }

    /// Forgets the scopes inside.
    pub fn drop_kids(&self) {
        self.kids().clear();
    }

    fn kids(&self) -> MutexGuard<'_, Vec<Scope>> {
        self.0.kids.lock().even_if_poisoned()
    }

    /// Sets the source of the batches of a reader variable. An earlier source is dropped.
    pub fn attach_reader(&self, name: &str, reader: Box<dyn BatchSource>) {
        self.readers().insert(name.to_string(), reader);
    }

    /// Takes a reader away.
    pub fn detach_reader(&self, name: &str) {
        self.readers().remove(name);
    }

    /// The next batch of a reader, here or around.
    pub(crate) fn read_batch(&self, name: &str) -> Result<Option<Vec<Tensor>>> {
        if let Some(reader) = self.readers().get_mut(name) {
            return reader.next();
        }
        match self.parent() {
            Some(parent) => parent.read_batch(name),
            None => Err(Error::NoReader { reader: name.to_string() }),
        }
    }

    fn readers(&self) -> MutexGuard<'_, HashMap<String, Box<dyn BatchSource>>> {
        self.0.readers.lock().even_if_poisoned()
    }

    /// Identifies this scope in the process.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The scope around it.
    pub fn parent(&self) -> Option<&Scope> {
        self.0.parent.as_ref()
    }

    /// Makes sure the variable exists in this scope itself.
    pub fn var(&self, name: &str) {
        self.create(&mut self.lock(), name);
    }

    /// The scope that holds the variable: this one or one around it.
    pub fn find(&self, name: &str) -> Option<&Scope> {
        let mut scope = self;
        loop {
            if scope.lock().index.contains_key(name) {
                return Some(scope);
            }
            scope = scope.parent()?;
        }
    }

    /// Looks at a variable, here or around; `None` if there is none.
    pub fn read<R>(&self, name: &str, look: impl FnOnce(&Value) -> R) -> Option<R> {
        let owner = self.find(name)?;
        let vars = owner.lock();
        let at = *vars.index.get(name)?;
        if let Some(cell) = vars.lent.get(&at).cloned() {
            drop(vars);
            return Some(cell.read(look));
        }
        Some(look(&vars.values[at]))
    }

    /// Changes a variable where it is found; one that is found nowhere is made here.
    pub fn write<R>(&self, name: &str, change: impl FnOnce(&mut Value) -> R) -> R {
        let owner = self.find(name).unwrap_or(self);
        owner.write_own(name, change)
    }

    /// Changes a variable of this scope itself, made if need be.
    pub(crate) fn write_own<R>(&self, name: &str, change: impl FnOnce(&mut Value) -> R) -> R {
        self.note(name);
        let mut vars = self.lock();
        let at = self.create(&mut vars, name);
        if let Some(cell) = vars.lent.get(&at).cloned() {
            drop(vars);
            return cell.write(change);
        }
        change(&mut vars.values[at])
    }

    /// A copy of a variable, `None` if there is none.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.read(name, |value| {
            let mut copy = value.clone();
            copy.unshare();
            copy
        })
    }

    /// Puts a value into a variable.
    pub fn set(&self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        self.write(name, |old| *old = value);
    }

    /// Removes variables of this scope itself; their places stay reserved.
    pub fn erase(&self, names: &[&str]) {
        let mut vars = self.lock();
        self.0.generation.fetch_add(1, Ordering::Relaxed);
        for name in names {
            if let Some(at) = vars.index.remove(*name) {
                self.note(name);
                vars.values[at] = Value::Empty;
            }
        }
    }

    /// Names of the variables of this scope itself, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.lock().index.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Differs from what it was if a name appeared or went, here or around.
    pub(crate) fn generation(&self) -> u64 {
        let own = self.0.generation.load(Ordering::Relaxed);
        own + self.parent().map_or(0, Scope::generation)
    }

    /// The place of a name in this scope itself, made if need be.
    fn create(&self, vars: &mut ScopeVars, name: &str) -> usize {
        if let Some(&at) = vars.index.get(name) {
            return at;
        }
        self.0.generation.fetch_add(1, Ordering::Relaxed);
        vars.values.push(Value::Empty);
        vars.index.insert(name.to_string(), vars.values.len() - 1);
        vars.values.len() - 1
    }

    /// Finds a place for each name: in the scope that has it, else in this one. The first number
    /// counts scopes outwards.
    pub(crate) fn places<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<VarPlace> {
        names.map(|name| self.place(name)).collect()
    }

    fn place(&self, name: &str) -> VarPlace {
        let (mut scope, mut depth) = (Some(self), 0);
        while let Some(here) = scope {
            if let Some(&at) = here.lock().index.get(name) {
                return VarPlace { depth, at };
            }
            (scope, depth) = (here.parent(), depth + 1);
        }
        VarPlace { depth: 0, at: self.create(&mut self.lock(), name) }
    }

    /// Holds this scope and those around it, innermost first; waits until all variables are there.
    pub(crate) fn hold(&self) -> Vec<MutexGuard<'_, ScopeVars>> {
        let mut held = vec![self.lock_whole()];
        let mut scope = self;
        while let Some(parent) = scope.parent() {
            held.push(parent.lock_whole());
            scope = parent;
        }
        held
    }

    fn lock_whole(&self) -> MutexGuard<'_, ScopeVars> {
        let mut vars = self.lock();
        while !vars.lent.is_empty() {
            vars = self.0.returned.wait(vars).even_if_poisoned();
        }
        vars
    }

    /// Lends variables, here or around, to threads that train together; those that are nowhere are
    /// made here. Until [`Lent::give_back`] they are read and written one by one.
    pub(crate) fn lend(&self, names: &BTreeSet<String>, is_table: impl Fn(&str) -> bool) -> Lent {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut lent = Lent {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            scope: self.clone(),
            cells: Vec::with_capacity(names.len()),
        };
        for name in names {
            let owner = self.find(name).unwrap_or(self);
            let mut vars = owner.lock_whole_but(&lent);
            let at = owner.create(&mut vars, name);
            let value = std::mem::take(&mut vars.values[at]);
            let cell = Arc::new(Cell::new(value, is_table(name)));
            vars.lent.insert(at, cell.clone());
            lent.cells.push((name.clone(), cell));
        }
        lent
    }

    /// Waits for what others lent; what `own` lent is known to be away.
    fn lock_whole_but(&self, own: &Lent) -> MutexGuard<'_, ScopeVars> {
        let mut vars = self.lock();
        let is_own = |cell: &Arc<Cell>| own.cells.iter().any(|(_, known)| Arc::ptr_eq(known, cell));
        while !vars.lent.values().all(is_own) {
            vars = self.0.returned.wait(vars).even_if_poisoned();
        }
        vars
    }

    /// Takes the variable back that was lent from here.
    fn take_back(&self, cell: &Arc<Cell>) -> bool {
        let mut vars = self.lock();
        let Some(at) = vars.lent.iter().find(|(_, own)| Arc::ptr_eq(own, cell)).map(|(&at, _)| at)
        else {
            return false;
        };
        vars.values[at] = cell.end();
        vars.lent.remove(&at);
        if vars.lent.is_empty() {
            self.0.returned.notify_all();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, ScopeVars> {
        // A kernel that panicked leaves variables as they were between two ops: still usable.
        self.0.vars.lock().even_if_poisoned()
    }
}

/// Variables that threads train together, in the order of their names.
#[derive(Debug)]
pub(crate) struct Lent {
    id: u64,
    scope: Scope,
    cells: Vec<(String, Arc<Cell>)>,
}

impl Lent {
    /// Unlike that of any other.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The place of a variable among the cells.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.cells.binary_search_by(|(own, _)| own.as_str().cmp(name)).ok()
    }

    pub(crate) fn cell(&self, at: usize) -> &Cell {
        &self.cells[at].1
    }

    /// Puts everything back into the scopes; nobody trains any more.
    pub(crate) fn give_back(&self) {
        for (_, cell) in &self.cells {
            let mut scope = Some(&self.scope);
            while let Some(here) = scope {
                scope = if here.take_back(cell) { None } else { here.parent() };
            }
        }
    }
}

/// Where a variable is, seen from a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VarPlace {
    pub(crate) depth: usize,
    pub(crate) at: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kid_sees_its_parents_variables() {
        let root = Scope::new();
        root.set("w", Tensor::full([1], 2.0f32));
        let kid = root.new_scope();
        assert_eq!(kid.get("w"), root.get("w"));
        kid.write("w", |value| *value = Value::Empty);
        assert_eq!(root.get("w"), Some(Value::Empty), "written where it was found");
        kid.var("own");
        assert_eq!(root.get("own"), None);
    }

    #[test]
    fn what_is_lent_is_seen_and_comes_back() {
        let root = Scope::new();
        root.set("w", Tensor::full([1], 2.0f32));
        let kid = root.new_scope();
        let names = BTreeSet::from(["w".to_string(), "new".to_string()]);
        let lent = kid.lend(&names, |_| false);
        assert_eq!(lent.find("w"), Some(1));
        assert_eq!(root.get("w").unwrap().tensor().unwrap().get_f64(0), 2.0);
        kid.set("w", Tensor::full([1], 3.0f32));
        root.set("beside", Tensor::full([1], 1.0f32));
        lent.give_back();
        assert_eq!(root.get("w"), Some(Tensor::full([1], 3.0f32).into()));
        assert_eq!(kid.get("new"), Some(Value::Empty));
        assert!(!kid.hold().is_empty(), "nobody is waited for");
    }

    #[test]
    fn what_is_changed_meanwhile_is_noted() {
        let root = Scope::new();
        root.set("before", Tensor::full([1], 1.0f32));
        root.watch(true);
        let kid = root.new_scope();
        kid.set("before", Tensor::full([1], 2.0f32));
        kid.set("own", Tensor::full([1], 2.0f32));
        root.set("gone", Tensor::full([1], 2.0f32));
        root.erase(&["gone", "never"]);
        assert_eq!(root.take_changed(), ["before", "gone"].map(str::to_string).into());
        root.watch(false);
        root.set("before", Tensor::full([1], 3.0f32));
        assert!(root.take_changed().is_empty() && kid.take_changed().is_empty());
        assert_eq!(root.own_vars(|name| name == "before").len(), 1);
        assert_eq!(kid.get_own("before"), None);
    }

    #[test]
    fn an_erased_variable_is_gone() {
        let scope = Scope::new();
        scope.set("w", Tensor::full([1], 2.0f32));
        scope.erase(&["w", "never"]);
        assert_eq!(scope.get("w"), None);
        assert!(scope.names().is_empty());
    }
}
