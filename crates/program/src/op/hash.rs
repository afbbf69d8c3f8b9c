//! `hash`: Out\[.., h, 0\] = XXH64 of the bytes of the last dimension of X with seed h, modulo `mod_by`, for
//! each h below `num_hash`.

use tensor::{RANK_MAX, Shape};

use super::sizes::bad_attr;
use super::xxhash::xxh64;
use super::{Infer, Op, Run, for_int, no_gradient, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Hash;

/// What the attributes say.
struct HashOptions {
    n_hashes: usize,
    mod_by: u64,
}

const RANK: &str = "X has two dimensions or more, and fewer than the most that a tensor has";

impl HashOptions {
    fn of(attrs: &Attrs) -> Result<Self> {
        let (n, mod_by) = (attrs.int("num_hash", 1)?, attrs.int("mod_by", 100_000)?);
        let n_hashes = usize::try_from(n).ok().filter(|&n| n > 0);
        let n_hashes = n_hashes.ok_or_else(|| bad_attr("num_hash", "positive", n))?;
        if mod_by == 0 {
            return Err(bad_attr("mod_by", "another number than 0", mod_by));
        }
        Ok(Self { n_hashes, mod_by: mod_by.cast_unsigned() })
    }
}

impl Op for Hash {
    traits!(Rows("X"), "X": [I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let options = HashOptions::of(infer.attrs())?;
        let [outer @ .., _] = &x.dims[..] else { return Err(infer.shape(RANK, "X")) };
        if outer.is_empty() || x.dims.len() >= RANK_MAX {
            return Err(infer.shape(RANK, "X"));
        }
        let dims = [outer, &[options.n_hashes as i64, 1]].concat();
        infer.set_output("Out", x.with_dims(dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let options = HashOptions::of(run.attrs())?;
        run.fill("Out", "X", |run, x, out| {
            let [outer @ .., width] = x.dims() else { return Err(run.shape(RANK, "X")) };
            if outer.is_empty() || x.shape().rank() >= RANK_MAX {
                return Err(run.shape(RANK, "X"));
            }
            let shape = Shape::new(&[outer, &[options.n_hashes, 1]].concat());
            let row_bytes = width * x.dtype().size();
            for_int!(x.dtype(), run.input_name("X"), T => {
                let hashes = out.try_resize::<T>(shape)?.chunks_exact_mut(options.n_hashes);
                for (row, hashes) in hashes.enumerate() {
                    let bytes = &x.bytes()[row * row_bytes..(row + 1) * row_bytes];
                    for (hash, seed) in hashes.iter_mut().zip(0..) {
                        *hash = (xxh64(bytes, seed) % options.mod_by) as T;
                    }
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
    use crate::op::check::{check, ids, seq};

    /// What Fluid 1.8.5 gives.
    #[test]
    fn hashes_rows_of_ids() {
        let x = seq(ids(&[3, 2], &[1, 2, 3, 4, 5, -6]), &[1, 2]);
        check("hash")
            .input("X", x)
            .attr("num_hash", 3)
            .attr("mod_by", 1000i64)
            .gives("Out", seq(ids(&[3, 3, 1], &HASHES), &[1, 2]));
    }

    const HASHES: [i64; 9] = [524, 896, 680, 640, 562, 750, 773, 470, 995];

    #[test]
    fn refuses_a_vector_and_an_empty_range() {
        let error = check("hash").input("X", ids(&[2], &[1, 2])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        for (attr, value) in [("num_hash", 0i64), ("mod_by", 0)] {
            let check = check("hash").input("X", ids(&[1, 2], &[1, 2]));
            let error = check.attr(attr, value).output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
    }
}
