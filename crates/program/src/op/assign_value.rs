//! `assign_value`: Out = the numbers the attributes carry.

use tensor::{Bool, DType, Element, Shape, Tensor};

use super::sizes;
use super::{Infer, Op, Run, traits};
use crate::attr::Attr;
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct AssignValue;

impl Op for AssignValue {
    traits!(Constant);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let dims = infer.attrs().ints("shape")?;
        infer.set_output("Out", Meta::dense(sizes::dtype(infer.attrs())?, &dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let attrs = run.attrs();
        let shape = Shape::from_dims(&attrs.ints("shape")?)?;
        let mut out = run.take("Out");
        match sizes::dtype(attrs)? {
            DType::F32 => write(&mut out, shape, attrs.floats("fp32_values")?.iter().copied())?,
            DType::F64 => {
                write(&mut out, shape, attrs.floats("fp32_values")?.iter().map(|&x| f64::from(x)))?;
            }
            DType::I32 => {
                write(&mut out, shape, attrs.ints("int32_values")?.iter().map(|&x| x as i32))?;
            }
            DType::I64 => write(&mut out, shape, attrs.ints("int64_values")?.iter().copied())?,
            DType::Bool => {
                let values = match attrs.get("bool_values") {
                    Some(Attr::Bools(values)) => values.iter().map(|&x| i64::from(x)).collect(),
                    _ => attrs.ints("bool_values")?,
                };
                write(&mut out, shape, values.iter().map(|&x| Bool::from(x != 0)))?;
            }
            actual => {
                let var = "Out".to_string();
                return Err(Error::DType { var, expected: "a number or bool", actual });
            }
        }
        run.put("Out", out);
        Ok(())
    }
}

/// Fills `out` if there are as many values as the shape has elements.
fn write<T: Element>(
    out: &mut Tensor,
    shape: Shape,
    values: impl ExactSizeIterator<Item = T>,
) -> Result<()> {
    let (expected, actual) = (shape.n_elements(), values.len());
    if expected != actual {
        return Err(tensor::Error::Length { shape, expected, actual }.into());
    }
    out.resize::<T>(shape).iter_mut().zip(values).for_each(|(out, value)| *out = value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::attr::Attr;
    use crate::error::Error;
    use crate::op::check::{check, ids};
    use tensor::{Bool, Tensor};

    #[test]
    fn writes_what_it_carries() {
        let op = || check("assign_value").attr("shape", vec![1, 2]);
        let floats = Tensor::new([1, 2], &[0.5f32, 1.5]).unwrap();
        op().attr("dtype", 5).attr("fp32_values", vec![0.5f32, 1.5]).gives("Out", floats);
        op().attr("dtype", 3)
            .attr("int64_values", vec![7i64, 8])
            .gives("Out", ids(&[1, 2], &[7, 8]));
        let ints = Tensor::new([1, 2], &[7i32, 8]).unwrap();
        op().attr("dtype", 2).attr("int32_values", vec![7, 8]).gives("Out", ints);
        let truths = Tensor::new([1, 2], &[Bool(1), Bool(0)]).unwrap();
        op().attr("dtype", 0).attr("bool_values", vec![1, 0]).gives("Out", truths.clone());
        let bools = Attr::Bools(vec![true, false]);
        op().attr("dtype", 0).attr("bool_values", bools).gives("Out", truths);
    }

    #[test]
    fn refuses_too_few_values() {
        let op = check("assign_value").attr("shape", vec![3]).attr("dtype", 5);
        let error = op.attr("fp32_values", vec![0.5f32]).output("Out").fails();
        assert!(matches!(error.root(), Error::Tensor(tensor::Error::Length { .. })), "{error}");
    }
}
