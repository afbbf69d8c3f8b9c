//! `notice`: what a server tells its trainers of cuts, unasked.

use super::Body;
use crate::codec::{Reader, Writer};
use crate::error::Result;

/// A cut that trainers should take part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextCut {
    /// Its number.
    pub cut: u64,
    /// When: at the boundary after this round of the trainer's own; 0: at the next boundary.
    pub after: u64,
}

/// A server's news about cuts: sent when something changes, and with every [`super::Pong`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// The next cut, from the lead server.
    pub next_cut: Option<NextCut>,
    /// Cuts that are durable here, ascending.
    pub kept: Vec<u64>,
    /// How often this server has wanted a cut, if it is not the one that leads: a trainer that hears of
    /// it tells the one that does.
    pub cut_requests: u64,
}

impl Body for Notice {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u8(self.next_cut.is_some().into());
        if let Some(NextCut { cut, after }) = self.next_cut {
            out.u64(cut);
            out.u64(after);
        }
        out.numbers(&self.kept);
        out.u64(self.cut_requests);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let next_cut = if input.flag()? {
            Some(NextCut { cut: input.u64()?, after: input.u64()? })
        } else {
            None
        };
        Ok(Self { next_cut, kept: input.numbers()?, cut_requests: input.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::answer_survives;

    #[test]
    fn survives_the_wire() {
        answer_survives(Notice::default());
        let next_cut = Some(NextCut { cut: 3, after: 70 });
        answer_survives(Notice { next_cut, kept: vec![1, 2], cut_requests: 5 });
    }
}
