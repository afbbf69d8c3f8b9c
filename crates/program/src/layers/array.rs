//! Lists of tensors: `create_array`, `array_write`, `array_read`, `array_length`,
//! `tensor_array_to_tensor`.

use tensor::DType;

use super::append::one_op;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::var::{Meta, VarDesc, VarKind};

layers! { arrays;
    /// Puts a tensor at a place of a list, a new one if there is none.
    fn array_write(x: Input, i: Input; array: MaybeInput = None) -> Var { |b|
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
    fn array_read(array: Input, i: Input) -> Var { |b|
        one_op(b, "array_read", None).of("read_from_array").input("X", array).input("I", i).out("Out")
    }

    /// How many tensors a list holds.
    fn array_length(array: Input) -> Var { |b|
        let op = one_op(b, "array_length", None).of("lod_array_length").input("X", array);
        op.out_stopped("Out", DType::I64)
    }

    /// The tensors of a list joined or stacked, and the size of each: (tensor, sizes).
    fn tensor_array_to_tensor(input: Input; TensorArrayToTensor<'a> {
        axis: i32 = 1, name: Name = None, use_stack: bool = false,
    }) -> (Var, Var) { |b, kind|
        let op = one_op(b, kind, name).input("X", input).attr("axis", axis);
        op.attr("use_stack", use_stack).also("Out")?.also_of("OutIndex", DType::I32).pair()
    }
}

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
        let x = layers::fill_constant(&mut b, &[2, 2], DType::F32, 3.0, usual.clone()).unwrap();
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
