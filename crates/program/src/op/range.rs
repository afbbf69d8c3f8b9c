//! `range`: Out = Start, Start + Step, … before End.

use tensor::{Number, Shape};

use super::{Infer, Op, Run, for_number, no_gradient, traits};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct Range;

impl Op for Range {
    traits!(Constant);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let start = infer.input("Start")?;
        infer.set_output("Out", Meta::dense(start.dtype, &[-1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let start = run.scalar("Start")?;
        let end = run.scalar("End")?;
        let step = run.scalar("Step")?;
        let n = ((end - start) / step).ceil();
        if !(n >= 0.0 && n < (1u64 << 48) as f64) || step == 0.0 {
            let (rule, var) = ("Step must lead from Start to End", run.input_name("Step"));
            return Err(Error::BadValue { rule, var: var.to_string(), position: 0, value: step });
        }
        run.make("Out", |run, out| {
            for_number!(run.input("Start")?.dtype(), run.input_name("Start"), T => {
                let out = out.try_resize::<T>(Shape::from([n as usize]))?;
                count_on(out, T::of(start), T::of(step));
                Ok(())
            })
        })
    }

    no_gradient!();
}

/// Counts from `start` in steps, which are added up as Fluid does, for the same bits.
pub(super) fn count_on<T: Copy + std::ops::AddAssign>(out: &mut [T], start: T, step: T) {
    let mut next = start;
    for value in out {
        *value = next;
        next += step;
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn range(start: i64, end: i64, step: i64) -> Check {
        let one = |x| ids(&[1], &[x]);
        check("range").input("Start", one(start)).input("End", one(end)).input("Step", one(step))
    }

    #[test]
    fn counts_up_and_down() {
        range(0, 10, 3).gives("Out", ids(&[4], &[0, 3, 6, 9]));
        range(5, 0, -2).gives("Out", ids(&[3], &[5, 3, 1]));
        let one = |x| t(&[1], &[x]);
        check("range")
            .input("Start", one(1.0))
            .input("End", one(2.0))
            .input("Step", one(0.5))
            .gives("Out", t(&[2], &[1.0, 1.5]));
    }

    #[test]
    fn refuses_a_step_that_never_arrives() {
        for step in [0, -1] {
            let error = range(0, 10, step).output("Out").fails();
            assert!(matches!(error.root(), Error::BadValue { .. }), "{error}");
        }
    }
}
