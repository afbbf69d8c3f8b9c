//! Whether a folder has changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Names, sizes and times of all files of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp(Vec<FileStamp>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileStamp {
    name: String,
    n_bytes: u64,
    /// When it was last written, and which file it is.
    seconds: i64,
    nanoseconds: i64,
    inode: u64,
}

/// Folders inside of folders that are looked into.
const DEPTH_MAX: usize = 4;

impl Stamp {
    /// The folder as it is now; one that cannot be read looks empty.
    pub(crate) fn of(dir: &Path) -> Self {
        let mut files = Vec::new();
        add(dir, "", DEPTH_MAX, &mut files);
        files.sort();
        Self(files)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn add(dir: &Path, prefix: &str, depth: usize, files: &mut Vec<FileStamp>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let Ok(about) = fs::metadata(entry.path()) else { continue };
        // A save that is not committed is left out.
        if name.starts_with(".paddlewheel.") {
            continue;
        }
        if !about.is_dir() {
            files.push(FileStamp {
                name,
                n_bytes: about.len(),
                seconds: about.mtime(),
                nanoseconds: about.mtime_nsec(),
                inode: about.ino(),
            });
        } else if depth > 0 && !name.starts_with(".paddlewheel") {
            add(&entry.path(), &format!("{name}/"), depth - 1, files);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_anywhere_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(Stamp::of(&dir.join("nothing")).is_empty());
        fs::create_dir_all(dir.join("tables")).unwrap();
        fs::write(dir.join("tables/a"), "1").unwrap();
        let before = Stamp::of(dir);
        assert_eq!(Stamp::of(dir), before);
        fs::write(dir.join("tables/a"), "12").unwrap();
        assert_ne!(Stamp::of(dir), before);
    }
}
