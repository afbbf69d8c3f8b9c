//! Tensors from a file straight into their memory.

use std::io::Read;

use program::stream;
use tensor::Tensor;

use crate::error::Result;
use crate::folder::{FileReader, Folder};

/// Bytes in which the description of a tensor is looked for.
const HEAD_BYTES: u64 = 1 << 16;

/// The tensors of a file that holds exactly `n`. `None` if the file looks wrong: a full read gives
/// a better error.
pub(super) fn read_tensors(folder: &Folder, name: &str, n: usize) -> Result<Option<Vec<Tensor>>> {
    let Ok(file) = folder.reader(name) else { return Ok(None) };
    let left = file.n_bytes();
    let mut input = TensorFile { file, ahead: Vec::new(), left };
    let mut tensors = Vec::with_capacity(n.min(1024));
    for _ in 0..n {
        match input.tensor() {
            Some(tensor) => tensors.push(tensor),
            None => return Ok(None),
        }
    }
    if input.left > 0 {
        return Ok(None);
    }
    input.file.finish()?;
    Ok(Some(tensors))
}

/// A file, while tensors are read from it.
struct TensorFile {
    file: FileReader,
    /// Bytes that were read and not used.
    ahead: Vec<u8>,
    /// Bytes that were not used.
    left: u64,
}

impl TensorFile {
    fn tensor(&mut self) -> Option<Tensor> {
        let missing = HEAD_BYTES.min(self.left).saturating_sub(self.ahead.len() as u64);
        self.file.by_ref().take(missing).read_to_end(&mut self.ahead).ok()?;
        let mut head = stream::StreamReader::new(&self.ahead);
        let found = head.tensor_head().ok()?;
        let (n_head, n_bytes) = (head.at(), found.n_bytes());
        // Nothing is allocated because a head says so.
        if n_bytes.checked_add(n_head as u64)? > self.left {
            return None;
        }
        let mut tensor = Tensor::default();
        tensor.try_resize_as(found.dtype, found.shape).ok()?;
        let numbers = tensor.bytes_mut();
        let n_ahead = numbers.len().min(self.ahead.len() - n_head);
        let (here, rest) = numbers.split_at_mut(n_ahead);
        here.copy_from_slice(&self.ahead[n_head..n_head + n_ahead]);
        self.file.fill(rest).ok()?;
        self.ahead.drain(..n_head + n_ahead);
        self.left -= n_head as u64 + n_bytes;
        tensor.set_lod(found.lod);
        Some(tensor)
    }
}
