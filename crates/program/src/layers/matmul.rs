//! Products of matrices: `matmul`, `mul`; the angle of rows, `cos_sim`; scores to probabilities.

use super::append::one_op;
use crate::builder::{Builder, Var};
use crate::error::Result;

layers! { products;
    /// The product of matrices, batch by batch, times `alpha`.
    fn matmul(x: Floats, y: Floats; Matmul<'a> {
        transpose_x: Flag = false, transpose_y: Flag = false, alpha: f32 = 1.0, name: Name = None,
    }) -> Var { |b|
        let op = one_op(b, "matmul", name).input("X", x).input("Y", y).attr("alpha", alpha);
        op.attr("transpose_X", transpose_x).attr("transpose_Y", transpose_y).out("Out")
    }

    /// The product of tensors flattened to matrices at `x_num_col_dims` and `y_num_col_dims`.
    fn mul(x: Floats, y: Floats; Mul<'a> {
        x_num_col_dims: i32 = 1, y_num_col_dims: i32 = 1, name: Name = None,
    }) -> Var { |b|
        let op = one_op(b, "mul", name).input("X", x).input("Y", y);
        op.attr("x_num_col_dims", x_num_col_dims).attr("y_num_col_dims", y_num_col_dims).out("Out")
    }

    /// The cosine of the angle between rows; `Y` may be one row for all.
    fn cos_sim(X: Floats, Y: Floats) -> Var { |b|
        let op = one_op(b, "cos_sim", None).input("X", X).input("Y", Y);
        op.also("Out")?.also("XNorm")?.also("YNorm")?.first()
    }

    /// Probabilities along an axis of scores.
    fn softmax(input: Floats; Softmax<'a> {
        use_cudnn: Flag = false, name: Name = None, axis: i32 = (-1),
    }) -> Var { |b|
        let op = one_op(b, "softmax", name).input("X", input);
        op.attr("axis", axis).attr("use_cudnn", use_cudnn).out("Out")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_and_shapes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3, 4], Data::default()).unwrap();
        let options = Matmul { transpose_y: true, ..Matmul::default() };
        let y = matmul(&mut b, &x, &x, options).unwrap();
        assert_eq!((y.name(), &*b.meta(&y).unwrap().dims), ("matmul_0.tmp_0", &[-1, 3, 3][..]));
        let z = cos_sim(&mut b, &x, &x).unwrap();
        assert_eq!((z.name(), &*b.meta(&z).unwrap().dims), ("cos_sim_0.tmp_0", &[-1, 1][..]));
    }
}
