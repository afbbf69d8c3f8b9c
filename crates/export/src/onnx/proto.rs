//! The messages of an ONNX file. NodeField numbers and type codes are those of `onnx.proto`.

use std::io::{self, Write};

use program::WireWriter;
use tensor::{DType, Tensor};

/// The version of the file format, and the set of operators that is used.
const IR_VERSION: i64 = 8;
const OPSET: i64 = 17;
/// Readers of protobuf take no larger files.
pub(super) const BYTES_MAX: u64 = (1 << 31) - 1;

/// ONNX's code of an element type.
pub(super) fn type_code(dtype: DType) -> i64 {
    match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I8 => 3,
        DType::I16 => 5,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        DType::F16 => 10,
        DType::F64 => 11,
    }
}

/// An attribute of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NodeField {
    Int(i64),
    Float(f32),
    Ints(Vec<i64>),
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OnnxNode {
    pub(super) op: &'static str,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) fields: Vec<(&'static str, NodeField)>,
}

/// An input or output of the graph; a size below 0 is not known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ValueInfo {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) dims: Vec<i64>,
}

/// A constant of the graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OnnxConstant {
    pub(super) name: String,
    pub(super) value: Tensor,
    /// It is one number without dimensions, which our tensors cannot be.
    pub(super) is_scalar: bool,
}

/// A text that is kept with the model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InputNote {
    pub(super) key: String,
    pub(super) text: String,
}

/// All of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct OnnxFile {
    pub(super) name: String,
    pub(super) nodes: Vec<OnnxNode>,
    pub(super) constants: Vec<OnnxConstant>,
    pub(super) inputs: Vec<ValueInfo>,
    pub(super) outputs: Vec<ValueInfo>,
    pub(super) notes: Vec<InputNote>,
}

impl OnnxNode {
    fn bytes(&self, number: usize) -> Vec<u8> {
        let mut out = WireWriter::default();
        self.inputs.iter().for_each(|name| out.bytes(1, name.as_bytes()));
        self.outputs.iter().for_each(|name| out.bytes(2, name.as_bytes()));
        out.bytes(3, format!("{}_{number}", self.op).as_bytes());
        out.bytes(4, self.op.as_bytes());
        for (name, field) in &self.fields {
            let mut attr = WireWriter::default();
            attr.bytes(1, name.as_bytes());
            let kind = match field {
                NodeField::Float(value) => {
                    attr.float(2, *value);
                    1
                }
                NodeField::Int(value) => {
                    attr.int(3, *value);
                    2
                }
                NodeField::Ints(list) => {
                    list.iter().for_each(|&value| attr.int(8, value));
                    7
                }
            };
            attr.int(20, kind);
            out.bytes(5, &attr.finish(&[]));
        }
        out.finish(&[])
    }
}

impl ValueInfo {
    fn bytes(&self) -> Vec<u8> {
        let mut shape = WireWriter::default();
        for (axis, &dim) in self.dims.iter().enumerate() {
            let mut size = WireWriter::default();
            match (dim, axis) {
                (0.., _) => size.int(1, dim),
                // All inputs have as many samples.
                (_, 0) => size.bytes(2, b"batch"),
                _ => size.bytes(2, format!("{}_{axis}", self.name).as_bytes()),
            }
            shape.bytes(1, &size.finish(&[]));
        }
        let mut tensor = WireWriter::default();
        tensor.int(1, type_code(self.dtype));
        tensor.bytes(2, &shape.finish(&[]));
        let mut kind = WireWriter::default();
        kind.bytes(1, &tensor.finish(&[]));
        let mut out = WireWriter::default();
        out.bytes(1, self.name.as_bytes());
        out.bytes(2, &kind.finish(&[]));
        out.finish(&[])
    }
}

impl OnnxConstant {
    /// All but the numbers, which come last.
    fn head(&self) -> Vec<u8> {
        let mut out = WireWriter::default();
        let dims = if self.is_scalar { &[] } else { self.value.dims() };
        dims.iter().for_each(|&dim| out.int(1, dim as i64));
        out.int(2, type_code(self.value.dtype()));
        out.bytes(8, self.name.as_bytes());
        [out.finish(&[]), length_head(9, self.value.bytes().len() as u64)].concat()
    }
}

/// The bytes before a field of this length.
fn length_head(number: u32, n_bytes: u64) -> Vec<u8> {
    let mut head = vec![(number << 3 | 2) as u8];
    let mut left = n_bytes;
    while left >= 0x80 {
        head.push(left as u8 | 0x80);
        left >>= 7;
    }
    head.push(left as u8);
    head
}

/// A file as bytes, without a second copy of its constants.
pub(super) struct EncodedModel<'a> {
    before: Vec<u8>,
    /// The bytes before the numbers of each constant, and the constant.
    constants: Vec<(Vec<u8>, &'a OnnxConstant)>,
    after: Vec<u8>,
    pub(super) n_bytes: u64,
}

impl OnnxFile {
    pub(super) fn encoded(&self) -> EncodedModel<'_> {
        let mut graph = WireWriter::default();
        for (number, node) in self.nodes.iter().enumerate() {
            graph.bytes(1, &node.bytes(number));
        }
        graph.bytes(2, self.name.as_bytes());
        let mut rest = WireWriter::default();
        self.inputs.iter().for_each(|info| rest.bytes(11, &info.bytes()));
        self.outputs.iter().for_each(|info| rest.bytes(12, &info.bytes()));
        let (graph, rest) = (graph.finish(&[]), rest.finish(&[]));
        let mut constants = Vec::new();
        let mut n_graph = (graph.len() + rest.len()) as u64;
        for constant in &self.constants {
            let (head, n_numbers) = (constant.head(), constant.value.bytes().len() as u64);
            let head = [length_head(5, head.len() as u64 + n_numbers), head].concat();
            n_graph += head.len() as u64 + n_numbers;
            constants.push((head, constant));
        }
        let mut model = WireWriter::default();
        model.int(1, IR_VERSION);
        model.bytes(2, b"paddlewheel");
        model.bytes(3, env!("CARGO_PKG_VERSION").as_bytes());
        let before = [model.finish(&[]), length_head(7, n_graph), graph].concat();
        let mut last = WireWriter::default();
        let mut opset = WireWriter::default();
        opset.bytes(1, b"");
        opset.int(2, OPSET);
        last.bytes(8, &opset.finish(&[]));
        for note in &self.notes {
            let mut entry = WireWriter::default();
            entry.bytes(1, note.key.as_bytes());
            entry.bytes(2, note.text.as_bytes());
            last.bytes(14, &entry.finish(&[]));
        }
        let n_graph_parts: usize = constants.iter().map(|(head, _)| head.len()).sum();
        let n_numbers: usize = self.constants.iter().map(|c| c.value.bytes().len()).sum();
        let after = [rest, last.finish(&[])].concat();
        let n_bytes = (before.len() + n_graph_parts + n_numbers + after.len()) as u64;
        EncodedModel { before, constants, after, n_bytes }
    }
}

impl EncodedModel<'_> {
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.before)?;
        for (head, constant) in &self.constants {
            out.write_all(head)?;
            out.write_all(constant.value.bytes())?;
        }
        out.write_all(&self.after)
    }
}
