//! `unique`: Out = the different numbers of X in the order in which they first come; Index = where each
//! number of X is in Out.

use std::collections::HashMap;

use tensor::{DType, Shape, Tensor, give_up, room_or_give_up};

use super::{Infer, Op, Run, for_int, for_number, traits};
use crate::attr::Attrs;
use crate::error::Result;
use crate::var::Meta;

pub(super) struct Unique;

/// The type of Index.
fn index_dtype(attrs: &Attrs) -> Result<DType> {
    Ok(DType::from_code(attrs.int("dtype", i64::from(DType::I32.code()))?)?)
}

impl Op for Unique {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        if x.dims.len() != 1 {
            return Err(infer.shape("one dimension is needed", "X"));
        }
        infer.set_output("Index", Meta::dense(index_dtype(infer.attrs())?, &x.dims))?;
        infer.set_output("Out", x.with_dims(vec![-1]).with_lod_level(0))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut out, mut index) = (run.take("Out"), run.take("Index"));
        let x = run.input("X")?;
        let mut places = Vec::new();
        room_or_give_up(&mut places, x.len());
        for_number!(x.dtype(), run.input_name("X"), T => {
            // Numbers are told apart by their bits.
            let (mut known, mut first) = (HashMap::new(), Vec::new());
            for &number in x.data::<T>()? {
                if known.len() == known.capacity() && known.try_reserve(1).is_err() {
                    give_up(x.bytes().len());
                }
                room_or_give_up(&mut first, 1);
                let place = known.entry(number.to_ne_bytes()).or_insert(first.len());
                places.push(*place);
                if *place == first.len() {
                    first.push(number);
                }
            }
            out.resize::<T>(Shape::from([first.len()])).copy_from_slice(&first);
            Ok(())
        })?;
        write(&mut index, index_dtype(run.attrs())?, &places)?;
        run.put("Out", out);
        run.put("Index", index);
        Ok(())
    }
}

fn write(index: &mut Tensor, dtype: DType, places: &[usize]) -> Result<()> {
    for_int!(dtype, "Index", T => {
        let index = index.resize::<T>(Shape::from([places.len()])).iter_mut();
        index.zip(places).for_each(|(index, &place)| *index = place as T);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use crate::error::Error;
    use crate::op::check::{check, ids, t};

    #[test]
    fn numbers_in_the_order_they_first_come() {
        check("unique")
            .input("X", ids(&[6], &[2, 3, 3, 1, 5, 3]))
            .gives("Index", Tensor::new([6], &[0i32, 1, 1, 2, 3, 1]).unwrap())
            .gives("Out", ids(&[4], &[2, 3, 1, 5]));
        check("unique").input("X", t(&[0], &[])).gives("Out", t(&[0], &[]));
    }

    #[test]
    fn the_index_is_of_the_type_that_is_asked_for() {
        check("unique")
            .input("X", t(&[3], &[0.5, -1.0, 0.5]))
            .attr("dtype", 3)
            .gives("Index", ids(&[3], &[0, 1, 0]))
            .gives("Out", t(&[2], &[0.5, -1.0]));
    }

    #[test]
    fn refuses_a_matrix() {
        let error = check("unique").input("X", t(&[1, 2], &[0.0, 1.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
