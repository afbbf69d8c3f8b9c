//! `shape`: Out = the sizes of Input's dimensions, as int32.

use tensor::{DType, Value};

use super::{Infer, Op, Run, no_gradient, traits};
use crate::error::Result;
use crate::var::Meta;

pub(super) struct Shape;

impl Op for Shape {
    traits!(Never, "Input": [F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let rank = infer.input("Input")?.dims.len() as i64;
        infer.set_output("Out", Meta::dense(DType::I32, &[rank]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let shape = match run.value("Input")? {
            Value::Rows(rows) => rows.value.shape(),
            _ => run.input("Input")?.shape(),
        };
        let sizes = out.resize::<i32>(tensor::Shape::from([shape.rank()]));
        sizes.iter_mut().zip(shape.dims()).for_each(|(out, &size)| *out = size as i32);
        run.put("Out", out);
        Ok(())
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use crate::op::check::{check, t};
    use tensor::Tensor;

    #[test]
    fn lists_the_sizes() {
        let expected = Tensor::new([2], &[2i32, 3]).unwrap();
        check("shape").input("Input", t(&[2, 3], &[0.0; 6])).gives("Out", expected);
    }
}
