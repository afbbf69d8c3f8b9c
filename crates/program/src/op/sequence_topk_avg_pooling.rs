//! `sequence_topk_avg_pooling`: X holds for each sample a matrix per channel, with a row for each step of ROW and a column for each step of
//! COLUMN. Out\[step of ROW, channel, k\] = the sum of the `topks`\[k\] largest numbers of the row, divided by `topks`\[k\]; `pos` = their places.

use tensor::{DType, Float, Shape};

use super::ragged;
use super::sizes::bad_attr;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::attr::Attrs;
use crate::error::Result;
use crate::var::Meta;

pub(super) struct SequenceTopkAvgPooling;
pub(super) struct SequenceTopkAvgPoolingGrad;

const OP: &str = "SequenceTopkAvgPoolingOp";
const RULE: &str =
    "X has a matrix for each channel of each sample, of the lengths of ROW and COLUMN";

/// What the attributes say.
struct TopKs {
    topks: Vec<usize>,
    most: usize,
    n_channels: usize,
}

impl TopKs {
    fn of(attrs: &Attrs) -> Result<Self> {
        let (topks, n) = (attrs.ints("topks")?, attrs.int("channel_num", 1)?);
        let sorted = topks.is_sorted() && topks.iter().all(|k| (1..=1 << 20).contains(k));
        if topks.is_empty() || !sorted {
            return Err(bad_attr("topks", "positive numbers, the largest last", topks));
        }
        let n_channels = usize::try_from(n).ok().filter(|&n| n > 0 && n <= 1 << 20);
        let n_channels = n_channels.ok_or_else(|| bad_attr("channel_num", "positive", n))?;
        let topks: Vec<usize> = topks.into_iter().map(|k| k as usize).collect();
        Ok(Self { most: topks[topks.len() - 1], topks, n_channels })
    }
}

/// A row of a matrix of X.
struct PooledRow {
    /// Its first number in X.
    start: usize,
    n_columns: usize,
    /// Which one it is of the rows of all channels.
    place: usize,
}

fn rows(run: &Run<'_>, pooling: &TopKs) -> Result<Vec<PooledRow>> {
    let x = ragged::offsets(run, OP, "X")?;
    let (height, width) = (ragged::offsets(run, OP, "ROW")?, ragged::offsets(run, OP, "COLUMN")?);
    if x.len() != height.len() || x.len() != width.len() || ragged::width(run.input("X")?) != 1 {
        return Err(run.shapes(RULE, "X", "ROW"));
    }
    let mut rows = Vec::new();
    for sample in 0..x.len() - 1 {
        let n_rows = height[sample + 1] - height[sample];
        let n_columns = width[sample + 1] - width[sample];
        if x[sample + 1] - x[sample] != pooling.n_channels * n_rows * n_columns {
            return Err(run.shapes(RULE, "X", "ROW"));
        }
        for row in 0..n_rows {
            for channel in 0..pooling.n_channels {
                let start = x[sample] + (channel * n_rows + row) * n_columns;
                let place = (height[sample] + row) * pooling.n_channels + channel;
                rows.push(PooledRow { start, n_columns, place });
            }
        }
    }
    Ok(rows)
}

impl Op for SequenceTopkAvgPooling {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, row) = (infer.input("X")?, infer.input("ROW")?);
        let pooling = TopKs::of(infer.attrs())?;
        let n = row.dims.first().copied().unwrap_or(-1);
        let width = (pooling.n_channels * pooling.topks.len()) as i64;
        infer.set_output("Out", x.with_dims(vec![n, width]))?;
        infer.set_output("pos", Meta::dense(DType::I32, &[-1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let pooling = TopKs::of(run.attrs())?;
        let (mut out, mut pos) = (run.take("Out"), run.take("pos"));
        let rows = rows(run, &pooling)?;
        let (x, row) = (run.input("X")?, run.input("ROW")?);
        let n_ks = pooling.topks.len();
        let n_rows = row.dims().first().copied().unwrap_or(0);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let data = x.data::<T>()?;
            let out = out.try_resize_zeroed::<T>(Shape::from([n_rows, pooling.n_channels * n_ks]))?;
            let places = pos.try_resize::<i32>(Shape::from([n_rows * pooling.n_channels * pooling.most]))?;
            places.fill(-1);
            for row in rows {
                let numbers = &data[row.start..row.start + row.n_columns];
                let places = &mut places[row.place * pooling.most..][..pooling.most];
                largest(numbers, places);
                let mut sum = 0.0;
                let mut sums = places.iter().map(|&at| {
                    sum += if at < 0 { 0.0 } else { numbers[at as usize] };
                    sum
                });
                let (mut last, mut taken) = (0.0, 0);
                for (out, &k) in out[row.place * n_ks..][..n_ks].iter_mut().zip(&pooling.topks) {
                    while taken < k {
                        last = sums.next().unwrap_or(last);
                        taken += 1;
                    }
                    *out = last / k as T;
                }
            }
            Ok(())
        })?;
        out.set_lod(row.lod().clone());
        run.put("Out", out);
        run.put("pos", pos);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let keep = Keep::grads(&["Out"], &["X"]).inputs(&["X", "ROW", "COLUMN"]);
        grad.emit_usual(keep.outputs(&["pos"]))
    }
}

/// The places of the largest numbers, largest first; of equal ones the first.
fn largest<T: Float>(numbers: &[T], places: &mut [i32]) {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&a, &b| numbers[b].f64().total_cmp(&numbers[a].f64()));
    places.iter_mut().zip(order).for_each(|(place, at)| *place = at as i32);
}

impl Kernel for SequenceTopkAvgPoolingGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let pooling = TopKs::of(run.attrs())?;
        run.fill("X@GRAD", "X", |run, x, d_x| {
            let (rows, n_ks) = (rows(run, &pooling)?, pooling.topks.len());
            let n = run.input("ROW")?.dims()[0] * pooling.n_channels;
            let places = ragged::data_of_len::<i32>(run, "pos", n * pooling.most)?;
            for_float!(x.dtype(), run.input_name("X"), T => {
                let d_out = ragged::data_of_len::<T>(run, "Out@GRAD", n * n_ks)?;
                let d_x = d_x.resize_zeroed::<T>(x.shape());
                for row in rows {
                    let places = &places[row.place * pooling.most..][..pooling.most];
                    for (&d, &k) in d_out[row.place * n_ks..].iter().zip(&pooling.topks) {
                        let taken = places[..k].iter().map(|&at| at as usize);
                        for at in taken.take_while(|&at| at < row.n_columns) {
                            d_x[row.start + at] += d / k as T;
                        }
                    }
                }
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, seq, some, t};

    fn pooled() -> Check {
        let x = [1.0, 5.0, 3.0, 2.0, 4.0, 6.0, 7.0, 8.0];
        check("sequence_topk_avg_pooling")
            .input("X", seq(t(&[8, 1], &x), &[6, 2]))
            .input("ROW", seq(some(&[4, 1]), &[2, 2]))
            .input("COLUMN", seq(some(&[4, 1]), &[3, 1]))
            .attr("topks", vec![1, 2])
            .attr("channel_num", 1)
    }

    #[test]
    fn averages_the_largest() {
        let expected = t(&[4, 2], &[5.0, 4.0, 6.0, 5.0, 7.0, 3.5, 8.0, 4.0]);
        pooled().output("pos").gives("Out", seq(expected, &[2, 2]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        pooled().output("Out").output("pos").grad(&["X"]);
    }

    #[test]
    fn refuses_matrices_that_do_not_fit() {
        let error = pooled().attr("channel_num", 2).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        for topks in [vec![], vec![0], vec![2, 1]] {
            let error = pooled().attr("topks", topks).output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
    }
}
