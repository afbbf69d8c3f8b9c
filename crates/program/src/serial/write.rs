//! `ProgramDesc` into bytes: ascending fields, unpacked lists, ports and attributes by name.

use std::collections::BTreeMap;

use super::read::VALUE_FIELD;
use super::wire::WireWriter;
use crate::attr::Attr;
use crate::block::{Block, OpDesc};
use crate::program::Program;
use crate::var::{VarDesc, VarKind};

pub(super) fn program(program: &Program) -> Vec<u8> {
    let mut writer = WireWriter::default();
    for block in program.blocks() {
        writer.bytes(1, &self::block(block));
    }
    let mut version = WireWriter::default();
    version.int(1, program.format_version);
    writer.bytes(4, &version.finish(&program.unknown_version));
    writer.finish(&program.unknown)
}

pub(super) fn block(block: &Block) -> Vec<u8> {
    let mut writer = WireWriter::default();
    writer.int(1, block.idx.into());
    writer.int(2, block.parent.into());
    for var in block.vars() {
        writer.bytes(3, &self::var(var));
    }
    for op in &block.ops {
        writer.bytes(4, &self::op(op));
    }
    if block.forward_idx != -1 {
        writer.int(5, block.forward_idx.into());
    }
    writer.finish(&block.unknown)
}

pub(super) fn var(var: &VarDesc) -> Vec<u8> {
    let mut writer = WireWriter::default();
    writer.bytes(1, var.name.as_bytes());
    writer.bytes(2, &var_type(var));
    writer.bool(3, var.persistable);
    if var.need_check_feed {
        writer.bool(4, true);
    }
    writer.finish(&var.unknown.own)
}

fn var_type(var: &VarDesc) -> Vec<u8> {
    let mut writer = WireWriter::default();
    writer.int(1, var.meta.kind as i64);
    match var.meta.kind {
        VarKind::SelectedRows => writer.bytes(2, &tensor_desc(var)),
        VarKind::LodTensor => writer.bytes(3, &lod_tensor_desc(var)),
        VarKind::LodTensorArray => writer.bytes(4, &lod_tensor_desc(var)),
        VarKind::Reader if !var.of_reader.is_empty() => {
            let mut reader = WireWriter::default();
            for meta in &var.of_reader {
                reader.bytes(1, &lod_tensor_desc(&VarDesc::new("", meta.clone())));
            }
            writer.bytes(5, &reader.finish(&[]));
        }
        _ => {}
    }
    writer.finish(&var.unknown.var_type)
}

fn lod_tensor_desc(var: &VarDesc) -> Vec<u8> {
    let mut writer = WireWriter::default();
    writer.bytes(1, &tensor_desc(var));
    writer.int(2, var.meta.lod_level.into());
    writer.finish(&var.unknown.lod_tensor)
}

fn tensor_desc(var: &VarDesc) -> Vec<u8> {
    let mut writer = WireWriter::default();
    writer.int(1, var.meta.dtype.code().into());
    for &dim in &var.meta.dims {
        writer.int(2, dim);
    }
    writer.finish(&var.unknown.tensor)
}

pub(super) fn op(op: &OpDesc) -> Vec<u8> {
    let mut writer = WireWriter::default();
    write_ports(&mut writer, 1, &op.inputs, &op.unknown.inputs);
    write_ports(&mut writer, 2, &op.outputs, &op.unknown.outputs);
    writer.bytes(3, op.kind.as_bytes());
    for (name, attr) in op.attrs.iter() {
        let unknown = op.unknown.attrs.get(name).map_or(&[] as &[u8], Vec::as_slice);
        writer.bytes(4, &write_attr(name, attr, unknown));
    }
    if op.is_target {
        writer.bool(5, true);
    }
    writer.finish(&op.unknown.own)
}

fn write_ports(
    writer: &mut WireWriter,
    number: u32,
    ports: &[(String, Vec<String>)],
    unknown: &BTreeMap<String, Vec<u8>>,
) {
    let mut sorted: Vec<_> = ports.iter().collect();
    sorted.sort_by_key(|(name, _)| name);
    for (name, vars) in sorted {
        let mut port = WireWriter::default();
        port.bytes(1, name.as_bytes());
        for var in vars {
            port.bytes(2, var.as_bytes());
        }
        let unknown = unknown.get(name).map_or(&[] as &[u8], Vec::as_slice);
        writer.bytes(number, &port.finish(unknown));
    }
}

fn write_attr(name: &str, attr: &Attr, unknown: &[u8]) -> Vec<u8> {
    let kind = attr.code();
    let number = VALUE_FIELD[kind];
    let mut writer = WireWriter::default();
    writer.bytes(1, name.as_bytes());
    writer.int(2, kind as i64);
    match attr {
        Attr::Int(value) | Attr::Block(value) => writer.int(number, i64::from(*value)),
        Attr::Long(value) => writer.int(number, *value),
        Attr::Float(value) => writer.float(number, *value),
        Attr::Str(value) => writer.bytes(number, value.as_bytes()),
        Attr::Bool(value) => writer.bool(number, *value),
        Attr::Ints(list) | Attr::Blocks(list) => {
            list.iter().for_each(|&value| writer.int(number, i64::from(value)));
        }
        Attr::Longs(list) => list.iter().for_each(|&value| writer.int(number, value)),
        Attr::Floats(list) => list.iter().for_each(|&value| writer.float(number, value)),
        Attr::Strs(list) => list.iter().for_each(|value| writer.bytes(number, value.as_bytes())),
        Attr::Bools(list) => list.iter().for_each(|&value| writer.bool(number, value)),
    }
    writer.finish(unknown)
}
