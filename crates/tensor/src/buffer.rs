//! Memory of a tensor: bytes on a cache line, kept when a tensor shrinks so that a steady-state
//! step allocates nothing.

/// What memory is made of. The system's allocator moves memory of this alignment to a larger place
/// by mapping its pages anew; of a larger alignment it would copy it, and hold both for a while.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(16))]
struct Unit([u8; UNIT_BYTES]);

const UNIT_BYTES: usize = 16;
const LINE_BYTES: usize = 64;
/// Units that may have to be left out before the first line.
const SLACK: usize = LINE_BYTES / UNIT_BYTES - 1;

/// Growable bytes, aligned for any element type and for vector loads.
#[derive(Default)]
pub struct Buffer {
    units: Vec<Unit>,
    /// Units before the first line.
    start: usize,
    n_bytes: usize,
}

/// How many units before the first line.
fn slack(first: *const Unit) -> usize {
    (first as usize).wrapping_neg() % LINE_BYTES / UNIT_BYTES
}

/// Units of a buffer of so many bytes, wherever it begins.
fn units_for(n_bytes: usize) -> usize {
    n_bytes.div_ceil(UNIT_BYTES) + SLACK
}

impl Buffer {
    /// Makes the buffer `n_bytes` long. Old bytes stay as they are, new memory is zero.
    pub fn resize(&mut self, n_bytes: usize) {
        let n_units = units_for(n_bytes);
        if n_bytes > 0 && n_units > self.units.len() {
            if n_units > self.units.capacity() {
                // A fresh zeroed block costs no copy: what was here is not promised to survive.
                self.units = bytemuck::zeroed_vec(n_units);
                self.start = slack(self.units.as_ptr());
            } else {
                self.units.resize(n_units, Unit([0; UNIT_BYTES]));
            }
        }
        self.n_bytes = n_bytes;
    }

    /// Makes the buffer `n_bytes` long or longer and keeps what is there. The memory it grows by is
    /// zero; more is reserved than needed, so that growing step by step costs little. Memory that is
    /// reserved and not used costs addresses only.
    pub fn grow(&mut self, n_bytes: usize) {
        let n_units = units_for(n_bytes);
        if n_units > self.units.len() {
            self.units.resize(n_units, Unit([0; UNIT_BYTES]));
            let start = slack(self.units.as_ptr());
            if start != self.start {
                let used = self.start..self.start + self.n_bytes.div_ceil(UNIT_BYTES);
                self.units.copy_within(used, start);
                let end = start + self.n_bytes.div_ceil(UNIT_BYTES);
                self.units[end..].fill(Unit([0; UNIT_BYTES]));
                self.start = start;
            }
        }
        self.n_bytes = self.n_bytes.max(n_bytes);
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.units)[self.start * UNIT_BYTES..][..self.n_bytes]
    }

    /// The bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.units)[self.start * UNIT_BYTES..][..self.n_bytes]
    }

    /// Bytes of memory held, used or not.
    pub fn capacity(&self) -> usize {
        self.units.capacity() * UNIT_BYTES
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        // Straight from the old bytes: memory that is about to be written need not be zeroed.
        let used = &self.units[self.start..][..self.n_bytes.div_ceil(UNIT_BYTES)];
        if used.is_empty() {
            return Self::default();
        }
        let mut units = Vec::with_capacity(used.len() + SLACK);
        let start = slack(units.as_ptr());
        units.resize(start, Unit([0; UNIT_BYTES]));
        units.extend_from_slice(used);
        units.resize(used.len() + SLACK, Unit([0; UNIT_BYTES]));
        Self { units, start, n_bytes: self.n_bytes }
    }

    fn clone_from(&mut self, source: &Self) {
        self.resize(source.n_bytes);
        self.bytes_mut().copy_from_slice(source.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_memory_when_it_shrinks() {
        let mut buffer = Buffer::default();
        buffer.resize(1000);
        let capacity = buffer.capacity();
        buffer.resize(10);
        buffer.resize(1000);
        assert_eq!(buffer.capacity(), capacity);
        assert_eq!(buffer.bytes().len(), 1000);
    }

    #[test]
    fn growing_keeps_what_is_there() {
        let mut buffer = Buffer::default();
        buffer.resize(70);
        buffer.bytes_mut().fill(7);
        buffer.grow(200);
        assert!(buffer.bytes()[..70].iter().all(|&byte| byte == 7));
        assert!(buffer.bytes()[128..].iter().all(|&byte| byte == 0));
        buffer.grow(10);
        assert_eq!(buffer.bytes().len(), 200);
    }

    #[test]
    fn bytes_begin_on_a_line_wherever_memory_is() {
        let mut all = Vec::new();
        for n_bytes in (1..6000).step_by(37) {
            let mut buffer = Buffer::default();
            buffer.resize(n_bytes);
            let last = n_bytes - 1;
            buffer.bytes_mut()[last] = 9;
            buffer.grow(n_bytes + 5000);
            assert_eq!(buffer.bytes()[last], 9);
            assert!(buffer.bytes()[n_bytes..].iter().all(|&byte| byte == 0));
            let copy = buffer.clone();
            assert_eq!(copy.bytes(), buffer.bytes());
            all.extend([buffer, copy]);
        }
        assert!(all.iter().all(|buffer| buffer.bytes().as_ptr() as usize % LINE_BYTES == 0));
    }

    #[test]
    fn fresh_memory_is_zero() {
        let mut buffer = Buffer::default();
        buffer.resize(130);
        assert!(buffer.bytes().iter().all(|&byte| byte == 0));
    }
}
