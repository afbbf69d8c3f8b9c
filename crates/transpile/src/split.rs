//! Cutting variables into blocks of rows, and giving the blocks to servers.

use std::ops::Range;
use std::sync::Arc;

use super::mt19937::Mt19937;

/// A smaller block is not worth a request of its own. Fluid's number.
pub const MIN_BLOCK_SIZE: i64 = 8192;

/// Splits a variable into at most `n_servers` blocks of whole rows, each of at least `min_block`
/// elements (except the last). Returns the rows of each.
pub fn slice_variable(dims: &[i64], n_servers: usize, min_block: i64) -> Vec<Range<i64>> {
    let total = program::var::n_elements(dims);
    let width = program::var::n_elements(dims.get(1..).unwrap_or(&[])).max(1);
    let most = total / min_block.max(1);
    let n_blocks = most.clamp(1, n_servers.max(1) as i64);
    let mut size = ceil(total, n_blocks);
    if dims.len() >= 2 {
        size = ceil(size, width) * width;
    }
    let n_blocks = ceil(total, size.max(1));
    let rows = |block: i64| block * size / width..((block + 1) * size).min(total) / width;
    (0..n_blocks).map(rows).collect()
}

/// What blocks of a variable are called: `w.block0`, or just `w` if it is not cut.
pub(super) fn block_names(var: &str, n_blocks: usize) -> Vec<String> {
    match n_blocks {
        1 => vec![var.to_string()],
        n => (0..n).map(|block| format!("{var}.block{block}")).collect(),
    }
}

fn ceil(a: i64, b: i64) -> i64 {
    (a + b - 1) / b
}

/// Chooses a server for each block. `blocks` are the names of the blocks of one variable. It is
/// called for one variable after another. Returns one end point per block.
pub trait Dispatch {
    /// The servers of these blocks.
    fn dispatch(&mut self, blocks: &[String], endpoints: &[String]) -> Vec<String>;

    /// One that chooses as this one will, for other servers too; none if it is a choice for these ones.
    fn again(&self) -> Option<SharedDispatch> {
        None
    }
}

/// Makes choices that do not depend on those that were made before.
pub type SharedDispatch = Arc<dyn Fn() -> Box<dyn Dispatch> + Send + Sync>;

/// One server after the other.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    step: usize,
}

impl RoundRobin {
    /// One that has given out `step` blocks already.
    pub fn after(step: usize) -> Self {
        Self { step }
    }
}

impl Dispatch for RoundRobin {
    fn dispatch(&mut self, blocks: &[String], endpoints: &[String]) -> Vec<String> {
        let mut next = || {
            let endpoint = endpoints[self.step % endpoints.len()].clone();
            self.step += 1;
            endpoint
        };
        blocks.iter().map(|_| next()).collect()
    }

    fn again(&self) -> Option<SharedDispatch> {
        let own = self.clone();
        Some(Arc::new(move || Box::new(own.clone())))
    }
}

/// By a hash of the block's name (CRC-32), the same in every process and every version.
#[derive(Clone, Debug, Default)]
pub struct HashName;

impl Dispatch for HashName {
    fn dispatch(&mut self, blocks: &[String], endpoints: &[String]) -> Vec<String> {
        let of =
            |name: &String| endpoints[crc32(name.as_bytes()) as usize % endpoints.len()].clone();
        blocks.iter().map(of).collect()
    }

    fn again(&self) -> Option<SharedDispatch> {
        Some(Arc::new(|| Box::new(HashName)))
    }
}

/// CRC-32 as in zip and PNG files.
fn crc32(bytes: &[u8]) -> u32 {
    let byte = |crc: u32, byte: &u8| {
        let bit = |crc: u32, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        (0..8).fold(crc ^ u32::from(*byte), bit)
    };
    !bytes.iter().fold(!0, byte)
}

/// The order in which variables that are not cut are given out: shuffled as numpy's
/// `RandomState(seed)` does it, so that all processes agree.
pub(super) fn shuffled(n: usize, seed: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    Mt19937::new(seed).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(n: usize) -> Vec<String> {
        (0..n).map(|k| format!("w.block{k}")).collect()
    }

    fn endpoints() -> Vec<String> {
        vec!["a:1".to_string(), "b:1".to_string()]
    }

    #[test]
    fn round_robin_goes_on_where_it_stopped() {
        let mut dispatch = RoundRobin::default();
        assert_eq!(dispatch.dispatch(&names(3), &endpoints()), ["a:1", "b:1", "a:1"]);
        assert_eq!(dispatch.dispatch(&names(1), &endpoints()), ["b:1"]);
    }

    #[test]
    fn a_hash_is_the_same_everywhere() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let once = HashName.dispatch(&names(9), &endpoints());
        assert_eq!(once, HashName.dispatch(&names(9), &endpoints()));
        assert!(once.contains(&"a:1".to_string()) && once.contains(&"b:1".to_string()));
    }

    #[test]
    fn empty_and_odd_shapes_are_cut_into_whole_rows() {
        assert_eq!(slice_variable(&[1], 4, 8192).len(), 1);
        let cuts = slice_variable(&[3, 10000], 2, 8192);
        assert_eq!(cuts, [0..2, 2..3]);
    }
}
