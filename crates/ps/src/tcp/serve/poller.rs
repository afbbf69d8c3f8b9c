//! Which connections have something to do: an epoll set that all workers wait on.
//!
//! A source is reported once and then rests until it is armed again, so one worker at a time has it.
//! `rustix` has the three system calls that are needed, without `unsafe`, and is a dependency anyway.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// What a source is told apart by.
pub(super) type Token = u64;

/// Reported to every worker, for good, once the set is closed.
pub(super) const CLOSED: Token = u64::MAX;

/// What can be done with a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) token: Token,
    /// It can be read, or is over: reading tells.
    pub(super) to_read: bool,
    pub(super) to_write: bool,
}

#[derive(Debug)]
pub(super) struct Poller {
    epoll: OwnedFd,
    closed: OwnedFd,
}

fn flags(writes: bool) -> EventFlags {
    let write = if writes { EventFlags::OUT } else { EventFlags::empty() };
    EventFlags::IN | EventFlags::ONESHOT | write
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let closed = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &closed, EventData::new_u64(CLOSED), EventFlags::IN)?;
        Ok(Self { epoll, closed })
    }

    /// A new source, which is reported when it can be read.
    pub(super) fn add(&self, source: impl AsFd, token: Token) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), flags(false))?)
    }

    /// Reports a source once more, when it can be read or, if `writes`, written.
    pub(super) fn arm(&self, source: impl AsFd, token: Token, writes: bool) {
        // It fails for a source that another worker has just removed.
        let _ = epoll::modify(&self.epoll, source, EventData::new_u64(token), flags(writes));
    }

    pub(super) fn remove(&self, source: impl AsFd) {
        // A source that is not there any more is what we want.
        let _ = epoll::delete(&self.epoll, source);
    }

    /// Waits for a source. One at a time: what one worker takes no other can serve meanwhile.
    /// `events` has place for one.
    pub(super) fn wait(&self, events: &mut Vec<Event>) -> io::Result<Ready> {
        loop {
            match epoll::wait(&self.epoll, spare_capacity(events), None) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => {
                    if let Some(Event { flags, data }) = events.pop() {
                        let is_over = flags.intersects(EventFlags::HUP | EventFlags::ERR);
                        return Ok(Ready {
                            token: data.u64(),
                            to_read: is_over || flags.contains(EventFlags::IN),
                            to_write: flags.contains(EventFlags::OUT),
                        });
                    }
                }
            }
        }
    }

    /// Sends all workers home.
    pub(super) fn close(&self) {
        // It fails when it was written very often, which is as good.
        let _ = rustix::io::write(&self.closed, &1u64.to_ne_bytes());
    }
}
