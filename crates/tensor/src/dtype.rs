//! Element types, numbered as in Fluid's `VarType.Type`.

use std::fmt;

/// The type of a tensor's elements; the number is the one on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool = 0,
    /// 16-bit integer.
    I16 = 1,
    /// 32-bit integer.
    I32 = 2,
    /// 64-bit integer: ids and labels.
    I64 = 3,
    /// Half precision; stored and copied, never computed with.
    F16 = 4,
    /// Single precision, the default.
    #[default]
    F32 = 5,
    /// Double precision.
    F64 = 6,
    /// Unsigned byte.
    U8 = 20,
    /// Signed byte.
    I8 = 21,
}

/// Code, Fluid's name in Python, the C++ name its messages use, bytes.
const TABLE: &[(DType, &str, &str, usize)] = &[
    (DType::Bool, "bool", "bool", 1),
    (DType::I16, "int16", "int16_t", 2),
    (DType::I32, "int32", "int", 4),
    (DType::I64, "int64", "int64_t", 8),
    (DType::F16, "float16", "::paddle::platform::float16", 2),
    (DType::F32, "float32", "float", 4),
    (DType::F64, "float64", "double", 8),
    (DType::U8, "uint8", "uint8_t", 1),
    (DType::I8, "int8", "int8_t", 1),
];

impl DType {
    fn entry(self) -> &'static (DType, &'static str, &'static str, usize) {
        TABLE.iter().find(|entry| entry.0 == self).expect("the table lists every type")
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::I16 | DType::F16 => 2,
            DType::I32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// `float32`, `int64`, … as Python spells it.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// `float`, `int64_t`, … as Fluid's messages and printed tensors spell it.
    pub fn c_name(self) -> &'static str {
        self.entry().2
    }

    /// The code in programs and files.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// Every type.
    pub(crate) fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|entry| entry.0)
    }

    /// The type of a Python name.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|entry| entry.1 == name).map(|entry| entry.0)
    }

    /// Whether kernels compute gradients in it.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.c_name())
    }
}

/// A Rust type that can be a tensor's element.
pub trait Element: bytemuck::Pod + PartialEq + fmt::Debug + Send + Sync {
    /// Its number.
    const DTYPE: DType;
}

/// A truth value as Fluid stores it; any non-zero byte is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    /// The truth.
    pub fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    fn from(truth: bool) -> Self {
        Bool(u8::from(truth))
    }
}

impl Element for Bool {
    const DTYPE: DType = DType::Bool;
}
impl Element for u8 {
    const DTYPE: DType = DType::U8;
}
impl Element for i8 {
    const DTYPE: DType = DType::I8;
}
impl Element for i16 {
    const DTYPE: DType = DType::I16;
}
impl Element for i32 {
    const DTYPE: DType = DType::I32;
}
impl Element for i64 {
    const DTYPE: DType = DType::I64;
}
impl Element for f32 {
    const DTYPE: DType = DType::F32;
}
impl Element for f64 {
    const DTYPE: DType = DType::F64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes_are_those_of_the_table() {
        for &(dtype, name, _, size) in TABLE {
            assert_eq!(DType::from_name(name), Some(dtype));
            assert_eq!(dtype.size(), size);
        }
    }
}
