//! A client of a Hadoop file system: with the `hadoop` command where there is one, with WebHDFS
//! otherwise.

mod command;
mod transfer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::address::{Address, HdfsPath, PortOf};
use super::glob::{FolderEntry, Folders};
use super::tries::{StoreFailure, Tries};
use super::web::{HttpChange, Web};
use super::webhdfs::{FileStatus, HdfsAccess, HdfsFile, NameNode};
use super::{RemoteFile, Remotes, Stores};
use crate::error::{Error, Result};
use command::HadoopCommand;
pub use transfer::CopyOptions;

/// A file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HdfsEntry {
    /// Its path.
    pub path: String,
    /// Whether it is a folder.
    pub is_dir: bool,
    /// Bytes of a file.
    pub n_bytes: u64,
}

/// A client of one file system.
#[derive(Debug)]
pub struct HdfsClient {
    way: Way,
    patience: Duration,
    /// Whose folder paths without a slash are in.
    user: String,
}

#[derive(Debug)]
enum Way {
    Command(HadoopCommand),
    Web(Arc<NameNode>),
}

/// How a file system is found and asked, in the words of Hadoop's settings.
const NAME_NODE: [&str; 2] = ["fs.default.name", "fs.defaultFS"];
const UGI: &str = "hadoop.job.ugi";
const HTTP_ADDRESS: &str = "dfs.namenode.http-address";

impl HdfsAccess {
    /// With the settings of Hadoop that are known here: the user (`user,password`), and the name
    /// node.
    pub fn with(&self, configs: &BTreeMap<String, String>) -> Self {
        let known = |name: &str| configs.get(name).filter(|value| !value.is_empty()).cloned();
        let user = known(UGI).map(|ugi| ugi.split(',').next().unwrap_or_default().to_string());
        let name_node = NAME_NODE.iter().find_map(|name| known(name));
        Self {
            user: user.or(self.user.clone()),
            name_node: name_node.or(self.name_node.clone()),
            http_address: known(HTTP_ADDRESS).or(self.http_address.clone()),
            has_command: self.has_command,
        }
    }
}

impl HdfsClient {
    /// A client; `hadoop_home` is where `bin/hadoop` is, if there is one.
    pub fn new(
        hadoop_home: &Path,
        configs: &BTreeMap<String, String>,
        stores: &Stores,
    ) -> Result<Self> {
        let program = hadoop_home.join("bin").join("hadoop");
        let access = stores.hdfs.with(configs);
        let (patience, user) = (stores.patience, access.user.clone().unwrap_or_default());
        if program.is_file() {
            let way = Way::Command(HadoopCommand::new(program, configs));
            return Ok(Self { way, patience, user });
        }
        let path = HdfsPath { host: "", path: "/", port: PortOf::Either, tls: false };
        let web = Arc::new(Web::new(stores)?);
        let name = access.name_node.clone().unwrap_or_else(|| "HDFSClient".to_string());
        let node = NameNode::new(&name, &path, &access, web)?;
        Ok(Self { way: Way::Web(Arc::new(node)), patience, user })
    }

    /// The client that lists what is beside a file.
    pub(super) fn of_path(name: &str, path: &HdfsPath<'_>, remotes: &Remotes) -> Result<Self> {
        let Stores { hdfs, patience, .. } = &remotes.stores;
        let user = hdfs.user.clone().unwrap_or_default();
        let way = if hdfs.has_command && path.port == PortOf::Either {
            Way::Command(HadoopCommand::on_path(path.host))
        } else {
            Way::Web(Arc::new(NameNode::new(name, path, hdfs, remotes.web()?)?))
        };
        Ok(Self { way, patience: *patience, user })
    }

    /// Whether it asks a `hadoop` command.
    pub fn uses_command(&self) -> bool {
        matches!(self.way, Way::Command(_))
    }

    /// The path in the file system: addresses are without their beginning, other paths in the folder
    /// of the user.
    fn path(&self, path: &str) -> String {
        match Address::of(path) {
            Ok(Address::Hdfs(address)) => address.path.to_string(),
            _ if path.starts_with('/') => path.to_string(),
            _ => format!("/user/{}/{path}", self.user),
        }
    }

    /// Asks until there is an answer.
    fn ask<T>(
        &self,
        path: &str,
        mut request: impl FnMut() -> std::result::Result<T, StoreFailure>,
    ) -> Result<T> {
        let mut tries = Tries::new(path, self.patience, Arc::new(AtomicBool::new(false)));
        loop {
            match request() {
                Ok(answer) => return Ok(answer),
                Err(failure) => tries.failed(0, failure)?,
            }
        }
    }

    /// The file or folder at a path; `None` if there is none.
    pub fn entry(&self, path: &str) -> Result<Option<HdfsEntry>> {
        let found = match &self.way {
            Way::Command(command) => return Ok(command.list(&["-d", path])?.into_iter().next()),
            Way::Web(node) => self.ask(path, || node.status(&self.path(path))),
        };
        match found {
            Ok(status) => Ok(Some(entry(path.to_string(), &status))),
            Err(Error::NotInStore { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether something is there.
    pub fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.entry(path)?.is_some())
    }

    /// Whether a folder is there.
    pub fn is_dir(&self, path: &str) -> Result<bool> {
        Ok(self.entry(path)?.is_some_and(|entry| entry.is_dir))
    }

    /// Whether a file is there.
    pub fn is_file(&self, path: &str) -> Result<bool> {
        Ok(self.entry(path)?.is_some_and(|entry| !entry.is_dir))
    }

    /// The entries of a folder, by name; of a file, the file. Empty if the path does not exist.
    pub fn list(&self, path: &str) -> Result<Vec<HdfsEntry>> {
        let node = match &self.way {
            Way::Command(command) => return command.list(&[path]),
            Way::Web(node) => node,
        };
        let base = path.trim_end_matches('/');
        let named = |status: &FileStatus| {
            if status.name.is_empty() {
                entry(path.to_string(), status)
            } else {
                entry(format!("{base}/{}", status.name), status)
            }
        };
        match self.ask(path, || node.list(&self.path(path))) {
            Ok(list) => Ok(list.iter().map(named).collect()),
            Err(Error::NotInStore { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// All files below a folder, by path.
    pub fn files_below(&self, path: &str) -> Result<Vec<HdfsEntry>> {
        let (mut files, mut folders) = (Vec::new(), vec![path.to_string()]);
        while let Some(folder) = folders.pop() {
            for entry in self.list(&folder)? {
                if entry.is_dir { folders.push(entry.path) } else { files.push(entry) }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// Makes a folder and those it is in.
    pub fn make_dirs(&self, path: &str) -> Result<bool> {
        match &self.way {
            Way::Command(command) => command.succeeds(&["-mkdir", "-p", path]),
            Way::Web(node) => {
                self.ask(path, || node.change(&self.path(path), "MKDIRS", HttpChange::Put))
            }
        }
    }

    /// Removes a file, or a folder with all that is in it. Nothing to remove is fine.
    pub fn delete(&self, path: &str) -> Result<bool> {
        match &self.way {
            Way::Command(command) => command.succeeds(&["-rm", "-r", "-f", path]),
            Way::Web(node) => {
                let op = "DELETE&recursive=true";
                self.ask(path, || node.change(&self.path(path), op, HttpChange::Delete))?;
                Ok(true)
            }
        }
    }

    /// Renames. Returns false if there is nothing to rename, or something at the new name that may not
    /// be overwritten.
    pub fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<bool> {
        if !self.exists(from)? {
            return Ok(false);
        }
        if self.exists(to)? {
            if !overwrite {
                return Ok(false);
            }
            self.delete(to)?;
        }
        let node = match &self.way {
            Way::Command(command) => return command.succeeds(&["-mv", from, to]),
            Way::Web(node) => node,
        };
        let op = format!("RENAME&destination={}", super::s3::encoded(&self.path(to), "/"));
        let renamed = self.ask(from, || node.change(&self.path(from), &op, HttpChange::Put))?;
        // An answer that was lost and asked for again says no.
        Ok(renamed || (self.exists(to)? && !self.exists(from)?))
    }

    fn remote(&self, node: &Arc<NameNode>, path: &str) -> RemoteFile {
        let source = Arc::new(HdfsFile::new(node.clone(), &self.path(path)));
        let (name, patience) = (path.to_string(), self.patience);
        RemoteFile { name, source, patience, stop: Arc::default() }
    }
}

fn entry(path: String, status: &FileStatus) -> HdfsEntry {
    HdfsEntry { path, is_dir: status.is_dir, n_bytes: status.len }
}

impl Folders for HdfsClient {
    fn entries(&self, folder: &str) -> Result<Vec<FolderEntry>> {
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_string();
        let list = self.list(folder)?.into_iter();
        let inside = list.filter(|entry| self.path(&entry.path) != folder);
        Ok(inside
            .map(|entry| FolderEntry { name: name(&entry.path), is_dir: entry.is_dir })
            .collect())
    }
}

/// The local path of a file that is copied into a folder.
fn inside(folder: &Path, name: &str) -> PathBuf {
    folder.join(name.rsplit('/').next().unwrap_or_default())
}

#[cfg(test)]
mod tests;
