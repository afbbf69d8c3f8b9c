//! Requests, as their bytes come: a connection may stop anywhere in a frame.
//!
//! Head and meta bytes are collected until they are whole. Then the message is made, with memory for
//! its blobs, and blobs are read straight to there. A connection that is between two frames holds no
//! buffer.

use std::io::{self, IoSliceMut, Read};
use std::sync::Arc;

use tensor::Pool;

use wire::Result;
use wire::budget::Held;
use wire::codec::{Blobs, Destination};
use wire::frame::{HEAD_BYTES, HELLO_BYTES_MAX, Head};
use wire::message::Request;
use wire::shm::Window;

/// The part of a frame that has arrived so far.
#[derive(Debug)]
pub(super) struct FrameInput {
    /// The first bytes of a frame whose meta bytes are not whole.
    begun: Vec<u8>,
    /// A message whose blobs are not whole.
    filling: Option<Filling>,
    /// The memory that the peer lends.
    pub(super) window: Option<Arc<Window>>,
    /// The longest frame that is taken.
    pub(super) n_bytes_max: u64,
    /// Its share of the budget.
    pub(super) held: Held,
}

#[derive(Debug)]
struct Filling {
    id: u64,
    request: Request,
    /// Bytes of blobs that are there.
    n_filled: usize,
}

/// The result of a read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    /// Bytes in the buffer; others went to where they belong.
    pub(super) n_buffered: usize,
    /// Whether there may be more.
    pub(super) is_full: bool,
    /// Whether the peer closed its end.
    pub(super) is_end: bool,
}

/// The most slices one system call is given.
const SLICES_MAX: usize = 512;

impl Default for FrameInput {
    fn default() -> Self {
        let (begun, held) = (Vec::new(), Held::default());
        Self { begun, filling: None, window: None, n_bytes_max: HELLO_BYTES_MAX, held }
    }
}

impl FrameInput {
    /// Whether a frame has begun and not ended.
    pub(super) fn is_begun(&self) -> bool {
        !self.begun.is_empty() || self.filling.is_some()
    }

    /// Counts what has come of a frame; an error if that is too much. Memory for what has not come yet is claimed, and
    /// the system gives it when it is written to.
    pub(super) fn count(&mut self) -> Result<()> {
        let n_filled = self.filling.as_ref().map_or(0, |filling| filling.n_filled);
        Ok(self.held.set((self.begun.len() + n_filled) as u64)?)
    }

    /// Reads once: to the blobs that are waited for, and what is beyond them to `buffer`.
    pub(super) fn read(&mut self, stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<Came> {
        let Some(filling) = &mut self.filling else {
            let n = stream.read(buffer)?;
            return Ok(Came { n_buffered: n, is_full: n == buffer.len(), is_end: n == 0 });
        };
        let mut slices: Vec<IoSliceMut<'_>> = Vec::new();
        slices.extend(filling.rest().into_iter().take(SLICES_MAX).map(IoSliceMut::new));
        let n_wanted: usize = slices.iter().map(|slice| slice.len()).sum();
        slices.push(IoSliceMut::new(buffer));
        let n_slices: usize = slices.iter().map(|slice| slice.len()).sum();
        let n = stream.read_vectored(&mut slices)?;
        filling.n_filled += n.min(n_wanted);
        let n_buffered = n.saturating_sub(n_wanted);
        Ok(Came { n_buffered, is_full: n == n_slices, is_end: n == 0 })
    }

    /// Takes bytes from the front of `bytes` until a message is whole.
    pub(super) fn take(
        &mut self,
        bytes: &mut &[u8],
        pool: &mut Pool,
    ) -> Result<Option<(u64, Request)>> {
        if self.filling.is_none() {
            self.filling = self.begin(bytes, pool)?;
        }
        let Some(filling) = &mut self.filling else { return Ok(None) };
        Ok(if filling.fill(bytes) {
            self.filling.take().map(|whole| (whole.id, whole.request))
        } else {
            None
        })
    }

    /// The next message, once its head and meta bytes are there.
    fn begin(&mut self, bytes: &mut &[u8], pool: &mut Pool) -> Result<Option<Filling>> {
        // Mostly all of it came at once and can be read where it is.
        if self.begun.is_empty()
            && let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>()
        {
            let head = Head::decode(head, self.n_bytes_max)?;
            if let Some((meta, rest)) = rest.split_at_checked(head.n_meta) {
                *bytes = rest;
                return self.message(head, meta, pool).map(Some);
            }
        }
        if !self.collect(bytes, HEAD_BYTES) {
            return Ok(None);
        }
        let Some((head, _)) = self.begun.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let head = Head::decode(head, self.n_bytes_max)?;
        if !self.collect(bytes, HEAD_BYTES + head.n_meta) {
            return Ok(None);
        }
        let begun = std::mem::take(&mut self.begun);
        self.message(head, &begun[HEAD_BYTES..], pool).map(Some)
    }

    fn message(&self, head: Head, meta: &[u8], pool: &mut Pool) -> Result<Filling> {
        let into = Destination { pool, window: self.window.as_ref() };
        Ok(Filling { id: head.id, request: head.message(meta, into)?, n_filled: 0 })
    }

    /// Collects bytes until there are `n`.
    fn collect(&mut self, bytes: &mut &[u8], n: usize) -> bool {
        let n_more = n.saturating_sub(self.begun.len()).min(bytes.len());
        let (more, rest) = bytes.split_at(n_more);
        self.begun.extend_from_slice(more);
        *bytes = rest;
        self.begun.len() >= n
    }
}

impl Filling {
    /// Memory that is still to be filled, in order.
    fn rest(&mut self) -> Blobs<'_> {
        let mut blobs = Blobs::new();
        self.request.blobs(&mut blobs);
        let mut n_filled = self.n_filled;
        blobs.retain_mut(|blob| {
            let n = n_filled.min(blob.len());
            n_filled -= n;
            *blob = &mut std::mem::take(blob)[n..];
            !blob.is_empty()
        });
        blobs
    }

    /// Copies bytes to where they belong; whether nothing is left to be filled.
    fn fill(&mut self, bytes: &mut &[u8]) -> bool {
        let (mut n_filled, mut is_whole) = (0, true);
        for blob in self.rest() {
            let n = blob.len().min(bytes.len());
            let (now, rest) = bytes.split_at(n);
            blob[..n].copy_from_slice(now);
            *bytes = rest;
            n_filled += n;
            is_whole = n == blob.len();
            if !is_whole {
                break;
            }
        }
        self.n_filled += n_filled;
        is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor::{Rows, Tensor, Value};
    use wire::frame::{FRAME_BYTES_MAX, Frame, to_bytes};
    use wire::message::{Grad, LookUp, Ping, Push};
    use wire::{Error, VarId};

    fn requests() -> Vec<Request> {
        let rows = Rows { ids: vec![1, 2], height: 9, value: Tensor::full([2, 3], 0.5f32) };
        let grad = |value| Grad { var: VarId(3), value };
        let grads = [Value::Rows(rows), Value::Tensor(Tensor::full([50], 7f64)), Value::Empty];
        let (table, keys) = (VarId(1), (0..40).collect());
        vec![
            Ping.into(),
            Push { behind: 1, ..Push::new(grads.map(grad).into()) }.into(),
            LookUp::new(0, table, keys).into(),
            Push::new(Vec::new()).into(),
        ]
    }

    fn stream(requests: &[Request]) -> Vec<u8> {
        let frames = requests.iter().enumerate();
        frames.flat_map(|(at, body)| to_bytes(&Frame { id: at as u64, body })).collect()
    }

    /// Gives at most so many bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(bytes.len());
            (&mut self.0).take(n as u64).read(bytes)
        }

        fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            let mut n_read = 0;
            for slice in slices {
                let n = (self.1 - n_read).min(slice.len()).min(self.0.len());
                slice[..n].copy_from_slice(&self.0[..n]);
                (self.0, n_read) = (&self.0[n..], n_read + n);
            }
            Ok(n_read)
        }
    }

    fn read_all(bytes: &[u8], n_at_once: usize, n_buffer: usize) -> Vec<Request> {
        let (mut input, mut stream) = (FrameInput::default(), Slow(bytes, n_at_once));
        let (mut buffer, mut found) = (vec![0; n_buffer], Vec::new());
        loop {
            let came = input.read(&mut stream, &mut buffer).unwrap();
            if came.is_end {
                break;
            }
            let mut bytes = &buffer[..came.n_buffered];
            while let Some((id, request)) = input.take(&mut bytes, &mut Pool::default()).unwrap() {
                assert_eq!(id, found.len() as u64);
                found.push(request);
            }
            assert!(bytes.is_empty(), "what is not whole is remembered");
        }
        assert!(!input.is_begun());
        found
    }

    #[test]
    fn messages_are_whole_however_their_bytes_come() {
        let (requests, bytes) = (requests(), stream(&requests()));
        for n_at_once in 1..bytes.len() + 1 {
            for n_buffer in [16, 100, 10_000] {
                let found = read_all(&bytes, n_at_once, n_buffer);
                assert_eq!(
                    found, requests,
                    "{n_at_once} bytes at a time, {n_buffer} in the buffer"
                );
            }
        }
    }

    #[test]
    fn an_idle_connection_holds_no_memory() {
        let (mut input, bytes) = (FrameInput::default(), stream(&requests()));
        for byte in &bytes {
            let _ = input.take(&mut &[*byte][..], &mut Pool::default()).unwrap();
        }
        assert_eq!((input.begun.capacity(), input.is_begun()), (0, false));
    }

    #[test]
    fn a_head_that_claims_too_much_is_refused_before_anything_else_comes() {
        let mut bytes = to_bytes(&Frame { id: 0, body: &Request::from(Ping) });
        bytes[8..12].copy_from_slice(&(1u32 << 30).to_le_bytes());
        for n_bytes_max in [HELLO_BYTES_MAX, FRAME_BYTES_MAX - 1] {
            let mut input = FrameInput { n_bytes_max, ..FrameInput::default() };
            let refused = input.take(&mut &bytes[..HEAD_BYTES], &mut Pool::default());
            assert!(matches!(refused, Err(Error::FrameTooLong { .. })), "{refused:?}");
        }
    }
}
