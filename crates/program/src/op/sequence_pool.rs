//! `sequence_pool`: one row per sequence of the innermost ragged level, which is dropped.
//!
//! `pooltype` says which: AVERAGE, SUM, SQRT (sum / sqrt(length)), MAX, LAST or FIRST step. An
//! empty sequence gives `pad_value` everywhere. MAX also writes MaxIndex, the row of X each value
//! came from (-1 in an empty sequence), unless `is_test`.

use tensor::{Float, Number};

use super::ragged::{self, Ragged};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};

pub(super) struct SequencePool;
pub(super) struct SequencePoolGrad;

const OP: &str = "SequencePoolOp";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pool {
    Average,
    Sum,
    Sqrt,
    Max,
    Last,
    First,
}

impl Pool {
    fn of(attrs: &Attrs) -> Result<Self> {
        Ok(match attrs.str("pooltype", "AVERAGE")? {
            "AVERAGE" => Pool::Average,
            "SUM" => Pool::Sum,
            "SQRT" => Pool::Sqrt,
            "MAX" => Pool::Max,
            "LAST" => Pool::Last,
            "FIRST" => Pool::First,
            other => {
                let expected = "one of AVERAGE, SUM, SQRT, MAX, LAST, FIRST".to_string();
                let (attr, actual) = ("pooltype".to_string(), other.to_string());
                return Err(Error::BadAttr { attr, expected, actual });
            }
        })
    }

    /// The factor of a sum over `n` rows.
    fn factor<T: Float>(self, n: usize) -> T {
        match self {
            Pool::Average => T::one() / T::of(n as f64),
            Pool::Sqrt => T::one() / T::of((n as f64).sqrt()),
            _ => T::one(),
        }
    }
}

impl Op for SequencePool {
    traits!(Rows("X"), "X": [F32]; knows_is_test);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let pool = Pool::of(infer.attrs())?;
        let mut out = infer.input("X")?;
        out.dims.iter_mut().take(1).for_each(|dim| *dim = -1);
        out.lod_level = (out.lod_level - 1).max(0);
        if pool == Pool::Max {
            infer.set_output("MaxIndex", out.with_lod_level(0))?;
        }
        infer.set_output("Out", out)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let pool = Pool::of(run.attrs())?;
        let pad_value = run.attrs().float("pad_value", 0.0)?;
        let writes_index = pool == Pool::Max && !run.attrs().bool("is_test", false)?;
        let mut out = run.take("Out");
        let mut index = writes_index.then(|| run.take("MaxIndex"));
        let (x, offsets) = (run.input("X")?, ragged::offsets(run, OP, "X")?);
        let shape = x.shape().with_dim(0, offsets.len() - 1);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let sequences = Ragged::<T>::new(x, offsets)?;
            let out = out.resize::<T>(shape);
            let index = index.as_mut().map(|index| index.resize::<i32>(shape));
            match pool {
                Pool::Max => pool_max(sequences, T::of(pad_value.into()), out, index),
                _ => pool_rows(pool, sequences, T::of(pad_value.into()), out),
            }
            Ok(())
        })?;
        out.set_lod(x.lod().without_last());
        run.put("Out", out);
        if let Some(index) = index {
            run.put("MaxIndex", index);
        }
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let is_max = Pool::of(&grad.op().attrs)? == Pool::Max;
        grad.emit_usual(Keep {
            inputs: &["X"],
            outputs: if is_max { &["MaxIndex"] } else { &[] },
            out_grads: &["Out"],
            in_grads: &["X"],
        })
    }
}

fn pool_rows<T: Float>(pool: Pool, x: Ragged<'_, T>, pad: T, out: &mut [T]) {
    let width = x.width();
    for (index, sequence) in x.iter().enumerate() {
        let out = &mut out[index * width..(index + 1) * width];
        let n = x.offsets()[index + 1] - x.offsets()[index];
        if n == 0 {
            out.fill(pad);
            continue;
        }
        let last = (n - 1) * width;
        match pool {
            Pool::First => out.copy_from_slice(&sequence[..width]),
            Pool::Last => out.copy_from_slice(&sequence[last..]),
            _ => add_rows(sequence, pool.factor(n), out),
        }
    }
}

/// `out = factor * (sum of the rows)`; there is one row at least.
fn add_rows<T: Float>(rows: &[T], factor: T, out: &mut [T]) {
    let (first, rest) = rows.split_at(out.len());
    out.copy_from_slice(first);
    for row in rest.chunks_exact(out.len().max(1)) {
        out.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
    }
    if factor != T::one() {
        out.iter_mut().for_each(|sum| *sum *= factor);
    }
}

/// The first of equal maxima counts.
fn pool_max<T: Float>(x: Ragged<'_, T>, pad: T, out: &mut [T], mut index: Option<&mut [i32]>) {
    let width = x.width();
    for (k, sequence) in x.iter().enumerate() {
        let (start, here) = (x.offsets()[k], k * width..(k + 1) * width);
        let out = &mut out[here.clone()];
        let mut index = index.as_deref_mut().map(|index| &mut index[here]);
        let mut mark = |columns: std::ops::Range<usize>, row: i32| {
            if let Some(index) = &mut index {
                index[columns].fill(row);
            }
        };
        if sequence.is_empty() {
            out.fill(pad);
            mark(0..width, -1);
            continue;
        }
        out.copy_from_slice(&sequence[..width]);
        mark(0..width, start as i32);
        for (row, values) in sequence.chunks_exact(width).enumerate().skip(1) {
            for (column, (max, &value)) in out.iter_mut().zip(values).enumerate() {
                if value > *max {
                    *max = value;
                    mark(column..column + 1, (start + row) as i32);
                }
            }
        }
    }
}

/// dX: dOut of its sequence, times the factor of the pooling, to the steps that took part.
impl Kernel for SequencePoolGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let pool = Pool::of(run.attrs())?;
        let mut d_x = run.take("X@GRAD");
        let (x, offsets) = (run.input("X")?, ragged::offsets(run, OP, "X")?);
        let width = ragged::width(x);
        let n_out = (offsets.len() - 1) * width;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let d_out = ragged::data_of_len::<T>(run, "Out@GRAD", n_out)?;
            let d_x = d_x.resize::<T>(x.shape());
            if pool == Pool::Max {
                let index = ragged::data_of_len::<i32>(run, "MaxIndex", n_out)?;
                scatter_max(index, width, d_out, d_x).map_err(|(position, row)| Error::BadValue {
                    rule: "a row of X, or -1",
                    var: run.input_name("MaxIndex").to_string(),
                    position,
                    value: row.into(),
                })
            } else {
                let sequences = ragged::each_mut(d_x, offsets, width);
                spread(pool, sequences.zip(d_out.chunks_exact(width.max(1))));
                Ok(())
            }
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

/// Fills the gradient of each sequence from the gradient of its row.
fn spread<'a, T: Float>(pool: Pool, pairs: impl Iterator<Item = (&'a mut [T], &'a [T])>) {
    for (d_x, d_out) in pairs {
        let n = d_x.len() / d_out.len();
        let chosen = match pool {
            Pool::First => 0..1,
            Pool::Last => n.saturating_sub(1)..n,
            _ => 0..n,
        };
        let factor = pool.factor::<T>(n);
        for (step, d_x) in d_x.chunks_exact_mut(d_out.len()).enumerate() {
            let factor = if chosen.contains(&step) { factor } else { T::zero() };
            d_x.iter_mut().zip(d_out).for_each(|(d_x, &d)| *d_x = factor * d);
        }
    }
}

/// Sends each gradient to the row its value came from; the error names a row that is not there.
fn scatter_max<T: Float>(
    index: &[i32],
    width: usize,
    d_out: &[T],
    d_x: &mut [T],
) -> std::result::Result<(), (usize, i32)> {
    d_x.fill(T::zero());
    for (at, (&row, &d)) in index.iter().zip(d_out).enumerate().filter(|(_, (row, _))| **row != -1)
    {
        let target = usize::try_from(row).ok().and_then(|row| row.checked_mul(width));
        let target = target.and_then(|start| d_x.get_mut(start + at % width));
        *target.ok_or((at, row))? += d;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{Check, check, ids, seq, t};
    use tensor::{Lod, Tensor};

    /// Lengths 2, 0, 3.
    fn x() -> Tensor {
        let data = [1.0, 2.0, 9.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
        seq(t(&[5, 2], &data), &[2, 0, 3])
    }

    fn pool(kind: &str) -> Check {
        check("sequence_pool").input("X", x()).attr("pooltype", kind).attr("pad_value", 7.0f32)
    }

    #[test]
    fn pools_each_sequence() {
        let cases = [
            ("AVERAGE", [5.0, 3.0, 7.0, 7.0, 7.0, 8.0]),
            ("SUM", [10.0, 6.0, 7.0, 7.0, 21.0, 24.0]),
            ("MAX", [9.0, 4.0, 7.0, 7.0, 9.0, 10.0]),
            ("LAST", [9.0, 4.0, 7.0, 7.0, 9.0, 10.0]),
            ("FIRST", [1.0, 2.0, 7.0, 7.0, 5.0, 6.0]),
        ];
        for (kind, expected) in cases {
            pool(kind).gives("Out", t(&[3, 2], &expected));
        }
        let (two, three) = (2f64.sqrt(), 3f64.sqrt());
        let expected = [10.0 / two, 6.0 / two, 7.0, 7.0, 21.0 / three, 24.0 / three];
        pool("SQRT").gives("Out", t(&[3, 2], &expected));
    }

    #[test]
    fn max_tells_where_it_found_it_and_takes_the_first_of_equals() {
        // Fluid's programs describe the index with X's type while its kernel writes int32; so do we.
        let rows = Tensor::new([3, 2], &[1, 1, -1, -1, 4, 4]).unwrap();
        let index = |check: Check| check.output("Out").output("MaxIndex").run("MaxIndex");
        assert_eq!(index(pool("MAX")), rows.into());
        let equal = seq(t(&[2, 1], &[3.0, 3.0]), &[2]);
        let equal = check("sequence_pool").input("X", equal).attr("pooltype", "MAX");
        assert_eq!(index(equal), Tensor::new([1, 1], &[0]).unwrap().into());
    }

    #[test]
    fn does_not_need_the_index_in_a_test() {
        let out = t(&[3, 2], &[9.0, 4.0, 7.0, 7.0, 9.0, 10.0]);
        let checked = pool("MAX").attr("is_test", true).gives("Out", out).output("MaxIndex");
        assert!(checked.run("MaxIndex").is_empty());
    }

    #[test]
    fn drops_the_innermost_level() {
        let mut nested = x();
        nested.set_lod(Lod::from_recursive_lengths(&[vec![1, 2], vec![2, 0, 3]]));
        check("sequence_pool")
            .input("X", nested)
            .attr("pooltype", "SUM")
            .gives("Out", seq(t(&[3, 2], &[10.0, 6.0, 0.0, 0.0, 21.0, 24.0]), &[1, 2]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        for kind in ["AVERAGE", "SUM", "SQRT", "LAST", "FIRST"] {
            pool(kind).output("Out").grad(&["X"]);
        }
        pool("MAX").output("Out").output("MaxIndex").grad(&["X"]);
    }

    #[test]
    fn refuses_what_is_no_batch_of_sequences() {
        let plain = check("sequence_pool").input("X", t(&[2, 1], &[1.0, 2.0])).output("Out");
        let error = plain.fails();
        assert!(matches!(error.root(), Error::NoLod { op: OP, port: "X", .. }), "{error}");
        let beyond = seq(t(&[2, 1], &[1.0, 2.0]), &[1, 7]);
        let error = check("sequence_pool").input("X", beyond).output("Out").fails();
        assert!(matches!(error.root(), Error::Tensor(tensor::Error::BadLod(_))), "{error}");
        let error = pool("MEDIAN").output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = check("sequence_pool").input("X", seq(ids(&[1, 1], &[1]), &[1]));
        let error = error.output("Out").fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
    }

    #[test]
    fn the_gradient_refuses_a_row_that_is_not_there() {
        let error = check("sequence_pool_grad")
            .input("X", seq(t(&[2, 1], &[1.0, 2.0]), &[2]))
            .input("MaxIndex", Tensor::new([1, 1], &[2]).unwrap())
            .input("Out@GRAD", t(&[1, 1], &[1.0]))
            .attr("pooltype", "MAX")
            .output("X@GRAD")
            .fails();
        assert!(matches!(error.root(), Error::BadValue { position: 0, .. }), "{error}");
    }
}
