//! The order in which a thread takes the locks of a trainer.

use std::cell::Cell;
use std::thread::LocalKey;

/// The locks of a trainer, in the order in which a thread takes them; see [`base::LockRank`].
///
/// Not listed are locks that are taken last and given back at once: the turn of an event, and what the sender in the
/// background counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Rank {
    /// The script's events: held while the state for a cut is put together.
    Timeline,
    /// The memory of an exchange between steps: held during an exchange of differences.
    Exchange,
    /// Messages under way to and from servers: held while messages are sent and answers are awaited.
    Traffic,
    /// Held while servers are joined.
    Joining,
    /// Where servers went.
    Moves,
    /// The connections that there are.
    Links,
    /// The trainers of a job without servers.
    Group,
    /// Cuts that this trainer took part in.
    Cuts,
    /// How far passes are.
    Passes,
    /// The process's description of itself.
    Settings,
}

pub(super) type Ordered<T> = base::OrderedLock<Rank, T>;
pub(super) type OrderedGuard<'a, T> = base::OrderedLockGuard<'a, Rank, T>;

thread_local! {
    static HELD: Cell<u16> = const { Cell::new(0) };
}

impl base::LockRank for Rank {
    fn place(self) -> u8 {
        self as u8
    }

    fn held() -> &'static LocalKey<Cell<u16>> {
        &HELD
    }
}
