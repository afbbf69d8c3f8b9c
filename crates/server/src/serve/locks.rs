//! The order in which a thread takes the locks of a server's cuts.

use std::cell::Cell;
use std::thread::LocalKey;

/// The locks of [`super::cuts::CutStore`], in the order in which a thread takes them; see [`base::LockRank`].
///
/// The locks of tables and of the schedule are not listed: they are taken with the first two held or with none, never with
/// the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum CutRank {
    /// Held while a cut is written or loaded.
    Turn,
    /// The cut that is marked: held while all tables are.
    Marked,
    /// The files that there are: held while few of them are written, read or removed.
    Folder,
    /// The rest: held for moments, and nothing else happens meanwhile.
    Progress,
}

pub(super) type CutLock<T> = base::OrderedLock<CutRank, T>;
pub(super) type CutGuard<'a, T> = base::OrderedLockGuard<'a, CutRank, T>;

thread_local! {
    static HELD: Cell<u16> = const { Cell::new(0) };
}

impl base::LockRank for CutRank {
    fn place(self) -> u8 {
        self as u8
    }

    fn held() -> &'static LocalKey<Cell<u16>> {
        &HELD
    }
}
