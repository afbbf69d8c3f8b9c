//! `shard_index`: ids of one of `nshards` parts of `index_num` ids, counted from the shard's first;
//! ids of other parts become `ignore_value`.

use super::sizes::bad_attr;
use super::{Infer, Op, Run, for_int, no_gradient, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};

pub(super) struct ShardIndex;

/// One shard: ids `first..first + size` of `index_num`.
struct Shard {
    index_num: i64,
    size: i64,
    shard_id: i64,
    ignored: i64,
}

impl Shard {
    fn of(attrs: &Attrs) -> Result<Self> {
        let (index_num, n_shards) = (attrs.int("index_num", 0)?, attrs.int("nshards", 0)?);
        let shard_id = attrs.int("shard_id", 0)?;
        for (name, value) in [("index_num", index_num), ("nshards", n_shards)] {
            if !(1..=i64::from(i32::MAX)).contains(&value) {
                return Err(bad_attr(name, "above 0, an int32", value));
            }
        }
        if !(0..n_shards).contains(&shard_id) {
            return Err(bad_attr("shard_id", &format!("in [0, {n_shards})"), shard_id));
        }
        let (size, ignored) =
            ((index_num + n_shards - 1) / n_shards, attrs.int("ignore_value", -1)?);
        Ok(Self { index_num, size, shard_id, ignored })
    }
}

impl Op for ShardIndex {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let shard = Shard::of(run.attrs())?;
        let mut out = run.take("Out");
        let x = run.input("X")?;
        for_int!(x.dtype(), run.input_name("X"), T => {
            let out = out.resize::<T>(x.shape());
            for (position, (out, &id)) in out.iter_mut().zip(x.data::<T>()?).enumerate() {
                let id = i64::from(id);
                if !(0..shard.index_num).contains(&id) {
                    let (rule, var) = ("an id must be below index_num", run.input_name("X"));
                    let (var, value) = (var.to_string(), id as f64);
                    return Err(Error::BadValue { rule, var, position, value });
                }
                let mine = id / shard.size == shard.shard_id;
                *out = (if mine { id % shard.size } else { shard.ignored }) as T;
            }
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        Ok(())
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids};

    fn shard(shard_id: i32) -> Check {
        check("shard_index")
            .input("X", ids(&[4, 1], &[1, 6, 12, 19]))
            .attr("index_num", 20)
            .attr("nshards", 3)
            .attr("shard_id", shard_id)
    }

    #[test]
    fn counts_from_the_first_id_of_a_part() {
        shard(0).gives("Out", ids(&[4, 1], &[1, 6, -1, -1]));
        shard(1).gives("Out", ids(&[4, 1], &[-1, -1, 5, -1]));
        shard(2).attr("ignore_value", 7).gives("Out", ids(&[4, 1], &[7, 7, 7, 5]));
    }

    #[test]
    fn refuses_ids_and_parts_that_are_not_there() {
        let error = shard(0).attr("index_num", 19).output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { position: 3, .. }), "{error}");
        let error = shard(3).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
