//! The keys that a process has and knows, in a job without a secret.
//!
//! A key is kept in a file that only its owner reads, so that a process that is started again is known.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base::EvenIfPoisoned;
use protocol::{KnownKeys, PublicKey};
use wire::{Error, Result};

use super::process_key::ProcessKey;
use crate::lines;

/// A longer file holds no key.
const FILE_BYTES_MAX: u64 = 4096;

/// The keys that a process has and knows.
#[derive(Debug, Default)]
pub struct KeyRing {
    /// Where keys are kept; none: for as long as the process lives.
    folder: Option<PathBuf>,
    /// Whether the keys of others are kept there, too: by a server that keeps its state.
    keeps_others: bool,
    own: Mutex<BTreeMap<String, Arc<ProcessKey>>>,
    /// Processes that were connected to.
    hosts: Mutex<BTreeMap<String, PublicKey>>,
    /// Other trainers, in a job without servers.
    pub(crate) trainers: Mutex<KnownKeys>,
}

impl KeyRing {
    /// Keys that are kept in a folder, if there is one.
    pub fn new(folder: Option<PathBuf>, keeps_others: bool) -> Self {
        Self { folder, keeps_others, ..Self::default() }
    }

    /// The key of this process under a name: the one that was kept, or a new one.
    pub fn own(&self, name: &str) -> Result<Arc<ProcessKey>> {
        let mut own = self.own.lock().even_if_poisoned();
        if let Some(key) = own.get(name) {
            return Ok(key.clone());
        }
        let no_key = || Error::Socket(io::Error::other("the system makes no key"));
        let made = ProcessKey::made().ok_or_else(no_key)?;
        let key = match self.folder.as_ref().map(|folder| kept(folder, name, &made)) {
            Some(Ok(key)) => key,
            not_kept => {
                let error = not_kept.and_then(|kept| kept.err());
                let error = error.unwrap_or_else(|| io::Error::other("no folder is known"));
                lines::key_not_kept(self.folder.as_deref(), &error).say_once();
                ProcessKey::read(&made).ok_or_else(no_key)?
            }
        };
        let key = Arc::new(key);
        own.insert(name.to_string(), key.clone());
        Ok(key)
    }

    /// Whether a process that was connected to has the key that it had before; the first one is remembered.
    pub(crate) fn is_host(&self, name: &str, key: PublicKey) -> bool {
        let mut hosts = self.hosts.lock().even_if_poisoned();
        *hosts.entry(name.to_string()).or_insert(key) == key
    }

    /// The keys of others that were kept under a name.
    pub(crate) fn others(&self, name: &str) -> KnownKeys {
        let path = self.others_file(name);
        let text = path.and_then(|path| fs::read_to_string(path).ok());
        text.map_or_else(KnownKeys::default, |text| KnownKeys::from_text(&text))
    }

    /// Keeps the keys of others under a name.
    pub(crate) fn keep_others(&self, name: &str, known: &KnownKeys) {
        let Some(path) = self.others_file(name) else { return };
        let written =
            durable::replace_with(&path, durable::Access::Owner, known.to_text().as_bytes());
        if let Err(error) = written {
            lines::key_not_kept(Some(&path), &error).say_once();
        }
    }

    fn others_file(&self, name: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref().filter(|_| self.keeps_others)?;
        Some(folder.join(format!("{name}.known")))
    }
}

/// The key in a file; the one that was made if there is none yet.
fn kept(folder: &Path, name: &str, made: &[u8]) -> io::Result<ProcessKey> {
    let path = folder.join(format!("{name}.key"));
    if !path.exists() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let temporary = folder.join(format!("{name}.{}.tmp", std::process::id()));
        write(&temporary, made)?;
        // The first of two processes that begin at once is not overwritten.
        let linked = fs::hard_link(&temporary, &path);
        fs::remove_file(&temporary)?;
        linked.or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        })?;
    }
    if fs::metadata(&path)?.len() > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("`{}` is not a key", path.display())));
    }
    let no_key = || {
        let why = format!("`{}` is not a key: delete it, and start the job again", path.display());
        io::Error::other(why)
    };
    ProcessKey::read(&fs::read(&path)?).ok_or_else(no_key)
}

/// A file that only its owner reads, written to the disk.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::process_key::has_signed;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_process_that_is_started_again_has_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let keys = || KeyRing::new(Some(folder.path().join("keys")), false);
        let first = keys().own("trainer-0").unwrap();
        assert_eq!(keys().own("trainer-0").unwrap().public(), first.public());
        assert_ne!(keys().own("trainer-1").unwrap().public(), first.public());
        let file = folder.path().join("keys/trainer-0.key");
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path().join("keys")).unwrap().count(), 2);
        // Without a folder it lasts as long as the process.
        let ring = KeyRing::default();
        assert_eq!(ring.own("a").unwrap().public(), ring.own("a").unwrap().public());
        assert_ne!(ring.own("a").unwrap().public(), KeyRing::default().own("a").unwrap().public());
    }

    #[test]
    fn only_the_owner_signs() {
        let ring = KeyRing::default();
        let (one, other) = (ring.own("one").unwrap(), ring.own("other").unwrap());
        let signature = one.sign(b"words");
        assert!(has_signed(one.public(), b"words", &signature));
        assert!(!has_signed(one.public(), b"Words", &signature));
        assert!(!has_signed(other.public(), b"words", &signature));
        assert_eq!(PublicKey::read(&one.public().to_string()), Some(one.public()));
        assert_eq!(PublicKey::read("xyz"), None);
    }

    #[test]
    fn the_first_key_of_a_host_is_remembered() {
        let ring = KeyRing::default();
        let at = "Server 10.0.0.1:80";
        let keys = ["one", "other"].map(|name| ring.own(name).unwrap().public());
        assert!(ring.is_host(at, keys[0]) && ring.is_host(at, keys[0]));
        assert!(!ring.is_host(at, keys[1]));
    }
}
