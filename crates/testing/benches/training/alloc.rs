//! Counts what the program asks of the allocator.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Calls and bytes asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
}

/// What was asked for while `work` ran.
pub(crate) fn count(work: impl FnOnce()) -> Count {
    let before = (CALLS.load(Relaxed), BYTES.load(Relaxed));
    work();
    let (calls, bytes) = (CALLS.load(Relaxed) - before.0, BYTES.load(Relaxed) - before.1);
    Count { calls, bytes }
}

fn note(size: usize) {
    CALLS.fetch_add(1, Relaxed);
    BYTES.fetch_add(size as u64, Relaxed);
}

// SAFETY: every call goes on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        unsafe { System.dealloc(old, layout) }
    }
}
