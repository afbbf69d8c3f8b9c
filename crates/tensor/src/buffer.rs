//! Memory of a tensor: bytes on a cache line, kept when a tensor shrinks so that a steady-state
//! step allocates nothing.

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; LINE_BYTES]);

const LINE_BYTES: usize = 64;

/// Memory that belongs to somebody else: pages that processes share, say.
///
/// It is aligned for the elements of its tensor; any bytes must do as numbers.
pub trait Memory: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes to write; nothing if they may only be read.
    fn bytes_mut(&mut self) -> Option<&mut [u8]>;
    /// Where it lies, for whoever passes it on: the region, the part of it, the offset.
    fn place(&self) -> (u64, u32, u64);
}

/// Growable bytes, aligned for any element type and for vector loads.
#[derive(Default)]
pub struct Buffer {
    lines: Vec<Line>,
    /// Used instead of `lines`, if it is there.
    lent: Option<Box<dyn Memory>>,
    n_bytes: usize,
}

impl Buffer {
    /// All of this memory. It is left for memory of our own when it is too small or only to be read.
    pub fn lent(memory: Box<dyn Memory>) -> Self {
        let n_bytes = memory.bytes().len();
        Self { lines: Vec::new(), lent: Some(memory), n_bytes }
    }

    /// The first `n_bytes` of it, which must be there.
    pub(crate) fn shortened(self, n_bytes: usize) -> Self {
        Self { n_bytes: n_bytes.min(self.n_bytes), ..self }
    }

    /// The memory of somebody else that holds the bytes.
    pub fn lender(&self) -> Option<&dyn Memory> {
        self.lent.as_deref()
    }

    /// Makes the buffer `n_bytes` long. Old bytes stay as they are, new memory is zero.
    pub fn resize(&mut self, n_bytes: usize) {
        if let Some(memory) = &mut self.lent {
            if memory.bytes_mut().is_some_and(|bytes| bytes.len() >= n_bytes) {
                self.n_bytes = n_bytes;
                return;
            }
            self.lent = None;
        }
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
        self.own();
        let n_lines = n_bytes.div_ceil(LINE_BYTES);
        if n_lines > self.lines.len() {
            self.lines.resize(n_lines, Line([0; LINE_BYTES]));
        }
        self.n_bytes = self.n_bytes.max(n_bytes);
    }

    /// Copies lent bytes to memory of our own.
    fn own(&mut self) {
        let Some(memory) = self.lent.take() else { return };
        self.resize(self.n_bytes);
        let n_bytes = self.n_bytes;
        self.bytes_mut().copy_from_slice(&memory.bytes()[..n_bytes]);
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.lent {
            Some(memory) => &memory.bytes()[..self.n_bytes],
            None => &bytemuck::cast_slice(&self.lines)[..self.n_bytes],
        }
    }

    /// The bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.lent.as_mut().is_some_and(|memory| memory.bytes_mut().is_none()) {
            self.own();
        }
        let bytes = match &mut self.lent {
            Some(memory) => memory.bytes_mut().unwrap_or_default(),
            None => bytemuck::cast_slice_mut(&mut self.lines),
        };
        &mut bytes[..self.n_bytes]
    }

    /// Whether the bytes can be written where they are.
    pub fn may_write(&mut self) -> bool {
        self.lent.as_mut().is_none_or(|memory| memory.bytes_mut().is_some())
    }

    /// Bytes of memory held, used or not.
    pub fn capacity(&self) -> usize {
        self.lent.as_ref().map_or(self.lines.capacity() * LINE_BYTES, |lent| lent.bytes().len())
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        if self.lent.is_some() {
            let mut copy = Self::default();
            copy.clone_from(self);
            return copy;
        }
        // Straight from the old bytes: memory that is about to be written need not be zeroed.
        let used = &self.lines[..self.n_bytes.div_ceil(LINE_BYTES)];
        Self { lines: used.to_vec(), lent: None, n_bytes: self.n_bytes }
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

    /// Four lines of somebody else's.
    struct Foreign {
        lines: Vec<Line>,
        may_write: bool,
    }

    impl Memory for Foreign {
        fn bytes(&self) -> &[u8] {
            bytemuck::cast_slice(&self.lines)
        }

        fn bytes_mut(&mut self) -> Option<&mut [u8]> {
            self.may_write.then(|| bytemuck::cast_slice_mut(&mut self.lines))
        }

        fn place(&self) -> (u64, u32, u64) {
            (1, 2, 3)
        }
    }

    fn lent(may_write: bool) -> Buffer {
        Buffer::lent(Box::new(Foreign { lines: vec![Line([7; LINE_BYTES]); 4], may_write }))
    }

    #[test]
    fn lent_memory_is_written_only_where_it_may_be() {
        let mut mine = lent(true);
        mine.resize(100);
        mine.bytes_mut().fill(1);
        assert_eq!(mine.lender().map(Memory::place), Some((1, 2, 3)));
        let mut theirs = lent(false);
        assert!(theirs.lender().is_some());
        theirs.bytes_mut()[0] = 1;
        assert!(theirs.lender().is_none(), "it was copied");
        assert_eq!(theirs.bytes()[..3], [1, 7, 7]);
        assert_eq!(theirs.bytes().len(), 256);
    }

    #[test]
    fn lent_memory_is_left_when_it_is_too_small() {
        let mut buffer = lent(true);
        buffer.grow(1000);
        assert_eq!((buffer.bytes()[255], buffer.bytes()[256]), (7, 0));
        let mut buffer = lent(true);
        buffer.resize(257);
        assert!(buffer.lender().is_none());
        assert_eq!(lent(false).clone().bytes(), lent(true).bytes());
    }
}
