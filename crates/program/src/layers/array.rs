//! Lists of tensors: `create_array`, `array_write`, `array_read`, `array_length`,
//! `tensor_array_to_tensor`.

use tensor::DType;

use super::append::{append, append_stopped};
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::var::{Meta, VarDesc, VarKind};

/// An empty list: `array_0.out`.
pub fn create_array(b: &mut Builder<'_>, dtype: DType) -> Result<Var> {
    new_array(b, "array", dtype)
}

fn new_array(b: &mut Builder<'_>, kind: &str, dtype: DType) -> Result<Var> {
    let name = format!("{}.out", b.layer_name(kind, None));
    let meta = Meta { kind: VarKind::LodTensorArray, dtype, ..Meta::default() };
    let block = b.main.current_block();
    b.main.block_mut(block).create_var(VarDesc::new(&name, meta))?;
    Ok(Var::from(name))
}

/// Puts a tensor at a place of a list, a new one if there is none.
pub fn array_write(b: &mut Builder<'_>, x: &Var, i: &Var, array: Option<&Var>) -> Result<Var> {
    let array = match array {
        Some(array) => {
            b.layer_name("array_write", None);
            array.clone()
        }
        None => new_array(b, "array_write", b.meta(x)?.dtype)?,
    };
    b.op(OpDesc::new("write_to_array").input("X", x).input("I", i).output("Out", &array))?;
    Ok(array)
}

/// The tensor at a place of a list.
pub fn array_read(b: &mut Builder<'_>, array: &Var, i: &Var) -> Result<Var> {
    let dtype = b.meta(array)?.dtype;
    let op = OpDesc::new("read_from_array").input("X", array).input("I", i);
    append(b, ("array_read", None), dtype, op)
}

/// How many tensors a list holds.
pub fn array_length(b: &mut Builder<'_>, array: &Var) -> Result<Var> {
    let op = OpDesc::new("lod_array_length").input("X", array);
    append_stopped(b, ("array_length", None), DType::I64, op)
}

/// Options of [`tensor_array_to_tensor`]; defaults as in `fluid.layers.tensor_array_to_tensor`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct TensorArrayToTensor<'a> {
    pub axis: i32,
    pub name: Option<&'a str>,
    pub use_stack: bool,
}

impl Default for TensorArrayToTensor<'_> {
    fn default() -> Self {
        Self { axis: 1, name: None, use_stack: false }
    }
}

/// The tensors of a list joined or stacked, and the size of each: (tensor, sizes).
pub fn tensor_array_to_tensor(
    b: &mut Builder<'_>,
    input: &Var,
    options: TensorArrayToTensor<'_>,
) -> Result<(Var, Var)> {
    let layer = b.layer_name("tensor_array_to_tensor", options.name);
    let (out, sizes) = (b.temp(&layer, b.meta(input)?.dtype), b.temp(&layer, DType::I32));
    b.op(OpDesc::new("tensor_array_to_tensor")
        .input("X", input)
        .output("Out", &out)
        .output("OutIndex", &sizes)
        .attr("axis", options.axis)
        .attr("use_stack", options.use_stack))?;
    Ok((out, sizes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, FillConstant};

    #[test]
    fn names_and_shapes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let usual = FillConstant::default();
        let x = layers::fill_constant(&mut b, &[2, 2], DType::F32, 3.0, usual).unwrap();
        let i = layers::fill_constant(&mut b, &[1], DType::I64, 0.0, usual).unwrap();
        assert_eq!(create_array(&mut b, DType::F32).unwrap().name(), "array_0.out");
        let a = array_write(&mut b, &x, &i, None).unwrap();
        assert_eq!(a.name(), "array_write_0.out");
        assert_eq!(b.meta(&a).unwrap().kind, VarKind::LodTensorArray);
        assert_eq!(array_write(&mut b, &x, &i, Some(&a)).unwrap(), a);
        let y = array_read(&mut b, &a, &i).unwrap();
        assert_eq!((y.name(), &*b.meta(&y).unwrap().dims), ("array_read_0.tmp_0", &[2, 2][..]));
        assert_eq!(array_length(&mut b, &a).unwrap().name(), "array_length_0.tmp_0");
        let (joined, sizes) =
            tensor_array_to_tensor(&mut b, &a, TensorArrayToTensor::default()).unwrap();
        assert_eq!(sizes.name(), "tensor_array_to_tensor_0.tmp_1");
        assert_eq!(b.meta(&joined).unwrap().dims, [2, -1]);
    }
}
