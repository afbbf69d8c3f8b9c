//! Programs for people: a short form (`Display`) and protobuf's text form ([`Program::to_text`]).

use std::fmt::{self, Write};

use tensor::DType;

use crate::attr::Attr;
use crate::block::{Block, OpDesc};
use crate::program::Program;
use crate::var::{VarDesc, VarKind};

/// Where in the user's code an op was made: pages of it, so only the full form shows it.
const CALLSTACK: &str = "op_callstack";

/// One line per variable and op.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for block in self.blocks() {
            write!(f, "{block}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "block {} (parent {}) {{", self.idx, self.parent)?;
        for var in self.vars() {
            writeln!(f, "  {var}")?;
        }
        for op in &self.ops {
            write!(f, "  {op}")?;
            for (name, attr) in op.attrs.iter().filter(|&(name, _)| name != CALLSTACK) {
                write!(f, " {name}={attr}")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "}}")
    }
}

/// `var fc_0.w_0: LOD_TENSOR float32[13, 1] persistable`.
impl fmt::Display for VarDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.param.is_some() { "param" } else { "var" };
        write!(f, "{word} {}: {}", self.name, self.meta.kind.name())?;
        if self.meta.kind.has_tensor() {
            write!(f, " {}{:?}", self.meta.dtype.name(), self.meta.dims)?;
        }
        if self.meta.lod_level > 0 {
            write!(f, " lod_level={}", self.meta.lod_level)?;
        }
        if self.persistable {
            write!(f, " persistable")?;
        }
        if self.stop_gradient { write!(f, " stop_gradient") } else { Ok(()) }
    }
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attr::Int(value) => write!(f, "{value}"),
            Attr::Long(value) => write!(f, "{value}"),
            Attr::Float(value) => write!(f, "{value:?}"),
            Attr::Str(value) => write!(f, "{value:?}"),
            Attr::Bool(value) => write!(f, "{value}"),
            Attr::Ints(list) => write!(f, "{list:?}"),
            Attr::Longs(list) => write!(f, "{list:?}"),
            Attr::Floats(list) => write!(f, "{list:?}"),
            Attr::Strs(list) => write!(f, "{list:?}"),
            Attr::Bools(list) => write!(f, "{list:?}"),
            Attr::Block(block) => write!(f, "block {block}"),
            Attr::Blocks(blocks) => write!(f, "blocks {blocks:?}"),
        }
    }
}

impl Program {
    /// Protobuf's text form of what [`Program::to_bytes`] writes, as `str(program)` shows it.
    /// Fields that this version does not know have no names and are left out.
    pub fn to_text(&self) -> String {
        let mut text = Text::default();
        for block in self.blocks() {
            text.message("blocks", |text| text.block(block));
        }
        text.message("version", |text| text.field("version", self.format_version));
        text.out
    }
}

impl VarDesc {
    /// Protobuf's text form, as `str(variable)` shows it.
    pub fn to_text(&self) -> String {
        let mut text = Text::default();
        text.var(self);
        text.out
    }
}

impl OpDesc {
    /// Protobuf's text form, as `str(operator)` shows it.
    pub fn to_text(&self) -> String {
        let mut text = Text::default();
        text.op(self);
        text.out
    }
}

#[derive(Default)]
struct Text {
    out: String,
    depth: usize,
}

impl Text {
    fn line(&mut self, line: fmt::Arguments<'_>) {
        let indent = 2 * self.depth;
        writeln!(self.out, "{:indent$}{line}", "").expect("a String takes everything");
    }

    fn field(&mut self, name: &str, value: impl fmt::Display) {
        self.line(format_args!("{name}: {value}"));
    }

    fn text(&mut self, name: &str, value: &str) {
        self.line(format_args!("{name}: \"{}\"", escape(value)));
    }

    fn float(&mut self, name: &str, value: f32) {
        // Rust writes `NaN`, protobuf `nan`; all else is alike.
        self.line(format_args!("{name}: {}", format!("{value:?}").to_lowercase()));
    }

    fn message(&mut self, name: &str, fields: impl FnOnce(&mut Self)) {
        self.line(format_args!("{name} {{"));
        self.depth += 1;
        fields(self);
        self.depth -= 1;
        self.line(format_args!("}}"));
    }

    fn block(&mut self, block: &Block) {
        self.field("idx", block.idx);
        self.field("parent_idx", block.parent);
        for var in block.vars() {
            self.message("vars", |text| text.var(var));
        }
        for op in &block.ops {
            self.message("ops", |text| text.op(op));
        }
        if block.forward_idx != -1 {
            self.field("forward_block_idx", block.forward_idx);
        }
    }

    fn var(&mut self, var: &VarDesc) {
        self.text("name", &var.name);
        self.message("type", |text| {
            text.field("type", var.meta.kind.name());
            match var.meta.kind {
                VarKind::SelectedRows => text.message("selected_rows", |text| text.tensor(var)),
                VarKind::LodTensor => text.message("lod_tensor", |text| text.lod_tensor(var)),
                VarKind::LodTensorArray => {
                    text.message("tensor_array", |text| text.lod_tensor(var));
                }
                _ => {}
            }
        });
        self.field("persistable", var.persistable);
        if var.need_check_feed {
            self.field("need_check_feed", true);
        }
    }

    fn lod_tensor(&mut self, var: &VarDesc) {
        self.message("tensor", |text| text.tensor(var));
        self.field("lod_level", var.meta.lod_level);
    }

    fn tensor(&mut self, var: &VarDesc) {
        self.field("data_type", proto_name(var.meta.dtype));
        for &dim in &var.meta.dims {
            self.field("dims", dim);
        }
    }

    fn op(&mut self, op: &OpDesc) {
        self.ports("inputs", &op.inputs);
        self.ports("outputs", &op.outputs);
        self.text("type", &op.kind);
        for (name, attr) in op.attrs.iter() {
            self.message("attrs", |text| {
                text.text("name", name);
                text.field("type", ATTR_TYPES[attr.code()]);
                text.attr(attr);
            });
        }
        if op.is_target {
            self.field("is_target", true);
        }
    }

    fn ports(&mut self, name: &str, ports: &[(String, Vec<String>)]) {
        let mut sorted: Vec<_> = ports.iter().collect();
        sorted.sort_by_key(|(port, _)| port);
        for (port, vars) in sorted {
            self.message(name, |text| {
                text.text("parameter", port);
                vars.iter().for_each(|var| text.text("arguments", var));
            });
        }
    }

    fn attr(&mut self, attr: &Attr) {
        match attr {
            Attr::Int(value) => self.field("i", value),
            Attr::Float(value) => self.float("f", *value),
            Attr::Str(value) => self.text("s", value),
            Attr::Ints(list) => list.iter().for_each(|value| self.field("ints", value)),
            Attr::Floats(list) => list.iter().for_each(|&value| self.float("floats", value)),
            Attr::Strs(list) => list.iter().for_each(|value| self.text("strings", value)),
            Attr::Bool(value) => self.field("b", value),
            Attr::Bools(list) => list.iter().for_each(|value| self.field("bools", value)),
            Attr::Block(value) => self.field("block_idx", value),
            Attr::Long(value) => self.field("l", value),
            Attr::Blocks(list) => list.iter().for_each(|value| self.field("blocks_idx", value)),
            Attr::Longs(list) => list.iter().for_each(|value| self.field("longs", value)),
        }
    }
}

/// Names of the attribute types, by code.
const ATTR_TYPES: [&str; 12] = [
    "INT", "FLOAT", "STRING", "INTS", "FLOATS", "STRINGS", "BOOLEAN", "BOOLEANS", "BLOCK", "LONG",
    "BLOCKS", "LONGS",
];

fn proto_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "BOOL",
        DType::I16 => "INT16",
        DType::I32 => "INT32",
        DType::I64 => "INT64",
        DType::F16 => "FP16",
        DType::F32 => "FP32",
        DType::F64 => "FP64",
        DType::U8 => "UINT8",
        DType::I8 => "INT8",
    }
}

/// Protobuf's way with quotes, line ends and bytes beyond ASCII.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' | b'\'' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' => out.push(char::from(byte)),
            _ => write!(out, "\\{byte:03o}").expect("a String takes everything"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::block::OpDesc;
    use crate::program::Program;
    use crate::var::{Meta, VarDesc};
    use tensor::DType;

    fn program() -> Program {
        let mut program = Program::default();
        let block = program.block_mut(0);
        block.put_var(VarDesc::new("x", Meta::dense(DType::F32, &[-1, 13])).persistable());
        let op = OpDesc::new("scale").output("Out", "x").input("X", "x");
        block.ops.push(op.attr("scale", 0.5f32).attr("op_callstack", vec!["it's\né".to_string()]));
        program
    }

    #[test]
    fn shows_one_line_each() {
        let expected = "block 0 (parent -1) {\n  \
            var x: LOD_TENSOR float32[-1, 13] persistable\n  \
            scale(X=[x]) -> Out=[x] scale=0.5\n}\n";
        assert_eq!(program().to_string(), expected);
    }

    #[test]
    fn writes_protobuf_text() {
        let expected = r#"blocks {
  idx: 0
  parent_idx: -1
  vars {
    name: "x"
    type {
      type: LOD_TENSOR
      lod_tensor {
        tensor {
          data_type: FP32
          dims: -1
          dims: 13
        }
        lod_level: 0
      }
    }
    persistable: true
  }
  ops {
    inputs {
      parameter: "X"
      arguments: "x"
    }
    outputs {
      parameter: "Out"
      arguments: "x"
    }
    type: "scale"
    attrs {
      name: "op_callstack"
      type: STRINGS
      strings: "it\'s\n\303\251"
    }
    attrs {
      name: "scale"
      type: FLOAT
      f: 0.5
    }
  }
}
version {
  version: 0
}
"#;
        assert_eq!(program().to_text(), expected);
    }
}
