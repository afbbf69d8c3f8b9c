//! Class labels: one integer per row, checked against the number of classes.

use tensor::Shape;

use super::{Infer, Run, dims};
use crate::error::{Error, Result};
use crate::var::Meta;

const RULE: &str = "labels must have the shape of the classes with one label in place of them";

/// The labels at a port, read as classes.
pub(super) struct Labels<'a> {
    var: &'a str,
    data: Integers<'a>,
    n_classes: usize,
    ignored: Option<i64>,
}

enum Integers<'a> {
    I32(&'a [i32]),
    I64(&'a [i64]),
}

impl<'a> Labels<'a> {
    /// The labels at `port`; `ignored` stands for "no class".
    pub(super) fn new(
        run: &'a Run<'_>,
        port: &str,
        n_classes: usize,
        ignored: Option<i64>,
    ) -> Result<Self> {
        let (tensor, var) = (run.input(port)?, run.input_name(port));
        let data = match tensor.dtype() {
            tensor::DType::I32 => Integers::I32(tensor.data()?),
            tensor::DType::I64 => Integers::I64(tensor.data()?),
            actual => {
                let expected = "int32 or int64 labels";
                return Err(Error::DType { var: var.to_string(), expected, actual });
            }
        };
        Ok(Self { var, data, n_classes, ignored })
    }

    /// The class of a row, `None` if it is to be ignored.
    pub(super) fn class(&self, row: usize) -> Result<Option<usize>> {
        let label = match self.data {
            Integers::I32(data) => i64::from(data[row]),
            Integers::I64(data) => data[row],
        };
        if self.ignored == Some(label) {
            return Ok(None);
        }
        match usize::try_from(label) {
            Ok(class) if class < self.n_classes => Ok(Some(class)),
            _ => Err(Error::LabelOutOfRange {
                var: self.var.to_string(),
                row,
                label,
                n_classes: self.n_classes,
            }),
        }
    }
}

/// The shape of a loss with one number for all classes along `axis`.
///
/// Hard labels may leave the axis out; the loss then does so too.
pub(super) fn infer_loss(infer: &Infer<'_>, x_port: &str, axis: usize, soft: bool) -> Result<Meta> {
    let (x, label) = (infer.input(x_port)?, infer.input("Label")?);
    let mut one = x.dims.clone();
    one[axis] = 1;
    let mut without = x.dims.clone();
    without.remove(axis);
    let fits = if soft {
        dims::agree(&x.dims, &label.dims)
    } else {
        dims::agree(&one, &label.dims) || dims::agree(&without, &label.dims)
    };
    if !fits {
        return Err(infer.shapes(RULE, x_port, "Label"));
    }
    Ok(x.with_dims(if label.dims.len() == x.dims.len() { one } else { without }))
}

/// The shape of [`infer_loss`], for the shapes of a batch.
pub(super) fn loss_shape(run: &Run<'_>, x_port: &str, axis: usize, soft: bool) -> Result<Shape> {
    let (x, label) = (run.input(x_port)?.shape(), run.input("Label")?.shape());
    let one = x.with_dim(axis, 1);
    if if soft { label == x } else { label == one } {
        return Ok(one);
    }
    let (outer, inner) = x.dims().split_at(axis);
    let left_out = label.rank() + 1 == x.rank()
        && label.dims().starts_with(outer)
        && label.dims().ends_with(&inner[1..]);
    if !soft && left_out { Ok(label) } else { Err(run.shapes(RULE, x_port, "Label")) }
}
