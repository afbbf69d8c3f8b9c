//! `linspace`: Num numbers from Start to Stop, evenly spaced; only Start if it is one.

use tensor::Shape;

use super::range::count_on;
use super::{Infer, Op, Run, for_float, no_gradient, traits};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct Linspace;

impl Op for Linspace {
    traits!(Constant);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let start = infer.input("Start")?;
        infer.set_output("Out", Meta::dense(start.dtype, &[-1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let num = run.scalar("Num")?;
        if !(1.0..=f64::from(i32::MAX)).contains(&num) {
            let (rule, var) = ("The num of linspace op should be larger than 0.", "Num");
            let var = run.input_name(var).to_string();
            return Err(Error::BadValue { rule, var, position: 0, value: num });
        }
        let n = num as usize;
        run.scalar("Start")?;
        run.scalar("Stop")?;
        run.make("Out", |run, out| {
            for_float!(run.input("Start")?.dtype(), run.input_name("Start"), T => {
                let (start, stop) = (run.data::<T>("Start")?[0], run.data::<T>("Stop")?[0]);
                let step = if n > 1 { (stop - start) / (n - 1) as T } else { 0.0 };
                count_on(out.try_resize::<T>(Shape::from([n]))?, start, step);
                Ok(())
            })
        })
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn linspace(num: i64) -> Check {
        let number = |x| t(&[1], &[x]);
        let check = check("linspace").input("Start", number(0.0)).input("Stop", number(10.0));
        check.input("Num", ids(&[1], &[num]))
    }

    #[test]
    fn spaces_evenly() {
        linspace(5).gives("Out", t(&[5], &[0.0, 2.5, 5.0, 7.5, 10.0]));
        linspace(1).gives("Out", t(&[1], &[0.0]));
    }

    #[test]
    fn refuses_no_numbers() {
        let error = linspace(0).output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { .. }), "{error}");
    }
}
