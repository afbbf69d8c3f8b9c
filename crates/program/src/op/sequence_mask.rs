//! `sequence_mask`: Y\[…, j\] = 1 if j < X\[…\], else 0, with j below `maxlen`.
//!
//! The bound is MaxLenTensor if given, else `maxlen`, else (-1) the largest of X.

use tensor::{Bool, DType, Element, Number, Shape};

use super::{Infer, Op, Run, for_number, no_gradient, traits};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct SequenceMask;

impl Op for SequenceMask {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let dtype = DType::from_code(infer.attrs().int("out_dtype", 3)?)?;
        let length = match infer.attrs().int("maxlen", -1)? {
            _ if infer.opt_input("MaxLenTensor")?.is_some() => -1,
            0 => return Err(bad_length(0)),
            length => length.max(-1),
        };
        let dims = [&x.dims[..], &[length]].concat();
        infer.set_output("Y", Meta::dense(dtype, &dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut y = run.take("Y");
        let dtype = DType::from_code(run.attrs().int("out_dtype", 3)?)?;
        let n_columns = n_columns(run)?;
        let x = run.input("X")?;
        let mut dims = x.shape().to_i64();
        dims.push(n_columns);
        let shape = Shape::from_dims(&dims)?;
        for_number!(x.dtype(), run.input_name("X"), T => {
            let x = x.data::<T>()?;
            if dtype == DType::Bool {
                fill(x, y.try_resize::<Bool>(shape)?, n_columns, Bool::from);
                Ok(())
            } else {
                for_number!(dtype, "Y", O => {
                    let one = |inside| if inside { O::of(1.0) } else { O::of(0.0) };
                    fill(x, y.try_resize::<O>(shape)?, n_columns, one);
                    Ok(())
                })
            }
        })?;
        run.put("Y", y);
        Ok(())
    }

    no_gradient!();
}

fn n_columns(run: &Run<'_>) -> Result<i64> {
    if run.n_inputs("MaxLenTensor") > 0 {
        let length = run.scalar("MaxLenTensor")? as i64;
        return if length > 0 { Ok(length) } else { Err(bad_length(length)) };
    }
    match run.attrs().int("maxlen", -1)? {
        0 => Err(bad_length(0)),
        length if length > 0 => Ok(length),
        _ => {
            let x = run.input("X")?;
            let largest = (0..x.len()).map(|at| x.get_f64(at)).fold(0.0, f64::max);
            Ok(largest as i64)
        }
    }
}

fn bad_length(actual: i64) -> Error {
    let expected = "positive, or negative for the largest length".to_string();
    Error::BadAttr { attr: "maxlen".to_string(), expected, actual: actual.to_string() }
}

fn fill<T: Number, O: Element>(x: &[T], y: &mut [O], n_columns: i64, of: impl Fn(bool) -> O) {
    for (row, &length) in y.chunks_exact_mut((n_columns as usize).max(1)).zip(x) {
        for (column, y) in row.iter_mut().enumerate() {
            *y = of((column as f64) < length.f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{check, ids, t};
    use tensor::Tensor;

    #[test]
    fn marks_what_is_inside() {
        check("sequence_mask")
            .input("X", ids(&[3], &[2, 0, 3]))
            .gives("Y", ids(&[3, 3], &[1, 1, 0, 0, 0, 0, 1, 1, 1]));
        check("sequence_mask")
            .input("X", ids(&[2, 1], &[1, 3]))
            .attr("maxlen", 2)
            .attr("out_dtype", 6)
            .output("Y");
        let bounded = check("sequence_mask")
            .input("X", ids(&[1], &[1]))
            .input("MaxLenTensor", Tensor::new([1], &[2i32]).unwrap());
        bounded.gives("Y", ids(&[1, 2], &[1, 0]));
    }

    #[test]
    fn writes_the_type_asked_for() {
        let mask = || check("sequence_mask").input("X", ids(&[1], &[1])).attr("maxlen", 2);
        mask().attr("out_dtype", 2).gives("Y", Tensor::new([1, 2], &[1i32, 0]).unwrap());
        let bools = Tensor::new([1, 2], &[Bool::from(true), Bool::from(false)]).unwrap();
        mask().attr("out_dtype", 0).gives("Y", bools);
        let value = mask().attr("out_dtype", 6).output("Y").run("Y");
        assert_eq!(value.tensor(), Some(&t(&[1, 2], &[1.0, 0.0])));
    }

    #[test]
    fn refuses_no_columns_and_sizes_beyond_memory() {
        let mask = |length| check("sequence_mask").input("X", ids(&[1], &[length])).output("Y");
        let error = mask(1).attr("maxlen", 0).fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = mask(i64::MAX).fails();
        assert!(matches!(error.root(), Error::Tensor(_)), "{error}");
    }
}
