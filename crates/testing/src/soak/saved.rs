//! Lists of saved files, and snapshots of servers.

use std::fs;
use std::hint::black_box;
use std::path::Path;

use server::snapshots;
use train::folder::check as folder;

use super::Target;

/// `.paddlewheel/manifest` of a saved folder: as it is, and with a hash that fits, so that its lines are read.
pub(super) fn manifest() -> Target {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/saves_v1");
    let list = |name: &str| fs::read(kept.join(name).join(".paddlewheel/manifest"));
    let lists =
        ["variables", "tables", "checkpoints/checkpoint_2"].map(|name| list(name).expect("a list"));
    Target {
        name: "manifest",
        inputs: [vec![folder::example()], lists.to_vec()].concat(),
        words: &[
            b"\n",
            b" ",
            b"save ",
            b"file ",
            b"var ",
            b"part ",
            b"removed ",
            b"whole ",
            b"%",
            b"../",
            b"-",
        ],
        read: Box::new(|bytes: &[u8]| {
            black_box(folder::read(bytes));
            black_box(folder::read(&folder::with_hash(bytes)));
        }),
        share: 40,
    }
}

/// Snapshots and journals of servers: as they are, and with checksums that fit, so that sections are read.
pub(super) fn snapshots() -> Target {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/snapshots_v1/rows/server.0");
    let file = |name: &str| fs::read(kept.join(name)).expect("a snapshot of ours");
    let memory = Some(Path::new("/dev/shm")).filter(|memory| memory.is_dir());
    let folder = memory.map_or_else(tempfile::tempdir, tempfile::tempdir_in).expect("a folder");
    Target {
        name: "snapshots",
        inputs: vec![file("base.0"), file("base.2"), file("cut.3")],
        words: &[
            b"PWSNAP\r\n",
            b"PWJRNL\r\n\x01\x00\x00\x00",
            b"\x07\x00\x00\x00",
            b"\xff\xff\xff\xff",
        ],
        read: Box::new(move |bytes: &[u8]| {
            let path = folder.path().join("base.0");
            for bytes in [bytes.to_vec(), snapshots::with_checksums(bytes)] {
                fs::write(&path, bytes).expect("a file");
                black_box(snapshots::read(&path).is_ok());
            }
            fs::write(folder.path().join(snapshots::journal_name()), bytes).expect("a file");
            black_box(snapshots::read_journal(folder.path()).is_ok());
        }),
        share: 20,
    }
}
