//! Inference models as ONNX files.
//!
//! Ops are converted one by one ([`table`] lists them, one file for each family); variables keep their
//! names. A look-up is a Gather. If only some rows of a table exist, or if it is too large for a file, then
//! the rows that the look-up finds are an input of the graph.

mod activation;
mod compare;
mod convert;
mod fill;
mod graph;
mod lookup;
mod math;
mod norm;
mod proto;
mod reduce;
mod select;
mod sequence;
mod shape;
mod table;
mod window;

use std::collections::BTreeSet;
use std::io::{self, Write};

use program::{OpDesc, Program};

use crate::contents::{Contents, feeds, fetches};
use crate::error::{Error, Result};
use convert::{CUT, Convert};
use graph::OnnxGraph;
use proto::{BYTES_MAX, OnnxFile, ValueInfo};

/// How a model is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnnxOptions {
    /// Every sequence that is fed has exactly one id.
    pub one_id: bool,
    /// Larger tables are not part of the file.
    pub table_bytes_max: u64,
}

impl Default for OnnxOptions {
    fn default() -> Self {
        Self { one_id: false, table_bytes_max: 1 << 30 }
    }
}

/// A model as an ONNX file.
#[derive(Debug)]
pub struct OnnxModel {
    file: OnnxFile,
}

impl OnnxModel {
    /// Converts the inference model of a folder.
    pub fn new(contents: &Contents, options: &OnnxOptions) -> Result<Self> {
        let no_model = || Error::NoModel { path: contents.dir().to_path_buf() };
        let mut programs = contents.programs.iter().map(|named| &named.program);
        let program = programs.find(|program| !fetches(program).is_empty());
        let program = program.ok_or_else(no_model)?;
        let mut graph = OnnxGraph::default();
        graph.file.name = contents
            .dir()
            .file_name()
            .map_or("model".to_string(), |name| name.to_string_lossy().into_owned());
        let targets = fetches(program);
        let used = used_ops(program, &targets);
        for feed in feeds(program) {
            let is_read = used.iter().any(|&at| reads(program, at, &feed));
            if is_read || targets.contains(&feed) {
                add_feed(&mut graph, program, &feed)?;
            }
        }
        for index in used {
            let op = &program.block(0).ops[index];
            convert_op(&mut Convert { op, index, program, graph: &mut graph, contents, options })?;
        }
        add_targets(&mut graph, program, &targets, contents)?;
        drop_unused(&mut graph.file);
        let n_bytes = graph.file.encoded().n_bytes;
        if n_bytes > BYTES_MAX {
            Err(Error::TooLarge { n_bytes, max: BYTES_MAX })
        } else {
            Ok(Self { file: graph.file })
        }
    }

    /// The inputs of the graph that stand for look-ups, and what each is.
    pub fn looked_up(&self) -> impl Iterator<Item = (&str, &str)> {
        self.file.notes.iter().map(|note| (note.key.as_str(), note.text.as_str()))
    }

    /// The names of all inputs.
    pub fn inputs(&self) -> Vec<String> {
        self.file.inputs.iter().map(|info| info.name.clone()).collect()
    }

    /// How many operations it has.
    pub fn n_nodes(&self) -> usize {
        self.file.nodes.len()
    }

    /// Writes the file.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.file.encoded().write(out)
    }
}

fn convert_op(op: &mut Convert<'_>) -> Result<()> {
    match table::find(&op.op.kind) {
        Some(converter) => converter(op),
        None if !op.op.sub_blocks().is_empty() => {
            Err(op.refuse("it runs a block of ops of its own", CUT))
        }
        None => Err(op.refuse("ONNX has no such operation, or none that computes the same", CUT)),
    }
}

fn reads(program: &Program, at: usize, var: &str) -> bool {
    program.block(0).ops[at].reads().any(|name| name == var)
}

fn add_feed(graph: &mut OnnxGraph, program: &Program, feed: &str) -> Result<()> {
    let meta = program.need_var(0, feed)?.meta.clone();
    let name = graph.name_for(feed);
    graph.file.inputs.push(ValueInfo { name: name.clone(), dtype: meta.dtype, dims: meta.dims });
    graph.set(feed, name);
    Ok(())
}

/// The targets under their own names, as outputs.
fn add_targets(
    graph: &mut OnnxGraph,
    program: &Program,
    targets: &[String],
    contents: &Contents,
) -> Result<()> {
    for target in targets {
        let missing = || Error::NoValue { path: contents.dir().to_path_buf(), var: target.clone() };
        let value = graph.value(target).ok_or_else(missing)?;
        let meta = program.need_var(0, target)?.meta.clone();
        let is_input = graph.file.inputs.iter().any(|info| info.name == value);
        let name = if value == *target && !is_input {
            value
        } else {
            graph.node("Identity", &[&value], Vec::new())
        };
        graph.file.outputs.push(ValueInfo { name, dtype: meta.dtype, dims: meta.dims });
    }
    Ok(())
}

/// The positions of the ops that the targets need, in order.
fn used_ops(program: &Program, targets: &[String]) -> Vec<usize> {
    let ops = &program.block(0).ops;
    let mut wanted: BTreeSet<&str> = targets.iter().map(String::as_str).collect();
    let is_plumbing = |op: &OpDesc| op.kind == "feed" || op.kind == "fetch";
    let mut used = Vec::new();
    for (at, op) in ops.iter().enumerate().rev() {
        if !is_plumbing(op) && op.writes().any(|var| wanted.contains(var)) {
            wanted.extend(op.reads());
            used.push(at);
        }
    }
    used.reverse();
    used
}

/// Removes constants and inputs that nothing reads: ids of look-ups that are inputs themselves.
fn drop_unused(file: &mut OnnxFile) {
    let read: BTreeSet<String> =
        file.nodes.iter().flat_map(|node| node.inputs.iter().cloned()).collect();
    file.constants.retain(|constant| read.contains(&constant.name));
    file.inputs.retain(|info| read.contains(&info.name));
}
