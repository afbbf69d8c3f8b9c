//! `one_hot`, `one_hot_v2`: Out = rows of zeros with a 1 at the place X names.
//!
//! X of `one_hot` ends in a dimension of 1, which becomes `depth`; `one_hot_v2` adds a dimension.
//! A place outside of the row is an error, or with `allow_out_of_range` a row of zeros.

use tensor::{Number, Shape};

use super::sizes::{self, bad_attr};
use super::{Infer, Op, Run, for_number, no_gradient, traits};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct OneHot;
pub(super) struct OneHotV2;

const RULE: &str = "the last dimension of X must be 1";

impl Op for OneHot {
    traits!(Rows("X"), "X": [I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        match infer.input("X")?.dims.split_last() {
            // Fluid looks closer only when it runs.
            Some((&last, outer)) if last != 0 => infer_out(infer, outer),
            _ => Err(infer.shape(RULE, "X")),
        }
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        match run.input("X")?.shape().to_i64().split_last() {
            Some((1, outer)) => write(run, outer),
            _ => Err(run.shape(RULE, "X")),
        }
    }

    no_gradient!();
}

impl Op for OneHotV2 {
    traits!(Rows("X"));

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer_out(infer, &x.dims)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let outer = run.input("X")?.shape().to_i64();
        write(run, &outer)
    }

    no_gradient!();
}

fn infer_out(infer: &mut Infer<'_>, outer: &[i64]) -> Result<()> {
    let attrs = infer.attrs();
    let depth = match infer.opt_input("depth_tensor")? {
        Some(_) => -1,
        None => attrs.int("depth", -1)?,
    };
    let meta = Meta::dense(sizes::dtype(attrs)?, &[outer, &[depth]].concat());
    let lod_level = infer.input("X")?.lod_level;
    infer.set_output("Out", meta.with_lod_level(lod_level))
}

fn write(run: &mut Run<'_>, outer: &[i64]) -> Result<()> {
    let attrs = run.attrs();
    let depth = match run.n_inputs("depth_tensor") {
        0 => attrs.int("depth", -1)?,
        _ => run.scalar("depth_tensor")? as i64,
    };
    if depth < 1 {
        return Err(bad_attr("depth", "above 0", depth));
    }
    let lenient = attrs.bool("allow_out_of_range", false)?;
    let mut out = run.take("Out");
    let x = run.input("X")?;
    let places = sizes::integers(x, run.input_name("X"))?;
    let shape = Shape::from_dims(&[outer, &[depth]].concat())?;
    for_number!(sizes::dtype(attrs)?, "Out", T => {
        let rows = out.try_resize_zeroed::<T>(shape)?.chunks_exact_mut(depth as usize);
        for (position, (&place, row)) in places.iter().zip(rows).enumerate() {
            match usize::try_from(place).ok().and_then(|place| row.get_mut(place)) {
                Some(one) => *one = T::of(1.0),
                None if lenient => {}
                None => return Err(Error::BadValue {
                    rule: "a place must be below the depth",
                    var: run.input_name("X").to_string(),
                    position,
                    value: place as f64,
                }),
            }
        }
        Ok(())
    })?;
    out.set_lod(x.lod().clone());
    run.put("Out", out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, seq};
    use tensor::Tensor;

    fn hot(rows: &[usize], depth: usize) -> Tensor {
        let mut data = vec![0.0f32; rows.len() * depth];
        rows.iter().enumerate().for_each(|(row, &at)| data[row * depth + at] = 1.0);
        Tensor::new([rows.len(), depth], &data).unwrap()
    }

    fn one_hot(places: &[i64]) -> Check {
        check("one_hot").input("X", ids(&[places.len(), 1], places)).attr("depth", 3)
    }

    #[test]
    fn marks_one_place_per_row() {
        one_hot(&[2, 0]).gives("Out", hot(&[2, 0], 3));
        check("one_hot_v2")
            .input("X", seq(ids(&[2], &[2, 0]), &[1, 1]))
            .input("depth_tensor", Tensor::new([1], &[3i32]).unwrap())
            .gives("Out", seq(hot(&[2, 0], 3), &[1, 1]));
    }

    #[test]
    fn refuses_or_skips_places_outside() {
        let zeros = Tensor::new([1, 3], &[0.0f32; 3]).unwrap();
        one_hot(&[3]).attr("allow_out_of_range", true).gives("Out", zeros);
        for place in [3, -1] {
            let error = one_hot(&[place]).output("Out").fails();
            assert!(matches!(error.root(), Error::BadValue { .. }), "{error}");
        }
        let error = one_hot(&[0]).attr("depth", 0).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = check("one_hot").input("X", ids(&[2], &[0, 1])).attr("depth", 3).output("Out");
        assert!(matches!(error.fails().root(), Error::Shape { .. }));
    }
}
