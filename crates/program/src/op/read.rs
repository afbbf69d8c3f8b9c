//! `read`: the next batch of a reader, one output per field; `create_py_reader` declares one.
//!
//! The batches come from outside of the program, through [`Host::read`](super::Host::read).

use super::{Infer, Op, Run, traits};
use crate::error::{Error, Result};

pub(super) struct Read;
pub(super) struct CreatePyReader;

impl Op for Read {
    traits!(Never; has_side_effect);

    /// The layer that makes the reader has described its fields already.
    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        infer.input("Reader").map(|_| ())
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let reader = run.input_name("Reader").to_string();
        let Some(batch) = run.host().read(&reader)? else {
            return Err(Error::EndOfPass { reader });
        };
        let n_fields = run.n_outputs("Out");
        if batch.len() != n_fields {
            return Err(Error::BadBatch { reader, expected: n_fields, actual: batch.len() });
        }
        for (k, tensor) in batch.into_iter().enumerate() {
            run.put_at("Out", k, tensor);
        }
        Ok(())
    }
}

/// The reader itself lives outside; naming it is all there is to do.
impl Op for CreatePyReader {
    traits!(Never);

    fn run(&self, _run: &mut Run<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tensor::{Tensor, Value};

    use super::*;
    use crate::block::OpDesc;
    use crate::op::{Host, NoHost, Spare, Wiring};

    /// Gives two batches of `n_fields` fields, then none.
    struct Batches {
        left: usize,
        n_fields: usize,
    }

    impl Host for Batches {
        fn read(&mut self, reader: &str) -> Result<Option<Vec<Tensor>>> {
            assert_eq!(reader, "r");
            let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
            self.left = left;
            Ok(Some(vec![Tensor::full([1], left as i64); self.n_fields]))
        }
    }

    fn read(host: &mut dyn Host) -> Result<Vec<Value>> {
        let op = OpDesc::new("read").input("Reader", "r");
        let op = op.output("Out", vec!["a".to_string(), "b".to_string()]);
        let places = ["r", "a", "b"];
        let wiring = Wiring::new(&op, |name| {
            places.iter().position(|place| *place == name).expect("one of three")
        });
        let (mut vars, mut spare) = (vec![Value::Empty; 3], Spare::default());
        Read.run(&mut Run::new(&op, &wiring, &mut vars, &mut spare, host))?;
        Ok(vars)
    }

    #[test]
    fn gives_batch_after_batch_until_the_pass_ends() {
        let mut host = Batches { left: 2, n_fields: 2 };
        for left in [1i64, 0] {
            let vars = read(&mut host).unwrap();
            assert_eq!(vars[2], Value::from(Tensor::full([1], left)));
        }
        let error = read(&mut host).unwrap_err();
        assert!(matches!(&error, Error::EndOfPass { reader } if reader == "r"), "{error}");
    }

    #[test]
    fn refuses_a_batch_with_other_fields_and_a_world_without_readers() {
        let error = read(&mut Batches { left: 1, n_fields: 3 }).unwrap_err();
        assert!(matches!(error, Error::BadBatch { expected: 2, actual: 3, .. }), "{error}");
        let error = read(&mut NoHost).unwrap_err();
        assert!(matches!(error, Error::NoHost { .. }), "{error}");
    }
}
