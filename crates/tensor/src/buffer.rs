//! Memory of a tensor: bytes on a cache line, kept when a tensor shrinks so that a steady-state
//! step allocates nothing.

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; LINE_BYTES]);

const LINE_BYTES: usize = 64;

/// Growable bytes, aligned for any element type and for vector loads.
#[derive(Default)]
pub struct Buffer {
    lines: Vec<Line>,
    n_bytes: usize,
}

impl Buffer {
    /// Makes the buffer `n_bytes` long. Old bytes stay as they are, new memory is zero.
    pub fn resize(&mut self, n_bytes: usize) {
        let n_lines = n_bytes.div_ceil(LINE_BYTES);
        if n_lines > self.lines.len() {
            if n_lines > self.lines.capacity() {
                // A fresh zeroed block costs no copy: what was here is not promised to survive.
                self.lines = bytemuck::zeroed_vec(n_lines);
            } else {
                self.lines.resize(n_lines, Line([0; LINE_BYTES]));
            }
        }
        self.n_bytes = n_bytes;
    }

    /// Makes the buffer `n_bytes` long or longer and keeps what is there. The memory it grows by is
    /// zero; more is reserved than needed, so that growing step by step costs little.
    pub fn grow(&mut self, n_bytes: usize) {
        let n_lines = n_bytes.div_ceil(LINE_BYTES);
        if n_lines > self.lines.len() {
            self.lines.resize(n_lines, Line([0; LINE_BYTES]));
        }
        self.n_bytes = self.n_bytes.max(n_bytes);
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.n_bytes]
    }

    /// The bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.n_bytes]
    }

    /// Bytes of memory held, used or not.
    pub fn capacity(&self) -> usize {
        self.lines.capacity() * LINE_BYTES
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        // Straight from the old bytes: memory that is about to be written need not be zeroed.
        let used = &self.lines[..self.n_bytes.div_ceil(LINE_BYTES)];
        Self { lines: used.to_vec(), n_bytes: self.n_bytes }
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
    fn fresh_memory_is_zero() {
        let mut buffer = Buffer::default();
        buffer.resize(130);
        assert!(buffer.bytes().iter().all(|&byte| byte == 0));
    }
}
