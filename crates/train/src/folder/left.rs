//! The remains of a killed save in a folder. Programs that take each folder for an epoch would find them.

use std::path::Path;

use rustix::fs::{FsWord, NFS_SUPER_MAGIC, statfs};

use super::place::finish;
use super::{lock, spot};

/// File systems of several machines: FUSE, CIFS, SMB2, Ceph, Lustre, 9P. Their locks may hold on one machine only.
const OF_SEVERAL_MACHINES: [FsWord; 6] =
    [0x6573_5546, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400, 0x0bd0_0bd0, 0x0102_1997];

/// Finishes a save that was committed and removes one that was not, unless its process lives. This is for readers: what
/// they may not change, or cannot be sure of, stays for the next save.
pub(super) fn tidy(dir: &Path) {
    if !spot::is_anything(dir) || !is_on_one_machine(dir) {
        return;
    }
    let Some(lock) = lock::at_once(dir) else { return };
    if finish(dir, &lock).is_ok() {
        spot::clean_inside(dir);
    }
}

pub(super) fn is_on_one_machine(dir: &Path) -> bool {
    statfs(dir).is_ok_and(|disk| {
        disk.f_type != NFS_SUPER_MAGIC && !OF_SEVERAL_MACHINES.contains(&disk.f_type)
    })
}
