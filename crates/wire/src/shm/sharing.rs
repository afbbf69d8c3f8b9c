//! Memory that the two ends of a connection lend each other, when both are on one machine.
//!
//! Each offers its region, opens the other's, and says so. An end that knows its own region to be
//! opened puts long tensors there. Where that does not work (another user, another container) tensors
//! go through the socket, as they do between machines.

use std::sync::Arc;

use super::SharedMemory;
use super::lender::Lender;
use super::region::{Account, Window};

/// Memory of a process that a peer may open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The id of the region; 0 if none is lent.
    pub id: u64,
    /// The lender's process.
    pub process: u32,
    /// The number of the region's file there.
    pub descriptor: u64,
    /// The number of the file in which the receiver counts what it has read.
    pub account: u64,
}

/// One end of a connection.
#[derive(Debug, Default)]
pub struct Sharing {
    memory: SharedMemory,
    /// Whether the peer is a process of this machine.
    is_local: bool,
    account: Option<Arc<Account>>,
    lender: Option<Lender>,
}

impl Sharing {
    /// An end that lends this memory.
    pub fn new(memory: SharedMemory) -> Self {
        Self { memory, ..Self::default() }
    }

    /// A connection begins. The peer may still read slots of the last one: the account stays.
    pub fn connected(&mut self, is_local: bool) {
        self.is_local = is_local;
        self.lender = None;
    }

    /// Where tensors for the peer go, once it reads there.
    pub fn lender(&self) -> Option<&Lender> {
        self.lender.as_ref()
    }

    /// Offers memory to a peer of this machine; nothing to others.
    pub fn offer(&mut self) -> Option<Offer> {
        // A system without such files: everything works through the socket.
        let region = self.memory.region().filter(|_| self.is_local)?;
        if self.account.is_none() {
            self.account = region.account().ok();
        }
        let account = self.account.as_ref()?.descriptor();
        let (id, descriptor) = (region.id(), region.descriptor());
        Some(Offer { id, process: std::process::id(), descriptor, account })
    }

    /// The peer says which region of ours it has opened.
    pub fn opened(&mut self, id: u64) {
        let account = self.account.as_ref().filter(|own| own.region() == id);
        if let (Some(account), Some(region)) = (account, self.memory.region()) {
            self.lender = Some(Lender { region: region.clone(), account: account.clone() });
        }
    }

    /// Opens what the peer offers, if it can be opened.
    pub fn open(&self, offer: &Offer) -> Option<Arc<Window>> {
        if self.is_local && offer.id != 0 { Window::open(offer).ok() } else { None }
    }
}
