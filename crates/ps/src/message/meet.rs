//! `meet`: wait until every trainer is here, exchanging a few bytes.

use super::Body;
use crate::codec::{Blobs, LIST_MAX, Reader, Writer};
use crate::error::{Error, Result};

/// Answered by [`Met`] when every trainer has said the same `(place, turn)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meet {
    /// The purpose.
    pub place: String,
    /// How many meetings for this purpose the trainer has had before.
    pub turn: u64,
    /// The bytes it brings.
    pub bytes: Vec<u8>,
}

impl Body for Meet {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.str(&self.place);
        out.u64(self.turn);
        out.bytes(&self.bytes);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { place: input.str()?, turn: input.u64()?, bytes: input.bytes()? })
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        blobs.push(&mut self.bytes);
    }
}

/// What all trainers brought, in the order of their ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met(pub Vec<Vec<u8>>);

impl Body for Met {
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
        survives(Meet { place: "barrier_worker".to_string(), turn: 2, bytes: vec![1, 2] });
        answer_survives(Met(vec![vec![1], Vec::new(), vec![3, 4]]));
    }
}
