//! Which connections have something to do: the epoll set of one worker.
//!
//! A connection stays with its worker: what it needs is in the caches there, and its requests are
//! served in order. `rustix` has the system calls that are needed, without `unsafe`, and is a
//! dependency anyway.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

/// The identity of a source.
pub(super) type Token = u64;

/// Reported when the worker is woken.
pub(super) const WOKEN: Token = u64::MAX;

/// A source that is ready, and for which operations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) token: Token,
    /// It can be read, or is over: reading tells.
    pub(super) to_read: bool,
    pub(super) to_write: bool,
}

impl From<Event> for Ready {
    fn from(Event { flags, data }: Event) -> Self {
        let is_over = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        Self {
            token: data.u64(),
            to_read: is_over || flags.contains(EventFlags::IN),
            to_write: flags.contains(EventFlags::OUT),
        }
    }
}

#[derive(Debug)]
pub(super) struct Poller {
    epoll: OwnedFd,
    woken: OwnedFd,
    /// Whether its worker waits for something to do.
    is_idle: AtomicBool,
    is_closed: AtomicBool,
}

/// Sources that are reported at once.
const EVENTS_MAX: usize = 16;

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let woken = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &woken, EventData::new_u64(WOKEN), EventFlags::IN)?;
        let (is_idle, is_closed) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { epoll, woken, is_idle, is_closed })
    }

    /// A new source, which is reported as long as it can be read.
    pub(super) fn add(&self, source: impl AsFd, token: Token) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), EventFlags::IN)?)
    }

    /// Whether a source is also reported when it can be written.
    pub(super) fn set_writes(&self, source: impl AsFd, token: Token, writes: bool) {
        let write = if writes { EventFlags::OUT } else { EventFlags::empty() };
        self.modify(source, token, EventFlags::IN | write);
    }

    /// Reports a source once, when it can be read.
    pub(super) fn arm(&self, source: impl AsFd, token: Token) {
        self.modify(source, token, EventFlags::IN | EventFlags::ONESHOT);
    }

    fn modify(&self, source: impl AsFd, token: Token, flags: EventFlags) {
        // It fails for a source that its worker has just removed.
        let _ = epoll::modify(&self.epoll, source, EventData::new_u64(token), flags);
    }

    pub(super) fn remove(&self, source: impl AsFd) {
        // A source that is not there any more is what we want.
        let _ = epoll::delete(&self.epoll, source);
    }

    /// Waits for sources, unless there is something else to do, and puts into `events` what can be done with
    /// them.
    pub(super) fn wait(&self, events: &mut Vec<Event>, is_busy: bool) -> io::Result<()> {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let limit = is_busy.then_some(&AT_ONCE);
        events.clear();
        events.reserve(EVENTS_MAX);
        self.is_idle.store(!is_busy, Ordering::Relaxed);
        let waited = loop {
            match epoll::wait(&self.epoll, spare_capacity(events), limit) {
                Err(Errno::INTR) => {}
                waited => break waited,
            }
        };
        self.is_idle.store(false, Ordering::Relaxed);
        Ok(waited.map(drop)?)
    }

    /// Wakes the worker if it waits; whether it did.
    pub(super) fn wake_idle(&self) -> bool {
        let is_idle = self.is_idle.swap(false, Ordering::Relaxed);
        if is_idle {
            self.wake();
        }
        is_idle
    }

    /// Notes that the worker is awake; whether it is to go on.
    pub(super) fn wake_up(&self) -> bool {
        // Nothing to read means that it was read before.
        let _ = rustix::io::read(&self.woken, &mut [0; 8]);
        !self.is_closed.load(Ordering::Acquire)
    }

    /// Sends the worker home.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // It fails when it was written very often, which is as good.
        let _ = rustix::io::write(&self.woken, &1u64.to_ne_bytes());
    }
}
