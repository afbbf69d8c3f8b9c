//! Files that are not on this machine: opened at any byte, read ahead, tried again.
//!
//! A kind of store is one file here: it makes one request and reports the outcome. The common parts
//! (patience, resuming at the byte where a connection broke, noticing that a file has changed) are
//! here once.

mod address;
mod ahead;
mod azure;
mod blocks;
mod certificates;
mod expiring;
mod glob;
mod google;
mod hdfs;
mod http;
mod s3;
mod s3_keys;
mod sign;
mod tokens;
mod tries;
mod web;
mod webhdfs;

use std::fmt::Debug;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::random::hash;
use address::{Address, BlobName};
pub(crate) use ahead::ReadAhead;
use azure::AzureKeys;
pub use azure::{AzureAccess, AzureClient, AzureKeySource, ClientProof};
pub(crate) use blocks::RemoteBlocks;
pub use glob::{expand, is_pattern};
use google::GoogleTokens;
pub use google::{GoogleAccess, GoogleKeySource};
pub use hdfs::{CopyOptions, HdfsClient, HdfsEntry};
pub use s3::S3Access;
use s3_keys::S3Keys;
pub use s3_keys::{ContainerAgent, S3Key, S3KeySource, WebIdentity};
use tries::{StoreFailure, Tries};
use web::Web;
pub use webhdfs::HdfsAccess;

/// How many names are in a list that a store sent, whichever kind of store it was.
pub(crate) fn read_lists(text: &str) -> usize {
    let keys = s3::KeyList::read(text).map_or(0, |list| list.keys.len());
    let objects = google::read_list(text).map_or(0, |list| list.keys.len());
    let blobs = azure::read_list(text).map_or(0, |list| list.keys.len());
    keys + objects + blobs + webhdfs::FileStatus::read_list(text).map_or(0, |list| list.len())
}

/// For how long a store that cannot be reached is tried again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Access to files elsewhere. `fleet` reads the settings of the environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Stores {
    /// `s3://` files.
    pub s3: S3Access,
    /// `gs://` files.
    pub google: GoogleAccess,
    /// `az://` and `abfs://` files.
    pub azure: AzureAccess,
    /// `hdfs://` files.
    pub hdfs: HdfsAccess,
    /// A file with the certificates of trusted authorities for `https` servers; none: the system's.
    pub certificates: Option<PathBuf>,
    /// For how long a store that cannot be reached is tried again.
    pub patience: Duration,
}

impl Default for Stores {
    fn default() -> Self {
        Self {
            s3: S3Access::default(),
            google: GoogleAccess::default(),
            azure: AzureAccess::default(),
            hdfs: HdfsAccess::default(),
            certificates: None,
            patience: PATIENCE,
        }
    }
}

/// Facts about a file's contents that are known without reading them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// Bytes, if the store says it.
    pub(crate) len: Option<u64>,
    /// Its ETag or the time of its last change.
    tag: String,
}

impl Version {
    /// A number that differs if the file has changed; never 0.
    pub(crate) fn digest(&self) -> u64 {
        // Some servers tell the length of a part and not that of the whole.
        let text = if self.tag.is_empty() { format!("{:?}", self.len) } else { self.tag.clone() };
        hash(text.as_bytes()) | 1
    }

    /// Refuses another version of the file.
    fn check(&self, file: &str, now: &Self) -> Result<()> {
        let same_len = self.len.zip(now.len).is_none_or(|(was, is)| was == is);
        if same_len && self.tag == now.tag {
            return Ok(());
        }
        Err(Error::FileChanged { file: file.to_string(), was: self.words(), is: now.words() })
    }

    /// Refuses another version than the one of this digest, 0 for any.
    fn check_digest(&self, file: &str, known: u64) -> Result<()> {
        if known == 0 || self.digest() == known {
            return Ok(());
        }
        let was = "another when the pass was interrupted".to_string();
        Err(Error::FileChanged { file: file.to_string(), was, is: self.words() })
    }

    fn words(&self) -> String {
        let len = self.len.map_or("an unknown number of".to_string(), |len| len.to_string());
        format!("{len} bytes, version `{}`", self.tag)
    }
}

/// The answer of a store.
pub(crate) struct Opening {
    version: Version,
    /// The byte that `body` begins with. A server that knows no ranges begins with the first.
    at: u64,
    body: Box<dyn Read + Send>,
}

/// A file of a store.
pub(crate) trait StoreFile: Debug + Send + Sync {
    /// One try to read it from this byte on, up to `to` if that is given.
    fn open(&self, from: u64, to: Option<u64>) -> std::result::Result<Opening, StoreFailure>;
}

/// A file elsewhere, with a name for errors.
#[derive(Clone, Debug)]
pub(crate) struct RemoteFile {
    pub(crate) name: String,
    source: Arc<dyn StoreFile>,
    patience: Duration,
    stop: Arc<AtomicBool>,
}

impl RemoteFile {
    /// Opens it; tries until it works, cannot work, or patience is over. The body begins with `from`.
    fn open(&self, from: u64, to: Option<u64>, tries: &mut Tries) -> Result<Opening> {
        loop {
            let failure = match self.source.open(from, to).and_then(|found| skipped(found, from)) {
                Ok(opening) => return Ok(opening),
                Err(failure) => failure,
            };
            tries.failed(from, failure)?;
        }
    }

    fn tries(&self) -> Tries {
        Tries::new(&self.name, self.patience, self.stop.clone())
    }
}

/// Skips bytes that were not asked for.
fn skipped(mut opening: Opening, from: u64) -> std::result::Result<Opening, StoreFailure> {
    let n = from.saturating_sub(opening.at);
    let passed = io::copy(&mut (&mut opening.body).take(n), &mut io::sink());
    passed.map_err(|error| StoreFailure::passing(&error))?;
    Ok(Opening { at: from, ..opening })
}

/// The stores as a pass uses them.
#[derive(Debug)]
pub(crate) struct Remotes {
    stores: Stores,
    web: OnceLock<Arc<Web>>,
    s3_keys: OnceLock<Arc<S3Keys>>,
    google_tokens: OnceLock<Arc<GoogleTokens>>,
    azure_keys: OnceLock<Arc<AzureKeys>>,
    stop: Arc<AtomicBool>,
}

impl Remotes {
    pub(crate) fn new(stores: &Stores, stop: Arc<AtomicBool>) -> Self {
        Self {
            stores: stores.clone(),
            web: OnceLock::new(),
            s3_keys: OnceLock::new(),
            google_tokens: OnceLock::new(),
            azure_keys: OnceLock::new(),
            stop,
        }
    }

    fn web(&self) -> Result<Arc<Web>> {
        if let Some(web) = self.web.get() {
            return Ok(web.clone());
        }
        let web = Arc::new(Web::new(&self.stores)?);
        Ok(self.web.get_or_init(|| web).clone())
    }

    /// A bucket of the object store. All buckets of a pass share one key.
    fn bucket(&self, name: &str) -> Result<s3::Bucket> {
        let (access, web) = (&self.stores.s3, self.web()?);
        let keys = || Arc::new(S3Keys::new(access.key.clone(), access.region(), web.clone()));
        let keys = self.s3_keys.get_or_init(keys).clone();
        s3::Bucket::new(name, access, keys, web)
    }

    /// A bucket of Google's. All buckets of a pass share one token.
    fn google(&self, name: &str) -> Result<google::GoogleBucket> {
        let (access, web) = (&self.stores.google, self.web()?);
        let tokens = || Arc::new(GoogleTokens::new(access.key.clone(), web));
        let tokens = self.google_tokens.get_or_init(tokens).clone();
        Ok(google::GoogleBucket::new(name, access, tokens))
    }

    /// A container of Azure's. All containers of a pass share one key.
    fn azure(&self, name: BlobName<'_>) -> Result<azure::AzureContainer> {
        let (access, web) = (&self.stores.azure, self.web()?);
        let keys = || Arc::new(AzureKeys::new(access.key.clone(), web));
        azure::AzureContainer::new(name, access, self.azure_keys.get_or_init(keys).clone())
    }

    /// The file of this name.
    pub(crate) fn file(&self, name: &str) -> Result<Place> {
        let source: Arc<dyn StoreFile> = match Address::of(name)? {
            Address::Local(path) => return Ok(Place::Local(path.to_string())),
            Address::Http(url) => Arc::new(http::HttpFile::new(url, self.web()?)),
            Address::S3(object) => Arc::new(s3::S3Object::new(object, self.bucket(object.bucket)?)),
            Address::Google(object) => {
                Arc::new(google::GoogleObject::new(object, self.google(object.bucket)?))
            }
            Address::Azure(blob) => Arc::new(azure::AzureBlob::new(blob, self.azure(blob)?)),
            Address::Hdfs(path) => {
                let node = webhdfs::NameNode::new(name, &path, &self.stores.hdfs, self.web()?)?;
                Arc::new(webhdfs::HdfsFile::new(node, path.path))
            }
        };
        let (name, patience) = (name.to_string(), self.stores.patience);
        Ok(Place::Remote(RemoteFile { name, source, patience, stop: self.stop.clone() }))
    }
}

/// Where a file is.
pub(crate) enum Place {
    /// On this machine, at this path.
    Local(String),
    /// Elsewhere.
    Remote(RemoteFile),
}
