//! `multinomial`: Out = places of each row of X, drawn with chances in proportion to its numbers.
//!
//! Without `replacement`, a place is drawn at most once, so a row needs `num_samples` numbers above 0.

use tensor::rng::Real;
use tensor::{DType, Shape};

use super::sizes::bad_attr;
use super::uniform_random::stream;
use super::{Infer, Op, Run, for_float, no_gradient, traits};
use crate::error::{Error, Result};

pub(super) struct Multinomial;

impl Op for Multinomial {
    traits!(Never, "X": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let n_samples = infer.attrs().int("num_samples", 1)?;
        let Some((_, rows)) = x.dims.split_last().filter(|(_, rows)| rows.len() < 2) else {
            return Err(infer.shape("a row of chances, or a matrix of them, is needed", "X"));
        };
        let dims = [rows, &[n_samples]].concat();
        infer.set_output("Out", x.with_dims(dims).with_dtype(DType::I64))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let attrs = run.attrs();
        let (n_samples, again) = (attrs.int("num_samples", 1)?, attrs.bool("replacement", false)?);
        let mut stream = stream(run)?;
        let mut out = run.take("Out");
        let x = run.input("X")?;
        let dims = x.shape().to_i64();
        let Some((&width, rows)) = dims.split_last().filter(|(_, rows)| rows.len() < 2) else {
            return Err(run.shape("a row of chances, or a matrix of them, is needed", "X"));
        };
        if n_samples < 1 || width < 1 || (!again && n_samples > width) {
            return Err(bad_attr("num_samples", &format!("from 1 to {width}"), n_samples));
        }
        let shape = Shape::from_dims(&[rows, &[n_samples]].concat())?;
        let mut chances = vec![0.0; width as usize];
        for_float!(x.dtype(), run.input_name("X"), T => {
            let drawn = out.try_resize::<i64>(shape)?.chunks_exact_mut(n_samples as usize);
            for (row, (x, drawn)) in x.data::<T>()?.chunks_exact(width as usize).zip(drawn).enumerate() {
                for (chance, &x) in chances.iter_mut().zip(x) {
                    *chance = f64::from(x);
                }
                let first = row * width as usize;
                check(run, first, &chances, if again { 1 } else { n_samples as usize })?;
                for place in drawn {
                    let at = draw(&chances, f64::unit(&mut stream));
                    *place = at as i64;
                    if !again {
                        chances[at] = 0.0;
                    }
                }
            }
            Ok::<(), Error>(())
        })?;
        run.put("Out", out);
        Ok(())
    }

    no_gradient!();
}

/// An error unless all are numbers from 0 on, and as many of them above 0 as are drawn.
fn check(run: &Run<'_>, first: usize, chances: &[f64], n_needed: usize) -> Result<()> {
    let bad = |rule, at: usize| {
        let var = run.input_name("X").to_string();
        Err(Error::BadValue { rule, var, position: first + at, value: chances[at] })
    };
    if let Some(at) = chances.iter().position(|&chance| !(chance >= 0.0 && chance.is_finite())) {
        return bad("a chance must be a number from 0 on", at);
    }
    if chances.iter().filter(|&&chance| chance > 0.0).count() < n_needed {
        return bad("a row needs as many chances above 0 as are drawn from it", 0);
    }
    Ok(())
}

/// The place that a number between 0 and 1 falls to.
fn draw(chances: &[f64], at: f64) -> usize {
    let mut rest = at * chances.iter().sum::<f64>();
    let mut last = 0;
    for (place, &chance) in chances.iter().enumerate() {
        if chance > 0.0 {
            last = place;
            if rest < chance {
                break;
            }
            rest -= chance;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn drawn(chances: &[f64], n: i32) -> Check {
        check("multinomial").input("X", t(&[chances.len()], chances)).attr("num_samples", n)
    }

    #[test]
    fn draws_what_has_a_chance() {
        drawn(&[0.0, 2.0, 0.0], 1).gives("Out", ids(&[1], &[1]));
        let again = drawn(&[0.0, 0.0, 0.5], 3).attr("replacement", true);
        again.gives("Out", ids(&[3], &[2, 2, 2]));
    }

    #[test]
    fn refuses_chances_that_are_none() {
        for (chances, n) in [(&[0.0, 0.0][..], 1), (&[1.0, -1.0], 1), (&[1.0, 0.0], 2)] {
            let error = drawn(chances, n).output("Out").fails();
            assert!(matches!(error.root(), Error::BadValue { .. }), "{error}");
        }
        let error = drawn(&[1.0], 2).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
