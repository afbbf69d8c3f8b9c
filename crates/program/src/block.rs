//! Blocks: variables and the ops over them, in order.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::attr::{Attr, Attrs};
use crate::error::{Error, Result};
use crate::names::EMPTY;
use crate::role;
use crate::site::Site;
use crate::var::VarDesc;

/// One op: its type, which variables go in and out by port, and its attributes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpDesc {
    /// The op's name in the table of ops.
    pub kind: String,
    /// Ports with the variables that are read, in order of declaration.
    pub inputs: Vec<(String, Vec<String>)>,
    /// Ports with the variables that are written.
    pub outputs: Vec<(String, Vec<String>)>,
    /// Everything else.
    pub attrs: Attrs,
    /// Where the script built it; no part of its bytes.
    pub site: Site,
    /// Kept from files; nothing here reads it.
    pub is_target: bool,
    /// Parts of its bytes that this version does not know, kept for the next writer.
    pub unknown: OpUnknown,
    /// Tells it apart from the other ops of its block, wherever it stands.
    pub id: OpId,
}

/// Which op of a program this is: it stays when others are put before it, and in copies of the
/// program. Two ops that say the same are equal whatever their ids are.
#[derive(Clone, Copy, Debug, Eq)]
pub struct OpId(u64);

impl Default for OpId {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl PartialEq for OpId {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl OpId {
    /// Whether both are of one op.
    pub fn is(self, other: Self) -> bool {
        self.0 == other.0
    }

    /// Unlike that of any other op in this process.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// Bytes of fields of an op that this version does not know, per message they were found in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpUnknown {
    /// Of the message itself.
    pub own: Vec<u8>,
    /// Of the input ports, by their name.
    pub inputs: BTreeMap<String, Vec<u8>>,
    /// Of the output ports, by their name.
    pub outputs: BTreeMap<String, Vec<u8>>,
    /// Of the attributes, by their name.
    pub attrs: BTreeMap<String, Vec<u8>>,
}

/// Variables for a port: one or several names.
pub trait VarNames {
    /// The names.
    fn names(self) -> Vec<String>;
}

impl VarNames for &str {
    fn names(self) -> Vec<String> {
        vec![self.to_string()]
    }
}
impl VarNames for &String {
    fn names(self) -> Vec<String> {
        vec![self.clone()]
    }
}
impl VarNames for String {
    fn names(self) -> Vec<String> {
        vec![self]
    }
}
impl VarNames for Vec<String> {
    fn names(self) -> Vec<String> {
        self
    }
}
impl VarNames for &[String] {
    fn names(self) -> Vec<String> {
        self.to_vec()
    }
}

impl OpDesc {
    /// An op of this type with nothing attached yet.
    pub fn new(kind: &str) -> Self {
        Self { kind: kind.to_string(), ..Self::default() }
    }

    /// Adds an input port.
    pub fn input(mut self, port: &str, vars: impl VarNames) -> Self {
        self.inputs.push((port.to_string(), vars.names()));
        self
    }

    /// Adds an output port.
    pub fn output(mut self, port: &str, vars: impl VarNames) -> Self {
        self.outputs.push((port.to_string(), vars.names()));
        self
    }

    /// Sets an attribute.
    pub fn attr(mut self, name: &str, value: impl Into<Attr>) -> Self {
        self.attrs.set(name, value);
        self
    }

    /// The variables at an input port; empty if the port is absent.
    pub fn input_names(&self, port: &str) -> &[String] {
        find(&self.inputs, port)
    }

    /// The variables at an output port; empty if the port is absent.
    pub fn output_names(&self, port: &str) -> &[String] {
        find(&self.outputs, port)
    }

    /// Every variable read, in port order, without placeholders.
    pub fn reads(&self) -> impl Iterator<Item = &str> {
        all(&self.inputs)
    }

    /// Every variable written, in port order, without placeholders.
    pub fn writes(&self) -> impl Iterator<Item = &str> {
        all(&self.outputs)
    }

    /// Where it was built: as noted, or as the file says that it came from.
    pub fn built_at(&self) -> Site {
        match self.attrs.get(role::CALLSTACK) {
            Some(Attr::Strs(lines)) if self.site.is_unknown() => Site::from_callstack(lines),
            _ => self.site.clone(),
        }
    }

    /// The error of this op, with its block and its index there.
    pub fn failed(&self, block: usize, index: usize, source: Error) -> Error {
        let (kind, site) = (self.kind.clone(), self.built_at());
        Error::InOp { block, index, kind, op: self.to_string(), site, source: Box::new(source) }
    }

    /// The role attribute, Forward if it has none.
    pub fn role(&self) -> i32 {
        self.attrs.int(role::ROLE, 0).unwrap_or(0) as i32
    }

    /// Whether the op computes gradients.
    pub fn is_backward(&self) -> bool {
        self.role() & role::BACKWARD != 0
    }

    /// Replaces a variable's name among the inputs.
    pub fn rename_input(&mut self, from: &str, to: &str) {
        rename(&mut self.inputs, from, to);
    }

    /// Replaces a variable's name among the outputs.
    pub fn rename_output(&mut self, from: &str, to: &str) {
        rename(&mut self.outputs, from, to);
    }

    /// The blocks this op runs inside of itself.
    pub fn sub_blocks(&self) -> Vec<usize> {
        let mut blocks = Vec::new();
        for (_, attr) in self.attrs.iter() {
            match attr {
                Attr::Block(block) => blocks.push(*block as usize),
                Attr::Blocks(list) => blocks.extend(list.iter().map(|&block| block as usize)),
                _ => {}
            }
        }
        blocks
    }
}

fn find<'a>(ports: &'a [(String, Vec<String>)], port: &str) -> &'a [String] {
    ports.iter().find(|(name, _)| name == port).map_or(&[], |(_, vars)| vars)
}

fn all(ports: &[(String, Vec<String>)]) -> impl Iterator<Item = &str> {
    let vars = ports.iter().flat_map(|(_, vars)| vars);
    vars.map(String::as_str).filter(|&var| var != EMPTY)
}

fn rename(ports: &mut [(String, Vec<String>)], from: &str, to: &str) {
    for var in ports.iter_mut().flat_map(|(_, vars)| vars).filter(|var| *var == from) {
        *var = to.to_string();
    }
}

/// One line: `mul(X=[x], Y=[fc_0.w_0]) -> Out=[fc_0.tmp_0]`.
impl fmt::Display for OpDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = |ports: &[(String, Vec<String>)]| {
            let port =
                |(name, vars): &(String, Vec<String>)| format!("{name}=[{}]", vars.join(", "));
            ports.iter().map(port).collect::<Vec<_>>().join(", ")
        };
        write!(f, "{}({}) -> {}", self.kind, ports(&self.inputs), ports(&self.outputs))
    }
}

/// A list of ops with its variables.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Its number in the program.
    pub idx: i32,
    /// The block around it, -1 for the outermost.
    pub parent: i32,
    /// The forward block of a gradient block, -1 if there is none.
    pub forward_idx: i32,
    vars: Vec<VarDesc>,
    index: HashMap<String, usize>,
    /// The ops in the order they run.
    pub ops: Vec<OpDesc>,
    /// Fields of a file that this version does not know.
    pub unknown: Vec<u8>,
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        (self.idx, self.parent, self.forward_idx) == (other.idx, other.parent, other.forward_idx)
            && self.vars == other.vars
            && self.ops == other.ops
            && self.unknown == other.unknown
    }
}

impl Block {
    /// An empty block.
    pub fn new(idx: i32, parent: i32) -> Self {
        Self { idx, parent, forward_idx: -1, ..Self::default() }
    }

    /// The variables in order of creation.
    pub fn vars(&self) -> &[VarDesc] {
        &self.vars
    }

    /// A variable of this block itself.
    pub fn var(&self, name: &str) -> Option<&VarDesc> {
        self.index.get(name).map(|&at| &self.vars[at])
    }

    /// A variable by name, to change. Changing its name is not possible this way: see [`Block::rename_var`].
    pub fn var_mut(&mut self, name: &str) -> Option<&mut VarDesc> {
        self.index.get(name).map(|&at| &mut self.vars[at])
    }

    /// The variable, or the error that it is not here.
    pub fn need_var(&self, name: &str) -> Result<&VarDesc> {
        self.var(name).ok_or_else(|| Error::unknown_var(name, self.vars.iter()))
    }

    /// Adds a variable, or replaces the one of that name.
    pub fn put_var(&mut self, var: VarDesc) {
        match self.index.get(&var.name) {
            Some(&at) => self.vars[at] = var,
            None => {
                self.index.insert(var.name.clone(), self.vars.len());
                self.vars.push(var);
            }
        }
    }

    /// Adds a variable unless one of that name is there; that one must then be alike.
    pub fn create_var(&mut self, var: VarDesc) -> Result<()> {
        match self.var(&var.name) {
            None => self.put_var(var),
            Some(before) if before.meta == var.meta && before.persistable == var.persistable => {}
            Some(before) => {
                let (before, now) = (before.shown(), var.shown());
                return Err(Error::VarRedefined { var: var.name, before, now });
            }
        }
        Ok(())
    }

    /// Takes variables out.
    pub fn retain_vars(&mut self, keep: impl FnMut(&VarDesc) -> bool) {
        self.vars.retain(keep);
        self.index = self.vars.iter().enumerate().map(|(at, v)| (v.name.clone(), at)).collect();
    }

    /// Renames a variable here and in the ops of this block.
    pub fn rename_var(&mut self, from: &str, to: &str) -> Result<()> {
        self.need_var(from)?;
        let at = self.index.remove(from).expect("it is there");
        self.vars[at].name = to.to_string();
        self.index.insert(to.to_string(), at);
        for op in &mut self.ops {
            op.rename_input(from, to);
            op.rename_output(from, to);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Frame;

    fn frame(line: u32, function: &str) -> Frame {
        Frame { file: "train.py".into(), line, function: function.into() }
    }

    #[test]
    fn is_no_part_of_what_an_op_is() {
        let (mut one, other) = (OpDesc::new("mul"), OpDesc::new("mul"));
        one.site = Site::new(vec![frame(17, "net")]);
        assert_eq!(one, other);
    }

    #[test]
    fn reads_what_fluid_wrote() {
        let lines = [
            "  File \"/usr/lib/python3/site-packages/paddle/fluid/framework.py\", line 2610, in append_op\n    attrs=None)\n",
            "  File \"o.py\", line 2, in net\n    y=fluid.layers.fc(x,1)\n",
            "no line at all",
        ];
        let lines = lines.map(str::to_string).to_vec();
        let op = OpDesc::new("mul").attr(role::CALLSTACK, lines);
        assert_eq!(op.built_at().to_string(), " built at o.py:2 in `net`");
        let mut ours = op.clone();
        ours.site = Site::new(vec![frame(17, "net")]);
        assert_eq!(ours.built_at().callstack(), ["  File \"train.py\", line 17, in net\n"]);
    }
}
