//! `split`: Out₀, Out₁, … = consecutive parts of X along `axis`.
//!
//! `num` equal parts, or parts of the sizes in `sections`, one of which may be -1 for the rest.
//! Gradient: the dOut's joined again.

use super::sizes::{self, bad_attr};
use super::strips::Section;
use super::{Grad, Infer, Op, Run, traits};
use crate::block::OpDesc;
use crate::error::Result;
use crate::var::Meta;

pub(super) struct Split;

impl Op for Split {
    traits!(Inner("X", "axis", 0), "X": [F16, F32, F64, I32, I64, Bool]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let attrs = infer.attrs();
        if infer.opt_input("AxisTensor")?.is_some() {
            return all_unknown(infer, &x.with_dims(vec![-1; x.dims.len()]));
        }
        let axis = sizes::axis("axis", attrs.int("axis", 0)?, x.dims.len())?;
        let (num, sections) = (attrs.int("num", 0)?, attrs.ints("sections")?);
        if infer.opt_input("SectionsTensorList")?.is_some() {
            let mut dims = x.dims.clone();
            dims[axis] = -1;
            return all_unknown(infer, &x.with_dims(dims));
        }
        let parts = parts(x.dims[axis], num, &sections, infer.n_outputs("Out"))?;
        for (index, &size) in parts.iter().enumerate() {
            let mut dims = x.dims.clone();
            dims[axis] = size;
            infer.set_output_at("Out", index, x.with_dims(dims))?;
        }
        Ok(())
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let attrs = run.attrs();
        let shape = run.input("X")?.shape();
        let axis = match run.n_inputs("AxisTensor") {
            0 => attrs.int("axis", 0)?,
            _ => run.scalar("AxisTensor")? as i64,
        };
        let axis = sizes::axis("axis", axis, shape.rank())?;
        let sections = match sizes::integers_at(run, "SectionsTensorList")? {
            Some(sections) => sections,
            None => attrs.ints("sections")?,
        };
        let total = shape.dim(axis);
        let num = attrs.int("num", 0)?;
        let parts = parts(total as i64, num, &sections, run.n_outputs("Out"))?;
        let mut at = 0;
        for (index, &size) in parts.iter().enumerate() {
            let mut out = run.take_at("Out", index);
            let x = run.input("X")?;
            let shape = shape.with_dim(axis, size as usize);
            let section = Section::new(x.dtype(), shape, axis, total, at);
            out.resize_as(x.dtype(), shape);
            section.cut(x.bytes(), out.bytes_mut());
            if axis != 0 {
                out.set_lod(x.lod().clone());
            }
            run.put_at("Out", index, out);
            at += size as usize;
        }
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let mut op = OpDesc::new("concat")
            .input("X", grad.output_grad("Out"))
            .output("Out", grad.input_grad("X"));
        if !grad.op().input_names("AxisTensor").is_empty() {
            op = op.input("AxisTensor", grad.input("AxisTensor"));
        }
        op.attrs = grad.op().attrs.clone();
        grad.emit(op)
    }
}

/// Sizes that a tensor will say.
fn all_unknown(infer: &mut Infer<'_>, part: &Meta) -> Result<()> {
    (0..infer.n_outputs("Out")).try_for_each(|at| infer.set_output_at("Out", at, part.clone()))
}

/// The size of each part; -1 for those not known yet.
fn parts(total: i64, num: i64, sections: &[i64], n_outputs: usize) -> Result<Vec<i64>> {
    if sections.is_empty() {
        if num <= 0 || num as usize != n_outputs || (total >= 0 && total % num != 0) {
            return Err(bad_attr("num", &format!("{n_outputs} parts of {total}"), num));
        }
        return Ok(vec![if total < 0 { -1 } else { total / num }; n_outputs]);
    }
    let known = sections.iter().filter(|&&size| size >= 0).try_fold(0i64, |a, &b| a.checked_add(b));
    let n_unknown = sections.iter().filter(|&&size| size < 0).count();
    let rest = total.saturating_sub(known.unwrap_or(i64::MAX));
    let fills = total < 0 || (n_unknown == 0 && rest == 0) || (n_unknown == 1 && rest >= 0);
    if sections.len() != n_outputs || n_unknown > 1 || known.is_none() || !fills {
        return Err(bad_attr("sections", &format!("{n_outputs} parts of {total}"), sections));
    }
    let size = |&size: &i64| if size >= 0 { size } else { rest.max(-1) };
    Ok(sections.iter().map(size).collect())
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn split() -> Check {
        let x = t(&[2, 4], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        check("split").input("X", x).attr("axis", 1)
    }

    #[test]
    fn cuts_into_equal_or_given_parts() {
        let halves = vec![t(&[2, 2], &[1.0, 2.0, 5.0, 6.0]), t(&[2, 2], &[3.0, 4.0, 7.0, 8.0])];
        split().attr("num", 2).gives_all("Out", halves);
        let parts = || vec![t(&[2, 1], &[1.0, 5.0]), t(&[2, 3], &[2.0, 3.0, 4.0, 6.0, 7.0, 8.0])];
        split().attr("sections", vec![1, 3]).gives_all("Out", parts());
        split().attr("sections", vec![1, -1]).gives_all("Out", parts());
    }

    #[test]
    fn gradient_matches_finite_differences() {
        split().attr("sections", vec![1, 3]).outputs("Out", 2).grad(&["X"]);
    }

    #[test]
    fn axis_and_sizes_may_come_as_tensors() {
        let x = || t(&[2, 4], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let parts = || vec![t(&[2, 1], &[1.0, 5.0]), t(&[2, 3], &[2.0, 3.0, 4.0, 6.0, 7.0, 8.0])];
        let split = || check("split").input("X", x()).input("AxisTensor", ids(&[1], &[-1]));
        split().attr("sections", vec![1, 3]).gives_all("Out", parts());
        split().attr("sections", vec![1, 3]).outputs("Out", 2).grad(&["X"]);
        let sizes = vec![ids(&[1], &[1]), ids(&[1], &[-1])];
        let split = check("split").input("X", x()).attr("axis", 1);
        split.inputs("SectionsTensorList", sizes).gives_all("Out", parts());
    }

    #[test]
    fn refuses_parts_that_do_not_fill() {
        for bad in [
            split().attr("num", 3).outputs("Out", 3),
            split().attr("num", 2).outputs("Out", 3),
            split().attr("sections", vec![1, 2]).outputs("Out", 2),
            split().attr("sections", vec![-1, -1]).outputs("Out", 2),
            split().attr("sections", vec![5, -1]).outputs("Out", 2),
            split().attr("num", 2).attr("axis", 2).outputs("Out", 2),
        ] {
            let error = bad.fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
    }
}
