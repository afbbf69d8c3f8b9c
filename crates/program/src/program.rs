//! The program: blocks of ops as plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::block::{Block, OpDesc};
use crate::distributed::Distributed;
use crate::error::{Error, Result};
use crate::role;
use crate::site::Site;
use crate::var::VarDesc;

/// Index of a block in its program.
pub type BlockId = usize;

/// A computation. Block 0 is the outermost.
#[derive(Debug)]
pub struct Program {
    id: u64,
    version: u64,
    blocks: Vec<Block>,
    current: BlockId,
    /// Seeds random ops whose own seed is 0; 0 itself means "differently each time".
    pub random_seed: i32,
    /// Role given to appended ops that have none; see [`crate::role`].
    pub role: i32,
    /// `op_role_var` given to appended ops while it is not empty.
    pub role_vars: Vec<String>,
    /// `op_namescope` given to appended ops.
    pub namescope: String,
    /// Given to appended ops that have none: the line of the script that is at work.
    pub site: Site,
    /// How often each scope was entered; a later one is numbered.
    scopes: BTreeMap<String, u32>,
    /// Backward passes appended so far; a later one prefixes its names.
    pub n_backwards: u32,
    /// The job this program is a part of, once it was transpiled; not part of its bytes.
    pub distributed: Option<Arc<Distributed>>,
    /// Variables that must not share memory with others; not part of its bytes.
    unshared: BTreeSet<String>,
    /// Version number of the format, as found in a file.
    pub format_version: i64,
    /// Fields next to that number that this version does not know.
    pub unknown_version: Vec<u8>,
    /// Fields of a file that this version does not know.
    pub unknown: Vec<u8>,
}

/// Tells programs apart in caches; never part of a result.
fn fresh_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Default for Program {
    fn default() -> Self {
        Self::from_blocks(vec![Block::new(0, -1)])
    }
}

/// A copy is another program: caches do not confuse the two.
impl Clone for Program {
    fn clone(&self) -> Self {
        Self {
            id: fresh_id(),
            version: 0,
            blocks: self.blocks.clone(),
            namescope: self.namescope.clone(),
            site: self.site.clone(),
            scopes: self.scopes.clone(),
            distributed: self.distributed.clone(),
            unshared: self.unshared.clone(),
            role_vars: self.role_vars.clone(),
            unknown_version: self.unknown_version.clone(),
            unknown: self.unknown.clone(),
            ..*self
        }
    }
}

/// Equal contents; identity and edit count do not matter.
impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.blocks == other.blocks
            && self.random_seed == other.random_seed
            && self.format_version == other.format_version
            && self.unknown_version == other.unknown_version
            && self.unknown == other.unknown
    }
}

impl Program {
    /// A program of these blocks.
    pub fn from_blocks(blocks: Vec<Block>) -> Self {
        Self {
            id: fresh_id(),
            version: 0,
            blocks,
            current: 0,
            random_seed: 0,
            role: role::FORWARD,
            role_vars: Vec::new(),
            namescope: "/".to_string(),
            site: Site::default(),
            scopes: BTreeMap::new(),
            n_backwards: 0,
            distributed: None,
            unshared: BTreeSet::new(),
            format_version: 0,
            unknown_version: Vec::new(),
            unknown: Vec::new(),
        }
    }

    /// The same program of other blocks.
    pub(crate) fn with_blocks(self, blocks: Vec<Block>) -> Self {
        Self { blocks, current: 0, version: self.version + 1, ..self }
    }

    /// Unlike that of any other program in this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Grows with every change, so that what was prepared for an older one is not used.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Takes the contents of another program and gives its own away; its identity stays.
    pub fn replace(&mut self, mut by: Program) -> Program {
        std::mem::swap(&mut self.id, &mut by.id);
        by.version = by.version.max(self.version) + 1;
        std::mem::replace(self, by)
    }

    /// Variables that must not share memory with others.
    pub fn unshared(&self) -> &BTreeSet<String> {
        &self.unshared
    }

    /// From now on these variables share no memory with others (`memory_optimize(skip_opt_set=)`).
    pub fn keep_apart(&mut self, names: impl IntoIterator<Item = String>) {
        self.unshared.extend(names);
        self.version += 1;
    }

    /// The blocks.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// A block; asking for one that is not there is a bug of the caller.
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id]
    }

    /// A block to change.
    pub fn block_mut(&mut self, id: BlockId) -> &mut Block {
        self.version += 1;
        &mut self.blocks[id]
    }

    /// Opens a scope inside the current one: ops are annotated with `…/prefix/`, or `…/prefix_1/`
    /// the second time. Returns the scope around, to be put back.
    pub fn enter_scope(&mut self, prefix: &str) -> String {
        let inside = format!("{}{prefix}", self.namescope);
        let before = self.scopes.entry(inside.clone()).or_default();
        let number = if *before == 0 { String::new() } else { format!("_{before}") };
        *before += 1;
        std::mem::replace(&mut self.namescope, format!("{inside}{number}/"))
    }

    /// The block that layers write to.
    pub fn current_block(&self) -> BlockId {
        self.current
    }

    /// Opens a block inside the current one and makes it current.
    pub fn push_block(&mut self) -> BlockId {
        self.open_block(self.current)
    }

    /// Opens a block inside another one and makes it current.
    pub fn open_block(&mut self, parent: BlockId) -> BlockId {
        self.current = self.append_block(parent);
        self.current
    }

    /// Takes over which variables are inputs, and which stop gradients, from a program of as many
    /// blocks whose variables these are; false if `other` is not such a program.
    pub fn take_marks(&mut self, other: &Program) -> bool {
        let alike = |(mine, other): (&Block, &Block)| {
            mine.vars().len() == other.vars().len()
                && mine.vars().iter().all(|var| other.var(&var.name).is_some())
        };
        let same = self.blocks.len() == other.blocks.len()
            && self.blocks.iter().zip(&other.blocks).all(alike);
        if !same {
            return false;
        }
        for (id, block) in other.blocks.iter().enumerate() {
            for from in block.vars() {
                if let Some(var) = self.block_mut(id).var_mut(&from.name) {
                    (var.is_data, var.stop_gradient) = (from.is_data, from.stop_gradient);
                }
            }
        }
        true
    }

    /// Facts of the front end about variables that are not in their bytes, one line each.
    pub fn marks(&self) -> String {
        let mark = |var: &VarDesc| {
            let trainable = var.param.as_ref().map(|param| param.trainable);
            format!(
                "{}: stop_gradient={} is_data={} trainable={trainable:?}\n",
                var.name, var.stop_gradient, var.is_data
            )
        };
        self.list_vars().map(mark).collect()
    }

    /// A new block inside another; the current one stays.
    pub fn append_block(&mut self, parent: BlockId) -> BlockId {
        let id = self.blocks.len();
        self.version += 1;
        self.blocks.push(Block::new(id as i32, parent as i32));
        id
    }

    /// Closes the current block: layers write to the one around it again.
    pub fn pop_block(&mut self) {
        self.current = self.blocks[self.current].parent.max(0) as usize;
    }

    /// A variable seen from a block: there, or in a block around it.
    pub fn find_var(&self, block: BlockId, name: &str) -> Option<&VarDesc> {
        let owner = self.owner_of(block, name)?;
        self.blocks[owner].var(name)
    }

    /// The block that owns the variable seen from `block`.
    pub fn owner_of(&self, mut block: BlockId, name: &str) -> Option<BlockId> {
        loop {
            if self.blocks[block].var(name).is_some() {
                return Some(block);
            }
            let parent = self.blocks[block].parent;
            block =
                usize::try_from(parent).ok().filter(|&p| p < self.blocks.len() && p != block)?;
        }
    }

    /// The variable, or the error that there is none.
    pub fn need_var(&self, block: BlockId, name: &str) -> Result<&VarDesc> {
        self.find_var(block, name).ok_or_else(|| Error::unknown_var(name, self.list_vars()))
    }

    /// Every variable of every block.
    pub fn list_vars(&self) -> impl Iterator<Item = &VarDesc> {
        self.blocks.iter().flat_map(|block| block.vars())
    }

    /// The parameters in order of creation.
    pub fn parameters(&self) -> impl Iterator<Item = &VarDesc> {
        self.list_vars().filter(|var| var.param.is_some())
    }

    /// Gives an op that joins the program what all ops have.
    pub(crate) fn fill_common_attrs(&self, op: &mut OpDesc) {
        if op.site.is_unknown() {
            op.site = self.site.clone();
        }
        if op.attrs.get(role::ROLE).is_none() {
            op.attrs.set(role::ROLE, self.role);
        }
        if !self.role_vars.is_empty() && op.attrs.get(role::ROLE_VAR).is_none() {
            op.attrs.set(role::ROLE_VAR, self.role_vars.clone());
        }
        if op.attrs.get(role::NAMESCOPE).is_none() {
            op.attrs.set(role::NAMESCOPE, self.namescope.as_str());
        }
    }
}
