//! `all_gather`: wait until every trainer is here, exchanging a few bytes.

use super::Body;
use crate::codec::{Blobs, LIST_MAX, Reader, Writer};
use crate::error::{Error, Result};

/// Answered by [`AllGatherResult`] when every trainer has said the same `(purpose, turn)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllGather {
    /// The purpose.
    pub purpose: String,
    /// How many all-gathers this trainer has made before.
    pub turn: u64,
    /// The bytes it brings.
    pub bytes: Vec<u8>,
}

impl Body for AllGather {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.str(&self.purpose);
        out.u64(self.turn);
        out.bytes(&self.bytes);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { purpose: input.str()?, turn: input.u64()?, bytes: input.bytes()? })
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        blobs.push(&mut self.bytes);
    }
}

/// The contributions of all trainers, in the order of their ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllGatherResult(pub Vec<Vec<u8>>);

impl Body for AllGatherResult {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.count(self.0.len());
        for bytes in &self.0 {
            out.bytes(bytes);
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let n = input.count()?;
        if n > LIST_MAX {
            return Err(Error::Malformed("a list is too long"));
        }
        let all: Result<Vec<_>> = (0..n).map(|_| input.bytes()).collect();
        all.map(Self)
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        blobs.extend(self.0.iter_mut().map(Vec::as_mut_slice));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::{answer_survives, survives};

    #[test]
    fn survives_the_wire() {
        survives(AllGather { purpose: "barrier_worker".to_string(), turn: 2, bytes: vec![1, 2] });
        answer_survives(AllGatherResult(vec![vec![1], Vec::new(), vec![3, 4]]));
    }
}
