//! Memory that processes of one machine share, so that long tensors are written once and read where
//! they are.
//!
//! A process has one [`SharedMemory`]. The two ends of a connection offer it to each other
//! ([`Sharing`]); a [`Lender`] says where the other end finds a tensor, a [`Window`] is what the other
//! end lends to us. Nothing here knows messages or sockets.

mod lender;
mod memory;
mod region;
mod sharing;

pub(crate) use lender::RegionPlace;
pub use lender::{COPIED_BYTES, Lender};
pub use memory::SharedMemory;
pub use region::Window;
pub use sharing::{Offer, Sharing};
