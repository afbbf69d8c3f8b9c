//! A program with every op and variable resolved, and the memory of its temporaries.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::DidYouMean;
use program::distributed::route::{self, Route, Servers};
use program::names::EMPTY;
use program::op::{Spare, Wiring};
use program::{Error as ProgramError, Program, VarDesc, VarKind};
use tensor::{Tensor, Value};

use super::Feed;
use super::borrow::Borrows;
use super::fetched::Fetched;
use super::keyed::KeyedPart;
use super::plan::{self, BlockPlan};
use super::step::{self, Step, Watch};
use super::{Options, fuse, hoist, liveness};
use crate::error::{Error, Result};
use crate::scope::{Lent, Scope, VarPlace};

/// Ready to run: see the module.
#[derive(Debug)]
pub struct Prepared {
    blocks: Vec<Vec<Step>>,
    vars: Vec<Value>,
    spare: Spare,
    /// Where each fed tensor goes, and what it must look like.
    feeds: Vec<(usize, VarDesc)>,
    fetches: Vec<PreparedFetch>,
    /// Variables of the scope: place here, name.
    persistables: Vec<(usize, String)>,
    /// Where the persistables are in the scope that was used last.
    bound: Option<Bound>,
    /// Which of them are borrowed, by whom and when, if threads train together.
    borrows: Option<Arc<Borrows>>,
    /// Cleared before each run: something might read them before they are written.
    stale: Vec<usize>,
    /// Data variables by place, for the error when one was not fed.
    data: HashSet<String>,
}

#[derive(Debug)]
struct PreparedFetch {
    slot: usize,
    name: String,
    /// Belongs to the scope or the caller: fetched by copy.
    lent: bool,
}

#[derive(Debug)]
struct Bound {
    scope: u64,
    generation: u64,
    places: Vec<VarPlace>,
}

/// Blocks whose variables have slots.
struct Wired<'a> {
    slots: Slots<'a>,
    blocks: Vec<Vec<Step>>,
}

impl Prepared {
    pub(super) fn new(
        program: &Program,
        feed: &Feed,
        fetch: &[&str],
        options: Options,
        servers: &Servers<'_>,
    ) -> Result<Self> {
        program.check_blocks()?;
        let feeds = check_feeds(program, feed)?;
        let pinned = pinned(program, feed, fetch);
        let mut plans = Vec::with_capacity(program.blocks().len());
        let run = program.blocks_that_run();
        for (id, block) in program.blocks().iter().enumerate() {
            // Blocks left behind by ops that are on servers now may name variables that are there.
            let ops = if run.contains(&id) { &block.ops[..] } else { &[] };
            plans.push(BlockPlan::new(block.idx, ops, pinned.clone(), servers)?);
        }
        if options.fuse && !options.check_nan_inf && !options.profile {
            fuse::fuse(&mut plans[0], program);
            hoist::hoist(&mut plans[0]);
        }
        check_fetches(program, &plans, feed, fetch)?;
        let mut unwritten = read_before_written(&plans, &feeds);
        unwritten.extend(lists(program));
        let mut slots = Slots::new(program);
        if options.reuse_memory {
            let given = given_away(&plans[0]);
            let temporary = |var: &str| {
                !pinned.contains(var) && !unwritten.contains(var) && !given.contains(var)
            };
            slots.share(liveness::share(&plans[0], program, temporary));
        }
        let blocks: Result<Vec<_>> =
            plans.into_iter().enumerate().map(|(id, plan)| slots.wire(id, plan)).collect();
        let wired = Wired { slots, blocks: blocks? };
        Ok(Self::assemble(program, wired, feeds, fetch, &unwritten))
    }

    fn assemble(
        program: &Program,
        wired: Wired<'_>,
        feeds: Vec<VarDesc>,
        fetch: &[&str],
        unwritten: &HashSet<String>,
    ) -> Self {
        let Wired { mut slots, blocks } = wired;
        let fed: HashSet<String> = feeds.iter().map(|var| var.name.clone()).collect();
        let is_persistable = |name: &str| {
            program.find_var(0, name).is_some_and(|var| var.persistable) && !fed.contains(name)
        };
        let fetches = fetch.iter().map(|&name| PreparedFetch {
            slot: slots.slot(0, name).unwrap_or_default(),
            name: name.to_string(),
            lent: is_persistable(name) || fed.contains(name),
        });
        let fetches = fetches.collect();
        let data = program.list_vars().filter(|var| var.is_data).map(|var| var.name.clone());
        // A file does not say what is data; what nothing computes can only be fed.
        let data = data.chain(program.unfed(&[])).collect();
        let feeds =
            feeds.into_iter().map(|var| (slots.slot(0, &var.name).unwrap_or_default(), var));
        let feeds = feeds.collect();
        let SlotsByHome { persistable: persistables, other: others } =
            slots.by_home(&is_persistable);
        let stale = others.into_iter().filter(|(_, name)| unwritten.contains(name));
        let stale = stale.map(|(slot, _)| slot).collect();
        let mut vars = Vec::new();
        vars.resize_with(slots.n_slots, Value::default);
        let spare = Spare::default();
        let bound = None;
        let borrows = None;
        Self { blocks, vars, spare, feeds, fetches, persistables, bound, borrows, stale, data }
    }

    /// How many ops run after fusion, in block 0.
    pub fn n_ops(&self) -> usize {
        self.blocks[0].len()
    }

    /// The ops that run in block 0 after fusion, one line each.
    pub fn describe(&self) -> Vec<String> {
        self.blocks[0].iter().map(|step| step.desc.to_string()).collect()
    }

    /// Bytes of memory the temporaries hold.
    pub fn temporary_bytes(&self) -> usize {
        self.vars.iter().filter_map(Value::tensor).map(Tensor::capacity).sum()
    }

    pub(super) fn run<F: Fetched>(
        &mut self,
        feed: &mut Feed,
        fetched: &mut Vec<F>,
        watch: &mut Watch<'_>,
    ) -> Result<()> {
        let scope = watch.scope;
        self.check_fed(feed)?;
        self.bind(scope);
        for &slot in &self.stale {
            self.vars[slot] = Value::Empty;
        }
        let mut held = scope.hold();
        let places = self.bound.as_ref().map_or(&[] as &[VarPlace], |bound| &bound.places);
        let mut exchange = |vars: &mut [Value]| {
            for (&(slot, _), place) in self.persistables.iter().zip(places) {
                std::mem::swap(&mut vars[slot], held[place.depth].value_mut(place.at));
            }
        };
        exchange(&mut self.vars);
        swap_feeds(&self.feeds, feed, &mut self.vars);
        let result = step::run_block(&self.blocks, 0, &mut self.vars, &mut self.spare, watch);
        let result = result.and_then(|()| fetch(&self.fetches, &mut self.vars, fetched));
        swap_feeds(&self.feeds, feed, &mut self.vars);
        exchange(&mut self.vars);
        result.map_err(|error| name_unfed(error, &self.data, feed))
    }

    /// Runs with variables that other threads train too: an op borrows them while it runs. What is
    /// not lent is in the scope itself.
    pub(super) fn run_lent<F: Fetched>(
        &mut self,
        feed: &mut Feed,
        fetched: &mut Vec<F>,
        watch: &mut Watch<'_>,
        lent: &Arc<Lent>,
    ) -> Result<()> {
        let scope = watch.scope;
        self.check_fed(feed)?;
        let borrows = self.borrows(lent);
        let own = self.persistables.iter().filter(|(slot, _)| !borrows.is_lent(*slot));
        let exchange = |vars: &mut [Value]| {
            for (slot, name) in own.clone() {
                scope.write_own(name, |value| std::mem::swap(value, &mut vars[*slot]));
            }
        };
        exchange(&mut self.vars);
        for &slot in &self.stale {
            self.vars[slot] = Value::Empty;
        }
        swap_feeds(&self.feeds, feed, &mut self.vars);
        watch.borrows = Some(borrows.clone());
        let result = step::run_block(&self.blocks, 0, &mut self.vars, &mut self.spare, watch);
        let result = result.and_then(|()| {
            let slots: Vec<usize> = self.fetches.iter().map(|fetch| fetch.slot).collect();
            let borrowed = borrows.borrow_slots(&slots, &mut self.vars);
            let result = fetch(&self.fetches, &mut self.vars, fetched);
            borrows.hand_back_slots(&borrowed, &mut self.vars);
            result
        });
        swap_feeds(&self.feeds, feed, &mut self.vars);
        exchange(&mut self.vars);
        result.map_err(|error| name_unfed(error, &self.data, feed))
    }

    /// The parts of `lent` that ops borrow, found out once.
    fn borrows(&mut self, lent: &Arc<Lent>) -> Arc<Borrows> {
        match &self.borrows {
            Some(borrows) if borrows.is_of(lent) => borrows.clone(),
            _ => {
                let places = self.persistables.iter().map(|(slot, name)| (*slot, name.as_str()));
                let borrows = Arc::new(Borrows::new(lent, &self.blocks, places));
                self.borrows = Some(borrows.clone());
                borrows
            }
        }
    }

    /// Finds the persistables in this scope, unless it is the scope of the run before.
    fn bind(&mut self, scope: &Scope) {
        let (id, generation) = (scope.id(), scope.generation());
        let same = |bound: &Bound| bound.scope == id && bound.generation == generation;
        if !self.bound.as_ref().is_some_and(same) {
            let places = scope.places(self.persistables.iter().map(|(_, name)| name.as_str()));
            let generation = scope.generation();
            self.bound = Some(Bound { scope: id, generation, places });
        }
    }

    fn check_fed(&self, feed: &Feed) -> Result<()> {
        for ((_, var), tensor) in self.feeds.iter().zip(feed.tensors()) {
            let name = || var.name.clone();
            if !tensor.is_initialized() {
                return Err(Error::FeedEmpty { var: name(), actual: "nothing" });
            }
            if !var.need_check_feed {
                continue;
            }
            let (declared, fed) = (&var.meta.dims, tensor.dims());
            let agree = |(&declared, &fed): (&i64, &usize)| declared < 0 || declared == fed as i64;
            if declared.len() != fed.len() || !declared.iter().zip(fed).all(agree) {
                let (declared, fed) = (declared.clone(), tensor.shape().to_i64());
                return Err(Error::FeedShape { var: name(), declared, fed });
            }
            if var.meta.dtype != tensor.dtype() {
                let (declared, fed) = (var.meta.dtype, tensor.dtype());
                return Err(Error::FeedDType { var: name(), declared, fed });
            }
        }
        Ok(())
    }
}

/// Lends the caller's tensors to the variables, or gives them back.
fn swap_feeds(feeds: &[(usize, VarDesc)], feed: &mut Feed, vars: &mut [Value]) {
    for ((slot, _), tensor) in feeds.iter().zip(feed.tensors_mut()) {
        match &mut vars[*slot] {
            Value::Tensor(held) => std::mem::swap(held, tensor),
            other => *other = Value::Tensor(std::mem::take(tensor)),
        }
    }
}

/// Hands results over.
fn fetch<F: Fetched>(
    fetches: &[PreparedFetch],
    vars: &mut [Value],
    fetched: &mut Vec<F>,
) -> Result<()> {
    fetched.resize_with(fetches.len(), F::default);
    for (k, (fetch, result)) in fetches.iter().zip(&mut *fetched).enumerate() {
        // The second fetch of one variable finds it moved, unless both copy.
        let moves = fetches[k + 1..].iter().all(|later| later.slot != fetch.slot) && !fetch.lent;
        let value = &mut vars[fetch.slot];
        if value.is_empty() {
            let (port, var) = ("X".to_string(), fetch.name.clone());
            return Err(ProgramError::NotInitialized { port, var }.into());
        }
        if !result.take(value, moves) {
            return Err(Error::FetchKind { var: fetch.name.clone(), actual: value.kind() });
        }
    }
    Ok(())
}

/// An unfed data variable is not "uninitialized": the message must say what to do.
fn name_unfed(error: Error, data: &HashSet<String>, feed: &Feed) -> Error {
    fn walk(error: &mut ProgramError, data: &HashSet<String>, feed: &Feed) {
        match error {
            ProgramError::InOp { source, .. } | ProgramError::InVar { source, .. } => {
                walk(source, data, feed);
            }
            ProgramError::NotInitialized { port, var } if data.contains(var) => {
                let (port, var) = (std::mem::take(port), std::mem::take(var));
                let near = DidYouMean::among(&var, feed.strays());
                let fed = feed.names().chain(feed.strays()).map(str::to_string).collect();
                *error = ProgramError::NotFed { port, var, fed, near };
            }
            _ => {}
        }
    }
    let Error::Program(mut inner) = error else { return error };
    walk(&mut inner, data, feed);
    Error::Program(inner)
}

fn check_feeds(program: &Program, feed: &Feed) -> Result<Vec<VarDesc>> {
    // The declared shape of a variable that an op changes in place is the one after the op.
    let written: HashSet<&str> = program.block(0).ops.iter().flat_map(|op| op.writes()).collect();
    let declared = |name: &str| {
        let var = program.find_var(0, name).cloned();
        let mut var = var.ok_or_else(|| Error::feed_not_declared(name, program))?;
        var.need_check_feed &= !written.contains(name);
        Ok(var)
    };
    feed.names().map(declared).collect()
}

fn check_fetches(
    program: &Program,
    plans: &[BlockPlan],
    feed: &Feed,
    fetch: &[&str],
) -> Result<()> {
    let ops = plans.iter().flat_map(|plan| &plan.ops);
    let written: HashSet<&str> = ops.flat_map(|planned| planned.desc.writes()).collect();
    for &name in fetch {
        let var = name.to_string();
        let desc = program.find_var(0, name);
        let desc = desc.ok_or_else(|| Error::fetch_unknown(name, program))?;
        let written = written.contains(name);
        if !written && !desc.persistable && feed.names().all(|fed| fed != name) {
            return Err(Error::FetchNotComputed { var });
        }
    }
    Ok(())
}

fn pinned(program: &Program, feed: &Feed, fetch: &[&str]) -> HashSet<String> {
    let persistable = program.list_vars().filter(|var| var.persistable);
    let mut pinned: HashSet<String> = persistable.map(|var| var.name.clone()).collect();
    pinned.extend(feed.names().map(str::to_string));
    pinned.extend(fetch.iter().map(|name| name.to_string()));
    pinned.extend(plan::shared_by_blocks(program));
    pinned.extend(program.unshared().iter().cloned());
    pinned
}

/// The variables of each place that several share, when nothing is fetched.
pub fn sharing(program: &Program) -> Result<Vec<Vec<String>>> {
    let servers = Servers { job: None, endpoints: &[], vars: &[] };
    let mut pinned = pinned(program, &Feed::new(), &[]);
    let data = program.list_vars().filter(|var| var.is_data).map(|var| var.name.clone());
    pinned.extend(data);
    let plan = BlockPlan::new(0, &program.block(0).ops, pinned.clone(), &servers)?;
    let written: HashSet<&str> = plan.ops.iter().flat_map(|op| op.desc.writes()).collect();
    let may_share = |var: &str| !pinned.contains(var) && written.contains(var);
    let shared = liveness::share(&plan, program, may_share);
    let mut places = vec![Vec::new(); shared.n_places];
    for (name, place) in shared.place_of {
        places[place].push(name);
    }
    places.iter_mut().for_each(|names| names.sort_unstable());
    places.retain(|names| names.len() > 1);
    Ok(places)
}

/// Variables whose memory goes to servers or other trainers and is exchanged for other memory that they can
/// read: it is of use for a variable of the same size only.
fn given_away(plan: &BlockPlan) -> HashSet<String> {
    let is_given = |planned: &&plan::Planned| match &planned.route {
        Some(Route::Send(route::Send::Grads(grads))) => grads.for_good,
        _ => false,
    };
    let given = plan.ops.iter().filter(is_given);
    let given = given.flat_map(|planned| planned.desc.input_names("X"));
    given.chain(fuse::exchanged(plan)).cloned().collect()
}

/// Lists of tensors, and their gradients: ops of all blocks add to them, so a run begins with empty ones.
fn lists(program: &Program) -> impl Iterator<Item = String> {
    let lists = program.list_vars().filter(|var| var.meta.kind == VarKind::LodTensorArray);
    lists.map(|var| var.name.clone())
}

/// Variables that some op may read before any op of the same run has written them. A variable that only
/// a sub-block writes counts: that block may not have run.
fn read_before_written(plans: &[BlockPlan], feeds: &[VarDesc]) -> HashSet<String> {
    let mut written: HashSet<&str> = feeds.iter().map(|var| var.name.as_str()).collect();
    let mut early = HashSet::new();
    for (block, plan) in plans.iter().enumerate() {
        for planned in &plan.ops {
            early.extend(planned.desc.reads().filter(|var| !written.contains(var)));
            if block == 0 {
                written.extend(planned.desc.writes());
            }
        }
    }
    early.into_iter().map(str::to_string).collect()
}

/// Gives places to variables.
struct Slots<'a> {
    program: &'a Program,
    n_slots: usize,
    /// By owner block and name.
    slots: HashMap<(usize, String), usize>,
}

impl<'a> Slots<'a> {
    fn new(program: &'a Program) -> Self {
        Self { program, n_slots: 0, slots: HashMap::new() }
    }

    fn share(&mut self, sharing: liveness::Sharing) {
        let places = sharing.place_of.into_iter();
        self.slots.extend(places.map(|(name, place)| ((0, name), place)));
        self.n_slots = sharing.n_places;
    }

    /// The place of a variable seen from a block.
    fn slot(&mut self, block: usize, name: &str) -> Result<usize> {
        let owner = self.program.owner_of(block, name);
        let owner =
            owner.ok_or_else(|| ProgramError::unknown_var(name, self.program.list_vars()))?;
        Ok(*self.slots.entry((owner, name.to_string())).or_insert_with(|| {
            self.n_slots += 1;
            self.n_slots - 1
        }))
    }

    fn wire(&mut self, block: usize, plan: BlockPlan) -> Result<Vec<Step>> {
        let mut steps = Vec::with_capacity(plan.ops.len());
        for planned in plan.ops {
            let mut failed = None;
            let mut wiring = Wiring::new(&planned.desc, |name| match self.slot(block, name) {
                Ok(slot) => slot,
                Err(error) => {
                    failed.get_or_insert(error);
                    0
                }
            });
            if let Some(error) = failed {
                return Err(in_planned(block, &planned, error));
            }
            for inner in planned.op.inner(&planned.desc, self.program) {
                let place = |name: &String| {
                    if name == EMPTY { Ok(None) } else { self.slot(inner.block, name).map(Some) }
                };
                let slots: Result<Vec<_>> = inner.vars.iter().map(place).collect();
                wiring.attach(inner.port, slots.map_err(|e| in_planned(block, &planned, e))?);
            }
            let plan::Planned { desc, op, index, route } = planned;
            let keyed = KeyedPart::of(&desc, self.program, block);
            steps.push(Step { op, desc, wiring: wiring.with_route(route), index, keyed });
        }
        Ok(steps)
    }

    /// All variables, sorted by place.
    fn by_home(&self, is_persistable: &dyn Fn(&str) -> bool) -> SlotsByHome {
        let mut all: Vec<_> =
            self.slots.iter().map(|((_, name), &slot)| (slot, name.clone())).collect();
        all.sort_unstable();
        let (persistable, other) = all.into_iter().partition(|(_, name)| is_persistable(name));
        SlotsByHome { persistable, other }
    }
}

/// Places of variables with their names.
struct SlotsByHome {
    /// Those that live in the scope.
    persistable: Vec<(usize, String)>,
    other: Vec<(usize, String)>,
}

fn in_planned(block: usize, planned: &plan::Planned, error: Error) -> Error {
    let Error::Program(source) = error else { return error };
    planned.desc.failed(block, planned.index, source).into()
}
