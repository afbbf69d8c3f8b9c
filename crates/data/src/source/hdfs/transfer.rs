//! Files from and to a Hadoop file system.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use base::EvenIfPoisoned;
use durable::{Access, Replacement};

use super::{HdfsClient, Way, inside};
use crate::error::{Error, Result, of_read};
use crate::source::ReadAhead;

/// Behind the names of files that are not complete.
const PARTIAL: &str = "._COPYING_";
/// Files that are copied at the same time, at most.
const THREADS_MAX: usize = 64;

impl HdfsClient {
    /// The contents of a file.
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        let node = match &self.way {
            Way::Command(command) => return command.output(&["-cat", path]),
            Way::Web(node) => node,
        };
        let mut bytes = Vec::new();
        let mut ahead = ReadAhead::open(self.remote(node, path), 0, 0)?;
        ahead.read_to_end(&mut bytes).map_err(|source| of_read(path, source))?;
        Ok(bytes)
    }

    /// Copies a file from there. The name appears when the file is complete.
    pub fn get(&self, path: &str, local: &Path) -> Result<()> {
        let failed = |source| Error::WriteFile { file: local.display().to_string(), source };
        match &self.way {
            Way::Command(command) => {
                let fresh = durable::beside(local).map_err(failed)?;
                command.succeeds(&["-get", path, &fresh.to_string_lossy()]).inspect_err(|_| {
                    let _ = fs::remove_file(&fresh);
                })?;
                durable::place(&fresh, local).map_err(failed)
            }
            Way::Web(node) => {
                let mut ahead = ReadAhead::open(self.remote(node, path), 0, 0)?;
                let mut fresh = Replacement::begin(local, Access::Umask).map_err(failed)?;
                let copied = io::copy(&mut ahead, fresh.file());
                copied.map_err(|source| of_read(path, source))?;
                fresh.commit().map_err(failed)
            }
        }
    }

    /// Copies a file to there. The name appears when the file is complete.
    pub fn put(&self, local: &Path, path: &str, overwrite: bool) -> Result<()> {
        let (name, partial) = (local.display().to_string(), format!("{path}{PARTIAL}"));
        if !overwrite && self.exists(path)? {
            let what = "it exists, and overwrite is False".to_string();
            return Err(Error::StoreRefused { file: path.to_string(), what });
        }
        let node = match &self.way {
            Way::Command(command) => {
                return command.succeeds(&["-put", "-f", &name, path]).map(|_| ());
            }
            Way::Web(node) => node,
        };
        let open = || File::open(local);
        open().map_err(|source| Error::ReadFile { file: name.clone(), source })?;
        self.ask(path, || {
            let contents =
                open().map_err(|error| super::StoreFailure::Lasting(error.to_string()))?;
            node.create(&self.path(&partial), &contents)
        })?;
        if self.rename(&partial, path, true)? {
            Ok(())
        } else {
            let what = "the complete file could not be given its name".to_string();
            Err(Error::StoreRefused { file: path.to_string(), what })
        }
    }

    /// Copies a file or a folder with all that is in it to there, several files at a time. A folder's
    /// contents go into `path`; a file gets that name, or goes into it if it is a folder.
    pub fn upload(
        &self,
        local: &Path,
        path: &str,
        overwrite: bool,
        n_threads: usize,
    ) -> Result<()> {
        let path = path.trim_end_matches('/');
        if local.is_file() {
            let name = inside(Path::new(path), &local.to_string_lossy());
            let into = self.is_dir(path)?;
            let target = if into { name.to_string_lossy().into_owned() } else { path.to_string() };
            return self.put(local, &target, overwrite);
        }
        let files = local_files(local)?;
        let target = |file: &PathBuf| {
            let below = file.strip_prefix(local).unwrap_or(file);
            format!("{path}/{}", below.display())
        };
        let mut folders: Vec<String> = files.iter().map(|file| parent(&target(file))).collect();
        folders.sort();
        folders.dedup();
        for folder in folders {
            self.make_dirs(&folder)?;
        }
        in_parallel(&files, n_threads, |file| self.put(file, &target(file), overwrite))
    }

    /// Copies files below the folder `path` into the folder `local`, under the same names, several at a
    /// time. Files that are there already stay unless they are overwritten. Returns where they are.
    pub fn download(
        &self,
        files: &[String],
        path: &str,
        local: &Path,
        options: CopyOptions,
    ) -> Result<Vec<PathBuf>> {
        let base = self.path(path);
        let target = |file: &String| {
            let own = self.path(file);
            match own.strip_prefix(base.trim_end_matches('/')) {
                Some(below) if below.starts_with('/') => local.join(below.trim_start_matches('/')),
                _ => inside(local, &own),
            }
        };
        in_parallel(files, options.n_threads, |file| {
            let place = target(file);
            if place.is_file() && !options.overwrite {
                return Ok(());
            }
            if let Some(folder) = place.parent() {
                let failed =
                    |source| Error::WriteFile { file: folder.display().to_string(), source };
                fs::create_dir_all(folder).map_err(failed)?;
            }
            self.get(file, &place)
        })?;
        Ok(files.iter().map(target).collect())
    }
}

/// How files are copied.
#[derive(Clone, Copy, Debug)]
pub struct CopyOptions {
    /// Files that are copied at the same time.
    pub n_threads: usize,
    /// Whether files that are there already are copied again.
    pub overwrite: bool,
}

fn parent(path: &str) -> String {
    path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_string())
}

/// All files below a folder, by path.
fn local_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |source| Error::ReadFile { file: folder.display().to_string(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            files.extend(local_files(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Does something with each item on several threads; the first error in the order of the items.
fn in_parallel<T: Sync>(
    items: &[T],
    n_threads: usize,
    act: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    let n = n_threads.clamp(1, THREADS_MAX).min(items.len().max(1));
    let failed: Mutex<Vec<(usize, Error)>> = Mutex::default();
    thread::scope(|scope| {
        for first in 0..n {
            let (failed, act) = (&failed, &act);
            scope.spawn(move || {
                for (at, item) in items.iter().enumerate().skip(first).step_by(n) {
                    if let Err(error) = act(item) {
                        failed.lock().even_if_poisoned().push((at, error));
                        return;
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_default();
    failed.sort_by_key(|(at, _)| *at);
    match failed.into_iter().next() {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}
