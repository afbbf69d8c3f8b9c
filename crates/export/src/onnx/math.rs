//! Sums, products, powers.

use super::convert::{CUT, Convert, int, ints};
use crate::error::Result;

/// Y of an op that broadcasts along `axis`, in a shape that broadcasts from the last dimension on.
pub(super) fn broadcast_y(c: &mut Convert<'_>) -> Result<String> {
    let (rank, y_rank) = (c.rank("X")?, c.rank("Y")?);
    let y = c.input("Y")?;
    let axis = c.op.attrs.int("axis", -1)?;
    if axis < 0 || y_rank == 0 || axis as usize + y_rank >= rank {
        return Ok(y);
    }
    let first = y_rank as i64;
    let axes: Vec<i64> = (first..rank as i64 - axis).collect();
    let axes = c.graph.ints(&axes);
    Ok(c.node("Unsqueeze", &[&y, &axes], Vec::new()))
}

pub(super) fn elementwise(c: &mut Convert<'_>, op: &'static str) -> Result<()> {
    let (x, y) = (c.input("X")?, broadcast_y(c)?);
    c.out("Out", op, &[&x, &y], Vec::new())
}

/// Out = X times Y, both as matrices.
pub(super) fn mul(c: &mut Convert<'_>) -> Result<()> {
    let (x_rank, y_dims) = (c.rank("X")?, c.meta("Y")?.dims);
    let x_rows = c.op.attrs.int("x_num_col_dims", 1)?;
    let y_rows = c.op.attrs.int("y_num_col_dims", 1)?;
    let (x, y) = (c.input("X")?, c.input("Y")?);
    if y_dims.len() == 2 && y_rows == 1 && x_rows == x_rank as i64 - 1 {
        return c.out("Out", "MatMul", &[&x, &y], Vec::new());
    }
    let flat = c.node("Flatten", &[&x], int("axis", x_rows));
    let y = if y_dims.len() == 2 && y_rows == 1 {
        y
    } else {
        c.node("Flatten", &[&y], int("axis", y_rows))
    };
    let columns = y_dims.get(y_rows as usize..).unwrap_or_default().to_vec();
    if x_rows == 1 && columns.len() == 1 {
        return c.out("Out", "MatMul", &[&flat, &y], Vec::new());
    }
    let product = c.node("MatMul", &[&flat, &y], Vec::new());
    let (first, last) = (c.graph.ints(&[0]), c.graph.ints(&[x_rows]));
    let shape = c.node("Shape", &[&x], Vec::new());
    let rows = c.node("Slice", &[&shape, &first, &last], Vec::new());
    let columns = c.graph.ints(&columns);
    let shape = c.node("Concat", &[&rows, &columns], int("axis", 0));
    c.out("Out", "Reshape", &[&product, &shape], Vec::new())
}

pub(super) fn matmul(c: &mut Convert<'_>) -> Result<()> {
    let (x_rank, y_rank) = (c.rank("X")?, c.rank("Y")?);
    if x_rank < 2 || y_rank < 2 {
        return Err(c.refuse("it multiplies a vector", CUT));
    }
    let mut sides = Vec::new();
    for (port, attr, rank) in [("X", "transpose_X", x_rank), ("Y", "transpose_Y", y_rank)] {
        let side = c.input(port)?;
        let mut order: Vec<i64> = (0..rank as i64).collect();
        order.swap(rank - 1, rank - 2);
        sides.push(if c.op.attrs.bool(attr, false)? {
            c.node("Transpose", &[&side], ints("perm", order))
        } else {
            side
        });
    }
    let alpha = c.op.attrs.float("alpha", 1.0)?;
    if alpha == 1.0 {
        return c.out("Out", "MatMul", &[&sides[0], &sides[1]], Vec::new());
    }
    let product = c.node("MatMul", &[&sides[0], &sides[1]], Vec::new());
    let alpha = c.number("X", f64::from(alpha))?;
    c.out("Out", "Mul", &[&product, &alpha], Vec::new())
}

/// Out = scale X + bias, or scale (X + bias).
pub(super) fn scale(c: &mut Convert<'_>) -> Result<()> {
    c.without(&["ScaleTensor"])?;
    let attrs = &c.op.attrs;
    let (scale, bias) = (attrs.float("scale", 1.0)?, attrs.float("bias", 0.0)?);
    let is_after = attrs.bool("bias_after_scale", true)?;
    let x = c.input("X")?;
    let (factor, term) = (c.number("X", scale.into())?, c.number("X", bias.into())?);
    match (scale == 1.0, bias == 0.0) {
        (true, true) => c.out("Out", "Identity", &[&x], Vec::new()),
        (false, true) => c.out("Out", "Mul", &[&x, &factor], Vec::new()),
        (true, false) => c.out("Out", "Add", &[&x, &term], Vec::new()),
        (false, false) if is_after => {
            let product = c.node("Mul", &[&x, &factor], Vec::new());
            c.out("Out", "Add", &[&product, &term], Vec::new())
        }
        (false, false) => {
            let sum = c.node("Add", &[&x, &term], Vec::new());
            c.out("Out", "Mul", &[&sum, &factor], Vec::new())
        }
    }
}

pub(super) fn increment(c: &mut Convert<'_>) -> Result<()> {
    let x = c.input("X")?;
    let step = c.number("X", f64::from(c.op.attrs.float("step", 1.0)?))?;
    c.out("Out", "Add", &[&x, &step], Vec::new())
}

pub(super) fn pow(c: &mut Convert<'_>) -> Result<()> {
    c.without(&["FactorTensor"])?;
    let x = c.input("X")?;
    let factor = c.number("X", f64::from(c.op.attrs.float("factor", 1.0)?))?;
    c.out("Out", "Pow", &[&x, &factor], Vec::new())
}

/// From the first to the last: ONNX's own sum knows no whole numbers.
pub(super) fn sum(c: &mut Convert<'_>) -> Result<()> {
    let terms = c.inputs("X")?;
    let Some((first, rest)) = terms.split_first() else {
        return Err(c.refuse("it has nothing to add", CUT));
    };
    let Some((last, middle)) = rest.split_last() else {
        return c.out("Out", "Identity", &[first], Vec::new());
    };
    let mut so_far = first.clone();
    for term in middle {
        so_far = c.node("Add", &[&so_far, term], Vec::new());
    }
    c.out("Out", "Add", &[&so_far, last], Vec::new())
}
