//! Memory of dropped tensors, for new ones.

use crate::Tensor;

/// Tensors kept for reuse, of which none and all together may be too many.
#[derive(Debug)]
pub struct Pool {
    kept: Vec<Tensor>,
    n_bytes: usize,
    n_max: usize,
    n_bytes_max: usize,
}

impl Default for Pool {
    /// For one connection: a step rarely has more tensors in flight.
    fn default() -> Self {
        Self::new(64, 8 << 20)
    }
}

impl Pool {
    /// A pool that keeps so many tensors and bytes at most.
    pub fn new(n_max: usize, n_bytes_max: usize) -> Self {
        Self { kept: Vec::new(), n_bytes: 0, n_max, n_bytes_max }
    }

    /// Keeps the memory of a tensor, unless it is lent or the pool is full: then it is dropped.
    pub fn keep(&mut self, tensor: Tensor) {
        let n_bytes = tensor.capacity();
        let fits = self.kept.len() < self.n_max && self.n_bytes + n_bytes <= self.n_bytes_max;
        if fits && n_bytes > 0 && tensor.lender().is_none() {
            self.n_bytes += n_bytes;
            self.kept.push(tensor);
        }
    }

    /// The kept tensor that fits best, or a new one. Where none fits, the largest goes: otherwise
    /// tensors that grow would fill the pool with their former sizes.
    pub fn take(&mut self, n_bytes: usize) -> Tensor {
        let sizes = || self.kept.iter().map(Tensor::capacity).enumerate();
        let best = sizes().filter(|&(_, size)| size >= n_bytes).min_by_key(|&(_, size)| size);
        if let Some((at, size)) = best {
            self.n_bytes -= size;
            return self.kept.swap_remove(at);
        }
        if let Some((at, size)) = sizes().max_by_key(|&(_, size)| size) {
            self.n_bytes -= size;
            self.kept.swap_remove(at);
        }
        Tensor::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(n: usize) -> Tensor {
        Tensor::full([n], 1u8)
    }

    #[test]
    fn gives_what_fits_best() {
        let mut pool = Pool::default();
        [3000, 1000, 2000].into_iter().for_each(|n| pool.keep(tensor(n)));
        let taken = pool.take(1500);
        assert!((2000..3000).contains(&taken.capacity()), "{}", taken.capacity());
        assert_eq!(pool.take(10_000).capacity(), 0, "none fits: a new one");
        assert!((1000..2000).contains(&pool.take(1).capacity()), "the largest went");
        assert_eq!(pool.take(1).capacity(), 0);
    }

    #[test]
    fn keeps_no_more_than_it_may() {
        let mut pool = Pool::new(2, 10_000);
        for n in [20_000, 3000, 3000, 10] {
            pool.keep(tensor(n));
        }
        assert_eq!(pool.kept.len(), 2, "one was too large, one too many");
        pool.take(1);
        pool.keep(tensor(9000));
        assert_eq!(pool.kept.len(), 1, "together they would be too large");
        assert_eq!(pool.n_bytes, pool.kept[0].capacity());
    }
}
