//! `clip_by_norm`: Out = X max_norm / |X| if the L2 norm |X| exceeds `max_norm`, else X.
//!
//! Rows with equal ids are added up first.

use tensor::Number;

use super::map::{apply, map_merged, needed_float};
use super::{Infer, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct ClipByNorm;

impl Op for ClipByNorm {
    traits!(Never, "X": [F32]; keeps_to_gradients, needs_whole);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let max_norm = f64::from(needed_float(run, "max_norm")?);
        map_merged(run, |run, x, out| {
            for_float!(x.dtype(), run.input_name("X"), T => {
                let shape = x.shape();
                let x = x.data::<T>()?;
                let max_norm = T::of(max_norm);
                let norm = x.iter().map(|&x| x * x).sum::<T>().sqrt();
                let factor = if norm > max_norm { max_norm / norm } else { 1.0 };
                apply(x, out.resize::<T>(shape), |x| x * factor);
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use tensor::{Rows, Value};

    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn clip(max_norm: f32) -> Check {
        check("clip_by_norm").attr("max_norm", max_norm)
    }

    #[test]
    fn shrinks_only_what_is_too_long() {
        clip(1.0).input("X", t(&[2], &[3.0, 4.0])).gives("Out", t(&[2], &[0.6, 0.8]));
        clip(5.0).input("X", t(&[2], &[3.0, 4.0])).gives("Out", t(&[2], &[3.0, 4.0]));
    }

    #[test]
    fn adds_up_equal_rows_first() {
        let rows = Rows { ids: vec![3, 1, 3], height: 5, value: t(&[3, 1], &[1.0, 3.0, 3.0]) };
        let out = clip(1.0).input("X", rows).output("Out").run("Out");
        let Value::Rows(out) = out else { panic!("rows") };
        assert_eq!((out.ids, out.height), (vec![1, 3], 5));
        assert!((out.value.get_f64(1) - 0.8).abs() < 1e-7);
    }

    #[test]
    fn refuses_integers_and_a_missing_limit() {
        let error = clip(1.0).input("X", ids(&[1], &[1])).output("Out").fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
        let error = check("clip_by_norm").input("X", t(&[1], &[1.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::MissingAttr { .. }), "{error}");
    }
}
