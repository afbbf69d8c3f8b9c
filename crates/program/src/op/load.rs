//! `load`: reads variable Out from the file `file_path`; with `seek` and `shape`, the elements from
//! there on. `load_combine`: reads all of Out, in their order, from one file.

use tensor::{Shape, Tensor, Value};

use super::{Op, Run, traits};
use crate::error::{Error, Result};
use crate::stream::{self, Problem};

pub(super) struct Load;
pub(super) struct LoadCombine;

impl Op for Load {
    traits!(Never; uses_files);

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let bytes = read(run)?;
        let value = match stream::value_from_bytes(&bytes)? {
            Value::Tensor(tensor) => Value::Tensor(part(run, tensor)?),
            other => other,
        };
        run.put_value_at("Out", 0, value);
        Ok(())
    }
}

impl Op for LoadCombine {
    traits!(Never; uses_files);

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let bytes = read(run)?;
        let tensors = stream::combined_from_bytes(&bytes, run.n_outputs("Out"))?;
        for (index, tensor) in tensors.into_iter().enumerate() {
            run.put_at("Out", index, tensor);
        }
        Ok(())
    }
}

fn read(run: &mut Run<'_>) -> Result<Vec<u8>> {
    let path = run.attrs().str("file_path", "")?;
    run.host().read_file(path)
}

/// The elements that the attributes ask for: a server loads its rows of a whole table this way.
fn part(run: &Run<'_>, tensor: Tensor) -> Result<Tensor> {
    let Ok(start) = u64::try_from(run.attrs().int("seek", -1)?) else { return Ok(tensor) };
    let shape = Shape::from_dims(&run.attrs().ints("shape")?)?;
    let (end, len) = (start.saturating_add(shape.n_elements() as u64), tensor.len());
    if end > len as u64 {
        let problem = Problem::Slice { start, end, len };
        return Err(Error::BadStream { offset: 0, problem });
    }
    let size = tensor.dtype().size();
    let bytes = &tensor.bytes()[start as usize * size..end as usize * size];
    Ok(Tensor::from_bytes(tensor.dtype(), shape, bytes)?)
}
