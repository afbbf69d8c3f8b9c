//! `ProgramDesc` out of bytes: any field order, packed or unpacked lists, unknown fields kept.
//!
//! A known field laid out in an unexpected way counts as unknown, as protobuf has it.

use std::collections::BTreeMap;

use tensor::DType;

use super::wire::{Wire, WireField, WireReader, bad};
use crate::attr::Attr;
use crate::block::{Block, OpDesc};
use crate::error::{Error, Result};
use crate::program::Program;
use crate::var::{VarDesc, VarKind};

/// The program, and where each of its blocks starts.
pub(super) fn program(bytes: &[u8]) -> Result<(Program, Vec<usize>)> {
    let mut reader = WireReader::new(bytes);
    let (mut blocks, mut offsets) = (Vec::new(), Vec::new());
    let (mut unknown, mut unknown_version) = (Vec::new(), Vec::new());
    // Field 4 is the version since 1.7; before that it was field 2.
    let (mut old_version, mut version) = (None, None);
    while let Some(field) = reader.field()? {
        match (field.number, field.bytes()) {
            (1, Some(message)) => {
                offsets.push(field.offset);
                blocks.push(block(message)?);
            }
            (2, Some(message)) => old_version = Some(read_version(message, &mut unknown_version)?),
            (4, Some(message)) => version = Some(read_version(message, &mut unknown_version)?),
            _ => unknown.extend_from_slice(field.raw),
        }
    }
    let mut program = Program::from_blocks(blocks);
    program.format_version = version.or(old_version).unwrap_or(0);
    program.unknown = unknown;
    program.unknown_version = unknown_version;
    Ok((program, offsets))
}

fn read_version(mut reader: WireReader<'_>, unknown: &mut Vec<u8>) -> Result<i64> {
    let mut version = 0;
    while let Some(field) = reader.field()? {
        match (field.number, field.varint()) {
            (1, Some(value)) => version = value as i64,
            _ => unknown.extend_from_slice(field.raw),
        }
    }
    Ok(version)
}

fn block(mut reader: WireReader<'_>) -> Result<Block> {
    let start = reader.offset();
    let (mut idx, mut parent) = (None, None);
    let mut block = Block::new(0, -1);
    while let Some(field) = reader.field()? {
        match (field.number, field.value) {
            (1, Wire::Varint(value)) => idx = Some(value as i32),
            (2, Wire::Varint(value)) => parent = Some(value as i32),
            (3, Wire::Bytes(message)) => block.put_var(var(message)?),
            (4, Wire::Bytes(message)) => block.ops.push(op(message)?),
            (5, Wire::Varint(value)) => block.forward_idx = value as i32,
            _ => block.unknown.extend_from_slice(field.raw),
        }
    }
    block.idx = idx.ok_or_else(|| missing(start, "a block", "index"))?;
    block.parent = parent.ok_or_else(|| missing(start, "a block", "parent"))?;
    Ok(block)
}

fn missing(offset: usize, what: &str, field: &str) -> Error {
    bad(offset, format!("{what} without its {field}"))
}

fn var(mut reader: WireReader<'_>) -> Result<VarDesc> {
    let start = reader.offset();
    let (mut name, mut types) = (None, Vec::new());
    let mut var = VarDesc::default();
    while let Some(field) = reader.field()? {
        match (field.number, field.value) {
            (1, Wire::Bytes(text)) => name = Some(text.text()?),
            (2, Wire::Bytes(message)) => types.push(message),
            (3, Wire::Varint(value)) => var.persistable = value != 0,
            (4, Wire::Varint(value)) => var.need_check_feed = value != 0,
            _ => var.unknown.own.extend_from_slice(field.raw),
        }
    }
    var.name = name.ok_or_else(|| missing(start, "a variable", "name"))?;
    var_type(start, &types, &mut var)?;
    Ok(var)
}

/// Reads a `VarType`; which of its parts counts depends on the kind, which may come last.
fn var_type(start: usize, messages: &[WireReader<'_>], var: &mut VarDesc) -> Result<()> {
    let mut fields = Vec::new();
    let mut kind = None;
    for message in messages {
        let mut reader = *message;
        while let Some(field) = reader.field()? {
            match (field.number, field.varint()) {
                (1, Some(code)) => kind = Some((field.offset, code as i64)),
                _ => fields.push(field),
            }
        }
    }
    let (offset, code) = kind.ok_or_else(|| missing(start, "a variable", "type"))?;
    let unknown = || bad(offset, format!("{code} is not a type of a variable"));
    var.meta.kind = VarKind::from_code(code).ok_or_else(unknown)?;
    for field in fields {
        match (var.meta.kind, field.number, field.bytes()) {
            (VarKind::SelectedRows, 2, Some(message)) => tensor_desc(message, var)?,
            (VarKind::LodTensor, 3, Some(message))
            | (VarKind::LodTensorArray, 4, Some(message)) => lod_tensor_desc(message, var)?,
            _ => var.unknown.var_type.extend_from_slice(field.raw),
        }
    }
    Ok(())
}

fn lod_tensor_desc(mut reader: WireReader<'_>, var: &mut VarDesc) -> Result<()> {
    while let Some(field) = reader.field()? {
        match (field.number, field.value) {
            (1, Wire::Bytes(message)) => tensor_desc(message, var)?,
            (2, Wire::Varint(value)) => var.meta.lod_level = value as i32,
            _ => var.unknown.lod_tensor.extend_from_slice(field.raw),
        }
    }
    Ok(())
}

fn tensor_desc(mut reader: WireReader<'_>, var: &mut VarDesc) -> Result<()> {
    while let Some(field) = reader.field()? {
        match (field.number, field.value) {
            (1, Wire::Varint(code)) => {
                let dtype = DType::from_code(code as i64);
                var.meta.dtype = dtype.map_err(|error| bad(field.offset, error.to_string()))?;
            }
            (2, Wire::Varint(_) | Wire::Bytes(_)) => {
                numbers(&field, |dim| var.meta.dims.push(dim as i64))?;
            }
            _ => var.unknown.tensor.extend_from_slice(field.raw),
        }
    }
    Ok(())
}

/// The numbers of a repeated field: one alone, or several packed.
fn numbers(field: &WireField<'_>, mut push: impl FnMut(u64)) -> Result<bool> {
    match field.value {
        Wire::Varint(value) => push(value),
        Wire::Bytes(mut packed) => {
            while !packed.is_at_end() {
                push(packed.varint()?);
            }
        }
        Wire::Fixed32(_) | Wire::Fixed64 => return Ok(false),
    }
    Ok(true)
}

fn floats(field: &WireField<'_>, list: &mut Vec<f32>) -> Result<bool> {
    match field.value {
        Wire::Fixed32(bits) => list.push(f32::from_bits(bits)),
        Wire::Bytes(mut packed) => {
            while !packed.is_at_end() {
                list.push(f32::from_bits(packed.fixed32()?));
            }
        }
        Wire::Varint(_) | Wire::Fixed64 => return Ok(false),
    }
    Ok(true)
}

/// Ports come out sorted by name, which is how they are written.
pub(super) fn op(mut reader: WireReader<'_>) -> Result<OpDesc> {
    let start = reader.offset();
    let mut op = OpDesc::default();
    let mut kind = None;
    let mut inputs = BTreeMap::new();
    let mut outputs = BTreeMap::new();
    while let Some(field) = reader.field()? {
        match (field.number, field.value) {
            (1, Wire::Bytes(message)) => {
                port(message, &mut inputs, &mut op.unknown.inputs)?;
            }
            (2, Wire::Bytes(message)) => {
                port(message, &mut outputs, &mut op.unknown.outputs)?;
            }
            (3, Wire::Bytes(text)) => kind = Some(text.text()?),
            (4, Wire::Bytes(message)) => attr(message, &field, &mut op)?,
            (5, Wire::Varint(value)) => op.is_target = value != 0,
            _ => op.unknown.own.extend_from_slice(field.raw),
        }
    }
    op.kind = kind.ok_or_else(|| missing(start, "an op", "type"))?;
    op.inputs = inputs.into_iter().collect();
    op.outputs = outputs.into_iter().collect();
    Ok(op)
}

fn port(
    mut reader: WireReader<'_>,
    ports: &mut BTreeMap<String, Vec<String>>,
    unknown: &mut BTreeMap<String, Vec<u8>>,
) -> Result<()> {
    let start = reader.offset();
    let mut name = None;
    let mut vars = Vec::new();
    let mut rest = Vec::new();
    while let Some(field) = reader.field()? {
        match (field.number, field.bytes()) {
            (1, Some(text)) => name = Some(text.text()?),
            (2, Some(text)) => vars.push(text.text()?),
            _ => rest.extend_from_slice(field.raw),
        }
    }
    let name = name.ok_or_else(|| missing(start, "a port", "name"))?;
    if !rest.is_empty() {
        unknown.insert(name.clone(), rest);
    }
    ports.insert(name, vars);
    Ok(())
}

/// The value fields of an attribute; its type says which one counts.
#[derive(Default)]
struct AttrValues {
    int: u64,
    float: f32,
    text: String,
    ints: Vec<u64>,
    floats: Vec<f32>,
    texts: Vec<String>,
}

/// The field of an `Attr` message that holds a value of each type, by type code.
pub(super) const VALUE_FIELD: [u32; 12] = [3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15];

fn attr(message: WireReader<'_>, whole: &WireField<'_>, op: &mut OpDesc) -> Result<()> {
    let start = message.offset();
    let mut name = None;
    let mut kind = None;
    let mut reader = message;
    while let Some(field) = reader.field()? {
        match (field.number, field.value) {
            (1, Wire::Bytes(text)) => name = Some(text.text()?),
            (2, Wire::Varint(value)) => kind = Some(value as usize),
            _ => {}
        }
    }
    let name = name.ok_or_else(|| missing(start, "an attribute", "name"))?;
    let kind = kind.ok_or_else(|| missing(start, "an attribute", "type"))?;
    let Some(&number) = VALUE_FIELD.get(kind) else {
        // A type of a later version: nothing here can read it, the next reader may.
        op.unknown.own.extend_from_slice(whole.raw);
        return Ok(());
    };
    let (values, rest) = values(message, number)?;
    if !rest.is_empty() {
        op.unknown.attrs.insert(name.clone(), rest);
    }
    op.attrs.set(&name, value_of(kind, values));
    Ok(())
}

/// The value in field `number`, and the fields that say nothing to an attribute of this type.
fn values(mut reader: WireReader<'_>, number: u32) -> Result<(AttrValues, Vec<u8>)> {
    let (mut values, mut rest) = (AttrValues::default(), Vec::new());
    while let Some(field) = reader.field()? {
        let known = match (field.number, field.value) {
            (1, Wire::Bytes(_)) | (2, Wire::Varint(_)) => true,
            (at, _) if at != number => false,
            (3 | 10 | 12 | 13, Wire::Varint(value)) => {
                values.int = value;
                true
            }
            (4, Wire::Fixed32(bits)) => {
                values.float = f32::from_bits(bits);
                true
            }
            (5, Wire::Bytes(text)) => {
                values.text = text.text()?;
                true
            }
            (7, _) => floats(&field, &mut values.floats)?,
            (8, Wire::Bytes(text)) => {
                values.texts.push(text.text()?);
                true
            }
            (6 | 11 | 14 | 15, _) => numbers(&field, |value| values.ints.push(value))?,
            _ => false,
        };
        if !known {
            rest.extend_from_slice(field.raw);
        }
    }
    Ok((values, rest))
}

fn value_of(kind: usize, values: AttrValues) -> Attr {
    let i32s = |list: Vec<u64>| list.into_iter().map(|value| value as i32).collect();
    match kind {
        0 => Attr::Int(values.int as i32),
        1 => Attr::Float(values.float),
        2 => Attr::Str(values.text),
        3 => Attr::Ints(i32s(values.ints)),
        4 => Attr::Floats(values.floats),
        5 => Attr::Strs(values.texts),
        6 => Attr::Bool(values.int != 0),
        7 => Attr::Bools(values.ints.into_iter().map(|value| value != 0).collect()),
        8 => Attr::Block(values.int as i32),
        9 => Attr::Long(values.int as i64),
        10 => Attr::Blocks(i32s(values.ints)),
        _ => Attr::Longs(values.ints.into_iter().map(|value| value as i64).collect()),
    }
}
