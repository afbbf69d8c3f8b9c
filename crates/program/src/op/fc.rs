//! `fc`: Out = Input W + Bias, then `activation_type` ("relu" or nothing); the first `in_num_col_dims` dimensions of Input are
//! rows. With `padding_weights` W has four more rows and columns, which do not take part.
//!
//! Fluid makes it of `mul` and `elementwise_add` when it prepares a saved model. It has no gradient there, either.

use tensor::Shape;
use tensor::gemm::{Matrix, gemm};

use super::sizes::bad_attr;
use super::{Infer, Op, Run, for_float, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Fc;

const RULE: &str = "Input has as many columns as W has rows";
const PADDING: usize = 4;

/// What the attributes say.
struct FcOptions {
    n_row_dims: usize,
    relu: bool,
    padding: usize,
}

impl FcOptions {
    fn of(attrs: &Attrs, rank: usize) -> Result<Self> {
        let n = attrs.int("in_num_col_dims", 1)?;
        let n_row_dims = usize::try_from(n).ok().filter(|n| (1..rank).contains(n));
        let expected = "positive and less than the rank of Input";
        let n_row_dims = n_row_dims.ok_or_else(|| bad_attr("in_num_col_dims", expected, n))?;
        let relu = match attrs.str("activation_type", "")? {
            "" => false,
            "relu" => true,
            other => return Err(bad_attr("activation_type", "relu or empty", other)),
        };
        let padding = if attrs.bool("padding_weights", false)? { PADDING } else { 0 };
        Ok(Self { n_row_dims, relu, padding })
    }
}

impl Op for Fc {
    traits!(Rows("Input"));

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, w) = (infer.input("Input")?, infer.input("W")?);
        let options = FcOptions::of(infer.attrs(), x.dims.len())?;
        let [n_inputs, width] = *w.dims else { return Err(infer.shapes(RULE, "Input", "W")) };
        let (outer, inner) = x.dims.split_at(options.n_row_dims);
        let padding = options.padding as i64;
        if inner.iter().all(|&size| size >= 0)
            && inner.iter().product::<i64>() != n_inputs - padding
        {
            return Err(infer.shapes(RULE, "Input", "W"));
        }
        check_bias(infer.opt_input("Bias")?.as_ref().map(|bias| &bias.dims[..]), width - padding)
            .ok_or_else(|| infer.shapes("Bias has a number for each column of W", "Bias", "W"))?;
        let dims = [outer, &[width - padding]].concat();
        infer.set_output("Out", x.with_dims(dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.fill("Out", "Input", |run, x, out| {
            let options = FcOptions::of(run.attrs(), x.shape().rank())?;
            let w = run.input("W")?;
            let (n_rows, n_inputs) = x.shape().flatten_2d(options.n_row_dims);
            let &[w_rows, w_columns] = w.dims() else { return Err(run.shapes(RULE, "Input", "W")) };
            if w_rows != n_inputs + options.padding || w_columns < options.padding {
                return Err(run.shapes(RULE, "Input", "W"));
            }
            let width = w_columns - options.padding;
            let bias = run.opt_input("Bias").map(|bias| bias.shape().to_i64());
            check_bias(bias.as_deref(), width as i64)
                .ok_or_else(|| run.shapes("Bias has a number for each column of W", "Bias", "W"))?;
            let mut shape = [0; tensor::RANK_MAX];
            shape[..options.n_row_dims].copy_from_slice(&x.dims()[..options.n_row_dims]);
            shape[options.n_row_dims] = width;
            let shape = Shape::new(&shape[..=options.n_row_dims]);
            for_float!(x.dtype(), run.input_name("Input"), T => {
                let out = out.try_resize::<T>(shape)?;
                let weights = run.data::<T>("W")?;
                let without_padding: Vec<T>;
                let weights = if options.padding > 0 {
                    let rows = weights.chunks_exact(w_columns).take(n_inputs);
                    without_padding = rows.flat_map(|row| &row[..width]).copied().collect();
                    &without_padding
                } else {
                    weights
                };
                let input = Matrix::new(x.data::<T>()?, n_rows, n_inputs);
                gemm(1.0, input, Matrix::new(weights, n_inputs, width), 0.0, out);
                if let Some(bias) = run.opt_data::<T>("Bias")? {
                    out.iter_mut().enumerate().for_each(|(at, out)| *out += bias[at % width]);
                }
                if options.relu {
                    out.iter_mut().for_each(|out| *out = out.max(0.0));
                }
                Ok(())
            })
        })
    }
}

/// A bias is a vector, or a matrix of one row.
fn check_bias(dims: Option<&[i64]>, width: i64) -> Option<()> {
    match dims {
        None => Some(()),
        Some([1, n] | [n]) if *n == width || *n < 0 => Some(()),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn fc() -> Check {
        check("fc")
            .input("Input", t(&[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input("W", t(&[2, 2], &[1.0, -1.0, 0.0, 1.0]))
            .attr("in_num_col_dims", 2)
    }

    #[test]
    fn multiplies_adds_and_cuts_off() {
        fc().gives("Out", t(&[1, 2, 2], &[1.0, 1.0, 3.0, 1.0]));
        fc().input("Bias", t(&[2], &[0.5, -2.0]))
            .attr("activation_type", "relu")
            .gives("Out", t(&[1, 2, 2], &[1.5, 0.0, 3.5, 0.0]));
        let mut padded = vec![9.0; 36];
        padded[..2].copy_from_slice(&[1.0, -1.0]);
        padded[6..8].copy_from_slice(&[0.0, 1.0]);
        fc().input("W", t(&[6, 6], &padded))
            .input("Bias", t(&[1, 2], &[0.0, 1.0]))
            .attr("padding_weights", true)
            .gives("Out", t(&[1, 2, 2], &[1.0, 2.0, 3.0, 2.0]));
    }

    #[test]
    fn refuses_widths_and_attributes_that_do_not_fit() {
        let error = fc().input("W", some(&[3, 2])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = fc().input("Bias", some(&[3])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = fc().attr("activation_type", "tanh").output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = fc().attr("in_num_col_dims", 3).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
