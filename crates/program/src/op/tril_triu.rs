//! `tril_triu`: Out = X, with zeros above (`lower`) or below a diagonal of its matrices.
//!
//! `diagonal` 0 is the main one, positive ones are above it. Gradient: dOut, with the same zeros.

use tensor::Shape;

use super::moves::{Moves, moves, place_of};
use super::{Infer, Run};
use crate::error::Result;

moves! { TrilTriu, TrilTriuGrad: "X" -> "Out", reads ["X"];
    traits(When(|op| op.rank("X").is_some_and(|rank| rank > 2) && op.only_rows("X")),
        "X": [F16, F32, F64, I32, I64]); infer; plan
}

const RANK: &str = "2 dimensions at least are needed";

fn infer(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input("X")?;
    if x.dims.len() < 2 {
        return Err(infer.shape(RANK, "X"));
    }
    infer.set_output("Out", x)
}

struct TrianglePlan {
    shape: Shape,
    diagonal: i64,
    lower: bool,
}

fn plan(run: &Run<'_>) -> Result<TrianglePlan> {
    let shape = run.input("X")?.shape();
    if shape.rank() < 2 {
        return Err(run.shape(RANK, "X"));
    }
    let attrs = run.attrs();
    let lower = attrs.bool("lower", false)?;
    Ok(TrianglePlan { shape, diagonal: attrs.int("diagonal", 0)?, lower })
}

impl Moves for TrianglePlan {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn source(&self, at: &[usize]) -> Option<usize> {
        let above = at[at.len() - 1] as i64 - at[at.len() - 2] as i64;
        let stays = if self.lower { above <= self.diagonal } else { above >= self.diagonal };
        stays.then(|| place_of(self.shape, at))
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn op(lower: bool, diagonal: i32) -> Check {
        let x = t(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        check("tril_triu").input("X", x).attr("lower", lower).attr("diagonal", diagonal)
    }

    #[test]
    fn keeps_a_triangle() {
        op(true, 0).gives("Out", t(&[2, 3], &[1.0, 0.0, 0.0, 4.0, 5.0, 0.0]));
        op(false, 1).gives("Out", t(&[2, 3], &[0.0, 2.0, 3.0, 0.0, 0.0, 6.0]));
        op(true, 1).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_a_list() {
        let error = check("tril_triu").input("X", some(&[3])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
