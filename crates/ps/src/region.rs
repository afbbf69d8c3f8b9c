//! Memory that two processes of one machine share, so that tensors between them are written once
//! and read where they are.
//!
//! A [`Region`] is a file without a name: its owner cuts it into slots, writes to one, and tells the
//! peer by an ordinary message which one. The peer opens the file through `/proc`, reads there and
//! counts the slot down when it is done; a slot is used again when nobody counts on it. The peer can
//! write to the counters only, and the size of the file is sealed, so it cannot pull pages away.
//!
//! The only module of this crate with `unsafe`: a map of shared pages is nothing that Rust knows.
//! What a peer could do to us beyond sending wrong numbers, which it can do anyway, is nothing: the
//! bytes of a slot are only ever taken as numbers, of which every pattern is one. Keys and lengths
//! never lie here.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use tensor::Memory;

/// Bytes of a region. Pages that nobody touches are not there.
const REGION_BYTES: usize = 256 << 20;
/// The id, then a counter for each slot.
const HEAD_BYTES: usize = 16 << 10;
const COUNTERS_AT: usize = 64;
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

    /// A counter in the head.
    fn counter(&self, slot: usize) -> &AtomicU32 {
        assert!(slot < SLOTS_MAX, "slots are numbered below the limit");
        // SAFETY: the head has room for all counters, is mapped to be written by both sides, is
        // aligned for them, and nobody looks at it but through atomics.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(COUNTERS_AT + 4 * slot).cast()) }
    }

    /// Bytes of the map, which the caller has checked to be in it and to be written by nobody.
    fn bytes(&self, offset: usize, n_bytes: usize) -> &[u8] {
        assert!(offset <= self.n_bytes && n_bytes <= self.n_bytes - offset, "inside of the map");
        // SAFETY: inside of the map, which lives as long as `self`. Of a slot that is lent nobody
        // writes: its owner waits for the counter. A peer that breaks this rule changes numbers
        // that are being read, and nothing but numbers is read.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), n_bytes) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; whoever borrowed from it borrowed `self`.
        // A map that cannot be taken away stays: nothing to be done.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.n_bytes) };
    }
}

/// Memory that we lend to one peer.
#[derive(Clone, Debug)]
pub(crate) struct Region(Arc<Inner>);

#[derive(Debug)]
struct Inner {
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
}

#[derive(Debug)]
struct SlotState {
    offset: usize,
    n_bytes: usize,
    /// A [`Slot`] of ours exists.
    is_held: bool,
}

impl Region {
    /// A region that nobody else knows of.
    pub(crate) fn new() -> io::Result<Self> {
        use std::hash::{BuildHasher, RandomState};
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create("paddlewheel", flags)?);
        file.set_len(REGION_BYTES as u64)?;
        rustix::fs::fcntl_add_seals(&file, SEALS)?;
        let map = Map::new(&file, REGION_BYTES, ProtFlags::READ | ProtFlags::WRITE)?;
        let id = RandomState::new().hash_one(std::process::id()).max(1);
        // The first words are read by whoever opens the file: it may have found another one.
        std::os::unix::fs::FileExt::write_all_at(&file, &id.to_le_bytes(), 0)?;
        let slots = Mutex::new(Slots { all: Vec::new(), n_used: HEAD_BYTES });
        Ok(Self(Arc::new(Inner { file, map, id, slots })))
    }

    /// What it is called.
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// The number of its file in this process.
    pub(crate) fn descriptor(&self) -> u64 {
        self.0.file.as_raw_fd() as u64
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot of `n_bytes` or more, unless the region is full.
    pub(crate) fn take(&self, n_bytes: usize) -> Option<Slot> {
        let mut slots = self.slots();
        let is_free = |(at, slot): &(usize, &mut SlotState)| {
            let fits = slot.n_bytes >= n_bytes && slot.n_bytes / 4 <= n_bytes;
            fits && !slot.is_held && self.0.map.counter(*at).load(Ordering::Acquire) == 0
        };
        let free = slots.all.iter_mut().enumerate().filter(is_free);
        let at = match free.min_by_key(|(_, slot)| slot.n_bytes) {
            Some((at, slot)) => {
                slot.is_held = true;
                at
            }
            None => slots.cut(n_bytes)?,
        };
        let SlotState { offset, n_bytes, .. } = slots.all[at];
        Some(Slot { region: self.clone(), at, offset, n_bytes })
    }

    /// One more message to the peer speaks of a slot.
    pub(crate) fn lend(&self, at: u32) {
        self.0.map.counter(at as usize).fetch_add(1, Ordering::Release);
    }
}

impl Slots {
    /// A new slot, with some room for the next one like it.
    fn cut(&mut self, n_bytes: usize) -> Option<usize> {
        let grain = (n_bytes.next_power_of_two() / 8).max(4096);
        let n_bytes = n_bytes.checked_next_multiple_of(grain)?;
        if self.all.len() >= SLOTS_MAX || n_bytes > REGION_BYTES - self.n_used {
            return None;
        }
        self.all.push(SlotState { offset: self.n_used, n_bytes, is_held: true });
        self.n_used += n_bytes;
        Some(self.all.len() - 1)
    }
}

/// A part of our region that we write.
#[derive(Debug)]
pub(crate) struct Slot {
    region: Region,
    at: usize,
    offset: usize,
    n_bytes: usize,
}

impl Slot {
    /// Copies bytes to its beginning; where they are then.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> (u32, u64) {
        if let Some(place) = self.bytes_mut().and_then(|own| own.get_mut(..bytes.len())) {
            place.copy_from_slice(bytes);
        }
        (self.at as u32, self.offset as u64)
    }
}

impl Memory for Slot {
    fn bytes(&self) -> &[u8] {
        self.region.0.map.bytes(self.offset, self.n_bytes)
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let map = &self.region.0.map;
        // Once a message speaks of it, only reading is left.
        if map.counter(self.at).load(Ordering::Acquire) > 0 {
            return None;
        }
        // SAFETY: `cut` gave out this range once and `take` gives it out again only when this slot
        // is gone, so nobody else in this process has it; the peer has read-only pages.
        Some(unsafe {
            std::slice::from_raw_parts_mut(map.start.as_ptr().add(self.offset), self.n_bytes)
        })
    }

    fn place(&self) -> (u64, u32, u64) {
        (self.region.id(), self.at as u32, self.offset as u64)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.region.slots().all[self.at].is_held = false;
    }
}

/// Memory that a peer lends to us.
#[derive(Debug)]
pub(crate) struct Window {
    head: Map,
    data: Map,
    id: u64,
}

impl Window {
    /// Opens the region with this id and descriptor of a process; fails if that is something else.
    pub(crate) fn open(pid: u32, descriptor: u64, id: u64) -> io::Result<Arc<Self>> {
        let path = format!("/proc/{pid}/fd/{descriptor}");
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        let other = || io::Error::other("the file is not the region that was lent");
        let seals = rustix::fs::fcntl_get_seals(file.as_fd())?;
        if !seals.contains(SEALS) || file.metadata()?.len() != REGION_BYTES as u64 {
            return Err(other());
        }
        let mut head = [0; 8];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut head, 0)?;
        if u64::from_le_bytes(head) != id {
            return Err(other());
        }
        let head = Map::new(&file, HEAD_BYTES, ProtFlags::READ | ProtFlags::WRITE)?;
        let data = Map::new(&file, REGION_BYTES, ProtFlags::READ)?;
        Ok(Arc::new(Self { head, data, id }))
    }

    /// What its owner calls it.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// A part of a slot; nothing if it is outside of the region.
    pub(crate) fn view(self: &Arc<Self>, at: u32, offset: u64, n_bytes: usize) -> Option<View> {
        let offset = usize::try_from(offset).ok().filter(|offset| offset % 64 == 0)?;
        let is_inside = (HEAD_BYTES..=REGION_BYTES).contains(&offset)
            && n_bytes <= REGION_BYTES - offset
            && (at as usize) < SLOTS_MAX;
        is_inside.then(|| View { window: self.clone(), at, offset, n_bytes })
    }
}

/// Bytes in a peer's region, ours to read until dropped.
#[derive(Debug)]
pub(crate) struct View {
    window: Arc<Window>,
    at: u32,
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

    fn place(&self) -> (u64, u32, u64) {
        (self.window.id, self.at, self.offset as u64)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // Everything was read before.
        self.window.head.counter(self.at as usize).fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Region, Arc<Window>) {
        let region = Region::new().unwrap();
        let window = Window::open(std::process::id(), region.descriptor(), region.id()).unwrap();
        (region, window)
    }

    #[test]
    fn what_one_writes_the_other_reads_and_gives_back() {
        let (region, window) = pair();
        let mut slot = region.take(5000).unwrap();
        let (at, offset) = slot.fill(&[7; 5000]);
        region.lend(at);
        drop(slot);
        let view = window.view(at, offset, 5000).unwrap();
        assert_eq!(view.bytes(), [7; 5000]);
        let other = region.take(5000).unwrap();
        assert_ne!(other.place(), view.place(), "it is still read");
        drop(view);
        assert_eq!(region.take(5000).unwrap().place(), (region.id(), at, offset));
    }

    #[test]
    fn a_slot_that_is_spoken_of_is_not_written() {
        let (region, window) = pair();
        let mut slot = region.take(100).unwrap();
        let (at, offset) = slot.fill(&[1; 100]);
        region.lend(at);
        assert!(slot.bytes_mut().is_none());
        drop(window.view(at, offset, 100));
        assert!(slot.bytes_mut().is_some());
    }

    #[test]
    fn views_stay_inside() {
        let (_region, window) = pair();
        let (end, head) = (REGION_BYTES as u64, HEAD_BYTES as u64);
        for (at, offset, n) in [
            (0, 0, 64),
            (0, head + 1, 64),
            (0, end - 64, 65),
            (0, end, usize::MAX),
            (0, u64::MAX - 63, 64),
            (SLOTS_MAX as u32, head, 64),
        ] {
            assert!(window.view(at, offset, n).is_none(), "{at} {offset} {n}");
        }
        assert_eq!(window.view(0, end - 64, 64).unwrap().bytes(), [0; 64]);
    }

    #[test]
    fn a_full_region_says_so() {
        let region = Region::new().unwrap();
        assert!(region.take(REGION_BYTES).is_none());
        assert!(region.take(usize::MAX).is_none());
        let slots: Vec<Slot> = std::iter::from_fn(|| region.take(1)).collect();
        assert_eq!(slots.len(), SLOTS_MAX);
    }

    #[test]
    fn another_file_is_not_opened() {
        let region = Region::new().unwrap();
        let open = |descriptor, id| Window::open(std::process::id(), descriptor, id);
        assert!(open(region.descriptor(), region.id() + 1).is_err());
        let file = tempfile::tempfile().unwrap();
        assert!(open(file.as_raw_fd() as u64, 0).is_err());
        assert!(open(u64::MAX, 0).is_err());
    }
}
