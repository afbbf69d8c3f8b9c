//! `randperm`: Out = 0, 1, … `n` - 1 in a random order: each in turn swaps with itself or one before it.
//!
//! Fluid draws with the C library's `rand`; so does this, by its formula.

use tensor::{DType, Number, Shape};

use super::sizes::bad_attr;
use super::{Infer, Op, Run, for_int, no_gradient, traits};
use crate::attr::Attrs;
use crate::error::Result;
use crate::var::Meta;

pub(super) struct Randperm;

/// The numbers of `rand` after `srand`: each is the sum of those 3 and 31 before it.
struct CRand {
    state: [u32; 34],
    at: usize,
}

impl CRand {
    fn new(seed: u32) -> Self {
        let mut state = [0u32; 34];
        state[0] = seed.max(1);
        for i in 1..31 {
            let before = i64::from(state[i - 1] as i32);
            state[i] = (16807 * before).rem_euclid(2_147_483_647) as u32;
        }
        for i in 31..34 {
            state[i] = state[i - 31];
        }
        let mut rand = Self { state, at: 0 };
        for _ in 34..344 {
            rand.next();
        }
        rand
    }

    fn next(&mut self) -> u32 {
        let before = |n: usize| self.state[(self.at + 34 - n) % 34];
        let next = before(31).wrapping_add(before(3));
        self.state[self.at] = next;
        self.at = (self.at + 1) % 34;
        next >> 1
    }
}

fn n(attrs: &Attrs) -> Result<i64> {
    match attrs.int("n", 0)? {
        n @ 1.. => Ok(n),
        other => Err(bad_attr("n", "positive", other)),
    }
}

impl Op for Randperm {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let dtype = DType::from_code(infer.attrs().int("dtype", 3)?)?;
        let n = n(infer.attrs())?;
        infer.set_output("Out", Meta::dense(dtype, &[n]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (attrs, n) = (run.attrs(), n(run.attrs())?);
        let seed = match attrs.int("seed", 0)? as u32 {
            0 => run.host().fresh_seed(),
            seed => seed,
        };
        let dtype = DType::from_code(attrs.int("dtype", 3)?)?;
        run.make("Out", |_, out| {
            for_int!(dtype, "Out", T => {
                let out = out.try_resize::<T>(Shape::from_dims(&[n])?)?;
                out.iter_mut().enumerate().for_each(|(i, out)| *out = T::of(i as f64));
                let mut rand = CRand::new(seed);
                (1..out.len()).for_each(|i| out.swap(i, rand.next() as usize % (i + 1)));
                Ok(())
            })
        })
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use super::CRand;
    use crate::error::Error;
    use crate::op::check::{check, ids};

    #[test]
    fn draws_the_c_librarys_numbers() {
        let mut rand = CRand::new(1);
        assert_eq!(
            [rand.next(), rand.next(), rand.next()],
            [1_804_289_383, 846_930_886, 1_681_692_777]
        );
    }

    /// What Fluid 1.8.5 gives.
    #[test]
    fn gives_fluids_order() {
        let op = check("randperm").attr("n", 6).attr("seed", 7);
        op.gives("Out", ids(&[6], &[2, 4, 0, 3, 1, 5]));
    }

    #[test]
    fn refuses_no_numbers() {
        let error = check("randperm").attr("n", 0).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
