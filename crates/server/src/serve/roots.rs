//! The folders below which a server writes what trainers save.

use std::io;
use std::path::{Component, Path, PathBuf};

use wire::Refusal;

/// Folders, without links; none: anywhere.
#[derive(Debug, Default)]
pub(super) struct SaveRoots(Vec<PathBuf>);

impl SaveRoots {
    /// Folders that are not there (yet) are taken as they are written.
    pub(super) fn new(roots: &[PathBuf]) -> Self {
        let real = |root: &PathBuf| resolve(root).unwrap_or_else(|_| root.clone());
        Self(roots.iter().map(real).collect())
    }

    /// Whether a save may be written there. A path that goes up is refused even if it comes down again:
    /// nobody needs one. A link is followed before its place is compared.
    pub(super) fn check(&self, dir: &str) -> Result<(), Refusal> {
        let path = Path::new(dir);
        let goes_up = path.components().any(|part| part == Component::ParentDir);
        let is_below =
            || resolve(path).is_ok_and(|real| self.0.iter().any(|root| real.starts_with(root)));
        if self.0.is_empty() || (!goes_up && is_below()) {
            return Ok(());
        }
        let roots: Vec<String> = self.0.iter().map(|root| root.display().to_string()).collect();
        Err(Refusal::Elsewhere { dir: dir.to_string(), roots: roots.join(", ") })
    }
}

/// The place of a path without links. What is not there yet is below what is.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let mut missing = Vec::new();
    let mut there = path.as_path();
    loop {
        // A link that leads nowhere is there.
        if there.symlink_metadata().is_ok() {
            let mut real = there.canonicalize()?;
            real.extend(missing.iter().rev());
            return Ok(real);
        }
        let name = there.file_name().ok_or(io::ErrorKind::NotFound)?;
        missing.push(name.to_os_string());
        there = there.parent().ok_or(io::ErrorKind::NotFound)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn saves_stay_below_their_roots() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("models");
        let outside = folder.path().join("outside");
        fs::create_dir_all(root.join("inner")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        symlink(&outside, root.join("leaves")).unwrap();
        symlink(root.join("inner"), root.join("stays")).unwrap();
        symlink(outside.join("nothing"), root.join("dangles")).unwrap();
        let roots = SaveRoots::new(std::slice::from_ref(&root));
        let check = |path: PathBuf| {
            roots.check(&path.join(".paddlewheel.saving/stage-1").to_string_lossy())
        };
        for good in ["", "inner", "new/folder", "stays/new"] {
            assert_eq!(check(root.join(good)), Ok(()), "{good}");
        }
        let bad = ["../outside", "inner/../../outside", "leaves", "leaves/new", "dangles"];
        for bad in bad.map(|bad| root.join(bad)).into_iter().chain([outside, "/".into()]) {
            let refused = check(bad.clone());
            assert!(matches!(refused, Err(Refusal::Elsewhere { .. })), "{bad:?} {refused:?}");
        }
        // A folder beside it whose name begins alike.
        assert!(check(folder.path().join("models2")).is_err());
        assert_eq!(SaveRoots::default().check("/anywhere"), Ok(()));
    }
}
