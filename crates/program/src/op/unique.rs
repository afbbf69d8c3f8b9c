//! `unique`: Out = the different numbers of X in the order in which they first come; Index = where each
//! number of X is in Out. `unique_with_counts` has Count, too: how often each number of Out is in X.

use std::collections::HashMap;

use tensor::{DType, Shape, Tensor, give_up, room_or_give_up};

use super::{Infer, Op, Run, for_int, for_number, traits};
use crate::attr::Attrs;
use crate::error::Result;
use crate::var::Meta;

pub(super) struct Unique;
pub(super) struct UniqueWithCounts;

/// The type of Index and Count.
fn index_dtype(attrs: &Attrs) -> Result<DType> {
    Ok(DType::from_code(attrs.int("dtype", i64::from(DType::I32.code()))?)?)
}

fn infer(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input("X")?;
    if x.dims.len() != 1 {
        return Err(infer.shape("one dimension is needed", "X"));
    }
    let dtype = index_dtype(infer.attrs())?;
    infer.set_output("Index", Meta::dense(dtype, &x.dims))?;
    infer.set_output("Count", Meta::dense(dtype, &[-1]))?;
    infer.set_output("Out", x.with_dims(vec![-1]).with_lod_level(0))
}

/// Writes Out and Index, and Count if the op has it.
fn run(run: &mut Run<'_>) -> Result<()> {
    let (mut out, mut index) = (run.take("Out"), run.take("Index"));
    let mut count = run.take("Count");
    let x = run.input("X")?;
    let (mut places, mut counts) = (Vec::new(), Vec::new());
    room_or_give_up(&mut places, x.len());
    for_number!(x.dtype(), run.input_name("X"), T => {
        // Numbers are told apart by their bits.
        let (mut known, mut first) = (HashMap::new(), Vec::new());
        for &number in x.data::<T>()? {
            if known.len() == known.capacity() && known.try_reserve(1).is_err() {
                give_up(x.bytes().len());
            }
            room_or_give_up(&mut first, 1);
            room_or_give_up(&mut counts, 1);
            let place = known.entry(number.to_ne_bytes()).or_insert(first.len());
            places.push(*place);
            if *place == first.len() {
                first.push(number);
                counts.push(0);
            }
            counts[*place] += 1;
        }
        out.resize::<T>(Shape::from([first.len()])).copy_from_slice(&first);
        Ok(())
    })?;
    let dtype = index_dtype(run.attrs())?;
    write(&mut index, dtype, &places)?;
    write(&mut count, dtype, &counts)?;
    run.put("Out", out);
    run.put("Index", index);
    run.put("Count", count);
    Ok(())
}

impl Op for Unique {
    traits!(Never);

    fn infer(&self, i: &mut Infer<'_>) -> Result<()> {
        infer(i)
    }

    fn run(&self, r: &mut Run<'_>) -> Result<()> {
        run(r)
    }
}

impl Op for UniqueWithCounts {
    traits!(Never, "X": [F32, F64, I32, I64]);

    fn infer(&self, i: &mut Infer<'_>) -> Result<()> {
        infer(i)
    }

    fn run(&self, r: &mut Run<'_>) -> Result<()> {
        run(r)
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
    fn counts_how_often_each_comes() {
        check("unique_with_counts")
            .input("X", ids(&[6], &[2, 3, 3, 1, 5, 3]))
            .attr("dtype", 3)
            .gives("Out", ids(&[4], &[2, 3, 1, 5]))
            .gives("Count", ids(&[4], &[1, 3, 1, 1]));
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
