//! `get_places`: Out = the processors of a run, by number.

use tensor::{DType, Shape};

use super::{Infer, Op, Run, traits};
use crate::error::Result;
use crate::var::{Meta, VarKind};

pub(super) struct GetPlaces;

/// A larger number is a mistake.
const PLACES_MAX: i64 = 1 << 16;

impl Op for GetPlaces {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let places = Meta { kind: VarKind::PlaceList, ..Meta::dense(DType::I64, &[-1]) };
        infer.set_output("Out", places)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        // The default is one.
        let n = run.attrs().int("device_count", 0)?.clamp(1, PLACES_MAX);
        let mut out = run.take("Out");
        let numbers = out.resize::<i64>(Shape::from([n as usize]));
        numbers.iter_mut().zip(0..).for_each(|(number, n)| *number = n);
        run.put("Out", out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::op::check::{check, ids};

    #[test]
    fn counts_the_places() {
        check("get_places").attr("device_count", 2).gives("Out", ids(&[2], &[0, 1]));
        check("get_places").gives("Out", ids(&[1], &[0]));
    }
}
