//! Messages between trainers and servers: one file per message, one line here.
//!
//! A trainer's changes (push, barrier, complete, leave, cut) are numbered and served once, in order; its questions
//! (pull, look up, all-gather, all-to-all, ping, …) have ids of their own and may be asked again.

mod all_gather;
mod all_to_all;
mod barrier;
mod cut;
mod hello;
mod leave;
mod lend;
mod look_up;
mod notice;
mod ping;
mod pull;
mod push;
mod refused;
mod save;
mod stats;

pub use all_gather::{AllGather, AllGatherResult};
pub use all_to_all::{ALL_TO_ALL_BYTES_MAX, AllToAll, AllToAllResult};
pub use barrier::Barrier;
pub use cut::{
    CancelCut, Cut, Given, PIECE_BYTES, Ready, Recall, Recalled, Recollection, StartCut, WantCut,
};
pub use hello::{Hello, VERSION, VarInfo, Welcome};
pub use leave::{Complete, Leave};
pub use lend::Lend;
pub use look_up::LookUp;
pub use notice::{NextCut, Notice};
pub use ping::MISSING_MAX;
pub use ping::{Ping, Pong};
pub use pull::{CHANGED_MAX, Pull, Values};
pub use push::{Grad, Push};
pub use save::{Phase, Save};
pub use stats::{AskStats, Stats};

use tensor::Tensor;

use crate::codec::{Blobs, Reader, Writer, tensor_blob};
use crate::error::{Error, Result};
use crate::refusal::Refusal;

/// A message body: its bytes.
pub trait Body: Sized {
    /// Whether it changes something on a server, and so is numbered and served exactly once.
    const IS_CHANGE: bool = false;

    /// Appends the body.
    fn encode<'a>(&'a self, out: &mut Writer<'a>);
    /// Makes it again from its meta bytes.
    fn decode(input: &mut Reader<'_>) -> Result<Self>;
    /// Lists the memory that its blobs are read to, in the order in which `encode` lists them.
    fn blobs<'a>(&'a mut self, _blobs: &mut Blobs<'a>) {}
}

macro_rules! messages {
    ($(#[$doc:meta])* $name:ident { $($(#[$kind_doc:meta])* $kind:literal $variant:ident($body:ty),)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($(#[$kind_doc])* $variant($body),)*
        }

        impl $name {
            /// The number of its kind.
            pub fn kind(&self) -> u16 {
                match self {
                    $($name::$variant(_) => $kind,)*
                }
            }

            /// A word for logs.
            pub fn name(&self) -> &'static str {
                match self {
                    $($name::$variant(_) => stringify!($variant),)*
                }
            }

            /// Whether it changes something on a server, and so is numbered and served exactly once.
            pub fn is_change(&self) -> bool {
                match self {
                    $($name::$variant(_) => <$body as Body>::IS_CHANGE,)*
                }
            }

            /// Appends the body.
            pub fn encode<'a>(&'a self, out: &mut Writer<'a>) {
                match self {
                    $($name::$variant(body) => Body::encode(body, out),)*
                }
            }

            /// Makes a message of this kind from its meta bytes.
            pub fn decode(kind: u16, mut input: Reader<'_>) -> Result<Self> {
                let message = match kind {
                    $($kind => $name::$variant(<$body as Body>::decode(&mut input)?),)*
                    _ => return Err(Error::Malformed("a message of an unknown kind")),
                };
                input.finish()?;
                Ok(message)
            }

            /// Lists the memory that its blobs are read to.
            pub fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
                match self {
                    $($name::$variant(body) => Body::blobs(body, blobs),)*
                }
            }
        }

        $(impl From<$body> for $name {
            fn from(body: $body) -> Self {
                $name::$variant(body)
            }
        })*
    };
}

messages! {
    /// A message of a trainer.
    Request {
        /// The first message of a connection.
        1 Hello(Hello),
        /// Gradients.
        2 Push(Push),
        /// End of a trainer's part of a round.
        3 Barrier(Barrier),
        /// End of a trainer's job.
        4 Complete(Complete),
        /// A process ends in order without ending its job.
        5 Leave(Leave),
        /// Parameters, please.
        6 Pull(Pull),
        /// Rows of a table, please.
        7 LookUp(LookUp),
        /// Wait for all trainers, exchanging a few bytes.
        8 AllGather(AllGather),
        /// Write your part of a table to disk.
        9 Save(Save),
        /// Still there.
        10 Ping(Ping),
        /// How are you?
        11 AskStats(AskStats),
        /// A part for every trainer.
        12 AllToAll(AllToAll),
        /// Memory that you may read.
        13 Lend(Lend),
        /// At a boundary, with everything served.
        14 Ready(Ready),
        /// A trainer's part of a cut.
        15 Cut(Cut),
        /// A cut, soon, please.
        16 WantCut(WantCut),
        /// Asks for this trainer's contribution to a cut.
        17 Recall(Recall),
    }
}

messages! {
    /// The answer of a server.
    Reply {
        /// Greeting accepted.
        129 Welcome(Welcome),
        /// Every change up to the frame's id has been served.
        130 Ack(Ack),
        /// Parameters.
        131 Values(Values),
        /// Rows.
        132 Rows(Tensor),
        /// All trainers are here.
        133 AllGatherResult(AllGatherResult),
        /// Done as asked.
        134 Done(Done),
        /// Still there, too.
        135 Pong(Pong),
        /// Counters.
        136 Stats(Stats),
        /// No.
        137 Refused(Refusal),
        /// The parts that all trainers brought for this one.
        138 AllToAllResult(AllToAllResult),
        /// Memory that you may read.
        139 Lent(Lend),
        /// News about cuts.
        140 Notice(Notice),
        /// The cut is now.
        141 StartCut(StartCut),
        /// No cut.
        142 CancelCut(CancelCut),
        /// A trainer's contribution to a cut.
        143 Recalled(Recalled),
    }
}

impl Request {
    /// Bytes of its memory, more or less. They are counted without making the message.
    pub fn n_bytes(&self) -> u64 {
        let mut out = Writer::counting();
        self.encode(&mut out);
        out.n_bytes() as u64
    }
}

/// Every change up to the frame's id was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack;

/// The request was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done;

/// A body without contents; `change` before it if it is one.
macro_rules! empty {
    (change $($body:ident),*) => { empty! { @ true $($body),* } };
    (@ $is_change:literal $($body:ident),*) => {$(
        impl $crate::message::Body for $body {
            const IS_CHANGE: bool = $is_change;

            fn encode<'a>(&'a self, _out: &mut $crate::codec::Writer<'a>) {}

            fn decode(_input: &mut $crate::codec::Reader<'_>) -> $crate::error::Result<Self> {
                Ok($body)
            }
        }
    )*};
    ($($body:ident),*) => { empty! { @ false $($body),* } };
}
use empty;

empty!(Ack, Done);

impl Body for Tensor {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.tensor(self);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        input.tensor()
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        tensor_blob(self, blobs);
    }
}

#[cfg(test)]
pub(crate) mod check;
