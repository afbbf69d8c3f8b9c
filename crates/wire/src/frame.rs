//! Frames: a head, then a message.
//!
//! ```text
//! magic u32 | kind u16 | 0 u16 | meta bytes u32 | blob bytes u32 | id u64 | meta | blobs
//! ```
//! The head is checked before anything is allocated: a peer that speaks something else, or claims
//! too much, costs its connection.

use std::io::{IoSlice, Read, Write};

use base::bytes::ByteWriter;
use tensor::Pool;

use crate::codec::{Blobs, Destination, Reader, Writer};
use crate::error::{Error, Result};
use crate::message::{Reply, Request};
use crate::shm::Lender;

/// The longest frame. A peer that sends a longer one is broken or hostile. Larger variables are
/// sent in parts.
pub const FRAME_BYTES_MAX: u64 = 1 << 30;
/// The longest frame before a peer has sent its greeting. A greeting names every variable of a
/// server. Its memory grows as its bytes arrive.
pub const HELLO_BYTES_MAX: u64 = 8 << 20;

const MAGIC: u32 = u32::from_le_bytes(*b"PWL1");
/// Bytes of the head.
pub const HEAD_BYTES: usize = 24;

/// A message with its number.
#[derive(Debug)]
pub struct Frame<'a, M> {
    /// Number of a change or a question; answers repeat it.
    pub id: u64,
    /// The message.
    pub body: &'a M,
}

/// A message that a frame can carry.
pub trait Message: Sized {
    /// The number of its kind.
    fn kind(&self) -> u16;
    /// Appends the body.
    fn encode<'a>(&'a self, out: &mut Writer<'a>);
    /// Makes a message of this kind from its meta bytes.
    fn decode(kind: u16, input: Reader<'_>) -> Result<Self>;
    /// Lists the memory that its blobs are read to.
    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>);
}

impl Message for Request {
    fn kind(&self) -> u16 {
        Request::kind(self)
    }

    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        Request::encode(self, out);
    }

    fn decode(kind: u16, input: Reader<'_>) -> Result<Self> {
        Request::decode(kind, input)
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        Request::blobs(self, blobs);
    }
}

impl Message for Reply {
    fn kind(&self) -> u16 {
        Reply::kind(self)
    }

    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        Reply::encode(self, out);
    }

    fn decode(kind: u16, input: Reader<'_>) -> Result<Self> {
        Reply::decode(kind, input)
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        Reply::blobs(self, blobs);
    }
}

/// Writes a frame from where its tensors are.
pub fn write<M: Message>(out: &mut impl Write, frame: &Frame<'_, M>) -> std::io::Result<()> {
    write_all(out, std::slice::from_ref(frame), None)
}

/// Writes frames at once; long tensors go to memory that the receiver can read.
pub fn write_all<M: Message>(
    out: &mut impl Write,
    frames: &[Frame<'_, M>],
    lender: Option<&Lender>,
) -> std::io::Result<()> {
    let bodies: std::io::Result<Vec<Writer<'_>>> =
        frames.iter().map(|frame| encode(Vec::with_capacity(256), frame, lender)).collect();
    let bodies = bodies?;
    let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(bodies.len() * 4);
    for body in &bodies {
        slices.push(IoSlice::new(&body.meta.0));
        let blobs = body.blobs.iter().filter(|blob| !blob.is_empty());
        slices.extend(blobs.map(|blob| IoSlice::new(blob)));
    }
    write_slices(out, &mut slices)
}

/// A frame with its head in front of the meta bytes, and what `before` holds in front of both.
pub fn encode<'a, M: Message>(
    before: Vec<u8>,
    frame: &Frame<'a, M>,
    lender: Option<&'a Lender>,
) -> std::io::Result<Writer<'a>> {
    let start = before.len();
    let mut body = Writer { meta: ByteWriter(before), lender, ..Writer::default() };
    body.meta.0.resize(start + HEAD_BYTES, 0);
    frame.body.encode(&mut body);
    let n_meta = body.meta.0.len() - start - HEAD_BYTES;
    let n_blob = body.n_bytes() - body.meta.0.len();
    let (Ok(n_meta), Ok(n_blob)) = (u32::try_from(n_meta), u32::try_from(n_blob)) else {
        return Err(std::io::Error::other("a message of more than 4 GiB"));
    };
    let head = &mut body.meta.0[start..][..HEAD_BYTES];
    head[..4].copy_from_slice(&MAGIC.to_le_bytes());
    head[4..6].copy_from_slice(&frame.body.kind().to_le_bytes());
    head[8..12].copy_from_slice(&n_meta.to_le_bytes());
    head[12..16].copy_from_slice(&n_blob.to_le_bytes());
    head[16..24].copy_from_slice(&frame.id.to_le_bytes());
    Ok(body)
}

/// The most slices one system call takes.
const SLICES_MAX: usize = 512;

fn write_slices(out: &mut impl Write, slices: &mut [IoSlice<'_>]) -> std::io::Result<()> {
    let mut left = slices;
    while !left.is_empty() {
        let n_now = left.len().min(SLICES_MAX);
        match out.write_vectored(&left[..n_now]) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut left, n),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A frame as bytes.
pub fn to_bytes<M: Message>(frame: &Frame<'_, M>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, frame).expect("writing to memory");
    bytes
}

/// Reads a frame of at most `n_bytes_max` bytes.
pub fn read<M: Message>(input: &mut impl Read, n_bytes_max: u64) -> Result<(u64, M)> {
    read_into(input, n_bytes_max, Destination::new(&mut Pool::default()))
}

/// Reads a frame, with its tensors put into this memory.
pub fn read_into<M: Message>(
    input: &mut impl Read,
    n_bytes_max: u64,
    into: Destination<'_>,
) -> Result<(u64, M)> {
    let mut head = [0; HEAD_BYTES];
    input.read_exact(&mut head).map_err(Error::Socket)?;
    let head = Head::decode(&head, n_bytes_max)?;
    let mut meta = vec![0; head.n_meta];
    input.read_exact(&mut meta).map_err(Error::Socket)?;
    let mut body: M = head.message(&meta, into)?;
    let mut blobs = Blobs::new();
    body.blobs(&mut blobs);
    for blob in blobs {
        input.read_exact(blob).map_err(Error::Socket)?;
    }
    Ok((head.id, body))
}

/// The first bytes of a frame, which describe the rest.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    kind: u16,
    /// Bytes of meta that follow.
    pub n_meta: usize,
    n_blob: usize,
    /// Number of the message.
    pub id: u64,
}

impl Head {
    /// The message of this frame, with memory for its blobs.
    pub fn message<M: Message>(&self, meta: &[u8], into: Destination<'_>) -> Result<M> {
        M::decode(self.kind, Reader::new(meta, self.n_blob, into))
    }

    /// Reads a head; an error if the peer speaks something else or claims too much.
    pub fn decode(head: &[u8; HEAD_BYTES], n_bytes_max: u64) -> Result<Self> {
        let u32_at =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if u32_at(0) != MAGIC {
            return Err(Error::Malformed(
                "the first bytes are not ours (an HTTP client, another service?)",
            ));
        }
        let (n_meta, n_blob) = (u32_at(8), u32_at(12));
        let n_bytes = u64::from(n_meta) + u64::from(n_blob);
        if n_bytes > n_bytes_max {
            return Err(Error::FrameTooLong { n_bytes, n_bytes_max });
        }
        let (kind, id) = (
            u16::from_le_bytes([head[4], head[5]]),
            u64::from(u32_at(16)) | u64::from(u32_at(20)) << 32,
        );
        Ok(Self { kind, n_meta: n_meta as usize, n_blob: n_blob as usize, id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Barrier, Hello};

    #[test]
    fn refuses_other_protocols() {
        let mut http = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".as_slice();
        let error = read::<Request>(&mut http, FRAME_BYTES_MAX).unwrap_err();
        assert!(matches!(error, Error::Malformed(_)), "{error}");
    }

    #[test]
    fn refuses_a_frame_that_claims_too_much() {
        let mut bytes = to_bytes(&Frame { id: 1, body: &Request::Barrier(Barrier::new(1)) });
        bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        let error = read::<Request>(&mut bytes.as_slice(), FRAME_BYTES_MAX).unwrap_err();
        let claimed = u64::from(u32::MAX) + 8;
        assert!(
            matches!(error, Error::FrameTooLong { n_bytes, .. } if n_bytes == claimed),
            "{error}"
        );
    }

    #[test]
    fn refuses_a_kind_nobody_knows() {
        let mut bytes = to_bytes(&Frame { id: 1, body: &Request::Barrier(Barrier::new(1)) });
        bytes[4] = 99;
        let error = read::<Request>(&mut bytes.as_slice(), FRAME_BYTES_MAX).unwrap_err();
        assert!(matches!(error, Error::Malformed(_)), "{error}");
    }

    #[test]
    fn a_name_beyond_the_limit_is_cut_off() {
        let job = "ü".repeat(2000);
        let hello = Hello::new(job, 0, 0, Vec::new());
        let bytes = to_bytes(&Frame { id: 1, body: &Request::Hello(hello) });
        let (_, back) = read::<Request>(&mut bytes.as_slice(), FRAME_BYTES_MAX).unwrap();
        assert!(matches!(back, Request::Hello(hello) if hello.job.len() == 1024));
    }
}
