//! The seeds of a random test: others for each commit, so that a week of runs tries more than a day.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The seeds of one test: the one in `SEED`, as many as `SEEDS` says from 0 (`make soak`), or `n` that
/// depend on the commit. A test prints them when it fails.
pub fn seeds(n: u64) -> Range<u64> {
    let range = match (number("SEED"), number("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(n)) => 0..n,
        (None, None) => {
            let first = of_commit() * n;
            first..first + n
        }
    };
    // The runner of tests shows this with a failure.
    #[allow(clippy::print_stdout)]
    {
        println!("seeds {range:?} (SEED=n repeats one, SEEDS=n runs the first n)");
    }
    range
}

/// Whether one seed was asked for: a single run proves less than a law asks for.
pub fn is_one() -> bool {
    number("SEED").is_some()
}

/// A number below 1,000 that changes with the commit; 0 outside of a checkout.
pub fn of_commit() -> u64 {
    let commit = commit(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_or_default();
    let digits = commit.get(..8).unwrap_or("0");
    u64::from_str_radix(digits, 16).unwrap_or(0) % 1_000
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, it must be a number")))
}

/// The commit of the checkout that `inside` is in.
fn commit(inside: &Path) -> Option<String> {
    let git = inside.ancestors().map(|dir| dir.join(".git")).find(|path| path.exists())?;
    let git = real_dir(git)?;
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let Some(name) = head.trim().strip_prefix("ref: ") else {
        return Some(head.trim().to_string());
    };
    // A linked work tree keeps its branches in the folder of the main one.
    let common = fs::read_to_string(git.join("commondir")).ok();
    let common = common.map_or(git.clone(), |path| git.join(path.trim()));
    if let Ok(commit) = fs::read_to_string(common.join(name)) {
        return Some(commit.trim().to_string());
    }
    let packed = fs::read_to_string(common.join("packed-refs")).ok()?;
    let line = packed.lines().find(|line| line.ends_with(&format!(" {name}")))?;
    line.split_once(' ').map(|(commit, _)| commit.to_string())
}

/// The git directory: a linked work tree has a file that names it.
fn real_dir(git: PathBuf) -> Option<PathBuf> {
    if git.is_dir() {
        return Some(git);
    }
    let text = fs::read_to_string(&git).ok()?;
    let path = text.trim().strip_prefix("gitdir: ")?;
    Some(git.parent()?.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "00000bb8aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    #[test]
    fn a_commit_is_found_on_a_branch_in_packed_names_and_in_a_linked_work_tree() {
        let dir = tempfile::tempdir().expect("a folder");
        let git = dir.path().join(".git");
        let inside = dir.path().join("crates");
        write(&git.join("HEAD"), "ref: refs/heads/main\n");
        assert_eq!(commit(&inside), None);
        write(&git.join("packed-refs"), &format!("# names\n{COMMIT} refs/heads/main\n"));
        assert_eq!(commit(&inside).as_deref(), Some(COMMIT));
        write(&git.join("refs/heads/main"), "1234\n");
        assert_eq!(commit(&inside).as_deref(), Some("1234"));
        write(&git.join("worktrees/one/HEAD"), "ref: refs/heads/one\n");
        write(&git.join("worktrees/one/commondir"), "../..\n");
        write(&git.join("refs/heads/one"), COMMIT);
        let linked = dir.path().join("one");
        write(&linked.join(".git"), &format!("gitdir: {}\n", git.join("worktrees/one").display()));
        assert_eq!(commit(&linked).as_deref(), Some(COMMIT));
        write(&git.join("HEAD"), &format!("{COMMIT}\n"));
        assert_eq!(commit(&inside).as_deref(), Some(COMMIT));
    }
}
