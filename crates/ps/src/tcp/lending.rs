//! What the two ends of a connection lend each other, when both are on one machine.
//!
//! Each offers a region, opens the other's, and says so; who knows its own to be opened puts long
//! tensors there. Where that does not work (another user, another container) tensors go through the
//! socket, as they do between machines.

use std::sync::Arc;

use super::Stream;
use crate::message::Lend;
use crate::region::{Account, Region, Window};
use crate::room::Room;

/// One end's part.
#[derive(Debug, Default)]
pub(super) struct Lending {
    room: Room,
    account: Option<Arc<Account>>,
    is_opened: bool,
}

/// Where tensors for a peer go, and what it reads of them.
#[derive(Clone, Debug)]
pub(crate) struct Lender {
    pub(crate) region: Region,
    pub(crate) account: Arc<Account>,
}

impl Lending {
    pub(super) fn new(room: Room) -> Self {
        Self { room, ..Self::default() }
    }

    /// What the peer reads, once it does.
    pub(super) fn lender(&self) -> Option<Lender> {
        let account = self.account.clone().filter(|_| self.is_opened)?;
        Some(Lender { region: self.room.region()?.clone(), account })
    }

    /// Whether the peer reads tensors where we have them.
    pub(super) fn is_open(&self) -> bool {
        self.is_opened
    }

    /// The connection broke. What the peer read it may still read: the account stays.
    pub(super) fn close(&mut self) {
        self.is_opened = false;
    }

    /// Offers memory to a peer of this machine; nothing to others.
    pub(super) fn offer(&mut self, stream: &Stream) -> Option<Lend> {
        let Stream::Unix(_) = stream else { return None };
        // A system without such files: everything works through the socket.
        let region = self.room.region()?;
        if self.account.is_none() {
            self.account = region.account().ok();
        }
        let account = self.account.as_ref()?.descriptor();
        let (id, descriptor) = (region.id(), region.descriptor());
        Some(Lend { id, process: std::process::id(), descriptor, account, opened: 0 })
    }

    /// The peer spoke: notes what it opened, and opens what it lends.
    pub(super) fn heard(&mut self, stream: &Stream, lend: &Lend) -> Option<Arc<Window>> {
        let is_ours = self.account.as_ref().is_some_and(|own| own.region() == lend.opened);
        self.is_opened |= is_ours;
        match stream {
            Stream::Unix(_) if lend.id != 0 => Window::open(lend).ok(),
            _ => None,
        }
    }
}
