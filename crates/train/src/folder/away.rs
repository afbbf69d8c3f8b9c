//! Where a save is written until it is committed: not in its folder, nor beside it. Programs take each folder that they
//! find there for an epoch, and each file for a variable, also after a save was killed.
//!
//! The place is as far up as it can be: in the highest folder around the saved one that is on the same disk and
//! that only this user can tamper with. It has one folder for all saves of the user, which is there as long as a save
//! is. The next save that looks there removes what a killed one left.

use std::fs::{self, DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::{SAVING, disk};

/// Others may write into a folder, and only remove what is theirs.
const STICKY: u32 = 0o1000;
/// Others may write into a folder.
const OPEN: u32 = 0o022;
/// Nobody but its owner may look into a folder.
const PRIVATE_MODE: u32 = 0o700;

/// The folder for saves into this folder; None if no place around it is usable.
pub(super) fn stages_of(dir: &Path) -> Option<PathBuf> {
    let user = fs::metadata("/proc/self").ok()?.uid();
    let real = dir.canonicalize().ok()?;
    let mount = mount_of(&real)?;
    let is_safe = |found: &Metadata| {
        let (is_sticky, is_open) = (found.mode() & STICKY != 0, found.mode() & OPEN != 0);
        if is_open { is_sticky } else { found.uid() == user }
    };
    let around = real.ancestors().skip(1);
    let near = around.take_while(|folder| mount_of(folder) == Some(mount));
    let usable = near.filter(|folder| fs::metadata(folder).is_ok_and(|found| is_safe(&found)));
    let mut usable: Vec<&Path> = usable.collect();
    // The root of the system is the last choice.
    if usable.len() > 1 {
        usable.retain(|folder| folder.parent().is_some());
    }
    let mut places = usable.iter().rev().map(|folder| folder.join(format!("{SAVING}-{user}")));
    places.find(|place| make(place).is_ok() && is_own(place, user))
}

/// Makes the folder for saves, which only this user can read.
pub(super) fn make(place: &Path) -> std::io::Result<()> {
    if place.is_dir() {
        return Ok(());
    }
    disk::before(&disk::Change::Make)?;
    DirBuilder::new().recursive(true).mode(PRIVATE_MODE).create(place)
}

/// Whether nobody else has made it.
fn is_own(place: &Path, user: u32) -> bool {
    fs::symlink_metadata(place)
        .is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
}

/// The number of the mount that a folder is on: from one to another nothing can be renamed.
fn mount_of(folder: &Path) -> Option<u64> {
    let found = statx(CWD, folder, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    let is_known = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    is_known.then_some(found.stx_mnt_id)
}
