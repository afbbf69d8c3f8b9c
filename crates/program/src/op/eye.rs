//! `eye`: Out = ones on the diagonal of a matrix of zeros.

use tensor::Shape;

use super::sizes::{self, bad_attr};
use super::{Infer, Op, Run, for_number, no_gradient, traits};
use crate::attr::Attrs;
use crate::error::Result;
use crate::var::Meta;

pub(super) struct Eye;

/// Rows and columns; as many columns as rows unless they are given.
fn dims(attrs: &Attrs) -> Result<[i64; 2]> {
    let rows = attrs.int("num_rows", 0)?;
    let columns = match attrs.int("num_columns", -1)? {
        -1 => rows,
        columns => columns,
    };
    for (name, size) in [("num_rows", rows), ("num_columns", columns)] {
        if size < 0 {
            return Err(bad_attr(name, "not below 0", size));
        }
    }
    Ok([rows, columns])
}

impl Op for Eye {
    traits!(Constant);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let dims = dims(infer.attrs())?;
        infer.set_output("Out", Meta::dense(sizes::dtype(infer.attrs())?, &dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let [rows, columns] = dims(run.attrs())?;
        let shape = Shape::from_dims(&[rows, columns])?;
        run.make("Out", |run, out| {
            for_number!(sizes::dtype(run.attrs())?, "Out", T => {
                let out = out.try_resize_zeroed::<T>(shape)?;
                for row in out.chunks_exact_mut((columns as usize).max(1)).enumerate() {
                    row.1.get_mut(row.0).into_iter().for_each(|one| *one = 1 as T);
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
    use crate::op::check::{check, ids};

    #[test]
    fn ones_are_on_the_diagonal() {
        let eye = || check("eye").attr("num_rows", 2).attr("dtype", 3);
        eye().gives("Out", ids(&[2, 2], &[1, 0, 0, 1]));
        eye().attr("num_columns", 3).gives("Out", ids(&[2, 3], &[1, 0, 0, 0, 1, 0]));
        eye().attr("num_columns", 1).gives("Out", ids(&[2, 1], &[1, 0]));
    }

    #[test]
    fn refuses_sizes_below_zero() {
        let error = check("eye").attr("num_rows", -3).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
