//! `average_accumulates`: sums of a parameter over a window of updates, for a model average.
//!
//! sum_1 grows by the parameter; every 16384 updates it moves to sum_2, which loses fewer digits. When the window is
//! full (`average_window` of all updates, within bounds), sum_3 = sum_1 + sum_2 and both start again.

use super::{Infer, Op, Run, for_float, no_gradient, traits};
use crate::error::Result;

pub(super) struct AverageAccumulates;

/// Updates after which a sum moves on.
const UPDATES_MAX: i64 = 16384;

const SUMS: [(&str, &str); 3] =
    [("in_sum_1", "out_sum_1"), ("in_sum_2", "out_sum_2"), ("in_sum_3", "out_sum_3")];
const COUNTS: [(&str, &str); 3] = [
    ("in_num_accumulates", "out_num_accumulates"),
    ("in_old_num_accumulates", "out_old_num_accumulates"),
    ("in_num_updates", "out_num_updates"),
];

/// What happens to the sums at an update.
#[derive(Clone, Copy)]
struct SumMoves {
    to_second: bool,
    to_third: bool,
}

/// Counts the update.
fn count(run: &mut Run<'_>) -> Result<SumMoves> {
    let window = f64::from(run.attrs().float("average_window", 0.0)?);
    let max = run.attrs().int("max_average_window", i64::MAX)?;
    let min = run.attrs().int("min_average_window", 10000)?;
    let mut moves = SumMoves { to_second: false, to_third: false };
    run.update(COUNTS, |run, counts| {
        let one = || run.shape("a count is one number", "in_num_updates");
        let [now, old, updates] = counts;
        let now = now.data_mut::<i64>()?.first_mut().ok_or_else(one)?;
        let old = old.data_mut::<i64>()?.first_mut().ok_or_else(one)?;
        let updates = updates.data_mut::<i64>()?.first_mut().ok_or_else(one)?;
        *updates += 1;
        *now += 1;
        moves.to_second = *updates % UPDATES_MAX == 0;
        let full = max.min((*updates as f64 * window) as i64);
        moves.to_third = *now >= min && *now >= full;
        if moves.to_third {
            *old = *now;
            *now = 0;
        }
        Ok(())
    })?;
    Ok(moves)
}

impl Op for AverageAccumulates {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        for (from, to) in SUMS.into_iter().chain(COUNTS) {
            let meta = infer.input(from)?;
            infer.set_output(to, meta)?;
        }
        Ok(())
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let n = run.input("param")?.len();
        for (port, _) in SUMS {
            if run.input(port)?.len() != n
                || run.input(port)?.dtype() != run.input("param")?.dtype()
            {
                return Err(run.shapes("a sum must be like its parameter", "param", port));
            }
        }
        let moves = count(run)?;
        run.update(SUMS, |run, [first, second, third]| {
            for_float!(first.dtype(), run.input_name("param"), T => {
                let param = run.data::<T>("param")?;
                let (first, second) = (first.data_mut::<T>()?, second.data_mut::<T>()?);
                let third = third.data_mut::<T>()?;
                for (k, &x) in param.iter().enumerate() {
                    first[k] += x;
                    if moves.to_second {
                        second[k] += first[k];
                        first[k] = T::from(0u8);
                    }
                    if moves.to_third {
                        third[k] = first[k] + second[k];
                        (first[k], second[k]) = (T::from(0u8), T::from(0u8));
                    }
                }
                Ok(())
            })
        })
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, t};

    fn op(n_now: i64, second: tensor::Tensor) -> crate::op::check::Check {
        let op = check("average_accumulates").input("param", t(&[2], &[1.0, 2.0]));
        let op = op.input("in_sum_1", t(&[2], &[10.0, 20.0]));
        let op = op.input("in_sum_2", second).input("in_sum_3", t(&[2], &[5.0, 6.0]));
        let op = op.input("in_num_accumulates", ids(&[1], &[n_now]));
        let op = op.input("in_old_num_accumulates", ids(&[1], &[7]));
        let op = op.input("in_num_updates", ids(&[1], &[n_now]));
        let op = op.attr("average_window", 1.0f32).attr("min_average_window", 3i64);
        op.attr("max_average_window", 3i64)
    }

    #[test]
    fn sums_grow_until_the_window_is_full() {
        let second = || t(&[2], &[3.0, 4.0]);
        op(1, second())
            .gives("out_sum_1", t(&[2], &[11.0, 22.0]))
            .gives("out_sum_2", t(&[2], &[3.0, 4.0]))
            .gives("out_sum_3", t(&[2], &[5.0, 6.0]))
            .gives("out_num_accumulates", ids(&[1], &[2]));
        op(2, second())
            .gives("out_sum_1", t(&[2], &[0.0, 0.0]))
            .gives("out_sum_3", t(&[2], &[14.0, 26.0]))
            .gives("out_num_accumulates", ids(&[1], &[0]))
            .gives("out_old_num_accumulates", ids(&[1], &[3]))
            .gives("out_num_updates", ids(&[1], &[3]));
    }

    #[test]
    fn sums_of_another_size_are_refused() {
        let error = op(1, t(&[1], &[3.0])).output("out_sum_1").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
