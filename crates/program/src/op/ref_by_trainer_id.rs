//! `ref_by_trainer_id`: Out = X[TrainerId], the one of several variables that belongs to a trainer.

use super::{Infer, Op, Run, traits};
use crate::error::{Error, Result};

pub(super) struct RefByTrainerId;

impl Op for RefByTrainerId {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let trainer = run.scalar("TrainerId")?;
        let n = run.n_inputs("X");
        if trainer < 0.0 || trainer >= n as f64 {
            let var = run.input_name("TrainerId").to_string();
            let rule = "there is no such trainer";
            return Err(Error::BadValue { rule, var, position: 0, value: trainer });
        }
        let mut out = run.take("Out");
        out.copy_from(run.input_at("X", trainer as usize)?);
        run.put("Out", out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn pick(trainer: i64) -> Check {
        check("ref_by_trainer_id")
            .inputs("X", vec![t(&[1], &[1.0]), t(&[1], &[2.0])])
            .input("TrainerId", ids(&[1], &[trainer]))
    }

    #[test]
    fn picks_the_trainers_own() {
        pick(1).gives("Out", t(&[1], &[2.0]));
    }

    #[test]
    fn refuses_a_trainer_that_is_not_there() {
        let error = pick(2).output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { .. }), "{error}");
    }
}
