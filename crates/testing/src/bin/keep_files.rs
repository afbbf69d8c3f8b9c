//! Writes the files that are kept for ever: `keep_files FOLDER` wrote `snapshots_v1` and `saves_v1` of
//! `crates/testing/golden`. A later version of a format gets a folder of its own, and these stay as they are.

use std::fs;
use std::path::Path;

use testing::kept_saves::Kept;
use testing::kept_snapshots::{cases, described};

fn main() {
    let folder = std::env::args().nth(1).expect("FOLDER");
    for case in cases() {
        let folder = Path::new(&folder).join("snapshots_v1").join(case.name);
        fs::create_dir_all(&folder).expect("a folder");
        let servers = case.write(&folder);
        fs::write(folder.join("expected.txt"), described(&servers)).expect("a file");
        drop(servers);
        for server in 0..2 {
            fs::remove_file(folder.join(format!("server.{server}/lock"))).expect("a lock");
        }
    }
    for kept in Kept::ALL {
        let folder = Path::new(&folder).join("saves_v1");
        let expected = kept.write(&folder.join(kept.name()));
        let expected = expected.unwrap_or_else(|error| panic!("{kept:?}: {error}"));
        fs::write(folder.join(format!("{}.txt", kept.name())), expected).expect("a file");
    }
}
