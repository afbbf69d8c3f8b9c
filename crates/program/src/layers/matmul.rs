//! Products of matrices: `matmul`, `mul`, and the angle of rows, `cos_sim`.

use super::append::append;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// Options of [`matmul`]; defaults as in `fluid.layers.matmul`.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Matmul<'a> {
    pub transpose_x: bool,
    pub transpose_y: bool,
    pub alpha: f32,
    pub name: Option<&'a str>,
}

impl Default for Matmul<'_> {
    fn default() -> Self {
        Self { transpose_x: false, transpose_y: false, alpha: 1.0, name: None }
    }
}

/// The product of matrices, batch by batch.
pub fn matmul(b: &mut Builder<'_>, x: &Var, y: &Var, options: Matmul<'_>) -> Result<Var> {
    let dtype = b.meta(x)?.dtype;
    let op = OpDesc::new("matmul")
        .input("X", x)
        .input("Y", y)
        .attr("transpose_X", options.transpose_x)
        .attr("transpose_Y", options.transpose_y)
        .attr("alpha", options.alpha);
    append(b, ("matmul", options.name), dtype, op)
}

/// Options of [`mul`]; defaults as in `fluid.layers.mul`.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Mul<'a> {
    pub x_num_col_dims: i32,
    pub y_num_col_dims: i32,
    pub name: Option<&'a str>,
}

impl Default for Mul<'_> {
    fn default() -> Self {
        Self { x_num_col_dims: 1, y_num_col_dims: 1, name: None }
    }
}

/// The product of tensors flattened to matrices.
pub fn mul(b: &mut Builder<'_>, x: &Var, y: &Var, options: Mul<'_>) -> Result<Var> {
    let dtype = b.meta(x)?.dtype;
    let op = OpDesc::new("mul")
        .input("X", x)
        .input("Y", y)
        .attr("x_num_col_dims", options.x_num_col_dims)
        .attr("y_num_col_dims", options.y_num_col_dims);
    append(b, ("mul", options.name), dtype, op)
}

/// The cosine of the angle between rows; `y` may be one row for all.
pub fn cos_sim(b: &mut Builder<'_>, x: &Var, y: &Var) -> Result<Var> {
    let layer = b.layer_name("cos_sim", None);
    let dtype = b.meta(x)?.dtype;
    let [out, x_norm, y_norm] = [(); 3].map(|()| b.temp(&layer, dtype));
    b.op(OpDesc::new("cos_sim")
        .input("X", x)
        .input("Y", y)
        .output("Out", &out)
        .output("XNorm", &x_norm)
        .output("YNorm", &y_norm))?;
    Ok(out)
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
