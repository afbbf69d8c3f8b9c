//! `data_norm`: Y = (X - Means) Scales, from sums over all data seen so far.
//!
//! Means = BatchSum / BatchSize, Scales = sqrt(BatchSize / BatchSquareSum), per column. The
//! "gradients" of the three sums are what a batch adds to them: its rows, its sum, and its squares
//! about the means. With `slot_dim` > 0 columns come in groups that begin with a show count; a
//! group whose count is 0 gives 0 and adds nothing.

use tensor::{Float, Shape};

use super::{Grad, Infer, Kernel, Op, Run, dims, for_float, traits};
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::names;

pub(super) struct DataNorm;
pub(super) struct DataNormGrad;

const SUMS: [&str; 3] = ["BatchSize", "BatchSum", "BatchSquareSum"];
const MATRIX: &str = "data_norm needs rows and columns";
const COLUMNS: &str = "one number per column is needed";
/// A show count below this is none.
const SHOW_MIN: f64 = 1e-7;

impl Op for DataNorm {
    traits!(Rows("X"));

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let [_, columns] = x.dims[..] else { return Err(infer.shape(MATRIX, "X")) };
        for port in SUMS {
            if !dims::agree(&infer.input(port)?.dims, &[columns]) {
                return Err(infer.shapes(COLUMNS, "X", port));
            }
        }
        let stat = x.with_dims(vec![columns]).with_lod_level(0);
        infer.set_output("Means", stat.clone())?;
        infer.set_output("Scales", stat)?;
        infer.set_output("Y", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut y = run.take("Y");
        let mut means = run.take("Means");
        let mut scales = run.take("Scales");
        let columns = columns(run, &SUMS)?;
        let slot_dim = slot_dim(run, columns)?;
        let x = run.input("X")?;
        let stat = Shape::from([columns]);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (size, sum) = (run.data::<T>("BatchSize")?, run.data::<T>("BatchSum")?);
            let squares = run.data::<T>("BatchSquareSum")?;
            let (means, scales) = (means.resize::<T>(stat), scales.resize::<T>(stat));
            for k in 0..columns {
                means[k] = sum[k] / size[k];
                scales[k] = (size[k] / squares[k]).sqrt();
            }
            let rows = x.data::<T>()?.chunks_exact(columns.max(1));
            let outputs = y.resize::<T>(x.shape()).chunks_exact_mut(columns.max(1));
            for (x, y) in rows.zip(outputs) {
                for k in 0..columns {
                    let shown = is_shown(x, k, slot_dim);
                    y[k] = if shown { (x[k] - means[k]) * scales[k] } else { 0.0 };
                }
            }
            Ok(())
        })?;
        y.set_lod(x.lod().clone());
        run.put("Y", y);
        run.put("Means", means);
        run.put("Scales", scales);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let mut op = OpDesc::new("data_norm_grad")
            .input("X", grad.input("X"))
            .input("Means", grad.output("Means"))
            .input("Scales", grad.output("Scales"))
            .input("Y@GRAD", grad.output_grad("Y"))
            .output("X@GRAD", grad.input_grad("X"));
        for port in SUMS {
            op = op.output(&names::grad(port), grad.input_grad(port));
        }
        op.attrs = grad.op().attrs.clone();
        grad.emit(op)
    }
}

/// Columns of X; the ports must have a number for each of them.
fn columns(run: &Run<'_>, ports: &[&str]) -> Result<usize> {
    let &[_, columns] = run.input("X")?.dims() else { return Err(run.shape(MATRIX, "X")) };
    for port in ports {
        if run.input(port)?.len() != columns {
            return Err(run.shapes(COLUMNS, "X", port));
        }
    }
    Ok(columns)
}

/// How many columns belong together, `None` if each stands alone.
fn slot_dim(run: &Run<'_>, columns: usize) -> Result<Option<usize>> {
    let given = run.attrs().int("slot_dim", -1)?;
    match usize::try_from(given) {
        Err(_) | Ok(0) => Ok(None),
        Ok(slot_dim) if columns.is_multiple_of(slot_dim) => Ok(Some(slot_dim)),
        Ok(_) => Err(Error::BadAttr {
            attr: "slot_dim".to_string(),
            expected: format!("a divisor of the {columns} columns"),
            actual: given.to_string(),
        }),
    }
}

/// Whether the slot of column `k` was shown in this row.
fn is_shown<T: Float>(x: &[T], k: usize, slot_dim: Option<usize>) -> bool {
    slot_dim.is_none_or(|slot_dim| x[k / slot_dim * slot_dim].abs() >= T::of(SHOW_MIN))
}

/// dX = dY Scales; the sums get what the batch adds to them.
impl Kernel for DataNormGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        let mut sums = SUMS.map(|port| run.take(&names::grad(port)));
        dims::run_same(run, "X", "Y@GRAD")?;
        let columns = columns(run, &["Means", "Scales"])?;
        let slot_dim = slot_dim(run, columns)?;
        let x = run.input("X")?;
        let stat = Shape::from([columns]);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let epsilon = T::from(run.attrs().float("epsilon", 1e-4)?);
            let (means, scales) = (run.data::<T>("Means")?, run.data::<T>("Scales")?);
            let (data, d_y) = (x.data::<T>()?, run.data::<T>("Y@GRAD")?);
            if run.wants("X@GRAD") {
                let outputs = d_x.resize::<T>(x.shape()).iter_mut().zip(d_y).enumerate();
                outputs.for_each(|(at, (d_x, &d_y))| *d_x = d_y * scales[at % columns]);
            }
            let [size, sum, squares] = sums.each_mut().map(|t| t.resize_zeroed::<T>(stat));
            count(data, means, slot_dim, [size, sum, squares]);
            for k in 0..columns {
                // Per show where slots have counts, else plain sums.
                if slot_dim.is_some() && size[k] >= 1.0 {
                    sum[k] /= size[k];
                    squares[k] /= size[k];
                }
                squares[k] += size[k] * epsilon;
                if slot_dim.is_some() {
                    size[k] = size[k].min(1.0);
                }
            }
            Ok::<(), Error>(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        for (port, sum) in SUMS.iter().zip(sums) {
            run.put(&names::grad(port), sum);
        }
        Ok(())
    }
}

fn count<T: Float>(
    x: &[T],
    means: &[T],
    slot_dim: Option<usize>,
    [size, sum, squares]: [&mut [T]; 3],
) {
    for x in x.chunks_exact(means.len().max(1)) {
        for k in (0..x.len()).filter(|&k| is_shown(x, k, slot_dim)) {
            size[k] += T::one();
            sum[k] += x[k];
            squares[k] += (x[k] - means[k]) * (x[k] - means[k]);
        }
    }
}

#[cfg(test)]
mod tests {
    use tensor::{Tensor, Value};

    use super::*;
    use crate::op::check::{Check, check, t};

    fn norm() -> Check {
        check("data_norm")
            .input("X", t(&[2, 2], &[1.0, 2.0, 0.0, 4.0]))
            .input("BatchSize", t(&[2], &[4.0, 4.0]))
            .input("BatchSum", t(&[2], &[2.0, 8.0]))
            .input("BatchSquareSum", t(&[2], &[1.0, 16.0]))
    }

    #[test]
    fn normalises_with_the_sums() {
        norm()
            .gives("Y", t(&[2, 2], &[1.0, 0.0, -1.0, 1.0]))
            .gives("Means", t(&[2], &[0.5, 2.0]))
            .gives("Scales", t(&[2], &[2.0, 0.5]));
        norm().attr("slot_dim", 2).gives("Y", t(&[2, 2], &[1.0, 0.0, 0.0, 0.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        norm().output("Y").aux("Means").aux("Scales").grad(&["X"]);
    }

    fn grad(slot_dim: i32) -> [Tensor; 3] {
        let check = check("data_norm_grad")
            .input("X", t(&[2, 2], &[1.0, 2.0, 0.0, 4.0]))
            .input("Means", t(&[2], &[0.5, 2.0]))
            .input("Scales", t(&[2], &[2.0, 0.5]))
            .input("Y@GRAD", t(&[2, 2], &[1.0; 4]))
            .attr("epsilon", 0.0f32)
            .attr("slot_dim", slot_dim)
            .output("X@GRAD");
        let check = SUMS.iter().fold(check, |check, port| check.output(&names::grad(port)));
        SUMS.map(|port| match check.run(&names::grad(port)) {
            Value::Tensor(tensor) => tensor,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn the_sums_get_what_the_batch_adds() {
        let plain = [t(&[2], &[2.0, 2.0]), t(&[2], &[1.0, 6.0]), t(&[2], &[0.5, 4.0])];
        assert_eq!(grad(-1), plain);
        let shown = [t(&[2], &[1.0, 1.0]), t(&[2], &[1.0, 2.0]), t(&[2], &[0.25, 0.0])];
        assert_eq!(grad(2), shown);
    }

    #[test]
    fn refuses_slots_that_do_not_divide() {
        let error = norm().attr("slot_dim", 3).output("Y").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
