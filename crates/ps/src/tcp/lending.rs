//! What the two ends of a connection lend each other, when both are on one machine.
//!
//! Each offers a region, opens the other's, and says so; who knows its own to be opened puts long
//! tensors there. Where that does not work (another user, another container) tensors go through the
//! socket, as they do between machines.

use std::sync::Arc;

use super::Stream;
use crate::message::Lend;
use crate::region::{Region, Window};

/// One end's part.
#[derive(Debug, Default)]
pub(super) struct Lending {
    own: Option<Region>,
    is_opened: bool,
}

impl Lending {
    /// The region that the peer reads, once it does.
    pub(super) fn region(&self) -> Option<&Region> {
        self.own.as_ref().filter(|_| self.is_opened)
    }

    /// Offers a region to a peer of this machine; nothing to others, and nothing twice.
    pub(super) fn offer(&mut self, stream: &Stream) -> Option<Lend> {
        if self.own.is_some() || !is_near(stream) {
            return None;
        }
        // A system without such files: everything works through the socket.
        let region = Region::new().ok()?;
        let (id, descriptor) = (region.id(), region.descriptor());
        self.own = Some(region);
        Some(Lend { id, process: std::process::id(), descriptor, opened: 0 })
    }

    /// The peer spoke: notes what it opened, and opens what it lends.
    pub(super) fn heard(&mut self, stream: &Stream, lend: &Lend) -> Option<Arc<Window>> {
        let is_own = self.own.as_ref().is_some_and(|own| own.id() == lend.opened);
        self.is_opened |= is_own && lend.opened != 0;
        if lend.id == 0 || !is_near(stream) {
            return None;
        }
        Window::open(lend.process, lend.descriptor, lend.id).ok()
    }
}

fn is_near(stream: &Stream) -> bool {
    matches!(stream, Stream::Unix(_))
}
