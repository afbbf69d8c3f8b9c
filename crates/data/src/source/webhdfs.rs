//! Files of a Hadoop file system, over WebHDFS: the name node knows where they are, data nodes send them.

use std::fs::File;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::address::{Address, HdfsPath, PortOf};
use super::s3::encoded;
use super::tries::StoreFailure;
use super::web::{HttpChange, Reply, Web};
use super::{Opening, StoreFile, Version};
use crate::error::{Error, Result};

/// Where name nodes listen for HTTP: Hadoop 3, and Hadoop 2.
const PORTS: [u16; 2] = [9870, 50070];
/// With TLS.
const PORT_TLS: u16 = 9871;

/// The name node, and the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HdfsAccess {
    /// Whose rights are used.
    pub user: Option<String>,
    /// `hdfs://host:port` of paths that name none (`fs.default.name`).
    pub name_node: Option<String>,
    /// `host:port` where the name node answers HTTP (`dfs.namenode.http-address`).
    pub http_address: Option<String>,
    /// Whether there is a `hadoop` command, which reads `hdfs:` files then.
    pub has_command: bool,
}

/// A name node.
#[derive(Debug)]
pub(super) struct NameNode {
    /// Where it may answer.
    addresses: Vec<String>,
    /// The one of them where it does.
    found: OnceLock<usize>,
    user: Option<String>,
    web: Arc<Web>,
}

/// A name node's facts about a file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileStatus {
    /// Its name in the folder that was asked for; empty for the path itself.
    pub(super) name: String,
    pub(super) is_dir: bool,
    pub(super) len: u64,
    /// In milliseconds.
    pub(super) changed: u64,
}

impl NameNode {
    /// The name node of a path; `file` is its name for errors.
    pub(super) fn new(
        file: &str,
        path: &HdfsPath<'_>,
        access: &HdfsAccess,
        web: Arc<Web>,
    ) -> Result<Self> {
        let bad = |reason: &str| Error::BadAddress { file: file.into(), reason: reason.into() };
        let mut place = *path;
        if place.host.is_empty() {
            let unknown =
                "it names no name node: write hdfs://HOST:PORT/PATH, or call set_hdfs_config";
            let known = access.name_node.as_deref().ok_or_else(|| bad(unknown))?;
            place = match Address::of(known) {
                Ok(Address::Hdfs(known)) if !known.host.is_empty() => known,
                _ => return Err(bad(&format!("`{known}` is not hdfs://HOST:PORT"))),
            };
        }
        let addresses = match (&access.http_address, path.host.is_empty()) {
            (Some(address), _) if place.port == PortOf::Either => vec![format!("http://{address}")],
            _ => addresses(&place),
        };
        Ok(Self { addresses, found: OnceLock::new(), user: access.user.clone(), web })
    }

    fn url(&self, at: usize, path: &str, op: &str) -> String {
        let (address, path) = (&self.addresses[at], encoded(path, "/"));
        let user = self.user.as_ref().map(|user| format!("&user.name={}", encoded(user, "")));
        format!("{address}/webhdfs/v1{path}?op={op}{}", user.unwrap_or_default())
    }

    /// Asks where it answers; the first time, finds out where that is.
    pub(super) fn get(&self, path: &str, op: &str) -> std::result::Result<Reply, StoreFailure> {
        if let Some(&at) = self.found.get() {
            return self.web.get(&self.url(at, path, op), &[]);
        }
        let mut reasons = Vec::new();
        for (at, address) in self.addresses.iter().enumerate() {
            match self.web.get(&self.url(at, path, op), &[]) {
                Ok(reply) if is_webhdfs(&reply) => {
                    let _ = self.found.set(at);
                    return Ok(reply);
                }
                Ok(_) => reasons.push(format!("{address} does not speak WebHDFS")),
                Err(StoreFailure::Passing(what)) => reasons.push(format!("{address}: {what}")),
                Err(other) => return Err(other),
            }
        }
        Err(StoreFailure::Passing(reasons.join("; ")))
    }

    /// A request that changes something.
    pub(super) fn change(
        &self,
        path: &str,
        op: &str,
        change: HttpChange<'_>,
    ) -> std::result::Result<bool, StoreFailure> {
        let at = self.answering()?;
        let reply = self.web.change(&self.url(at, path, op), change)?;
        if reply.status != 200 {
            return Err(reply.refusal());
        }
        let said: Value = serde_json::from_str(&reply.text()?).unwrap_or_default();
        Ok(said["boolean"].as_bool().unwrap_or(true))
    }

    /// Makes a file with these contents: the name node says which data node takes them.
    pub(super) fn create(
        &self,
        path: &str,
        contents: &File,
    ) -> std::result::Result<(), StoreFailure> {
        let at = self.answering()?;
        let url = self.url(at, path, "CREATE&overwrite=true");
        let reply = self.web.change(&url, HttpChange::Put)?;
        let Some(place) = reply.header("location").filter(|_| reply.status == 307) else {
            return Err(reply.refusal());
        };
        let place = place.to_string();
        let reply = self.web.change(&place, HttpChange::PutFile(contents))?;
        if reply.status == 201 { Ok(()) } else { Err(reply.refusal()) }
    }

    fn answering(&self) -> std::result::Result<usize, StoreFailure> {
        if self.found.get().is_none() {
            self.get("/", "GETFILESTATUS")?;
        }
        Ok(self.found.get().copied().unwrap_or(0))
    }

    fn json(&self, path: &str, op: &str) -> std::result::Result<Value, StoreFailure> {
        let reply = self.get(path, op)?;
        if reply.status != 200 {
            return Err(reply.refusal());
        }
        json(&reply.text()?)
    }

    pub(super) fn status(&self, path: &str) -> std::result::Result<FileStatus, StoreFailure> {
        FileStatus::read(&self.json(path, "GETFILESTATUS")?["FileStatus"])
    }

    /// The entries of a folder, by name; of a file, the file.
    pub(super) fn list(&self, path: &str) -> std::result::Result<Vec<FileStatus>, StoreFailure> {
        FileStatus::list(&self.json(path, "LISTSTATUS")?)
    }
}

fn json(text: &str) -> std::result::Result<Value, StoreFailure> {
    let bad = |error| StoreFailure::Lasting(format!("the name node sends no JSON: {error}"));
    serde_json::from_str(text).map_err(bad)
}

/// Whether it is an answer of WebHDFS: a page, or the words of Hadoop's other port, are not.
fn is_webhdfs(reply: &Reply) -> bool {
    let is_json = reply.header("content-type").is_some_and(|found| found.contains("json"));
    is_json
        || reply.status == 200
            && reply.header("content-type").is_none_or(|found| !found.contains("text"))
}

/// Where the name node of an address may answer.
fn addresses(place: &HdfsPath<'_>) -> Vec<String> {
    let scheme = if place.tls { "https" } else { "http" };
    let (host, port) = match place.host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, Some(port)),
        _ => (place.host, None),
    };
    let mut ports: Vec<String> = port.iter().map(|port| port.to_string()).collect();
    match (place.port, place.tls) {
        (PortOf::Http, _) if port.is_some() => {}
        (_, true) => ports.push(PORT_TLS.to_string()),
        (_, false) => ports.extend(PORTS.iter().map(u16::to_string)),
    }
    ports.iter().map(|port| format!("{scheme}://{host}:{port}")).collect()
}

impl FileStatus {
    /// Reads a name node's list of a folder, as text.
    pub(super) fn read_list(text: &str) -> std::result::Result<Vec<Self>, StoreFailure> {
        Self::list(&json(text)?)
    }

    fn list(json: &Value) -> std::result::Result<Vec<Self>, StoreFailure> {
        let unknown = || StoreFailure::Lasting("the name node sends no list of files".to_string());
        let all = json["FileStatuses"]["FileStatus"].as_array().ok_or_else(unknown)?;
        let mut list: Vec<Self> =
            all.iter().map(Self::read).collect::<std::result::Result<_, _>>()?;
        list.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(list)
    }

    fn read(json: &Value) -> std::result::Result<Self, StoreFailure> {
        let read = || {
            Some(Self {
                name: json["pathSuffix"].as_str()?.to_string(),
                is_dir: json["type"].as_str()? == "DIRECTORY",
                len: json["length"].as_u64()?,
                changed: json["modificationTime"].as_u64()?,
            })
        };
        read().ok_or_else(|| {
            StoreFailure::Lasting("the name node does not say what the file is".into())
        })
    }

    fn version(&self) -> Version {
        Version { len: Some(self.len), tag: format!("{} {}", self.changed, self.len) }
    }
}

/// A file of a Hadoop file system.
#[derive(Debug)]
pub(super) struct HdfsFile {
    node: Arc<NameNode>,
    path: String,
}

impl HdfsFile {
    pub(super) fn new(node: impl Into<Arc<NameNode>>, path: &str) -> Self {
        Self { node: node.into(), path: path.to_string() }
    }
}

impl StoreFile for HdfsFile {
    fn open(&self, from: u64, to: Option<u64>) -> std::result::Result<Opening, StoreFailure> {
        let status = self.node.status(&self.path)?;
        if status.is_dir {
            return Err(StoreFailure::Lasting("it is a folder".to_string()));
        }
        let version = status.version();
        // Data nodes refuse to begin behind the end.
        if from >= status.len {
            return Ok(Opening { version, at: status.len, body: Box::new(std::io::empty()) });
        }
        let length = to.map(|to| format!("&length={}", to.saturating_sub(from)));
        let op = format!("OPEN&offset={from}{}", length.unwrap_or_default());
        let reply = self.node.get(&self.path, &op)?;
        if reply.status != 200 {
            return Err(reply.refusal());
        }
        Ok(Opening { version, at: from, body: reply.body() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Vec<String> {
        match Address::of(name).unwrap() {
            Address::Hdfs(path) => addresses(&path),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn name_nodes_are_looked_for_where_they_usually_are() {
        let usual = ["http://n:9870", "http://n:50070"];
        assert_eq!(of("hdfs://n/a"), usual);
        assert_eq!(of("webhdfs://n/a"), usual);
        assert_eq!(of("hdfs://n:54310/a"), ["http://n:54310", usual[0], usual[1]]);
        assert_eq!(of("webhdfs://n:1/a"), ["http://n:1"]);
        assert_eq!(of("swebhdfs://n/a"), ["https://n:9871"]);
    }

    #[test]
    fn paths_without_a_name_node_need_one() {
        let web = Arc::new(Web::new(&crate::source::Stores::default()).unwrap());
        let Ok(Address::Hdfs(path)) = Address::of("hdfs:/a") else { panic!("an HDFS path") };
        let node = |access: &HdfsAccess| NameNode::new("hdfs:/a", &path, access, web.clone());
        let refused = node(&HdfsAccess::default());
        assert!(matches!(refused, Err(Error::BadAddress { .. })));
        let mut access =
            HdfsAccess { name_node: Some("hdfs://n:9000".into()), ..Default::default() };
        assert_eq!(node(&access).unwrap().addresses[0], "http://n:9000");
        access.http_address = Some("m:1".to_string());
        assert_eq!(node(&access).unwrap().addresses, ["http://m:1"]);
    }
}
