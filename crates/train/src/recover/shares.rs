//! Files with samples of global shuffles: a process that is started again reads them, as long as its
//! script can still use them.

use std::path::Path;
use std::sync::Arc;

/// Files that datasets have a handle of; those of which nobody else has one can go with the next cut.
#[derive(Debug, Default)]
pub(super) struct Shares(Vec<Arc<Path>>);

impl Shares {
    /// A dataset holds the samples of this file.
    pub(super) fn add(&mut self, file: Arc<Path>) {
        self.0.push(file);
    }

    /// Takes out those that no dataset needs any more.
    pub(super) fn take_dropped(&mut self) -> Shares {
        let all = std::mem::take(&mut self.0).into_iter();
        let (dropped, used) = all.partition(|file| Arc::strong_count(file) == 1);
        self.0 = used;
        Shares(dropped)
    }

    /// Notes those of a cut that does not count.
    pub(super) fn put_back(&mut self, dropped: Shares) {
        self.0.extend(dropped.0);
    }

    /// Nobody goes back to where they were needed.
    pub(super) fn remove(self) {
        self.0.iter().for_each(|file| data::remove_share(file));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_go_when_no_dataset_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| -> Arc<Path> {
            let path = folder.path().join(name);
            fs::write(&path, name).unwrap();
            path.into()
        };
        let mut shares = Shares::default();
        let first = file("1");
        let second = file("2");
        [&first, &second].into_iter().for_each(|file| shares.add(file.clone()));
        let path = first.to_path_buf();
        drop(first);
        let dropped = shares.take_dropped();
        assert!(path.exists(), "somebody may go back to where it was needed");
        shares.put_back(dropped);
        shares.take_dropped().remove();
        assert!(!path.exists() && second.exists());
        shares.take_dropped().remove();
        assert!(second.exists());
    }
}
