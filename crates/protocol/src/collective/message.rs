//! Messages between trainers.

use std::ops::Range;
use std::sync::Arc;

use tensor::{Tensor, Value};
use wire::budget::THING_BYTES;
use wire::codec::{Blobs, Reader, Writer, value_blobs};
use wire::frame::Message;
use wire::message::{Body, Lend};
use wire::{Error, Failure, Result};

use super::failure_bytes;

/// A message from one trainer to another.
#[derive(Clone, Debug)]
pub enum PeerMessage {
    /// The first message in both directions.
    Hello(PeerHello),
    /// The sender is connected to all trainers. Parts come only after everybody has said this.
    Ready,
    /// A part of an exchange.
    Part(Part),
    /// A sign of life.
    Ping,
    /// The sender cannot go on, and neither can the receiver.
    Failed(Failure),
    /// The sender has ended in order, and says nothing more.
    Bye,
    /// Memory of the sender that the receiver may read, or memory of the receiver that the sender has opened.
    Lend(Lend),
}

/// The sender, and its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerHello {
    /// The sender.
    pub rank: u32,
    /// The facts that all trainers of a job must agree on, in words.
    pub job: String,
}

/// A part of an exchange.
#[derive(Clone, Debug)]
pub struct Part {
    /// The number of the exchange.
    pub exchange: u64,
    /// The exchange in words: both sides must have the same.
    pub words: Arc<str>,
    /// Its contents.
    pub kind: PartKind,
    /// The number of its chunk.
    pub chunk: u32,
    /// The numbers.
    pub payload: Payload,
}

impl Part {
    /// Bytes that it takes here; what is in memory of its sender takes none.
    pub(super) fn n_bytes(&self) -> u64 {
        let n_bytes = match &self.payload {
            Payload::Value(value) if !self.payload.is_lent() => match value.rows() {
                Some(rows) => rows.value.bytes().len() + rows.ids.len() * 8,
                None => value.tensor().map_or(0, |tensor| tensor.bytes().len()),
            },
            _ => 0,
        };
        n_bytes as u64 + THING_BYTES
    }
}

/// The contents of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// The sender's own numbers, to be added up.
    Share,
    /// The reduced numbers of all trainers.
    Result,
}

/// Numbers of a part.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Some elements of a tensor, sent from where they are.
    Slice {
        /// All of it.
        whole: Arc<Value>,
        /// Which.
        elements: Range<usize>,
    },
    /// A value by itself.
    Value(Arc<Value>),
}

impl Payload {
    /// Whether the numbers are in memory of their sender.
    pub(super) fn is_lent(&self) -> bool {
        let Payload::Value(value) = self else { return false };
        value.tensor().is_some_and(|tensor| tensor.lender().is_some())
    }

    /// The tensor and the elements in it, if it is one.
    pub(super) fn elements(&self) -> Option<(&Tensor, Range<usize>)> {
        match self {
            Payload::Slice { whole, elements } => Some((whole.tensor()?, elements.clone())),
            Payload::Value(value) => value.tensor().map(|tensor| (tensor, 0..tensor.len())),
        }
    }

    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        match self {
            Payload::Value(value) => out.value(value),
            Payload::Slice { whole, elements } => match whole.tensor() {
                Some(tensor) => {
                    out.u8(1);
                    out.elements(tensor, elements.clone());
                }
                None => out.u8(0),
            },
        }
    }
}

impl Message for PeerMessage {
    fn kind(&self) -> u16 {
        match self {
            PeerMessage::Hello(_) => 200,
            PeerMessage::Part(_) => 201,
            PeerMessage::Ping => 202,
            PeerMessage::Failed(_) => 203,
            PeerMessage::Bye => 204,
            PeerMessage::Ready => 205,
            PeerMessage::Lend(_) => 206,
        }
    }

    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        match self {
            PeerMessage::Hello(PeerHello { rank, job }) => {
                out.u32(*rank);
                out.str(job);
            }
            PeerMessage::Part(part) => {
                out.u64(part.exchange);
                out.str(&part.words);
                out.u8(u8::from(part.kind == PartKind::Result));
                out.u32(part.chunk);
                part.payload.encode(out);
            }
            PeerMessage::Failed(failure) => failure_bytes::encode(failure, out),
            PeerMessage::Lend(lend) => lend.encode(out),
            PeerMessage::Ready | PeerMessage::Ping | PeerMessage::Bye => {}
        }
    }

    fn decode(kind: u16, mut input: Reader<'_>) -> Result<Self> {
        let message = match kind {
            200 => PeerMessage::Hello(PeerHello { rank: input.u32()?, job: input.str()? }),
            201 => PeerMessage::Part(Part {
                exchange: input.u64()?,
                words: input.str()?.into(),
                kind: if input.flag()? { PartKind::Result } else { PartKind::Share },
                chunk: input.u32()?,
                payload: Payload::Value(Arc::new(input.value()?)),
            }),
            202 => PeerMessage::Ping,
            203 => PeerMessage::Failed(failure_bytes::decode(&mut input)?),
            204 => PeerMessage::Bye,
            205 => PeerMessage::Ready,
            206 => PeerMessage::Lend(Lend::decode(&mut input)?),
            _ => return Err(Error::Malformed("trainers do not say this to each other")),
        };
        input.finish()?;
        Ok(message)
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        if let PeerMessage::Part(Part { payload: Payload::Value(value), .. }) = self
            && let Some(value) = Arc::get_mut(value)
        {
            value_blobs(value, blobs);
        }
    }
}

#[cfg(test)]
mod tests {
    use tensor::Rows;

    use super::*;
    use wire::frame::{self, FRAME_BYTES_MAX, Frame};

    fn there_and_back(message: &PeerMessage) -> PeerMessage {
        let bytes = frame::to_bytes(&Frame { id: 0, body: message });
        frame::read(&mut bytes.as_slice(), FRAME_BYTES_MAX).unwrap().1
    }

    #[test]
    fn some_elements_arrive_as_a_tensor() {
        let whole = Tensor::new([2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let payload = Payload::Slice { whole: Arc::new(Value::Tensor(whole)), elements: 2..5 };
        let part = Part {
            exchange: 9,
            words: "sum of `g`".into(),
            kind: PartKind::Result,
            chunk: 3,
            payload,
        };
        let PeerMessage::Part(back) = there_and_back(&PeerMessage::Part(part)) else { panic!() };
        assert_eq!((back.exchange, &*back.words, back.chunk), (9, "sum of `g`", 3));
        assert_eq!(back.kind, PartKind::Result);
        let Payload::Value(value) = back.payload else { panic!() };
        assert_eq!(*value, Value::Tensor(Tensor::new([3], &[3.0f32, 4.0, 5.0]).unwrap()));
    }

    #[test]
    fn rows_and_words_arrive() {
        let rows = Rows { ids: vec![4, 2], height: 9, value: Tensor::full([2, 3], 0.5f32) };
        let payload = Payload::Value(Arc::new(Value::Rows(rows.clone())));
        let part = Part { exchange: 0, words: "".into(), kind: PartKind::Share, chunk: 0, payload };
        let PeerMessage::Part(back) = there_and_back(&PeerMessage::Part(part)) else { panic!() };
        let Payload::Value(value) = back.payload else { panic!() };
        assert_eq!(*value, Value::Rows(rows));
        let failures = [
            Failure::Lost { trainer: 2, endpoint: "a:1".into(), why: "x".into() },
            Failure::Left { trainer: 2, endpoint: "a:1".into(), what: "x".into() },
            Failure::Missing { waiting: 1, waited_ms: 7, what: "w".into(), missing: "m".into() },
            Failure::Differ { left: 1, left_says: "l".into(), right: 2, right_says: "r".into() },
            Failure::NotBegun { trainer: 2, endpoint: "a:1".into(), why: "x".into() },
        ];
        for failure in failures {
            let back = there_and_back(&PeerMessage::Failed(failure.clone()));
            assert!(matches!(back, PeerMessage::Failed(told) if told == failure));
        }
        let greeting = PeerHello { rank: 3, job: "2 trainers".into() };
        let back = there_and_back(&PeerMessage::Hello(greeting.clone()));
        assert!(matches!(back, PeerMessage::Hello(told) if told == greeting));
    }
}
