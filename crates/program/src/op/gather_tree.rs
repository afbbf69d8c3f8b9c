//! `gather_tree`: Out = the sequences of a beam search. Ids and Parents are \[steps, samples, beams\]; from each beam of the last step it
//! goes back along Parents.

use super::{Infer, Op, Run, dims, for_int, no_gradient, traits};
use crate::error::{Error, Result};

pub(super) struct GatherTree;

const RULE: &str = "Ids has steps, samples and beams";

impl Op for GatherTree {
    traits!(Never, "Ids": [I32, I64], "Parents": [I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        dims::infer_same(infer, "Ids", "Parents")?;
        let ids = infer.input("Ids")?;
        if ids.dims.len() != 3 {
            return Err(infer.shape(RULE, "Ids"));
        }
        infer.set_output("Out", ids)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        dims::run_same(run, "Ids", "Parents")?;
        run.fill("Out", "Ids", |run, ids, out| {
            let &[n_steps, n_samples, n_beams] = ids.dims() else {
                return Err(run.shape(RULE, "Ids"));
            };
            let var = run.input_name("Parents");
            let parents = super::sizes::integers(run.input("Parents")?, var)?;
            if let Some(position) = parents.iter().position(|p| !(0..n_beams as i64).contains(p)) {
                let (rule, value) = ("a parent is a beam", parents[position] as f64);
                return Err(Error::BadValue { rule, var: var.to_string(), position, value });
            }
            for_int!(ids.dtype(), run.input_name("Ids"), T => {
                let (data, out) = (ids.data::<T>()?, out.resize::<T>(ids.shape()));
                for last in 0..n_samples * n_beams {
                    let (sample, mut beam) = (last / n_beams, last % n_beams);
                    for step in (0..n_steps).rev() {
                        let start = (step * n_samples + sample) * n_beams;
                        out[start + last % n_beams] = data[start + beam];
                        beam = parents[start + beam] as usize;
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
    use crate::op::check::{Check, check, ids};

    fn tree(parents: &[i64]) -> Check {
        check("gather_tree")
            .input("Ids", ids(&[3, 1, 2], &[2, 6, 3, 1, 0, 1]))
            .input("Parents", ids(&[3, 1, 2], parents))
    }

    #[test]
    fn goes_back_along_parents() {
        tree(&[0, 0, 1, 1, 0, 0]).gives("Out", ids(&[3, 1, 2], &[6, 6, 3, 3, 0, 1]));
    }

    #[test]
    fn refuses_a_parent_that_is_no_beam() {
        let error = tree(&[0, 0, 2, 1, 0, 0]).output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { position: 2, .. }), "{error}");
        let check = check("gather_tree").input("Ids", ids(&[2], &[0, 0]));
        let error = check.input("Parents", ids(&[2], &[0, 0])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
