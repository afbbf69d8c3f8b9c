//! The variables that only a trainer has: of the scopes and devices that its events use.

use std::collections::HashSet;
use std::sync::Arc;

use program::Distributed;

use super::redo::ScriptWrite;
use super::state::{LocalState, NamedValues};
use crate::error::{Error, Result};
use crate::replicas::Replicas;
use crate::scope::Scope;

/// The objects that an event works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uses<'a> {
    pub(crate) scope: &'a Scope,
    /// The job of the program, if it has one: its parameters are on servers.
    pub(crate) job: Option<&'a Arc<Distributed>>,
    /// Variables of which several devices have their own.
    pub(crate) devices: Option<&'a Replicas>,
}

/// Scopes and devices, numbered in the order of their first use: a script that is run again uses its
/// own in the same order. Those that the script has dropped are removed.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    scopes: Vec<Used>,
    devices: Vec<(u64, Replicas)>,
    n_scopes: u64,
    n_devices: u64,
    job: Option<Arc<Distributed>>,
    /// Variables that servers have.
    placed: HashSet<String>,
}

#[derive(Debug)]
struct Used {
    number: u64,
    scope: Scope,
    /// Programs of the job ran here: what servers have is theirs.
    is_of_job: bool,
    /// Programs ran in this scope itself, not only in one inside it.
    is_run_in: bool,
    /// The values before the first use, until that is older than every cut that counts.
    before: Option<NamedValues>,
}

impl Scopes {
    /// An event uses this from now on.
    pub(super) fn add(&mut self, uses: &Uses<'_>) {
        if let Some(job) = uses.job.filter(|job| !self.is_joined(job)) {
            self.placed = job.placement.iter().map(|placed| placed.origin.clone()).collect();
            self.job = Some(job.clone());
        }
        let mut chain = vec![uses.scope];
        while let Some(parent) = chain.last().and_then(|scope| scope.parent()) {
            chain.push(parent);
        }
        for scope in chain.into_iter().rev() {
            let used = self.add_scope(scope, uses.job.is_some());
            used.is_run_in |= uses.job.is_some() && scope.id() == uses.scope.id();
        }
        if let Some(devices) = uses.devices
            && !self.devices.iter().any(|(_, known)| known.is(devices))
        {
            self.devices.push((self.n_devices, devices.clone()));
            self.n_devices += 1;
        }
    }

    fn is_joined(&self, job: &Arc<Distributed>) -> bool {
        self.job.as_ref().is_some_and(|own| Arc::ptr_eq(own, job) || own.digest == job.digest)
    }

    fn add_scope(&mut self, scope: &Scope, is_of_job: bool) -> &mut Used {
        let known = self.scopes.iter().position(|used| used.scope.id() == scope.id());
        let at = known.unwrap_or(self.scopes.len());
        if known.is_none() {
            let is_elsewhere = |name: &str| is_of_job && self.placed.contains(name);
            let before = Some(scope.own_vars(|name| !is_elsewhere(name)));
            let number = self.n_scopes;
            let scope = scope.clone();
            let is_run_in = false;
            self.scopes.push(Used { number, scope, is_of_job, is_run_in, before });
            self.n_scopes += 1;
        }
        let used = &mut self.scopes[at];
        used.is_of_job |= is_of_job;
        used
    }

    /// The job, and the scopes that its parameters belong in.
    pub(super) fn of_job(&self) -> Option<(Arc<Distributed>, Vec<Scope>)> {
        let scopes = self.scopes.iter().filter(|used| used.is_run_in);
        Some((self.job.clone()?, scopes.map(|used| used.scope.clone()).collect()))
    }

    /// From now on, or no longer, changes are noted that a script makes by itself.
    pub(super) fn watch(&self, is_on: bool) {
        self.scopes.iter().for_each(|used| used.scope.watch(is_on));
    }

    /// Variables that the script itself has changed.
    pub(super) fn written(&self) -> Vec<ScriptWrite> {
        let mut written = Vec::new();
        for Used { scope, .. } in &self.scopes {
            for name in scope.take_changed() {
                let value = scope.get_own(&name);
                written.push(ScriptWrite { scope: scope.clone(), name, value });
            }
        }
        written
    }

    /// Forgets what only this list has.
    fn forget_dropped(&mut self) {
        self.devices.retain(|(_, devices)| !devices.is_alone());
        let mut own: HashSet<u64> = self.scopes.iter().map(|used| used.scope.id()).collect();
        // Those inside come after those around them, which they have.
        for at in (0..self.scopes.len()).rev() {
            let scope = &self.scopes[at].scope;
            if !scope.is_held(&|scope| usize::from(own.contains(&scope.id()))) {
                own.remove(&scope.id());
                self.scopes.remove(at);
            }
        }
    }

    /// Adds everything to a state.
    pub(super) fn save(&mut self, state: &mut LocalState) {
        self.forget_dropped();
        for used in &self.scopes {
            let vars = used.scope.own_vars(|name| !self.is_elsewhere(used, name));
            state.scopes.insert(used.number, vars);
        }
        for (number, devices) in &self.devices {
            state.devices.insert(*number, devices.lock().clone());
        }
    }

    fn is_elsewhere(&self, used: &Used, name: &str) -> bool {
        used.is_of_job && self.placed.contains(name)
    }

    /// Restores all variables; a scope that was not used yet gets the values from before its first use. Variables that the script
    /// has dropped stay away.
    pub(super) fn restore(&self, state: &LocalState) -> Result<()> {
        let last = state.scopes.last_key_value().map_or(0, |(number, _)| number + 1);
        if last > self.n_scopes {
            return Err(Error::BadState("it has more scopes than the script"));
        }
        for used in &self.scopes {
            let vars = state.scopes.get(&used.number).or(used.before.as_ref());
            let Some(vars) = vars else { continue };
            for name in used.scope.names() {
                if !vars.contains_key(&name) && !self.is_elsewhere(used, &name) {
                    used.scope.erase(&[&name]);
                }
            }
            for (name, value) in vars {
                used.scope.write_own(name, |own| *own = value.clone());
            }
        }
        for (number, devices) in &self.devices {
            *devices.lock() = state.devices.get(number).cloned().unwrap_or_default();
        }
        Ok(())
    }

    /// Nobody goes back behind a cut by which so many scopes had been used.
    pub(super) fn forget_before(&mut self, n_scopes: u64) {
        let known = self.scopes.iter_mut().filter(|used| used.number < n_scopes);
        known.for_each(|used| used.before = None);
    }

    /// How many scopes were used so far.
    pub(super) fn n_scopes(&self) -> u64 {
        self.n_scopes
    }
}
