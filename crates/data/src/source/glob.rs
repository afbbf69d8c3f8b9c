//! Lists of files with patterns: `*`, `?`, `[a-z]` within a name, and `**` for any folders.
//!
//! The matches of a pattern are sorted, so that no result depends on the order in which a store
//! lists.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::address::Address;
use super::expiring::Found;
use super::hdfs::HdfsClient;
use super::s3::KeyList;
use super::tries::Tries;
use super::{Remotes, Stores};
use crate::error::{Error, Result};

/// Folders in folders that `**` goes into.
const DEPTH_MAX: usize = 64;

/// Whether a name in a list of files stands for the files that it matches.
pub fn is_pattern(name: &str) -> bool {
    match Address::of(name) {
        Ok(Address::Http(url)) => url.split('?').next().is_some_and(|path| path.contains('*')),
        // A file whose name looks like a pattern is itself.
        Ok(Address::Local(path)) => has_pattern(path) && !Path::new(path).exists(),
        Ok(_) => has_pattern(name),
        Err(_) => false,
    }
}

fn has_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// A list of files in which every pattern is replaced by its matches, sorted. A pattern that
/// matches nothing is an error.
pub fn expand(list: &[String], stores: &Stores) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for name in list {
        if !is_pattern(name) {
            files.push(name.clone());
            continue;
        }
        let mut found = matching(name, stores)?;
        if found.is_empty() {
            return Err(Error::NoMatch { pattern: name.clone() });
        }
        found.sort();
        found.dedup();
        files.append(&mut found);
    }
    Ok(files)
}

fn matching(name: &str, stores: &Stores) -> Result<Vec<String>> {
    let remotes = Remotes::new(stores, Arc::default());
    match Address::of(name)? {
        Address::Local(path) => {
            let names = NameWalk { folders: &Local, prefix: "", pattern: path };
            names.find()
        }
        Address::Http(_) => {
            let reason = "a web server does not list its files: name each of them".to_string();
            Err(Error::BadAddress { file: name.to_string(), reason })
        }
        Address::S3(object) => keys(name, object.key, &remotes.bucket(object.bucket)?, stores),
        Address::Google(object) => keys(name, object.key, &remotes.google(object.bucket)?, stores),
        Address::Azure(blob) => keys(name, blob.blob, &remotes.azure(blob)?, stores),
        Address::Hdfs(path) => {
            let client = HdfsClient::of_path(name, &path, &remotes)?;
            let prefix = &name[..name.len() - path.path.len()];
            NameWalk { folders: &client, prefix, pattern: path.path }.find()
        }
    }
}

/// A store that lists its keys.
pub(super) trait ObjectList {
    /// Some of the keys that begin with `prefix`, and how to get the next.
    fn list(&self, prefix: &str, next: Option<&str>) -> Found<KeyList>;
}

/// The names of a store whose keys match a pattern, which is the end of `name`.
fn keys(name: &str, key: &str, bucket: &dyn ObjectList, stores: &Stores) -> Result<Vec<String>> {
    let prefix = &name[..name.len() - key.len()];
    let fixed = key.find(['*', '?', '[']).unwrap_or(key.len());
    let pattern: Vec<&str> = key.split('/').collect();
    let (mut found, mut next) = (Vec::new(), None);
    let mut tries = Tries::new(name, stores.patience, Arc::new(AtomicBool::new(false)));
    loop {
        let page = match bucket.list(&key[..fixed], next.as_deref()) {
            Ok(page) => page,
            Err(failure) => {
                tries.failed(0, failure)?;
                continue;
            }
        };
        tries.worked();
        let fits = |key: &String| fits_path(&pattern, &key.split('/').collect::<Vec<_>>());
        let names = page.keys.into_iter().filter(fits);
        found.extend(names.map(|key| format!("{prefix}{key}")));
        // A server that answers the same page for ever is not asked for ever.
        if page.next.is_none() || page.next == next {
            return Ok(found);
        }
        next = page.next;
    }
}

/// A file system that lists folders.
pub(super) trait Folders {
    /// The entries of a folder; none if it is not a folder.
    fn entries(&self, folder: &str) -> Result<Vec<FolderEntry>>;
}

/// A file or folder in a folder.
pub(super) struct FolderEntry {
    pub(super) name: String,
    pub(super) is_dir: bool,
}

/// The folders of this machine.
struct Local;

impl Folders for Local {
    fn entries(&self, folder: &str) -> Result<Vec<FolderEntry>> {
        let path = Path::new(if folder.is_empty() { "." } else { folder });
        if !path.is_dir() {
            return Ok(Vec::new());
        }
        let failed = |source| Error::ReadFile { file: folder.to_string(), source };
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // A name that is not Unicode cannot be in a list of texts.
            let Ok(name) = entry.file_name().into_string() else { continue };
            entries.push(FolderEntry { is_dir: entry.path().is_dir(), name });
        }
        Ok(entries)
    }
}

/// A walk through folders.
struct NameWalk<'a> {
    folders: &'a dyn Folders,
    /// The text before the path in the names that are found.
    prefix: &'a str,
    pattern: &'a str,
}

impl NameWalk<'_> {
    fn find(&self) -> Result<Vec<String>> {
        let (start, rest) = match self.pattern.strip_prefix('/') {
            Some(rest) => ("/", rest),
            None => ("", self.pattern),
        };
        let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
        let mut found = Vec::new();
        self.walk(start, &parts, 0, &mut found)?;
        Ok(found)
    }

    fn walk(&self, at: &str, parts: &[&str], depth: usize, found: &mut Vec<String>) -> Result<()> {
        let Some((&part, rest)) = parts.split_first() else { return Ok(()) };
        let below = |name: &str| {
            if at.is_empty() || at.ends_with('/') {
                format!("{at}{name}")
            } else {
                format!("{at}/{name}")
            }
        };
        if !has_pattern(part) && !rest.is_empty() {
            return self.walk(&below(part), rest, depth, found);
        }
        if part == "**" {
            // No folder, or any folder and again.
            self.walk(at, if rest.is_empty() { &["*"] } else { rest }, depth, found)?;
            if depth == DEPTH_MAX {
                return Ok(());
            }
        }
        for FolderEntry { name, is_dir } in self.folders.entries(at)? {
            match part {
                "**" if is_dir && !name.starts_with('.') => {
                    self.walk(&below(&name), parts, depth + 1, found)?;
                }
                "**" => {}
                _ if !fits(part, &name) => {}
                _ if rest.is_empty() && !is_dir => {
                    found.push(format!("{}{}", self.prefix, below(&name)));
                }
                _ if is_dir => self.walk(&below(&name), rest, depth, found)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether the parts of a path are those of a pattern.
fn fits_path(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => {
            let rest = if rest.is_empty() { &["*"][..] } else { rest };
            fits_path(rest, path) || (path.len() > 1 && fits_path(pattern, &path[1..]))
        }
        (Some((part, rest)), Some((name, below))) => fits(part, name) && fits_path(rest, below),
        _ => false,
    }
}

/// Whether a name fits a pattern without slashes. A hidden name fits no pattern that does not begin
/// with its dot, as in a shell.
fn fits(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut to) = (0, 0);
    // The place of the last star, and the end of its match so far.
    let mut star: Option<(usize, usize)> = None;
    while to < name.len() {
        let step = pattern.get(at).and_then(|&c| match c {
            '*' => None,
            _ => one(&pattern[at..], name[to]),
        });
        match (pattern.get(at), step, star) {
            (Some('*'), _, _) => {
                star = Some((at, to));
                at += 1;
            }
            (_, Some(n), _) => (at, to) = (at + n, to + 1),
            (_, None, Some((before, taken))) => {
                star = Some((before, taken + 1));
                (at, to) = (before + 1, taken + 1);
            }
            (_, None, None) => return false,
        }
    }
    pattern[at..].iter().all(|&c| c == '*')
}

/// How many characters of a pattern take this one, if they do.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern[0] {
        '?' => Some(1),
        '[' => {
            let Some(end) = (2..pattern.len()).find(|&at| pattern[at] == ']') else {
                return (c == '[').then_some(1);
            };
            let (is_other, set) = match &pattern[1..end] {
                ['!' | '^', set @ ..] if !set.is_empty() => (true, set),
                set => (false, set),
            };
            (in_set(set, c) != is_other).then_some(end + 1)
        }
        own => (own == c).then_some(1),
    }
}

/// Whether a character is one of `abc` or `a-c`.
fn in_set(set: &[char], c: char) -> bool {
    let mut at = 0;
    while at < set.len() {
        if let [from, '-', to] = set[at..set.len().min(at + 3)] {
            if (from..=to).contains(&c) {
                return true;
            }
            at += 3;
        } else {
            if set[at] == c {
                return true;
            }
            at += 1;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns_as_in_a_shell() {
        let cases = [
            ("part-*", "part-0", true),
            ("part-*", "apart-0", false),
            ("*", "", true),
            ("*.gz", "a.b.gz", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("part-?", "part-1", true),
            ("part-?", "part-12", false),
            ("part-[0-2]", "part-1", true),
            ("part-[0-2]", "part-3", false),
            ("part-[!0-2]", "part-3", true),
            ("[]x]", "]", true),
            ("a[", "a[", true),
            ("é?", "éa", true),
            ("*", ".hidden", false),
            (".*", ".hidden", true),
        ];
        for (pattern, name, wanted) in cases {
            assert_eq!(fits(pattern, name), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn two_stars_stand_for_folders() {
        let path = |pattern: &str, path: &str| {
            fits_path(&pattern.split('/').collect::<Vec<_>>(), &path.split('/').collect::<Vec<_>>())
        };
        assert!(path("a/**/x", "a/x") && path("a/**/x", "a/b/c/x") && path("**", "a/b"));
        assert!(!path("a/**/x", "a/b/y") && !path("a/*", "a/b/c") && !path("a/*", "a"));
    }

    #[test]
    fn local_files_are_listed_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b/part-1", "b/part-0", "a/part-9", "b/c/part-2", "b/.part-3", "b/note"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let root = folder.path().to_str().unwrap();
        let found = |pattern: &str| {
            let files = expand(&[format!("{root}/{pattern}")], &Stores::default())?;
            let short = |file: &String| file[root.len() + 1..].to_string();
            Ok::<_, Error>(files.iter().map(short).collect::<Vec<String>>())
        };
        assert_eq!(found("b/part-*").unwrap(), ["b/part-0", "b/part-1"]);
        assert_eq!(found("*/part-?").unwrap(), ["a/part-9", "b/part-0", "b/part-1"]);
        assert_eq!(found("**/part-[02]").unwrap(), ["b/c/part-2", "b/part-0"]);
        assert_eq!(found("b/**").unwrap(), ["b/c/part-2", "b/note", "b/part-0", "b/part-1"]);
        assert_eq!(found("b/part-0").unwrap(), ["b/part-0"]);
        assert!(matches!(found("b/nothing-*"), Err(Error::NoMatch { .. })));
        // A file that is there is itself, whatever its name.
        std::fs::write(folder.path().join("x[1]"), "").unwrap();
        assert_eq!(found("x[1]").unwrap(), ["x[1]"]);
    }

    #[test]
    fn web_servers_have_no_lists() {
        assert!(!is_pattern("http://h/a?b=*") && !is_pattern("http://h/a[1]"));
        let refused = expand(&["http://h/part-*".to_string()], &Stores::default());
        assert!(matches!(refused, Err(Error::BadAddress { .. })));
    }
}
