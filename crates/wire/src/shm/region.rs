//! Memory of a process that others of the same machine can read, so that tensors between them are
//! written once and read where they are.
//!
//! A [`Region`] is a file without a name: its owner cuts it into slots, writes to one, and tells a
//! peer by an ordinary message which one. The peer opens the file through `/proc`, reads there and
//! counts down in its [`Account`], a second such file between the two of them, when it is done; a
//! slot is written again when no account counts on it. A peer can write to its account only, and the
//! sizes of the files are sealed, so it cannot pull pages away.
//!
//! The only module of this crate with `unsafe`: a map of shared pages is nothing that Rust knows.
//! A peer can do no harm beyond sending wrong numbers, which it can do anyway: the
//! bytes of a slot are only ever taken as numbers, of which every pattern is one. Keys and lengths
//! never lie here.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::EvenIfPoisoned;
use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use tensor::{Memory, MemoryPlace};

use super::lender::RegionPlace;
use super::sharing::Offer;

/// Bytes of a region. Untouched pages use no memory.
const REGION_BYTES: usize = 256 << 20;
/// Bytes of an account: the id, then a counter for each slot.
const ACCOUNT_BYTES: usize = 16 << 10;
/// The id is at the beginning of both files; what is counted or cut comes behind it.
const HEAD_BYTES: usize = 64;
const SLOTS_MAX: usize = 2048;
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Pages of a file that are mapped, until dropped.
#[derive(Debug)]
struct Map {
    start: NonNull<u8>,
    n_bytes: usize,
}

// SAFETY: the pages stay where they are until the map is dropped, whichever thread has it; what may
// be read or written there at the same time is decided by `Region` and `Window`, see there.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the whole of a file of `n_bytes`, whose size is sealed.
    fn new(file: &File, n_bytes: usize, prot: ProtFlags) -> io::Result<Self> {
        // SAFETY: a fresh map at an address that the system chooses touches no memory of ours.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), n_bytes, prot, MapFlags::SHARED, file, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start, n_bytes })
    }

    /// A counter of an account, which was mapped to be written.
    fn counter(&self, slot: usize) -> &AtomicU32 {
        let at = HEAD_BYTES + 4 * slot;
        assert!(slot < SLOTS_MAX && at + 4 <= self.n_bytes, "slots are numbered below the limit");
        // SAFETY: inside of the map, aligned, and accessed only through atomics.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Bytes of the map that are not written while they are borrowed.
    fn bytes(&self, offset: usize, n_bytes: usize) -> &[u8] {
        assert!(offset <= self.n_bytes && n_bytes <= self.n_bytes - offset, "inside of the map");
        // SAFETY: inside of the map, which lives as long as `self`. A lent slot is not written: its owner
        // waits for the counters. A peer that breaks this rule changes numbers that are being read, and
        // nothing but numbers is read.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), n_bytes) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and every borrower of it borrowed `self`. If
        // unmapping fails, the memory stays mapped; nothing can be done about it.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.n_bytes) };
    }
}

/// An unnamed file of a sealed size that begins with an id.
fn unnamed_file(n_bytes: usize, id: u64) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(rustix::fs::memfd_create("paddlewheel", flags)?);
    file.set_len(n_bytes as u64)?;
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    file.write_all_at(&id.to_le_bytes(), 0)?;
    Ok(file)
}

/// Opens such a file of another process; fails if it is something else.
fn open_file(process: u32, descriptor: u64, n_bytes: usize, id: u64) -> io::Result<File> {
    let path = format!("/proc/{process}/fd/{descriptor}");
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    let seals = rustix::fs::fcntl_get_seals(file.as_fd())?;
    let is_sealed = seals.contains(SEALS) && file.metadata()?.len() == n_bytes as u64;
    let mut head = [0; 8];
    if is_sealed {
        file.read_exact_at(&mut head, 0)?;
    }
    if is_sealed && u64::from_le_bytes(head) == id {
        Ok(file)
    } else {
        Err(io::Error::other("the file is not what was lent"))
    }
}

/// Memory that we lend.
#[derive(Clone, Debug)]
pub(crate) struct Region(Arc<RegionInner>);

#[derive(Debug)]
struct RegionInner {
    file: File,
    map: Map,
    id: u64,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    all: Vec<SlotState>,
    /// Bytes that are in some slot.
    n_used: usize,
    /// Peers that read, and peers that are gone and have not given everything back.
    accounts: Vec<Arc<Account>>,
}

#[derive(Debug)]
struct SlotState {
    offset: usize,
    n_bytes: usize,
    /// A [`RegionSlot`] of ours exists.
    is_held: bool,
}

/// The slots that a peer reads at the moment: a counter for each. It goes up with every message that names the slot, and down
/// when the peer is done.
#[derive(Debug)]
pub(crate) struct Account {
    region: u64,
    file: File,
    map: Map,
}

impl Account {
    /// The number of its file in this process.
    pub(crate) fn descriptor(&self) -> u64 {
        self.file.as_raw_fd() as u64
    }

    /// The region it is about.
    pub(crate) fn region(&self) -> u64 {
        self.region
    }

    /// One more message to the peer names this slot.
    pub(crate) fn lend(&self, slot: u32) {
        self.map.counter(slot as usize).fetch_add(1, Ordering::Release);
    }

    fn counts_on(&self, slot: usize) -> bool {
        self.map.counter(slot).load(Ordering::Acquire) != 0
    }
}

impl Region {
    /// A region that no other process knows.
    pub(crate) fn new() -> io::Result<Self> {
        use std::hash::{BuildHasher, RandomState};
        let id = RandomState::new().hash_one(std::process::id()).max(1);
        let file = unnamed_file(REGION_BYTES, id)?;
        let map = Map::new(&file, REGION_BYTES, ProtFlags::READ | ProtFlags::WRITE)?;
        // Slots begin on pages of their own.
        let slots = Mutex::new(Slots { n_used: 4096, ..Slots::default() });
        Ok(Self(Arc::new(RegionInner { file, map, id, slots })))
    }

    /// Its id.
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// The number of its file in this process.
    pub(crate) fn descriptor(&self) -> u64 {
        self.0.file.as_raw_fd() as u64
    }

    /// An account for a peer. It lasts until we drop it and the peer has given everything back.
    pub(crate) fn account(&self) -> io::Result<Arc<Account>> {
        let file = unnamed_file(ACCOUNT_BYTES, self.id())?;
        let map = Map::new(&file, ACCOUNT_BYTES, ProtFlags::READ | ProtFlags::WRITE)?;
        let account = Arc::new(Account { region: self.id(), file, map });
        self.slots().accounts.push(account.clone());
        Ok(account)
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.0.slots.lock().even_if_poisoned()
    }

    /// A slot of `n_bytes` or more, unless the region is full.
    pub(crate) fn take(&self, n_bytes: usize) -> Option<RegionSlot> {
        let mut slots = self.slots();
        let n_slots = slots.all.len();
        slots.accounts.retain(|account| {
            Arc::strong_count(account) > 1 || (0..n_slots).any(|slot| account.counts_on(slot))
        });
        let at = slots.smallest_free(n_bytes).or_else(|| slots.cut(n_bytes))?;
        slots.all[at].is_held = true;
        let SlotState { offset, n_bytes, .. } = slots.all[at];
        Some(RegionSlot { region: self.clone(), at, offset, n_bytes })
    }
}

impl Slots {
    /// Whether no peer reads a slot.
    fn is_idle(&self, at: usize) -> bool {
        !self.accounts.iter().any(|account| account.counts_on(at))
    }

    /// The smallest slot that fits and that is neither owned nor read. Readers are checked last, because this looks at every
    /// peer.
    fn smallest_free(&self, n_bytes: usize) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (at, slot) in self.all.iter().enumerate() {
            let fits = slot.n_bytes >= n_bytes && slot.n_bytes / 4 <= n_bytes && !slot.is_held;
            let is_better = best.is_none_or(|best| slot.n_bytes < self.all[best].n_bytes);
            if fits && is_better && self.is_idle(at) {
                best = Some(at);
            }
        }
        best
    }

    /// A new slot, somewhat larger than needed: the next tensor like it may be.
    fn cut(&mut self, n_bytes: usize) -> Option<usize> {
        if n_bytes > REGION_BYTES {
            return None;
        }
        let grain = (n_bytes.next_power_of_two() / 8).max(4096);
        let n_bytes = n_bytes.max(1).next_multiple_of(grain);
        if self.all.len() >= SLOTS_MAX || n_bytes > REGION_BYTES - self.n_used {
            return None;
        }
        self.all.push(SlotState { offset: self.n_used, n_bytes, is_held: false });
        self.n_used += n_bytes;
        Some(self.all.len() - 1)
    }
}

/// A part of our region that we write.
#[derive(Debug)]
pub(crate) struct RegionSlot {
    region: Region,
    at: usize,
    offset: usize,
    n_bytes: usize,
}

impl RegionSlot {
    /// Copies bytes to its beginning; where they are then.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> RegionPlace {
        if let Some(place) = self.bytes_mut().and_then(|own| own.get_mut(..bytes.len())) {
            place.copy_from_slice(bytes);
        }
        RegionPlace { slot: self.at as u32, offset: self.offset as u64 }
    }
}

impl Memory for RegionSlot {
    fn bytes(&self) -> &[u8] {
        self.region.0.map.bytes(self.offset, self.n_bytes)
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        // While a peer reads, only reading is left.
        if !self.region.slots().is_idle(self.at) {
            return None;
        }
        let start = self.region.0.map.start;
        // SAFETY: `cut` made this range once and `take` gives it out again only when this slot is
        // gone, so nothing else in this process has it; no peer reads it, as was just seen, and none
        // will before a message says so, for which this borrow must have ended.
        Some(unsafe {
            std::slice::from_raw_parts_mut(start.as_ptr().add(self.offset), self.n_bytes)
        })
    }

    fn place(&self) -> MemoryPlace {
        let (slot, offset) = (self.at as u32, self.offset as u64);
        MemoryPlace { region: self.region.id(), slot, offset }
    }
}

impl Drop for RegionSlot {
    fn drop(&mut self) {
        self.region.slots().all[self.at].is_held = false;
    }
}

/// Memory that a peer lends to us.
#[derive(Debug)]
pub struct Window {
    account: Map,
    data: Map,
    id: u64,
}

impl Window {
    /// Opens what a process lends; fails if that is something else.
    pub(crate) fn open(offer: &Offer) -> io::Result<Arc<Self>> {
        let account = open_file(offer.process, offer.account, ACCOUNT_BYTES, offer.id)?;
        let data = open_file(offer.process, offer.descriptor, REGION_BYTES, offer.id)?;
        let account = Map::new(&account, ACCOUNT_BYTES, ProtFlags::READ | ProtFlags::WRITE)?;
        let data = Map::new(&data, REGION_BYTES, ProtFlags::READ)?;
        Ok(Arc::new(Self { account, data, id: offer.id }))
    }

    /// Bytes of a slot; nothing if they are outside of the region.
    pub(crate) fn view(self: &Arc<Self>, place: RegionPlace, n_bytes: usize) -> Option<View> {
        let (slot, offset) = (place.slot, usize::try_from(place.offset).ok()?);
        let is_inside = (HEAD_BYTES..=REGION_BYTES).contains(&offset)
            && n_bytes <= REGION_BYTES - offset
            && (slot as usize) < SLOTS_MAX;
        is_inside.then(|| View { window: self.clone(), slot, offset, n_bytes })
    }
}

/// Bytes in a peer's region, ours to read until dropped.
#[derive(Debug)]
pub(crate) struct View {
    window: Arc<Window>,
    slot: u32,
    offset: usize,
    n_bytes: usize,
}

impl Memory for View {
    fn bytes(&self) -> &[u8] {
        self.window.data.bytes(self.offset, self.n_bytes)
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }

    fn place(&self) -> MemoryPlace {
        MemoryPlace { region: self.window.id, slot: self.slot, offset: self.offset as u64 }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // Everything was read before.
        self.window.account.counter(self.slot as usize).fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(region: &Region, account: &Account) -> Offer {
        let (id, process) = (region.id(), std::process::id());
        let (descriptor, account) = (region.descriptor(), account.descriptor());
        Offer { id, process, descriptor, account }
    }

    fn peer(region: &Region) -> (Arc<Account>, Arc<Window>) {
        let account = region.account().unwrap();
        let window = Window::open(&offer(region, &account)).unwrap();
        (account, window)
    }

    #[test]
    fn what_one_writes_others_read_and_give_back() {
        let region = Region::new().unwrap();
        let peers = [peer(&region), peer(&region)];
        let mut slot = region.take(5000).unwrap();
        let place = slot.fill(&[7; 5000]);
        let views = peers.each_ref().map(|(account, window)| {
            account.lend(place.slot);
            window.view(place, 5000).unwrap()
        });
        drop(slot);
        for view in views {
            assert_eq!(view.bytes(), [7; 5000]);
            assert_ne!(region.take(5000).unwrap().place(), view.place(), "it is still read");
        }
        let expected = MemoryPlace { region: region.id(), slot: place.slot, offset: place.offset };
        assert_eq!(region.take(5000).unwrap().place(), expected);
    }

    #[test]
    fn a_slot_that_is_read_is_not_written() {
        let region = Region::new().unwrap();
        let (account, window) = peer(&region);
        let mut slot = region.take(100).unwrap();
        let place = slot.fill(&[1; 100]);
        account.lend(place.slot);
        assert!(slot.bytes_mut().is_none());
        drop(account);
        region.take(1).unwrap();
        assert!(slot.bytes_mut().is_none(), "our end is closed, the peer still reads");
        drop(window.view(place, 100));
        assert!(slot.bytes_mut().is_some());
        region.take(1).unwrap();
        assert_eq!(region.slots().accounts.len(), 0, "no longer needed");
    }

    #[test]
    fn views_stay_inside() {
        let region = Region::new().unwrap();
        let (_account, window) = peer(&region);
        let end = REGION_BYTES as u64;
        for (slot, offset, n) in [
            (0, 0, 64),
            (0, end - 64, 65),
            (0, end, usize::MAX),
            (0, u64::MAX - 63, 64),
            (SLOTS_MAX as u32, 4096, 64),
        ] {
            assert!(window.view(RegionPlace { slot, offset }, n).is_none(), "{slot} {offset} {n}");
        }
        assert_eq!(
            window.view(RegionPlace { slot: 0, offset: end - 64 }, 64).unwrap().bytes(),
            [0; 64]
        );
    }

    #[test]
    fn a_full_region_says_so() {
        let region = Region::new().unwrap();
        assert!(region.take(REGION_BYTES).is_none());
        assert!(region.take(usize::MAX).is_none());
        let slots: Vec<RegionSlot> = std::iter::from_fn(|| region.take(1)).collect();
        assert_eq!(slots.len(), SLOTS_MAX);
    }

    #[test]
    fn another_file_is_not_opened() {
        let region = Region::new().unwrap();
        let account = region.account().unwrap();
        let good = offer(&region, &account);
        assert!(Window::open(&good).is_ok());
        let file = tempfile::tempfile().unwrap();
        let descriptor = file.as_raw_fd() as u64;
        let swapped = (good.account, good.descriptor);
        for bad in [
            Offer { id: good.id + 1, ..good.clone() },
            Offer { descriptor, ..good.clone() },
            Offer { account: u64::MAX, ..good.clone() },
            Offer { descriptor: swapped.0, account: swapped.1, ..good },
        ] {
            assert!(Window::open(&bad).is_err(), "{bad:?}");
        }
    }
}
