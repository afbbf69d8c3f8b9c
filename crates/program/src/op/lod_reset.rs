//! `lod_reset`: X with other sequences: those of Y, the offsets Y holds, or `target_lod`.
//!
//! With `append` the offsets become a new innermost level below those of X.

use tensor::Lod;

use super::{Grad, Infer, Keep, Kernel, Op, Run, ragged, sizes, traits};
use crate::error::{Error, Result};

pub(super) struct LodReset;
pub(super) struct LodResetGrad;

impl Op for LodReset {
    traits!(Never, "X": [F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let level = match infer.opt_input("Y")? {
            Some(y) if y.lod_level > 0 => y.lod_level,
            _ if infer.attrs().bool("append", false)? => x.lod_level + 1,
            _ => 1,
        };
        infer.set_output("Out", x.with_lod_level(level))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let x = run.input("X")?;
        let lod = target(run)?;
        ragged::check_lod(&lod, x, || run.input_name("X").to_string())?;
        out.copy_from(x);
        out.set_lod(lod);
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]))
    }
}

/// The new offsets, not checked yet.
fn target(run: &Run<'_>) -> Result<Lod> {
    let offsets = match run.opt_input("Y") {
        Some(y) if !y.lod().is_empty() => return Ok(y.lod().clone()),
        Some(y) => sizes::integers(y, run.input_name("Y"))?,
        None => run.attrs().ints("target_lod")?,
    };
    let mut level = Vec::with_capacity(offsets.len());
    for (position, &offset) in offsets.iter().enumerate() {
        level.push(usize::try_from(offset).map_err(|_| Error::BadValue {
            rule: "offsets must not be negative",
            var: run.input_name("Y").to_string(),
            position,
            value: offset as f64,
        })?);
    }
    let mut levels = Vec::new();
    if run.attrs().bool("append", false)? {
        levels.extend_from_slice(run.input("X")?.lod().levels());
    }
    levels.push(level);
    Ok(Lod::from_offsets(levels))
}

/// dX = dOut with the sequences of X.
impl Kernel for LodResetGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        d_x.copy_from(run.input("Out@GRAD")?);
        d_x.set_lod(run.input("X")?.lod().clone());
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{Check, check, ids, seq, t};
    use tensor::Tensor;

    fn x() -> Tensor {
        seq(t(&[3, 1], &[1.0, 2.0, 3.0]), &[2, 1])
    }

    fn reset(target: Vec<i32>) -> Check {
        check("lod_reset").input("X", x()).attr("target_lod", target)
    }

    #[test]
    fn takes_offsets_from_the_attribute_or_from_y() {
        let out = seq(x(), &[1, 2]);
        reset(vec![0, 1, 3]).gives("Out", out.clone());
        let y = seq(t(&[3, 1], &[0.0; 3]), &[1, 2]);
        check("lod_reset").input("X", x()).input("Y", y).gives("Out", out.clone());
        check("lod_reset").input("X", x()).input("Y", ids(&[3], &[0, 1, 3])).gives("Out", out);
    }

    #[test]
    fn appends_a_level() {
        let mut out = x();
        out.set_lod(Lod::from_recursive_lengths(&[vec![2, 1], vec![1, 1, 1]]));
        reset(vec![0, 1, 2, 3]).attr("append", true).gives("Out", out);
    }

    #[test]
    fn gradient_matches_finite_differences() {
        reset(vec![0, 1, 3]).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_offsets_that_do_not_fit() {
        for target in [vec![0, 1, 4], vec![1, 3], vec![0, 2, 1, 3], vec![]] {
            let error = reset(target).output("Out").fails();
            assert!(matches!(error.root(), Error::Tensor(tensor::Error::BadLod(_))), "{error}");
        }
        let error = reset(vec![0, -1, 3]).output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { position: 1, .. }), "{error}");
    }
}
